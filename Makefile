# llmrun. `make help` lists the targets.
CC       ?= cc
CLANG    ?= clang
PREFIX   ?= /usr/local
OPT      ?= -O3
# llmrun.c: plain loops of the sampler need the vectoriser. With gcc the other passes of -O2 take as long again and give little.
OPT_PROGRAM ?= $(if $(findstring clang,$(shell $(CC) --version 2> /dev/null)),-O2,-O1 -finline-small-functions -fstrict-aliasing -foptimize-sibling-calls -ftree-loop-vectorize -ftree-slp-vectorize -fvect-cost-model=dynamic)
DEBUG    ?= -g1
WERROR   ?=
PYTHON   ?= python3
SHARED   ?= ../shared
SUITE    ?= trixie
JOBS     ?= $(shell nproc)
FUZZ_SECONDS ?= 60
TOKENS   ?= 1000000
TEXTS    ?= 3000
ANSWERS  ?= 1000
FAILURES ?= 7
MODEL    ?= models/pip-f16.gguf
VOCAB    ?= $(or $(wildcard $(SHARED)/data/vocab/llama-bpe.gguf),$(MODEL))
DRAFT    ?= models/pip-draft-q8_0.gguf
BENCH    ?= -p 512 -n 128
MODEL_DIR ?= build/models
MINUTES  ?= 15
# Kernels for GPUs are tested by make test.
LEVELS   ?= ^cuda

comma    := ,
# No -march: one binary holds every kernel level. -ffp-contract=off: the same bits at every level.
BASE     := -std=gnu11 $(DEBUG) -Wall -Wextra -Wshadow -Wundef $(WERROR) -ffp-contract=off -fno-math-errno
LIBS     := -lpcre2-8 -ldl -lm -lpthread

# OpenBLAS, libedit and libcurl are looked for when a run asks for them (--blas, -i, -hf); BLAS=0, EDIT=0 and HUB=0 leave that out.
BLAS     ?= 1
EDIT     ?= 1
HUB      ?= 1
# CUDA=0 leaves the kernels for NVIDIA GPUs out, as does a machine without nvcc.
CUDA     ?= 1
# Landlock and seccomp; SANDBOX=0 leaves them out, as do sanitizers, which trace the process and start programs.
SANDBOX  ?= 1
COMMIT   := $(or $(if $(wildcard .git),$(shell git describe --always --dirty --abbrev=10 --exclude '*' 2> /dev/null)),unknown)

