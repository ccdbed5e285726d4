"""A llama model of the Hugging Face library, eager: opened, and run on a text."""

import time
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]
from transformers import LlamaForCausalLM  # type: ignore[import-not-found]

MODELS: dict[str, Any] = {}


def opened(folder: str) -> dict[str, Any]:
    """Seconds to open a folder in single precision, after releasing the previous model."""
    MODELS.clear()
    start = time.perf_counter()
    MODELS[folder] = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    seconds = time.perf_counter() - start
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (peak_kb,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return {"seconds": seconds, "peak_mb": peak_kb / 1024}


@torch.no_grad()
def answer(folder: str, text: list[int] | None = None, values: bool = False) -> dict[str, Any]:
    """Opening the folder; or one forward pass on a text, all logits."""
    if text is None:
        return opened(folder)
    if folder not in MODELS:
        opened(folder)
    start = time.perf_counter()
    logits = MODELS[folder](torch.tensor([text]), use_cache=False).logits[0]
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "values": logits[-1].tolist() if values else []}
