/* ===== [jinja] chat templates: a Jinja parser and evaluator =====
 * A template becomes a flat postfix code in three passes: the parser emits it as it reads, with a stack of what is open; the
 * binder gives each name a slot by Jinja2's rules of scope; the packer drops what turned out empty. The evaluator runs the
 * code on a stack of values and a stack of calls. Nothing here recurses: what a template nests costs heap, and each limit
 * below ends it with exit 3. White space, precedence, scopes and undefined values are those of Jinja2 3.1 as
 * shared/data/templates/README.md sets it up. Statements are those of chat templates: without `with`, `autoescape`, `print`,
 * recursive loops, powers, and the arguments of a macro that are no parameters.
 * Public: jinja_parse, jinja_free, jinja_render, jinja_text_drop.
 * Opens: jinja_text. */

enum {
    JINJA_SOURCE = 1 << 20,                           /* bytes of a template */
    JINJA_STEPS = 10 * 1000 * 1000,
    JINJA_VALUES = 64 << 20,                          /* bytes of values */
    JINJA_TEXT = 16 << 20,                            /* bytes of what is rendered */
    JINJA_CALLS = 200,                                /* calls inside each other */
    JINJA_LEVELS = 1000,                              /* statements and brackets inside each other */
    JINJA_ARGS = 1000,                                /* arguments of a call, parameters of a macro */
};

typedef enum {
    JT_EOF, JT_DATA, JT_PRINT, JT_PRINT_END, JT_BLOCK, JT_BLOCK_END, JT_NAME, JT_STRING, JT_INT, JT_FLOAT,
    JT_ADD, JT_SUB, JT_MUL, JT_DIV, JT_FLOORDIV, JT_MOD, JT_TILDE, JT_EQ, JT_NE, JT_LT, JT_LE, JT_GT, JT_GE, JT_ASSIGN,
    JT_DOT, JT_COLON, JT_PIPE, JT_COMMA, JT_SEMICOLON, JT_LPAREN, JT_RPAREN, JT_LBRACKET, JT_RBRACKET, JT_LBRACE, JT_RBRACE,
} jinja_sign;

/* Longest first. */
static const struct {
    const char *text;
    jinja_sign  sign;
} jinja__signs[] = {
    {"//", JT_FLOORDIV}, {"==", JT_EQ}, {"!=", JT_NE}, {"<=", JT_LE}, {">=", JT_GE}, {"+", JT_ADD}, {"-", JT_SUB},
    {"*", JT_MUL}, {"/", JT_DIV}, {"%", JT_MOD}, {"~", JT_TILDE}, {"<", JT_LT}, {">", JT_GT}, {"=", JT_ASSIGN}, {".", JT_DOT},
    {":", JT_COLON}, {"|", JT_PIPE}, {",", JT_COMMA}, {";", JT_SEMICOLON}, {"(", JT_LPAREN}, {")", JT_RPAREN}, {"[", JT_LBRACKET},
    {"]", JT_RBRACKET}, {"{", JT_LBRACE}, {"}", JT_RBRACE},
};

/* Names with a meaning. Their number is their place in the table of names of every template. */
enum {
    JW_AND, JW_OR, JW_NOT, JW_IN, JW_IS, JW_IF, JW_ELSE, JW_TRUE, JW_FALSE, JW_NONE, JW_TRUE2, JW_FALSE2, JW_NONE2,
    JW_ELIF, JW_ENDIF, JW_FOR, JW_ENDFOR, JW_SET, JW_ENDSET, JW_MACRO, JW_ENDMACRO, JW_CALL, JW_ENDCALL, JW_FILTER, JW_ENDFILTER,
    JW_GENERATION, JW_ENDGENERATION, JW_BREAK, JW_CONTINUE, JW_BLOCK, JW_EXTENDS, JW_INCLUDE, JW_IMPORT, JW_FROM,
    JW_CALLER, JW_KWARGS, JW_VARARGS, JW_LOOP, JW_WORDS,
};

static const char *const jinja__words[JW_WORDS] = {
    [JW_AND] = "and", [JW_OR] = "or", [JW_NOT] = "not", [JW_IN] = "in", [JW_IS] = "is", [JW_IF] = "if", [JW_ELSE] = "else",
    [JW_TRUE] = "true", [JW_FALSE] = "false", [JW_NONE] = "none", [JW_TRUE2] = "True", [JW_FALSE2] = "False", [JW_NONE2] = "None",
    [JW_ELIF] = "elif", [JW_ENDIF] = "endif", [JW_FOR] = "for", [JW_ENDFOR] = "endfor", [JW_SET] = "set", [JW_ENDSET] = "endset",
    [JW_MACRO] = "macro", [JW_ENDMACRO] = "endmacro", [JW_CALL] = "call", [JW_ENDCALL] = "endcall", [JW_FILTER] = "filter",
    [JW_ENDFILTER] = "endfilter", [JW_GENERATION] = "generation", [JW_ENDGENERATION] = "endgeneration", [JW_BREAK] = "break",
    [JW_CONTINUE] = "continue", [JW_BLOCK] = "block", [JW_EXTENDS] = "extends", [JW_INCLUDE] = "include", [JW_IMPORT] = "import",
    [JW_FROM] = "from", [JW_CALLER] = "caller", [JW_KWARGS] = "kwargs", [JW_VARARGS] = "varargs", [JW_LOOP] = "loop",
};

/* --- code --- */

typedef enum {                                        /* stack before -- after; a: a jump, relative until the code is packed */
    JO_NOP,
    JO_TEXT,                                          /* -- ; writes constant a */
    JO_PRINT,                                         /* v -- ; flag: v is what a call or filter wrote, which is a string */
    JO_CONST,                                         /* -- constant a */
    JO_NO_ELSE,                                       /* -- undefined: `a if b` without else */
    JO_LOAD,                                          /* -- v; b the name; bound: slot a of the call n levels up */
    JO_STORE,                                         /* v -- ; the same; flag: jinja_store */
    JO_NS_CHECK,                                      /* -- ; as JO_LOAD; fails where it is no namespace */
    JO_NS_STORE,                                      /* v -- ; as JO_LOAD; flag unused; the next instruction has the attribute */
    JO_NS_NAME,                                       /* constant a: the attribute of the JO_NS_STORE before */
    JO_UNPACK,                                        /* v -- v[a-1] .. v[0] */
    JO_ATTR,                                          /* v -- v.a */
    JO_ITEM,                                          /* v key -- v[key] */
    JO_SLICE,                                         /* v from to step -- v[from:to:step] */
    JO_TUPLE,                                         /* a items -- tuple */
    JO_LIST,
    JO_DICT,                                          /* a pairs -- dict */
    JO_CONCAT,                                        /* a items -- string */
    JO_ADD, JO_SUB, JO_MUL, JO_DIV, JO_FLOORDIV, JO_MOD,   /* x y -- v */
    JO_NEG, JO_POS, JO_NOT,                           /* x -- v */
    JO_COMPARE,                                       /* x y -- bool; n: jinja_sign, JT_DOT for in, JT_COLON for not in */
    JO_CHAIN,                                         /* x y -- y, or false and a jump to a */
    JO_JUMP,
    JO_IF,                                            /* v -- ; jumps where v is true */
    JO_UNLESS,                                        /* v -- ; jumps where v is false */
    JO_OR,                                            /* v -- v and a jump where v is true, else v -- */
    JO_AND,                                           /* v -- v and a jump where v is false, else v -- */
    JO_FILTER,                                        /* v args -- v; n: row of the template's list, a: form of the arguments */
    JO_TEST,                                          /* v args -- bool */
    JO_NO_FILTER,                                     /* a name that is no filter or test: b. flag: an error only when it runs */
    JO_CALL,                                          /* f args -- v; a: form of the arguments; flag: `caller` lies above them */
    JO_ENTER,                                         /* a: frame; sets the variables that begin with an outer value */
    JO_FOR,                                           /* v -- loop; flag: the body sees `loop`; n 1: items pass a test, at a */
    JO_NEXT,                                          /* loop -- loop item, or a jump to a; flag: `loop` is variable b */
    JO_TESTED,                                        /* v -- ; the end of the test of an item */
    JO_RAN,                                           /* loop -- loop; the loop had a whole round */
    JO_FOR_END,                                       /* loop -- ; jumps to a where it had one; a 0: never */
    JO_MACRO,                                         /* -- macro of function b; goes on at a */
    JO_ARG,                                           /* jumps to a where parameter n has a value */
    JO_NO_ARG,                                        /* -- undefined: parameter b was not provided */
    JO_RETURN,                                        /* ends a call; its text is the result */
    JO_CAPTURE,                                       /* what follows is written into a string */
    JO_CAPTURED,                                      /* -- string */
    JO_DROP,                                          /* ends n captures, for a jump out of them */
    JO_END,
    JO_OPS,
} jinja_op_name;

typedef enum { JS_STORE, JS_MAYBE /* inside `if` */, JS_PARAM } jinja_store;

typedef struct {
    uint8_t  op;                                      /* jinja_op_name, which tells what the others mean */
    uint8_t  flag;
    uint16_t n;
    int32_t  a;
    int32_t  b;
    uint32_t line;                                    /* of the template */
} jinja_op;

/* One argument in a call. */
typedef struct {
    enum { JA_POS, JA_KEY, JA_STAR } kind;
    int32_t name;
} jinja_arg;

/* The arguments of a call, of a filter or a test: [first, first + n) of the list of all. */
typedef struct {
    uint32_t first;
    uint32_t n;
    bool     plain;                                   /* all by position */
} jinja_form;

/* What a frame does when it begins: a variable gets the value of an outer one, of the context, or none. */
typedef struct {
    enum { JL_PARAM, JL_RESOLVE, JL_ALIAS, JL_UNDEF } how;
    int32_t slot;                                     /* of the variable */
    int32_t up;                                       /* JL_ALIAS: calls up to that of the outer variable */
    int32_t from;                                     /* JL_ALIAS: slot of the outer variable */
    int32_t name;
} jinja_load;

/* A frame is a scope of names: the template, a loop's body, a macro. */
typedef struct {
    int32_t begin;                                    /* its code, which begins with JO_ENTER */
    int32_t end;
    int32_t fn;
    int32_t first_sym;                                /* its variables in the list of all */
    int32_t n_syms;
    bool    has_loop;                                 /* `loop` is a variable of it */
    bool    is_fn;                                    /* the outermost frame of its function */
} jinja_frame;

/* A function has slots of its own: the template, a macro, a block of `call`. */
typedef struct {
    int32_t  up;                                      /* the function around it */
    int32_t  depth;                                   /* functions around it */
    int32_t  entry;                                   /* its first instruction */
    int32_t  name;                                    /* -1: none */
    uint32_t first_param;                             /* its parameters in the list of all */
    uint32_t n_params;
    bool     used;                                    /* `caller` is read in its body */
    int32_t  caller;                                  /* its slot; -1: not used, or a parameter of its own */
    int32_t  n_slots;
    bool     kept;                                    /* functions or loops inside refer to its slots: they outlive the call */
} jinja_fn;

typedef struct {
    val_env      env;                                 /* constants and names */
    char        *file;                                /* in messages */
    jinja_op    *code;                                /* [n_code] */
    val         *consts;                              /* [n_consts] */
    jinja_form  *forms;                               /* [n_forms] */
    jinja_arg   *args;                                /* [n_args] of all forms */
    jinja_frame *frames;                              /* [n_frames] */
    jinja_load  *loads;                               /* [n_loads], as the frames' symbols */
    jinja_fn    *fns;                                 /* [n_fns], the template first */
    int32_t     *params;                              /* [n_params] of all functions: names */
    const char **names;                               /* [n_names] as UTF-8 */
    val         *name_vals;                           /* [n_names] as values */
    const filter_row **rows;                          /* [n_rows] filters and tests that it names */
    uint32_t     n_code;
    uint32_t     n_consts;
    uint32_t     n_forms;
    uint32_t     n_args;
    uint32_t     n_frames;
    uint32_t     n_loads;
    uint32_t     n_fns;
    uint32_t     n_params;
    uint32_t     n_names;
    uint32_t     n_rows;
} jinja;

/* --- lexer --- */

typedef struct {
    jinja_sign sign;
    int        line;
    int32_t    name;                                  /* JT_NAME */
    val        v;                                     /* JT_DATA, JT_STRING, JT_INT, JT_FLOAT */
} jinja_token;

typedef enum {                                        /* kinds of what is open in an expression; operators have a level */
    JX_EXPR, JX_PAREN, JX_LIST, JX_KEY, JX_VALUE, JX_INDEX, JX_ARGS, JX_TEST_ARG, JX_TARGET,
    JX_BINARY, JX_SHORT, JX_UNARY, JX_COMPARE, JX_CONCAT, JX_COND, JX_ELSE
} jinja_open_kind;

/* Levels of operators, weakest first. */
enum { JP_NONE, JP_COND, JP_OR, JP_AND, JP_NOT, JP_COMPARE, JP_ADD, JP_CONCAT, JP_MUL, JP_UNARY };

/* What is open in an expression: brackets, or an operator that waits for its right side. */
typedef struct {
    uint8_t  kind;                                    /* jinja_open_kind */
    uint8_t  level;                                   /* of an operator */
    uint8_t  op;                                      /* of an operator; JX_ARGS: JO_CALL, JO_FILTER, JO_TEST, JO_NO_FILTER */
    bool     cond;                                    /* `a if b` may be here */
    bool     tuple;                                   /* `a, b` may be here */
    bool     comma;                                   /* a comma was read */
    bool     filtered;                                /* JX_ARGS: only filters, tests and calls may follow it */
    bool     negated;                                 /* JX_ARGS, JX_TEST_ARG: `is not` */
    uint8_t  part;                                    /* JX_INDEX: the part of a slice; 0: no slice so far */
    uint8_t  kinds;                                   /* JX_ARGS: bits of the kinds of arguments so far */
    uint16_t row;                                     /* JX_ARGS of a filter or test */
    uint32_t n;                                       /* items */
    int32_t  start;                                   /* code of the item that is read; begins with JO_NOP where cond is set */
    int32_t  at;                                      /* a jump to be set; JX_ARGS: the first of its arguments */
    int32_t  value;                                   /* JX_COND: code of `a` in `a if b` */
    int32_t  name;                                    /* JX_ARGS of a filter or test */
    int      line;
} jinja_open;

/* A variable: a name in a frame. */
typedef struct {
    int32_t name;
    int32_t fn;                                       /* its function */
    int32_t slot;                                     /* in a call of the function */
    int32_t hidden;                                   /* the symbol that the name means outside of the frame, -1: none */
} jinja_sym;

/* A statement that is open. */
typedef struct {
    uint8_t  word;                                    /* JW_FOR ... */
    bool     in_else;
    bool     has_body;                                /* the names in its body are looked at */
    bool     bare_caller;                             /* a parameter `caller` without a default */
    uint8_t  used;                                    /* bits of caller, kwargs, varargs, loop: read in the body */
    uint8_t  gone;                                    /* the same: set in the body before they are read */
    int      line;
    int32_t  frame;                                   /* -1: none */
    int32_t  cond;                                    /* `if`s that are open around it */
    int32_t  body;                                    /* JW_FOR: frame of the body */
    int32_t  fn;                                      /* the function that it began, -1: none */
    int32_t  fn_frame;                                /* its outermost frame */
    int32_t  at;                                      /* a jump to be set, -1: none */
    int32_t  out;                                     /* a list of jumps to be set, -1: none */
    int32_t  begin;                                   /* JW_FOR: JO_FOR */
    int32_t  top;                                     /* JW_FOR: JO_NEXT */
    uint32_t held;                                    /* code put after the body: targets from here on ... */
    uint32_t filters;                                 /* ... and filters from here on */
    jinja_op call;                                    /* JW_CALL */
    int32_t  name;                                    /* JW_MACRO */
} jinja_block;

