/* ===== [api] public types, tables and functions =====
 * Everything after this section is private. A macro that is defined before the #include says where the code goes:
 *     neither macro           everything is static, in the one C file that includes the header
 *     GGML_KERNELS_OBJECT     this C file holds the kernels of the whole program: public functions are external
 *     GGML_KERNELS_DECLARE    another object holds the kernels: only the declarations of this section are compiled
 * nvcc compiles this section as declarations too.
 *
 * With GGML_KERNELS_OBJECT, GGML_KERNELS_PART=1, 2 and 3 give three objects in place of one, which compile in parallel and
 * are linked together: 1, the products of avx2; 2, those of avx512; 3, everything else. In parts 1 and 2 all but these products
 * is static, so the compiler drops what they do not call. K__SHARED marks what one part defines and another uses; it is hidden
 * from other objects. */

#if defined(GGML_KERNELS_PART) && GGML_KERNELS_PART != 3
#define K_PUBLIC static
#define K_TABLE static
#elif defined(GGML_KERNELS_OBJECT) || defined(GGML_KERNELS_DECLARE) || defined(__CUDACC__)
#define K_PUBLIC
#define K_TABLE extern
#else
#define K_PUBLIC static
#define K_TABLE static
#endif

#ifdef GGML_KERNELS_PART
#define K__PART(n) (GGML_KERNELS_PART == (n))
#define K__SHARED __attribute__((visibility("hidden")))
#pragma GCC diagnostic ignored "-Wunused-function"       /* the whole header shows them */
#else
#define K__PART(n) 1
#define K__SHARED static
#endif

/* --- formats --- */

enum {
    K_KIND_NONE,                                         /* undefined or removed: refused */
    K_KIND_FLOAT, K_KIND_INT, K_KIND_SCALE,              /* weights; the kind of their scales decides how they are multiplied */
    K_KIND_DATA                                          /* readable, never a weight */
};

/* A row of n weights as codes and scales, in arrays of the caller. [unpack] gives the formulas of INT and SCALE. */
typedef struct {
    int8_t  *q;                                          /* [n] codes */
    int16_t *sc, *mn;                                    /* INT: [n/16] integer scales, minima */
    float   *d, *dm;                                     /* INT: [(n + 255)/256] their factors */
    float   *fs, *fm;                                    /* SCALE: [n/group] scales, minima; n/16 elements are always enough */
} k_urow;

typedef struct {
    const char *name;                                    /* as in ggml, also of removed types */
    uint16_t    block, bytes;                            /* weights and bytes per block */
    uint8_t     kind;                                    /* K_KIND_ */
    uint8_t     group;                                   /* SCALE: weights per fs, 16 or 32; else 0 */
    uint8_t     has_min;                                 /* whether unpack writes minima */
    /* n: whole blocks, or one row of a type that has its scale in front of rows; src at any alignment */
    void (*dequant)(const void *src, float *dst, int64_t n);
    void (*unpack)(const void *src, int n, k_urow *u);   /* INT and SCALE */
    void (*quant)(const float *src, void *dst, int64_t n);    /* may be NULL */
} k_type;

typedef struct {
    /* Quantises n weights, whole blocks, with a small error sum w*(x - x^)^2. w NULL: all equal. x, w finite, w >= 0. */
    void (*fit)(const float *x, const float *w, void *dst, int64_t n);
    /* Writes new codes, as unpack returns them, and keeps the scales of the blocks. NULL where codes are points of a grid. */
    void (*recode)(const int8_t *q, void *dst, int64_t n);
    int16_t       lo, hi;                                /* range of the codes, where there is recode */
    const int8_t *levels;                                /* all codes in rising order, where the range has gaps; else NULL */
} k_fitter;

K_TABLE const k_type   k_types[K_TYPE_MAX + 1];          /* index: the id in the file; an unused id has no name */
K_TABLE const k_fitter k_fitters[K_TYPE_MAX];            /* the same; zeros where the type cannot be written */

static inline __attribute__((unused)) bool k_type_ok(uint32_t id) { return id < K_TYPE_MAX && k_types[id].kind != K_KIND_NONE; }

/* The name of a type that only ik_llama.cpp has and that is not readable, for the error message; NULL: not such an id. */
K_PUBLIC const char *k_type_foreign(uint32_t id);
/* True for types that a matrix of a model may have. */
K_PUBLIC bool k_type_weight(uint32_t id);
/* The id of a format that is in use, -1: no format has that name (letter case is ignored). */
K_PUBLIC int k_type_by_name(const char *name);
/* Bytes of a row of n weights; 0: a removed type, an incomplete block, or more than a size_t holds. */
K_PUBLIC size_t k_row_bytes(uint32_t id, int64_t n);
/* dst = n values of a row, from value `at` on, both multiples of the block. */
K_PUBLIC void k_dequant_part(uint32_t id, const void *row, int64_t at, float *dst, int64_t n);
/* The largest finite magnitude that a type can represent. Slow: it quantises values to find out. */
K_PUBLIC float k_most(uint32_t id);

/* --- CPU dispatch: a level is a set of kernels --- */

/* Chooses the level; to be called before any thread starts. NULL and "auto": the fastest. False: an unknown name, or this CPU
 * does not support it; then the level stays. */
K_PUBLIC bool k_init(const char *level);
/* The level in use; before k_init it is the scalar one. */
K_PUBLIC const char *k_level_name(void);
/* Columns of activations that its tiles of quantised weights multiply at a time, where a trial on this processor chose them
 * (avx512, avx512_bf16); 0: at the other levels. */
