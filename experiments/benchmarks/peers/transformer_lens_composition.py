"""TransformerLens's composition scores of all pairs of heads."""

import resource
import time
from functools import cache
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from transformer_lens import (  # type: ignore[import-not-found]
    HookedTransformer,
    HookedTransformerConfig,
)


@cache
def model_of(n_layers: int, n_heads: int, d_model: int, d_head: int) -> Any:
    """Normal weights over ``√d_model``, drawn as ``experiments/benchmarks/composition.py`` does."""
    config = HookedTransformerConfig(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        n_ctx=2,
        d_vocab=2,
        attn_only=True,
        normalization_type=None,
        device="cpu",
        seed=0,
    )
    model = HookedTransformer(config)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            last = (d_head, d_model) if name == "W_O" else (d_model, d_head)
            drawn = rng.standard_normal((n_layers, n_heads, *last), np.float32)
            for block, W in zip(model.blocks, drawn / np.float32(d_model**0.5), strict=True):
                getattr(block.attn, name).copy_(torch.from_numpy(W))
    return model


def answer(size: list[int], values: bool) -> dict[str, Any]:
    """Time of all three kinds; the scores themselves if asked."""
    model = model_of(*size)
    start = time.perf_counter()
    with torch.no_grad():
        scores = [model.all_composition_scores(kind) for kind in "QKV"]
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = torch.stack(scores).tolist() if values else []
    return {"seconds": seconds, "peak_mb": peak_mb, "values": found}
