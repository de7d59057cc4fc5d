/* SHA-256 and SHA-1: known sums, and every way to cut the bytes. */
#include "program.h"
#include "check.h"

static void tsh_sum(sha_kind kind, const void *p, size_t n, size_t step, char hex[SHA_HEX + 1]) {
    sha s;
    sha_begin(&s, kind);
    for (size_t at = 0; at < n; at += step) sha_add(&s, (const uint8_t *)p + at, min_size(step, n - at));
    sha_end(&s, hex);
}

/* FIPS 180-4's own examples, and lengths around the end of a block, as sha256sum and sha1sum print them. */
static void t_sha_known(void) {
    static const struct {
        const char *text, *sum, *one;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
         "a49b2446a02c645bf419f995b67091253a04a259"},
    };
    static const struct {
        size_t      n;                                /* bytes, each an a */
        const char *sum, *one;
    } runs[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
         "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
         "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34",
         "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
         "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0",
         "11655326c708d70319be2610e8a57d9a5b959d3b"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
         "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
    };
    char  hex[SHA_HEX + 1];
    char *a = mem_new(1000000, 1);
    memset(a, 'a', 1000000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tsh_sum(SHA_256, rows[i].text, strlen(rows[i].text), 1000, hex);
        EQ_STR(hex, rows[i].sum);
        tsh_sum(SHA_1, rows[i].text, strlen(rows[i].text), 1000, hex);
        EQ_STR(hex, rows[i].one);
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        tsh_sum(SHA_256, a, runs[i].n, 1000000, hex);
        EQ_STR(hex, runs[i].sum);
        tsh_sum(SHA_1, a, runs[i].n, 1000000, hex);
        EQ_STR(hex, runs[i].one);
    }
    mem_free(a);
}

static void t_sha_pieces(void) {
    uint8_t b[300];
    char    whole[SHA_HEX + 1], cut[SHA_HEX + 1];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 7 + 1);
    for (int kind = SHA_1; kind <= SHA_256; kind++)
        for (size_t n = 0; n <= sizeof b; n += 1 + n / 8) {
            tsh_sum(kind, b, n, sizeof b, whole);
            for (size_t step = 1; step < 150; step += 1 + step / 4) {
                tsh_sum(kind, b, n, step, cut);
                EQ_STR(cut, whole);
            }
        }
}

static const t_case t_sha_cases[] = {
    {"sha known", "sums that FIPS 180-4 gives, and those of lengths around a block", t_sha_known},
    {"sha pieces", "the sum is the same however the bytes are cut", t_sha_pieces},
};
static const t_suite t_sha_suite = SUITE(t_sha_cases);
