"""Rows of a skip-trigram table and split words, against dense tables in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.token_tables import rejoining, row_percentile
from circuitax.kernel.chain import materialise
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init


def tables(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """QK ``[head, dest, src]`` and OV ``[head, src, out]`` of the first layer."""
    qk, ov = (np.asarray(materialise(c(model))[0], float) for c in (token_qk, token_ov))
    return qk, ov


def model() -> Model:
    spec = TransformerSpec(d_vocab=13, n_ctx=6, n_layers=1, n_heads=2, d_model=8)
    return init(jax.random.key(3), spec)


def test_a_row_stands_as_high_as_its_words_do(x64: None) -> None:
    qk, ov = tables(model())
    source, dests, outs = 4, [1, 7, 9], [4, 2]
    expected = []
    for head in range(2):
        scores, raises = qk[head, :, source], ov[head, source]
        ranks = [
            [np.sum(x < x[i]) / 13 for i in chosen]
            for x, chosen in ((scores, dests), (raises, outs))
        ]
        expected.append(min(np.mean(ranks[0]), np.mean(ranks[1])))
    found = jax.jit(row_percentile)(model(), source, jnp.array(dests), jnp.array(outs))
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # ranks are single precision


def test_split_words_are_compared_with_the_pieces_of_other_words(x64: None) -> None:
    qk, ov = tables(model())
    first, second = [1, 5, 8, 2], [3, 6, 9, 11]
    expected = []
    for head in range(2):
        looks: list[float] = []
        raises: list[float] = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            to_all = np.array([qk[head, a, other] for other in second])
            from_all = np.array([ov[head, other, b] for other in second])
            for found, all_ in ((looks, to_all), (raises, from_all)):
                found.append((all_[i] - all_.mean()) / np.sqrt(((all_ - all_.mean()) ** 2).mean()))
        expected.append(min(np.mean(looks), np.mean(raises)))
    found = jax.jit(rejoining)(model(), jnp.array(first), jnp.array(second))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
