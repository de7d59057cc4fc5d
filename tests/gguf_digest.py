"""A digest of a GGUF file: of its tensors, and of the keys that are of the model, in any order. With the standard library alone.

    python3 tests/gguf_digest.py FILE ...
"""
import hashlib
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}        # bytes of a number, by type
BLOCKS = {0: (1, 4), 1: (1, 2), 26: (1, 4), 30: (1, 2), 39: (32, 17), 40: (64, 36)}     # F32, F16, I32, BF16, MXFP4, NVFP4: values and bytes of a block


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def value(self, kind):
        """The bytes of a value; of an array with its type and count, texts apart."""
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.take(SIZES[kind])
        elem, n = self.number("I"), self.number("Q")
        items = [self.value(elem) for _ in range(n)] if elem == 8 else [self.take(SIZES[elem] * n)]
        return b"%d %d " % (elem, n) + b"\0".join(items)


def read(data):
    """Keys: name -> (type, bytes); tensors: name -> (type, dimensions, bytes)."""
    r = Reader(data)
    assert r.take(4) == b"GGUF" and r.number("I") == 3
    n_tensors, n_keys = r.number("Q"), r.number("Q")
    keys, places = {}, []
    for _ in range(n_keys):
        name, kind = r.text(), r.number("I")
        keys[name.decode()] = (kind, r.value(kind))
    for _ in range(n_tensors):
        name, dims = r.text(), r.number("I")
        shape = tuple(r.number("Q") for _ in range(dims))
        places.append((name.decode(), r.number("I"), shape, r.number("Q")))
    start = (r.at + 31) // 32 * 32
    tensors = {}
    for name, kind, shape, at in places:
        n, (values, size) = 1, BLOCKS[kind]
        for d in shape:
            n *= d
        tensors[name] = (kind, shape, data[start + at:start + at + n // values * size])
    return keys, tensors


def of_the_model(keys):
    return {k: v for k, v in keys.items() if not k.startswith(("general.", "tokenizer."))}


def digest(path):
    with open(path, "rb") as f:
        keys, tensors = read(f.read())
    h = hashlib.sha256()
    for name, (kind, value) in sorted(of_the_model(keys).items()):
        h.update(b"%s %d %d " % (name.encode(), kind, len(value)) + value)
    for name, (kind, shape, data) in sorted(tensors.items()):
        h.update(b"%s %d %s " % (name.encode(), kind, repr(shape).encode()) + data)
    return h.hexdigest()[:32]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(digest(path), path)
