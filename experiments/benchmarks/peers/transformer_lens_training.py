"""Training an attention-only `HookedTransformer`; answers requests of `Peer`."""

import json
import sys
import time
import warnings
from collections.abc import Callable
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

STEPS: dict[str, Callable[[], None]] = {}


def training_step(
    sizes: dict[str, int], batch: int, rate: float, text_tokens: int, compiled: bool
) -> Callable[[], None]:
    """A model with its optimizer and its text; each call is one step on random windows of it."""
    torch.manual_seed(0)
    config = HookedTransformerConfig(
        **sizes,
        attn_only=True,
        normalization_type=None,
        positional_embedding_type="shortformer",
        device="cpu",
        seed=0,
    )
    model = HookedTransformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    share = 1 / np.arange(1, sizes["d_vocab"] + 1)
    rng = np.random.default_rng(0)
    drawn = rng.choice(sizes["d_vocab"], text_tokens, p=share / share.sum())
    windows = torch.from_numpy(drawn).unfold(0, sizes["n_ctx"], 1)

    def loss(tokens: Any) -> Any:
        return model(tokens, return_type="loss")

    compute = torch.compile(loss) if compiled else loss

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        compute(windows[torch.randint(len(windows), (batch,))]).backward()
        optimizer.step()

    return step


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Go on training for ``steps``."""
    n_steps = request.pop("steps")
    name = json.dumps(request, sort_keys=True)
    if name not in STEPS:
        STEPS[name] = training_step(**request)
    start = time.perf_counter()
    for _ in range(n_steps):
        STEPS[name]()
    return {"seconds": time.perf_counter() - start, "torch": torch.__version__}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            answered = answer(json.loads(line))
        print(json.dumps(answered), flush=True)
