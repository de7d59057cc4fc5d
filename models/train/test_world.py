#!/usr/bin/env python3
"""Tests of world.py:  python3 models/train/test_world.py [N stories, default 400]

The checker is judged on texts written by hand: true ones, ones with a contradiction, ones it cannot read.
"""
import collections
import hashlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world

HERE = "Mia was in the kitchen. "
CLEAN = (
    "Tom was in the garden. Tom walked from the garden to the yard. He chopped some wood.",
    HERE + "Tom was in the garden. Mia went to the garden. Mia met Tom in the garden.",
    HERE + "Mia had a red ball. She put it in the kitchen. Tom came to the kitchen too. Tom took the red ball.",
    HERE + "There was a blue box in the kitchen. The blue box was closed. Mia opened the blue box. Inside it ran",
    HERE + '"Where are you, Tom?" called Mia.',
    "Mia and Tom were in the park. They went to the market together. Mia tasted the grapes at the market.",
    "The Red Ball\n\n" + HERE + "She stirred the soup.",
    HERE + "She stirred the soup.\nQuestion: Where is Mia?\nAnswer: Mia is in the garden.",
)
FALSE = (
    (HERE + "Mia watered the flowers.", "acts elsewhere"),
    (HERE + "Mia walked from the garden to the yard.", "leaves a place where she is not"),
    (HERE + "Mia went to the kitchen.", "goes where she is"),
    (HERE + "Tom had a red ball. Mia gave the red ball to Tom.", "gives what she has not"),
    (HERE + "Tom had a red ball. Mia picked up the red ball.", "takes what another holds"),
    (HERE + "Mia had a red ball. Tom was in the garden. She gave the red ball to Tom.", "gives over a distance"),
    (HERE + "There was a blue box in the kitchen. The blue box was closed. Mia closed the blue box.", "closes what is closed"),
    (HERE + "There was a blue box in the kitchen. Mia opened the blue box. Mia opened the blue box.", "opens what is open"),
    (HERE + "There was a blue box in the kitchen. The blue box was shut. Mia had a red ball. She put it in the blue box.",
     "puts into a closed box"),
    (HERE + "Mia had a ripe pear. Mia ate the ripe pear. Mia gave the ripe pear to Tom.", "gives what is eaten"),
    (HERE + "A red ball was in the garden. Mia picked up the red ball.", "takes from afar"),
    (HERE + "Mia had a red ball. Mia put the blue ball in the kitchen.", "another colour"),
    (HERE + "Mia held a red ball in his hands.", "another gender"),
    (HERE + "Tom was in the garden. Mia met Tom in the kitchen.", "meets who is elsewhere"),
    (HERE + "Mia looked at the rose bush.", "looks at what stands elsewhere"),
    (HERE + "Mia washed the plates in the garden.", "an activity at the wrong place"),
    ("Tom and Mia were in the park. They raced from the market to the bridge.", "race from elsewhere"),
    (HERE + "Mia felt happy. Mia was not sad anymore.", "ends a mood she has not"),
    (HERE + "It started to rain. It began to rain.", "starts to rain twice"),
)
UNREAD = (HERE + "Mia exploded.", HERE + "Mia had a red zorp.", HERE + "Xorn was in the kitchen.", HERE + "He had a red ball.")


def test_checker():
    for text in CLEAN:
        r = world.check(text)
        assert not r.contradictions and not r.unparsed and r.parsed, (text, r)
    for text, why in FALSE:
        r = world.check(text)
        assert len(r.contradictions) >= 1 and not r.unparsed, (why, r)
    for text in UNREAD:
        r = world.check(text)
        assert len(r.unparsed) == 1 and not r.contradictions, (text, r)


def test_sentences():
    got = world.sentences('Title Here\n\n"Hi, Tom!" said Mia. "Where is it?" asked Tom. He said no. Then she')
    assert got == ['"Hi, Tom!" said Mia.', '"Where is it?" asked Tom.', "He said no."], got


def test_stories(n):
    """Every story is read back whole, no sentence twice, no form or plot unused."""
    used, again = collections.Counter(), 0
    for seed in range(n):
        s = world.tell(world.stream_of("test", seed, "unit"), world.PLOTS[seed % len(world.PLOTS)])
        r = world.check(world.story_text(s, seed % 7 == 0))
        assert not r.contradictions and not r.unparsed and r.parsed == len(s.out), (seed, r, world.story_text(s))
        assert 5 <= len(s.out) <= 30 and len(" ".join(s.out)) < 1300, (seed, len(s.out))
        again += len(s.out) - len(set(s.out))
        used.update(s.used)
    unused = [f.template for f in world.FORM_LIST if f.id not in used]
    assert len(unused) <= (0 if n >= 3000 else 40), unused
    assert again <= n // 20, again
    return len(unused), again


def test_templates():
    """No two forms read the same text, or the weaker one would hide a contradiction."""
    seen = collections.Counter(f.template for f in world.FORM_LIST)
    assert max(seen.values()) == 1, [t for t, c in seen.items() if c > 1]
    assert len(world.NAME_SET) == len(world.NAMES)
    assert len(world.PLACE_OF_ACT) == 3 * len(world.PHRASE) and len(world.PLACE_OF_FEATURE) == 3 * len(world.PHRASE)


