"""EAP-IG through all heads and neurons of a llama model, in PyTorch by hooks.

The embeddings go from the second text to the first; at the middle of each step the lead is derived
by what heads and neurons give, and the mean derivative is multiplied by their difference.

Source: Hanna et al. 2024, arXiv 2403.17806.
"""

import time
from functools import cache
from typing import Any

import torch  # type: ignore[import-not-found]
from transformers import LlamaForCausalLM  # type: ignore[import-not-found]


@cache
def load(folder: str) -> tuple[Any, list[Any]]:
    """A folder in single precision, and a list of what is given to each layer's last maps."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = model.eval().requires_grad_(False)
    given: list[Any] = []

    def keep(_: Any, inputs: tuple[Any]) -> None:
        given.append(inputs[0])

    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(keep)
        layer.mlp.down_proj.register_forward_pre_hook(keep)
    return model, given


def answer(
    folder: str, texts: list[list[int]], lead: list[int], steps: int, values: bool
) -> dict[str, Any]:
    """Flows of each layer's heads and neurons.

    Args:
        folder: Of the model.
        texts: Two, of one length.
        lead: Two tokens; the lead of the first over the second at the end is derived.
        steps: On the way from the second text to the first.
        values: Whether they are returned.
    """
    model, given = load(folder)
    direction = model.lm_head.weight[lead[0]] - model.lm_head.weight[lead[1]]
    start = time.perf_counter()
    embedded = model.model.embed_tokens(torch.tensor(texts))
    given.clear()
    with torch.no_grad():
        model.model(inputs_embeds=embedded, use_cache=False)
    less = [each[0] - each[1] for each in given]
    given.clear()
    parts = (torch.arange(steps) + 0.5)[:, None, None] / steps
    path = (embedded[1] + parts * (embedded[0] - embedded[1])).requires_grad_()
    final = model.model(inputs_embeds=path, use_cache=False).last_hidden_state[:, -1]
    slopes = torch.autograd.grad((final @ direction).mean(), list(given))
    each = [(slope.sum(0) * gap).sum(0) for slope, gap in zip(slopes, less, strict=True)]
    heads = torch.stack(each[::2]).unflatten(1, (model.config.num_attention_heads, -1)).sum(-1)
    found = torch.cat([heads, torch.stack(each[1::2])], dim=1)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "values": found.tolist() if values else []}
