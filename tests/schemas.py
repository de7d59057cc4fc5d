#!/usr/bin/env python3
"""JSON Schemas of others, judged by llmrun and by others.
    python3 tests/schemas.py build/test/judge --suite DIR [--only TEXT] [--show N]
        the JSON Schema test suite (json-schema-org/JSON-Schema-Test-Suite), draft 2020-12
    python3 tests/schemas.py build/test/judge --dir DIR [--most N] [--seed N] [--show N]

The suite says itself what is valid. Of a folder every JSON file is read that is a schema, or an object with "schema" and
"tests" (instances, as JSONSchemaBench has them); a folder `test/NAME` or `negative_test/NAME` beside a folder of schemas
holds instances for NAME.json (as SchemaStore has them). The instances, mutated ones and texts that llmrun generates are
judged by python3-jsonschema. N schemas are drawn (all). Prints Markdown; exit 1: an instance was taken wrongly."""
import argparse, collections, copy, glob, json, os, random, re, signal, sys, time, warnings
from oracle import Died, Judge

# Every keyword that llmrun holds. Not among them: what asks for other documents, for annotations or for other meta-schemas.
ORDINARY = ("additionalProperties allOf anyOf boolean_schema const contains dependentRequired dependentSchemas enum "
            "exclusiveMaximum exclusiveMinimum if-then-else infinite-loop-detection items maxContains maxItems maxLength "
            "maxProperties maximum minContains minItems minLength minProperties minimum multipleOf not oneOf pattern "
            "patternProperties prefixItems properties propertyNames ref required type uniqueItems default defs").split()
BEYOND = "anchor content dynamicRef format refRemote unevaluatedItems unevaluatedProperties vocabulary".split()
MUTANTS = 6                                               # of each instance
INSTANCES = 12                                            # of each schema
LIMIT = 10                                                # seconds for one schema, by either side


class Slow(Exception):
    pass


def limited(f, *args):
    def stop(*_): raise Slow
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        return f(*args)
    finally:
        signal.alarm(0)


def quantile(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(q * len(xs)))] if xs else float("nan")


def times(us):
    some = (quantile(us, 0.5), quantile(us, 0.99), max(us, default=0))
    return "compile time of what is held: p50 %.2f ms, p99 %.2f ms, most %.0f ms" % tuple(x / 1000 for x in some)


def reason(why):
    """A message without its names, numbers and places."""
    why = re.sub(r"^schema: |(?<=schema: )[/#]\S*: ", "", why)
    why = re.sub(r"^[/#][^:]*: ", "", why)
    why = re.sub(r"\"[^\"]*\"|'[^']*'", "..", why)
    return re.sub(r"\d+", "N", why).strip(" :")


# --- the suite ---

def suite_rows(folder):
    base = os.path.join(folder, "tests", "draft2020-12")
    base = base if os.path.isdir(base) else folder
    for name in ORDINARY + BEYOND:
        yield name, name in ORDINARY, os.path.join(base, name + ".json")
    for path in sorted(glob.glob(os.path.join(base, "optional", "format", "*.json"))):
        yield "format/" + os.path.basename(path)[:-5], False, path


def suite_file(judge, path, us, shown):
    """Counts of one file: right, taken, not, refused."""
    c = collections.Counter()
    for group in json.load(open(path)):
        t, no = judge.build("schema", json.dumps(group["schema"]))
        us += [] if no else [t]
        told = [None] * len(group["tests"]) if no else judge.match([json.dumps(x["data"]).encode() for x in group["tests"]])
        for test, answer in zip(group["tests"], told):
            says = answer == "yes"
            nothing = no and re.search("nothing satisfies|no value satisfies", no[1])
            kind = "right" if says == test["valid"] else "taken" if says else "not"
            if no:
                kind = "right" if nothing and not test["valid"] else "refused"
            c[kind] += 1
            if kind != "right":
                shown.append((os.path.basename(path)[:-5], kind, group["description"], test["description"],
                              no[1] if no else answer))
    return c


NAMES = {"right": "right", "taken": "wrongly taken", "not": "wrongly not matched", "refused": "schema refused"}


