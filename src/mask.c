/* ===== [mask] which tokens may follow =====
 * The tokens of a vocabulary as a trie, and for each set of an automaton the tokens that keep it alive, as bits by id.
 * Masks are kept on two levels. What a state allows while its rule is not left is the same on every stack, so it is
 * worked out once for all sets that have the state:
 *
 *    set = { (state, registers, stack), ... }
 *     |
 *     |  level 1: mask__slot, by set            the words in which the mask differs from that of a string, or from none
 *     |      hit ---------------------------->  bits
 *     |      miss: for each configuration
 *     v
 *    level 2: mask__local, by (state, registers)
 *     |
 *     |- token, plain ----------------------->  tokens that stay inside of the rule
 *     |
 *     `- escape: nodes of the trie in front of which the rule is over
 *          |
 *          |  the walk goes on there from what is after the stack (gram_after)
 *          v
 *         subtrees of the trie -------------->  tokens that leave the rule
 *
 * A set of few tokens is walked from the root of the trie without level 2, and so is one that level 2 cannot tell.
 * Everything that runs is in memory reserved by mask_new(): nothing is allocated later.
 * Public: mask_vocab_new, mask_vocab_free, mask_new, mask_free, mask_of, mask_closing, mask_accept, mask_forced,
 * mask_apply, mask_count, mask_stats. */

/* --- the vocabulary as a trie over the bytes that are printed. Its nodes are in depth-first order, so that a subtree
 * is a range of nodes and of tokens. --- */

/* Classes of characters. A set that each character of a class leads back to itself allows all tokens of such
 * characters, without a walk. */
enum {
    MASK_LOWER = 1, MASK_UPPER = 2, MASK_DIGIT = 4, MASK_BLANK = 8, MASK_SIGN = 16,
    MASK_WIDE = 32,                                   /* not ASCII */
    MASK_LINE = 64,                                   /* line feed, carriage return, tab */
    MASK_ODD = 128,                                   /* " \ controls, and what is no whole character */
    MASK_STRING = 63,                                 /* what stands for itself in a JSON string */
};

typedef struct {
    uint32_t next;                                    /* the node after its subtree */
    uint32_t tok;                                     /* first of the tokens that end here, in mask_vocab.id */
    uint16_t depth;                                   /* bytes before this one */
    uint8_t  byte;
    uint8_t  rest;                                    /* classes of the characters after this byte in the subtree */
    uint8_t  all;                                     /* classes of all characters of the tokens in the subtree */
} mask__node;

typedef struct { uint16_t chars; uint8_t classes; } mask__kind;       /* of a token: its characters and their classes */
typedef struct {
    int32_t  id;                                      /* of the token */
    uint32_t need;                                    /* its characters, or bodies of a span that it needs */
} mask__token;

typedef struct {
    mask__node *node;                                 /* [n_node + 1]; the last one ends the lists */
    int32_t    *id;                                   /* [n_id]: tokens by their bytes */
    mask__kind *kind;                                 /* [n_id] */
    uint32_t    n_node, n_id;
    uint32_t    root[256];                            /* the node of each byte at the beginning; n_node: none */
} mask__trie;

enum { MASK_CHARS = 16 };                             /* numbers of characters for which there is a mask of their own */

/* Tokens of some classes of characters alone. */
typedef struct mask__plain {
    struct mask__plain *next;
    int                 classes;
    uint32_t           *row[MASK_CHARS + 1];          /* [n_word]: those of at most 1 .. MASK_CHARS characters, and all;
                                                       * NULL: not made yet */
} mask__plain;

typedef struct mask_vocab {
    const tok_vocab *v;
    mask__trie       all;                             /* every token that prints something */
    mask__trie       odd;                             /* those of other classes than MASK_STRING alone */
    mask__plain      string;                          /* those of MASK_STRING alone, with every row */
    mask__token     *plain;                           /* tokens without odd characters, by their classes and characters */
    uint32_t         plain_at[129];                   /* those of exactly these classes: plain_at[c] .. plain_at[c + 1] */
    uint32_t         n_word;                          /* words of a mask, a multiple of 16: those after the last token are 0 */
    uint32_t        *none;                            /* [n_word]: 0 */
    int32_t         *control;                         /* [n_control]: control tokens that end no generation */
    int32_t         *end;                             /* [n_end]: tokens that end one */
    int32_t         *user;                            /* [n_user]: user tokens that begin with a blank, which they keep */
    int32_t          n_control, n_end, n_user;
    bool             strips;                          /* a token that begins a text loses its leading blank */
    bool             spells;                          /* each byte is a token, too */
    uint32_t         longest;                         /* bytes of a token */
    double           seconds;
} mask_vocab;

static uint8_t mask__class(uint8_t b) {
    if (b >= 0x80) return MASK_WIDE;
    if (b >= 'a' && b <= 'z') return MASK_LOWER;
    if (b >= 'A' && b <= 'Z') return MASK_UPPER;
    if (b >= '0' && b <= '9') return MASK_DIGIT;
    if (b == ' ') return MASK_BLANK;
    if (b == '\n' || b == '\t' || b == '\r') return MASK_LINE;
    return b < ' ' || b == '"' || b == '\\' || b == 0x7f ? MASK_ODD : MASK_SIGN;
}

/* The bytes that a token prints where it may come by its text. None: it has no text, or ends a generation, or its
 * bytes depend on the next token: where bytes are escaped (see [tok]), those with an F4. first: a leading blank is
 * not printed, but for tokens apart from the text (user tokens). */
static bytes mask__printed(const tok_vocab *v, int32_t id, bool first) {
    const bytes b = tok_piece(v, id);
    if (tok_is_eog(v, id) || (v->escape && b.n && memchr(b.p, 0xf4, b.n))) return (bytes){0};
    return first && v->space_prefix && b.n && b.p[0] == ' ' && !tok_strips(v, id, false) ? (bytes){b.p + 1, b.n - 1} : b;
}

typedef struct {
    uint64_t head;                                    /* the first 8 bytes, as a number that orders as they do */
    bytes    text;
    int32_t  id;
} mask__word;

static uint64_t mask__head(bytes b) {
    uint64_t h = 0;
    for (size_t i = 0; i < 8; i++) h = h << 8 | (i < b.n ? b.p[i] : 0);
    return h;
}

static int mask__by_bytes(const void *a, const void *b) {
    const mask__word *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    const size_t n = min_size(x->text.n, y->text.n);
    const int    c = n > 8 ? memcmp(x->text.p + 8, y->text.p + 8, n - 8) : 0;
    if (c || x->text.n != y->text.n) return c ? c : x->text.n < y->text.n ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The tokens that print something, by their bytes. */
static mask__word *mask__sorted(const tok_vocab *v, uint32_t *n) {
    mask__word *word = mem_new((size_t)tok_count(v), sizeof *word);
    *n = 0;
    for (int32_t id = 0; id < tok_count(v); id++) {
        const bytes b = mask__printed(v, id, false);
        if (b.n) word[(*n)++] = (mask__word){mask__head(b), b, id};
    }
    qsort(word, *n, sizeof *word, mask__by_bytes);
    return word;
}

static uint32_t mask__shared(bytes a, bytes b) {
    uint32_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    return n;
}

/* rest[i]: classes of the characters from byte i to the end. A place inside a character is odd. */
static void mask__rests(bytes b, uint8_t *rest) {
    rest[b.n] = 0;
    for (size_t i = b.n; i-- > 0;) {
        const int len = utf8_len(b.p + i, b.n - i);
        rest[i] = len ? mask__class(b.p[i]) | rest[i + (size_t)len] : MASK_ODD;
    }
}

/* Adds a token after those that are less; before: the bytes of the last one; path: its nodes, by depth. */
static void mask__add(mask__trie *t, const mask__word *x, bytes before, uint32_t *path) {
    uint8_t        rest[TOK_TEXT_MAX + 1];
    const bytes    b = x->text;
    const uint32_t same = mask__shared(before, b);
    for (size_t d = same; d < before.n; d++) t->node[path[d]].next = t->n_node;
    for (size_t d = same; d < b.n; d++) {
        t->node[t->n_node] = (mask__node){.tok = t->n_id, .depth = (uint16_t)d, .byte = b.p[d]};
        path[d] = t->n_node++;
    }
    mask__rests(b, rest);
    for (size_t d = 0; d < b.n; d++) t->node[path[d]].rest |= rest[d + 1], t->node[path[d]].all |= rest[0];
    t->kind[t->n_id].classes = rest[0];
    for (size_t d = 0; d < b.n; d++) t->kind[t->n_id].chars += (b.p[d] & 0xc0) != 0x80;
    t->id[t->n_id++] = x->id;
}

static void mask__trie_build(mask__trie *t, const mask__word *word, uint32_t n) {
    uint32_t path[TOK_TEXT_MAX];
    size_t   n_node = 1;
    bytes    before = {0};
    for (uint32_t i = 0; i < n; before = word[i++].text) n_node += word[i].text.n - mask__shared(before, word[i].text);
    t->node = mem_new(n_node, sizeof *t->node);
    t->id = mem_new(n, sizeof *t->id);
    t->kind = mem_new(n, sizeof *t->kind);
    before = (bytes){0};
    for (uint32_t i = 0; i < n; before = word[i++].text) mask__add(t, &word[i], before, path);
    for (size_t d = 0; d < before.n; d++) t->node[path[d]].next = t->n_node;
    t->node[t->n_node] = (mask__node){.next = t->n_node, .tok = t->n_id};
    for (int b = 0; b < 256; b++) t->root[b] = t->n_node;
    for (uint32_t i = 0; i < t->n_node; i = t->node[i].next) t->root[t->node[i].byte] = i;
}

static void mask__trie_free(mask__trie *t) {
    mem_free(t->node);
    mem_free(t->id);
    mem_free(t->kind);
}

static void mask__set(uint32_t *bits, const int32_t *id, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) bits[id[i] >> 5] |= 1u << (id[i] & 31);
}

