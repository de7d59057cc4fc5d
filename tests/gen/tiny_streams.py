"""Models with several streams, hyper-connections of a low rank, a table of n-grams and an indexer of means: qwen4exp.

A family of tests/gen/tiny_models.py. Their recurrent layers are those of tiny_recurrent; what the converter does to the framework's weights
is undone here: 1 + gain, the parts of the indexer's projection, the axis of filters.
"""
import numpy as np

import tiny_recurrent
from gguf import GGUFValueType
from tiny_base import N_VOCAB
from tiny_recurrent import MOE, MOE32, Q8_0, draw_attention, draw_delta, draw_feed

MODULES = ["models.qwen4_exp.modeling_qwen4_exp"]

# attn: the layers with attention; streams, rank: of the hyper-connections; index: heads of the indexer, their size, positions that it chooses,
# positions of a block (0: the file says none, and all positions are seen); gram: the layer of the n-grams, tokens of the longest, heads of each
# length, values of a row, taps, the token that ends a text, the least rows of a head; None: there is no table; quick: prompts are drawn with the
# reading of tests/, since the framework looks at each position alone
STREAMS = dict(tiny_recurrent.DELTA, arch="qwen4exp", quick=True, moe=MOE, tied=False, layers=4, attn=(1, 3), embd=24, hd=16, rot=8, eps=1e-5, nk=2, nv=4, d=8, taps=4,
               streams=3, rank=10, index=(6, 12, 24, 4), gram=(2, 3, 2, 6, 4, 172, 50))
MODELS = {
    "qwen4exp": dict(STREAMS, greedy=True),
    "qwen4exp_odd": dict(STREAMS, layers=3, attn=(1,), streams=2, rank=7, index=(5, 8, 15, 3), gram=(0, 2, 3, 5, 3, 121, 40), joint=True),
    "qwen4exp_plain": dict(STREAMS, layers=2, attn=(1,), streams=4, index=(4, 8, 96, 0), gram=None),
    "qwen4exp_q8_0": dict(STREAMS | Q8_0 | dict(out=0.7), layers=2, attn=(1,), d=16, moe=MOE32, n=48, step=5, streams=2, rank=32, index=(4, 32, 48, 4),
                          gram=(0, 3, 1, 32, 4, 250, 50)),
}


def primes(least, count):
    """The first primes from `least` on."""
    out = []
    while len(out) < count:
        out += [least] * all(least % i for i in range(2, int(least ** 0.5) + 1))
        least += 1
    return out


def factors(n, seed=1234):
    """What the framework draws for the hash of n tokens, odd numbers (SplitMix64)."""
    mask, step, out = 2 ** 64 - 1, 0x9E3779B97F4A7C15, []
    half = (2 ** 63 - 1) // N_VOCAB // 2
    for i in range(n):
        x = seed + step * (i + 1) + step & mask
        for shift, by in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ x >> shift) * by & mask
        out.append(2 * ((x ^ x >> 31) % half) + 1)
    return out


def gram_rows(s):
    """Rows of each head; their first ones; rows of the table."""
    _, n, each, _, _, _, least = s["gram"]
    rows = primes(least, (n - 1) * each)
    return rows, [sum(rows[:i]) for i in range(len(rows))], -(-sum(rows) // 128) * 128


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D = s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=np.sqrt(D))
    for i in range(s["layers"]):
        draw_layer(w, s, i, "blk.%d." % i)
    draw_hyper(w, s, "output_hc_", False)
    w.matrix("output", N_VOCAB, D, gain=s["out"])
    if s["gram"]:
        w.matrix("per_layer_token_embd", gram_rows(s)[2], s["gram"][3], gain=np.sqrt(s["gram"][3]))


def draw_hyper(w, s, name, inject=True):
    wide = s["streams"] * s["embd"]
    w.vector(name + "norm.weight", wide, 1.0, 0.2)
    w.matrix(name + "down", s["rank"], wide, gain=2.0 * s["streams"])
    w.matrix(name + "up", wide, s["rank"], gain=2.0)
    if inject:
        w.matrix(name + "inject", s["streams"], wide, gain=1.0 * s["streams"])


def draw_layer(w, s, i, b):
    D = s["embd"]
    for part in ("attn", "ffn"):
        draw_hyper(w, s, b + "hc_%s_" % part)
    if i not in s["attn"]:
        draw_delta(w, s, b)
    else:
        draw_attention(w, s, b)
        heads, size = s["index"][:2]
        w.matrix(b + "indexer.q_proj", heads * size, D)
        w.matrix(b + "indexer.k_proj", size, D)
        for c in "qk":
            w.vector(b + "indexer.%s_norm.weight" % c, size, 1.0, 0.2)
    if s["gram"] and i == s["gram"][0]:
        draw_grams(w, s, b)
    draw_feed(w, s, i, b)


def draw_grams(w, s, b):
    D, wide, (_, n, each, row, taps, _, _) = s["embd"], s["streams"] * s["embd"], s["gram"]
    width = (n - 1) * each * row
    w.matrix(b + "ple_key", wide, width)
    w.matrix(b + "ple_value", D, width, gain=1.5)
    for name in ("key", "query", "conv"):
        w.vector(b + "ple_norm_%s.weight" % name, wide, 1.0, 0.2)
    w.matrix(b + "ple_conv1d", wide, taps, gain=1.5)