# As on the CPU: a multiplication and an addition are fused only where the code says so, denormals are zero.
NVCC     ?= $(or $(shell command -v nvcc 2> /dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
NVFLAGS  := -std=c++17 -O3 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true -Werror=all-warnings
GPUS     := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80

SAN      := -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all
FAKE     := libcuda.so.1 llmrun bare
# Programs of the tests, by target; first what takes longest to compile.
TESTED   := build/main/kernels_1.o build/test/seen_kernels.o build/test/seen_llmrun.o build/main/llmrun.o llmrun $(patsubst %,build/test/%,tests kernel_tests replay remote judge disturb.so $(FAKE:%=fake/%))
EMULATED := build/emu/kernel_tests build/emu/instructions
ATTACKED  = $(patsubst %,build/fuzz/%,tests command replay $(FUZZERS)) build/test/fake/libcuda.so.1
STRESSED := llmrun build/test/tests build/test/kernel_tests build/test/disturb.so build/stress/llmrun
# The roots and their sections, as the roots include them.
SINGLE    = awk $(1:%=-v %) -f tests/single.awk $2
KERNELS  := $(shell $(call SINGLE,list=1,ggml_kernels.h))
SOURCES  := $(shell $(call SINGLE,list=1 kernels=0,llmrun.c))
FUZZERS  := $(patsubst tests/fuzz_%.c,%,$(wildcard tests/fuzz_*.c))
# The suites of build/test/tests and of build/test/kernel_tests (one may be in both), and those whose functions other suites use.
SUITES         := $(patsubst S(%),%,$(shell grep -o 'S(t_[a-z0-9_]*)' tests/main.c))
KERNEL_SUITES  := $(patsubst S(%),%,$(shell grep -o 'S(t_[a-z0-9_]*)' tests/kernels.c))
SHARED_SUITES  := $(sort $(shell sed -n 's/^#include "\(t_[a-z0-9_]*\)\.h"/\1/p' tests/t_*.c))
ORPHANS        := $(filter-out $(SUITES) $(KERNEL_SUITES),$(patsubst tests/%.c,%,$(wildcard tests/t_*.c)))
$(if $(ORPHANS),$(error neither tests/main.c nor tests/kernels.c lists $(ORPHANS)))

all:                                   ## build ./llmrun (the default)
	+@$(PARALLEL) llmrun

llmrun: build/main/llmrun
	cp $< $@

static: build/static/llmrun            ## build/static/llmrun: one file that runs on any Linux of this processor's kind, without --blas and line editing

single: build/single/llmrun.c          ## build/single/llmrun.c: the whole program as one file, kernels inside, which compiles alone

cross: build/aarch64/llmrun build/aarch64/levels llmrun ## build for aarch64; under qemu-user, its levels against each other on two processors, and its text against this machine's (Debian: gcc-aarch64-linux-gnu qemu-user, libraries of :arm64)
	@if command -v $(CLANG) > /dev/null; then \
	  $(DARWIN) -ffreestanding -isystem tests/darwin -DGGML_KERNELS_OBJECT -x c ggml_kernels.h && \
	  $(DARWIN) -D_DEFAULT_SOURCE -U__nonnull -U__nullable -U__null_unspecified -DGGML_KERNELS_DECLARE -isystem /usr/aarch64-linux-gnu/include -isystem tests/darwin -idirafter /usr/include -include tests/darwin/more.h -x c llmrun.c; \
	else echo "cross: without $(CLANG) the sources are not checked for macOS"; fi
	@sh tests/cross.sh ./llmrun "qemu-aarch64 -L /usr/aarch64-linux-gnu" build/aarch64

debian: llmrun                         ## build with gcc and clang of another Debian, SUITE (trixie), and hold their text against this machine's (as root, with debootstrap)
	@sh tests/debian.sh $(SUITE)

run: all                               ## build, and tell a story with the model that ships here
	./llmrun -m models/pip-q4_k_m.gguf -md models/pip-head-q4_k_m.gguf --raw -p "Once upon a time" --temp 0.5

test:                                  ## the tests, in some seven minutes with the build; the last line counts them; ANSWERS=10000: of the model under constraints (1000)
	+@$(PARALLEL) $(TESTED)
	@SHARED=$(SHARED) PYTHON=$(PYTHON) ANSWERS=$(ANSWERS) sh tests/run.sh ./llmrun build/test

levels:                                ## kernels at every CPU level on any machine with AVX2: instructions of AVX-512, AVX-VNNI and AMX emulated (tests/avx512.h); LEVELS="quant -v" (all but those for GPUs), RECORD=FILE: what build/emu/instructions --record printed on a processor that has them
	+@$(PARALLEL) $(EMULATED)
	@for i in $$(grep -ohE '\bemu_(mm[0-9]*|tile)_[a-z0-9_]*' build/emu/ggml_kernels.h | sort -u); do \
	  grep -q "\b$$i(" build/emu/instructions.c || { echo "tests/instructions.c has no case for $${i#emu}"; exit 1; }; done
	@build/emu/instructions $(RECORD)
	@build/emu/kernel_tests $(LEVELS)

programs:                              ## what make test, make levels and make stress run
	+@$(PARALLEL) $(TESTED) $(EMULATED) $(STRESSED)

test-all:                              ## make test, then make stress, which also takes every combination of make test, and makes every call for memory and files fail
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory stress FAILURES=1

san: build/san/llmrun build/san/tests build/san/kernel_tests build/san/replay build/san/judge $(FAKE:%=build/san/fake/%) ## every test under the address and undefined-behaviour sanitizers, then make tsan
	@SHARED=$(SHARED) PYTHON=$(PYTHON) LLMRUN_SLOW=20 sh tests/run.sh build/san/llmrun build/san
	@$(MAKE) --no-print-directory tsan

tsan: build/tsan/tests build/tsan/llmrun ## pool, connections, steps, quantiser, schedule, guesses and batch files under the thread sanitizer
	SHARED=$(SHARED) build/tsan/tests pool "cores bits" net fwd dev lora quantize sched spec
	LLMRUN_SLOW=20 $(PYTHON) tests/batch.py build/tsan/llmrun invariance_kinds
	LLMRUN_SLOW=20 $(PYTHON) tests/serve.py build/tsan/llmrun same_text calls vectors leave drain batches

attack:                                ## what make san and make fuzz find soonest: unit tests, corpora and hostile files under the sanitizers of clang, each fuzzer for 12 s; the last line counts
	+@$(PARALLEL) $(ATTACKED)
	@SHARED=$(SHARED) PYTHON=$(PYTHON) LLMRUN_SLOW=20 FUZZERS="$(FUZZERS)" FUZZ_SECONDS=12 FUZZ_SEED=1 sh tests/run.sh build/fuzz/command build/fuzz

stress:                                ## KV blocks of two tokens, prefill chunks of one, preemption at every step: steps, and every test of batch files and of guesses; of calls for memory and files each FAILURES-th (7) fails
	+@$(PARALLEL) $(STRESSED)
	@SHARED=$(SHARED) PYTHON=$(PYTHON) FAILURES=$(FAILURES) sh tests/run.sh ./llmrun build/test build/stress/llmrun

fuzz: build/test/judge                 ## each fuzzer for FUZZ_SECONDS (60), and which tokens may follow, as make rule
	@$(PYTHON) tests/rule.py build/test/judge --tokens $(TOKENS) $(RULE)
	@$(MAKE) --no-print-directory fuzzers

fuzzers: $(FUZZERS:%=build/fuzz/%)     ## each fuzzer for FUZZ_SECONDS (60), JOBS at a time, whatever one of them says; build/fuzz/NAME-* is what it found
	@printf '%s\n' $(FUZZERS:%=build/fuzz/%) | FUZZ_SECONDS=$(FUZZ_SECONDS) xargs -P $(JOBS) -n 1 sh tests/fuzz.sh

real: llmrun                           ## public models of PyPI, kept in REAL (~/.cache/llmrun-real), beside recorded figures of llama.cpp, or beside PEER (a folder with llama-perplexity): perplexity, texts, tokens, vectors, schemas; WORDS="greedy tokens"
	@REAL="$(REAL)" PEER="$(PEER)" $(PYTHON) tests/real.py ./llmrun $(WORDS)

serve-clients: llmrun                  ## --serve as openai, anthropic, litellm and langchain-openai of PyPI see it (installed into build/clients, else skipped); WORDS="messages responses"
	@$(PYTHON) tests/serve_clients.py ./llmrun --install build/clients $(WORDS)

soak: llmrun                           ## REQUESTS (10000) to a server, a tenth broken, of a tenth the client leaves: memory and descriptors stay level
	@$(PYTHON) tests/serve_soak.py ./llmrun --requests $(or $(REQUESTS),10000)

serve-page: llmrun                     ## the server's page in chromium (Debian: chromium), without a window
	@$(PYTHON) tests/serve_page.py src/page.c --program ./llmrun

serve-peer: llmrun                     ## llama.cpp's own tests of its server against --serve; PEER: its source; WORDS="anthropic"; pytest and others of PyPI go into build/peer, else skipped
	@SHARED=$(SHARED) $(PYTHON) tests/serve_peer.py ./llmrun $(PEER) $(WORDS) --install build/peer

schemas: build/test/judge              ## JSON Schemas of others: SUITE, a copy of JSON-Schema-Test-Suite; or DIR, any folder, judged by python3-jsonschema; SCHEMAS="--most 1000 --seed 2"
	@$(PYTHON) tests/schemas.py $< $(if $(DIR),--dir $(DIR),--suite $(SUITE)) $(SCHEMAS)

rule: build/test/judge                 ## which tokens may follow, against brute force: TOKENS (1000000) for each kind of constraint; RULE="grammars --seed 5"
	@$(PYTHON) tests/rule.py $< --tokens $(TOKENS) $(RULE)

import: llmrun                         ## checkpoints beside llama.cpp's converter: tensors, keys, tokens; PEER: its source; WORDS="qwen3 tokens", MINILM: a folder of all-MiniLM-L6-v2 (python3: torch transformers gguf numpy)
	@MINILM="$(MINILM)" $(PYTHON) tests/gen/import_peer.py ./llmrun $(PEER) $(WORDS)
tokens: build/test/judge               ## the tokenizers bert and t5 beside transformers' on TEXTS (3000) random texts; PEERS: a folder with ggml-vocab-*.gguf
	@$(PYTHON) tests/tokens.py $< --texts $(TEXTS) $(PEERS:%=--peers %)

templates: llmrun build/test/snippets  ## the template engine beside Jinja2 (python3-jinja2): ten conversations through each template of DIR; or FUZZ=100000: random snippets, SEED=N
	@$(if $(FUZZ),$(PYTHON) tests/templates.py --fuzz $(FUZZ) $(if $(SEED),--seed $(SEED)) build/test/snippets,$(PYTHON) tests/templates.py ./llmrun $(DIR))

bench: build/main/bench                ## kernel rates beside the memory bandwidth of the same minute, as CSV
	build/main/bench

bench-peer: llmrun                     ## MODEL in llmrun and PEER (a llama-bench) in turn: ratios, as Markdown; BENCH="-p 512 -n 128"
	@$(PYTHON) tests/bench/peer.py --llmrun ./llmrun --peer "$(PEER)" --model $(MODEL) $(BENCH)

bench-versions: llmrun                 ## MODEL in two versions of llmrun in turn, BEFORE and AFTER (commits or programs; ./llmrun): ratios, as Markdown; VERSIONS="--only decode"
	@$(PYTHON) tests/bench/versions.py --before "$(BEFORE)" $(if $(AFTER),--after "$(AFTER)") --model $(MODEL) $(VERSIONS)

bench-adapters: llmrun                 ## what adapters (LoRA) of random values cost MODEL: decode with one, 8 sequences with 8, as Markdown; ADAPTERS="--rank 16 --type f16 --rounds 5"
	@$(PYTHON) tests/bench/adapters.py --llmrun ./llmrun --model $(MODEL) $(ADAPTERS)

bench-gpu: llmrun                      ## a machine with an NVIDIA GPU: its limits, texts against the CPU's, rates of MODELS and of PEER (a llama-bench), as Markdown; GPU="--minutes 25"
	@$(PYTHON) tests/bench/gpu.py ./llmrun $(MODELS:%=--model %) $(if $(PEER),--peer "$(PEER)") $(GPU)

bench-same: llmrun                     ## two versions of llmrun, BEFORE and AFTER (commits or programs; ./llmrun): whether every byte of their output is the same
	@$(PYTHON) tests/bench/same.py --before "$(BEFORE)" $(if $(AFTER),--after "$(AFTER)")

bench-file: llmrun                    ## MODEL: files of prompts in llmrun and in PEERS (a folder with llama-server), as Markdown; BATCH="--only mixed"
	@$(PYTHON) tests/bench/batch.py --llmrun ./llmrun --peers "$(PEERS)" --model $(MODEL) $(BATCH)

bench-serve: llmrun                   ## MODEL: 64 streams of --serve and of llama-server in PEERS in turn: rates, times to first tokens, as Markdown; SERVE="--streams 16 --only llmrun"
	@$(PYTHON) tests/bench/serve.py --llmrun ./llmrun --peers "$(PEERS)" --model $(MODEL) $(SERVE)

bench-spec: llmrun                    ## MODEL: decoding with guesses (of DRAFT, of the text; of HEAD, a model with a draft head or the head of MODEL) and without, beside llama.cpp's in PEERS, as Markdown; SPEC="--only loops"
	@$(PYTHON) tests/bench/spec.py --llmrun ./llmrun --peers "$(PEERS)" --model $(MODEL) $(if $(HEAD),--head $(HEAD),--draft $(DRAFT)) $(SPEC)

bench-shared: llmrun                  ## MODEL: decoding with guesses (of DRAFT, of the text) and without, in pairs beside a spinning process; SHARED_CPU="--pairs 5"
	@$(PYTHON) tests/bench/shared_cpu.py --llmrun ./llmrun --model $(MODEL) $(if $(DRAFT),--draft $(DRAFT)) $(SHARED_CPU)

bench-omp: llmrun build/omp/static build/omp/dynamic ## MODEL: the team of threads beside OpenMP's, quiet and beside a spinning process; OMP="--rounds 5 --loops"
	@$(PYTHON) tests/bench/omp.py --llmrun ./llmrun --model $(MODEL) $(OMP)

bench-threads: llmrun                 ## MODEL (one or several): rates with 1, 2, 4, 8, 16 and all threads, as many as there are CPUs, as Markdown; THREADS="--only decode"
	@$(PYTHON) tests/bench/threads.py --llmrun ./llmrun $(MODEL:%=--model %) $(THREADS)

bench-samp: build/main/samp            ## what a pick of a token costs, by chain and shape of the logits, as CSV
	build/main/samp

bench-experts: llmrun                 ## a model of experts of 1.5 times a cgroup's memory, with and without --read-ahead; EXPERTS="--limit 1024"
	@$(PYTHON) tests/bench/experts.py ./llmrun $(EXPERTS)

bench-mask: $(if $(filter command,$(firstword $(origin MODEL))),llmrun,build/main/mask) ## masks of JSON schemas (DIR; tests/data/schemas) with the vocabulary of VOCAB, beside llguidance if it is installed, as Markdown; MASK="--each". With MODEL=...: decoding under constraints
	@$(PYTHON) tests/bench/mask.py $(if $(filter command,$(firstword $(origin MODEL))),--model "$(MODEL)",--vocab "$(VOCAB)" $(if $(DIR),--dir "$(DIR)")) $(MASK)

bench-logits: build/main/own_logits   ## logits of the tiny models in llmrun and in PEER (a folder of llama.cpp with build/bin), beside transformers' in float64, as Markdown; LOGITS="-k gemma"
	@$(CC) -O1 -Wall -Wextra -I$(PEER)/include -I$(PEER)/ggml/include -o build/main/peer_logits tests/bench/peer_logits.c -L$(PEER)/build/bin -Wl,-rpath,$(PEER)/build/bin -lllama -lggml -lggml-base
	@$(PYTHON) tests/bench/logits.py --own build/main/own_logits --peer build/main/peer_logits $(LOGITS)

bench-embeddings: llmrun               ## embeddings of the tiny encoders in llmrun and in PEER, beside transformers' in float64, as Markdown; EMBEDDINGS="-k modern"
	@mkdir -p build/main
	@$(CC) -O1 -Wall -Wextra -I$(PEER)/include -I$(PEER)/ggml/include -o build/main/peer_logits tests/bench/peer_logits.c -L$(PEER)/build/bin -Wl,-rpath,$(PEER)/build/bin -lllama -lggml -lggml-base
	@$(PYTHON) tests/bench/embeddings.py --llmrun ./llmrun --peer build/main/peer_logits $(EMBEDDINGS)

bench-embed-speed: llmrun              ## MODEL: texts embedded in llmrun and in PEER (a llama-embedding) in turn: ratios, as Markdown; EMBED_SPEED="--texts 64 --tokens 128"
	@$(PYTHON) tests/bench/embed_speed.py --llmrun ./llmrun --peer "$(PEER)" --model $(MODEL) $(EMBED_SPEED)

bench-instructions: build/aarch64/products build/main/insn.so ## instructions of products on ARM with i8mm, counted under qemu-user (a plugin), as Markdown; PEER: llama.cpp's source, PEER_BUILD: its build for aarch64 (static, -march=armv8.2-a+dotprod+i8mm+fp16), beside it
	@$(if $(PEER_BUILD),aarch64-linux-gnu-g++ -O1 -static -I$(PEER)/ggml/include -o build/aarch64/peer_products tests/bench/peer_products.cpp $(foreach l,ggml ggml-cpu ggml-base,$(PEER_BUILD)/ggml/src/lib$l.a) -lpthread -lm -ldl 2> /dev/null)
	@sh tests/bench/instructions.sh build/aarch64/products build/main/insn.so $(if $(PEER_BUILD),build/aarch64/peer_products)

bench-pack: build/main/pack            ## file order against packed rows, kernels alone, as CSV
	build/main/pack

bench-tiles: build/main/tiles          ## instructions of the levels avx512_amx and avx512 for a product, counted on a processor with AVX-512 alone
	build/main/tiles

quality: llmrun                        ## what each weight type costs MODEL (models/pip-f16.gguf, or the public smollm2 or gemma3 in REAL), as Markdown; LLAMA_CPP=DIR: beside it; QUALITY="--types Q4_0"
	@REAL="$(REAL)" LLAMA_CPP="$(LLAMA_CPP)" $(PYTHON) tests/bench/quality.py --llmrun ./llmrun --model $(MODEL) $(QUALITY)

fidelity: llmrun                       ## rounding of activations and caches, weights apart: public models in REAL, Pip, Pip with outliers; beside llama-perplexity in PEER, as Markdown; FIDELITY="--models smollm2 --types Q8_0"
	@REAL="$(REAL)" PEER="$(PEER)" $(PYTHON) tests/bench/fidelity.py --llmrun ./llmrun $(FIDELITY)

results: llmrun                        ## MINUTES (15) of llmrun beside PEERS and IK (folders with llama-bench), models in MODEL_DIR; rows go to tests/bench/results/, then plots
	@RESULTS="$(RESULTS)" $(PYTHON) tests/bench/measure.py --llmrun ./llmrun --peers "$(PEERS)" --ik "$(IK)" --model-dir "$(MODEL_DIR)" --minutes $(MINUTES) $(RESULTS)
	@$(MAKE) --no-print-directory plots

plots:                                 ## tests/bench/RESULTS.md and the pictures beside it, from tests/bench/results/
	@$(PYTHON) tests/bench/results.py
	@$(PYTHON) tests/bench/plots.py

# Suites are read as one text, in the order of their list, without the headers that one has of another.
SYNTAX    = $(COMPILE) -Werror -fsyntax-only
syntax: build/seen/llmrun.h build/seen/kernels.h ## errors and warnings of the program and of what tests it, without building anything
	@$(SYNTAX) llmrun.c
	@for i in main kernels check replay judge snippets; do $(SYNTAX) $(SEEING) -DGGML_KERNELS_DECLARE tests/$$i.c || exit 1; done
	@together() { for i; do echo "#line 1 \"tests/$$i.c\""; sed 's/^#include "t_.*//' tests/$$i.c; done; }; \
	  together $(SUITES) | $(SYNTAX) $(SEEING) -DGGML_KERNELS_DECLARE -x c - && \
	  together $(KERNEL_SUITES) | $(SYNTAX) $(SEEING) $(SEEING_KERNELS) -include build/seen/kernels.h -x c -
	@$(SYNTAX) tests/disturb.c

sections:                              ## sections: contents, layers, public functions and fields
	awk -v summary=1 -f tests/sections.awk llmrun.c ggml_kernels.h

cuda:                                  ## the kernels for NVIDIA GPUs, compiled for sm_80, sm_90a and PTX of compute_80: warnings, spills and stack frames are errors; needs nvcc, no GPU
	@$(if $(NVCC),$(MAKE) --no-print-directory build/cuda/registers.txt && cat build/cuda/registers.txt,echo "cuda: skipped, no nvcc here")

check: all build/test/llmrun_remote.c syntax sections ## no warnings; contents, layers, public functions and fields; the README's tables
	@for i in $(filter-out tests/bench/peer_%,$(wildcard tests/bench/*.c)); do $(SYNTAX) -Wno-unused-function -DLLMRUN_NO_MAIN $$i || exit 1; done
	$(COMPILER) -std=gnu11 -fsyntax-only llmrun.c
	$(SYNTAX) $(TESTING) -I. -DLLMRUN_SOURCE='"build/test/llmrun_remote.c"' tests/remote.c
	$(COMPILE) -Werror -O1 -DGGML_KERNELS_DECLARE -c -o /dev/null llmrun.c
	@sh tests/hardened.sh ./llmrun
	@$(PYTHON) tests/sections_test.py
	@$(PYTHON) tests/page.py src/page.c
	@$(PYTHON) tests/readme.py ./llmrun README.md
	@$(PYTHON) tests/bench/results.py --check
	@$(PYTHON) tests/bench/plots.py --check

# What the program prints of itself, and where it belongs. RUN_BY: what runs a program for another processor (qemu-aarch64).
SHARE    = $(DESTDIR)$(PREFIX)/share
HELP_man  = $(SHARE)/man/man1/llmrun.1
HELP_bash = $(SHARE)/bash-completion/completions/llmrun
HELP_zsh  = $(SHARE)/zsh/site-functions/_llmrun
HELP_fish = $(SHARE)/fish/vendor_completions.d/llmrun.fish
HELPS    := man bash zsh fish

install: llmrun                        ## install the program, its man page and the completions of bash, zsh and fish to PREFIX (/usr/local)
	install -D -m 755 llmrun $(DESTDIR)$(PREFIX)/bin/llmrun
	@mkdir -p $(foreach h,$(HELPS),$(dir $(HELP_$h)))
	$(foreach h,$(HELPS),$(RUN_BY) ./llmrun --help --format $h > $(HELP_$h) &&) true

uninstall:                             ## remove what make install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/llmrun $(foreach h,$(HELPS),$(HELP_$h))

clean:                                 ## remove what was built
	rm -rf build llmrun

help:                                  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*##  */  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

# --- how it is built: each variant in a folder of its own, kernels and program as an object each ---

# Hardening, which makes a memory error harder to exploit: checked copies (FORTIFY), stack canaries, read-only relocations (RELRO), marked
# targets of indirect calls and returns (CET). tests/hardened.sh looks at the program for it.
CET      := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),-fcf-protection=full)
HARDEN   := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 $(CET)
FLAGS_main    := $(OPT_PROGRAM) $(HARDEN)
FLAGS_static  := $(OPT_PROGRAM) $(HARDEN)
FLAGS_test    := -O1
FLAGS_stress  := $(OPT_PROGRAM)
FLAGS_emu     := -O1 -Wno-psabi
FLAGS_san     := $(SAN) -Wno-format-truncation -fsanitize=address,undefined
FLAGS_tsan    := -O1 -fno-omit-frame-pointer -fsanitize=thread
FLAGS_omp     := $(OPT) -fopenmp
FLAGS_fuzz    := $(SAN) -fsanitize=fuzzer-no-link,address,undefined -Wno-pass-failed
LINK_main     := -Wl,-z,relro,-z,now,-z,noexecstack$(if $(CET),$(comma)-z$(comma)ibt$(comma)-z$(comma)shstk)
LINK_static   := -static
CC_aarch64    := aarch64-linux-gnu-gcc
# On ARM gcc moves so many loads ahead before it assigns registers that these run out: a third more instructions.
ARM_GCC       := -fno-schedule-insns
FLAGS_aarch64 := -O2
KERNELS_aarch64 := $(OPT) $(ARM_GCC)
CC_fuzz       := $(CLANG)
# Fuzzers test the parsers. Kernels without coverage and undefined-behaviour checks compile in a third of the time.
KERNELS_main  := $(OPT) $(CET)$(if $(findstring aarch64,$(shell $(CC) -dumpmachine)),$(if $(findstring clang,$(shell $(CC) --version 2> /dev/null)),,$(ARM_GCC)))
KERNELS_fuzz  := $(SAN) -fsanitize=address -Wno-pass-failed
BLAS_static   := 0
EDIT_static   := 0
HUB_static    := 0
CUDA_static   := 0
STRESS_stress := 1

# The sources as macOS compiles them, without its SDK. The program sees what glibc has of POSIX and BSD, and tests/darwin/more.h.
DARWIN    = $(CLANG) -target arm64-apple-macos13 -fsyntax-only -Werror $(BASE) -Wno-unused-function

# The folder of a target, build/VARIANT/FILE, names the variant.
variant   = $(notdir $(patsubst %/,%,$(@D)))
COMPILER  = $(or $(CC_$(variant)),$(CC))
UNBOXED   = $(if $(filter 0,$(SANDBOX))$(findstring -fsanitize,$(FLAGS_$(variant)) $(CFLAGS)),-DLLMRUN_SANDBOX=0)
DEFINES   = -DLLMRUN_BLAS=$(or $(BLAS_$(variant)),$(BLAS)) -DLLMRUN_EDIT=$(or $(EDIT_$(variant)),$(EDIT)) -DLLMRUN_HUB=$(or $(HUB_$(variant)),$(HUB)) -DLLMRUN_CUDA=$(or $(CUDA_$(variant)),1) -DLLMRUN_STRESS=$(or $(STRESS_$(variant)),0) $(UNBOXED)
COMPILE   = $(COMPILER) $(FLAGS_$(variant)) $(BASE) $(CFLAGS) $(DEFINES)
OBJECT    = $(COMPILE) -MMD -MP -c -o $@
TESTING   = -DGGML_KERNELS_DECLARE -DLLMRUN_NO_MAIN -Wno-unused-function
LINK      = $(COMPILE) $(LINK_$(variant)) -o $@ $^ $(LDFLAGS) $(LIBS)
PARALLEL  = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))

