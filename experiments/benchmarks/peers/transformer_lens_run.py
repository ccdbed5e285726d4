"""TransformerLens: one eager pass with everything cached, and patching of heads."""

import json
import time
from functools import cache
from typing import Any

import pandas  # type: ignore[import-untyped]
import torch  # type: ignore[import-not-found]
from safetensors.torch import load_file
from transformer_lens import (  # type: ignore[import-not-found]
    HookedTransformer,
    HookedTransformerConfig,
    patching,
)


@cache
def model_of(config: str, weights: str) -> Any:
    """A model of these settings, with weights that a file has under TransformerLens's names."""
    settings = json.loads(config)
    model = HookedTransformer(HookedTransformerConfig(**settings, device="cpu", seed=0))
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, W in load_file(weights).items():
            parameters[name].copy_(W)
    return model.eval()


@torch.no_grad()
def answer(
    config: str,
    weights: str,
    text: list[int],
    values: bool,
    donor: list[int] | None = None,
    heads: list[list[int]] | None = None,
    right: int = 0,
    repeats: float = 1.0,
) -> dict[str, Any]:
    """Logits and cache of one text; or the logit of one token at its end, when a head's output is
    that of the donor, as ``get_act_patch_attn_head_out_all_pos``, of the heads that are asked for.

    The donor's run counts once, the patching ``repeats`` times.
    """
    model = model_of(config, weights)
    tokens, other = (torch.tensor([each]) for each in (text, donor or text))
    start = time.perf_counter()
    logits, kept = model.run_with_cache(other)
    seconds = time.perf_counter() - start
    if heads is None:
        return {"seconds": seconds, "values": logits[0, -1].tolist() if values else []}
    start = time.perf_counter()
    found = patching.generic_activation_patch(
        model,
        tokens,
        kept,
        lambda logits: logits[0, -1, right],
        patch_setter=patching.layer_head_vector_patch_setter,
        activation_name="z",
        index_df=pandas.DataFrame(heads, columns=["layer", "head"]),
    )
    seconds += repeats * (time.perf_counter() - start)
    return {"seconds": seconds, "values": found.tolist()}