# --- the same weights, as the framework has them --------------------------------------------------------------------
HYPER = {"norm": "hc_norm", "down": "input_mix_weight_down", "up": "input_mix_weight_up", "inject": "block_inject_weight"}
GRAMS = {"ple_key": "key_proj", "ple_value": "value_proj", "ple_norm_key": "norm_key", "ple_norm_query": "norm_query", "ple_norm_conv": "norm_conv",
         "ple_conv1d": "conv1d"}
PARTS = {"attn": "attn_hyper_connection.", "ffn": "mlp_hyper_connection."}
# the framework makes these of its config, as factors() and gram_rows() do
IGNORED = tuple("model.layers.%d.ple.ple_embedding.%s" % (i, name) for i in range(8)
                for name in ("layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"))


def hf_layer(s, i, slots):
    layer, slots, out = "model.layers.%d." % i, dict(slots), {}
    if "indexer.q_proj.weight" in slots:
        both = [np.asarray(slots.pop("indexer.%s_proj.weight" % c), np.float64) for c in "qk"]
        out[layer + "self_attn.indexer.index_qk_proj.weight"] = np.concatenate(both)
    for name in list(slots):
        slot, x = name.rpartition(".")[0], np.asarray(slots[name], np.float64)
        part = slot.split("_")
        if slot.startswith("hc_"):
            out[layer + PARTS[part[1]] + HYPER[part[2]] + ".weight"] = x - (part[2] == "norm")
        elif slot.startswith("ple_"):
            x = x - 1 if "norm" in slot else x[:, None] if "conv1d" in slot else x
            out[layer + "ple." + GRAMS[slot] + ".weight"] = x
        elif slot.startswith("indexer."):
            out[layer + "self_attn.indexer.%s_layernorm.weight" % slot[8]] = x - 1
        else:
            continue
        del slots[name]
    return dict(out, **tiny_recurrent.hf_layer(dict(s, arch="qwen35moe"), layer, slots))


def hf_state(s, value):
    state, layers = {}, [{} for _ in range(s["layers"])]
    for name, x in value.items():
        if name.startswith("blk."):
            _, i, slot = name.split(".", 2)
            layers[int(i)][slot] = x
        elif name.startswith("output_hc_"):
            part = name[10:].split(".")[0]
            state["model.hyper_connection_mixer.%s.weight" % HYPER[part]] = np.asarray(x, np.float64) - (part == "norm")
        elif name.startswith("per_layer"):
            state["model.layers.%d.ple.ple_embedding.ngram_embedding.weight" % s["gram"][0]] = x
        else:
            state[{"token_embd": "model.embed_tokens", "output": "lm_head"}[name.split(".")[0]] + ".weight"] = x
    for i, slots in enumerate(layers):
        state.update(hf_layer(s, i, slots))
    return state


def hf_class(s):
    return "Qwen4ExpForCausalLM"


def hf_config(s):
    c = tiny_recurrent.hf_config(dict(s, arch="qwen35moe"))
    c.update(hc_count=s["streams"], hc_lowrank=s["rank"], output_gate_type="sigmoid", indexer_n_heads=s["index"][0], indexer_kv_heads=1,
             indexer_head_dim=s["index"][1], indexer_budget=s["index"][2], indexer_compress_ratio=s["index"][3] or 1, ple_layer_ids=None)
    if s["gram"]:
        at, n, each, row, taps, stop, least = s["gram"]
        c.update(ple_layer_ids=[at + 1], ple_embed_dim=(n - 1) * each * row, ple_conv_kernel_size=taps, ngram_size=n, heads_per_ngram=each,
                 ngram_vocab_size_base=least, eos_token_id=stop)
    return c


def check(s, value, oracle):
    """The framework finds the rows that the file names; the golden values are those of the delta rule itself, not of its chunks."""
    for i, layer in enumerate(oracle.model.model.layers):
        if layer.ple is None:
            continue
        e, (rows, first, table) = layer.ple.ple_embedding, gram_rows(s)
        assert i == s["gram"][0] and e.layer_multipliers.tolist() == factors(s["gram"][1])
        assert e.ngram_heads_vocab_sizes.tolist() == rows and e.ngram_heads_offsets.tolist() == first and len(e.ngram_embedding.weight) == table
    tiny_recurrent.check(dict(s, arch="qwen35"), value, oracle)



# --- the keys -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, (heads, size, top, block) = s["arch"], s["index"]
    tiny_recurrent.write_keys(g, s)
    g.add_uint32(a + ".hyper_connection.count", s["streams"])
    g.add_uint32(a + ".hyper_connection.low_rank", s["rank"])
    for name, value in (("head_count", heads), ("key_length", size), ("top_k", top)):
        g.add_uint32(a + ".attention.indexer." + name, value)
    if block:
        g.add_array(a + ".attention.compress_ratios", [block * (i in s["attn"]) for i in range(s["layers"])])
    if s["gram"]:
        write_gram_keys(g, s, a + ".ple.")


def write_gram_keys(g, s, a):
    at, n, each, row, taps, stop, _ = s["gram"]
    rows, first, _ = gram_rows(s)
    g.add_array(a + "layers", [at])
    for name, value in (("ngram_size", n), ("heads_per_ngram", each), ("conv_kernel", taps), ("eos_token_id", stop)):
        g.add_uint32(a + name, value)
    g.add_uint32(s["arch"] + ".embedding_length_per_layer_input", row)
    for name, values in (("layer_multipliers", factors(n)), ("head_offsets", first), ("head_vocab_sizes", rows)):
        g.add_key_value(a + name, values, GGUFValueType.ARRAY, GGUFValueType.UINT64)
