"""Certificates of the path ledger against all paths in exact rationals, at any scale."""

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import circuitax as cx
from circuitax.circuits.ledger import host_model as rounding
from circuitax.circuits.ledger import ledger, path_bounds
from circuitax.circuits.ledger.host_model import host_model
from circuitax.circuits.paths import expansion
from circuitax.circuits.paths.components import ReadOut
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.kernel.model import Model
from circuitax.kernel.weights import HeadStack

N_LAYERS, N_HEADS, N_CTX, D_MODEL, D_VALUE = 3, 2, 3, 4, 2
exactly = np.vectorize(Fraction, otypes=[object])


def _sources(path, exact):
    """What a path can start from, by the name that a ledger gives it."""
    first = path[0][0] if path else N_LAYERS
    start = exact["embedding"] + exact["b_O"][:first].sum(axis=0)
    return {None: start} | {layer: exact["mlps"][layer] for layer in range(first)}


def _all_values(exact, position, w, by_position):
    """Every path's exact value, by path, positions and start."""
    values = {}
    for path in expansion.all_paths(N_LAYERS, N_HEADS):
        for start, stream in _sources(path, exact).items():
            # Rows over the position that was read last, by the positions read before.
            partial = {(): stream}
            for hop, (layer, head) in enumerate(path):
                A = exact["A"][layer, head]
                own = exact["b_V"][layer, head] if hop == 0 and start is None else 0
                following = {}
                for sources, rows in partial.items():
                    read = rows @ exact["W_V"][layer, head]
                    if not by_position:
                        mixed = {(): A @ read + own}
                    else:
                        # Row s at destination t is what t reads from s.
                        mixed = {(*sources, s): A[:, s, None] * read[s] for s in range(N_CTX)}
                        if hop == 0 and start is None:
                            mixed[(None,)] = own
                    for name, rows_after in mixed.items():
                        following[name] = rows_after @ exact["W_O"][layer, head]
                partial = following
            for sources, rows in partial.items():
                values[path, sources, start] = rows[position] @ w
    return values


def _frozen(parts):
    arrays = {name: jnp.asarray(value) for name, value in parts.items()}
    embedding = arrays.pop("embedding")
    read_out = ReadOut(None, jnp.eye(D_MODEL), None)
    return FrozenModel(tokens=embedding, positions=None, read_out=read_out, **arrays)


def _parts(rng):
    A = np.tril(rng.exponential(size=(N_LAYERS, N_HEADS, N_CTX, N_CTX)))
    return {
        "embedding": rng.normal(size=(N_CTX, D_MODEL)),
        "A": A / A.sum(axis=-1, keepdims=True),
        "W_V": rng.normal(size=(N_LAYERS, N_HEADS, D_MODEL, D_VALUE)),
        "W_O": rng.normal(size=(N_LAYERS, N_HEADS, D_VALUE, D_MODEL)),
        "b_V": rng.normal(size=(N_LAYERS, N_HEADS, N_CTX, D_VALUE)),
        "b_O": rng.normal(size=(N_LAYERS, D_MODEL)),
        "mlps": rng.normal(size=(N_LAYERS, N_CTX, D_MODEL)),
    }


def ordinary(rng):
    return _parts(rng), rng.normal(size=D_MODEL)


def one_scale(rng):
    """Everything that is a source, or the direction, or both."""
    parts, w = ordinary(rng)
    scale = 10.0 ** rng.uniform(-150, 150)
    for name in ("embedding", "b_V", "b_O", "mlps"):
        parts[name] = parts[name] * scale
    return parts, w * 10.0 ** rng.uniform(-150, 150)


def many_scales(rng):
    """Each array of each head has its own."""
    parts, w = ordinary(rng)
    reach = rng.choice([5, 40, 100, 150])
    for name, value in parts.items():
        heads = (N_LAYERS, N_HEADS) if value.ndim == 4 else (1, 1)
        scale = 10.0 ** rng.uniform(-reach, reach, heads)
        parts[name] = value * scale.reshape(*heads[: value.ndim], *[1] * (value.ndim - 2))
    return parts, w * 10.0 ** rng.uniform(-reach, reach)


def cancelled(rng):
    """A large part of every stream is orthogonal to what reads it, exactly."""
    parts, w = ordinary(rng)
    large = 2.0 ** rng.integers(4, 40)
    for name in ("embedding", "mlps", "b_O"):
        parts[name] = np.round(8 * parts[name]) / 8
    parts["embedding"][..., :2] += large
    parts["mlps"][..., :2] -= large
    parts["W_O"][..., 0] = parts["W_O"][..., 1] = large * np.round(8 * parts["W_O"][..., 0])
    for reader in (parts["W_V"], w[:, None]):
        reader[...] = np.round(64 * reader) / 64
        reader[..., 1, :] = -reader[..., 0, :]
    return parts, w


def signed(rng):
    """Patterns whose rows cancel, and biases that take the embedding away."""
    parts, w = ordinary(rng)
    parts["A"] = np.tril(rng.normal(size=parts["A"].shape))
    parts["A"][..., 0] -= parts["A"].sum(axis=-1) * (1 - 2.0 ** -rng.integers(5, 50))
    parts["b_O"][0] = -parts["embedding"].mean(axis=0)
    parts["embedding"][1:] = parts["embedding"].mean(axis=0) * (1 + 2.0**-40)
    return parts, w


