/* ===== [gram] constraints as one automaton over bytes =====
 * A pushdown automaton over bytes and control tokens, and how text becomes one:
 *
 *    GBNF       regular expression       JSON Schema
 *    [gbnf]     [lang]                   [schema], [json]
 *       \           |                      /
 *        rules of states and edges              gram_rule, gram_state, gram_byte, gram_call, ...
 *                   |
 *                   |  gram_seal: removes empty calls, refuses left recursion, cuts what cannot reach an end
 *                   v
 *        sealed states, bytes in classes
 *                   |
 *                   |  gram_step: a set and a byte to a set, looked up where it was made before
 *                   v
 *        sets of (state, registers, stack)      kept once each; [mask] keeps the tokens of a set by its id
 *
 * A rule is a small automaton of states and edges; an edge consumes a byte or a control token, consumes nothing, calls a
 * rule, or reads and changes the registers of the current activation of its rule. A state belongs to one rule. A limit
 * that is reached while building is remembered, and gram_seal reports it. Every text that is alive can be completed.
 *
 * A set is where a text leads: all configurations that are possible then. Stacks are kept as tries that share their
 * parts. Sets, stacks and registers are kept once each, so equal situations have equal ids. They are in one arena that
 * is reserved when sealing; running allocates nothing. A full arena is collected: what the sets of tracks need moves
 * together, the rest goes. Then ids change, and gram_generation() with them.
 *
 * A span is a loop over a body of bytes alone, whose words are prefix-free: a string with a length. Its count is
 * register 0. Each of its states has a twin in a copy of the loop without guards, in which a walk can count for all
 * counts together.
 * Public: gram_fail, gram_failed, gram_state, gram_rule, gram_begin, gram_end, gram_new, gram_eps, gram_byte,
 * gram_byte_op, gram_text, gram_call, gram_op_edge, gram_token, gram_free_state, gram_checks, gram_repeat,
 * gram_range_and, gram_ranges_join, gram_ranges_negate, gram_word, gram_collect, gram_hold, gram_full,
 * gram_generation, gram_room, gram_cache, gram_configs, gram_complete, gram_escaped, gram_is_free, gram_closed,
 * gram_has_tokens, gram_task_begin, gram_task_end, gram_bytes, gram_step, gram_step_token, gram_local, gram_join, gram_bare,
 * gram_after, gram_track_open,
 * gram_track_copy, gram_track_close, gram_match, gram_seal, gram_free, gram_span_of, gram_span_between,
 * gram_unguarded, gram_ways, gram_meter, gram_spent, gram_metered, gram_least, gram_way, gram_note, gram_stats.
 * Opens: gram_range, gram_op, gram_track, gram_config, gram_span, gram.n_class, gram.class_of. */

enum {
    GRAM_MEM = 64 << 20,                              /* bytes of the arena */
    GRAM_NODES = 3 << 20,                             /* states, edges and operations while building */
    GRAM_STEPS = 1 << 20,                             /* units of work of a step: configurations, links of stacks, edges */
    GRAM_FIND_WORK = 4,                               /* units of a look at the table, within a task */
    GRAM_BYTE_STEPS = 1 << 10,                        /* and of a text: four steps and this for each byte */
    GRAM_ITEMS = 1 << 18,                             /* configurations within one step */
    GRAM_WORDS = 1024,                                /* registers of an activation */
};
enum { GRAM_DEAD = -1, GRAM_LIMIT = -2 };             /* in place of a set */
typedef struct { uint32_t lo, hi; } gram_range;       /* code points, both included */
typedef enum {
    GRAM_NOP,
    GRAM_ADD,                                         /* word[k] += a, at most b */
    GRAM_WITHIN,                                      /* guard: a <= word[k] <= b */
    GRAM_TAKE,                                        /* guard: bit a of the bit set that begins at word k is clear; sets it */
    GRAM_LACKS,                                       /* guard: bit a is clear */
    GRAM_HAS,                                         /* guard: bits a to b, both included, are set */
    GRAM_APPEND,                                      /* on an edge of bytes: the byte is appended to the text of the
                                                       * activation */
    GRAM_DISTINCT,                                    /* guard: that text is none of those kept before; keeps it and
                                                       * begins a new one */
    GRAM_SPARE,                                       /* guard: fewer than a of the texts kept before begin with it */
    GRAM_MARK,                                        /* gram_match only: word[k] = the offset in the input */
    GRAM_CHECK,                                       /* gram_match only, guard: checker a holds for the input from
                                                       * word[k] to here */
} gram_op_kind;
typedef struct {                                      /* an operation on the registers of an activation */
    gram_op_kind kind;
    uint32_t     k;                                   /* the register, or the first one of a bit set */
    uint64_t     a, b;                                /* as the kind has them */
} gram_op;
typedef bool (*gram_checker)(void *ctx, uint64_t which, bytes text);
typedef struct gram gram;
typedef struct gram_track {                           /* a set that survives a collection */
    gram              *g;                             /* NULL: closed */
    int32_t            set;
    struct gram_track *prev, *next;                   /* tracks of the same automaton */
} gram_track;
typedef struct {                                      /* ids in place of the registers and the stack */
    int32_t state, data, stack;
} gram_config;
typedef struct {                                      /* bodies of a span */
    uint64_t min;
    uint64_t max;                                     /* UINT64_MAX: no bound; the count is at most min then */
} gram_span;

typedef enum { GRAM__BYTE, GRAM__TOKEN, GRAM__OTHER, GRAM__EPS, GRAM__OP, GRAM__CALL, GRAM__TAIL } gram__kind;
typedef struct {                                      /* an edge while building */
    int32_t  to;                                      /* the state it leads to */
    int32_t  next;                                    /* the next edge of the same state, -1: none */
    int32_t  arg;                                     /* BYTE: operation or -1, OP: operation, CALL: rule, TOKEN, OTHER:
                                                       * id */
    uint8_t  kind;                                    /* gram__kind */
    uint8_t  lo, hi;                                  /* BYTE: both included */
} gram__arc;
typedef struct {
    char    *name;                                    /* NULL: none */
    int32_t  begin, end;                              /* states */
    int32_t  body;                                    /* the rule of a loop's body; -1: a rule of edges */
    uint64_t min, max;                                /* bodies of a loop */
    bool     used;                                    /* the root needs it */
    bool     nullable;                                /* the empty text is one of its texts */
    int32_t  rank;                                    /* rules that begin with a call of it come before it */
} gram__rule;
typedef struct {                                      /* a state when sealed */
    int32_t edge;                                     /* its first edge; then all of them by kind: */
    int32_t n_byte;                                   /* BYTE */
    int32_t n_token;                                  /* TOKEN, OTHER */
    int32_t n_move;                                   /* EPS, OP */
    int32_t n_call;                                   /* CALL, TAIL */
    int32_t rank;                                     /* order of work within a step */
    int32_t span;                                     /* whose body it is in, -1: none */
    int32_t twin;                                     /* -1: none */
    int32_t loop;                                     /* of the state after a whole body of a loop with a count; else -1 */
    uint8_t flags;                                    /* GRAM__END ... */
} gram__state;
typedef struct {
    uint64_t min;                                     /* bodies */
    uint64_t unit;                                    /* bytes of the shortest body; 0: not known */
    int32_t  after;                                   /* the state after a whole body */
    int32_t  begin;                                   /* the first state of the loop's rule */
} gram__loop;
typedef struct {                                      /* an edge when sealed */
    int32_t to;                                       /* state */
    int32_t arg;                                      /* as in gram__arc; CALL, TAIL: the first state of the rule */
    uint8_t kind;                                     /* gram__kind */
    uint8_t lo, hi;                                   /* BYTE: both included */
} gram__edge;
enum { GRAM__END = 1, GRAM__FREE = 2, GRAM__LIVE = 4 /* registers matter from here on */, GRAM__BETWEEN = 8,
       GRAM__IN_SPAN = 16, GRAM__TWIN = 32 };

/* What is in the arena. An id is an offset in units of 8 bytes; ids of parts are smaller than the id of the whole. */
typedef enum { GRAM__CACHE, GRAM__DATA, GRAM__TEXT, GRAM__KEPT, GRAM__STACK, GRAM__SET, GRAM__MEMO, GRAM__LIST,
               GRAM__WAY } gram__blob_kind;
typedef struct {
    uint32_t hash, size;                              /* size: kind << 28 | words */
    uint32_t w[];
    /* DATA   text, kept, then registers as low and high words
     * TEXT   text before, byte
     * KEPT   kept before, text
     * STACK  what is after it: list, set (0: not known); gram__ask; flags; then links (state, data, stack), sorted by state and
     *        data
     * SET    row of steps, class and set of the only step (0: none); gram__ask; flags; then configurations, sorted
     * MEMO   union; the two stacks
     * WAY    bytes of the shortest way to the end in two words, + 1; units of work; state and data
     * LIST   tick in two words; flags; then configurations */
} gram__blob;
enum { GRAM__COMPLETE = 1, GRAM__ESCAPED = 2, GRAM__IS_FREE = 4, GRAM__TEXTUAL = 8 /* LIST: holds for one place of a text */ };
enum { GRAM__STACK_ASK = 2, GRAM__STACK_FLAGS, GRAM__STACK_HEAD, GRAM__SET_ASK = 3, GRAM__SET_FLAGS, GRAM__SET_HEAD,
       GRAM__LIST_HEAD = 3, GRAM__LINK = 3 };

typedef struct {                                      /* a configuration of one step */
    int32_t state;                                    /* key of the item, with `data` */
    int32_t data;                                     /* id of its registers */
    int32_t stack;                                    /* id of all stacks that it came with */
    int32_t slot;                                     /* where gram__work has it */
    bool    queued;                                   /* it is in gram.heap */
} gram__item;
typedef struct {                                      /* configurations that are being gathered, merged by state and data */
    gram__item *item;                                 /* [GRAM_ITEMS] */
    int32_t    *slot;                                 /* [4 * GRAM_ITEMS] index + 1, 0: free */
    int32_t     n;
    uint32_t    mask;                                 /* slots in use - 1: few, so that a small step stays in few pages */
    uint32_t    flags;
} gram__work;
typedef struct { int32_t a, b; } gram__pair;
typedef struct { uint32_t text, kept, n; uint64_t w[GRAM_WORDS]; } gram__words;

typedef struct {                                      /* a place on a way to the end, and an entry of a heap */
    uint64_t cost;                                    /* bytes so far; of items with calls: rank << 32 | item */
    int32_t  rule;                                    /* its first state */
    int32_t  state, data;
    int32_t  nth;                                     /* see gram__leg_text */
} gram__leg;
typedef struct gram__ways gram__ways;
struct gram {
    /* building */
    gram__arc   *arc;                                 /* [n_arc] */
    int32_t     *head;                                /* [n_state] first edge, -1: none */
    uint8_t     *mark;                                /* [n_state] GRAM__END ... */
    gram__rule  *rule;                                /* [n_rule] */
    gram_op     *act;                                 /* [n_act] operations; they stay when sealed */
    int32_t      n_arc;
    int32_t      n_state;
    int32_t      n_rule;
    int32_t      n_act;
    size_t       name_bytes;                          /* of the rules with their names: they count against GRAM_NODES */
    err_t        err;                                 /* the first limit that was reached */
    gram_checker checker;                             /* what GRAM_CHECK asks; NULL: it holds */
    void        *ctx;                                 /* of the checker */
    /* sealed */
    gram__state *state;                               /* [n_states] */
    gram__edge  *edge;                                /* by state */
    gram_span   *span;                                /* [n_span] */
    gram__loop  *loop;                                /* [n_loop] */
    int32_t      n_states;
    int32_t      n_edges;
    int32_t      n_span;
    int32_t      n_loop;
    int32_t      root;                                /* first state; -1: none, only the empty text */
    bool         empty;                               /* the empty text is whole */
    int          n_class;                             /* classes of bytes that no edge tells apart */
    uint8_t      class_of[256];
    /* the arena */
    size_t       mem;                                 /* bytes */
    uint8_t     *arena;                               /* [mem] */
    size_t       top;                                 /* units of 8 bytes in use */
    size_t       cap;                                 /* and in all */
    uint64_t    *marked;                              /* [cap / 64 + 1] bits of units: blobs that are kept, by their begin */
    uint64_t    *moved;                               /* [cap / 64 + 1] all units of these */
    uint32_t    *base;                                /* [cap / 64 + 1] where they move to */
    int32_t     *table;                               /* [table_cap] ids of what is kept once; in the arena */
    size_t       table_cap;
    size_t       n_kept;                              /* entries of the table */
    uint64_t     seed;                                /* of hashes */
    int32_t      first;                               /* set of the empty text, 0: not made */
    uint32_t     generation;                          /* changes with each collection */
    int          held;                                /* how often collections are held off */
    gram_track   tracks;                              /* head of the list */
    /* one step */
    enum { GRAM__GO, GRAM__FULL, GRAM__SPENT } stop;
    int64_t      fuel;                                /* units of work that are left */
    uint64_t     tick;                                /* number of the step */
    bool         textual;                             /* an operation looked at the text */
    gram__work   work;                                /* the set that is made */
    gram__work   after;                               /* what is after a stack */
    gram__leg   *heap;                                /* [n_heap] items with calls, by rank, then by arrival */
    int32_t      n_heap;
    gram__pair  *todo;                                /* [2 * GRAM_STEPS] states and data to visit, pairs of stacks to
                                                       * merge */
    int32_t     *pops;                                /* [GRAM_STEPS] stacks to look below */
    gram__words *words;                               /* registers that are loaded */
    void        *scratch;                             /* [scratch_bytes] memory of what a step needs */
    size_t       scratch_bytes;
    gram__ways  *ways;                                /* [ways_bytes] NULL: not found yet */
    size_t       ways_bytes;
    uint32_t     meter;                               /* number of the meter that counts units of work, */
    uint64_t     metered, meter_most;                 /* what it has counted and may count, */
    bool         spent;                               /* and whether it has ended */
    bytes        text;                                /* of gram_match; p NULL: none */
    size_t       at;                                  /* bytes of it that are read */
    int64_t      bank;                                /* units of work that are left for the text */
    uint64_t     worked, work_from, work_most;        /* units of work of all steps; where a task began and where it ends */
    uint64_t     n_finds;                             /* looks at the table */
    bool         stops;                               /* an interrupt ends steps */
    int64_t      peak;                                /* units of the step that took most */
    uint64_t     n_steps;                             /* that were made; for -v */
    uint64_t     n_lookups;                           /* steps that were asked for */
    uint64_t     n_searches, n_units;                 /* searches for ways, and their units of work */
    uint64_t     n_collections;
};

/* --- building --- */

/* Remembers why building goes no further, the first reason alone: gram_seal() reports it, with EXIT_RESOURCE. */
__attribute__((format(printf, 2, 3))) static void gram_fail(gram *g, const char *fmt, ...) {
    va_list ap;
    if (g->err.code) return;
    g->err.code = EXIT_RESOURCE;
    va_start(ap, fmt);
    vsnprintf(g->err.text, sizeof g->err.text, fmt, ap);
    va_end(ap);
}

/* Whether a limit was reached: what is built from then on is dropped. */
static bool gram_failed(const gram *g) { return g->err.code != 0; }

/* Whether one more state, edge or operation may be made. */
static bool gram__may_grow(gram *g) {
    if ((int64_t)g->n_arc + g->n_state + g->n_act + (int64_t)(g->name_bytes / 16) >= GRAM_NODES)
        gram_fail(g, "more than %d states and edges", GRAM_NODES);
    if (g_interrupt) gram_fail(g, "interrupted");
    return !gram_failed(g);
}

/* A state without edges. It belongs to the rule from whose begin it is reached, and to no other one. 0 after a
 * failure. */
static int32_t gram_state(gram *g) {
    if (g->n_state && !gram__may_grow(g)) return 0;
    const size_t i = (size_t)g->n_state++;
    g->head = mem_reserve(g->head, i, UINT64_MAX, sizeof *g->head);
    g->mark = mem_reserve(g->mark, i, UINT64_MAX, sizeof *g->mark);
    g->head[i] = -1, g->mark[i] = 0;
    return (int32_t)i;
}

static char *gram__name(gram *g, const char *name) {
    char  *copy = NULL;
    size_t n = name ? min_size(strlen(name), 64) : 0;
    if (n) copy = memcpy(mem_new(n + 1, 1), name, n);
    g->name_bytes += sizeof(gram__rule) + n;
    return copy;
}

/* A rule with its begin and its end, not yet joined. name: of messages, its first 64 bytes; NULL: none. 0 after a
 * failure. */
static int32_t gram_rule(gram *g, const char *name) {
    if (g->n_rule && !gram__may_grow(g)) return 0;
    const int32_t begin = gram_state(g), end = gram_state(g);
    if (!gram_failed(g)) g->mark[end] |= GRAM__END;
    return MEM_PUSH(g->rule, g->n_rule, (gram__rule){.name = gram__name(g, name), .begin = begin, .end = end, .body = -1});
}

/* The state in which a rule begins; edges may lead into it too. */
static int32_t gram_begin(const gram *g, int32_t rule) { return g->rule[rule].begin; }
/* The state in which a rule ends; edges that leave it go on after the end. */
static int32_t gram_end(const gram *g, int32_t rule) { return g->rule[rule].end; }

/* An empty automaton: nothing is allocated for running before gram_seal(). */
static gram *gram_new(void) {
    gram *g = mem_new(1, sizeof *g);
    g->mem = GRAM_MEM, g->meter_most = g->work_most = UINT64_MAX;
    g->tracks.prev = g->tracks.next = &g->tracks;
    gram_state(g);                                    /* what a failed call returns: state 0, rule 0 */
    gram_rule(g, NULL);
    return g;
}

static void gram__arc_add(gram *g, int32_t from, gram__arc a) {
    if (!gram__may_grow(g)) return;
    a.next = g->head[from];
    g->head[from] = MEM_PUSH(g->arc, g->n_arc, a);
}

