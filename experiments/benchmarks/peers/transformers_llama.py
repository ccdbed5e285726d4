"""A llama model of the Hugging Face library, eager; answers requests of `Peer`."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]

with redirect_stdout(sys.stderr):
    from transformers import LlamaForCausalLM  # type: ignore[import-not-found]

MODELS: dict[str, Any] = {}


def load(folder: str) -> dict[str, Any]:
    """Load a folder in single precision, after releasing the previous model."""
    MODELS.clear()
    start = time.perf_counter()
    MODELS[folder] = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return {"seconds": time.perf_counter() - start, "peak_mb": peak_mb()}


def logits(folder: str, tokens: list[int], with_logits: bool) -> dict[str, Any]:
    """One forward pass on one text, all logits."""
    if folder not in MODELS:
        load(folder)
    ids = torch.tensor([tokens])
    with torch.no_grad():
        start = time.perf_counter()
        found = MODELS[folder](ids, use_cache=False).logits[0]
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "logits": found[-1].tolist() if with_logits else []}


def peak_mb() -> float:
    """The most that this process ever held, in MB; NaN where the system does not say."""
    status = Path("/proc/self/status")  # of Linux
    for line in status.read_text(encoding="utf-8").splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    actions: dict[str, Callable[..., dict[str, Any]]] = {"load": load, "logits": logits}
    for line in sys.stdin:
        request = json.loads(line)
        with redirect_stdout(sys.stderr):
            answered = actions[request.pop("action")](**request)
        print(json.dumps(answered), flush=True)