/* --- tokens of some classes alone --- */

static int mask__by_chars(const void *a, const void *b) {
    const mask__token *x = a, *y = b;
    return x->need != y->need ? x->need < y->need ? -1 : 1 : x->id < y->id ? -1 : x->id > y->id;
}

static void mask__sort_plain(mask_vocab *w) {
    const mask__trie *t = &w->all;
    uint32_t          end[129];
    for (uint32_t i = 0; i < t->n_id; i++)
        if (!(t->kind[i].classes & MASK_ODD)) w->plain_at[t->kind[i].classes + 1]++;
    for (int c = 0; c < 128; c++) w->plain_at[c + 1] += w->plain_at[c];
    w->plain = mem_new(w->plain_at[128], sizeof *w->plain);
    memcpy(end, w->plain_at, sizeof end);
    for (uint32_t i = 0; i < t->n_id; i++)
        if (!(t->kind[i].classes & MASK_ODD)) w->plain[end[t->kind[i].classes]++] = (mask__token){t->id[i], t->kind[i].chars};
    for (int c = 0; c < 128; c++)
        qsort(w->plain + w->plain_at[c], w->plain_at[c + 1] - w->plain_at[c], sizeof *w->plain, mask__by_chars);
}

/* The first token of exactly the classes c that has more than `chars` characters. */
static uint32_t mask__longer_at(const mask_vocab *w, int c, uint64_t chars) {
    const uint32_t     at = w->plain_at[c], end = w->plain_at[c + 1];
    const mask__token *first = w->plain + at;
    if (at == end || chars >= UINT32_MAX) return end;
    return at + (uint32_t)mem_u32_find(&first->need, end - at, sizeof *first, (uint32_t)chars + 1);
}

/* Sets the bits of the tokens of these classes alone that have more than `least` and at most `most` characters. */
static void mask__set_plain(const mask_vocab *w, int classes, uint64_t least, uint64_t most, uint32_t *bits) {
    for (int c = 1; c < 128; c++) {
        const uint32_t end = c & ~classes ? 0 : mask__longer_at(w, c, most);
        for (uint32_t i = end ? mask__longer_at(w, c, least) : 0; i < end; i++)
            bits[w->plain[i].id >> 5] |= 1u << (w->plain[i].id & 31);
    }
}

static void mask__build_rows(mask_vocab *w) {
    uint32_t *bits = mem_new((size_t)(MASK_CHARS + 1) * w->n_word, sizeof *bits);
    w->string.classes = MASK_STRING;
    for (uint32_t i = 0; i <= MASK_CHARS; i++) {
        w->string.row[i] = bits + i * w->n_word;
        if (i) memcpy(w->string.row[i], w->string.row[i - 1], w->n_word * sizeof *bits);
        mask__set_plain(w, MASK_STRING, i, i < MASK_CHARS ? i + 1 : UINT64_MAX, w->string.row[i]);
    }
}

static void mask__build(mask_vocab *w) {
    uint32_t    n, n_odd = 0;
    mask__word *word = mask__sorted(w->v, &n);
    mask__trie_build(&w->all, word, n);
    for (uint32_t i = 0; i < n; i++)
        if (w->all.kind[i].classes & ~MASK_STRING) word[n_odd++] = word[i];
    mask__trie_build(&w->odd, word, n_odd);
    mem_free(word);
    mask__sort_plain(w);
    mask__build_rows(w);
}

static bool mask__is_control(const tok_vocab *v, int32_t id) { return tok_is_control(v, id) && !tok_is_eog(v, id); }
static bool mask__keeps_blank(const tok_vocab *v, int32_t id) {
    const bytes b = mask__printed(v, id, true);
    return v->space_prefix && b.n && b.p[0] == ' ' && b.n == tok_piece(v, id).n;
}

/* The tokens of which `is` holds. */
static int32_t *mask__list(const tok_vocab *v, bool (*is)(const tok_vocab *, int32_t), int32_t *n) {
    int32_t *list = NULL;
    for (int32_t id = 0; id < tok_count(v); id++)
        if (is(v, id)) MEM_PUSH(list, *n, id);
    return list;
}

/* What the tokens are good for in ways to an end. */
static void mask__look_at_bytes(mask_vocab *w) {
    const mask__trie *t = &w->all;
    w->spells = true;
    for (int b = 0; b < 256; b++)
        w->spells = w->spells && t->root[b] < t->n_node && t->node[t->root[b]].tok < t->node[t->root[b] + 1].tok;
    for (uint32_t i = 0; i < t->n_node; i++)
        if (t->node[i].depth >= w->longest) w->longest = t->node[i].depth + 1u;
}

/* The tokens of a vocabulary as tries, for all automata; v stays its owner's and lives longer. */
static mask_vocab *mask_vocab_new(const tok_vocab *v) {
    const double began = clock_now();
    mask_vocab  *w = mem_new(1, sizeof *w);
    w->v = v;
    w->n_word = ((uint32_t)tok_count(v) + 511) / 512 * 16;
    w->none = mem_new(w->n_word, sizeof *w->none);
    mask__build(w);
    w->control = mask__list(v, mask__is_control, &w->n_control);
    w->end = mask__list(v, tok_is_eog, &w->n_end);
    w->user = mask__list(v, mask__keeps_blank, &w->n_user);
    w->strips = v->space_prefix;
    mask__look_at_bytes(w);
    w->seconds = clock_now() - began;
    return w;
}

/* Frees the tries; NULL is allowed. */
static void mask_vocab_free(mask_vocab *w) {
    if (!w) return;
    mask__trie_free(&w->all);
    mask__trie_free(&w->odd);
    mem_free(w->string.row[0]);
    mem_free(w->plain);
    mem_free(w->none);
    mem_free(w->control);
    mem_free(w->end);
    mem_free(w->user);
    mem_free(w);
}

/* --- masks that are kept. All of it is in the arena of the automaton, and void after a collection there. --- */