K_PUBLIC int k_tile_columns(void);
/* The number of levels in this build. Writes the name of each, and whether this CPU supports it; either array may be NULL. */
K_PUBLIC int k_levels_list(const char **names, bool *can);
/* The processor that this program is compiled for, and the names of its levels. */
typedef enum { K_OTHER_MACHINE, K_X86_64, K_AARCH64 } k_machine;
#if K__X86
#define K_MACHINE K_X86_64
#define K_LEVEL_NAMES "scalar|avx2|avx_vnni|avx512|avx512_bf16|avx512_amx"
#elif defined(__aarch64__)
#define K_MACHINE K_AARCH64
#define K_LEVEL_NAMES "scalar|neon|i8mm"
#else
#define K_MACHINE K_OTHER_MACHINE
#define K_LEVEL_NAMES "scalar"
#endif
/* Every thread calls it before it computes: it makes the CPU treat denormals as zero. */
K_PUBLIC void k_thread_start(void);

/* For the body of a loop that waits. */
static inline __attribute__((unused)) void k_pause(void) {
#if K__X86
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");                             /* some tens of cycles; yield does nothing on most cores */
#endif
}

/* --- products of weights and activations --- */

/* Number formats of activations; each has kernels of its own. */
typedef enum { K_ACT_F32, K_ACT_BF16, K_ACT_I8, K_ACTS } k_act_kind;

enum { K_FORM_FINE = 1 << K_ACTS };                      /* beside 1 << K_ACT_I8: outliers from a lower magnitude on */

/* Sums of the codes of one block of 256; a shorter block is padded with zeros. The last two bound the dots of a group. */
typedef struct {
    int16_t of16[16];                                    /* of each 16 codes */
    int16_t of32[8];                                     /* of each 32, in the order of minima: 0 2 1 3 4 6 5 7 */
    int16_t most16;                                      /* the largest sum of magnitudes of 16 */
    int16_t most32;                                      /* the largest magnitude of a sum of codes of one sign among 32 */
} k_sums;

/* Memory that is read after a product: n runs of whole cache lines. */
typedef struct { const uint8_t *at; int lines; } k_run;
typedef struct {
    const k_run *run;                                    /* [n] */
    int          n;
    int          lines;                                  /* of all */
} k_soon;

/* Rows of activations: row t of a product is row idx ? idx[t] : t of the arrays. A quantised row with outliers is the sum of two
 * rows: where split[r] is set, row r + rest holds the outliers of row r, and zeros. */
typedef struct {
    const float    *x;                                   /* [rows][ldx] for f32 and f16 weights */
    size_t          ldx;                                 /* values between rows of x and of h */
    const uint16_t *h;                                   /* [rows][ldx] rounded to bf16, for weights of bf16 and K_F16_ROUND */
    const int8_t   *q;                                   /* [rows][ldq] codes, for quantised weights */
    size_t          ldq;                                 /* codes between rows */
    const k_sums   *sum;                                 /* [rows][ldd] sums of each block of 256 codes */
    const float    *d;                                   /* [rows][ldd] scales of each block */
    size_t          ldd;                                 /* blocks between rows */
    const uint8_t  *split;                               /* [rows], NULL: no row is split */
    const int32_t  *idx;                                 /* [nt] rows of the arrays; NULL: 0, 1, ... */
    int             rest;                                /* rows from a split one to that of its outliers */
    int             nt;                                  /* rows of the product */
    const k_soon   *soon;                                /* what it prefetches, on CPUs; NULL: nothing */
} k_acts;

/* The number format of the activations that weights of a type are multiplied with. */
K_PUBLIC k_act_kind k_act_of(uint32_t type);
/* Whether that is K_ACT_I8. */
K_PUBLIC bool k_wants_q8(uint32_t type);
/* What rows of activations need for weights of a type: 1 << K_ACT_F32 ..., and K_FORM_FINE for Q8_0, Q5_0, Q5_1 and Q4_1, whose
 * users expect little loss: there the rounding of activations is a large part of it. Prefill pays some 5 % for the finer limit. A
 * row that several matrices read is rounded once, as the finest of them wants it. */
K_PUBLIC unsigned k_forms_of(uint32_t type);
/* Quantises x[n], n % 32 == 0, in blocks of 256 with one scale, 127 for the largest magnitude: codes to q[n], sums and scales to
 * sum and d [(n + 255)/256]. fine: for K_FORM_FINE. True: the row may have outliers ([far]). Their codes and scales are the row
 * that lies `rest` rows of ldq codes after, and a list of them lies where the codes 2 rest rows after would be: q has three times
 * the rows, d twice. ldq is a multiple of 256, q is aligned to 4. */
K_PUBLIC bool k_quant_act(const float *x, int n, bool fine, int8_t *q, k_sums *sum, float *d, size_t ldq, int rest);
/* Size of a transform for rows of n values: the largest power of two that divides n, up to 256. 1: no transform. */
K_PUBLIC int k_hadamard_size(int n);
/* Walsh-Hadamard transform of each run of `size` values, its own inverse. */
K_PUBLIC void k_hadamard(float *x, int n, int size);
/* True where products with few columns are many times slower in file order than packed. */
K_PUBLIC bool k_slow_unpacked(uint32_t type);
/* Scratch of one thread for k_mul_rows and k_mul_packed with rows of up to n_max weights. */
K_PUBLIC size_t k_scratch_bytes(int n_max);
/* The number of weight rows of one task that is fastest, for nt columns. */
K_PUBLIC int k_rows_step(uint32_t type, int nt);
/* y[t*ldy + r] = row r of the weights times activation row t, for nr rows of n weights, row_bytes apart. scratch:
 * k_scratch_bytes(n) bytes, of any alignment. */
K_PUBLIC void k_mul_rows(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy,
                         void *scratch);
/* Bytes of nr packed rows of n weights; 0: not packed (no packed layout for the type, an incomplete block, too many bytes). */
K_PUBLIC size_t k_pack_bytes(uint32_t type, int64_t nr, int64_t n);
/* Offset of packed row r; r is a multiple of 16. */
K_PUBLIC size_t k_pack_at(uint32_t type, int r, int n);
/* Packs nr rows of n weights, row_bytes apart, into k_pack_bytes(type, nr, n) bytes at dst; that number must not be 0. */
K_PUBLIC void k_pack_rows(uint32_t type, const void *src, size_t row_bytes, int nr, int n, void *dst);
/* k_mul_rows for rows that k_pack_rows wrote; the first of the nr rows is at `packed`. */
K_PUBLIC void k_mul_packed(uint32_t type, const void *packed, int nr, int n, const k_acts *a, float *y, size_t ldy,
                           void *scratch);

