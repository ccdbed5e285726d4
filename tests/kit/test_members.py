"""What is measured of all members at once is what is measured of each alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kit.members import each_member, member_of, n_members, one_by_one, split_members


def size(weights: dict, x: jax.Array, scale: float) -> dict[str, jax.Array]:
    out = weights["W"] @ x * scale + weights["b"]
    return {"norm": jnp.linalg.norm(out), "out": out}


@pytest.fixture
def members(rng: np.random.Generator) -> dict[str, jax.Array]:
    return {"W": jnp.asarray(rng.normal(size=(5, 3, 4))), "b": jnp.asarray(rng.normal(size=(5, 3)))}


def test_all_at_once_one_by_one_and_by_hand(members: dict, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=4))
    together = each_member(size, x, 2.0)(members)
    alone = one_by_one(size, members, x, 2.0)
    W, b = np.asarray(members["W"]), np.asarray(members["b"])
    by_hand = np.einsum("mij,j->mi", W, 2.0 * np.asarray(x)) + b
    for found in (together, alone):
        np.testing.assert_allclose(found["out"], by_hand, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["norm"], np.linalg.norm(by_hand, axis=1), rtol=1e-5)
    assert isinstance(alone["out"], np.ndarray)


def test_what_members_share_is_no_constant_of_the_code(members: dict) -> None:
    x = jnp.arange(4.0)
    traced = []

    def note(weights: dict, x: jax.Array) -> jax.Array:
        traced.append(isinstance(x, jax.core.Tracer))
        return weights["W"] @ x

    each_member(note, x)(members)
    assert traced == [True]


def test_members_are_taken_apart(members: dict) -> None:
    assert n_members(members) == 5
    parts = list(split_members(members))
    assert len(parts) == 5
    np.testing.assert_array_equal(parts[3]["W"], members["W"][3])
    np.testing.assert_array_equal(member_of(members, 3)["b"], members["b"][3])
    with pytest.raises(ValueError, match="one leading axis"):
        n_members({"W": np.zeros((2, 3)), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="one leading axis"):
        n_members({"W": np.zeros((2, 3)), "b": np.float64(0)})