enum {
    MASK_WAYS = 4,                                    /* places where the mask of a set may be; the one used longest ago goes */
    MASK_SLOTS = 1 << 11,
    MASK_WHOLE_MEM = 24 << 20,                        /* bytes of masks by set */
    MASK_LOCAL_MEM = 16 << 20,                        /* bytes of masks by state */
    MASK_LOCALS = 1 << 12,                            /* entries of the table of these */
    MASK_LOOPS = 1 << 10,
    MASK_WAY = 4096,                                  /* bytes of a way to the end that is spelled with as few tokens as can be */
    MASK_WORK = 1 << 19,                              /* units of work (see gram_meter) that ways to the end may take in one
                                                       * step: about 50 ms */
    MASK_MEASURE_WORK = MASK_WORK / 2,                /* the same, where it is only asked whether ends matter in this step, */
    MASK_LOCAL_WORK = MASK_WORK / 8,                  /* and of one state */
    MASK_OWN_WORK = 64,                               /* units of a byte of the answer's own way that are not counted: most of it
                                                       * is known since the token before */
    MASK_NEAR_ROOM = 12 << 20,                        /* bytes of the arena for that work */
    MASK_FAR = 32                                     /* where that takes too much work: so many tokens more than twice the
                                                       * bytes to the end are enough */
};
#define MASK_UNKNOWN UINT64_MAX

typedef struct {
    uint64_t  key;                                    /* set and `first`; 0: free */
    uint64_t  used;                                   /* time of the last use */
    uint32_t *diff;                                   /* [2, n]: places and values of the words that differ from */
    uint32_t  n, cap;
    bool      string;                                 /* the tokens of a string, or from none */
    bool      measured;
    uint64_t  most;                                   /* bytes to the end after any of its tokens, at most; or not known */
    uint64_t  units;                                  /* of work to measure that */
} mask__slot;

typedef struct { int32_t set, classes; } mask__loop;

typedef struct {                                      /* a node in front of which the rule is over */
    uint32_t node;
    uint32_t bodies;                                  /* of a span, whole ones up to there */
} mask__escape;

/* What a state allows as long as its rule is not left, whatever is below. */
typedef struct {
    int32_t            start;                         /* the local set of the state */
    bool               textual;                       /* an operation looks at the text: what escapes is stepped from
                                                       * the set itself */
    const gram_span   *span;                          /* NULL: none */
    mask__plain       *plain;                         /* tokens that lead back to the state; NULL: none */
    const mask__trie  *trie;                          /* where the nodes of the escapes are */
    int                skipped;                       /* classes of the characters in front of which escapes are not listed */
    bool               measured;
    uint64_t           most;                          /* bytes to the end of the rule after any of its tokens, at most */
    uint64_t           units;                         /* of work to measure that */
    uint32_t           n_token;
    uint32_t           at[257];                       /* escapes by the byte of their node: at[b] .. at[b + 1] */
    mask__token       *token;
    mask__escape      *escape;
} mask__local;

typedef struct mask_cache {
    gram             *g;
    const mask_vocab *w;
    mask__slot        slot[MASK_SLOTS];
    mask__local      *local[MASK_LOCALS];             /* by their starts */
    mask__loop        loop[MASK_LOOPS];               /* classes of characters that lead a set back to itself */
    mask__plain      *plain;                          /* a list */
    uint32_t         *bits;                           /* [n_word]: the mask that was asked for last */
    uint32_t         *place;                          /* [2, n_word]: words of it that are to be kept */
    mask__token      *token;                          /* [n_id]: the local state that is worked out */
    mask__escape     *escape;                         /* [n_node] */
    uint8_t           way[MASK_WAY];                  /* a text to the end, or its first bytes */
    int32_t           at[MASK_WAY + 1];               /* the set in front of each of them */
    uint32_t          fewest[MASK_WAY + 1];           /* tokens from there */
    bool              measures;                       /* bytes to the end are measured; the largest yet is `most` */
    uint64_t          most;
    uint64_t          units;                          /* of work in this step */
    int64_t           left;                           /* tokens that may come after the next one; -1: any number */
    bool              own;                            /* the way of the answer itself is followed */
    uint32_t          n_local;                        /* entries of `local` */
    uint32_t          generation;                     /* of the automaton when all this was made */
    uint32_t          budget;                         /* nodes of a walk that is cheaper than what the entries of states need */
    uint32_t          large;                          /* nodes of a subtree for which mask__loops() is worth its while */
    uint64_t          clock;                          /* looks at slots so far */
    uint64_t          hits;                           /* masks that were known; for -v */
    uint64_t          misses;                         /* masks that were made */
    uint64_t          whole_bytes;                    /* of the arena, for masks by set */
    uint64_t          local_bytes;                    /* for masks by state */
    double            seconds;                        /* in which masks were made */
} mask_cache;

static void mask__forget(mask_cache *m) {
    memset(m->slot, 0, sizeof m->slot);
    memset(m->local, 0, sizeof m->local);
    for (int i = 0; i < MASK_LOOPS; i++) m->loop[i].set = -1;
    m->plain = NULL;
    m->n_local = 0;
    m->whole_bytes = m->local_bytes = 0;
    m->generation = gram_generation(m->g);
}

/* Masks of a sealed automaton, in its arena; g and w stay their owner's. Not for several threads at a time. */
static mask_cache *mask_new(gram *g, const mask_vocab *w) {
    mask_cache *m = mem_new(1, sizeof *m);
    m->g = g, m->w = w;
    m->budget = 4096, m->large = 64, m->left = -1;
    m->bits = mem_new(w->n_word, sizeof *m->bits);
    m->place = mem_new(2 * (size_t)w->n_word, sizeof *m->place);
    m->token = mem_grow(NULL, w->all.n_id, sizeof *m->token);       /* without zeros: the kernel gives the pages that are used */
    m->escape = mem_grow(NULL, w->all.n_node, sizeof *m->escape);
    mask__forget(m);
    return m;
}

/* Frees the masks; NULL is allowed. */
static void mask_free(mask_cache *m) {
    if (!m) return;
    mem_free(m->bits);
    mem_free(m->place);
    mem_free(m->token);
    mem_free(m->escape);
    mem_free(m);
}

static uint64_t mask__key(int32_t set, bool first) { return 2 * (uint64_t)set + first + 1; }

/* The slot of a set, or the one that it gets: *hit says which. */
static mask__slot *mask__slot_of(mask_cache *m, int32_t set, bool first, bool *hit) {
    const uint64_t key = mask__key(set, first);
    mask__slot    *at = m->slot + rng_mix(key) % (MASK_SLOTS / MASK_WAYS) * MASK_WAYS, *oldest = at;
    m->clock++;
    for (int i = 0; i < MASK_WAYS; i++) {
        if ((*hit = at[i].key == key)) return at[i].used = m->clock, &at[i];
        if (at[i].used < oldest->used) oldest = &at[i];
    }
    return oldest;
}

/* --- classes of characters that lead from one set to another, whichever of them comes --- */

typedef struct { uint8_t lo, hi; } mask__bytes;

/* Whether the bytes of `first`, each with any byte of `second` and any `more` - 1 bytes 80 to bf after it, lead from
 * a set to another one. */
static bool mask__all_lead(gram *g, int32_t set, mask__bytes first, mask__bytes second, int more, int32_t to) {
    static const mask__bytes any = {0x80, 0xbf};
    int32_t                  before = -1;
    for (int b = first.lo; b <= first.hi; b++) {
        const int32_t next = gram_step(g, set, (uint8_t)b);
        if (next < 0 || (!more && next != to)) return false;
        if (more && next != before && !mask__all_lead(g, next, second, any, more - 1, to)) return false;
        before = next;
    }
    return true;
}