/* --- a step on a GPU ---
 * Kernels take one of the structs below. What host and kernels share exists once, here. All pointers are the device's but where a
 * field says so; all threads of a block are K_CUDA_THREADS. What changes from step to step, kernels read from the step in the
 * device's memory: their arguments stay the same, so launches can be recorded. No struct has padding, so that every word of an
 * argument is a field; spare fields are 0. */

enum { K_CUDA_THREADS = 256, K_CUDA_COLS = 8, K_CUDA_MANY_ROWS = 64, K_CUDA_MANY_COLS = 64 };

#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#endif

/* What a step does with the recurrent state of a sequence. */
typedef struct {
    int32_t in;                                          /* slot that is read, -1: zeros */
    int32_t out;                                         /* slot that is written: both may be the same; -1: no states */
    int32_t at;                                          /* position at which the first is */
    int32_t to;                                          /* position at which the second will be */
    int32_t snap;                                        /* a slot that is to be at another position, -1: none */
    int32_t snap_at;                                     /* that position: after `at`, at most one after the last row */
} k_turn;

/* The rows of one step. Those of one sequence are together in rising position. Plain numbers: the bytes of a batch are the
 * same in every process. */
typedef struct {
    int32_t  n;                                          /* rows */
    int32_t  n_out;                                      /* of them, those that ask for something */
    int32_t  n_seq;                                      /* sequences */
    int32_t  n_group;                                    /* groups of the cache */
    int32_t *token;                                      /* [n]; not on a GPU */
    int32_t *pos;                                        /* [n] */
    int32_t *seq;                                        /* [n] number of the row's sequence in this batch */
    uint8_t *want;                                       /* [n] what a row asks for, a mask; 0: nothing; not on a GPU */
    int32_t *table;                                      /* block numbers by position, for each sequence and group; -1: gone */
    size_t  *table_at;                                   /* [n_seq * n_group + 1] where the table of each begins */
    k_turn  *turn;                                       /* [n_seq] of models with recurrent states */
    int32_t *source;                                     /* [n_seq] positions that an encoder reads; not on a GPU */
} k_batch;

/* Rows of a set: 0, all rows of the batch; 1, those that ask for something. Row r of a set is row row[set][r] of the batch. */
typedef struct {
    k_batch        b;
    int32_t        n[2];                                 /* rows of each set */
    const int32_t *row[2];                               /* [n of the set] */
    const int32_t *end;                                  /* [b.n] the position after the last row of the row's sequence */
    const int32_t *seq_at;                               /* [b.n_seq + 1] first row of each sequence; of models with states */
} k_cuda_step;

/* Rows of a buffer. */
typedef struct {
    float *x;                                            /* [rows, ld] */
    size_t ld;
} k_cuda_buf;

struct k_blocks;

/* Where keys and values of one layer lie in the blocks of its group: K, then V, each [head][position][bytes of one head]. */
typedef struct {
    const struct k_blocks *mem;                          /* the host's, which defines it; kernels have NULL */
    uint8_t *base;                                       /* of block 0, on a GPU */
    size_t   block_bytes;                                /* between two blocks, on a GPU */
    size_t   k_at;                                       /* bytes from the block's start */
    size_t   v_at;                                       /* bytes from the block's start */
    size_t   k_stride;                                   /* bytes of one position of one head */
    size_t   v_stride;                                   /* bytes of one position of one head */
    int      group;                                      /* whose tables of block numbers name the blocks */
    int      block;                                      /* positions of a block */
    int      n_head;                                     /* K/V heads */
    int      hd_k;                                       /* values of one head */
    int      hd_v;                                       /* values of one head */
    int      hadamard_k;                                 /* values of one transform; 1: stored as they are */
    int      hadamard_v;                                 /* values of one transform; 1: stored as they are */
    uint32_t type_k;
    uint32_t type_v;
    int      shared;                                     /* latent attention: values are the first hd_v of a key, and
                                                          * hadamard_k is that of the rest of it */
} k_kv_place;

/* Where the state of one recurrent layer lies in a slot, a block of the group of states; all of it float32. A slot is at a
 * position s: its sums have taken in the positions before s, and its log holds what the positions from s on are to bring, so
 * that these can be taken back. The inputs of position p lie in row p % (taps - 1 + log) of the ring, which also has the
 * last taps - 1 before s; gates in row p % log. */
typedef struct {
    const struct k_blocks *mem;                          /* the host's, which defines it; kernels have NULL */
    uint8_t *base;                                       /* of slot 0, on a GPU */
    size_t   slot_bytes;                                 /* between two slots, on a GPU */
    size_t   ring_at;                                    /* bytes from the slot's start: inputs [taps - 1 + log][width] */
    size_t   gate_at;                                    /* the same: gates [log][n_gate[0] + n_gate[1]] */
    size_t   sum_at;                                     /* the same: sums [n_v][d_k * d_v], of each head strips of
                                                          * K_DELTA_COLS columns, one after the other */
    int      group;                                      /* of the cache */
    int      taps;                                       /* of the convolution */
    int      width;                                      /* channels of the convolution */
    int      log;                                        /* rows of the log */
    int      n_k;                                        /* heads of keys */
    int      n_v;                                        /* heads of values; 0: a convolution alone */
    int      d_k;                                        /* values of a key */
    int      d_v;                                        /* values of a value head */
    int      n_gate[2];                                  /* values of the gates of a position: first ones, second ones */
} k_state_place;

/* k_mul_packed on a GPU, and k_mul_rows for floats: y[t*ldy + r] = row r of the weights times activation row t. Grid: (nr +
 * 15) / 16 times (nt + K_CUDA_COLS - 1) / K_CUDA_COLS, or more. Quantised weights are as k_cuda_pack writes them, aligned to
 * 16; rows of floats to the size of a float, a.q to 4; a.ldq is a multiple of 4. */