def suite(judge, folder, show, only):
    us, shown, totals, all_ = [], [], {True: collections.Counter(), False: collections.Counter()}, []
    for name, ordinary, path in suite_rows(folder):
        if not os.path.exists(path) or only and only not in name:
            continue
        c = suite_file(judge, path, us, shown if ordinary or only else [])
        totals[ordinary] += c
        all_.append((name, ordinary, c))
    print("| file | tests | right | wrongly taken | wrongly not matched | schema refused |\n|---|---|---|---|---|---|")
    for name, ordinary, c in all_ + [("**ordinary keywords**", True, totals[True]), ("**others**", False, totals[False])]:
        print("| %s | %d | %.1f %% | %d | %d | %d |"
              % (name, sum(c.values()), 100 * c["right"] / max(1, sum(c.values())), c["taken"], c["not"], c["refused"]))
    print("\n" + times(us) + "\n")
    for row in sorted(shown, key=lambda r: r[1] != "taken")[:show]:
        print("- %s, %s: %s; %s (%s)" % (row[0], NAMES[row[1]], *row[2:]))
    c = totals[True]
    if c["taken"] or c["right"] < 0.95 * sum(c.values()):
        print("\nsuite: an instance is taken wrongly, or less than 95 % are right")
        return 1
    return 0


# --- a folder ---

WORDS = {"$schema", "$ref", "type", "properties", "items", "allOf", "anyOf", "oneOf", "enum", "definitions", "$defs"}


def load(path):
    try:
        with open(path, encoding="utf-8-sig") as f:
            return json.load(f)
    except (OSError, ValueError, RecursionError):
        return None


def beside(path):
    """Instances of a schema of a store: those in test/NAME and negative_test/NAME."""
    name, folder = os.path.splitext(os.path.basename(path))[0], os.path.dirname(os.path.dirname(os.path.dirname(path)))
    files = sorted(glob.glob(os.path.join(folder, "*test", glob.escape(name), "*.json")))
    return [x for x in map(load, files[:INSTANCES]) if x is not None]


def schemas_of(folder, most, rng):
    """(name, schema, instances) of every file that has a schema."""
    paths = [os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs
             if f.endswith(".json") and not re.search(r"(^|/)(negative_)?test/", os.path.relpath(d, folder) + "/")]
    paths.sort()
    if most and len(paths) > most:
        paths = sorted(rng.sample(paths, most))
    for path in paths:
        j = load(path)
        if isinstance(j, dict) and isinstance(j.get("schema"), (dict, bool)) and isinstance(j.get("tests"), list):
            instances = [t["data"] for t in j["tests"] if isinstance(t, dict) and "data" in t]
            yield os.path.relpath(path, folder), j["schema"], instances[:INSTANCES]
        elif isinstance(j, dict) and WORDS & set(j):
            yield os.path.relpath(path, folder), j, beside(path)


def nodes(v, path=()):
    yield path
    for k, x in v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ():
        yield from nodes(x, path + (k,))


OTHERS = (None, True, False, 0, 1, -1, 1.5, 10 ** 9, "", "a", "x y", [], {}, [1, 1], {"a": 1}, "2020-01-01", "é")


def mutant(v, rng):
    """A copy with one change: another value, a member or an item less, more or twice, a number or a text a little other."""
    v = copy.deepcopy(v)
    path = rng.choice(list(nodes(v)))
    box = [v]
    at, key = box, 0
    for k in path:
        at, key = at[key], k
    x = at[key]
    if isinstance(x, dict) and x and rng.random() < 0.6:
        k = rng.choice(list(x))
        if rng.random() < 0.6:
            del x[k]
        else:
            x[rng.choice(("zz", "", k + "x", k.upper()))] = copy.deepcopy(x[k])
    elif isinstance(x, list) and x and rng.random() < 0.6:
        i = rng.randrange(len(x))
        x[i:i + 1] = [] if rng.random() < 0.5 else [x[i], copy.deepcopy(x[i])]
    elif isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 2 ** 53 and rng.random() < 0.6:
        at[key] = rng.choice((x + 1, x - 1, -x, x * 1000, x + 0.5, float(x)))
    elif isinstance(x, str) and rng.random() < 0.6:
        at[key] = rng.choice((x + "x", x[:-1], x.upper(), x + x, " " + x, x + "\n"))
    else:
        at[key] = copy.deepcopy(rng.choice(OTHERS))
    return box[0]


