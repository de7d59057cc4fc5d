/* SHA-256: known sums, and every way to cut the bytes. */
#include "program.h"
#include "check.h"

static void tsh_sum(const void *p, size_t n, size_t step, char hex[SHA256_HEX + 1]) {
    sha256 s;
    sha256_begin(&s);
    for (size_t at = 0; at < n; at += step) sha256_add(&s, (const uint8_t *)p + at, min_size(step, n - at));
    sha256_end(&s, hex);
}

/* FIPS 180-4's own examples, and lengths around the end of a block, as sha256sum prints them. */
static void t_sha256_known(void) {
    static const struct {
        const char *text, *sum;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    static const struct {
        size_t      n;                                /* bytes, each an a */
        const char *sum;
    } runs[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    char  hex[SHA256_HEX + 1];
    char *a = mem_new(1000000, 1);
    memset(a, 'a', 1000000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tsh_sum(rows[i].text, strlen(rows[i].text), 1000, hex);
        EQ_STR(hex, rows[i].sum);
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        tsh_sum(a, runs[i].n, 1000000, hex);
        EQ_STR(hex, runs[i].sum);
    }
    mem_free(a);
}

static void t_sha256_pieces(void) {
    uint8_t b[300];
    char    whole[SHA256_HEX + 1], cut[SHA256_HEX + 1];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 7 + 1);
    for (size_t n = 0; n <= sizeof b; n += 1 + n / 8) {
        tsh_sum(b, n, sizeof b, whole);
        for (size_t step = 1; step < 150; step += 1 + step / 4) {
            tsh_sum(b, n, step, cut);
            EQ_STR(cut, whole);
        }
    }
}

static const t_case t_sha256_cases[] = {
    {"sha256 known", "sums that FIPS 180-4 gives, and those of lengths around a block", t_sha256_known},
    {"sha256 pieces", "the sum is the same however the bytes are cut", t_sha256_pieces},
};
static const t_suite t_sha256_suite = SUITE(t_sha256_cases);