# Written anew where it would hold something else: then what was compiled otherwise is compiled again.
build/%/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE)' | cmp -s - $@ || echo '$(COMPILE)' > $@

# llmrun.c finds the name of the commit as llmrun_commit, an object of its own: it changes more often than anything else.
NAMED     = echo '.section .rodata; .globl llmrun_commit; llmrun_commit: .asciz "$(COMMIT)"; .section .note.GNU-stack,"",%progbits' | tr ';' '\n'

build/commit.s: FORCE
	@mkdir -p $(@D)
	@$(NAMED) | cmp -s - $@ || $(NAMED) > $@

build/%/commit.o: build/commit.s
	@mkdir -p $(@D)
	$(COMPILER) $(CFLAGS) -c -o $@ $<

# The kernels in parts that compile in parallel ([api] of ggml_kernels.h), those first that take longest.
define PART_RULE
build/%/kernels_$1.o: ggml_kernels.h build/%/flags
	$$(COMPILER) $$(or $$(KERNELS_$$(variant)),$$(FLAGS_$$(variant))) $$(BASE) $$(CFLAGS) $$(DEFINES) -DGGML_KERNELS_OBJECT -DGGML_KERNELS_PART=$1 -MMD -MP -x c -c -o $$@ $$<
endef
$(foreach part,1 2 3,$(eval $(call PART_RULE,$(part))))

