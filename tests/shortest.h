/* A shortest text that a constraint still allows, byte by byte. */
#ifndef SHORTEST_H
#define SHORTEST_H

/* Appends one byte after which less is left than `left`. */
static bool shortest_step(gram *g, gram_track *t, uint64_t *left, str *out) {
    for (int b = 0; b < 256; b++) {
        const int32_t  to = gram_step(g, t->set, (uint8_t)b);
        const uint64_t rest = to > 0 ? gram_least(g, to) : UINT64_MAX;
        if (rest >= *left) continue;
        t->set = to, *left = rest;
        str_add(out, &(char){(char)b}, 1);
        return true;
    }
    return false;
}

/* Appends a text that completes the set, the shortest one unless texts must differ. False: not known, or more than a MiB, or only with control tokens. */
__attribute__((unused)) static bool shortest_text(gram *g, int32_t set, str *out) {
    gram_track t;
    uint64_t   left = gram_least(g, set);
    bool       ok = left <= 1 << 20;
    gram__track(&t, g, set);
    while (ok && left) ok = shortest_step(g, &t, &left, out);
    gram_track_close(&t);
    return ok;
}
#endif