typedef struct {
    const uint8_t *w;
    size_t         row_bytes;                            /* of rows of floats */
    k_acts         a;
    const int32_t *nt;                                   /* where the number of columns is; NULL: a.nt */
    float         *y;                                    /* [nt, ldy] */
    size_t         ldy;
    int            nr;                                   /* rows of weights */
    int            n;                                    /* values of a row */
    const int32_t *tiles;                                /* of experts (k_cuda_sort_args), NULL: one matrix. Columns are slots,
                                                          * a.nt is not used, k_cuda_tiles() is the columns' part of the grid */
    size_t         mat_bytes;                            /* between the matrices of two experts or heads */
    const float   *scales;                               /* factor of each expert or head; NULL: none */
    float          scale;                                /* factor on the results; 0: none */
    int            heads;                                /* matrices, one for each head; 0: one. Rows of a head lie after
                                                          * those of the one before; so many times the grid's columns */
    int            step;                                 /* between the results of two heads in a row of y */
    uint32_t       values[4];                            /* this and what follows: k_cuda_mul_of */
    int            off;
    float          factor;
    int            spare;
} k_cuda_mul;

/* The name of the kernel for weights of a type, and what it reads of the type's form; NULL: there is none. `many`: of that
 * for many columns, of quantised weights alone, with a grid of (nr + K_CUDA_MANY_ROWS - 1) / K_CUDA_MANY_ROWS times (nt +
 * K_CUDA_MANY_COLS - 1) / K_CUDA_MANY_COLS. */
K_PUBLIC const char *k_cuda_mul_of(uint32_t type, bool many, k_cuda_mul *m);
/* The name of the kernel for weights of floats by tensor cores, for few or for many columns, with the grids above; NULL: no
 * floats. Results have not the bits of the CPU, but the same ones for any number of columns. */
K_PUBLIC const char *k_cuda_tensor_of(uint32_t type, bool many);

/* --- rows on a GPU --- */

typedef enum {
    K_ROW_NORM, K_ROW_BIAS, K_ROW_ADD, K_ROW_SCALE, K_ROW_CAP, K_ROW_CLAMP, K_ROW_PICK, K_ROW_ROPE, K_ROW_HADAMARD, K_ROW_STORE,
    K_ROW_FORM, K_ROW_ACTIVATE, K_ROW_GATE, K_ROW_ADD_SCALED, K_ROW_SCALE_BY, K_ROW_WEIGH, K_ROW_MUL, K_ROW_SPARSE, K_ROW_BLEND,
    K_ROW_CORRECT, K_ROW_RAISE, K_ROW_LEVEL, K_ROW_ROUTE, K_ROW_MIX, K_ROW_CONV, K_ROW_KEEP, K_ROW_DEAL,
    K_ROW_XIELU, K_ROW_LERP, K_ROW_ADD_HEADS, K_ROW_FAMILY, K_ROW_SHIFT, K_ROW_KINDS
} k_row_kind;

typedef enum {
    K_NORM_RMS,                                          /* x / its root mean square */
    K_NORM_LAYER,                                        /* (x - mean) / its deviation */
    K_NORM_L2                                            /* x / its length */
} k_norm_kind;

/* Parameters of operations, by kind. */
typedef struct {
    int stride;                                          /* values of a head in in[0] */
    int at;                                              /* where the wanted ones begin there */
    int to;                                              /* where they begin in out */
    int step;                                            /* between those of two heads in out; 0: they lie side by side */
} k_row_pick;

enum {
    K_ROPE_PAIRS,                                        /* values 2i and 2i + 1 */
    K_ROPE_HALVES,                                       /* values i and i + n_rot/2 */
    K_ROPE_TO_PAIRS,                                     /* as K_ROPE_HALVES, then value i goes to 2i, i + hd/2 to 2i + 1 */
    K_ROPE_HEAD = 1024                                   /* most values of a head for K_ROPE_TO_PAIRS */
};

typedef struct {
    int n_rot;                                           /* values that it rotates, of each head */
    int at;                                              /* where its angles begin in a row of in[0] */
    int skip;                                            /* values of a head before those that it rotates */
    int form;                                            /* which two make a pair: K_ROPE_PAIRS and its neighbours */
} k_row_rope;

typedef struct {
    int a;                                               /* where the values begin in a row of in[0] */
    int b;                                               /* the same of in[1] */
    int to;                                              /* the same of out */
} k_row_mul;

/* xIELU (Huang 2024): p x^2 + beta x above 0, else n (exp(min(x, eps)) - 1 - x) + beta x. */
typedef struct {
    float n;                                             /* curvature below 0 */
    float p;                                             /* above 0 */
    float beta;                                          /* slope at 0 */
    float eps;                                           /* negative inputs count as this at most */
} k_row_xielu;

/* How a router makes scores of its logits. K_ROUTE_TWO: two experts, each of a choice of its own among the logits (SparseMixer:
 * Liu et al. 2024), its weight the softmax of those that are less than 2 K_ROUTE_JITTER of their size below the best. */
typedef enum { K_ROUTE_SOFTMAX, K_ROUTE_SIGMOID, K_ROUTE_TWO } k_router;
#define K_ROUTE_JITTER 0.01f                             /* of Phi 3.5 MoE: no file has it */