static int32_t gram__act_add(gram *g, gram_op op) {
    const bool     bits = op.kind == GRAM_TAKE || op.kind == GRAM_LACKS || op.kind == GRAM_HAS;
    const uint64_t last = op.kind == GRAM_HAS ? op.b : op.a;
    if (op.k >= GRAM_WORDS || (bits && last / 64 >= GRAM_WORDS - op.k))
        gram_fail(g, "more than %d registers of 64 bits in one rule", GRAM_WORDS);
    return gram__may_grow(g) ? MEM_PUSH(g->act, g->n_act, op) : 0;
}

/* An edge that consumes nothing. */
static void gram_eps(gram *g, int32_t from, int32_t to) {
    if (from != to) gram__arc_add(g, from, (gram__arc){.to = to, .kind = GRAM__EPS});
}

/* An edge for the bytes lo to hi, both included. */
static void gram_byte(gram *g, int32_t from, uint8_t lo, uint8_t hi, int32_t to) {
    gram__arc_add(g, from, (gram__arc){.to = to, .arg = -1, .kind = GRAM__BYTE, .lo = lo, .hi = hi});
}

/* The same, with an operation that sees the byte (GRAM_APPEND). */
static void gram_byte_op(gram *g, int32_t from, uint8_t lo, uint8_t hi, gram_op op, int32_t to) {
    gram__arc_add(g, from, (gram__arc){.to = to, .arg = gram__act_add(g, op), .kind = GRAM__BYTE, .lo = lo, .hi = hi});
}

/* A path for the bytes of a text; for an empty one an edge that consumes nothing. */
static void gram_text(gram *g, int32_t from, bytes text, int32_t to) {
    for (size_t i = 0; i < text.n && !gram_failed(g); i++) {
        const int32_t next = i + 1 < text.n ? gram_state(g) : to;
        gram_byte(g, from, text.p[i], text.p[i], next);
        from = next;
    }
    if (!text.n) gram_eps(g, from, to);
}

/* An edge that a text of another rule leads over. That rule has registers of its own, all 0. */
static void gram_call(gram *g, int32_t from, int32_t rule, int32_t to) {
    gram__arc_add(g, from, (gram__arc){.to = to, .arg = rule, .kind = GRAM__CALL});
}

/* An edge that consumes nothing and changes the registers of the activation, or is there while a guard of them
 * holds. */
static void gram_op_edge(gram *g, int32_t from, gram_op op, int32_t to) {
    gram__arc_add(g, from, (gram__arc){.to = to, .arg = gram__act_add(g, op), .kind = GRAM__OP});
}

/* An edge for the control token `id`, which has no bytes here; other: for each control token but this one. */
static void gram_token(gram *g, int32_t from, int32_t id, bool other, int32_t to) {
    gram__arc_add(g, from, (gram__arc){.to = to, .arg = id, .kind = other ? GRAM__OTHER : GRAM__TOKEN});
}

/* Control tokens may come by their text while the automaton is in this state: see gram_is_free(). */
static void gram_free_state(gram *g, int32_t state) { g->mark[state] |= GRAM__FREE; }

/* What GRAM_CHECK asks; ctx is passed on and stays the caller's. */
static void gram_checks(gram *g, gram_checker f, void *ctx) { g->checker = f, g->ctx = ctx; }

/* min to max texts of a rule in a row, without a state for each: a count is a register. max UINT64_MAX: no bound;
 * min above max: no edge. */
static void gram_repeat(gram *g, int32_t from, int32_t rule, uint64_t min, uint64_t max, int32_t to) {
    if (min > max) return;
    if (max == 0) gram_eps(g, from, to);
    else if (max == 1) {
        gram_call(g, from, rule, to);
        if (!min) gram_eps(g, from, to);
    } else {
        const int32_t loop = gram_rule(g, NULL);
        if (gram_failed(g)) return;
        g->rule[loop].body = rule, g->rule[loop].min = min, g->rule[loop].max = max;
        gram_call(g, from, loop, to);
    }
}

/* --- ranges of characters --- */

/* What is in both ranges; lo above hi: nothing. */
static gram_range gram_range_and(gram_range a, gram_range b) {
    return (gram_range){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

static int gram__by_lo(const void *a, const void *b) {
    const gram_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Sorts ranges and joins those that overlap or touch. Returns their number. */
static size_t gram_ranges_join(gram_range *r, size_t n) {
    size_t m = 0;
    if (n) qsort(r, n, sizeof *r, gram__by_lo);
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > r[i].hi) continue;
        if (m && r[i].lo <= r[m - 1].hi + (r[m - 1].hi < UINT32_MAX)) r[m - 1].hi = r[i].hi > r[m - 1].hi ? r[i].hi : r[m - 1].hi;
        else r[m++] = r[i];
    }
    return m;
}

/* Replaces joined ranges by the code points between them; there is room for one more. Returns their number. */
static size_t gram_ranges_negate(gram_range *r, size_t n) {
    uint32_t lo = 0;
    size_t   m = 0;
    r[n] = (gram_range){0x110000, 0x110000};
    for (size_t i = 0; i <= n; i++) {
        const gram_range x = r[i];
        if (x.lo > lo) r[m++] = (gram_range){lo, x.lo - 1};
        lo = x.hi + 1;
    }
    return m;
}

/* --- the arena --- */

static uint64_t gram__plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static gram__blob *gram__at(const gram *g, int32_t id) { return (gram__blob *)(g->arena + 8 * (size_t)id); }
static uint32_t    gram__n(const gram__blob *b) { return b->size & 0xfffffff; }
static int         gram__blob_is(const gram__blob *b) { return (int)(b->size >> 28); }
static size_t      gram__units(uint32_t words) { return 1 + (words + 1) / 2; }

/* A new blob of zeros at the end of the arena, which gram__close() makes part of it. Without room: blob 0, and the step stops. */
static gram__blob *gram__open(gram *g, gram__blob_kind kind, uint32_t words) {
    if (words > GRAM_MEM / 4 || g->top + gram__units(words) > g->cap) {
        g->stop = GRAM__FULL;
        return NULL;
    }
    gram__blob *b = gram__at(g, (int32_t)g->top);
    memset(b, 0, 8 * gram__units(words));
    b->size = (uint32_t)kind << 28 | words;
    return b;
}

static int32_t gram__close(gram *g, const gram__blob *b) {
    const int32_t id = (int32_t)g->top;
    g->top += gram__units(gram__n(b));
    return id;
}

/* A blob of zeros that nothing else is equal to; 0: no room. */
static int32_t gram__make(gram *g, gram__blob_kind kind, uint32_t words) {
    const gram__blob *b = gram__open(g, kind, words);
    return b ? gram__close(g, b) : 0;
}

static uint32_t gram__hash(const gram *g, const gram__blob *b, uint32_t skip) {
    return (uint32_t)bytes_hash(g->seed ^ b->size, (bytes){(const uint8_t *)(b->w + skip), 4 * (size_t)(gram__n(b) - skip)});
}

/* Words at the begin of a blob that change and do not count for equality. */
static uint32_t gram__skip(int kind) {
    static const uint8_t words[] = {
        [GRAM__STACK] = GRAM__STACK_FLAGS, [GRAM__SET] = GRAM__SET_FLAGS, [GRAM__MEMO] = 1, [GRAM__WAY] = 3,
    };
    return words[kind];
}

static bool gram__same(const gram__blob *a, const gram__blob *b, uint32_t skip) {
    return a->hash == b->hash && a->size == b->size && memcmp(a->w + skip, b->w + skip, 4 * (size_t)(gram__n(a) - skip)) == 0;
}

/* Where the blob is in the table, or would. */
static int32_t *gram__slot(gram *g, const gram__blob *b) {
    g->n_finds++;
    const uint32_t skip = gram__skip(gram__blob_is(b));
    size_t         i = b->hash & (g->table_cap - 1);
    while (g->table[i] && !gram__same(gram__at(g, g->table[i]), b, skip)) i = (i + 1) & (g->table_cap - 1);
    return &g->table[i];
}

static void gram__table_put(gram *g, int32_t id) {
    size_t i = gram__at(g, id)->hash & (g->table_cap - 1);
    while (g->table[i]) i = (i + 1) & (g->table_cap - 1);
    g->table[i] = id;
}

/* A table for `cap` ids, a power of two; the ids of the old one go into it. */
static bool gram__table_grow(gram *g, size_t cap) {
    int32_t     *old = g->table;
    const size_t n = g->table_cap;
    gram__blob  *b = gram__open(g, GRAM__CACHE, (uint32_t)cap);
    if (!b) return false;
    gram__close(g, b);
    g->table = (int32_t *)b->w, g->table_cap = cap;
    for (size_t i = 0; i < n; i++)
        if (old[i]) gram__table_put(g, old[i]);
    return true;
}

/* gram__open() for a blob that gram__intern() ends. */
static gram__blob *gram__draft(gram *g, gram__blob_kind kind, uint32_t words) {
    if (g->n_kept * 2 >= g->table_cap && !gram__table_grow(g, 2 * g->table_cap)) return NULL;
    return gram__open(g, kind, words);
}

/* The id of the blob that is equal to this draft, else its own. */
static int32_t gram__intern(gram *g, gram__blob *b) {
    b->hash = gram__hash(g, b, gram__skip(gram__blob_is(b)));
    int32_t *slot = gram__slot(g, b);
    if (*slot) return *slot;
    g->n_kept++;
    return *slot = gram__close(g, b);
}

/* Register k of the registers `data`. */
static uint64_t gram_word(const gram *g, int32_t data, uint32_t k) {
    const gram__blob *b = gram__at(g, data);
    return 2 * (uint64_t)k + 4 <= gram__n(b) ? b->w[2 * k + 2] | (uint64_t)b->w[2 * k + 3] << 32 : 0;
}

/* --- collection: what is marked moves towards the begin, in its order --- */

static void gram__mark(gram *g, uint32_t id) { g->marked[id >> 6] |= 1ull << (id & 63); }

/* Calls f for the ids in a blob. */
static void gram__refs(gram *g, gram__blob *b, void (*f)(gram *, uint32_t *)) {
    const uint32_t n = gram__n(b);
    const int      kind = gram__blob_is(b);
    switch (kind) {
    case GRAM__DATA:
    case GRAM__KEPT: f(g, &b->w[0]), f(g, &b->w[1]); break;
    case GRAM__TEXT: f(g, &b->w[0]); break;
    case GRAM__STACK:
    case GRAM__SET:
        for (uint32_t i = kind == GRAM__SET ? GRAM__SET_HEAD : GRAM__STACK_HEAD; i < n; i += GRAM__LINK)
            f(g, &b->w[i + 1]), f(g, &b->w[i + 2]);
        break;
    default: break;
    }
}

static void gram__ref_mark(gram *g, uint32_t *id) {
    if (*id) gram__mark(g, *id);
}

/* Where a marked blob moves to. */
static uint32_t gram__ref_moved(const gram *g, uint32_t id) {
    return id ? g->base[id >> 6] + (uint32_t)__builtin_popcountll(g->moved[id >> 6] & ((1ull << (id & 63)) - 1)) : 0;
}

static void gram__ref_move(gram *g, uint32_t *id) { *id = gram__ref_moved(g, *id); }

/* Marks everything that marked blobs refer to. Parts have smaller ids, so one pass from the end does it. */
static void gram__mark_parts(gram *g) {
    for (size_t i = g->top / 64 + 1; i-- > 0;)
        for (uint64_t left = g->marked[i]; left;) {
            const int bit = 63 - __builtin_clzll(left);
            gram__refs(g, gram__at(g, (int32_t)(i * 64 + (size_t)bit)), gram__ref_mark);
            left = g->marked[i] & ((1ull << bit) - 1);
        }
}

/* Calls f for the marked blobs in their order. */
static void gram__each_marked(gram *g, void (*f)(gram *, int32_t)) {
    for (size_t i = 0; i <= g->top / 64; i++)
        for (uint64_t left = g->marked[i]; left; left &= left - 1) f(g, (int32_t)(i * 64 + (size_t)__builtin_ctzll(left)));
}

static void gram__cover(gram *g, int32_t id) {
    const size_t n = gram__units(gram__n(gram__at(g, id)));
    for (size_t u = (size_t)id; u < (size_t)id + n; u++) g->moved[u >> 6] |= 1ull << (u & 63);
}

static void gram__move(gram *g, int32_t id) {
    gram__blob    *b = gram__at(g, id);
    const uint32_t to = gram__ref_moved(g, (uint32_t)id), skip = gram__skip(gram__blob_is(b));
    gram__refs(g, b, gram__ref_move);
    memset(b->w, 0, 4 * skip);
    b->hash = gram__hash(g, b, skip);
    memmove(gram__at(g, (int32_t)to), b, 8 * gram__units(gram__n(b)));
}

/* ids: the stack of the root, that of a local set, what follows; 0 is a blob without content */
enum { GRAM__EMPTY_STACK = 8, GRAM__BOTTOM = 12, GRAM__FIRST = 16 };

/* Table, empty stack, bottom: what is there when nothing else is. */
static void gram__arena_begin(gram *g) {
    static const struct { int32_t id; uint32_t flags; } stacks[] = {
        {GRAM__EMPTY_STACK, GRAM__COMPLETE}, {GRAM__BOTTOM, GRAM__ESCAPED},
    };
    memset(g->arena, 0, 8 * GRAM__FIRST);
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        gram__blob *b = gram__at(g, stacks[i].id);
        b->size = (uint32_t)GRAM__STACK << 28 | GRAM__STACK_HEAD;
        b->w[GRAM__STACK_FLAGS] = stacks[i].flags;
        b->hash = gram__hash(g, b, GRAM__STACK_FLAGS);
    }
    g->top = GRAM__FIRST;
}

/* Enters every blob into a new table. False: no room. */
static bool gram__table_new(gram *g) {
    const size_t end = g->top;
    size_t       cap = 256, n = 2;
    for (size_t id = GRAM__FIRST; id < end; id += gram__units(gram__n(gram__at(g, (int32_t)id)))) n++;
    while (cap < 4 * n) cap *= 2;
    g->table = NULL, g->table_cap = 0, g->n_kept = n;
    if (!gram__table_grow(g, cap)) return false;
    gram__table_put(g, GRAM__EMPTY_STACK), gram__table_put(g, GRAM__BOTTOM);
    for (size_t id = GRAM__FIRST; id < end; id += gram__units(gram__n(gram__at(g, (int32_t)id)))) gram__table_put(g, (int32_t)id);
    return true;
}

/* What is needed fills the arena: every set is lost, and the walks end with GRAM_LIMIT. */
static void gram__lose(gram *g, int32_t *keep) {
    for (gram_track *t = g->tracks.next; t != &g->tracks; t = t->next) t->set = GRAM_LIMIT;
    *keep = GRAM_LIMIT;
    gram__arena_begin(g);
    gram__table_new(g);
}

/* Collects; *keep, an id of any kind or 0, is kept too and rewritten. */
static void gram__collect_but(gram *g, int32_t *keep) {
    const size_t words = g->top / 64 + 1;
    memset(g->marked, 0, words * 8), memset(g->moved, 0, words * 8);
    for (const gram_track *t = g->tracks.next; t != &g->tracks; t = t->next)
        if (t->set > 0) gram__mark(g, (uint32_t)t->set);
    if (*keep > 0) gram__mark(g, (uint32_t)*keep);
    gram__mark_parts(g);
    g->marked[0] &= ~((1ull << GRAM__FIRST) - 1);     /* the first blobs stay where they are */
    g->moved[0] = (1ull << GRAM__FIRST) - 1;
    gram__each_marked(g, gram__cover);
    uint32_t to = 0;
    for (size_t i = 0; i < words; i++) g->base[i] = to, to += (uint32_t)__builtin_popcountll(g->moved[i]);
    gram__each_marked(g, gram__move);
    for (gram_track *t = g->tracks.next; t != &g->tracks; t = t->next)
        if (t->set > 0) t->set = (int32_t)gram__ref_moved(g, (uint32_t)t->set);
    if (*keep > 0) *keep = (int32_t)gram__ref_moved(g, (uint32_t)*keep);
    g->top = to, g->first = 0;
    g->generation++, g->n_collections++;
    memset(gram__at(g, GRAM__EMPTY_STACK)->w, 0, 4 * GRAM__STACK_FLAGS);
    memset(gram__at(g, GRAM__BOTTOM)->w, 0, 4 * GRAM__STACK_FLAGS);
    if (!gram__table_new(g)) gram__lose(g, keep);
}

/* Drops what no track needs, unless collections are held off. Ids change then. */
static void gram_collect(gram *g) {
    int32_t none = 0;
    if (!g->held) gram__collect_but(g, &none);
}

/* Holds collections off, or ends that, as often as it was begun: ids stay valid meanwhile, and steps without room
 * give GRAM_LIMIT. */
static void     gram_hold(gram *g, bool on) { g->held += on ? 1 : -1; }
/* Whether the last step failed for want of room in the arena. */
static bool     gram_full(const gram *g) { return g->stop == GRAM__FULL; }
/* A number that changes with each collection. */
static uint32_t gram_generation(const gram *g) { return g->generation; }
/* Bytes of the arena that are free. */
static size_t   gram_room(const gram *g) { return 8 * (g->cap - g->top); }

/* Zeroed memory in the arena up to the next collection; NULL: no room. */
static void *gram_cache(gram *g, size_t size) {
    if (size + 64 > gram_room(g)) return NULL;
    const int32_t id = gram__make(g, GRAM__CACHE, (uint32_t)((size + 3) / 4));
    return gram__at(g, id)->w;
}