/* The same for all characters that are not ASCII. */
static bool mask__wide_lead(gram *g, int32_t set, int32_t to) {
    static const struct { mask__bytes first, second; int more; } rows[] = {
        {{0xc2, 0xdf}, {0x80, 0xbf}, 1}, {{0xe0, 0xe0}, {0xa0, 0xbf}, 2}, {{0xe1, 0xec}, {0x80, 0xbf}, 2},
        {{0xed, 0xed}, {0x80, 0x9f}, 2},
        {{0xee, 0xef}, {0x80, 0xbf}, 2}, {{0xf0, 0xf0}, {0x90, 0xbf}, 3}, {{0xf1, 0xf3}, {0x80, 0xbf}, 3},
        {{0xf4, 0xf4}, {0x80, 0x8f}, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!mask__all_lead(g, set, rows[i].first, rows[i].second, rows[i].more, to)) return false;
    return true;
}

static int mask__classes(gram *g, int32_t set, int32_t to) {
    int classes = 0x7f & ~MASK_WIDE;
    for (int b = 0; b < 0x80; b++)
        if ((classes & mask__class((uint8_t)b)) && gram_step(g, set, (uint8_t)b) != to) classes &= ~mask__class((uint8_t)b);
    return classes | (mask__wide_lead(g, set, to) ? MASK_WIDE : 0);
}

/* The classes of which every character leads a set back to itself. */
static int mask__loops(mask_cache *m, int32_t set) {
    mask__loop *l = &m->loop[(uint32_t)set % MASK_LOOPS];
    if (l->set != set) *l = (mask__loop){set, mask__classes(m->g, set, set)};
    return l->classes;
}

/* --- ways to the end. The way of a set is a shortest text to the end, of several the one whose bytes are least, in
 * as few tokens as can spell it. After the first of these tokens, the way is the rest of that text, and needs one
 * token less. So where masks allow only tokens after which the way is not too long, there is always one more to
 * choose. --- */

/* Kept with a set in place of (tokens of its way + 1). MASK_NOT_BYTES: the way has a control token or takes too much work.
 * MASK_NOT_BYTES - 1: no tokens spell it. */
#define MASK_NOT_BYTES UINT32_MAX

/* The fewest tokens from byte `at` of the way, with those from later bytes known up to byte n; UINT32_MAX: no tokens spell it. */
static uint32_t mask__fewest_from(const mask_cache *m, uint64_t at, uint64_t n) {
    const mask__trie *t = &m->w->all;
    uint32_t          best = UINT32_MAX, i = t->root[m->way[at]], end = t->n_node;
    while (i < end && at < n) {
        if (t->node[i].tok < t->node[i + 1].tok && m->fewest[at + 1] < best) best = m->fewest[at + 1] + 1;
        end = t->node[i++].next;
        if (++at < n) while (i < end && t->node[i].byte != m->way[at]) i = t->node[i].next;
    }
    return best;
}

/* Follows the way of a set of n bytes up to its end, or to a set whose tokens are known and which this step has followed
 * already, and from there as far as a token may reach. Returns how many bytes that is. UINT64_MAX: it holds a control
 * token or takes too much work. */
static uint64_t mask__follow(mask_cache *m, int32_t set, uint64_t n) {
    uint64_t i = 0, end = n;
    bool     limit = n > MASK_WAY, odd = limit, before = false;
    for (m->at[0] = set; i < end && !odd; i++) {
        const uint32_t *note = gram_note(m->g, m->at[i]);
        m->at[i + 1] = gram_way(m->g, m->at[i], m->own ? MASK_OWN_WORK : 0, &m->way[i], &before);
        limit = !note || m->at[i + 1] == GRAM_LIMIT;
        odd = limit || m->at[i + 1] < 0 || (before && *note == MASK_NOT_BYTES);
        if (!odd && before && *note && end == n) end = min_u64(n, i + m->w->longest);
    }
    for (uint64_t k = 0; k < i && odd && !limit; k++) *gram_note(m->g, m->at[k]) = MASK_NOT_BYTES;
    return odd ? UINT64_MAX : end;
}

/* Writes the begin of a set's way, and the fewest tokens from each of its bytes. These are kept with the sets in front of
 * the bytes: the next token leads to one of them. False: as mask__follow(). */
static bool mask__spell(mask_cache *m, int32_t set, uint64_t n) {
    const uint64_t end = mask__follow(m, set, n);
    if (end == UINT64_MAX) return false;
    if (end == n) m->fewest[n] = 0;
    for (uint64_t i = end; i-- > 0;) {
        uint32_t *note = gram_note(m->g, m->at[i]);
        if (!*note) *note = (uint32_t)min_u64(mask__fewest_from(m, i, end), MASK_NOT_BYTES - 2) + 1;
        m->fewest[i] = *note == MASK_NOT_BYTES - 1 ? UINT32_MAX : *note - 1;
    }
    return true;
}

/* Tokens of the way of a set; MASK_UNKNOWN. A way that takes too much work, or that has control tokens, counts by
 * its bytes: so does then every one that leads to it. */
static uint64_t mask__need_of(mask_cache *m, int32_t set) {
    const uint64_t n = gram_least(m->g, set);
    if (n == UINT64_MAX || !n) return n ? MASK_UNKNOWN : 0;
    if (!mask__spell(m, set, n)) return m->w->spells ? n : MASK_UNKNOWN;
    return m->fewest[0] == UINT32_MAX ? MASK_UNKNOWN : m->fewest[0];
}

/* Whether so many tokens reach an end. */
static bool mask__closes(mask_cache *m, int32_t set, uint64_t left) {
    const uint64_t n = gram_least(m->g, set);
    if (n == UINT64_MAX || (m->w->spells && n <= left)) return true;
    return n / m->w->longest <= left && mask__need_of(m, set) <= left;
}

static uint64_t mask__sum(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

static void mask__raise(mask_cache *m, uint64_t to_end) {
    if (to_end > m->most) m->most = to_end;
}

/* --- a walk of the trie from a set --- */

typedef enum { MASK_DONE, MASK_OVER, MASK_FULL } mask__end;           /* to the end; beyond the budget; a limit was reached */

typedef struct {
    mask_cache       *m;
    const mask__trie *trie;
    uint32_t         *bits;
    uint32_t    left;                                 /* nodes that it may still visit */
    int32_t     loop;                                 /* a set, and */
    int         classes;                              /* the characters that lead it to itself */
    int32_t     judged;                               /* the last set that was judged, and */
    bool        good;                                 /* what came of it */
    int32_t     set[TOK_TEXT_MAX + 1];                /* in front of the byte at each depth */
} mask__walk;

static void mask__begin(mask__walk *k, mask_cache *m, const mask__trie *t, uint32_t *bits, uint32_t budget) {
    k->m = m, k->trie = t, k->bits = bits, k->left = budget, k->loop = k->judged = -1, k->classes = 0;
}

/* Whether the set loops over every character below the node, so that all tokens there are allowed. */
static bool mask__covers(mask__walk *k, int32_t set, const mask__node *n, uint32_t nodes) {
    if (n->rest & MASK_ODD) return false;
    if (set != k->loop) {
        if (nodes < k->m->large) return false;
        k->loop = set;
        k->classes = mask__loops(k->m, set);
    }
    return !(n->rest & ~k->classes);
}

/* Measures the set after a token, and says whether the token may come, as far as its way to the end decides. */
static bool mask__judge(mask_cache *m, int32_t set) {
    if (gram_spent(m->g)) return true;
    if (m->measures) mask__raise(m, gram_least(m->g, set));
    return m->left < 0 || mask__closes(m, set, (uint64_t)m->left);
}

static bool mask__good(mask__walk *k, int32_t set) {
    if (set != k->judged) k->good = mask__judge(k->m, set), k->judged = set;
    return k->good;
}

/* Sets the bits of the tokens that end in the nodes from .. to and that the set takes. */
static mask__end mask__nodes(mask__walk *k, uint32_t from, uint32_t to) {
    const mask__trie *t = k->trie;
    const bool        judges = k->m->measures || k->m->left >= 0;
    for (uint32_t i = from, next; i < to; i = next) {
        const mask__node *n = &t->node[i];
        const int32_t     set = gram_step(k->m->g, k->set[n->depth], n->byte);
        if (!k->left--) return MASK_OVER;
        if (set == GRAM_LIMIT) return MASK_FULL;
        next = set < 0 || mask__covers(k, set, n, n->next - i) ? n->next : i + 1;
        if (set < 0) continue;
        k->set[n->depth + 1] = set;
        if (judges && n->tok < t->node[next].tok && !mask__good(k, set)) continue;
        mask__set(k->bits, t->id + n->tok, t->node[next].tok - n->tok);
    }
    return MASK_DONE;
}

/* The tokens from node i on, whose byte leads to the set. */
static mask__end mask__from(mask__walk *k, uint32_t i, int32_t set) {
    const mask__node *n = &k->trie->node[i];
    const bool        whole = mask__covers(k, set, n, n->next - i);
    const uint32_t    last = k->trie->node[whole ? n->next : i + 1].tok;
    k->set[n->depth + 1] = set;
    if (n->tok < last && mask__good(k, set)) mask__set(k->bits, k->trie->id + n->tok, last - n->tok);
    return whole ? MASK_DONE : mask__nodes(k, i + 1, n->next);
}

/* The whole vocabulary. Where the first token loses its blank, the subtree of the blank is one of its own. A blank
 * alone is no text then. The table of roots spares a look at nodes that lie far from each other. */
static mask__end mask__tokens(mask_cache *m, int32_t set, bool first, uint32_t *bits, uint32_t budget) {
    const mask__trie *t = &m->w->all;
    mask__end         e = MASK_DONE;
    mask__walk        k;
    mask__begin(&k, m, t, bits, budget);
    k.set[0] = set;
    for (int b = 0; b < 256 && e == MASK_DONE; b++) {
        const uint32_t i = t->root[b];
        const bool     stripped = first && b == ' ';
        const int32_t  next = i == t->n_node ? GRAM_DEAD : stripped ? set : gram_step(m->g, set, (uint8_t)b);
        if (next == GRAM_LIMIT) return MASK_FULL;
        if (next < 0) continue;
        k.set[1] = next;
        e = stripped ? mask__nodes(&k, i + 1, t->node[i].next) : mask__from(&k, i, next);
    }
    return e;
}

/* --- masks of states: what a configuration allows depends on its stack only where its rule is over. So the tokens
 * that stay inside are kept by local set: the state with its registers on an unknown stack. With them are the nodes
 * of the trie in front of which the rule is over; from those a walk goes on after the stack. For a span, one entry
 * serves all counts: each token has the number of bodies that it needs. Where an operation looks at the text, the
 * entry ends at that operation. --- */

/* A block of the arena for masks of states; NULL: no room. */
static void *mask__block(mask_cache *m, size_t size) {
    void *p = m->local_bytes + size > MASK_LOCAL_MEM ? NULL : gram_cache(m->g, size);
    m->local_bytes += p ? size : 0;
    return p;
}

/* The tokens of some classes alone. NULL: no room. */
static mask__plain *mask__plain_of(mask_cache *m, int classes) {
    mask__plain *p = m->plain;
    while (p && p->classes != classes) p = p->next;
    if (p || !(p = mask__block(m, sizeof *p))) return p;
    if (classes == MASK_STRING) *p = m->w->string;
    p->classes = classes;
    p->next = m->plain;
    return m->plain = p;
}

/* Its row; made when it is first asked for. NULL: no room. */
static const uint32_t *mask__plain_row(mask_cache *m, mask__plain *p, uint32_t i) {
    if (!p->row[i] && (p->row[i] = mask__block(m, m->w->n_word * sizeof *p->row[i])))
        mask__set_plain(m->w, p->classes, 0, i < MASK_CHARS ? i + 1 : UINT64_MAX, p->row[i]);
    return p->row[i];
}

typedef struct {                                      /* a local state that is worked out */
    mask_cache *m;
    mask__local l;
    uint32_t    n_escape;
    int         plain;                                /* classes whose characters lead to the next body, or back */
} mask__make;

/* Whole bodies in the set of a span's twin; false: its bodies are ambiguous. */
static bool mask__bodies(const gram *g, int32_t set, uint32_t *bodies) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    *bodies = n == 1 ? (uint32_t)gram_word(g, c->data, 0) : 0;
    return n == 1;
}

/* Whether the set is in front of the next body as `start` does, with one body more. */
static bool mask__is_next(const gram *g, int32_t start, int32_t set) {
    size_t             n;
    uint32_t           bodies;
    const gram_config *c = gram_configs(g, start, &n);
    const int32_t      state = n == 1 ? c->state : -1;
    return state >= 0 && mask__bodies(g, set, &bodies) && bodies == 1 && gram_configs(g, set, &n)->state == state;
}

static void mask__raise_local(mask__make *k, int32_t set) {
    const uint64_t least = gram_least(k->m->g, set);
    if (least > k->l.most) k->l.most = least;
}

/* Finds classes whose characters all lead from the start to a set that they lead back to itself, or to the next body.
 * The rule can be over after each of them where it can after the first. */
static void mask__find_plain(mask__make *k, int32_t start) {
    gram   *g = k->m->g;
    int32_t next = GRAM_DEAD;
    for (const char *c = "aA0 -"; *c && !k->plain; c++) {
        next = gram_step(g, start, (uint8_t)*c);
        if (next >= 0 && (!k->l.span || mask__is_next(g, start, next)))
            k->plain = mask__classes(g, start, next) & (k->l.span ? 0xff : mask__loops(k->m, next));
    }
    if ((k->plain & MASK_STRING) == MASK_STRING) k->plain = MASK_STRING;
    if (!k->plain || (k->l.textual && gram_escaped(g, next)) || !(k->l.plain = mask__plain_of(k->m, k->plain))) k->plain = 0;
    if (!k->plain) return;
    if (k->plain == MASK_STRING) k->l.trie = &k->m->w->odd;
    if (gram_escaped(g, next)) k->l.skipped = k->plain;
    if (k->m->measures) mask__raise_local(k, next);
}

/* Notes the tokens of a node, and the nodes below it where the rule is over. */
static bool mask__note(mask__make *k, int32_t set, uint32_t i, uint32_t next) {
    const mask__trie *t = k->l.trie;
    const bool        over = gram_escaped(k->m->g, set);
    size_t            n;
    uint32_t          bodies = 0;
    gram_configs(k->m->g, set, &n);
    if (k->m->measures && t->node[i].tok < t->node[next].tok) mask__raise_local(k, set);
    if (k->l.span && !mask__bodies(k->m->g, set, &bodies)) return false;
    for (uint32_t j = t->node[i].tok; j < t->node[next].tok && (n || !k->l.textual); j++)
        if (t->kind[j].classes & ~k->plain || !k->plain)
            k->m->token[k->l.n_token++] = (mask__token){t->id[j], k->l.span ? bodies + !over : 0};
    if (!over) return true;
    if (k->l.textual) k->m->escape[k->n_escape++] = (mask__escape){i, 0};
    else if (next > i + 1) k->l.skipped |= t->node[i].rest;
    else for (uint32_t c = i + 1; c < t->node[i].next; c = t->node[c].next)
        if (!k->plain || t->node[c].all & ~k->plain) k->m->escape[k->n_escape++] = (mask__escape){c, bodies};
    return true;
}

static mask__end mask__inside(mask__make *k, int32_t start) {
    const mask__trie *t = k->l.trie;
    mask__walk        at;
    mask__begin(&at, k->m, t, NULL, UINT32_MAX);
    at.set[0] = start;
    for (uint32_t i = 0, next; i < t->n_node; i = next) {
        const mask__node *n = &t->node[i];
        next = n->next;
        if (k->plain && !(n->all & ~k->plain)) continue;
        const int32_t set = gram_step(k->m->g, at.set[n->depth], n->byte);
        if (set == GRAM_LIMIT) return MASK_FULL;
        if (set < 0) continue;
        if (k->l.span || (k->l.textual && gram_escaped(k->m->g, set)) || !mask__covers(&at, set, n, n->next - i)) next = i + 1;
        if (!mask__note(k, set, i, next)) return MASK_OVER;
        at.set[n->depth + 1] = set;
    }
    return MASK_DONE;
}

/* Copies what was noted into the arena, escapes by their bytes. NULL: no room. */
static mask__local *mask__keep(mask__make *k) {
    const mask__node *node = k->l.trie->node;
    uint32_t          end[257];
    const size_t      size = sizeof k->l + k->l.n_token * sizeof *k->l.token + k->n_escape * sizeof *k->l.escape;
    mask__local      *l = mask__block(k->m, size);
    if (!l) return NULL;
    *l = k->l;
    l->token = (mask__token *)(l + 1);
    l->escape = (mask__escape *)(l->token + l->n_token);
    memcpy(l->token, k->m->token, l->n_token * sizeof *l->token);
    for (uint32_t i = 0; i < k->n_escape; i++) l->at[node[k->m->escape[i].node].byte + 1]++;
    for (int b = 0; b < 256; b++) l->at[b + 1] += l->at[b];
    memcpy(end, l->at, sizeof end);
    for (uint32_t i = k->n_escape; i-- > 0;) l->escape[--end[node[k->m->escape[i].node].byte + 1]] = k->m->escape[i];
    return l;
}

/* The local set of a configuration; GRAM_LIMIT. */
static int32_t mask__start(gram *g, const gram_config *c) {
    const int32_t twin = gram_unguarded(g, c->state);
    if (twin < 0) return gram_local(g, c->state, c->data);
    const int32_t bare = gram_span_of(g, c->state) ? 0 : gram_bare(g, c->data);
    return bare == GRAM_LIMIT ? bare : gram_local(g, twin, bare);
}

/* The place of a local set in the table: of its entry, or free. */
static mask__local **mask__local_at(mask_cache *m, int32_t start) {
    uint32_t i = (uint32_t)rng_mix((uint64_t)start) & (MASK_LOCALS - 1);
    while (m->local[i] && m->local[i]->start != start) i = (i + 1) & (MASK_LOCALS - 1);
    return &m->local[i];
}

/* Works out the entry of a configuration's state. */
static mask__end mask__local_make(mask_cache *m, const gram_config *c, int32_t start) {
    mask__local **at = mask__local_at(m, start);
    gram         *g = m->g;
    mask__make    k = {.m = m, .l = {.start = start, .measured = m->measures, .span = gram_span_of(g, c->state),
                                     .trie = &m->w->all}};
    if (*at && ((*at)->measured || !m->measures)) return MASK_DONE;
    if (m->n_local >= MASK_LOCALS / 2) return MASK_OVER;
    gram_meter(g, MASK_LOCAL_WORK);
    k.l.textual = !k.l.span && gram_unguarded(g, c->state) >= 0;
    if (!k.l.span || gram_span_between(g, c->state)) mask__find_plain(&k, start);
    const mask__end e = mask__inside(&k, start);
    k.l.units = gram_metered(g);
    if (gram_spent(g)) k.l.most = UINT64_MAX;
    if (e != MASK_DONE) return e;
    if (*at) (*at)->measured = true, (*at)->most = k.l.most, (*at)->units = k.l.units;
    else m->n_local += (*at = mask__keep(&k)) != NULL;
    return *at ? MASK_DONE : MASK_OVER;
}

/* Whether a character of classes whose escapes are not listed can follow after the stack. */
static bool mask__blind(mask_cache *m, const mask__local *l, int32_t after) {
    for (int b = 0; l->skipped && b < 256; b++)
        if ((l->skipped & mask__class((uint8_t)b)) && gram_step(m->g, after, (uint8_t)b) >= 0) return true;
    return false;
}

/* Sets the bits of the tokens that stay inside; most: bodies that may still come, UINT64_MAX: any number. False: no room. */
static bool mask__add_inside(mask_cache *m, const mask__local *l, uint64_t most, uint32_t *bits) {
    for (uint32_t i = 0; i < l->n_token; i++)
        if (l->token[i].need <= most) bits[l->token[i].id >> 5] |= 1u << (l->token[i].id & 31);
    if (!l->plain || !most) return true;
    const uint32_t *row = mask__plain_row(m, l->plain,
                                          most <= MASK_CHARS ? (uint32_t)most - 1 : MASK_CHARS - (most < UINT64_MAX));
    for (uint32_t i = 0; row && i < m->w->n_word; i++) bits[i] |= row[i];
    if (most > MASK_CHARS && most < UINT64_MAX) mask__set_plain(m->w, l->plain->classes, MASK_CHARS, most, bits);
    return row != NULL;
}

/* Goes on after the stack from each node in front of which the rule is over with least .. most more bodies. */
static mask__end mask__add_escapes(mask_cache *m, const mask__local *l, int32_t after, uint64_t least, uint64_t most,
                                   uint32_t *bits) {
    mask__walk k;
    mask__begin(&k, m, l->trie, bits, UINT32_MAX);
    for (int b = 0; b < 256; b++) {
        const int32_t set = l->at[b] == l->at[b + 1] ? GRAM_DEAD : gram_step(m->g, after, (uint8_t)b);
        if (set == GRAM_LIMIT) return MASK_FULL;
        for (uint32_t i = l->at[b]; set >= 0 && i < l->at[b + 1]; i++) {
            if (l->escape[i].bodies < least || l->escape[i].bodies > most) continue;
            if (mask__from(&k, l->escape[i].node, set) == MASK_FULL) return MASK_FULL;
        }
    }
    return MASK_DONE;
}

/* The same by steps from the set itself: the operation in front of each node looks at the text. */
static mask__end mask__add_textual(mask_cache *m, const mask__local *l, int32_t set, uint32_t *bits) {
    const mask__trie *t = l->trie;
    mask__walk        k;
    bytes             before = {0};
    mask__begin(&k, m, t, bits, UINT32_MAX);
    k.set[0] = set;
    for (uint32_t i = 0; i < l->at[256]; i++) {
        const mask__node *n = &t->node[l->escape[i].node];
        const bytes       path = {mask__printed(m->w->v, t->id[n->tok], false).p, n->depth + 1u};
        for (size_t d = mask__shared(before, path); d < path.n; d++) k.set[d + 1] = gram_step(m->g, k.set[d], path.p[d]);
        before = path;
        if (k.set[path.n] == GRAM_LIMIT) return MASK_FULL;
        if (k.set[path.n] < 0) continue;
        if (mask__from(&k, l->escape[i].node, k.set[path.n]) == MASK_FULL) return MASK_FULL;
    }
    return MASK_DONE;
}

/* Measures what the tokens of an entry leave to the end: what the configuration itself leaves, and what they add
 * within the rule. */
static void mask__measure(mask_cache *m, const mask__local *l, const gram_config *c, int32_t after) {
    const int32_t own = gram_local(m->g, c->state, c->data);
    mask__raise(m, mask__sum(l->most, mask__sum(gram_least(m->g, own), gram_least(m->g, after))));
}

/* Adds what one configuration of a set allows. MASK_OVER: its entry cannot tell. */
static mask__end mask__add_config(mask_cache *m, int32_t set, const gram_config *c, int32_t start, uint32_t *bits) {
    const mask__local *l = *mask__local_at(m, start);
    const int32_t      after = gram_after(m->g, c->stack);
    uint64_t           least = 0, most = UINT64_MAX;
    if (after == GRAM_LIMIT) return MASK_FULL;
    if (!l || (!l->textual && mask__blind(m, l, after))) return MASK_OVER;
    if (l->span) {
        const uint64_t done = gram_word(m->g, c->data, 0);
        least = done < l->span->min ? l->span->min - done : 0;
        most = l->span->max == UINT64_MAX ? UINT64_MAX : l->span->max - done;
    }
    if (m->measures) mask__measure(m, l, c, after);
    if (!mask__add_inside(m, l, most, bits)) return MASK_OVER;
    return l->textual ? mask__add_textual(m, l, set, bits) : mask__add_escapes(m, l, after, least, most, bits);
}

enum { MASK_CONFIGS = 16 };                           /* configurations of a set for which entries are made */

/* Whether many tokens are to be expected: letters, digits and blanks may all follow. */
static bool mask__is_broad(gram *g, int32_t set) {
    for (const char *c = "e T0"; *c; c++)
        if (gram_step(g, set, (uint8_t)*c) < 0) return false;
    return true;
}

enum { MASK_SINGLE = 8 };                             /* bytes to look at where each takes much work */

/* The first tokens of one byte that lead nearer to the end; at least one. */
static mask__end mask__single(mask_cache *m, int32_t set, uint32_t *bits) {
    const mask__trie *t = &m->w->all;
    const uint64_t    n = gram_least(m->g, set);
    for (int b = 0, tried = 0, good = 0; b < 256 && (tried < MASK_SINGLE || !good); b++) {
        const mask__node *node = &t->node[t->root[b]];
        const int32_t     next = t->root[b] == t->n_node ? GRAM_DEAD : gram_step(m->g, set, (uint8_t)b);
        if (next == GRAM_LIMIT) return MASK_FULL;
        tried += next >= 0;
        if (next < 0 || gram_least(m->g, next) >= n || !mask__judge(m, next)) continue;
        mask__set(bits, t->id + node->tok, node[1].tok - node->tok);
        good++;
    }
    return MASK_DONE;
}

/* The tokens that begin the way of a set, and after which what is left reaches its end. */
static mask__end mask__along(mask_cache *m, int32_t set, uint32_t *bits) {
    const mask__trie *t = &m->w->all;
    const uint64_t    n = gram_least(m->g, set);
    uint32_t          i, end = t->n_node;
    if (n == UINT64_MAX) return MASK_FULL;
    if (n && !mask__spell(m, set, n)) return m->w->spells ? mask__single(m, set, bits) : MASK_FULL;
    i = n ? t->root[m->way[0]] : end;
    for (uint64_t at = 0; i < end;) {
        const mask__node *node = &t->node[i];
        if (m->fewest[at + 1] <= (uint64_t)m->left) mask__set(bits, t->id + node->tok, node[1].tok - node->tok);
        end = node->next, i++;
        if (++at < n) while (i < end && t->node[i].byte != m->way[at]) i = t->node[i].next;
        else break;
    }
    return MASK_DONE;
}

/* The tokens by their text: a short walk where that is enough, else by the entries of the states, else a walk of any length. */
static mask__end mask__by_text(mask_cache *m, int32_t set, uint32_t *bits) {
    gram_config        c[MASK_CONFIGS];
    int32_t            start[MASK_CONFIGS];
    size_t             n, known = 0;
    const gram_config *all = gram_configs(m->g, set, &n);
    bool               broad = mask__is_broad(m->g, set), textual = false;
    if (n > MASK_CONFIGS) return mask__tokens(m, set, false, bits, UINT32_MAX);
    memcpy(c, all, n * sizeof *c);
    for (size_t i = 0; i < n; i++) {
        if ((start[i] = mask__start(m->g, &c[i])) < 0) return MASK_FULL;
        known += *mask__local_at(m, start[i]) != NULL;
        textual = textual || (gram_unguarded(m->g, c[i].state) >= 0 && !gram_span_of(m->g, c[i].state));
    }
    if (m->left >= 0) return textual ? mask__along(m, set, bits) : mask__tokens(m, set, false, bits, UINT32_MAX);
    /* what is measured, and the work for that, does not depend on what is known */
    const bool short_walk = !broad && !textual && (known < n || m->measures);
    mask__end  e = short_walk ? mask__tokens(m, set, false, bits, m->budget) : MASK_OVER;
    if (e != MASK_OVER) return e;
    e = MASK_DONE;
    if (m->measures) m->units += gram_metered(m->g);
    for (size_t i = 0; i < n && e == MASK_DONE; i++) e = mask__local_make(m, &c[i], start[i]);
    for (size_t i = 0; i < n && e == MASK_DONE && m->measures; i++) m->units += (*mask__local_at(m, start[i]))->units;
    gram_meter(m->g, MASK_MEASURE_WORK);
    for (size_t i = 0; i < n && e == MASK_DONE; i++) e = mask__add_config(m, set, &c[i], start[i], bits);
    return e == MASK_OVER ? mask__tokens(m, set, false, bits, UINT32_MAX) : e;
}

/* --- whole masks --- */

/* The set after a token that comes by its text; GRAM_DEAD: none. */
static int32_t mask__text(gram *g, int32_t set, bytes text) {
    if (!text.n) return GRAM_DEAD;
    for (size_t i = 0; i < text.n && set >= 0; i++) set = gram_step(g, set, text.p[i]);
    return set;
}

/* The bytes of a token in a set: a control token counts with its text where free text is. */
static bytes mask__bytes_in(const mask_cache *m, int32_t set, int32_t id, bool first) {
    const tok_vocab *v = m->w->v;
    if (tok_is_control(v, id) && !tok_is_eog(v, id)) return gram_is_free(m->g, set) ? tok_text(v, id) : (bytes){0};
    return mask__printed(v, id, first);
}

/* The set after a token. A token that ends a generation is none of the text, even where a grammar names it. */
static int32_t mask__after_token(mask_cache *m, int32_t set, int32_t id, bool first) {
    const int32_t by_text = mask__text(m->g, set, mask__bytes_in(m, set, id, first));
    const int32_t by_name = gram_has_tokens(m->g, set) && !tok_is_eog(m->w->v, id) ? gram_step_token(m->g, set, id) : GRAM_DEAD;
    if (by_text == GRAM_LIMIT || by_name == GRAM_LIMIT) return GRAM_LIMIT;
    return gram_join(m->g, by_text, by_name);
}

/* Sets the bit of each listed token that may come. id NULL: 0 .. n - 1 */
static bool mask__one_by_one(mask_cache *m, int32_t set, bool first, const int32_t *id, int32_t n, uint32_t *bits) {
    for (int32_t i = 0; i < n; i++) {
        const int32_t one = id ? id[i] : i, next = mask__after_token(m, set, one, first);
        if (next == GRAM_LIMIT) return false;
        if (next >= 0 && mask__judge(m, next)) mask__set(bits, &one, 1);
        else bits[one >> 5] &= ~(1u << (one & 31));
    }
    return true;
}

/* All that may follow a set; with m->left all after which so many tokens reach an end. False: a limit was reached. */
static bool mask__fill(mask_cache *m, int32_t set, bool first, uint32_t *bits) {
    const mask_vocab *w = m->w;
    first = first && w->strips;
    memset(bits, 0, w->n_word * sizeof *bits);
    if (gram_has_tokens(m->g, set)) {
        if (!mask__one_by_one(m, set, first, NULL, tok_count(w->v), bits)) return false;
    } else {
        const mask__end e = first ? mask__tokens(m, set, true, bits, UINT32_MAX) : mask__by_text(m, set, bits);
        if (e == MASK_FULL) return false;
        if (first && !mask__one_by_one(m, set, true, w->user, w->n_user, bits)) return false;
        if (gram_is_free(m->g, set) && !mask__one_by_one(m, set, first, w->control, w->n_control, bits)) return false;
    }
    if (gram_complete(m->g, set)) mask__set(bits, w->end, w->n_end);
    return true;
}

/* Places of the words in which the mask differs from another one, at most `most`. Sixteen words at a time: most are equal. */
static uint32_t mask__differs(const mask_cache *m, const uint32_t *from, uint32_t *at, uint32_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->w->n_word && n < most; i += 16) {
        uint32_t any = 0;
        for (uint32_t k = 0; k < 16; k++) any |= m->bits[i + k] ^ from[i + k];
        for (uint32_t k = i; any && k < i + 16 && n < most; k++)
            if (m->bits[k] != from[k]) at[n++] = k;
    }
    return n;
}