build/%/kernels.o: build/%/kernels_1.o build/%/kernels_3.o build/%/kernels_2.o
	$(COMPILER) $(CFLAGS) -r -nostdlib -o $@ $^

# ptxas lists what each kernel uses.
build/cuda/kernels.fatbin: $(KERNELS) Makefile
	@mkdir -p $(@D)
	$(NVCC) -x cu -fatbin $(NVFLAGS) $(GPUS) -Xptxas -v -o $@.tmp ggml_kernels.h > $(@D)/ptxas.txt 2>&1 || { cat $(@D)/ptxas.txt; echo "CUDA=0 builds without these kernels"; exit 1; }
	@mv $@.tmp $@

build/cuda/registers.txt: build/cuda/kernels.fatbin
	@awk '/Compiling entry/ { name = $$7 " " $$9 } \
	  /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ { print "spills or a stack frame: " name $$0; bad = 1 } \
	  match($$0, /Used [0-9]+ registers/) { print name substr($$0, RSTART - 1, RLENGTH + 1) } END { exit bad }' $(@D)/ptxas.txt > $@.tmp \
	  || { grep spills $@.tmp; exit 1; }
	@mv $@.tmp $@

# llmrun.c finds the kernels as gpu_image, an object of their own; without them the object is empty.
FATBIN    = $(if $(filter-out 0,$(CUDA)),$(if $(NVCC),build/cuda/kernels.fatbin))
INCBIN    = $(if $1,.section .rodata; .balign 64; .globl gpu_image; gpu_image: .incbin "$1"; )
IMAGE     = echo '$(call INCBIN,$(FATBIN)).section .note.GNU-stack,"",%progbits' | tr ';' '\n'