/* Bytes of the parts of the scratch memory; the sum with p NULL. */
static size_t gram__scratch(gram *g, uint8_t *p) {
    struct { void *at; size_t bytes; } part[] = {
        {&g->work.item, GRAM_ITEMS * sizeof(gram__item)}, {&g->work.slot, 4 * GRAM_ITEMS * sizeof(int32_t)},
        {&g->after.item, GRAM_ITEMS * sizeof(gram__item)}, {&g->after.slot, 4 * GRAM_ITEMS * sizeof(int32_t)},
        {&g->heap, GRAM_ITEMS * sizeof(gram__leg)}, {&g->todo, 2 * GRAM_STEPS * sizeof(gram__pair)},
        {&g->pops, GRAM_STEPS * sizeof(int32_t)},
        {&g->words, sizeof *g->words}, {&g->marked, (g->mem / 512 + 2) * 8}, {&g->moved, (g->mem / 512 + 2) * 8},
        {&g->base, (g->mem / 512 + 2) * 4},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        void *q = p ? p + at : NULL;
        if (p) memcpy(part[i].at, &q, sizeof q);
        at += (part[i].bytes + 63) & ~(size_t)63;
    }
    return at;
}

/* Memory that the kernel gives at the first write; NULL: none. */
static void *gram__map(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, n, MADV_NOHUGEPAGE);                   /* most of it stays unused */
    return p;
}

static bool gram__reserve(gram *g, err_t *e) {
    g->scratch_bytes = gram__scratch(g, NULL);
    g->arena = gram__map(g->mem);
    g->scratch = gram__map(g->scratch_bytes);
    if (!g->arena || !g->scratch)
        return err_set(e, EXIT_RESOURCE, "out of memory: %zu bytes for a constraint", g->mem + g->scratch_bytes);
    gram__scratch(g, g->scratch);
    g->cap = g->mem / 8;
    g->seed = rng_secret();
    gram__arena_begin(g);
    gram__table_new(g);
    return true;
}

/* --- operations --- */

static void gram__load(gram *g, int32_t data) {
    gram__words *w = g->words;
    w->text = w->kept = w->n = 0;
    if (!data) return;
    const gram__blob *b = gram__at(g, data);
    w->text = b->w[0], w->kept = b->w[1], w->n = (gram__n(b) - 2) / 2;
    memcpy(w->w, b->w + 2, 8 * (size_t)w->n);
}

/* The id of the loaded registers. */
static int32_t gram__store(gram *g) {
    gram__words *w = g->words;
    while (w->n && !w->w[w->n - 1]) w->n--;
    if (!w->n && !w->text && !w->kept) return 0;
    gram__blob *b = gram__draft(g, GRAM__DATA, 2 + 2 * w->n);
    if (!b) return 0;
    g->fuel -= w->n / 16;
    b->w[0] = w->text, b->w[1] = w->kept;
    memcpy(b->w + 2, w->w, 8 * (size_t)w->n);
    return gram__intern(g, b);
}

/* The registers with other texts. */
static int32_t gram__with_texts(gram *g, int32_t data, uint32_t text, uint32_t kept) {
    gram__load(g, data);
    g->words->text = text, g->words->kept = kept;
    return gram__store(g);
}

static int32_t gram__with_word(gram *g, int32_t data, uint32_t k, uint64_t value) {
    gram__words *w = g->words;
    gram__load(g, data);
    for (; w->n <= k; w->n++) w->w[w->n] = 0;
    w->w[k] = value;
    return gram__store(g);
}

static int32_t gram__add(gram *g, int32_t data, const gram_op *op) {
    uint64_t       sum;
    const uint64_t old = gram_word(g, data, op->k);
    if (__builtin_add_overflow(old, op->a, &sum) || sum > op->b) sum = op->b;
    return sum == old ? data : gram__with_word(g, data, op->k, sum);
}

static bool gram__bit(const gram *g, int32_t data, uint32_t k, uint64_t i) {
    return gram_word(g, data, k + (uint32_t)(i / 64)) >> (i & 63) & 1;
}

static bool gram__bits(const gram *g, int32_t data, const gram_op *op) {
    for (uint64_t i = op->a, next; i <= op->b; i = next) {
        next = min_u64((i | 63), op->b) + 1;
        const uint64_t all = (next - i == 64 ? UINT64_MAX : (UINT64_C(1) << (next - i)) - 1) << (i & 63);
        if (~gram_word(g, data, op->k + (uint32_t)(i / 64)) & all) return false;
    }
    return true;
}

static int32_t gram__take_bit(gram *g, int32_t data, const gram_op *op) {
    const uint32_t k = op->k + (uint32_t)(op->a / 64);
    if (gram__bit(g, data, op->k, op->a)) return -1;
    return gram__with_word(g, data, k, gram_word(g, data, k) | 1ull << (op->a & 63));
}

static int32_t gram__chain(gram *g, gram__blob_kind kind, uint32_t before, uint32_t one) {
    gram__blob *b = gram__draft(g, kind, 2);
    if (!b) return 0;
    b->w[0] = before, b->w[1] = one;
    return gram__intern(g, b);
}

static int32_t gram__append(gram *g, int32_t data, uint8_t byte) {
    const gram__blob *b = gram__at(g, data);
    return gram__with_texts(g, data, (uint32_t)gram__chain(g, GRAM__TEXT, b->w[0], byte), b->w[1]);
}

static int32_t gram__distinct(gram *g, int32_t data) {
    const gram__blob *b = gram__at(g, data);
    for (uint32_t k = b->w[1]; k; k = gram__at(g, (int32_t)k)->w[0], g->fuel--)
        if (gram__at(g, (int32_t)k)->w[1] == b->w[0]) return -1;
    return gram__with_texts(g, data, 0, (uint32_t)gram__chain(g, GRAM__KEPT, b->w[1], b->w[0]));
}

/* A text begins with another one where that is among those before it, whose ids are smaller. */
static bool gram__spare(gram *g, int32_t data, const gram_op *op) {
    const gram__blob *b = gram__at(g, data);
    uint64_t          n = 0;
    for (uint32_t k = b->w[1]; k && n < op->a; k = gram__at(g, (int32_t)k)->w[0]) {
        uint32_t text = gram__at(g, (int32_t)k)->w[1];
        for (; text > b->w[0]; text = gram__at(g, (int32_t)text)->w[0]) g->fuel--;
        n += text == b->w[0];
    }
    return n < op->a;
}

static bool gram__check(gram *g, int32_t data, const gram_op *op) {
    const uint64_t from = gram_word(g, data, op->k);
    g->textual = true;
    if (!g->text.p || from > g->at) g->stop = GRAM__SPENT;
    return g->stop == GRAM__GO && (!g->checker || g->checker(g->ctx, op->a, (bytes){g->text.p + from, g->at - from}));
}

static int32_t gram__set_mark(gram *g, int32_t data, const gram_op *op) {
    g->textual = true;
    if (!g->text.p) g->stop = GRAM__SPENT;
    return gram__with_word(g, data, op->k, g->at);
}

/* The registers after an operation; -1: its guard does not hold. */
static int32_t gram__do(gram *g, const gram_op *op, int32_t data, uint8_t byte) {
    const uint64_t v = op->kind == GRAM_WITHIN ? gram_word(g, data, op->k) : 0;
    switch (op->kind) {
    case GRAM_NOP: return data;
    case GRAM_ADD: return gram__add(g, data, op);
    case GRAM_WITHIN: return op->a <= v && v <= op->b ? data : -1;
    case GRAM_TAKE: return gram__take_bit(g, data, op);
    case GRAM_LACKS: return gram__bit(g, data, op->k, op->a) ? -1 : data;
    case GRAM_HAS: return gram__bits(g, data, op) ? data : -1;
    case GRAM_APPEND: return gram__append(g, data, byte);
    case GRAM_DISTINCT: return gram__distinct(g, data);
    case GRAM_SPARE: return gram__spare(g, data, op) ? data : -1;
    case GRAM_MARK: return gram__set_mark(g, data, op);
    case GRAM_CHECK: return gram__check(g, data, op) ? data : -1;
    }
    return -1;
}

/* --- stacks --- */

static bool gram__spend(gram *g, int64_t n) {
    if ((g->fuel -= n) < 0 && g->stop == GRAM__GO) g->stop = GRAM__SPENT;
    return g->stop == GRAM__GO;
}

static int32_t gram__push(gram *g, int32_t state, int32_t data, int32_t stack) {
    gram__blob *b = gram__draft(g, GRAM__STACK, GRAM__STACK_HEAD + GRAM__LINK);
    if (!b) return 0;
    uint32_t *link = b->w + GRAM__STACK_HEAD;
    link[0] = (uint32_t)state, link[1] = g->state[state].flags & GRAM__LIVE ? (uint32_t)data : 0, link[2] = (uint32_t)stack;
    return gram__intern(g, b);
}

/* The union of two stacks if it is known; 0: it is not. */
static int32_t gram__known_union(gram *g, int32_t a, int32_t b) {
    uint32_t    space[5];
    gram__blob *m = (gram__blob *)space;
    if (a == b || !b) return a;
    if (!a) return b;
    m->size = (uint32_t)GRAM__MEMO << 28 | 3;
    m->w[0] = 0, m->w[1] = (uint32_t)min_int(a, b), m->w[2] = (uint32_t)max_int(a, b);
    m->hash = gram__hash(g, m, 1);
    const int32_t id = *gram__slot(g, m);
    return id ? (int32_t)gram__at(g, id)->w[0] : 0;
}

static void gram__note_union(gram *g, int32_t a, int32_t b, int32_t both) {
    gram__blob *m = gram__draft(g, GRAM__MEMO, 3);
    if (!m) return;
    m->w[1] = (uint32_t)min_int(a, b), m->w[2] = (uint32_t)max_int(a, b);
    gram__at(g, gram__intern(g, m))->w[0] = (uint32_t)both;
}

/* -1, 0, 1: order of two links or configurations by state and data. */
static int gram__order(const uint32_t *a, const uint32_t *b) {
    if (a[0] != b[0]) return a[0] < b[0] ? -1 : 1;
    return a[1] < b[1] ? -1 : a[1] > b[1];
}

/* Merges the links of two stacks into out (NULL: none). The number of links; pairs of parents whose union is not
 * known go to g->todo from *n on. */
static uint32_t gram__merge(gram *g, const gram__blob *a, const gram__blob *b, uint32_t *out, size_t *n) {
    const uint32_t na = gram__n(a), nb = gram__n(b);
    uint32_t       i = GRAM__STACK_HEAD, k = GRAM__STACK_HEAD, m = 0;
    for (; (i < na || k < nb) && gram__spend(g, 1); m++) {
        const int       order = i == na ? 1 : k == nb ? -1 : gram__order(a->w + i, b->w + k);
        const uint32_t *from = order > 0 ? b->w + k : a->w + i;
        uint32_t        stack = from[2];
        if (order == 0) {
            stack = (uint32_t)gram__known_union(g, (int32_t)a->w[i + 2], (int32_t)b->w[k + 2]);
            if (!stack && *n < 2 * GRAM_STEPS) g->todo[(*n)++] = (gram__pair){(int32_t)a->w[i + 2], (int32_t)b->w[k + 2]};
        }
        if (out) out[m * GRAM__LINK] = from[0], out[m * GRAM__LINK + 1] = from[1], out[m * GRAM__LINK + 2] = stack;
        if (order <= 0) i += GRAM__LINK;
        if (order >= 0) k += GRAM__LINK;
    }
    return m;
}

/* The union of two sets of stacks, merged as tries. todo: free entries of g->todo begin here. 0: the step stops. */
static int32_t gram__union(gram *g, int32_t x, int32_t y, size_t todo) {
    const size_t floor = todo;
    int32_t      both = gram__known_union(g, x, y);
    if (both) return both;
    g->todo[todo++] = (gram__pair){x, y};
    while (todo > floor && g->stop == GRAM__GO) {
        const gram__pair  p = g->todo[todo - 1];
        if ((both = gram__known_union(g, p.a, p.b))) {
            todo--;
            continue;
        }
        const gram__blob *a = gram__at(g, p.a), *b = gram__at(g, p.b);
        const size_t      before = todo;
        const uint32_t    links = gram__merge(g, a, b, NULL, &todo);
        if (todo > before || !gram__spend(g, 1)) continue;
        gram__blob *u = gram__draft(g, GRAM__STACK, GRAM__STACK_HEAD + GRAM__LINK * links);
        if (!u) return 0;
        u->w[GRAM__STACK_FLAGS] = a->w[GRAM__STACK_FLAGS] | b->w[GRAM__STACK_FLAGS];
        gram__merge(g, a, b, u->w + GRAM__STACK_HEAD, &todo);
        if (g->stop != GRAM__GO) return 0;            /* the merge is not whole */
        both = gram__intern(g, u);
        gram__note_union(g, p.a, p.b, both);
        todo--;
    }
    return g->stop == GRAM__GO ? both : 0;
}

/* --- configurations of one step --- */

static void gram__work_begin(gram__work *w) {
    for (int32_t i = 0; i < w->n; i++) w->slot[w->item[i].slot] = 0;
    w->n = 0, w->flags = 0, w->mask = 255;
}

/* The slot of an item, or the free one where it would go. */
static int32_t gram__item_slot(const gram__work *w, int32_t state, int32_t data) {
    uint32_t k = (uint32_t)rng_mix((uint64_t)(uint32_t)state << 32 | (uint32_t)data) & w->mask;
    for (; w->slot[k]; k = (k + 1) & w->mask) {
        const gram__item *it = &w->item[w->slot[k] - 1];
        if (it->state == state && it->data == data) break;
    }
    return (int32_t)k;
}

static void gram__work_grow(gram__work *w) {
    for (int32_t i = 0; i < w->n; i++) w->slot[w->item[i].slot] = 0;
    w->mask = 2 * w->mask + 1;
    for (int32_t i = 0; i < w->n; i++) {
        w->item[i].slot = gram__item_slot(w, w->item[i].state, w->item[i].data);
        w->slot[w->item[i].slot] = i + 1;
    }
}

