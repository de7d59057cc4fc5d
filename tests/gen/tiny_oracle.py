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

COMMON = ["modeling_rope_utils", "masking_utils"]
ROUTER = ("mlp.gate", lambda module, out: out[0])


class Torch64:
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def everything_double(modules):
    saved, narrow = [], torch.Tensor.float
    for name in COMMON + modules:
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
    """A model s of a family (see tiny_models.py) with the weights `value`."""

    def __init__(self, family, s, value):
        import transformers
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(1)
        self.modules, self.routers = family.MODULES, []
        name = family.hf_class(s)
        cls = getattr(transformers, name)
        with everything_double(self.modules), OnlyDouble():
            cfg = cls.config_class(**family.hf_config(s))
            cfg._attn_implementation = cfg._experts_implementation = "eager"
            self.model = cls(cfg).eval()
        self.load(family.hf_state(s, value), getattr(family, "IGNORED", "-"))
        end, scores = getattr(family, "ROUTER", ROUTER)
        for name, mod in self.model.named_modules():
            if name.endswith(end):
                mod.register_forward_hook(lambda m, i, o: self.routers.append(scores(m, o).detach().numpy().copy()))

    def load(self, state, ignored):
        """Every parameter of the model is in the state, and nothing else; those that start so are not looked at."""
        state = {k: torch.from_numpy(np.ascontiguousarray(v, np.float64)) for k, v in state.items()}
        missing, extra = self.model.load_state_dict(state, strict=False)
        self.model.tie_weights()
        head, embedding = self.model.get_output_embeddings().weight, self.model.get_input_embeddings().weight
        tied = {n for n, p in self.model.named_parameters(remove_duplicate=False) if p is head and head is embedding}
        missing = {n for n in missing if not n.startswith(ignored)}
        assert missing <= tied and not extra, (missing, extra)

    def logits(self, ids):
        """[n, V] float64; self.routers then holds the scores [n, E] of each layer with experts."""
        self.routers.clear()
        with everything_double(self.modules), torch.no_grad(), OnlyDouble():
            out = self.model(input_ids=torch.tensor([ids]), use_cache=False)
        return out.logits[0].numpy()

    def router_gaps(self, top_k):
        """per token, the least distance over layers between the last chosen and the first refused expert."""
        gaps = []
        for r in self.routers:
            s = -np.sort(-r, axis=1)
            gaps.append(s[:, top_k - 1] - s[:, top_k])
        return np.min(gaps, axis=0)