build/%/image.s: FORCE
	@mkdir -p $(@D)
	@$(IMAGE) | cmp -s - $@ || $(IMAGE) > $@

build/%/image.o: build/%/image.s $(FATBIN)
	$(COMPILER) $(CFLAGS) -c -o $@ $<

# The kernels with emulated instructions, for a machine with AVX2 alone.
EMULATE = $(COMPILE) -include tests/avx512.h

build/emu/ggml_kernels.h: $(KERNELS) tests/single.awk tests/avx512.sed
	@mkdir -p $(@D)
	$(call SINGLE,lines=1,ggml_kernels.h) | sed -E -f tests/avx512.sed > $@.tmp && mv $@.tmp $@

build/emu/instructions.c: tests/instructions.c tests/avx512.sed
	@mkdir -p $(@D)
	sed -E -f tests/avx512.sed $< > $@.tmp && mv $@.tmp $@

build/emu/kernels.o: build/emu/ggml_kernels.h tests/avx512.h tests/amx.h build/emu/flags
	$(EMULATE) -DGGML_KERNELS_OBJECT -x c -c -o $@ $<

build/emu/emulated.o: build/emu/instructions.c tests/avx512.h tests/amx.h build/emu/flags
	$(EMULATE) -c -o $@ $<

build/emu/processor.o: tests/instructions.c build/emu/flags
	$(COMPILE) -c -o $@ $<

