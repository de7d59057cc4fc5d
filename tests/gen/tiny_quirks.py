"""The family of tests/gen/tiny_models.py with decoders that have a step or two of their own: openelm, exaone4, exaone-moe, hunyuan-dense,
hunyuan_vl, hunyuan-moe, maincoder, mpt, dbrx, afmoe, laguna, muse-glimmer, bitnet, apertus, smallthinker, plamo3, talkie, grok, phimoe, deci,
nanbeige, grovemoe. What they share with those of tiny_decoders.py comes from there; tests/tiny_read_quirks.py is the second reading, and the
first of those that transformers has no class for.
"""
import numpy as np
from gguf import ExpertGatingFuncType, RopeScalingType

import tiny_decoders as base
from tiny_base import N_VOCAB, f32, pairs_to_halves
from tiny_decoders import AROUND, CALM, CHOSEN, EVEN, OTHERS, QKV, SHARED, SMALL, YARN, kinds, norm
from tiny_llama import llama3_factors

# --- the architectures ----------------------------------------------------------------------------------------------
# Beside what tiny_decoders.ARCHS tells: gate: rows of attn_gate for each head (0: as many as values); sub: norms before the last matrices;
# bare_bias: LayerNorm without biases; short: names of norms after blocks without .weight; xielu, skip, adjugate: tensors and keys of these
NAMED = dict(attn_q_norm="self_attn.query_layernorm", attn_k_norm="self_attn.key_layernorm")
GATED = dict(AROUND["names"], ffn_norm="pre_mlp_layernorm", post_ffw_norm="post_mlp_layernorm", attn_gate="self_attn.gate_proj",
             ffn_gate_inp="mlp.router.gate", **SHARED)