def rare(rng):
    """Most of a stream is one direction, and few entries of a pattern are not 0."""
    parts, w = ordinary(rng)
    parts["A"] *= rng.random(parts["A"].shape) < 0.6
    for name in ("W_V", "W_O"):
        parts[name] *= 10.0 ** rng.uniform(-12, 0, (*parts[name].shape[:2], 1, 1))
        parts[name][rng.random(parts[name].shape) < 0.3] = 0
    parts["W_V"][0] *= 1e-90
    return parts, w


KINDS = (ordinary, one_scale, many_scales, cancelled, signed, rare)


def _check(parts, w, find, k):
    """Whether the search was refused, left open or proven; never wrong."""
    try:
        found = find(_frozen(parts), N_CTX - 1, jnp.asarray(w), k=k, budget=20_000)
    except ValueError as error:
        assert "must be finite" in str(error)
        return "refused"
    exact = {name: exactly(value) for name, value in parts.items()}
    values = _all_values(exact, N_CTX - 1, exactly(w), find is ledger.position_ledger)
    names = zip(found.paths, found.positions, found.starts, strict=True)
    listed = [values.pop(name) for name in names]
    for value, error, true in zip(found.values, found.errors, listed, strict=True):
        assert abs(Fraction(value) - true) <= Fraction(error)
    largest = max(map(abs, values.values()), default=0)
    assert largest <= Fraction(found.omitted_bound)
    if found.complete:
        assert largest <= min(map(abs, listed))
    return "proven" if found.complete else "open"


@pytest.mark.parametrize("find", [ledger.head_ledger, ledger.position_ledger])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_larger_path_is_ever_left_out(kind, find, rng, x64):
    outcomes = [_check(*kind(rng), find, int(rng.integers(1, 12))) for _ in range(3)]
    if kind in (ordinary, one_scale):
        assert outcomes == ["proven"] * 3


@pytest.mark.parametrize("by_position", [True, False])
def test_a_path_whose_square_is_lost_beside_larger_ones_is_found(by_position):
    """In float32, as a user would see it: the direct path adds 2, and one through the head 4."""
    large = 2.0**27
    heads = HeadStack(
        W_Q=jnp.zeros((1, 1, 2, 2)),
        W_K=jnp.zeros((1, 1, 2, 2)),
        W_V=jnp.eye(2)[None, None],
        W_O=4 * jnp.eye(2)[None, None],
    )
    W_E = jnp.array([[large, large], [1.0, -1.0]])
    model = Model.of(attention=heads, W_E=W_E, W_U=jnp.array([[1.0, 0.0], [-1.0, 0.0]]))
    run = cx.run(model, [0, 1])
    found = cx.ledger(run, token=0, k=1, by_position=by_position)
    assert found.paths == (((0, 0),),) and found.complete
    np.testing.assert_allclose(found.values, [4.0], rtol=1e-6)
    assert 2 <= found.omitted_bound < 4
    if by_position:
        assert found.positions == ((1,),)


@pytest.mark.parametrize("find", [ledger.head_ledger, ledger.position_ledger])
def test_squares_and_values_out_of_range_are_refused(find, rng, x64):
    parts, w = ordinary(rng)
    for name, scale in (("W_O", 1e160), ("b_V", 1e200)):
        frozen = _frozen(parts | {name: parts[name] * scale})
        with pytest.raises(ValueError, match=r"must be finite; a path ledger is no proof"):
            find(frozen, 2, jnp.asarray(w), k=2)
    frozen = _frozen(parts | {"embedding": parts["embedding"] * 1e200})
    with pytest.raises(ValueError, match=r"paths must be finite; a path ledger is no proof"):
        find(frozen, 2, jnp.asarray(w) * 1e200, k=2)


def test_bounds_that_are_not_numbers_are_refused(rng, x64):
    """Comparisons with NaN are false: the search would drop every path behind one."""
    parts, w = ordinary(rng)
    frozen = _frozen(parts)
    bounds = path_bounds.head_path_bounds(host_model(frozen), 2)
    bounds.at_head[-1] *= np.nan
    with pytest.raises(ValueError, match="values and bounds of paths must be finite"):
        ledger.head_ledger(frozen, 2, jnp.asarray(w), k=2, bounds=bounds)


def test_paths_that_differ_by_less_than_rounding_are_left_open(rng, x64):
    """Two heads that are one: which of their paths comes k-th no search can tell."""
    parts, w = ordinary(rng)
    for name in ("A", "W_V", "W_O", "b_V"):
        parts[name][:, 1] = parts[name][:, 0]
    every = ledger.head_ledger(_frozen(parts), 2, jnp.asarray(w), k=100)
    sizes = np.abs(every.values)
    assert every.complete and every.omitted_bound == 0
    (tied,) = np.nonzero(sizes[1:] >= sizes[:-1] * (1 - 1e-14))
    found = ledger.head_ledger(_frozen(parts), 2, jnp.asarray(w), k=int(tied[0]) + 1)
    assert not found.complete and "rounding" in str(found)
    np.testing.assert_allclose(found.omitted_bound, sizes[tied[0]], rtol=1e-9)


@given(arrays(np.float64, (5, 3), elements=st.floats(-1e300, 1e300)))
@settings(max_examples=60)
def test_norms_hold_for_entries_of_any_size(W):
    total = sum(Fraction(x) ** 2 for x in W.ravel())
    (found,) = rounding.norm(W[None], (1, 2))
    assert total <= (Fraction(found) * Fraction(1 + 1e-12) + Fraction(5e-324)) ** 2
    (largest,) = rounding.spectral_norm(W[None])
    scale = np.abs(W).max(initial=0.0)
    if scale > 1e-290:
        exact = np.linalg.norm(W / scale, 2)
        assert exact * (1 - 1e-14) <= largest / scale <= exact * (1 + 1e-5)
