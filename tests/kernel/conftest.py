"""Random transformers for tests of the forward pass; sizes differ so that no two axes mix."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import Array

from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import HeadStack, MLPWeights, NormWeights

MakeTransformer = Callable[..., Model]


@pytest.fixture
def make_transformer(rng: np.random.Generator) -> MakeTransformer:
    """Build a random transformer; flags and options of the spec switch its parts on."""

    def make(
        *,
        n_layers: int = 2,
        n_heads: int = 3,
        d_model: int = 8,
        d_head: int = 4,
        d_value: int = 5,
        d_mlp: int = 7,
        n_extra: int = 0,
        d_vocab: int = 11,
        n_ctx: int = 6,
        bias: bool = False,
        mlp: bool = False,
        gated: bool = False,
        norm: Norm = Norm.none,
        smear: bool = False,
        positions: Positions = Positions.none,
        **options: Any,
    ) -> Model:
        def draw(*shape: int) -> Array:
            return jax.device_put(0.6 * rng.standard_normal(shape))

        def maybe(wanted: bool, *shape: int) -> Array | None:
            return draw(*shape) if wanted else None

        stack, heads = (n_layers,), (n_layers, n_heads)
        attention = HeadStack(
            W_Q=draw(*heads, d_model, d_head),
            W_K=draw(*heads, d_model, d_head),
            W_V=draw(*heads, d_model, d_value),
            W_O=draw(*heads, d_value, d_model),
            b_Q=maybe(bias, *heads, d_head),
            b_K=maybe(bias, *heads, d_head),
            b_V=maybe(bias, *heads, d_value),
            b_O=maybe(bias, *stack, d_model),
            smear=maybe(smear, *heads),
        )
        mlp_weights = MLPWeights(
            W_in=draw(*stack, d_model, d_mlp),
            W_out=draw(*stack, d_mlp, d_model),
            b_in=maybe(bias, *stack, d_mlp),
            b_out=maybe(bias, *stack, d_model),
            W_gate=maybe(gated, *stack, d_model, d_mlp),
            W_hidden=maybe(n_extra > 0, *stack, n_extra, d_mlp, d_mlp),
            b_hidden=maybe(bias and n_extra > 0, *stack, n_extra, d_mlp),
        )

        def norm_weights(*lead: int) -> NormWeights | None:
            if norm not in (Norm.layernorm, Norm.rmsnorm):
                return None
            offset = maybe(norm == Norm.layernorm, *lead, d_model)
            return NormWeights(1 + draw(*lead, d_model), offset)

        return Model.of(
            W_E=draw(d_vocab, d_model),
            W_U=draw(d_model, d_vocab),
            attention=attention,
            attention_norm=norm_weights(*stack),
            mlp=mlp_weights if mlp else None,
            mlp_norm=norm_weights(*stack) if mlp else None,
            W_pos=maybe(positions.needs_table, n_ctx, d_model),
            b_U=maybe(bias, d_vocab),
            final_norm=norm_weights(),
            norm=norm,
            positions=positions,
            **options,
        )

    return make
