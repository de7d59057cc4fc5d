/* ===== [cli] option table, config, command line =====
 * Reads the command line into a config. The option table holds all that the parser and --help know about an option; defaults
 * come from cli_defaults(). Each section below receives its own options by value.
 * Invariants: the parser never exits (errors come back in err_t); the prompt is exact bytes.
 * To add an option: 1 a field and its default in the options of the section that uses it; 2 a row of cli_opts: its names, kind
 * and bounds, `serves` (the actions it has an effect on) and `beside` (the option that it needs); 3 its name in act__settings, if
 * answers depend on it and its group is not there. Help, man page, completions and tests walk the table.
 * Public: cli_defaults, cli_set, cli_environment, cli_parse, cli_finish, cli_drop, cli_find, cli_given, cli_word, cli_or,
 * cli_long_name, cli_value, cli_default, cli_full, cli_param, cli_spell, cli_push, cli_unescape, cli_act_name,
 * cli_effective, cli_lacks, cli_instead, cli_typed, cli_commit, cli_build.
 * Opens: config, cli_list, cli_opt, cli_groups, cli_foreign. */

#define CLI_VERSION "0.1.0"
static const char cli_released[] = "2026-11-22";

/* An object of the Makefile's, so that a commit compiles nothing anew; a program built without it does not know. */
extern const char llmrun_commit[] __attribute__((weak));

/* The commit that this program was built from. */
static const char *cli_commit(void) { return llmrun_commit ? llmrun_commit : "unknown"; }

/* Version and commit, in memory of its own. */
static const char *cli_build(void) {
    static char text[64];
    snprintf(text, sizeof text, "%s (commit %s)", CLI_VERSION, cli_commit());
    return text;
}

enum { CLI_OPTS_MAX = 240 };                          /* rows of the table */

typedef enum {
    ACT_GENERATE, ACT_TALK, ACT_TOKENIZE, ACT_DETOKENIZE, ACT_RENDER, ACT_MATCH, ACT_MASK, ACT_SCORE, ACT_LOGITS,
    ACT_PERPLEXITY, ACT_IMATRIX, ACT_DIVERGENCE, ACT_INSPECT, ACT_DUMP, ACT_QUANTIZE, ACT_LORA_MERGE, ACT_BATCH, ACT_EMBED,
    ACT_EMBED_LINES,                                  /* --embed and --batch */
    ACT_SERVE,
    ACT_BENCH, ACT_QUALITY, ACT_STATISTICS, ACT_MERGE, ACT_MODELS, ACT_REMOVE, ACT_LIST, ACT_DEVICES, ACT_VERSION,
    ACT_USAGE, ACT_HELP,
    N_ACTS
} cli_act;

/* Sets of actions, for the column `serves`. */
#define ON(action) (1u << ACT_##action)
enum {
    ON_BATCH = ON(BATCH),
    ON_EMBED = ON(EMBED) | ON(EMBED_LINES),
    ON_LINES = ON_BATCH | ON(EMBED_LINES), /* actions on files with a request on each line */
    ON_BENCH = ON(BENCH), ON_QUANTIZE = ON(QUANTIZE), ON_EVAL = ON(PERPLEXITY) | ON(DIVERGENCE) | ON(QUALITY),
    ON_TYPES = ON_QUANTIZE | ON(QUALITY),           /* that choose types of tensors */
    ON_SERVE = ON(SERVE),
    ON_MANY = ON_LINES | ON_SERVE,                  /* actions that answer many requests at a time */
    ON_ANSWER = ON(GENERATE) | ON(TALK) | ON_BATCH | ON_SERVE, /* actions that sample tokens */
    ON_CHAT = ON_ANSWER,                            /* that answer messages */
    ON_HOLD = ON_ANSWER | ON(MATCH) | ON(MASK),     /* that have a constraint */
    ON_FIT = ON(MATCH) | ON(MASK),                  /* that compare a text with it */
    ON_TEXT = ON(GENERATE) | ON(TOKENIZE) | ON(DETOKENIZE) | ON(SCORE) | ON(LOGITS) | ON(PERPLEXITY) | ON(QUALITY) |
              ON(IMATRIX) |
              ON(EMBED),                                                                         /* that read a prompt */
    ON_STEPS = ON_ANSWER | ON_EVAL | ON_BENCH | ON(SCORE) | ON(LOGITS) | ON(IMATRIX) | ON_EMBED, /* that run the model */
    ON_RUN = ON_STEPS | ON_QUANTIZE,                                                             /* or calibrate with it */
    ON_ALL = (1u << N_ACTS) - 1
};

typedef struct {
    const char **v;
    int          n, n_own;                            /* the list owns the first n_own texts */
} cli_list;

typedef struct {
    const char *model, *prompt;                       /* "" is a prompt, NULL is none */
    str         own_model, own_draft, own_bench;      /* paths that a name has become */
    fetch_opts  hub;
    cli_list    files;                                /* of -f, in order; "-" is standard input */
    int         action;                               /* cli_act */
    const char *what;                                 /* value of the action: a tensor, a file, a list */
    const char *output, *format, *cpu, *numa, *pre;   /* NULL: not given */
    const char *plot;                                 /* file for the picture of --bench, NULL: none */
    bool        echo;                                 /* the prompt is written before the answer */
    char        own_shard[48];                        /* I/N of --shard auto */
    str         own_output;                           /* output, {shard} replaced */
    const char *system_file;                          /* NULL: not given */
    str         own_system;                           /* its text */
    bool        json, escape, blas, no_stdin, no_sandbox, yes;
    int         bos;                                  /* as for tok_start() */
    int         special;                              /* -1: not given, the action decides; 0, 1: given */
    int         log_level;
    int64_t     seed;                                 /* -1: draw one */
    const char *imatrix, *calibrate;                  /* files: an importance matrix; a text for calibrated rounding */
    cli_list    stop, bias, breakers, tensor_types;
    bytes      *stops;                                /* what gen.stop points to */
    samp_bias  *biases;                               /* [bias.n] bias as numbers */
    float       rope_freq_scale;                      /* 1 / fwd.rope.factor, 0: not given */
    kv_opts     kv;
    engine_opts    fwd;
    gen_opts    gen;
    constrain_opts hold;
    chat_opts   chat;
    text_opts   text;
    calib_opts  calib;
    cli_list    lora, lora_files;                     /* adapters as given; their files, of fwd.lora */
    float      *lora_scales;                          /* [lora_files.n] */
    bool        lora_idle;                            /* they count for requests that name an adapter */
    cli_list    in_files;                             /* importance matrices to add */
    cli_list    inputs;                               /* files of --batch or --merge */
    cli_list    batch_files;                          /* of --batch, patterns replaced by the names that match */
    samp_opts   samp;
    spec_opts   spec;
    eval_opts   eval;
    int         chunks;                               /* for eval and calib */
    quant_opts  quant;
    batch_opts  batch;
    embed_opts  embed;
    const char *pooling;                              /* of embed, as a word; NULL: not given */
    serve_opts  serve;
    bool        raw;                                  /* the vector is written as floats */
    bool        resume, retry_errors;
    bool        print0;                               /* a NUL ends each text of a batch */
    cli_list    models;                               /* of --bench, instead of model */
    bench_opts  bench;
    const char *given[CLI_OPTS_MAX];                  /* [row of cli_opts] the argument with its name, NULL: not given */
    cli_list    idle;                                 /* options of llama.cpp that have no effect here, as given */
    cli_list    again;                                /* options that replace another use, as given: that one and they */
} config;

/* A config in which nothing is given. */
static config cli_defaults(void) {
    return (config){.cpu = "auto", .numa = "auto", .bos = -1, .special = -1, .log_level = LOG_NORMAL, .seed = -1,
                    .kv = kv_defaults, .fwd = engine_defaults,
                    .gen = gen_defaults, .hold = constrain_defaults, .chat = chat_defaults, .calib = calib_defaults,
                    .samp = samp_defaults, .spec = spec_defaults, .eval = eval_defaults, .chunks = -1,
                    .batch = batch_defaults, .embed = embed_defaults, .serve = serve_defaults,
                    .bench = bench_defaults};
}

/* --- the table --- */

typedef enum {
    OPT_ON, OPT_OFF,                                  /* bool; no value */
    OPT_SET,                                          /* int becomes lo; no value */
    OPT_INT, OPT_I64, OPT_FLT,                        /* lo <= value <= hi */
    OPT_LAYERS,                                       /* such an int; off is 0, auto is -1, all is INT_MAX */
    OPT_SAMP,                                         /* an int or float of samp_opts; bounds and help are those of samp_params */
    OPT_SIZE,                                         /* uint64_t bytes, suffix K M G T (1024) */
    OPT_STR,
    OPT_WORD,                                         /* one of the words of the argument column */
    OPT_BITS,                                         /* the same; each use adds the bit of its word to an int */
    OPT_TYPE,                                         /* the same, kept as a k_types id */
    OPT_NUMS,                                         /* bench_list of such numbers: 1,2,8 a-b a-b+step a-b*factor */
    OPT_PAIR,                                         /* two numbers, at the end of a bench_list */
    OPT_TYPES,                                        /* bench_list of k_types ids: words separated by commas */
    OPT_LEVELS,                                       /* bench_list of kernel levels, likewise; auto is -1 */
    OPT_WORDS,                                        /* bench_list of positions in the argument column, likewise */
    OPT_LIST,                                         /* cli_list, grows with each use */
    OPT_ACT,                                          /* action lo; its value is `what`; hi 1: more files may follow */
} cli_kind;

typedef enum {
    GROUP_ACT, GROUP_PROMPT, GROUP_HUB, GROUP_CHAT, GROUP_RUN, GROUP_SAMPLE, GROUP_HOLD, GROUP_SPEC, GROUP_CACHE, GROUP_ROPE,
    GROUP_EVAL, GROUP_QUANT, GROUP_BATCH, GROUP_SERVE, GROUP_BENCH, GROUP_OUT, N_GROUPS
} cli_group;

/* The topics of --help, in its order. */
static const struct {
    const char *topic, *title;
} cli_groups[N_GROUPS] = {
    [GROUP_ACT] = {"actions", "Actions (at most one; without one, text is generated)"},
    [GROUP_PROMPT] = {"prompt", "Model and prompt"},
    [GROUP_HUB] = {"hub", "Models by name: from a hub, from the cache"},
    [GROUP_CHAT] = {"chat", "Chat: the prompt is a message, written as the model's chat template has it"},
    [GROUP_RUN] = {"run", "Running"},
    [GROUP_SAMPLE] = {"sampling", "Sampling"},
    [GROUP_HOLD] = {"structure", "Structured output: what the answer may be"},
    [GROUP_SPEC] = {"speculation", "Speculative decoding: the same text in less time"},
    [GROUP_CACHE] = {"cache", "KV cache and context"},
    [GROUP_ROPE] = {"rope", "Position encoding (RoPE), in place of the model file's"},
    [GROUP_EVAL] = {"evaluation", "Evaluation and importance matrices"},
    [GROUP_QUANT] = {"quantize", "Quantising (with --quantize)"},
    [GROUP_BATCH] = {"batch", "Batch files (with --batch)"},
    [GROUP_SERVE] = {"serve", "Server (with --serve)"},
    [GROUP_BENCH] = {"bench", "Benchmarks (with --bench these names have the meaning below)"},
    [GROUP_OUT] = {"output", "Output"},
};

/* Some options have an effect only beside another one: a note names those that are given without it. */
typedef enum {
    ALONE, BESIDE_CACHE, BESIDE_SHIFT, BESIDE_BASE, BESIDE_DRAFTER, BESIDE_DRAFTS, BESIDE_LOOKUP, BESIDE_DRY, BESIDE_DYNATEMP,
    BESIDE_XTC,
    BESIDE_MIROSTAT, BESIDE_PENALTY, BESIDE_HOLD, BESIDE_SCHEMA, BESIDE_TEXT, BESIDE_PROMPTS, BESIDE_RESUME, BESIDE_FILES,
    BESIDE_REPO,
    N_PARTNERS
} cli_partner;

static const struct {
    const char *names;                                /* one of these must differ from its default */
    uint32_t    on;                                   /* actions that need it */
} cli_partners[N_PARTNERS] = {
    [BESIDE_CACHE] = {"--prompt-cache", ON_ALL},
    [BESIDE_SHIFT] = {"--context-shift", ON_ALL},
    [BESIDE_BASE] = {"--kl-divergence-base", ON(PERPLEXITY)},
    [BESIDE_DRAFTER] = {"--model-draft --head", ON_ALL},
    [BESIDE_DRAFTS] = {"--model-draft --lookup --head", ON_ALL},
    [BESIDE_LOOKUP] = {"--lookup", ON_ALL},
    [BESIDE_DRY] = {"--dry-multiplier", ON_ALL},
    [BESIDE_DYNATEMP] = {"--dynatemp-range", ON_ALL},
    [BESIDE_XTC] = {"--xtc-probability", ON_ALL},
    [BESIDE_MIROSTAT] = {"--mirostat", ON_ALL},
    [BESIDE_PENALTY] = {"--repeat-penalty --presence-penalty --frequency-penalty",
                        ON(GENERATE)}, /* a line of a batch may set them */
    [BESIDE_HOLD] = {"--grammar --grammar-file --json-schema --json-schema-file --regex --choice",
                     ON(GENERATE) | ON(TALK)},                                                  /* the same */
    [BESIDE_SCHEMA] = {"--json-schema --json-schema-file", ON(GENERATE) | ON(TALK) | ON(MASK)}, /* the same */
    [BESIDE_TEXT] = {"--calibrate", ON_QUANTIZE},
    [BESIDE_RESUME] = {"--resume", ON_LINES},
    [BESIDE_FILES] = {"--files", ON_SERVE},
    [BESIDE_REPO] = {"--hf-repo", ON_ALL},
    [BESIDE_PROMPTS] = {"--prompt-template", ON_LINES},
};

typedef struct {
    const char *names;                                /* all spellings, separated by spaces; errors use the given one */
    const char *arg;                                  /* name of the value, NULL: none; with bars: the words allowed */
    cli_kind    kind;
    size_t      at;                                   /* offset in config */
    double      lo, hi;
    cli_group   group;
    uint32_t    serves;                               /* actions it has an effect on, as ON(...) bits */
    const char *help;                                 /* NULL: that of samp_params */
    cli_partner beside;                               /* the option that it needs to have an effect */
    const char *env;                                  /* environment variable read first, or NULL */
} cli_opt;

#define AT(field) offsetof(config, field)
#define CLI_BIG   2147483647.0

#define CLI_CACHE_TYPES "f32|f16|bf16|q8_0|q4_0"
#define CLI_LEVELS      "auto|" K_LEVEL_NAMES
#define CLI_REPACKS     "auto|on|off"
#define CLI_NUMAS       "auto|off|interleave|distribute"
#define SAMPLING(names, arg, field, needs) \
    {names, arg, OPT_SAMP, AT(samp.field), 0, 0, GROUP_SAMPLE, ON_ANSWER, .beside = needs}