typedef struct {
    jinja         *t;
    val_env       *env;
    const val_chr *src;
    size_t         n_src;
    size_t         at;                                /* the next character */
    size_t         line_at;                           /* `line` is the line of this place */
    int            line;
    enum { JM_DATA, JM_PRINT, JM_BLOCK, JM_RAW } mode;
    jinja_sign     begun;                             /* JT_PRINT, JT_BLOCK: the next token; JT_EOF: none */
    uint8_t        shut[JINJA_LEVELS];                /* brackets to come, in a tag */
    int            n_shut;
    jinja_token    tok;                               /* the token that is read */
    jinja_token    ahead;                             /* the one after it, if has_ahead */
    bool           has_ahead;
    int            last_line;                         /* of the token before tok */

    jinja_open    *open;
    uint32_t       n_open;
    bool           want;                              /* an operand comes next, else an operator */
    bool           filtered;                          /* of the operand: no attribute and no subscript may follow */
    int32_t        call_at;                           /* the instruction that is the whole expression so far, if it is a call */
    jinja_block   *block;
    uint32_t       n_block;
    jinja_op      *held;
    uint32_t       n_held;
    jinja_arg     *arg;                               /* arguments of open calls */
    uint32_t       n_arg;
    int32_t       *unknown;                           /* JO_NO_FILTER in an open expression */
    uint32_t       n_unknown;
    int32_t        fn;
    int32_t        cond;                              /* `if`s open in this frame */
    uint32_t      *slot;                              /* hash of names: 1 + place, 0: free */
    uint32_t       n_slot;
    int32_t       *bound;                             /* binder: the symbol that a name means here, -1: none */
    jinja_sym     *sym;
    uint32_t       n_sym;
    int32_t       *place;                             /* packer: where an instruction goes */
} jinja_parser;

#define jinja__fail(p, ...) jinja__fail_at(p, (p)->tok.line, __VA_ARGS__)
#define jinja__fail_at(p, where, ...) ((p)->env->line = (where), val_fail((p)->env, EXIT_INPUT, __VA_ARGS__))

/* Grows an array of the parser or of the template for one more element. */
#define JINJA_ADD(array, n) ((array) = mem_reserve((array), (n), UINT32_MAX, sizeof *(array)), &(array)[(n)++])

static val_chr jinja__chr(const jinja_parser *p, size_t at) { return at < p->n_src ? p->src[at] : 0; }
static bool    jinja__digit(val_chr c) { return c >= '0' && c <= '9'; }
static bool    jinja__letter(val_chr c) { return !jinja__digit(c) && filter_is_word(c); }

static bool jinja__is(const jinja_parser *p, size_t at, const char *text) {
    for (; *text; text++, at++)
        if (jinja__chr(p, at) != (uint8_t)*text) return false;
    return true;
}

static size_t jinja__spaces(const jinja_parser *p, size_t at) {
    while (at < p->n_src && filter_is_space(p->src[at])) at++;
    return at;
}

static int jinja__line(jinja_parser *p, size_t at) {
    for (; p->line_at < at; p->line_at++) p->line += p->src[p->line_at] == '\n';
    return p->line;
}

/* Where the tag that ends at `at` with these two characters ends, 0: none ends there. trim: a newline after it belongs to
 * it; so do all blanks after a minus. */
static size_t jinja__tag_end(const jinja_parser *p, size_t at, const char *shut, bool trim) {
    if (jinja__chr(p, at) == '-' && jinja__is(p, at + 1, shut)) return jinja__spaces(p, at + 3);
    if (trim && jinja__chr(p, at) == '+' && jinja__is(p, at + 1, shut)) return at + 3;
    if (!jinja__is(p, at, shut)) return 0;
    return at + 2 + (trim && jinja__chr(p, at + 2) == '\n');
}

static size_t jinja__sign_len(const jinja_parser *p, size_t at) { return jinja__chr(p, at) == '-' || jinja__chr(p, at) == '+'; }

/* Whether the tag at `at` is {% raw %} or {% endraw %}; `end`: where it ends. */
static bool jinja__raw(const jinja_parser *p, size_t at, const char *word, bool trim, size_t *end) {
    if (!jinja__is(p, at, "{%")) return false;
    at = jinja__spaces(p, at + 2 + jinja__sign_len(p, at + 2));
    if (!jinja__is(p, at, word)) return false;
    at = jinja__spaces(p, at + strlen(word));
    if (!trim && jinja__chr(p, at) == '+') return false;
    if (jinja__chr(p, at) == '-' || trim) *end = jinja__tag_end(p, at, "%}", trim);
    else *end = jinja__is(p, at, "%}") ? at + 2 : 0;
    return *end != 0;
}

/* Text in front of the tag at `to`: without the blanks that its sign takes, or without those of its line where
 * lstrip_blocks does. */
static val jinja__data(const jinja_parser *p, size_t from, size_t to, bool lstrip) {
    const val_chr sign = jinja__chr(p, to + 2);
    size_t        end = to;
    if (sign == '-')
        while (end > from && filter_is_space(p->src[end - 1])) end--;
    else if (sign != '+' && lstrip) {
        while (end > from && p->src[end - 1] != '\n' && filter_is_space(p->src[end - 1])) end--;
        const bool whole = end > from ? p->src[end - 1] == '\n' : from == 0 || p->src[from - 1] == '\n';
        if (!whole) end = to;
    }
    return val_str_view((val_str){p->src + from, (uint32_t)(end - from), NULL});
}

/* Text up to {% endraw %}. */
static val jinja__raw_text(jinja_parser *p) {
    const size_t from = p->at;
    size_t       end = 0;
    for (size_t at = from; at < p->n_src; at++) {
        if (!jinja__raw(p, at, "endraw", true, &end)) continue;
        p->at = end;
        p->mode = JM_DATA;
        return jinja__data(p, from, at, true);
    }
    jinja__fail_at(p, jinja__line(p, from), "found {%% raw %%} without an end, expected {%% endraw %%}");
}

/* Leaves a comment that begins at `at`. */
static void jinja__comment(jinja_parser *p, size_t at) {
    for (size_t i = at + 2 + jinja__sign_len(p, at + 2); i < p->n_src; i++) {
        p->at = jinja__tag_end(p, i, "#}", true);
        if (p->at) return;
    }
    jinja__fail_at(p, jinja__line(p, at), "found a comment without an end, expected #}");
}

/* Text up to the next tag; enters the tag. */
static val jinja__text(jinja_parser *p) {
    const size_t from = p->at;
    size_t       at = from, end;
    while (at < p->n_src && !jinja__is(p, at, "{{") && !jinja__is(p, at, "{%") && !jinja__is(p, at, "{#")) at++;
    p->at = at;
    if (at == p->n_src) return val_str_view((val_str){p->src + from, (uint32_t)(at - from), NULL});
    const val_chr kind = p->src[at + 1];
    const val     text = jinja__data(p, from, at, kind != '{');
    if (kind == '#') jinja__comment(p, at);
    else if (jinja__raw(p, at, "raw", false, &end)) p->at = end, p->mode = JM_RAW;
    else {
        p->at = at + 2 + jinja__sign_len(p, at + 2);
        p->mode = kind == '{' ? JM_PRINT : JM_BLOCK;
        p->begun = kind == '{' ? JT_PRINT : JT_BLOCK;
        p->n_shut = 0;
    }
    return text;
}

/* Digits with single underscores between them; the end. */
static size_t jinja__digits(const jinja_parser *p, size_t at, uint32_t base, bool lead) {
    for (;; at++) {
        const size_t  d = at + (lead && jinja__chr(p, at) == '_');
        const val_chr c = jinja__chr(p, d) | 32;
        const uint32_t digit = c >= '0' && c <= '9' && jinja__chr(p, d) == c ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base) return at;
        at = d;
        lead = true;
    }
}

/* The end of a float that begins at `at`, 0: none does. */
static size_t jinja__float_end(const jinja_parser *p, size_t at) {
    size_t end = jinja__digits(p, at, 10, false), e;
    bool   is_float = false;
    if (at > 0 && p->src[at - 1] == '.') return 0;
    if (jinja__chr(p, end) == '.' && jinja__digit(jinja__chr(p, end + 1)))
        end = jinja__digits(p, end + 1, 10, false), is_float = true;
    if ((jinja__chr(p, end) | 32) != 'e') return is_float ? end : 0;
    e = end + 1 + jinja__sign_len(p, end + 1);
    if (jinja__digit(jinja__chr(p, e))) return jinja__digits(p, e, 10, false);
    return is_float ? end : 0;
}

static void jinja__number(jinja_parser *p, jinja_token *t) {
    const size_t  at = p->at, end = jinja__float_end(p, at);
    const val_chr kind = p->src[at] == '0' ? jinja__chr(p, at + 1) | 32 : 0;
    const uint32_t base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 10;
    t->sign = end ? JT_FLOAT : JT_INT;
    if (!end) {
        p->at = jinja__digits(p, base == 10 ? at : at + 2, p->src[at] == '0' && base == 10 ? 1 : base, base != 10);
        if (base != 10 && p->at == at + 2) p->at = at + 1;    /* 0x without digits: the number 0, then a name */
    } else p->at = end;
    const val_str text = {p->src + at, (uint32_t)(p->at - at), NULL};
    double        f = 0;
    int64_t       i = 0;
    p->env->line = t->line;
    const bool read = end ? filter_read_float(p->env, text, &f) : filter_read_int(p->env, text, 0, &i);
    if (!read) jinja__fail_at(p, t->line, "found '%s', expected a number", val_quote(text).p);
    t->v = end ? val_float(f) : val_int(i);
}

/* The value of n hexadecimal digits at `at`. */
static val_chr jinja__hex(jinja_parser *p, size_t at, int n) {
    val_chr u = 0;
    for (int i = 0; i < n; i++) {
        const int d = bytes_hex_digit(jinja__chr(p, at + (size_t)i));
        if (d < 0) jinja__fail_at(p, jinja__line(p, at), "found a cut escape in a string, expected %d hexadecimal digits", n);
        u = u << 4 | (val_chr)d;
    }
    if (u >= VAL_BYTE) jinja__fail_at(p, jinja__line(p, at), "found an escape of U+%X in a string, expected at most U+10FFFF", u);
    return u;
}