/* One operation for every row of a set: what llmrun's operation of that name does, with the same bits. */
typedef struct {
    k_row_kind   kind;
    int          set;                                    /* of rows */
    int          each;                                   /* tasks for each row: as many rows in the buffers */
    int          beside;                                 /* the first operation of another chain */
    unsigned     gathers;                                /* mask of the inputs that hold all rows: row r is row row[1][r] there */
    int          n;                                      /* values of a vector */
    int          n_head;                                 /* vectors of a row */
    float        scale;
    k_cuda_buf   in[3], out;
    const float *vec, *bias;                             /* [n] or NULL */
    union {
        k_norm_kind norm;
        int         act;                                 /* a k_act_fn, K_ROW_CLIP: k_swiglu_clip with 7 and 1.702 */
        struct {                                         /* K_ROW_HADAMARD */
            int size;                                    /* values of one transform */
            int tail;                                    /* the same of the values of a head from `at` on */
            int at;                                      /* 0: all are of the first size */
        } hadamard;
        int         to;                                  /* K_ROW_LEVEL: where its output begins */
        int         active;                              /* K_ROW_CORRECT: the stream that blocks read */
        k_row_pick  pick;
        k_row_rope  rope;
        k_row_mul   mul;
        k_row_xielu xielu;
        int         share;                               /* K_ROW_FAMILY: experts of a group */
        struct {                                         /* of n experts; out: their numbers, int32_t */
            k_cuda_buf weight;                           /* their weights */
            int        used;                             /* experts of a row */
            int        norm;                             /* weights sum to 1 */
            k_router   router;
            int        groups;                           /* that lie side by side; 0, 1: all are one */
            int        groups_used;                      /* of these, groups that a row chooses from */
            int        alone;                            /* a group has the score of its best, not the sum of the best two */
        } route;
        struct {                                         /* K_ROW_BIAS, K_ROW_MIX, K_ROW_WEIGH */
            const int32_t *of;                           /* the expert of each slot, row of vec; NULL: vec is one row */
            int            used;                         /* slots of a row */
            int            spare;
        } experts;
        k_kv_place    kv;                                /* K_ROW_STORE: keys in[0], values in[1] */
        struct {                                         /* K_ROW_CONV, K_ROW_KEEP, K_ROW_SHIFT: inputs of all rows */
            k_state_place at;
            int           silu;                          /* K_ROW_CONV: of what it gives */
            int           spare;
        } state;
        struct {
            k_acts   a;                                  /* the arrays to fill, of which those of the wanted forms are writable */
            unsigned forms;                              /* mask of 1 << K_ACT_ */
            int      spare;
        } form;
    } u;
} k_row_op;

enum { K_CUDA_ROW_OPS = 32 };                            /* most operations of a launch */

/* The kernel k_cuda_rows: every task goes through the operations of its chain. Grid: at least as many blocks as there are
 * tasks: of each chain, n[set] * max(each, 1). */
typedef struct {
    const k_cuda_step *step;
    const k_row_op    *op;                               /* [n] chains, one after the other */
    int                n;                                /* up to K_CUDA_ROW_OPS */
    int                spare;
} k_cuda_rows_args;

/* --- recurrent layers on a GPU --- */

enum {
    K_CUDA_DELTA_COLS = 64,                              /* columns of a thread block */
    K_CUDA_DELTA_KEYS = 128,                             /* most values of a key; */
    K_CUDA_WIDE_KEYS = 256,                              /* of k_cuda_outer_wide; */
    K_CUDA_SCAN_KEYS = 64,                               /* of k_cuda_scan, */
    K_CUDA_SCAN_COLS = 32                                /* and its columns */
};

/* How a recurrent layer decays, writes and reads its state (llmrun: dev_rule). */
typedef enum { K_STATE_DELTA, K_STATE_SSD, K_STATE_SCAN, K_STATE_KDA, K_STATE_GLA, K_STATE_WKV6, K_STATE_WKV7 } k_state_rule;

/* What llmrun's operation "delta" does for all sequences of a step, by rule: k_cuda_delta, K_STATE_DELTA (k_conv and k_delta);
 * k_cuda_scan, K_STATE_SCAN (k_scan); k_cuda_outer, or for longer keys k_cuda_outer_wide, the others (k_outer). Sums go from the
 * slot that is read to the one that is written and to the snapshot; what else slots hold is K_ROW_KEEP's. Grid: at least n_seq *
 * n_v times (d_v + cols - 1) / cols, where cols is K_CUDA_DELTA_COLS, of k_cuda_scan K_CUDA_SCAN_COLS. */
typedef struct {
    const k_cuda_step *step;
    k_state_place      st;                               /* d_k <= the kernel's most values of a key */
    k_cuda_buf         in[3];                            /* inputs, and first and second gates, as the rule has them */
    k_cuda_buf         out;                              /* [n_v][d_v] */
    k_cuda_buf         share;                            /* K_STATE_WKV7: [n_v] what a query reads of its own key */
    const float       *taps;                             /* [width][taps] */
    const float       *decay;                            /* [n_v], K_STATE_SCAN: [n_v * d_v][d_k] */
    const float       *gate;                             /* what is added to the first gates */
    const float       *skip, *rate, *key[2], *shares;    /* as skip, rate, key and share of a dev_op; NULL: the rule has none */
    int                rule;                             /* a k_state_rule */
    int                grouped;                          /* neighbouring value heads share a key head */
    float              eps;                              /* of the norms of queries and keys */
    int                spare;
} k_cuda_delta_args;

/* --- choices on a GPU: experts, tokens --- */

enum { K_CUDA_EXPERTS = 1024 };                          /* most experts of a layer */

/* The kernel k_cuda_best: the number of the largest of n values in each row of a set, as k_max has it; -1: one of them is
 * not finite. Grid: n[set] times 1. */
typedef struct {
    const k_cuda_step *step;
    int                set;
    int                n;
    k_cuda_buf         x;
    int32_t           *out;                              /* [n[set]] */
} k_cuda_best_args;

/* The kernel k_cuda_sort: counting sort of the chosen experts, so that the slots of one are side by side. Row r of the set
 * has slots slot_of[r][used]. Tiles are up to K_CUDA_COLS or K_CUDA_MANY_COLS slots of one expert: their number, then
 * expert, first slot and slots of each. Grid: 1 times 1. */
typedef struct {
    const k_cuda_step *step;
    int                set;
    int                n_expert;
    int                used;                             /* experts of a row */
    int                spare;
    k_cuda_buf         pick;                             /* int32_t: the row's experts */
    k_cuda_buf         slot_of;                          /* int32_t: the row's slots */
    int32_t           *row;                              /* of each slot */
    int32_t           *expert;                           /* of each slot */
    int32_t           *tiles[2];                         /* of few columns, of many; NULL: none */
} k_cuda_sort_args;

