/* llmrun.c - run GGUF language models on the CPU. This file and the sections that it includes are one translation unit.
 *     make && ./llmrun -m tests/data/tiny/llama.gguf -p "Hello" -n 32
 *
 * SECTIONS, lowest layer first. A section uses only those after its arrow. In round brackets: further prefixes of its functions.
 * A tool is needed for offline actions alone: text and batch run without it. A section is a file, src/NAME.c; those of the
 * header are src/kernels/NAME.h. They are .c files since they hold code of this program alone, which the root alone includes.
 *   [k]         formats, arithmetic, CPU dispatch: ggml_kernels.h, which knows nothing of models
 *   [base]      (die log err min max mem bytes str out clock rng digest hmap utf8 chars progress jw) exit codes, log,
 *               memory, text, JSON, output
 *   [sandbox]   what a run gives up: files, programs, the network; shared libraries <- k base
 *   [host]      limits of this machine: CPUs, memory and its nodes, cgroups        <- base
 *   [pool]      worker threads and barriers                                        <- k base host
 *   [http]      requests of HTTP/1.1, as bytes                                     <- base
 *   [net]       sockets, and the thread that serves connections                    <- base host http
 *   [gguf]      reader of model files: bounds-checked view, typed lookups          <- k base
 *   [sha]       SHA-256 and SHA-1 of bytes that come in pieces                     <- base
 *   [safetensors] (st) files of tensors in a checkpoint's folder                   <- base gguf
 *   [hub]       models by name: names and lists of a hub, its cache, a folder of models
 *               <- base gguf sha safetensors
 *   [fetch]     downloads from a hub, through libcurl                              <- base sandbox http sha safetensors hub
 *   [writer]    (gguf_write gguf_own) GGUF files that this program writes          <- k base gguf
 *   [tok]       vocabularies: text to token ids and back, byte-exact               <- base gguf
 *   [dequant]   (dq) matrices of checkpoints, plain and quantised, row by row      <- k base gguf safetensors
 *   [family]    models of transformers; config.json as GGUF keys                   <- base gguf writer safetensors
 *   [vocab]     tokenizers of checkpoints as GGUF keys                             <- base gguf writer tok safetensors family
 *   [import]    a checkpoint's folder as a model file in memory
 *               <- k base pool gguf safetensors hub writer dequant family vocab
 *   [val]       values of templates and JSON, as Python has them                   <- base
 *   [filter]    (test function) what templates call: filters, tests, methods, functions
 *               <- base val
 *   [jinja]     chat templates: a Jinja parser and evaluator                       <- base val filter
 *   [gram]      constraints as one automaton over bytes                            <- base
 *   [lang]      regular languages and expressions                                  <- base gram
 *   [num]       decimal numbers as languages                                       <- base lang
 *   [gbnf]      grammars in GBNF                                                   <- base gram lang
 *   [schema]    JSON Schema: documents and their normal form                       <- base val lang num
 *   [json]      JSON values as rules of an automaton                               <- base gram lang num schema
 *   [gpu]       NVIDIA GPUs through the driver                                     <- k base sandbox
 *   [dev]       the device: memory, batches, plans and the threads that run them   <- k base host pool gpu
 *   [dev_gpu]   the part of a plan that GPUs run                                   <- k base gpu dev
 *   [ops]       the operations of a step: a row for each kind                      <- k base sandbox host pool gpu dev dev_gpu
 *   [arch]      architectures and their tensors as data                            <- base gguf dev
 *   [model]     weights of a model in the mapping; packed weights (repack)         <- k base host pool gguf dev arch
 *   [lora]      adapters: low-rank updates of a model's matrices                  <- k base gguf import dev arch model
 *   [kv]        paged key/value cache in groups of layers, recurrent states        <- k base pool dev arch
 *   [store]     prompt cache on disk: KV blocks kept between runs                  <- k base gguf writer dev kv
 *   [fwd]       one step over a batch of rows                                      <- k base pool dev dev_gpu ops arch model kv
 *   [samp]      sampling: logits to a token                                        <- base
 *   [diffuse]   decoding by diffusion: which masks become tokens                   <- base
 *   [mask]      which tokens may follow                                            <- base tok gram
 *   [constrain] constraints as a user gives them                                   <- base tok gram lang gbnf schema json mask
 *   [embed]     vectors of texts: pooling, normalisation                           <- k base gguf tok dev arch model
 *   [engine]    (meter) a model opened to run: cache, threads, steps
 *               <- k base host pool gguf tok diffuse model lora kv store dev dev_gpu ops fwd samp
 *   [gen]       a request and its answer, as values
 *               <- k base gguf tok dev samp diffuse constrain embed engine
 *   [calls]     (call) tool calls: how a model writes them, found by rendering one; text to calls; answers with calls as
 *               an automaton
 *               <- base val jinja gram lang schema json constrain
 *   [chat]      messages to tokens, an answer to its parts
 *               <- base gguf tok val jinja gram constrain gen calls
 *   [score]     logits and log-probabilities of a given text                       <- base tok kv engine gen
 *   [lines]     reader of long files, shards                                       <- base
 *   [table]     CSV and TSV, prompts made of columns                               <- base lines
 *   [results]   files of results: records, header, resume, merge                   <- base lines
 *   [req]       one line of a batch file: request and record
 *               <- base val tok samp constrain embed gen calls chat
 *   [post]      bodies of requests of OpenAI's and Anthropic's APIs                <- base req
 *   [wire]      their answers, whole and as streams                                <- base tok gen chat req post
 *   [files]     files and batches of OpenAI's API, in a folder                     <- base http lines results req
 *   [page]      the page of the server: one HTML file
 *   [metrics]   figures of a server, as Prometheus reads them                      <- base
 *   [forms]     records as tables, texts and lists                                 <- base req
 *   [ask]       a request made ready to run
 *               <- base gguf val tok dev lora samp constrain embed engine gen chat req
 *   [gain]      (spec_cost spec_gain) costs of steps, and what guesses gain        <- base host
 *   [spec]      speculative decoding: n-gram lookup, draft model, draft head
 *               <- k base pool gguf writer tok import dev ops model kv fwd samp constrain engine gain
 *   [sched]     (hist) continuous batching of requests
 *               <- base pool tok dev model kv fwd samp diffuse constrain embed engine gen gain spec
 *   [screen]    text on a terminal: lines that end between words, attributes       <- base
 *   [text]      one request, its text streamed
 *               <- k base tok kv samp constrain engine gen chat sched spec screen
 *   [term]      messages from a person or a pipe: editing, history, paste          <- base sandbox screen
 *   [talk]      a conversation, turn by turn
 *               <- base val jinja kv constrain engine gen chat sched spec screen text term
 *   [batch]     files of requests, one per line
 *               <- base val tok kv samp constrain embed engine gen chat lines table results req forms ask sched gain spec
 *   [serve]     the scheduler behind HTTP
 *               <- base host http net tok model lora kv samp constrain engine gen chat req post wire files page metrics ask gain
 *               spec sched
 *   [calib]     tool: importance matrix (imatrix) of a text
 *               <- k base pool gguf writer tok kv dev fwd engine
 *   [round]     tool: calibrated rounding of weights (GPTQ style)
 *               <- k base host pool gguf tok arch model kv dev fwd
 *   [eval]      tool: perplexity and KL divergence on a text
 *               <- k base pool gguf writer tok kv fwd engine gen
 *   [quant]     tool: offline quantisation of a model file                         <- k base host pool gguf writer
 *   [inspect]   tool: report of what a model file holds                            <- k base gguf tok arch model lora kv
 *   [plot]      tool: rates as a picture (SVG)                                     <- base
 *   [quality]   tool: what quantised types of a model cost                         <- base gguf tok kv engine eval quant plot
 *   [bench]     tool: benchmark of a model on this machine
 *               <- k base host pool gguf import arch model lora kv dev fwd samp engine spec quant plot
 *   [cli]       option table, config, command line                                 <- all
 *   [topics]    texts of --help TOPIC
 *   [help]      help, man page, completions, lists
 *               <- k base sandbox host pool fetch tok import ops arch model constrain calls req spec term talk metrics serve
 *               quant cli topics
 *   [act]       actions of the command                                             <- all
 *   [main]      from the command line to the exit code                             <- k base host pool ops cli act
 *
 * SHAPES  B rows in the batch, T positions, D model width, H heads, G kv heads, HD head width, F ffn width, V vocabulary,
 *         E experts, K experts used per row. Written [B, D]; the last one is contiguous. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef LLMRUN_BLAS
#define LLMRUN_BLAS 1                                 /* 0: without --blas */
#endif
#ifndef LLMRUN_EDIT
#define LLMRUN_EDIT 1                                 /* 0: without libedit */
#endif
#ifndef LLMRUN_CUDA
#define LLMRUN_CUDA 1                                 /* 0: without GPUs */
#endif
#ifndef LLMRUN_HUB
#define LLMRUN_HUB 1                                  /* 0: without downloads */
#endif
#ifndef LLMRUN_SANDBOX
#ifdef __APPLE__
#define LLMRUN_SANDBOX 0
#else
#define LLMRUN_SANDBOX 1                              /* 0: without Landlock and seccomp */
#endif
#endif
#ifndef LLMRUN_STRESS
#define LLMRUN_STRESS 0                               /* 1: rare events are frequent (make stress) */
#endif
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <float.h>
#include <glob.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#ifdef __APPLE__
#include "src/darwin.h"
#else
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ===== [k] formats and arithmetic =====
 * A header with sections of its own. It is the lowest layer, uses libc alone and owns the names that begin with k_ and K_.
 * k_init chooses the kernels of this machine; llmrun.c names no machine.
 * Public: k_init, k_types, k_mul_rows, k_attn and the other k_ functions without a double underscore. */
