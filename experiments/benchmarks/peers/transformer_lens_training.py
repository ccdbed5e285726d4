"""Training an attention-only `HookedTransformer`."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
from transformer_lens import (  # type: ignore[import-not-found]
    HookedTransformer,
    HookedTransformerConfig,
)


@cache
def training_step(
    sizes: tuple[int, ...], batch: int, rate: float, text_tokens: int, compiled: bool
) -> Callable[[], None]:
    """A model with its optimizer and its text; each call is one step on random windows of it."""
    n_layers, n_heads, d_model, n_ctx, d_vocab = sizes
    torch.manual_seed(0)
    config = HookedTransformerConfig(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_head=d_model // n_heads,
        n_ctx=n_ctx,
        d_vocab=d_vocab,
        attn_only=True,
        normalization_type=None,
        positional_embedding_type="shortformer",
        device="cpu",
        seed=0,
    )
    model = HookedTransformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    share = 1 / np.arange(1, d_vocab + 1)
    drawn = np.random.default_rng(0).choice(d_vocab, text_tokens, p=share / share.sum())
    windows = torch.from_numpy(drawn).unfold(0, n_ctx, 1)

    def loss(tokens: Any) -> Any:
        return model(tokens, return_type="loss")

    compute = torch.compile(loss) if compiled else loss

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(windows[torch.randint(len(windows), (batch,))]).backward()
        optimizer.step()

    return step


def answer(sizes: list[int], steps: int, values: bool, **setting: Any) -> dict[str, Any]:
    """Go on training for ``steps``."""
    step = training_step(tuple(sizes), **setting)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return {"seconds": time.perf_counter() - start}
