"""TransformerLens's composition scores of all pairs of heads; answers requests of `Peer`."""

import json
import resource
import sys
import time
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]

warnings.simplefilter("ignore")  # version 3.9 says of every model that 4.0 will not have it
# What it prints must not mix with the answers.
with redirect_stdout(sys.stderr):
    from transformer_lens import (  # type: ignore[import-not-found]
        HookedTransformer,
        HookedTransformerConfig,
    )

MODELS: dict[str, Any] = {}


def model_of(sizes: dict[str, int]) -> Any:
    """Normal weights over ``√d_model``, drawn as ``experiments/benchmarks/composition.py`` does."""
    config = HookedTransformerConfig(
        **sizes, n_ctx=2, d_vocab=2, attn_only=True, normalization_type=None, device="cpu", seed=0
    )
    model = HookedTransformer(config)
    n_layers, n_heads, d = sizes["n_layers"], sizes["n_heads"], sizes["d_model"]
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            last = (sizes["d_head"], d) if name == "W_O" else (d, sizes["d_head"])
            drawn = rng.standard_normal((n_layers, n_heads, *last), np.float32) / np.float32(d**0.5)
            for block, values in zip(model.blocks, drawn, strict=True):
                getattr(block.attn, name).copy_(torch.from_numpy(values))
    return model


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Time of all three kinds; the scores themselves if asked."""
    with_scores = request.pop("with_scores")
    name = json.dumps(request, sort_keys=True)
    if name not in MODELS:
        MODELS[name] = model_of(request)
    start = time.perf_counter()
    with torch.no_grad():
        scores = [MODELS[name].all_composition_scores(kind) for kind in "QKV"]
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"scores": torch.stack(scores).tolist()} if with_scores else {}
    return {"seconds": seconds, "peak_mb": peak_mb, "torch": torch.__version__, **found}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            answered = answer(json.loads(line))
        print(json.dumps(answered), flush=True)