/* The most tiles of `cols` columns that so many slots can have. */
K_PUBLIC int k_cuda_tiles(int slots, int n_expert, int cols);

/* --- attention on a GPU --- */

/* k_attn for rows of a set: segments and their merge are two kernels, k_cuda_attend and k_cuda_attend_merge. Row `first` of
 * the set is the first of up to n_rows rows; segment s of K/V head h of row first + i has its partial results at parts + ((i
 * * heads + h) * n_seg + s - (first segment that the row sees)) * k_attn_part(group, hd_v). Grid: n_rows * K/V heads *
 * k_cuda_attend_deal(group, false) times n_seg, where no row sees more segments; n_rows * K/V heads times 1 or more for the
 * merge. */
enum { K_CUDA_HEAD_K = 576, K_CUDA_HEAD_V = 512 };       /* most values of a head of queries and keys, of values */
typedef struct {
    const k_cuda_step *step;
    int                set;
    int                first;                            /* row */
    int                n_rows;                           /* rows */
    int                n_seg;                            /* segments */
    int                gathers;                          /* q holds all rows */
    int                group;                            /* query heads of a K/V head */
    int                window;                           /* positions that a row sees, 0: all */
    int16_t            all;                              /* a row sees the rows after it, too (llmrun: VIEW_ALL) */
    int16_t            chunks;                           /* it sees its chunk of `window` positions alone (llmrun: VIEW_CHUNK) */
    k_cuda_buf         q;                                /* [rows][heads * hd_k] */
    k_cuda_buf         o;                                /* [rows][heads * hd_v] */
    k_kv_place         kv;
    float              scale;                            /* of scores */
    float              cap;                              /* of scores, as softcap of k_attn_args */
    const float       *sinks;                            /* [query heads], NULL: none */
    const float       *slopes;                           /* [query heads], NULL: none */
    float             *parts;
} k_cuda_attend_args;

/* The name of the kernel of the segments. NULL: the cache has types without one. `many`: of that for many rows of a
 * sequence, which takes k_cuda_attend_rows(group) rows at a time, with a grid of (n_rows + rows - 1) / rows * K/V heads *
 * k_cuda_attend_deal(group, true) times n_seg + 1. */
K_PUBLIC const char *k_cuda_attend_of(uint32_t type_k, uint32_t type_v, bool many);
/* Rows that a thread block of that kernel takes, for `group` query heads of a K/V head. */
K_PUBLIC int k_cuda_attend_rows(int group);
/* Thread blocks among which those heads are dealt, `many` as above. */
K_PUBLIC int k_cuda_attend_deal(int group, bool many);
/* That of the kernel by tensor cores for any number of rows, with the grid of many; NULL: the cache's types have none.
 * Results have not the bits of the CPU; those of a row do not depend on the other rows. */
K_PUBLIC const char *k_cuda_attend_tensor_of(uint32_t type_k, uint32_t type_v);

/* --- packing on a GPU --- */

/* k_pack_rows on a GPU, in as many bytes, of which those of a unit have another order ([cuda]). Grid: (nr + 15) / 16 times 1
 * or more blocks, which share the columns of a strip, 1,024 at a time. */
typedef struct {
    const uint8_t *src;
    size_t         row_bytes;
    int            nr;                                   /* rows */
    int            n;                                    /* values of a row */
    uint8_t       *dst;
    size_t         block_bytes;                          /* of 256 columns in src; this and what follows: k_cuda_pack_of */
    uint32_t       type;
    int            spare;
} k_cuda_pack_args;

#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

/* The name of the kernel for a type, and what it reads of the type; NULL: the type is not packed. */
K_PUBLIC const char *k_cuda_pack_of(uint32_t type, k_cuda_pack_args *a);

/* --- vectors of floats [n]; x and y of one call may be the same, and in no other way overlap --- */

/* Root mean square norm (Zhang and Sennrich 2019): y = x / sqrt(mean of x^2 + eps) * w; w may be NULL. */
K_PUBLIC void k_rms_norm(const float *x, const float *w, float eps, int n, float *y);
/* Layer norm (Ba et al. 2016): y = (x - mean) / sqrt(variance + eps) * w + b; w and b may be NULL. */
K_PUBLIC void k_layer_norm(const float *x, const float *w, const float *b, float eps, int n, float *y);
/* x /= sqrt(sum of x^2 + eps). */
K_PUBLIC void k_l2_norm(float *x, float eps, int n);
/* Sum of a[i] * b[i], in the summation order of [vec]. */
K_PUBLIC float k_dot(const float *a, const float *b, int n);
/* For each of n values what the line says; y may be an input. */
K_PUBLIC void k_add(float *y, const float *a, const float *b, int n);          /* y = a + b */
K_PUBLIC void k_mul(float *y, const float *a, const float *b, int n);          /* y = a * b */
K_PUBLIC void k_axpy(float *y, const float *x, float s, int n);                /* y += s*x */
/* Rows of a matrix with few columns (the second of a low-rank update) lie in tiles: [row / K_LOW_TILE][column][K_LOW_TILE] */
enum { K_LOW_TILE = 32 };
/* y[i] += row first + i of b times u[rank], for i < n, one column after the other. b: tiles of f32 or f16. */
K_PUBLIC void k_add_low(uint32_t type, const void *b, int rank, const float *u, int first, int n, float *y);
K_PUBLIC void k_scale(float *y, float s, int n);                               /* y *= s */

typedef enum {
    K_SILU,                                              /* x sigmoid(x) */
    K_GELU,                                              /* the tanh form: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)) */
    K_GELU_ERF,                                          /* the exact form: x times the normal distribution function of x */
    K_SIGMOID, K_RELU,
    K_RELU2,                                             /* max(x, 0)^2 */
    K_EXP,                                               /* exp(x); denormal results are 0 */
    K_SOFTPLUS                                           /* log(1 + exp(x)) */
} k_act_fn;
enum { K_ROW_CLIP = K_SOFTPLUS + 1 };                      /* in place of a k_act_fn: k_swiglu_clip with 7 and 1.702 */

