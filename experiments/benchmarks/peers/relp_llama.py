"""RelP over all pairs of chosen neurons of a llama model, in PyTorch.

Patterns, norm divisors and the factor of ``z σ(z)`` pass no gradient, and each side of a gated
product passes half of it. The chosen neurons are cut out of the graph, so that the gradient of one
by another is that of the ways past all others. As in circuit tracing, copies of the text share one
forward pass, and each pass backwards has another neuron for each copy.

Source: Jafari et al. 2025, RelP, arXiv 2508.21258; Arora et al. 2026, arXiv 2601.22594.
"""

import time
from functools import cache
from types import MethodType
from typing import Any

import torch  # type: ignore[import-not-found]
from transformers import LlamaForCausalLM  # type: ignore[import-not-found]
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # type: ignore[import-not-found]
from transformers.models.llama.modeling_llama import (  # type: ignore[import-not-found]
    eager_attention_forward,
)


class Half(torch.autograd.Function):
    """A product whose sides get half of the gradient each."""

    @staticmethod
    def forward(context: Any, x: Any, y: Any) -> Any:
        """``x y``."""
        context.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(context: Any, gradient: Any) -> tuple[Any, Any]:
        """Half of the gradient by each side."""
        x, y = context.saved_tensors
        half = 0.5 * gradient
        return half * y, half * x


def held_patterns(module: Any, query: Any, key: Any, value: Any, mask: Any, **how: Any) -> Any:
    """Attention whose patterns pass no gradient."""
    if mask is None:
        ones = torch.full((query.shape[2], query.shape[2]), float("-inf"))
        mask = torch.triu(ones, diagonal=1)[None, None]
    return eager_attention_forward(module, query.detach(), key.detach(), value, mask, **how)


def held_norm(self: Any, x: Any) -> Any:
    """An RMS norm whose divisor passes no gradient."""
    scale = torch.rsqrt(x.detach().pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
    return self.weight * (x * scale)


def halved_mlp(self: Any, x: Any) -> Any:
    """A gated MLP by the half rule; chosen neurons are cut out of the graph."""
    gate = self.gate_proj(x)
    hidden = Half.apply(gate * torch.sigmoid(gate).detach(), self.up_proj(x))
    self.before = hidden
    self.cut = (hidden.detach() * self.chosen).requires_grad_()
    return self.down_proj(hidden * (1 - self.chosen) + self.cut)


@cache
def load(folder: str) -> Any:
    """A folder in single precision, with RelP's rules in the place of its modules'."""
    ALL_ATTENTION_FUNCTIONS["relp"] = held_patterns
    model = LlamaForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="relp"
    )
    model = model.eval().requires_grad_(False)
    for layer in model.model.layers:
        layer.mlp.forward = MethodType(halved_mlp, layer.mlp)
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.forward = MethodType(held_norm, norm)
    model.model.norm.forward = MethodType(held_norm, model.model.norm)
    return model


def answer(
    folder: str,
    tokens: list[int],
    nodes: list[list[int]],
    lead: list[int],
    copies: int,
    values: bool,
) -> dict[str, Any]:
    """What of a lead each pair of neurons, and each token and neuron, carries.

    Args:
        folder: Of the model.
        tokens: The text.
        nodes: Layer, neuron and position of each, layers rising.
        lead: Two tokens; the lead of the first over the second at the end is split.
        copies: Copies of the text in one pass backwards.
        values: Whether they are returned.
    """
    model = load(folder)
    start = time.perf_counter()
    blocks = model.model.layers
    for block in blocks:
        block.mlp.chosen = torch.zeros(len(tokens), model.config.intermediate_size)
    for layer, unit, place in nodes:
        blocks[layer].mlp.chosen[place, unit] = 1.0
    embedded = model.model.embed_tokens(torch.tensor([tokens])).expand(copies, -1, -1)
    embedded = embedded.clone().requires_grad_()
    final = model.model(inputs_embeds=embedded, use_cache=False).last_hidden_state[:, -1]
    direction = model.lm_head.weight[lead[0]] - model.lm_head.weight[lead[1]]
    where = torch.tensor(nodes)
    cuts = [block.mlp.cut for block in blocks]
    written = torch.stack([cuts[layer][0, place, unit] for layer, unit, place in nodes]).detach()

    def back(asked: Any, n_rows: int, n_layers: int) -> tuple[Any, Any]:
        """Slopes by all neurons below a layer, and what the tokens give."""
        found = torch.autograd.grad(asked, [embedded, *cuts[:n_layers]], retain_graph=True)
        slopes = torch.zeros(n_rows, len(nodes))
        for layer, by in enumerate(found[1:]):
            here = torch.nonzero(where[:, 0] == layer)[:, 0]
            slopes[:, here] = by[:n_rows][:, where[here, 2], where[here, 1]]
        return slopes, (found[0] * embedded.detach()).sum(-1)[:n_rows]

    rows = [back(final[0] @ direction, 1, len(blocks))]
    for first in range(0, len(nodes), copies):
        group = nodes[first : first + copies]
        asked = sum(
            blocks[layer].mlp.before[copy, place, unit]
            for copy, (layer, unit, place) in enumerate(group)
        )
        rows.append(back(asked, len(group), group[-1][0]))
    slopes = torch.cat([row[0] for row in rows])
    by_token = torch.cat([row[1] for row in rows])
    # What of the lead goes through each neuron: straight, and by those above.
    through = slopes[0].clone()
    for i in reversed(range(len(nodes))):
        through = through + through[i] * slopes[1 + i]
    out = torch.cat([torch.ones(1), through])[:, None]
    found = torch.cat([out * slopes * written, out * by_token], dim=1)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "values": found.tolist() if values else []}
