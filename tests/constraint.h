/* Constraints by the name of their kind and form, for tests that look inside. */
#ifndef CONSTRAINT_H
#define CONSTRAINT_H

static const struct { const char *name; json_form form; } ct_forms[] = {
    {"match", {.loose = true}}, {"plain", {.order = 0, .space = 0}}, {"any", {.order = 1, .space = 0}}, {"blank", {.order = 0, .space = 1}}, {"lines", {.order = 0, .space = 2}}};
static const struct { const char *name; constrain_kind kind; } ct_kinds[] = {
    {"gbnf", CONSTRAIN_GBNF}, {"schema", CONSTRAIN_SCHEMA}, {"object", CONSTRAIN_OBJECT}, {"regex", CONSTRAIN_REGEX}, {"choice", CONSTRAIN_CHOICE}};

/* v, w NULL: for matching alone, as form "match" is always. NULL: e says why it is refused. */
static constrain *ct_open(const char *kind, const char *form, bytes text, const tok_vocab *v, const mask_vocab *w, err_t *e) {
    constrain_spec o = {.text = text, .path = kind};
    for (size_t i = 0; i < sizeof ct_kinds / sizeof *ct_kinds; i++)
        if (!strcmp(ct_kinds[i].name, kind)) o.kind = ct_kinds[i].kind;
    for (size_t i = 0; i < sizeof ct_forms / sizeof *ct_forms; i++)
        if (!strcmp(ct_forms[i].name, form)) o.form = ct_forms[i].form;
    if (!o.kind) die(EXIT_INPUT, "no kind \"%s\"", kind);
    return constrain_open(&o, o.form.loose ? NULL : v, o.form.loose ? NULL : w, e);
}
#endif