/* A heap of *n entries; the one of the least cost leaves it first. */
static void gram__heap_put(gram__leg *heap, int32_t *n, gram__leg one) {
    int32_t i = (*n)++;
    for (; i && one.cost < heap[(i - 1) / 2].cost; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = one;
}

static gram__leg gram__heap_take(gram__leg *heap, int32_t *n) {
    const gram__leg first = heap[0], last = heap[--*n];
    int32_t         i = 0;
    for (int32_t k; (k = 2 * i + 1) < *n; i = k) {
        if (k + 1 < *n && heap[k + 1].cost < heap[k].cost) k++;
        if (heap[k].cost >= last.cost) break;
        heap[i] = heap[k];
    }
    heap[i] = last;
    return first;
}

/* The item of state and data, made if it is new; NULL: there are too many. */
static gram__item *gram__item_at(gram *g, gram__work *w, int32_t state, int32_t data) {
    int32_t k = gram__item_slot(w, state, data);
    if (w->slot[k]) return &w->item[w->slot[k] - 1];
    if (w->n >= GRAM_ITEMS) {
        g->stop = g->stop == GRAM__GO ? GRAM__SPENT : g->stop;
        return NULL;
    }
    if ((uint32_t)w->n * 2 > w->mask) gram__work_grow(w), k = gram__item_slot(w, state, data);
    w->item[w->n] = (gram__item){.state = state, .data = data, .slot = k};
    w->slot[k] = w->n + 1;
    return &w->item[w->n++];
}

/* Adds a configuration. False: nothing new, or the step stops. */
static bool gram__item_add(gram *g, gram__work *w, int32_t state, int32_t data, int32_t stack, size_t todo) {
    if (!gram__spend(g, 1)) return false;
    gram__item *it = gram__item_at(g, w, state, data);
    if (!it) return false;
    const int32_t both = gram__union(g, it->stack, stack, todo);
    if (both == it->stack || !both) return false;
    it->stack = both;
    if (w == &g->work && g->state[state].n_call && !it->queued) {
        it->queued = true;
        const uint64_t cost = (uint64_t)g->state[state].rank << 32 | (uint64_t)(it - w->item);
        gram__heap_put(g->heap, &g->n_heap, (gram__leg){.cost = cost});
    }
    return true;
}

/* Adds a configuration and those to which moves lead from it. Returns whether the end of the rule is among the new ones. */
static bool gram__spread(gram *g, gram__work *w, int32_t state, int32_t data, int32_t stack) {
    size_t n = 0;
    bool   ends = false;
    g->todo[n++] = (gram__pair){state, data};
    while (n && g->stop == GRAM__GO) {
        const gram__pair   p = g->todo[--n];
        const gram__state *s = &g->state[p.a];
        const gram__edge  *e = g->edge + s->edge + s->n_byte + s->n_token;
        const int32_t      d = s->flags & GRAM__LIVE ? p.b : 0;
        if (!gram__item_add(g, w, p.a, d, stack, n) || !gram__spend(g, s->n_move)) continue;
        if (s->flags & GRAM__FREE) w->flags |= GRAM__IS_FREE;
        ends = ends || (s->flags & GRAM__END);
        for (int32_t i = 0; i < s->n_move; i++) {
            const int32_t after = e[i].kind == GRAM__OP ? gram__do(g, &g->act[e[i].arg], d, 0) : d;
            if (after >= 0) g->todo[n++] = (gram__pair){e[i].to, after};
        }
    }
    return ends;
}

/* Puts what a list holds into the work. */
static void gram__add_list(gram *g, gram__work *w, int32_t list, size_t todo) {
    const gram__blob *b = gram__at(g, list);
    w->flags |= b->w[2] & ~(uint32_t)GRAM__TEXTUAL;
    if (b->w[2] & GRAM__TEXTUAL) g->textual = true;
    for (uint32_t i = GRAM__LIST_HEAD; i < gram__n(b) && g->stop == GRAM__GO; i += GRAM__LINK)
        gram__item_add(g, w, (int32_t)b->w[i], (int32_t)b->w[i + 1], (int32_t)b->w[i + 2], todo);
}

/* The list of what is after a stack, if it is known and holds here; else 0. */
static int32_t gram__known_list(const gram *g, int32_t stack) {
    const int32_t list = (int32_t)gram__at(g, stack)->w[0];
    if (!list) return 0;
    const gram__blob *b = gram__at(g, list);
    const uint64_t    tick = b->w[0] | (uint64_t)b->w[1] << 32;
    return b->w[2] & GRAM__TEXTUAL && tick != g->tick ? 0 : list;
}

static bool gram__matters(const gram__state *s) { return s->n_byte || s->n_token || s->n_call; }

/* Keeps what g->after holds as the list of the stack. */
static void gram__list_keep(gram *g, int32_t stack, bool textual) {
    uint32_t n = 0, at = GRAM__LIST_HEAD;
    for (int32_t i = 0; i < g->after.n; i++) n += gram__matters(&g->state[g->after.item[i].state]);
    gram__blob *b = gram__open(g, GRAM__LIST, GRAM__LIST_HEAD + GRAM__LINK * n);
    if (!b) return;
    b->w[0] = (uint32_t)g->tick, b->w[1] = (uint32_t)(g->tick >> 32);
    b->w[2] = g->after.flags | (textual ? GRAM__TEXTUAL : 0);
    for (int32_t i = 0; i < g->after.n; i++) {
        const gram__item *it = &g->after.item[i];
        if (!gram__matters(&g->state[it->state])) continue;
        b->w[at] = (uint32_t)it->state, b->w[at + 1] = (uint32_t)it->data, b->w[at + 2] = (uint32_t)it->stack;
        at += GRAM__LINK;
    }
    gram__at(g, stack)->w[0] = (uint32_t)gram__close(g, b);
}

/* One attempt to find out what is after a stack: its links with all moves from them. Where such a link ends too, what
 * is after the next stack belongs to it; stacks for which this is not known yet go to g->pops from *n on. False:
 * there are such. */
static bool gram__after_try(gram *g, int32_t stack, size_t *n) {
    const gram__blob *b = gram__at(g, stack);
    const size_t      before = *n;
    gram__work_begin(&g->after);
    g->after.flags = b->w[GRAM__STACK_FLAGS];
    for (uint32_t i = GRAM__STACK_HEAD; i < gram__n(b) && g->stop == GRAM__GO; i += GRAM__LINK) {
        const int32_t next = (int32_t)b->w[i + 2];
        if (!gram__spread(g, &g->after, (int32_t)b->w[i], (int32_t)b->w[i + 1], next)) continue;
        const int32_t list = gram__known_list(g, next);
        if (list) gram__add_list(g, &g->after, list, 0);
        else if (*n < GRAM_STEPS) g->pops[(*n)++] = next;
        else gram__spend(g, GRAM_STEPS);
    }
    return *n == before;
}

/* The list of what is after a stack, found bottom up. 0: the step stops. */
static int32_t gram__list_of(gram *g, int32_t stack) {
    size_t     n = 0;
    const bool textual = g->textual;
    bool       any = false;
    int32_t    list = gram__known_list(g, stack);
    if (list) return list;
    g->pops[n++] = stack;
    while (n && g->stop == GRAM__GO) {
        const int32_t top = g->pops[n - 1];
        g->textual = false;
        if (gram__known_list(g, top) || gram__after_try(g, top, &n)) {
            if (!gram__known_list(g, top) && g->stop == GRAM__GO) gram__list_keep(g, top, g->textual);
            n--;
        }
        any = any || g->textual;
    }
    g->textual = textual || any;
    return g->stop == GRAM__GO ? (int32_t)gram__at(g, stack)->w[0] : 0;
}

/* A configuration after a byte or token: with its moves, and with what is after its stack where it ends. */
static void gram__enter(gram *g, int32_t state, int32_t data, int32_t stack) {
    if (!gram__spread(g, &g->work, state, data, stack)) return;
    const int32_t list = gram__list_of(g, stack);
    if (list) gram__add_list(g, &g->work, list, 0);
}

/* Calls from the items, in the order of ranks, so that each is looked at once. A called rule consumes something: it
 * does not end here. */
static void gram__calls(gram *g) {
    while (g->n_heap && g->stop == GRAM__GO) {
        gram__item        *it = &g->work.item[(uint32_t)gram__heap_take(g->heap, &g->n_heap).cost];
        const gram__state *s = &g->state[it->state];
        const gram__edge  *e = g->edge + s->edge + s->n_byte + s->n_token + s->n_move;
        const int32_t      data = it->data, stack = it->stack;
        it->queued = false;
        for (int32_t i = 0; i < s->n_call && g->stop == GRAM__GO; i++) {
            const int32_t below = e[i].kind == GRAM__TAIL ? stack : gram__push(g, e[i].to, data, stack);
            if (below) gram__spread(g, &g->work, e[i].arg, 0, below);
        }
    }
}

/* Sorts configurations by state and data (Shell's sort: qsort may allocate). */
static void gram__sort(gram_config *c, size_t n) {
    size_t gap = 1;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            const gram_config x = c[i];
            size_t            k = i;
            for (; k >= gap && (c[k - gap].state > x.state ||
                                (c[k - gap].state == x.state && c[k - gap].data > x.data)); k -= gap)
                c[k] = c[k - gap];
            c[k] = x;
        }
}

static bool gram__stays(const gram__state *s) { return s->n_byte || s->n_token; }

/* The set that holds the items, once all calls are worked off. */
static int32_t gram__work_end(gram *g) {
    uint32_t n = 0, at = GRAM__SET_HEAD;
    gram__calls(g);
    if (g->stop != GRAM__GO) return 0;
    for (int32_t i = 0; i < g->work.n; i++) n += gram__stays(&g->state[g->work.item[i].state]);
    if (!n && !(g->work.flags & (GRAM__COMPLETE | GRAM__ESCAPED))) return GRAM_DEAD;
    gram__blob *b = gram__draft(g, GRAM__SET, GRAM__SET_HEAD + GRAM__LINK * n);
    if (!b) return 0;
    b->w[GRAM__SET_FLAGS] = g->work.flags;
    for (int32_t i = 0; i < g->work.n; i++) {
        const gram__item *it = &g->work.item[i];
        if (!gram__stays(&g->state[it->state])) continue;
        memcpy(b->w + at, &(gram_config){it->state, it->data, it->stack}, sizeof(gram_config));
        at += GRAM__LINK;
    }
    gram__sort((gram_config *)(b->w + GRAM__SET_HEAD), n);
    return gram__intern(g, b);
}

/* --- steps. Each of these tries once; 0: the arena is full, or too much work. --- */

/* The *n configurations of a set, sorted by state and data; valid up to the next collection. */
static const gram_config *gram_configs(const gram *g, int32_t set, size_t *n) {
    const gram__blob *b = gram__at(g, max_int(set, 0));
    *n = set > 0 ? (gram__n(b) - GRAM__SET_HEAD) / GRAM__LINK : 0;
    return (const gram_config *)(b->w + GRAM__SET_HEAD);
}

static uint32_t gram__flags(const gram *g, int32_t set) { return set > 0 ? gram__at(g, set)->w[GRAM__SET_FLAGS] : 0; }
/* Whether the text that leads to the set is whole. */
static bool     gram_complete(const gram *g, int32_t set) { return gram__flags(g, set) & GRAM__COMPLETE; }
/* Whether the rule in which a local set began can be over here: what follows is decided by the stack below. */
static bool     gram_escaped(const gram *g, int32_t set) { return gram__flags(g, set) & GRAM__ESCAPED; }
/* Whether a state of the set was marked by gram_free_state(). */
static bool     gram_is_free(const gram *g, int32_t set) { return gram__flags(g, set) & GRAM__IS_FREE; }

/* Whether the text is whole and no byte and no token may follow. */
static bool gram_closed(gram *g, int32_t set) {
    size_t n;
    gram_configs(g, set, &n);
    return gram_complete(g, set) && !n;
}

/* Whether edges for control tokens leave the set. */
static bool gram_has_tokens(const gram *g, int32_t set) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    for (size_t i = 0; i < n; i++)
        if (g->state[c[i].state].n_token) return true;
    return false;
}

static void gram__step_begin(gram *g) {
    gram__work_begin(&g->work);
    g->n_heap = 0, g->textual = false;
    g->n_steps++;
}

/* The set after a byte of this class; 0: not known. */
static int32_t gram__known_step(const gram *g, int32_t set, int class) {
    const gram__blob *b = gram__at(g, set);
    if (b->w[0]) return (int32_t)gram__at(g, (int32_t)b->w[0])->w[class];
    return b->w[1] == (uint32_t)class + 1 ? (int32_t)b->w[2] : 0;
}

/* Remembers a step: the first one of a set in the set, more in a row of classes. */
static void gram__note_step(gram *g, int32_t set, int class, int32_t to) {
    gram__blob *b = gram__at(g, set);
    if (!b->w[0] && b->w[1]) {
        gram__blob *row = gram__open(g, GRAM__CACHE, (uint32_t)g->n_class);
        if (!row) {
            g->stop = GRAM__GO;
            return;
        }
        b->w[0] = (uint32_t)gram__close(g, row);
        row->w[b->w[1] - 1] = b->w[2];
    }
    if (b->w[0]) gram__at(g, (int32_t)b->w[0])->w[class] = (uint32_t)to;
    else b->w[1] = (uint32_t)class + 1, b->w[2] = (uint32_t)to;
}

static int32_t gram__try_step(gram *g, int32_t set, int32_t byte) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    gram__step_begin(g);
    for (size_t i = 0; i < n && g->stop == GRAM__GO; i++) {
        const gram__state *s = &g->state[c[i].state];
        const gram__edge  *e = g->edge + s->edge;
        gram__spend(g, s->n_byte);
        for (int32_t k = 0; k < s->n_byte; k++) {
            if (byte < e[k].lo || byte > e[k].hi) continue;
            const int32_t data = e[k].arg < 0 ? c[i].data : gram__do(g, &g->act[e[k].arg], c[i].data, (uint8_t)byte);
            if (data >= 0) gram__enter(g, e[k].to, data, c[i].stack);
        }
    }
    const int32_t to = gram__work_end(g);
    if (to && !g->textual) gram__note_step(g, set, g->class_of[byte], to);
    return to;
}

static int32_t gram__try_token(gram *g, int32_t set, int32_t id) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    gram__step_begin(g);
    for (size_t i = 0; i < n && g->stop == GRAM__GO; i++) {
        const gram__state *s = &g->state[c[i].state];
        const gram__edge  *e = g->edge + s->edge + s->n_byte;
        for (int32_t k = 0; k < s->n_token; k++)
            if ((e[k].arg == id) == (e[k].kind == GRAM__TOKEN)) gram__enter(g, e[k].to, c[i].data, c[i].stack);
    }
    return gram__work_end(g);
}

static int32_t gram__try_first(gram *g, int32_t none, int32_t nothing) {
    (void)none, (void)nothing;
    gram__step_begin(g);
    if (g->empty) g->work.flags |= GRAM__COMPLETE;
    if (g->root >= 0) gram__enter(g, g->root, 0, GRAM__EMPTY_STACK);
    return g->first = gram__work_end(g);
}

static int32_t gram__try_local(gram *g, int32_t data, int32_t state) {
    gram__step_begin(g);
    gram__item_add(g, &g->work, state, g->state[state].flags & GRAM__LIVE ? data : 0, GRAM__BOTTOM, 0);
    g->n_heap = 0;                                    /* its calls are other configurations */
    return gram__work_end(g);
}

static int32_t gram__try_after(gram *g, int32_t stack, int32_t nothing) {
    (void)nothing;
    gram__step_begin(g);
    const int32_t list = gram__list_of(g, stack);
    if (list) gram__add_list(g, &g->work, list, 0);
    const int32_t set = gram__work_end(g);
    if (set && !g->textual) gram__at(g, stack)->w[1] = (uint32_t)set;
    return set;
}

static int32_t gram__try_join(gram *g, int32_t a, int32_t b) {
    const int32_t set[2] = {a, b};
    gram__step_begin(g);
    for (int i = 0; i < 2; i++) {
        size_t             n;
        const gram_config *c = gram_configs(g, set[i], &n);
        g->work.flags |= gram__flags(g, set[i]);
        for (size_t k = 0; k < n; k++) gram__item_add(g, &g->work, c[k].state, c[k].data, c[k].stack, 0);
    }
    g->n_heap = 0;
    return gram__work_end(g);
}

/* The registers without the text that is appended to and without those that are kept. */
static int32_t gram__try_bare(gram *g, int32_t data, int32_t nothing) {
    (void)nothing;
    const int32_t bare = gram__with_texts(g, data, 0, 0);
    return bare ? bare : g->stop == GRAM__GO ? -1 : 0;
}

/* Runs f(g, id, arg); once more after a collection if the arena is full, which keeps id. */
static int32_t gram__run(gram *g, int32_t (*f)(gram *, int32_t, int32_t), int32_t id, int32_t arg) {
    if (LLMRUN_STRESS && !g->held && g->tick % 16 == 0 && g->top < 1 << 14) gram__collect_but(g, &id);
    for (int turn = 0;; turn++) {
        const uint64_t finds = g->n_finds;
        const int64_t  left = (int64_t)min_u64(GRAM_STEPS, g->work_most - min_u64(g->worked, g->work_most));
        const int64_t  fuel = g->text.p ? min_i64(g->bank, GRAM_STEPS) : left;
        if (g->stops && (g_interrupt || fuel <= 0)) return GRAM_LIMIT;
        g->stop = GRAM__GO, g->fuel = fuel, g->tick++;
        const int32_t set = f(g, id, arg);
        g->bank -= fuel - g->fuel;
        g->worked += (uint64_t)min_i64(fuel - g->fuel, fuel) + GRAM_FIND_WORK * (g->n_finds - finds);
        g->peak = max_i64(g->peak, fuel - g->fuel);
        if (set && g->stop == GRAM__GO) return set;
        if (g->stop != GRAM__FULL || g->held || turn) return GRAM_LIMIT;
        gram__collect_but(g, &id);
        if (id < 0) return GRAM_LIMIT;
    }
}

/* From here on steps give GRAM_LIMIT after so many units of work, and after an interrupt. */
static void gram_task_begin(gram *g, uint64_t units) {
    g->stops = true;
    g->work_from = g->worked, g->work_most = gram__plus(g->worked, units);
}

/* Ends that. Returns how many units were used: fewer where steps were known before. */
static uint64_t gram_task_end(gram *g) {
    g->stops = false, g->work_most = UINT64_MAX;
    return g->worked - g->work_from;
}

/* Bytes in use, about. */
static size_t gram_bytes(const gram *g) {
    return 8 * g->top + min_size(g->scratch_bytes, 64 * (size_t)g->peak) + (size_t)g->n_states * sizeof *g->state +
           (size_t)g->n_edges * sizeof *g->edge;
}

static int32_t gram__first(gram *g) { return g->first ? g->first : gram__run(g, gram__try_first, 0, 0); }

__attribute__((noinline)) static int32_t gram__slow_step(gram *g, int32_t set, uint8_t b) {
    return gram__run(g, gram__try_step, set, b);
}

/* The set after a byte; GRAM_DEAD: the text is none of the constraint; GRAM_LIMIT: too much work, or no room. set
 * may be one of these. */
static inline int32_t gram_step(gram *g, int32_t set, uint8_t b) {
    if (set <= 0) return set;
    const int32_t to = gram__known_step(g, set, g->class_of[b]);
    g->n_lookups++;
    return to ? to : gram__slow_step(g, set, b);
}

/* The set after a control token that comes by its name; results as gram_step(). */
static int32_t gram_step_token(gram *g, int32_t set, int32_t id) {
    return set <= 0 ? set : gram__run(g, gram__try_token, set, id);
}
/* The set of one configuration on an unknown stack: where its rule can end, the set is `escaped`. GRAM_LIMIT. */
static int32_t gram_local(gram *g, int32_t state, int32_t data) { return gram__run(g, gram__try_local, data, state); }

/* The set of what is in either set. Never collects. */
static int32_t gram_join(gram *g, int32_t a, int32_t b) {
    if (a == b || b == GRAM_DEAD) return a;
    if (a == GRAM_DEAD) return b;
    gram_hold(g, true);
    const int32_t both = a == GRAM_LIMIT || b == GRAM_LIMIT ? GRAM_LIMIT : gram__run(g, gram__try_join, a, b);
    gram_hold(g, false);
    return both;
}

/* The registers without texts; GRAM_LIMIT. */
static int32_t gram_bare(gram *g, int32_t data) {
    const gram__blob *b = gram__at(g, data);
    const int32_t     bare = b->w[0] || b->w[1] ? gram__run(g, gram__try_bare, data, 0) : data;
    return bare == -1 ? 0 : bare;
}

/* The set of what may come after a stack, when the rule on top of it is over. GRAM_LIMIT. */
static int32_t gram_after(gram *g, int32_t stack) {
    const int32_t set = (int32_t)gram__at(g, stack)->w[1];
    return set ? set : gram__run(g, gram__try_after, stack, 0);
}

static void gram__track(gram_track *t, gram *g, int32_t set) {
    *t = (gram_track){.g = g, .set = set, .prev = &g->tracks, .next = g->tracks.next};
    t->next->prev = t->prev->next = t;
}

/* Begins a track with the set of the empty text, which may be GRAM_DEAD or GRAM_LIMIT. */
static void gram_track_open(gram_track *t, gram *g) { gram__track(t, g, gram__first(g)); }

/* The track goes to where another one of the same automaton is. */
static void gram_track_copy(gram_track *t, const gram_track *from) { t->set = from->set; }

/* Ends a track; one that is closed already stays so. */
static void gram_track_close(gram_track *t) {
    if (!t->g) return;
    t->prev->next = t->next, t->next->prev = t->prev;
    *t = (gram_track){.set = GRAM_DEAD};
}

/* A whole match. The step counter gives up where the sets of the text are too large. */
static bool gram_match(gram *g, bytes text, size_t *at, err_t *e) {
    static const uint8_t none;
    int32_t              set;
    g->text = text.p ? text : (bytes){&none, 0};
    *at = g->at = 0, g->bank = 4 * (int64_t)GRAM_STEPS;
    set = gram__run(g, gram__try_first, 0, 0);
    for (; set > 0 && *at < text.n; *at += set > 0) {
        g->at = *at + 1, g->bank += GRAM_BYTE_STEPS;
        set = gram_step(g, set, text.p[*at]);
    }
    g->text = (bytes){0}, g->first = 0;
    if (set == GRAM_LIMIT)
        return err_set(e, EXIT_RESOURCE,
                       "byte %zu of the text: the constraint is too ambiguous there to be followed in %d steps and %zu "
                       "bytes of memory", *at, GRAM_STEPS, g->mem);
    return gram_complete(g, set);
}

