"""transformers models run wholly in float64: the oracle of tests/gen/tiny_models.py.

The model classes cast to float32 by name in places (RMSNorm, softmax, rotary angles, router). Their modules see a torch
whose float32 is float64, and Tensor.float() means double(); a dispatch mode then proves that no operation of the forward
pass returned a narrower float.
"""
import contextlib
import importlib

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

MODULES = ["modeling_rope_utils", "masking_utils"] + [
    "models.%s.modeling_%s" % (m, m) for m in ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe")]


class Torch64:
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def everything_double():
    saved, narrow = [], torch.Tensor.float
    for name in MODULES:
        mod = importlib.import_module("transformers." + name)
        saved.append((mod, mod.torch))
        mod.torch = Torch64()
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.Tensor.float = narrow
        for mod, real in saved:
            mod.torch = real


class OnlyDouble(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype != torch.float64:
                raise AssertionError("%s returned %s" % (func, t.dtype))
        return out


class Oracle:
    def __init__(self, class_name, config, state):
        """state: name -> float array; every parameter of the model must be there, and nothing else."""
        import transformers
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(1)
        with everything_double():
            cls = getattr(transformers, class_name)
            cfg = getattr(transformers, class_name.replace("ForCausalLM", "Config"))(**config)
            cfg._attn_implementation = "eager"
            cfg._experts_implementation = "eager"
            self.model = cls(cfg).double().eval()
            state = {k: torch.from_numpy(np.ascontiguousarray(v, np.float64)) for k, v in state.items()}
            missing, extra = self.model.load_state_dict(state, strict=False)
            tied = {"lm_head.weight"} if cfg.tie_word_embeddings else set()
            assert set(missing) <= tied and not extra, (missing, extra)
            self.model.tie_weights()
        if cfg.tie_word_embeddings:
            assert self.model.lm_head.weight is self.model.model.embed_tokens.weight
        rotary = self.model.model.rotary_emb
        assert rotary.inv_freq.dtype == torch.float64
        self.inv_freq, self.rope_gain = rotary.inv_freq.numpy().copy(), float(rotary.attention_scaling)
        self.routers = []
        for name, mod in self.model.named_modules():
            if name.endswith("mlp.gate"):
                mod.register_forward_hook(lambda m, i, o: self.routers.append(o[0].detach().numpy().copy()))

    def logits(self, ids):
        """[n, V] float64; self.routers then holds the router logits [n, E] of each MoE layer."""
        self.routers.clear()
        with everything_double(), torch.no_grad(), OnlyDouble():
            out = self.model(input_ids=torch.tensor([ids]), use_cache=False)
        return out.logits[0].numpy()

    def router_gaps(self, top_k):
        """per token, the least distance over layers between the last chosen and the first refused expert."""
        gaps = []
        for r in self.routers:
            s = -np.sort(-r, axis=1)
            gaps.append(s[:, top_k - 1] - s[:, top_k])
        return np.min(gaps, axis=0)