MPT_TOP = {"token_embd": "wte", "output_norm": "norm_f"}
OWN = dict(gate=None, sub=False, bare_bias=False, short=False, xielu=False, skip=False, adjugate=0)
ARCHS = {
    "openelm": dict(cls=None, qk="head", fused=True, head_dim=True, n_rot=True),
    "exaone4": dict(cls="Exaone4ForCausalLM", module="exaone4", qk="head", head_dim=True, norms=("post_attention_norm", "post_ffw_norm"),
                    names=AROUND["names"]),
    "exaone-moe": dict(CHOSEN, cls="ExaoneMoeForCausalLM", module="exaone_moe", qk="head", choice="mlp.gate.e_score_correction_bias"),
    "hunyuan-dense": dict(cls="HunYuanDenseV1ForCausalLM", module="hunyuan_v1_dense", qk="head", head_dim=True, names=NAMED),
    "hunyuan_vl": dict(cls="HunYuanDenseV1ForCausalLM", module="hunyuan_v1_dense", qk="head", head_dim=True, names=NAMED),
    "hunyuan-moe": dict(cls="HunYuanMoEV1ForCausalLM", module="hunyuan_v1_moe", qk="head", head_dim=True, ffn="experts",
                        names=dict(NAMED, ffn_gate_inp="mlp.gate.wg", ffn_gate_shexp="mlp.shared_mlp.gate_proj",
                                   ffn_up_shexp="mlp.shared_mlp.up_proj", ffn_down_shexp="mlp.shared_mlp.down_proj")),
    "maincoder": dict(cls="HunYuanDenseV1ForCausalLM", module="hunyuan_v1_dense", qk="head", head_dim=True, pairs=True, n_rot=True, names=NAMED),
    "mpt": dict(cls="MptForCausalLM", module="mpt", layer_norm=True, bare_bias=True, ffn="plain", fused=True, alibi=True,
                trunk=("transformer.", "blocks.%s.", MPT_TOP),
                names=dict(attn_qkv="attn.Wqkv", attn_output="attn.out_proj", attn_norm="norm_1", ffn_norm="norm_2", ffn_up="ffn.up_proj",
                           ffn_down="ffn.down_proj")),
    "dbrx": dict(cls="DbrxForCausalLM", module="dbrx", layer_norm=True, bare_bias=True, ffn="experts", fused=True, norms=("attn_norm", "attn_output_norm"),
                 trunk=("transformer.", "blocks.%s.", MPT_TOP),
                 names=dict(attn_qkv="norm_attn_norm.attn.Wqkv", attn_output="norm_attn_norm.attn.out_proj", attn_norm="norm_attn_norm.norm_1",
                            attn_output_norm="norm_attn_norm.norm_2", ffn_gate_inp="ffn.router.layer")),
    "afmoe": dict(CHOSEN, cls="AfmoeForCausalLM", module="afmoe", qk="head", n_rot=True, norms=AROUND["norms"], gate=0, choice="mlp.expert_bias", names=GATED),
    "laguna": dict(CHOSEN, cls="LagunaForCausalLM", module="laguna", qk="head", gate=1, choice="mlp.gate.e_score_correction_bias",
                   names=dict(SHARED, attn_gate="self_attn.g_proj")),
    "muse-glimmer": dict(AROUND, cls="MuseGlimmerForConditionalGeneration", module="muse_glimmer", pairs=True, shift=1, head_dim=True, gate=0, text=True,
                         names=dict(AROUND["names"], attn_gate="self_attn.gate_proj")),
    "bitnet": dict(cls="BitNetForCausalLM", module="bitnet", sub=True, names=dict(attn_sub_norm="self_attn.attn_sub_norm", ffn_sub_norm="mlp.ffn_sub_norm")),
    "apertus": dict(cls="ApertusForCausalLM", module="apertus", qk="head", ffn="plain", head_dim=True, n_rot=True, xielu=True,
                    names=dict(attn_norm="attention_layernorm", ffn_norm="feedforward_layernorm")),
    "smallthinker": dict(cls=None, ffn="experts", head_dim=True),
    "plamo3": dict(cls=None, qk="head", fused=True, ffn="joined", head_dim=True, norms=AROUND["norms"], short=True),
    "talkie": dict(cls=None, bare=True, norms=(), head_dim=True, skip=True),
    "grok": dict(cls=None, ffn="experts", norms=("attn_norm", "attn_output_norm", "ffn_norm", "post_ffw_norm")),
    "phimoe": dict(cls="PhimoeForCausalLM", module="phimoe", layer_norm=True, ffn="experts", n_rot=True, names=dict(ffn_gate_inp="mlp.router")),
    "deci": dict(cls=None, pairs=True, n_rot=True, head_dim=True),
    "nanbeige": dict(cls=None, pairs=True, n_rot=True),
    "grovemoe": dict(cls=None, ffn="experts", qk="head", head_dim=True, adjugate=2),
}
base.ARCHS.update(ARCHS)                                        # its functions know them, too
MODULES = ["models.%s.modeling_%s" % (m, m) for m in sorted({a["module"] for a in ARCHS.values() if "module" in a})] + ["activations"]
IGNORED = ("model.vision_",)


def arch_of(s):
    return dict(OWN, **base.arch_of(s))


# --- the models -----------------------------------------------------------------------------------------------------
# quiet: factor on embeddings; small: on what attention gives; sides: a dense feed-forward beside the experts; old: a name of Grok 1
# sizes: of each layer, where they differ: heads, kv, ff; heads 0: no attention, kv 0: a product in its place, ff 0: no feed-forward
SIGMOID = dict(expert_gating_func=ExpertGatingFuncType.SIGMOID)
SCALED = dict(leading_dense_block_count=1, expert_shared_count=1, expert_weights_scale=1.7, expert_weights_norm=True)
LOCAL = {"full_attention": dict(YARN, rope_theta=500000.0, partial_rotary_factor=0.5),
         "sliding_attention": dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)}
