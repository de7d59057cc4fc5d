#!/usr/bin/env python3
"""A small world that writes plain English by seed, and checks what others write about it.

    python3 world.py --seed 7 --split test --kind qa --count 3     three documents
    python3 world.py --check FILE                                  contradictions in a story
    python3 world.py --stats | --selftest

The same table of sentence forms (world_forms.py) writes a story and reads one: a form has conditions on the state of the
world and changes to it. The writer picks forms whose conditions hold. The checker starts from an unknown state, replays
the sentences, learns what it did not know and reports what cannot be. The random stream of a document is seeded by
(split, seed), so the same call gives the same text everywhere, and splits do not meet.
"""
import argparse
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field

from world_forms import FORMS
from world_words import (BIG_ANIMALS, BOXES, CHESTS, CITIES, COATS, COLOURS, COMMON_COLOURS, COUNTABLE, DAYS, GROCERIES,
                         HE, HOBBIES, JOBS, KINDS_OF, MOODS_BAD, MOODS_GOOD, MOODS_MORE, NUMBERS, OBJECTS, PET_NAMES,
                         PLACES, SHE, SMALL_ANIMALS, SOUNDS, TASTES)

KINDS = ("story", "qa", "chat", "sum", "list", "record")


@dataclass
class Doc:
    kind: str
    text: str
    answers: list = field(default_factory=list)     # spans of the text that are exact answers, leading space included
    mentions: list = field(default_factory=list)    # of mentions(): what is known where a person or a thing is named


@dataclass
class Task:
    kind: str
    hops: int
    prompt: str                                     # ends just before the answer
    answer: str


@dataclass
class Report:
    contradictions: list
    parsed: int
    unparsed: list


# ===== words, indexed

NAMES = HE + SHE
MALE = frozenset(HE)
NAME_SET = frozenset(NAMES)
PHRASE = {}                 # "kitchen" -> "in the kitchen"
PLACE_OF_PHRASE = {}        # and back
OUTDOORS = {}
FEATURES = {}               # place -> things that stand there
PLACE_OF_FEATURE = {}
ACTS = {}                   # place -> what people do there
PLACE_OF_ACT = {}
SETTINGS = {}
for _setting, _lines in PLACES.items():
    SETTINGS[_setting] = []
    for _line in _lines.strip().splitlines():
        _head, _feats, _acts = _line.split("|")
        _side, _prep, _place = _head.split(None, 2)
        _place = _place.strip()
        SETTINGS[_setting].append(_place)
        PHRASE[_place] = f"{_prep} the {_place}"
        PLACE_OF_PHRASE[PHRASE[_place]] = _place
        OUTDOORS[_place] = _side == "o"
        FEATURES[_place] = [_f.strip() for _f in _feats.split(",")]
        ACTS[_place] = [_a.strip() for _a in _acts.split(";")]
        PLACE_OF_FEATURE.update((_f, _place) for _f in FEATURES[_place])
        PLACE_OF_ACT.update((_a, _place) for _a in ACTS[_place])
SETTING_NAMES = list(SETTINGS)

CLASSES = {name: words.split() for name, words in OBJECTS.items()}
CLASS_OF = {noun: name for name, nouns in CLASSES.items() for noun in nouns}
ANIMALS = SMALL_ANIMALS + BIG_ANIMALS
ANIMAL_SET = frozenset(ANIMALS)
HOLDERS = BOXES + CHESTS
HOLDER_SET = frozenset(HOLDERS)
CHEST_SET = frozenset(CHESTS)
THING_SET = frozenset(list(CLASS_OF) + HOLDERS + ANIMALS)
COLOUR_SET = frozenset(COLOURS)
ADJECTIVE_SET = frozenset(COLOURS + KINDS_OF + TASTES + COATS)
MOODS = MOODS_GOOD + MOODS_BAD + MOODS_MORE
MOOD_SET = frozenset(MOODS)
NOT_COLOURED = frozenset(["food", "nature"])


