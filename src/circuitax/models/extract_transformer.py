"""Between Linen variables and weight containers; the one place that knows parameter names."""

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import Array

from circuitax.kernel.weights import (
    Blocks,
    HeadStack,
    MLPWeights,
    NormWeights,
    TransformerWeights,
)
from circuitax.models.parameters import transformer_parameters
from circuitax.models.specs import TransformerSpec


def assemble(named: Mapping[str, Array]) -> TransformerWeights:
    """The container of parameters named by their place in it; absent options become None."""

    def norm(place: str) -> NormWeights | None:
        fields = _fields(named, place, NormWeights._fields)
        return NormWeights(**fields) if fields else None

    mlp = _fields(named, "blocks.mlp.", MLPWeights._fields)
    blocks = Blocks(
        attention=HeadStack(**_fields(named, "blocks.attention.", HeadStack._fields)),
        attention_norm=norm("blocks.attention_norm."),
        mlp=MLPWeights(**mlp) if mlp else None,
        mlp_norm=norm("blocks.mlp_norm."),
    )
    top = _fields(named, "", ("W_E", "W_U", "W_pos", "b_U"))
    return TransformerWeights(**top, blocks=blocks, final_norm=norm("final_norm."))


def named_arrays(weights: TransformerWeights) -> dict[str, Array]:
    """The inverse of `assemble`."""
    leaves, _ = jax.tree.flatten_with_path(weights)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def weights_from_variables(
    variables: Mapping[str, Any], spec: TransformerSpec
) -> TransformerWeights:
    """The weights inside a Linen model's variables, checked against its spec.

    Leading axes, such as ``member``, may stand in front of every shape.

    Raises:
        ValueError: If a parameter is missing, unexpected, or of the wrong shape.
    """
    if "params" not in variables:
        raise ValueError(f"variables has collections {sorted(variables)}, must have 'params'")
    named = variables["params"]
    check_parameters({name: array.shape for name, array in named.items()}, spec)
    return assemble(named)


def variables_from_weights(weights: TransformerWeights) -> dict[str, dict[str, Array]]:
    """Variables that a Linen model of the matching spec applies."""
    return {"params": named_arrays(weights)}


def check_parameters(
    shapes: Mapping[str, tuple[int, ...]], spec: TransformerSpec
) -> tuple[int, ...]:
    """The leading axes of all parameters, whose names and shapes are compared with the spec's.

    Raises:
        ValueError: If a parameter is missing, unexpected, or of the wrong shape, or has other
            leading axes than the first.
    """
    wanted = transformer_parameters(spec)
    leading: dict[str, tuple[int, ...]] = {}
    for name, parameter in wanted.items():
        if name not in shapes:
            raise ValueError(f"parameter {name!r} is missing; the spec declares {parameter.shape}")
        shape = shapes[name]
        split = len(shape) - len(parameter.shape)
        if split < 0 or shape[split:] != parameter.shape:
            raise ValueError(f"parameter {name!r} has shape {shape}, must be {parameter.shape}")
        leading[name] = shape[:split]
    first = next(iter(wanted))
    for name, axes in leading.items():
        if axes != leading[first]:
            raise ValueError(
                f"parameter {name!r} has leading axes {axes}, must have the {leading[first]} of "
                f"{first!r}"
            )
    for name in shapes:
        if name not in wanted:
            raise ValueError(f"parameter {name!r} is not one that the spec declares")
    return leading[first]


def _fields(named: Mapping[str, Array], place: str, fields: tuple[str, ...]) -> dict[str, Array]:
    return {field: named[place + field] for field in fields if place + field in named}