/* Keeps the mask in a slot, by its differences from what it is close to. */
static void mask__keep_whole(mask_cache *m, mask__slot *s, int32_t set, bool first) {
    const uint32_t *string = m->w->string.row[MASK_CHARS];
    uint32_t       *at = m->place, few = mask__differs(m, m->w->none, at, m->w->n_word), n = few;
    s->key = 0, s->string = few > m->w->n_word / 2 && (n = mask__differs(m, string, at + m->w->n_word, few)) < few;
    if (s->string) at += m->w->n_word;
    else n = few;
    if (n > s->cap) {
        const size_t size = 2 * (size_t)n * sizeof *s->diff;
        uint32_t    *diff = m->whole_bytes + size > MASK_WHOLE_MEM ? NULL : gram_cache(m->g, size);
        if (!diff) return;
        s->diff = diff, s->cap = n;
        m->whole_bytes += size;
    }
    memcpy(s->diff, at, n * sizeof *at);
    for (uint32_t i = 0; i < n; i++) s->diff[n + i] = m->bits[at[i]];
    s->n = n;
    s->key = mask__key(set, first), s->used = m->clock, s->measured = m->measures, s->most = m->most;
    s->units = m->units;
}

static void mask__recall(mask_cache *m, const mask__slot *s) {
    const size_t size = m->w->n_word * sizeof *m->bits;
    if (s->string) memcpy(m->bits, m->w->string.row[MASK_CHARS], size);
    else memset(m->bits, 0, size);
    for (uint32_t i = 0; i < s->n; i++) m->bits[s->diff[i]] = s->diff[s->n + i];
}