/* x = fn(x) * up for each value; up NULL: x = fn(x). */
K_PUBLIC void k_activate(k_act_fn fn, float *x, const float *up, int n);
/* gate = g sigmoid(alpha g) * (u + 1) with g = min(gate, limit) and u = up cut to [-limit, limit]: the gate of gpt-oss. */
K_PUBLIC void k_swiglu_clip(float *gate, const float *up, float limit, float alpha, int n);
K_PUBLIC void k_xielu(float *x, const k_row_xielu *of, int n);                 /* x = xIELU(x) */
/* Caps logits or scores softly: what the line says for each of n values. */
K_PUBLIC void k_cap(float *x, float cap, int n);                               /* x = cap * tanh(x / cap) */
/* Each of n values is cut to [-limit, limit]; above: to values up to limit. NaN stays. limit >= 0. */
K_PUBLIC void k_clamp(float *x, float limit, bool above, int n);
/* x = exp(x - max) / sum of them, in place. n >= 1. */
K_PUBLIC void k_softmax(float *x, int n);
/* Functions of one value. They have the same bits on every machine. */
K_PUBLIC float k_sigmoid(float x);                                             /* 1 / (1 + exp(-x)) */
K_PUBLIC float k_softplus(float x);                                            /* log(1 + exp(x)) */
K_PUBLIC float k_expf(float x);                                                /* exp(x); denormal results are 0 */
/* The maximum, which ignores NaN; -infinity: all are NaN. *arg: its first index, 0 where all are NaN; arg may be NULL. */
K_PUBLIC float k_max(const float *x, int n, int *arg);
/* Rotary position embedding (Su et al. 2021, arXiv 2104.09864) of n_heads vectors [hd], in place: the first n_rot values of each
 * as pairs, which the form says. cs: [n_rot/2][2] cos and sin of each pair. K_ROPE_TO_PAIRS: of weights whose rows are in the
 * order
 * of K_ROPE_HALVES, the result that K_ROPE_PAIRS has of weights with permuted rows, to the bit; hd is at most K_ROPE_HEAD. */
K_PUBLIC void k_rope(float *x, int n_heads, int hd, int n_rot, int form, const float *cs);

/* --- recurrent layers --- */

enum { K_CONV_TAPS = 16 };                               /* the most taps of k_conv */

/* Causal convolution, a filter for each of n channels: y[t*ldy + c] = bias[c] + sum over j of w[c*taps + j] * x[t + j][c], for
 * rows 0 <= t < n_rows, then SiLU where `silu`. x: n_rows + taps - 1 rows of inputs, NULL: a row of zeros. bias may be NULL. */
K_PUBLIC void k_conv(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y,
                     size_t ldy);

/* The gated delta rule (Yang et al. 2024, arXiv 2412.06464) of one value head, for n_pos >= 1 positions in order. At each of
 * them, with vectors q[d_k], k[d_k], v[n], o[n] and numbers decay and beta:
 *     x = beta * (v - decay * S^T k);  S = decay * S + k x^T;  o = S^T q
 * Columns of S are independent. Any split into calls of fewer positions or columns gives the same bits. */
typedef struct {
    float       *s;                                      /* the state [d_k][ld_s], changed in place */
    const float *q, *k;                                  /* [n_pos][ld_qk]; rows of q that give no o are not read */
    const float *v;                                      /* [n_pos][ld_v] */
    const float *decay, *beta;                           /* [n_pos][ld_gate], one value of each row */
    float       *o;                                      /* [n_pos - fold][ld_o] */
    size_t       ld_s, ld_qk, ld_v, ld_gate, ld_o;       /* floats between rows */
    int          d_k, n;                                 /* rows and columns of S */
    int          n_pos;
    int          fold;                                   /* so many positions, the first ones, only change the state */
    bool         peek;                                   /* the last position does not change it: of one, s is only read */
} k_delta_args;

/* A state of [d_k][K_DELTA_COLS], with as many columns in a call, is read as one stream, and stays in L1. */
enum { K_DELTA_COLS = 32 };
/* All positions of the arguments, the results to a->o and a->s. */
K_PUBLIC void k_delta(const k_delta_args *a);

/* A matrix S that is decayed and written to at each of n_pos >= 1 positions, in order: the state of Mamba-2 (Dao and Gu 2024),
 * of linear attention with a decay for each channel, of RWKV-6 and 7. At each position, with vectors q, p, k, r, w [d_k] and
 * v, o [n] and numbers beta, kq, rq:
 *     u = S^T p;  x = beta * (v - u), with r: -beta * u;  o = S^T q + kq x + rq v;  S = w S + k x^T + r v^T
 * where w S scales row j by w[j]. So q reads the state before the position, and kq and rq are what it reads of that one.
 * Columns of S are independent. Any split into calls of fewer positions or columns gives the same bits. */
typedef struct {
    float       *s;                                      /* the state [d_k][ld_s], changed in place */
    const float *q;                                      /* [n_pos][ld]; rows that give no o are not read */
    const float *p;                                      /* [n_pos][ld], NULL: u is 0 */
    const float *k, *w;                                  /* [n_pos][ld] */
    const float *r;                                      /* [n_pos][ld], NULL: none */
    const float *v;                                      /* [n_pos][ld_v] */
    const float *beta, *kq, *rq;                         /* [n_pos] */
    float       *o;                                      /* [n_pos - fold][ld_o] */
    size_t       ld_s, ld, ld_v, ld_o;                   /* floats between rows */
    int          d_k, n;                                 /* rows and columns of S */
    int          n_pos;
    int          fold;                                   /* so many positions, the first ones, only change the state */
    bool         peek;                                   /* the last position does not change it */
} k_outer_args;

/* All positions of the arguments, the results to a->o and a->s. */
K_PUBLIC void k_outer(const k_outer_args *a);

