#!/usr/bin/env python3
"""Holds the template engine against Jinja2.

    templates.py LLMRUN DIR...                 ten conversations through every template of these folders (*.jinja,
                                               tokenizer_config.json, chat_template.json)
    templates.py --fuzz N [--seed S] DRIVER    N random snippets of snippets.py through DRIVER (tests/snippets.c)
    templates.py --record N FILE               N snippets with what Jinja2 makes of them, for make test, which needs no Jinja2

Jinja2 is set up as Hugging Face transformers does it. Where it raises an error, llmrun must refuse. A difference is listed with
its reason; the last line counts.
Exit 1: there is a difference that KNOWN does not list."""
import argparse, collections, copy, datetime, glob, json, os, random, re, resource, signal, struct, subprocess, sys, warnings
import snippets

try:
    import jinja2, jinja2.defaults, jinja2.ext, jinja2.nodes, jinja2.sandbox
except ImportError:
    sys.exit("templates.py: python3-jinja2 is not installed")

NAMES = list(jinja2.defaults.DEFAULT_FILTERS) + list(jinja2.defaults.DEFAULT_TESTS)
# Differences that stay: what the snippet holds, what the reason of the difference holds, why.
KNOWN = [
    ("", r"NameError: name '(inf|nan)'",
     "Jinja2 writes an infinite constant into its own code, which then fails; llmrun has the value"),
    ("", "AssertionError: Tried to resolve",
     "a bug of Jinja2: a name that only the filter of a set block or an assigned attribute reads"),
    (r"namespace|dict|range|\bm\b|loop", "(?i)<(class|function|macro|loopcontext)",
     "a class, function, macro or loop prints in its own way"),
    (r"\[", "found a slice of", "Jinja2 computes a constant that has no slices to undefined, and fails where it is no constant"),
    (r"__", "", "a name with two underscores is undefined, and its attributes fail"),
    (r"\bdict *[.[]", "", "dict[x] is a type of Python"),
    (r"\{#-?$", "", "a template may end directly after {#"),
    ("", "found '(?!(%s)')\\w+', which is no filter or test" % "|".join(NAMES),
     "a constant decides before the unknown name is looked up"),
    ("", r"unhashable|found dict_values as a key",
     "a constant that is not needed is computed; views of dicts are keys by address"),
    (r"\| *(map|select|reject|unique)", r"which has no items|which is no (test|filter) here|lacks the name|found \w+ as a key",
     "Jinja2's map, select and their kin fail where their results are read"),
    ("", "OverflowError: Python int too large to convert to C int|cannot be interpreted as an integer",
     "a flag or width can be any value or integer"),
    ("", "beyond 64 bits|more than 53 bits", "integers have 64 bits"),
    ("%", "'%' is not supported between str|missing is undefined", "a text has no % of its own"),
    ("format", r"format\(\): ", "format knows %s and %% alone"),
    ("loop", "in the form loop.name only", "a loop with a condition has a length only as loop.length"),
    (r"generation(.|\n)*caller", "", "generation is a call of its own in Jinja2: caller there is its own"),
    (r"\w\.\w+\W|\|", r"jinja2 prints .*method|jinja2 '[0-9]+', llmrun '[0-9]+'$",
     "the printed form of a method or an iterator has an address, which counts in its length"),
    (r"\bint *\(", "is undefined", "an undefined base is looked at although the text is no number"),
]
# Methods that change a list or a dict: transformers' sandbox refuses them, some templates need them, llmrun has them.
CHANGING = {"append", "pop", "update"}


# --- the oracle ---

class Generation(jinja2.ext.Extension):
    """The tag pair generation / endgeneration: a block of its own that prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("body_of"), [], [], body).set_lineno(line)

    @staticmethod
    def body_of(caller):
        return caller()


class Changing(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox with the methods that llmrun has besides."""
    def is_safe_attribute(self, obj, attr, value):
        return attr in CHANGING and isinstance(obj, (list, dict)) or super().is_safe_attribute(obj, attr, value)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def environment(kind):
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


STRICT, LOOSE = environment(jinja2.sandbox.ImmutableSandboxedEnvironment), environment(Changing)
LOOSE.filters["from_json"] = json.loads


class Slow(Exception):
    """The oracle takes too long."""


