/* ===== [sha] SHA-256 and SHA-1 (FIPS 180-4) of bytes that come in pieces =====
 * What hubs name files by: large ones by SHA-256, the others as git does, by SHA-1. The result does not depend on how the bytes
 * are cut.
 * Public: sha_begin, sha_add, sha_end. */

typedef enum { SHA_1, SHA_256 } sha_kind;

enum { SHA_BLOCK = 64, SHA_HEX = 64, SHA_1_HEX = 40 };      /* bytes of a block; digits of a sum; of SHA-1 */

typedef struct {
    sha_kind kind;
    uint32_t h[8];                                    /* 5 of SHA-1 */
    uint64_t n;                                       /* bytes so far, below 2^61 */
    uint8_t  block[SHA_BLOCK];                        /* its first n % SHA_BLOCK bytes wait for others */
} sha;

static const uint32_t sha__k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t sha__rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* The 16 words of a block; the machine is little-endian. */
static inline void sha__words(const uint8_t *p, uint32_t w[16]) {
    memcpy(w, p, SHA_BLOCK);
    for (int i = 0; i < 16; i++) w[i] = __builtin_bswap32(w[i]);
}

static void sha__blocks_1(uint32_t s[5], const uint8_t *p, size_t n_blocks) {
    static const uint32_t k[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    for (; n_blocks; n_blocks--, p += SHA_BLOCK) {
        uint32_t w[16], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4];
        sha__words(p, w);
        for (int i = 0; i < 80; i++) {
            const uint32_t f = i < 20 ? d ^ (b & (c ^ d)) : i >= 40 && i < 60 ? (b & c) | (d & (b | c)) : b ^ c ^ d;
            if (i >= 16)
                w[i & 15] = sha__rotate(w[(i + 13) & 15] ^ w[(i + 8) & 15] ^ w[(i + 2) & 15] ^ w[i & 15], 31);
            const uint32_t t = sha__rotate(a, 27) + f + e + k[i / 20] + w[i & 15];
            e = d, d = c, c = sha__rotate(b, 2), b = a, a = t;
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e;
    }
}

/* One round of SHA-256, which changes d and h alone: the names of the others move on by one from round to round. */
static inline void sha__round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g, uint32_t *h,
                                 uint32_t kw) {
    const uint32_t s1 = sha__rotate(e, 6) ^ sha__rotate(e, 11) ^ sha__rotate(e, 25), choice = g ^ (e & (f ^ g));
    const uint32_t s0 = sha__rotate(a, 2) ^ sha__rotate(a, 13) ^ sha__rotate(a, 22), most = (a & b) | (c & (a | b));
    const uint32_t t = *h + s1 + choice + kw;
    *d += t;
    *h = t + s0 + most;
}

/* The next word of the message schedule, in a ring of 16. */
static inline uint32_t sha__word(uint32_t w[16], int i) {
    const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
    return w[i & 15] += (sha__rotate(x, 7) ^ sha__rotate(x, 18) ^ x >> 3) + w[(i + 9) & 15] +
                        (sha__rotate(y, 17) ^ sha__rotate(y, 19) ^ y >> 10);
}

static void sha__blocks_256(uint32_t s[8], const uint8_t *p, size_t n_blocks) {
    for (; n_blocks; n_blocks--, p += SHA_BLOCK) {
        uint32_t w[16], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        sha__words(p, w);
        for (int i = 0; i < 64; i += 8) {
            const uint32_t *k = sha__k + i;
            uint32_t        x[8];
            for (int j = 0; j < 8; j++) x[j] = k[j] + (i < 16 ? w[i + j] : sha__word(w, i + j));
            sha__round(a, b, c, &d, e, f, g, &h, x[0]);
            sha__round(h, a, b, &c, d, e, f, &g, x[1]);
            sha__round(g, h, a, &b, c, d, e, &f, x[2]);
            sha__round(f, g, h, &a, b, c, d, &e, x[3]);
            sha__round(e, f, g, &h, a, b, c, &d, x[4]);
            sha__round(d, e, f, &g, h, a, b, &c, x[5]);
            sha__round(c, d, e, &f, g, h, a, &b, x[6]);
            sha__round(b, c, d, &e, f, g, h, &a, x[7]);
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
    }
}

static void sha__blocks(sha *s, const uint8_t *p, size_t n_blocks) {
    (s->kind == SHA_1 ? sha__blocks_1 : sha__blocks_256)(s->h, p, n_blocks);
}

/* The sum of no bytes. */
static void sha_begin(sha *s, sha_kind kind) {
    static const uint32_t first[2][8] = {
        {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
        {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    *s = (sha){.kind = kind};
    memcpy(s->h, first[kind], sizeof s->h);
}

/* Takes the next n bytes. */
static void sha_add(sha *s, const void *bytes_in, size_t n) {
    const uint8_t *p = bytes_in;
    const size_t   had = s->n % SHA_BLOCK;
    s->n += n;
    if (had) {
        const size_t some = min_size(n, SHA_BLOCK - had);
        memcpy(s->block + had, p, some);
        if (had + some < SHA_BLOCK) return;
        sha__blocks(s, s->block, 1);
        p += some, n -= some;
    }
    sha__blocks(s, p, n / SHA_BLOCK);
    if (n % SHA_BLOCK) memcpy(s->block, p + n / SHA_BLOCK * SHA_BLOCK, n % SHA_BLOCK);
}

/* Writes the sum of all bytes as 64 hexadecimal digits in lower case, of SHA-1 as 40, and a NUL. */
static void sha_end(sha *s, char hex[SHA_HEX + 1]) {
    static const uint8_t pad[SHA_BLOCK] = {0x80};
    const uint64_t       bits = __builtin_bswap64(8 * s->n);
    sha_add(s, pad, 1 + (2 * SHA_BLOCK - 9 - s->n % SHA_BLOCK) % SHA_BLOCK);
    sha_add(s, &bits, sizeof bits);
    for (int i = 0; i < (s->kind == SHA_1 ? 5 : 8); i++) snprintf(hex + 8 * i, 9, "%08x", s->h[i]);
}
