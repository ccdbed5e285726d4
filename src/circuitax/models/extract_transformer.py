"""Conversion between the parameters of a Linen module and a `Model`, by their common names."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array

from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, NormWeights
from circuitax.models.parameters import transformer_parameters


def model_from_params(params: Mapping[str, Any], spec: TransformerSpec) -> Model:
    """The model whose weights are the parameters of a `Transformer` module."""
    check_names(params, spec)

    def norm(place: str) -> NormWeights | None:
        fields = _fields(params, place, NormWeights._fields)
        return NormWeights(**fields) if fields else None

    mlp = _fields(params, "blocks.mlp.", MLPWeights._fields)
    blocks = Blocks(
        attention=HeadStack(**_fields(params, "blocks.attention.", HeadStack._fields)),
        attention_norm=norm("blocks.attention_norm."),
        mlp=MLPWeights(**mlp) if mlp else None,
        mlp_norm=norm("blocks.mlp_norm."),
    )
    top = _fields(params, "", ("W_E", "W_U", "W_pos", "b_U"))
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
