/* Fuzzes what a hub sends and what a person types: a line with a name, lines of an answer's head up to an empty one, then the page of a
 * list. Paths stay in their folder and hold nothing that acts on a terminal; what is chosen has all its parts; errors are UTF-8. */
#include "program.h"

static void fhub_list(bytes page, const hub_name *h) {
    hub_list l = {0};
    err_t    e = {0};
    if (hub_list_add(&l, page, "a/b", &e) && hub_list_seal(&l, "a/b", &e)) {
        for (size_t i = 0; i < l.n; i++) {
            const bytes path = bytes_of(l.file[i].path);
            ASSERT(path.n && path.p[0] != '/' && !strstr(l.file[i].path, "//") && utf8_whole(path) && l.file[i].bytes <= INT64_MAX);
            for (const char *p = l.file[i].path; p; p = (p = strchr(p, '/')) ? p + 1 : NULL)
                ASSERT(strncmp(p, "../", 3) != 0 && strcmp(p, "..") != 0 && strncmp(p, "./", 2) != 0);
            const size_t n = strlen(l.file[i].sha);
            ASSERT((!n || n == SHA_HEX || n == SHA_1_HEX) && strspn(l.file[i].sha, "0123456789abcdef") == n);
        }
        const hub_file *f = hub_choose(&l, h, &e);
        for (int i = 0; f && i < hub_parts(f); i++) ASSERT(hub_part(&l, f, i));
        ASSERT(!f || hub_is_checkpoint(f) == (strcmp(f->path, "config.json") == 0));
        ASSERT(f || e.code);
    }
    ASSERT(utf8_whole(bytes_of(e.text)) || !utf8_whole(page));
    hub_list_drop(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    bytes         rest = {data, n}, line;
    str           text = {0};
    hub_name      h;
    err_t         e = {0};
    fetch__client c = {.at_hub = n % 2};
    if (bytes_cut_line(&rest, &line)) str_cat(&text, line);
    if (!hub_parse(text.p ? text.p : "", NULL, &h, &e)) {
        ASSERT(e.code == EXIT_INPUT);
        hub_parse("a/b", NULL, &h, &(err_t){0});
    }
    while (bytes_cut_line(&rest, &line) && line.n) fetch__read_head(&c, line);
    ASSERT(!c.commit.n || (c.at_hub && hub_is_commit(str_bytes(&c.commit))));
    if (c.next.n) fetch__same_origin(str_bytes(&c.next), bytes_of("http://h"));
    fhub_list(rest, &h);
    hub_name_drop(&h);
    str_drop_all(&text, &c.commit, &c.next);
    return 0;
}
