"""Random transformers of every kind, and a NumPy forward pass to hold them against."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Trace
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import (
    Blocks,
    HeadStack,
    MLPWeights,
    NormWeights,
    TransformerWeights,
)


class Run(NamedTuple):
    """A model, a text, and one forward pass."""

    weights: TransformerWeights
    tokens: jax.Array
    spec: ForwardSpec
    logits: jax.Array
    trace: Trace


def _random_weights(rng, L, H, d, k, v, V, n, biases, norm, learned, mlp, n_extra):
    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1))

    def bias(*shape):
        return 0.3 * normal(*shape) if biases else None

    def norm_weights(*shape):
        if norm != Norm.layernorm:
            return None
        return NormWeights(1 + 0.3 * normal(*shape), 0.3 * normal(*shape))

    heads = HeadStack(
        normal(L, H, d, k),
        normal(L, H, d, k),
        normal(L, H, d, v),
        normal(L, H, v, d),
        bias(L, H, k),
        bias(L, H, k),
        bias(L, H, v),
        bias(L, d),
    )
    mlps = MLPWeights(normal(L, d, 5), normal(L, 5, d), bias(L, 5), bias(L, d)) if mlp else None
    if mlps is not None and n_extra:
        deeper = {"W_hidden": normal(L, n_extra, 5, 5), "b_hidden": bias(L, n_extra, 5)}
        mlps = mlps._replace(**deeper)
    blocks = Blocks(heads, norm_weights(L, d), mlps, norm_weights(L, d) if mlp else None)
    W_pos = normal(n, d) if learned else None
    return TransformerWeights(
        normal(V, d) * np.sqrt(V / d),
        normal(d, V),
        blocks,
        W_pos,
        bias(V),
        norm_weights(d),
    )


@pytest.fixture
def make_run(rng):
    """``make_run(n_layers, ...)``: random weights and one jitted forward pass over them."""

    def make(
        n_layers=2,
        *,
        n_heads=2,
        d_model=6,
        d_head=3,
        d_value=2,
        d_vocab=7,
        n_ctx=5,
        biases=False,
        norm=Norm.none,
        positions=Positions.none,
        mlp=False,
        n_extra=0,
        dtype=None,
        **spec,
    ):
        weights = _random_weights(
            rng,
            n_layers,
            n_heads,
            d_model,
            d_head,
            d_value,
            d_vocab,
            n_ctx,
            biases,
            norm,
            positions.needs_table,
            mlp,
            n_extra,
        )
        if dtype is not None:
            weights = jax.tree.map(lambda x: x.astype(dtype), weights)
        tokens = jnp.asarray(rng.integers(0, d_vocab, n_ctx))
        spec = ForwardSpec(
            1 / np.sqrt(d_head),
            norm=norm,
            final_norm=norm != Norm.none,
            positions=positions,
            **spec,
        )
        logits, trace = jax.jit(forward, static_argnums=2, static_argnames="outputs")(
            weights, tokens, spec, outputs=True
        )
        return Run(weights, tokens, spec, logits, trace)

    return make