#include "ggml_kernels.h"

#include "src/base.c"
#include "src/sandbox.c"
#include "src/host.c"
#include "src/pool.c"
#include "src/http.c"
#include "src/net.c"
#include "src/gguf.c"
#include "src/sha.c"
#include "src/safetensors.c"
#include "src/hub.c"
#include "src/fetch.c"
#include "src/writer.c"
#include "src/tok.c"
#include "src/dequant.c"
#include "src/family.c"
#include "src/vocab.c"
#include "src/import.c"
#include "src/val.c"
#include "src/filter.c"
#include "src/jinja.c"
#include "src/gram.c"
#include "src/lang.c"
#include "src/num.c"
#include "src/gbnf.c"
#include "src/schema.c"
#include "src/json.c"
#include "src/gpu.c"
#include "src/dev.c"
#include "src/dev_gpu.c"
#include "src/ops.c"
#include "src/arch.c"
#include "src/model.c"
#include "src/lora.c"
#include "src/kv.c"
#include "src/store.c"
#include "src/fwd.c"
#include "src/samp.c"
#include "src/diffuse.c"
#include "src/mask.c"
#include "src/constrain.c"
#include "src/embed.c"
#include "src/engine.c"
#include "src/gen.c"
#include "src/calls.c"
#include "src/chat.c"
#include "src/score.c"
#include "src/lines.c"
#include "src/table.c"
#include "src/results.c"
#include "src/req.c"
#include "src/post.c"
#include "src/wire.c"
#include "src/files.c"
#include "src/page.c"
#include "src/metrics.c"
#include "src/forms.c"
#include "src/ask.c"
#include "src/gain.c"
#include "src/spec.c"
#include "src/sched.c"
#include "src/screen.c"
#include "src/text.c"
#include "src/term.c"
#include "src/talk.c"
#include "src/batch.c"
#include "src/serve.c"
#include "src/calib.c"
#include "src/round.c"
#include "src/eval.c"
#include "src/quant.c"
#include "src/inspect.c"
#include "src/plot.c"
#include "src/quality.c"
#include "src/bench.c"
#include "src/cli.c"
#include "src/topics.c"
#include "src/help.c"
#include "src/act.c"
#include "src/main.c"