LAGUNA = dict(SMALL, arch="laguna", tied=False, theta=500000.0, moe=dict(experts=6, used=2, ff=16, shared=24, choice=0.3), dense=1)
LAGUNA_KEYS = dict(SIGMOID, expert_shared_feed_forward_length=24, expert_weights_norm=True, expert_weights_scale=1.7, leading_dense_block_count=1,
                   vocab_size=N_VOCAB)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
BENT = dict(alpha_n=[-0.3, 0.6], alpha_p=[0.4, -0.8], beta=[0.5, 0.3], eps=[f32(-1e-6), f32(-0.1)])
GROK = dict(EVEN, arch="grok", layers=2, tied=False, out=5.0, moe=dict(experts=6, used=2, ff=16))
MODELS = {
    "openelm": dict(SMALL, arch="openelm", layers=2, eps=1e-6, sizes=dict(heads=[2, 4], kv=[1, 2], ff=[16, 40])),
    "exaone4": dict(SMALL, arch="exaone4", layers=2, theta=1000000.0, rope=LLAMA3, config=dict(sliding_window=None, layer_types=["full_attention"] * 2),
                    keys=dict(vocab_size=N_VOCAB)),
    "exaone4_window": dict(SMALL, arch="exaone4", layers=5, tied=False, config=dict(sliding_window=24, layer_types=kinds(24, 5, 4)),
                           keys=dict(vocab_size=N_VOCAB, sliding_window=24, sliding_window_pattern=[True, True, True, False, True])),
    "exaone4_mtp": dict(SMALL, arch="exaone4", cls=None, layers=2, ahead=1, keys=dict(
                           block_count=3, nextn_predict_layers=1, sliding_window=24, sliding_window_pattern=[True, False])),
    "exaone-moe": dict(SMALL, arch="exaone-moe", layers=5, dense=1, tied=False, moe=dict(experts=6, used=2, ff=16, shared=16, choice=0.3), ahead=1,
                       config=dict(sliding_window=24, layer_types=kinds(24, 5, 4), routed_scaling_factor=1.7, norm_topk_prob=True),
                       keys=dict(SIGMOID, **SCALED, expert_shared_feed_forward_length=16, sliding_window=24, vocab_size=N_VOCAB, block_count=6,
                                 nextn_predict_layers=1, sliding_window_pattern=[True, True, True, False, True], rope_scaling_type=RopeScalingType.NONE)),
    "hunyuan-dense": dict(SMALL, arch="hunyuan-dense", layers=2),
    "hunyuan_vl": dict(SMALL, arch="hunyuan_vl", layers=2, rope=dict(rope_type="dynamic", alpha=40.0, factor=1.0),
                       keys=dict(rope_scaling_alpha=40.0, rope_scaling_type=RopeScalingType.NONE, rope_scaling_factor=1.0,
                                 rope_dimension_sections=[1, 1, 1, 1], expert_count=1, expert_used_count=1)),
    "hunyuan-moe": dict(SMALL, arch="hunyuan-moe", layers=2, moe=dict(experts=6, used=3, ff=16, shared=16), config=dict(moe_topk=3, num_experts=6),
                        keys=dict(expert_shared_count=1, expert_shared_feed_forward_length=16)),
    "maincoder": dict(SMALL, arch="maincoder", layers=2, theta=1000000.0),
    "mpt": dict(EVEN, arch="mpt", layers=2, heads=3, kv=3, hd=8, embd=24, ff=96, keys=dict(max_alibi_bias=8.0, clamp_kqv=1.5)),
    "mpt_learned": dict(EVEN, arch="mpt", cls=None, layers=2, kv=2, ctx=96, learned=True, qk="width", bias=("attn_qkv",) + OTHERS, keys=dict(max_alibi_bias=6.0)),
    "dbrx": dict(EVEN, arch="dbrx", layers=2, heads=2, kv=1, hd=8, theta=500000.0, tied=False, moe=dict(experts=6, used=2, ff=16), keys=dict(clamp_kqv=1.5)),
    "afmoe": dict(SMALL, arch="afmoe", layers=5, dense=1, tied=False, moe=dict(experts=6, used=2, ff=16, shared=16, choice=0.3),
                  config=dict(sliding_window=24, num_dense_layers=1, route_scale=1.7, mup_enabled=True), keys=dict(SCALED, sliding_window=24, vocab_size=N_VOCAB)),
    "laguna": dict(LAGUNA, layers=5, rope=LOCAL, n_rot=4, sizes=dict(heads=[4, 2, 2, 2, 4]),
                   config=dict(sliding_window=24, gating=True, num_attention_heads_per_layer=[4, 2, 2, 2, 4], moe_routed_scaling_factor=1.7,
                               shared_expert_intermediate_size=24, mlp_layer_types=["dense"] + ["sparse"] * 4,
                               layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"]),
                   keys=dict(LAGUNA_KEYS, sliding_window=24, rope_freq_base_swa=10000.0, rope_dimension_count=4, rope_dimension_count_swa=8)),
    "laguna_each": dict(LAGUNA, layers=2, gate=0, rope={"full_attention": dict(rope_type="default", rope_theta=500000.0)}, sizes=dict(heads=[4, 4]),
                        config=dict(gating="per-element", num_attention_heads_per_layer=[4, 4], moe_routed_scaling_factor=1.7,
                                    shared_expert_intermediate_size=24, mlp_layer_types=["dense", "sparse"], layer_types=["full_attention"] * 2),
                        keys=dict(LAGUNA_KEYS, rope_dimension_count=8)),
    "muse-glimmer": dict(SMALL, arch="muse-glimmer", layers=4, tied=False, theta=500000.0, out=5.0, small=2e-4,
                         config=dict(sliding_window=24, layer_types=kinds(24, 4, 4), qk_scale_factor=1.9, output_multiplier=0.4, final_logit_softcapping=3.0,
                                     post_norm_eps=1e-8, hidden_activation="silu"),
                         keys=dict(sliding_window=24, sliding_window_pattern=[True, True, True, False], logit_scale=0.4, final_logit_softcapping=3.0)),
    "bitnet": dict(EVEN, arch="bitnet", layers=2, kv=1, theta=500000.0, config=dict(hidden_act="silu"),
                   keys=dict(rope_scaling_type=RopeScalingType.LINEAR, rope_scaling_factor=1.0)),
    "apertus": dict(SMALL, arch="apertus", layers=2, tied=False, act=1.5, rope=LLAMA3, xielu=BENT, keys=dict(vocab_size=N_VOCAB)),
    "smallthinker": dict(SMALL, arch="smallthinker", layers=2, theta=1500000.0, moe=dict(experts=6, used=2, ff=16), keys=SIGMOID),
    "smallthinker_window": dict(SMALL, arch="smallthinker", layers=5, moe=dict(experts=6, used=2, ff=16), keys=dict(
                                    expert_gating_func=ExpertGatingFuncType.SOFTMAX, sliding_window=24)),
    "plamo3": dict(SMALL, arch="plamo3", layers=4, theta=1000000.0, keys=dict(sliding_window=24, sliding_window_pattern=4, vocab_size=N_VOCAB)),
    "talkie": dict(SMALL, arch="talkie", layers=2, kv=4, tied=False, eps=f32(np.finfo(np.float32).eps), theta=1000000.0, keys=dict(logit_scale=0.7)),
    "grok": dict(GROK, sides=True, keys=dict(expert_feed_forward_length=16, attn_output_scale=0.4, embedding_scale=0.2, logit_scale=0.6,
                                             attn_logit_softcapping=2.0, router_logit_softcapping=1.5, final_logit_softcapping=4.0,
                                             attn_temperature_length=1024)),
    "grok_old": dict(GROK, sharp=8.0, old=True, embd=16, quiet=1 / 80),
    "phimoe": dict(EVEN, arch="phimoe", layers=2, tied=False, bias=QKV + ("attn_output", "output"), moe=dict(experts=6, used=2, ff=16),
                   config=dict(attention_bias=True, lm_head_bias=True), keys=dict(sliding_window=0)),
    "deci": dict(SMALL, arch="deci", layers=6, tied=False, sizes=dict(heads=[4, 4, 0, 4, 0, 0], kv=[2, 0, 0, 1, 0, 0], ff=[32, 24, 16, 0, 0, 32])),
    "nanbeige": dict(EVEN, arch="nanbeige", layers=2, tied=False, loops=3),
    "nanbeige_bare": dict(EVEN, arch="nanbeige", layers=2, loops=2, skip_norm=True),
    "grovemoe": dict(SMALL, arch="grovemoe", layers=2, tied=False, moe=dict(experts=6, used=3, ff=16), group_scale=0.4, chunk=24),
    "afmoe_q8_0": dict(SMALL, **CALM, arch="afmoe", layers=4, dense=1, embd=64, heads=2, kv=1, hd=32, ff=64, type="Q8_0", n=48, step=5,
                       moe=dict(experts=4, used=2, ff=32, shared=32, choice=1.0),
                       config=dict(sliding_window=24, num_dense_layers=1, route_scale=1.7, mup_enabled=True), keys=dict(SCALED, sliding_window=24, vocab_size=N_VOCAB)),
}


def at(s, i):
    """The sizes of layer i."""
    return dict(s, **{k: v[i] for k, v in s.get("sizes", {}).items() if i < len(v)})


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    a, D = arch_of(s), s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D) * s.get("quiet", 1))
    if s.get("learned"):
        w.matrix("position_embd", s["ctx"], D, gain=s["out"])
    for i in range(s["layers"] + s.get("ahead", 0)):
        draw_layer(w, at(s, i), a, i, dense=i < s.get("dense", 0) or i >= s["layers"])
    if s.get("ahead"):
        base.draw_ahead(w, s, a, "blk.%d.nextn." % s["layers"])
    if not a["bare"]:
        norm(w, a, "output_norm", D)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    if s["rope"].get("rope_type") == "llama3":
        w.fixed("rope_freqs.weight", llama3_factors(s).astype(np.float32))
    for name in [n for n in w.data if a["bare_bias"] and n.endswith("norm.bias") and not s.get("learned")]:
        del w.data[name], w.value[name]
    if s["arch"] == "muse-glimmer":
        for i in range(s["layers"]):
            w.fixed("blk.%d.attn_q_norm.weight" % i, np.full(s["hd"], s["config"]["qk_scale_factor"], np.float32))
            w.fixed("blk.%d.attn_k_norm.weight" % i, np.ones(s["hd"], np.float32))


