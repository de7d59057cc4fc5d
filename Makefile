# llmrun. `make help` lists the targets.
CC       ?= cc
CLANG    ?= clang
PREFIX   ?= /usr/local
OPT      ?= -O3
WERROR   ?= -Werror
PYTHON   ?= python3
SHARED   ?= ../shared
FUZZ_SECONDS ?= 60
MODEL    ?= models/pip-f16.gguf
DRAFT    ?= models/pip-draft-q8_0.gguf
BENCH    ?= -p 512 -n 128
MODEL_DIR ?= build/models
MINUTES  ?= 15

# No -march: one binary holds every kernel level. -ffp-contract=off: the same bits at every level.
BASE     := -std=gnu11 -g -Wall -Wextra -Wshadow -Wundef $(WERROR) -ffp-contract=off -fno-math-errno
LIBS     := -lpcre2-8 -ljansson -ldl -lm -lpthread

# OpenBLAS is looked for when a run asks for it (--blas); BLAS=0 leaves that out.
BLAS     ?= 1
BASE     += -DLLMRUN_BLAS=$(BLAS) -DLLMRUN_STRESS=0

SRC      := llmrun.c ggml_kernels.h
TESTS    := $(wildcard tests/*.c tests/*.h)
FUZZERS  := $(patsubst tests/fuzz_%.c,%,$(wildcard tests/fuzz_*.c))
SAN      := -O1 -Wno-format-truncation -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
TSAN     := -O1 -fno-omit-frame-pointer -fsanitize=thread

all: llmrun                            ## build ./llmrun (the default)

llmrun: $(SRC) Makefile
	$(CC) $(OPT) $(BASE) $(CFLAGS) -o $@ llmrun.c $(LDFLAGS) $(LIBS)

run: llmrun                            ## build, and tell a story with the model that ships here
	./llmrun -m models/pip-q4_k_m.gguf -p "Once upon a time" -n 200 --temp 0.5

test: llmrun build/test/tests replay   ## every test, in seconds; the last line counts them
	@SHARED=$(SHARED) PYTHON=$(PYTHON) sh tests/run.sh ./llmrun build/test

san: build/san/llmrun build/san/tests  ## every test under the address and undefined-behaviour sanitizers, pool, steps, quantiser, schedule and guesses under the thread sanitizer
	@$(MAKE) --no-print-directory replay VARIANT=san
	@SHARED=$(SHARED) PYTHON=$(PYTHON) LLMRUN_SLOW=20 sh tests/run.sh build/san/llmrun build/san
	@$(MAKE) --no-print-directory tsan

tsan: build/tsan/tests
	SHARED=$(SHARED) build/tsan/tests pool fwd quantize sched spec

stress: build/test/tests llmrun build/stress/llmrun ## KV blocks of two tokens, prefill chunks of one, preemption at every step: steps, and every test of batch files and of guesses
	SHARED=$(SHARED) LLMRUN_STRESS=1 build/test/tests
	$(PYTHON) tests/batch.py ./llmrun --stress build/stress/llmrun invariance
	$(PYTHON) tests/batch.py build/stress/llmrun
	SHARED=$(SHARED) $(PYTHON) tests/spec.py ./llmrun --stress build/stress/llmrun kept
	SHARED=$(SHARED) $(PYTHON) tests/spec.py build/stress/llmrun

fuzz: $(FUZZERS:%=build/fuzz/%)        ## each fuzzer for FUZZ_SECONDS (60)
	@for f in $(FUZZERS); do mkdir -p build/fuzz/corpus-$$f; echo "fuzz $$f"; \
	  build/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0 \
	    build/fuzz/corpus-$$f tests/corpus/$$f || exit 1; done

bench: build/bench/bench               ## kernel rates beside the memory bandwidth of the same minute, as CSV
	build/bench/bench

bench-peer: llmrun                     ## MODEL in llmrun and PEER (a llama-bench) in turn: ratios, as Markdown; BENCH="-p 512 -n 128"
	@$(PYTHON) tests/bench/peer.py --llmrun ./llmrun --peer "$(PEER)" --model $(MODEL) $(BENCH)

bench-file: llmrun                    ## MODEL: files of prompts in llmrun and in PEERS (a folder with llama-server), as Markdown; BATCH="--only mixed"
	@$(PYTHON) tests/bench/batch.py --llmrun ./llmrun --peers "$(PEERS)" --model $(MODEL) $(BATCH)

bench-spec: llmrun                    ## MODEL: decoding with guesses (of DRAFT, of the text) and without, beside llama.cpp's in PEERS, as Markdown; SPEC="--only loops"
	@$(PYTHON) tests/bench/spec.py --llmrun ./llmrun --peers "$(PEERS)" --model $(MODEL) --draft $(DRAFT) $(SPEC)

bench-shared: llmrun                  ## MODEL: decoding with guesses (of DRAFT, of the text) and without, in pairs beside a spinning process; SHARED_CPU="--pairs 5"
	@$(PYTHON) tests/bench/shared_cpu.py --llmrun ./llmrun --model $(MODEL) $(if $(DRAFT),--draft $(DRAFT)) $(SHARED_CPU)

bench-pack: build/bench/pack           ## file order against packed rows, kernels alone, as CSV
	build/bench/pack

quality: llmrun                        ## what each weight type costs MODEL (models/pip-f16.gguf), as Markdown; LLAMA_CPP=DIR: beside it
	@LLAMA_CPP="$(LLAMA_CPP)" $(PYTHON) tests/bench/quality.py --llmrun ./llmrun --model $(MODEL)

gate: llmrun                           ## what 8-bit activations and rounded caches cost MODEL, with and without outliers, as Markdown
	@$(PYTHON) tests/bench/gate.py --llmrun ./llmrun --model $(MODEL)

results: llmrun                        ## MINUTES (15) of llmrun beside PEERS and IK (folders with llama-bench), models in MODEL_DIR; rows go to tests/bench/results/, then plots
	@RESULTS="$(RESULTS)" $(PYTHON) tests/bench/measure.py --llmrun ./llmrun --peers "$(PEERS)" --ik "$(IK)" --model-dir "$(MODEL_DIR)" --minutes $(MINUTES) $(RESULTS)
	@$(MAKE) --no-print-directory plots

plots:                                 ## tests/bench/RESULTS.md and the pictures beside it, from tests/bench/results/
	@$(PYTHON) tests/bench/results.py
	@$(PYTHON) tests/bench/plots.py

check: llmrun                          ## the house: contents, walls and doors; the README's tables
	awk -f tests/house.awk llmrun.c ggml_kernels.h
	@for i in tests/bench/*.c; do $(CC) -fsyntax-only $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function $$i || exit 1; done
	@$(PYTHON) tests/readme.py ./llmrun README.md
	@$(PYTHON) tests/bench/results.py --check
	@$(PYTHON) tests/bench/plots.py --check

install: llmrun                        ## install to PREFIX (/usr/local)
	install -D -m 755 llmrun $(DESTDIR)$(PREFIX)/bin/llmrun

clean:                                 ## remove what was built
	rm -rf build llmrun

help:                                  ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*##  */  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

# --- variants, each in a folder of its own ---

VARIANT ?= test
VARIANT_FLAGS = $(if $(filter san,$(VARIANT)),$(SAN),-O1)

build/test/tests: $(SRC) $(TESTS) Makefile
	@mkdir -p $(@D)
	$(CC) -O2 $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -o $@ tests/main.c $(LDFLAGS) $(LIBS)

build/san/tests: $(SRC) $(TESTS) Makefile
	@mkdir -p $(@D)
	$(CC) $(SAN) $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -o $@ tests/main.c $(LDFLAGS) $(LIBS)

build/tsan/tests: $(SRC) $(TESTS) Makefile
	@mkdir -p $(@D)
	$(CC) $(TSAN) $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -o $@ tests/main.c $(LDFLAGS) $(LIBS)

build/stress/llmrun: $(SRC) Makefile
	@mkdir -p $(@D)
	$(CC) -O2 $(BASE) -ULLMRUN_STRESS -DLLMRUN_STRESS=1 $(CFLAGS) -o $@ llmrun.c $(LDFLAGS) $(LIBS)

build/san/llmrun: $(SRC) Makefile
	@mkdir -p $(@D)
	$(CC) $(SAN) $(BASE) $(CFLAGS) -o $@ llmrun.c $(LDFLAGS) $(LIBS)

build/bench/bench: $(SRC) $(wildcard tests/bench/*.c) Makefile
	@mkdir -p $(@D)
	$(CC) $(OPT) $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -o $@ tests/bench/bench.c $(LDFLAGS) $(LIBS)

build/bench/pack: tests/bench/pack.c ggml_kernels.h Makefile
	@mkdir -p $(@D)
	$(CC) $(OPT) $(BASE) $(CFLAGS) -Wno-unused-function -o $@ tests/bench/pack.c $(LDFLAGS) -lm -lpthread

build/fuzz/%: tests/fuzz_%.c $(SRC) $(TESTS) Makefile
	@mkdir -p $(@D)
	$(CLANG) -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -Wno-pass-failed -o $@ $< $(LDFLAGS) $(LIBS)

replay: $(FUZZERS:%=build/$(VARIANT)/replay_%)

build/$(VARIANT)/replay_%: tests/fuzz_%.c tests/replay.c $(SRC) $(TESTS) Makefile
	@mkdir -p $(@D)
	$(CC) $(VARIANT_FLAGS) $(BASE) $(CFLAGS) -DLLMRUN_NO_MAIN -Wno-unused-function -o $@ $< tests/replay.c $(LDFLAGS) $(LIBS)

.PHONY: all test san tsan stress fuzz bench bench-file bench-pack bench-peer bench-spec bench-shared quality gate results plots check install clean help replay
