"""The family of tests/gen/tiny_models.py with decoders whose attention and feed-forward read the stream side by side: command-r, cohere2,
cohere2moe, falcon, gptneox, phi2, plamo, stablelm, gptj; and arctic, whose experts read what attention reads; and llama4, whose windows are
chunks and whose experts get their inputs times their weights.

Rows of ARCHS and MODELS are as in tiny_decoders.py, which draws the weights and writes the keys.
"""
import numpy as np

import tiny_decoders
from tiny_base import N_VOCAB
from tiny_decoders import EVEN, OTHERS, QKV, SHARED, SMALL, draw, kinds, write_keys  # noqa: F401  (draw and write_keys are the family's)

# norm_bias: LayerNorm has a bias too; joined: how the framework orders the rows of attn_qkv, "heads" or "groups" of query heads
ONE = dict(norms=("attn_norm",), layer_norm=True, eps="layer_norm_eps")
COHERE = dict(ONE, norm_bias=False)
PLAIN_FF = dict(ONE, ffn="plain")
NEOX_TOP = {"token_embd": "embed_in", "output_norm": "final_layer_norm"}
FALCON_TOP = {"token_embd": "word_embeddings", "output_norm": "ln_f"}
NEOX = {"attn_qkv": "attention.query_key_value", "attn_output": "attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h"}
FALCON = dict(NEOX, attn_qkv="self_attention.query_key_value", attn_output="self_attention.dense", attn_norm_2="ln_attn")
SCOUT = {"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj",
         "ffn_gate_inp": "feed_forward.router", "experts": "feed_forward.experts", "ffn_gate_shexp": "feed_forward.shared_expert.gate_proj",
         "ffn_up_shexp": "feed_forward.shared_expert.up_proj", "ffn_down_shexp": "feed_forward.shared_expert.down_proj"}