/* --- sealing --- */

/* a state that a rule reaches before it consumes anything */
typedef struct { int32_t rule, state, data, copy; } gram__spot;
/* goes on from `spot` at `to` when a rule proves nullable; spot -1: the loop `to` is nullable too */
typedef struct { int32_t spot, to, next; } gram__wait;
typedef struct gram__body gram__body;
typedef struct { int32_t state, twin, span; } gram__twin;                   /* span: -1: none */
typedef struct {
    gram       *g;
    int32_t    *owner;                                /* [n_state at the begin] rule of each state, -1: none */
    gram__spot *spot;
    int32_t     n_spot;
    hmap        spots;                                /* (rule's state, data) to spot + 1 */
    gram__wait *wait;
    int32_t    *waits;                                /* [n_rule] first wait, -1: none */
    int32_t     n_wait;
    int32_t    *ready, n_ready;                       /* [n_rule] nullable rules, in the order of their proofs */
    gram__body *body;                                 /* of body_rule */
    int32_t     body_rule;
    bool        body_good;
    gram__twin *twin;
    int32_t     n_twin;
    bool        appends;                              /* some edge appends its byte to a text */
    gram__pair *left;                                 /* (rule, rule that it can begin with) */
    int32_t     n_left;
    /* [n_state] */
    int32_t    *list;                                 /* work list */
    int32_t    *watch;                                /* first arc that leads to the state, or needs the rule that
                                                       * begins with it: 2 * arc + 0 or 1; -1: none */
    int32_t    *alias;                                /* the state that stands for it */
    int32_t    *rank, *id;                            /* id: when sealed; -1: dropped */
    bool       *good, *live;                          /* can reach the end of its rule; registers matter from here on */
    /* [n_arc] */
    int32_t    *next, *from;                          /* next: [2 * n_arc] of `watch` */
} gram__seal;

static void *gram__ints(int32_t n, int value) {
    return memset(mem_new((size_t)n + 1, sizeof(int32_t)), value, ((size_t)n + 1) * sizeof(int32_t));
}

/* Space for what is worked out for all states and edges. */
static void gram__seal_graph(gram__seal *s) {
    const int32_t n = s->g->n_state;
    s->list = mem_grow(s->list, (size_t)n + 1, sizeof *s->list);
    s->watch = gram__ints(n, 0xff), s->alias = gram__ints(n, 0xff), s->id = gram__ints(n, 0xff), s->rank = gram__ints(n, 0);
    s->good = mem_new((size_t)n, sizeof *s->good), s->live = mem_new((size_t)n, sizeof *s->live);
    s->next = gram__ints(2 * s->g->n_arc, 0), s->from = gram__ints(s->g->n_arc, 0);
}

static void gram__drop_graph(gram__seal *s) {
    mem_free(s->watch), mem_free(s->alias), mem_free(s->id), mem_free(s->rank), mem_free(s->good), mem_free(s->live),
        mem_free(s->next), mem_free(s->from);
    s->watch = s->alias = s->id = s->rank = s->next = s->from = NULL, s->good = s->live = NULL;
}

static void gram__watch(gram__seal *s, int32_t state, int32_t arc, int32_t second) {
    s->next[2 * arc + second] = s->watch[state];
    s->watch[state] = 2 * arc + second;
}

static void gram__take_state(gram__seal *s, int32_t state, int32_t rule, int32_t *n) {
    ASSERT(s->owner[state] < 0 || s->owner[state] == rule);                /* a state belongs to one rule */
    if (s->owner[state] >= 0) return;
    s->owner[state] = rule;
    s->list[(*n)++] = state;
}

/* Finds the states of a rule, and the rules that it names. */
static void gram__survey_rule(gram__seal *s, int32_t rule, int32_t *rules, int32_t *n_rules) {
    gram   *g = s->g;
    int32_t n = 0;
    gram__take_state(s, g->rule[rule].begin, rule, &n);
    gram__take_state(s, g->rule[rule].end, rule, &n);
    const int32_t body = g->rule[rule].body;
    if (body >= 0 && !g->rule[body].used) g->rule[body].used = true, rules[(*n_rules)++] = body;
    while (n) {
        const int32_t from = s->list[--n];
        for (int32_t a = g->head[from]; a >= 0; a = g->arc[a].next) {
            const gram__arc *c = &g->arc[a];
            const int32_t    named = c->kind == GRAM__CALL ? c->arg : -1;
            gram__take_state(s, c->to, rule, &n);
            s->appends = s->appends || (c->kind == GRAM__BYTE && c->arg >= 0 && g->act[c->arg].kind == GRAM_APPEND);
            if (named >= 0 && !g->rule[named].used) g->rule[named].used = true, rules[(*n_rules)++] = named;
        }
    }
}

/* Marks the rules that the root needs. */
static void gram__survey(gram__seal *s, int32_t root) {
    gram    *g = s->g;
    int32_t *rules = mem_new((size_t)g->n_rule, sizeof *rules), n = 0;
    g->rule[root].used = true, rules[n++] = root;
    while (n) gram__survey_rule(s, rules[--n], rules, &n);
    mem_free(rules);
}

/* --- which rules are nullable, and with which rules a rule can begin --- */

static int32_t gram__spot_at(gram__seal *s, int32_t state, int32_t data) {
    const hmap_entry *en = hmap_find(&s->spots, ((uint64_t)state + 1) << 32 | (uint32_t)data, 0);
    return en->a ? (int32_t)en->b : -1;
}

static void gram__spot_add(gram__seal *s, int32_t rule, int32_t state, int32_t data) {
    if (gram__spot_at(s, state, data) >= 0) return;
    if (s->n_spot >= GRAM_NODES) gram_fail(s->g, "more than %d states before the first byte of a rule", GRAM_NODES);
    if (gram_failed(s->g)) return;
    hmap_add(&s->spots, ((uint64_t)state + 1) << 32 | (uint32_t)data, 0)->b = (uint64_t)s->n_spot;
    MEM_PUSH(s->spot, s->n_spot, (gram__spot){rule, state, data, -1});
}

static void gram__set_nullable(gram__seal *s, int32_t rule) {
    if (s->g->rule[rule].nullable) return;
    s->g->rule[rule].nullable = true;
    s->ready[s->n_ready++] = rule;
}

/* What waits for the rule goes on. */
static void gram__wake(gram__seal *s, int32_t rule) {
    for (int32_t w = s->waits[rule]; w >= 0; w = s->wait[w].next) {
        const gram__wait one = s->wait[w];
        if (one.spot < 0) gram__set_nullable(s, one.to);
        else gram__spot_add(s, s->spot[one.spot].rule, one.to, s->spot[one.spot].data);
    }
}

static void gram__wait_for(gram__seal *s, int32_t rule, gram__wait one) {
    if (gram_failed(s->g)) return;
    one.next = s->waits[rule];
    s->waits[rule] = MEM_PUSH(s->wait, s->n_wait, one);
}

/* The registers after an operation at the begin of a rule; -1: its guard does not hold. */
static int32_t gram__do_early(gram *g, int32_t act, int32_t data) {
    static const uint8_t none;
    g->text = (bytes){&none, 0}, g->at = 0;           /* nothing is consumed: a checked text is empty */
    g->stop = GRAM__GO, g->fuel = GRAM_STEPS;
    const int32_t after = gram__do(g, &g->act[act], data, 0);
    g->text = (bytes){0};
    if (g->stop != GRAM__GO) gram_fail(g, "more than %zu bytes of registers before the first byte of a rule", g->mem);
    return after;
}

static void gram__visit(gram__seal *s, int32_t i) {
    gram            *g = s->g;
    const gram__spot p = s->spot[i];
    if (p.state == g->rule[p.rule].end) gram__set_nullable(s, p.rule);
    for (int32_t a = g->head[p.state]; a >= 0 && !gram_failed(g); a = g->arc[a].next) {
        const gram__arc c = g->arc[a];
        int32_t         data = -1;
        if (c.kind == GRAM__EPS) data = p.data;
        if (c.kind == GRAM__OP) data = gram__do_early(g, c.arg, p.data);
        if (c.kind == GRAM__CALL) {
            MEM_PUSH(s->left, s->n_left, (gram__pair){p.rule, c.arg});
            if (g->rule[c.arg].nullable) data = p.data;
            else gram__wait_for(s, c.arg, (gram__wait){.spot = i, .to = c.to});
        }
        if (data >= 0) gram__spot_add(s, p.rule, c.to, data);
    }
}

/* A loop can begin with its body; it is nullable if it need not run, or if its body is nullable. */
static void gram__visit_loop(gram__seal *s, int32_t rule) {
    const gram__rule *r = &s->g->rule[rule];
    MEM_PUSH(s->left, s->n_left, (gram__pair){rule, r->body});
    gram__wait_for(s, r->body, (gram__wait){.spot = -1, .to = rule});
    if (r->min == 0) gram__set_nullable(s, rule);
}

static void gram__explore(gram__seal *s) {
    gram *g = s->g;
    hmap_init(&s->spots, 0);
    for (int32_t r = 0; r < g->n_rule; r++) {
        s->waits[r] = -1;
        if (g->rule[r].used && g->rule[r].body < 0) gram__spot_add(s, r, g->rule[r].begin, 0);
    }
    for (int32_t r = 0; r < g->n_rule; r++)
        if (g->rule[r].used && g->rule[r].body >= 0) gram__visit_loop(s, r);
    for (int32_t i = 0, woken = 0; (i < s->n_spot || woken < s->n_ready) && !gram_failed(g);) {
        if (woken < s->n_ready) gram__wake(s, s->ready[woken++]);
        else gram__visit(s, i++);
        if (g_interrupt) gram_fail(g, "interrupted");
    }
}

/* --- left recursion --- */

typedef struct {
    int32_t *first, *to;                              /* [n_rule + 1], [n_left] rules that a rule can begin with */
    int32_t *edge, *path, n_path, rank;
    uint8_t *seen;                                    /* [n_rule] 1: on the path, 2: left */
} gram__left;

static void gram__left_rows(gram__seal *s, gram__left *l) {
    const int32_t n = s->g->n_rule;
    l->first = mem_new((size_t)n + 2, sizeof *l->first), l->to = mem_new((size_t)s->n_left + 1, sizeof *l->to);
    l->edge = mem_new((size_t)n, sizeof *l->edge), l->path = mem_new((size_t)n, sizeof *l->path);
    l->seen = mem_new((size_t)n, 1), l->rank = n;
    for (int32_t i = 0; i < s->n_left; i++) l->first[s->left[i].a + 1]++;
    for (int32_t i = 0; i < n; i++) l->first[i + 1] += l->first[i], l->edge[i] = l->first[i];
    for (int32_t i = 0; i < s->n_left; i++) l->to[l->edge[s->left[i].a]++] = s->left[i].b;
}

static void gram__left_enter(gram__left *l, int32_t rule) {
    l->seen[rule] = 1, l->edge[rule] = l->first[rule];
    l->path[l->n_path++] = rule;
}

/* "a -> b -> a" for the rules of the path from `rule` on; rules without a name are left out. */
static void gram__cycle(const gram *g, const gram__left *l, int32_t rule, str *out) {
    const char *first = NULL;
    int32_t     i = l->n_path - 1, named = 0;
    while (l->path[i] != rule) i--;
    for (; i < l->n_path; i++) {
        const char *name = g->rule[l->path[i]].name;
        if (!name) continue;
        if (!first) first = name;
        if (named++ < 6) str_fmt(out, "%s -> ", name);
    }
    str_fmt(out, "%s%s", named > 6 ? "... -> " : "", first ? first : "a group that begins with itself");
}

/* A depth-first walk over what rules begin with, callers first in rank; a rule of the path met again is left recursion. */
static bool gram__left_walk(gram *g, gram__left *l, int32_t root, str *cycle) {
    gram__left_enter(l, root);
    while (l->n_path) {
        const int32_t r = l->path[l->n_path - 1];
        if (l->edge[r] == l->first[r + 1]) {
            l->n_path--;
            l->seen[r] = 2, g->rule[r].rank = l->rank--;
            continue;
        }
        const int32_t to = l->to[l->edge[r]++];
        if (l->seen[to] == 1) return gram__cycle(g, l, to, cycle), false;
        if (!l->seen[to]) gram__left_enter(l, to);
    }
    return true;
}

static bool gram__no_left_recursion(gram__seal *s, err_t *e) {
    gram      *g = s->g;
    gram__left l = {0};
    str        cycle = {0};
    bool       ok = true;
    gram__left_rows(s, &l);
    for (int32_t r = 0; r < g->n_rule && ok; r++)
        if (g->rule[r].used && !l.seen[r]) ok = gram__left_walk(g, &l, r, &cycle);
    if (!ok) err_set(e, EXIT_INPUT, "left recursion: %s", cycle.p);
    mem_free(l.first), mem_free(l.to), mem_free(l.edge), mem_free(l.path), mem_free(l.seen);
    str_drop(&cycle);
    return ok;
}

/* --- each called rule consumes something --- */

/* A copy of what a nullable rule does before it consumes anything. It has no end: an end there would be an empty call. */
static void gram__copy_spot(gram__seal *s, const gram__spot *p) {
    gram *g = s->g;
    for (int32_t a = g->head[p->state]; a >= 0 && !gram_failed(g); a = g->arc[a].next) {
        gram__arc     c = g->arc[a];
        const bool    moves = c.kind == GRAM__EPS || c.kind == GRAM__OP, skips = c.kind == GRAM__CALL && g->rule[c.arg].nullable;
        const int32_t data = c.kind == GRAM__OP ? gram__do_early(g, c.arg, p->data) : p->data;
        const int32_t to = (moves || skips) && data >= 0 ? gram__spot_at(s, c.to, data) : -1;
        if (to >= 0 && skips) gram_eps(g, p->copy, s->spot[to].copy);
        if (moves && to < 0) continue;
        if (moves) c.to = s->spot[to].copy;
        gram__arc_add(g, p->copy, c);
    }
}

static void gram__split_nullable(gram__seal *s) {
    gram *g = s->g;
    for (int32_t i = 0; i < s->n_spot; i++) {
        gram__spot *p = &s->spot[i];
        if (!g->rule[p->rule].nullable) continue;
        p->copy = gram_state(g);
        g->mark[p->copy] = g->mark[p->state] & GRAM__FREE;
        if (p->state == g->rule[p->rule].begin && !p->data) g->rule[p->rule].begin = p->copy;
    }
    for (int32_t i = 0; i < s->n_spot; i++)
        if (s->spot[i].copy >= 0) gram__copy_spot(s, &s->spot[i]);
}

/* A call of a nullable rule can be left out. n: states of the rules as they were built. */
static void gram__skip_nullable(gram__seal *s, int32_t n) {
    gram *g = s->g;
    for (int32_t i = 0; i < n; i++)
        for (int32_t a = s->owner[i] >= 0 ? g->head[i] : -1; a >= 0; a = g->arc[a].next)
            if (g->arc[a].kind == GRAM__CALL && g->rule[g->arc[a].arg].nullable) gram_eps(g, i, g->arc[a].to);
}

/* --- loops --- */

/* The edges after a whole body at `after`: count it, then begin the next one at `before`, or end. */
static void gram__loop_edges(gram *g, const gram__rule *r, int32_t after, int32_t before) {
    const bool    endless = r->max == UINT64_MAX, counts = !endless || r->min > 1;
    const int32_t next = counts ? gram_state(g) : after;
    if (counts) gram_op_edge(g, after, (gram_op){GRAM_ADD, 0, 1, endless ? r->min : r->max}, next);
    if (endless) gram_eps(g, next, before);
    else gram_op_edge(g, next, (gram_op){GRAM_WITHIN, 0, 0, r->max - 1}, before);
    if (counts) gram_op_edge(g, next, (gram_op){GRAM_WITHIN, 0, r->min, UINT64_MAX}, r->end);
    else gram_eps(g, next, r->end);
}

/* A body of loops that consists of bytes alone, made deterministic by subsets. */
enum { GRAM__BODY = 256, GRAM__SUBSETS = 64 };        /* states before and after at most */
typedef struct { uint64_t w[GRAM__BODY / 64]; } gram__subset;
typedef struct { uint8_t from, to, lo, hi; } gram__body_edge;
struct gram__body {
    int32_t         state[GRAM__BODY], n_state;       /* the first is the begin of the rule */
    int32_t         end;                              /* index of its end, -1: out of reach */
    gram__subset    set[GRAM__SUBSETS];
    int32_t         n_set, n_edge;
    gram__body_edge edge[GRAM__SUBSETS * 256];
    bool            too_large;
};

static bool gram__subset_has(const gram__subset *x, int32_t i) { return x->w[i / 64] >> (i & 63) & 1; }

static int32_t gram__body_index(gram__body *b, int32_t state) {
    for (int32_t i = 0; i < b->n_state; i++)
        if (b->state[i] == state) return i;
    if (b->n_state == GRAM__BODY) b->too_large = true;
    else b->state[b->n_state++] = state;
    return b->too_large ? 0 : b->n_state - 1;
}

/* Finds the states of the body. False: something else than bytes is in it, or too much. */
static bool gram__body_states(const gram *g, gram__body *b, int32_t rule) {
    b->n_state = b->n_set = b->n_edge = 0, b->end = -1, b->too_large = false;
    gram__body_index(b, g->rule[rule].begin);
    for (int32_t i = 0; i < b->n_state && !b->too_large; i++) {
        if (g->mark[b->state[i]] & GRAM__FREE) return false;
        if (b->state[i] == g->rule[rule].end) b->end = i;
        for (int32_t a = g->head[b->state[i]]; a >= 0; a = g->arc[a].next) {
            const gram__arc *c = &g->arc[a];
            if (c->kind != GRAM__EPS && (c->kind != GRAM__BYTE || c->arg >= 0)) return false;
            gram__body_index(b, c->to);
        }
    }
    return b->end >= 0 && !b->too_large;
}