static bool mask__make_whole(mask_cache *m, int32_t set, bool first, mask__slot *s) {
    m->most = m->units = 0;
    gram_meter(m->g, MASK_MEASURE_WORK);
    const bool ok = mask__fill(m, set, first, m->bits);
    if (gram_spent(m->g)) m->most = UINT64_MAX;
    m->units += gram_metered(m->g);
    if (ok) mask__keep_whole(m, s, set, first);
    return ok;
}

/* Drops all that is void after a collection. */
static void mask__refresh(mask_cache *m) {
    if (m->generation != gram_generation(m->g)) mask__forget(m);
}

enum { MASK_ROOM = 4 << 20 };                         /* bytes that a walk may need in the arena */

/* Makes the mask with nothing collected meanwhile. Where the arena is full, all that no track holds is dropped, and
 * it is made anew, once. */
static bool mask__miss(mask_cache *m, int32_t set, bool first) {
    gram      *g = m->g;
    gram_track t;
    bool       ok = false, hit;
    gram_track_open(&t, g);
    t.set = set;
    if (gram_room(g) < MASK_ROOM) gram_collect(g);
    for (int turn = 0; turn < 2 && !ok; turn++) {
        if (turn && !gram_full(g)) break;
        if (turn) gram_collect(g);
        mask__refresh(m);
        gram_hold(g, true);
        ok = mask__make_whole(m, t.set, first, mask__slot_of(m, t.set, first, &hit));
        gram_hold(g, false);
    }
    gram_track_close(&t);
    return ok;
}

