/* ===== [sha256] SHA-256 (FIPS 180-4) of bytes that come in pieces =====
 * What hubs name files by. The result does not depend on how the bytes are cut.
 * Public: sha256_begin, sha256_add, sha256_end.
 * Opens: sha256. */

enum { SHA256_BLOCK = 64, SHA256_HEX = 64 };          /* bytes of a block; digits of a sum */

typedef struct {
    uint32_t h[8];
    uint64_t n;                                       /* bytes so far, below 2^61 */
    uint8_t  block[SHA256_BLOCK];                     /* its first n % SHA256_BLOCK bytes wait for others */
} sha256;

static const uint32_t sha256__k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t sha256__rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* One round, which changes d and h alone: the names of the others move on by one from round to round. */
static inline void sha256__round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g, uint32_t *h,
                                 uint32_t kw) {
    const uint32_t s1 = sha256__rotate(e, 6) ^ sha256__rotate(e, 11) ^ sha256__rotate(e, 25), choice = g ^ (e & (f ^ g));
    const uint32_t s0 = sha256__rotate(a, 2) ^ sha256__rotate(a, 13) ^ sha256__rotate(a, 22), most = (a & b) | (c & (a | b));
    const uint32_t t = *h + s1 + choice + kw;
    *d += t;
    *h = t + s0 + most;
}

/* The next word of the message schedule, in a ring of 16. */
static inline uint32_t sha256__word(uint32_t w[16], int i) {
    const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
    return w[i & 15] += (sha256__rotate(x, 7) ^ sha256__rotate(x, 18) ^ x >> 3) + w[(i + 9) & 15] +
                        (sha256__rotate(y, 17) ^ sha256__rotate(y, 19) ^ y >> 10);
}

static void sha256__blocks(uint32_t s[8], const uint8_t *p, size_t n_blocks) {
    for (; n_blocks; n_blocks--, p += SHA256_BLOCK) {
        uint32_t w[16], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        for (int i = 0; i < 16; i++) {
            memcpy(&w[i], p + 4 * i, 4);
            w[i] = __builtin_bswap32(w[i]);           /* the machine is little-endian */
        }
        for (int i = 0; i < 64; i += 8) {
            const uint32_t *k = sha256__k + i;
            uint32_t        x[8];
            for (int j = 0; j < 8; j++) x[j] = k[j] + (i < 16 ? w[i + j] : sha256__word(w, i + j));
            sha256__round(a, b, c, &d, e, f, g, &h, x[0]);
            sha256__round(h, a, b, &c, d, e, f, &g, x[1]);
            sha256__round(g, h, a, &b, c, d, e, &f, x[2]);
            sha256__round(f, g, h, &a, b, c, d, &e, x[3]);
            sha256__round(e, f, g, &h, a, b, c, &d, x[4]);
            sha256__round(d, e, f, &g, h, a, b, &c, x[5]);
            sha256__round(c, d, e, &f, g, h, a, &b, x[6]);
            sha256__round(b, c, d, &e, f, g, h, &a, x[7]);
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
    }
}

/* The sum of no bytes. */
static void sha256_begin(sha256 *s) {
    *s = (sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

/* Takes the next n bytes. */
static void sha256_add(sha256 *s, const void *bytes_in, size_t n) {
    const uint8_t *p = bytes_in;
    const size_t   had = s->n % SHA256_BLOCK;
    s->n += n;
    if (had) {
        const size_t some = min_size(n, SHA256_BLOCK - had);
        memcpy(s->block + had, p, some);
        if (had + some < SHA256_BLOCK) return;
        sha256__blocks(s->h, s->block, 1);
        p += some, n -= some;
    }
    sha256__blocks(s->h, p, n / SHA256_BLOCK);
    if (n % SHA256_BLOCK) memcpy(s->block, p + n / SHA256_BLOCK * SHA256_BLOCK, n % SHA256_BLOCK);
}

/* Writes the sum of all bytes as 64 hexadecimal digits in lower case, and a NUL. */
static void sha256_end(sha256 *s, char hex[SHA256_HEX + 1]) {
    static const uint8_t pad[SHA256_BLOCK] = {0x80};
    const uint64_t       bits = __builtin_bswap64(8 * s->n);
    sha256_add(s, pad, 1 + (2 * SHA256_BLOCK - 9 - s->n % SHA256_BLOCK) % SHA256_BLOCK);
    sha256_add(s, &bits, sizeof bits);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", s->h[i]);
}