def an(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


def upper_first(s):
    return s[0].upper() + s[1:]


def number(n):
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def join_and(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


# ===== the state of the world

class World:
    """loc: whom or what something is directly at, with or in; fact: (flag or property, who) -> value."""

    __slots__ = ("loc", "fact")

    def __init__(self):
        self.loc = {}
        self.fact = {}

    def root(self, e):
        """(the place where e is, or None if unknown; the last link that was known)"""
        loc = self.loc
        for _ in range(8):
            if e in PHRASE or e == "gone":
                return e, e
            up = loc.get(e)
            if up is None:
                return None, e
            e = up
        return None, e

    def holds(self, op, a, b, c):
        """True, False, or None when the state does not say."""
        if op == "loc" or op == "nloc":
            v = self.loc.get(a)
            return None if v is None else (v == b) == (op == "loc")
        if op == "near" or op == "away":
            ra, rb = self.root(a)[0], self.root(b)[0]
            return None if ra is None or rb is None else (ra == rb) == (op == "near")
        if op == "lie":
            va, vb = self.loc.get(a), self.loc.get(b)
            if va is not None and va not in PHRASE:
                return False
            return None if va is None or vb is None else va == vb
        if op == "is" or op == "not":
            v = self.fact.get((a, b))
            return None if v is None else v == (op == "is")
        if op == "eq":
            v = self.fact.get((a, b))
            return None if v is None else v == c
        if op == "feat":
            place = self.root(b)[0]
            return None if place is None else PLACE_OF_FEATURE[a] == place
        return a != b                                   # ne

    def learn(self, op, a, b, c):
        """Take a condition that is not known to be false as true."""
        if op == "loc":
            self.loc[a] = b
        elif op == "near":
            (ra, ea), (rb, eb) = self.root(a), self.root(b)
            if ra is None and rb is not None:
                self.loc[ea] = rb
            elif rb is None and ra is not None:
                self.loc[eb] = ra
        elif op == "lie":
            va, vb = self.loc.get(a), self.loc.get(b)
            if va is None and vb is not None:
                self.loc[a] = vb
            elif vb is None and va is not None:
                self.loc[b] = va
        elif op == "is" or op == "not":
            self.fact[a, b] = op == "is"
        elif op == "eq":
            self.fact[a, b] = c
        elif op == "feat" and b not in PHRASE:
            place, top = self.root(b)
            if place is None:
                self.loc[top] = PLACE_OF_FEATURE[a]

    def follow(self, form, bind):
        """What a sentence of this form takes for granted, where it was unknown, and then what it changes."""
        get = bind.get
        for op, a, b, c in form.pre:
            a, b, c = get(a, a), get(b, b), get(c, c)
            if self.holds(op, a, b, c) is None:
                self.learn(op, a, b, c)
        for op, a, b, c in form.eff:
            self.learn(op, get(a, a), get(b, b), get(c, c))


# ===== sentence forms

THE_THING = r"the [a-z]+ [a-z]+"
SLOT_REGEX = {
    "name": r"[A-Z][a-z]+", "his": "his|her", "him": "him|her", "he": "he|she", "boy": "boy|girl", "thing": THE_THING,
    "maybe_it": THE_THING + "|it", "a_thing": r"an? [a-z]+ [a-z]+", "place": r"the [a-z]+(?: [a-z]+)?",
    "at_place": r"(?:in|at|on|by) the [a-z]+(?: [a-z]+)?", "mood": r"[a-z]+", "feature": r"[a-z' ]+", "sound": r"[a-z]+",
    "pair": r"[A-Z][a-z]+ and [A-Z][a-z]+|They",
}
GENDERED = {"his": ("his", "her"), "him": ("him", "her"), "he": ("he", "she"), "boy": ("boy", "girl")}
PEOPLE_SLOTS, THING_SLOTS, PLACE_SLOTS = "ABC", "xycn", "pq"


def slot_kind(body):
    """(kind, slot) of what stands between braces"""
    if body == "AB":
        return "pair", "AB"
    if body.endswith("'s"):
        return "name", body[0]
    if body[0] == "@":
        return "at_place", body[1]
    words = body.split()
    if len(words) == 2:
        return ("a_thing" if words[0] == "a" else words[0]), words[1]
    if body.endswith("~"):
        return "maybe_it", body[0]
    for slots, kind in ((PEOPLE_SLOTS, "name"), (THING_SLOTS, "thing"), (PLACE_SLOTS, "place"), ("m", "mood"), ("f", "feature")):
        if body in slots:
            return kind, body
    raise ValueError(body)


def parse_ops(text):
    ops = []
    for part in text.split(";"):
        words = part.split()
        if words:
            ops.append(tuple(words) if words[0] == "log" else tuple((words + [None, None])[:4]))
    return ops


class Form:
    """One sentence form: parts to write it, a regular expression to read it, conditions and changes."""

    def __init__(self, template, pre, eff):
        self.template = template
        self.pre = parse_ops(pre)
        effects = parse_ops(eff)
        self.eff = [op for op in effects if op[0] != "log"]
        self.logs = [op[1:] for op in effects if op[0] == "log"]
        self.parts, self.reads, self.verbs = [], [], []
        regex = []
        for piece in re.findall(r"\{[^}]*\}|<[^>]*>|\[[^\]]*\]|[^{<\[]+", template):
            if piece[0] == "{":
                kind, slot = slot_kind(piece[1:-1])
                self.parts.append((kind, slot))
                self.reads.append((kind, slot))
                body = SLOT_REGEX[kind]
                if not regex and body[0] in "tai":
                    body = body.replace("the ", "[Tt]he ", 1) if body[0] == "t" else "[" + body[0].upper() + body[0] + "]" + body[1:]
                regex.append("(" + body + ")")
                if piece.endswith("'s}"):
                    self.parts.append("'s")
                    regex.append("'s")
            elif piece[0] in "<[":
                words = piece[1:-1].split("|")
                if piece[0] == "<":
                    self.verbs += words
                self.parts.append(words)
                regex.append("(?:" + "|".join(map(re.escape, words)) + ")")
            else:
                self.parts.append(piece)
                regex.append(re.escape(piece))
        self.regex = re.compile("".join(regex))
        slots = {slot for _, slot in self.reads}
        self.wants_place = "p" in slots
        self.wants_feature = next((op[2] for op in self.pre if op[0] == "feat"), None)
        self.starts_with_person = isinstance(self.parts[0], tuple) and self.parts[0][0] == "name" and self.parts[1] != "'s"
        self.starts_with_pair = self.parts[0] == ("pair", "AB")
        self.one_name = [slot for kind, slot in self.reads if kind == "name"]
        if self.starts_with_person:
            self.subject = self.parts[0][1]
        elif self.starts_with_pair or template.startswith("{A} and {B}"):
            self.subject = "AB"
        else:
            self.subject = "A" if "A" in slots else None
        self.things = [s for s in slots if s in THING_SLOTS]
        self.things.sort()
        self.people = sorted(s for s in "ABC" if s in "".join(slots))


def load_forms():
    groups, forms = {}, []
    for line in FORMS.strip().splitlines():
        if not line.strip():
            continue
        head, rest = line.split("|", 1)
        template, pre, eff = re.fullmatch(r"\s*(.*?)\s*\|([^|\]>]*)\|([^|\]>]*)", rest).groups()
        names, weight = head.rsplit(None, 1)
        form = Form(template, pre, eff)
        form.id = len(forms)
        forms.append(form)
        for name in names.split(","):
            groups.setdefault(name, []).extend([form] * int(weight))
    return groups, forms


GROUPS, FORM_LIST = load_forms()


class Slots:
    """Who was spoken of last: what He, She, They and it stand for."""

    __slots__ = ("subject", "people", "things")

    def __init__(self):
        self.subject, self.people, self.things = None, (), ()

    def after(self, form, bind):
        s = form.subject
        if s == "AB":
            self.subject = (bind["A"], bind["B"])
        elif s is not None:
            self.subject = bind[s]
        else:
            self.subject = None
        self.people = tuple(bind[k] for k in form.people)
        self.things = tuple(bind[k] for k in form.things)

    def after_act(self, person):
        self.subject, self.people, self.things = person, (person,), ()


# ===== writing stories

class Stuck(Exception):
    """No form of a group fits: a mistake in a plot."""


class Story:
    """The state of a story while it is being written."""

    def __init__(self, rng):
        self.rng = rng
        self.world = World()
        self.slots = Slots()
        self.out = []
        self.before = []            # for each sentence what was where before it
        self.seen = set()
        self.used = set()
        self.log = []
        self.people = []
        self.things = []
        self.first = {}             # person -> first known place
        self.strangers = []         # people and things that are asked for and never were there
        self.title = None
        self.hero = None
        self.topic = None
        self.last_move = None
        rnd = rng.random
        names = [self.pick(NAMES) for _ in range(8)]
        self.name_pool = list(dict.fromkeys(names))
        self.setting = self.pick(SETTING_NAMES)
        self.places = rng.sample(SETTINGS[self.setting], 4)
        if rnd() < 0.15:
            self.places[3] = self.pick(SETTINGS[self.pick(SETTING_NAMES)])
            if self.places[3] in self.places[:3]:
                self.places[3] = next(p for p in SETTINGS[self.setting] if p not in self.places[:3])
        self.nouns = set()

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def chance(self, p):
        return self.rng.random() < p

    def person(self):
        name = self.name_pool.pop()
        self.people.append(name)
        return name

    def thing(self, kind):
        """A new thing of a class: "red kite". Nouns are unique within a story."""
        nouns = CLASSES.get(kind) or {"box": BOXES, "chest": CHESTS, "small": SMALL_ANIMALS, "animal": ANIMALS}[kind]
        noun = self.pick(nouns)
        while noun in self.nouns:
            noun = self.pick(nouns)
        self.nouns.add(noun)
        r = self.rng.random()
        if kind in ("small", "animal"):
            adj = self.pick(COATS)
        elif kind == "food":
            adj = self.pick(TASTES) if r < 0.7 else self.pick(COMMON_COLOURS[:3])
        else:
            adj = self.pick(COMMON_COLOURS) if r < 0.72 else self.pick(COLOURS) if r < 0.8 else self.pick(KINDS_OF)
        name = adj + " " + noun
        self.things.append(name)
        return name

    def any_thing(self):
        return self.thing(self.pick(("toy", "toy", "tool", "house", "house", "wear", "school", "music", "nature", "food")))

    # -- one sentence

    def fits(self, form, bind):
        world = self.world
        if form.wants_feature is not None:
            place = world.root(bind[form.wants_feature])[0]
            if place is None:
                return False
            bind["f"] = self.pick(FEATURES[place])
        get = bind.get
        for op, a, b, c in form.pre:
            if world.holds(op, get(a, a), get(b, b), get(c, c)) is False:
                return False
        return True

    def render(self, form, bind):
        rnd, slots = self.rng.random, self.slots
        out = []
        first = True
        for part in form.parts:
            if part.__class__ is str:
                out.append(part)
            elif part.__class__ is list:
                r = rnd()
                out.append(part[int(r * r * len(part))])
            else:
                kind, s = part
                if kind == "name":
                    name = bind[s]
                    if first and form.starts_with_person and slots.subject == name and rnd() < 0.5 and self.clear(form, bind, name):
                        name = "He" if name in MALE else "She"
                    out.append(name)
                elif kind == "thing":
                    out.append("the " + bind[s])
                elif kind == "maybe_it":
                    out.append("it" if slots.things == (bind[s],) and rnd() < 0.4 else "the " + bind[s])
                elif kind == "a_thing":
                    out.append(an(bind[s]))
                elif kind == "at_place":
                    out.append(PHRASE[bind[s]])
                elif kind == "place":
                    out.append("the " + bind[s])
                elif kind == "pair":
                    both = (bind["A"], bind["B"])
                    out.append("They" if slots.subject == both and rnd() < 0.6 else both[0] + " and " + both[1])
                elif kind == "sound":
                    out.append(SOUNDS[bind[s].split()[1]])
                elif kind in GENDERED:
                    out.append(GENDERED[kind][bind[s] not in MALE])
                else:
                    out.append(bind[s])
            first = False
        return upper_first("".join(out))

    def clear(self, form, bind, name):
        """May a pronoun stand for name: nobody else of that gender in the last sentence or in this one."""
        male = name in MALE
        for other in self.slots.people:
            if other != name and (other in MALE) == male:
                return False
        for s in form.people:
            if bind[s] != name and (bind[s] in MALE) == male:
                return False
        return name in self.slots.people and form.one_name.count(form.parts[0][1]) == 1

    def say(self, group, **bind):
        """Write one sentence of a group; the slots p (from A) and f fill themselves."""
        forms = GROUPS[group]
        if "p" not in bind and "A" in bind:
            place = self.world.loc.get(bind["A"])
            if place is not None:
                bind["p"] = place
        fallback = None
        for _ in range(12):
            form = self.pick(forms)
            if form.wants_place and "p" not in bind or not self.fits(form, bind):
                continue
            if form.id in self.used and fallback is None:
                fallback = form
                continue
            break
        else:
            form = fallback or next((f for f in dict.fromkeys(forms) if not (f.wants_place and "p" not in bind)
                                     and self.fits(f, bind)), None)
            if form is None:
                raise Stuck(group)
            self.fits(form, bind)
        for _ in range(4):
            text = self.render(form, bind)
            if text not in self.seen:
                break
        self.apply(form, bind, text)

    def apply(self, form, bind, text):
        get = bind.get
        self.add(form.id, text)
        self.world.follow(form, bind)
        for log in form.logs:
            self.log.append(tuple(get(w, w) for w in log))
        self.slots.after(form, bind)
        for s in form.people:
            name = bind[s]
            if name not in self.first and self.world.loc.get(name) in PHRASE:
                self.first[name] = self.world.loc[name]

    def add(self, form_id, text):
        self.used.add(form_id)
        self.seen.add(text)
        self.out.append(text)
        self.before.append(dict(self.world.loc))

    def act(self, name):
        """Somebody does what people do at this place."""
        place = self.world.loc[name]
        act = self.pick(ACTS[place])
        if act in self.used:
            return
        self.used.add(act)
        subject = name
        if self.slots.subject == name and self.chance(0.5):
            male = name in MALE
            if all(o == name or (o in MALE) != male for o in self.slots.people):
                subject = "He" if male else "She"
        where = " " + PHRASE[place] if self.chance(0.25) and place not in act else ""
        self.add(act, f"{subject} {act}{where}.")
        self.slots.after_act(name)
        self.log.append(("did", name, act))

    # -- small steps shared by the plots

    def where(self, e):
        return self.world.root(e)[0]

    def other_place(self, *without):
        left = [p for p in self.places if p not in without]
        return self.pick(left)

    def opening(self, a, p, once):
        self.say("once" if once else "open", A=a, p=p)

    def maybe_fill(self, a, p=0.5):
        if self.chance(p):
            if self.chance(0.6):
                self.act(a)
            else:
                self.say("fill", A=a)

    def go(self, a, q):
        if self.chance(0.1):
            self.say("plan", A=a, q=q)
        self.say("move", A=a, p=self.where(a), q=q)
        if self.chance(0.05):
            self.say("arrive", A=a, p=q)

    def go_both(self, a, b, q):
        if self.chance(0.3):
            self.say("plan2", A=self.pick((a, b)), q=q)
        if self.chance(0.75):
            self.say("move2", A=a, B=b, p=self.where(a), q=q)
        else:
            self.go(a, q)
            self.say("follow", A=b, B=a, q=q)

    def go_with(self, a, x, q):
        self.say("carry", A=a, x=x, p=self.where(a), q=q)

    def feel(self, a, moods, group="mood"):
        """A mood that is new to this person; now and then the old one is said to be over."""
        old = self.world.fact.get(("mood", a))
        new = self.pick(moods)
        if old in MOODS_BAD and new in MOODS_GOOD and self.chance(0.3):
            self.say("nomood", A=a, m=old)
        if new != old:
            self.say(group, A=a, m=new)

    def thank(self, a, b):
        self.say("thanks", A=a, B=b)
        if self.chance(0.4):
            self.say("welcome", A=b)

    def bring_in(self, a, b, q):
        """A second person at place q; A may be there or elsewhere."""
        if self.where(a) == q and self.chance(0.4):
            self.say("too", A=b, p=q)
        elif self.chance(0.4):
            self.say("friend", A=a, B=b, q=q)
        else:
            self.say("is", A=b, p=q)

    def use(self, a, x):
        kind = CLASS_OF.get(x.split()[1])
        self.say({"tool": "tool", "music": "tune", "wear": "wear"}.get(kind, "use"), A=a, x=x)

    def close(self, a, b=None):
        r = self.rng.random()
        if b is not None and r < 0.4:
            self.say("end2", A=a, B=b)
        elif r < 0.85:
            self.say("end", A=a)

    def shelter(self):
        """An indoor place of the story, if any."""
        return next((p for p in self.places if not OUTDOORS[p]), None)


def plot_lost(s, once):
    a, b = s.person(), s.person()
    x = s.thing(s.pick(("toy", "wear", "house", "school", "music")))
    p, q, r = s.places[:3]
    s.title, s.topic = f"The Lost {x.split()[1].title()}", x
    s.opening(a, p, once)
    s.say("own", A=a, x=x)
    if s.chance(0.6):
        s.say("like", A=a, x=x)
    if s.chance(0.5):
        s.go(a, q)
    else:
        s.go_with(a, x, q)
    s.maybe_fill(a, 0.5)
    s.say("forget", A=a, x=x, p=q)
    s.go(a, r)
    s.say("missing", A=a, x=x)
    s.feel(a, MOODS_BAD[:3])
    if s.chance(0.3):
        s.say("cry", A=a)
    if s.chance(0.35):
        s.say("search", A=a, x=x, p=r)
    s.bring_in(a, b, r)
    s.say("ask", A=a, B=b, x=x)
    s.say("offer", A=b, B=a)
    if s.chance(0.5):
        s.go_both(a, b, p)
        s.say("search2", A=a, B=b, x=x, p=p)
    s.go_both(a, b, q)
    finder = s.pick((a, b))
    s.say("find", A=finder, x=x, p=q)
    s.say("take", A=finder, x=x)
    if finder == b:
        s.say("give", A=b, x=x, B=a)
    s.thank(a, b)
    s.feel(a, MOODS_GOOD[:3])
    s.close(a, b)


def plot_gift(s, once):
    a, b = s.person(), s.person()
    x = s.thing(s.pick(("toy", "wear", "house", "school", "music", "food")))
    p, q = s.places[:2]
    s.title, s.topic = f"A Gift for {b}", x
    s.opening(a, p, once)
    s.maybe_fill(a)
    if s.chance(0.5):
        s.say("make" if CLASS_OF[x.split()[1]] != "food" else "bake", A=a, x=x, p=p)
    else:
        s.say("own", A=a, x=x)
    if s.chance(0.6):
        s.say("bday", A=b)
    s.say("gift", A=a, B=b, x=x)
    s.bring_in(a, b, q)
    if s.chance(0.5):
        s.go_with(a, x, q)
    else:
        s.say("visit", A=a, B=b, q=q)
    if s.chance(0.6):
        s.say("hello", A=a, B=b)
    s.say("give", A=a, x=x, B=b)
    s.say("surprise", A=b)
    s.thank(b, a)
    s.feel(b, MOODS_GOOD[:4])
    if CLASS_OF[x.split()[1]] == "food":
        s.say("share" if s.chance(0.5) else "eat", A=b, B=a, x=x)
    else:
        s.use(b, x)
        if s.chance(0.5):
            s.say("drop", A=b, x=x, p=q)
    s.maybe_fill(a, 0.3)
    s.close(a, b)


def plot_trade(s, once):
    a, b = s.person(), s.person()
    x, y = s.any_thing(), s.any_thing()
    p, q = s.places[:2]
    s.title, s.topic = "A Fair Trade", y
    s.opening(a, p, once)
    s.say("own", A=a, x=x)
    if s.chance(0.4):
        s.maybe_fill(a)
    s.bring_in(a, b, q)
    s.say("own", A=b, x=y)
    if s.chance(0.6):
        s.say("visit", A=a, B=b, q=q)
    else:
        s.go_with(a, x, q)
    if s.chance(0.5):
        s.say("hello", A=a, B=b)
    if s.chance(0.6):
        s.say("like", A=a, x=y)
    s.say("tradeask", A=a, x=x, y=y)
    s.say("agree", A=b)
    s.say("trade", A=a, x=x, B=b, y=y)
    s.feel(a, MOODS_GOOD[:3])
    if s.chance(0.5):
        s.feel(b, MOODS_GOOD[:3])
    if s.chance(0.6):
        s.go_with(a, y, p)
        if s.chance(0.5):
            s.say("drop", A=a, x=y, p=p)
    else:
        s.use(b, x)
    s.close(a, b)


def plot_picnic(s, once):
    a, b = s.person(), s.person()
    box = s.thing("box")
    foods = [s.thing("food") for _ in range(1 + (s.rng.random() < 0.7))]
    p, q = s.places[:2]
    s.title, s.topic = "The Picnic", box
    if s.chance(0.5):
        s.say("once2" if once else "open2", A=a, B=b, p=p)
    else:
        s.opening(a, p, once)
        s.say("too", A=b, p=p)
    s.say("plan2", A=a, q=q)
    s.say("lies", A=a, x=box, p=p)
    s.say("openc", A=a, c=box)
    for who, x in zip((a, b), foods):
        s.say("own", A=who, x=x)
        s.say("putin", A=who, x=x, c=box)
    if s.chance(0.4):
        s.say("closec", A=a, c=box)
    s.say("take", A=a, x=box)
    if s.chance(0.5):
        s.say("move2", A=a, B=b, p=p, q=q)
    else:
        s.go_with(a, box, q)
        s.say("follow", A=b, B=a, q=q)
    if s.chance(0.5):
        s.say("drop", A=a, x=box, p=q)
    s.maybe_fill(b, 0.4)
    if s.chance(0.7):
        if s.world.fact.get(("open", box)) is False:
            s.say("openc", A=b, c=box)
        s.say("takeout", A=b, x=foods[0], c=box)
        s.say("share" if s.chance(0.5) else "eat", A=b, B=a, x=foods[0])
    s.say("both", A=a, B=b)
    s.feel(s.pick((a, b)), MOODS_GOOD[:2] + MOODS_MORE[:1])
    s.close(a, b)


def plot_repair(s, once):
    a, b = s.person(), s.person()
    x = s.thing(s.pick(("toy", "house", "music", "toy")))
    y = s.thing("tool")
    p, q = s.places[:2]
    s.title, s.topic = f"The Broken {x.split()[1].title()}", x
    s.opening(a, p, once)
    s.say("own", A=a, x=x)
    if s.chance(0.4):
        s.use(a, x)
    s.say("broke", A=a, x=x)
    s.feel(a, MOODS_BAD[:3])
    s.bring_in(a, b, q)
    s.say("own", A=b, x=y)
    s.go_with(a, x, q)
    s.say("askfix", A=a, B=b, x=x)
    if s.chance(0.4):
        s.say("agree", A=b)
    handed = s.chance(0.7)
    if handed:
        s.say("give", A=a, x=x, B=b)
    s.say("fix", A=b, x=x, y=y)
    if s.chance(0.6):
        s.say("works", x=x)
    if handed:
        s.say("back", A=b, x=x, B=a)
    s.thank(a, b)
    s.feel(a, MOODS_GOOD[:3])
    if s.chance(0.4):
        s.go_with(a, x, p)
    s.close(a, b)


def plot_hide(s, once):
    people = [s.person() for _ in range(2 + (s.rng.random() < 0.5))]
    a, b = people[:2]
    p, q, r, t = s.places
    s.title, s.topic = "Hide and Seek", "hide and seek"
    if s.chance(0.5):
        s.say("once2" if once else "open2", A=a, B=b, p=p)
    else:
        s.opening(a, p, once)
        s.say("too", A=b, p=p)
    if len(people) == 3:
        s.say("too", A=people[2], p=p)
    s.say("game", A=a, B=b)
    s.say("count", A=a, p=p)
    spots = [q, r]
    hiding = list(zip(people[1:], spots))
    for who, spot in hiding:
        s.say("hide", A=who, q=spot)
    if s.chance(0.6):
        s.go(a, t)
        s.say("seek", A=a, B=b, p=t)
    for who, spot in hiding:
        s.go(a, spot)
        s.say("caught", A=a, B=who, q=spot)
        if s.chance(0.4):
            s.say("smile", A=s.pick((a, who)))
    s.feel(s.pick(people), MOODS_GOOD[:2] + MOODS_MORE[:1])
    s.close(a, b)


def plot_rescue(s, once):
    a, b = s.person(), s.person()
    n = s.thing("small")
    p, q, r = s.places[:3]
    s.title, s.topic = f"{a} and the {n.title()}", n
    s.opening(a, p, once)
    s.maybe_fill(a)
    s.say("stuck", A=a, n=n, q=q)
    s.go(a, q)
    if s.chance(0.5) and n.split()[1] in SOUNDS:
        s.say("voice", A=a, n=n)
    if s.chance(0.6):
        s.say("stuckhere", A=a, n=n)
    s.say("free", A=a, n=n)
    s.say("pet", A=a, n=n)
    s.say("take", A=a, x=n)
    s.bring_in(a, b, r)
    s.go_with(a, n, r)
    if s.chance(0.6):
        s.say("show", A=a, B=b, x=n)
    if s.chance(0.6):
        x = s.thing("food")
        s.say("own", A=b, x=x)
        s.say("fed", A=b, x=x, n=n)
    if s.chance(0.5):
        s.go_with(a, n, q)
        s.say("release", A=a, n=n, p=q)
        s.feel(a, MOODS_GOOD[:3])
    else:
        s.say("give", A=a, x=n, B=b)
        s.feel(b, MOODS_GOOD[:3])
    s.close(a)


def plot_market(s, once):
    a, b = s.person(), s.person()
    x, y = s.any_thing(), s.any_thing()
    shops = {"town": ("market", "shop", "bakery"), "sea": ("pier", "harbor"), "castle": ("courtyard",), "home": ("garage", "yard")}
    q = s.pick(shops.get(s.setting, (s.places[1],)))
    p = s.other_place(q)
    s.title, s.topic = "Market Day", x
    s.opening(a, p, once)
    s.say("wish", A=a, x=x)
    s.maybe_fill(a, 0.4)
    s.say("seller", A=b, p=q)
    s.go(a, q)
    if s.chance(0.6):
        s.say("hello", A=a, B=b)
    s.say("own", A=b, x=x)
    if s.chance(0.5):
        s.say("own", A=b, x=y)
    s.say("price", A=a, x=x)
    s.say("sell", A=a, x=x, B=b)
    if s.chance(0.3):
        s.say("sold", A=a)
    s.thank(a, b)
    s.go_with(a, x, p)
    r = s.rng.random()
    if r < 0.4:
        s.say("drop", A=a, x=x, p=p)
    elif r < 0.7:
        c = s.person()
        s.bring_in(a, c, p)
        s.say("show" if s.chance(0.5) else "give", A=a, x=x, B=c)
    else:
        s.use(a, x)
    s.feel(a, MOODS_GOOD[:3])
    s.close(a)


def plot_treasure(s, once):
    a, b = s.person(), s.person()
    c = s.thing(s.pick(("chest", "box")))
    x = s.thing(s.pick(("nature", "toy", "wear", "music", "house")))
    p, q = s.places[:2]
    s.title, s.topic = f"The {c.title()}", c
    s.opening(a, p, once)
    s.maybe_fill(a)
    s.go(a, q)
    s.say("sees", A=a, x=c, p=q)
    s.say("shut", A=a, c=c)
    s.feel(a, MOODS_MORE[3:4] + MOODS_GOOD[3:4])
    s.say("openc", A=a, c=c)
    s.say("inside", A=a, x=x, c=c)
    s.say("takeout", A=a, x=x, c=c)
    if s.chance(0.5):
        s.say("closec", A=a, c=c)
    home = p if s.chance(0.6) else s.places[2]
    s.bring_in(a, b, home)
    s.go_with(a, x, home)
    s.say("show", A=a, x=x, B=b)
    if s.chance(0.6):
        s.say("surprise", A=b)
    if s.chance(0.5):
        s.say("give", A=a, x=x, B=b)
        s.thank(b, a)
    else:
        s.say("drop", A=a, x=x, p=home)
    s.feel(b, MOODS_GOOD[:4])
    s.close(a, b)


def plot_tidy(s, once):
    a = s.person()
    c = s.thing("chest")
    things = [s.any_thing() for _ in range(2)]
    p, q = s.places[:2]
    s.title, s.topic = f"{a} Tidies Up", c
    s.opening(a, p, once)
    for x in things:
        s.say("lies", A=a, x=x, p=p)
    s.say("lies", A=a, x=c, p=p)
    if s.chance(0.5):
        s.say("shut", A=a, c=c)
    s.say("tidyask", A=a)
    s.say("take", A=a, x=things[0])
    if s.world.fact.get(("open", c)) is not True:
        s.say("openc", A=a, c=c)
    s.say("putin", A=a, x=things[0], c=c)
    if s.chance(0.7):
        s.say("closec", A=a, c=c)
    s.say("take", A=a, x=things[1])
    if s.chance(0.7):
        s.go_with(a, things[1], q)
        s.say("drop", A=a, x=things[1], p=q)
        if s.chance(0.4):
            s.go(a, p)
    else:
        b = s.person()
        s.bring_in(a, b, p)
        s.say("give", A=a, x=things[1], B=b)
    s.say("tidy", A=a)
    s.feel(a, MOODS_GOOD[:3] + MOODS_MORE[:1])
    s.close(a)


def plot_borrow(s, once):
    a, b = s.person(), s.person()
    x = s.thing(s.pick(("tool", "tool", "music", "school", "house")))
    p, q = s.places[:2]
    s.title, s.topic = f"{b} Lends the {x.title()}", x
    s.opening(a, p, once)
    s.say("wish", A=a, x=x)
    s.bring_in(a, b, q)
    s.say("own", A=b, x=x)
    s.say("visit", A=a, B=b, q=q)
    s.say("borrow", A=a, x=x, B=b)
    if s.chance(0.5):
        s.say("agree", A=b)
    s.say("lend", A=b, x=x, B=a)
    s.thank(a, b)
    if s.chance(0.7):
        s.go_with(a, x, p)
    s.use(a, x)
    s.maybe_fill(a, 0.4)
    if s.chance(0.6):
        if s.where(a) != s.where(b):
            s.go_with(a, x, q)
        s.say("back", A=a, x=x, B=b)
        s.feel(b, MOODS_GOOD[:3])
    else:
        s.feel(a, MOODS_GOOD[:3])
    s.close(a, b)


def plot_race(s, once):
    a, b = s.person(), s.person()
    p, q, r = s.places[:3]
    x = s.thing(s.pick(("wear", "toy", "food")))
    s.title, s.topic = "The Race", "a race"
    s.opening(a, p, once)
    s.maybe_fill(a)
    s.bring_in(a, b, p)
    s.say("hello", A=b, B=a)
    s.say("raceask", A=a, B=b)
    s.say("agree", A=b)
    s.say("race", A=a, B=b, p=p, q=q)
    w, l = (a, b) if s.chance(0.5) else (b, a)
    s.say("won", A=w, p=q)
    s.feel(l, MOODS_BAD[:1] + MOODS_MORE[:1] + MOODS_GOOD[5:])
    s.say("well", A=l, B=w)
    s.feel(w, MOODS_GOOD[:5])
    if s.chance(0.7):
        s.say("own", A=l, x=x)
        s.say("give", A=l, x=x, B=w)
        s.thank(w, l)
    if s.chance(0.5):
        s.go(w, r)
    s.close(a, b)


def plot_rain(s, once):
    a, b = s.person(), s.person()
    inside = s.shelter()
    outside = next((p for p in s.places if OUTDOORS[p]), None)
    if inside is None or outside is None:
        return plot_trade(s, once)
    s.title, s.topic = "The Rain", "the rain"
    s.opening(a, outside, once)
    if s.chance(0.6):
        s.say("sun")
    s.act(a)
    s.bring_in(a, b, outside)
    s.say("both", A=a, B=b)
    s.say("rain")
    if s.chance(0.6):
        s.say("wet", A=s.pick((a, b)))
    s.go_both(a, b, inside)
    s.feel(s.pick((a, b)), MOODS_BAD[:1] + MOODS_MORE[:1] + MOODS_GOOD[4:])
    x = s.any_thing()
    s.say("lies", A=a, x=x, p=inside)
    s.say("take", A=a, x=x)
    s.use(a, x)
    s.act(b)
    s.say("norain")
    if s.chance(0.6):
        s.go_both(a, b, outside)
    else:
        s.go(b, outside)
    s.feel(s.pick((a, b)), MOODS_GOOD[:3])
    s.close(a, b)


def plot_lesson(s, once):
    a, b = s.person(), s.person()
    x = s.thing(s.pick(("music", "toy", "tool")))
    p, q = s.places[:2]
    s.title, s.topic = f"{b} Learns", x
    s.opening(a, p, once)
    s.say("own", A=a, x=x)
    s.use(a, x)
    s.bring_in(a, b, q)
    s.say("visit", A=b, B=a, q=p)
    s.say("hello", A=b, B=a)
    s.say("want", A=b, B=a, x=x)
    if s.chance(0.5):
        s.say("agree", A=a)
    s.say("give", A=a, x=x, B=b)
    s.say("teach", A=a, B=b, x=x)
    s.say("learn", A=b)
    s.use(b, x)
    s.feel(b, MOODS_GOOD[:4])
    r = s.rng.random()
    if r < 0.5:
        s.say("back", A=b, x=x, B=a)
    elif r < 0.8:
        s.go_with(b, x, q)
    s.close(a, b)


def plot_animal(s, once):
    a = s.person()
    n = s.thing("animal")
    x = s.thing("food")
    p, q = s.places[:2]
    s.title, s.topic = f"{a} and the {n.title()}", n
    s.opening(a, p, once)
    s.maybe_fill(a, 0.4)
    s.say("own", A=a, x=x)
    if s.chance(0.5):
        s.go(a, q)
    p = s.where(a)
    s.say("sees", A=a, x=n, p=p)
    if n.split()[1] in SOUNDS:
        s.say("voice", A=a, n=n)
    s.say("pet", A=a, n=n)
    if s.chance(0.7):
        s.say("fed", A=a, x=x, n=n)
    q = s.other_place(p)
    s.go(a, q)
    s.say("nfollow", A=a, n=n, q=q)
    s.feel(a, MOODS_GOOD[:2] + MOODS_MORE[2:3])
    if s.chance(0.6):
        b = s.person()
        s.bring_in(a, b, q)
        s.say("hello", A=b, B=a)
        s.say("pet", A=b, n=n)
    s.maybe_fill(a, 0.5)
    s.close(a)


def plot_wander(s, once, steps=None):
    """People walk about and handle things: the source of most questions."""
    people = [s.person() for _ in range(2 + (s.rng.random() < 0.4))]
    a = people[0]
    things, boxes = [], []
    s.title, s.topic = join_and(people).replace(" and ", " and "), people[0]
    s.opening(a, s.places[0], once)
    for b in people[1:]:
        s.bring_in(a, b, s.pick(s.places[:3]))
    for _ in range(1 + (s.rng.random() < 0.7)):
        x = s.any_thing()
        if s.chance(0.5):
            s.say("own", A=s.pick(people), x=x)
        else:
            s.say("lies", A=a, x=x, p=s.where(s.pick(people)))
        things.append(x)
    if s.chance(0.35):
        c = s.thing(s.pick(("box", "chest")))
        s.say("lies", A=a, x=c, p=s.where(s.pick(people)))
        boxes.append(c)
    last, been = None, {b: {s.where(b)} for b in people}
    for _ in range(steps or 5 + int(s.rng.random() * 5)):
        who = last if last and s.chance(0.4) else s.pick(people)
        last = who
        wander_step(s, who, people, things, boxes, been[who])
        been[who].add(s.where(who))
    if s.chance(0.3):
        s.close(a, people[1] if s.where(a) == s.where(people[1]) else None)


def wander_step(s, who, people, things, boxes, been):
    """One thing that somebody does. Nobody goes back to where he has been: one place after another makes a story."""
    world, here = s.world, s.where(who)
    new = [p for p in s.places if p not in been]
    held = [x for x in things if world.loc[x] == who]
    free = [x for x in things if world.loc[x] == here]
    near = [b for b in people if b != who and s.where(b) == here]
    box = [c for c in boxes if s.where(c) == here]
    r = s.rng.random()
    if box and held and r < 0.5:
        if world.fact.get(("open", box[0])) is not True:
            s.say("openc", A=who, c=box[0])
        s.say("putin", A=who, x=held[0], c=box[0])
    elif free and r < 0.55 and ("put", who, free[0]) != s.last_move:
        s.say("take", A=who, x=s.pick(free))
    elif held and near and r < 0.4:
        s.say("give", A=who, x=s.pick(held), B=s.pick(near))
    elif held and r < 0.5:
        x = s.pick(held)
        s.say("drop", A=who, x=x, p=here)
        s.last_move = "put", who, x
    elif held and new and r < 0.65:
        s.go_with(who, s.pick(held), s.pick(new))
    elif new and r < 0.82:
        s.go(who, s.pick(new))
    elif r < 0.9:
        s.act(who)
    elif near and r < 0.93:
        s.say(s.pick(("meet", "hello", "both")), A=who, B=s.pick(near), p=here)
    else:
        s.feel(who, MOODS, "state")


PLOTS = [plot_lost, plot_gift, plot_trade, plot_picnic, plot_repair, plot_hide, plot_rescue, plot_market, plot_treasure,
         plot_tidy, plot_borrow, plot_race, plot_rain, plot_lesson, plot_animal, plot_wander]


def tell(rng, plot=None, once=None):
    """One story as a Story object."""
    s = Story(rng)
    if once is None:
        once = rng.random() < 0.4
    (plot or s.pick(PLOTS))(s, once)
    s.hero = s.people[0]
    return s


def story_text(s, titled=False):
    text = " ".join(s.out)
    return f"{s.title}\n\n{text}" if titled else text


def mentions(s, text):
    """Where a text that holds the story s, and questions about it after it, names a person or a thing: (character after the name,
    the place where it is, whom or what it is directly at, where it was first), as far as the text before the sentence tells;
    None stands for what is not known."""
    out, at = [], text.index(s.out[0])
    named = re.compile(r"\b(?:" + "|".join(s.people + s.things + s.strangers) + r")\b")
    world, first, last = World(), {}, len(s.out)
    for i in range(last + 1):
        world.loc = s.before[i] if i < last else s.world.loc
        for a in s.people:
            if a not in first and world.loc.get(a) in PHRASE:
                first[a] = world.loc[a]
        end = text.index(s.out[i], at) + len(s.out[i]) if i < last else len(text)
        for m in named.finditer(text, at, end):
            e = m.group()
            out.append((m.end(), world.root(e)[0], world.loc.get(e), first.get(e)))
        at = end
    return out


# ===== reading stories

SENTENCE_END = re.compile(r'[.!?]"?(?=\s+["A-Z]|\s*$)')
STORY_END = re.compile(r"\n\s*(?:Question:|Answer:)|<\|")
ACT_READ = re.compile(r"([A-Z][a-z]+) (.*)\.")


def sentences(text):
    """Sentences of a story without its title; a last one without an end is dropped."""
    m = STORY_END.search(text)
    if m:
        text = text[:m.start()]
    out = []
    for para in text.split("\n"):
        para = para.strip()
        start = 0
        for m in SENTENCE_END.finditer(para):
            if para[start:m.end()].count('"') % 2:
                continue                                # inside a quotation
            out.append(para[start:m.end()].strip())
            start = m.end()
    return out


class Reader:
    """Replays a story from an unknown state."""

    def __init__(self):
        self.world = World()
        self.slots = Slots()
        self.people = []
        self.adjectives = {}                            # noun -> adjectives it was introduced with
        self.problems = []
        self.stake = ()                                 # what the last sentence demands, by kind; None: it was not read

    def who(self, word):
        """The person a name or pronoun stands for, or None."""
        if word in NAME_SET:
            return word
        if word not in ("He", "She"):
            return None
        male = word == "He"
        last = self.slots.subject
        if last.__class__ is str and (last in MALE) == male:
            return last
        same = [p for p in self.slots.people if (p in MALE) == male]
        if len(same) != 1:
            same = [p for p in self.people if (p in MALE) == male]
        return same[0] if len(same) == 1 else None

    def thing(self, words, slot):
        if words == "it":
            return self.slots.things[0] if len(self.slots.things) == 1 else None
        adj, noun = words.split()[1:]
        if noun not in THING_SET or adj not in ADJECTIVE_SET:
            return None
        if slot == "n" and noun not in ANIMAL_SET or slot == "c" and noun not in HOLDER_SET:
            return None
        return adj + " " + noun

    def read(self, form, sentence):
        """(binding, problems) when the sentence has this form, else None"""
        m = form.regex.fullmatch(sentence)
        if not m:
            return None
        bind, problems, gendered = {}, [], []
        for (kind, slot), word in zip(form.reads, m.groups()):
            if kind == "name":
                value = self.who(word)
            elif kind == "pair":
                if word == "They":
                    pair = self.slots.subject if self.slots.subject.__class__ is tuple else None
                else:
                    pair = tuple(word.split(" and "))
                if pair is None or not NAME_SET.issuperset(pair):
                    return None
                bind["A"], bind["B"] = pair
                continue
            elif kind in GENDERED:
                gendered.append((kind, slot, word))
                continue
            elif kind in ("thing", "maybe_it", "a_thing"):
                value = self.thing(word, slot)
                if value and word != "it":
                    self.note(value, kind == "a_thing", problems)
            elif kind == "place":
                value = word[4:] if word[4:] in PHRASE else None
            elif kind == "at_place":
                value = PLACE_OF_PHRASE.get(word)
            elif kind == "mood":
                value = word if word in MOOD_SET else None
            elif kind == "feature":
                value = word if word in PLACE_OF_FEATURE else None
            else:                                       # sound
                if SOUNDS.get(bind["n"].split()[1]) != word:
                    problems.append(f"{bind['n']} {word}")
                continue
            if value is None or bind.setdefault(slot, value) != value:
                return None
        for kind, slot, word in gendered:
            if GENDERED[kind][bind[slot] not in MALE] != word:
                problems.append(f"{bind[slot]} is not {word}")
        return bind, problems

    def note(self, value, is_new, problems):
        adj, noun = value.split()
        known = self.adjectives.get(noun, ())
        if not is_new and known and adj not in known:
            problems.append(f"the {noun} is {known[0]}, not {adj}")

    def violated(self, form, bind):
        get, out = bind.get, []
        for op, a, b, c in form.pre:
            a, b, c = get(a, a), get(b, b), get(c, c)
            if self.world.holds(op, a, b, c) is False:
                out.append(" ".join(w for w in (op, a, b, c) if w) + f" (known: {self.world.root(a)[0]})")
        return out

    def sentence(self, sentence):
        """True when some form fits."""
        m = ACT_READ.fullmatch(sentence)
        if m and self.act(sentence, m):
            return True
        best = None
        for form in FORM_LIST:
            got = self.read(form, sentence)
            if got is None:
                continue
            bind, problems = got
            problems = problems + self.violated(form, bind)
            if best is None or len(problems) < len(best[2]):
                best = form, bind, problems
            if not problems:
                break
        if best is None:
            self.stake = None
            return False
        form, bind, problems = best
        self.stake = tuple(op for op, *_ in form.pre)
        self.problems += [f"{sentence}  [{p}]" for p in problems]
        self.change(form, bind)
        return True

    def act(self, sentence, m):
        act = m.group(2)
        place = PLACE_OF_ACT.get(act)
        if place is None:
            at = re.search(r" (?:in|at|on|by) the [a-z]+(?: [a-z]+)?$", act)
            place = PLACE_OF_ACT.get(act[:at.start()]) if at else None
            if place is None:
                return False
            if PLACE_OF_PHRASE.get(at.group()[1:]) != place:
                self.problems.append(f"{sentence}  [not a thing to do there]")
        who = self.who(m.group(1))
        if who is None:
            return False
        if self.world.loc.get(who, place) != place:
            self.problems.append(f"{sentence}  [{who} is at {self.world.loc[who]}]")
        self.world.loc[who] = place
        self.stake = ("act",)
        self.slots.after_act(who)
        self.meet((who,))
        return True

    def meet(self, people):
        for p in people:
            if p not in self.people:
                self.people.append(p)

    def change(self, form, bind):
        self.world.follow(form, bind)
        self.slots.after(form, bind)
        self.meet(self.slots.people)
        for s in form.things:
            adj, noun = bind[s].split()
            known = self.adjectives.setdefault(noun, [])
            if adj not in known:
                known.append(adj)


def check(text):
    """Contradictions of a story, how many sentences were understood, and those that were not."""
    reader, parsed, unparsed = Reader(), 0, []
    for sentence in sentences(text):
        if reader.sentence(sentence):
            parsed += 1
        else:
            unparsed.append(sentence)
    return Report(reader.problems, parsed, unparsed)


def first_fault(text):
    """Character where the first sentence begins that cannot be true or be read, or None."""
    reader, at = Reader(), 0
    for sentence in sentences(text):
        at = text.index(sentence, at)
        if not reader.sentence(sentence) or reader.problems:
            return at
        at += len(sentence)
    return None


def next_sentence(before, after):
    """(characters of `after` that finish its first sentence, whether that can be true, what it demands) or None when it finishes none"""
    known, both = sentences(before), sentences(before + after)
    if len(both) <= len(known) or both[:len(known)] != known:
        return None
    reader = Reader()
    for sentence in known:
        reader.sentence(sentence)
    old, new = len(reader.problems), both[len(known)]
    at = (before + after).index(new, len(before.rstrip()))
    good = reader.sentence(new) and len(reader.problems) == old
    return at + len(new) - len(before), good, reader.stake


# ===== questions about a story

ONE_HOP = ("where1", "where_thing", "holder", "colour", "gave_what", "who_gave", "who_did", "who_event", "what_event", "felt",
           "first_place")
EVENTS = {      # what is logged: (question about who, answer, question about what)
    "found": ("Who found the {x}?", "{A} found the {x}.", "What did {A} find?"),
    "bought": ("Who bought the {x}?", "{A} bought the {x}.", "What did {A} buy?"),
    "fixed": ("Who fixed the {x}?", "{A} fixed the {x}.", "What did {A} fix?"),
    "ate": ("Who ate the {x}?", "{A} ate the {x}.", "What did {A} eat?"),
    "made": ("Who made the {x}?", "{A} made the {x}.", "What did {A} make?"),
    "saved": ("Who saved the {x}?", "{A} saved the {x}.", "What did {A} save?"),
    "fed": ("Who fed the {x}?", "{A} fed the {x}.", None),
    "won": ("Who won the race?", "{A} won the race.", None),
}


def people_at(s, place):
    return [p for p in s.people if s.where(p) == place]


def people_count(n, place):
    return f"One person is {PHRASE[place]}." if n == 1 else f"{number(n).capitalize()} people are {PHRASE[place]}."


def ask_where(s, found):
    loc = s.world.loc
    for a in s.people:
        if loc.get(a) in PHRASE:
            found("where1", f"Where is {a}?", f"{a} is {PHRASE[loc[a]]}.")
            if len(s.people) > 1 and s.first.get(a) not in (None, loc[a]):
                found("first_place", f"Where was {a} at first?", f"{a} was {PHRASE[s.first[a]]} at first.")
    for x in s.things:
        at = loc.get(x)
        if at in PHRASE:
            found("where_thing", f"Where is the {x}?", f"The {x} is {PHRASE[at]}.")
            continue
        if at is None or at == "gone":
            continue
        if at in NAME_SET:
            found("holder", f"Who has the {x}?", f"{at} has the {x}.")
        else:
            found("where_thing", f"Where is the {x}?", f"The {x} is in the {at}.")
        place = s.where(x)
        if place in PHRASE:
            found("two_hop", f"In which place is the {x}?", f"The {x} is {PHRASE[place]}.")


def ask_events(s, found):
    gave, got = {}, {}
    for e in s.log:
        if e[0] == "gave":
            gave.setdefault((e[1], e[3]), []).append(e[2])
            got.setdefault((e[2], e[3]), []).append(e[1])
        elif e[0] == "did":
            found("who_did", f"Who {e[2]}?", f"{e[1]} {e[2]}.")
        elif e[0] in EVENTS:
            who, answer, what = EVENTS[e[0]]
            x = e[2] if len(e) > 2 else ""
            same = [o for o in s.log if o[0] == e[0]]
            if sum(o[2:3] == e[2:3] for o in same) == 1:
                found("who_event", who.format(x=x), answer.format(A=e[1], x=x))
            if what and sum(o[1] == e[1] for o in same) == 1:
                found("what_event", what.format(A=e[1]), answer.format(A=e[1], x=x))
    for (a, b), xs in gave.items():
        if len(xs) == 1:
            found("gave_what", f"What did {a} give to {b}?", f"{a} gave the {xs[0]} to {b}.")
    for (x, b), givers in got.items():
        if len(givers) == 1:
            found("who_gave", f"Who gave the {x} to {b}?", f"{givers[0]} gave the {x} to {b}.")


def ask_properties(s, found):
    for x in s.things:
        adj, noun = x.split()
        if adj in COLOUR_SET:
            found("colour", f"What colour is the {noun}?", f"The {noun} is {adj}.")
    for a in s.people:
        mood = s.world.fact.get(("mood", a))
        if mood in MOOD_SET:
            found("felt", f"How did {a} feel at the end?", f"{a} felt {mood}.")


def ask_logic(s, found):
    loc = s.world.loc
    for a in s.people:
        at = loc.get(a)
        if at not in PHRASE:
            continue
        guess = at if s.chance(0.5) else s.other_place(at)
        found("yesno", f"Is {a} {PHRASE[guess]}?", f"{'Yes' if guess == at else 'No'}, {a} is {PHRASE[at]}.")
        mates = [b for b in people_at(s, at) if b != a]
        if len(mates) == 1 and len(s.people) > 2:
            found("same_place", f"Who is in the same place as {a}?", f"{mates[0]} is in the same place as {a}.")
        if len(s.people) > 1 and all(s.where(p) for p in s.people):
            found("count", f"How many people are {PHRASE[at]}?", people_count(len(mates) + 1, at))
        held = [x for x in s.things if loc.get(x) == a]
        if len(held) > 1 or held and s.chance(0.2):
            found("count", f"How many things does {a} have?", f"{a} has {number(len(held))} thing{'s' * (len(held) > 1)}.")
    for x in s.things:
        at = loc.get(x)
        if at in NAME_SET:
            guess = at if s.chance(0.5) or len(s.people) < 2 else s.pick([p for p in s.people if p != at])
            found("yesno", f"Does {guess} have the {x}?", f"{'Yes' if guess == at else 'No'}, {at} has the {x}.")


def ask_unknown(s, found):
    if s.chance(0.5):
        s.strangers.append(s.name_pool.pop())
        found("unknown", f"Where is {s.strangers[-1]}?", "I do not know.")
    else:
        x = s.any_thing()
        s.strangers.append(s.things.pop())
        found("unknown", f"{s.pick(('Where is', 'Who has'))} the {x}?", "I do not know.")


def questions(s):
    """All questions that this story answers: list of (type, question, answer)."""
    out, seen = [], set()

    def found(kind, q, a):
        if q not in seen:
            seen.add(q)
            out.append((kind, q, a))

    ask_where(s, found)
    ask_events(s, found)
    ask_properties(s, found)
    ask_logic(s, found)
    ask_unknown(s, found)
    return out


HOPS = dict.fromkeys(ONE_HOP, 1)
HOPS.update(two_hop=2, same_place=2, yesno=1, count=2, unknown=1)
QUESTION_WEIGHT = {"where1": 4, "where_thing": 4, "holder": 4, "two_hop": 5, "colour": 3, "yesno": 5, "count": 2, "unknown": 2,
                   "felt": 3, "first_place": 2, "same_place": 5, "who_did": 4}


def choose_questions(s, n):
    """n of the questions, the rarer and harder types more often"""
    rnd = s.rng.random
    ranked = sorted((rnd() ** (1 / QUESTION_WEIGHT.get(q[0], 2)), i) for i, q in enumerate(s.all_questions))
    return [s.all_questions[i] for _, i in ranked[:-n - 1:-1]]


def wander_briefly(s, once):
    plot_wander(s, once, 1 + int(s.rng.random() * 4))


def quiz_story(rng, plot=None):
    """A story and its questions; without a plot given, more than half of them walk about."""
    s = tell(rng, plot or (plot_wander if rng.random() < 0.55 else None))
    s.all_questions = questions(s)
    return s


class Text:
    """Text under construction, with the spans of its answers."""

    def __init__(self):
        self.parts, self.size, self.spans = [], 0, []

    def add(self, text):
        self.parts.append(text)
        self.size += len(text)

    def answer(self, text):
        self.spans.append((self.size, self.size + len(text)))
        self.add(text)

    def doc(self, kind, story=None):
        text = "".join(self.parts)
        return Doc(kind, text, self.spans, mentions(story, text) if story else [])


def write_story(rng):
    s = tell(rng)
    t = Text()
    t.add(story_text(s, rng.random() < 0.1) + "\n")
    return t.doc("story", s)


def yes_and_no(s):
    """Questions (type, question, answer) about each person and thing that are held against what is so: once true, once or twice not."""
    out, loc = [], s.world.loc
    for a in s.people:
        at = loc.get(a)
        if at in PHRASE:
            out += [("yesno", f"Is {a} {PHRASE[p]}?", f"{'Yes' if p == at else 'No'}, {a} is {PHRASE[at]}.")
                    for p in dict.fromkeys((at, s.other_place(at), s.other_place(at)))]
    for x in s.things:
        at = loc.get(x)
        if at in NAME_SET:
            out += [("yesno", f"Does {a} have the {x}?", f"{'Yes' if a == at else 'No'}, {at} has the {x}.") for a in s.people]
    s.rng.shuffle(out)
    return out


def write_qa(rng):
    """Some of the stories are of a few steps only: whoever learns from them finds out sooner what a question asks for. And some are
    followed by questions for yes or no alone, which are learnt late: two things that were found must be compared before the answer's
    first word."""
    r = rng.random()
    s = quiz_story(rng, wander_briefly if r < 0.2 else None)
    t = Text()
    t.add(story_text(s) + "\n")
    for _, q, a in yes_and_no(s)[:12] if r < 0.1 or r > 0.8 else choose_questions(s, 4 + int(rng.random() * 7)):
        t.add(f"Question: {q}\nAnswer:")
        t.answer(" " + a)
        t.add("\n")
    return t.doc("qa", s)


# ===== sums

def one_sum(rng):
    """(left side, result): mostly below 20"""
    r = rng.random()
    if r < 0.12:
        a, b = rng.randint(1, 9), rng.randint(1, 9)
        return a, "x", b, a * b
    top = 20 if r < 0.8 else 99
    a, b = rng.randint(0, top), rng.randint(0, top)
    if rng.random() < 0.55:
        if a + b > top:
            a, b = a // 2, b // 2
        return a, "+", b, a + b
    return max(a, b), "-", min(a, b), abs(a - b)


SUM_WORDS = {"+": "plus", "-": "minus", "x": "times"}


def word_sum(rng):
    """(text, question, answer)"""
    pick = rng.choice
    a, b = rng.sample(NAMES, 2)
    he = "he" if a in MALE else "she"
    him = "him" if a in MALE else "her"
    noun = pick(COUNTABLE)
    x, y = rng.randint(2, 12), rng.randint(1, 9)
    have = pick((f"{a} had {x} {noun}.", f"One day, {a} had {x} {noun}.", f"There were {x} {noun} in a box, and the box was {a}'s."))
    if rng.random() < 0.5:
        more = pick((f"{b} gave {him} {y} more.", f"Then {he} found {y} more.", f"Then {he} bought {y} more.",
                     f"{a} got {y} more from {b}.", f"{b} came and brought {y} more."))
        n = x + y
    else:
        x, y = max(x, y), min(x, y)
        have = re.sub(r"\d+", str(x), have)
        more = pick((f"{a} gave {y} to {b}.", f"Then {he} lost {y} of them.", f"Then {he} sold {y} of them.",
                     f"{b} took {y} away.", f"{y} of them got lost."))
        n = x - y
    return f"{have} {more}", f"How many {noun} does {a} have now?", f"{a} has {n} {noun[:-1] if n == 1 else noun}."


def write_sum(rng):
    t = Text()
    r = rng.random()
    if r < 0.4:
        for _ in range(6 + int(rng.random() * 10)):
            a, op, b, n = one_sum(rng)
            t.add(f"{a} {op} {b} =")
            t.answer(f" {n}")
            t.add("\n")
    elif r < 0.55:
        for _ in range(3 + int(rng.random() * 4)):
            a, op, b, n = one_sum(rng)
            t.add(f"Question: What is {a} {SUM_WORDS[op]} {b}?\nAnswer:")
            t.answer(f" {a} {SUM_WORDS[op]} {b} is {n}.")
            t.add("\n")
    else:
        for _ in range(1 + int(rng.random() * 3)):
            text, q, a = word_sum(rng)
            t.add(f"{text}\nQuestion: {q}\nAnswer:")
            t.answer(" " + a)
            t.add("\n")
    return t.doc("sum")


# ===== lists

LIST_WORDS = sorted({n for kind in ("toy", "tool", "house", "food", "wear", "school", "music", "nature") for n in CLASSES[kind]}
                    | set(ANIMALS))
LIST_TITLES = ("Shopping list", "Things to buy", "List of food", "From the shop")


def sort_words(rng, n):
    """n words with different first letters"""
    words = []
    while len(words) < n:
        w = LIST_WORDS[int(rng.random() * len(LIST_WORDS))]
        if all(w[0] != o[0] for o in words):
            words.append(w)
    return words


def list_questions(rng, items):
    n = len(items)
    other = rng.choice([g for g in GROCERIES if g not in items])
    inside = rng.choice(items)
    i = rng.randrange(1, n)
    return [("What is the first item?", f"The first item is {items[0]}."),
            ("What is the last item?", f"The last item is {items[-1]}."),
            ("How many items are on the list?", f"There are {number(n)} items on the list."),
            (f"Does the list have {inside}?", f"Yes, the list has {inside}."),
            (f"Does the list have {other}?", f"No, the list does not have {other}."),
            (f"What comes after {items[i - 1]}?", f"The next item is {items[i]}.")]


def list_lines(rng):
    """One-line list tasks: (prompt, answer)"""
    r = rng.random()
    words = sort_words(rng, rng.choice((3, 3, 4)))
    if r < 0.4:
        return f"Words: {', '.join(words)}\nSorted:", " " + ", ".join(sorted(words))
    if r < 0.55:
        return f"Words: {', '.join(words)}\nReversed:", " " + ", ".join(reversed(words))
    if r < 0.7:
        return f"Words: {', '.join(words)}\nFirst word:", " " + words[0]
    if r < 0.85:
        return f"Words: {', '.join(words)}\nLast word:", " " + words[-1]
    a = rng.randint(1, 20)
    b = a + rng.randint(3, 7)
    return f"Count from {a} to {b}:", " " + ", ".join(str(i) for i in range(a, b + 1))


def bullet_list(rng):
    """(text, questions)"""
    items = rng.sample(GROCERIES, rng.randint(3, 5))
    return f"{rng.choice(LIST_TITLES)}:\n" + "".join(f"- {i}\n" for i in items), list_questions(rng, items)


def basket_list(rng):
    things = sort_words(rng, rng.randint(2, 5))
    box = rng.choice(COMMON_COLOURS) + " " + rng.choice(BOXES)
    text = f"Things in the {box}: {join_and([an(w) for w in things])}.\n"
    return text, [(f"How many things are in the {box}?", f"There are {number(len(things))} things in the {box}."),
                  (f"What is the first thing in the {box}?", f"The first thing is {an(things[0])}."),
                  (f"What is the last thing in the {box}?", f"The last thing is {an(things[-1])}.")]


def write_list(rng):
    t = Text()
    r = rng.random()
    if r < 0.4:
        for _ in range(3 + int(rng.random() * 4)):
            q, a = list_lines(rng)
            t.add(q)
            t.answer(a)
            t.add("\n")
    else:
        text, qs = bullet_list(rng) if r < 0.75 else basket_list(rng)
        t.add(text)
        rng.shuffle(qs)
        for q, a in qs[:2 + int(rng.random() * 2)]:
            t.add(f"Question: {q}\nAnswer:")
            t.answer(" " + a)
            t.add("\n")
    return t.doc("list")


# ===== records

def record_person(rng):
    a = rng.choice(NAMES)
    he = "He" if a in MALE else "She"
    rec = {"name": a, "age": rng.randint(4, 60), "city": rng.choice(CITIES), "likes": rng.sample(HOBBIES, rng.choice((1, 2, 2)))}
    text = rng.choice((f"{a} is {rec['age']} years old and lives in {rec['city']}. {he} likes {join_and(rec['likes'])}.",
                       f"{a} lives in {rec['city']}. {he} is {rec['age']} years old and likes {join_and(rec['likes'])}."))
    return rec, text


def record_worker(rng):
    a = rng.choice(NAMES)
    he = "He" if a in MALE else "She"
    rec = {"name": a, "job": rng.choice(JOBS), "city": rng.choice(CITIES), "day_off": rng.choice(DAYS)}
    text = rng.choice((f"{a} is a {rec['job']} in {rec['city']}. {he} does not work on {rec['day_off']}.",
                       f"{a} works in {rec['city']} as a {rec['job']}. {he} is free on {rec['day_off']}."))
    return rec, text


def record_pet(rng):
    a, kind = rng.choice(NAMES), rng.choice(ANIMALS)
    rec = {"pet": rng.choice(PET_NAMES), "animal": kind, "colour": rng.choice(("black", "white", "brown", "gray")),
           "age": rng.randint(1, 14), "owner": a}
    years = f"{rec['age']} year{'s' * (rec['age'] > 1)} old"
    text = rng.choice((f"{rec['pet']} is a {rec['colour']} {kind}. It is {years} and belongs to {a}.",
                       f"{a} has a {rec['colour']} {kind} named {rec['pet']}. It is {years}."))
    return rec, text


def record_thing(rng):
    a = rng.choice(NAMES)
    noun = rng.choice(LIST_WORDS[:0] + CLASSES["toy"] + CLASSES["house"] + CLASSES["wear"])
    rec = {"item": noun, "colour": rng.choice(COMMON_COLOURS), "owner": a, "place": rng.choice(list(PHRASE))}
    text = rng.choice((f"{a} has {an(rec['colour'])} {noun}. It is {PHRASE[rec['place']]}.",
                       f"There is {an(rec['colour'])} {noun} {PHRASE[rec['place']]}. It belongs to {a}."))
    return rec, text


def record_ware(rng):
    noun = rng.choice(COUNTABLE)
    rec = {"item": noun, "price": rng.randint(1, 30), "count": rng.randint(2, 60)}
    coins = f"{rec['price']} coin{'s' * (rec['price'] > 1)}"
    text = rng.choice((f"The shop has {rec['count']} {noun}. The price is {coins}.",
                       f"There are {rec['count']} {noun} in the shop, for {coins} each."))
    return rec, text


RECORDS = (record_person, record_person, record_worker, record_pet, record_thing, record_ware)


def draw_record(rng):
    """(record, JSON, description)"""
    rec, text = rng.choice(RECORDS)(rng)
    return rec, json.dumps(rec), text


def field_question(rng, rec):
    key = rng.choice([k for k in rec if k != "likes"])
    return f"What is the {key.replace('_', ' ')}?", f"The {key.replace('_', ' ')} is {rec[key]}."


def write_record(rng):
    t = Text()
    for _ in range(1 + int(rng.random() * 2)):
        rec, js, text = draw_record(rng)
        r = rng.random()
        if r < 0.85:
            t.add(f"{text}\nJSON:")
            t.answer(" " + js)
            t.add("\n")
        else:
            t.add(js + "\n")
        seen = set()
        for _ in range(int(rng.random() * 3) + (r >= 0.85)):
            q, a = field_question(rng, rec)
            if q in seen:
                continue
            seen.add(q)
            t.add(f"Question: {q}\nAnswer:")
            t.answer(" " + a)
            t.add("\n")
    return t.doc("record")


# ===== dialogues

PIP = "I am Pip, a small model made for llmrun."
SMALL_TALK = (
    (("Hello!", "Hi!", "Hello, Pip.", "Good morning!", "Hey there!"),
     ("Hello! How can I help you?", "Hi! What would you like to do?", "Hello! Shall I tell you a story?")),
    (("Who are you?", "What is your name?", "What are you?", "Tell me who you are."), (PIP,)),
    (("Thank you!", "Thanks.", "Thanks, that was good.", "Great, thank you."), ("You are welcome!", "I am glad to help.")),
    (("What can you do?", "How can you help me?", "What do you know?"),
     ("I can tell stories, answer questions, do small sums, make lists and write records.",)),
    (("How are you?", "How are you today?"), ("I am fine, thank you.",)),
    (("Goodbye.", "Bye!", "See you later."), ("Goodbye!", "Bye! Come back soon.")),
    (("Who made you?", "Where do you come from?"), ("I was made for llmrun.",)),
)
ASK_STORY = ("Tell me a story about {}.", "Please tell me a story about {}.", "Write a short story about {}.",
             "Can you tell me a story about {}?", "I would like a story about {}.")
ASK_ANY_STORY = ("Tell me a story.", "Please tell me a story.", "Write a short story.", "Can you tell me a story?")
ASK_SUM = ("What is {} {} {}?", "How much is {} {} {}?", "Tell me what {} {} {} is.", "Please work out {} {} {}.")
ASK_JSON = ("Write this as JSON: {}", "Turn this into JSON: {}", "Make a record of this: {}")
ASK_SORT = ("Sort these words: {}.", "Put these words in order: {}.", "Please sort: {}.")
SYSTEMS = {
    None: "",
    "plain": ("You are Pip, a small and friendly helper.", "You are a helpful assistant.", "You are Pip. Be short and clear."),
    "word": ("Answer in one word.", "Give only one word as the answer.", "Answer with one word only."),
    "json": ("Answer in JSON.", "Give the answer as JSON."),
    "pirate": ("Speak like a pirate: end with Arr!", "You are a pirate. End every answer with Arr!"),
    "numbers": ("Answer only questions about numbers.", "You may only talk about numbers."),
}
STYLE_ORDER = [None] * 50 + ["plain"] * 24 + ["word"] * 10 + ["json"] * 6 + ["pirate"] * 6 + ["numbers"] * 4


@dataclass
class Turn:
    """What the user says, the full answer, its one word (None if it has none), and its subject"""
    user: str
    answer: str
    word: str = None
    subject: str = "talk"
    long: bool = False


ONE_WORD = {"where1": None, "holder": 0, "colour": -1, "who_gave": 0, "who_did": 0, "who_event": 0, "felt": -1, "yesno": 0, "same_place": 0}


def short_answer(kind, answer):
    """The one word that answers a question, or None"""
    at = ONE_WORD.get(kind)
    return None if at is None else answer.rstrip(".").replace(",", "").split()[at]


def turns_story(rng, style):
    s = tell(rng)
    topic = s.topic if " " not in s.topic or s.topic.split()[0] in ("a", "the", "hide") else an(s.topic)
    r = rng.random()
    ask = rng.choice(ASK_ANY_STORY) if r < 0.2 else rng.choice(ASK_STORY).format(
        s.hero if r < 0.45 else f"{s.hero} and {topic}" if r < 0.6 and topic != s.hero else topic)
    return [Turn(ask, story_text(s), None, "story", True)]


def turns_qa(rng, style):
    s = quiz_story(rng)
    wanted = [q for q in s.all_questions if style != "word" or short_answer(q[0], q[2])]
    if not wanted:
        return turns_sum(rng, style)
    s.all_questions = wanted
    out = []
    text = story_text(s)
    for i, (kind, q, a) in enumerate(choose_questions(s, 1 + int(rng.random() * 3))):
        if i == 0:
            q = rng.choice((f"{text}\n{q}", f"{text}\n\n{q}", f"Read this story.\n{text}\n{q}", f"Here is a story: {text}\n{q}"))
        out.append(Turn(q, a, short_answer(kind, a), "story"))
    return out


def turns_sum(rng, style):
    out = []
    for _ in range(1 + int(rng.random() * 2)):
        if rng.random() < 0.65:
            a, op, b, n = one_sum(rng)
            ask = rng.choice(ASK_SUM).format(a, op if rng.random() < 0.5 else SUM_WORDS[op], b)
            out.append(Turn(ask, f"{a} {SUM_WORDS[op]} {b} is {n}.", str(n), "number"))
        else:
            text, q, a = word_sum(rng)
            out.append(Turn(f"{text} {q}", a, a.split()[2], "number"))
    return out


def turns_list(rng, style):
    words = sort_words(rng, rng.choice((3, 3, 4)))
    r = rng.random()
    if r < 0.5:
        return [Turn(rng.choice(ASK_SORT).format(", ".join(words)), ", ".join(sorted(words)), None, "list")]
    text, qs = bullet_list(rng) if r < 0.8 else basket_list(rng)
    q, a = rng.choice(qs)
    return [Turn(text + q, a, None, "list")]


def turns_record(rng, style):
    rec, js, text = draw_record(rng)
    if rng.random() < 0.7:
        return [Turn(rng.choice(ASK_JSON).format(text), js, None, "record")]
    q, a = field_question(rng, rec)
    return [Turn(f"{js}\n{q}", a, a.rstrip(".").split()[-1] if " is " in a else None, "record")]


def turns_talk(rng, style):
    users, answers = rng.choice(SMALL_TALK)
    return [Turn(rng.choice(users), rng.choice(answers))]


TURN_KINDS = [turns_story] * 5 + [turns_qa] * 9 + [turns_sum] * 3 + [turns_list] * 2 + [turns_record] * 2 + [turns_talk] * 3


def styled(turn, style):
    """The answer as the system turn wants it, or None when it cannot be given so"""
    if style == "word":
        return turn.word
    if style == "json":
        return None if turn.long or turn.answer[0] == "{" else json.dumps({"answer": turn.word or turn.answer})
    if style == "pirate":
        return None if turn.answer[0] == "{" else turn.answer + " Arr!"
    if style == "numbers":
        return turn.answer if turn.subject == "number" else "I can only help with numbers."
    return turn.answer


def chat_head(rng, style):
    return f"<|im_start|>system\n{rng.choice(SYSTEMS[style])}<|im_end|>\n" if style else ""


def ask_turn(turn):
    return f"<|im_start|>user\n{turn.user}<|im_end|>\n<|im_start|>assistant\n"


CHAT_LIMIT = 1500                   # characters: about 400 tokens


def write_chat(rng):
    style = STYLE_ORDER[int(rng.random() * len(STYLE_ORDER))]
    t = Text()
    t.add(chat_head(rng, style))
    turns = []
    for _ in range(rng.choice((1, 1, 2))):
        turns += rng.choice(TURN_KINDS)(rng, style)
    if rng.random() < 0.15:
        turns = turns_talk(rng, style) + turns
    asked = set()
    for turn in turns[:4]:
        answer = styled(turn, style)
        if answer is None or t.size + len(turn.user) + len(answer) > CHAT_LIMIT or turn.user in asked:
            if asked:
                break
            turn = turns_sum(rng, style)[0]
            answer = styled(turn, style)
        asked.add(turn.user)
        t.add(ask_turn(turn))
        if turn.long:
            t.add(answer)
        else:
            t.answer(answer)
        t.add("<|im_end|>\n")
    return t.doc("chat")


# ===== documents

WRITERS = {"story": write_story, "qa": write_qa, "chat": write_chat, "sum": write_sum, "list": write_list, "record": write_record}
SHARE = {"story": 22, "qa": 40, "chat": 24, "sum": 4, "list": 6, "record": 4}              # per cent of the tokens
MEAN_SIZE = {"story": 124, "qa": 175, "chat": 138, "sum": 88, "list": 70, "record": 85}   # tokens, for drawing kinds
KIND_DRAW = [k for k in KINDS for _ in range(round(1000 * SHARE[k] / MEAN_SIZE[k]))]


def stream_of(split, seed, what=""):
    return random.Random(f"{split}/{seed}/{what}")


def document(seed, split="train", kind=None):
    """The document number seed of a split; kind None draws it by the mix."""
    rng = stream_of(split, seed, kind or "")
    return WRITERS[kind or KIND_DRAW[int(rng.random() * len(KIND_DRAW))]](rng)


# ===== tasks with one right answer

def task_question(name):
    def make(rng):
        for _ in range(200):
            s = quiz_story(rng)
            found = [q for q in s.all_questions if q[0] == name]
            if found:
                _, q, a = rng.choice(found)
                return f"{story_text(s)}\nQuestion: {q}\nAnswer:", " " + a
        raise Stuck(name)
    return make


def task_sum(rng):
    lines = [one_sum(rng) for _ in range(4)]
    a, op, b, n = lines[-1]
    return "".join(f"{x} {o} {y} = {m}\n" for x, o, y, m in lines[:-1]) + f"{a} {op} {b} =", f" {n}"


def task_word_sum(rng):
    text, q, a = word_sum(rng)
    return f"{text}\nQuestion: {q}\nAnswer:", " " + a


def task_list(rng):
    if rng.random() < 0.5:
        q, a = list_lines(rng)
        p, b = list_lines(rng)
        return f"{p}{b}\n{q}", a
    text, qs = bullet_list(rng) if rng.random() < 0.6 else basket_list(rng)
    q, a = rng.choice(qs)
    return f"{text}Question: {q}\nAnswer:", " " + a


def task_record(rng):
    rec, js, text = draw_record(rng)
    return f"{text}\nJSON:", " " + js


def task_record_read(rng):
    rec, js, text = draw_record(rng)
    q, a = field_question(rng, rec)
    return f"{js}\nQuestion: {q}\nAnswer:", " " + a


def task_chat(maker, styles):
    def make(rng):
        for _ in range(200):
            style = rng.choice(styles)
            turn = maker(rng, style)[0]
            answer = styled(turn, style)
            if answer is not None:
                return chat_head(rng, style) + ask_turn(turn), answer
        raise Stuck("chat")
    return make


TASK_MAKERS = {name: task_question(name) for name in HOPS}
TASK_MAKERS.update(sum=task_sum, word_sum=task_word_sum, list=task_list, record=task_record, record_read=task_record_read,
                   chat_qa=task_chat(turns_qa, (None, "plain")), chat_sum=task_chat(turns_sum, (None, "plain")),
                   chat_list=task_chat(turns_list, (None, "plain")), chat_record=task_chat(turns_record, (None, "plain")),
                   chat_style=task_chat(turns_qa, ("word", "json", "pirate", "numbers")))
TASKS = tuple(TASK_MAKERS)


def task(name, seed, split="test"):
    prompt, answer = TASK_MAKERS[name](stream_of(split, seed, "task " + name))
    return Task(name, HOPS.get(name, 0), prompt, answer)


def story_prompt(seed, split="test"):
    """The first sentence of a story, or the first two."""
    rng = stream_of(split, seed, "prompt")
    s = tell(rng)
    return " ".join(s.out[:1 + (rng.random() < 0.5)])


# ===== command line

def corrupted(rng):
    """A story with one change that cannot be: a taker who is elsewhere, or a move from the wrong place."""
    s = tell(rng, plot_wander)
    for i, text in enumerate(s.out):
        m = re.search(r"from the ((?:[a-z]+ )?[a-z]+) to the ", text)
        if m and i > 1 and m.group(1) in PHRASE:
            wrong = next(p for p in PHRASE if p not in s.places)
            s.out[i] = text.replace("from the " + m.group(1), "from the " + wrong)
            return story_text(s)
    for i, text in enumerate(s.out):
        m = re.match(r"(\w+) (gave|handed|passed|offered|put|laid|dropped) (the \w+ \w+) (to|in|on|at|by) ", text)
        if m and m.group(1) in NAME_SET:
            wrong = next(n for n in NAMES if n not in s.people)
            s.out.insert(i, f"{wrong} was holding {an(m.group(3)[4:])}.")
            return story_text(s)
    return None


def selftest(stories=2000, big=20000):
    bad = 0
    for seed in range(stories):
        s = tell(stream_of("test", seed, "selftest"))
        r = check(story_text(s, seed % 10 == 0))
        if r.contradictions or r.unparsed or r.parsed != len(s.out):
            bad += 1
            if bad < 6:
                print("FAIL", seed, r.contradictions, r.unparsed, r.parsed, len(s.out), "\n ", story_text(s))
    print(f"{stories} stories checked, {bad} not clean")
    caught = total = 0
    for seed in range(stories // 4):
        text = corrupted(stream_of("test", seed, "corrupt"))
        if text:
            total += 1
            caught += bool(check(text).contradictions)
    print(f"{total} spoiled stories, {caught} caught")
    train = {document(i, "train", "story").text for i in range(big)}
    same = sum(document(i, "test", "story").text in train for i in range(big // 10))
    print(f"{big} train stories ({len(train)} distinct), {big // 10} test stories, {same} equal")
    for name in TASKS:
        for seed in range(20):
            t = task(name, seed)
            assert t.prompt and t.answer and t == task(name, seed), name
    for seed in range(2000):
        d = document(seed)
        assert all(0 <= a < b <= len(d.text) for a, b in d.answers)
        assert len(d.text) < 2200, (d.kind, len(d.text))
    print(f"{len(TASKS)} tasks and 2000 documents made")
    return 0 if not bad and not same and caught == total else 1


def stats():
    things = sum(map(len, CLASSES.values())) + len(HOLDERS)
    acts = [a for place in PHRASE for a in ACTS[place]]
    verbs = {v.split()[0] for f in FORM_LIST for v in f.verbs} | {a.split()[0] for a in acts}
    print(f"names {len(NAMES)}, places {len(PHRASE)} in {len(SETTINGS)} settings, features {len(PLACE_OF_FEATURE)}, things {things}, "
          f"animals {len(ANIMALS)}")
    print(f"sentence forms {len(FORM_LIST)} in {len(GROUPS)} groups, {len(acts)} activities, verbs {len(verbs)}, plots {len(PLOTS)}, "
          f"tasks {len(TASKS)}")
    for kind in KINDS:
        docs = [document(i, "train", kind).text for i in range(1000)]
        print(f"{kind:7} mean {sum(map(len, docs)) / 1000:.0f} characters, longest {max(map(len, docs))}")
    start, size, share = time.time(), 0, dict.fromkeys(KINDS, 0)
    for i in range(6000):
        d = document(i)
        size += len(d.text)
        share[d.kind] += len(d.text)
    spent = time.time() - start
    print(f"{size / spent / 1e6:.2f} MB/s; " + ", ".join(f"{k} {100 * v / size:.1f} %" for k, v in share.items()))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--split", default="train")
    ap.add_argument("--kind", choices=KINDS)
    ap.add_argument("--count", type=int, default=1)
    ap.add_argument("--task", choices=TASKS)
    ap.add_argument("--check", metavar="FILE")
    ap.add_argument("--stats", action="store_true")
    ap.add_argument("--selftest", action="store_true")
    o = ap.parse_args()
    if o.selftest:
        return selftest()
    if o.stats:
        return stats()
    if o.check:
        with open(o.check, encoding="utf-8") as f:
            r = check(f.read())
        for line in r.contradictions:
            print("contradiction:", line)
        for line in r.unparsed:
            print("not understood:", line)
        print(f"{r.parsed} sentences understood")
        return 1 if r.contradictions else 0
    for i in range(o.seed, o.seed + o.count):
        if o.task:
            t = task(o.task, i, o.split)
            print(t.prompt + "[" + t.answer + "]\n")
        else:
            print(document(i, o.split, o.kind).text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