def render(env, text, variables):
    """What Jinja2 prints, or None and why it fails. It works on a copy: its indent changes a list."""
    def late(*_):
        raise Slow("slow")
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 10)
    try:
        return env.from_string(text).render(**copy.deepcopy(variables)).encode("utf-8", "surrogatepass"), ""
    except Slow:
        raise
    except Exception as e:                             # of whatever kind: a template can raise any
        return None, "%s: %s" % (type(e).__name__, str(e).split("\n")[0])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def first_difference(a, b):
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    begin = max(at - 20, 0)
    shown = lambda s: s[begin:at + 40].decode("utf-8", "replace")
    return "byte %d: jinja2 %r, llmrun %r" % (at, shown(a), shown(b))


def answer(code, out, error):
    """What llmrun made of a template: bytes, or None and its message."""
    if code == 0:
        return out, ""
    return None, error if code == 2 else "limit: " + error if code == 3 else "exit %d: %s" % (code, error)


def verdict(want, why, got, error):
    """None: equal. Else the reason: want and got are bytes, or None where the side fails with `why`, `error`."""
    if error.startswith("exit "):
        return error
    if want == got:
        return None
    if want is None:
        return "jinja2 fails (%s), llmrun prints %r" % (why, got[:60].decode("utf-8", "replace"))
    if got is None:
        return "llmrun fails (%s), jinja2 prints %r" % (error, want[:60].decode("utf-8", "replace"))
    return first_difference(want, got)


# --- ten conversations for a template ---

def tool(name, description, **parameters):
    schema = {"type": "object", "properties": parameters, "required": list(parameters)[:1]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def called(name, arguments, key=None):
    return dict({"id": key} if key else {}, type="function", function={"name": name, "arguments": arguments})


def talk(*turns):
    """user, assistant, user ... in turn."""
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(turns)]


