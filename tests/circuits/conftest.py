"""Random transformers of every kind, and a NumPy forward pass to hold them against."""

import jax
import numpy as np
import pytest

from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import HeadStack, MLPWeights, NormWeights


def _random_weights(rng, L, H, d, k, v, V, n, biases, norm, learned, mlp, n_extra):
    def normal(*shape):
        return rng.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)

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
    # The order of these calls is the order of the random draws.
    return {
        "attention": heads,
        "attention_norm": norm_weights(L, d),
        "mlp": mlps,
        "mlp_norm": norm_weights(L, d) if mlp else None,
        "W_pos": normal(n, d) if learned else None,
        "W_E": normal(V, d) * np.sqrt(V / d),
        "W_U": normal(d, V),
        "b_U": bias(V),
        "final_norm": norm_weights(d),
    }


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
        # `jnp.asarray` of a NumPy array compiles a program for each shape.
        weights = jax.device_put(weights)
        tokens = jax.device_put(rng.integers(0, d_vocab, n_ctx))
        model = Model.of(**weights, norm=norm, positions=positions, **spec)
        return jax.jit(run_model, static_argnames="outputs")(model, tokens, outputs=True)

    return make
