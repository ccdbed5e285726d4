"""The official toy-models protocol in eager PyTorch.

Written from the facts of the published notebook: AdamW with rate 1e-3 and PyTorch's weight decay
0.01, 1024 fresh samples a step and instance from two draws (value and mask), importance-weighted
squared error, the mean over samples and features, summed over instances.
"""

import time
from typing import Any

import torch  # type: ignore[import-not-found]

MODELS: dict[tuple[int, ...], "Model"] = {}


class Model:
    """Stacked instances with their optimizer, as in the notebook."""

    def __init__(self, n: int, m: int, density: list, importance: list, batch: int) -> None:
        self.shape = (batch, len(density), n)
        self.density = torch.tensor(density)[:, None]
        self.importance = torch.tensor(importance)[None, :]
        self.W = torch.nn.Parameter(torch.empty(len(density), n, m))
        torch.nn.init.xavier_normal_(self.W)
        self.b = torch.nn.Parameter(torch.zeros(len(density), n))
        self.optimizer = torch.optim.AdamW([self.W, self.b], lr=1e-3)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        features = torch.rand(self.shape)
        x = torch.where(torch.rand(self.shape) <= self.density, features, torch.zeros(()))
        hidden = torch.einsum("...if,ifh->...ih", x, self.W)
        out = torch.relu(torch.einsum("...ih,ifh->...if", hidden, self.W) + self.b)
        error = self.importance * (x.abs() - out) ** 2
        error.mean(dim=(0, 2)).sum().backward()
        self.optimizer.step()


def answer(steps: int, values: bool, seed: int | None = None, **setting: Any) -> dict[str, Any]:
    """Train for ``steps``: new weights where there is a seed, else the model goes on."""
    name = (setting["n"], setting["m"], len(setting["density"]), setting["batch"])
    if seed is not None or name not in MODELS:
        torch.manual_seed(seed or 0)
        MODELS[name] = Model(**setting)
    model = MODELS[name]
    start = time.perf_counter()
    for _ in range(steps):
        model.step()
    seconds = time.perf_counter() - start
    if seed is None:
        return {"seconds": seconds}
    return {"seconds": seconds, "W": model.W.transpose(1, 2).tolist(), "b": model.b.tolist()}