def test_answers():
    """Spans begin with a space after a colon or equals sign; chat spans end before the end-of-turn mark."""
    for seed in range(600):
        for kind in world.KINDS:
            d = world.document(seed, "test", kind)
            assert kind == "story" or d.answers or kind == "chat" and "story" in d.text, (seed, d)
            for a, b in d.answers:
                before, after = d.text[:a], d.text[b:]
                if kind == "chat":
                    assert before.endswith("assistant\n") and after.startswith("<|im_end|>\n"), (seed, d.text[a:b])
                else:
                    assert before[-1] in ":=" and d.text[a] == " " and after[0] == "\n", (seed, d.text[a:b])


def state_of(story):
    r = world.Reader()
    for s in world.sentences(story):
        assert r.sentence(s), s
    return r.world


def test_tasks():
    """Answers about places and holders agree with a replay of the text alone."""
    for seed in range(60):
        for name in ("where1", "where_thing", "holder", "two_hop"):
            t = world.task(name, seed)
            w = state_of(t.prompt)
            words = t.answer.strip().rstrip(".").removeprefix("The ")
            if name == "holder":
                who, thing = words.split(" has the ")
                assert w.loc[thing] == who, t
                continue
            who, at = words.split(" is ")
            if at in world.PLACE_OF_PHRASE:
                got = w.root(who)[0] if name == "two_hop" else w.loc[who]
                assert got == world.PLACE_OF_PHRASE[at], t
            else:
                assert "in the " + w.loc[who] == at, t
        t = world.task("sum", seed)
        a, op, b = t.prompt.split("\n")[-1].split()[:3]
        assert int(t.answer) == {"+": int(a) + int(b), "-": int(a) - int(b), "x": int(a) * int(b)}[op]
    for name in world.TASKS:
        answers = [world.task(name, i).answer for i in range(30)]
        assert all(answers) and (name == "unknown" or len(set(answers)) > 1), name


def test_mentions():
    """What is said to be known where somebody is named agrees with a replay of the sentences before."""
    compared = 0
    for seed in range(200):
        d = world.document(seed, "test", "qa" if seed % 2 else "story")
        said = {end: (place, at) for end, place, at, _ in d.mentions}
        reader, at = world.Reader(), 0
        for s in world.sentences(d.text) + [None]:
            end = d.text.index(s, at) + len(s) if s else len(d.text)
            for stop in [e for e in said if at < e <= end]:
                place, holder = said.pop(stop)
                name = next(e for e in reader.people + list(reader.world.loc) + [None] if e is None or d.text[:stop].endswith(e))
                if name is None:                        # nothing was said of it yet
                    continue
                known = reader.world.root(name)[0], reader.world.loc.get(name)
                assert known == (place, holder), (d.text[:stop], known, place, holder)
                compared += 1
            at = end
            assert s is None or reader.sentence(s), s
        assert not said, (d.text, said)
    assert compared > 2500, compared


def test_faults():
    """Sentence after sentence of a story can be true; of one with a change that cannot, the first that cannot is found."""
    found = 0
    for seed in range(100):
        text = world.story_text(world.tell(world.stream_of("test", seed, "faults")))
        assert world.first_fault(text) is None, text
        at = 0
        for sentence in world.sentences(text):
            start, at = at, text.index(sentence, at) + len(sentence)
            assert world.next_sentence(text[:start], text[start:])[:2] == (at - start, True), sentence
        assert world.next_sentence(text[:at], text[at:] + " And then") is None
        wrong = world.corrupted(world.stream_of("test", seed, "faults"))
        at = wrong and world.first_fault(wrong)
        if at:
            found += 1
            end, good, stake = world.next_sentence(wrong[:at], wrong[at:])
            assert not good and stake and world.first_fault(wrong[:at]) is None and world.first_fault(wrong[:at + end]) == at, wrong
    assert found > 50, found


def digest():
    h = hashlib.sha256()
    for seed in range(300):
        h.update(world.document(seed).text.encode())
        h.update(world.story_prompt(seed).encode())
    return h.hexdigest()


def test_determinism():
    for hash_seed in "1", "2":
        got = subprocess.run([sys.executable, "-c", "import test_world; print(test_world.digest())"], text=True, check=True,
                             capture_output=True, cwd=os.path.dirname(os.path.abspath(__file__)),
                             env={**os.environ, "PYTHONHASHSEED": hash_seed}).stdout.strip()
        assert got == digest()


def test_splits():
    train = {world.document(i, "train", "story").text for i in range(2000)}
    assert len(train) == 2000 and not any(world.document(i, "test", "story").text in train for i in range(500))


def main():
    """Every test, with the count that tests/run.sh adds up."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    failed = 0
    todo = (test_templates, test_sentences, test_checker, lambda: test_stories(n), test_answers, test_tasks, test_mentions, test_faults,
            test_determinism, test_splits)
    for test in todo:
        try:
            test()
        except AssertionError as e:
            failed += 1
            print("FAIL ", e)
    print(f"world: {len(todo) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