static const cli_opt cli_opts[] = {
    /* names                            argument      kind      where                lo hi group, actions that it serves
     * help */
    {"-i --interactive",                NULL,         OPT_ACT,  AT(what),            ACT_TALK, 0, GROUP_ACT, ON_ALL,
     .help = "talk with the model: in a terminal with line editing and history (/help lists commands), else each "
             "line of standard input is a message; a model with a chat template begins to talk where neither an "
             "action nor a prompt is given in a terminal"},
    {"--tokenize",                      NULL,         OPT_ACT,  AT(what),            ACT_TOKENIZE, 0, GROUP_ACT, ON_ALL,
     .help = "print the prompt's token ids on one line; needs the vocabulary only"},
    {"--detokenize",                    NULL,         OPT_ACT,  AT(what),            ACT_DETOKENIZE, 0, GROUP_ACT, ON_ALL,
     .help = "print the exact bytes of token ids, which come from -p, -f or standard input"},
    {"--render",                        NULL,         OPT_ACT,  AT(what),            ACT_RENDER, 0, GROUP_ACT, ON_ALL,
     .help = "print messages as the chat template of the model or of --chat-template-file writes them: JSON from -f or "
             "standard input, a list of messages or an object with messages and other variables; -v: the time it takes"},
    {"--match",                         NULL,         OPT_ACT,  AT(what),            ACT_MATCH, 0, GROUP_ACT, ON_ALL,
     .help = "check whether standard input (or -p, -f) is a whole match of the constraint: exit code 0, or 1 with the first "
             "byte that does not fit; JSON may have its keys in any order and any white space; needs no model"},
    {"--mask",                          NULL,         OPT_ACT,  AT(what),            ACT_MASK, 0, GROUP_ACT, ON_ALL,
     .help = "print the ids of the tokens that the constraint lets follow the text of -p, one on a line; --format "
             "csv: for each place of the text how many, and microseconds; needs the vocabulary only"},
    {"--score",                         NULL,         OPT_ACT,  AT(what),            ACT_SCORE, 0, GROUP_ACT, ON_ALL,
     .help = "print the log-probability of each token of the prompt, one line each: index id logprob"},
    {"--logits",                        "FILE",       OPT_ACT,  AT(what),            ACT_LOGITS, 0, GROUP_ACT, ON_ALL,
     .help = "run the prompt and write the logits of every position to FILE (- is stdout): float32, little-endian, "
             "[tokens][vocabulary]"},
    {"--perplexity",                    NULL,         OPT_ACT,  AT(what),            ACT_PERPLEXITY, 0, GROUP_ACT, ON_ALL,
     .help = "perplexity of a text with its standard error: windows of -c tokens (512), the second half of each is scored"},
    {"--kl-divergence",                 "BASE",       OPT_ACT,  AT(what),            ACT_DIVERGENCE, 0, GROUP_ACT, ON_ALL,
     .help = "KL divergence of this model from the one that wrote BASE with --kl-divergence-base, on the same text"},
    {"--imatrix-out",                   "FILE",       OPT_ACT,  AT(what),            ACT_IMATRIX, 0, GROUP_ACT, ON_ALL,
     .help = "run a text in chunks of -c tokens (512 by default) and write its importance matrix to FILE, as GGUF"},
    {"--show-statistics",               NULL,         OPT_ACT,  AT(what),            ACT_STATISTICS, 0, GROUP_ACT, ON_ALL,
     .help = "print statistics of the importance matrix given by --in-file, for each tensor; needs no model"},
    {"--merge",                         "FILE",       OPT_ACT,  AT(what),            ACT_MERGE, 1, GROUP_ACT, ON_ALL,
     .help = "join the batch results of FILE and of all files after it in the order of the input; two records of "
             "one line that do not agree are refused; -o FILE.csv, .tsv, .txt and .json or --format write them in that form; "
             "needs no model"},
    {"--inspect",                       NULL,         OPT_ACT,  AT(what),            ACT_INSPECT, 0, GROUP_ACT, ON_ALL,
     .help = "check the whole model file and print its metadata and tensors; runs nothing"},
    {"--dump-tensor",                   "NAME",       OPT_ACT,  AT(what),            ACT_DUMP, 0, GROUP_ACT, ON_ALL,
     .help = "write one tensor as float32, little-endian, in the order of the file"},
    {"--quantize",                      "TYPE",       OPT_ACT,  AT(what),            ACT_QUANTIZE, 0, GROUP_ACT, ON_ALL,
     .help = "write the model to -o with its weights in another type or mixture (--list quants); COPY keeps their types"},
    {"--lora-merge",                    NULL,         OPT_ACT,  AT(what),            ACT_LORA_MERGE, 0, GROUP_ACT, ON_ALL,
     .help = "write the model to -o with the adapters of --lora merged into its weights, each in its type; --quantize TYPE "
             "with --lora merges them, too"},
    {"--quality",                       "TYPE,TYPE",  OPT_ACT,  AT(what),            ACT_QUALITY, 0, GROUP_ACT, ON_ALL,
     .help = "make a temporary file of each type, in TMPDIR or /tmp, and compare it with -m on the text of -f: size, "
             "perplexity, KL divergence, as a table (--format md, csv, json) and a picture (--plot FILE)"},
    {"--batch",                         "FILE",       OPT_ACT,  AT(what),            ACT_BATCH, 1, GROUP_ACT, ON_ALL,
     .help = "answer every line of FILE (- is standard input) and of all files after it, patterns such as "
             "'*.jsonl' too: OpenAI batch lines, bare bodies, or plain text, in which each line is a prompt as that of "
             "-p is; results to -o or stdout as they come"},
    {"--embed --embedding --embeddings", NULL,         OPT_ACT,  AT(what),            ACT_EMBED, 0, GROUP_ACT, ON_ALL,
     .help = "print the vector of the prompt, numbers on a line; -o FILE: raw float32, little-endian; --format "
             "json: as OpenAI's /v1/embeddings; with --batch: a record for each line, which is a text or an "
             "/v1/embeddings request; --format text: numbers, a line for each text in the order of the input; -o "
             "FILE.f32: raw float32, [texts][width]"},
    {"--serve",                         "[[HOST:]PORT]", OPT_ACT, AT(what),          ACT_SERVE, 0, GROUP_ACT, ON_ALL,
     .help = "answer requests over HTTP, as OpenAI's and Anthropic's APIs have them, until SIGINT or SIGTERM; 127.0.0.1:8080 "
             "without an address, port 0 is any free one, unix:PATH a Unix socket"},
    {"--bench",                         NULL,         OPT_ACT,  AT(what),            ACT_BENCH, 0, GROUP_ACT, ON_ALL,
     .help = "measure prefill and decode as llama-bench does, beside the memory bandwidth and arithmetic rate of "
             "this machine; -v: time of each stage"},
    {"--models -cl --cache-list",       NULL,         OPT_ACT,  AT(what),            ACT_MODELS, 0, GROUP_ACT, ON_ALL,
     .help = "print the models of the cache and of the folder that LLMRUN_MODELS names: name, size, type, architecture; -m NAME "
             "runs one"},
    {"--rm-model",                      "NAME",       OPT_ACT,  AT(what),            ACT_REMOVE, 0, GROUP_ACT, ON_ALL,
     .help = "remove a model that --models lists from the disk, after a question"},
    {"--list", "types|archs|checkpoints|cpu|pre|quants|tool-calls|options", OPT_ACT, AT(what), ACT_LIST, 0, GROUP_ACT, ON_ALL,
     .help = "print a list: tensor types, architectures, kernel levels, pre-tokenizers, types for --quantize with the bits per "
             "weight of a file of 8 billion weights (Llama 3.1), forms of tool calls, options"},
    {"--list-devices",                  NULL,         OPT_ACT,  AT(what),            ACT_DEVICES, 0, GROUP_ACT, ON_ALL,
     .help = "print the NVIDIA GPUs of this machine: number, name, compute capability, memory"},
    {"--version",                       NULL,         OPT_ACT,  AT(what),            ACT_VERSION, 0, GROUP_ACT, ON_ALL,
     .help = "print the version with its commit, the compiler, the kernel level and the libraries"},
    {"-h --usage",                      "[TOPIC]",    OPT_ACT,  AT(what),            ACT_USAGE, 0, GROUP_ACT, ON_ALL,
     .help = "print the most used options on one screen, or the options of TOPIC"},
    {"--help",                          "[TOPIC]",    OPT_ACT,  AT(what),            ACT_HELP, 0, GROUP_ACT, ON_ALL,
     .help = "print all options, or those of TOPIC (a group such as sampling, or the name of an option)"},

    {"-m --model",                      "FILE",       OPT_STR,  AT(model),           0, 0, GROUP_PROMPT, ON_ALL,
     .help = "model file (GGUF), for a split model its first part, or a name that --models lists; a key that changes the text "
             "counts for every architecture, and a line names one that llama.cpp does not read for the model's",
     .env = "LLMRUN_MODEL"},
    {"-hf -hfr --hf-repo",              "NAME[:QUANT]", OPT_STR, AT(hub.repo), 0, 0, GROUP_HUB, ON_ALL,
     .help = "model of a hub, OWNER/NAME, which is downloaded once and runs from the cache afterwards; QUANT is a type, the "
             "path of a file or safetensors, by default the first of Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0 and F16 that exists, and "
             "safetensors where no file, of the list or of what the cache has of it, is GGUF; -m hf:OWNER/NAME:QUANT is the "
             "same"},
    {"-hff --hf-file",                  "NAME",       OPT_STR,  AT(hub.file),        0, 0, GROUP_HUB, ON_ALL,
     .help = "path of the file in the repository of -hf", .beside = BESIDE_REPO},
    {"-hfd -hfrd --hf-repo-draft --spec-draft-hf", "NAME[:QUANT]", OPT_STR, AT(hub.draft), 0, 0, GROUP_HUB, ON_ANSWER,
     .help = "draft model of a hub, as -md hf:OWNER/NAME:QUANT"},
    {"-hft --hf-token",                 "TOKEN",      OPT_STR,  AT(hub.token),       0, 0, GROUP_HUB, ON_ALL,
     .help = "token for repositories that are not public; without it the one that Hugging Face's own tools keep; it is "
             "sent to the host of the hub alone", .env = "HF_TOKEN"},
    {"--offline",                       NULL,         OPT_ON,   AT(hub.offline),     0, 0, GROUP_HUB, ON_ALL,
     .help = "connect to no hub: -hf takes what is in the cache, or fails"},
    {"--yes",                           NULL,         OPT_ON,   AT(yes),             0, 0, GROUP_HUB, ON(REMOVE),
     .help = "--rm-model asks no question"},
    {"-p --prompt",                     "TEXT",       OPT_STR,  AT(prompt),          0, 0,
     GROUP_PROMPT, ON_TEXT | ON_FIT | ON(TALK),
     .help = "prompt: a message to a model with a chat template, else a text to continue (--raw: always); standard input is "
             "appended after a newline, unless it is a terminal or empty, or --no-stdin is given"},
    {"-f --file",                       "FILE",       OPT_LIST, AT(files),           0, 0,
     GROUP_PROMPT, ON_TEXT | ON_FIT | ON(TALK) | ON(RENDER),
     .help = "read the prompt from FILE, byte for byte; - is standard input, which is also the prompt when -p and "
             "-f are absent; may be given several times: -p TEXT, then the files, a blank line between"},
    {"--no-stdin",                      NULL,         OPT_ON,   AT(no_stdin),        0, 0,
     GROUP_PROMPT, ON_TEXT | ON_FIT | ON(RENDER) | ON_LINES,
     .help = "do not read standard input: in a shell's `while read` loop it holds the lines of the loop"},
    {"--chat -cnv --conversation -st --single-turn --jinja", NULL, OPT_SET, AT(chat.on), 1, 0, GROUP_CHAT, ON_CHAT,
     .help = "the prompt is a user's message, and a model without a chat template is an error; without this option it is a "
             "message where the model has a template or an option of this group gives one"},
    {"--raw --no-chat -no-cnv --no-conversation", NULL, OPT_SET, AT(chat.on),         0, 0, GROUP_CHAT, ON_CHAT | ON_TEXT,
     .help = "the prompt is a text to continue, without the chat template; actions that only read a text are always so"},
    {"-sys --system-prompt",            "TEXT",       OPT_STR,  AT(chat.system),     0, 0, GROUP_CHAT, ON_CHAT,
     .help = "system message, where the messages have none"},
    {"-sysf --system-prompt-file",      "FILE",       OPT_STR,  AT(system_file),     0, 0, GROUP_CHAT, ON_CHAT,
     .help = "the same with the text of FILE, without a newline at its end"},
    {"--messages",                      "FILE",       OPT_STR,  AT(chat.messages),   0, 0, GROUP_CHAT, ON(GENERATE) | ON(TALK),
     .help = "messages in JSON: a list, or an object with messages, tools and other variables of the template; the "
             "prompt, if there is one, is one more message"},
    {"--tools",                         "FILE",       OPT_STR,  AT(chat.tools),      0, 0, GROUP_CHAT, ON(GENERATE) | ON(TALK),
     .help = "tools that the model may call, in JSON: a list of functions as OpenAI writes them"},
    {"--chat-template-file",            "FILE",       OPT_STR,  AT(chat.template_file), 0, 0, GROUP_CHAT, ON_CHAT | ON(RENDER),
     .help = "chat template (Jinja) in place of the model's own"},
    {"--chat-template-kwargs",          "JSON",       OPT_STR,  AT(chat.kwargs),     0, 0, GROUP_CHAT, ON_CHAT | ON(RENDER),
     .help = "an object of variables for the template, such as {\"enable_thinking\":false}"},
    {"--think",                         "on|off|show|hide", OPT_BITS, AT(chat.think_words), 0, 0,
     GROUP_CHAT, ON_CHAT | ON(RENDER),
     .help = "on, off: whether a model that can think does so; show, hide: whether stderr shows its thinking; may "
             "be given twice; stdout has the answer alone"},
    {"--think-budget",                  "N",          OPT_I64,  AT(chat.think_budget), -1, CLI_BIG, GROUP_CHAT, ON_CHAT,
     .help = "most tokens of thinking, after which it is closed; -1 is no bound"},
    {"-e --escape",                     NULL,         OPT_ON,   AT(escape),          0, 0,
     GROUP_PROMPT, ON_TEXT | ON_FIT | ON(TALK) | ON_BATCH | ON_SERVE,
     .help = "read \\n \\t \\r \\\\ \\' \\\" \\xHH in -p, --stop and --dry-sequence-breaker as escapes; off by default; files "
             "and texts of --perplexity and --imatrix-out stay as they are"},
    {"--no-escape",                     NULL,         OPT_OFF,  AT(escape),          0, 0,
     GROUP_PROMPT, ON_TEXT | ON_FIT | ON(TALK) | ON_BATCH | ON_SERVE,
     .help = "take these texts as exact bytes; the default"},
    {"--bos",                           NULL,         OPT_SET,  AT(bos),             1, 0,
     GROUP_PROMPT, (ON_TEXT & ~ON(DETOKENIZE)) | ON_MANY | ON_QUANTIZE,
     .help = "begin a raw prompt with the start token even where the model file does not ask for it (--tokenize adds none by "
             "default); a prompt that is written with it gets no second one", .beside = BESIDE_TEXT},
    {"--no-bos",                        NULL,         OPT_SET,  AT(bos),             0, 0,
     GROUP_PROMPT, (ON_TEXT & ~ON(DETOKENIZE)) | ON_MANY | ON_QUANTIZE,
     .help = "add no start token to a raw prompt, whatever the model file says", .beside = BESIDE_TEXT},
    {"-sp --special",                   NULL,         OPT_SET,  AT(special),         1, 1,
     GROUP_PROMPT, ON_TEXT | ON(MASK) | ON_MANY | ON_QUANTIZE,
     .help = "control tokens: --tokenize parses them, --detokenize and the answer print their names",
     .beside = BESIDE_TEXT},
    {"--no-special --no-parse-special", NULL,         OPT_SET,  AT(special),         0, 0,
     GROUP_PROMPT, ON_TEXT | ON(MASK) | ON_MANY | ON_QUANTIZE,
     .help = "do not parse control tokens in the prompt; they are parsed by default when the model runs",
     .beside = BESIDE_TEXT},
    {"--pre",                           "NAME",       OPT_STR,  AT(pre),             0, 0,
     GROUP_PROMPT, ON_TEXT | ON(MASK) | ON(TALK) | ON_MANY | ON_QUANTIZE | ON(INSPECT),
     .help = "use this pre-tokenizer in place of the one in the model file (--list pre)", .beside = BESIDE_TEXT},

    {"-n --predict --n-predict",        "N",          OPT_I64,  AT(gen.n_predict),   -2, CLI_BIG, GROUP_RUN, ON_ANSWER,
     .help = "tokens to generate; -1 is until the end token or until the context is full"},
    {"-t --threads",                    "N",          OPT_INT,  AT(fwd.n_threads),   -1, 1024, GROUP_RUN, ON_ALL,
     .help = "threads; 0 or -1 is OMP_NUM_THREADS, or the number of CPUs that this process may use (affinity and "
             "cgroup quota)"},
    {"-b --batch-size -ub --ubatch-size", "N",          OPT_INT,  AT(fwd.n_batch),     1, 65536, GROUP_RUN, ON_STEPS,
     .help = "tokens of a prompt that are computed together"},
    {"--chunks",                        "N",          OPT_INT,  AT(chunks),          -1, CLI_BIG,
     GROUP_EVAL, ON_EVAL | ON(IMATRIX) | ON_QUANTIZE,
     .help = "number of windows (--perplexity, --kl-divergence) or of chunks of text (--imatrix-out, --calibrate); "
             "-1 is all", .beside = BESIDE_TEXT},
    {"--ppl-stride",                    "N",          OPT_INT,  AT(eval.stride),     0, CLI_BIG, GROUP_EVAL, ON(PERPLEXITY),
     .help = "windows of --perplexity begin N tokens apart and the last N tokens of each are scored; 0 is end to end"},
    {"--kl-divergence-base --save-all-logits", "FILE",       OPT_STR,  AT(eval.base),       0, 0, GROUP_EVAL, ON(PERPLEXITY),
     .help = "--perplexity also writes the tokens and the log-probabilities of every scored position to FILE, for "
             "--kl-divergence"},
    {"--kl-top-k",                      "N",          OPT_INT,  AT(eval.top_k),      0, CLI_BIG,
     GROUP_EVAL, ON(PERPLEXITY) | ON(QUALITY),
     .help = "--kl-divergence-base and --quality keep the N most probable tokens of each position and the sum of the others; "
             "0 is all", .beside = BESIDE_BASE},
    {"--pooling",                       "none|mean|cls|last|rank", OPT_WORD, AT(pooling),     0, 0,
     GROUP_RUN, ON_EMBED | ON_SERVE,
     .help = "vector of a text: that of each token, their mean, the first one, the last one, or the scores of a reranker's "
             "classifier; the default is the model file's, else the mean in an encoder and the last one in other models"},
    {"--truncate",                      NULL,         OPT_ON,   AT(embed.truncate),  0, 0, GROUP_RUN, ON_EMBED | ON_SERVE,
     .help = "cut texts longer than the context, or than the file's ARCH.max_seq_length; their end token stays"},
    {"--embed-prefix",                  "TEXT",       OPT_STR,  AT(embed.prefix),    0, 0, GROUP_RUN, ON_EMBED | ON_SERVE,
     .help = "text before each text to embed, such as 'query: '"},
    {"--embd-normalize --embd-normalise", "N",          OPT_INT,  AT(embed.norm),      -1, 1000, GROUP_RUN, ON_EMBED | ON_SERVE,
     .help = "normalise vectors: -1 not at all, 0 so that the largest magnitude is 32760, 1 by the sum of "
             "magnitudes, 2 by the Euclidean norm, P by the P-norm"},
    {"--repack",                        CLI_REPACKS,  OPT_WORD, AT(fwd.repack),      0, 0, GROUP_RUN, ON_STEPS,
     .help = "copy quantised weights into a layout that is faster for many tokens at a time; auto: where the work "
             "is long enough"},
    {"--numa",                          CLI_NUMAS,    OPT_WORD, AT(numa),            0, 0, GROUP_RUN, ON_ALL,
     .help = "machines with several memory nodes: distribute binds threads to nodes and puts weights and cache on the node that "
             "reads them, interleave puts them on all nodes in turn; auto: distribute where there are several nodes"},
    {"--read-ahead",                    CLI_REPACKS,  OPT_WORD, AT(fwd.read_ahead),  0, 0, GROUP_RUN, ON_STEPS,
     .help = "read experts from the file as soon as a router has chosen them, and pack none; auto: where the weights "
             "exceed memory"},
    {"--cpu",                           CLI_LEVELS,   OPT_WORD, AT(cpu),             0, 0, GROUP_RUN, ON_ALL,
     .help = "kernel level (--list cpu); all levels compute the same bits"},
    {"-ngl --gpu-layers --n-gpu-layers", "N|auto|all", OPT_LAYERS, AT(fwd.n_gpu_layers), -1, CLI_BIG, GROUP_RUN, ON_STEPS,
     .help = "run the last N layers on an NVIDIA GPU; auto: as many as fit, none without a GPU; with --same on the "
             "text stays the same"},
    {"--device -mg --main-gpu",         "N|auto",     OPT_LAYERS, AT(fwd.device),      -1, 1023, GROUP_RUN, ON_STEPS,
     .help = "the GPU to use, as --list-devices numbers them; auto: the first that holds the layers, or several "
             "where none does"},
    {"--same",                          "on|off|auto", OPT_WORD, AT(fwd.same),        0, 0, GROUP_RUN, ON_STEPS,
     .help = "on: a GPU computes the same bits as the CPU; off: float matrices and attention use tensor cores, and "
             "logits differ a little; auto: on, unless most weights are floats"},
    {"--lora --lora-scaled",            "FILE[=SCALE]", OPT_LIST, AT(lora),          0, 0, GROUP_RUN,
     ON_STEPS | ON_QUANTIZE | ON(LORA_MERGE),
     .help = "adapter (LoRA), a GGUF file or a folder of PEFT: its products are added to those of the model's matrices, whose "
             "weights stay as they are; SCALE: how strongly (1); several: all of them, unless a request names some (lora); a "
             "layer with an adapter runs on the CPU; --bench: rates with them, and how much of the rate without; several "
             "sequences have one each in turn"},
    {"--lora-init-without-apply",       NULL,         OPT_ON,   AT(lora_idle),         0, 0, GROUP_RUN, ON_STEPS,
     .help = "adapters have the scale 0 until a request names them (lora) or POST /lora-adapters of --serve sets it"},
    {"--f16-as-bf16",                   NULL,         OPT_ON,   AT(fwd.as_bf16),     0, 0, GROUP_RUN, ON_STEPS,
     .help = "round f16 weights to bf16, which changes the text: prompts run up to twice as fast where the "
             "processor multiplies bf16"},
    {"--blas",                          NULL,         OPT_ON,   AT(blas),            0, 0, GROUP_RUN, ON_STEPS,
     .help = "multiply float weights through OpenBLAS when the prompt is long; the last bits then depend on the batch"},
    {"--no-sandbox",                    NULL,         OPT_ON,   AT(no_sandbox),      0, 0, GROUP_RUN, ON_ALL,
     .help = "switch the sandbox off. In it a run can open only the files and folders of its command line, start no programs "
             "and open no sockets (Landlock, seccomp); --version and -v say what holds"},
    {"-r --reverse-prompt --stop",      "TEXT",       OPT_LIST, AT(stop),            0, 0, GROUP_RUN, ON_ANSWER,
     .help = "end the answer before TEXT; may be given several times"},
    {"--loop-stop",                     "N|off|auto", OPT_LAYERS, AT(gen.loop_stop), 0, CLI_BIG, GROUP_RUN, ON_ANSWER,
     .help = "end the answer where N tokens in a row are each the same as the one P tokens before, for a P of at most 64; "
             "auto: 512 where neither -n nor max_tokens bounds the answer, else off"},
    {"--ignore-eos",                    NULL,         OPT_ON,   AT(gen.ignore_eos),  0, 0, GROUP_RUN, ON_ANSWER,
     .help = "never choose an end token"},

    {"--process-output",                NULL,         OPT_ON,   AT(calib.output),    0, 0, GROUP_EVAL, ON(IMATRIX),
     .help = "--imatrix-out includes the output matrix"},
    {"--in-file",                       "FILE",       OPT_LIST, AT(in_files),        0, 0,
     GROUP_EVAL, ON(IMATRIX) | ON(STATISTICS),
     .help = "importance matrix that --imatrix-out adds (several are possible, a text is not needed then) or "
             "--show-statistics prints"},

    {"-s --seed",                       "N",          OPT_I64,  AT(seed),            -1, 0x1p63, GROUP_SAMPLE, ON_ANSWER,
     .help = "seed of the random numbers; equal seeds give equal text; -1 draws one and prints it on stderr"},
    {"--samplers",                      "LIST",       OPT_STR,  AT(samp.samplers),   0, 0, GROUP_SAMPLE, ON_ANSWER,
     .help = "the sampler chain, names in order, separated by semicolons"},
    {"--sampling-seq --sampler-seq",    "LETTERS",    OPT_STR,  AT(samp.sampling_seq), 0, 0, GROUP_SAMPLE, ON_ANSWER,
     .help = "the sampler chain as letters, such as edskypmxt"},
    {"--diffusion-steps",               "N",          OPT_INT,  AT(gen.diffuse.steps), 1, 65536, GROUP_SAMPLE, ON_ANSWER,
     .help = "models that decode by diffusion: steps of an answer; of -n tokens, 128 without -n, it takes at most as many"},
    {"--diffusion-block-length",        "N",          OPT_INT,  AT(gen.diffuse.block), 0, 65536, GROUP_SAMPLE, ON_ANSWER,
     .help = "models that decode by diffusion: the answer is written in blocks of N tokens, from left to right; 0 is as "
             "the model was trained, or by time where --diffusion-eps is given"},
    {"--diffusion-eps",                 "X",          OPT_FLT,  AT(gen.diffuse.eps), 0, 0.5, GROUP_SAMPLE, ON_ANSWER,
     .help = "models that decode by diffusion: the answer is written as one block, by a time that falls from 1 to X; 0 is as "
             "the model was trained"},
    {"--diffusion-algorithm",           "N",          OPT_INT,  AT(gen.diffuse.algorithm), 0, DIFFUSE_ALGORITHMS - 1,
     GROUP_SAMPLE, ON_ANSWER,
     .help = "models that decode by diffusion: which tokens come first: 0 any, 1 by entropy, 2 by margin, 3 at random, 4 by "
             "probability"},
    {"--diffusion-alg-temp",            "X",          OPT_FLT,  AT(gen.diffuse.alg_temp), 0, 1e3, GROUP_SAMPLE, ON_ANSWER,
     .help = "models that decode by diffusion: above 0 the tokens that come first are drawn by confidence / X"},
    SAMPLING("--temp --temperature",           "X", temp, ALONE),
    SAMPLING("--top-k",                        "N", top_k, ALONE),
    SAMPLING("--top-p",                        "X", top_p, ALONE),
    SAMPLING("--min-p",                        "X", min_p, ALONE),
    SAMPLING("--typical --typical-p",          "X", typical_p, ALONE),
    SAMPLING("--top-nsigma --top-n-sigma",     "X", top_nsigma, ALONE),
    SAMPLING("--xtc-probability",              "X", xtc_probability, ALONE),
    SAMPLING("--xtc-threshold",                "X", xtc_threshold, BESIDE_XTC),
    SAMPLING("--dynatemp-range",               "X", dynatemp_range, ALONE),
    SAMPLING("--dynatemp-exp",                 "X", dynatemp_exp, BESIDE_DYNATEMP),
    SAMPLING("--repeat-penalty",               "X", repeat_penalty, ALONE),
    SAMPLING("--repeat-last-n",                "N", repeat_last_n, BESIDE_PENALTY),
    SAMPLING("--presence-penalty",             "X", presence_penalty, ALONE),
    SAMPLING("--frequency-penalty",            "X", frequency_penalty, ALONE),
    SAMPLING("--dry-multiplier",               "X", dry_multiplier, ALONE),
    SAMPLING("--dry-base",                     "X", dry_base, BESIDE_DRY),
    SAMPLING("--dry-allowed-length",           "N", dry_allowed_length, BESIDE_DRY),
    SAMPLING("--dry-penalty-last-n",           "N", dry_penalty_last_n, BESIDE_DRY),
    {"--dry-sequence-breaker",          "TEXT",       OPT_LIST, AT(breakers),        0, 0, GROUP_SAMPLE, ON_ANSWER,
     .help = "no DRY repetition extends over TEXT; replaces the default (newline, colon, quote, star), none "
             "removes it; may be given several times", .beside = BESIDE_DRY},
    SAMPLING("--mirostat",                     "N", mirostat, ALONE),
    SAMPLING("--mirostat-lr",                  "X", mirostat_lr, BESIDE_MIROSTAT),
    SAMPLING("--mirostat-ent",                 "X", mirostat_ent, BESIDE_MIROSTAT),
    {"-l --logit-bias",                 "ID+X|ID-X",  OPT_LIST, AT(bias),            0, 0, GROUP_SAMPLE, ON_ANSWER,
     .help = "add X to the logit of token ID, such as 15043+1 or 15043-inf; may be given several times"},

    {"--grammar",                       "GRAMMAR",    OPT_STR,  AT(hold.grammar),    0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the answer is a text of this grammar, in GBNF, the notation of llama.cpp"},
    {"--grammar-file",                  "FILE",       OPT_STR,  AT(hold.grammar_file), 0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the same with the grammar of FILE"},
    {"-j --json-schema",                "JSON",       OPT_STR,  AT(hold.schema),     0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the answer is JSON that this JSON Schema (2020-12) accepts; {\"type\":\"object\"} is any object"},
    {"-jf --json-schema-file",          "FILE",       OPT_STR,  AT(hold.schema_file), 0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the same with the schema of FILE"},
    {"--regex",                         "PATTERN",    OPT_STR,  AT(hold.regex),      0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the answer as a whole matches this regular expression, as Python writes them (\\w, \\d, \\s are "
             "Unicode's), without backreferences and lookaround"},
    {"--choice",                        "A|B",        OPT_STR,  AT(hold.choice),     0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the answer is one of these texts, which bars separate; \\| is a bar in a text, \\\\ a backslash"},
    {"--grammar-after",                 "TEXT",       OPT_STR,  AT(hold.after),      0, 0, GROUP_HOLD, ON_HOLD,
     .help = "the constraint begins after the first TEXT of the answer", .beside = BESIDE_HOLD},
    {"--close",                         NULL,         OPT_ON,   AT(hold.close),      0, 0, GROUP_HOLD, ON_ANSWER,
     .help = "choose only tokens from which a valid answer can be finished within -n and the context, where that is "
             "possible; on by default",
     .beside = BESIDE_HOLD},
    {"--no-close",                      NULL,         OPT_OFF,  AT(hold.close),      0, 0, GROUP_HOLD, ON_ANSWER,
     .help = "choose any token that the constraint allows, although -n may then cut the answer", .beside = BESIDE_HOLD},
    {"--schema-loose",                  NULL,         OPT_ON,   AT(hold.lax),        0, 0, GROUP_HOLD, ON_ANSWER | ON(MASK),
     .help = "drop uniqueItems where it cannot be kept while generating, with a note, in place of refusing the schema",
     .beside = BESIDE_SCHEMA},
    {"--json-order",                    "schema|any", OPT_WORD, AT(hold.order),      0, 0, GROUP_HOLD, ON_ANSWER | ON(MASK),
     .help = "order of the keys that are written: as the schema declares them, or any", .beside = BESIDE_SCHEMA},
    {"--json-space",                    "none|one|lines", OPT_WORD, AT(hold.space),      0, 0, GROUP_HOLD, ON_ANSWER | ON(MASK),
     .help = "white space in JSON that is written: none, at most one blank, or also a line break with indentation",
     .beside = BESIDE_SCHEMA},

    {"-md --model-draft --spec-draft-model", "FILE",       OPT_STR,  AT(spec.draft),      0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "draft model: a small model with the same vocabulary, or a draft head of this model in a file of its own, that "
             "proposes tokens; one step of the large model checks them; used where that is faster"},
    {"--draft-max --draft --draft-n --spec-draft-n-max", "N",          OPT_INT,  AT(spec.most),       1, SPEC_MOST,
     GROUP_SPEC, ON_ANSWER,
     .help = "most tokens that are drafted for one step; how many are drafted is chosen from measured times",
     .beside = BESIDE_DRAFTS},
    {"--draft-min --draft-n-min --spec-draft-n-min", "N",          OPT_INT,  AT(spec.least),      0, SPEC_MOST,
     GROUP_SPEC, ON_ANSWER,
     .help = "tokens that are drafted in every step, even where that is slower", .beside = BESIDE_DRAFTS},
    {"--draft-p-min --spec-draft-p-min", "P",          OPT_FLT,  AT(spec.p_min),      0, 1, GROUP_SPEC, ON_ANSWER,
     .help = "the draft ends before a token of lower probability", .beside = BESIDE_DRAFTER},
    {"--draft-vocab",                   "N",          OPT_INT,  AT(spec.n_vocab),    0, CLI_BIG, GROUP_SPEC, ON_ANSWER,
     .help = "the draft model or head proposes among the first N tokens of the vocabulary only, which is faster where "
             "these are the common ones; 0 is all", .beside = BESIDE_DRAFTER},
    {"--lookup",                        NULL,         OPT_ON,   AT(spec.lookup),     0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "draft tokens from what followed the last words earlier in the text (n-gram lookup; in a batch also "
             "in finished answers); on by default"},
    {"--no-lookup",                     NULL,         OPT_OFF,  AT(spec.lookup),     0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "no n-gram lookup"},
    {"--head",                          NULL,         OPT_ON,   AT(spec.head),       0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "draft tokens with the draft head of the model, where its file has one (NextN, MTP); on by default"},
    {"--no-head",                       NULL,         OPT_OFF,  AT(spec.head),       0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "the draft head of the model is not used; a prompt cache is written anew when that changes"},
    {"--lookup-cache --lookup-cache-dynamic -lcd", "FILE",       OPT_STR,  AT(spec.cache),      0, 0, GROUP_SPEC, ON_ANSWER,
     .help = "keep answers in FILE, which is created if missing, and draft from it in later runs", .beside = BESIDE_LOOKUP},

    {"-c --ctx-size",                   "N",          OPT_INT,  AT(fwd.n_ctx),       -1, CLI_BIG,
     GROUP_CACHE, (ON_STEPS & ~ON(DIVERGENCE)) | ON_QUANTIZE,
     .help = "context in tokens; 0 is the model's own, -1 is what the request needs, up to the model's own",
     .beside = BESIDE_TEXT},
    {"-ctk --cache-type-k",             CLI_CACHE_TYPES, OPT_TYPE, AT(kv.type_k),       0, 0, GROUP_CACHE, ON_RUN,
     .help = "type of the cached keys; the default is f32 for --score, --logits, --perplexity, --kl-divergence and "
             "--imatrix-out", .beside = BESIDE_TEXT},
    {"-ctv --cache-type-v",             CLI_CACHE_TYPES, OPT_TYPE, AT(kv.type_v),       0, 0, GROUP_CACHE, ON_RUN,
     .help = "type of the cached values; the default is f32 for the same actions; latent attention (MLA) caches no values",
     .beside = BESIDE_TEXT},
    {"--kv-block-size",                 "N",          OPT_INT,  AT(kv.block),        1, 65536, GROUP_CACHE, ON_RUN,
     .help = "tokens in a block of the cache; the default is 8 for --batch without --prompt-cache", .beside = BESIDE_TEXT},
    {"--kv-blocks",                     "N",          OPT_INT,  AT(kv.max_blocks),   0, CLI_BIG, GROUP_CACHE, ON_RUN,
     .help = "most blocks in the cache; 0 is as many as the context needs", .beside = BESIDE_TEXT},
    {"--kv-mem",                        "SIZE",       OPT_SIZE, AT(kv.mem_bytes),    0, 0x1p50, GROUP_CACHE, ON_RUN,
     .help = "most memory of the cache, with suffix K, M or G; 0 is as much as the context needs", .beside = BESIDE_TEXT},
    {"--state-mem",                     "SIZE",       OPT_SIZE, AT(kv.state_bytes),  0, 0x1p50, GROUP_CACHE, ON_RUN,
     .help = "most memory of recurrent states, one for each sequence and snapshots of them, with suffix K, M or G; "
             "0 is a quarter of the cache or what the sequences need", .beside = BESIDE_TEXT},
    {"--prompt-cache",                  "FILE",       OPT_STR,  AT(kv.cache),        0, 0, GROUP_CACHE, ON_ANSWER,
     .help = "keep the KV cache of prompts in FILE, which is created if missing; later prompts with the same "
             "beginning start from it"},
    {"--prompt-cache-ro",               NULL,         OPT_ON,   AT(kv.cache_ro),     0, 0, GROUP_CACHE, ON_ANSWER,
     .help = "read the file of --prompt-cache and leave it unchanged", .beside = BESIDE_CACHE},
    {"--prompt-cache-all",              NULL,         OPT_ON,   AT(kv.cache_all),    0, 0, GROUP_CACHE, ON_ANSWER,
     .help = "no effect: answers are always kept in the file of --prompt-cache too", .beside = BESIDE_CACHE},
    {"--prompt-cache-size",             "SIZE",       OPT_SIZE, AT(kv.cache_bytes),  0, 0x1p50, GROUP_CACHE, ON_ANSWER,
     .help = "most bytes in the file of --prompt-cache; the most recently used blocks are kept", .beside = BESIDE_CACHE},
    {"--context-shift",                 NULL,         OPT_ON,   AT(gen.context_shift), 0, 0, GROUP_CACHE, ON(GENERATE),
     .help = "when the context is full, drop the older half of it and continue"},
    {"--no-context-shift",              NULL,         OPT_OFF,  AT(gen.context_shift), 0, 0, GROUP_CACHE, ON(GENERATE),
     .help = "when the context is full, end the answer; the default"},
    {"--keep",                          "N",          OPT_I64,  AT(gen.n_keep),      -1, CLI_BIG, GROUP_CACHE, ON(GENERATE),
     .help = "first tokens of the prompt that --context-shift keeps; -1 is all", .beside = BESIDE_SHIFT},

    {"--rope-scaling",                  "none|linear|yarn", OPT_WORD, AT(fwd.rope.scaling), 0, 0, GROUP_ROPE, ON_RUN,
     .help = "method of scaling positions beyond the trained context", .beside = BESIDE_TEXT},
    {"--rope-scale",                    "X",          OPT_FLT,  AT(fwd.rope.factor), 0, 1e6, GROUP_ROPE, ON_RUN,
     .help = "factor by which the context is extended; 0 is the model's own", .beside = BESIDE_TEXT},
    {"--rope-freq-base",                "X",          OPT_FLT,  AT(fwd.rope.base),   0, 1e12, GROUP_ROPE, ON_RUN,
     .help = "base of the frequencies; 0 is the model's own", .beside = BESIDE_TEXT},
    {"--rope-freq-scale",               "X",          OPT_FLT,  AT(rope_freq_scale), 0, 1e6, GROUP_ROPE, ON_RUN,
     .help = "1 / --rope-scale", .beside = BESIDE_TEXT},
    {"--yarn-orig-ctx",                 "N",          OPT_INT,  AT(fwd.rope.orig_ctx), 0, CLI_BIG, GROUP_ROPE, ON_RUN,
     .help = "context that the model was trained on; 0 is the model's own", .beside = BESIDE_TEXT},
    {"--yarn-ext-factor",               "X",          OPT_FLT,  AT(fwd.rope.yarn_ext), -1, 100, GROUP_ROPE, ON_RUN,
     .help = "YaRN mix of extrapolation, 0 to 1; -1 follows --rope-scaling", .beside = BESIDE_TEXT},
    {"--yarn-attn-factor",              "X",          OPT_FLT,  AT(fwd.rope.yarn_attn), -1, 100, GROUP_ROPE, ON_RUN,
     .help = "factor of the attention scores; -1 is the model's own", .beside = BESIDE_TEXT},
    {"--yarn-beta-fast",                "X",          OPT_FLT,  AT(fwd.rope.yarn_fast), -1, 1e6, GROUP_ROPE, ON_RUN,
     .help = "pairs with more rotations than X are not scaled; -1 is the model's own", .beside = BESIDE_TEXT},
    {"--yarn-beta-slow",                "X",          OPT_FLT,  AT(fwd.rope.yarn_slow), -1, 1e6, GROUP_ROPE, ON_RUN,
     .help = "pairs with fewer rotations than X are fully scaled; -1 is the model's own", .beside = BESIDE_TEXT},

    {"--calibrate",                     "FILE",       OPT_STR,  AT(calibrate),       0, 0, GROUP_QUANT, ON_TYPES,
     .help = "calibrated rounding (GPTQ style) on the text of FILE; slow, and takes memory: without --chunks as "
             "many chunks as 4 GiB hold"},
    {"--imatrix",                       "FILE",       OPT_STR,  AT(imatrix),         0, 0, GROUP_QUANT, ON_TYPES,
     .help = "importance matrix that weighs the rounding errors (--imatrix-out writes one)"},
    {"--tensor-type",                   "PATTERN=TYPE", OPT_LIST, AT(tensor_types),    0, 0, GROUP_QUANT, ON_TYPES,
     .help = "TYPE for the tensors whose names match a regular expression; the first matching option counts; may "
             "be given several times; one that gives no tensor its type is refused"},
    {"--output-tensor-type",            "TYPE",       OPT_STR,  AT(quant.output_type), 0, 0, GROUP_QUANT, ON_TYPES,
     .help = "type of the output matrix"},
    {"--token-embedding-type",          "TYPE",       OPT_STR,  AT(quant.embd_type), 0, 0, GROUP_QUANT, ON_TYPES,
     .help = "type of the token embeddings"},
    {"--leave-output-tensor",           NULL,         OPT_ON,   AT(quant.leave_output), 0, 0, GROUP_QUANT, ON_TYPES,
     .help = "keep the type of the output matrix"},
    {"--pure",                          NULL,         OPT_ON,   AT(quant.pure),      0, 0, GROUP_QUANT, ON_TYPES,
     .help = "give every matrix the base type, without a mixture"},
    {"--allow-requantize",              NULL,         OPT_ON,   AT(quant.requantize), 0, 0, GROUP_QUANT, ON_TYPES,
     .help = "accept weights that are quantised already, which lose quality twice"},
    {"--dry-run",                       NULL,         OPT_ON,   AT(quant.dry_run),   0, 0, GROUP_QUANT, ON_QUANTIZE | ON_LINES,
     .help = "write nothing; --quantize prints the new type of each tensor and the sizes; --batch names the wrong lines, counts "
             "tokens, and estimates time and price from a sample that it runs"},

    {"--prompt-template",               "TEXT",       OPT_STR,  AT(batch.prompt),    0, 0, GROUP_BATCH, ON_LINES,
     .help = "make a prompt of each row of CSV or TSV, or of each JSON object: {COLUMN} is its value, {{ and }} are braces; a "
             "message where the model has a chat template"},
    {"--input-format",                  "jsonl|csv|tsv|text", OPT_WORD, AT(batch.input), 0, 0, GROUP_BATCH, ON_LINES,
     .help = "form of the files; without it by the name (.csv, .tsv) or the first line; the first row of CSV and TSV names "
             "the columns, a line of text is the column text"},
    {"--id-column",                     "NAME",       OPT_STR,  AT(batch.id_column), 0, 0, GROUP_BATCH, ON_LINES,
     .help = "with --prompt-template, the column whose value is the custom_id of the record (custom_id)",
     .beside = BESIDE_PROMPTS},
    {"-np --parallel",                  "N",          OPT_INT,  AT(batch.n_parallel), 1, 1024, GROUP_BATCH, ON_MANY,
     .help = "most sequences that run at the same time; fewer run when the cache is full"},
    {"--resume",                        NULL,         OPT_ON,   AT(resume),          0, 0, GROUP_BATCH, ON_LINES,
     .help = "continue the results in the -o file: lines that it answers are not run again; records that answer no "
             "line of the input are moved to FILE.stale"},
    {"--retry-errors",                  NULL,         OPT_ON,   AT(retry_errors),    0, 0, GROUP_BATCH, ON_LINES,
     .help = "with --resume: run the lines again whose record is an error", .beside = BESIDE_RESUME},
    {"--print0",                        NULL,         OPT_ON,   AT(print0),          0, 0, GROUP_BATCH, ON_BATCH | ON(MERGE),
     .help = "with --format text: a NUL ends each answer, not a newline"},
    {"--batch-order",                   "plan|input", OPT_WORD, AT(batch.order),     0, 0, GROUP_BATCH, ON_LINES,
     .help = "plan: prompts with the same beginning run one after the other, so that it is computed once; input: "
             "the order of the file"},
    {"--ordered",                       NULL,         OPT_ON,   AT(batch.ordered),   0, 0, GROUP_BATCH, ON_LINES,
     .help = "results in the order of the input: the -o file is sorted when its last line is answered; on stdout "
             "up to --batch-window results wait for earlier ones"},
    {"--batch-fields",                  "F,F",        OPT_STR,  AT(batch.fields),    0, 0, GROUP_BATCH, ON_LINES,
     .help = "add fields to each record: prompt, seed, logprob (of each completion: the sum over its tokens), "
             "times (seconds until its turn, its first and its last token); with --prompt-template also columns by their "
             "names, or all"},
    {"--batch-window",                  "N",          OPT_INT,  AT(batch.window),    1, 1 << 20, GROUP_BATCH, ON_LINES,
     .help = "lines that are read ahead and planned together"},
    {"--batch-line",                    "SIZE",       OPT_SIZE, AT(batch.line_bytes), 1, 0x1p32, GROUP_BATCH, ON_LINES,
     .help = "longest line in bytes; a longer one is answered with an error"},
    {"--batch-static",                  NULL,         OPT_ON,   AT(batch.fixed),     0, 0, GROUP_BATCH, ON_BATCH,
     .help = "static batches, for comparison: no request joins a batch before all of its requests have ended"},
    {"--shard",                         "I/N|auto",   OPT_STR,  AT(batch.shard),     0, 0, GROUP_BATCH, ON_LINES,
     .help = "answer part I of N of the file; prompts with the same beginning are in one part; auto: as Slurm, MPI, "
             "Kubernetes or GNU parallel number this task; {shard} in -o is the part's number; --merge joins the results"},
    {"--cost-per-hour",                 "X",          OPT_FLT,  AT(batch.cost),      0, 1e9, GROUP_BATCH, ON_LINES,
     .help = "price of an hour of this machine; the summary prints the price of a million tokens"},

    {"--api-key",                       "KEY",        OPT_STR,  AT(serve.key),       0, 0, GROUP_SERVE, ON_SERVE,
     .help = "requests need Authorization: Bearer KEY, or x-api-key: KEY", .env = "LLMRUN_API_KEY"},
    {"--api-key-file",                  "FILE",       OPT_STR,  AT(serve.key_file),  0, 0, GROUP_SERVE, ON_SERVE,
     .help = "the same with the keys of FILE, one on a line"},
    {"--no-api-key",                    NULL,         OPT_ON,   AT(serve.no_key),    0, 0, GROUP_SERVE, ON_SERVE,
     .help = "serve other machines without a key"},
    {"--cors",                          "ORIGIN",     OPT_STR,  AT(serve.cors),      0, 0, GROUP_SERVE, ON_SERVE,
     .help = "pages of this origin may ask, such as http://localhost:3000; * is any"},
    {"--max-body",                      "SIZE",       OPT_SIZE, AT(serve.max_body),  1, 0x1p32, GROUP_SERVE, ON_SERVE,
     .help = "largest body of a request"},
    {"--queue",                         "N",          OPT_INT,  AT(serve.queue),     0, 1 << 20, GROUP_SERVE, ON_SERVE,
     .help = "most requests that wait for their turn; further ones are answered with 503"},
    {"-a --alias",                      "NAME",       OPT_STR,  AT(serve.alias),     0, 0, GROUP_SERVE, ON_SERVE,
     .help = "name of the model in answers, in place of the file's"},
    {"--request-timeout",               "SECONDS",    OPT_FLT,  AT(serve.timeout),   0, 1e9, GROUP_SERVE, ON_SERVE,
     .help = "end requests that take longer; 0 is no limit"},
    {"--stall",                         "SECONDS",    OPT_FLT,  AT(serve.stall),     1, 1e6, GROUP_SERVE, ON_SERVE,
     .help = "end an answer whose reader takes nothing for so long"},
    {"--drain",                         "SECONDS",    OPT_FLT,  AT(serve.drain),     0, 1e6, GROUP_SERVE, ON_SERVE,
     .help = "after a signal, let running answers end for so long"},
    {"--files",                         "DIR",        OPT_STR,  AT(serve.files),     0, 0, GROUP_SERVE, ON_SERVE,
     .help = "keep files and batches of /v1/files and /v1/batches in DIR; a batch goes on where it was after a restart"},
    {"--files-max",                     "SIZE",       OPT_SIZE, AT(serve.files_max), 1, 0x1p50, GROUP_SERVE, ON_SERVE,
     .help = "most bytes of all files of --files", .beside = BESIDE_FILES},
    {"--connections",                   "N",          OPT_INT,  AT(serve.connections), 1, 65536, GROUP_SERVE, ON_SERVE,
     .help = "most connections at a time"},

    {"-m --model",                      "FILE",       OPT_LIST, AT(models),          0, 0, GROUP_BENCH, ON_BENCH,
     .help = "model file (GGUF); may be given several times"},
    {"-p --n-prompt",                   "N,N",        OPT_NUMS, AT(bench.prompt),    0, BENCH_MOST, GROUP_BENCH, ON_BENCH,
     .help = "prefill tests of N tokens, 0 is none; lists are values with commas, ranges (1-8, 1-8+2, 1-8*2), or "
             "the option given several times"},
    {"-n --n-gen",                      "N,N",        OPT_NUMS, AT(bench.gen),       0, BENCH_MOST, GROUP_BENCH, ON_BENCH,
     .help = "decode tests of N tokens, 0 is none"},
    {"-pg --n-prompt-gen",              "P,N",        OPT_PAIR, AT(bench.pair),      0, BENCH_MOST, GROUP_BENCH, ON_BENCH,
     .help = "tests of P tokens of prefill followed by N of decode"},
    {"-d --n-depth",                    "N,N",        OPT_NUMS, AT(bench.depth),     0, BENCH_MOST, GROUP_BENCH, ON_BENCH,
     .help = "tokens that are in the cache before a test begins"},
    {"-npl --n-parallel",               "N,N",        OPT_NUMS, AT(bench.seqs),      1, BENCH_SEQS, GROUP_BENCH, ON_BENCH,
     .help = "sequences that decode at the same time; tests with drafts have one"},
    {"-md --model-draft --spec-draft-model", "FILE",       OPT_STR,  AT(bench.draft),     0, 0, GROUP_BENCH, ON_BENCH,
     .help = "draft model or draft head of the tests with --draft-max, whose time counts; without it drafts take no time, as "
             "those of --lookup"},
    {"--head",                          NULL,         OPT_ON,   AT(bench.head),      0, 0, GROUP_BENCH, ON_BENCH,
     .help = "the draft head of the model proposes in the tests with --draft-max, and its time counts"},
    {"--draft-vocab",                   "N",          OPT_INT,  AT(bench.draft_vocab), 0, CLI_BIG, GROUP_BENCH, ON_BENCH,
     .help = "the draft model or head proposes among the first N tokens of the vocabulary; 0 is all", .beside = BESIDE_DRAFTER},
    {"--draft-max --draft --draft-n --spec-draft-n-max", "N,N",        OPT_NUMS, AT(bench.guess),     0, SPEC_MOST,
     GROUP_BENCH, ON_BENCH,
     .help = "repeat each decode test with up to N drafted tokens a step; 0 is none"},
    {"--acceptance",                    "X,X",        OPT_NUMS, AT(bench.chance),    0, 100, GROUP_BENCH, ON_BENCH,
     .help = "simulated acceptance of drafted tokens in per cent: of each, where those before it are accepted"},
    {"-b --batch-size --n-batch",       "N,N",        OPT_NUMS, AT(bench.batch),     1, 65536, GROUP_BENCH, ON_BENCH,
     .help = "compute logits once every N tokens of a prompt"},
    {"-ub --ubatch-size --n-ubatch",    "N,N",        OPT_NUMS, AT(bench.ubatch),    1, 65536, GROUP_BENCH, ON_BENCH,
     .help = "tokens that are computed together"},
    {"-t --threads",                    "N,N",        OPT_NUMS, AT(bench.threads),   0, 1024, GROUP_BENCH, ON_BENCH,
     .help = "threads; 0 is the number of CPUs that this process may use"},
    {"-ctk --cache-type-k",             CLI_CACHE_TYPES, OPT_TYPES, AT(bench.type_k),    0, 0, GROUP_BENCH, ON_BENCH,
     .help = "types of the cached keys"},
    {"-ctv --cache-type-v",             CLI_CACHE_TYPES, OPT_TYPES, AT(bench.type_v),    0, 0, GROUP_BENCH, ON_BENCH,
     .help = "types of the cached values"},
    {"--cpu",                           CLI_LEVELS,   OPT_LEVELS, AT(bench.level),     0, 0, GROUP_BENCH, ON_BENCH,
     .help = "kernel levels"},
    {"--repack",                        CLI_REPACKS,  OPT_WORDS, AT(bench.repack),    0, 0, GROUP_BENCH, ON_BENCH,
     .help = "layouts of quantised weights"},
    {"-r --repetitions",                "N",          OPT_INT,  AT(bench.reps),      1, BENCH_REPS, GROUP_BENCH, ON_BENCH,
     .help = "times that each test runs"},
    {"--no-warmup",                     NULL,         OPT_ON,   AT(bench.no_warmup), 0, 0, GROUP_BENCH, ON_BENCH,
     .help = "do not run one step before each test"},
    {"--plot",                          "FILE",       OPT_STR,  AT(plot),            0, 0, GROUP_BENCH, ON_BENCH | ON(QUALITY),
     .help = "draw the rates of all tests to FILE, as SVG: bars, or lines where depth or sequences vary; --quality: sizes and "
             "divergences"},

    {"-o --output",                     "FILE",       OPT_STR,  AT(output),          0, 0,
     GROUP_OUT, ON_ALL & ~(ON(LOGITS) | ON(IMATRIX)),
     .help = "write the answer to FILE in place of stdout; --quantize: the new model; the extension says the form: --bench md, "
             "csv, json or jsonl, which may stand alone; vectors f32, npy or txt; --batch csv, tsv, txt or json (a list), which "
             "is made when the run ends, from the records that stay in FILE.csv.jsonl for --resume and --merge"},
    {"--ids",                           NULL,         OPT_ON,   AT(text.ids),        0, 0, GROUP_OUT, ON(GENERATE),
     .help = "print token ids on one line in place of text"},
    {"--echo --display-prompt",         NULL,         OPT_ON,   AT(echo),            0, 0, GROUP_OUT, ON(GENERATE),
     .help = "print the prompt before the answer; with --ids, its token ids"},
    {"--format", "text|json|jsonl|csv|tsv|md|man|bash|zsh|fish", OPT_WORD, AT(format), 0, 0, GROUP_OUT, ON_ALL,
     .help = "form of the output, where several exist: all of md, csv, json, jsonl for --bench; csv or json for "
             "--show-statistics; text, csv, tsv or jsonl for the answers of --batch: the answers alone in the order of the "
             "input, a row for each completion, records; json for generation, --score, --tokenize, --inspect, "
             "--perplexity, --kl-divergence and the summary of --batch; md for --list; md, man, bash, "
             "zsh or fish for --help: a man page or the completions of a shell"},
    {"--json",                          NULL,         OPT_ON,   AT(json),            0, 0, GROUP_OUT, ON_ALL,
     .help = "the same as --format json"},
    {"-q --quiet",                      NULL,         OPT_SET,  AT(log_level),       LOG_QUIET, 0, GROUP_OUT, ON_ALL,
     .help = "print nothing but errors on stderr"},
    {"-v --verbose",                    NULL,         OPT_SET,  AT(log_level),       LOG_VERBOSE, 0, GROUP_OUT, ON_ALL,
     .help = "print more on stderr"},
};
enum { N_CLI_OPTS = sizeof cli_opts / sizeof *cli_opts };
_Static_assert((int)N_CLI_OPTS <= (int)CLI_OPTS_MAX, "config.given has a place for every row");

/* Options that llama.cpp has and llmrun has not. Idle ones would change nothing here: they are accepted with one line on stderr,
 * so that scripts run. The others are refused by name. A name that is also in cli_opts means that option on the actions that
 * it serves. */
typedef enum { CLI_IDLE, CLI_MISSING } cli_fate;

typedef struct {
    const char *names, *arg;                          /* as in cli_opt; in square brackets: the value is optional */
    cli_fate    fate;
    const char *instead;                              /* of a missing one: what to use here, or NULL */
} cli_foreign;

#define CLI_SWITCH "[on|off|auto|0|1|true|false|enabled|disabled]"

static const cli_foreign cli_foreigners[] = {
    {"-fa --flash-attn", CLI_SWITCH, CLI_IDLE, NULL},
    {"-mmp --mmap --no-mmap", "[0|1]", CLI_IDLE, NULL},
    {"--mlock -dio --direct-io -ndio --no-direct-io", "[0|1]", CLI_IDLE, NULL},
    {"-lm --load-mode", "MODE", CLI_IDLE, NULL},
    {"-tb --threads-batch -td --threads-draft --spec-draft-threads -tbd --threads-batch-draft --spec-draft-threads-batch", "N",
     CLI_IDLE, NULL},
    {"-C --cpu-mask -Cb --cpu-mask-batch -Cd --cpu-mask-draft --spec-draft-cpu-mask -Cbd --cpu-mask-batch-draft "
     "--spec-draft-cpu-mask-batch",
     "MASK", CLI_IDLE, NULL},
    {"-Cr --cpu-range -Crb --cpu-range-batch -Crd --cpu-range-draft --spec-draft-cpu-range -Crbd --cpu-range-batch-draft "
     "--spec-draft-cpu-range-batch",
     "RANGE", CLI_IDLE, NULL},
    {"--cpu-strict --cpu-strict-batch --cpu-strict-draft --spec-draft-cpu-strict --cpu-strict-batch-draft "
     "--spec-draft-cpu-strict-batch",
     "N", CLI_IDLE, NULL},
    {"--prio --prio-batch --prio-draft --spec-draft-prio --prio-batch-draft --spec-draft-prio-batch", "N", CLI_IDLE, NULL},
    {"--poll --poll-batch --poll-draft --spec-draft-poll --poll-batch-draft --spec-draft-poll-batch", "N", CLI_IDLE, NULL},
    {"--delay", "N", CLI_IDLE, NULL},
    {"-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl", "N", CLI_IDLE, NULL},
    {"-sm --split-mode", "MODE", CLI_IDLE, NULL},
    {"-ts --tensor-split", "LIST", CLI_IDLE, NULL},
    {"-fit --fit", CLI_SWITCH, CLI_IDLE, NULL},
    {"-fitt --fit-target", "LIST", CLI_IDLE, NULL},
    {"-fitc --fit-ctx", "N", CLI_IDLE, NULL},
    {"-ot --override-tensor -otd --override-tensor-draft --spec-draft-override-tensor", "LIST", CLI_IDLE, NULL},
    {"-cmoe --cpu-moe -cmoed --cpu-moe-draft --spec-draft-cpu-moe", NULL, CLI_IDLE, NULL},
    {"-ncmoe --n-cpu-moe -ncmoed --n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe", "N", CLI_IDLE, NULL},
    {"-kvo --kv-offload -nkvo --no-kv-offload", "[0|1]", CLI_IDLE, NULL},
    {"--op-offload -nopo --no-op-offload --no-host --mmproj-offload --no-mmproj-offload", "[0|1]", CLI_IDLE, NULL},
    {"-nr --no-repack -bs --backend-sampling --spec-draft-backend-sampling --no-spec-draft-backend-sampling", NULL, CLI_IDLE,
     NULL},
    {"-kvu --kv-unified -no-kvu --no-kv-unified -cb --cont-batching -nocb --no-cont-batching --swa-full", NULL, CLI_IDLE, NULL},
    {"-ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step -cram --cache-ram", "N", CLI_IDLE, NULL},
    {"-dt --defrag-thold", "X", CLI_IDLE, NULL},
    {"--warmup --no-warmup --perf --no-perf --show-timings --no-show-timings --check-tensors", NULL, CLI_IDLE, NULL},
    {"--no-jinja --simple-io --no-display-prompt", NULL, CLI_IDLE, NULL},
    {"-co --color --log-colors", CLI_SWITCH, CLI_IDLE, NULL},
    {"--log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --verbose-prompt --progress", NULL,
     CLI_IDLE, NULL},
    {"--log-file", "FILE", CLI_IDLE, NULL},
    {"-lv --verbosity --log-verbosity", "N", CLI_IDLE, NULL},
    {"-ptc --print-token-count", "N", CLI_IDLE, NULL},
    {"-ofreq --output-frequency --save-frequency", "N", CLI_IDLE, NULL},

    {"-if --interactive-first -mli --multiline-input", NULL, CLI_MISSING, NULL},
    {"--chat-template", "TEXT", CLI_MISSING, "--chat-template-file FILE"},
    {"--reasoning-budget", "N", CLI_MISSING, "--think-budget N"},
    {"-rea --reasoning", "TEXT", CLI_MISSING, "--think on or off"},
    {"--in-prefix --in-suffix --reasoning-format", "TEXT", CLI_MISSING, NULL},
    {"--in-prefix-bos --spm-infill --prefill-assistant --no-prefill-assistant", NULL, CLI_MISSING, NULL},
    {"--control-vector --control-vector-scaled", "FILE", CLI_MISSING, NULL},
    {"--control-vector-layer-range", "N N", CLI_MISSING, NULL},
    {"-mm --mmproj -mmu --mmproj-url --image --audio --video", "FILE", CLI_MISSING, NULL},
    {"-mu --model-url -dr --docker-repo", "NAME", CLI_MISSING, "-hf OWNER/NAME takes a model of a hub"},
    {"--rpc -rpc -dev -devd --device-draft --spec-draft-device", "LIST", CLI_MISSING, NULL},
    {"--completion-bash", NULL, CLI_MISSING, NULL},
    {"--override-kv", "KEY=TYPE:VALUE", CLI_MISSING, NULL},
    {"--attention --embd-output-format --embd-separator --cls-separator", "NAME", CLI_MISSING, NULL},
    {"-embd", "[0|1]", CLI_MISSING, NULL},
    {"-gan --grp-attn-n -gaw --grp-attn-w --adaptive-target --adaptive-decay", "N", CLI_MISSING, NULL},
    {"-lcs --lookup-cache-static", "FILE", CLI_MISSING, "--lookup-cache FILE"},
    {"-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v", "TYPE", CLI_MISSING, NULL},
    {"--spec-type --draft-p-split --spec-draft-p-split", "X", CLI_MISSING, NULL},
    {"-bf --binary-file", "FILE", CLI_MISSING, "-f FILE takes any bytes"},
    {"--stdin", NULL, CLI_MISSING, "standard input is read where -p and -f are absent"},
    {"--show-count", NULL, CLI_MISSING, NULL},
    {"--parse-special", NULL, CLI_MISSING, "--special"},
    {"--ppl", NULL, CLI_MISSING, "--perplexity"},
    {"-fitp --fit-print", CLI_SWITCH, CLI_MISSING, NULL},
    {"--keep-split", NULL, CLI_MISSING, NULL},
    {"--chunk --from-chunk --ppl-output-type", "N", CLI_MISSING, NULL},
    {"--no-ppl --hellaswag --winogrande --multiple-choice --save-logits --check", NULL, CLI_MISSING, NULL},
    {"--hellaswag-tasks --winogrande-tasks --multiple-choice-tasks", "N", CLI_MISSING, NULL},
    {"--output-format", "FORM", CLI_MISSING, "--format"},
    {"-oe --output-err", "FORM", CLI_MISSING, NULL},
    {"-ns --sequences", "N", CLI_MISSING, "--batch FILE answers many prompts"},
    {"-npp -ntg", "LIST", CLI_MISSING, "--bench has -p, -n and -npl"},
    {"--include-weights --exclude-weights --prune-layers --tensor-type-file", "TEXT", CLI_MISSING, NULL},
    {"--host --port", "VALUE", CLI_MISSING, "--serve HOST:PORT"},
    {"-to --timeout", "N", CLI_MISSING, "--request-timeout SECONDS"},
    {"--path --slot-save-path", "DIR", CLI_MISSING, NULL},
    {"--ssl-key-file --ssl-cert-file", "FILE", CLI_MISSING, "a reverse proxy before --serve speaks TLS"},
    {"--threads-http", "N", CLI_IDLE, NULL},
    {"--cache-prompt --metrics --no-slots --ui --no-ui --webui --no-webui --reranking --rerank", NULL, CLI_IDLE, NULL},
    {"--no-cache-prompt --props --slots", NULL, CLI_MISSING, NULL},
};
enum { N_CLI_FOREIGN = sizeof cli_foreigners / sizeof *cli_foreigners };

/* What other programs call options of llmrun, in names or sub-commands. An error about one of them says what to write here. */
static const struct {
    const char *names, *use;                          /* names: separated by spaces; `use` begins with an option of llmrun */
} cli_others[] = {
    {"--max-tokens --max-new-tokens --max-completion-tokens --num-predict --num-tokens --n-tokens --tokens --max-length", "-n N"},
    {"--num-ctx --n-ctx --context --context-size --context-length --max-model-len --max-seq-len", "-c N"},
    {"--num-threads --n-threads --num-thread --cores --cpus", "-t N"},
    {"--gpu --gpus --n-gpu --num-gpu --use-gpu --cuda --ngl", "-ngl N, with --device N to choose a GPU"},
    {"--cpu-only --no-gpu", "-ngl 0"},
    {"--system --system-message", "-sys TEXT"},
    {"--schema --json-mode --guided-json --response-format", "--json-schema JSON"},
    {"--guided-regex --pattern", "--regex PATTERN"},
    {"--guided-choice --choices", "--choice \"A|B\""},
    {"--guided-grammar --gbnf", "--grammar GRAMMAR"},
    {"--repetition-penalty", "--repeat-penalty X"},
    {"--stop-sequence --stop-sequences --stop-token", "--stop TEXT"},
    {"--model-path --model-file --path-to-model --gguf", "-m FILE"},
    {"--prompt-file --input --input-file --infile", "-f FILE"},
    {"--out --outfile --output-file --save", "-o FILE"},
    {"--batch-file --input-jsonl --prompts", "--batch FILE"},
    {"--draft-model --speculative-model", "-md FILE"},
    {"--kv-cache-type --kv-cache-dtype --cache-type", "-ctk TYPE and -ctv TYPE"},
    {"--quant --quantization --outtype --ftype", "--quantize TYPE"},
    {"--reasoning-effort --thinking --enable-thinking", "--think on"},
    {"--no-think --no-thinking --nothink", "--think off"},
    {"--info --show --show-info --metadata", "--inspect"},
    {"--benchmark", "--bench"},
    {"--csv", "--format csv"},
    {"--jsonl", "--format jsonl"},
    {"--silent --no-log", "-q"},
};
enum { N_CLI_OTHERS = sizeof cli_others / sizeof *cli_others };

static const struct {
    const char *words, *use;                          /* words: separated by spaces */
} cli_subcommands[] = {
    {"chat run interactive", "llmrun -m FILE talks with a model in a terminal, llmrun -m FILE -p TEXT answers once"},
    {"list ls ps models", "llmrun --models lists those that are here"},
    {"serve server start", "llmrun -m FILE --serve PORT answers requests over HTTP"},
    {"pull download get install", "llmrun -hf OWNER/NAME downloads a model once and runs it"},
    {"rm remove delete", "llmrun --rm-model NAME removes a model that --models lists"},
    {"cp create push stop", "-m takes the path of a GGUF file, -hf a model of a hub"},
    {"generate complete completion prompt", "llmrun -m FILE -p TEXT answers TEXT"},
    {"embed embedding embeddings", "llmrun -m FILE --embed -p TEXT prints a vector"},
    {"batch", "llmrun -m FILE --batch IN -o OUT answers every line of IN"},
    {"bench benchmark", "llmrun -m FILE --bench measures the speed"},
    {"quantize convert", "llmrun -m FILE --quantize TYPE -o OUT writes a smaller model"},
    {"perplexity eval", "llmrun -m FILE --perplexity -f TEXT measures it"},
    {"show inspect info", "llmrun -m FILE --inspect prints what is in the file"},
    {"tokenize", "llmrun -m FILE --tokenize -p TEXT prints the ids"},
    {"help", "llmrun --help lists all options, llmrun -h the most used ones"},
    {"version", "llmrun --version prints it"},
};
enum { N_CLI_SUBCOMMANDS = sizeof cli_subcommands / sizeof *cli_subcommands };

/* The next word of a list separated by `sep`; false at the end. */
static bool cli_word(const char **list, char sep, bytes *out) {
    if (!*list || !**list) return false;
    const char *end = strchr(*list, sep);
    size_t      n = end ? (size_t)(end - *list) : strlen(*list);
    *out = (bytes){(const uint8_t *)*list, n};
    *list += n + (end != NULL);
    return true;
}

/* Appends the words of such a list: "a, b or c". */
static void cli_or(const char *list, char sep, str *out) {
    for (bytes w; cli_word(&list, sep, &w);) {
        str_put(out, !out->n ? "" : *list ? ", " : " or ");
        str_cat(out, w);
    }
}

/* The row with this spelling, NULL: none. Where two rows have it, --bench takes the one of its own group,
 * others take the other. */
static const cli_opt *cli_find(bool bench, bytes name) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N_CLI_OPTS; i++) {
            const char *names = cli_opts[i].names;
            if ((cli_opts[i].group == GROUP_BENCH) != (bench == (pass == 0))) continue;
            for (bytes w; cli_word(&names, ' ', &w);)
                if (bytes_eq(w, name)) return &cli_opts[i];
        }
    return NULL;
}

/* Whether two names are alike, a dash being the same as an underscore. */
static bool cli__alike(bytes a, bytes b) {
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if ((a.p[i] == '_' ? '-' : a.p[i]) != b.p[i]) return false;
    return true;
}

/* What to write in place of an option of another program; NULL: it is not known. */
static const char *cli_instead(bytes name) {
    for (int i = 0; i < N_CLI_OTHERS; i++) {
        const char *names = cli_others[i].names;
        for (bytes w; cli_word(&names, ' ', &w);)
            if (cli__alike(name, w)) return cli_others[i].use;
    }
    return NULL;
}

/* The same for the first word of a command line. */
static const char *cli__subcommand(const char *word) {
    for (int i = 0; i < N_CLI_SUBCOMMANDS; i++) {
        const char *words = cli_subcommands[i].words;
        for (bytes w; cli_word(&words, ' ', &w);)
            if (bytes_is(w, word)) return cli_subcommands[i].use;
    }
    return NULL;
}

/* The row of an option of llama.cpp, NULL when it is none. */
static const cli_foreign *cli__foreign(bytes name) {
    for (int i = 0; i < N_CLI_FOREIGN; i++) {
        const char *names = cli_foreigners[i].names;
        for (bytes w; cli_word(&names, ' ', &w);)
            if (bytes_eq(w, name)) return &cli_foreigners[i];
    }
    return NULL;
}

/* The sampling parameter that an option sets, NULL: none. */
static const samp_param *cli_param(const cli_opt *o) {
    for (int i = 0; i < SAMP_PARAMS; i++)
        if (o->kind == OPT_SAMP && AT(samp) + samp_params[i].at == o->at) return &samp_params[i];
    return NULL;
}

/* The row, complete: a sampling parameter has its kind, bounds and help in samp_params. */
static cli_opt cli_full(const cli_opt *o) {
    const samp_param *p = cli_param(o);
    cli_opt           full = *o;
    if (!p) return full;
    full.kind = p->whole ? OPT_INT : OPT_FLT;
    full.lo = p->lo;
    full.hi = p->hi;
    full.help = p->help;
    return full;
}

static bool cli__serves(const cli_opt *o, int action) { return o->serves >> action & 1; }

/* Whether `name` beside this action means this row. */
static bool cli__usable(const cli_opt *o, bytes name, int action) {
    if (cli_find(action == ACT_BENCH, name) != o) return false;
    return o->kind == OPT_ACT ? action == ACT_GENERATE || (int)o->lo == action || (int)o->lo >= ACT_USAGE
                              : cli__serves(o, action);
}

/* The most similar spelling that this action takes, or one that begins with `name`; n 0: none. */
static bytes cli__near(bytes name, int action) {
    bytes best = {0}, begun = {0};
    int   least = bytes_slack(name) + 1;
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const char *names = cli_opts[i].names;
        for (bytes w; cli_word(&names, ' ', &w);) {
            const int  d = bytes_distance(name, w);
            const bool begins = !begun.n && name.n > 4 && w.n > name.n && memcmp(w.p, name.p, name.n) == 0;
            if ((d >= least && !begins) || !cli__usable(&cli_opts[i], w, action)) continue;
            if (d < least) least = d, best = w;
            if (begins) begun = w;
        }
    }
    return best.n && (least < 2 || !begun.n) ? best : begun;
}

/* --- values --- */

/* Decimal digits with an optional sign, and nothing else. */
static bool cli__i64(const char *s, int64_t *out) {
    bool    neg = *s == '-';
    int64_t v = 0;
    if (*s == '-' || *s == '+') s++;
    if (!*s) return false;
    for (; *s; s++)
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s - '0', &v)) return false;
    if (!neg && v == INT64_MIN) return false;         /* summed as negative numbers, of which there is one more */
    *out = neg ? v : -v;
    return true;
}

/* 1, -1.5, .5, 2e-3: no hexadecimal, no nan, no blanks. The decimal separator of strtod
 * is a point, because the program never calls setlocale. */
static bool cli__f64(const char *s, double *out) {
    const char *p = s;
    if (*p == '-' || *p == '+') p++;
    size_t whole = strspn(p, "0123456789"), part = 0;
    p += whole;
    if (*p == '.') part = strspn(p + 1, "0123456789"), p += 1 + part;
    if (whole + part == 0) return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t digits = strspn(p, "0123456789");
        if (!digits) return false;
        p += digits;
    }
    if (*p) return false;
    *out = strtod(s, NULL);
    return isfinite(*out);
}

