"""The loss of parameter decomposition, against NumPy, and what it is at the true subcomponents."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from circuitax.models.subcomponents import DecomposedMaps, lower_leaky, upper_leaky
from experiments.superposition.toy_decomposition.problem import (
    Decomposition,
    MaskDraws,
    TargetHyper,
)

RNG = np.random.default_rng(2)
W, MIDDLE = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))
PROBLEM = Decomposition(DecomposedMaps((3, 2, 2, 3), 4, d_gate=5), power=2, batch_size=6)


def target() -> TargetHyper:
    maps = tuple(jnp.asarray(M) for M in (W.T, MIDDLE, W))
    b, p = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.5, 0.6, 0.7])
    return TargetHyper(maps, b, p, jnp.asarray(0.3))


def raw_importance(part: dict[str, np.ndarray], a: np.ndarray) -> np.ndarray:
    """One subcomponent and one sample after the other."""
    out = np.zeros((len(a), len(part["V"])))
    for s, sample in enumerate(a):
        for c, read in enumerate(part["V"] @ sample):
            z = part["gate_in"][:, c] * read + part["gate_bias"][:, c]
            out[s, c] = (z * ndtr(z)) @ part["gate_out"][:, c] + part["gate_end"][c]
    return out


def outputs(maps: list[Any], b: np.ndarray, x: np.ndarray) -> np.ndarray:
    for part in maps:
        x = part(x)
    return np.maximum(0, x + b)


def test_each_term_of_the_loss(rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        hyper = target()
        params = jax.jit(PROBLEM.init)(jax.random.key(0), hyper)
        params = jax.tree.map(lambda a: np.asarray(a) + rng.normal(size=a.shape), params)
        batch = jax.jit(PROBLEM.batch)(jax.random.key(1), 7)
        found, loss = jax.jit(lambda *args: (PROBLEM.terms(*args), PROBLEM.loss(*args)))(
            params, batch, hyper
        )
        u, r, b, p = (np.asarray(a) for a in (*batch, hyper.b, hyper.density))
        maps = [np.asarray(a) for a in hyper.maps]
        parts = [{k: np.asarray(v) for k, v in params[f"maps_{i}"].items()} for i in range(3)]
    x = np.where(u < p[:, None], u / p[:, None], 0).T
    whole = [lambda a, M=M: a @ M for M in maps]
    fed = [x, x @ maps[0], x @ maps[0] @ maps[1]]
    raw = [raw_importance(part, a) for part, a in zip(parts, fed, strict=True)]
    assert any((g < 0).any() for g in raw) and any((g > 1).any() for g in raw)
    low = [np.where(g < 0, 0.01 * g, np.minimum(g, 1)) for g in raw]

    def masked(i: int, draw: int) -> Any:
        mask = low[i] + (1 - low[i]) * r[draw, i]
        return lambda a: sum(
            np.outer(mask[:, c] * (a @ parts[i]["V"][c]), parts[i]["U"][c]) for c in range(4)
        )

    right = outputs(whole, b, x)
    all_masked = outputs([masked(i, 0) for i in range(3)], b, x)
    singles = [outputs([*whole[:i], masked(i, 1), *whole[i + 1 :]], b, x) for i in range(3)]
    sums = [part["V"].T @ part["U"] for part in parts]
    squares = sum(((a - M) ** 2).sum() for a, M in zip(sums, maps, strict=True))
    costs = [np.where(g > 1, 1 + 0.01 * (g - 1), np.maximum(g, 0)) ** 2 for g in raw]
    wanted = (
        squares / (6 + 4 + 6),
        ((all_masked - right) ** 2).mean(),
        np.mean([((one - right) ** 2).mean() for one in singles]),
        sum(cost.sum(axis=1).mean() for cost in costs),
    )
    np.testing.assert_allclose([float(term) for term in found], wanted, rtol=1e-11)
    assert float(loss) == pytest.approx(sum(wanted[:3]) + 0.3 * wanted[3], rel=1e-11)


def test_the_true_subcomponents_need_no_others() -> None:
    """With one subcomponent a feature, on where its feature is, masks change no output."""
    problem = Decomposition(DecomposedMaps((3, 2, 3), 3, d_gate=2), batch_size=40)
    with jax.enable_x64(True):
        hyper = target()._replace(maps=(jnp.asarray(W.T), jnp.asarray(W)))
        # A gate that is 1 wherever its feature is on: the difference of two steep GELUs.
        steep = {
            "gate_in": jnp.full((2, 3), 1e9),
            "gate_bias": jnp.array([[0.0] * 3, [-100.0] * 3]),
            "gate_out": jnp.array([[0.01] * 3, [-0.01] * 3]),
            "gate_end": jnp.zeros(3),
        }
        always = steep | {"gate_out": jnp.zeros((2, 3)), "gate_end": jnp.ones(3)}
        exact = {
            "maps_0": {"V": jnp.eye(3), "U": jnp.asarray(W.T)} | steep,
            "maps_1": {"V": jnp.asarray(W.T), "U": jnp.eye(3)} | always,
        }
        batch = jax.jit(problem.batch)(jax.random.key(1), 0)
        of = jax.jit(problem.terms)
        terms = of(exact, batch, hyper)
        # The two GELUs reach 1e7 and cancel to 1, so that gates are off by up to 1e7 times 1e-16.
        assert max(map(float, terms[:3])) < 1e-18
        on = np.asarray(batch.features < hyper.density[:, None]).sum(axis=0).mean()
        assert float(terms.importance) == pytest.approx(on + 3, rel=1e-6)
        wrong = exact | {"maps_0": exact["maps_0"] | {"gate_in": -steep["gate_in"]}}
        assert float(of(wrong, batch, hyper).stochastic) > 1e-3


def test_hard_sigmoids_leak_on_one_side_each() -> None:
    with jax.enable_x64(True):
        raw = jnp.array([-2.0, 0.25, 3.0])
        np.testing.assert_allclose(lower_leaky(raw), [-0.02, 0.25, 1], rtol=1e-12)
        np.testing.assert_allclose(upper_leaky(raw), [0, 0.25, 1.02], rtol=1e-12)
        slope = jax.vmap(jax.grad(lower_leaky))(raw), jax.vmap(jax.grad(upper_leaky))(raw)
        np.testing.assert_allclose(slope, [[0.01, 1, 0], [0, 1, 0.01]], rtol=1e-12)


@pytest.mark.parametrize("field", ["power", "batch_size"])
def test_sizes_are_at_least_one(field: str) -> None:
    sizes: dict[str, int] = {field: 0}
    with pytest.raises(ValueError, match=f"{field}=0 must be at least 1"):
        Decomposition(DecomposedMaps((3, 2, 3), 4), **sizes)


def test_members_of_a_batch_are_their_own() -> None:
    draw = jax.jit(PROBLEM.batch)
    first, again = draw(jax.random.key(1), 0), draw(jax.random.key(1), 1)
    assert isinstance(first, MaskDraws) and first.masks.shape == (2, 3, 6, 4)
    assert not np.isclose(first.masks, again.masks).any()
    assert not np.isclose(first.masks[0], first.masks[1]).any()
