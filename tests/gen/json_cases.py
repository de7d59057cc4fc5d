#!/usr/bin/env python3
"""Small schemas of objects, arrays and values without parts, and which texts satisfy them, as python3-jsonschema says.
    python3 tests/gen/json_cases.py > tests/data/golden/json.jsonl

Each line is [schema, [[text, valid], ...]], the schema as text. t_json.c matches the texts, and generates its own, which must match."""
import json
import random

from jsonschema import Draft202012Validator

R = random.Random(25)
KEYS = ["a", "b", "c", "x-1", "x-2", "ab", "\u00e9", "q\"\\"]
SCALARS = [None, True, False, 0, 1, 2, -1, 1.5, "a", "b", "", "\u00e9", "x\"\\", 3]

HAND = [
    {"minProperties": 2, "type": "object"}, {"type": "object", "maxProperties": 2, "required": ["a"]}, {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3},
    {"type": "object", "properties": {k: {"type": "integer"} for k in "abc"}, "additionalProperties": False, "minProperties": 2}, {"type": "object", "propertyNames": {"enum": ["a", "b", "c"]}, "minProperties": 2},
    {"type": "object", "properties": {k: True for k in "abc"}, "required": ["b"], "additionalProperties": False, "maxProperties": 2}, {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "minProperties": 2},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4}, {"type": "array", "minItems": 30, "items": {"type": "null"}}, {"type": "array", "maxItems": 40, "minItems": 1, "items": {"type": "boolean"}},
    {"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 3}, {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
    {"type": "array", "items": {"enum": ["a", 1, None, True]}, "uniqueItems": True, "minItems": 2}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, {"type": "array", "uniqueItems": True, "contains": {"const": 1}}, {"type": "array", "contains": {"const": 1}, "maxItems": 30, "minItems": 20, "minContains": 3},
    {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 3}, "minContains": 2, "maxContains": 20}, {"not": {"additionalProperties": {"type": "integer"}}}, {"not": {"properties": {"a": {"type": "string"}}}},
    {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"l": {"$ref": "#/$defs/t"}, "v": {"type": "integer"}}, "required": ["v"], "additionalProperties": False}}},
    {"type": "number", "minimum": -1, "maximum": 2.5}, {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 0}, {"type": "integer", "minimum": 3}, {"type": "string", "minLength": 1, "maxLength": 3}, {"enum": [1, 1.5, "1", None, [], {}, [1], {"a": 1}]},
]


def scalar():
    return R.choice(SCALARS)


def value(deep=2):
    r = R.random()
    if deep <= 0 or r < 0.45: return scalar()
    if r < 0.75: return [value(deep - 1) for _ in range(R.randrange(5))]
    return {R.choice(KEYS): value(deep - 1) for _ in range(R.randrange(5))}


def plain():
    return R.choice([{}, True, {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"enum": [scalar() for _ in range(3)]}, {"const": scalar()}, {"type": ["string", "null"]},
                     {"type": "string", "maxLength": 1}, {"type": "array"}, {"type": "object"}])


def members(deep):
    s = {"type": "object"}
    if R.random() < 0.8: s["properties"] = {k: schema(deep - 1) for k in R.sample(KEYS, R.randrange(1, 4))}
    if R.random() < 0.5: s["required"] = R.sample(KEYS, R.randrange(3))
    if R.random() < 0.5: s["additionalProperties"] = R.choice([False, False, schema(deep - 1)])
    if R.random() < 0.2: s["patternProperties"] = {R.choice(["^x-", "a", "^[ab]$"]): schema(deep - 1)}
    if R.random() < 0.3: s["minProperties"] = R.randrange(4)
    if R.random() < 0.3: s["maxProperties"] = R.randrange(1, 5)
    if R.random() < 0.1: s["propertyNames"] = R.choice([{"enum": ["a", "b", "c"]}, {"pattern": "^[a-c]"}])
    return s


def items(deep):
    s = {"type": "array"}
    if R.random() < 0.6: s["items"] = schema(deep - 1)
    if R.random() < 0.3: s["prefixItems"] = [schema(deep - 1) for _ in range(R.randrange(1, 3))]
    if R.random() < 0.3: s["minItems"] = R.choice([0, 1, 2, 3])
    if R.random() < 0.3: s["maxItems"] = R.choice([1, 2, 3, 4, 25])
    if R.random() < 0.25: s["contains"] = plain()
    if "contains" in s and R.random() < 0.4: s["minContains"] = R.randrange(3)
    if "contains" in s and R.random() < 0.4: s["maxContains"] = R.randrange(1, 3)
    if R.random() < 0.2: s["uniqueItems"] = True
    return s


def schema(deep):
    r = R.random()
    if deep <= 0 or r < 0.3: return plain()
    if r < 0.65: return members(deep)
    if r < 0.9: return items(deep)
    word = R.choice(["anyOf", "oneOf", "allOf", "not"])
    return {word: plain() if word == "not" else [schema(deep - 1) for _ in range(2)]}


def near(s, deep=3):
    """A value that is likely to satisfy s."""
    if not isinstance(s, dict) or R.random() < 0.1: return value(1)
    if "enum" in s: return R.choice(s["enum"])
    if "const" in s: return s["const"]
    kind = s.get("type")
    if isinstance(kind, list): kind = R.choice(kind)
    if kind == "object":
        keys = dict.fromkeys(list(s.get("required", [])) + [k for k in s.get("properties", {}) if R.random() < 0.6] + [R.choice(KEYS) for _ in range(R.randrange(3))])
        return {k: near(s.get("properties", {}).get(k, s.get("additionalProperties", True)), deep - 1) for k in keys}
    if kind == "array":
        some = [near(s["contains"])] * R.randrange(3) if "contains" in s else []
        return [near(x) for x in s.get("prefixItems", [])] + some + [near(s.get("items", True), deep - 1) for _ in range(R.randrange(4) + min(40, s.get("minItems", 0) // 2))]
    return {"string": lambda: R.choice(["", "a", "\u00e9\u00e9", "abc"]), "integer": lambda: R.choice([0, 1, -1, 3, 2.0, 10]), "number": lambda: R.choice([0, 0.5, 2.25, -3])}.get(kind, lambda: value(1))()


def spell(v):
    text = json.dumps(v, ensure_ascii=R.random() < 0.5, indent=R.choice([None, None, 1]), separators=R.choice([None, (",", ":"), (" , ", " : ")]))
    return text.replace(": 1,", ": 10e-1,") if R.random() < 0.1 else text


def main():
    for s in HAND + [schema(3) for _ in range(130)]:
        judge, texts = Draft202012Validator(s), {}
        for _ in range(9):
            v = near(s) if R.random() < 0.8 else value()
            for _ in range(40):
                if R.random() < 0.5 or judge.is_valid(v): break
                v = near(s)
            text = spell(v)
            texts[text] = judge.is_valid(json.loads(text))
        print(json.dumps([json.dumps(s), [[t, v] for t, v in texts.items()]]))


main()