/* The selective scan of Mamba (Gu and Dao 2023): n channels with d_k values of state each, n_pos >= 1 positions in order. At
 * each of them, with vectors q, k [d_k] and for each channel c numbers v, dt:
 *     S_c = exp(dt a_c) S_c + k dt v;  o = S_c . q + skip_c v
 * Sums have eight lanes: lane l adds values l, l + 8, ... in order; then the upper half of the lanes is added to the lower. */
typedef struct {
    float       *s;                                      /* [n][d_k], changed in place */
    const float *a;                                      /* [n][d_k] */
    const float *q, *k;                                  /* [n_pos][ld]; rows of q that give no o are not read */
    const float *v, *dt;                                 /* [n_pos][ld_v] */
    const float *skip;                                   /* [n] */
    float       *o;                                      /* [n_pos - fold][ld_o] */
    size_t       ld, ld_v, ld_o;                         /* floats between rows */
    int          d_k, n;
    int          n_pos;
    int          fold;                                   /* so many positions, the first ones, only change the state */
    bool         peek;                                   /* the last position does not change it */
} k_scan_args;

/* All positions of the arguments, the results to a->o and a->s. */
K_PUBLIC void k_scan(const k_scan_args *a);

/* --- cache and attention --- */

/* One query row, which sees positions begin <= p < end. The result goes to o[hd_v]: zeros where it sees none. */
typedef struct {
    const float *q;                             /* [hd_k] */
    float       *o;                             /* [hd_v] */
    int64_t      begin, end;
    int64_t      at;                            /* its own position, for slopes and biases */
    const float *bias;                          /* [2 * reach + 1] where the call has a reach: see there */
} k_attn_row;

/* Query rows that share one K/V head: the query heads of its group, of some tokens of a sequence. */
typedef struct {
    int               n_rows;
    const k_attn_row *rows;                     /* [n_rows] */
    int               hd_k, hd_v;               /* even; quantised heads are padded to whole blocks: k_kv_bytes() */
    float             scale, softcap;           /* s = scale * q.k; softcap 0: off, else cap*tanh(s/cap) */
    const float      *sinks;                    /* [n_rows] attention sinks: an extra logit in the denominator, or NULL */
    const float      *slopes;                   /* [n_rows] ALiBi: s -= slope * |position - at|, after the cap; or NULL */
    int               reach;                    /* > 0: bias[reach + position - at] of a row, the index cut to 0 .. 2 * reach, is
                                                 * added to q.k before the scale (T5); K and V are then multiplied as floats or
                                                 * bf16, whatever their types. 0: there are no biases */
    uint32_t          type_k, type_v;           /* f32 f16 bf16 q8_0 q4_0 */
    const uint8_t *const *k_blocks, *const *v_blocks;   /* [position / block] address of a block; NULL: before the window */
    int               block;                    /* positions per block, any >= 1 */
    size_t            k_stride, v_stride;       /* bytes between positions inside a block */
} k_attn_args;

/* Bytes of n values in the cache: whole blocks. */
K_PUBLIC size_t k_kv_bytes(uint32_t type, int n);
/* Stores n values of a head in k_kv_bytes(type, n) bytes; the last block is padded with zeros. Scales of q4_0 are fitted. */
K_PUBLIC void k_kv_store(uint32_t type, const float *x, void *dst, int n);
/* The number format in which attention multiplies keys or values of this type; other: that of the values or keys beside them. */
K_PUBLIC k_act_kind k_kv_act(uint32_t type, uint32_t other);
/* Bytes of scratch of one thread for k_attn and k_attn_segment. */
K_PUBLIC size_t k_attn_scratch(int n_rows, int hd_k, int hd_v);
/* o = softmax(scale q.k) v of all rows, with the maximum and the sum carried from block to block (online softmax, Milakov and
 * Gimelshein 2018, as in FlashAttention, Dao et al. 2022). scratch: k_attn_scratch() bytes, of any alignment. */
K_PUBLIC void k_attn(const k_attn_args *a, void *scratch);

/* Products of queries and keys alone, for those who choose positions by them. k_attn_ask() makes scratch ready for the rows; then
 * k_attn_products() gives s[r * 32 + i] = q.k of row r and position base + i, for base a multiple of 32 and base + i below the
 * ends of all rows; others are anything. s is aligned to 64 and has space for n_rows rounded up to 8; hd_v is 0. */
K_PUBLIC void k_attn_ask(const k_attn_args *a, void *scratch);
K_PUBLIC void k_attn_products(const k_attn_args *a, int64_t base, float *s, void *scratch);

/* The same in two steps, so that several threads can share the positions of one call: segment s is positions
 * [s * K_SEGMENT, (s + 1) * K_SEGMENT), each is computed by one thread, in any order, and the merge goes in rising order. k_attn
 * does just this, so the results have the same bits. */
enum { K_SEGMENT = 512 };
/* Floats that hold the partial results of n_rows rows in one segment: a multiple of 16. */
K_PUBLIC size_t k_attn_part(int n_rows, int hd_v);
/* The partial results of segment s to `part`, aligned to 64. */
K_PUBLIC void k_attn_segment(const k_attn_args *a, int64_t s, float *part, void *scratch);
/* Row r's result from the partial results of n >= 1 segments, which lie one after the other, k_attn_part() floats each. */
K_PUBLIC void k_attn_merge(const k_attn_args *a, int r, const float *parts, int n);

/* --- limits of the machine, for benchmarks --- */

enum { K_PROBE_BYTES = 8192 };                           /* one half for each operand */

typedef struct {
    uint64_t (*read)(const void *p, size_t n);           /* reads n bytes in order; p aligned to 64, n % 512 == 0 */
    uint64_t (*mul[K_ACTS])(const void *x, int n);       /* n rounds; x: K_PROBE_BYTES of small numbers, aligned to 64 */
    int      round[K_ACTS];                              /* products of one round */
} k_probe;

/* The loops of the current level. */
K_PUBLIC const k_probe *k_probe_get(void);