/* 512, 64K, 1.5G, 2GiB: units of 1024. */
static bool cli__size(const char *s, double *out) {
    char   num[64];
    size_t n = strspn(s, "0123456789.");
    if (!n || n >= sizeof num) return false;
    memcpy(num, s, n);
    num[n] = 0;
    if (!cli__f64(num, out)) return false;
    s += n;
    static const char units[] = "KMGT";
    const char       *u = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;
    if (u) *out = ldexp(*out, 10 * (int)(u - units + 1)), s++;
    return !*s || strcmp(s, "B") == 0 || (u && strcmp(s, "iB") == 0);
}

/* A bound as text: whole numbers without an exponent. */
static void cli__number(double x, char *buf, size_t n) {
    if (x >= 0x1p63) snprintf(buf, n, "%lld", LLONG_MAX);
    else if (x == floor(x)) snprintf(buf, n, "%.0f", x);
    else snprintf(buf, n, "%g", x);
}

static bool cli__range(const cli_opt *o, const char *name, const char *value, double x, err_t *e) {
    char lo[32], hi[32];
    if (x >= o->lo && x <= o->hi) return true;
    cli__number(o->lo, lo, sizeof lo);
    cli__number(o->hi, hi, sizeof hi);
    return err_set(e, EXIT_INPUT, "%s: %.100s is out of range, expected %s to %s", name, value, lo, hi);
}