/* Adds a state and those to which it leads without a byte. */
static void gram__subset_add(const gram *g, gram__body *b, gram__subset *x, int32_t i) {
    int32_t list[GRAM__BODY], n = 0;
    if (gram__subset_has(x, i)) return;
    x->w[i / 64] |= 1ull << (i & 63), list[n++] = i;
    while (n)
        for (int32_t a = g->head[b->state[list[--n]]], k; a >= 0; a = g->arc[a].next)
            if (g->arc[a].kind == GRAM__EPS && !gram__subset_has(x, k = gram__body_index(b, g->arc[a].to)))
                x->w[k / 64] |= 1ull << (k & 63), list[n++] = k;
}

static int32_t gram__subset_index(gram__body *b, const gram__subset *x) {
    for (int32_t i = 0; i < b->n_set; i++)
        if (memcmp(&b->set[i], x, sizeof *x) == 0) return i;
    if (b->n_set == GRAM__SUBSETS) b->too_large = true;
    else b->set[b->n_set++] = *x;
    return b->too_large ? 0 : b->n_set - 1;
}

/* The subset after a byte; empty: none. */
static gram__subset gram__subset_step(const gram *g, gram__body *b, const gram__subset *x, int byte) {
    gram__subset to = {{0}};
    for (int32_t i = 0; i < b->n_state; i++)
        for (int32_t a = gram__subset_has(x, i) ? g->head[b->state[i]] : -1; a >= 0; a = g->arc[a].next) {
            const gram__arc *c = &g->arc[a];
            if (c->kind == GRAM__BYTE && c->lo <= byte && byte <= c->hi) gram__subset_add(g, b, &to, gram__body_index(b, c->to));
        }
    return to;
}

/* Edges of a subset; neighbouring bytes that lead to the same one share an edge. */
static void gram__subset_edges(const gram *g, gram__body *b, int32_t from) {
    static const gram__subset nothing;
    const int32_t             first = b->n_edge;
    for (int byte = 0; byte < 256 && !b->too_large; byte++) {
        const gram__subset to = gram__subset_step(g, b, &b->set[from], byte);
        if (memcmp(&to, &nothing, sizeof to) == 0) continue;
        const int32_t i = gram__subset_index(b, &to);
        gram__body_edge *last = b->n_edge > first ? &b->edge[b->n_edge - 1] : NULL;
        if (last && last->to == i && last->hi == byte - 1) last->hi++;
        else b->edge[b->n_edge++] = (gram__body_edge){(uint8_t)from, (uint8_t)i, (uint8_t)byte, (uint8_t)byte};
    }
}

/* Makes s->body the automaton of the rule. False: it is no automaton of few bytes. The last one is kept, since loops
 * often share a body. */
static bool gram__body_of(gram__seal *s, int32_t rule) {
    gram__body  *b = s->body ? s->body : (s->body = mem_new(1, sizeof *s->body));
    gram__subset first = {{0}};
    if (s->body_rule == rule) return s->body_good;
    s->body_rule = rule, s->body_good = false;
    if (s->g->rule[rule].body >= 0 || s->g->rule[rule].nullable || !gram__body_states(s->g, b, rule)) return false;
    gram__subset_add(s->g, b, &first, 0);
    gram__subset_index(b, &first);
    for (int32_t i = 0; i < b->n_set && !b->too_large; i++) gram__subset_edges(s->g, b, i);
    return s->body_good = !b->too_large;
}

/* Whether no word of the body is the beginning of another one. Then a text is cut into bodies in one way. */
static bool gram__prefix_free(const gram__body *b) {
    for (int32_t i = 0; i < b->n_edge; i++)
        if (gram__subset_has(&b->set[b->edge[i].from], b->end)) return false;
    return true;
}

/* A copy of the body from its begin, the state returned, up to `after`. Its states follow each other. */
static int32_t gram__body_put(gram *g, const gram__body *b, uint8_t flags, int32_t after) {
    const int32_t base = g->n_state;
    for (int32_t i = 0; i < b->n_set; i++) gram_state(g);
    if (gram_failed(g)) return 0;
    memset(g->mark + base, flags, (size_t)b->n_set);
    for (int32_t i = 0; i < b->n_edge; i++)
        gram_byte(g, base + b->edge[i].from, b->edge[i].lo, b->edge[i].hi, base + b->edge[i].to);
    for (int32_t i = 0; i < b->n_set; i++)
        if (gram__subset_has(&b->set[i], b->end)) gram_eps(g, base + i, after);
    return base;
}

/* The same loop with a count that nothing looks at. */
static int32_t gram__twin_put(gram *g, const gram__body *b, int32_t end) {
    const int32_t after = gram_state(g), next = gram_state(g), base = gram__body_put(g, b, GRAM__TWIN, after);
    gram_op_edge(g, after, (gram_op){GRAM_ADD, 0, 1, UINT64_MAX}, next);
    gram_eps(g, next, base), gram_eps(g, next, end);
    return base;
}

static void gram__span_put(gram__seal *s, const gram__rule *r, int32_t base) {
    gram         *g = s->g;
    const int32_t twin = gram__twin_put(g, s->body, r->end);
    if (gram_failed(g)) return;
    const int32_t span = MEM_PUSH(g->span, g->n_span, (gram_span){r->min, r->max});
    for (int32_t i = 0; i < s->body->n_set; i++) MEM_PUSH(s->twin, s->n_twin, (gram__twin){base + i, twin + i, span});
    g->mark[base] |= GRAM__BETWEEN;
}

/* A loop as edges. It runs at least once; a body that is nullable runs as one that consumes something, as often as it
 * likes up to the most. A body of bytes becomes part of the loop. */
static void gram__build_loop(gram__seal *s, int32_t rule) {
    gram         *g = s->g;
    const int32_t after = gram_state(g);
    int32_t       before = g->rule[rule].begin;
    if (g->rule[g->rule[rule].body].nullable) g->rule[rule].min = 0;
    const gram__rule r = g->rule[rule];
    const bool       counts = r.max != UINT64_MAX || r.min > 1;
    if (gram_failed(g)) return;
    if (gram__body_of(s, r.body)) {
        const bool span = counts && gram__prefix_free(s->body);
        before = gram__body_put(g, s->body, span ? GRAM__IN_SPAN : 0, after);
        gram_eps(g, r.begin, before);
        if (span) gram__span_put(s, &r, before);
    } else gram_call(g, r.begin, r.body, after);
    gram__loop_edges(g, &r, after, before);
    if (!counts || gram_failed(g)) return;
    MEM_PUSH(g->loop, g->n_loop, (gram__loop){.min = r.min ? r.min : 1, .after = after, .begin = r.begin});
}

/* --- twins of states from which a text is appended: in them appending does nothing, and looking at the text is the end --- */

static bool gram__acts(const gram *g, const gram__arc *c) {
    (void)g;
    return c->kind == GRAM__OP || (c->kind == GRAM__BYTE && c->arg >= 0);
}

static bool gram__is_act(const gram *g, const gram__arc *c, gram_op_kind kind) {
    return gram__acts(g, c) && g->act[c->arg].kind == kind;
}

static bool gram__sees_text(const gram *g, const gram__arc *c) {
    return gram__is_act(g, c, GRAM_APPEND) || gram__is_act(g, c, GRAM_DISTINCT) || gram__is_act(g, c, GRAM_SPARE);
}

/* The state that an edge needs beside its target; -1: none. */
static int32_t gram__needed(const gram *g, const gram__arc *c) { return c->kind == GRAM__CALL ? g->rule[c->arg].begin : -1; }

/* Notes where each edge begins, and by the states that it leads to and needs. */
static void gram__watch_all(gram__seal *s) {
    gram *g = s->g;
    for (int32_t i = 0; i < g->n_state; i++)
        for (int32_t a = g->head[i]; a >= 0; a = g->arc[a].next) {
            const int32_t needed = gram__needed(g, &g->arc[a]);
            s->from[a] = i;
            gram__watch(s, g->arc[a].to, a, 0);
            if (needed >= 0) gram__watch(s, needed, a, 1);
        }
}

/* Marks in s->live the states from which an edge of a kind can follow within the rule. */
static void gram__find_live(gram__seal *s, bool (*is)(const gram *g, const gram__arc *c)) {
    gram   *g = s->g;
    int32_t n = 0;
    for (int32_t a = 0; a < g->n_arc; a++)
        if (is(g, &g->arc[a]) && !s->live[s->from[a]]) s->live[s->from[a]] = true, s->list[n++] = s->from[a];
    while (n)
        for (int32_t w = s->watch[s->list[--n]]; w >= 0; w = s->next[w]) {
            const int32_t i = s->from[w / 2];
            if (w % 2 == 0 && !s->live[i]) s->live[i] = true, s->list[n++] = i;
        }
}

/* Edges of the twin of a state. end: a state that does nothing but end the rule. */
static void gram__twin_edges(gram__seal *s, int32_t state, int32_t end) {
    gram *g = s->g;
    for (int32_t a = g->head[state]; a >= 0 && !gram_failed(g); a = g->arc[a].next) {
        gram__arc c = g->arc[a];
        if (s->live[c.to]) c.to = s->id[c.to];
        if (gram__is_act(g, &c, GRAM_DISTINCT) || gram__is_act(g, &c, GRAM_SPARE)) c = (gram__arc){.to = end, .kind = GRAM__EPS};
        else if (gram__is_act(g, &c, GRAM_APPEND)) c.arg = -1;
        gram__arc_add(g, s->id[state], c);
    }
}

static void gram__text_twins(gram__seal *s) {
    gram         *g = s->g;
    const int32_t n = g->n_state, end = gram_state(g);
    g->mark[end] |= GRAM__END;
    gram__seal_graph(s);
    gram__watch_all(s);
    gram__find_live(s, gram__sees_text);
    for (int32_t i = 0; i < n; i++) {
        if (!s->live[i]) continue;
        s->id[i] = gram_state(g);
        g->mark[s->id[i]] = g->mark[i] | GRAM__TWIN;
        MEM_PUSH(s->twin, s->n_twin, (gram__twin){i, s->id[i], -1});
    }
    for (int32_t i = 0; i < n; i++)
        if (s->live[i]) gram__twin_edges(s, i, end);
    gram__drop_graph(s);
}

/* --- what can reach an end --- */

static bool gram__arc_good(const gram__seal *s, const gram__arc *c) {
    const int32_t needed = gram__needed(s->g, c);
    return s->good[c->to] && (needed < 0 || s->good[needed]);
}

/* Least fixpoint from the ends. */
static void gram__find_good(gram__seal *s) {
    int32_t n = 0;
    gram__watch_all(s);
    for (int32_t i = 0; i < s->g->n_state; i++)
        if (s->g->mark[i] & GRAM__END) s->good[i] = true, s->list[n++] = i;
    while (n)
        for (int32_t w = s->watch[s->list[--n]], i = 0; w >= 0; w = s->next[w]) {
            i = s->from[w / 2];
            if (!s->good[i] && gram__arc_good(s, &s->g->arc[w / 2])) s->good[i] = true, s->list[n++] = i;
        }
}

/* The only edge that a state keeps; -1: none, -2: several. */
static int32_t gram__only_arc(const gram__seal *s, int32_t state) {
    int32_t only = -1;
    for (int32_t a = s->g->head[state]; a >= 0; a = s->g->arc[a].next) {
        if (!gram__arc_good(s, &s->g->arc[a])) continue;
        if (only >= 0) return -2;
        only = a;
    }
    return only;
}

/* The state to which a state does nothing but lead; -1: it is more than that. */
static int32_t gram__passes_to(const gram__seal *s, int32_t state) {
    const bool    more = s->g->mark[state] & (GRAM__END | GRAM__FREE | GRAM__IN_SPAN | GRAM__TWIN);
    const int32_t only = more ? -2 : gram__only_arc(s, state);
    return only >= 0 && s->g->arc[only].kind == GRAM__EPS ? s->g->arc[only].to : -1;
}

/* A state that can reach an end is in no circle of such states. */
static void gram__find_aliases(gram__seal *s) {
    for (int32_t i = 0; i < s->g->n_state; i++) {
        int32_t n = 0, at = i;
        if (!s->good[i]) continue;
        for (int32_t to; s->alias[at] < 0 && (to = gram__passes_to(s, at)) >= 0; at = to) s->list[n++] = at;
        const int32_t last = s->alias[at] >= 0 ? s->alias[at] : at;
        s->alias[at] = last;
        while (n) s->alias[s->list[--n]] = last;
    }
}

static void gram__reach(gram__seal *s, int32_t state, int32_t *n) {
    state = s->alias[state];
    if (s->id[state] >= 0) return;
    s->id[state] = 0;
    s->list[(*n)++] = state;
}

/* Reaches what the n states of the work list lead to. Returns the number of edges. */
static int32_t gram__reach_all(gram__seal *s, int32_t n) {
    gram   *g = s->g;
    int32_t edges = 0;
    while (n)
        for (int32_t a = g->head[s->list[--n]]; a >= 0; a = g->arc[a].next) {
            const gram__arc *c = &g->arc[a];
            if (!gram__arc_good(s, c)) continue;
            edges++;
            gram__reach(s, c->to, &n);
            if (c->kind == GRAM__CALL) gram__reach(s, g->rule[c->arg].begin, &n);
        }
    return edges;
}

/* Numbers the states that the root can reach, and the twins of those. Returns their number, and that of their edges
 * in *n_edge. */
static int32_t gram__number(gram__seal *s, int32_t root, int32_t *n_edge) {
    gram   *g = s->g;
    int32_t n = 0, states = 0;
    gram__reach(s, g->rule[root].begin, &n);
    *n_edge = gram__reach_all(s, n);
    for (int32_t i = 0; i < s->n_twin; i++) {
        const gram__twin *t = &s->twin[i];
        n = 0;
        if (s->id[t->state] >= 0 && s->good[t->twin]) gram__reach(s, t->twin, &n);
        *n_edge += gram__reach_all(s, n);
    }
    for (int32_t i = 0; i < g->n_state; i++)
        if (s->id[i] >= 0) s->id[i] = states++;
    return states;
}

/* --- the sealed form --- */

static bool gram__tail(const gram__seal *s, int32_t to) { return s->g->mark[to] & GRAM__END && gram__only_arc(s, to) == -1; }

static gram__edge gram__sealed(const gram__seal *s, const gram__arc *c) {
    const gram   *g = s->g;
    const int32_t to = s->alias[c->to];
    gram__edge    e = {.to = s->id[to], .arg = c->arg, .kind = c->kind, .lo = c->lo, .hi = c->hi};
    if (c->kind != GRAM__CALL) return e;
    e.arg = s->id[s->alias[g->rule[c->arg].begin]];
    if (gram__tail(s, to)) e.kind = GRAM__TAIL;
    return e;
}

/* Copies the edges of the kinds from `first` to `last`. Returns their number. */
static int32_t gram__copy_edges(gram__seal *s, int32_t state, int first, int last, int32_t *at) {
    const int32_t before = *at;
    for (int32_t a = s->g->head[state]; a >= 0; a = s->g->arc[a].next) {
        const gram__arc *c = &s->g->arc[a];
        if (c->kind >= first && c->kind <= last && gram__arc_good(s, c)) s->g->edge[(*at)++] = gram__sealed(s, c);
    }
    return *at - before;
}

static void gram__copy_states(gram__seal *s) {
    gram   *g = s->g;
    int32_t at = 0;
    for (int32_t i = 0; i < g->n_state; i++) {
        if (s->id[i] < 0) continue;
        gram__state *t = &g->state[s->id[i]];
        *t = (gram__state){.edge = at, .rank = s->rank[i], .span = -1, .twin = -1, .loop = -1};
        t->flags = (uint8_t)(g->mark[i] | (s->live[i] ? GRAM__LIVE : 0));
        t->n_byte = gram__copy_edges(s, i, GRAM__BYTE, GRAM__BYTE, &at);
        t->n_token = gram__copy_edges(s, i, GRAM__TOKEN, GRAM__OTHER, &at);
        t->n_move = gram__copy_edges(s, i, GRAM__EPS, GRAM__OP, &at);
        t->n_call = gram__copy_edges(s, i, GRAM__CALL, GRAM__CALL, &at);
    }
}

static void gram__copy_twins(gram__seal *s) {
    for (int32_t i = 0; i < s->n_twin; i++) {
        const gram__twin *t = &s->twin[i];
        const int32_t     id = s->id[t->state];
        if (id >= 0) s->g->state[id].span = t->span, s->g->state[id].twin = s->id[s->alias[t->twin]];
    }
}

static void gram__copy_loops(gram__seal *s) {
    for (int32_t i = 0; i < s->g->n_loop; i++) {
        gram__loop *l = &s->g->loop[i];
        if (s->id[l->after] < 0) continue;
        l->begin = s->id[s->alias[l->begin]], l->after = s->id[l->after];
        s->g->state[l->after].loop = i;
    }
}

/* States at the begin of a rule are worked on in the order of the rules, callers first; states further on, before all of them. */
static void gram__find_ranks(gram__seal *s) {
    const gram *g = s->g;
    for (int32_t i = 0; i < s->n_spot; i++) {
        const gram__spot *p = &s->spot[i];
        s->rank[p->copy >= 0 ? p->copy : p->state] = g->rule[p->rule].rank;
    }
    for (int32_t r = 0; r < g->n_rule; r++)
        if (g->rule[r].body >= 0) s->rank[g->rule[r].begin] = g->rule[r].rank;
}

/* Bytes are of one class where the same edges hold them. An edge adds a number made from its ends to the sums of its bytes;
 * a byte that an operation sees is a class of its own. */