build/emu/instructions: build/emu/processor.o build/emu/emulated.o
	$(LINK)

build/%/llmrun.o: llmrun.c build/%/flags
	$(OBJECT) -DGGML_KERNELS_DECLARE $<

# The whole program as one file, which compiles alone: cc llmrun.c -lpcre2-8 -lm -pthread -ldl
build/single/llmrun.c: $(SOURCES) $(KERNELS) tests/single.awk
	@mkdir -p $(@D)
	$(call SINGLE,,llmrun.c) > $@.tmp && mv $@.tmp $@

# --- tests: the program as one object whose functions they see, and each suite as an object that knows their declarations ---

# $1.c and $1.h, of the text that $2 writes; a header that says the same as before keeps its time.
EXPORT    = $2 > $1.tmp && awk $3 -v header=$1.h.tmp -f tests/export.awk $1.tmp > $1.c.tmp && mv $1.c.tmp $1.c && rm $1.tmp && \
            { cmp -s $1.h.tmp $1.h && rm $1.h.tmp || mv $1.h.tmp $1.h; }
# Of the kernels, what the CPU levels compile for their own targets stays static.
EXPORT_KERNELS = $(call EXPORT,$1,$2,-v inlines=keep -v words='static|K_BOTH|K_PUBLIC|K__SHARED')

