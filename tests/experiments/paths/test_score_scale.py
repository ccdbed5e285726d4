"""The spread that `score_scale` reports is that of the model's own scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init_model
from experiments.paths.score_scale.experiment import measure


@pytest.mark.parametrize("options", [{}, {"norm": Norm.layernorm, "biases": True}])
def test_variance_counts_positions_norms_and_what_the_mask_leaves(options: dict) -> None:
    spec = TransformerSpec(d_vocab=7, n_ctx=6, n_layers=2, n_heads=2, d_model=8, **options)
    model = init_model(jax.random.key(0), spec)
    texts = np.random.default_rng(0).integers(0, 7, (3, 6))
    found = measure(model, jnp.asarray(texts))["variance"]
    heads = jax.tree.map(lambda leaf: np.asarray(leaf[0], float), model.blocks.attention)
    x = np.asarray(model.W_E, float)[texts]
    if options:  # a layer norm at its start: neither gain nor offset
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + spec.norm_eps)
    x = x + np.asarray(model.W_pos, float)[:6]
    seen = np.tril(np.ones((6, 6), bool))
    spread = []
    for head in range(2):
        scores = (x @ heads.W_Q[head]) @ (x @ heads.W_K[head]).swapaxes(1, 2) / 2
        spread.append(scores[:, seen].var())
    np.testing.assert_allclose(found, np.mean(spread), rtol=1e-5)