static void gram__find_classes(gram *g, int32_t n_state) {
    uint64_t sum[257] = {0}, apart[256] = {0}, of[256];
    for (int32_t i = 0; i < n_state; i++)
        for (int32_t k = g->state[i].edge; k < g->state[i].edge + g->state[i].n_byte; k++) {
            const gram__edge *e = &g->edge[k];
            const uint64_t    h = rng_mix(rng_mix(g->seed ^ (uint64_t)i << 32 ^ (uint32_t)e->to) ^ (uint32_t)e->arg);
            sum[e->lo] += h, sum[e->hi + 1] -= h;
            for (int b = e->lo; b <= e->hi && e->arg >= 0; b++) apart[b] = rng_mix(g->seed + (uint64_t)b);
        }
    for (int b = 0; b < 256; b++) {
        int c = 0;
        if (b) sum[b] += sum[b - 1];
        while (c < g->n_class && of[c] != sum[b] + apart[b]) c++;
        if (c == g->n_class) of[g->n_class++] = sum[b] + apart[b];
        g->class_of[b] = (uint8_t)c;
    }
}

/* The sealed automaton, from the graph in which no call is empty. */
static bool gram__seal_end(gram__seal *s, int32_t root, err_t *e) {
    gram   *g = s->g;
    int32_t n_edge = 0;
    gram__seal_graph(s);
    gram__find_good(s);
    g->empty = g->rule[root].nullable;
    if (!g->empty && !s->good[g->rule[root].begin]) return err_set(e, EXIT_INPUT, "nothing satisfies it");
    g->root = -1;
    gram__find_live(s, gram__acts);                   /* registers matter there */
    gram__find_aliases(s);
    gram__find_ranks(s);
    if (s->good[g->rule[root].begin]) {
        const int32_t n = gram__number(s, root, &n_edge);
        g->state = mem_new((size_t)n, sizeof *g->state), g->edge = mem_new((size_t)n_edge + 1, sizeof *g->edge);
        gram__copy_states(s);
        gram__copy_twins(s);
        gram__copy_loops(s);
        g->n_states = n, g->n_edges = n_edge;
        g->root = s->id[s->alias[g->rule[root].begin]];
        gram__find_classes(g, n);
    }
    return true;
}

static void gram__drop_built(gram *g) {
    for (int32_t r = 0; r < g->n_rule; r++) mem_free(g->rule[r].name);
    mem_free(g->arc), mem_free(g->head), mem_free(g->mark), mem_free(g->rule);
    g->arc = NULL, g->head = NULL, g->mark = NULL, g->rule = NULL, g->n_rule = 0;
}

/* What only the work before the graph needs. */
static void gram__drop_early(gram__seal *s) {
    hmap_drop(&s->spots);
    mem_free(s->owner), mem_free(s->waits), mem_free(s->ready), mem_free(s->wait), mem_free(s->left), mem_free(s->body);
    s->spots = (hmap){0}, s->owner = s->waits = s->ready = NULL, s->wait = NULL, s->left = NULL, s->body = NULL;
}

static bool gram__seal_all(gram__seal *s, int32_t root, err_t *e) {
    gram         *g = s->g;
    const int32_t n = g->n_state;
    if (!gram__reserve(g, e)) return false;
    gram__survey(s, root);
    gram__explore(s);
    if (gram_failed(g) || !gram__no_left_recursion(s, e)) return false;
    gram__split_nullable(s);
    gram__skip_nullable(s, n);
    for (int32_t r = 0, rules = g->n_rule; r < rules; r++)
        if (g->rule[r].used && g->rule[r].body >= 0) gram__build_loop(s, r);
    gram__drop_early(s);
    if (s->appends && !gram_failed(g)) gram__text_twins(s);
    return !gram_failed(g) && gram__seal_end(s, root, e);
}

/* Makes the automaton that runs, whose texts are those of the rule `root`, and reserves its memory. Once; nothing
 * is built afterwards. False: e says why: a limit, left recursion, or no text at all. */
static bool gram_seal(gram *g, int32_t root, err_t *e) {
    gram__seal s = {.g = g, .body_rule = -1};
    bool       ok = !gram_failed(g);
    if (ok) {
        s.owner = gram__ints(g->n_state, 0xff), s.list = gram__ints(g->n_state, 0);
        s.waits = gram__ints(g->n_rule, 0), s.ready = gram__ints(g->n_rule, 0);
        ok = gram__seal_all(&s, root, e);
    }
    if (gram_failed(g)) ok = err_set(e, g->err.code, "%s", g->err.text);
    mem_free(s.list), mem_free(s.spot), mem_free(s.twin);
    gram__drop_early(&s);
    gram__drop_graph(&s);
    gram__drop_built(g);
    return ok;
}

/* Frees the automaton, sealed or not; NULL is allowed. Its tracks are void. */
static void gram_free(gram *g) {
    if (!g) return;
    gram__drop_built(g);
    mem_free(g->act), mem_free(g->state), mem_free(g->edge), mem_free(g->span), mem_free(g->loop);
    if (g->ways) munmap(g->ways, g->ways_bytes);
    if (g->arena) munmap(g->arena, g->mem);
    if (g->scratch) munmap(g->scratch, g->scratch_bytes);
    mem_free(g);
}

/* --- spans --- */

/* The span whose body the state is in; NULL: none. */
static const gram_span *gram_span_of(const gram *g, int32_t state) {
    return g->state[state].span >= 0 ? &g->span[g->state[state].span] : NULL;
}
/* Whether the state is in front of a body of its span, after whole ones. */
static bool             gram_span_between(const gram *g, int32_t state) { return g->state[state].flags & GRAM__BETWEEN; }
/* The twin of a state, in which a count has no bounds and a text is not looked at; -1: it has none. */
static int32_t          gram_unguarded(const gram *g, int32_t state) { return g->state[state].twin; }

/* --- the shortest way to the end ---
 * Dijkstra's algorithm, for all rules at a time (Knuth 1977): a call goes on when the shortest way through its rule is known.
 * Once for the whole automaton, gram_ways() finds the ways from states without registers, and those through rules whose
 * registers count. After that a question is answered by looking these up; only from a state whose registers count there is a
 * search over (state, registers). A loop needs one body and multiplies. Of ways that differ in nothing but their texts, a
 * few are followed: see gram__leg_text().
 *   Searches are bounded, and what one takes is kept with its result, as units of work. gram_meter() adds these up for the
 * sets that are asked about, each of them once, whether or not their ways were known before. So a budget of units ends at
 * the same set whatever else the automaton was asked. --- */

enum {
    GRAM__LIVE_LEGS = 1 << 12,                        /* states with registers in one search; about a millisecond */
    GRAM__LIVE_WORK = 1 << 16,                        /* and units of it */
    GRAM__RULE_LEGS = 1 << 14,                        /* the same of the way through one rule, found once, */
    GRAM__RULES_LEGS = 1 << 18,                       /* and of the ways through all rules */
    GRAM__RULES_WORK = 1 << 21,
    GRAM__LEG_WORK = 4,                               /* units of a leg; an edge is one more */
    GRAM__WAY_WORK = 1 << 10,                         /* units of a set whose way is followed byte by byte */
    GRAM__LOOK_WORK = 8,                              /* units of looking at a set: 16 bytes of the arena are enough for each */
};
/* a leg's rule: the one of the query, or none: the state has no registers; its state: after the end of the rule */
enum { GRAM__QUERY = -1, GRAM__PLAIN = -2, GRAM__OVER = -1 };
/* goes on at leg with the cost that something turns out to have, or `times` bodies of it */
typedef struct { gram__leg leg; uint64_t times; int32_t next; } gram__call_leg;

typedef struct {                                      /* ways that are found once */
    int32_t        *from;                             /* [n_edges] the state that an edge leaves */
    int32_t        *into, *next_into;                 /* [n_states], [n_edges] edges between states without registers, by where
                                                       * they lead to; -1: no more */
    int32_t        *calls, *next_call;                /* those that are calls, by the begin of the rule */
    int32_t        *waits;                            /* [n_states] first of the legs that wait for it */
    int32_t        *legs;                             /* [n_states] of the way through the rule that begins there */
    gram__call_leg *call;                             /* [n_call] legs that wait */
    int32_t         n_call;
} gram__ways_all;

struct gram__ways {
    uint64_t      *known;                             /* [n_states] bytes + 1; of a state without registers to the end of its
                                                       * rule, of the begin of another rule through it; 0: not known */
    gram__leg     *heap;                              /* [most_heap] shortest first */
    int32_t       *slot;                              /* [4 * most_seen] index + 1 in seen */
    gram__leg     *seen;                              /* [most_seen] */
    int32_t        n_heap, most_heap;
    int32_t        n_seen, most_seen;
    uint32_t       mask;                              /* slots in use - 1 */
    bool           over;                              /* too many legs */
    gram__ways_all *all;                              /* NULL: these are found */
};

/* The way on from a set or a stack, in the arena up to the next collection. */
typedef struct {
    uint64_t least;                                   /* bytes + 1; 0: not known */
    uint32_t units;                                   /* of work to find them, stacks below left aside */
    uint32_t counted;                                 /* the last meter that counted these */
    int32_t  next;                                    /* the set after its first byte; 0: not known, GRAM_DEAD: no byte */
    uint32_t next_units, next_counted;                /* the same for this set */
    uint32_t note;                                    /* of [mask] */
    uint8_t  byte;
} gram__ask;

static uint64_t gram__times(uint64_t a, uint64_t b) {
    uint64_t x;
    return __builtin_mul_overflow(a, b, &x) ? UINT64_MAX : x;
}

static bool gram__has_registers(const gram *g, int32_t state) { return g->state[state].flags & GRAM__LIVE; }

static void gram__leg_put(gram *g, gram__leg leg) {
    gram__ways *w = g->ways;
    if (leg.rule != GRAM__PLAIN) g->fuel--;
    if (w->n_heap == w->most_heap) w->over = true;
    if (w->over || leg.data < 0) return;
    if (leg.state >= 0 && !gram__has_registers(g, leg.state)) leg.data = 0;
    gram__heap_put(w->heap, &w->n_heap, leg);
}

static size_t gram__leg_slot(const gram__ways *w, const gram__leg *leg) {
    const uint64_t key = rng_mix((uint64_t)(uint32_t)leg->state << 32 | (uint32_t)leg->data) +
                         ((uint64_t)(uint32_t)leg->nth << 32 | (uint32_t)leg->rule);
    size_t         k = rng_mix(key) & w->mask;
    for (; w->slot[k]; k = (k + 1) & w->mask) {
        const gram__leg *x = &w->seen[w->slot[k] - 1];
        if (x->state == leg->state && x->data == leg->data && x->rule == leg->rule && x->nth == leg->nth) break;
    }
    return k;
}

static void gram__seen_clear(gram__ways *w) {
    while (w->n_seen > 0) w->n_seen--, w->slot[gram__leg_slot(w, &w->seen[w->n_seen])] = 0;
}

static void gram__seen_grow(gram__ways *w) {
    const int32_t n = w->n_seen;
    gram__seen_clear(w);
    w->mask = 2 * w->mask + 1;
    while (w->n_seen < n) {
        const size_t k = gram__leg_slot(w, &w->seen[w->n_seen]);
        w->slot[k] = ++w->n_seen;
    }
}

/* Whether this state with these registers was not reached before. */
static bool gram__leg_new(gram__ways *w, const gram__leg *leg) {
    if ((uint32_t)w->n_seen * 2 > w->mask && w->n_seen < w->most_seen) gram__seen_grow(w);
    const size_t k = gram__leg_slot(w, leg);
    if (w->slot[k] || w->n_seen == w->most_seen) {
        w->over = w->over || !w->slot[k];
        return false;
    }
    w->seen[w->n_seen++] = *leg;
    w->slot[k] = w->n_seen;
    return true;
}

/* Number of texts that are kept. */
static int32_t gram__texts(gram *g, int32_t data) {
    int32_t n = 0;
    for (uint32_t k = gram__at(g, data)->w[1]; k && n < 1000; k = gram__at(g, (int32_t)k)->w[0]) n++;
    g->fuel -= n / 8;
    return n;
}

/* Whether fewer than `most` ways to the state of this leg were noted with these registers, texts left aside; notes it. */
static bool gram__leg_among(gram *g, gram__leg leg, bool keeps, int32_t from, int32_t most) {
    leg.data = gram__with_texts(g, leg.data, 0, keeps ? gram__at(g, leg.data)->w[1] : 0);
    for (leg.nth = from; leg.nth < from + most; leg.nth++, g->fuel--)
        if (gram__leg_new(g->ways, &leg)) return true;
    return false;
}

/* Whether a way is followed that differs from earlier ones in texts alone. While a text is appended: one more than
 * texts are kept, so one of them is new. Between texts: some that keep the same number of them. */
static bool gram__leg_text(gram *g, gram__leg leg) {
    const gram__blob *b = gram__at(g, leg.data);
    const int32_t     n = gram__texts(g, leg.data);
    if (!b->w[0] && !b->w[1]) return true;
    return b->w[0] ? gram__leg_among(g, leg, true, 1, n + 1) : gram__leg_among(g, leg, false, INT32_MIN + 4 * n, n < 8 ? 3 : 1);
}

/* The leg goes on with what is known of a state, or with `times` bodies of the loop that begins there, of so many bytes; it
 * waits for that while ways are still found. */
static void gram__leg_with(gram *g, int32_t state, gram__leg leg, uint64_t times, uint64_t unit) {
    gram__ways_all *all = g->ways->all;
    const uint64_t  known = g->ways->known[state];
    if (known) {
        leg.cost = gram__plus(leg.cost, times ? gram__times(times, unit) : known - 1);
        gram__leg_put(g, leg);
    } else if (all && g->fuel-- > 0) {
        all->call[all->n_call] = (gram__call_leg){leg, times, all->waits[state]};
        all->waits[state] = all->n_call++;
    }
}

static void gram__plain_put(gram *g, int32_t state, uint64_t cost) {
    if (!g->ways->known[state]) gram__leg_put(g, (gram__leg){.cost = cost, .rule = GRAM__PLAIN, .state = state});
}

/* The shortest way from a state without registers, or through the rule that begins there, is found: what leads to it goes on. */
static void gram__found(gram *g, int32_t state, uint64_t cost, uint64_t unit) {
    gram__ways     *w = g->ways;
    gram__ways_all *all = w->all;
    w->known[state] = gram__plus(cost, 1);
    for (int32_t i = all->into[state]; i >= 0; i = all->next_into[i]) {
        const gram__edge *e = &g->edge[i];
        const uint64_t    more = e->kind <= GRAM__OTHER ? 2 : e->kind == GRAM__EPS ? 1 : w->known[e->arg];
        if (more) gram__plain_put(g, all->from[i], gram__plus(cost, more - 1));
    }
    for (int32_t i = all->calls[state]; i >= 0; i = all->next_call[i]) {
        const gram__edge *e = &g->edge[i];
        const uint64_t    more = e->kind == GRAM__TAIL ? 1 : w->known[e->to];
        if (more) gram__plain_put(g, all->from[i], gram__plus(cost, more - 1));
    }
    for (int32_t c = all->waits[state]; c >= 0; c = all->call[c].next)
        gram__leg_with(g, state, all->call[c].leg, all->call[c].times, unit);
}

/* After a body of a loop. Within the search of the loop itself: it takes `min` of them. Else: what its count still needs. */
static void gram__leg_after(gram *g, gram__leg leg) {
    gram__loop    *l = &g->loop[g->state[leg.state].loop];
    const uint64_t done = gram__plus(gram_word(g, leg.data, 0), 1), more = l->min > done ? l->min - done : 0;
    if (leg.rule == l->begin) {
        l->unit = leg.cost;
        gram__found(g, leg.rule, gram__times(leg.cost, l->min), l->unit);
        return;
    }
    leg.state = GRAM__OVER, leg.data = 0;
    if (more) gram__leg_with(g, l->begin, leg, more, l->unit);
    else gram__leg_put(g, leg);
}

/* Whether as many ways to the state of this leg are noted as are followed while a text is appended. */
static bool gram__leg_full(gram *g, gram__leg leg, int32_t most) {
    leg.data = gram__with_texts(g, leg.data, 0, gram__at(g, leg.data)->w[1]), leg.nth = most;
    return g->ways->slot[gram__leg_slot(g->ways, &leg)] != 0;
}

/* Over an edge whose bytes an operation sees: the first of them. */
static void gram__leg_bytes(gram *g, const gram__edge *e, gram__leg leg) {
    const int32_t data = leg.data, most = gram__texts(g, data) + 1;
    if (g->act[e->arg].kind == GRAM_APPEND && gram__leg_full(g, leg, most)) return;
    for (int32_t b = e->lo; b <= e->hi && b < e->lo + most && g->fuel > 0; b++) {
        leg.data = gram__do(g, &g->act[e->arg], data, (uint8_t)b);
        gram__leg_put(g, leg);
    }
}

static void gram__leg_edges(gram *g, gram__leg leg) {
    const gram__state *s = &g->state[leg.state];
    const gram__edge  *e = g->edge + s->edge;
    for (int32_t i = s->n_byte + s->n_token + s->n_move + s->n_call; i > 0 && g->fuel > 0; i--, e++) {
        gram__leg next = {.cost = leg.cost, .rule = leg.rule, .state = e->to, .data = leg.data};
        if (e->kind <= GRAM__OTHER) next.cost = gram__plus(next.cost, 1);
        if (e->kind == GRAM__BYTE && e->arg >= 0) {
            gram__leg_bytes(g, e, next);
            continue;
        }
        if (e->kind == GRAM__OP) next.data = gram__do(g, &g->act[e->arg], leg.data, 0);
        if (e->kind == GRAM__TAIL) next.state = GRAM__OVER, next.data = 0;
        if (e->kind >= GRAM__CALL) gram__leg_with(g, e->arg, next, 0, 0);
        else gram__leg_put(g, next);
    }
}