# The tests see two architectures more, made of rows of tables alone.
build/seen/llmrun.c: $(SOURCES) tests/single.awk tests/rows.awk tests/invented.rows tests/export.awk
	@mkdir -p $(@D)
	@$(call EXPORT,build/seen/llmrun,$(call SINGLE,lines=1 kernels=0,llmrun.c) | awk -f tests/rows.awk tests/invented.rows -)

# A GPU's kernels are emulated.
build/seen/kernels.c: $(KERNELS) tests/emu_cuda.h tests/single.awk tests/export.awk
	@mkdir -p $(@D)
	@$(call EXPORT_KERNELS,build/seen/kernels,{ cat tests/emu_cuda.h && $(call SINGLE,lines=1,ggml_kernels.h); })

build/emu/seen/kernels.c: build/emu/ggml_kernels.h tests/emu_cuda.h tests/export.awk
	@mkdir -p $(@D)
	@$(call EXPORT_KERNELS,build/emu/seen/kernels,cat tests/emu_cuda.h $<)

build/seen/t_%.c: tests/t_%.c tests/export.awk
	@mkdir -p $(@D)
	@$(call EXPORT,build/seen/t_$*,{ echo '#line 1 "$<"' && cat $<; })

build/seen/%.h: build/seen/%.c
	@:

build/emu/seen/kernels.h: build/emu/seen/kernels.c
	@:

SEEING    = -I. -Itests -Ibuild/seen -DLLMRUN_SOURCE='"build/seen/llmrun.h"' -DLLMRUN_NO_MAIN -fvisibility=hidden -Wno-unused-function -Wno-unused-const-variable
SEEN      = $(OBJECT) -DGGML_KERNELS_DECLARE $(SEEING)
# The suites of the kernels see those, too.
SEEING_KERNELS = -D_GNU_SOURCE -DGGML_KERNELS_OBJECT
SEEN_KERNELS = -MMD -MP -c -o $@ $(SEEING) $(SEEING_KERNELS)

build/%/seen_llmrun.o: build/seen/llmrun.c build/%/flags
	$(SEEN) $<

build/%/seen_kernels.o: build/seen/kernels.c build/%/flags
	$(COMPILE) $(SEEN_KERNELS) $<

build/emu/seen_kernels.o: build/emu/seen/kernels.c tests/avx512.h tests/amx.h build/emu/flags
	$(EMULATE) $(SEEN_KERNELS) $<

build/%/main.o: tests/main.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/%/kernel_main.o: tests/kernels.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/%/check.o: tests/check.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

SUITE_HEADERS := build/seen/llmrun.h $(SHARED_SUITES:%=build/seen/%.h)

define SUITE_RULE
build/%/$1.o: build/seen/$1.c build/%/flags | $(SUITE_HEADERS)
	$$(SEEN) $$<

endef
define KERNEL_SUITE_RULE
build/%/$1.o: build/seen/$1.c build/%/flags | $(SUITE_HEADERS) build/seen/kernels.h
	$$(COMPILE) -include build/seen/kernels.h $$(SEEN_KERNELS) $$<

build/emu/$1.o: build/seen/$1.c tests/avx512.h tests/amx.h build/emu/flags | $(SUITE_HEADERS) build/emu/seen/kernels.h
	$$(EMULATE) -include build/emu/seen/kernels.h $$(SEEN_KERNELS) $$<

endef
$(foreach s,$(SUITES),$(eval $(call SUITE_RULE,$s)))
$(foreach s,$(filter-out $(SUITES),$(KERNEL_SUITES)),$(eval $(call KERNEL_SUITE_RULE,$s)))

build/%/replay.o: tests/replay.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/%/command.o: tests/command.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/%/judge.o: tests/judge.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/%/snippets.o: tests/snippets.c build/%/flags | build/seen/llmrun.h
	$(SEEN) $<

build/fuzz/%.o: tests/fuzz_%.c build/fuzz/flags | build/seen/llmrun.h
	$(SEEN) $<

# The command with a device in another process: what stands above [model] calls tests/remote.h in place of [dev].
build/%/llmrun_remote.c: llmrun.c
	@mkdir -p $(@D)
	sed '/^#include "src\/kv.c"/i #include "tests/remote.h"' $< > $@

build/%/remote.o: tests/remote.c build/%/llmrun_remote.c build/%/flags
	$(OBJECT) $(TESTING) -I. -DLLMRUN_SOURCE='"$(@D)/llmrun_remote.c"' $<

build/%/bench.o: tests/bench/bench.c build/%/flags
	$(OBJECT) $(TESTING) $<

build/%/samp.o: tests/bench/samp.c build/%/flags
	$(OBJECT) $(TESTING) $<

build/%/mask.o: tests/bench/mask.c build/%/flags
	$(OBJECT) $(TESTING) $<

build/%/own_logits.o: tests/bench/own_logits.c build/%/flags
	$(OBJECT) $(TESTING) $<

build/%/pack.o: tests/bench/pack.c build/%/flags
	$(OBJECT) $(OPT) -Wno-unused-function $<

build/%/tiles.o: tests/bench/tiles.c tests/tiles.h tests/amx.h build/%/flags
	$(OBJECT) $<

build/omp/static.c build/omp/dynamic.c &: llmrun.c src/pool.c tests/bench/omp.py tests/bench/omp.h
	@mkdir -p $(@D)
	$(PYTHON) tests/bench/omp.py --build $(@D)

