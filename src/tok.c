/* ===== [tok] vocabularies: text to tokens and back =====
 * Owns the tokenizers `llama` (SentencePiece: merge the neighbours with the best score), `gpt2` (BPE over bytes
 * written as characters), `gemma4` (BPE over characters with byte tokens), `bert` (WordPiece: the longest token at each
 * place of a word), `t5` (unigram: the tokens with the best sum of scores), `whitespace` (BPE over characters, without
 * spaces), `rwkv` (the longest token at each place of a text; tokens are written as Python writes bytes) and `plamo2` (unigram
 * over a whole text, bytes for what has no token), and the table of pre-tokenizers.
 * Invariants: every index taken from the file is checked here, once; a vocabulary does not change after
 * tok_load() and may be shared by threads; texts of tokens are views into the mapping.
 *   Text is bytes. Text that is not UTF-8 is accepted: each invalid byte is a word of its own. tok_decode() returns
 * exactly the bytes that tok_encode() got, so spaces are never "cleaned up"; llama and gemma4 take U+2581 for the space that it
 * marks, as SentencePiece does, and it comes back as a space. bert, t5 and whitespace are an exception: they
 * normalise texts and know no bytes. An invalid byte is U+FFFD there, which bert drops. Three rules are to be known:
 *   - a byte without a token in a gpt2 vocabulary is written as F4 90+k, where k is its number among such bytes, and an
 *     invalid F4 as F4 BF. UTF-8 never holds these pairs, so no other text changes. (starcoder lacks F5 to FF.)
 *   - a byte order mark at the beginning of a text has no token in a plamo2 vocabulary, as in its own tokenizer.
 *   - a character without a token is the unknown token in a whitespace vocabulary that names one, as in the tokenizers
 *     library; llama.cpp leaves it out.
 * A text gives control tokens only under TOK_SPECIAL and where none of their bytes is in a tok_span; a merge never gives one.
 *   Time is n log n in the length of a word and linear in that of a text.
 * Public: tok_list_pre, tok_pre_of, tok_load, tok_free; tok_count, tok_bos, tok_eos, tok_add_bos, tok_add_eos, tok_is_eog,
 * tok_is_control,
 * tok_model_name, tok_pre_name, tok_text, tok_piece, tok_json; tok_ids_add, tok_ids_drop, tok_ids_has, tok_chunks;
 * tok_start, tok_raw_flags, tok_encode, tok_encode_spans; tok_decode, tok_stream_init, tok_stream_push, tok_stream_flush,
 * tok_strips.
 * Opens: tok_ids, tok_span, tok_stream, tok_vocab. */

enum {
    TOK_COUNT_MAX = 1 << 22,         /* tokens: sixteen times the largest vocabulary known                */
    TOK_MERGE_MAX = 1 << 23,
    TOK_TEXT_MAX  = 4096,            /* bytes of a token's text in the file; 1,024 is the longest known   */
    TOK_INPUT_MAX = 1 << 30,         /* bytes of a text                                                   */
    TOK_STEPS_MAX = 7,               /* patterns of a pre-tokenizer                                       */
    TOK_WORD_MAX  = 100,             /* bert: characters of a word; a longer one is unknown               */
    TOK_MAP_MAX   = 1 << 22,         /* t5: bytes of a character map; 243,000 is the largest known        */
    TOK_KEY_MAX   = 128,             /* t5: bytes of a key of the map                                     */
    TOK_TO_MAX    = 256              /* t5: bytes of what it becomes                                      */
};

/* --- pre-tokenizers: they split a text into words before any merge. The patterns are those of the models' own
 * tokenizer.json. They are applied one after another, each to the pieces of the one before; matches and the text
 * between them become pieces. tok__expand() replaces \s, \S and \p{Han}, which PCRE2 defines differently from the
 * tokenizers library. Some patterns are rewritten for speed and match the same words.
 *   To add one: a row, or a name in the row that has its patterns. --- */

enum { PRE_BOS = 1, PRE_WHOLE = 2 /* ignore_merges: a word that is a token */, PRE_RAW = 4 /* see tok__raw */ };

#define PRE_THIRDS "\3"              /* begins a pattern whose matches are cut into groups of three from the right */
#define PRE_ABBR   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PRE_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PRE_GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define PRE_LLAMA3 PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES
#define PRE_QWEN2  PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES
#define PRE_CASED(tail) /* words whose case changes once, from upper to lower */ \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" tail "|" \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" tail "|"
#define PRE_GPT4O  PRE_CASED(PRE_ABBR "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES
#define PRE_CJK    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
#define PRE_DEEP3  /* ASCII punctuation and the Latin letters after it are one word */ \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" PRE_SPACES
#define PRE_SCRIPT "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define PRE_BLOOM  " ?[^(\\s|.,!?…。，、।۔،)]+"
#define PRE_CASES  /* the letters that come in two cases, as deepseek-llm lists them */ \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}" \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}" \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}" \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}" \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}" \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}" \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}" \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}" \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}" \
    "\\x{1e900}-\\x{1e943}"
#define PRE_ASIAN  /* scripts without spaces, as afmoe lists them */ \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}" \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}" \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
/* The classes of PRE_CASED without Han. PCRE2 cannot subtract classes, so the others are excluded. */
#define PRE_UPPER  "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define PRE_LOWER  "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"

typedef struct {
    const char *names;               /* tokenizer.ggml.pre, separated by spaces        */
    unsigned    flags;               /* PRE_BOS and its neighbours                     */
    const char *step[TOK_STEPS_MAX]; /* patterns, one applied after another; NULL: end */
} tok_pre;