def draw_layer(w, s, a, i, dense):
    D, q, b = s["embd"], s["heads"] * s["hd"], "blk.%d." % i
    if not s["kv"] and s["heads"]:
        norm(w, a, b + "attn_norm", D)
        w.matrix(b + "attn_output", D, D, gain=1.0)
    elif s["heads"]:
        names = a["norms"] if s["ff"] else ("attn_norm",)
        base.draw_attention(w, s, dict(a, gate=False, norms=tuple(n if n != "post_ffw_norm" or not s.get("old") else "layer_output_norm" for n in names)), i)
    elif s["ff"]:
        norm(w, a, b + "ffn_norm", D)
    if not s["kv"] and s["heads"] and s["ff"]:
        norm(w, a, b + "ffn_norm", D)
    gate = s.get("gate", a["gate"])
    if gate is not None and gate is not False:
        w.matrix(b + "attn_gate", s["heads"] if gate else q, D, gain=1.5)
    if s["ff"]:
        base.draw_ffn(w, s, dict(a, ffn="gated") if dense else a, b)
    if s.get("sides"):
        base.draw_ffn(w, s, dict(a, ffn="gated"), b)
    if a["sub"]:
        w.vector(b + "attn_sub_norm.weight", q, 1.0, 0.2)
        w.vector(b + "ffn_sub_norm.weight", s["ff"], 1.0, 0.2)
    if a["adjugate"]:
        for name, rows, cols in (("gate", s["chunk"], D), ("up", s["chunk"], D), ("down", D, s["chunk"])):
            w.matrix(b + "ffn_%s_chexps" % name, s["moe"]["experts"] // a["adjugate"], rows, cols, gain=s["act"])
    if a["skip"]:
        w.vector(b + "attn_q_norm.weight", (s["heads"], 1), s["sharp"] ** 2, 0.4)
        w.vector(b + "layer_output_scale.weight", 1, 0.5, 0.2)
        for name in ("attn_output", "ffn_down"):
            w.vector(b + name + ".scale", 1, 0.8, 0.1)
    if a["short"]:
        for name in (b + "post_attention_norm", b + "post_ffw_norm"):
            w.data[name], w.value[name] = w.data.pop(name + ".weight"), w.value.pop(name + ".weight")
    if s.get("small"):
        w.data[b + "attn_output.weight"] = (w.data[b + "attn_output.weight"][0] * np.float32(s["small"]), None)
        w.value[b + "attn_output.weight"] = w.value[b + "attn_output.weight"] * np.float32(s["small"])


# --- the same weights, as the framework names them ------------------------------------------------------------------
def hf_state(s, value):
    a = arch_of(s)
    mine = {n: x for n, x in value.items() if not (s["arch"] == "muse-glimmer" and n.split(".")[-2] in ("attn_q_norm", "attn_k_norm"))}
    if s["arch"] == "maincoder":                                # gains lie as the values that they are for
        mine = {n: pairs_to_halves(x, 1) if n.split(".")[-2] in ("attn_q_norm", "attn_k_norm") else x for n, x in mine.items()}
    if s["arch"] == "muse-glimmer":                             # its last norm has whole gains
        mine["output_norm.weight"] = mine["output_norm.weight"].astype(np.float64) + 1
    if s["arch"] == "dbrx":
        return dbrx_state(s, mine)
    state = base.hf_state(s, mine)
    if "output.bias" in value:
        state["lm_head.bias"] = value["output.bias"]
    for i in range(s["layers"] if a["xielu"] else 0):
        for k, v in s["xielu"].items():
            state["model.layers.%d.mlp.act_fn.%s" % (i, k)] = np.array(f32(v[i]) if k in ("beta", "eps") else [f32(v[i])])
    return state


def dbrx_state(s, value):
    state = base.hf_state(dict(s, moe=None), {n: x for n, x in value.items() if "_exps" not in n})
    for i in range(s["layers"]):
        gate, up, down = (value["blk.%d.ffn_%s_exps.weight" % (i, part)] for part in ("gate", "up", "down"))
        for name, x in (("w1", gate), ("v1", up), ("w2", down.swapaxes(1, 2))):
            state["transformer.blocks.%d.ffn.experts.mlp.%s" % (i, name)] = x.reshape(-1, s["embd"])
    return state


ROUTER = (("mlp.gate", "mlp.router", "ffn.router"), lambda module, out: base.router_scores(module, out if isinstance(out, tuple) else (out,)))


def check(s, value, oracle):
    """Routers know the bias of the choice, which some blocks keep beside them."""
    for mod in oracle.model.modules():
        if hasattr(mod, "router") and hasattr(mod, "expert_bias"):
            mod.router.e_score_correction_bias = mod.expert_bias


def hf_class(s):
    return s["cls"] if "cls" in s else ARCHS[s["arch"]]["cls"]


def hf_config(s):
    if s["arch"] == "mpt":
        return dict(vocab_size=N_VOCAB, d_model=s["embd"], n_layers=s["layers"], n_heads=s["heads"], max_seq_len=s["ctx"], layer_norm_epsilon=s["eps"],
                    attn_config=dict(clip_qkv=s["keys"]["clamp_kqv"], alibi_bias_max=int(s["keys"]["max_alibi_bias"])), bos_token_id=None,
                    eos_token_id=None, pad_token_id=None)
    if s["arch"] == "dbrx":
        m = s["moe"]
        return dict(vocab_size=N_VOCAB, d_model=s["embd"], n_layers=s["layers"], n_heads=s["heads"], max_seq_len=s["ctx"],
                    rope_parameters=dict(rope_type="default", rope_theta=s["theta"]), tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
                    pad_token_id=None, attn_config=dict(kv_n_heads=s["kv"], clip_qkv=s["keys"]["clamp_kqv"], rope_theta=s["theta"]),
                    ffn_config=dict(ffn_hidden_size=m["ff"], moe_num_experts=m["experts"], moe_top_k=m["used"]))
    if s["arch"] == "muse-glimmer":
        c = base.hf_config(dict(s, arch="qwen2vl"))["text_config"]
        eye = dict(num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2)
        return dict(text_config=c, vision_config=eye, tie_word_embeddings=s["tied"])
    c = base.hf_config(s)
    if s["arch"] == "apertus":                                  # its activation is made with bfloat16 first
        import torch
        from transformers.activations import XIELUActivation
        XIELUActivation.__init__.__defaults__ = tuple(torch.float64 if x is torch.bfloat16 else x for x in XIELUActivation.__init__.__defaults__)
    if s["arch"] == "hunyuan-moe":
        del c["num_local_experts"]
    return c


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, sizes, m = arch_of(s), s.get("sizes", {}), s["moe"]
    keys = dict(s["keys"], **{k: v for k, v in (("head_count", sizes.get("heads")), ("head_count_kv", sizes.get("kv")),
                                                ("feed_forward_length", sizes.get("ff"))) if v})
    s = dict(s, keys=keys, heads=sizes.get("heads", s["heads"]), kv=sizes.get("kv", s["kv"]))
    for name in ("head_count", "head_count_kv"):
        keys.pop(name, None)                                    # base.write_keys writes them
    if s["arch"] == "grok":
        keys["feed_forward_length"] = s["ff"] if s.get("sides") else m["ff"]
    if s["arch"] == "laguna":
        a["n_rot"] = False
    base.write_keys(g, s)
    if s["arch"] in ("exaone-moe", "hunyuan-moe", "smallthinker", "grovemoe") and not a["choice"]:
        g.add_expert_feed_forward_length(m["ff"])
    if s["arch"] == "phimoe":
        g.add_layer_norm_rms_eps(s["eps"])
    for name, values in s.get("xielu", {}).items():
        getattr(g, "add_xielu_" + name)(values)
    if s.get("loops"):
        g.add_uint32(s["arch"] + ".num_loops", s["loops"])
        g.add_bool(s["arch"] + ".skip_loop_final_norm", bool(s.get("skip_norm")))
    if a["adjugate"]:
        g.add_expert_chunk_feed_forward_length(s["chunk"])
        g.add_experts_per_group(a["adjugate"])
        g.add_expert_group_scale(s["group_scale"])


BORROWED = ["hunyuan_vl", "maincoder"]                          # the class is that of another one


def hub_config(s):
    a = arch_of(s)
    if s["arch"] in BORROWED or not hf_class(s) or s.get("ahead") or s["arch"] in ("mpt", "bitnet", "muse-glimmer", "phimoe"):
        return None
    c = {} if a["head_dim"] else dict(head_dim=None)
    if s["name"] == "laguna_each":
        c.update(sliding_window=None)
    if s["arch"] == "hunyuan-moe":
        c.update(moe_intermediate_size=[s["moe"]["ff"]] * s["layers"], moe_topk=[s["moe"]["used"]] * s["layers"], num_shared_expert=[1] * s["layers"])
    return c