build/omp/static.o build/omp/dynamic.o: build/omp/%.o: build/omp/%.c build/omp/flags
	$(OBJECT) -I. -DGGML_KERNELS_DECLARE $<

build/stress/llmrun: build/stress/llmrun.o build/main/kernels.o build/stress/commit.o
	$(LINK)

build/static/llmrun: build/static/llmrun.o build/main/kernels.o build/static/commit.o
	$(LINK)

$(FUZZERS:%=build/fuzz/%): LINK_fuzz := -fsanitize=fuzzer

# Tests hold records against another reader of JSON.
build/%/tests build/%/replay $(FUZZERS:%=build/fuzz/%): LIBS += -ljansson

TESTS_OF  = $1/main.o $1/check.o $1/seen_llmrun.o $(foreach s,$(SUITES),$1/$s.o)
KERNEL_TESTS_OF = $1/kernel_main.o $1/check.o $1/seen_llmrun.o $2/seen_kernels.o $1/fake/image.o $(foreach s,$(KERNEL_SUITES),$(if $(filter $s,$(SUITES)),$1,$2)/$s.o)

build/test/tests: $(call TESTS_OF,build/test) build/main/kernels.o build/test/fake/image.o | build/test/fake/libcuda.so.1
	$(LINK)

build/test/remote: build/test/remote.o build/main/kernels.o
	$(LINK)

build/test/replay build/test/judge build/test/snippets: build/test/%: build/test/%.o build/test/seen_llmrun.o build/main/kernels.o
	$(LINK)

build/main/llmrun: build/main/image.o
build/aarch64/llmrun: build/aarch64/image.o
build/%/llmrun: build/%/llmrun.o build/%/kernels.o build/%/commit.o
	$(LINK)

build/%/tests: $(call TESTS_OF,build/%) build/%/kernels.o build/%/fake/image.o
	$(LINK)

build/test/kernel_tests build/emu/kernel_tests: | build/test/fake/libcuda.so.1
build/%/kernel_tests: $(call KERNEL_TESTS_OF,build/%,build/%)
	$(LINK)

# Emulated are the kernels alone.
build/emu/kernel_tests: $(call KERNEL_TESTS_OF,build/test,build/emu)
	$(LINK)

build/%/replay: build/%/replay.o build/%/seen_llmrun.o build/%/kernels.o
	$(LINK)

build/%/command: build/%/command.o build/%/seen_llmrun.o build/%/kernels.o build/%/commit.o
	$(LINK)

build/%/judge: build/%/judge.o build/%/seen_llmrun.o build/%/kernels.o
	$(LINK)

build/%/products: tests/bench/products.c build/%/kernels.o
	$(COMPILE) -static -o $@ $^ -lm

build/main/insn.so: tests/bench/insn.c
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -shared -fPIC -o $@ $<

build/%/levels: tests/levels.c build/%/kernels.o
	$(COMPILE) -DGGML_KERNELS_DECLARE -I. -o $@ $^ -lm

build/%/bench: build/%/bench.o build/%/kernels.o
	$(LINK)

build/%/samp: build/%/samp.o build/%/kernels.o
	$(LINK)

build/%/own_logits: build/%/own_logits.o build/%/kernels.o
	$(LINK)

build/%/mask: build/%/mask.o build/%/kernels.o
	$(LINK)

build/%/pack: build/%/pack.o
	$(LINK)

build/%/tiles: build/%/tiles.o build/%/kernels.o
	$(LINK)

build/omp/static build/omp/dynamic: build/omp/%: build/omp/%.o build/main/kernels.o
	$(LINK)

$(FUZZERS:%=build/fuzz/%): build/fuzz/%: build/fuzz/%.o build/fuzz/seen_llmrun.o build/fuzz/kernels.o
	$(LINK)

# Calls of the command for memory and files, counted, failing, or written down (LD_PRELOAD).
build/%/disturb.so: tests/disturb.c
	@mkdir -p $(@D)
	$(CC) -O1 $(BASE) $(CFLAGS) -fPIC -shared -o $@ $< -ldl -lpthread

# A driver for tests, the image that it takes, and the program with that image and with none.
build/%/fake/libcuda.so.1: tests/fake_cuda.c tests/emu_cuda.h $(KERNELS) Makefile
	@mkdir -p $(@D)
	$(CC) $(FLAGS_$*) -O2 $(BASE) $(CFLAGS) -Wno-unused-function -fPIC -shared -Wl,-soname,libcuda.so.1 -fvisibility=hidden -o $@ $< -lm

build/%/fake/image.o: tests/fake_image.s
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<

build/test/fake/llmrun: build/main/llmrun.o build/main/kernels.o build/main/commit.o build/test/fake/image.o
build/test/fake/bare: build/main/llmrun.o build/main/kernels.o build/main/commit.o
build/san/fake/llmrun: build/san/llmrun.o build/san/kernels.o build/san/commit.o build/san/fake/image.o
build/san/fake/bare: build/san/llmrun.o build/san/kernels.o build/san/commit.o
build/test/fake/% build/san/fake/%:
	$(CC) $(FLAGS_$(notdir $(patsubst %/fake/,%,$(@D)/))) $(BASE) $(CFLAGS) -o $@ $^ $(LDFLAGS) $(LIBS)

# What each object read when it was compiled.
-include $(wildcard build/*/*.d)

FORCE:
.SECONDARY:
.PHONY: FORCE all static single syntax cuda cross debian run test levels programs test-all san tsan attack stress fuzz fuzzers real serve-clients serve-page soak schemas rule templates bench bench-file bench-instructions bench-pack bench-tiles bench-peer bench-versions bench-adapters bench-gpu bench-same bench-serve bench-spec bench-shared bench-omp bench-threads bench-mask bench-experts bench-logits bench-embeddings bench-embed-speed bench-samp tokens quality fidelity results plots sections check install uninstall clean help serve-peer import
