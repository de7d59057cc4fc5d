/* ===== [topics] texts of --help TOPIC =====
 * What is worth knowing beside the options, as data. A line of a text is one of these; its first characters say which:
 *     $ COMMAND \t TEXT    a command, and what it does where that is not clear
 *     @NAME                the list that --list NAME prints
 *     TERM \t TEXT         a row of two cells
 *     anything else        a paragraph
 * A topic with the name of a group of options stands behind these options.
 * To add a topic: its row in topics_all; --help, -h, the man page, completions and tests walk the table.
 * Public: topics_all, TOPICS.
 * Opens: topic. */

enum { TOPIC_LINES = 24 };

typedef struct {
    const char *name, *title;
    const char *line[TOPIC_LINES + 1];                /* the last one is NULL */
} topic;

static const topic topics_all[] = {
    {"models", "Models: where files come from, formats, architectures", {
        "A model is one GGUF file, or the first part of a split one. -m takes its path or its name, -hf a name of a hub "
        "(--help hub), and LLMRUN_MODEL names the one of runs without either.",
        "Hugging Face\thuggingface.co/models?library=gguf lists models, which -hf downloads: -hf OWNER/NAME:Q4_K_M",
        "ollama\tits models are GGUF files, named sha256-... in the folder blobs of its store (~/.ollama/models, or "
        "/usr/share/ollama/.ollama/models); ollama show --modelfile NAME prints the path behind FROM",
        "safetensors\ta folder of such files runs as it is, and becomes a GGUF file: --help checkpoints",
        "$ llmrun -m model.gguf --inspect\tcheck a file, and print what is in it",
        "Which quantisation: Q4_K_M is the usual choice; Q6_K and Q8_0 are nearer to the original and larger. A file and its "
        "KV cache should fit in memory.",
        "GGUF versions 1 to 3 are read, little-endian. Tokenizers are SentencePiece (llama), byte-level BPE (gpt2) with the "
        "pre-tokenizers of --list pre, BPE over characters (gemma4, whitespace), WordPiece (bert) and unigram (t5).",
        "These architectures run, with experts, sliding windows, and RoPE by frequency factors, LongRoPE, linear or YaRN "
        "scaling. A file of another one is refused with a message; --tokenize and --inspect work with it.",
        "@archs"}},
    {"hub", "Models by name", {
        "$ llmrun -hf ggml-org/gemma-3-1b-it-GGUF -p \"Hello\"\tdownload Q4_K_M once, then run it",
        "$ llmrun -hf OWNER/NAME:Q8_0 -p \"Hello\"\tanother type; OWNER/NAME:FILE.gguf: that file",
        "$ llmrun -hf OWNER/NAME:safetensors -p \"Hello\"\tits checkpoint (--help checkpoints); OWNER/NAME alone where no file "
        "is GGUF",
        "$ llmrun --models\tmodels that are here: name, size, type, architecture",
        "$ llmrun -m OWNER/NAME:Q8_0 -p \"Hello\"\tone of them, without the network",
        "$ llmrun --rm-model OWNER/NAME:Q8_0\tremove it from the disk",
        "A name with a type or a file that is in the cache connects to nothing. OWNER/NAME alone is Q4_K_M of the cache, or its "
        "checkpoint where the cache has no GGUF file of the repository; else the hub's list is asked what the repository has. To "
        "take a newer version, remove the old one.",
        "The cache is that of Hugging Face's own tools, in their layout: each finds what the other has downloaded. A file gets "
        "its name when its SHA-256 (git's SHA-1 of small ones) is that of the hub's list. A download that ends early goes on "
        "where it was. All parts of a split model are downloaded; projectors of images (mmproj) are no models.",
        "HF_HOME, HF_HUB_CACHE\tfolder of the cache is HF_HUB_CACHE, else HF_HOME/hub; ~/.cache/huggingface/hub without them",
        "HF_TOKEN\ttoken for repositories that are not public, else the file HF_HOME/token, which hf auth login writes",
        "HF_ENDPOINT\taddress of another hub, such as a mirror",
        "HF_HUB_OFFLINE\t1: as --offline",
        "LLMRUN_MODELS\ta folder of GGUF files and checkpoints; -m takes their paths in it as names, with or without .gguf",
        "https_proxy, SSL_CERT_FILE\tproxy of the network; a file of certificates to trust",
        "Downloads need libcurl (Debian: libcurl4), which is opened when it is needed. They run in a process of their own, which "
        "can reach the network and write to the cache alone."}},
    {"checkpoints", "Checkpoints: folders of transformers, with safetensors", {
        "-m takes a folder, too: config.json, *.safetensors with or without an index, tokenizer.json, tokenizer.model or what "
        "its family has in their place (spiece.model, tokenizer.jsonl, rwkv_vocab_v20230424.txt), and where they exist "
        "tokenizer_config.json, chat_template.jinja, generation_config.json, the pooling of modules.json.",
        "$ llmrun -m DIR -p \"Hello\"\trun it; matrices of f32, f16 and bf16 are used where they lie in the files",
        "$ llmrun -m DIR --quantize Q4_K_M -o model.gguf\twrite a GGUF file, with --imatrix and --calibrate as for a file",
        "$ llmrun -m DIR --quantize auto -o model.gguf\tthe same, each matrix with the precision that it has",
        "$ llmrun -m DIR --inspect\twhat the file would hold",
        "With F32, F16 and BF16 the file is the one that convert_hf_to_gguf.py of llama.cpp writes: names, values, keys, tokens. "
        "Scores of a SentencePiece vocabulary in tokenizer.json are an exception: they are the ranks of its merges.",
        "GPTQ, AWQ, compressed-tensors\tauto: Q4_0, Q4_1 or Q8_0 where that type holds the same values, else F16 (act-order)",
        "bitsandbytes (NF4, FP4, int8)\tauto: F16",
        "FP8\tauto: BF16",
        "MXFP4, NVFP4\tauto: codes and scales as they are",
        "With any other type weights are computed in F32, as each library computes them, and rounded once.",
        "A folder that is not whole is refused with one line: a file or tensor that is missing, a tensor too many, a shape that "
        "the config does not give. Tensors for images and sound are left out.",
        "These classes of transformers, \"architectures\" in config.json, are known:",
        "@checkpoints"}},
    {"types", "Types of tensors and of the KV cache", {
        "Each type that may be weights can be used for any matrix.",
        "@types",
        "The KV cache is bf16 unless -ctk and -ctv say f32, f16, q8_0 or q4_0. Where both are q8_0, attention multiplies "
        "integers, which is the fastest at the AVX2 level. --score, --logits, --perplexity, --kl-divergence and "
        "--imatrix-out use f32.",
        "Activations are rounded to 8 bits where they meet quantised weights. Values far above the others of their block "
        "of 256 are multiplied as floats, so that one large channel does not take the precision of the others."}},
    {"templates", "Chat templates", {
        "A message becomes text by the chat template in the model file. llmrun runs it with a Jinja engine of its own, to "
        "the byte as Hugging Face transformers do with Jinja2. --chat-template-file takes another template, "
        "--chat-template-kwargs sets its variables, and --render prints the text that becomes of messages:",
        "$ echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | llmrun -m model.gguf --render",
        "The engine has the filters, tests, methods and statements that public templates use, and integers of 64 bits. What "
        "it does not have is an error that names file and line.",
        "A template is a program by somebody else: its steps, memory and depth are limited, and it reads nothing but the "
        "messages and the clock. A control token such as <|im_end|> in a message is encoded as plain text.",
        "Thinking is kept apart from the answer: standard output has the answer alone, --think show writes the thinking to "
        "standard error, JSON has it as reasoning_content. --think on|off sets the variables that templates have for it; "
        "--think-budget N closes it after N tokens.",
        "A file without a template gets none: --chat and -i are refused, a prompt is a text to continue."}},
    {"chat", "Conversations", {
        "llmrun -m MODEL in a terminal begins a conversation where the model has a chat template; -i demands one, from a "
        "pipe too, where each line is a message. /help lists the commands, the key Tab completes them. Lines are edited "
        "where libedit is installed.",
        "Pasted lines are one message. So are lines of which each but the last ends in a backslash, and those from \"\"\" to "
        "\"\"\". Ctrl-C ends an answer, of which the part that is written stays in the conversation; at an empty prompt it "
        "ends the program, as Ctrl-D does.",
        "On a terminal the lines of an answer end between words, what is typed is bold, and thinking and statistics are dim; "
        "NO_COLOR or TERM=dumb in the environment turn bold and dim off. A pipe or a file gets the exact text.",
        "A turn has the text that the same messages have with --messages, or as a line of a batch, with the same seed. The "
        "KV cache of what is unchanged since the last turn is used again."}},
    {"tool-calls", "Tool calls", {
        "Tools come from --tools FILE, or from the keys tools and tool_choice of a line of --batch. llmrun renders a sample "
        "call with the model's template and so finds out how the model writes calls. Calls come back as tool_calls, in "
        "OpenAI's shape. What is not a call stays text. In a conversation the next message is the result of the tool that "
        "was called.",
        "$ llmrun -m model.gguf --tools tools.json -p \"What is the weather in Paris?\" --json",
        "The forms that are known:",
        "@tool-calls"}},
    {"structure", "Structured output", {
        "A constraint says which texts are valid answers. Only tokens that can still lead to a valid answer are allowed, the "
        "answer may end only where it is valid, and it ends where nothing may follow. A constraint that cannot be enforced "
        "exactly is refused before the model runs; --schema-loose drops what a schema asks for and generation cannot keep.",
        "one of several texts\t--choice \"A|B\"; in the body of a line of --batch: guided_choice, structured_outputs",
        "regular expression\t--regex; regex, guided_regex",
        "grammar (GBNF)\t--grammar, --grammar-file; grammar, guided_grammar",
        "JSON Schema 2020-12\t--json-schema, --json-schema-file; response_format (json_schema, json_object), guided_json",
        "Unknown keywords of a schema give a note on standard error; format is enforced; nothing is fetched. Without $schema "
        "a document is read as 2020-12 with the older spellings. A key that a schema declares may not come twice in an "
        "object.",
        "With a template that thinks, the constraint begins behind the thinking. It comes before biases and samplers, and "
        "log-probabilities are the model's own. Where --logit-bias leaves nothing that is allowed, the answer is an error.",
        "--match checks a text with the same automaton and without a model: there JSON may have its keys in any order and "
        "any white space. --mask prints the ids of the tokens that may follow a text.",
        "Only tokens are chosen from which a valid answer can be finished within -n, where that is possible (--no-close: any "
        "that are allowed). An answer that is cut before its constraint is met exits 1.",
        "An automaton has at most 64 MiB, and each step a bounded number of operations. What exceeds them ends with exit "
        "code 3, or with an error of that line of a batch."}},
    {"batch", "Files of prompts", {
        "$ llmrun -m model.gguf --batch prompts.jsonl -o results.jsonl\tOpenAI batch lines, bodies or prompts",
        "$ llmrun -m model.gguf --batch prompts.jsonl -o results.jsonl --resume\tcontinue a run that ended early",
        "$ llmrun -m model.gguf --batch 'prompts/*.txt' --format csv -o all.csv\tseveral files; a row for each answer",
        "$ llmrun -m model.gguf --batch in.csv --prompt-template 'Good or bad? {review}' -o out.csv\ta prompt of each row",
        "$ llmrun -m model.gguf --batch in.jsonl --dry-run\ttokens, wrong lines, time from a sample; writes nothing",
        "$ llmrun -m model.gguf --batch big.jsonl -o part3.jsonl --shard 3/8\tone part of eight, on eight machines ...",
        "$ llmrun --merge part*.jsonl -o results.jsonl\t... and the results together, in order",
        "Requests join and leave at every step (continuous batching); -np bounds how many run. A common beginning of prompts "
        "is computed once.",
        "Each answer is written as one whole line when it ends, with the number of its line in the input. A line that is "
        "wrong gets a record with error, the others are answered, and the exit code is 1.",
        "--resume keeps the answers to lines that are still in the input; --retry-errors runs lines with errors again. "
        "--resume also removes lines that a loss of power has damaged; their requests run again. When a run has ended, its "
        "files are on disk. Records of other lines move to OUT.stale. Results of another model or of other settings are "
        "refused, with the name of the setting. --merge refuses two records of one line that differ.",
        "--shard auto numbers the part as the job launcher does, and {shard} in -o is its number:",
        "$ sbatch --array=1-8 job.sh\tSlurm array; srun -n 8 for tasks",
        "$ mpirun -n 8 llmrun ... --shard auto -o part-{shard}.jsonl\tOpen MPI, and PMI: MPICH, Intel MPI",
        "GNU parallel and indexed jobs of Kubernetes do not say how many parts there are: LLMRUN_SHARDS does."}},
    {"serve", "A server", {
        "$ llmrun -m model.gguf --serve\thttp://127.0.0.1:8080; OpenAI's clients add /v1",
        "$ llmrun -m model.gguf --serve 0.0.0.0:8080 --api-key KEY\tother machines, with a key",
        "$ llmrun -m model.gguf --serve unix:/run/llmrun.sock\tprograms of this user alone",
        "Programs that speak OpenAI's API (chat completions, completions, responses, embeddings, files and batches) or "
        "Anthropic's (messages) work with it, in streams and whole, with tool calls, thinking, logprobs and constraints. A "
        "body is that of a batch line, and sampling options on the command line are the defaults of requests that do not "
        "say. The text of a request is that of the same line of a batch with the same seed, whatever else runs.",
        "-np requests run at a time and join and leave at every step; --queue bounds those that wait, further ones get 503. "
        "A client that goes away frees its place; one that reads slowly waits alone. Vectors come beside answers, with the "
        "pooling of the file, and from models that make no texts.",
        "POST /lora-adapters sets the scales of adapters (--lora) for the requests after it that have no lora of their own: "
        "[{\"id\":0,\"scale\":0.5}], 0 for those that the list leaves out. Lines of batches keep the scales of the command.",
        "It listens on loopback unless it is told otherwise. Beyond that --api-key is needed (or --no-api-key). It speaks no "
        "TLS: a reverse proxy does. GET /metrics has figures for Prometheus; -v prints a line for each request, never "
        "contents.",
        "SIGINT or SIGTERM: no request is taken any more, running answers may end within --drain seconds, exit 0. A second "
        "signal ends at once."}},
    {"embeddings", "Embeddings: vectors of texts", {
        "$ llmrun -m bge-small.gguf --embed -p \"a text\"\tnumbers on a line, or --format json",
        "$ llmrun -m bge-small.gguf --embed --batch texts.txt -o vectors.jsonl\ta record for each line",
        "$ llmrun -m bge-small.gguf --embed --batch texts.txt -o vectors.npy\tfor NumPy: float32, [texts][width]; .f32: raw",
        "Pooling is what the file says (--pooling changes it), and vectors have the length 1 (--embd-normalize). A decoder's "
        "vector is that of the last token. --embed-prefix puts a text before each, as E5 and others need it. Rerankers give "
        "scores (--pooling rank). A text has the same vector alone and among others. Without --embed a batch of "
        "texts may have lines for /v1/embeddings among its own, as --serve takes both."}},
    {"speculation", "Speculative decoding", {
        "A step that verifies several draft tokens costs little more than a step for one. Drafts come from the text itself "
        "(n-gram lookup, on by default), from what a constraint forces, from the draft head of the model (NextN, MTP; on by "
        "default where the file has one, or in a file of its own, as for Gemma 4: -md), or from a small model with the same "
        "vocabulary (-md). The text is the same with and without, also when it is sampled. How many tokens are drafted "
        "follows from measured times of steps and from how often drafts were accepted; -v prints both."}},
    {"cache", "Windows, recurrent states, prompt cache", {
        "Layers with a window keep only the blocks of the cache that the window reaches. Recurrent layers (gated delta nets, "
        "short convolutions) keep one state for each sequence, whose size does not depend on the text. A state cannot be cut "
        "like keys and values, so snapshots are kept: at the end of a prompt, where prompts of a batch part, and every 512 "
        "tokens, at the border of a block. --state-mem bounds states and snapshots; with fewer of them more tokens are "
        "computed again.",
        "--prompt-cache FILE keeps computed prompts between runs, for any prompt that begins alike."}},
    {"gpu", "Layers on an NVIDIA GPU", {
        "$ llmrun --list-devices\tnumber, name, compute capability, memory",
        "$ llmrun -m model.gguf -p \"...\"\t-ngl auto, the default: as many of the last layers as fit",
        "$ llmrun -m model.gguf -p \"...\" -ngl 20 --device 1",
        "needed\tcompute capability 8.0 or more, and a driver of CUDA 11.4 or later that is not older than the major version "
        "of the toolkit with which the program was built. make builds the kernels in where it finds nvcc; --list-devices "
        "says whether they are there",
        "on the GPU\tthe last layers with all their products, experts and their routing, norms, RoPE and attention; their "
        "keys, values and recurrent states; the head; tokens of --temp 0 where nothing stands before the largest logit",
        "on the CPU\tembeddings, the first layers, all other sampling, draft models, importance matrices, calibrated "
        "rounding; T5; attention to positions that indexers choose; hyper-connections; layers with adapters (LoRA), recurrent "
        "layers whose keys are longer than the kernels hold (128 values of a gated delta net, 64 of Mamba, 256 of others), and "
        "all layers before these",
        "With -ngl auto a run that finds no usable GPU uses the CPU; -v says why. With a number or all it ends with exit "
        "code 3 and the reason. Without --device the first GPU that holds the layers runs them; where none does, several do.",
        "--same on\tthe bits of the CPU: the text is the same wherever the layers run. Cheap for quantised weights and q8_0 "
        "caches, whose sums are integers",
        "--same off\tproducts of F32, F16 and BF16 matrices, and attention unless K and V are q8_0, run on tensor cores in a "
        "fixed order: much faster for many columns. Texts do not depend on batches, chunks or speculation, but may differ "
        "from the CPU's, between numbers of GPU layers and between kinds of GPU",
        "--same auto\tas off where more than half of the bytes of the matrices are floats, else as on; the default",
        "With off, BF16 is multiplied as on the CPU; F16 and F32 are split in two bf16 parts, which keep 16 bits. "
        "--f16-as-bf16 makes F16 as fast as BF16. A prompt cache that was written with off is used by runs with the same GPU "
        "layers and compute capability only."}},
    {"quantize", "Quantising", {
        "$ llmrun -m f16.gguf --quantize Q4_K_M -o q4.gguf\ta type or mixture of --list quants",
        "$ llmrun -m f16.gguf -f text.txt --imatrix-out model.imatrix\tan importance matrix ...",
        "$ llmrun -m f16.gguf --quantize IQ3_S --imatrix model.imatrix -o iq3.gguf\t... and a file made with it",
        "$ llmrun -m f16.gguf --quantize Q3_K_M --calibrate text.txt -o q3.gguf\tcalibrated rounding (GPTQ style)",
        "$ llmrun -m f16.gguf --perplexity -f text.txt --kl-divergence-base base\twhat is lost: first the original,",
        "$ llmrun -m q3.gguf --kl-divergence base\tthen the other file against it",
        "On the model that ships with llmrun calibrated rounding helps most from Q3_K to Q6_K, and little or not at all for "
        "Q2_K and IQ1 to IQ3; for IQ1 and IQ2 files that llama.cpp made with the same importance matrix mostly have a lower "
        "KL divergence. Larger models were not measured."}},
    {"guarantees", "What llmrun promises, and where that ends", {
        "The same text\tA text depends on the model file, the prompt, the options of sampling, constraint and RoPE, the "
        "seed, the types of the cache, --f16-as-bf16, --context-shift, and with LongRoPE (Phi 3) on -c. It does not depend "
        "on threads, the other requests of a batch, chunk and block sizes, prompt cache, packed weights, speculation or the "
        "CPU level. Two exceptions: with --blas sums depend on the batch; with layers on a GPU see --help gpu, --same",
        "Numbers\tEvery CPU level, from scalar to AVX-512, computes the same bits. Sums have a fixed order, so that neither "
        "threads nor the other rows of a step change them. Activations are rounded to 8 bits where they meet quantised "
        "weights (--help types)",
        "Privacy\tThe program opens no network connection but for downloads (--help hub), and takes some with --serve alone. It "
        "writes the files that options name, the cache of downloaded models, and the history of "
        "conversations (mode 0600), which the man page lists with all files",
        "Hostile files\tSizes, offsets, types, shapes and strings of a model file are checked before they are used; a fault "
        "is one line with its place. NaN and infinite weights are found when they reach the logits (exit code 2). A file "
        "that is rewritten in place at the same length while it runs is not noticed",
        "Sandbox\tBefore a run reads a file it gives up what it does not need, so that an error in a parser reaches nothing "
        "else. On Linux 5.13 and later (Landlock) it can open the files of the command line, the folders in which it writes "
        "with all that is in them, and parts of /proc and /sys. On every Linux (a seccomp filter) it can start no program, "
        "open no socket, and touch no other process. In a conversation any file can be read and written, since /read and "
        "/save name them. With a GPU any file can be read, and sockets of this machine can be used. Threads that libraries "
        "have begun before (OpenBLAS, a GPU's driver) are under seccomp alone. --no-sandbox switches all of this off; "
        "--version and -v say what holds",
        "Hostile text\tWhat a model writes cannot steer a terminal: control characters are shown as \\xHH. Contents of "
        "messages never become control tokens",
        "Results\tLines of a batch are written whole. JSON is valid UTF-8; an answer that is not has its exact bytes beside "
        "it as base64 (bytes)",
        "Options\tAn option that has no effect on the action is refused; one that has none without another option gets a note"}},
    {"performance", "Speed: what decides it", {
        "Reading a prompt is bound by arithmetic, writing an answer by the memory bandwidth: with a file of half the size "
        "answers are nearly twice as fast. --bench measures both on this machine, beside its memory bandwidth and arithmetic "
        "rate.",
        "$ llmrun --bench -m model.gguf -p 512 -n 128 --plot bench.svg",
        "-t\tthe default is the number of CPUs that the process may use; more are slower",
        "--batch\tmany prompts in one run share each reading of the weights",
        "--prompt-cache\ta long beginning is computed once",
        "-ctk q8_0 -ctv q8_0\thalf the memory of the cache, and faster attention over long contexts at the AVX2 level",
        "-md\ta draft model; --lookup is on by default",
        "Weights are packed into a faster layout (--repack auto) where a run is long enough to repay it: in one answer from "
        "160 tokens on. Fast kernels are written for x86-64 (AVX2, AVX-512) and ARM (sdot, smmla; --list cpu); other "
        "processors run plain C, which is slow."}},
    {"limits", "What llmrun cannot do", {
        "There is no picture or sound as input, and no training.",
        "Architectures that --help models does not list are refused, not run wrongly. Control vectors are not read. "
        "Big-endian files are refused.",
        "A layer that an adapter (--lora) changes runs on the CPU, and so do those before it. Of adapters, DoRA and what else "
        "changes more than products of matrices is refused.",
        "Among the samplers of llama.cpp adaptive-p and infill are missing.",
        "A text that is longer than the context of an encoder is an error (--truncate cuts it). A prompt that is longer than "
        "the context is one too; an answer ends where the context is full, unless --context-shift drops what is oldest.",
        "On processors other than x86-64 and aarch64 no fast kernels exist. On GPUs other than NVIDIA's nothing runs."}},
};
enum { TOPICS = sizeof topics_all / sizeof *topics_all };