static bool cli__int(const cli_opt *o, const char *name, const char *value, int64_t *out, err_t *e) {
    if (!cli__i64(value, out)) {
        double x;                                     /* a whole number too long for 64 bits is out of range, not malformed */
        if (value[strspn(value, "+-0123456789")] == 0 && cli__f64(value, &x) && fabs(x) >= 0x1p62)
            return cli__range(o, name, value, x < 0 ? -INFINITY : INFINITY, e);
        return err_set(e, EXIT_INPUT, "%s: expected a whole number, found '%.100s'", name, value);
    }
    return cli__range(o, name, value, (double)*out, e);
}

static bool cli__choose(const cli_opt *o, const char *name, const char *value, err_t *e) {
    const char *words = o->arg;
    for (bytes w; cli_word(&words, '|', &w);)
        if (bytes_is(w, value)) return true;
    str all = {0};
    cli_or(o->arg, '|', &all);
    err_set(e, EXIT_INPUT, "%s: expected %s, found '%.100s'", name, all.p, value);
    str_drop(&all);
    return false;
}

static bool cli__add(bench_list *l, const char *name, int64_t v, err_t *e) {
    if (l->n == BENCH_LIST) return err_set(e, EXIT_INPUT, "%s: more than %d values", name, BENCH_LIST);
    l->v[l->n++] = (int)v;
    return true;
}

