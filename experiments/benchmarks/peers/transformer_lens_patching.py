"""Activation patching of every head by TransformerLens; answers requests of `Peer`."""

import json
import sys
import time
import warnings
from contextlib import redirect_stdout
from typing import Any

import pandas  # type: ignore[import-untyped]
import torch  # type: ignore[import-not-found]
from safetensors.torch import load_file

warnings.simplefilter("ignore")  # version 3.9 says of every model that 4.0 will not have it
# What it prints must not mix with the answers.
with redirect_stdout(sys.stderr):
    from transformer_lens import (  # type: ignore[import-not-found]
        HookedTransformer,
        HookedTransformerConfig,
        patching,
    )

MODELS: dict[str, Any] = {}


def model_of(config: dict[str, Any], weights: str) -> Any:
    """A model of these settings, with weights that a file has under TransformerLens's names."""
    model = HookedTransformer(HookedTransformerConfig(**config, device="cpu", seed=0))
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, values in load_file(weights).items():
            parameters[name].copy_(values)
    return model.eval()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The logit of one token at the end, when a head's output is that of the other text.

    As ``get_act_patch_attn_head_out_all_pos``, of the heads that are asked for.
    """
    name = request["weights"]
    if name not in MODELS:
        MODELS[name] = model_of(request["config"], name)
    model, right = MODELS[name], request["right"]
    text, donor = (torch.tensor([request[key]]) for key in ("text", "donor"))
    with torch.no_grad():
        start = time.perf_counter()
        cache = model.run_with_cache(donor)[1]
        begin = time.perf_counter()
        found = patching.generic_activation_patch(
            model,
            text,
            cache,
            lambda logits: logits[0, -1, right],
            patch_setter=patching.layer_head_vector_patch_setter,
            activation_name="z",
            index_df=pandas.DataFrame(request["heads"], columns=["layer", "head"]),
        )
        end = time.perf_counter()
    return {"donor": begin - start, "patching": end - begin, "values": found.tolist()}


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            answered = answer(json.loads(line))
        print(json.dumps(answered), flush=True)