MARKS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TOOLS = [
    tool("weather", "The weather of a place, today\nor later", place={"type": "string", "description": "Name of the \"place\""},
         days={"type": "integer", "minimum": 0, "default": 1}),
    tool("add", "Größe <a> & 'b' – 加", a={"type": "number"}, b={"type": ["number", "null"], "enum": [1, 2.5, None]},
         deep={"type": "array", "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}}),
]


def system(text):
    return [{"role": "system", "content": text}]


def answered(content, **more):
    return [dict({"role": "assistant", "content": content}, **more)]


def parts(*texts):
    """Parts of a content; None: an image."""
    return [{"type": "image"} if text is None else {"type": "text", "text": text} for text in texts]


TWO_CALLS = [called("weather", {"place": "東京", "days": 2}, "abcdef123"),
             called("add", {"a": 1, "b": 2.0, "deep": [{"x": True}, None]}, "abcdef124")]
RESULTS = [{"role": "tool", "name": "weather", "tool_call_id": "abcdef123", "content": "{\"sky\": \"clear ☀\"}"},
           {"role": "tool", "name": "add", "tool_call_id": "abcdef124", "content": "3"}]
AS_TEXT = [called("add", "{\"a\": 1, \"b\": 2}", "call_0001")]

CONVERSATIONS = [
    ("one question", dict(MARKS, messages=talk("What is a llama?"), add_generation_prompt=True)),
    ("system and turns", dict(
        MARKS, messages=system("You are brief.\nVery.") + talk("Hello", "Hi!\n", "  How are you?  ", "Fine.", "Good"),
        add_generation_prompt=True)),
    ("ends with an answer", dict(MARKS, messages=system("Be kind.") + talk("1 + 1?", "2"), add_generation_prompt=False)),
    ("tools offered", dict(
        MARKS, messages=system("Use tools.") + talk("Weather in Köln?"), tools=TOOLS, add_generation_prompt=True,
        tool_choice="auto")),
    ("tools called", dict(
        MARKS, messages=talk("Weather in 東京, and 1 + 2?") + answered("", tool_calls=TWO_CALLS) + RESULTS
        + answered("Clear, and 3.") + talk("Thanks"), tools=TOOLS, add_generation_prompt=True)),
    ("arguments as text, content null", dict(
        MARKS, messages=system("S") + talk("Add") + answered(None, tool_calls=AS_TEXT)
        + [{"role": "tool", "tool_call_id": "call_0001", "name": "add", "content": "3"}],
        tools=TOOLS[1:], add_generation_prompt=True)),
    ("reasoning", dict(
        MARKS, messages=talk("Think.")
        + answered("<think>\nhm\n</think>\n\nDone.", reasoning_content="First this,\nthen that.", thinking="So.") + talk("Again?")
        + answered("Yes.", reasoning_content="") + talk("And?"),
        add_generation_prompt=True, enable_thinking=False, thinking=True, reasoning_effort="high", thinking_budget=512,
        keep_past_thinking=True, clear_thinking=False)),
    ("parts of content", dict(
        MARKS, messages=system(parts("Parts ", "here.")) + talk(parts("Look: ", None, "é"), parts("Seen."), parts("More")),
        add_generation_prompt=True, enable_thinking=True)),
    ("unusual texts", dict(
        MARKS, messages=talk("", "{{ messages }} {% if %} {# #}", "<|im_end|>\n</s>[INST] <b>&amp;\"'\\n\\", "\n\n  \t",
                             "ß ﬀ İ ǆ 👨‍👩‍👧 \u00a0\u2028 \u0007", " Ünï\r\ncode\r", "'\"\\"),
        add_generation_prompt=True, enable_thinking=True, builtin_tools=["wolfram_alpha"], date_string="1 Jan 2025", tools=None)),
    ("documents and other roles", dict(
        bos_token="<|startoftext|>", eos_token="<|im_end|>",
        messages=[{"role": "developer", "content": "Answer from documents."}, {"role": "user", "content": "Who?", "name": "Zoë"}],
        documents=[{"title": "T", "text": "Body é", "doc_id": 1, "id": "d1"}, {"title": "", "text": "Second\nline"}],
        available_tools=TOOLS, controls={"length": "short"}, citation_mode="fast", model_identity="I am a model.",
        add_generation_prompt=True, custom_tools=TOOLS[:1], tools_in_user_message=False)),
]


def templates_of(folder):
    """(name, text) of each template in a folder, once for each text."""
    seen = set()
    for path in sorted(glob.glob(os.path.join(folder, "**", "*"), recursive=True)):
        base, found = os.path.basename(path), []
        if path.endswith((".jinja", ".jinja2")):
            with open(path, encoding="utf-8", newline="") as f:
                found = [("", f.read())]
        elif base.endswith(("tokenizer_config.json", "chat_template.json")):
            with open(path, encoding="utf-8") as f:
                value = json.load(f).get("chat_template", [])
            found = [("", value)] if isinstance(value, str) else [("." + t["name"], t["template"]) for t in value]
        for form, text in found:
            if text not in seen:
                seen.add(text)
                yield os.path.relpath(path, folder) + form, text


def command(program, folder, text, variables):
    """llmrun --render: bytes, or None and its message."""
    names = os.path.join(folder, "template.jinja"), os.path.join(folder, "input.json")
    with open(names[0], "w", encoding="utf-8", newline="") as f:
        f.write(text)
    with open(names[1], "w", encoding="utf-8") as f:
        json.dump(variables, f, ensure_ascii=False)
    arguments = ["--render", "--chat-template-file", names[0], "-f", names[1]]
    done = subprocess.run([program, *arguments], capture_output=True, timeout=60)
    error = done.stderr.decode("utf-8", "replace").strip()
    return answer(done.returncode, done.stdout, error)


def compare(program, folder, text, variables):
    """How a rendering compares: its kind, and the reason of a difference."""
    for again in (0, 1):                              # the clock can move between the two
        want, why = render(STRICT, text, variables)
        kind = "equal" if want is not None else "both fail"
        if want is None and re.search("SecurityError|No filter named 'from_json'", why):
            (want, why), kind = render(LOOSE, text, variables), "equal with append, pop and from_json"
            kind = kind if want is not None else "both fail"
        got, error = command(program, folder, text, variables)
        reason = verdict(want, why, got, error)
        if reason is None:
            return kind, None
    return "differ", reason


def conversations(program, folders):
    import tempfile
    counts, n = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (t for d in folders for t in templates_of(d)):
            n += 1
            for title, variables in CONVERSATIONS:
                kind, reason = compare(program, folder, text, variables)
                counts[kind] += 1
                if reason:
                    print("%s, %s: %s" % (name, title, reason), flush=True)
    total, differ = sum(counts.values()), counts["differ"]
    print("; ".join("%s %d" % k for k in sorted(counts.items())))
    share = 100 * (total - differ) / max(total, 1)
    print("%d templates, %d renderings, %d equal (%.2f %%), %d differ" % (n, total, total - differ, share, differ))
    return int(counts["differ"] > 0 or not total)


# --- random snippets ---

def known(text, want):
    return next((why for hold, made, why in KNOWN if re.search(hold, text) and re.search(made, want)), None)


def expected(text):
    """(bytes or None, why), or None where the result is not to be compared: an address, or too slow."""
    try:
        loose = re.search(r"\.(%s)\(|from_json" % "|".join(CHANGING), text)
        want, why = render(LOOSE if loose else STRICT, text, snippets.CONTEXT)
    except Slow:
        return None
    return None if want is not None and re.search(rb"(?i) at 0x[0-9a-f]+", want) else (want, why)


def run_driver(driver, texts):
    """What the driver makes of each text: bytes, or None and its message. A crash is the result of the text that did it."""
    results, at = [], 0
    head = [json.dumps(snippets.CONTEXT, ensure_ascii=False)]
    unlimited = lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while len(results) < len(texts):
        records = [t.encode("utf-8", "surrogatepass") for t in head + texts[len(results):]]
        records = b"".join(struct.pack("<I", len(p)) + p for p in records)
        done = subprocess.run([driver], input=records, capture_output=True, preexec_fn=unlimited)
        out, at = done.stdout, 0
        while at + 5 <= len(out):
            code, n = out[at], struct.unpack_from("<I", out, at + 1)[0]
            text = out[at + 5:at + 5 + n]
            results.append(answer(code, text, text.decode("utf-8", "replace")))
            at += 5 + n
        if len(results) < len(texts):
            results.append(answer(done.returncode or 1, b"", "a crash: " + done.stderr[-300:].decode("utf-8", "replace")))
    return results


def differences(driver, texts):
    """For each text: the reason of a difference, or None."""
    wants = [expected(t) for t in texts]
    gots = run_driver(driver, texts)
    return [None if w is None else verdict(w[0], w[1], got, error) for w, (got, error) in zip(wants, gots)]


def kind_of(reason):
    """What a shrunk snippet must share with the whole one."""
    return re.match(r"exit -?\d+|jinja2 fails|llmrun fails|byte", reason).group(0)


def fuzz(driver, n, seed, show):
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    counts, found, listed = collections.Counter(), {}, collections.Counter()
    print("seed %d" % seed, flush=True)
    generator = snippets.Generator(seed)
    for begin in range(0, n, 1000):
        texts = [generator.snippet() for _ in range(min(1000, n - begin))]
        for text, reason in zip(texts, differences(driver, texts)):
            counts["differ" if reason else "equal"] += 1
            why = reason and known(text, reason)
            if why:
                counts["known"] += 1
                listed[why] += 1
            if not reason or why or len(found) >= show:
                continue
            kind = kind_of(reason)
            same = lambda tries: [r is not None and kind_of(r) == kind for r in differences(driver, tries)]
            small = snippets.shrink(text, same)
            why = differences(driver, [small])[0] or reason
            if known(small, why):
                counts["known"] += 1
                listed[known(small, why)] += 1
            elif small not in found:
                found[small] = why
                print("%r\n    %s" % (small, why), flush=True)
    for why, k in listed.items():
        print("known: %s (%d)" % (why, k))
    print("%d snippets, %d equal, %d differ, %d of them as listed" % (n, counts["equal"], counts["differ"], counts["known"]))
    return int(counts["differ"] > counts["known"])


def record(n, seed, path):
    """A file of snippets that fail or print something, a line each: the snippet, a tab, = with the result, or ! for an error."""
    generator, done = snippets.Generator(seed), 0
    escape = lambda s: s.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write("# made by: tests/templates.py --record %d --seed %d %s\n" % (n, seed, path))
        f.write("# a line: a snippet, a tab, = and what Jinja2 %s prints, or ! where it fails\n" % jinja2.__version__)
        f.write(json.dumps(snippets.CONTEXT, ensure_ascii=False) + "\n")
        while done < n:
            text = generator.snippet()
            got = expected(text)
            if got is None or known(text, "jinja2 fails (%s)" % got[1] if got[0] is None else "jinja2 prints %r" % got[0]):
                continue
            if len(text) > 160 or got[0] is not None and len(got[0]) > 200 or got[0] is None and done % 4:
                continue
            try:
                f.write("%s\t%s\n" % (escape(text), "!" if got[0] is None else "=" + escape(got[0].decode("utf-8"))))
                done += 1
            except UnicodeError:
                pass


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("folders", nargs="*")
    p.add_argument("--fuzz", type=int, metavar="N")
    p.add_argument("--seed", type=int)
    p.add_argument("--show", type=int, default=40, help="stop minimising after so many differences")
    p.add_argument("--record", type=int, metavar="N")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    seed = a.seed if a.seed is not None else random.SystemRandom().randrange(1 << 32)
    if a.record:
        return record(a.record, seed, a.program)
    return fuzz(a.program, a.fuzz, seed, a.show) if a.fuzz else conversations(a.program, a.folders)


if __name__ == "__main__":
    sys.exit(main())