/* One value of a list, or a range: 4, 1-4, 1-9+2, 1-64*2. */
static bool cli__span(const cli_opt *o, const char *name, const char *value, bench_list *l, err_t *e) {
    char    first[64], last[64];
    size_t  n = strspn(value, "0123456789"), m = value[n] == '-' ? strspn(value + n + 1, "0123456789") : 0;
    int64_t a, b, by = 1;
    if (!n || !m || n >= sizeof first || m >= sizeof last) return cli__int(o, name, value, &a, e) && cli__add(l, name, a, e);
    const char *rest = value + n + 1 + m;
    snprintf(first, sizeof first, "%.*s", (int)n, value);
    snprintf(last, sizeof last, "%.*s", (int)m, value + n + 1);
    if (!cli__int(o, name, first, &a, e) || !cli__int(o, name, last, &b, e)) return false;
    const bool times = *rest == '*';
    if (*rest && ((!times && *rest != '+') || !cli__i64(rest + 1, &by) || by < 1 + times || by > INT32_MAX || (times && a < 1)))
        return err_set(e, EXIT_INPUT, "%s: expected a range such as 1-8, 1-8+2 or 1-8*2, found '%.100s'", name, value);
    if (a > b) return err_set(e, EXIT_INPUT, "%s: %.100s is an empty range", name, value);
    for (; a <= b; a = times ? a * by : a + by)
        if (!cli__add(l, name, a, e)) return false;
    return true;
}