SPACE = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
ECMA = {"\\d": "0-9", "\\w": "A-Za-z0-9_", "\\s": SPACE}


def as_python(pattern):
    """An expression of JSON Schema, as ECMA-262 has it, for Python's re: other classes, and an end that is no newline's."""
    out, inside = [], False
    for part in re.findall(r"\\.|[\s\S]", pattern):
        if part in ECMA:
            part = ECMA[part] if inside else "[" + ECMA[part] + "]"
        elif part.lower() in ECMA and not inside:
            part = "[^" + ECMA[part.lower()] + "]"
        elif part in "[]":
            inside = part == "["
        elif part == "$" and not inside:
            part = "\\Z"
        out.append(part)
    return "".join(out)


def in_python(schema):
    """The schema with such expressions."""
    if isinstance(schema, list):
        return [in_python(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: as_python(v) if k == "pattern" and isinstance(v, str) else in_python(v) for k, v in schema.items()}
    if isinstance(out.get("patternProperties"), dict):
        out["patternProperties"] = {as_python(k): v for k, v in out["patternProperties"].items()}
    return out


def oracle_of(schema):
    """(validator without formats, validator with them) of the draft that the schema names; nothing is fetched."""
    import jsonschema
    cls = jsonschema.Draft202012Validator
    if isinstance(schema, dict) and isinstance(schema.get("$schema", ""), str):
        cls = jsonschema.validators.validator_for(schema, default=cls)
    cls.check_schema(schema)
    schema = in_python(schema)
    try:
        import referencing
        more = {"registry": referencing.Registry()}
    except ImportError:
        class Local(jsonschema.RefResolver):
            def resolve_remote(self, uri): raise jsonschema.RefResolutionError(uri)
        more = {"resolver": Local.from_schema(schema)}
    # As all drafts since the sixth say, 1.0 is an integer. Words that a draft lacks (const, dependencies) are read as the
    # seventh has them.
    whole = lambda checker, x: isinstance(x, int) and not isinstance(x, bool) or isinstance(x, float) and x.is_integer()
    later = {k: f for k, f in jsonschema.Draft7Validator.VALIDATORS.items() if k not in cls.VALIDATORS}
    cls = jsonschema.validators.extend(cls, later, type_checker=cls.TYPE_CHECKER.redefine("integer", whole))
    return cls(schema, **more), cls(schema, format_checker=jsonschema.FormatChecker(), **more)


def finite(x):
    """Whether JSON can say it."""
    try:
        json.dumps(x, allow_nan=False)
        return True
    except ValueError:
        return False


def ask(v, x):
    """Whether an instance is valid; None: the oracle cannot say."""
    try:
        return limited(v.is_valid, x)
    # of many kinds: references it cannot resolve, recursion, expressions it does not take, time
    except Exception:
        return None


class Folder:
    def __init__(self, binary, show):
        self.binary, self.judge, self.show = binary, Judge(binary), show
        self.slow = []
        self.c, self.us, self.reasons, self.cases = collections.Counter(), [], collections.defaultdict(list), []

    def fault(self, kind, name, what):
        self.c[kind] += 1
        if sum(k == kind for k, *_ in self.cases) < self.show:
            self.cases.append((kind, name, what))

    def restart(self, kind, name, why):
        self.judge.p.kill()
        self.judge.p.wait()
        self.judge = Judge(self.binary)
        self.fault(kind, name, why)

    def instance(self, v, text, x, answer, name, has_format):
        plain = ask(v[0], x)
        if plain is None:
            self.c["unjudged"] += 1
        elif answer.startswith("error"):
            self.fault("ended by a limit", name, text[:200])
        elif answer == "yes":
            if plain or ask(v[1], x):
                self.c["right, valid"] += 1
            else:
                self.fault("wrongly taken", name, text[:300])
        elif not plain:
            self.c["right, invalid"] += 1
        elif ask(v[1], x) is False:
            self.c["right, a format"] += 1
        elif has_format:
            self.fault("not matched, formats", name, text[:300])
        else:
            self.fault("wrongly not matched", name, "%s (%s)" % (text[:300], answer))

    def generated(self, v, schema, name, rng):
        """Texts of the generating form: valid, and matched. Returns their values."""
        t, no = self.judge.build("schema", json.dumps(schema), "plain")
        if no:
            self.reasons["generation: " + reason(no[1])].append(name)
            return []
        self.c["held in generation"] += 1
        out = []
        for text in [self.judge.least(), self.judge.sample(rng.randrange(10 ** 6), 60),
                     self.judge.sample(rng.randrange(10 ** 6), 400)]:
            if text is None:
                self.fault("no text", name, "")
                continue
            try:
                out.append(json.loads(text))
            except (ValueError, RecursionError) as e:
                self.fault("wrongly generated", name, "%r: %s" % (text[:300], e))
                continue
            if ask(v[0], out[-1]) is False and ask(v[1], out[-1]) is False:
                self.fault("wrongly generated", name, text.decode()[:300])
        return out

    def schema(self, name, schema, instances, rng):
        try:
            v = limited(oracle_of, schema)
        except Exception:
            self.c["no schema for jsonschema"] += 1
            return
        self.c["schemas"] += 1
        text = json.dumps(schema)
        t, no = self.judge.build("schema", text)
        if no:
            self.reasons[reason(no[1])].append(name)
            self.c["refused"] += 1
            return
        self.c["held"] += 1
        self.us.append(t)
        self.slow = sorted(self.slow + [(t, name)])[-3:]
        made = self.generated(v, schema, name, rng)
        xs = instances + made
        xs += [mutant(x, rng) for x in xs for _ in range(MUTANTS)]
        self.judge.build("schema", text)
        xs = [x for x in xs if finite(x)]
        texts = [json.dumps(x).encode() for x in xs]
        for x, data, answer in zip(xs, texts, self.judge.match(texts)):
            self.instance(v, data.decode(), x, answer, name, '"format"' in text)

    def run(self, rows, rng):
        for name, schema, instances in rows:
            try:
                limited_whole(self.schema, name, schema, instances, rng)
            except Slow:
                self.restart("no answer in time", name, "")
            except Died as e:
                self.restart("died", name, str(e))

    def report(self):
        c = self.c
        print("%d schemas, %d held by --match (%.1f %%), %d in generation; %d files are no schema for jsonschema\n"
              % (c["schemas"], c["held"], 100 * c["held"] / max(1, c["schemas"]), c["held in generation"],
                 c["no schema for jsonschema"]))
        print("| instances | number |\n|---|---|")
        for k in ("right, valid", "right, invalid", "right, a format", "wrongly taken", "wrongly not matched",
                  "not matched, formats", "wrongly generated", "no text", "ended by a limit", "unjudged",
                  "no answer in time", "died"):
            print("| %s | %d |" % (k, c[k]))
        print("\n" + times(self.us) + "; slowest: "
              + ", ".join("%s %.0f ms" % (name, t / 1000) for t, name in self.slow)
              + "\n\n| refused schemas | number | such as |\n|---|---|---|")
        for why, names in sorted(self.reasons.items(), key=lambda x: -len(x[1])):
            print("| %s | %d | %s |" % (why, len(names), names[0]))
        for kind, name, what in sorted(self.cases):
            print("- %s: %s: %s" % (kind, name, what))
        return int(c["wrongly taken"] > 0 or c["wrongly generated"] > 0 or c["died"] > 0)


def limited_whole(f, *args):
    """Six times the limit for a schema with all its instances."""
    t0 = time.time()
    f(*args)
    if time.time() - t0 > 6 * LIMIT:
        print("- slow: %s: %.0f s" % (args[0], time.time() - t0))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("judge")
    p.add_argument("--suite")
    p.add_argument("--dir")
    p.add_argument("--most", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=10)
    p.add_argument("--only", help="of the suite: files whose name holds this text")
    o = p.parse_args()
    if o.suite:
        sys.exit(suite(Judge(o.judge), o.suite, o.show, o.only))
    try:
        import jsonschema
    except ImportError:
        sys.exit("schemas.py: no python3-jsonschema")
    if not o.dir or not os.path.isdir(o.dir):
        sys.exit("schemas.py: --suite DIR or --dir DIR")
    warnings.simplefilter("ignore")
    rng, f = random.Random(o.seed), Folder(o.judge, o.show)
    f.run(schemas_of(o.dir, o.most, rng), rng)
    sys.exit(f.report())


if __name__ == "__main__":
    main()
