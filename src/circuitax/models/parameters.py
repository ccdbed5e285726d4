"""Parameters of a transformer by name: drawn, and converted between Linen and a `Model`."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Key

from circuitax.kernel.compiled import compiled
from circuitax.kernel.model import Model
from circuitax.kernel.model_fields import Shape, weight_shape
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, NormWeights


class Parameter(NamedTuple):
    """A parameter drawn from a normal distribution, or constant where the deviation is 0."""

    shape: Shape
    std: float = 0.0
    mean: float = 0.0


def draw_parameters(
    key: Key[Array, ""], parameters: Mapping[str, Parameter], dtype: DTypeLike = jnp.float32
) -> dict[str, Array]:
    """One sample of each parameter, all cut from a single row of normal numbers."""
    return _drawn(key, tuple(parameters.items()), dtype)


@compiled("parameters", "dtype")
def _drawn(
    key: Key[Array, ""], parameters: tuple[tuple[str, Parameter], ...], dtype: DTypeLike
) -> dict[str, Array]:
    sizes = {name: math.prod(p.shape) for name, p in parameters if p.std > 0}
    row = jax.random.normal(key, (sum(sizes.values()),), dtype)
    drawn: dict[str, Array] = {}
    start = 0
    for name, parameter in parameters:
        if name in sizes:
            stop = start + sizes[name]
            sample = row[start:stop].reshape(parameter.shape)
            drawn[name] = parameter.mean + parameter.std * sample
            start = stop
        else:
            drawn[name] = jnp.full(parameter.shape, parameter.mean, dtype)
    return drawn


def transformer_parameters(spec: TransformerSpec) -> dict[str, Parameter]:
    """Every parameter of the model, in a fixed order."""
    rows = spec.init_embed / math.sqrt(spec.d_model)

    def matrix(name: str, fan_in: int) -> Parameter:
        return Parameter(weight_shape(name, spec), spec.init_scale / math.sqrt(fan_in))

    def constant(name: str, mean: float = 0.0) -> Parameter:
        return Parameter(weight_shape(name, spec), mean=mean)

    d, d_mlp, here = spec.d_model, spec.d_mlp, "blocks.attention."
    named = {"W_E": Parameter(weight_shape("W_E", spec), rows), "W_U": matrix("W_U", d)}
    if spec.positions.needs_table:
        named["W_pos"] = Parameter(weight_shape("W_pos", spec), rows)
    named |= {here + name: matrix(here + name, d) for name in ("W_Q", "W_K", "W_V")}
    named[here + "W_O"] = matrix(here + "W_O", spec.n_heads * spec.value_width)
    if spec.biases:
        biases = [here + name for name in ("b_Q", "b_K", "b_V", "b_O")]
        named |= {name: constant(name) for name in (*biases, "b_U")}
    if spec.smeared_keys:
        # sigmoid(2) = 0.88: mostly the key itself, but far from a vanishing gradient.
        named[here + "smear"] = constant(here + "smear", mean=2.0)
    if spec.qk_norm:
        named |= {here + name: constant(here + name, mean=1.0) for name in ("q_gain", "k_gain")}
    if d_mlp is not None:
        here = "blocks.mlp."
        named[here + "W_in"] = matrix(here + "W_in", d)
        named[here + "W_out"] = matrix(here + "W_out", d_mlp)
        if spec.gated:
            named[here + "W_gate"] = matrix(here + "W_gate", d)
        if spec.biases:
            named |= {here + name: constant(here + name) for name in ("b_in", "b_out")}
        if spec.mlp_depth > 1:
            # Drawn last, so that the other maps equal those of the model of depth 1.
            named[here + "W_hidden"] = matrix(here + "W_hidden", d_mlp)
            if spec.biases:
                named[here + "b_hidden"] = constant(here + "b_hidden")
    return named | _norms(spec)


def _norms(spec: TransformerSpec) -> dict[str, Parameter]:
    if spec.norm not in (Norm.layernorm, Norm.rmsnorm):
        return {}
    places = ["blocks.attention_norm."]
    places += ["blocks.mlp_norm."] if spec.d_mlp is not None else []
    places += ["final_norm."] if spec.final_norm else []
    values = {"gain": 1.0} | ({"offset": 0.0} if spec.norm.centres else {})
    return {
        place + name: Parameter(weight_shape(place + name, spec), mean=mean)
        for name, mean in values.items()
        for place in places
    }


def model_from_params(params: Mapping[str, Any], spec: TransformerSpec) -> Model:
    """The model whose weights are the parameters of a `Transformer` module."""
    check_names(params, spec)
    return model_from_names(params, spec)


def model_from_names(named: Mapping[str, Any], spec: TransformerSpec) -> Model:
    """The model of named weights, of which some may be absent: the inverse of `Model.named`."""

    def norm(place: str) -> NormWeights | None:
        fields = _fields(named, place, NormWeights._fields)
        return NormWeights(**fields) if fields else None

    mlp = _fields(named, "blocks.mlp.", MLPWeights._fields)
    blocks = Blocks(
        attention=HeadStack(**_fields(named, "blocks.attention.", HeadStack._fields)),
        attention_norm=norm("blocks.attention_norm."),
        mlp=MLPWeights(**mlp) if mlp else None,
        mlp_norm=norm("blocks.mlp_norm."),
        attention_post_norm=norm("blocks.attention_post_norm."),
        mlp_post_norm=norm("blocks.mlp_post_norm."),
    )
    top = _fields(named, "", ("W_E", "W_U", "W_pos", "b_U"))
    return Model(spec, **top, blocks=blocks, final_norm=norm("final_norm."))


def params_from_model(model: Model) -> dict[str, Array]:
    """The `Transformer` parameters that are equivalent to a model."""
    params = model.named()
    check_names(params, model.spec)
    return params


def check_names(params: Mapping[str, Any], spec: TransformerSpec) -> None:
    """Refuse parameters other than those that a module of this spec declares."""
    declared = transformer_parameters(spec)
    for name, parameter in declared.items():
        if name not in params:
            raise ValueError(f"parameter {name!r} is missing; the spec declares {parameter.shape}")
    for name in params:
        if name not in declared:
            raise ValueError(f"parameter {name!r} is not one that the spec declares")


def _fields(params: Mapping[str, Any], place: str, fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: params[place + field] for field in fields if place + field in params}