/* As mask_of; where m->measures, m->most: bytes to the end after any of the tokens, at most, and m->units. */
static const uint32_t *mask__get(mask_cache *m, int32_t set, bool first) {
    bool hit;
    mask__refresh(m);
    const mask__slot *s = mask__slot_of(m, set, first, &hit);
    if (hit && (s->measured || !m->measures)) {
        mask__recall(m, s);
        return m->hits++, m->most = s->most, m->units = s->units, m->bits;
    }
    const double began = clock_now();
    const bool   ok = mask__miss(m, set, first);
    m->misses++;
    m->seconds += clock_now() - began;
    return ok ? m->bits : NULL;
}

/* Bits of the ids that may follow, by id: the end tokens where the text is whole. first: the token loses its leading
 * blank (tok_strips). NULL: a limit was reached. Valid until the next call. A collection may happen: sets that no
 * track holds are void then. */
static const uint32_t *mask_of(mask_cache *m, int32_t set, bool first) {
    return set < 0 ? NULL : mask__get(m, set, first && m->w->strips);
}

/* Bytes to the end; adds the units of work. */
static uint64_t mask__to_end(mask_cache *m, int32_t set, uint64_t *units) {
    gram_hold(m->g, true);
    gram_meter(m->g, MASK_WORK);
    const uint64_t least = gram_least(m->g, set);
    *units += gram_metered(m->g);
    gram_hold(m->g, false);
    return least;
}

