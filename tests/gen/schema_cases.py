#!/usr/bin/env python3
"""Random JSON Schemas, values, and the verdicts of python3-jsonschema (draft 2020-12, formats off): tests/data/golden/schema.jsonl.
    python3 tests/gen/schema_cases.py > tests/data/golden/schema.jsonl
    python3 tests/gen/schema_cases.py SEED COUNT                          others, for a longer run
A line is [schema as a text, [[value, verdict], ...]]. Keys, strings and numbers come from small sets, so that the keywords of a schema meet.
"""
import json, random, sys
import jsonschema

KEYS = ["a", "b", "ab", "c", "x1"]
STRINGS = ["", "a", "b", "ab", "abc", "aXb", "12", "é", "x1", "kind", "aaaa"]
NUMBERS = [0, 1, 2, 3, 5, 6, -1, -3, 10, 0.5, 1.5, 2.25, 1.0, -0.5, 1e2, 12345678901234567890, 30]
PATTERNS = ["^a", "b$", "^[a-z]+$", "[0-9]", "^.{2}$", "a|b", "^x", "."]


def value(r, deep=2):
    k = r.random()
    if deep and k < 0.25: return {x: value(r, deep - 1) for x in r.sample(KEYS, r.randint(0, 4))}
    if deep and k < 0.45: return [value(r, deep - 1) for _ in range(r.randint(0, 4))]
    return r.choice([None, True, False, 0, 1] + NUMBERS * 1 + STRINGS)


def some(r, n, make): return [make() for _ in range(r.randint(1, n))]


def objects(r, deep):
    sub = lambda: schema(r, deep - 1)
    s = {}
    for word in r.sample(["properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "properties"], r.randint(1, 4)):
        if word == "properties": s[word] = {k: sub() for k in r.sample(KEYS, r.randint(1, 3))}
        elif word == "required": s[word] = r.sample(KEYS, r.randint(0, 2))
        elif word == "additionalProperties": s[word] = r.choice([False, True, sub()])
        elif word == "patternProperties": s[word] = {r.choice(PATTERNS): sub() for _ in range(r.randint(1, 2))}
        elif word == "propertyNames": s[word] = r.choice([{"pattern": r.choice(PATTERNS)}, {"enum": r.sample(KEYS, 3)}, {"maxLength": 1}, sub()])
        elif word == "minProperties": s[word] = r.randint(0, 3)
        elif word == "maxProperties": s[word] = r.randint(0, 3)
        elif word == "dependentRequired": s[word] = {r.choice(KEYS): r.sample(KEYS, r.randint(0, 2))}
        else: s[word] = {r.choice(KEYS): sub()}
    return s


def arrays(r, deep):
    sub = lambda: schema(r, deep - 1)
    s = {}
    for word in r.sample(["prefixItems", "items", "contains", "uniqueItems", "minItems", "maxItems"], r.randint(1, 3)):
        if word == "prefixItems": s[word] = some(r, 2, sub)
        elif word == "items": s[word] = r.choice([sub(), sub(), False])
        elif word == "contains":
            s[word] = sub()
            if r.random() < 0.4: s["minContains"] = r.randint(0, 2)
            if r.random() < 0.4: s["maxContains"] = r.randint(0, 3)
        elif word == "uniqueItems": s[word] = True
        else: s[word] = r.randint(0, 3)
    return s


def leaf(r):
    k = r.randint(0, 9)
    if k == 0: return {"type": r.choice(["null", "boolean", "object", "array", "string", "number", "integer"])}
    if k == 1: return {"type": r.sample(["null", "boolean", "object", "array", "string", "number", "integer"], 2)}
    if k == 2: return {"enum": [value(r, 1) for _ in range(r.randint(1, 4))]}
    if k == 3: return {"const": value(r, 2)}
    if k == 4: return {"pattern": r.choice(PATTERNS)}
    if k == 5: return {"minLength": r.randint(0, 3), "maxLength": r.randint(1, 4)}
    if k == 6: return {r.choice(["minimum", "exclusiveMinimum"]): r.choice([-1, 0, 1, 2.5]), "type": r.choice(["number", "integer"])}
    if k == 7: return {r.choice(["maximum", "exclusiveMaximum"]): r.choice([1, 3, 5.5, 100])}
    if k == 8: return {"multipleOf": r.choice([1, 2, 3, 0.5])}
    return r.choice([True, False, {}])


def schema(r, deep=3):
    k = r.random()
    if deep <= 0 or k < 0.25: return leaf(r)
    sub = lambda: schema(r, deep - 1)
    if k < 0.45: s = objects(r, deep)
    elif k < 0.6: s = arrays(r, deep)
    else: s = {}
    if k > 0.55 or r.random() < 0.15:
        word = r.choice(["anyOf", "oneOf", "allOf", "not", "if", "$ref", "oneOf", "anyOf"])
        if word in ("anyOf", "oneOf", "allOf"): s[word] = some(r, 3, sub)
        elif word == "not": s[word] = sub()
        elif word == "$ref": s[word] = "#/$defs/" + r.choice("pq")
        else:
            s["if"] = sub()
            if r.random() < 0.8: s["then"] = sub()
            if r.random() < 0.6: s["else"] = sub()
    if r.random() < 0.06: s["unevaluatedProperties"] = r.choice([False, sub()])
    if r.random() < 0.05: s["unevaluatedItems"] = r.choice([False, sub()])
    if r.random() < 0.2: s["type"] = r.choice(["object", "array", "object", "string", ["object", "null"]])
    return s


def mutate(r, v):
    """A value near v."""
    k = r.randint(0, 3)
    if isinstance(v, dict) and v and k:
        w = dict(v)
        key = r.choice(list(w))
        if k == 1: del w[key]
        else: w[key] = mutate(r, w[key])
        return w
    if isinstance(v, list) and v and k:
        w = list(v)
        i = r.randrange(len(w))
        if k == 1: del w[i]
        elif k == 2: w.append(r.choice(w))
        else: w[i] = mutate(r, w[i])
        return w
    return value(r, 1)


def case(r, n):
    while True:
        s = schema(r)
        if isinstance(s, dict) and '"#/$defs/' in json.dumps(s): s["$defs"] = {"p": schema(r, 1), "q": objects(r, 2)}
        if len(json.dumps(s)) > 700: continue
        check = jsonschema.Draft202012Validator(s)
        values, got = [value(r, 2 + (i > 4)) for i in range(n)], []
        try:
            for v in values: got.append([v, check.is_valid(v)])
            good = [v for v, ok in got if ok] or values
            for _ in range(n):
                v = mutate(r, r.choice(good))
                got.append([v, check.is_valid(v)])
        except (RecursionError, jsonschema.exceptions._WrappedReferencingError):
            continue
        seen, out = set(), []
        for g in got:
            if json.dumps(g) not in seen: out.append(g)
            seen.add(json.dumps(g))
        return [json.dumps(s, ensure_ascii=False), out]


def main():
    seed, count = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (25, 220)
    r = random.Random(seed)
    for _ in range(count): print(json.dumps(case(r, 6), ensure_ascii=False))


main()