static bool cli__level(const char *word, int *out) {
    const char *names[16];
    int         n = k_levels_list(names, NULL);
    *out = -1;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) *out = i;
    return *out >= 0 || strcmp(word, "auto") == 0;
}

/* Its position among the words between bars. */
static int cli__place(const char *words, const char *word) {
    int n = 0;
    for (bytes w; cli_word(&words, '|', &w) && !bytes_is(w, word);) n++;
    return n;
}

/* Appends the value of a word of the argument column. */
static bool cli__word_value(const cli_opt *o, const char *name, const char *word, bench_list *l, err_t *e) {
    int v = 0;
    if (!cli__choose(o, name, word, e)) return false;
    if (o->kind == OPT_TYPES) v = k_type_by_name(word);
    else if (o->kind == OPT_WORDS) v = cli__place(o->arg, word);
    else if (!cli__level(word, &v)) return err_set(e, EXIT_INPUT, "%s: %s is not part of this build (--list cpu)", name, word);
    return cli__add(l, name, v, e);
}

/* Appends values separated by commas. */
static bool cli__values(const cli_opt *o, const char *name, const char *value, bench_list *l, err_t *e) {
    const int had = l->n;
    for (const char *p = value;; p++) {
        char   one[128];
        size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one - 1, p);
        const bool words = o->kind == OPT_TYPES || o->kind == OPT_LEVELS || o->kind == OPT_WORDS;
        if (!(words ? cli__word_value(o, name, one, l, e) : cli__span(o, name, one, l, e))) return false;
        p += n;
        if (!*p) break;
    }
    if (o->kind != OPT_PAIR || l->n == had + 2) return true;
    return err_set(e, EXIT_INPUT, "%s: expected two numbers such as 512,128, found '%.100s'", name, value);
}