/* One escape of a string, as Python's unicode_escape reads it; at: its letter. Returns the number of characters read. */
static size_t jinja__escape(jinja_parser *p, size_t at, val_buf *b) {
    static const char named[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    const val_chr     c = p->src[at];
    char              text[12];
    size_t            n = 0;
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (c == (uint8_t)named[i]) return val_buf_chr(p->env, b, (uint8_t)named[i + 1]), 1;
    if (c == '\n') return 1;
    if (c >= '0' && c <= '7') {
        val_chr u = 0;
        for (; n < 3 && jinja__chr(p, at + n) - '0' < 8u; n++) u = u * 8 + (jinja__chr(p, at + n) - '0');
        return val_buf_chr(p->env, b, u), n;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        const int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        return val_buf_chr(p->env, b, jinja__hex(p, at + 1, digits)), 1 + (size_t)digits;
    }
    if (c == 'N')
        jinja__fail_at(p, jinja__line(p, at), "found \\N in a string, which is not supported here; expected \\u and four digits");
    val_buf_chr(p->env, b, '\\');                     /* an unknown escape stays; what is beyond ASCII after it is spelled out */
    if (c < 0x80) return val_buf_chr(p->env, b, c), 1;
    snprintf(text, sizeof text, c < 0x100 ? "x%02x" : c < 0x10000 ? "u%04x" : "U%08x", c);
    return val_buf_put(p->env, b, text), 1;
}

static void jinja__string(jinja_parser *p, jinja_token *t) {
    const val_chr quote = p->src[p->at];
    const size_t  from = p->at + 1;
    size_t        to = from;
    bool          plain = true;
    for (; to < p->n_src && p->src[to] != quote; to++)
        if (p->src[to] == '\\') plain = false, to++;
    if (to >= p->n_src) jinja__fail_at(p, t->line, "found a string without an end, expected %c", (char)quote);
    t->sign = JT_STRING;
    t->v = val_str_view((val_str){p->src + from, (uint32_t)(to - from), NULL});
    p->at = to + 1;
    if (plain) return;
    val_buf *b = val_buf_new(p->env);
    for (size_t i = from; i < to;) {
        if (p->src[i] == '\\') i += 1 + jinja__escape(p, i + 1, b);
        else val_buf_chr(p->env, b, p->src[i++]);
    }
    t->v = val_str_view(val_buf_str(b));
    t->v.s.own = NULL;                                /* a constant is not appended to in place */
}

/* --- names --- */

static uint32_t *jinja__name_slot(const jinja_parser *p, val_str s) {
    uint32_t i = (uint32_t)bytes_hash(p->env->seed, (bytes){(const uint8_t *)s.p, s.n * sizeof *s.p});
    for (;; i++) {
        uint32_t *slot = &p->slot[i & (p->n_slot - 1)];
        if (!*slot || val_str_eq(p->t->name_vals[*slot - 1].s, s)) return slot;
    }
}

static void jinja__grow_names(jinja_parser *p) {
    mem_free(p->slot);
    p->slot = NULL;
    p->n_slot = p->n_slot ? 2 * p->n_slot : 256;
    p->slot = mem_new(p->n_slot, sizeof *p->slot);
    for (uint32_t i = 0; i < p->t->n_names; i++) *jinja__name_slot(p, p->t->name_vals[i].s) = i + 1;
}

/* The place of a name in the template's list. */
static int32_t jinja__name(jinja_parser *p, val_str s) {
    jinja *t = p->t;
    if (4 * (uint64_t)t->n_names >= 3 * (uint64_t)p->n_slot) jinja__grow_names(p);
    uint32_t *slot = jinja__name_slot(p, s);
    if (*slot) return (int32_t)*slot - 1;
    str text = {0};
    val_utf8(s, &text);
    char *kept = val_alloc(p->env, text.n + 1, 1);
    if (text.n) memcpy(kept, text.p, text.n);
    str_drop(&text);
    s.own = NULL;
    t->names = mem_reserve(t->names, t->n_names, UINT32_MAX, sizeof *t->names);
    t->name_vals = mem_reserve(t->name_vals, t->n_names, UINT32_MAX, sizeof *t->name_vals);
    t->names[t->n_names] = kept;
    t->name_vals[t->n_names] = val_str_view(s);
    *slot = ++t->n_names;
    return (int32_t)t->n_names - 1;
}

static const char *jinja__name_of(const jinja_parser *p, int32_t name) { return p->t->names[name]; }

/* --- tokens --- */

/* Keeps count of brackets: those inside a tag must close before it ends. */
static void jinja__bracket(jinja_parser *p, const jinja_token *t, char c) {
    const char *shut = c == '(' ? ")" : c == '[' ? "]" : c == '{' ? "}" : NULL;
    if (shut) {
        p->env->line = t->line;
        if (p->n_shut == JINJA_LEVELS)
            val_fail(p->env, EXIT_RESOURCE, "brackets stand inside each other in more than %d levels", JINJA_LEVELS);
        p->shut[p->n_shut++] = (uint8_t)*shut;
    } else if (c == ')' || c == ']' || c == '}') {
        if (!p->n_shut) jinja__fail_at(p, t->line, "found '%c' without its opening bracket", c);
        const char want = (char)p->shut[--p->n_shut];
        if (c != want) jinja__fail_at(p, t->line, "found '%c', expected '%c'", c, want);
    }
}

static void jinja__operator_sign(jinja_parser *p, jinja_token *t) {
    for (size_t i = 0; i < sizeof jinja__signs / sizeof *jinja__signs; i++) {
        if (!jinja__is(p, p->at, jinja__signs[i].text)) continue;
        t->sign = jinja__signs[i].sign;
        jinja__bracket(p, t, jinja__signs[i].text[0]);
        p->at += strlen(jinja__signs[i].text);
        return;
    }
    const val_str found = {p->src + p->at, 1, NULL};
    jinja__fail_at(p, t->line, "found the character '%s', expected an expression", val_quote(found).p);
}

/* A token of a tag. */
static void jinja__tag_token(jinja_parser *p, jinja_token *t) {
    const bool   is_block = p->mode == JM_BLOCK;
    size_t       end = p->n_shut ? 0 : jinja__tag_end(p, p->at, is_block ? "%}" : "}}", is_block);
    if (!end) p->at = jinja__spaces(p, p->at);
    if (!end && !p->n_shut) end = jinja__tag_end(p, p->at, is_block ? "%}" : "}}", is_block);
    t->line = jinja__line(p, p->at);
    if (p->at >= p->n_src) {
        t->sign = JT_EOF;
        return;
    }
    const val_chr c = p->src[p->at];
    if (end) {
        t->sign = is_block ? JT_BLOCK_END : JT_PRINT_END;
        p->at = end;
        p->mode = JM_DATA;
    } else if (jinja__digit(c)) jinja__number(p, t);
    else if (jinja__letter(c)) {
        const size_t from = p->at;
        while (jinja__letter(jinja__chr(p, p->at)) || jinja__digit(jinja__chr(p, p->at))) p->at++;
        t->sign = JT_NAME;
        t->name = jinja__name(p, (val_str){p->src + from, (uint32_t)(p->at - from), NULL});
    } else if (c == '"' || c == '\'') jinja__string(p, t);
    else jinja__operator_sign(p, t);
}

static jinja_token jinja__lex(jinja_parser *p) {
    jinja_token t = {.sign = JT_EOF};
    while (p->mode == JM_DATA || p->mode == JM_RAW) {
        t.line = jinja__line(p, p->at);
        if (p->at >= p->n_src && p->mode == JM_DATA) return t;
        t.v = p->mode == JM_RAW ? jinja__raw_text(p) : jinja__text(p);
        t.sign = JT_DATA;
        if (t.v.s.n) return t;
    }
    if (p->begun) {
        t.line = jinja__line(p, p->at);
        t.sign = p->begun;
        p->begun = JT_EOF;
    } else jinja__tag_token(p, &t);
    return t;
}

static void jinja__next(jinja_parser *p) {
    p->last_line = p->tok.line;
    p->tok = p->has_ahead ? p->ahead : jinja__lex(p);
    p->has_ahead = false;
    val_step(p->env, 1);
}

static const jinja_token *jinja__peek(jinja_parser *p) {
    if (!p->has_ahead) p->ahead = jinja__lex(p);
    p->has_ahead = true;
    return &p->ahead;
}

static bool jinja__word(const jinja_parser *p, int word) { return p->tok.sign == JT_NAME && p->tok.name == word; }

static bool jinja__skip_word(jinja_parser *p, int word) {
    if (!jinja__word(p, word)) return false;
    jinja__next(p);
    return true;
}

static const char *jinja__sign_name(jinja_sign s) {
    static const char *const names[] = {
        [JT_EOF] = "the end of the template", [JT_DATA] = "text",
        [JT_PRINT] = "{{", [JT_PRINT_END] = "}}", [JT_BLOCK] = "{%", [JT_BLOCK_END] = "%}",
        [JT_NAME] = "a name", [JT_STRING] = "a string", [JT_INT] = "a number", [JT_FLOAT] = "a number",
    };
    if ((size_t)s < sizeof names / sizeof *names) return names[s];
    for (size_t i = 0; i < sizeof jinja__signs / sizeof *jinja__signs; i++)
        if (jinja__signs[i].sign == s) return jinja__signs[i].text;
    return "a sign";
}

/* What is here, for a message. */
static const char *jinja__found(const jinja_parser *p) {
    return p->tok.sign == JT_NAME ? jinja__name_of(p, p->tok.name) : jinja__sign_name(p->tok.sign);
}

__attribute__((noreturn)) static void jinja__expected(jinja_parser *p, const char *what) {
    jinja__fail(p, "found '%s', expected %s", jinja__found(p), what);
}

static void jinja__expect(jinja_parser *p, jinja_sign s) {
    if (p->tok.sign != s) jinja__fail(p, "found '%s', expected '%s'", jinja__found(p), jinja__sign_name(s));
    jinja__next(p);
}

static int32_t jinja__expect_name(jinja_parser *p) {
    if (p->tok.sign != JT_NAME) jinja__expected(p, "a name");
    const int32_t name = p->tok.name;
    jinja__next(p);
    return name;
}

/* --- emitting code --- */

static int32_t jinja__emit(jinja_parser *p, jinja_op_name op, int32_t a) {
    *JINJA_ADD(p->t->code, p->t->n_code) = (jinja_op){.op = (uint8_t)op, .a = a, .b = -1, .line = (uint32_t)p->last_line};
    return (int32_t)p->t->n_code - 1;
}

static jinja_op *jinja__op(const jinja_parser *p, int32_t at) { return &p->t->code[at]; }
static int32_t   jinja__here(const jinja_parser *p) { return (int32_t)p->t->n_code; }

/* The jump at `at` goes to the next instruction. */
static void jinja__land(jinja_parser *p, int32_t at) {
    jinja__op(p, at)->a = jinja__here(p) - at;
    p->call_at = -1;
}

/* A list of jumps with one aim: each is linked to the one before. */
static void jinja__link(jinja_parser *p, jinja_op_name op, int32_t *list) { *list = jinja__emit(p, op, *list); }

static void jinja__land_all(jinja_parser *p, int32_t list) {
    while (list >= 0) {
        const int32_t next = jinja__op(p, list)->a;
        jinja__land(p, list);
        list = next;
    }
}

static void jinja__emit_const(jinja_parser *p, jinja_op_name op, val v) {
    if (v.kind == VAL_STR) v.s.own = NULL;
    *JINJA_ADD(p->t->consts, p->t->n_consts) = v;
    jinja__emit(p, op, (int32_t)p->t->n_consts - 1);
}

/* Takes the code from `from` on away and keeps it. Jumps are relative: it works wherever it is put. */
static void jinja__hold(jinja_parser *p, int32_t from) {
    for (uint32_t i = (uint32_t)from; i < p->t->n_code; i++) *JINJA_ADD(p->held, p->n_held) = p->t->code[i];
    p->t->n_code = (uint32_t)from;
}

/* Puts kept code here, from the place `held` to the place `to`. */
static void jinja__unhold(jinja_parser *p, uint32_t held, uint32_t to) {
    for (uint32_t i = held; i < to; i++) *JINJA_ADD(p->t->code, p->t->n_code) = p->held[i];
}

/* A name is read or set. Macros and loops that are open keep whether their body reads caller, kwargs, varargs, loop. */
static void jinja__mention(jinja_parser *p, int32_t name, bool read) {
    if (name < JW_CALLER || name > JW_LOOP) return;
    const uint8_t bit = (uint8_t)(1 << (name - JW_CALLER));
    for (uint32_t i = p->n_block; i-- > 0;) {
        jinja_block *b = &p->block[i];
        if (!b->has_body || b->in_else || ((b->used | b->gone) & bit)) continue;
        if (read) b->used |= bit;
        else b->gone |= bit;
    }
}

static void jinja__emit_name(jinja_parser *p, jinja_op_name op, int32_t name) {
    const int32_t at = jinja__emit(p, op, 0);
    jinja__op(p, at)->b = name;
    jinja__mention(p, name, op != JO_STORE);
}

/* --- expressions: an explicit stack of what is open --- */

static jinja_open *jinja__top(const jinja_parser *p) { return &p->open[p->n_open - 1]; }

static void jinja__deep(jinja_parser *p) {
    if (p->n_open + p->n_block < JINJA_LEVELS) return;
    p->env->line = p->tok.line;
    val_fail(p->env, EXIT_RESOURCE, "statements and expressions stand inside each other in more than %d levels", JINJA_LEVELS);
}

static jinja_open *jinja__push(jinja_parser *p, jinja_open_kind kind, int level) {
    jinja__deep(p);
    jinja_open *x = JINJA_ADD(p->open, p->n_open);
    *x = (jinja_open){
        .kind = (uint8_t)kind, .level = (uint8_t)level, .start = jinja__here(p), .at = -1, .name = -1, .line = p->tok.line,
    };
    p->want = true;
    return x;
}

/* An unknown filter or test in code from `from` on is an error only when it runs. */
static void jinja__soften(jinja_parser *p, int32_t from) {
    while (p->n_unknown && p->unknown[p->n_unknown - 1] >= from) jinja__op(p, p->unknown[--p->n_unknown])->flag = true;
}

/* The value of `a if b` without else, or the end of the part after else. The condition is after `a` in the text and in the code:
 * a jump in front of `a` leads to it, it jumps back where it is true. */
static void jinja__end_cond(jinja_parser *p) {
    jinja_open *x = jinja__top(p);
    const int32_t start = x->start, at = x->at;
    if (x->kind == JX_COND) {
        const int32_t back = jinja__emit(p, JO_IF, 0);
        jinja__op(p, back)->a = x->value - back;
        jinja__emit(p, JO_NO_ELSE, 0);
    }
    jinja__land(p, at);
    jinja__soften(p, start);
    p->n_open--;
}

/* Emits the operator at the top. */
static void jinja__end_operator(jinja_parser *p) {
    const jinja_open x = *jinja__top(p);
    if (x.kind == JX_COND || x.kind == JX_ELSE) {
        jinja__end_cond(p);
        return;
    }
    p->n_open--;
    if (x.kind == JX_SHORT) jinja__land(p, x.at);
    else if (x.kind == JX_COMPARE) {
        const int32_t at = jinja__emit(p, JO_COMPARE, 0);
        jinja__op(p, at)->n = x.op;
        jinja__land_all(p, x.at);
    } else jinja__emit(p, x.op, x.kind == JX_CONCAT ? (int32_t)x.n : 0);
}

static void jinja__reduce(jinja_parser *p, int level) {
    while (jinja__top(p)->level >= level) jinja__end_operator(p);
}

static const struct {
    uint8_t sign;
    uint8_t level;
    uint8_t op;
} jinja__binary[] = {
    {JT_ADD, JP_ADD, JO_ADD}, {JT_SUB, JP_ADD, JO_SUB}, {JT_MUL, JP_MUL, JO_MUL}, {JT_DIV, JP_MUL, JO_DIV},
    {JT_FLOORDIV, JP_MUL, JO_FLOORDIV}, {JT_MOD, JP_MUL, JO_MOD},
};

static void jinja__and_or(jinja_parser *p, bool is_and) {
    jinja__reduce(p, is_and ? JP_AND : JP_OR);
    jinja__next(p);
    const int32_t at = jinja__emit(p, is_and ? JO_AND : JO_OR, 0);
    jinja__push(p, JX_SHORT, is_and ? JP_AND : JP_OR)->at = at;
}

/* A comparison; after another one it is the next link of a chain: a < b < c. */
static void jinja__compare(jinja_parser *p, jinja_sign sign) {
    int32_t chain = -1;
    jinja__reduce(p, JP_COMPARE + 1);
    if (jinja__top(p)->kind == JX_COMPARE) {
        chain = jinja__top(p)->at;
        jinja__link(p, JO_CHAIN, &chain);
        jinja__op(p, chain)->n = jinja__top(p)->op;
        p->n_open--;
    }
    jinja__next(p);
    jinja_open *x = jinja__push(p, JX_COMPARE, JP_COMPARE);
    x->op = (uint8_t)sign;
    x->at = chain;
}

static void jinja__concat(jinja_parser *p) {
    jinja__reduce(p, JP_CONCAT + 1);
    jinja__next(p);
    p->want = true;
    if (jinja__top(p)->kind == JX_CONCAT) {
        jinja__top(p)->n++;
        return;
    }
    jinja_open *x = jinja__push(p, JX_CONCAT, JP_CONCAT);
    x->op = JO_CONCAT;
    x->n = 2;
}

/* An operator between two operands, if one is here. */
static bool jinja__operator(jinja_parser *p) {
    const jinja_sign s = p->tok.sign;
    if (s == JT_NAME) {
        if (jinja__word(p, JW_AND) || jinja__word(p, JW_OR)) return jinja__and_or(p, jinja__word(p, JW_AND)), true;
        if (jinja__word(p, JW_IN)) return jinja__compare(p, JT_DOT), true;
        if (!jinja__word(p, JW_NOT) || jinja__peek(p)->sign != JT_NAME || p->ahead.name != JW_IN) return false;
        jinja__next(p);
        return jinja__compare(p, JT_COLON), true;
    }
    if (s >= JT_EQ && s <= JT_GE) return jinja__compare(p, s), true;
    if (s == JT_TILDE) return jinja__concat(p), true;
    for (size_t i = 0; i < sizeof jinja__binary / sizeof *jinja__binary; i++) {
        if (jinja__binary[i].sign != s) continue;
        jinja__reduce(p, jinja__binary[i].level);
        jinja__next(p);
        jinja__push(p, JX_BINARY, jinja__binary[i].level)->op = jinja__binary[i].op;
        return true;
    }
    return false;
}

/* `if` after an operand. */
static bool jinja__inline_if(jinja_parser *p) {
    if (!jinja__word(p, JW_IF)) return false;
    jinja__reduce(p, JP_OR);
    if (jinja__top(p)->kind == JX_COND) jinja__end_cond(p);
    if (!jinja__top(p)->cond) return false;
    jinja__next(p);
    const int32_t start = jinja__top(p)->start, at = jinja__emit(p, JO_JUMP, 0);
    jinja_op     *first = jinja__op(p, start);
    jinja_open   *x = jinja__push(p, JX_COND, JP_COND);
    x->value = start + (first->op == JO_JUMP ? first->a : 1);
    x->start = start;
    x->at = at;
    *first = (jinja_op){.op = JO_JUMP, .a = jinja__here(p) - start, .b = -1, .line = first->line};
    return true;
}

/* `else` after the condition of an inline if. */
static bool jinja__inline_else(jinja_parser *p) {
    if (!jinja__word(p, JW_ELSE)) return false;
    jinja__reduce(p, JP_OR);
    jinja_open *x = jinja__top(p);
    if (x->kind != JX_COND) return false;
    jinja__next(p);
    const int32_t back = jinja__emit(p, JO_IF, 0);
    jinja__op(p, back)->a = x->value - back;
    jinja__soften(p, x->start);
    x->kind = JX_ELSE;
    x->cond = true;
    x->start = jinja__emit(p, JO_NOP, 0);
    return p->want = true;
}

static void jinja__item(jinja_parser *p);              /* brackets are in items, and items in brackets */

/* Ends the brackets at the top, whose value is an operand now. */
static void jinja__close(jinja_parser *p) {
    p->n_open--;
    p->want = false;
    p->filtered = false;
}

/* --- arguments of calls, filters, tests --- */

/* Ends the arguments at the top: n of them, the last of all that are open. */
static void jinja__end_args(jinja_parser *p) {
    jinja       *t = p->t;
    const jinja_open x = *jinja__top(p);
    jinja_form  *form = JINJA_ADD(t->forms, t->n_forms);
    *form = (jinja_form){t->n_args, p->n_arg - (uint32_t)x.at, true};
    for (uint32_t i = (uint32_t)x.at; i < p->n_arg; i++) {
        form->plain = form->plain && p->arg[i].kind == JA_POS;
        *JINJA_ADD(t->args, t->n_args) = p->arg[i];
    }
    p->n_arg = (uint32_t)x.at;
    jinja__close(p);
    const int32_t at = jinja__emit(p, x.op, (int32_t)t->n_forms - 1);
    jinja_op     *op = jinja__op(p, at);
    op->b = x.name;
    op->line = (uint32_t)x.line;
    op->n = x.row;
    op->flag = x.op == JO_NO_FILTER && p->cond > 0;
    if (x.op == JO_NO_FILTER && !op->flag) *JINJA_ADD(p->unknown, p->n_unknown) = at;
    if (x.negated) jinja__emit(p, JO_NOT, 0);
    p->filtered = x.filtered;
    if (x.op == JO_CALL) p->call_at = at;
}

/* A filter or test by its name; it becomes an operand's last step: what is open at the top are its arguments. */
static void jinja__begin_row(jinja_parser *p, bool is_test, int32_t name, int line) {
    jinja      *t = p->t;
    const char *word = jinja__name_of(p, name);
    const filter_row *row = is_test ? test_find(bytes_of(word)) : filter_find(bytes_of(word));
    uint32_t i = 0;
    while (row && i < t->n_rows && t->rows[i] != row) i++;
    if (row && i == t->n_rows) *JINJA_ADD(t->rows, t->n_rows) = row;
    jinja_open *x = jinja__push(p, JX_ARGS, JP_NONE);
    x->op = !row ? JO_NO_FILTER : is_test ? JO_TEST : JO_FILTER;
    x->filtered = true;
    x->row = (uint16_t)i;
    x->at = (int32_t)p->n_arg;
    x->line = line;
    x->name = name;
}

/* name.name.name: no filter has a dot in its name, so it will be unknown. */
static int32_t jinja__dotted(jinja_parser *p) {
    int32_t name = jinja__expect_name(p);
    while (p->tok.sign == JT_DOT) {
        jinja__next(p);
        const val_str front = val_join(p->env, p->t->name_vals[name].s, val_str_of(p->env, ".").s);
        name = jinja__name(p, val_join(p->env, front, p->t->name_vals[jinja__expect_name(p)].s));
    }
    return name;
}

/* ( after a name: the arguments begin. Else there are none. */
static void jinja__begin_args(jinja_parser *p) {
    if (p->tok.sign != JT_LPAREN) {
        jinja__end_args(p);
        return;
    }
    jinja__next(p);
    jinja__item(p);
}

static void jinja__call(jinja_parser *p) {
    const bool filtered = p->filtered;
    jinja_open *x = jinja__push(p, JX_ARGS, JP_NONE);
    x->op = JO_CALL;
    x->filtered = filtered;
    x->at = (int32_t)p->n_arg;
    jinja__begin_args(p);
}

static void jinja__filter(jinja_parser *p) {
    const int line = p->tok.line;
    jinja__begin_row(p, false, jinja__dotted(p), line);
    jinja__begin_args(p);
}

/* Whether an argument without brackets follows the name of a test. */
static bool jinja__test_arg_follows(jinja_parser *p) {
    const jinja_sign s = p->tok.sign;
    if (s == JT_STRING || s == JT_INT || s == JT_FLOAT || s == JT_LBRACKET || s == JT_LBRACE) return true;
    if (s != JT_NAME || jinja__word(p, JW_ELSE) || jinja__word(p, JW_OR) || jinja__word(p, JW_AND)) return false;
    if (jinja__word(p, JW_IS)) jinja__expected(p, "one test after a value");
    return true;
}

static void jinja__test(jinja_parser *p) {
    const int line = p->tok.line;
    jinja__next(p);
    const bool negated = jinja__skip_word(p, JW_NOT);
    jinja__begin_row(p, true, jinja__dotted(p), line);
    jinja__top(p)->negated = negated;
    if (!jinja__test_arg_follows(p)) {
        jinja__begin_args(p);
        return;
    }
    *JINJA_ADD(p->arg, p->n_arg) = (jinja_arg){JA_POS, -1};
    jinja__push(p, JX_TEST_ARG, JP_NONE);
}

/* --- operands --- */

/* Begins an item of what is open at the top. */
static void jinja__begin_item(jinja_parser *p) {
    jinja_open *x = jinja__top(p);
    x->start = jinja__here(p);
    p->want = true;
    if (x->cond) jinja__emit(p, JO_NOP, 0);           /* an inline if after the item needs a jump in front of it */
}

static jinja_open *jinja__brackets(jinja_parser *p, jinja_open_kind kind) {
    jinja_open *x = jinja__push(p, kind, JP_NONE);
    x->cond = true;
    x->tuple = kind == JX_PAREN;
    jinja__next(p);
    return x;
}

/* Strings that are side by side are one. */
static void jinja__strings(jinja_parser *p) {
    val v = p->tok.v;
    for (jinja__next(p); p->tok.sign == JT_STRING; jinja__next(p)) v.s = val_join(p->env, v.s, p->tok.v.s);
    jinja__emit_const(p, JO_CONST, v);
}

static void jinja__name_operand(jinja_parser *p) {
    const int32_t name = p->tok.name;
    jinja__next(p);
    if (name >= JW_TRUE && name <= JW_NONE2) {
        const int word = name >= JW_TRUE2 ? name - JW_TRUE2 + JW_TRUE : name;
        jinja__emit_const(p, JO_CONST, word == JW_NONE ? val_none() : val_bool(word == JW_TRUE));
    } else jinja__emit_name(p, JO_LOAD, name);
}

static void jinja__unary(jinja_parser *p, jinja_op_name op, int level) {
    jinja__next(p);
    jinja__push(p, JX_UNARY, level)->op = (uint8_t)op;
}

/* Reads an operand or the beginning of one. */
static void jinja__operand(jinja_parser *p) {
    const bool plain = jinja__top(p)->kind == JX_TEST_ARG;
    const jinja_sign s = p->tok.sign;
    if (!plain && jinja__word(p, JW_NOT) && jinja__top(p)->level < JP_COMPARE) jinja__unary(p, JO_NOT, JP_NOT);
    else if (!plain && s == JT_SUB) jinja__unary(p, JO_NEG, JP_UNARY);
    else if (!plain && s == JT_ADD) jinja__unary(p, JO_POS, JP_UNARY);
    else if (s == JT_LPAREN) jinja__brackets(p, JX_PAREN), jinja__item(p);
    else if (s == JT_LBRACKET) jinja__brackets(p, JX_LIST), jinja__item(p);
    else if (s == JT_LBRACE) jinja__brackets(p, JX_KEY), jinja__item(p);
    else {
        p->want = false;
        p->filtered = false;
        if (s == JT_NAME) jinja__name_operand(p);
        else if (s == JT_STRING) jinja__strings(p);
        else if (s == JT_INT || s == JT_FLOAT) jinja__emit_const(p, JO_CONST, p->tok.v), jinja__next(p);
        else jinja__expected(p, "an expression");
    }
}

/* .name, or .3 */
static void jinja__attribute(jinja_parser *p) {
    jinja__next(p);
    if (p->tok.sign == JT_NAME) {
        jinja__emit(p, JO_ATTR, p->tok.name);
        jinja__next(p);
    } else if (p->tok.sign == JT_INT) {
        jinja__emit_const(p, JO_CONST, p->tok.v);
        jinja__next(p);
        jinja__emit(p, JO_ITEM, 0);
    } else jinja__expected(p, "a name or a number after '.'");
}

/* What binds tighter than every operator: attributes, subscripts, calls, filters, tests. */
static bool jinja__postfix(jinja_parser *p) {
    const jinja_sign s = p->tok.sign;
    if (s == JT_DOT && !p->filtered) return jinja__attribute(p), true;
    if (s == JT_LBRACKET && !p->filtered) return jinja__brackets(p, JX_INDEX), jinja__item(p), true;
    if (s == JT_LPAREN) return jinja__call(p), true;
    if (jinja__top(p)->kind == JX_TEST_ARG) {
        p->n_open--;
        return jinja__end_args(p), true;
    }
    if (s != JT_PIPE && !jinja__word(p, JW_IS)) return false;
    jinja__reduce(p, JP_UNARY);                       /* -x|abs is (-x)|abs */
    if (s == JT_PIPE) jinja__next(p), jinja__filter(p);
    else jinja__test(p);
    return true;
}

/* --- items of brackets --- */

/* Where a tuple without brackets of its own may end. */
static bool jinja__tuple_end(const jinja_parser *p) {
    return p->tok.sign == JT_PRINT_END || p->tok.sign == JT_BLOCK_END || p->tok.sign == JT_RPAREN;
}

/* The sign that ends brackets of this kind. */
static const jinja_sign jinja__shut[] = {
    [JX_LIST] = JT_RBRACKET, [JX_INDEX] = JT_RBRACKET, [JX_KEY] = JT_RBRACE, [JX_PAREN] = JT_RPAREN, [JX_ARGS] = JT_RPAREN,
};

static bool jinja__is_tuple(const jinja_open *x) { return x->kind == JX_EXPR || x->kind == JX_PAREN; }

/* Ends the brackets at the top, or the expression without any. */
static void jinja__end_brackets(jinja_parser *p) {
    const jinja_open x = *jinja__top(p);
    if (x.part && x.n != 1) jinja__fail(p, "found a slice among subscripts, expected it alone");
    if (x.kind == JX_ARGS) {
        jinja__next(p);
        jinja__end_args(p);
        return;
    }
    jinja__close(p);
    if (x.kind != JX_EXPR) jinja__expect(p, jinja__shut[x.kind]);
    if (x.kind == JX_LIST || x.kind == JX_KEY) jinja__emit(p, x.kind == JX_LIST ? JO_LIST : JO_DICT, (int32_t)x.n);
    else if (x.kind == JX_INDEX ? x.n != 1 : x.comma || !x.n) jinja__emit(p, JO_TUPLE, (int32_t)x.n);
    if (x.kind == JX_INDEX) jinja__emit(p, x.part ? JO_SLICE : JO_ITEM, 0);
}

/* An argument: its kind and name. Jinja2's order: by position, then by name and *list. */
static void jinja__begin_arg(jinja_parser *p) {
    jinja_open *x = jinja__top(p);
    jinja_arg   arg = {JA_POS, -1};
    const uint8_t before = x->kinds;
    if (p->n_arg - (uint32_t)x->at == JINJA_ARGS) jinja__fail(p, "found more than %d arguments", JINJA_ARGS);
    if (p->tok.sign == JT_MUL) arg.kind = JA_STAR, jinja__next(p);
    else if (p->tok.sign == JT_NAME && jinja__peek(p)->sign == JT_ASSIGN) {
        arg = (jinja_arg){JA_KEY, p->tok.name};
        for (uint32_t i = (uint32_t)x->at; i < p->n_arg; i++)
            if (p->arg[i].kind == JA_KEY && p->arg[i].name == arg.name)
                jinja__fail(p, "found the argument '%s' twice", jinja__name_of(p, arg.name));
        jinja__next(p);
        jinja__next(p);
    }
    const uint8_t last = arg.kind == JA_POS ? 1 << JA_KEY | 1 << JA_STAR : arg.kind == JA_STAR ? 1 << JA_STAR : 0;
    if (before & last) jinja__expected(p, "arguments by position before those by name, and one *");
    *JINJA_ADD(p->arg, p->n_arg) = arg;
    x->kinds |= (uint8_t)(1 << arg.kind);
    x->cond = true;
    jinja__begin_item(p);
}

/* A part of a slice that is left out. */
static void jinja__emit_none(jinja_parser *p) {
    jinja__emit_const(p, JO_CONST, val_none());
    p->want = false;
}

/* Before an item of the brackets at the top: begins it, or ends them where they are empty or end with a comma. */
static void jinja__item(jinja_parser *p) {
    const jinja_open *x = jinja__top(p);
    const bool bracket = p->tok.sign == jinja__shut[x->kind] && !(x->kind == JX_INDEX && x->comma);
    if (jinja__is_tuple(x) ? x->tuple && jinja__tuple_end(p) : bracket) {
        if (!x->n && x->kind == JX_EXPR) jinja__expected(p, "an expression");
        jinja__end_brackets(p);
    } else if (x->kind == JX_ARGS) jinja__begin_arg(p);
    else {
        jinja__begin_item(p);
        if (x->kind == JX_INDEX && p->tok.sign == JT_COLON) jinja__emit_none(p);
    }
}

/* After an item: a comma, or the end of the brackets. */
static void jinja__after(jinja_parser *p) {
    jinja_open      *x = jinja__top(p);
    const jinja_sign shut = jinja__shut[x->kind];
    const bool       comma = p->tok.sign == JT_COMMA;
    x->n++;
    if (jinja__is_tuple(x) ? !x->tuple || !comma : p->tok.sign == shut) {
        jinja__end_brackets(p);
        return;
    }
    if (!comma) jinja__fail(p, "found '%s', expected ',' or '%s'", jinja__found(p), jinja__sign_name(shut));
    x->comma = true;
    jinja__next(p);
    jinja__item(p);
}

/* A colon after a part of a subscript begins the next part of a slice. False: such a part is to be read. */
static bool jinja__slice_parts(jinja_parser *p) {
    jinja_open *x = jinja__top(p);
    while (x->part < 2 && p->tok.sign == JT_COLON) {
        x->part++;
        jinja__next(p);
        const jinja_sign s = p->tok.sign;
        jinja__begin_item(p);
        if (s != JT_RBRACKET && s != JT_COMMA && !(s == JT_COLON && x->part == 1)) return false;
        jinja__emit_none(p);
    }
    if (x->part == 1) jinja__emit_none(p), x->part = 2;
    return true;
}

/* An item of what is open at the top is whole. */
static void jinja__end_item(jinja_parser *p) {
    jinja__reduce(p, JP_COND);
    jinja_open *x = jinja__top(p);
    ASSERT(x->kind <= JX_ARGS);                       /* an operator is no bracket */
    if (x->kind == JX_KEY) {
        jinja__expect(p, JT_COLON);
        x->kind = JX_VALUE;
        jinja__begin_item(p);
        return;
    }
    if (x->kind == JX_VALUE) x->kind = JX_KEY;
    if (x->kind != JX_INDEX || jinja__slice_parts(p)) jinja__after(p);
}

enum { JE_COND = 1, JE_TUPLE = 2 };

/* Reads what is open above `base` to its end. */
static void jinja__run_open(jinja_parser *p, uint32_t base) {
    while (p->n_open > base) {
        if (p->want) jinja__operand(p);
        else if (!jinja__postfix(p) && !jinja__operator(p) && !jinja__inline_if(p) && !jinja__inline_else(p)) jinja__end_item(p);
    }
}

/* A filter or test that no `if` keeps from running must exist. */
static void jinja__known(jinja_parser *p) {
    if (!p->n_unknown) return;
    const jinja_op *op = jinja__op(p, p->unknown[0]);
    const char     *name = jinja__name_of(p, op->b);
    jinja__fail_at(p, (int)op->line, "found '%s', which is no filter or test here%s", name, filter_nearest(bytes_of(name)).p);
}

/* An expression; flags: what it may be beside an operand and operators. */
static void jinja__expr(jinja_parser *p, int flags) {
    const uint32_t base = p->n_open;
    jinja_open *x = jinja__push(p, JX_EXPR, JP_NONE);
    x->cond = flags & JE_COND;
    x->tuple = flags & JE_TUPLE;
    jinja__item(p);
    jinja__run_open(p, base);
    jinja__known(p);
}

/* --- frames and functions --- */

static int32_t jinja__begin_frame(jinja_parser *p) {
    const int32_t frame = (int32_t)p->t->n_frames;
    *JINJA_ADD(p->t->frames, p->t->n_frames) = (jinja_frame){.begin = jinja__emit(p, JO_ENTER, frame), .fn = p->fn};
    p->cond = 0;
    return frame;
}

static void jinja__end_frame(jinja_parser *p, int32_t frame) { p->t->frames[frame].end = jinja__here(p); }

static int32_t jinja__begin_fn(jinja_parser *p, int32_t name, int32_t *frame) {
    jinja        *t = p->t;
    const int32_t fn = (int32_t)t->n_fns, depth = fn ? t->fns[p->fn].depth + 1 : 0;
    *JINJA_ADD(t->fns, t->n_fns) = (jinja_fn){
        .up = p->fn, .depth = depth, .entry = jinja__here(p), .name = name, .first_param = t->n_params, .caller = -1,
    };
    if (fn) t->fns[p->fn].kept = true;
    p->fn = fn;
    *frame = jinja__begin_frame(p);
    t->frames[*frame].is_fn = true;
    return fn;
}

static void jinja__end_fn(jinja_parser *p, int32_t fn, int32_t frame) {
    jinja__emit(p, JO_RETURN, 0);
    jinja__end_frame(p, frame);
    p->fn = p->t->fns[fn].up;
}

/* --- targets of assignments --- */

static bool jinja__inside(const jinja_parser *p, int word) {
    for (uint32_t i = 0; i < p->n_block; i++)
        if (p->block[i].word == word) return true;
    return false;
}

static void jinja__target_name(jinja_parser *p, jinja_store how, bool ns, bool is_for) {
    if (p->tok.sign != JT_NAME || (p->tok.name >= JW_TRUE && p->tok.name <= JW_NONE2)) jinja__expected(p, "a name to set");
    const int32_t name = p->tok.name;
    jinja__next(p);
    if (ns && p->tok.sign == JT_DOT) {
        jinja__next(p);
        jinja__emit_name(p, JO_NS_STORE, name);
        const int32_t attr = jinja__expect_name(p);
        jinja__emit(p, JO_NS_NAME, attr);
        return;
    }
    const bool special = name == JW_LOOP && (is_for || (how != JS_PARAM && jinja__inside(p, JW_FOR)));
    if (special) jinja__fail(p, "found 'loop' as a name to set in a loop, expected another name");
    jinja__emit_name(p, JO_STORE, name);
    jinja__op(p, jinja__here(p) - 1)->flag = (uint8_t)(how == JS_STORE && p->cond ? JS_MAYBE : how);
}

static void jinja__begin_target(jinja_parser *p) {
    jinja_open *x = jinja__push(p, JX_TARGET, JP_NONE);
    x->start = jinja__emit(p, JO_NOP, 0);
}

static void jinja__end_target(jinja_parser *p, bool inner) {
    const jinja_open x = *jinja__top(p);
    if (!x.n && !inner) jinja__expected(p, "a name to set");
    if (x.comma || !x.n) {
        jinja__op(p, x.start)->op = JO_UNPACK;
        jinja__op(p, x.start)->a = (int32_t)x.n;
    }
    jinja__close(p);
    if (inner) jinja__expect(p, JT_RPAREN);
}

/* A name, or names in commas and round brackets; the code sets them to the value on the stack. ns: name.attribute may be here. */
static void jinja__target(jinja_parser *p, jinja_store how, bool ns, bool is_for) {
    const uint32_t base = p->n_open;
    jinja__begin_target(p);
    while (p->n_open > base) {
        jinja_open *x = jinja__top(p);
        const bool  inner = p->n_open > base + 1;
        if (!p->want) {
            x->n++;
            if (p->tok.sign == JT_COMMA) x->comma = p->want = true, jinja__next(p);
            else jinja__end_target(p, inner);
        } else if (jinja__tuple_end(p)) jinja__end_target(p, inner);
        else if (p->tok.sign == JT_LPAREN) {
            jinja__next(p);
            jinja__begin_target(p);
        } else {
            jinja__target_name(p, how, ns && !inner, is_for);
            p->want = false;
        }
    }
}

/* --- statements --- */

static jinja_block *jinja__block_top(const jinja_parser *p) { return p->n_block ? &p->block[p->n_block - 1] : NULL; }

static jinja_block *jinja__begin_block(jinja_parser *p, int word) {
    jinja__deep(p);
    jinja_block *b = JINJA_ADD(p->block, p->n_block);
    *b = (jinja_block){
        .word = (uint8_t)word, .line = p->last_line, .frame = -1, .fn = -1, .cond = p->cond, .at = -1, .out = -1, .name = -1,
        .held = p->n_held, .filters = p->n_held,
    };
    return b;
}

static void jinja__end_block(jinja_parser *p) {
    p->cond = jinja__block_top(p)->cond;
    p->n_block--;
}

/* A colon may end the head of a statement. */
static void jinja__colon(jinja_parser *p) {
    if (p->tok.sign == JT_COLON) jinja__next(p);
}

static void jinja__if_test(jinja_parser *p) {
    jinja__next(p);
    jinja__expr(p, JE_TUPLE);
    const int32_t at = jinja__emit(p, JO_UNLESS, 0);
    jinja__block_top(p)->at = at;
    jinja__colon(p);
}

static void jinja__if(jinja_parser *p) {
    jinja__begin_block(p, JW_IF);
    p->cond++;
    jinja__if_test(p);
}

/* The end of a branch: the jump to the end of all, and the place where the next branch begins. */
static void jinja__next_branch(jinja_parser *p) {
    jinja_block *b = jinja__block_top(p);
    jinja__link(p, JO_JUMP, &b->out);
    jinja__land(p, b->at);
    b->at = -1;
}

static void jinja__elif(jinja_parser *p) { jinja__next_branch(p), jinja__if_test(p); }

static void jinja__endif(jinja_parser *p) {
    jinja_block *b = jinja__block_top(p);
    if (b->at >= 0) jinja__land(p, b->at);
    jinja__land_all(p, b->out);
    jinja__next(p);
}

/* The code that tests an item: a part of the loop that JO_NEXT runs. */
static void jinja__for_test(jinja_parser *p, uint32_t target, uint32_t test) {
    const int32_t begin = jinja__here(p) - 1, over = jinja__emit(p, JO_JUMP, 0);
    jinja__op(p, begin)->a = jinja__here(p) - begin;
    jinja__op(p, begin)->n = 1;
    p->t->fns[p->fn].kept = true;                     /* the test may run after the call, when somebody keeps `loop` */
    const int32_t frame = jinja__begin_frame(p);
    jinja__unhold(p, target, test);
    jinja__unhold(p, test, p->n_held);
    jinja__emit(p, JO_TESTED, 0);
    jinja__end_frame(p, frame);
    jinja__land(p, over);
}

static void jinja__for(jinja_parser *p) {
    const uint32_t target = p->n_held;
    int32_t        from = jinja__here(p);
    jinja__next(p);
    jinja__target(p, JS_PARAM, false, true);
    jinja__hold(p, from);
    if (!jinja__skip_word(p, JW_IN)) jinja__expected(p, "'in'");
    jinja__expr(p, JE_TUPLE);
    const uint32_t test = p->n_held;
    const bool     has_test = jinja__skip_word(p, JW_IF);
    from = jinja__here(p);
    if (has_test) jinja__expr(p, JE_COND);
    jinja__hold(p, from);
    jinja_block *b = jinja__begin_block(p, JW_FOR);
    b->begin = jinja__emit(p, JO_FOR, 0);
    if (has_test) jinja__for_test(p, target, test);
    b->top = jinja__emit(p, JO_NEXT, 0);
    b->body = b->frame = jinja__begin_frame(p);
    b->has_body = true;
    jinja__unhold(p, target, test);
    p->n_held = target;
    jinja__colon(p);
}

/* The end of the body of a loop; what follows runs once. */
static void jinja__end_rounds(jinja_parser *p, bool with_else) {
    jinja_block *b = jinja__block_top(p);
    if (with_else) jinja__emit(p, JO_RAN, 0);
    const int32_t back = jinja__emit(p, JO_JUMP, 0);
    jinja__op(p, back)->a = b->top - back;
    jinja__end_frame(p, b->frame);
    jinja__land(p, b->top);
    jinja__land_all(p, b->out);
    b->out = -1;
    if (b->used & 1 << (JW_LOOP - JW_CALLER)) {
        p->t->frames[b->body].has_loop = true;
        jinja__op(p, b->top)->flag = true;
        jinja__op(p, b->begin)->flag = true;
    }
    b->at = jinja__emit(p, JO_FOR_END, 0);
}

static void jinja__else(jinja_parser *p) {
    jinja_block *b = jinja__block_top(p);
    jinja__next(p);
    if (b->word == JW_IF) jinja__next_branch(p);
    else {
        jinja__end_rounds(p, true);
        b->frame = jinja__begin_frame(p);
    }
    b->in_else = true;
    jinja__colon(p);
}

/* What a call or a filter wrote goes out as it is. */
static void jinja__print_raw(jinja_parser *p) {
    const int32_t at = jinja__emit(p, JO_PRINT, 0);
    jinja__op(p, at)->flag = true;
}

static void jinja__endfor(jinja_parser *p) {
    jinja_block *b = jinja__block_top(p);
    jinja__next(p);
    if (!b->in_else) jinja__end_rounds(p, false);
    else {
        jinja__end_frame(p, b->frame);
        jinja__land(p, b->at);
    }
}

/* break and continue: they leave captures that began inside the loop. */
static void jinja__leave_round(jinja_parser *p) {
    const bool is_break = jinja__word(p, JW_BREAK);
    const int  line = p->tok.line;
    uint32_t  i = p->n_block;
    uint16_t  captures = 0;
    jinja__next(p);
    for (; i > 0 && (p->block[i - 1].word != JW_FOR || p->block[i - 1].in_else); i--) {
        const jinja_block *b = &p->block[i - 1];
        if (b->fn >= 0 || b->word == JW_GENERATION) i = 1;            /* no loop of this function is around it */
        captures = (uint16_t)(captures + (b->word == JW_SET || b->word == JW_FILTER));
    }
    if (!i) jinja__fail_at(p, line, "found '%s' outside of a loop", is_break ? "break" : "continue");
    jinja_block *b = &p->block[i - 1];
    if (captures) jinja__emit(p, JO_DROP, captures);
    if (is_break) jinja__link(p, JO_JUMP, &b->out);
    else {
        const int32_t at = jinja__emit(p, JO_JUMP, 0);
        jinja__op(p, at)->a = b->top - at;
    }
}

/* Filters of a block, kept for its end. */
static void jinja__block_filters(jinja_parser *p, bool begun) {
    const uint32_t base = p->n_open;
    const int32_t  from = jinja__here(p);
    p->want = false;
    for (; begun || p->tok.sign == JT_PIPE; begun = false) {
        if (!begun) jinja__next(p);
        jinja__filter(p);
        jinja__run_open(p, base);
    }
    jinja__known(p);
    jinja__hold(p, from);
}

static void jinja__capture(jinja_parser *p) {
    jinja__emit(p, JO_CAPTURE, 0);
    jinja__block_top(p)->frame = jinja__begin_frame(p);
    jinja__colon(p);
}

static void jinja__end_capture(jinja_parser *p) {
    const jinja_block *b = jinja__block_top(p);
    jinja__next(p);
    jinja__emit(p, JO_CAPTURED, 0);
    jinja__unhold(p, b->filters, p->n_held);
    jinja__end_frame(p, b->frame);
    jinja__unhold(p, b->held, b->filters);
    p->n_held = b->held;
    if (b->word == JW_FILTER) jinja__print_raw(p);
}

static void jinja__set(jinja_parser *p) {
    const uint32_t held = p->n_held;
    const int32_t  from = jinja__here(p);
    jinja__next(p);
    jinja__target(p, JS_STORE, true, false);
    jinja__hold(p, from);
    if (p->tok.sign == JT_ASSIGN) {
        for (uint32_t i = held; i < p->n_held; i++)
            if (p->held[i].op == JO_NS_STORE) jinja__emit_name(p, JO_NS_CHECK, p->held[i].b);
        jinja__next(p);
        jinja__expr(p, JE_COND | JE_TUPLE);
        jinja__unhold(p, held, p->n_held);
        p->n_held = held;
        return;
    }
    const uint32_t filters = p->n_held;
    jinja__block_filters(p, false);
    jinja_block *b = jinja__begin_block(p, JW_SET);
    b->held = held;
    b->filters = filters;
    jinja__capture(p);
}

static void jinja__filter_block(jinja_parser *p) {
    const uint32_t filters = p->n_held;
    jinja__next(p);
    jinja__block_filters(p, true);
    jinja_block *b = jinja__begin_block(p, JW_FILTER);
    b->held = b->filters = filters;
    jinja__capture(p);
}

/* Parameters: each gets its default, or an undefined value, where the call gives none. Returns whether `caller` is one
 * without a default. */
static bool jinja__signature(jinja_parser *p) {
    jinja         *t = p->t;
    const uint32_t first = t->n_params;
    bool           defaults = false, bare = false;
    jinja__expect(p, JT_LPAREN);
    while (p->tok.sign != JT_RPAREN) {
        if (t->n_params > first) jinja__expect(p, JT_COMMA);
        if (p->tok.sign != JT_NAME || (p->tok.name >= JW_TRUE && p->tok.name <= JW_NONE2)) jinja__expected(p, "a parameter");
        const int32_t name = p->tok.name, at = jinja__emit(p, JO_ARG, 0);
        for (uint32_t i = first; i < t->n_params; i++)
            if (t->params[i] == name) jinja__fail(p, "found the parameter '%s' twice", jinja__name_of(p, name));
        if (t->n_params - first == JINJA_ARGS) jinja__fail(p, "found more than %d parameters", JINJA_ARGS);
        jinja__op(p, at)->n = (uint16_t)(t->n_params - first);
        *JINJA_ADD(t->params, t->n_params) = name;
        jinja__next(p);
        if (p->tok.sign == JT_ASSIGN) {
            jinja__next(p);
            jinja__expr(p, JE_COND);
            defaults = true;
        } else if (defaults)
            jinja__fail(p, "found the parameter '%s' without a default after one that has one", jinja__name_of(p, name));
        else jinja__op(p, jinja__emit(p, JO_NO_ARG, 0))->b = name, bare = bare || name == JW_CALLER;
        jinja__emit_name(p, JO_STORE, name);
        jinja__op(p, jinja__here(p) - 1)->flag = JS_PARAM;
        jinja__land(p, at);
    }
    jinja__next(p);
    return bare;
}

static void jinja__macro(jinja_parser *p) {
    jinja__next(p);
    if (p->tok.sign == JT_NAME && p->tok.name >= JW_TRUE && p->tok.name <= JW_NONE2) jinja__expected(p, "the name of a macro");
    const int32_t name = jinja__expect_name(p), at = jinja__emit(p, JO_MACRO, 0);
    jinja_block  *b = jinja__begin_block(p, JW_MACRO);
    b->at = at;
    b->name = name;
    b->fn = jinja__begin_fn(p, name, &b->fn_frame);
    jinja__op(p, at)->b = b->fn;
    b->bare_caller = jinja__signature(p);
    p->t->fns[b->fn].n_params = p->t->n_params - p->t->fns[b->fn].first_param;
    b->has_body = true;
    jinja__colon(p);
}

/* Jinja2 gives a macro the arguments that are no parameters by these names, unless it has parameters of these names. Here
 * they are errors. */
static void jinja__no_rest(jinja_parser *p, const jinja_block *b) {
    const jinja_fn *fn = &p->t->fns[b->fn];
    for (int name = JW_KWARGS; name <= JW_VARARGS; name++) {
        bool own = !(b->used & 1 << (name - JW_CALLER));
        for (uint32_t i = 0; i < fn->n_params; i++) own = own || p->t->params[fn->first_param + i] == name;
        if (!own) jinja__fail_at(p, b->line, "found '%s' in a macro, which has its parameters alone", jinja__words[name]);
    }
}

/* The end of the body of a macro or of `call`. */
static void jinja__end_body(jinja_parser *p) {
    const jinja_block *b = jinja__block_top(p);
    jinja__next(p);
    const bool bare = b->bare_caller && (b->used & 1);
    if (bare) jinja__fail_at(p, b->line, "found the parameter 'caller' without a default, expected one, or none of this name");
    jinja__no_rest(p, b);
    p->t->fns[b->fn].used = b->used & 1;
    jinja__end_fn(p, b->fn, b->fn_frame);
    jinja__land(p, b->at);
}

static void jinja__endmacro(jinja_parser *p) {
    const int32_t name = jinja__block_top(p)->name, cond = jinja__block_top(p)->cond;
    jinja__end_body(p);
    const int32_t at = jinja__emit(p, JO_STORE, 0);
    jinja__op(p, at)->b = name;
    jinja__op(p, at)->flag = cond ? JS_MAYBE : JS_STORE;
}

static void jinja__call_block(jinja_parser *p) {
    const uint32_t held = p->n_held, params = p->t->n_params;
    const int32_t  from = jinja__here(p);
    bool           bare = false;
    jinja__next(p);
    if (p->tok.sign == JT_LPAREN) bare = jinja__signature(p);
    jinja__hold(p, from);
    const uint32_t n_params = p->t->n_params - params;
    jinja__expr(p, JE_COND);
    if (p->call_at < from || p->call_at != jinja__here(p) - 1)
        jinja__fail(p, "found an expression after 'call', expected a call");
    jinja_block *b = jinja__begin_block(p, JW_CALL);
    b->bare_caller = bare;
    b->call = *jinja__op(p, p->call_at);
    p->t->n_code--;
    b->at = jinja__emit(p, JO_MACRO, 0);
    b->fn = jinja__begin_fn(p, -1, &b->fn_frame);
    jinja__op(p, b->at)->b = b->fn;
    p->t->fns[b->fn].first_param = params;
    p->t->fns[b->fn].n_params = n_params;
    jinja__unhold(p, held, p->n_held);
    p->n_held = b->held = held;
    b->has_body = true;
    jinja__colon(p);
}

static void jinja__endcall(jinja_parser *p) {
    jinja_op call = jinja__block_top(p)->call;
    jinja__end_body(p);
    call.flag = true;
    *JINJA_ADD(p->t->code, p->t->n_code) = call;
    jinja__print_raw(p);
}

static void jinja__end_scope(jinja_parser *p) {
    jinja__next(p);
    jinja__end_frame(p, jinja__block_top(p)->frame);
}

static void jinja__generation(jinja_parser *p) {
    jinja__next(p);
    jinja__begin_block(p, JW_GENERATION)->frame = jinja__begin_frame(p);
    jinja__colon(p);
}

static void jinja__refused(jinja_parser *p) {
    jinja__fail(p, "found '%s', which is refused: a template is one file without blocks", jinja__found(p));
}

/* Statements. of: the one that a word goes on with or ends, 0: it begins one, or stands alone. */
static const struct {
    uint8_t word;
    uint8_t of;
    void  (*read)(jinja_parser *p);
} jinja__statements[] = {
    {JW_IF, 0, jinja__if},
    {JW_FOR, 0, jinja__for},
    {JW_SET, 0, jinja__set},
    {JW_MACRO, 0, jinja__macro},
    {JW_CALL, 0, jinja__call_block},
    {JW_FILTER, 0, jinja__filter_block},
    {JW_GENERATION, 0, jinja__generation},
    {JW_BREAK, 0, jinja__leave_round},
    {JW_CONTINUE, 0, jinja__leave_round},
    {JW_BLOCK, 0, jinja__refused},
    {JW_EXTENDS, 0, jinja__refused},
    {JW_INCLUDE, 0, jinja__refused},
    {JW_IMPORT, 0, jinja__refused},
    {JW_FROM, 0, jinja__refused},
    {JW_ELIF, JW_IF, jinja__elif},
    {JW_ELSE, JW_IF, jinja__else},
    {JW_ELSE, JW_FOR, jinja__else},
    {JW_ENDIF, JW_IF, jinja__endif},
    {JW_ENDFOR, JW_FOR, jinja__endfor},
    {JW_ENDSET, JW_SET, jinja__end_capture},
    {JW_ENDMACRO, JW_MACRO, jinja__endmacro},
    {JW_ENDCALL, JW_CALL, jinja__endcall},
    {JW_ENDFILTER, JW_FILTER, jinja__end_capture},
    {JW_ENDGENERATION, JW_GENERATION, jinja__end_scope},
};

static bool jinja__is_end(int word) { return word != JW_ELIF && word != JW_ELSE; }

/* The word that ends a statement, for a message. */
static const char *jinja__end_of(int word) {
    for (size_t i = 0; i < sizeof jinja__statements / sizeof *jinja__statements; i++)
        if (jinja__statements[i].of == word && jinja__is_end(jinja__statements[i].word))
            return jinja__words[jinja__statements[i].word];
    return "";
}

static void jinja__statement(jinja_parser *p) {
    const jinja_block *b = jinja__block_top(p);
    if (p->tok.sign != JT_NAME) jinja__expected(p, "a statement");
    for (size_t i = 0; i < sizeof jinja__statements / sizeof *jinja__statements; i++) {
        const int of = jinja__statements[i].of, word = jinja__statements[i].word;
        if (word != p->tok.name || (of && (!b || b->word != of || (b->in_else && !jinja__is_end(word))))) continue;
        jinja__statements[i].read(p);
        if (of && jinja__is_end(word)) jinja__end_block(p);
        return;
    }
    if (!b) jinja__expected(p, "a statement");
    jinja__fail(p, "found '%s' inside '%s' of line %d, expected '%s' or a statement", jinja__found(p), jinja__words[b->word],
        b->line, jinja__end_of(b->word));
}

static void jinja__template(jinja_parser *p) {
    int32_t frame;
    jinja__begin_fn(p, -1, &frame);
    for (jinja__next(p); p->tok.sign != JT_EOF;) {
        const jinja_sign s = p->tok.sign;
        if (s == JT_DATA) jinja__emit_const(p, JO_TEXT, p->tok.v), jinja__next(p);
        else if (s == JT_PRINT) {
            jinja__next(p);
            jinja__expr(p, JE_COND | JE_TUPLE);
            jinja__emit(p, JO_PRINT, 0);
            jinja__expect(p, JT_PRINT_END);
        } else {
            jinja__expect(p, JT_BLOCK);
            jinja__statement(p);
            jinja__expect(p, JT_BLOCK_END);
        }
    }
    const jinja_block *b = jinja__block_top(p);
    if (b)
        jinja__fail(p, "found the end of the template inside '%s' of line %d, expected '%s'", jinja__words[b->word], b->line,
            jinja__end_of(b->word));
    jinja__emit(p, JO_END, 0);
    jinja__end_frame(p, frame);
}

/* --- binder: names to slots --- */

/* A new variable of a frame. */
static jinja_load *jinja__define(jinja_parser *p, jinja_frame *f, int32_t name, int how) {
    jinja         *t = p->t;
    const int32_t  slot = t->fns[f->fn].n_slots++;
    const uint32_t at = p->n_sym;
    *JINJA_ADD(p->sym, p->n_sym) = (jinja_sym){name, f->fn, slot, p->bound[name]};
    *JINJA_ADD(t->loads, t->n_loads) = (jinja_load){.how = how, .slot = slot, .name = name};
    if (how == JL_ALIAS) {
        const jinja_sym *outer = &p->sym[p->bound[name]];
        t->loads[at].up = t->fns[f->fn].depth - t->fns[outer->fn].depth;
        t->loads[at].from = outer->slot;
    }
    p->bound[name] = (int32_t)at;
    f->n_syms++;
    return &t->loads[at];
}

static bool jinja__own(const jinja_parser *p, const jinja_frame *f, int32_t name) { return p->bound[name] >= f->first_sym; }

/* A name that is first read in a frame, and unknown around it, comes from the context. One that is first set begins with
 * the value of the outer variable of this name; without one it begins without a value, or inside `if` with that of the
 * context. So does Jinja2. */
static void jinja__see(jinja_parser *p, jinja_frame *f, const jinja_op *op) {
    const int32_t name = op->b;
    if (op->op == JO_STORE && op->flag == JS_PARAM) {
        if (jinja__own(p, f, name)) p->t->loads[p->bound[name]].how = JL_PARAM;
        else jinja__define(p, f, name, JL_PARAM);
    } else if (op->op == JO_STORE) {
        if (!jinja__own(p, f, name))
            jinja__define(p, f, name, p->bound[name] >= 0 ? JL_ALIAS : op->flag == JS_MAYBE ? JL_RESOLVE : JL_UNDEF);
    } else if ((op->op == JO_LOAD || op->op == JO_NS_CHECK || op->op == JO_NS_STORE) && p->bound[name] < 0)
        jinja__define(p, f, name, JL_RESOLVE);
}

/* Variables of a function: parameters first, then `caller` where its body reads it. */
static void jinja__bind_params(jinja_parser *p, jinja_frame *f) {
    jinja_fn *fn = &p->t->fns[f->fn];
    for (uint32_t i = 0; i < fn->n_params; i++) jinja__define(p, f, p->t->params[fn->first_param + i], JL_PARAM);
    if (fn->used && !jinja__own(p, f, JW_CALLER)) fn->caller = jinja__define(p, f, JW_CALLER, JL_PARAM)->slot;
}

/* The variables of a frame: from its whole code, but not from that of the frames inside it. */
static void jinja__bind_frame(jinja_parser *p, jinja_frame *f) {
    f->first_sym = (int32_t)p->n_sym;
    if (f->is_fn) jinja__bind_params(p, f);
    if (f->has_loop) jinja__op(p, f->begin - 1)->b = jinja__define(p, f, JW_LOOP, JL_PARAM)->slot;
    for (int32_t i = f->begin + 1; i < f->end; i++) {
        const jinja_op *op = jinja__op(p, i);
        if (op->op == JO_ENTER) i = p->t->frames[op->a].end - 1;
        else jinja__see(p, f, op);
    }
    bool idle = true;
    for (int32_t i = 0; i < f->n_syms; i++) idle = idle && p->t->loads[f->first_sym + i].how == JL_PARAM;
    if (idle) jinja__op(p, f->begin)->op = JO_NOP;
}

static void jinja__unbind_frame(jinja_parser *p, const jinja_frame *f) {
    for (int32_t i = f->first_sym + f->n_syms - 1; i >= f->first_sym; i--) p->bound[p->sym[i].name] = p->sym[i].hidden;
}

/* Gives each name the slot of the variable that it means. */
static void jinja__bind(jinja_parser *p) {
    jinja   *t = p->t;
    int32_t *outer = p->place = mem_new(t->n_code + t->n_frames + 1, sizeof *p->place), cur = -1;
    p->bound = mem_new(t->n_names, sizeof *p->bound);
    for (uint32_t i = 0; i < t->n_names; i++) p->bound[i] = -1;
    for (int32_t i = 0; i < (int32_t)t->n_code; i++) {
        jinja_op *op = &t->code[i];
        for (; cur >= 0 && t->frames[cur].end == i; cur = outer[cur]) jinja__unbind_frame(p, &t->frames[cur]);
        if (op->op == JO_ENTER) {
            const int32_t frame = op->a;
            outer[frame] = cur;
            cur = frame;
            jinja__bind_frame(p, &t->frames[frame]);
        } else if (op->op == JO_LOAD || op->op == JO_STORE || op->op == JO_NS_CHECK || op->op == JO_NS_STORE) {
            const jinja_sym *sym = &p->sym[p->bound[op->b]];
            op->a = sym->slot;
            op->n = (uint16_t)(t->fns[t->frames[cur].fn].depth - t->fns[sym->fn].depth);
        }
    }
}

/* --- packer --- */

static bool jinja__jumps(const jinja_op *op) {
    switch ((jinja_op_name)op->op) {
    case JO_JUMP: case JO_IF: case JO_UNLESS: case JO_OR: case JO_AND: case JO_CHAIN: case JO_NEXT: case JO_MACRO: case JO_ARG:
        return true;
    case JO_FOR:     return op->n;
    case JO_FOR_END: return op->a;
    default:         return false;
    }
}

/* Drops what does nothing; jumps name their aim. */
static void jinja__pack(jinja_parser *p) {
    jinja   *t = p->t;
    int32_t *place = p->place, n = 0;
    for (uint32_t i = 0; i < t->n_code; i++) {
        place[i] = n;
        n += t->code[i].op != JO_NOP;
    }
    place[t->n_code] = n;
    for (uint32_t i = 0; i < t->n_fns; i++) t->fns[i].entry = place[t->fns[i].entry];
    for (uint32_t i = 0; i < t->n_code; i++) {
        jinja_op op = t->code[i];
        if (op.op == JO_NOP) continue;
        if (jinja__jumps(&op)) op.a = place[(int32_t)i + op.a];
        t->code[place[i]] = op;
    }
    t->n_code = (uint32_t)n;
}

/* --- a template --- */

/* The text with \n for each kind of line end, and without the last one. */
static val jinja__source(val_env *env, bytes text) {
    str s = {0};
    str_reserve(&s, text.n);
    for (size_t i = 0; i < text.n; i++) {
        const bool cr = text.p[i] == '\r';
        s.p[s.n++] = cr ? '\n' : (char)text.p[i];
        if (cr && i + 1 < text.n && text.p[i + 1] == '\n') i++;
    }
    if (s.n && s.p[s.n - 1] == '\n') s.n--;
    const val v = val_text(env, str_bytes(&s), false);
    str_drop(&s);
    return v;
}

static void jinja__build(val_env *env, void *arg) {
    jinja_parser *p = arg;
    val_chr       text[16];
    for (int32_t i = 0; i < JW_WORDS; i++) {
        uint32_t n = 0;
        for (; jinja__words[i][n]; n++) text[n] = (uint8_t)jinja__words[i][n];
        val_chr *kept = val_alloc(env, n, sizeof *kept);
        memcpy(kept, text, n * sizeof *kept);
        jinja__name(p, (val_str){kept, n, NULL});
    }
    jinja__template(p);
    jinja__bind(p);
    jinja__pack(p);
}

static void jinja__drop_parser(jinja_parser *p) {
    mem_free_all(p->open, p->block, p->held, p->arg, p->unknown, p->slot, p->bound, p->sym, p->place);
}

/* t may be NULL. No rendering of it may run. */
static void jinja_free(jinja *t) {
    if (!t) return;
    val_env_drop(&t->env);
    mem_free_all(t->code, t->consts, t->forms, t->args, t->frames, t->loads, t->fns, t->params, t->names, t->name_vals,
        t->rows, t->file, t);
}

/* file: the template's name in messages. NULL: it is wrong, and e says where. */
static jinja *jinja_parse(bytes text, const char *file, err_t *e) {
    if (text.n > JINJA_SOURCE)
        return err_set(e, EXIT_RESOURCE, "%s: a template of %zu bytes, expected %d at most", file, text.n, JINJA_SOURCE), NULL;
    jinja       *t = mem_new(1, sizeof *t);
    jinja_parser p = {.t = t, .env = &t->env, .line = 1};
    t->file = str_dup(file);
    val_env_init(&t->env, JINJA_VALUES, JINJA_STEPS, t->file);
    const val src = jinja__source(&t->env, text);
    p.src = src.s.p;
    p.n_src = src.s.n;
    const bool ok = val_run(&t->env, jinja__build, &p, e);
    jinja__drop_parser(&p);
    if (ok) return t;
    jinja_free(t);
    return NULL;
}

/* --- evaluator --- */

enum { JINJA_MISSING = VAL_KINDS };                   /* kind of a slot without a value */

/* What was rendered: bytes, and which of them messages wrote. */
typedef struct {
    str       text;
    val_spans from;
    long long steps;
} jinja_text;

/* The variables of one call. */
typedef struct jinja_act {
    const jinja_fn   *fn;
    struct jinja_act *up;                             /* of the function around it; in a list of spare ones: the next */
    val               slot[];
} jinja_act;

typedef struct {
    val_object       base;
    const jinja     *t;
    const jinja_fn  *fn;
    jinja_act       *up;
} jinja_macro;

/* A loop that runs. */
typedef struct jinja_loop {
    val_object       base;
    val              over;                            /* what it goes through */
    uint64_t         at;                              /* place of the next item in it */
    size_t           n_over;                          /* entries of a dict when it began */
    val              before;                          /* the item of the round before */
    val              now;                             /* of the round that runs */
    val              after;                           /* of the next round; see `ahead` */
    enum { LOOP_UNREAD, LOOP_AFTER, LOOP_LAST } ahead;    /* whether `after` was read, and is there */
    int64_t          index0;
    int64_t          length;                          /* -1: not counted yet */
    bool             ran;                             /* a whole round is done */
    bool             kept;                            /* the body can see `loop` */
    const jinja_op  *test;                            /* code that an item must pass; NULL: none */
    jinja_act       *act;                             /* where it runs */
    val              item;                            /* under the test */
    val_list        *rest;                            /* loop.length gathers what passes; NULL: it does not */
    struct jinja_loop *spare;
} jinja_loop;

typedef struct {
    const jinja_op *back;
    jinja_act      *act;
    jinja_loop     *loop;                             /* the test of its items; NULL: a macro */
} jinja_call;

typedef struct {
    const jinja    *t;
    val_env         env;
    val             vars;
    jinja_text     *out;
    const jinja_op *pc;
    jinja_act      *act;
    val            *stack;
    size_t          n_stack;
    size_t          cap_stack;
    jinja_call      call[JINJA_CALLS];
    int             n_call;
    val_buf       **capture;                          /* [cap_capture] buffers, used again and again */
    size_t          n_capture;
    size_t          cap_capture;
    val_buf        *scratch;                          /* printed forms */
    jinja_act     **spare_act;                        /* [functions] */
    jinja_loop     *spare_loop;
    bool            done;
} jinja_vm;

static void jinja__put(jinja_vm *vm, val v) {
    if (vm->n_stack == vm->cap_stack) {
        val *more = val_alloc(&vm->env, 2 * vm->cap_stack, sizeof *more);
        memcpy(more, vm->stack, vm->n_stack * sizeof *more);
        vm->cap_stack *= 2;
        vm->stack = more;
    }
    vm->stack[vm->n_stack++] = v;
}

static val  jinja__pop(jinja_vm *vm) { return vm->stack[--vm->n_stack]; }
static val *jinja__peek_val(jinja_vm *vm, size_t down) { return &vm->stack[vm->n_stack - 1 - down]; }
static void jinja__goto(jinja_vm *vm, int32_t at) { vm->pc = vm->t->code + at; }

/* Writes into the text that is rendered, a piece at a time: its origins count as memory. */
static void jinja__write_out(jinja_vm *vm, val_str s) {
    enum { PIECE = 1 << 16 };
    jinja_text *out = vm->out;
    for (size_t at = 0; at < s.n && out->text.n <= JINJA_TEXT; at += PIECE) {
        const val_str piece = val_sub(s, at, s.n - at < PIECE ? s.n : at + PIECE);
        val_step_chars(&vm->env, piece.n);
        val_utf8_from(piece, &out->text, &out->from);
        const bool spent = out->from.n > JINJA_VALUES / sizeof *out->from.at;
        if (spent) val_fail(&vm->env, EXIT_RESOURCE, "the memory of %d MiB for origins is spent", JINJA_VALUES >> 20);
    }
    if (out->text.n > JINJA_TEXT) val_fail(&vm->env, EXIT_RESOURCE, "the template writes more than %d MiB", JINJA_TEXT >> 20);
}

static void jinja__write(jinja_vm *vm, val_str s) {
    if (vm->n_capture) val_buf_add(&vm->env, vm->capture[vm->n_capture - 1], s);
    else jinja__write_out(vm, s);
}

/* str(v) */
static val_str jinja__text_of(jinja_vm *vm, val v) {
    if (v.kind == VAL_STR) return v.s;
    vm->scratch->n = 0;
    val_print(&vm->env, vm->scratch, v);
    return val_buf_str(vm->scratch);
}

static void jinja__do_text(jinja_vm *vm, const jinja_op *op) { jinja__write(vm, vm->t->consts[op->a].s); }

static void jinja__do_print(jinja_vm *vm, const jinja_op *op) {
    const val v = jinja__pop(vm);
    if (op->flag && v.kind != VAL_STR)
        val_fail(&vm->env, EXIT_INPUT, "found %s as the result of a block, expected str", val_kind_name(v));
    jinja__write(vm, jinja__text_of(vm, v));
}

static void jinja__do_const(jinja_vm *vm, const jinja_op *op) { jinja__put(vm, vm->t->consts[op->a]); }
static void jinja__do_no_else(jinja_vm *vm, const jinja_op *op) { (void)op, jinja__put(vm, val_undef("an `if` without else")); }
static void jinja__do_no_arg(jinja_vm *vm, const jinja_op *op) { jinja__put(vm, val_undef(vm->t->names[op->b])); }

static val *jinja__slot(const jinja_vm *vm, int up, int32_t slot) {
    jinja_act *a = vm->act;
    for (; up > 0; up--) a = a->up;
    return &a->slot[slot];
}

static void jinja__do_load(jinja_vm *vm, const jinja_op *op) {
    const val v = *jinja__slot(vm, op->n, op->a);
    jinja__put(vm, v.kind == JINJA_MISSING ? val_undef(vm->t->names[op->b]) : v);
}

static void jinja__do_store(jinja_vm *vm, const jinja_op *op) {
    const val v = jinja__pop(vm);
    *jinja__slot(vm, op->n, op->a) = v;
}

static val_object *jinja__namespace(jinja_vm *vm, const jinja_op *op) {
    const val v = *jinja__slot(vm, op->n, op->a);
    if (v.kind == VAL_OBJECT && v.object->type->set) return v.object;
    const char *kind = v.kind == JINJA_MISSING ? "the undefined" : val_kind_name(v);
    val_fail(&vm->env, EXIT_INPUT, "found an attribute set of %s '%s', expected a namespace", kind, vm->t->names[op->b]);
}

static void jinja__do_ns_check(jinja_vm *vm, const jinja_op *op) { jinja__namespace(vm, op); }

static void jinja__do_ns_store(jinja_vm *vm, const jinja_op *op) {
    val_object   *o = jinja__namespace(vm, op);
    const int32_t name = vm->pc++->a;
    const val     v = jinja__pop(vm);
    const bool set = o->type->set(&vm->env, o, vm->t->name_vals[name].s, v);
    if (!set) val_fail(&vm->env, EXIT_INPUT, "the attribute '%s' cannot be set", vm->t->names[name]);
}

static void jinja__do_unpack(jinja_vm *vm, const jinja_op *op) {
    const val       v = jinja__pop(vm);
    const val_list *l = val_items(&vm->env, v);
    if (l->n != (size_t)op->a) val_fail(&vm->env, EXIT_INPUT, "found %zu values to unpack, expected %d", l->n, op->a);
    for (size_t i = l->n; i-- > 0;) jinja__put(vm, l->at[i]);
}

/* --- loops --- */

/* The next item that the loop goes through, before its test. A list is read as it is at that moment. */
static bool jinja__pull(val_env *env, jinja_loop *l, val *item) {
    const val v = l->over;
    switch ((val_kind)v.kind) {
    case VAL_LIST:
    case VAL_TUPLE:
        if (l->at == v.list->n) return false;
        *item = v.list->at[l->at++];
        return true;
    case VAL_DICT:
    case VAL_VIEW:
        if (v.dict->live != l->n_over) val_fail(env, EXIT_INPUT, "a dict was changed while a loop went through it");
        while (l->at < v.dict->n && v.dict->at[l->at].gone) l->at++;
        if (l->at == v.dict->n) return false;
        *item = val_entry(env, v, &v.dict->at[l->at++]);
        return true;
    case VAL_ITER:
        if (v.iter->at == v.iter->list->n) return false;
        *item = v.iter->list->at[v.iter->at++];
        return true;
    case VAL_STR:
    case VAL_RANGE:
        if (l->at == val_len(env, v)) return false;
        *item = val_index(env, v, val_int((int64_t)l->at++));
        return true;
    default: return false;
    }
}

/* Reads the item after the one of this round. A loop with a test does that in the evaluator. */
static void jinja__look_ahead(val_env *env, jinja_loop *l) {
    if (l->ahead != LOOP_UNREAD) return;
    if (l->test)
        val_fail(env, EXIT_INPUT, "the next item of a loop with a condition can be asked for in the form loop.name only");
    l->ahead = jinja__pull(env, l, &l->after) ? LOOP_AFTER : LOOP_LAST;
}

static int64_t jinja__loop_length(val_env *env, jinja_loop *l) {
    if (l->length >= 0) return l->length;
    if (l->test) jinja__look_ahead(env, l);
    if (l->over.kind == VAL_ITER)
        l->length = (int64_t)(l->over.iter->list->n - l->over.iter->at) + l->index0 + 1 + (l->ahead == LOOP_AFTER);
    else l->length = (int64_t)val_len(env, l->over);
    return l->length;
}

/* Attributes of `loop`. From LA_LAST on they ask for the next item, LA_LENGTH for all. */
typedef enum { LA_INDEX, LA_INDEX0, LA_FIRST, LA_PREVITEM, LA_LAST, LA_NEXTITEM, LA_LENGTH, LA_ALL } jinja_loop_attr;

static const char *const jinja__loop_attrs[LA_ALL] = {
    [LA_INDEX] = "index", [LA_INDEX0] = "index0", [LA_FIRST] = "first", [LA_PREVITEM] = "previtem", [LA_LAST] = "last",
    [LA_NEXTITEM] = "nextitem", [LA_LENGTH] = "length",
};

static jinja_loop_attr jinja__loop_attr(val_str name) {
    for (int i = 0; i < LA_ALL; i++)
        if (val_str_is(name, jinja__loop_attrs[i])) return (jinja_loop_attr)i;
    return LA_ALL;
}

static bool jinja__loop_get(val_env *env, val_object *o, val_str name, val *out) {
    jinja_loop           *l = (jinja_loop *)o;
    const jinja_loop_attr a = jinja__loop_attr(name);
    if (a == LA_LAST || a == LA_NEXTITEM) jinja__look_ahead(env, l);
    switch (a) {
    case LA_INDEX:     *out = val_int(l->index0 + 1); break;
    case LA_INDEX0:    *out = val_int(l->index0); break;
    case LA_FIRST:     *out = val_bool(l->index0 == 0); break;
    case LA_LAST:      *out = val_bool(l->ahead == LOOP_LAST); break;
    case LA_PREVITEM:  *out = l->index0 == 0 ? val_undef("the item before the first one") : l->before; break;
    case LA_NEXTITEM:  *out = l->ahead == LOOP_LAST ? val_undef("the item after the last one") : l->after; break;
    case LA_LENGTH:    *out = val_int(jinja__loop_length(env, l)); break;
    case LA_ALL:       val_fail(env, EXIT_INPUT, "found loop.%s, which is not there", val_quote(name).p);
    }
    return true;
}

static const val_class jinja__loop_class = {.name = "LoopContext", .get = jinja__loop_get};

static void jinja__begin_call(jinja_vm *vm, jinja_call c) {
    if (vm->n_call == JINJA_CALLS)
        val_fail(&vm->env, EXIT_RESOURCE, "calls stand inside each other in more than %d levels", JINJA_CALLS);
    c.act = vm->act;
    vm->call[vm->n_call++] = c;
}

/* Ends the test of items; the instruction that asked for it runs again. */
static void jinja__end_tests(jinja_vm *vm, jinja_loop *l) {
    const jinja_call *c = &vm->call[--vm->n_call];
    vm->pc = c->back;
    vm->act = c->act;
    if (!l->rest) return;
    l->length = (int64_t)l->rest->n + l->index0 + 1 + (l->ahead == LOOP_AFTER);
    l->over = val_of_list(l->rest);
    l->at = 0;
    l->rest = NULL;
    l->test = NULL;
}

/* Goes on to the test of the next item; without one the test ends. */
static void jinja__test_next(jinja_vm *vm, jinja_loop *l) {
    if (!jinja__pull(&vm->env, l, &l->item)) {
        if (!l->rest) l->ahead = LOOP_LAST;
        jinja__end_tests(vm, l);
        return;
    }
    jinja__put(vm, l->item);
    vm->pc = l->test;
}

/* Tests items until one passes, or all of them (all). Instruction `again` then runs once more. */
static void jinja__begin_tests(jinja_vm *vm, jinja_loop *l, bool all, const jinja_op *again) {
    jinja__begin_call(vm, (jinja_call){.back = again, .loop = l});
    vm->act = l->act;
    if (all) l->rest = val_list_new(&vm->env).list;
    jinja__test_next(vm, l);
}

static void jinja__do_tested(jinja_vm *vm, const jinja_op *op) {
    jinja_loop *l = vm->call[vm->n_call - 1].loop;
    (void)op;
    if (!val_truth(jinja__pop(vm))) jinja__test_next(vm, l);
    else if (l->rest) {
        val_list_add(&vm->env, l->rest, l->item);
        jinja__test_next(vm, l);
    } else {
        l->after = l->item;
        l->ahead = LOOP_AFTER;
        jinja__end_tests(vm, l);
    }
}

/* Whether `loop.name` needs items that are not tested yet; begins their test. */
static bool jinja__awaits_test(jinja_vm *vm, val v, val_str name, const jinja_op *again) {
    if (v.kind != VAL_OBJECT || v.object->type != &jinja__loop_class) return false;
    jinja_loop *l = (jinja_loop *)v.object;
    const jinja_loop_attr a = jinja__loop_attr(name);
    if (!l->test || a < LA_LAST || a == LA_ALL) return false;
    const bool all = a >= LA_LENGTH;
    if (!all && l->ahead != LOOP_UNREAD) return false;
    jinja__begin_tests(vm, l, all, again);
    return true;
}

static jinja_loop *jinja__new_loop(jinja_vm *vm) {
    jinja_loop *l = vm->spare_loop;
    if (!l) return val_alloc(&vm->env, 1, sizeof *l);
    vm->spare_loop = l->spare;
    return l;
}

static void jinja__do_for(jinja_vm *vm, const jinja_op *op) {
    jinja_loop *l = jinja__new_loop(vm);
    const val   v = jinja__pop(vm);
    *l = (jinja_loop){.base = {&jinja__loop_class}, .over = v, .index0 = -1, .length = -1, .kept = op->flag, .act = vm->act};
    if (op->n) l->test = vm->t->code + op->a;
    if (!val_iterable(v))
        val_fail(&vm->env, EXIT_INPUT, "found %s to loop over, expected something with items", val_kind_name(v));
    if (v.kind == VAL_DICT || v.kind == VAL_VIEW) l->n_over = v.dict->live;
    jinja__put(vm, val_of_object(&l->base));
}

static void jinja__do_next(jinja_vm *vm, const jinja_op *op) {
    const val   v = *jinja__peek_val(vm, 0);
    jinja_loop *l = (jinja_loop *)v.object;
    if (l->ahead == LOOP_UNREAD && l->test) {
        jinja__begin_tests(vm, l, false, op);
        return;
    }
    if (l->ahead == LOOP_UNREAD) l->ahead = jinja__pull(&vm->env, l, &l->after) ? LOOP_AFTER : LOOP_LAST;
    if (l->ahead == LOOP_LAST) {
        jinja__goto(vm, op->a);
        return;
    }
    l->before = l->now;
    l->now = l->after;
    l->ahead = LOOP_UNREAD;
    l->index0++;
    if (op->flag) vm->act->slot[op->b] = v;
    jinja__put(vm, l->now);
}

static void jinja__do_ran(jinja_vm *vm, const jinja_op *op) {
    (void)op;
    ((jinja_loop *)jinja__peek_val(vm, 0)->object)->ran = true;
}

static void jinja__do_for_end(jinja_vm *vm, const jinja_op *op) {
    jinja_loop *l = (jinja_loop *)jinja__pop(vm).object;
    if (op->a && l->ran) jinja__goto(vm, op->a);
    if (l->kept) return;
    l->spare = vm->spare_loop;
    vm->spare_loop = l;
}

/* --- calls --- */

/* A call of a function: its variables are missing until it sets them; what it writes is its result. */
static jinja_act *jinja__enter(jinja_vm *vm, const jinja_fn *fn, jinja_act *up, const jinja_op *back) {
    jinja_act **spare = &vm->spare_act[fn - vm->t->fns], *act = *spare;
    jinja__begin_call(vm, (jinja_call){.back = back});
    if (act) *spare = act->up;
    else act = val_alloc(&vm->env, 1, sizeof *act + (size_t)fn->n_slots * sizeof *act->slot);
    val_step(&vm->env, (uint64_t)fn->n_slots / 8);
    act->fn = fn;
    act->up = up;
    for (int32_t i = 0; i < fn->n_slots; i++) act->slot[i].kind = JINJA_MISSING;
    vm->act = act;
    jinja__goto(vm, fn->entry);
    return act;
}

static void jinja__do_capture(jinja_vm *vm, const jinja_op *op) {
    (void)op;
    if (vm->n_capture == vm->cap_capture) {
        const size_t cap = vm->cap_capture ? 2 * vm->cap_capture : 16;
        val_buf    **more = val_alloc(&vm->env, cap, sizeof *more);
        if (vm->n_capture) memcpy(more, vm->capture, vm->n_capture * sizeof *more);
        for (size_t i = vm->n_capture; i < cap; i++) more[i] = val_buf_new(&vm->env);
        vm->capture = more;
        vm->cap_capture = cap;
    }
    vm->capture[vm->n_capture++]->n = 0;
}

static val_str jinja__captured(jinja_vm *vm) {
    const val_str s = val_buf_str(vm->capture[--vm->n_capture]);
    val_chr      *kept = val_alloc(&vm->env, s.n, sizeof *kept);
    val_step_chars(&vm->env, s.n);
    if (s.n) memcpy(kept, s.p, s.n * sizeof *kept);
    return (val_str){kept, s.n, NULL};
}

static void jinja__do_captured(jinja_vm *vm, const jinja_op *op) { (void)op, jinja__put(vm, val_str_view(jinja__captured(vm))); }
static void jinja__do_drop(jinja_vm *vm, const jinja_op *op) { vm->n_capture -= (size_t)op->a; }

static void jinja__do_return(jinja_vm *vm, const jinja_op *op) {
    const jinja_call *c = &vm->call[--vm->n_call];
    jinja_act        *act = vm->act;
    (void)op;
    if (!act->fn->kept) {
        jinja_act **spare = &vm->spare_act[act->fn - vm->t->fns];
        act->up = *spare;
        *spare = act;
    }
    vm->act = c->act;
    vm->pc = c->back;
    jinja__put(vm, val_str_view(jinja__captured(vm)));
}

/* --- macros --- */

static bool jinja__macro_get(val_env *env, val_object *o, val_str name, val *out) {
    (void)o, (void)out;
    val_fail(env, EXIT_INPUT, "found the attribute '%s' of a macro, which has none", val_quote(name).p);
}

static const val_class jinja__macro_class = {.name = "Macro", .get = jinja__macro_get};

static void jinja__do_macro(jinja_vm *vm, const jinja_op *op) {
    jinja_macro *m = val_alloc(&vm->env, 1, sizeof *m);
    *m = (jinja_macro){{&jinja__macro_class}, vm->t, &vm->t->fns[op->b], vm->act};
    jinja__put(vm, val_of_object(&m->base));
    jinja__goto(vm, op->a);
}

/* Takes an argument by name; false: there is none. */
static bool jinja__take(val_dict *named, val name, val *out) {
    bool found = false;
    if (!named) return false;
    *out = val_dict_get(named, name, &found);
    return found && val_dict_del(named, name);
}

/* The arguments of a macro that are no parameters: `caller` alone. */
static void jinja__extra_args(jinja_vm *vm, const jinja_fn *fn, jinja_act *act, const val_args *args) {
    val_env    *env = &vm->env;
    const char *name = fn->name < 0 ? "caller" : vm->t->names[fn->name];
    if (fn->caller >= 0) {
        val *caller = &act->slot[fn->caller];
        if (!jinja__take(args->named, vm->t->name_vals[JW_CALLER], caller) || caller->kind == VAL_NONE)
            *caller = val_undef("caller");
    }
    if (args->named && args->named->live) {
        const val_pair *p = args->named->at;
        while (p->gone) p++;
        val_fail(env, EXIT_INPUT, "the macro '%s' has no parameter '%s'", name, val_quote(p->key.s).p);
    }
    if (args->n > fn->n_params)
        val_fail(env, EXIT_INPUT, "the macro '%s' got %zu arguments, expected %u at most", name, args->n, fn->n_params);
}

/* Calls a macro: its parameters have the first slots. */
static void jinja__enter_macro(jinja_vm *vm, const jinja_macro *m, const val_args *args) {
    const jinja_fn *fn = m->fn;
    jinja_act      *act = jinja__enter(vm, fn, m->up, vm->pc);
    for (uint32_t i = 0; i < fn->n_params; i++) {
        if (i < args->n) act->slot[i] = args->at[i];
        else if (!jinja__take(args->named, vm->t->name_vals[vm->t->params[fn->first_param + i]], &act->slot[i]))
            act->slot[i].kind = JINJA_MISSING;
    }
    jinja__extra_args(vm, fn, act, args);
    jinja__do_capture(vm, NULL);
}

static void jinja__do_arg(jinja_vm *vm, const jinja_op *op) {
    if (vm->act->slot[op->n].kind != JINJA_MISSING) jinja__goto(vm, op->a);
}

/* --- arguments and calls --- */

static void jinja__add_named(jinja_vm *vm, val_args *args, val name, val v) {
    bool found = false;
    if (!args->named) args->named = val_dict_new(&vm->env).dict;
    val_dict_get(args->named, name, &found);
    if (found) val_fail(&vm->env, EXIT_INPUT, "found the argument '%s' twice", val_quote(name.s).p);
    val_dict_set(&vm->env, args->named, name, v);
}

/* The arguments of a form, which are the last values of the stack; they leave it. */
static val_args jinja__args(jinja_vm *vm, const jinja_form *form) {
    vm->n_stack -= form->n;
    const val *v = vm->stack + vm->n_stack;
    val_args   args = {v, form->n, NULL};
    if (form->plain) return args;
    const jinja_arg *arg = vm->t->args + form->first;
    val_list        *by_place = val_list_new(&vm->env).list;
    for (uint32_t i = 0; i < form->n; i++) {
        if (arg[i].kind == JA_POS) val_list_add(&vm->env, by_place, v[i]);
        else if (arg[i].kind == JA_KEY) jinja__add_named(vm, &args, vm->t->name_vals[arg[i].name], v[i]);
        else {
            const val_list *more = val_items(&vm->env, v[i]);
            val_step(&vm->env, more->n / 8);
            for (size_t k = 0; k < more->n; k++) val_list_add(&vm->env, by_place, more->at[k]);
        }
    }
    args.at = by_place->at;
    args.n = by_place->n;
    return args;
}

static void jinja__do_call(jinja_vm *vm, const jinja_op *op) {
    val_env  *env = &vm->env;
    const val caller = op->flag ? jinja__pop(vm) : val_none();
    val_args  args = jinja__args(vm, &vm->t->forms[op->a]);
    const val f = jinja__pop(vm);
    if (op->flag) jinja__add_named(vm, &args, vm->t->name_vals[JW_CALLER], caller);
    val_defined(env, f);
    const bool is_macro = f.kind == VAL_OBJECT && f.object->type == &jinja__macro_class;
    if (f.kind == VAL_FUNC) jinja__put(vm, f.func->call(env, f.func, f.self ? *f.self : val_none(), &args));
    else if (is_macro) jinja__enter_macro(vm, (jinja_macro *)f.object, &args);
    else val_fail(env, EXIT_INPUT, "found a call of %s, expected a function", val_kind_name(f));
}

static void jinja__do_filter(jinja_vm *vm, const jinja_op *op) {
    const val_args args = jinja__args(vm, &vm->t->forms[op->a]);
    const val      in = jinja__pop(vm);
    jinja__put(vm, filter_call(&vm->env, vm->t->rows[op->n], in, &args));
}

static void jinja__do_no_filter(jinja_vm *vm, const jinja_op *op) {
    const char *name = vm->t->names[op->b];
    val_fail(&vm->env, EXIT_INPUT, "found '%s', which is no filter or test here%s", name, filter_nearest(bytes_of(name)).p);
}

/* --- attributes, items, operators --- */

static void jinja__do_attr(jinja_vm *vm, const jinja_op *op) {
    const val_str name = vm->t->name_vals[op->a].s;
    const val     v = *jinja__peek_val(vm, 0);
    if (jinja__awaits_test(vm, v, name, op)) return;
    val r = filter_getattr(&vm->env, v, name);
    if (r.kind == VAL_UNDEF && !r.name) r.name = vm->t->names[op->a];
    *jinja__peek_val(vm, 0) = r;
}

/* A key, as the name of an undefined value. */
static const char *jinja__kept_name(jinja_vm *vm, val_str key) {
    const val_quoted q = val_quote(key);
    char            *name = val_alloc(&vm->env, strlen(q.p) + 1, 1);
    return strcpy(name, q.p);
}

static void jinja__do_item(jinja_vm *vm, const jinja_op *op) {
    const val key = *jinja__peek_val(vm, 0), v = *jinja__peek_val(vm, 1);
    if (key.kind == VAL_STR && jinja__awaits_test(vm, v, key.s, op)) return;
    vm->n_stack--;
    val r = filter_getitem(&vm->env, v, key);
    if (r.kind == VAL_UNDEF && !r.name && key.kind == VAL_STR) r.name = jinja__kept_name(vm, key.s);
    *jinja__peek_val(vm, 0) = r;
}

static void jinja__do_slice(jinja_vm *vm, const jinja_op *op) {
    const val step = jinja__pop(vm), to = jinja__pop(vm), from = jinja__pop(vm), v = jinja__pop(vm);
    const val r = val_slice(&vm->env, v, from, to, step);
    (void)op;
    if (r.kind != VAL_UNDEF) {
        jinja__put(vm, r);
        return;
    }
    const char *a = val_kind_name(from), *b = val_kind_name(to);
    val_fail(&vm->env, EXIT_INPUT, "found a slice of %s from %s to %s, expected a str or a list, and integers",
        val_kind_name(v), a, b);
}

static void jinja__do_list(jinja_vm *vm, const jinja_op *op) {
    const val    l = op->op == JO_LIST ? val_list_new(&vm->env) : val_tuple_new(&vm->env);
    const size_t n = (size_t)op->a;
    val_step(&vm->env, n / 16);
    for (size_t i = 0; i < n; i++) val_list_add(&vm->env, l.list, vm->stack[vm->n_stack - n + i]);
    vm->n_stack -= n;
    jinja__put(vm, l);
}

static void jinja__do_dict(jinja_vm *vm, const jinja_op *op) {
    const val    d = val_dict_new(&vm->env);
    const size_t n = 2 * (size_t)op->a;
    val_step(&vm->env, n / 8);
    for (size_t i = 0; i < n; i += 2)
        val_dict_set(&vm->env, d.dict, vm->stack[vm->n_stack - n + i], vm->stack[vm->n_stack - n + i + 1]);
    vm->n_stack -= n;
    jinja__put(vm, d);
}

static void jinja__do_concat(jinja_vm *vm, const jinja_op *op) {
    const size_t n = (size_t)op->a;
    const val   *v = vm->stack + vm->n_stack - n;
    val          r = val_str_view((val_str){0});
    for (size_t i = 0; i < n; i++) r.s = val_join(&vm->env, r.s, val_as_str(&vm->env, v[i]));
    vm->n_stack -= n;
    jinja__put(vm, r);
}

static void jinja__do_binary(jinja_vm *vm, const jinja_op *op) {
    static val (*const ops[])(val_env *, val, val) = {
        [JO_ADD] = val_add, [JO_SUB] = val_minus, [JO_MUL] = val_mul, [JO_DIV] = val_div,
        [JO_FLOORDIV] = val_floordiv, [JO_MOD] = val_mod,
    };
    const val y = jinja__pop(vm), x = jinja__pop(vm);
    jinja__put(vm, ops[op->op](&vm->env, x, y));
}

static void jinja__do_unary(jinja_vm *vm, const jinja_op *op) {
    val *v = jinja__peek_val(vm, 0);
    *v = op->op == JO_NOT ? val_bool(!val_truth(*v)) : op->op == JO_NEG ? val_neg(&vm->env, *v) : val_pos(&vm->env, *v);
}

static bool jinja__compares(jinja_vm *vm, int how, val x, val y) {
    static const char *const names[] = {[JT_LT] = "<", [JT_LE] = "<=", [JT_GT] = ">", [JT_GE] = ">="};
    if (how == JT_EQ || how == JT_NE) return val_eq(&vm->env, x, y) == (how == JT_EQ);
    if (how == JT_DOT || how == JT_COLON) return val_in(&vm->env, x, y) == (how == JT_DOT);
    const int o = val_order(&vm->env, x, y, names[how]);
    if (o == VAL_UNORDERED) return false;
    return how == JT_LT ? o < 0 : how == JT_LE ? o <= 0 : how == JT_GT ? o > 0 : o >= 0;
}

static void jinja__do_compare(jinja_vm *vm, const jinja_op *op) {
    const val y = jinja__pop(vm), x = jinja__pop(vm);
    jinja__put(vm, val_bool(jinja__compares(vm, op->n, x, y)));
}

static void jinja__do_chain(jinja_vm *vm, const jinja_op *op) {
    const val  y = jinja__pop(vm), x = jinja__pop(vm);
    const bool holds = jinja__compares(vm, op->n, x, y);
    jinja__put(vm, holds ? y : val_bool(false));
    if (!holds) jinja__goto(vm, op->a);
}

/* --- jumps and scopes --- */

static void jinja__do_jump(jinja_vm *vm, const jinja_op *op) { jinja__goto(vm, op->a); }

static void jinja__do_if(jinja_vm *vm, const jinja_op *op) {
    if (val_truth(jinja__pop(vm)) == (op->op == JO_IF)) jinja__goto(vm, op->a);
}

static void jinja__do_short(jinja_vm *vm, const jinja_op *op) {
    if (val_truth(*jinja__peek_val(vm, 0)) == (op->op == JO_OR)) jinja__goto(vm, op->a);
    else vm->n_stack--;
}

/* A name of the context, or a function that every template has. */
static val jinja__resolve(jinja_vm *vm, int32_t name) {
    bool      found;
    const val v = val_dict_get(vm->vars.dict, vm->t->name_vals[name], &found);
    if (found) return v;
    const filter_row *row = function_find(bytes_of(vm->t->names[name]));
    return row ? val_of_func(&row->head) : (val){.kind = JINJA_MISSING};
}

static void jinja__do_enter(jinja_vm *vm, const jinja_op *op) {
    const jinja_frame *f = &vm->t->frames[op->a];
    const jinja_load  *l = vm->t->loads + f->first_sym;
    val_step(&vm->env, (uint64_t)f->n_syms);
    for (int32_t i = 0; i < f->n_syms; i++, l++) {
        if (l->how == JL_RESOLVE) vm->act->slot[l->slot] = jinja__resolve(vm, l->name);
        else if (l->how == JL_ALIAS) vm->act->slot[l->slot] = *jinja__slot(vm, l->up, l->from);
        else if (l->how == JL_UNDEF) vm->act->slot[l->slot].kind = JINJA_MISSING;
    }
}

static void jinja__do_end(jinja_vm *vm, const jinja_op *op) { (void)op, vm->done = true; }

typedef void (*jinja_doer)(jinja_vm *vm, const jinja_op *op);

static const jinja_doer jinja__do[JO_OPS] = {
    [JO_TEXT] = jinja__do_text, [JO_PRINT] = jinja__do_print, [JO_CONST] = jinja__do_const,
    [JO_NO_ELSE] = jinja__do_no_else, [JO_LOAD] = jinja__do_load, [JO_STORE] = jinja__do_store,
    [JO_NS_CHECK] = jinja__do_ns_check, [JO_NS_STORE] = jinja__do_ns_store, [JO_UNPACK] = jinja__do_unpack,
    [JO_ATTR] = jinja__do_attr, [JO_ITEM] = jinja__do_item, [JO_SLICE] = jinja__do_slice, [JO_TUPLE] = jinja__do_list,
    [JO_LIST] = jinja__do_list, [JO_DICT] = jinja__do_dict, [JO_CONCAT] = jinja__do_concat,
    [JO_ADD] = jinja__do_binary, [JO_SUB] = jinja__do_binary, [JO_MUL] = jinja__do_binary,
    [JO_DIV] = jinja__do_binary, [JO_FLOORDIV] = jinja__do_binary, [JO_MOD] = jinja__do_binary,
    [JO_NEG] = jinja__do_unary, [JO_POS] = jinja__do_unary, [JO_NOT] = jinja__do_unary,
    [JO_COMPARE] = jinja__do_compare, [JO_CHAIN] = jinja__do_chain, [JO_JUMP] = jinja__do_jump,
    [JO_IF] = jinja__do_if, [JO_UNLESS] = jinja__do_if, [JO_OR] = jinja__do_short, [JO_AND] = jinja__do_short,
    [JO_FILTER] = jinja__do_filter, [JO_TEST] = jinja__do_filter, [JO_NO_FILTER] = jinja__do_no_filter,
    [JO_CALL] = jinja__do_call, [JO_ENTER] = jinja__do_enter, [JO_FOR] = jinja__do_for, [JO_NEXT] = jinja__do_next,
    [JO_TESTED] = jinja__do_tested, [JO_RAN] = jinja__do_ran, [JO_FOR_END] = jinja__do_for_end,
    [JO_MACRO] = jinja__do_macro, [JO_ARG] = jinja__do_arg, [JO_NO_ARG] = jinja__do_no_arg,
    [JO_RETURN] = jinja__do_return, [JO_CAPTURE] = jinja__do_capture, [JO_CAPTURED] = jinja__do_captured,
    [JO_DROP] = jinja__do_drop, [JO_END] = jinja__do_end,
};

static void jinja__run(val_env *env, void *arg) {
    jinja_vm       *vm = arg;
    const jinja_fn *fn = vm->t->fns;
    vm->vars = val_copy(env, vm->vars);
    vm->scratch = val_buf_new(env);
    vm->cap_stack = 64;
    vm->stack = val_alloc(env, vm->cap_stack, sizeof *vm->stack);
    vm->spare_act = val_alloc(env, vm->t->n_fns, sizeof *vm->spare_act);
    vm->act = val_alloc(env, 1, sizeof *vm->act + (size_t)fn->n_slots * sizeof *vm->act->slot);
    vm->act->fn = fn;
    for (int32_t i = 0; i < fn->n_slots; i++) vm->act->slot[i].kind = JINJA_MISSING;
    jinja__goto(vm, fn->entry);
    while (!vm->done) {
        const jinja_op *op = vm->pc++;
        env->line = (int)op->line;
        val_step(env, 1);
        jinja__do[op->op](vm, op);
    }
}

/* Frees what jinja_render gave. */
static void jinja_text_drop(jinja_text *o) {
    str_drop(&o->text);
    val_spans_drop(&o->from);
}

/* The limits of one rendering. */
typedef struct {
    uint64_t bytes;                                   /* of values */
    uint64_t steps;
} jinja_limits;

static bool jinja__render_within(const jinja *t, val vars, jinja_limits most, jinja_text *out, err_t *e) {
    jinja_vm *vm = mem_new(1, sizeof *vm);
    *out = (jinja_text){0};
    vm->t = t;
    vm->vars = vars;
    vm->out = out;
    val_env_init(&vm->env, most.bytes, most.steps, t->file);
    const bool ok = val_run(&vm->env, jinja__run, vm, e);
    if (!ok) jinja_text_drop(out);
    out->steps = (long long)vm->env.steps;
    val_env_drop(&vm->env);
    mem_free(vm);
    return ok;
}

/* Renders a template with the variables of a dict. The dict stays as it is. False: e says why, and nothing is in out. */
static bool jinja_render(const jinja *t, val vars, jinja_text *out, err_t *e) {
    return jinja__render_within(t, vars, (jinja_limits){JINJA_VALUES, JINJA_STEPS}, out, e);
}
