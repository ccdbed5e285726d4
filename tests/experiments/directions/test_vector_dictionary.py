"""Dictionary learning on given vectors: its loss against NumPy, and what it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.sparse import VectorSource
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.superposition.dictionaries import mean_max_cosine
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import new_member, train
from experiments.directions.text_superposition.vector_dictionary import VectorDictionary


def test_the_loss_is_the_error_of_the_strongest_codes(rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        rows = jnp.asarray(rng.normal(size=(30, 3)))
        learning = VectorDictionary(Autoencoder(Sparsity.topk, 6, 3), VectorSource(9, rows))
        k = jnp.asarray(2.0)
        params = learning.init(jax.random.key(0), k)
        moved = {name: v + 0.2 * rng.normal(size=v.shape) for name, v in params.items()}
        h = np.asarray(learning.batch(jax.random.key(1), jnp.asarray(4)))
        found = float(jax.jit(learning.loss)(moved, h, k))
    assert (
        h.shape == (9, 3) and (h[:, None] == np.asarray(rows)[None]).all(axis=2).any(axis=1).all()
    )
    D, W_enc, b_enc, b_dec = (np.asarray(moved[n]) for n in ("D", "W_enc", "b_enc", "b_dec"))
    codes = np.maximum(0, (h - b_dec) @ W_enc + b_enc)
    codes = np.where(codes >= np.sort(codes)[:, -2:-1], codes, 0)
    back = codes @ (D / np.linalg.norm(D, axis=1, keepdims=True)) + b_dec
    assert found == pytest.approx(((back - h) ** 2).sum(axis=1).mean(), rel=1e-12)


def test_directions_that_made_the_vectors_are_found(rng: np.random.Generator) -> None:
    truth = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    rows = rng.uniform(0.5, 1.5, size=(200, 1)) * truth[rng.integers(0, 4, 200)]
    source = VectorSource(32, jnp.asarray(rows, jnp.float32))
    learning = VectorDictionary(Autoencoder(Sparsity.topk, 8, 4), source)
    member = new_member(jax.random.key(0), 0.01, jnp.asarray(1.0))
    optim = OptimSpec(weight_decay=0.0, steps=400)
    state, _ = jax.jit(lambda m: train(learning, optim, 400, m))(member)
    D = state.params["D"]
    assert mean_max_cosine(jnp.asarray(truth, jnp.float32), D) > 0.95
    with pytest.raises(ValueError, match="length 4, must be d_in=5"):
        VectorDictionary(Autoencoder(Sparsity.topk, 8, 5), source)