/* Appends a text, which stays the caller's. */
static void cli_push(cli_list *l, const char *text) {
    l->v = mem_grow(l->v, (size_t)l->n + 1, sizeof *l->v);
    l->v[l->n++] = text;
}

/* The option of an action; of the two of --embed and --batch the one that takes files. */
static const cli_opt *cli__action_opt(int action) {
    if (action == ACT_EMBED_LINES) action = ACT_BATCH;
    for (int i = 0; i < N_CLI_OPTS; i++)
        if (cli_opts[i].kind == OPT_ACT && (int)cli_opts[i].lo == action) return &cli_opts[i];
    return NULL;
}

/* The first spelling that begins with two dashes. */
static bytes cli_long_name(const cli_opt *o) {
    const char *names = o->names;
    bytes       w = {0};
    while (cli_word(&names, ' ', &w) && w.n > 1 && w.p[1] != '-') {}
    return w;
}

/* The action of two options, where they go together: --embed with --batch. */
static int cli__joined(int was, int action) {
    const unsigned both = 1u << was | 1u << action;
    return both != ON(EMBED) && both != ON(BATCH) && !(both & ~(ON_LINES | ON_EMBED)) ? ACT_EMBED_LINES : action;
}

static bool cli__set_action(config *c, const cli_opt *o, const char *value, err_t *e) {
    int action = (int)o->lo;
    if (c->action >= ACT_USAGE) return true;          /* help wins over other actions */
    const int joined = cli__joined(c->action, action);
    if (joined == ACT_EMBED_LINES) c->action = action = joined;
    if (c->action != ACT_GENERATE && c->action != action && action < ACT_USAGE) {
        bytes a = cli_long_name(cli__action_opt(c->action)), b = cli_long_name(o);
        return err_set(e, EXIT_INPUT, "%.*s and %.*s are two actions, expected one", (int)a.n, a.p, (int)b.n, b.p);
    }
    c->action = action;
    c->what = value;
    if (o->hi) cli_push(&c->inputs, value);
    return true;
}

static bool cli__layers(const cli_opt *o, const char *name, const char *value, int *to, err_t *e) {
    int64_t n = strcmp(value, "off") == 0 ? 0 : strcmp(value, "auto") == 0 ? -1 : INT_MAX;
    if (isdigit((unsigned char)*value) || *value == '-' ? !cli__int(o, name, value, &n, e) : !cli__choose(o, name, value, e))
        return false;
    *to = (int)n;
    return true;
}

/* Stores one option with its value (NULL where the table has no argument) in the config. */
static bool cli_set(config *c, const cli_opt *o, const char *name, const char *value, err_t *e) {
    const cli_opt full = cli_full(o);
    void         *field = (char *)c + o->at;
    int64_t       i = 0;
    double        x = 0;
    switch (full.kind) {
    case OPT_ON: *(bool *)field = true; return true;
    case OPT_OFF: *(bool *)field = false; return true;
    case OPT_SET: *(int *)field = (int)o->lo; return true;
    case OPT_INT:
        if (!cli__int(&full, name, value, &i, e)) return false;
        *(int *)field = (int)i;
        return true;
    case OPT_I64:
        if (!cli__int(&full, name, value, &i, e)) return false;
        *(int64_t *)field = i;
        return true;
    case OPT_LAYERS: return cli__layers(&full, name, value, field, e);
    case OPT_FLT:
        if (!cli__f64(value, &x)) return err_set(e, EXIT_INPUT, "%s: expected a number, found '%.100s'", name, value);
        if (!cli__range(&full, name, value, x, e)) return false;
        *(float *)field = (float)x;
        return true;
    case OPT_SIZE:
        if (!cli__size(value, &x)) return err_set(e, EXIT_INPUT, "%s: expected a size such as 512M, found '%.100s'", name, value);
        if (!cli__range(o, name, value, x, e)) return false;
        *(uint64_t *)field = (uint64_t)x;
        return true;
    case OPT_STR: *(const char **)field = value; return true;
    case OPT_LIST: cli_push(field, value); return true;
    case OPT_WORD:
        if (!cli__choose(o, name, value, e)) return false;
        *(const char **)field = value;
        return true;
    case OPT_BITS:
        if (!cli__choose(o, name, value, e)) return false;
        *(int *)field |= 1 << cli__place(o->arg, value);
        return true;
    case OPT_TYPE:
        if (!cli__choose(o, name, value, e)) return false;
        *(uint32_t *)field = (uint32_t)k_type_by_name(value);
        return true;
    case OPT_NUMS:
    case OPT_PAIR:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS:
        if (!c->given[o - cli_opts]) ((bench_list *)field)->n = 0;    /* the first use replaces the default */
        return cli__values(o, name, value, field, e);
    case OPT_ACT:
        if (value && strchr(o->arg, '|') && !cli__choose(o, name, value, e)) return false;
        return cli__set_action(c, o, value, e);
    case OPT_SAMP: break;                             /* cli_full() gives it a kind */
    }
    return false;
}

/* The values of a list as on the command line. */
static void cli__spell_list(const cli_opt *o, const bench_list *l, str *out) {
    const char *names[16];
    k_levels_list(names, NULL);
    for (int i = 0; i < l->n; i++) {
        if (i) str_put(out, ",");
        if (o->kind == OPT_TYPES) str_put(out, k_types[l->v[i]].name);
        else if (o->kind == OPT_LEVELS) str_put(out, l->v[i] < 0 ? "auto" : names[l->v[i]]);
        else if (o->kind == OPT_WORDS) str_put(out, bench_repacks[l->v[i]]);
        else str_fmt(out, "%d", l->v[i]);
    }
}

/* The words of the argument column whose bits are set. */
static void cli__spell_bits(const cli_opt *o, int bits, str *out) {
    const char *words = o->arg;
    bool        any = false;
    for (bytes w; cli_word(&words, '|', &w); bits >>= 1) {
        if (!(bits & 1)) continue;
        if (any) str_put(out, " ");
        str_add(out, w.p, w.n);
        any = true;
    }
}

static void cli__spell_layers(int n, str *out) {
    if (n < 0 || n == INT_MAX) str_put(out, n < 0 ? "auto" : "all");
    else str_fmt(out, "%d", n);
}

/* The value of an option; "" where it has none. */
static void cli_value(const cli_opt *o, const config *c, str *out) {
    const void *field = (const char *)c + o->at;
    char        num[32] = "";
    const char *text = num;
    switch (cli_full(o).kind) {
    case OPT_INT: snprintf(num, sizeof num, "%d", *(const int *)field); break;
    case OPT_LAYERS: cli__spell_layers(*(const int *)field, out); break;
    case OPT_I64: snprintf(num, sizeof num, "%lld", (long long)*(const int64_t *)field); break;
    case OPT_FLT:
        snprintf(num, sizeof num, "%g", (double)*(const float *)field);
        if (strtof(num, NULL) != *(const float *)field) snprintf(num, sizeof num, "%.9g", (double)*(const float *)field);
        break;
    case OPT_SIZE: snprintf(num, sizeof num, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case OPT_STR:
    case OPT_WORD: text = *(const char *const *)field ? *(const char *const *)field : ""; break;
    case OPT_TYPE: text = k_types[*(const uint32_t *)field].name; break;
    case OPT_NUMS:
    case OPT_PAIR:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS: cli__spell_list(o, field, out); break;
    case OPT_BITS: cli__spell_bits(o, *(const int *)field, out); break;
    default: break;
    }
    str_put(out, text);
}

/* --- parsing --- */

/* Options from the environment. The command line is read later and replaces them. */
static bool cli_environment(config *c, err_t *e) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const char *value = cli_opts[i].env ? getenv(cli_opts[i].env) : NULL;
        if (value && *value && !cli_set(c, &cli_opts[i], cli_opts[i].env, value, e)) return false;
    }
    return true;
}

static bool cli__unknown(bytes name, int action, err_t *e) {
    bytes       near = cli__near(name, action);
    const char *use = cli_instead(name);
    int         n = name.n < 100 ? (int)name.n : 100;
    if (use) return err_set(e, EXIT_INPUT, "unknown option %.*s, expected %s", n, name.p, use);
    if (near.n) return err_set(e, EXIT_INPUT, "unknown option %.*s (did you mean %.*s?)", n, name.p, (int)near.n, near.p);
    return err_set(e, EXIT_INPUT, "unknown option %.*s (--help lists them)", n, name.p);
}

/* The command line that is being read. */
typedef struct {
    int          n, at;                               /* arg[at]: the next argument */
    char *const *arg;
    int          action;                              /* of the whole line */
} cli_line;

/* The name of an option as given: the part before '='. */
static bytes cli_typed(const char *arg) { return (bytes){(const uint8_t *)arg, strcspn(arg, "=")}; }

/* Whether w is one of the words of "[A|B]". */
static bool cli__is_word_of(const char *brackets, bytes w) {
    const char *words = brackets + 1;
    for (bytes one; cli_word(&words, '|', &one);) {
        if (one.p[one.n - 1] == ']') one.n--;
        if (bytes_eq(one, w)) return true;
    }
    return false;
}

/* Whether `next` is the value of an option whose value is optional: words in brackets, several with commas between
 * them; or, where there are none, any text that is not an option. */
static bool cli__optional(const char *brackets, const char *next) {
    if (!strchr(brackets, '|')) return next[0] != '-';
    if (!*next) return false;
    for (bytes w; cli_word(&next, ',', &w);)
        if (!cli__is_word_of(brackets, w)) return false;
    return true;
}

/* Number of arguments after arg[at - 1] that are its values; kind_of: the argument column of its row. */
static int cli__n_values(const cli_line *l, const char *kind_of) {
    if (!kind_of || strchr(l->arg[l->at - 1], '=')) return 0;
    if (*kind_of == '[') return l->at < l->n && cli__optional(kind_of, l->arg[l->at]);
    return strchr(kind_of, ' ') ? 2 : 1;
}

/* The action of the line. Skips the values of options and arguments that are no options. */
static int cli__action_ahead(int n, char *const *arg) {
    for (cli_line l = {.n = n, .arg = arg}; l.at < n;) {
        const char *a = arg[l.at++];
        if (a[0] != '-' || !a[1]) continue;
        if (strcmp(a, "--") == 0) break;
        const cli_opt     *o = cli_find(true, cli_typed(a));
        const cli_foreign *f = o ? NULL : cli__foreign(cli_typed(a));
        if (o && o->kind == OPT_ACT) return (int)o->lo;
        l.at += cli__n_values(&l, o ? o->arg : f ? f->arg : NULL);
    }
    return ACT_GENERATE;
}

/* Whether `rest`, which follows a short option in the same argument, is its value. A text may be anything, unless the whole
 * argument resembles a long option that lacks a dash. */
static bool cli__may_follow(const cli_opt *o, int action, const char *whole, const char *rest) {
    const bytes near = cli__near(bytes_of(whole), action);
    const bool  sign = *rest == '-' || *rest == '+';
    const char *words = o->arg;
    switch (o->kind) {
    case OPT_INT: case OPT_I64: case OPT_FLT: case OPT_SAMP: case OPT_SIZE: case OPT_NUMS: case OPT_PAIR: case OPT_LAYERS:
        return isdigit((unsigned char)rest[sign]) || rest[sign] == '.';
    case OPT_WORD: case OPT_TYPE: case OPT_BITS:
        for (bytes w; cli_word(&words, '|', &w);)
            if (bytes_is(w, rest)) return true;
        return false;
    case OPT_STR: case OPT_LIST: return near.n < 3 || near.p[1] != '-' || near.p[2] != whole[1];
    default: return false;
    }
}

/* -n5: the row of a short option with its value in the same argument, at *value; NULL: it is none. The longest name wins. */
static const cli_opt *cli__attached(const cli_line *l, const char *arg, bytes *name, const char **value) {
    for (size_t n = strlen(arg) - 1; arg[1] != '-' && n >= 2; n--) {
        const cli_opt *o = cli_find(l->action == ACT_BENCH, (bytes){(const uint8_t *)arg, n});
        if (!o || !o->arg || !cli__may_follow(o, l->action, arg, arg + n)) continue;
        *name = (bytes){(const uint8_t *)arg, n};
        *value = arg + n;
        return o;
    }
    return NULL;
}

/* An option of llama.cpp: noted for one line on stderr where it is idle, else refused. */
static bool cli__take_foreign(config *c, cli_line *l, const cli_foreign *f, err_t *e) {
    const char *arg = l->arg[l->at - 1];
    const bytes name = cli_typed(arg);
    const int   values = cli__n_values(l, f->arg);
    if (f->fate != CLI_IDLE)
        return err_set(e, EXIT_INPUT, "%.*s is an option of llama.cpp that llmrun does not have%s%s%s", (int)name.n, arg,
                       f->instead ? " (" : "", f->instead ? f->instead : "", f->instead ? ")" : "");
    if (!f->arg && arg[name.n])
        return err_set(e, EXIT_INPUT, "%.*s takes no value, found '%.100s'", (int)name.n, arg, arg + name.n + 1);
    if (l->at + values > l->n) return err_set(e, EXIT_INPUT, "%s: expected %s after it, found nothing", arg, f->arg);
    l->at += values;
    cli_push(&c->idle, arg);
    return true;
}

/* Whether each use of an option replaces the one before. */
static bool cli__replaces(const cli_opt *o) {
    switch (o->kind) {
    case OPT_LIST: case OPT_BITS: case OPT_ACT: case OPT_NUMS: case OPT_PAIR: case OPT_TYPES: case OPT_LEVELS: case OPT_WORDS:
        return false;
    default: return true;
    }
}

/* Notes a use that replaces another one of the same field with another value. */
static void cli__note_again(config *c, const cli_opt *o, const char *arg, const str *was, const str *is) {
    if (!cli__replaces(o) || strcmp(was->p, is->p) == 0) return;
    for (int i = 0; i < N_CLI_OPTS; i++) {
        if (!c->given[i] || cli_opts[i].at != o->at || cli_opts[i].kind == OPT_ACT) continue;
        for (int k = 1; k < c->again.n; k += 2)
            if (bytes_eq(cli_typed(c->again.v[k]), cli_typed(arg))) return;
        cli_push(&c->again, c->given[i]);
        cli_push(&c->again, arg);
        return;
    }
}

