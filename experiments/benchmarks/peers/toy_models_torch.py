"""The official toy-models protocol in eager PyTorch; answers requests of `Peer`.

Written from the facts of the published notebook: AdamW with rate 1e-3 and PyTorch's weight decay
0.01, 1024 fresh samples a step and instance from two draws (value and mask), importance-weighted
squared error, the mean over samples and features, summed over instances.
"""

import json
import sys
import time
from typing import Any

import torch  # type: ignore[import-not-found]

MODELS: dict[tuple, "Model"] = {}


class Model:
    """Stacked instances with their optimizer, as in the notebook."""

    def __init__(self, n: int, m: int, density: list, importance: list, batch: int) -> None:
        self.batch, self.shape = batch, (batch, len(density), n)
        self.density = torch.tensor(density)[:, None]
        self.importance = torch.tensor(importance)[None, :]
        self.W = torch.nn.Parameter(torch.empty(len(density), n, m))
        torch.nn.init.xavier_normal_(self.W)
        self.b = torch.nn.Parameter(torch.zeros(len(density), n))
        self.optimizer = torch.optim.AdamW([self.W, self.b], lr=1e-3)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        features = torch.rand(self.shape)
        off = torch.zeros(())
        x = torch.where(torch.rand(self.shape) <= self.density, features, off)
        hidden = torch.einsum("...if,ifh->...ih", x, self.W)
        out = torch.relu(torch.einsum("...ih,ifh->...if", hidden, self.W) + self.b)
        error = self.importance * (x.abs() - out) ** 2
        loss = error.mean(dim=(0, 2)).sum()
        loss.backward()
        self.optimizer.step()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Train for ``steps``; ``fresh`` starts from new weights, else the model goes on."""
    n_steps, fresh = request.pop("steps"), request.pop("fresh")
    name = (request["n"], request["m"], len(request["density"]), request["batch"])
    if fresh or name not in MODELS:
        torch.manual_seed(request.pop("seed", 0))
        MODELS[name] = Model(**request)
    model = MODELS[name]
    start = time.perf_counter()
    for _ in range(n_steps):
        model.step()
    seconds = time.perf_counter() - start
    weights = {"W": model.W.transpose(1, 2).tolist(), "b": model.b.tolist()} if fresh else {}
    return {"seconds": seconds, "torch": torch.__version__, **weights}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