ARCHS = {
    "command-r": dict(COHERE, cls="CohereForCausalLM", module="cohere"),
    "cohere2": dict(COHERE, cls="Cohere2ForCausalLM", module="cohere2", n_rot=True),
    "cohere2moe": dict(COHERE, cls="Cohere2MoeForCausalLM", module="cohere2_moe", ffn="experts", head_dim=True, n_rot=True, names=SHARED),
    "falcon": dict(PLAIN_FF, cls="FalconForCausalLM", module="falcon", fused=True, base=False, joined="groups",
                   trunk=("transformer.", "h.%s.", FALCON_TOP), names=FALCON),
    "gptneox": dict(PLAIN_FF, norms=("attn_norm", "ffn_norm"), cls="GPTNeoXForCausalLM", module="gpt_neox", fused=True, n_rot=True, base=False,
                    joined="heads", trunk=("gpt_neox.", "layers.%s.", NEOX_TOP), names=NEOX),
    "phi2": dict(PLAIN_FF, cls="PhiForCausalLM", module="phi", n_rot=True, base=False,
                 trunk=("model.", "layers.%s.", {"token_embd": "embed_tokens", "output_norm": "final_layernorm"}),
                 names={"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}),
    "plamo": dict(cls=None, norms=("attn_norm",), base=False),
    "stablelm": dict(ONE, cls="StableLmForCausalLM", module="stablelm", n_rot=True, base=False),
    "gptj": dict(PLAIN_FF, cls="GPTJForCausalLM", module="gptj", n_rot=True, base=False,
                 trunk=("transformer.", "h.%s.", {"token_embd": "wte", "output_norm": "ln_f"}),
                 names={"attn_norm": "ln_1", "attn_q": "attn.q_proj", "attn_k": "attn.k_proj", "attn_v": "attn.v_proj",
                        "attn_output": "attn.out_proj", "ffn_up": "mlp.fc_in", "ffn_down": "mlp.fc_out"}),
    "arctic": dict(cls=None, ffn="experts", n_rot=True, norms=("attn_norm", "ffn_norm", "ffn_norm_exps")),
    "llama4": dict(cls="Llama4ForCausalLM", module="llama4", ffn="experts", head_dim=True, n_rot=True, names=SCOUT),
}
tiny_decoders.ARCHS.update(ARCHS)                               # its functions find an architecture there
MODULES = ["models.%s.modeling_%s" % (m, m) for m in sorted({a["module"] for a in ARCHS.values() if "module" in a})]
ROUTER = (("mlp.gate", "feed_forward.router"), lambda module, out: out[1] if type(module).__name__ == "Llama4Router" else out[0])
IGNORED = "-"

FOUR = dict(SMALL, embd=32, hd=8, ff=32)                       # four heads, two of keys
PART = dict(rope=dict(partial_rotary_factor=0.5), n_rot=4)
LOCAL = dict(config=dict(sliding_window=24), keys=dict(sliding_window=24, vocab_size=N_VOCAB))
NORTH = dict(expert_selection_fn="sigmoid", num_experts=4, num_experts_per_tok=2, num_shared_experts=2, shared_expert_combination_strategy="average",
             intermediate_size=8, prefix_dense_intermediate_size=32, sliding_window=24, head_dim=8)
NORTH_KEYS = dict(sliding_window=24, vocab_size=N_VOCAB, expert_feed_forward_length=8, leading_dense_block_count=1, expert_shared_count=2)
NORTH_MOE = dict(EVEN, arch="cohere2moe", dense=1, moe=dict(experts=4, used=2, ff=8, shared=16))
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
SCOUT_CONFIG = dict(attention_chunk_size=24, floor_scale=20, attn_scale=0.4, intermediate_size=16, intermediate_size_mlp=32)
SCOUT_KEYS = dict(sliding_window=24, attn_temperature_scale=0.4, attn_temperature_length=20, vocab_size=N_VOCAB)
MODELS = {
    "command-r": dict(EVEN, arch="command-r", layers=2, out=5.0, config=dict(logit_scale=0.5, use_qk_norm=False), keys=dict(logit_scale=0.5)),
    "command-r_plus": dict(FOUR, arch="command-r", layers=2, out=5.0, qk="heads", config=dict(logit_scale=0.5, use_qk_norm=True),
                           keys=dict(logit_scale=0.5)),
    "cohere2": dict(EVEN, arch="cohere2", layers=5, out=5.0, theta=50000.0, config=dict(LOCAL["config"], logit_scale=0.5),
                    keys=dict(LOCAL["keys"], logit_scale=0.5)),
    "cohere2moe": dict(NORTH_MOE, layers=5, out=5.0,
                       config=dict(NORTH, logit_scale=0.5, norm_topk_prob=True, mlp_layer_types=["dense"] + 4 * ["sparse"],
                                   layer_types=["full_attention"] + kinds(24, 4, 4)),
                       keys=dict(NORTH_KEYS, logit_scale=0.5, expert_weights_norm=True, expert_shared_feed_forward_length=16,
                                 sliding_window_pattern=[False, True, True, True, False])),
    "cohere2moe_rms": dict(NORTH_MOE, layers=4, ahead=1, out=1.2, layer_norm=False,
                           config=dict(NORTH, logit_scale=2.0, norm_topk_prob=False, mlp_layer_types=["dense"] + 3 * ["sparse"],
                                       layer_types=["full_attention"] + 3 * ["sliding_attention"]),
                           keys=dict(NORTH_KEYS, logit_scale=2.0, nextn_predict_layers=1, block_count=5,
                                     sliding_window_pattern=[False, True, True, True])),
    "falcon": dict(EVEN, arch="falcon", layers=2, ff=64),
    "falcon_40b": dict(FOUR, arch="falcon", layers=1, tied=False, ff=128, two=True),
    "gptneox": dict(EVEN, **PART, arch="gptneox", layers=2, kv=2, tied=False, bias=("attn_qkv",) + OTHERS, keys=dict(parallel_residual=True)),
    "gptneox_serial": dict(EVEN, **PART, arch="gptneox", layers=2, kv=2, tied=False, bias=("attn_qkv",) + OTHERS,
                           config=dict(use_parallel_residual=False), keys=dict(parallel_residual=False)),
    "phi2": dict(EVEN, **PART, arch="phi2", layers=2, kv=2, tied=False, ff=64, bias=QKV + OTHERS + ("output",)),
    "plamo": dict(SMALL, arch="plamo", layers=2, hd=4, tied=False, eps=1e-6),
    "stablelm": dict(EVEN, **PART, arch="stablelm", layers=2, tied=False, bias=QKV, serial=True,
                     config=dict(use_qkv_bias=True, use_parallel_residual=False), keys=dict(parallel_residual=True)),
    "stablelm_12b": dict(FOUR, **PART, arch="stablelm", layers=1, tied=False, qk="heads",
                         config=dict(use_parallel_residual=True, qk_layernorm=True), keys=dict(parallel_residual=True)),
    "gptj": dict(EVEN, arch="gptj", layers=2, kv=2, n_rot=4, tied=False, ff=64, bias=("ffn_up", "ffn_down", "output")),
    "llama4": dict(EVEN, arch="llama4", layers=4, tied=False, moe=dict(experts=4, used=2, ff=16, shared=16), rope=LLAMA3,
                   config=dict(SCOUT_CONFIG, num_experts_per_tok=2, num_local_experts=4, use_qk_norm=True, interleave_moe_layer_step=1),
                   keys=dict(SCOUT_KEYS, interleave_moe_layer_step=1, expert_feed_forward_length=16)),
    "llama4_maverick": dict(FOUR, arch="llama4", layers=4, embd=8, heads=2, kv=1, hd=4, ff=12, sparse=2, metric="nmse",
                            type=lambda name: "F16" if "_exps" in name else "F32", moe=dict(experts=128, used=1, ff=4, shared=4),
                            config=dict(SCOUT_CONFIG, num_experts_per_tok=1, num_local_experts=128, use_qk_norm=False, interleave_moe_layer_step=2,
                                        intermediate_size=4, intermediate_size_mlp=12),
                            keys=dict(SCOUT_KEYS, interleave_moe_layer_step=2, expert_feed_forward_length=4, feed_forward_length=12)),
    "llama4_open": dict(EVEN, arch="llama4", layers=2, sparse=0,
                        config=dict(num_local_experts=1, moe_layers=[], interleave_moe_layer_step=0, no_rope_layers=[1, 1], attention_chunk_size=None,
                                    intermediate_size_mlp=32),
                        keys=dict(interleave_moe_layer_step=0, expert_count=1, expert_used_count=1, expert_feed_forward_length=32, sliding_window=0,
                                  vocab_size=N_VOCAB)),
    "arctic": dict(EVEN, arch="arctic", layers=2, tied=False, moe=dict(experts=4, used=2, ff=16), keys=dict(vocab_size=N_VOCAB)),
}


def hf_class(s):
    return ARCHS[s["arch"]]["cls"]


def hf_config(s):
    sizes = dict(vocab_size=N_VOCAB, layer_norm_epsilon=s["eps"], bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=s["tied"])
    if s["arch"] == "gptj":
        return dict(sizes, n_embd=s["embd"], n_layer=s["layers"], n_head=s["heads"], n_positions=s["ctx"], n_inner=s["ff"], rotary_dim=s["n_rot"])
    if s["arch"] == "falcon":
        return dict(sizes, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], num_kv_heads=s["kv"],
                    max_position_embeddings=s["ctx"], ffn_hidden_size=s["ff"], new_decoder_architecture=bool(s.get("two")),
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    c = tiny_decoders.hf_config(s)
    if s["arch"] == "llama4":
        c["intermediate_size"] = s["config"].get("intermediate_size", s["ff"])
    if s.get("layer_norm") is False:
        c["rms_norm_eps"] = c.pop("layer_norm_eps")
    return c


def framework_rows(s, x):
    """Rows of attn_qkv, or its bias, in the framework's order."""
    q, k, v = np.split(x, np.cumsum([s["heads"] * s["hd"], s["kv"] * s["hd"]]))
    groups = s["heads"] if ARCHS[s["arch"]]["joined"] == "heads" else s["kv"]
    return np.concatenate([y.reshape(groups, -1, *x.shape[1:]) for y in (q, k, v)], axis=1).reshape(x.shape)


def expert_layout(name, x):
    """Expert matrices of Llama 4 are [in, out]."""
    return x.swapaxes(1, 2) if ".feed_forward.experts." in name else x


def hf_state(s, value):
    value = {n: framework_rows(s, x) if ".attn_qkv." in n else x for n, x in value.items()}
    norms = {n: x for n, x in value.items() if s["arch"] == "stablelm" and n.split(".")[-2] in ("attn_q_norm", "attn_k_norm")}
    state = tiny_decoders.hf_state(s, {n: x for n, x in value.items() if n not in norms})
    for name, x in norms.items():                               # a vector of each head
        of = "model.layers.%s.self_attn.%s_layernorm.norms.%%d.weight" % (name.split(".")[1], name.split("_")[1])
        state.update({of % h: gains for h, gains in enumerate(x)})
    state = {n: expert_layout(n, x) for n, x in state.items()}
    if s.get("two"):
        state = {n.replace("input_layernorm", "ln_mlp"): x for n, x in state.items()}
    if "output.bias" in value:
        state["lm_head.bias"] = value["output.bias"]
    return state


def hub_config(s):
    """The converter wants tokens of vocabularies, or sizes of the one PLaMo model; it knows no GPT-J."""
    if s["arch"] in ("plamo", "gptj", "arctic", "stablelm") or s.get("ahead"):
        return None
    c = dict(cohere2=dict(rotary_pct=1.0), gptneox=dict(rotary_pct=0.5, rotary_emb_base=10000.0)).get(s["arch"], {})
    return dict(c, model_max_length=s["ctx"]) if s["arch"] == "command-r" else c