/* The tokens after which `left` - 1 more reach an end; NULL: the set itself is too far from it, or a limit was reached. */
static const uint32_t *mask__near(mask_cache *m, int32_t set, bool first, int64_t left, uint64_t *units) {
    gram_hold(m->g, true);
    gram_meter(m->g, MASK_WORK - min_u64(MASK_WORK, *units));
    m->own = true;
    bool ok = mask__closes(m, set, (uint64_t)left);
    m->own = false, m->left = left - 1;
    ok = ok && mask__fill(m, set, first, m->bits) && !gram_spent(m->g);
    m->left = -1;
    *units += gram_metered(m->g);
    gram_hold(m->g, false);
    return ok ? m->bits : NULL;
}

/* The same without the tokens after which the left - 1 that may still come reach no end; all of them where `left` reach none,
 * where no way to the end is known, and where finding the ways takes too much work. Adds the units of work to *units: they
 * depend on the set and on `left` alone, whatever was known before. */
static const uint32_t *mask_closing(mask_cache *m, int32_t set, bool first, int64_t left, uint64_t *units) {
    const uint32_t *bits = NULL;
    gram_track      t;
    if (set < 0) return NULL;
    gram_track_open(&t, m->g);
    t.set = set;
    first = first && m->w->strips;
    if (gram_room(m->g) < MASK_ROOM) gram_collect(m->g);
    const uint64_t least = left > 0 ? mask__to_end(m, t.set, units) : UINT64_MAX;
    if (least != UINT64_MAX) {
        m->measures = m->w->spells;
        if (m->measures && (bits = mask__get(m, t.set, first))) *units += m->units;
        m->measures = false;
        const bool far = bits && m->most == UINT64_MAX && (uint64_t)left / 2 > least + MASK_FAR;
        if (!bits || (m->most >= (uint64_t)left && !far)) {
            if (gram_room(m->g) < MASK_NEAR_ROOM) gram_collect(m->g);
            mask__refresh(m);
            bits = mask__near(m, t.set, first, left, units);
        }
    }
    gram_meter(m->g, UINT64_MAX);
    if (!bits) bits = mask__get(m, t.set, first);
    gram_track_close(&t);
    return bits;
}

/* The set after a token; GRAM_DEAD, GRAM_LIMIT. */
static int32_t mask_accept(mask_cache *m, int32_t set, int32_t id, bool first) {
    gram_track t;
    if (set < 0) return set;
    gram_track_open(&t, m->g);
    t.set = set;
    if (gram_room(m->g) < MASK_ROOM) gram_collect(m->g);
    gram_hold(m->g, true);
    int32_t next = mask__after_token(m, t.set, id, first);
    gram_hold(m->g, false);
    gram_track_close(&t);
    return next;
}

/* The only byte that can come; -1: none, or several, or a token of another kind, or an end. */
static int mask__only(gram *g, int32_t set) {
    int only = -1;
    if (gram_complete(g, set) || gram_has_tokens(g, set) || gram_is_free(g, set)) return -1;
    for (int b = 0; b < 256; b++)
        if (gram_step(g, set, (uint8_t)b) >= 0) {
            if (only >= 0) return -1;
            only = b;
        }
    return only;
}

/* Appends the bytes that have to come next, whatever is chosen, at most `most`. False: there are none. */
static bool mask_forced(mask_cache *m, int32_t set, size_t most, str *out) {
    size_t n = 0;
    gram_hold(m->g, true);
    for (int b; n < most && set >= 0 && (b = mask__only(m->g, set)) >= 0; n++) {
        str_add(out, (const char[]){(char)b}, 1);
        set = gram_step(m->g, set, (uint8_t)b);
    }
    gram_hold(m->g, false);
    return n > 0;
}

/* -INFINITY where a bit is clear. */
static void mask_apply(const uint32_t *bits, float *logits, int32_t n) {
    for (int32_t i = 0; i < n; i += 32) {
        const uint32_t word = bits[i / 32];
        const int32_t  end = min_int(n - i, 32);
        if (word == UINT32_MAX) continue;
        for (int32_t k = 0; k < end; k++) logits[i + k] = word & 1u << k ? logits[i + k] : -INFINITY;
    }
}

/* How many of the first n bits are set. */
static int32_t mask_count(const uint32_t *bits, int32_t n) {
    int32_t count = 0;
    for (int32_t i = 0; i < n; i += 32)
        count += __builtin_popcount(n - i < 32 ? bits[i / 32] & ((1u << (n - i)) - 1) : bits[i / 32]);
    return count;
}

/* Appends counts and bytes of masks, for -v. */
static void mask_stats(const mask_cache *m, str *out) {
    str_fmt(out, "masks %llu known, %llu made in %.0f us each, %.1f MiB", (unsigned long long)m->hits,
            (unsigned long long)m->misses,
            m->misses ? m->seconds * 1e6 / (double)m->misses : 0.0, (double)(m->whole_bytes + m->local_bytes) / 0x1p20);
}