/* One step of a search over registers. True: the query is at the end of its rule. */
static bool gram__leg_on(gram *g, gram__leg leg) {
    g->fuel -= GRAM__LEG_WORK;
    if (leg.state == GRAM__OVER || g->state[leg.state].flags & GRAM__END) {
        if (leg.rule == GRAM__QUERY) return true;
        gram__found(g, leg.rule, leg.cost, 0);
    } else if (g->state[leg.state].loop >= 0) gram__leg_after(g, leg);
    else if (!gram__has_registers(g, leg.state)) {
        const int32_t state = leg.state;
        leg.state = GRAM__OVER;
        gram__leg_with(g, state, leg, 0, 0);
    } else gram__leg_edges(g, leg);
    return false;
}

/* Removes the registers and texts from the end of the arena, from `top` on, that a search has made. `table`: as it was then;
 * another one keeps them. */
static void gram__undo(gram *g, size_t top, const int32_t *table) {
    if (g->table != table) return;
    for (size_t id = top; id < g->top; id += gram__units(gram__n(gram__at(g, (int32_t)id))), g->n_kept--) {
        size_t i = gram__at(g, (int32_t)id)->hash & (g->table_cap - 1);
        while (g->table[i] != (int32_t)id) i = (i + 1) & (g->table_cap - 1);
        g->table[i] = 0;
    }
    g->top = top;
}

/* --- ways that are found once --- */

/* One step of it. A search over the registers of a rule ends at GRAM__RULE_LEGS. */
static void gram__ways_on(gram *g, gram__leg leg) {
    gram__ways *w = g->ways;
    if (leg.rule == GRAM__PLAIN) {
        if (!w->known[leg.state]) gram__found(g, leg.state, leg.cost, 0);
        return;
    }
    if (w->known[leg.rule] || g->fuel < 0 || g->stop != GRAM__GO || w->all->legs[leg.rule] == GRAM__RULE_LEGS) return;
    if (!gram__leg_new(w, &leg) || !gram__leg_text(g, leg)) return;
    w->all->legs[leg.rule]++;
    gram__leg_on(g, leg);
}

/* Edges between states without registers, by where they lead to and by the rules that they call; the searches of the other
 * rules begin. */
static void gram__ways_begin(gram *g) {
    gram__ways_all *all = g->ways->all;
    for (int32_t i = 0; i < g->n_states; i++) {
        const gram__state *s = &g->state[i];
        const bool         plain = !gram__has_registers(g, i);
        if (plain && s->flags & GRAM__END) gram__plain_put(g, i, 0);
        for (int32_t k = s->edge; k < s->edge + s->n_byte + s->n_token + s->n_move + s->n_call; k++) {
            const gram__edge *e = &g->edge[k];
            all->from[k] = i;
            if (plain && e->kind != GRAM__TAIL) all->next_into[k] = all->into[e->to], all->into[e->to] = k;
            if (e->kind < GRAM__CALL) continue;
            if (plain) all->next_call[k] = all->calls[e->arg], all->calls[e->arg] = k;
            if (gram__has_registers(g, e->arg) && !all->legs[e->arg]) {
                all->legs[e->arg] = 1;
                gram__leg_put(g, (gram__leg){.rule = e->arg, .state = e->arg});
            }
        }
    }
}

/* The arrays of ways, in one mapping. all NULL: those that stay. Returns their bytes; p NULL: only that. */
static size_t gram__ways_parts(const gram *g, uint8_t *p, gram__ways *w, gram__ways_all *all) {
    const size_t n = (size_t)g->n_states + 1, edges = (size_t)g->n_edges + 1;
    const size_t heap = all ? n + 2 * edges + GRAM__RULES_WORK + GRAM__RULES_LEGS : GRAM__LIVE_WORK + 1;
    const size_t seen = all ? GRAM__RULES_LEGS : GRAM__LIVE_LEGS;
    gram__ways   x = {.known = w->known, .most_heap = (int32_t)heap, .most_seen = (int32_t)seen, .mask = 255, .all = all};
    gram__ways_all y = {0};
    struct { void *at; size_t bytes; } part[] = {
        {&x.heap, heap * sizeof *x.heap}, {&x.seen, seen * sizeof *x.seen}, {&x.slot, 4 * seen * sizeof *x.slot},
        {&x.known, all || x.known ? 0 : n * sizeof *x.known},
        {&y.into, n * sizeof *y.into}, {&y.calls, n * sizeof *y.calls}, {&y.waits, n * sizeof *y.waits},
        {&y.legs, n * sizeof *y.legs},
        {&y.from, edges * sizeof *y.from}, {&y.next_into, edges * sizeof *y.next_into},
        {&y.next_call, edges * sizeof *y.next_call}, {&y.call, (GRAM__RULES_WORK + 1) * sizeof *y.call},
    };
    size_t at = 0;
    for (size_t i = 0; i < (all ? sizeof part / sizeof *part : 4); i++) {
        void *q = p ? p + at : NULL;
        if (p && part[i].bytes) memcpy(part[i].at, &q, sizeof q);
        at += (part[i].bytes + 63) & ~(size_t)63;
    }
    if (p) *w = x;
    if (p && all) *all = y;
    return at;
}

static void gram__ways_find(gram *g, gram__ways_all *all) {
    gram__ways    *w = g->ways;
    const size_t   row = ((size_t)g->n_states + 1) * sizeof *all->into, top = g->top;
    const int32_t *table = g->table;
    memset(all->into, 0xff, row), memset(all->calls, 0xff, row), memset(all->waits, 0xff, row);
    g->stop = GRAM__GO, g->fuel = GRAM__RULES_WORK;
    gram__ways_begin(g);
    while (w->n_heap && !w->over && !g_interrupt) gram__ways_on(g, gram__heap_take(w->heap, &w->n_heap));
    gram__undo(g, top, table);
}

/* Finds the ways that every question needs, once; before the automaton runs, so that what they are depends on it alone.
 * False: no memory. */
static bool gram_ways(gram *g) {
    const size_t   head = (sizeof(gram__ways) + 63) & ~(size_t)63;
    gram__ways     none = {0};
    gram__ways_all all = {0};
    if (g->ways) return true;
    g->ways_bytes = head + gram__ways_parts(g, NULL, &none, NULL);
    const size_t once = gram__ways_parts(g, NULL, &none, &all);
    uint8_t     *p = gram__map(g->ways_bytes), *q = gram__map(once);
    if (p && q) {
        g->ways = (gram__ways *)(void *)p;
        gram__ways_parts(g, p + head, g->ways, NULL);
        const gram__ways stay = *g->ways;
        gram__ways_parts(g, q, g->ways, &all);
        gram__ways_find(g, &all);
        *g->ways = stay;
    } else if (p) munmap(p, g->ways_bytes);
    if (q) munmap(q, once);
    return g->ways != NULL;
}

/* --- questions --- */

/* Begins to count the work of the questions that follow, and ends it where there were more than `most` units: gram_least()
 * does not know then. */
static void gram_meter(gram *g, uint64_t most) {
    g->meter++;
    g->metered = 0, g->meter_most = most, g->spent = false;
}

/* Whether the meter has ended. */
static bool gram_spent(const gram *g) { return g->spent; }
/* Units that were counted, at most one more than may be. */
static uint64_t gram_metered(const gram *g) { return g->spent ? gram__plus(g->meter_most, 1) : g->metered; }

/* Whether so many more units may be used; they are not counted yet. */
static bool gram__affords(gram *g, uint64_t units) {
    if (gram__plus(g->metered, units) > g->meter_most) g->spent = true;
    return !g->spent;
}

static void gram__charge(gram *g, uint64_t units) {
    if (gram__affords(g, units)) g->metered += units;
}

/* Bytes from a state whose registers count to the end of its rule; UINT64_MAX: not found within the limits. */
static uint64_t gram__search(gram *g, int32_t state, int32_t data, uint32_t *units) {
    gram__ways    *w = g->ways;
    const size_t   top = g->top;
    const int32_t *table = g->table;
    uint64_t       found = UINT64_MAX;
    gram__seen_clear(w);
    w->mask = 255, w->n_heap = 0, w->over = false;
    g->stop = GRAM__GO, g->fuel = GRAM__LIVE_WORK;
    gram__leg_put(g, (gram__leg){.rule = GRAM__QUERY, .state = state, .data = data});
    while (w->n_heap && !w->over && g->stop == GRAM__GO && g->fuel > 0 && found == UINT64_MAX) {
        const gram__leg leg = gram__heap_take(w->heap, &w->n_heap);
        if (gram__leg_new(w, &leg) && gram__leg_text(g, leg) && gram__leg_on(g, leg)) found = leg.cost;
    }
    *units = (uint32_t)(GRAM__LIVE_WORK - max_i64(g->fuel, 0));
    g->n_searches++, g->n_units += *units;
    gram__undo(g, top, table);
    return found;
}

/* Bytes + 1 to the end of the rule, from a configuration or a link; adds the units of work to *units. UINT64_MAX: not known. */
static uint64_t gram__rest(gram *g, int32_t state, int32_t data, uint64_t *units) {
    const uint64_t known = g->ways->known[state];
    *units += 1;
    if (!gram__has_registers(g, state)) return known ? known : UINT64_MAX;
    gram__blob *b = gram__draft(g, GRAM__WAY, 5);
    if (!b) return UINT64_MAX;
    b->w[3] = (uint32_t)state, b->w[4] = (uint32_t)data;
    b = gram__at(g, gram__intern(g, b));
    if (!b->w[2]) {
        const uint64_t found = gram__plus(gram__search(g, state, data, &b->w[2]), 1);
        b->w[0] = (uint32_t)found, b->w[1] = (uint32_t)(found >> 32);
        if (g->stop == GRAM__FULL) b->w[2] = 0;       /* not a matter of the state: it is searched again */
    }
    *units += b->w[2];
    return b->w[0] | (uint64_t)b->w[1] << 32;
}

/* The notes of a set or a stack whose number is in `word`; the first call makes them. NULL: out of memory. */
static gram__ask *gram__ask_of(gram *g, uint32_t *word) {
    if (!*word) *word = (uint32_t)gram__make(g, GRAM__CACHE, sizeof(gram__ask) / 4);
    return *word ? (gram__ask *)(void *)gram__at(g, (int32_t)*word)->w : NULL;
}

static gram__ask *gram__stack_ask(gram *g, uint32_t stack) {
    return gram__ask_of(g, &gram__at(g, (int32_t)stack)->w[GRAM__STACK_ASK]);
}

/* The length of the shortest way on from the configurations or links of a blob, + 1. Stacks whose own length is not known yet are
 * appended to g->pops, which has *n. False: out of memory, too deep, or the work of the meter is used up. */
static bool gram__shortest_of(gram *g, const gram__blob *b, uint32_t head, gram__ask *a, size_t *n) {
    const size_t before = *n;
    uint64_t     least = UINT64_MAX, units = GRAM__LOOK_WORK;
    for (uint32_t i = head; i < gram__n(b); i += GRAM__LINK) {
        const gram__ask *below = gram__stack_ask(g, b->w[i + 2]);
        if (!below || *n == GRAM_STEPS) return false;
        const uint64_t rest = gram__rest(g, (int32_t)b->w[i], (int32_t)b->w[i + 1], &units);
        if (g->stop == GRAM__FULL || !gram__affords(g, units)) return false;
        if (!below->least) g->pops[(*n)++] = (int32_t)b->w[i + 2];
        else least = min_u64(least, gram__plus(rest, below->least - 1));
    }
    if (*n == before) a->least = least, a->units = (uint32_t)min_u64(units, UINT32_MAX);
    return true;
}

/* Works out the shortest ways below the n stacks in g->pops. */
static bool gram__below(gram *g, size_t n) {
    while (n) {
        const gram__blob *b = gram__at(g, g->pops[n - 1]);
        gram__ask        *a = gram__stack_ask(g, (uint32_t)g->pops[n - 1]);
        const size_t      before = n;
        if (!a) return false;
        if (b->w[GRAM__STACK_FLAGS] & (GRAM__COMPLETE | GRAM__ESCAPED)) a->least = 1;
        else if (!a->least && !gram__shortest_of(g, b, GRAM__STACK_HEAD, a, &n)) return false;
        if (n == before) n--;
    }
    return true;
}

/* The way on from a set that is not whole. NULL: not known, see gram__shortest_of(). */
static gram__ask *gram__look(gram *g, int32_t set) {
    gram__blob *b = gram__at(g, set);
    gram__ask  *a = gram__ask_of(g, &b->w[GRAM__SET_ASK]);
    if (g->stop == GRAM__FULL) g->stop = GRAM__GO;
    for (size_t n = 1; a && !a->least && n;) {
        n = 0;
        if (!gram__shortest_of(g, b, GRAM__SET_HEAD, a, &n) || !gram__below(g, n)) return NULL;
    }
    return a;
}

/* Counts the units of the stacks of a blob, and of those below them, that were not counted yet. */
static void gram__count_stacks(gram *g, const gram__blob *b, uint32_t head) {
    size_t n = 0;
    for (;; b = gram__at(g, g->pops[--n]), head = GRAM__STACK_HEAD) {
        for (uint32_t i = head; i < gram__n(b) && n < GRAM_STEPS; i += GRAM__LINK) {
            const uint32_t word = gram__at(g, (int32_t)b->w[i + 2])->w[GRAM__STACK_ASK];
            gram__ask     *a = word ? gram__stack_ask(g, b->w[i + 2]) : NULL;
            if (!a || a->counted == g->meter) continue;
            a->counted = g->meter;
            gram__charge(g, a->units);
            g->pops[n++] = (int32_t)b->w[i + 2];
        }
        if (!n) return;
    }
}

static bool gram__is_over(const gram *g, int32_t set) { return gram__flags(g, set) & (GRAM__COMPLETE | GRAM__ESCAPED); }

/* Bytes of a text that completes the set, or leads out of a local set; the shortest one, unless texts must differ.
 * UINT64_MAX: not known. A control token counts as one byte. */
static uint64_t gram_least(gram *g, int32_t set) {
    if (set <= 0 || g->spent || !gram_ways(g)) return UINT64_MAX;
    if (gram__is_over(g, set)) return 0;
    gram__ask *a = gram__look(g, set);
    if (!a) return UINT64_MAX;
    if (a->counted != g->meter) {
        a->counted = g->meter;
        gram__charge(g, a->units);
        gram__count_stacks(g, gram__at(g, set), GRAM__SET_HEAD);
    }
    return g->spent || a->least == UINT64_MAX ? UINT64_MAX : a->least - 1;
}

/* Whether a configuration of a set has this stack. */
static bool gram__on_stack(const gram *g, int32_t set, int32_t stack) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    for (size_t i = 0; i < n && i < 8; i++)
        if (c[i].stack == stack) return true;
    return false;
}

/* Units of looking at a set, and at its stacks that the one before it has not; UINT64_MAX: its way is not known. */
static uint64_t gram__units_of(gram *g, int32_t set, int32_t before, uint64_t *least) {
    size_t             n;
    const gram_config *c = gram_configs(g, set, &n);
    uint64_t           units = GRAM__LOOK_WORK + n;
    *least = 1;
    if (gram__is_over(g, set)) return units;
    const gram__ask *a = gram__look(g, set);
    if (!a) return UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        if (!gram__on_stack(g, before, c[i].stack)) units += gram__stack_ask(g, (uint32_t)c[i].stack)->units;
    *least = a->least;
    return units + a->units;
}

/* The first byte of a set's way, and where it leads to. */
static bool gram__way_find(gram *g, int32_t set, gram__ask *a) {
    bool     tried[256] = {0};
    uint64_t units = 1, least = 0;
    int32_t  next = GRAM_DEAD;
    for (int b = 0; b < 256 && !(next > 0 && least == a->least - 1); b++) {
        if (tried[g->class_of[b]]) continue;
        tried[g->class_of[b]] = true;
        next = gram_step(g, set, (uint8_t)b);
        if (next == GRAM_LIMIT) return false;
        units = gram__plus(units, next > 0 ? gram__units_of(g, next, set, &least) : 1);
        if (!gram__affords(g, units)) return false;
        a->byte = (uint8_t)b;
    }
    a->next = next > 0 && least == a->least - 1 ? next : GRAM_DEAD;
    a->next_units = (uint32_t)min_u64(units, UINT32_MAX);
    return true;
}

/* The set after the first byte of the shortest way of a set that is not whole, of several the one whose bytes are least.
 * GRAM_DEAD: there is none, or it begins with a control token, or it takes too much work; GRAM_LIMIT: the meter has ended, or
 * memory is out. free: units of work that are not counted. *known: whether this meter has counted it before. No collection may
 * run. */
static int32_t gram_way(gram *g, int32_t set, uint64_t free, uint8_t *byte, bool *known) {
    if (gram_least(g, set) == UINT64_MAX) return g->spent ? GRAM_LIMIT : GRAM_DEAD;
    gram__ask *a = gram__look(g, set);
    if (a && a->units > GRAM__WAY_WORK) return GRAM_DEAD;
    if (!a || (!a->next && !gram__way_find(g, set, a))) return GRAM_LIMIT;
    *known = a->next_counted == g->meter;
    if (!*known) a->next_counted = g->meter, gram__charge(g, a->next_units - min_u64(free, a->next_units));
    *byte = a->byte;
    return g->spent ? GRAM_LIMIT : a->next;
}

/* Where [mask] keeps a number for a set that is not whole, 0 at first; the next collection drops it. NULL: out of memory. */
static uint32_t *gram_note(gram *g, int32_t set) {
    gram__ask *a = gram__ask_of(g, &gram__at(g, set)->w[GRAM__SET_ASK]);
    return a ? &a->note : NULL;
}

/* Appends counts of steps, bytes, collections and searches, for -v. */
static void gram_stats(const gram *g, str *out) {
    str_fmt(out, "%llu steps of %llu not known before in %llu units of work, %zu bytes, %llu collections, %llu searches for ways "
            "in %llu units", (unsigned long long)g->n_steps, (unsigned long long)g->n_lookups, (unsigned long long)g->worked,
            8 * g->top, (unsigned long long)g->n_collections, (unsigned long long)g->n_searches, (unsigned long long)g->n_units);
}