/* The value of the option's field as text, for a comparison. */
static void cli__field(const cli_opt *o, const config *c, str *out) {
    const void *field = (const char *)c + o->at;
    str_put(out, "");
    if (o->kind == OPT_ON || o->kind == OPT_OFF) str_fmt(out, "%d", *(const bool *)field);
    else if (o->kind == OPT_SET) str_fmt(out, "%d", *(const int *)field);
    else if (cli__replaces(o)) cli_value(o, c, out);
}

/* An option of llmrun with its value in the same argument (value) or in the next one. */
static bool cli__take(config *c, cli_line *l, const cli_opt *o, bytes name, const char *value, err_t *e) {
    char as_typed[64];
    snprintf(as_typed, sizeof as_typed, "%.*s", (int)name.n, (const char *)name.p);
    if (!o->arg && value) return err_set(e, EXIT_INPUT, "%s takes no value, found '%.100s'", as_typed, value);
    const char *arg = l->arg[l->at - 1];
    if (!value && cli__n_values(l, o->arg)) {
        if (l->at == l->n) return err_set(e, EXIT_INPUT, "%s: expected %s after it, found nothing", as_typed, o->arg);
        value = l->arg[l->at++];
    }
    str was = {0}, is = {0};
    cli__field(o, c, &was);
    const bool ok = cli_set(c, o, as_typed, value, e);
    if (ok) cli__field(o, c, &is);
    if (ok) cli__note_again(c, o, arg, &was, &is);
    if (ok) c->given[o - cli_opts] = arg;
    str_drop_all(&was, &is);
    return ok;
}

/* The argument before arg[at], which begins with a dash. A name that has no effect on the action may be an idle option of
 * llama.cpp. */
static bool cli__option(config *c, cli_line *l, err_t *e) {
    const char        *arg = l->arg[l->at - 1], *eq = strchr(arg, '='), *value = eq ? eq + 1 : NULL;
    bytes              name = cli_typed(arg);
    const cli_opt     *o = cli_find(l->action == ACT_BENCH, name);
    const cli_foreign *f = o && cli__serves(o, l->action) ? NULL : cli__foreign(name);
    if (f) return cli__take_foreign(c, l, f, e);
    if (!o) o = cli__attached(l, arg, &name, &value);
    return o ? cli__take(c, l, o, name, value, e) : cli__unknown(name, l->action, e);
}

/* An argument that is not an option: one more file of an action that takes several. */
static bool cli__operand(config *c, const cli_line *l, err_t *e) {
    const char    *arg = l->arg[l->at - 1], *use = l->at == 1 ? cli__subcommand(arg) : NULL;
    const cli_opt *o = cli__action_opt(c->action);
    if (use) return err_set(e, EXIT_INPUT, "unexpected argument '%s': llmrun has options in place of commands, %s", arg, use);
    if (!o || !o->hi)
        return err_set(e, EXIT_INPUT, "unexpected argument '%.100s', expected an option (a %s goes after %s)", arg,
                       bytes_ends(bytes_of(arg), bytes_of(".gguf")) ? "model" : "prompt",
                       bytes_ends(bytes_of(arg), bytes_of(".gguf")) ? "-m" : "-p");
    cli_push(&c->inputs, arg);
    return true;
}

/* arg[0 .. n): the command line without the program's name. Texts are kept by reference. After -- no argument is an option. */
static bool cli_parse(config *c, int n, char *const *arg, err_t *e) {
    cli_line l = {.n = n, .arg = arg, .action = cli__action_ahead(n, arg)};
    bool     options = true;
    while (l.at < n) {
        const char *a = arg[l.at++];
        if (options && strcmp(a, "--") == 0) options = false;
        else if (!(options && a[0] == '-' && a[1] ? cli__option(c, &l, e) : cli__operand(c, &l, e))) return false;
    }
    return true;
}

/* What messages call an action: the long name of its option. */
static bytes cli_act_name(int action) {
    if (action == ACT_EMBED_LINES) return bytes_of("--embed --batch");
    return action == ACT_GENERATE ? bytes_of("generation") : cli_long_name(cli__action_opt(action));
}

/* "generation, --score and --batch" */
static void cli__act_names(uint32_t set, str *out) {
    for (int i = 0; i < N_ACTS; i++) {
        if (!(set >> i & 1)) continue;
        const bytes name = cli_act_name(i);
        set &= ~(1u << i);
        str_add(out, name.p, name.n);
        str_put(out, !set ? "" : set & (set - 1) ? ", " : " and ");
    }
}

/* Refuses options that have no effect on the action. */
static bool cli_effective(const config *c, err_t *e) {
    enum { FEW = 4 };
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        if (!c->given[i] || cli__serves(o, c->action) || c->action >= ACT_USAGE) continue;
        const bytes name = cli_typed(c->given[i]), act = cli_act_name(c->action);
        str         only = {0};
        str_put(&only, "");
        if (__builtin_popcount(o->serves) <= FEW) {
            str_put(&only, ", only on ");
            cli__act_names(o->serves, &only);
        }
        err_set(e, EXIT_INPUT, "%.*s has no effect on %.*s%s", (int)name.n, name.p, (int)act.n, act.p, only.p);
        str_drop(&only);
        return false;
    }
    return true;
}

/* The byte written as a backslash and c, -1: none. */
static int cli__escaped(char c) {
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\': case '\'': case '"': return c;
    default: return -1;
    }
}

/* \n \t \r \\ \' \" \xHH; any other backslash stays as it is. */
static void cli_unescape(const char *s, str *out) {
    while (*s) {
        uint64_t hex;
        int      byte = *s == '\\' ? cli__escaped(s[1]) : -1, used = 2;
        if (byte < 0 && s[0] == '\\' && s[1] == 'x' && bytes_hex((const uint8_t *)s + 2, 2, &hex)) byte = (int)hex, used = 4;
        if (byte < 0) byte = (uint8_t)*s, used = 1;
        char c = (char)byte;
        str_add(out, &c, 1);
        s += used;
    }
}

/* Replaces the escapes in every text of a list. A NUL is refused. */
static bool cli__unescape_list(cli_list *l, const char *name, err_t *e) {
    for (; l->n_own < l->n; l->n_own++) {
        str s = {0};
        str_put(&s, "");
        cli_unescape(l->v[l->n_own], &s);
        l->v[l->n_own] = s.p;
        if (strlen(s.p) < s.n) {
            l->n_own++;
            return err_set(e, EXIT_INPUT, "%s: \\x00 cannot be part of it", name);
        }
    }
    return true;
}

/* Frees the list and those of its texts that it owns. */
static void cli__list_drop(cli_list *l) {
    for (int i = 0; i < l->n_own; i++) mem_free((void *)(uintptr_t)l->v[i]);
    mem_free(l->v);
    *l = (cli_list){0};
}

/* "15043+1.5", "15043-inf" */
static bool cli__bias(const char *s, samp_bias *out, err_t *e) {
    size_t  n = strspn(s, "0123456789");
    char    num[16];
    int64_t id = 0;
    double  x = 0;
    if (n && n < sizeof num) {
        memcpy(num, s, n);
        num[n] = 0;
        bool inf = strcmp(s + n, "-inf") == 0 || strcmp(s + n, "+inf") == 0;
        if (cli__i64(num, &id) && id <= INT32_MAX && (s[n] == '+' || s[n] == '-') && (inf || cli__f64(s + n, &x))) {
            *out = (samp_bias){(int32_t)id, inf ? (s[n] == '-' ? -INFINITY : INFINITY) : (float)x};
            return true;
        }
    }
    return err_set(e, EXIT_INPUT, "--logit-bias: expected a token id and a signed number such as 15043+1, found '%.100s'", s);
}

static bool cli__biases(config *c, err_t *e) {
    c->biases = mem_new((size_t)c->bias.n, sizeof *c->biases);
    for (int i = 0; i < c->bias.n; i++)
        if (!cli__bias(c->bias.v[i], &c->biases[i], e)) return false;
    c->samp.bias = c->biases;
    c->samp.n_bias = c->bias.n;
    return true;
}

/* Whether the option with this spelling is on the command line or in the environment. */
static bool cli_given(const config *c, const char *name) { return c->given[cli_find(false, bytes_of(name)) - cli_opts] != NULL; }

/* Checks texts and replaces their escapes. */
static bool cli__finish_texts(config *c, err_t *e) {
    int n_stdin = 0;
    for (int i = 0; i < c->files.n; i++) n_stdin += strcmp(c->files.v[i], "-") == 0;
    if (n_stdin && c->no_stdin) return err_set(e, EXIT_INPUT, "--no-stdin and --file - disagree");
    if (n_stdin > 1) return err_set(e, EXIT_INPUT, "--file -: given %d times, standard input can be read once", n_stdin);
    for (int i = 0; i < c->stop.n; i++)
        if (!*c->stop.v[i]) return err_set(e, EXIT_INPUT, "--stop: found an empty text, expected at least one byte");
    return !c->escape ||
           (cli__unescape_list(&c->stop, "--stop", e) && cli__unescape_list(&c->breakers, "--dry-sequence-breaker", e));
}

/* The words of --think: two pairs, of which one word each counts. */
static bool cli__finish_chat(config *c, err_t *e) {
    enum { THINK_ON = 1, THINK_OFF = 2, THINK_SHOW = 4, THINK_HIDE = 8 };
    const int bits = c->chat.think_words;
    if ((bits & THINK_ON && bits & THINK_OFF) || (bits & THINK_SHOW && bits & THINK_HIDE))
        return err_set(e, EXIT_INPUT, "--think: %s disagree, expected one of them",
                       bits & THINK_ON && bits & THINK_OFF ? "on and off" : "show and hide");
    if (bits & (THINK_ON | THINK_OFF)) c->chat.think = bits & THINK_ON ? 1 : 0;
    c->chat.think_show = bits & THINK_SHOW;
    if (c->chat.system && c->system_file)
        return err_set(e, EXIT_INPUT, "--system-prompt and --system-prompt-file both give a system message, expected one");
    return !c->chat.messages || c->chat.on || err_set(e, EXIT_INPUT, "--raw and --messages disagree");
}

static bool cli__finish_rope(config *c, err_t *e) {
    if (c->rope_freq_scale <= 0) return true;
    if (c->rope_freq_scale < 1e-6f) return err_set(e, EXIT_INPUT, "--rope-freq-scale: expected 0 or a number from 1e-6 up");
    if (c->fwd.rope.factor > 0)
        return err_set(e, EXIT_INPUT, "--rope-scale and --rope-freq-scale both give a scale, expected one");
    c->fwd.rope.factor = 1 / c->rope_freq_scale;
    return true;
}

/* OpenBLAS sums in an order that depends on the number of rows, so that drafted tokens would change the text. */
static bool cli__finish_blas(config *c, err_t *e) {
    if (!c->blas) return true;
    const char *drafts = c->spec.draft ? "--model-draft" : cli_given(c, "--lookup") && c->spec.lookup ? "--lookup" : NULL;
    return !drafts ||
           err_set(e, EXIT_INPUT, "--blas: found %s beside it, whose drafts would change the text, expected one of them", drafts);
}

/* Standard output by its other names, beside which no file can be made. */
static bool cli__is_stdout(const char *path) {
    static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0) return true;
    return false;
}

/* Files and scales of the adapters. */
static bool cli__finish_lora(config *c, err_t *e) {
    c->lora_scales = mem_grow(c->lora_scales, (size_t)c->lora.n, sizeof *c->lora_scales);
    for (int i = c->lora_files.n; i < c->lora.n; i++) {
        char *path = NULL;
        if (!lora_split(c->lora.v[i], &path, &c->lora_scales[i], e)) return false;
        cli_push(&c->lora_files, path);
        c->lora_files.n_own = c->lora_files.n;
    }
    c->bench.adapters.v[0] = c->lora_files.n;
    c->fwd.lora = (lora_opts){.file = c->lora_files.v, .scale = c->lora_scales, .n = c->lora_files.n,
                              .idle = c->lora_idle};
    return true;
}

/* Checks options against each other and completes them, for any action. */
static bool cli_finish(config *c, err_t *e) {
    if (!cli__finish_lora(c, e)) return false;
    if (!cli__finish_blas(c, e) || !cli__finish_texts(c, e) || !cli__finish_rope(c, e) || !cli__finish_chat(c, e)) return false;
    if (!constrain_check(&c->hold, e)) return false;
    if (c->spec.least > c->spec.most)
        return err_set(e, EXIT_INPUT, "--draft-min: %d is more than --draft-max %d", c->spec.least, c->spec.most);
    if (c->spec.cache && c->kv.cache && strcmp(c->spec.cache, c->kv.cache) == 0)
        return err_set(e, EXIT_INPUT, "%s: is the prompt cache itself, expected another file for --lookup-cache", c->spec.cache);
    if (cli__is_stdout(c->output)) c->output = "-";
    c->eval.n_chunks = c->calib.n_chunks = c->chunks;
    c->calib.bos = c->bos;
    if (c->gen.n_predict < 0) c->gen.n_predict = -1;
    if (!cli__biases(c, e)) return false;
    samp_opts so = c->samp;
    so.n_ctx = 1;                                     /* not known yet; samp_new() checks again */
    if (!samp_check(&so, INT32_MAX, e)) return false;
    mem_free(c->stops);
    c->gen.stop = c->stops = mem_new((size_t)c->stop.n, sizeof *c->stops);
    for (int i = 0; i < c->stop.n; i++) c->stops[i] = bytes_of(c->stop.v[i]);
    c->gen.n_stop = c->stop.n;
    c->gen.special_out = c->special == 1;
    return true;
}

/* Frees the lists of a config. */
static void cli_drop(config *c) {
    cli__list_drop(&c->stop);
    cli__list_drop(&c->bias);
    cli__list_drop(&c->breakers);
    cli__list_drop(&c->lora);
    cli__list_drop(&c->lora_files);
    cli__list_drop(&c->in_files);
    cli__list_drop(&c->inputs);
    cli__list_drop(&c->batch_files);
    cli__list_drop(&c->files);
    cli__list_drop(&c->tensor_types);
    cli__list_drop(&c->models);
    cli__list_drop(&c->idle);
    cli__list_drop(&c->again);
    mem_free_all(c->biases, c->stops, c->lora_scales);
    str_drop_all(&c->own_output, &c->own_system, &c->own_model, &c->own_draft, &c->own_bench);
}

/* The default of an option. */
static void cli_default(const cli_opt *o, str *out) {
    const config c = cli_defaults();
    cli_value(o, &c, out);
}

/* Whether an option does anything: a switch is on, a list has entries, any other value is not the default. */
static bool cli__acts(const cli_opt *o, const config *c) {
    const void *field = (const char *)c + o->at;
    str         value = {0}, usual = {0};
    if (o->kind == OPT_ON) return *(const bool *)field;
    if (o->kind == OPT_LIST) return ((const cli_list *)field)->n > 0;
    cli_value(o, c, &value);
    cli_default(o, &usual);
    const bool acts = strcmp(value.p, usual.p) != 0;
    str_drop_all(&value, &usual);
    return acts;
}

/* The options of which one is needed for row i to have an effect: "--a, --b or --c"; false: it has one, or is not given. */
static bool cli_lacks(const config *c, int i, str *out) {
    const cli_partner beside = cli_opts[i].beside;
    const char       *names = cli_partners[beside].names;
    if (!c->given[i] || !(cli_partners[beside].on >> c->action & 1)) return false;
    for (bytes w; cli_word(&names, ' ', &w);)
        if (cli__acts(cli_find(c->action == ACT_BENCH, w), c)) return false;
    cli_or(cli_partners[beside].names, ' ', out);
    return true;
}

/* Appends all spellings of an option and its argument, such as "-c, --ctx-size N"; `between` separates them. */
static void cli_spell(const cli_opt *o, const char *between, str *out) {
    const char *names = o->names;
    size_t      start = out->n;
    for (bytes w; cli_word(&names, ' ', &w);) {
        if (out->n > start) str_put(out, between);
        str_add(out, w.p, w.n);
    }
}
