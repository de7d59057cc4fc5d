"""A model that says what a test wants: each token names the tokens that may follow it, and nothing before it counts.

write(path, chains, template) makes a llama with one layer whose attention and feed-forward add nothing. Every token has a vector of its own, nearly at
right angles to all others; the row of a token in the output matrix is the sum of the vectors of those it follows. After a token with one follower
that one is certain; several are equally probable, and all others some e^40 times less.
A chain is a list of token texts, one following the other: ["<|assistant|>", "Hello", " you", "<|end|>"]. Texts in CONTROL are control tokens, other texts
of more than a byte user-defined ones (whole wherever a text holds them); every other byte is a token too, spelled <0x0A>.
"""
import random, struct
from hostile import ARR, BOOL, F32, I32, STR, T_F16, T_F32, U32, File

CONTROL = ["<s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]
WIDTH, UNKNOWN, PLAIN, CONTROL_TYPE, USER, BYTE = 256, 2, 1, 3, 4, 6


def vectors(n):
    """n vectors of WIDTH numbers, each 1 or -1."""
    rng = random.Random(1)
    return [[1 - 2 * (bits >> i & 1) for i in range(WIDTH)] for bits in (rng.getrandbits(WIDTH) for _ in range(n))]


def write(path, chains, template=None, context=2048, control=CONTROL, end="<|end|>", kv=()):
    """Writes the model and returns its path. kv: more (key, type, value)."""
    used = dict.fromkeys(t for chain in chains for t in chain)
    bytes_ = ["<0x%02X>" % i for i in range(256)]
    user = [t for t in used if t not in control and t not in bytes_]
    words = ["<unk>", *control, *bytes_, *user]
    at = {w: i for i, w in enumerate(words)}
    own = vectors(len(words))
    out = [[0] * WIDTH for _ in words]
    for a, b in dict.fromkeys((a, b) for chain in chains for a, b in zip(chain, chain[1:])):
        out[at[b]] = [x + y for x, y in zip(out[at[b]], own[at[a]])]
    f16 = lambda rows: b"".join(struct.pack("<%de" % WIDTH, *row) for row in rows)
    f = File()
    for key, t, v in (("general.architecture", STR, "llama"), ("general.name", STR, "script"), ("llama.block_count", U32, 1), ("llama.context_length", U32, context),
                      ("llama.embedding_length", U32, WIDTH), ("llama.feed_forward_length", U32, 32), ("llama.attention.head_count", U32, 4),
                      ("llama.attention.layer_norm_rms_epsilon", F32, 1e-6), ("tokenizer.ggml.model", STR, "llama"), ("tokenizer.ggml.tokens", ARR, (STR, words)),
                      ("tokenizer.ggml.scores", ARR, (F32, [0.0] * len(words))),
                      ("tokenizer.ggml.token_type", ARR, (I32, [UNKNOWN] + [CONTROL_TYPE] * len(control) + [BYTE] * 256 + [USER] * len(user))),
                      ("tokenizer.ggml.bos_token_id", U32, at[control[0]]), ("tokenizer.ggml.eos_token_id", U32, at[end]), ("tokenizer.ggml.unknown_token_id", U32, 0),
                      ("tokenizer.ggml.add_bos_token", BOOL, 1), ("tokenizer.ggml.add_space_prefix", BOOL, 0), *kv):
        f.set(key, t, v)
    if template is not None:
        f.set("tokenizer.chat_template", STR, template)
    zeros = lambda *dims: bytes(2 * dims[0] * dims[1])
    f.add("token_embd.weight", [WIDTH, len(words)], T_F16, f16(own))
    f.add("output.weight", [WIDTH, len(words)], T_F16, f16(out))
    f.add("output_norm.weight", [WIDTH], T_F32, struct.pack("<%df" % WIDTH, *[0.25] * WIDTH))
    for name in "attn_norm", "ffn_norm":
        f.add("blk.0.%s.weight" % name, [WIDTH], T_F32, struct.pack("<%df" % WIDTH, *[1.0] * WIDTH))
    for name, dims in (("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, WIDTH)), ("attn_v", (WIDTH, WIDTH)), ("attn_output", (WIDTH, WIDTH)),
                       ("ffn_gate", (WIDTH, 32)), ("ffn_up", (WIDTH, 32)), ("ffn_down", (32, WIDTH))):
        f.add("blk.0.%s.weight" % name, list(dims), T_F16, zeros(*dims))
    with open(path, "wb") as out_file:
        out_file.write(f.bytes())
    return path
