"""Copying seen on a text, against sums over positions and tokens written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.detectors import head_copying
from circuitax.circuits.known import copying_model
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from circuitax.kernel.weights import HeadStack


def random_model(d_vocab: int = 7, d_model: int = 5, n_heads: int = 2) -> Model:
    rng = np.random.default_rng(0)
    shapes = {"W_Q": (d_model, 3), "W_K": (d_model, 3), "W_V": (d_model, 4), "W_O": (4, d_model)}
    heads = (rng.normal(size=(2, n_heads, *shape)) for shape in shapes.values())
    return Model.of(
        W_E=rng.normal(size=(d_vocab, d_model)),
        W_U=rng.normal(size=(d_model, d_vocab)),
        attention=HeadStack(*heads),
    )


def test_both_scores_are_those_of_sums_written_out() -> None:
    with jax.enable_x64(True):
        text = np.array([3, 1, 3, 6, 0])
        seen = run(random_model(), jnp.asarray(text), outputs=True)
        found = head_copying(seen)
        outputs, patterns = (np.asarray(a) for a in (seen.trace.head_outputs, seen.trace.patterns))
        W_U = np.asarray(seen.model.W_U)
        for place in np.ndindex(2, 2):
            shares, cosines = [], []
            for t in range(len(text)):
                raises = outputs[place][t] @ W_U
                raises = raises - raises.mean()
                attended = np.zeros(7)
                for s in range(t + 1):
                    attended[text[s]] += patterns[place][t, s]
                up = np.where(raises > 0, raises, 0)
                shares.append((up * attended).sum() / attended.max() / up.sum())
                cosines.append(np.corrcoef(raises, attended)[0, 1])
            np.testing.assert_allclose(found.raised[place], np.mean(shares), rtol=1e-9)
            np.testing.assert_allclose(found.cosine[place], np.mean(cosines), rtol=1e-9)


@pytest.mark.parametrize(("strength", "raised", "cosine"), [(2.0, 1.0, 1.0), (-2.0, 0.0, -1.0)])
def test_a_head_that_copies_what_it_attends_to(
    strength: float, raised: float, cosine: float
) -> None:
    text = jnp.array([4, 0, 2, 5])  # all others of the nine are raised by a head that erases
    found = head_copying(run(copying_model(9, strength), text, outputs=True))
    np.testing.assert_allclose(found.raised[0, 0], raised, atol=1e-6)
    np.testing.assert_allclose(found.cosine[0, 0], cosine, atol=1e-6)


def test_a_run_without_outputs_is_refused() -> None:
    model = copying_model(4, 1.0)
    with pytest.raises(ValueError, match="outputs=True"):
        head_copying(run(model, jnp.array([0, 1])))
    with pytest.raises(ValueError, match="2 texts"):
        head_copying(run(model, jnp.array([[0, 1], [2, 3]]), outputs=True))
