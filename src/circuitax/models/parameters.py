"""Which parameters a transformer has, by name: shape, mean and standard deviation at the start.

A parameter is named by its place in the weight container, such as ``blocks.attention.W_Q``.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Key

from circuitax.kernel.norm import Norm
from circuitax.models.specs import TransformerSpec


class Parameter(NamedTuple):
    """Drawn from a normal distribution, or constant where the deviation is 0."""

    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0


def draw_parameters(
    key: Key[Array, ""], parameters: Mapping[str, Parameter], dtype: DTypeLike = jnp.float32
) -> dict[str, Array]:
    """One sample of each parameter, all cut from a single row of normal numbers.

    Compiling the generator once for each shape took most of the time of an initialisation.

    Args:
        key: Consumed.
        parameters: Their order decides who gets which numbers; constants take none.
        dtype: Of the numbers drawn and of the result.
    """
    sizes = {name: math.prod(p.shape) for name, p in parameters.items() if p.std > 0}
    row = jax.random.normal(key, (sum(sizes.values()),), dtype)
    drawn: dict[str, Array] = {}
    start = 0
    for name, parameter in parameters.items():
        if name in sizes:
            stop = start + sizes[name]
            sample = row[start:stop].reshape(parameter.shape)
            drawn[name] = parameter.mean + parameter.std * sample
            start = stop
        else:
            drawn[name] = jnp.full(parameter.shape, parameter.mean, dtype)
    return drawn


def transformer_parameters(spec: TransformerSpec) -> dict[str, Parameter]:
    """Every parameter of the model, in a fixed order.

    Fan-ins are stated, not read off shapes: with layers and heads in front, an initialiser that
    guesses counts them in. ``W_O`` sums over all heads, so its fan-in is ``n_heads * d_value``.
    """
    d, d_vocab, d_mlp = spec.d_model, spec.d_vocab, spec.d_mlp
    d_head, d_value = spec.head_width, spec.value_width
    layers, heads = (spec.n_layers,), (spec.n_layers, spec.n_heads)
    rows = spec.init_embed / math.sqrt(d)

    def matrix(shape: tuple[int, ...], fan_in: int) -> Parameter:
        return Parameter(shape, spec.init_scale / math.sqrt(fan_in))

    named = {"W_E": Parameter((d_vocab, d), rows), "W_U": matrix((d, d_vocab), d)}
    if spec.positions.needs_table and spec.n_ctx is not None:
        named["W_pos"] = Parameter((spec.n_ctx, d), rows)
    here = "blocks.attention."
    named |= {
        here + "W_Q": matrix((*heads, d, d_head), d),
        here + "W_K": matrix((*heads, d, d_head), d),
        here + "W_V": matrix((*heads, d, d_value), d),
        here + "W_O": matrix((*heads, d_value, d), spec.n_heads * d_value),
    }
    if spec.biases:
        named |= {
            here + "b_Q": Parameter((*heads, d_head)),
            here + "b_K": Parameter((*heads, d_head)),
            here + "b_V": Parameter((*heads, d_value)),
            here + "b_O": Parameter((*layers, d)),
            "b_U": Parameter((d_vocab,)),
        }
    if spec.smeared_keys:
        # sigmoid(2) = 0.88: mostly the key itself, and far from where the gradient vanishes.
        named[here + "smear"] = Parameter(heads, mean=2.0)
    if d_mlp is not None:
        here = "blocks.mlp."
        named[here + "W_in"] = matrix((*layers, d, d_mlp), d)
        named[here + "W_out"] = matrix((*layers, d_mlp, d), d_mlp)
        if spec.gated:
            named[here + "W_gate"] = matrix((*layers, d, d_mlp), d)
        if spec.biases:
            named[here + "b_in"] = Parameter((*layers, d_mlp))
            named[here + "b_out"] = Parameter((*layers, d))
        if spec.mlp_depth > 1:
            extra = (*layers, spec.mlp_depth - 1)
            # Drawn last, so that the other maps are those of the model of depth 1.
            named[here + "W_hidden"] = matrix((*extra, d_mlp, d_mlp), d_mlp)
            if spec.biases:
                named[here + "b_hidden"] = Parameter((*extra, d_mlp))
    return named | _norms(spec)


def _norms(spec: TransformerSpec) -> dict[str, Parameter]:
    if spec.norm not in (Norm.layernorm, Norm.rmsnorm):
        return {}
    layered = (spec.n_layers, spec.d_model)
    where: dict[str, tuple[int, ...]] = {"blocks.attention_norm.": layered}
    if spec.d_mlp is not None:
        where["blocks.mlp_norm."] = layered
    if spec.final_norm:
        where["final_norm."] = (spec.d_model,)
    named = {place + "gain": Parameter(shape, mean=1.0) for place, shape in where.items()}
    if spec.norm.centres:
        named |= {place + "offset": Parameter(shape) for place, shape in where.items()}
    return named
