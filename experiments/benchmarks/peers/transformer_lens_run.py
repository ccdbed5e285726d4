"""One eager pass by TransformerLens with everything cached; answers requests of `Peer`."""

import json
import sys
import time
from contextlib import redirect_stdout
from typing import Any

import torch  # type: ignore[import-not-found]
from transformer_lens_patching import model_of  # type: ignore[import-not-found]

MODELS: dict[str, Any] = {}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Logits and cache of one text."""
    name = request["weights"]
    if name not in MODELS:
        MODELS[name] = model_of(request["config"], name)
    text = torch.tensor([request["tokens"]])
    with torch.no_grad():
        start = time.perf_counter()
        logits = MODELS[name].run_with_cache(text)[0]
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "logits": logits[0, -1].tolist() if request["with_logits"] else []}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            answered = answer(json.loads(line))
        print(json.dumps(answered), flush=True)