static const tok_pre tok_pres[] = {
    {"default", 0, {"[\\p{P}$+<=>^~|]+", PRE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 olmo mpt jais trillion granite-docling modern-bert roberta-bpe "
     "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code", 0,
     {PRE_GPT2}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", PRE_BOS | PRE_WHOLE, {PRE_LLAMA3}},
    {"glm4 chatglm-bpe dbrx smaug-bpe", 0, {PRE_LLAMA3}},
    {"qwen2 deepseek-r1-qwen megrez hunyuan kormo f2llmv2 stablelm2 solar-open grok-2", 0, {PRE_QWEN2}},
    {"qwen35", 0, {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"gpt-4o llama4 minimax-m2 kanana2 talkie", 0, {PRE_GPT4O}},
    {"granite-embed-multi-97m", PRE_WHOLE, {PRE_GPT4O}},
    {"tekken", PRE_BOS | PRE_WHOLE, {PRE_CASED("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES}},
    {"kimi-k2", 0,
     {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" PRE_UPPER "*" PRE_LOWER "+" PRE_ABBR "?|[^\\r\\n\\p{L}\\p{N}]?" PRE_UPPER "+" PRE_LOWER
      "*" PRE_ABBR "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"deepseek-v3 hunyuan-dense joyai-llm", 0, {"\\p{N}{1,3}", PRE_CJK, PRE_DEEP3}},
    /* \s+$ begins where no space precedes: a long run of spaces in the middle is tried once, not once for each space */
    {"deepseek-llm", 0,
     {"[\r\n]", "\\s?[" PRE_CASES "]+", "\\s?[!-/:-~！-／：-～‘-‟\\x{3000}-。]+", "(?<!\\s)\\s+$", PRE_SCRIPT, "\\p{N}+"}},
    {"deepseek-coder", 0, {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", PRE_SCRIPT, "\\p{N}"}},
    {"falcon", 0, {"[\\p{P}$+<=>^~|`]+", PRE_GPT2, "[0-9][0-9][0-9]"}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", PRE_GPT2}},
    {"chameleon", PRE_BOS,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", PRE_GPT2}},
    {"superbpe", 0, {"\\p{N}+", PRE_THIRDS "\\d+"}},
    {"seed-coder", 0, {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" PRE_SPACES}},
    {"minicpm5", PRE_WHOLE,
     {"\\p{N}{1,3}", PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"bailingmoe bailingmoe2 llada-moe", 0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"exaone-moe", 0,
     {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?:[\\p{L}\\p{M}]++| (?=\\p{L}))*+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
               "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", PRE_QWEN2}},
    {"afmoe", 0, {"\\p{N}+", PRE_THIRDS "\\p{N}+", PRE_ASIAN, PRE_DEEP3}},
    {"tiny_aya cohere2moe", 0, {"(?<!\\d)\\d++(?![\\p{L}\\p{M}\\p{N}\\p{Pc}])", PRE_THIRDS "\\A\\d++\\z", PRE_GPT4O}},
    {"jais-2", 0,
     {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"
               "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
               "\\s{1,2}(?!\\S)|\\s{1}"}},
    {"youtu", PRE_WHOLE,
     {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[！…“”‘’—：；，\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"
      "[\\x{3105}-\\x{312f}]+|" PRE_CJK,
      PRE_CASED(PRE_ABBR "?") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES}},
    {"bloom gpt3-finnish poro-chat", 0, {PRE_BLOOM}},
    {"viking", 0, {PRE_BLOOM, "\\p{N}"}},
    {"gemma4 granite-embed-multi-311m", PRE_BOS | PRE_RAW, {NULL}},
    {"sarvam-moe", PRE_RAW, {NULL}},
};

/* Words of a whitespace vocabulary: the pattern \w+|[^\w\s]+ of the tokenizers library, whose \w are letters, marks, decimal
 * digits, letters that are numbers or symbols, connectors and joiners. */
#define PRE_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}" \
                 "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
static const tok_pre tok__whitespace = {"whitespace", 0, {"[" PRE_WORD "]+|[^" PRE_WORD "\\s]+"}};

static const tok_pre *tok__pre_find(bytes name) {
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++)
        if (bytes_among(name, tok_pres[i].names)) return &tok_pres[i];
    return NULL;
}

/* Lists the names: one line for each set of patterns. */
static void tok_list_pre(str *out) {
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) str_fmt(out, "%s\n", tok_pres[i].names);
}

/* Whether two patterns match the same: pieces between matches are pieces too, so an alternative \s+ at the end changes
 * nothing. */
static bool tok__same_step(const char *a, bytes b) {
    static const char rest[] = "|\\s+";
    bytes             x = bytes_of(a);
    if (bytes_ends(x, bytes_of(rest))) x.n -= sizeof rest - 1;
    if (bytes_ends(b, bytes_of(rest))) b.n -= sizeof rest - 1;
    return bytes_eq(x, b);
}

/* The first name of the pre-tokenizer that applies these patterns one after another, and takes a word that is a token as it is
 * (`whole`) or not, where there is one that does; NULL: none applies them. name: room for 32 bytes. */
static const char *tok_pre_of(const bytes *step, int n, bool whole, char name[32]) {
    const tok_pre *found = NULL;
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) {
        const tok_pre *p = &tok_pres[i];
        int            k = 0;
        while (k < n && k < TOK_STEPS_MAX && p->step[k] && tok__same_step(p->step[k], step[k])) k++;
        if (!n || k < n || (k < TOK_STEPS_MAX && p->step[k])) continue;
        if (!found || ((p->flags & PRE_WHOLE) != 0) == whole) found = p;
        if (((found->flags & PRE_WHOLE) != 0) == whole) break;
    }
    if (!found) return NULL;
    snprintf(name, 32, "%.*s", (int)strcspn(found->names, " "), found->names);
    return name;
}

/* Unicode's White_Space: \s of PCRE2 includes U+180E too. Unicode's Script=Han: \p{Han} of PCRE2 10.40 and later uses
 * script extensions and includes CJK punctuation too. */
#define PRE_WHITE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PRE_HAN   "\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}\\x{3007}\\x{3021}-\\x{3029}" \
                  "\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}" \
                  "\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b739}" \
                  "\\x{2b740}-\\x{2b81d}\\x{2b820}-\\x{2cea1}\\x{2ceb0}-\\x{2ebe0}\\x{2f800}-\\x{2fa1d}" \
                  "\\x{30000}-\\x{3134a}\\x{31350}-\\x{323af}"

static void tok__expand(const char *p, str *out) {
    static const struct { const char *from, *in, *out; } words[] = {
        {"\\s", PRE_WHITE, "[" PRE_WHITE "]"},
        {"\\S", NULL, "[^" PRE_WHITE "]"},
        {"\\p{Han}", PRE_HAN, "[" PRE_HAN "]"},
    };
    bool in = false;                                  /* inside a class */
    while (*p) {
        size_t w = 0, n = 0;
        while (w < 3 && strncmp(p, words[w].from, n = strlen(words[w].from))) w++;
        if (w < 3) str_put(out, in ? words[w].in : words[w].out);
        else {
            n = *p == '\\' ? 2 : 1;
            if (*p == '[') in = true;
            if (*p == ']') in = false;
            str_add(out, p, n);
        }
        p += n;
    }
}

/* --- the vocabulary --- */

/* token_type of the file */
enum { TOK_UNDEFINED, TOK_NORMAL, TOK_UNKNOWN, TOK_CONTROL, TOK_USER, TOK_UNUSED, TOK_BYTE, TOK_TYPES };
#define TOK_EOG 0x80                 /* added to the type: ends a generation */

typedef struct {
    uint64_t head;                   /* the first 8 bytes of the text: most tokens have no more */
    uint32_t n;                      /* bytes of the text                                       */
    int32_t  id1;                    /* id + 1, 0: empty                                        */
} tok__slot;

typedef struct {
    int32_t  left;                   /* the token on the left                                   */
    int32_t  right;                  /* its neighbour                                           */
    int32_t  id1;                    /* what they merge into, id + 1; 0: empty                  */
    uint32_t rank;                   /* place in the file: the lowest is merged first           */
} tok__merge;

typedef struct {
    bytes   text;                    /* a view into the file                                    */
    int32_t id;                      /* the token that it is                                    */
} tok__mark;

/* A trie of texts. The children of a node are neighbours: child[node] to child[node + 1]. */
typedef struct {
    uint32_t *child;                 /* [nodes + 1]                        */
    int32_t  *id;                    /* [nodes]; -1: no token ends here    */
    uint8_t  *label;                 /* [nodes]: the byte that leads to it */
} tok__trie;

/* A character map: a double array (darts-clone) of 32-bit units, unaligned, and texts that end with NUL. */
typedef struct {
    const uint8_t *unit;             /* [n] of 4 bytes        */
    const uint8_t *text;             /* [n_text]              */
    uint32_t       n;                /* units; 0: no map      */
    uint32_t       n_text;           /* bytes of all texts    */
} tok__map;

typedef enum { TOK_LLAMA, TOK_GPT2, TOK_GEMMA4, TOK_BERT, TOK_T5, TOK_WHITE, TOK_RWKV, TOK_PLAMO2, TOK_KINDS } tok_kind;

typedef struct tok_vocab {
    const gguf_file *g;              /* the file, which outlives the vocabulary                                  */
    tok_kind         kind;           /* of tokenizer.ggml.model                                                  */
    const char      *model;          /* its name                                                                 */
    char             pre_name[32];   /* of the pre-tokenizer; "": none                                           */
    const tok_pre   *pre;            /* NULL: no pre-tokenizer (llama, bert, t5)                                 */
    bool             raw;            /* texts of tokens are UTF-8 with U+2581 for a space and <0xHH> for a byte;
                                      * else each character stands for a byte (gpt2)                             */
    bool             spaces_lead;    /* raw: no token holds text before a run of spaces and the run              */
    bool             space_prefix;   /* a text begins with a space that it does not have                         */
    bool             add_bos;        /* texts begin with the token bos                                           */
    bool             add_eos;        /* texts end with the token eos                                             */
    bool             whole;          /* a word that is a token is not merged from parts                          */
    bool             ranks;          /* gpt2 without merges: neighbours that are a token merge, least id first   */
    bool             lower;          /* bert, whitespace: texts become lower case                                */
    bool             bare;           /* bert: texts lose their accents                                           */
    bool             squeeze;        /* t5: runs of spaces count as one, those around a text as none             */
    int32_t          n;              /* tokens                                                                   */
    int32_t          bos;            /* begins a text, -1: none                                                  */
    int32_t          eos;            /* ends a text, -1: none                                                    */
    int32_t          eot;            /* ends a turn, -1: none                                                    */
    int32_t          eom;            /* ends a message, -1: none                                                 */
    int32_t          unk;            /* stands for what has no token, -1: none                                   */
    bytes           *text;           /* [n] as in the file                                                       */
    uint8_t         *type;           /* [n] TOK_NORMAL and its neighbours, TOK_EOG                               */
    const uint8_t   *score;          /* [n] f32, unaligned; NULL: all equal                                      */
    uint32_t        *piece_at;       /* [n + 1] into piece: where a token's bytes begin                          */
    uint8_t         *piece;          /* [piece_at[n]] the bytes of each token in a text                          */
    size_t           text_max;       /* bytes of the longest text                                                */
    size_t           text_bytes;     /* of all texts                                                             */
    uint64_t         seed[2];        /* of the hashes                                                            */
    uint64_t         mask;           /* slots - 1                                                                */
    uint64_t         merge_mask;     /* entries of merge - 1                                                     */
    tok__slot       *slot;           /* [mask + 1] text to id                                                    */
    tok__merge      *merge;          /* [merge_mask + 1] pair to rank and result                                 */
    tok__trie        trie;           /* bert, t5, rwkv, plamo2: the tokens that a text can have                  */
    tok__map         map;            /* t5: what characters become                                               */
    double           unk_score;      /* t5: of a character without a token                                       */
    int32_t          byte_id[256];   /* the token of each byte, -1: none                                         */
    uint8_t          lost[256];      /* 90+k for a byte without a token: see the banner                          */
    uint8_t          found[48];      /* the reverse: k to the byte                                               */
    bool             escape;         /* bytes without a token are written as pairs                               */
    tok__mark       *mark;           /* [n_marks] user, control and unknown tokens, sorted by text               */
    uint32_t         n_marks;        /* how many                                                                 */
    uint32_t         mark_at[257];   /* the first of them that begins with each byte                             */
    pcre2_code      *code[TOK_STEPS_MAX];   /* of pre->step; t5: code[0] finds grapheme clusters; NULL: end      */
    pcre2_match_context *limits;     /* bounds of a match                                                        */
} tok_vocab;

static int tok__type(const tok_vocab *v, int32_t id) { return v->type[id] & 0x7f; }

/* Whether merges may give this token: all but control, unknown and byte tokens. */
static bool tok__plain(const tok_vocab *v, int32_t id) {
    int t = tok__type(v, id);
    return t == TOK_NORMAL || t == TOK_USER || t == TOK_UNUSED || t == TOK_UNDEFINED;
}

static uint64_t tok__load8(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

/* The first 8 bytes as a number; fewer than 8 without a loop, by loads that overlap. */
static uint64_t tok__head(const uint8_t *p, size_t n) {
    uint32_t a, b;
    if (n >= 8) return tok__load8(p);
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return a | (uint64_t)b << 8 * (n - 4);
    }
    return n ? p[0] | (uint64_t)p[n / 2] << 8 * (n / 2) | (uint64_t)p[n - 1] << 8 * (n - 1) : 0;
}

static uint64_t tok__mix(uint64_t a, uint64_t b) {
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Folded multiplication of 8 bytes at a time, with a fresh seed for each run, so that an attacker cannot choose tokens that
 * collide. */
static uint64_t tok__hash(const tok_vocab *v, uint64_t head, const uint8_t *p, size_t n) {
    uint64_t h = tok__mix(head ^ v->seed[0], v->seed[1] ^ n);
    for (size_t i = 8; i < n; i += 8) h = tok__mix(tok__load8(p + (i + 8 <= n ? i : n - 8)) ^ v->seed[0], v->seed[1] ^ h);
    return h;
}

/* The slot of a text, or the empty one where it would go. */
static tok__slot *tok__slot_of(const tok_vocab *v, bytes b) {
    uint64_t head = tok__head(b.p, b.n), at = tok__hash(v, head, b.p, b.n) & v->mask;
    for (; v->slot[at].id1; at = (at + 1) & v->mask) {
        const tok__slot *s = &v->slot[at];
        if (s->head != head || s->n != b.n) continue;
        if (b.n <= 8 || !memcmp(v->text[s->id1 - 1].p + 8, b.p + 8, b.n - 8)) break;
    }
    return &v->slot[at];
}

/* The token with this text; -1: none. */
static int32_t tok__find(const tok_vocab *v, bytes b) {
    return b.n && b.n <= v->text_max ? tok__slot_of(v, b)->id1 - 1 : -1;
}

/* The same of tokens that merges may give. */
static int32_t tok__find_plain(const tok_vocab *v, bytes b) {
    const int32_t id = tok__find(v, b);
    return id >= 0 && tok__plain(v, id) ? id : -1;
}

static uint64_t tok__merge_hash(const tok_vocab *v, int32_t left, int32_t right) {
    return tok__mix(((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ v->seed[0], v->seed[1]) & v->merge_mask;
}

/* The slot of a pair, or the empty one where it would go. */
static tok__merge *tok__merge_slot(const tok_vocab *v, int32_t left, int32_t right) {
    uint64_t at = tok__merge_hash(v, left, right);
    for (; v->merge[at].id1; at = (at + 1) & v->merge_mask)
        if (v->merge[at].left == left && v->merge[at].right == right) break;
    return &v->merge[at];
}

/* Number of tokens: ids are 0 to this, exclusive. */
static int32_t tok_count(const tok_vocab *v) { return v->n; }

/* The token that begins a text, and the one that ends it; -1: the vocabulary has none. */
static int32_t tok_bos(const tok_vocab *v) { return v->bos; }
static int32_t tok_eos(const tok_vocab *v) { return v->eos; }

/* Whether the model wants texts to begin with tok_bos(), and to end with tok_eos(); false where that token is missing. */
static bool tok_add_bos(const tok_vocab *v) { return v->add_bos; }
static bool tok_add_eos(const tok_vocab *v) { return v->add_eos; }

/* Whether a generation ends with this token: the end of a text, a turn or a message. Any number may be asked for. */
static bool tok_is_eog(const tok_vocab *v, int32_t id) { return id >= 0 && id < v->n && (v->type[id] & TOK_EOG); }

/* The value of tokenizer.ggml.model. */
static const char *tok_model_name(const tok_vocab *v) { return v->model; }

/* The pre-tokenizer in use, as tokenizer.ggml.pre names it; "": this kind of vocabulary has none. */
static const char *tok_pre_name(const tok_vocab *v) { return v->pre_name; }

/* Whether the token has no text: control and unknown tokens. */
static bool tok_is_control(const tok_vocab *v, int32_t id) {
    return id >= 0 && id < v->n && (tok__type(v, id) == TOK_CONTROL || tok__type(v, id) == TOK_UNKNOWN);
}

/* The token's text in the file; empty for a number that is no token. */
static bytes tok_text(const tok_vocab *v, int32_t id) { return id >= 0 && id < v->n ? v->text[id] : (bytes){0}; }

/* The token's bytes in a text; none for a control token, and for a number that is no token. */
static bytes tok_piece(const tok_vocab *v, int32_t id) {
    if (id < 0 || id >= v->n) return (bytes){0};
    return (bytes){v->piece + v->piece_at[id], v->piece_at[id + 1] - v->piece_at[id]};
}

/* Appends `"id":5,"text":"..."`, "bytes" where the text is not UTF-8, and "control" for a token without text. */
static void tok_json(const tok_vocab *v, int32_t id, jw *w) {
    const bool  control = tok_is_control(v, id);
    const bytes text = control ? tok_text(v, id) : tok_piece(v, id);
    jw_fmt(w, "id", "%d", id);
    jw_text(w, "text", text);
    jw_bytes(w, text);
    if (control) jw_bool(w, "control", true);
}

/* --- characters for bytes (gpt2's bytes_to_unicode): a printable byte is the character with that number, the others
 * are U+0100 and up, in order --- */

static bool tok__printable(int b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

static uint16_t tok__char_of(uint8_t b) {
    if (tok__printable(b)) return b;
    return (uint16_t)(0x100 + (b <= 0x20 ? b : b <= 0xa0 ? b - 0x7f + 0x21 : 0x43));
}

/* The byte of a character; -1: it stands for none. */
static int tok__byte_of_char(uint32_t c) {
    if (c < 0x100) return tok__printable((int)c) ? (int)c : -1;
    if (c > 0x143) return -1;
    return (int)(c <= 0x120 ? c - 0x100 : c <= 0x142 ? c - 0x121 + 0x7f : 0xad);
}

static size_t tok__put_char(uint8_t b, uint8_t *out) {
    return (size_t)utf8_put(out, tok__char_of(b));    /* two bytes at most */
}

/* --- load: tokens --- */

/* File offset of p; NULL: of the value. */
static uint64_t tok__at(const tok_vocab *v, const gguf_kv *kv, const uint8_t *p) {
    return p ? (uint64_t)(p - v->g->part[kv->part].p) : kv->at;
}

/* Sets e: file, error and byte offset. Always false. */
#define TOK_BAD(kv, p, ...) gguf_bad(v->g, (kv)->part, tok__at(v, kv, p), e, __VA_ARGS__)
#define TOK_NO(...)         err_set(e, EXIT_INPUT, __VA_ARGS__)

static const gguf_kv *tok__array(const gguf_file *g, const char *key, uint32_t elem, uint32_t other, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (kv && (kv->type != GGUF_ARR || (kv->elem != elem && kv->elem != other))) {
        gguf_bad(g, kv->part, kv->at, e, "%s is of type %s of %s, expected array of %s", key, gguf_type_name(kv->type),
                 gguf_type_name(kv->elem), gguf_type_name(elem));
        return NULL;
    }
    return kv;
}

/* Whether b is UTF-8 without NUL. Eight ASCII bytes at a time: the second term has a high bit where a byte is zero. */
static bool tok__is_text(bytes b, bool nul) {
    size_t i = 0;
    while (i < b.n) {
        uint64_t w = i + 8 <= b.n ? tok__load8(b.p + i) : ~0ull;
        int      len = 8;
        if ((w | ((w - 0x0101010101010101u) & ~w)) & 0x8080808080808080u) {
            len = utf8_len(b.p + i, b.n - i);
            if (!len || (!b.p[i] && !nul)) return false;
        }
        i += (size_t)len;
    }
    return true;
}

static bool tok__add_text(tok_vocab *v, const gguf_kv *kv, int32_t id, bytes t, err_t *e) {
    const char *what = !t.n ? "is empty" : t.n > TOK_TEXT_MAX ? "is too long"
                     : !tok__is_text(t, v->kind == TOK_WHITE) ? "is not UTF-8 without NUL" : NULL;
    if (what) return TOK_BAD(kv, t.p, "token %d of %zu bytes %s, expected 1 to %d bytes of text",
                              id, t.n, what, TOK_TEXT_MAX);
    tok__slot *s = tok__slot_of(v, t);
    if (s->id1) return TOK_BAD(kv, t.p, "token %d is spelled as token %d is: \"%.*s\", expected all to differ", id,
                               s->id1 - 1, GGUF_SHOW(t));
    *s = (tok__slot){tok__head(t.p, t.n), (uint32_t)t.n, id + 1};
    v->text[id] = t;
    v->text_bytes += t.n;
    if (v->text_bytes > UINT32_MAX)
        return TOK_BAD(kv, NULL, "the tokens are more than %u bytes, expected less", UINT32_MAX);
    v->text_max = max_size(v->text_max, t.n);
    return true;
}

static bool tok__load_texts(tok_vocab *v, err_t *e) {
    const char    *key = "tokenizer.ggml.tokens";
    const gguf_kv *kv = tok__array(v->g, key, GGUF_STR, GGUF_STR, e);
    if (!kv) return TOK_NO("%s: no %s, expected a vocabulary", v->g->path, key);
    if (kv->count < 1 || kv->count > TOK_COUNT_MAX)
        return TOK_BAD(kv, NULL, "%s has %llu entries, expected 1 to %d", key, GGUF_U(kv->count), TOK_COUNT_MAX);
    uint64_t size = 8;
    while (size < 2 * kv->count) size *= 2;
    v->n = (int32_t)kv->count;
    v->mask = size - 1;
    v->slot = mem_new(size, sizeof *v->slot);
    v->text = mem_new(kv->count, sizeof *v->text);
    v->type = mem_new(kv->count, 1);
    gguf_strs it = gguf_strs_of(v->g, kv);
    bytes     t;
    for (int32_t id = 0; id < v->n; id++)
        if (!gguf_strs_next(&it, &t)) return TOK_BAD(kv, it.p, "%s ends after %d tokens, expected %d", key, id, v->n);
        else if (!tok__add_text(v, kv, id, t, e)) return false;
    return true;
}

static bool tok__same_count(const tok_vocab *v, const gguf_kv *kv, err_t *e) {
    if (kv->count == (uint64_t)v->n) return true;
    return TOK_BAD(kv, NULL, "%.*s has %llu entries, expected %d as there are tokens", GGUF_SHOW(kv->key), GGUF_U(kv->count),
                   v->n);
}

static bool tok__load_scores(tok_vocab *v, err_t *e) {
    const gguf_kv *kv = tok__array(v->g, "tokenizer.ggml.scores", GGUF_F32, GGUF_F32, e);
    if (!kv) return !e->code;
    if (!tok__same_count(v, kv, e)) return false;
    for (int32_t i = 0; i < v->n; i++) {
        float f;
        memcpy(&f, kv->data + 4 * (size_t)i, 4);
        if (f != f) return TOK_BAD(kv, kv->data + 4 * (size_t)i, "the score of token %d is NaN, expected a number", i);
    }
    v->score = kv->data;
    return true;
}

/* The byte of "<0xHH>"; -1: another text. */
static int tok__byte_of(bytes t) {
    uint64_t b;
    return t.n == 6 && !memcmp(t.p, "<0x", 3) && t.p[5] == '>' && bytes_hex(t.p + 3, 2, &b) ? (int)b : -1;
}

static const bytes tok__space = {(const uint8_t *)"\xe2\x96\x81", 3};     /* U+2581, which stands for a space */

static bool tok__is_space(const uint8_t *p) { return p[0] == 0xe2 && p[1] == 0x96 && p[2] == 0x81; }

static bool tok__has_space(bytes t) { return memmem(t.p, t.n, tok__space.p, 3) != NULL; }

static bool tok__load_types(tok_vocab *v, err_t *e) {
    const gguf_kv *kv = tok__array(v->g, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, e);
    if (e->code || (kv && !tok__same_count(v, kv, e))) return false;
    for (int32_t i = 0; i < v->n; i++) {
        uint32_t t = TOK_NORMAL;
        if (kv) memcpy(&t, kv->data + 4 * (size_t)i, 4);
        if (t >= TOK_TYPES)
            return TOK_BAD(kv, kv->data + 4 * (size_t)i, "the type of token %d is %u, expected 0 to %d", i, t, TOK_TYPES - 1);
        bool hex = tok__byte_of(v->text[i]) >= 0;
        if (t == TOK_BYTE && !hex)
            return TOK_BAD(kv, v->text[i].p, "byte token %d is spelled \"%.*s\", expected <0x00> to <0xFF>", i,
                           GGUF_SHOW(v->text[i]));
        if (v->raw && v->kind != TOK_BERT && v->kind != TOK_RWKV && v->kind != TOK_PLAMO2 && t == TOK_NORMAL && hex) t = TOK_BYTE;
        if (v->raw && t == TOK_USER && tok__has_space(v->text[i])) t = TOK_NORMAL;     /* only merges can give U+2581 */
        v->type[i] = (uint8_t)t;
    }
    return true;
}

/* --- load: the tokens that end a generation. Files seldom name all of them, so they are found by their texts too. --- */

static const char *const tok__turn_ends[] = {  /* the first that exists ends a turn, where the file has no eot_token_id */
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>", NULL};
static const char *const tok__ends[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
    "[e~[", NULL};
static const char *const tok__fim_pads[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", NULL};
static const char *const tok__fim_reps[] = {
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", NULL};
static const char *const tok__fim_rest[] = {  /* parts of an infill prompt: control tokens, whatever their type */
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
    "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
    "<|code_suffix|>", "<|suffix|>", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
    "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>", NULL};

/* The token with this text; it becomes a control token, whatever its type. */
static int32_t tok__named(tok_vocab *v, const char *name, uint8_t mark) {
    int32_t id = tok__find(v, bytes_of(name));
    if (id >= 0) v->type[id] = (uint8_t)(TOK_CONTROL | (v->type[id] & TOK_EOG) | mark);
    return id;
}

static int32_t tok__first(tok_vocab *v, const char *const *names, uint8_t mark) {
    int32_t id = -1;
    while (id < 0 && *names) id = tok__named(v, *names++, mark);
    return id;
}

static bool tok__has(const tok_vocab *v, const char *name) { return tok__find(v, bytes_of(name)) >= 0; }

static void tok__undo_end(tok_vocab *v, const char *name, int type) {
    int32_t id = tok__find(v, bytes_of(name));
    if (id >= 0) v->type[id] = (uint8_t)type;
}

static void tok__mark_end(tok_vocab *v, int32_t id) {
    if (id >= 0) v->type[id] |= TOK_EOG;
}

static void tok__load_ends(tok_vocab *v, int32_t fim_pad, int32_t fim_rep, int32_t fim_sep) {
    if (v->eot < 0) v->eot = tok__first(v, tok__turn_ends, 0);
    if (v->eom < 0) v->eom = tok__named(v, "<|eom_id|>", 0);
    if (fim_pad < 0) fim_pad = tok__first(v, tok__fim_pads, 0);
    if (fim_rep < 0) fim_rep = tok__first(v, tok__fim_reps, 0);
    if (fim_sep < 0) fim_sep = tok__named(v, "<|file_sep|>", 0);
    for (const char *const *s = tok__fim_rest; *s; s++) tok__named(v, *s, 0);
    for (const char *const *s = tok__ends; *s; s++) tok__named(v, *s, TOK_EOG);
    const int32_t ends[] = {v->eos, v->eot, v->eom, fim_pad, fim_rep, fim_sep};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) tok__mark_end(v, ends[i]);
    /* gpt-oss and solar-open close a part of the answer with <|end|>; gemma4 uses </s> as text */
    bool calls = tok__has(v, "<|call|>") || tok__has(v, "<|calls|>");
    if (calls && (tok__has(v, "<|return|>") || tok__has(v, "<|flush|>"))) tok__undo_end(v, "<|end|>", TOK_CONTROL);
    if (tok__has(v, "<|tool_response>")) tok__undo_end(v, "</s>", TOK_NORMAL);
}

/* Reads the id of a special token. -1, also as an unsigned number, is no id, as if there were no such key; another number that is
 * no token is refused for bos and eos, and else left out with a warning. */
static bool tok__special(const tok_vocab *v, const char *name, int32_t *id, err_t *e) {
    char           key[80];
    uint64_t       got;
    double         x = 0;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    const gguf_kv *kv = gguf_find(v->g, key);
    if (*id >= v->n) *id = -1;                        /* a default that this vocabulary does not have */
    const int rc = gguf_get_u64(v->g, key, 0, (uint64_t)v->n - 1, &got, e);
    if (rc > 0) *id = (int32_t)got;
    if (rc >= 0 || kv->type == GGUF_F32 || kv->type == GGUF_F64) return rc >= 0;
    err_t none = {0};
    if (gguf_get_number(v->g, key, -DBL_MAX, DBL_MAX, &x, &none) < 1) return false;
    const bool absent = x == -1 || x == UINT32_MAX || x == (double)UINT64_MAX;
    if (!absent && (id == &v->bos || id == &v->eos)) return false;
    if (!absent) log_warn("%s: %s is %.0f, but ids are 0 to %d: left out", v->g->path, key, x, v->n - 1);
    *e = (err_t){0};
    return true;
}

/* What holds where the file says nothing. */
static void tok__set_defaults(tok_vocab *v) {
    static const struct { int32_t bos, eos, unk; bool add_bos, add_eos, prefix; } rows[TOK_KINDS] = {
        /*            bos  eos  unk  add_bos add_eos space_prefix */
        [TOK_LLAMA]  = {1,   2,   0,   true,  false, true},
        [TOK_GPT2]   = {-1,  -1,  -1,  false, false, false},
        [TOK_GEMMA4] = {-1,  -1,  -1,  false, false, false},
        [TOK_BERT]   = {101, 102, 100, true,  true,  true},
        [TOK_T5]     = {-1,  1,   2,   false, true,  true},
        [TOK_WHITE]  = {-1,  -1,  -1,  false, false, false},
        [TOK_RWKV]   = {-1,  -1,  -1,  false, false, false},
        [TOK_PLAMO2] = {1,   2,   0,   false, false, false},
    };
    v->bos = rows[v->kind].bos, v->eos = rows[v->kind].eos, v->unk = rows[v->kind].unk, v->eot = v->eom = -1;
    v->add_bos = rows[v->kind].add_bos || (v->pre && v->pre->flags & PRE_BOS);
    v->add_eos = rows[v->kind].add_eos;
    v->space_prefix = rows[v->kind].prefix;
    v->whole = v->pre && v->pre->flags & PRE_WHOLE;
    v->lower = v->kind != TOK_WHITE;
    v->squeeze = true;
}

/* Reads the flags. add_sep_token is about pairs of texts, which nothing here encodes. */
static bool tok__load_flags(tok_vocab *v, err_t *e) {
    const struct { const char *key; bool *flag; } flags[] = {
        {"tokenizer.ggml.add_bos_token", &v->add_bos}, {"tokenizer.ggml.add_eos_token", &v->add_eos},
        {"tokenizer.ggml.add_space_prefix", &v->space_prefix}, {"tokenizer.ggml.ignore_merges", &v->whole},
        {"tokenizer.ggml.remove_extra_whitespaces", &v->squeeze}, {"tokenizer.ggml.normalizer.lowercase", &v->lower}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (gguf_get_bool(v->g, flags[i].key, flags[i].flag, e) < 0) return false;
    v->bare = v->lower;
    if (gguf_get_bool(v->g, "tokenizer.ggml.normalizer.strip_accents", &v->bare, e) < 0) return false;
    if (v->raw && v->pre && (v->pre->flags & PRE_BOS)) v->add_bos = true;      /* gemma4 needs it, though its files say false */
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    return true;
}

/* Reads the ids. A text of bert begins with CLS and ends with SEP; of two names for one token the later one counts. */
static bool tok__load_specials(tok_vocab *v, err_t *e) {
    int32_t    fim_pad = -1, fim_rep = -1, fim_sep = -1, none = -1;   /* none: checked like the others, but not used */
    const bool bert = v->kind == TOK_BERT;
    tok__set_defaults(v);
    const struct { const char *name; int32_t *id; } ids[] = {
        {"bos", &v->bos}, {"eos", &v->eos}, {"eot", &v->eot}, {"eom", &v->eom}, {"unknown", &v->unk},
        {"fim_pad", &fim_pad}, {"fim_rep", &fim_rep}, {"fim_sep", &fim_sep}, {"padding", &none},
        {"seperator", bert ? &v->eos : &none}, {"cls", bert ? &v->bos : &none}, {"mask", &none}, {"fim_pre", &none},
        {"fim_suf", &none}, {"fim_mid", &none}, {"prefix", &none}, {"suffix", &none}, {"middle", &none}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (!tok__special(v, ids[i].name, ids[i].id, e)) return false;
    if (!tok__load_flags(v, e)) return false;
    tok__load_ends(v, fim_pad, fim_rep, fim_sep);
    return true;
}

/* --- load: pieces and bytes --- */

/* Turns characters for bytes into the bytes; any other character stays. */
static size_t tok__chars_to_bytes(bytes t, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < t.n;) {
        uint8_t  c = t.p[i];
        uint32_t cp = c >= 0xc2 && c <= 0xc5 ? (uint32_t)(c & 0x1f) << 6 | (t.p[i + 1] & 0x3f) : UINT32_MAX;
        int      b = tok__byte_of_char(cp);
        if (b >= 0) out[n++] = (uint8_t)b, i += 2;
        else out[n++] = c, i++;
    }
    return n;
}

static size_t tok__restore_spaces(bytes t, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < t.n;) {
        bool blank = t.n - i >= 3 && tok__is_space(t.p + i);
        out[n++] = blank ? ' ' : t.p[i];
        i += blank ? 3 : 1;
    }
    return n;
}

/* The bytes that Python writes so between quotes: \t \n \r \xHH, and any other character after a backslash. */
static size_t tok__unquote(bytes t, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++) {
        const uint8_t c = i + 1 < t.n && t.p[i] == '\\' ? t.p[++i] : 0;
        const bool    hex = c == 'x' && i + 2 < t.n && isxdigit(t.p[i + 1]) && isxdigit(t.p[i + 2]);
        char          digits[3] = {0};
        if (hex) memcpy(digits, t.p + i + 1, 2), i += 2;
        out[n++] = hex ? (uint8_t)strtoul(digits, NULL, 16) : c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : t.p[i];
    }
    return n;
}

static size_t tok__make_piece(const tok_vocab *v, int32_t id, uint8_t *out) {
    bytes t = v->text[id];
    switch (tok__type(v, id)) {
    case TOK_CONTROL: case TOK_UNKNOWN: return 0;
    case TOK_USER: return memcpy(out, t.p, t.n), t.n;
    case TOK_BYTE: return out[0] = (uint8_t)tok__byte_of(t), 1;
    default:
        if (v->kind == TOK_WHITE || v->kind == TOK_PLAMO2) return memcpy(out, t.p, t.n), t.n;
        if (v->kind == TOK_RWKV) return tok__unquote(t, out);
        return v->raw ? tok__restore_spaces(t, out) : tok__chars_to_bytes(t, out);
    }
}

static void tok__load_pieces(tok_vocab *v) {
    v->piece = mem_grow(NULL, v->text_bytes, 1);           /* a piece is no longer than its text */
    v->piece_at = mem_new((size_t)v->n + 1, sizeof *v->piece_at);
    size_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        n += tok__make_piece(v, i, v->piece + n);
        v->piece_at[i + 1] = (uint32_t)n;
    }
}

/* Finds the token of each byte: the one whose piece is that byte. */
static void tok__load_bytes(tok_vocab *v) {
    int lost = 0;
    for (int b = 0; b < 256; b++) {
        uint8_t t[8];
        char    hex[8];
        snprintf(hex, sizeof hex, "<0x%02X>", (unsigned)b);
        size_t  n = v->raw ? 0 : tok__put_char((uint8_t)b, t);
        int32_t id = v->raw ? tok__find(v, bytes_of(hex)) : tok__find(v, (bytes){t, n});
        if (v->raw && id < 0) id = tok__find(v, (bytes){(const uint8_t[]){(uint8_t)b}, 1});
        bytes piece = tok_piece(v, id);
        v->byte_id[b] = piece.n == 1 && piece.p[0] == b ? id : -1;
        if (v->byte_id[b] >= 0) continue;
        if (lost < 0x2f) v->found[lost] = (uint8_t)b, v->lost[b] = (uint8_t)(0x90 + lost);
        lost++;
    }
    v->found[0x2f] = 0xf4, v->lost[0xf4] = 0xbf;
    v->escape = !v->raw && lost && lost < 0x2f && v->byte_id[0xf4] >= 0;
    for (int b = 0x90; b <= 0xbf; b++) v->escape = v->escape && v->byte_id[b] >= 0;
}

/* Whether every token that holds spaces begins with them: then a run of spaces always begins a word. */
static bool tok__spaces_lead(const tok_vocab *v) {
    for (int32_t id = 0; id < v->n; id++) {
        bytes t = v->text[id];
        if (!tok__plain(v, id)) continue;
        for (size_t i = 1; i + 3 <= t.n; i++)
            if (tok__is_space(t.p + i) && (i < 3 || !tok__is_space(t.p + i - 3))) return false;
    }
    return true;
}

/* --- load: merges --- */

/* The id of left and right joined. Files mostly list merges in the order of their results: the last one and the next are
 * tried first. */
static int32_t tok__joined(const tok_vocab *v, bytes left, bytes right, int32_t last) {
    uint8_t both[2 * TOK_TEXT_MAX];
    for (int32_t id = last; id <= last + 1 && id < v->n; id++) {
        bytes t = v->text[id];
        if (t.n != left.n + right.n || memcmp(t.p, left.p, left.n)) continue;
        if (!memcmp(t.p + left.n, right.p, right.n)) return id;
    }
    memcpy(both, left.p, left.n);
    memcpy(both + left.n, right.p, right.n);
    return tok__find(v, (bytes){both, left.n + right.n});
}

/* Reads a merge into m; m->id1 stays 0 where no text can use the merge. */
static bool tok__read_merge(const tok_vocab *v, const gguf_kv *kv, bytes t, int32_t last, tok__merge *m, err_t *e) {
    const uint8_t *space = t.n > 2 ? memchr(t.p + 1, ' ', t.n - 2) : NULL;
    if (!space)
        return TOK_BAD(kv, t.p, "merge %u is \"%.*s\", expected two texts with a space between", m->rank, GGUF_SHOW(t));
    bytes   left = {t.p, (size_t)(space - t.p)}, right = {space + 1, t.n - left.n - 1};
    int32_t l = tok__find(v, left), r = tok__find(v, right);
    int32_t id = l >= 0 && r >= 0 ? tok__joined(v, left, right, last) : -1;
    if (id < 0 && !v->raw)
        return TOK_BAD(kv, t.p, "merge %u is \"%.*s\", expected its parts and their sum to be tokens", m->rank,
                       GGUF_SHOW(t));
    if (id < 0 || !tok__plain(v, l) || !tok__plain(v, r) || !tok__plain(v, id)) return true;
    bool user = tok__type(v, l) == TOK_USER || tok__type(v, r) == TOK_USER || tok__type(v, id) == TOK_USER;
    if (user && tok_piece(v, l).n + tok_piece(v, r).n != tok_piece(v, id).n) return true;      /* would decode to another text */
    m->left = l, m->right = r, m->id1 = id + 1;
    return true;
}

/* Adds a merge; a later one with the same pair is ignored. */
static void tok__add_merge(tok_vocab *v, const tok__merge *m) {
    tok__merge *slot = m->id1 ? tok__merge_slot(v, m->left, m->right) : NULL;
    if (slot && !slot->id1) *slot = *m;
}

static bool tok__load_merges(tok_vocab *v, err_t *e) {
    const char    *key = "tokenizer.ggml.merges";
    const gguf_kv *kv = tok__array(v->g, key, GGUF_STR, GGUF_STR, e);
    if (!kv && e->code) return false;
    v->ranks = !kv && v->kind == TOK_GPT2 && !strcmp(v->pre_name, "kimi-k2");  /* a file of tiktoken has ranks alone */
    if (v->ranks) return v->whole = true;
    if (!kv) return TOK_NO("%s: no %s, expected them with tokenizer.ggml.model %s", v->g->path, key, v->model);
    if (kv->count > TOK_MERGE_MAX)
        return TOK_BAD(kv, NULL, "%s has %llu entries, expected at most %d", key, GGUF_U(kv->count), TOK_MERGE_MAX);
    uint64_t size = 8;
    while (size < kv->count + kv->count / 2) size *= 2;
    v->merge_mask = size - 1;
    v->merge = mem_new(size, sizeof *v->merge);
    gguf_strs  it = gguf_strs_of(v->g, kv);
    bytes      t;
    tok__merge wait[16] = {0};                        /* the table is larger than the caches: slots are prefetched */
    uint32_t   n = (uint32_t)kv->count;
    int32_t    last = 0;
    for (uint32_t i = 0; i < n + 16; i++) {
        tok__merge *m = &wait[i % 16];
        tok__add_merge(v, m);
        *m = (tok__merge){.rank = i};
        if (i >= n) continue;
        if (!gguf_strs_next(&it, &t)) return TOK_BAD(kv, it.p, "%s ends after %u merges", key, i);
        if (!tok__read_merge(v, kv, t, last, m, e)) return false;
        if (m->id1) last = m->id1 - 1, __builtin_prefetch(&v->merge[tok__merge_hash(v, m->left, m->right)], 1);
    }
    return true;
}

/* --- load: special tokens by text, and patterns --- */

static int tok__by_text(const void *a, const void *b) {
    bytes x = ((const tok__mark *)a)->text, y = ((const tok__mark *)b)->text;
    int   c = memcmp(x.p, y.p, min_size(x.n, y.n));
    return c ? c : (x.n > y.n) - (x.n < y.n);
}

/* Whether a token stands for itself in a text, so that tok_encode() adds a space after it. */
static bool tok__is_apart(const tok_vocab *v, int32_t id) {
    return tok_is_control(v, id) || (id >= 0 && id < v->n && tok__type(v, id) == TOK_USER);
}

/* Whether a token may stand in a text among others: UNUSED ones have no place there. */
static bool tok__is_part(const tok_vocab *v, int32_t id) { return tok__plain(v, id) && tok__type(v, id) != TOK_UNUSED; }

/* The n tokens for which `is` holds, sorted by their texts. The caller frees the list. */
static tok__mark *tok__sorted(const tok_vocab *v, bool (*is)(const tok_vocab *v, int32_t id), uint32_t *n) {
    tok__mark *list = mem_new((size_t)v->n, sizeof *list);
    *n = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (is(v, id)) list[(*n)++] = (tok__mark){v->text[id], id};
    qsort(list, *n, sizeof *list, tok__by_text);
    return mem_grow(list, *n, sizeof *list);
}

static void tok__load_marks(tok_vocab *v) {
    v->mark = tok__sorted(v, tok__is_apart, &v->n_marks);
    for (uint32_t i = 0; i < v->n_marks; i++) v->mark_at[v->mark[i].text.p[0] + 1] = i + 1;
    for (int c = 0; c < 256; c++)
        if (v->mark_at[c + 1] < v->mark_at[c]) v->mark_at[c + 1] = v->mark_at[c];
}

/* --- load: the trie (bert, t5, rwkv, plamo2) --- */

static int tok__by_text_then_id(const void *a, const void *b) {
    const int32_t x = ((const tok__mark *)a)->id, y = ((const tok__mark *)b)->id;
    const int     c = tok__by_text(a, b);
    return c ? c : (x > y) - (x < y);
}

/* The n tokens that a text can have, sorted by what stands for them in it: all differ. The caller frees the list. */
static tok__mark *tok__parts(const tok_vocab *v, uint32_t *n) {
    tok__mark *list = tok__sorted(v, tok__is_part, n);
    uint32_t   kept = 0;
    if (v->kind != TOK_RWKV) return list;
    for (uint32_t i = 0; i < *n; i++) list[i].text = tok_piece(v, list[i].id);
    qsort(list, *n, sizeof *list, tok__by_text_then_id);
    for (uint32_t i = 0; i < *n; i++)
        if (list[i].text.n && (!kept || tok__by_text(&list[kept - 1], &list[i]))) list[kept++] = list[i];
    *n = kept;
    return list;
}

/* Number of nodes: one for each beginning of a text, the empty one too. */
static size_t tok__trie_size(const tok__mark *list, uint32_t n) {
    size_t nodes = 1;
    for (uint32_t i = 0; i < n; i++) {
        const bytes a = list[i ? i - 1 : 0].text, b = list[i].text;
        size_t      same = 0;
        while (i && same < a.n && same < b.n && a.p[same] == b.p[same]) same++;
        nodes += b.n - same;
    }
    return nodes;
}

/* Nodes are made level by level. A node owns the texts from..to of the list, which share their first `depth` bytes. */
static bool tok__load_trie(tok_vocab *v, err_t *e) {
    typedef struct { uint32_t from, to, depth; } part;
    if (v->text_bytes > INT32_MAX)
        return TOK_NO("%s: the tokens are %zu bytes, expected at most %d", v->g->path, v->text_bytes, INT32_MAX);
    uint32_t     n_list;
    tok__mark   *list = tok__parts(v, &n_list);
    const size_t nodes = tok__trie_size(list, n_list);
    part        *own = mem_new(nodes, sizeof *own);
    tok__trie    t = {mem_new(nodes + 1, sizeof *t.child), mem_new(nodes, sizeof *t.id), mem_new(nodes, 1)};
    uint32_t     made = 1;
    own[0].to = n_list;
    for (size_t i = 0; i < nodes; i++) {
        part p = own[i];
        t.child[i] = made;
        t.id[i] = p.from < p.to && list[p.from].text.n == p.depth ? list[p.from++].id : -1;
        for (uint32_t k = p.from; k < p.to; k++) {
            const uint8_t c = list[k].text.p[p.depth];
            if (k == p.from || c != t.label[made - 1]) t.label[made] = c, own[made++] = (part){k, k, p.depth + 1};
            own[made - 1].to = k + 1;
        }
    }
    t.child[nodes] = made;
    v->trie = t;
    mem_free_all(own, list);
    return true;
}

/* The child of a node; 0: it has none with this byte. */
static uint32_t tok__trie_step(const tok__trie *t, uint32_t node, uint8_t c) {
    const uint32_t at = t->child[node];
    const uint8_t *hit = memchr(t->label + at, c, t->child[node + 1] - at);
    return hit ? (uint32_t)(hit - t->label) : 0;
}

/* --- load: the character map (t5). A unit of the double array holds a byte (bits 0 to 7, and bit 31 where it is a value
 * instead), whether a key ends here (bit 8), and how far its children are (bits 10 to 30, times 256 under bit 9): the child
 * for byte c is at base ^ c, the value at base. --- */

static uint32_t tok__unit(const tok__map *m, uint32_t i) {
    uint32_t u;
    memcpy(&u, m->unit + 4 * (size_t)i, 4);
    return u;
}

static uint32_t tok__map_base(uint32_t i, uint32_t u) { return i ^ (u >> 10) << ((u & 1u << 9) >> 6); }

/* The unit of the child for byte c; 0: there is none. Unit 0 is the root, which is no child. */
static uint32_t tok__map_child(const tok__map *m, uint32_t base, uint8_t c) {
    const uint32_t i = base ^ c;
    return c && i < m->n && (tok__unit(m, i) & 0x800000ff) == c ? i : 0;
}

/* Whether the key that ends above `base` has a value that is the beginning of a text. */
static bool tok__map_value(const tok__map *m, uint32_t base) {
    const uint32_t u = base < m->n ? tok__unit(m, base) : 0, at = u & 0x7fffffff;
    return u >> 31 && at < m->n_text && (!at || !m->text[at - 1]);
}

/* Bytes of the longest key below `base`; height[]: 1 + that of units seen, since keys may share their ends. -1: one is longer
 * than TOK_KEY_MAX (then the units may be a cycle), or has no value. */
static int tok__map_height(const tok__map *m, uint32_t base, int depth, uint8_t *height) {
    int most = 0;
    for (int c = 1; c < 256; c++) {
        const uint32_t i = tok__map_child(m, base, (uint8_t)c), below = i ? tok__map_base(i, tok__unit(m, i)) : 0;
        if (!i) continue;
        if (tok__unit(m, i) >> 8 & 1 && !tok__map_value(m, below)) return -1;
        int h = height[i] ? height[i] - 1 : depth < TOK_KEY_MAX ? tok__map_height(m, below, depth + 1, height) : -1;
        if (h < 0 || depth + 1 + h > TOK_KEY_MAX) return -1;
        height[i] = (uint8_t)(h + 1);
        most = max_int(most, h + 1);
    }
    return most;
}

/* Whether what characters become is UTF-8, each at most TOK_TO_MAX bytes, and ends. */
static bool tok__map_texts(const tok__map *m) {
    size_t from = 0;
    for (size_t i = 0; i < m->n_text; i++) {
        if (m->text[i]) continue;
        if (i - from > TOK_TO_MAX || !utf8_whole((bytes){m->text + from, i - from})) return false;
        from = i + 1;
    }
    return from == m->n_text;
}

static bool tok__load_map(tok_vocab *v, err_t *e) {
    const gguf_kv *kv = tok__array(v->g, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, GGUF_I8, e);
    uint32_t       size;
    if (!kv || !kv->count) return !e->code;
    if (kv->count < 9 || kv->count > TOK_MAP_MAX)
        return TOK_BAD(kv, NULL, "the character map has %llu bytes, expected 9 to %d", GGUF_U(kv->count), TOK_MAP_MAX);
    memcpy(&size, kv->data, 4);
    if (!size || size % 4 || size >= kv->count - 4)
        return TOK_BAD(kv, kv->data, "the units of the character map are %u bytes, expected a multiple of 4 below %llu", size,
                       GGUF_U(kv->count) - 4);
    const tok__map m = {kv->data + 4, kv->data + 4 + size, size / 4, (uint32_t)(kv->count - 4 - size)};
    if (!tok__map_texts(&m))
        return TOK_BAD(kv, m.text, "the texts of the character map are wrong, expected UTF-8 of at most %d bytes, NUL after each",
                       TOK_TO_MAX);
    uint8_t   *height = mem_new(m.n, 1);
    const bool ok = tok__map_height(&m, tok__map_base(0, tok__unit(&m, 0)), 0, height) >= 0;
    mem_free(height);
    if (!ok)
        return TOK_BAD(kv, m.unit, "the keys of the character map are wrong, expected at most %d bytes, and a text for each",
                       TOK_KEY_MAX);
    v->map = m;
    return true;
}

static float tok__score(const tok_vocab *v, int32_t id) {
    float f = 0;
    if (v->score) memcpy(&f, v->score + 4 * (size_t)id, 4);
    return f;
}

/* A character without a token costs 10 more than the worst token, as in SentencePiece. */
static bool tok__load_unigram(tok_vocab *v, err_t *e) {
    if (!tok__load_scores(v, e)) return false;
    if (!v->score) return TOK_NO("%s: no tokenizer.ggml.scores, expected them with tokenizer.ggml.model t5", v->g->path);
    double least = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (tok__type(v, id) == TOK_NORMAL && tok__score(v, id) < least) least = tok__score(v, id);
    v->unk_score = least - 10;
    return tok__load_map(v, e) && tok__load_trie(v, e);
}

/* Scores, the trie, and a token for each byte: a text may have any character. */
static bool tok__load_plamo2(tok_vocab *v, err_t *e) {
    if (!tok__load_scores(v, e)) return false;
    if (!v->score) return TOK_NO("%s: no tokenizer.ggml.scores, expected them with tokenizer.ggml.model plamo2", v->g->path);
    for (int b = 0; b < 256; b++)
        if (v->byte_id[b] < 0 || tok__type(v, v->byte_id[b]) != TOK_BYTE)
            return TOK_NO("%s: no byte token <0x%02X>, expected all with tokenizer.ggml.model plamo2", v->g->path, (unsigned)b);
    return tok__load_trie(v, e);
}

static pcre2_code *tok__compile(const char *pattern) {
    str        s = {0};
    int        rc;
    PCRE2_SIZE at;
    tok__expand(pattern + (*pattern == *PRE_THIRDS), &s);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)s.p, s.n, PCRE2_UTF | PCRE2_UCP, &rc, &at, NULL);
    if (!code && rc == PCRE2_ERROR_HEAP_FAILED) die(EXIT_RESOURCE, "out of memory: a pattern of %zu bytes", s.n);
    ASSERT(code);                                     /* the patterns are constants of this program */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);      /* where it fails, PCRE2 interprets: only slower */
    str_drop(&s);
    return code;
}

static void tok__load_patterns(tok_vocab *v) {
    for (int i = 0; v->pre && i < TOK_STEPS_MAX && v->pre->step[i]; i++) v->code[i] = tok__compile(v->pre->step[i]);
    if (v->map.n) v->code[0] = tok__compile("\\X");
    v->limits = pcre2_match_context_create(NULL);
    if (!v->limits) die(EXIT_RESOURCE, "out of memory: a match context");
    pcre2_set_match_limit(v->limits, UINT32_MAX);     /* no pattern of ours backtracks more than once over a run */
}

#define TOK_MODELS "llama, gpt2, gemma4, bert, t5, whitespace, rwkv or plamo2"

static bool tok__load_model(tok_vocab *v, err_t *e) {
    static const char *const models[TOK_KINDS] = {"llama", "gpt2", "gemma4", "bert", "t5", "whitespace", "rwkv",
                                                 "plamo2"};
    const gguf_kv *kv = gguf_find(v->g, "tokenizer.ggml.model");
    bytes          model = {0};
    if (gguf_get_str(v->g, "tokenizer.ggml.model", &model, e) < 0) return false;
    if (!kv) return TOK_NO("%s: no tokenizer.ggml.model, expected " TOK_MODELS, v->g->path);
    for (int i = 0; i < TOK_KINDS; i++)
        if (bytes_is(model, models[i])) v->kind = (tok_kind)i, v->model = models[i];
    if (!v->model) return TOK_BAD(kv, NULL, "tokenizer.ggml.model is \"%.*s\", expected " TOK_MODELS, GGUF_SHOW(model));
    v->raw = v->kind != TOK_GPT2;
    return true;
}

static bool tok__load_pre(tok_vocab *v, const char *pre, err_t *e) {
    const gguf_kv *kv = gguf_find(v->g, "tokenizer.ggml.pre");
    bytes          name = {0};
    if (v->kind == TOK_WHITE && !pre) {
        if (gguf_get_str(v->g, "tokenizer.ggml.pre", &name, e) < 0) return false;
        if (kv && !bytes_is(name, tok__whitespace.names))
            return TOK_BAD(kv, NULL, "tokenizer.ggml.pre is \"%.*s\", expected whitespace", GGUF_SHOW(name));
        v->pre = &tok__whitespace;
        snprintf(v->pre_name, sizeof v->pre_name, "%s", tok__whitespace.names);
        return true;
    }
    if (v->kind != TOK_GPT2 && v->kind != TOK_GEMMA4)
        return !pre || TOK_NO("--pre %.80s: a %s vocabulary has no pre-tokenizer, expected a gpt2 one", pre, v->model);
    if (gguf_get_str(v->g, "tokenizer.ggml.pre", &name, e) < 0) return false;
    if (pre) name = bytes_of(pre);
    else if (v->kind == TOK_GEMMA4) name = bytes_of("gemma4");
    else if (!kv) {
        name = bytes_of("default");
        log_warn("%s: no tokenizer.ggml.pre, taking default; --pre NAME sets another", v->g->path);
    }
    v->pre = tok__pre_find(name);
    if (!v->pre && pre)
        return TOK_NO("--pre %.80s: unknown, expected a name of --list pre, such as llama-bpe or qwen2", pre);
    if (!v->pre)
        return TOK_BAD(kv, NULL, "tokenizer.ggml.pre is \"%.*s\", expected a name of --list pre; --pre NAME sets one",
                       GGUF_SHOW(name));
    v->raw = v->pre->flags & PRE_RAW;
    memcpy(v->pre_name, name.p, name.n);              /* names of the table fit */
    return true;
}

/* Frees what tok_load() made; NULL is fine. */
static void tok_free(tok_vocab *v) {
    if (!v) return;
    for (int i = 0; i < TOK_STEPS_MAX; i++) pcre2_code_free(v->code[i]);
    pcre2_match_context_free(v->limits);
    mem_free_all(v->text, v->type, v->piece, v->piece_at, v->slot, v->merge, v->mark);
    mem_free_all(v->trie.child, v->trie.id, v->trie.label, v);
}

/* What the kind of vocabulary splits words with. */
static bool tok__load_rules(tok_vocab *v, err_t *e) {
    switch (v->kind) {
    case TOK_LLAMA: return tok__load_scores(v, e);
    case TOK_BERT: case TOK_RWKV: return tok__load_trie(v, e);
    case TOK_T5: return tok__load_unigram(v, e);
    case TOK_PLAMO2: return tok__load_plamo2(v, e);
    default: return tok__load_merges(v, e);
    }
}

/* Reads and checks the vocabulary of a file, which must outlive it. pre: a pre-tokenizer in place of the file's, or NULL. On
 * failure NULL, and e is set. */
static tok_vocab *tok_load(const gguf_file *g, const char *pre, err_t *e) {
    tok_vocab *v = mem_new(1, sizeof *v);
    uint64_t   seed = rng_fresh();
    v->g = g;
    v->seed[0] = rng_mix(seed), v->seed[1] = rng_mix(seed + 1) | 1;
    if (!tok__load_model(v, e) || !tok__load_pre(v, pre, e) || !tok__load_texts(v, e)) goto fail;
    if (!tok__load_types(v, e) || !tok__load_specials(v, e)) goto fail;
    tok__load_pieces(v);
    tok__load_bytes(v);
    tok__load_marks(v);
    if (!tok__load_rules(v, e)) goto fail;
    v->spaces_lead = v->raw && tok__spaces_lead(v);
    tok__load_patterns(v);
    return v;
fail:
    tok_free(v);
    return NULL;
}

/* --- lists of tokens --- */

typedef struct {
    int32_t *id;                     /* [n]                             */
    size_t   n;                      /* tokens                          */
    size_t   cap;                    /* for so many there is memory     */
} tok_ids;

/* Appends a token; a zeroed list is empty. */
static void tok_ids_add(tok_ids *t, int32_t id) {
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->id = mem_grow(t->id, t->cap, sizeof *t->id);
    }
    t->id[t->n++] = id;
}

/* Frees the list, which is empty then. */
static void tok_ids_drop(tok_ids *t) {
    mem_free(t->id);
    *t = (tok_ids){0};
}

/* Whether the id is in the list; NULL: an empty list. */
static bool tok_ids_has(const tok_ids *t, int32_t id) {
    for (size_t i = 0; t && i < t->n; i++)
        if (t->id[i] == id) return true;
    return false;
}

/* Number of chunks of `size` tokens in a text of n: all (ask -1), or at most `ask`. Each begins `step` tokens after
 * the one before; where they overlap, one token more must follow the last. 0, and e is set: there is none. */
static int tok_chunks(size_t n, int size, int step, int ask, err_t *e) {
    const int64_t room = (int64_t)n - size, over = step < size;
    const int64_t all = room < over ? 0 : over ? (room + step - 1) / step : (int64_t)n / size;
    if (!all)
        TOK_NO("the text has %zu tokens, expected at least the %d of one chunk%s (-c N)", n, size, over ? ", and one more" : "");
    else if (!ask) TOK_NO("--chunks: 0 leaves nothing to read, expected at least 1");
    return ask >= 0 && ask < all ? ask : (int)min_i64(all, INT_MAX);
}

/* --- encode: merging the symbols of one word. tok__pair() alone depends on the kind of vocabulary: it says what two
 * neighbours merge into and with which priority. The heap holds (priority, place), least first, so equal priorities
 * merge from left to right. An entry is dropped where its symbol has another priority by then. --- */

#define TOK_NEVER UINT32_MAX

typedef struct {
    uint32_t at;                     /* where its bytes begin in the run's buffer (raw)       */
    uint32_t n;                      /* bytes; 0: merged away                                 */
    int32_t  id;                     /* -1: no token                                          */
    int32_t  prev;                   /* the symbol before it, -1: none                        */
    int32_t  next;                   /* the one after it, -1: none                            */
    uint32_t prio;                   /* of merging with next; TOK_NEVER: no merge             */
    int32_t  made;                   /* the token that they merge into                        */
} tok__sym;

/* t5: the best tokens of a word's bytes before a place. */
typedef struct {
    double   score;                  /* sum of their scores                                   */
    uint32_t from;                   /* where the last one begins; UINT32_MAX: none ends here */
    uint32_t next;                   /* on the best path: where the token after them ends     */
    int32_t  id;                     /* of the last one; -1: a character without a token      */
} tok__best;

typedef struct {
    const tok_vocab  *v;             /* the vocabulary                                                         */
    tok_ids          *out;           /* where tokens go                                                        */
    err_t            *e;             /* set by the first failure                                               */
    tok__best        *best;          /* [best_cap] t5: places of the word                                      */
    size_t            best_cap;      /* memory of best                                                         */
    uint32_t          chars;         /* bert: characters of the word in buf                                    */
    bool              gap;           /* t5: a word begins with the next character                              */
    bool              lead;          /* t5: and with U+2581                                                    */
    bool              first;         /* t5: no character came yet, and spaces before the first do not count    */
    bool              unk;           /* t5: the last token is the unknown one                                  */
    tok__sym         *sym;           /* [n_sym] of the word                                                    */
    size_t            n_sym;         /* how many                                                               */
    size_t            sym_cap;       /* memory of sym                                                          */
    uint64_t         *heap;          /* [n_heap] priority << 32 | place                                        */
    size_t            n_heap;        /* how many                                                               */
    size_t            heap_cap;      /* memory of heap                                                         */
    uint32_t         *cut[2];        /* [n_cut] ends of pieces, before and after a pattern                     */
    size_t            n_cut[2];      /* how many                                                               */
    size_t            cut_cap[2];    /* memory of cut                                                          */
    str               buf;           /* raw: the text, or a word, with U+2581 for spaces; else a word as characters for bytes */
    pcre2_match_data *match;         /* where the last match lies                                              */
} tok__run;

/* Makes space in an array for one entry after n. */
static inline void *tok__room(void *p, size_t n, size_t *cap, size_t each) {
    if (n < *cap) return p;
    *cap = *cap ? 2 * *cap : 256;
    return mem_grow(p, *cap, each);
}

/* Adds an entry to the heap. */
static void tok__push(tok__run *r, uint32_t prio, uint32_t place) {
    r->heap = tok__room(r->heap, r->n_heap, &r->heap_cap, sizeof *r->heap);
    uint64_t key = (uint64_t)prio << 32 | place;
    size_t   i = r->n_heap++;
    for (; i && r->heap[(i - 1) / 2] > key; i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = key;
}

/* Removes the least entry. The hole moves down to a leaf and the last entry moves up from there: rarely far, since it was a
 * leaf. */
static uint64_t tok__pop(tok__run *r) {
    uint64_t *h = r->heap, top = h[0], last = h[--r->n_heap];
    size_t    i = 0, n = r->n_heap;
    for (size_t c; (c = 2 * i + 2) < n; i = c) {
        c -= h[c - 1] < h[c];
        h[i] = h[c];
    }
    if (2 * i + 1 < n) h[i] = h[2 * i + 1], i = 2 * i + 1;
    for (; i && h[(i - 1) / 2] > last; i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = last;
    return top;
}

/* A priority that is lower for higher scores: the bits of the float, mapped to the reverse order of the numbers. */
static uint32_t tok__score_prio(const tok_vocab *v, int32_t id) {
    const float f = tok__score(v, id) + 0.0f;         /* -0 is 0 */
    uint32_t    u;
    memcpy(&u, &f, 4);
    return u >> 31 ? u : ~(u | 0x80000000u);
}

static void tok__pair(tok__run *r, int32_t i) {
    const tok_vocab *v = r->v;
    tok__sym        *s = &r->sym[i], *t = s->next >= 0 ? &r->sym[s->next] : NULL;
    s->prio = TOK_NEVER;
    if (!t) return;
    if (!v->pre) {
        const int32_t id = tok__find_plain(v, (bytes){(const uint8_t *)r->buf.p + s->at, s->n + t->n});
        if (id >= 0) s->prio = tok__score_prio(v, id), s->made = id;
    } else if (v->ranks) {
        const int32_t id = tok__find_plain(v, (bytes){(const uint8_t *)r->buf.p + s->at, s->n + t->n});
        if (id >= 0) s->prio = (uint32_t)id, s->made = id;
    } else if (s->id >= 0 && t->id >= 0) {
        const tok__merge *m = tok__merge_slot(v, s->id, t->id);
        if (m->id1) s->prio = m->rank, s->made = m->id1 - 1;
    }
    if (s->prio != TOK_NEVER) tok__push(r, s->prio, (uint32_t)i);
}

static void tok__merge_all(tok__run *r) {
    for (size_t i = 0; i + 1 < r->n_sym; i++) tok__pair(r, (int32_t)i);
    while (r->n_heap) {
        uint64_t  key = tok__pop(r);
        int32_t   i = (int32_t)(uint32_t)key;
        tok__sym *s = &r->sym[i];
        if (s->prio != (uint32_t)(key >> 32)) continue;
        tok__sym *t = &r->sym[s->next];
        s->n += t->n;
        s->id = s->made;
        s->next = t->next;
        t->prio = TOK_NEVER;
        if (s->next >= 0) r->sym[s->next].prev = i;
        if (s->prev >= 0) tok__pair(r, s->prev);
        tok__pair(r, i);
    }
}

static bool tok__put_byte(tok__run *r, uint8_t b, bool stray) {
    const tok_vocab *v = r->v;
    bool             escape = v->escape && (v->byte_id[b] < 0 || (stray && b == 0xf4));
    if (escape) tok_ids_add(r->out, v->byte_id[0xf4]), b = v->lost[b];
    if (v->byte_id[b] >= 0) tok_ids_add(r->out, v->byte_id[b]);
    else if (v->unk >= 0) tok_ids_add(r->out, v->unk);
    else
        return err_set(r->e, EXIT_INPUT, "%s: no token for byte 0x%02x and no unknown token, expected one of them", v->g->path,
                       b);
    return true;
}

/* A symbol that is no token: appends the tokens of its bytes. Without byte tokens (raw): the unknown token, once. */
static bool tok__put_unmerged(tok__run *r, const tok__sym *s) {
    const tok_vocab *v = r->v;
    const uint8_t   *p = (const uint8_t *)r->buf.p + s->at;
    bool             blank = s->n == 3 && tok__is_space(p), lacks = false;
    if (blank && v->kind != TOK_WHITE) return tok__put_byte(r, ' ', false);
    for (uint32_t i = 0; i < s->n; i++) lacks = lacks || v->byte_id[p[i]] < 0;
    if (lacks && v->kind == TOK_WHITE && v->unk < 0) return true;              /* the tokenizers library leaves it out */
    for (uint32_t i = 0; i < (lacks ? 1 : s->n); i++)
        if (lacks && v->unk >= 0) tok_ids_add(r->out, v->unk);
        else if (!tok__put_byte(r, p[i], false)) return false;
    return true;
}

static void tok__add_sym(tok__run *r, uint32_t at, uint32_t n, int32_t id) {
    r->sym = tok__room(r->sym, r->n_sym, &r->sym_cap, sizeof *r->sym);
    int32_t i = (int32_t)r->n_sym++;
    r->sym[i] = (tok__sym){.at = at, .n = n, .id = id, .prev = i - 1, .next = -1, .prio = TOK_NEVER, .made = -1};
    if (i) r->sym[i - 1].next = i;
}

/* --- encode: words of UTF-8 tokens (llama, gemma4) --- */

/* Ends the word in buf. gemma4: a run of newlines may be a token, whose merges are not in the file. */
static bool tok__raw_word(tok__run *r) {
    const bool    lines = r->v->pre && r->buf.n && r->buf.p[0] == '\n';
    const int32_t id = lines ? tok__find_plain(r->v, str_bytes(&r->buf)) : -1;
    bool          ok = true;
    if (id >= 0) tok_ids_add(r->out, id);
    else tok__merge_all(r);
    for (int32_t i = id < 0 && r->n_sym ? 0 : -1; i >= 0 && ok; i = r->sym[i].next)
        if (r->sym[i].id >= 0) tok_ids_add(r->out, r->sym[i].id);
        else ok = tok__put_unmerged(r, &r->sym[i]);
    r->n_sym = 0;
    str_clear(&r->buf);
    return ok;
}

static void tok__raw_sym(tok__run *r, const uint8_t *p, size_t n) {
    tok__add_sym(r, (uint32_t)r->buf.n, (uint32_t)n, tok__find_plain(r->v, (bytes){p, n}));
    str_add(&r->buf, p, n);
}

static bool tok__raw_text(tok__run *r, bytes t, bool prefix) {
    const tok_vocab *v = r->v;
    bool             lines = v->pre, ok = true;       /* lines: newlines are words of their own (gemma4) */
    bool             after = prefix && v->space_prefix;                        /* the last character is a space */
    if (after) tok__raw_sym(r, tok__space.p, 3);
    for (size_t i = 0, len; i < t.n && ok; i += len) {
        len = max_size((size_t)utf8_len(t.p + i, t.n - i), 1);                 /* an invalid byte counts as a character */
        const bool space = t.p[i] == ' ' || (len == 3 && tok__is_space(t.p + i));
        const bool word = v->spaces_lead && space && !after;
        if (word || (lines && i && (t.p[i] == '\n') != (t.p[i - 1] == '\n'))) ok = tok__raw_word(r);
        if (space) tok__raw_sym(r, tok__space.p, 3);
        else tok__raw_sym(r, t.p + i, len);
        after = space;
    }
    return ok && tok__raw_word(r);
}

/* --- encode: words of bytes (gpt2) --- */

static void tok__cut(tok__run *r, int side, size_t at) {
    if (r->n_cut[side] && r->cut[side][r->n_cut[side] - 1] == at) return;
    r->cut[side] = tok__room(r->cut[side], r->n_cut[side], &r->cut_cap[side], sizeof *r->cut[side]);
    r->cut[side][r->n_cut[side]++] = (uint32_t)at;
}

/* Cuts digits into groups of three from the right. Digits may be of any script and length. */
static void tok__thirds(tok__run *r, const uint8_t *p, size_t from, size_t to) {
    size_t digits = 0;
    for (size_t i = from; i < to; i++) digits += (p[i] & 0xc0) != 0x80;
    for (size_t i = from; i < to; i++)
        if ((p[i] & 0xc0) != 0x80 && digits-- % 3 == 0 && i) tok__cut(r, 1, i);
}

static int tok__match(tok__run *r, pcre2_code *code, const uint8_t *p, size_t n, size_t at) {
    int rc = pcre2_match(code, p, n, at, PCRE2_NO_UTF_CHECK, r->match, r->v->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)             /* the interpreter's stack is on the heap */
        rc = pcre2_match(code, p, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, r->v->limits);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return rc;
    char why[120] = "";
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    err_set(r->e, EXIT_RESOURCE, "cannot split a text of %zu bytes into words: %s", n, why);
    return rc;
}

/* Applies one pattern to one piece: adds the ends of matches and of the text between them. Lookaround sees the piece
 * alone. */
static bool tok__split(tok__run *r, int step, const uint8_t *text, size_t from, size_t to) {
    bool   thirds = r->v->pre->step[step][0] == *PRE_THIRDS;
    size_t at = 0, n = to - from;
    while (at < n) {
        int rc = tok__match(r, r->v->code[step], text + from, n, at);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) return false;
        const PCRE2_SIZE *m = pcre2_get_ovector_pointer(r->match);
        if (m[1] <= m[0]) break;                      /* no pattern of ours has an empty match */
        if (thirds) tok__thirds(r, text, from + m[0], from + m[1]);
        else {
            if (m[0] > at) tok__cut(r, 1, from + m[0]);
            tok__cut(r, 1, from + m[1]);
        }
        at = m[1];
    }
    tok__cut(r, 1, to);
    return true;
}

/* The token of a whole word (ignore_merges); -1: none. */
static int32_t tok__whole_word(tok__run *r, bytes w) {
    uint8_t two[2];
    if (w.n > r->v->text_max) return -1;
    str_clear(&r->buf);
    for (size_t i = 0; i < w.n; i++) str_add(&r->buf, two, tok__put_char(w.p[i], two));
    const int32_t id = tok__find_plain(r->v, str_bytes(&r->buf));
    return id >= 0 && bytes_eq(tok_piece(r->v, id), w) ? id : -1;
}

/* The bytes of a word as symbols over its characters for bytes in buf: texts of neighbours are looked up there. */
static void tok__rank_syms(tok__run *r, bytes w) {
    uint8_t two[2];
    str_clear(&r->buf);
    for (size_t i = 0; i < w.n; i++) {
        const size_t n = tok__put_char(w.p[i], two);
        tok__add_sym(r, (uint32_t)r->buf.n, (uint32_t)n, r->v->byte_id[w.p[i]]);
        str_add(&r->buf, two, n);
    }
}

static bool tok__byte_word(tok__run *r, bytes w) {
    int32_t id = r->v->whole && w.n > 1 ? tok__whole_word(r, w) : -1;
    if (id >= 0) return tok_ids_add(r->out, id), true;
    if (r->v->ranks) tok__rank_syms(r, w);
    else for (size_t i = 0; i < w.n; i++) tok__add_sym(r, (uint32_t)i, 1, r->v->byte_id[w.p[i]]);
    tok__merge_all(r);
    bool ok = true;
    for (int32_t i = 0; i >= 0 && ok; i = r->sym[i].next)
        if (r->sym[i].id >= 0) tok_ids_add(r->out, r->sym[i].id);
        else ok = tok__put_byte(r, w.p[i], false);
    r->n_sym = 0;
    return ok;
}

/* Splits UTF-8 by each pattern in turn: cut[0] becomes the ends of the pieces. */
static bool tok__split_all(tok__run *r, bytes t) {
    r->n_cut[0] = 0;
    tok__cut(r, 0, t.n);
    for (int step = 0; step < TOK_STEPS_MAX && r->v->code[step]; step++) {
        uint32_t from = 0;
        r->n_cut[1] = 0;
        for (size_t i = 0; i < r->n_cut[0]; from = r->cut[0][i++])
            if (!tok__split(r, step, t.p, from, r->cut[0][i])) return false;
        uint32_t *was = r->cut[0];
        size_t    cap = r->cut_cap[0];
        r->cut[0] = r->cut[1], r->cut_cap[0] = r->cut_cap[1], r->n_cut[0] = r->n_cut[1];
        r->cut[1] = was, r->cut_cap[1] = cap;
    }
    return true;
}

/* Encodes UTF-8: splits it, then merges each word. */
static bool tok__byte_text(tok__run *r, bytes t) {
    uint32_t from = 0;
    if (!tok__split_all(r, t)) return false;
    for (size_t i = 0; i < r->n_cut[0]; from = r->cut[0][i++])
        if (!tok__byte_word(r, (bytes){t.p + from, r->cut[0][i] - from})) return false;
    return true;
}

static bool tok__bytes(tok__run *r, bytes t) {
    size_t from = 0, i = 0;
    while (i < t.n) {
        int len = utf8_len(t.p + i, t.n - i);
        if (len) {
            i += (size_t)len;
            continue;
        }
        if (i > from && !tok__byte_text(r, (bytes){t.p + from, i - from})) return false;
        if (!tok__put_byte(r, t.p[i], true)) return false;
        from = ++i;
    }
    return i == from || tok__byte_text(r, (bytes){t.p + from, i - from});
}

/* --- encode: words of WordPiece (bert). As BERT does: control characters go, each punctuation mark and each Han character is a
 * word of its own, texts become lower case and lose their accents where the file says so. The tables are those of the
 * tokenizers library. --- */

enum {
    TOK_IS_DROPPED, TOK_IS_HAN, TOK_IS_PUNCT, TOK_IS_MARK, TOK_TO_BARE, TOK_TO_LOWER, TOK_BARE_LONG, TOK_LOWER_LONG, TOK_TABLES
};

/* Made by `python3 tests/gen/unicode.py --bert`. BARE: without its accents; MARK: an accent; LONG: what becomes two or three
 * characters. */
static const char *const tok__packed[TOK_TABLES] = {
    [TOK_IS_DROPPED] = "AQDCCiBgDgCOAzqBKXAhGAyBA/nEA9/BIbIyBICSx8vB+vMgwBA6HECAgmEAj/qBGwmFOn0rYAf+Fh8/B6//DD6//D",
    [TOK_IS_HAN] = "ggN+7MhC+/oBhoW+fhohC+tzChB+xIhI+4KxqK+hB",
    [TOK_IS_PUNCT] =
        "hBcLMbKbGjBAGAEALCEAEA/VAJAzOKqBC0BDDADAtBCVCCCOADCrCGnDAsBaqHE3BcgBAmICLAgMAkYA7CALCpFcCAmBGoCArCIFCwDKsFAlTQ4EAtTCtBC"
        "vCEoCC+EECEmBU6JC5GChEMCKtFM8EG8BI/BChCOMA9ZuBJmBCYCWfCPC6TGeC+hBawCCgBS0MqBgCGhBC8XGCCxDAwE8CCkB/NEFSDWRANAjDA7CAjgdCu"
        "IEkDALA0DK9LG3CCpBECAyBCwBAiDYRC9DG/DCRC6HAzqUCxGSXkCCaCAFDBA2EECKCGLCECbECAcFBK7ME9UAxBA/MAoXAoGAgBAxIQnBAxDMjCM6CGrlB"
        "MuDCCG/DGxBCwCIEAODBC5CKsDA9QA7HsBqDE5HEypDI6vRCmEAiCIJA7qUAovHI",
    [TOK_IS_MARK] =
        "gY+G0IIqI4CCDBDBDpCUxBoBRAmDMDKDCCGkBAf0B8CU7BQjBGCQCECIsBEoE+B4BDFOFAEMLCeA7BAFGJAVCeC6BAFCFCDEEAfCEAMC6BAFICCFAVCeA7B"
        "ADDBEJAJAMCfA+BANAzBA+BEGECGICMCeA7BADAHAGCVCeAgCGJAVCnDAIECA7CADMNOjDADKCCMKrCCcF4BaCICCGUCmCKAnDGCKCCDCaCFERGOADCHAQA"
        "gWEzdEeEeCfChCCCMJADUKAuBE8EA3DEFCKAHE8GCDA7BDBKCDDOHSDAxBajCGxBDBGCAGApBQNChBGDCCE5BDBAEDBC7BODC5EECYCMFAHAECnGqDHGxWY"
        "FAEW//CEuEAhD+BrRGsDC1udAFShBCxCCxIAEAFAaC+EAciB1BOaUvBExBADGDApBAkCKDCDCNAJAwBA0BDBCDCGCCArBCJAvHADAFAx5TAiXeReueAjHA2"
        "EIn0BECCGGpBEFAmFC7oBA3Bc5BEyBGDCmCElBICO/BANC1BQMEjDEDDBAoFAEOWC7BAEAmBMEI/JKCAFCCCvHGHCCCcC2CODDBArDDDKCAmDEDGCIl+UI8"
        "BM5iBGroTCpmFESODMfG1EE89BsDFiDJAPAXICchxDMqhmY+O",
    [TOK_TO_BARE] =
        "gGA/HBAhIBAjIBAlIBAnIBDpIBAnIBApIBArIBAtIBAnIBApIBArIBAtICCnIBApIBArIBAtIBAvIDApIBArIBAtIBAvIBApIDA/HBAhIBAjIBAlIBAnIBD"
        "pIBAnIBApIBArIBAtIBAnIBApIBArIBAtICCnIBApIBArIBAtIBAvIDApIBArIBAtIBAvIBApICAtIBA/LBAhKBAjMBAlKBAnMBApKBAnMBApKBArMBAtKB"
        "AvMBAxKBAzMBA1KBA1MBA3KDA7MBA9KBA/MBAhLBAjNBAlLBAnNBApLBArNBAtLBArNBAtLBAvNBAxLBAzNBA1LBA3NBA5LBA5NBA7LDA/NBAhMBAjOBAlM"
        "BAnOBApMBArOBAtMBAvOEA1OBA3MBA3OBA5MCA7OBA9MBA/OBAhNBAjPBAlNFArPBAtNBAvPBAxNBAzPBA1NEA7PBA9NBA/PBAhOBAjQBAlODAlQBAnOBAp"
        "QBArOBAtQBAvOBAvQBAxOBAzQBA1OBA3QBA5OBA7QBA9OBA9QBA/OBAhRBAjPDAnRBApPBArRBAtPBAvRBAxPBAzRBA1PBA3RBA5PBA7RBA9PBA7RBA9PBA"
        "7RBA9PBC/RBAhQBAjSBAlQBAnSBApQiBAjVBAlTOA1VBA3TdA5YBA7WBAtYBAvWBAlYBAnWBA9XBA/VBAhYBAjWBAlYBAnWBApYBArWBAtYBAvWCA7ZBA9X"
        "BA/ZBAhYBA5RBA7PDA/ZBAhYBA7ZBA9XBA3ZBA5XBA7ZBA9XBAvDBAmKBAtYEA7aBA9YDA1aBA3YBAzbBA1ZBAtTBAvRBAtSBAvQBA/bBAhaBAjcBAlaBA/"
        "bBAhaBAjcBAlaBA/bBAhaBAjcBAlaBA7bBA9ZBA/bBAhaBA9bBA/ZBAhcBAjaBA/bBAhaBAjcBAlaBArcBAtaBAtcBAvaDAtdBAvbHAreBAtcBAneBApcBA"
        "3dBA5bBA7dBA9bBA/dBAhcBAjeBAlcBAzdBA1bhKA3LKAn0BHA7tBBAWBAhtBBAaBAcBAeCAmBCAuBBA0BBAyCaAjBBANBAKBAQBASBAUBAqBaAjBBANBAb"
        "BARBALFADBAFsBAqBBAoBCAgBEADFAcBAWBAqBLADgBADXA3BBA5BCAhCEADFAlCBArCBA3BYCFqCA3KBA5IOAhMBAjKBAlMBAnKDAjMBAlKDCFBAtMBAvK"
        "BAvMBAxKDA1MBA3KBA5MBA7KBAxMBAzKDCFBA/LBAhKBA3MBA5KBA7MBA9KBA/MBAhLBA7MBA9KDA7MBA9KpJAKBAIBAoCBAEBAoC6EAqBCADRAD2SADIAD"
        "DADkBEnEBA/DBC3DBAnDBAhD9DC3DCAhD0CADDAEjBCnEBA/DDAnDqHADUC3DjLAqBHCcCARwIADpLADKADFADFADFADNAzC9FAD14CANCARGAd9VA/7OBA"
        "h6OBAh8OBAj6OBAl8OBAn6OBAp8OBAr6OBAr8OBAt6OBAt8OBAv6OBAx8OBAz6OBA18OBA36OBA58OBA76OBA98OBA/6OBA/8OBAh7OBAj9OBAl7OBAn9OB"
        "Ap7OBAr9OBAt7OBAv9OBAx7OBAx9OBAz7OBAz9OBA17OBA19OBA37OBA59OBA77OBA99OBA/7OBAh+OBAj8OBAl+OBAn8OBAn+OBAp8OBAr+OBAt8OBAr+O"
        "BAt8OBAv+OBAx8OBAz+OBA18OBA1+OBA38OBA5+OBA78OBA9+OBA/8OBAh/OBAj9OBAj/OBAl9OBAn/OBAp9OBAr/OBAt9OBAt/OBAv9OBAx/OBAz9OBA1/"
        "OBA39OBA5/OBA79OBA7/OBA99OBA//OBAh+OBAjgPBAl+OBAngPBAp+OBApgPBAr+OBAtgPBAv+OBAtgPBAv+OBAxgPBAz+OBA1gPBA3+OBA5gPBA7+OBA7"
        "gPBA9+OBA/gPBAh/OBAjhPBAl/OBAnhPBAp/OBArhPBAt/OBAthPBAv/OBAxhPBAz/OBA1hPBA3/OBA5hPBA7/OBA7hPBA9/OBA/hPBAhgPBAjiPBAlgPBA"
        "niPBApgPBAriPBAtgPBAtiPBAvgPBAxiPBAzgPBAziPBA1gPBA3iPBA5gPBA7iPBA9gPBA/iPBAhhPBAjjPBAlhPBAljPBAnhPBApjPBArhPBArjPBAthPB"
        "AtjPBAvhPBAxjPBAzhPBA1jPBA3hPBA9iPBAniPBAjiPBAhiPCA5xOFA/lPBAhkPBAjmPBAlkPBAnmPBApkPBArmPBAtkPBAvmPBAxkPBAzmPBA1kPBA3mP"
        "BA5kPBA7mPBA9kPBA/mPBAhlPBAjnPBAllPBAnnPBAplPBArnPBAtlPBAnnPBAplPBArnPBAtlPBAvnPBAxlPBAznPBA1lPBA3nPBA5lPBA7nPBA9lPBA/n"
        "PBAhmPBAjoPBAlmPBA/nPBAhmPBAjoPBAlmPBA7nPBA9lPBA/nPBAhmPBAjoPBAlmPBAnoPBApmPBAroPBAtmPBAvoPBAxmPBAzoPBA1mPBA3oPBA5mPBA7"
        "oPBA9mPBA/oPBAhnPBAjpPBAlnPBAnpPBApnPBA/oPBAhnPBAjpPBAlnPBAnpPBApnPBArpPBAtnPBAvpPBAxnPBAzpPBA1nPBA3pPBA5nPBAzpPBA1nPBA"
        "3pPBA5nPBA7pPBA9nPBA/pPBAhoPHA/0NBAh1NBAj1NBAl1NBAn1NBAp1NBAr1NBAt1NBAv3NBAx3NBAz3NBA13NBA33NBA53NBA73NBA93NBA31NBA51NB"
        "A71NBA91NBA/1NBAh2NDAn4NBAp4NBAr4NBAt4NBAv4NBAx4NDAz2NBA12NBA32NBA52NBA72NBA92NBA/2NBAh3NBAj5NBAl5NBAn5NBAp5NBAr5NBAt5N"
        "BAv5NBAx5NBAv3NBAx3NBAz3NBA13NBA33NBA53NBA73NBA93NBA/5NBAh6NBAj6NBAl6NBAn6NBAp6NBAr6NBAt6NBAj4NBAl4NBAn4NBAp4NBAr4NBAt4"
        "NDAz6NBA16NBA36NBA56NBA76NBA96NDA34NBA54NBA74NBA94NBA/4NBAh5NBAj5NBAl5NCAp7NCAt7NCAx7NCA17NBAv5NBAx5NBAz5NBA15NBA35NBA5"
        "5NBA75NBA95NBA/7NBAh8NBAj8NBAl8NBAn8NBAp8NBAr8NBAt8NBA/7NBAh8NBA77NBA97NBA77NBA97NBA77NBA97NBAz7NBA17NBAr7NBAt7NBAn7NBA"
        "p7NDA/8NBAh9NBAj9NBAl9NBAn9NBAp9NBAr9NBAt9NBAv/NBAx/NBAz/NBA1/NBA3/NBA5/NBA7/NBA9/NBAz9NBA19NBA39NBA59NBA79NBA99NBA/9NB"
        "Ah+NBAjgOBAlgOBAngOBApgOBArgOBAtgOBAvgOBAxgOBAv9NBAx9NBAz9NBA19NBA39NBA59NBA79NBA99NBA//NBAhgOBAjgOBAlgOBAngOBApgOBArgO"
        "BAtgOBA//NBAhgOBAjgOBAlgOBAngOCArgOBAtgOBAviOBAxiOBAziOBA1iOBA3iOCArgODAzxPBA3gOBA5gOBA7gOCA/gOBAhhOBAnjOBApjOBAnjOBApj"
        "OBArjOBAdBAfBAhBBAvhOBAxhOBAzhOBA1hODA7hOBA9hOBA/jOBAhkOBAjkOBAlkOCAiCBAgCBA+BBA3hOBA5hOBA7hOBA9hOBAniOBApiOBAjiOBAliOB"
        "AnkOBApkOBArkOBAtkOBA3kOBAr0PBAt0PBA/4PDAziOBA1iOBA3iOCA7iOBA9iOBAzlOBA1lOBAjlOBAllOBAnlOBAz0PDCElJA73OEA/tQBA1uQvDAVBA"
        "TTA1BfAGBAMBAG1BADFADDADYDDbALDADDAFCADXAniRCADLAhCBAljRBAjjRBCZDCFDCFHCNDCFDCFjBAVBCLBAJxBCpGBCjFHGxD8BC+tGy9BACwrBXDD"
        "FDHADBAFCADBAFCADBAFCADBAFCADBAFXA9EKADOXDDFDHADBAFCADBAFCADBAFCADBAFCADBAFXA9EDGREADigyBAxr2BBA7gpCBAxj1BBA3j2BBAnjlCB"
        "Ant1CBAjyyCBA32sBBA52sBBAx7vCBAzzzBBAp4xCBAp8vCBAvxrCBArqhCBA148BBAjt5BBAv14BBA1h4BBApo0BBAlxnCBA1/lCBA7jkCBAzziCBA3t6B"
        "BA/6zBBAzyvBBAzp1CBAv6yCBAzhnCBAnwjCBAlv5BBAlwtBBAj9tCBAvzkCBAt15BBAh83BBA5lrCBA907BBAxw4BBA9ltCBAlhpCBAh8lCBA/ijCBA9l0"
        "BBAv60CBAv3zCBAjlzCBA5mqCBA9lnCBAlyjCBA5khCBAnz8BBA/y5BBA1t5BBAx01BBAtgxBBA18uBBAh0tBBA/qgCBA77/BBA759BBAr36BBA3jzBBAjs"
        "tBBA3m3BBAnmwCBA/jtCBApu+BBAvs8BBApujCBA7ngCBAto2BBAllxBBAlnwCBAzuuCBAzznCBAn3lCBA/jlCBAhi+BBAzx9BBAtwxBBAhozCBAxs8BBAx"
        "3zCBAz4zCBA1z/BBAz59BBAv26BBApuxBBA192BBA5orCBA11nCBA/l3BBAry1CBAx3uCBA90sCBA19iCBAl/hCBA5kzCBAzmgCBAt60CBA77sCBA111CBA"
        "5pmCBAj/pCBAxk+BBAx6yCBA9wwCBA5mhCBAry6BBArs3BBAt7mCBAj80BBA1umCBArnrCBA/o7BBAr9qCBAjhiCBAzs1CBA/g0CBAh7zCBAzvoCBApp+BB"
        "A7w7BBA3q3BBA/6zBBA1ozCBA9zyCBA9gwCBAtptCBA97pCBAt4kCBA3lgCBAz9xBBA7xvBBAjvtBBA3rtBBA/uzCBArspCBArhnCBA3i1BBA1xtCBA//rC"
        "BAh5rCBAvvqCBA/mlCBA1kkCBA3wiCBA38/BBAl69BBAxy8BBAln1BBA3q6BBAv30BBAjlzBBAr4zCBA1vzCBAjuyCBAvtkCBA9t4BBAvv3BBAzttCBA96s"
        "CBAzirCBAv/mCBAx2+BBAljjCBAps1CBAhrxCBAn8uCBAj/tCBAh5sCBA3/iCBAr0iCBArh9BBA128BBA73zBBA5rxBBA3mxBBA55wBBA1i1CBAxggCBAng"
        "0BBAhwxBBAxtsCBApz1CBAju0CBA98uCBA93uCBAriqCBA77nCBAl/jCBA/3hCBAts6BBAv00BBAvjtBBA7zpCBAx5xBBA9zzCBA7kpCBAt9oCBAzomCBA/"
        "ylCBAn8iCBApniCBAn2gCBA/r+BBAl3wBBApm0CBAp6rCBA31xBBAz60CBA5ruCBA5+lCBA7q1BBA7ktCBArpsCBAn8oCBApljCBAt1xBBAp7zCBA/8yCBA"
        "13uCBA78pCBAnppCBA1zoCBA9vmCBA99iCBAngiCBA7m9BBAxx4BBAvw4BBA7h0BBAxwxBBA5qzCBAlzlCBAh9yCBA9hkCBAv1iCBAt/5BBA90xBBA35uBB"
        "Ap1tBBA7lpCBA1imCBA9g8BBA5y/BBAxt/BBAv2+BBA1zjCBAl2kCBApq3BBA7z1CBAxs7BBAr8zCBAz/zCBA31tCBA/yrCBA7y+BBA/nvCBAvumCBAl1pC"
        "BA5s1BBA574BBA57xBBA/n4BBAxztCBA5s0CBA7kyCDAt7wCCA95pCDAvj0CBA5ujCBA70hCBA5tgCBA3rgCBArrgCBA5ogCBAtsxBBA/1+BBAjm9BCA9g6"
        "BCA1y3BDA7+0BBAzy0BEA3zwBBA/ywBBApwwBBAznuBBAh10BBAx3xBBAlo1CBA100CBAru0CBA12zCBAh1zCBApuzCBAzpyCBAjjyCBAh9xCBAz/wCBAl5"
        "wCBAv9uCBA98uCBAz6sCBAttsCBAjrsCBA9ksCBAlvqCBAhmqCBAl7pCBA/7oCBA9smCBA5imCBArylCBA1tkCBA9hkCBAxijCBA17gCBA9wgCBApwgCBAt"
        "wgCBA/vgCBA1vgCBApvgCBCrsgCBAphgCBAp9/BBAtp/BBAnm+BBA/k+BBAxh+BBAxu9BBAtl9BBA/m8BBAp+7BBAr+7BBAxg7BBAh14BBA3s4BBAj23BBA"
        "1y3BBAj52BBA712BBAhr1BBA/i1BBAr4xBBA1mxBBA/ixBBAt/sCBAkokFBArl8BDA1k2CBA5r0CBA1w0CBAnv1CBA/y0CBArv0CBA/6zCBA73zCBA3tyCB"
        "ApyyCBAjuyCBAzpyCBAlixCBA18wCBA1zwCBA3ywCBA9hwCBAz1vCBAh7tCBA16tCBA3xtCBAxttCBA96sCBAzzsCBAh4sCBA3vsCBA1ysCBAzpsCBAxlsC"
        "BAzsrCBAlnrCBA7jrCBA1zqCBA7hqCBA33pCBAx3pCBA9zpCBA5xnCBA5tnCBAt1mCBA77lCBA98lCBAx3lCBA7nlCBA9ykCBAtvhCBAzmkCBAh/jCBAt3j"
        "CBAhjjCBA55iCBAx2iCBAvoiCBAtoiCBA59hCBA58hCBAp7hCBA/1hCBA12hCBA/9gCBA3//BBA7u/BBAnj/BBAp1+BBA5r+BBAn39BBA7q9BBAj27BBArs"
        "7BBA5z5BBAr34BBAjz4BBAly4BBA1/3BBAl83BBAh/3BBA373BBA/73BBAj93BBAt43BBAtz3BBAz72BBA141BBAjl1BBA3y0BBA/k0BBA1kyBBAp+xBBAl"
        "3xBBA9uxBBA3sxBBAhsxBBAjpxBBA37vBBAlztBBA232EBAo32EBAow8EBArz/CBA3r9CBA3p9CBAo3rFBA0/wFBA4/hGBAr5tBBA30tBkCAp06DCA7y6DL"
        "Aj06DBAl06DBAn06DBAp06DBA916DBA/16DBMh26DCIh26DCDh26DBDh26DBDh26DBGh26DBAt36DBA336DBAl36DBA126DsqFDDPANwgBAFl64DAn80KBA"
        "z80KBAj80KBAju7DBApq0KBAvl0KBA3k0KBArg0KBA94zKBAh3zKBAnyzKBA5zzKBA92hLBAn94DBAjszKBA3rzKBA5qzKBA1pzKBAtv5DBA11hLBA7qzKB"
        "AxozKBA3s5DBAhozKBApnzKBA700KBA9mzKBAtmzKBA7jzBBAxizKBA3hzKBAh0hLBAr+yKBA39yKBAh7yKBA56yKBA/whLBA91yKBA71yKBAn0yKBA9yyK"
        "BCpyyKBApxyKBAnuyKBA5tyKBAptyKBA5ryKBAnryKBAlryKBAnryKBApryKBAxg3DBAr8jKBA5myKBAxlyKBArt2DBA9kyKBAzkyKBArjyKBA95xKBArgy"
        "KBAt/xKBAv9xKBA95xKBA30xKBAlzxKBAhvxKBAjuxKBAjsxKBAlsxKBA9qxKBA7pxKBAtpxKBAxoxKBArzwKBAtkxKBAtzwKBA7/wKBA39wKBAzkzKBAn2"
        "vKBApowKBA/lwKBAvkwKBA1swKBApiwKBAtiwKBA56vKBAr3xDBAx2vKBAp2vKBAt1vKBAn0vKBA5zvKBA7vvKBAx7wDBAv3wDBAtnvKBAxkvKBA7jvKBA7"
        "ovKBAhgvKBAz3gLBA52gLBAj2uKBA5yuKBA7yuKBApqvDBA1quKBAtpuKBAxouKBA7nuKBAz1uDBAnnuKBA7muKBAjysKBAnluKBArvgLBAvhuKBA1guKBA"
        "z7tKBA7+tKBAvptDBAzztKBAvptDBAhxtKBApxtKBApwtKBChqtKBAplgLBAvotKBA7ltKBAzktKBA9htKBAtigLBAtwrDBA9ggLBA39sKBAz9sKBAv9sKB"
        "Ap8sKBA7vqBBAl5sKBAh2qDBAj2qDBAlp7JBAl3sKBAn3sKBA/8/KBA/9iDBA9rrCBAvzsKBA/ysKBAx7/KBAlwsKBAhtsKBAvssKBAtqsKBA/hsKBAv2/K"
        "BAt4/KBA/gsKBAh9oDBA99rKBA91rKBA31rKBA11rKBA71rKBAhzrKBA7xrKBA1vrKBAzwrKBA/vrKBAjtrKBA9rrKBA3rrKBAlqrKBAxprKBAvlrKBApgr"
        "KBAl+qKBAv2qKBA56mDBA53qKBA97qKBAn1qKBAzzqKBAztqKBA7smDBA7pqKBA3vqKBAxxqKBApp/KBA1lqKBAtkqKBAxiqKBA/kqKBA3l/KBAz3pKBA71"
        "pKBAhskDBAxupKBAp9oKBApopKBAr7+KBA9jpKBAx8+KBA7++KBAh0zKBA9zzKBAp9oKBAzjpKBAzi8JBA9v6KBAj8oKBA97oKBAz7oKBA73oKBAz4oKBA1"
        "xiDBAr5+KBAruoKBA31oKBA/ooKBA7loKBAtniDBAtloKBAtsoKBAl9nKBA10+KBAt6nKBAt0nKBAhwnKBAnknKBAzkhDBAlhnKBAtt+KBA98mKBAzkgDBA"
        "75mKBApq+KBAj4mKBAr1mKBC3zmKBA1m/CBA7+tDBA//+CBA5qmKBA/j+CBA7jmKBAhjmKBAvpmKBAz+lKBAl8lKBA14lKBAj8lKBA15lKBA54lKBAh4lKB"
        "Ax+9CBAn9lKBAztlKBA3plKBAv99KBAhklKBArklKBA5j9CBArxlKBAj6kKBAl78CBAn48CBA50kKBA1tkKBAtvkKBA1vkKBAh49KBA7skKBA3pkKBAlqkK"
        "BA7mkKBAt/5DBAv9jKBA1r7CBAl4jKBAp36CBAxvjKBA5ujKBAltjKBA3x5CBApqjKBAhpjKBAj/4CBAnx4CBA96iKBA95iKBA9n9KBAt4iKBApn9KBArn9"
        "KBAvuiKBAntiKBA/riKBA5qiKBAxmiKBAxh9KBAhhiKBA/v2CBAx/hKBArq2CBAx8hKBA15rDBA1yhKBA150CBAp40CBAzv0CBAl08KBAvz8KBA5khKBA9k"
        "0CBAhl0CBA1i0CBAjh0CBCvihKBAxihKBA9/gKBAhx8KBA/7gKBArw8KBAtr8KBAhzyCBAhwgKBAnsgKBApogKBA9m8KBA5yxCBA7//JBA1rxCBAhpxCBAv"
        "8/JBA52/JBAzi8KBAzx/JBAhx/JBA5w/JBAh+vCBAtrvCBAvrvCBAjn/JBA917KBAt7uCBA55+JBA15+JBA7z7KBAruuCBApp+JBAvs7KBAho+JBAto+JBA"
        "1m+JBAr+sCBAzg+JBA5m7KBAv69JBA729JBA3y9JBA7j7KBA10rCBA5yrCBA3h7KBA5prCBA5/8JBAzjrCBAn+8JBA/38JBAr38JBAjqqCBAzlqCBA7x8JB"
        "At9pCBA/w8JBAjijDBA566KBAht8JBAho8JBAz36KBAvk8JBAjtvKBAh+oCBAn9oCBAt/iDBA9+iDBA147JBAx47JBA/+0JBAny6KBA9v7JBArw7JBApv7J"
        "BA/tzKBAlu7JBAju7JBAxt7JBAhr7JBA3lnCBAnr7JBA5n7JBAvj7JBA9+6JBAzn7JBAh+6JBAv76JBAx06JBA7k7JBAv96JBAt96JBAv86JBA92mCBA1jm"
        "CBAjtmCBA5n6KBAvr6JBAtr6JBApp6JBAj+iCBAxk6JBAjolCBAjl6KBA9k6KBA//kCBA/tkCBAvk6KBAn25JBAx15JBA905JBA705JBA9w5JBAhz5JBA3q"
        "5JBAxt5JBAlk5JBApp5JBAll5JBAxj5JBAx+5KBA/94JBAh84JBAz85KBAn24JBAj24JBA91hCBA/u4JBAzu4JBAn55KBA/s4JBA/wiLBA7xgCBAtmgCBA/"
        "w5KBAvw5KBA/y3JBAnu3JBAvk3JBA732JBA3y+BBAzy2JBApx2JBA3r2JBAhm2JBAzq9BBAr94DBA/g2JBA/h2JBA5+1JBA/v4DBA1w1JBAvq1JBA9g6BBA"
        "p/5BBA900JBAlv0JBAnt0JBAvr5BBA3s0JBA/6zJBCjxzJBA92zJBAl/yJBAv9yJBAn/2BBAnmyJBA1l4KBAzjyJBA1n2BBA5g4KBAhzxJBAlkuKBAltxJB"
        "Ajr0BBA79zBBA143KBAn43KBA1hxJBAj/yBBA103KBAv2yBBAn/wJBAp/wJBAv9wJBA3kyBBAhywJBAht3KBA3twJBA9lwJBApkwJBAzgwJBA1j3KBAztvB"
        "BAxvvJBA38uJBA/wuJBA/z2KBAjy2KBAxquJBAl0sBBAzx2KBA7wsBBArgsBBAn4rBBA11tJBAhs2KBA9xtJBA1xtJBApxtJBA3wtJBArwtJBAjutJBA7hq"
        "B",
    [TOK_TO_LOWER] =
        "hCyBgCmDsBgCCMgCiBvBCEFCDPCDtBCCAzHBFCEAkNBDCCA8MBACCC6MBACDA+EBA0MBA2MBACCA6MBA+MCAmNBAiNBACEAmNBAqNCAsNBFCCA0NBACCA0N"
        "DACCA0NBACCCyNBDCCA2NBACEACIAEBACCAEBACCAEBRCDRCDAEBDCCAjGBAxDBnBCCAlICRCIA2iVBACCAnKBAwiVDACCAnMBAqEBAuEBJCiJDCEACJAoH"
        "HAsCCEqCCAgECC+DCgBgCCQgCkBAQJXCGA5DDACCAPBACDElIBegFB+BgCxBhBCK1BCCAeBNCD/CCDqCgDq6CqCgmOCAgmOGAgmOzW+Eg9rCBKQ0kCACH0C"
        "h8FDEh8FhK1ECKA/7OC/CCKORJKRLORJORJKRMHRJORZORJORJORJCRBC1EBATMGtFBATMCRBCpGNCRBChHBAPMChIBC9HBATqJA71OEA/rQBAtkQHA4BuB"
        "egBUACzZyB0Bx5B+CgDxBACCAv/UBAtuHBAv+UDFCCA5hVBA7/UBA/hVBA9hVCACDACJC/jVBjDCJDCFACuqetBCUbCoENCE9BCLDCCApglCBJCFACCAxyy"
        "CDDCETCCAp0yCBA/0yCBA30yCBAj0yCBAp0yCCAlxyCBA1yyCBArxyCBAg6BBPCCAhDBAn0yCBAxjlCBDCCAv2yCBPCCAjkzCZACs5VyBgCmmBuCwCpEmCw"
        "C9EUuCCcuCCMuCCCuCr3BkDgE+EqBgC75C+BgChsV+BgChCwB2BoyeiCkC",
    [TOK_BARE_LONG] =
        "ruCCnuC+tCBCnuC3uC/LCn6C+5CBCn6C36CoCCy8C3+C2BCm+C+9CBCn+C+9CBCm+C3+C/HCimD1mD/DCmqD+pDBCnqD+pDBCmqD3qDwEC5uDvuDBC5uDvu"
        "DBC5uD/uDopDCl4G15GCCn4G15GCCp4G15GCCr4G15GCCt4G15GECx4G15GuBC+5G15GBC/5G15Gqg+BCn6kC+5kCBCn6kC36kCwLC5llCwllCCC5llC9ll"
        "C8HC4tlCvtlCBC5tlCvtlCj9uBC3q0Dlr0DBC4q0Dlr0DBD4q0Dlr0Dur0DBD4q0Dlr0Dvr0DBD4q0Dlr0Dwr0DBD4q0Dlr0Dxr0DBD4q0Dlr0Dyr0D3CC5"
        "t0Dlr0DBC6t0Dlr0DBD5t0Dlr0Dur0DBD6t0Dlr0Dur0DBD5t0Dlr0Dvr0DBD6t0Dlr0Dvr0D",
    [TOK_LOWER_LONG] = "wJCpDnY",
};

static chars_range    tok__pool[3000];
static chars_table    tok__table[TOK_TABLES];
static pthread_once_t tok__unpacked = PTHREAD_ONCE_INIT;

static void tok__unpack(void) {
    const size_t n = sizeof tok__pool / sizeof *tok__pool;
    chars_unpack(tok__table, tok__packed, TOK_TABLES, TOK_TO_BARE, TOK_BARE_LONG, tok__pool, n);
}

static bool tok__is(int table, uint32_t c) { return chars_find(&tok__table[table], c) != NULL; }

/* What a character becomes by a map and by that of its longer forms: n characters. */
static int tok__become(int map, int longer, uint32_t c, uint32_t to[3]) {
    const chars_range *t = chars_find(&tok__table[longer], c);
    int                n = 0;
    for (; t && n < 3 && t->at[1 + n]; n++) to[n] = t->at[1 + n];
    if (t) return n;
    t = chars_find(&tok__table[map], c);
    to[0] = c + (t ? t->at[3] : 0);
    return 1;
}

/* Unicode's White_Space. */
static bool tok__is_white(uint32_t c) {
    return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028
        || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The longest token at the beginning of the word, *n bytes of it; -1: none. */
static int32_t tok__longest(const tok_vocab *v, bytes w, size_t *n) {
    int32_t best = -1;
    *n = 0;
    for (size_t i = 0, node = 0; i < w.n && (node = tok__trie_step(&v->trie, (uint32_t)node, w.p[i])); i++)
        if (v->trie.id[node] >= 0) best = v->trie.id[node], *n = i + 1;
    return best;
}

static bool tok__put_unknown(tok__run *r) {
    const tok_vocab *v = r->v;
    if (v->unk < 0)
        return err_set(r->e, EXIT_INPUT, "%s: the vocabulary has no unknown token, expected one for this text", v->g->path);
    tok_ids_add(r->out, v->unk);
    return true;
}

/* Ends the word in buf. In the file, a token that begins a word is led by U+2581. A word that is not made of tokens is
 * unknown as a whole. */
static bool tok__bert_word(tok__run *r) {
    const bytes  w = str_bytes(&r->buf);
    const size_t before = r->out->n;
    bool         ok = r->chars <= TOK_WORD_MAX;
    for (size_t at = 0, n; ok && at < w.n; at += n) {
        const int32_t id = tok__longest(r->v, (bytes){w.p + at, w.n - at}, &n);
        ok = id >= 0 && (at ? n < 3 || !tok__is_space(w.p + at) : n > 3);
        if (ok) tok_ids_add(r->out, id);
    }
    if (!ok) r->out->n = before, ok = tok__put_unknown(r);
    str_clear(&r->buf);
    r->chars = 0;
    return ok;
}

static bool tok__bert_end(tok__run *r) { return !r->chars || tok__bert_word(r); }

static void tok__bert_add(tok__run *r, uint32_t c) {
    if (!r->chars++) str_add(&r->buf, tok__space.p, 3);
    str_char(&r->buf, c);
}

/* A character as the model sees it. */
static bool tok__bert_put(tok__run *r, uint32_t c) {
    if (tok__is_white(c)) return tok__bert_end(r);
    const bool alone = tok__is(TOK_IS_PUNCT, c);
    if (alone && !tok__bert_end(r)) return false;
    tok__bert_add(r, c);
    return !alone || tok__bert_end(r);
}

static bool tok__bert_lower(tok__run *r, uint32_t c) {
    if (!r->v->lower) return tok__bert_put(r, c);
    uint32_t  to[3];
    const int n = tok__become(TOK_TO_LOWER, TOK_LOWER_LONG, c, to);
    bool      ok = true;
    for (int i = 0; i < n && ok; i++) ok = tok__bert_put(r, to[i]);
    return ok;
}

/* A syllable of Hangul is two or three letters (The Unicode Standard, 3.12). */
static bool tok__bert_hangul(tok__run *r, uint32_t c) {
    const uint32_t i = c - 0xac00, tail = i % 28;
    return tok__bert_lower(r, 0x1100 + i / 588) && tok__bert_lower(r, 0x1161 + i % 588 / 28)
        && (!tail || tok__bert_lower(r, 0x11a7 + tail));
}

/* Takes the accents off: the canonical decomposition without nonspacing marks. */
static bool tok__bert_bare(tok__run *r, uint32_t c) {
    if (!r->v->bare) return tok__bert_lower(r, c);
    if (c >= 0xac00 && c < 0xd7a4) return tok__bert_hangul(r, c);
    if (tok__is(TOK_IS_MARK, c)) return true;
    uint32_t  to[3];
    const int n = tok__become(TOK_TO_BARE, TOK_BARE_LONG, c, to);
    bool      ok = true;
    for (int i = 0; i < n && ok; i++) ok = tok__bert_lower(r, to[i]);
    return ok;
}

static bool tok__bert_char(tok__run *r, uint32_t c) {
    if (tok__is(TOK_IS_DROPPED, c)) return true;
    if (tok__is_white(c)) return tok__bert_end(r);
    if (!tok__is(TOK_IS_HAN, c)) return tok__bert_bare(r, c);
    return tok__bert_end(r) && tok__bert_bare(r, c) && tok__bert_end(r);
}

static bool tok__bert_text(tok__run *r, bytes t) {
    bool ok = true;
    pthread_once(&tok__unpacked, tok__unpack);
    for (size_t i = 0; i < t.n && ok;) {
        const size_t   len = (size_t)utf8_len(t.p + i, t.n - i);
        const uint8_t  b = t.p[i];
        if (len == 1 && ((b >= 'a' && b <= 'z') || (b >= '0' && b <= '9'))) tok__bert_add(r, b);
        else if (len) ok = tok__bert_char(r, utf8_get(t.p + i, (int)len));
        i += len ? len : 1;
    }
    return ok && tok__bert_end(r);
}

/* --- encode: words of characters (whitespace), in lower case where the file says so --- */

/* A word: each character that is a token may be merged. */
static bool tok__white_word(tok__run *r, bytes w) {
    if (tok__is_white(utf8_get(w.p, utf8_len(w.p, w.n)))) return true;
    for (size_t i = 0, n; i < w.n; i += n) tok__raw_sym(r, w.p + i, n = (size_t)utf8_len(w.p + i, w.n - i));
    return tok__raw_word(r);
}

static bool tok__white_text(tok__run *r, bytes t) {
    str      s = {0};
    uint32_t from = 0, to[3];
    pthread_once(&tok__unpacked, tok__unpack);
    for (size_t i = 0; i < t.n;) {
        const size_t len = (size_t)utf8_len(t.p + i, t.n - i);
        to[0] = len ? utf8_get(t.p + i, (int)len) : 0xfffd;
        const int n = r->v->lower ? tok__become(TOK_TO_LOWER, TOK_LOWER_LONG, to[0], to) : 1;
        for (int k = 0; k < n; k++) str_char(&s, to[k]);
        i += len ? len : 1;
    }
    bool ok = tok__split_all(r, str_bytes(&s));
    for (size_t i = 0; ok && i < r->n_cut[0]; from = r->cut[0][i++])
        ok = tok__white_word(r, (bytes){(const uint8_t *)s.p + from, r->cut[0][i] - from});
    str_drop(&s);
    return ok;
}

/* --- encode: words of unigrams (t5), as transformers does: the map is asked for each grapheme cluster, and every white character
 * of Unicode parts words. SentencePiece itself asks for the longest key at each place and knows the space alone; texts with
 * several accents on a letter or odd spaces differ. --- */

/* Offers a token of the word from `from` to `to`. The first of several equals stays. */
static void tok__t5_offer(tok__run *r, size_t from, size_t to, int32_t id, double score) {
    tok__best *b = &r->best[to];
    score += r->best[from].score;
    if (b->from == UINT32_MAX || score > b->score) *b = (tok__best){score, (uint32_t)from, 0, id};
}

/* Finds the tokens with the best sum of scores (Viterbi): from each character on, every token that begins there; the
 * character alone is unknown where it is no token. */
static void tok__t5_best(tok__run *r, bytes w) {
    const tok_vocab *v = r->v;
    for (size_t i = 0; i <= w.n; i++) r->best[i] = (tok__best){.from = i ? UINT32_MAX : 0};
    for (size_t at = 0, len; at < w.n; at += len) {
        bool     alone = false;
        uint32_t node = 0;
        len = (size_t)utf8_len(w.p + at, w.n - at);
        for (size_t to = at; to < w.n && (node = tok__trie_step(&v->trie, node, w.p[to])); to++) {
            const int32_t id = v->trie.id[node];
            if (id < 0) continue;
            tok__t5_offer(r, at, to + 1, id, tok__score(v, id));
            alone = alone || to + 1 - at == len;
        }
        if (!alone) tok__t5_offer(r, at, at + len, -1, v->unk_score);
    }
    for (size_t to = w.n; to; to = r->best[to].from) r->best[r->best[to].from].next = (uint32_t)to;
}

/* A character without a token: the tokens of its bytes, if there are such; else the unknown token, once for several in a row. */
static bool tok__t5_unknown(tok__run *r, bytes c) {
    const tok_vocab *v = r->v;
    bool             all = true;
    for (size_t i = 0; i < c.n; i++) all = all && v->byte_id[c.p[i]] >= 0 && tok__type(v, v->byte_id[c.p[i]]) == TOK_BYTE;
    for (size_t i = 0; all && i < c.n; i++) tok_ids_add(r->out, v->byte_id[c.p[i]]);
    if (all) r->unk = false;
    else if (!r->unk) return r->unk = true, tok__put_unknown(r);
    return true;
}

/* Ends the word in buf. */
static bool tok__t5_word(tok__run *r) {
    const bytes w = str_bytes(&r->buf);
    bool        ok = true;
    if (r->best_cap <= w.n) {
        r->best_cap = w.n + w.n / 2 + 64;
        r->best = mem_grow(r->best, r->best_cap, sizeof *r->best);
    }
    tok__t5_best(r, w);
    for (size_t at = 0, to; at < w.n && ok; at = to) {
        to = r->best[at].next;
        const int32_t id = r->best[to].id;
        if (id < 0) ok = tok__t5_unknown(r, (bytes){w.p + at, to - at});
        else tok_ids_add(r->out, id), r->unk = false;
    }
    str_clear(&r->buf);
    return ok;
}

/* Adds bytes to the word. U+2581 begins another one, unless it follows one, or tokens reach over words. */
static bool tok__t5_add(tok__run *r, bytes c) {
    const bytes w = str_bytes(&r->buf);
    const bool  space = c.n == 3 && tok__is_space(c.p), after = w.n >= 3 && tok__is_space(w.p + w.n - 3);
    if (w.n > TOK_INPUT_MAX) return err_set(r->e, EXIT_INPUT, "a word of %zu bytes, expected at most %d", w.n, TOK_INPUT_MAX);
    if (space && !after && w.n && r->v->spaces_lead && !tok__t5_word(r)) return false;
    str_add(&r->buf, c.p, c.n);
    return true;
}

/* A character of the normalised text. */
static bool tok__t5_char(tok__run *r, bytes c) {
    if (!r->v->squeeze) return tok__t5_add(r, c.n == 1 && *c.p == ' ' ? tok__space : c);
    if (tok__is_white(utf8_get(c.p, (int)c.n))) {
        r->gap = true;
        r->lead = r->lead || !r->first;
        return true;
    }
    const bool lead = r->gap && r->lead && !(c.n == 3 && tok__is_space(c.p));
    r->gap = r->lead = r->first = false;
    return (!lead || tok__t5_add(r, tok__space)) && tok__t5_add(r, c);
}

static bool tok__t5_chars(tok__run *r, bytes t) {
    bool ok = true;
    for (size_t i = 0, len; i < t.n && ok; i += len) {
        len = (size_t)utf8_len(t.p + i, t.n - i);
        ok = tok__t5_char(r, (bytes){t.p + i, len});
    }
    return ok;
}

/* What the shortest key at the beginning of t becomes. false: no key. */
static bool tok__map_find(const tok__map *m, bytes t, bytes *to) {
    uint32_t base = m->n ? tok__map_base(0, tok__unit(m, 0)) : 0;
    for (size_t k = 0; m->n && k < t.n; k++) {
        const uint32_t i = tok__map_child(m, base, t.p[k]);
        if (!i) return false;
        base = tok__map_base(i, tok__unit(m, i));
        if (!(tok__unit(m, i) >> 8 & 1)) continue;
        const char *text = (const char *)m->text + (tok__unit(m, base) & 0x7fffffff);
        *to = bytes_of(text);
        return true;
    }
    return false;
}

/* Normalises one grapheme cluster: a short one as a whole (the first key at its beginning stands for all of it), the
 * characters of a long one, or of one without a key, one by one. */
static bool tok__t5_cluster(tok__run *r, bytes t) {
    bytes to;
    bool  ok = true;
    if (t.n < 6 && tok__map_find(&r->v->map, t, &to)) return tok__t5_chars(r, to);
    for (size_t i = 0, len; i < t.n && ok; i += len) {
        len = (size_t)utf8_len(t.p + i, t.n - i);
        const bytes c = {t.p + i, len};
        ok = tok__t5_chars(r, tok__map_find(&r->v->map, c, &to) ? to : c);
    }
    return ok;
}

/* Bytes of the grapheme cluster at the beginning of t; 0, and the error is set: PCRE2 fails. Without a map nothing depends on
 * clusters. */
static size_t tok__cluster(tok__run *r, bytes t) {
    if (!r->v->map.n) return (size_t)utf8_len(t.p, t.n);
    if (t.p[0] < 0x80 && t.p[0] != '\r' && (t.n == 1 || t.p[1] < 0x80)) return 1;
    return tok__match(r, r->v->code[0], t.p, t.n, 0) > 0 ? pcre2_get_ovector_pointer(r->match)[1] : 0;
}

static bool tok__t5_text(tok__run *r, bytes t, bool prefix) {
    str  valid = {0};
    bool ok = true;
    if (!utf8_whole(t)) str_utf8(&valid, t), t = str_bytes(&valid);
    r->gap = true, r->lead = prefix && r->v->space_prefix, r->first = prefix, r->unk = false;
    if (!r->v->squeeze && r->lead) ok = tok__t5_add(r, tok__space);
    for (size_t i = 0, n; i < t.n && ok; i += n) {
        n = tok__cluster(r, (bytes){t.p + i, t.n - i});
        ok = n && tok__t5_cluster(r, (bytes){t.p + i, n});
    }
    str_drop(&valid);
    return ok && (!r->buf.n || tok__t5_word(r));
}

/* A byte that begins no token is unknown. */
static bool tok__rwkv_text(tok__run *r, bytes t) {
    for (size_t at = 0, n; at < t.n; at += max_size(n, 1)) {
        const int32_t id = tok__longest(r->v, (bytes){t.p + at, t.n - at}, &n);
        if (id >= 0) tok_ids_add(r->out, id);
        else if (!tok__put_unknown(r)) return false;
    }
    return true;
}

/* --- encode: unigrams over a whole text (plamo2). Scores count in ten-thousandths; a character without a token costs 10^7 and is
 * its bytes. From the end of the text to its beginning, so that of equal sums the one whose first token is longest stays. --- */

enum { TOK_PLAMO_UNKNOWN = 10000000, TOK_PLAMO_WORST = 20000000 };

/* The cost of a token; a token with a lower score than any text has is none: infinite. */
static double tok__plamo_cost(const tok_vocab *v, int32_t id) {
    const double cost = -round((double)tok__score(v, id) * 1e4);
    return cost < TOK_PLAMO_WORST ? cost : INFINITY;
}

/* A part of a text that no token reaches over: best[at].next of each character at which a token of the best path may begin. */
static bool tok__plamo_part(tok__run *r, bytes w) {
    const tok_vocab *v = r->v;
    if (r->best_cap <= w.n) {
        r->best_cap = w.n + w.n / 2 + 64;
        r->best = mem_grow(r->best, r->best_cap, sizeof *r->best);
    }
    r->best[0].from = 0;
    for (size_t at = 0, n; at < w.n; at += n) {                                /* from: bytes of the character before */
        n = max_size((size_t)utf8_len(w.p + at, w.n - at), 1);
        r->best[at + n].from = (uint32_t)n;
    }
    r->best[w.n].score = 0;
    for (size_t end = w.n; end;) {
        const size_t len = r->best[end].from, at = end - len;
        tok__best    b = {.score = INFINITY, .id = -1, .from = r->best[at].from};
        uint32_t     node = 0;
        for (size_t to = at; to < w.n && (node = tok__trie_step(&v->trie, node, w.p[to])); to++) {
            const int32_t id = v->trie.id[node];
            const double  cost = id >= 0 ? tok__plamo_cost(v, id) + r->best[to + 1].score : INFINITY;
            if (cost < INFINITY && cost <= b.score) b.score = cost, b.next = (uint32_t)(to + 1), b.id = id;
        }
        const double alone = r->best[end].score + TOK_PLAMO_UNKNOWN;
        if (alone < b.score) b.score = alone, b.next = (uint32_t)end, b.id = -1;
        r->best[at] = b;
        end = at;
    }
    for (size_t at = 0; at < w.n; at = r->best[at].next)
        if (r->best[at].id >= 0) tok_ids_add(r->out, r->best[at].id);
        else
            for (size_t i = at; i < r->best[at].next; i++)
                if (!tok__put_byte(r, w.p[i], false)) return false;
    return true;
}

static bool tok__plamo_text(tok__run *r, bytes t) {
    size_t from = t.n >= 3 && memcmp(t.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, reach = from;
    for (size_t at = from, len; at < t.n; at += len) {
        uint32_t node = 0;
        len = max_size((size_t)utf8_len(t.p + at, t.n - at), 1);
        if (at >= reach && at > from) {
            if (!tok__plamo_part(r, (bytes){t.p + from, at - from})) return false;
            from = at;
        }
        reach = max_size(reach, at + len);
        for (size_t to = at; to < t.n && (node = tok__trie_step(&r->v->trie, node, t.p[to])); to++)
            if (r->v->trie.id[node] >= 0) reach = max_size(reach, to + 1);
    }
    return from == t.n || tok__plamo_part(r, (bytes){t.p + from, t.n - from});
}

/* Encodes a text without user and control tokens. prefix: it begins a text or follows such a token. */
static bool tok__plain_text(tok__run *r, bytes t, bool prefix) {
    switch (r->v->kind) {
    case TOK_BERT: return tok__bert_text(r, t);
    case TOK_T5: return tok__t5_text(r, t, prefix);
    case TOK_WHITE: return tok__white_text(r, t);
    case TOK_RWKV: return tok__rwkv_text(r, t);
    case TOK_PLAMO2: return tok__plamo_text(r, t);
    default: return r->v->raw ? tok__raw_text(r, t, prefix) : tok__bytes(r, t);
    }
}

/* --- encode: user and control tokens in a text split it first. Control tokens count only under TOK_SPECIAL. From left
 * to right, the longest one at a place is taken (as in the tokenizers library). Spaces beside it are never stripped. --- */

enum {                               /* flags of tok_encode()                                                     */
    TOK_SPECIAL = 1,                 /* control tokens are read in the text                                       */
    TOK_BOS = 2,                     /* the start token is added                                                  */
    TOK_EOS = 4,                     /* the end token is added                                                    */
    TOK_MIDDLE = 8,                  /* the text continues another one, so no space is added before it            */
    TOK_BEGUN = 16                   /* of tok_raw_flags(): the text itself begins with the start token           */
};

typedef struct {                     /* bytes of a text that belong to no control token                           */
    size_t from;                     /* the first                                                                 */
    size_t to;                       /* the one after the last                                                    */
} tok_span;

/* Bytes from `at` on before the first span. *i: the first span that ends after `at`; it only grows. */
static size_t tok__outside(const tok_span *span, size_t n, size_t *i, size_t at) {
    while (*i < n && span[*i].to <= at) ++*i;
    return *i == n ? SIZE_MAX : span[*i].from > at ? span[*i].from - at : 0;
}

/* The first mark in [lo, hi) whose byte `depth` is at least c; all share their first bytes. */
static uint32_t tok__bound(const tok_vocab *v, uint32_t lo, uint32_t hi, size_t depth, int c) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        bytes    t = v->mark[mid].text;
        if ((t.n > depth ? t.p[depth] : -1) < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* The longest special token at the beginning of t; -1: none. A control token has at most n_control bytes. */
static int32_t tok__mark_here(const tok_vocab *v, bytes t, size_t n_control) {
    uint32_t lo = v->mark_at[t.p[0]], hi = v->mark_at[t.p[0] + 1];
    int32_t  best = -1;
    for (size_t depth = 1; lo < hi; depth++) {
        const tok__mark *m = &v->mark[lo];            /* the shortest is first */
        if (m->text.n == depth && (depth <= n_control || tok__type(v, m->id) == TOK_USER)) best = m->id;
        if (depth == t.n) break;
        lo = tok__bound(v, lo, hi, depth, t.p[depth]);
        hi = tok__bound(v, lo, hi, depth, t.p[depth] + 1);
    }
    return best;
}

/* The start token of a text; -1: none. ask: 1 wants one, 0 none, -1 what the model wants. */
static int32_t tok_start(const tok_vocab *v, int ask) { return ask < 0 ? (v->add_bos ? v->bos : -1) : ask ? v->bos : -1; }

/* How a raw text is encoded: TOK_SPECIAL where `special`, TOK_BOS where it needs a start token, which an empty text is alone; ask
 * as for tok_start(). A text that is written with the start token gets no second one: TOK_BEGUN instead. */
static unsigned tok_raw_flags(const tok_vocab *v, bytes text, int ask, bool special) {
    const unsigned flags = special ? TOK_SPECIAL : 0;
    if (!ask || (ask < 0 && (v->bos < 0 || (!v->add_bos && text.n)))) return flags;
    const bool begun = text.n && v->bos >= 0 && tok__mark_here(v, text, special ? SIZE_MAX : 0) == v->bos;
    return flags | (begun ? TOK_BEGUN : TOK_BOS);
}

static bool tok__encode_parts(tok__run *r, bytes t, const tok_span *span, size_t n_spans, unsigned flags) {
    const tok_vocab *v = r->v;
    bool             prefix = !(flags & TOK_MIDDLE);  /* at the start and after each special token */
    size_t           from = 0, i = 0, k = 0;
    if (!t.n) return true;
    for (;;) {
        const size_t n_control = flags & TOK_SPECIAL ? tok__outside(span, n_spans, &k, i) : 0;
        int32_t      id = i < t.n ? tok__mark_here(v, (bytes){t.p + i, t.n - i}, n_control) : -1;
        if (i < t.n && id < 0) {
            i++;
            continue;
        }
        bytes text = {t.p + from, i - from};
        if (text.n && !tok__plain_text(r, text, prefix)) return false;
        if (id < 0) return true;
        tok_ids_add(r->out, id);
        from = i += v->text[id].n;
        prefix = true;
    }
}

static bool tok__add_special(const tok_vocab *v, int32_t id, const char *what, tok_ids *out, err_t *e) {
    if (id < 0) return TOK_NO("%s: the vocabulary has no %s token, expected one to add", v->g->path, what);
    tok_ids_add(out, id);
    return true;
}

/* Appends the tokens of a text; on an error `out` is as before. flags: TOK_SPECIAL | TOK_BOS | TOK_EOS | TOK_MIDDLE. A
 * control token has no byte in the spans, which are in order and do not overlap; apart from that the text is one piece. */
static bool tok_encode_spans(const tok_vocab *v, bytes text, const tok_span *span, size_t n_spans, unsigned flags, tok_ids *out,
                             err_t *e) {
    tok__run r = {.v = v, .out = out, .e = e};
    size_t   before = out->n;
    if (text.n > TOK_INPUT_MAX) return TOK_NO("a text of %zu bytes, expected at most %d", text.n, TOK_INPUT_MAX);
    r.match = pcre2_match_data_create(1, NULL);
    if (!r.match) die(EXIT_RESOURCE, "out of memory: match data");
    bool ok = (!(flags & TOK_BOS) || tok__add_special(v, v->bos, "start", out, e))
           && tok__encode_parts(&r, text, span, n_spans, flags)
           && (!(flags & TOK_EOS) || tok__add_special(v, v->eos, "end", out, e));
    if (!ok) out->n = before;
    pcre2_match_data_free(r.match);
    mem_free_all(r.sym, r.heap, r.best, r.cut[0], r.cut[1]);
    str_drop(&r.buf);
    return ok;
}

/* The same with control tokens anywhere. */
static bool tok_encode(const tok_vocab *v, bytes text, unsigned flags, tok_ids *out, err_t *e) {
    return tok_encode_spans(v, text, NULL, 0, flags, out, e);
}

/* --- decode: writes whole characters and holds back an incomplete one; invalid bytes are written unchanged --- */

typedef struct {
    const tok_vocab *v;              /* of the tokens                                                     */
    bool             special;        /* control tokens are written too                                    */
    const tok_ids   *shown;          /* otherwise these ones; NULL: none                                  */
    bool             strip;          /* the next text begins with a space that tok_encode() added         */
    bool             f4;             /* the last byte is an F4, perhaps the first of a pair               */
    uint8_t          held[8];        /* [n_held] an incomplete character, before the F4                   */
    int              n_held;         /* bytes                                                             */
} tok_stream;

/* Begins a stream of tokens. first: they begin a text and do not continue one. */
static void tok_stream_init(tok_stream *s, const tok_vocab *v, bool first) {
    *s = (tok_stream){.v = v, .strip = first && v->space_prefix};
}

/* Replaces F4 and one of 90 to BF by the byte without a token: see the banner. Returns the new number of bytes. */
static size_t tok__unescape(tok_stream *s, uint8_t *p, size_t n) {
    const tok_vocab *v = s->v;
    size_t           to = 0;
    s->f4 = n && p[n - 1] == 0xf4;
    n -= s->f4;
    for (size_t i = 0; i < n; i++) {
        bool    pair = p[i] == 0xf4 && i + 1 < n && p[i + 1] >= 0x90 && p[i + 1] <= 0xbf;
        uint8_t b = v->found[pair ? p[i + 1] - 0x90 : 0];
        pair = pair && v->lost[b] == p[i + 1];
        p[to++] = pair ? b : p[i];
        i += pair;
    }
    return to;
}

static void tok__stream_bytes(tok_stream *s, bytes b, str *out) {
    size_t from = out->n;
    if (!b.n) return;
    str_add(out, s->held, (size_t)s->n_held);
    size_t fresh = out->n;
    if (s->f4) str_add(out, "\xf4", 1);
    str_add(out, b.p, b.n);
    if (s->v->escape) out->n = fresh + tok__unescape(s, (uint8_t *)out->p + fresh, out->n - fresh);
    size_t   open = min_size(out->n - from, 3);
    uint8_t *end = (uint8_t *)out->p + out->n;
    while (open && !utf8_incomplete(end - open, open)) open--;
    memcpy(s->held, end - open, open);
    s->n_held = (int)open;
    out->n -= open;
    out->p[out->n] = 0;
}

/* Whether the text after the token begins with a space that tok_encode() added; strip: whether the token's own text does. */
static bool tok_strips(const tok_vocab *v, int32_t id, bool strip) {
    return tok__is_apart(v, id) ? v->space_prefix : strip && !tok_piece(v, id).n;
}

/* Appends the text of the next token, and what was held back; the beginning of a character is held back until the rest comes. */
static void tok_stream_push(tok_stream *s, int32_t id, str *out) {
    bytes      b = tok_piece(s->v, id);
    const bool strip = s->strip;
    s->strip = tok_strips(s->v, id, strip);
    if (tok__is_apart(s->v, id)) {
        if (s->special || b.n || tok_ids_has(s->shown, id)) tok__stream_bytes(s, tok_text(s->v, id), out);
        return;
    }
    if (strip && b.n && b.p[0] == ' ') b.p++, b.n--;
    tok__stream_bytes(s, b, out);
}

/* Ends the stream: writes the bytes that were held back. */
static void tok_stream_flush(tok_stream *s, str *out) {
    str_add(out, s->held, (size_t)s->n_held);
    if (s->f4) str_add(out, "\xf4", 1);
    s->n_held = s->f4 = 0;
}

/* Appends the text of n tokens, which begin a text: the inverse of tok_encode(). */
static void tok_decode(const tok_vocab *v, const int32_t *id, size_t n, bool special, str *out) {
    tok_stream s;
    tok_stream_init(&s, v, true);
    s.special = special;
    for (size_t i = 0; i < n; i++) tok_stream_push(&s, id[i], out);
    tok_stream_flush(&s, out);
}
