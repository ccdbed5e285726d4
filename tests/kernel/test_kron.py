"""Kronecker terms against their dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuitax.kernel import kron
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.kron import Kron, KronSum

N, D = 3, 4  # square, so that every pair of terms composes


def draw(rng: np.random.Generator) -> dict[str, tuple[Kron, np.ndarray]]:
    """A term of every kind with its dense matrix, made by NumPy."""
    A, W, V, O = (rng.normal(size=s) for s in [(N, N), (D, D), (D, 2), (2, D)])
    thin = chain_of(V, O)
    terms = {
        "full": (Kron(jnp.asarray(A), jnp.asarray(W)), np.kron(A, W.T)),
        "head": (Kron(jnp.asarray(A), thin), np.kron(A, (V @ O).T)),
        "move": (kron.move(jnp.asarray(A)), np.kron(A, np.eye(D))),
        "process": (kron.process(thin), np.kron(np.eye(N), (V @ O).T)),
        "identity": (kron.identity(), np.eye(N * D)),
    }
    return terms


SIZES = {"n_ctx": N, "d_model": D}
KINDS = ("full", "head", "move", "process", "identity")


@pytest.mark.parametrize("kind", KINDS)
def test_a_term_acts_transposes_and_measures_like_its_dense_matrix(
    kind: str, rng: np.random.Generator, x64: None
) -> None:
    term, truth = draw(rng)[kind]
    x = rng.normal(size=(N, D))
    near = {"rtol": 1e-12, "atol": 1e-12}
    acted = kron.act(term, jnp.asarray(x))
    np.testing.assert_allclose(acted.ravel(), truth @ x.ravel(), **near)
    np.testing.assert_allclose(kron.materialise(term, **SIZES), truth, **near)
    np.testing.assert_allclose(kron.materialise(kron.transpose(term), **SIZES), truth.T, **near)
    np.testing.assert_allclose(kron.trace(term, **SIZES), np.trace(truth), **near)
    np.testing.assert_allclose(kron.norm(term, **SIZES), np.linalg.norm(truth), **near)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_pairs_compose_and_have_inner_products(
    first: str, second: str, rng: np.random.Generator, x64: None
) -> None:
    (f, dense_f), (s, dense_s) = draw(rng)[first], draw(rng)[second]
    near = {"rtol": 1e-11, "atol": 1e-11}
    composed = kron.compose(s, f)
    np.testing.assert_allclose(kron.materialise(composed, **SIZES), dense_s @ dense_f, **near)
    np.testing.assert_allclose(kron.inner(s, f, **SIZES), (dense_s * dense_f).sum(), **near)


def test_identity_factors_stay_structural(rng: np.random.Generator) -> None:
    terms = draw(rng)
    twice = kron.compose(kron.identity(), kron.compose(terms["move"][0], kron.identity()))
    assert twice.W is None and jax.tree.leaves(kron.identity()) == []
    head = kron.compose(terms["head"][0], terms["process"][0])
    assert isinstance(head.W, Chain) and len(head.W.factors) == 4
    x = jnp.ones((N, D))
    assert "dot_general" not in str(jax.make_jaxpr(kron.act)(kron.identity(), x))


def test_sums_act_compose_and_measure_with_their_cross_terms(
    rng: np.random.Generator, x64: None
) -> None:
    terms = draw(rng)
    one = kron.add(terms["full"][0], terms["head"][0], terms["identity"][0])
    two = kron.add(terms["process"][0], terms["move"][0])
    dense_one = sum(terms[kind][1] for kind in ("full", "head", "identity"))
    dense_two = sum(terms[kind][1] for kind in ("process", "move"))
    x = rng.normal(size=(N, D))
    near = {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(kron.act(one, jnp.asarray(x)).ravel(), dense_one @ x.ravel(), **near)
    composed = kron.compose(two, one)
    assert len(composed.terms) == 6
    np.testing.assert_allclose(kron.materialise(composed, **SIZES), dense_two @ dense_one, **near)
    np.testing.assert_allclose(kron.materialise(kron.transpose(one), **SIZES), dense_one.T, **near)
    np.testing.assert_allclose(kron.trace(one, **SIZES), np.trace(dense_one), **near)
    np.testing.assert_allclose(kron.inner(one, two, **SIZES), (dense_one * dense_two).sum(), **near)
    np.testing.assert_allclose(kron.norm(one, **SIZES), np.linalg.norm(dense_one), **near)
    assert kron.add(one, kron.add()).terms == one.terms
    full, head = terms["full"][0], terms["head"][0]
    assert (full + head).terms == (full, head) and (one + two).terms == one.terms + two.terms


def test_rectangular_factors_move_to_fewer_positions(rng: np.random.Generator, x64: None) -> None:
    A, W, x = (rng.normal(size=s) for s in [(2, 3), (4, 5), (3, 4)])
    term = Kron(jnp.asarray(A), jnp.asarray(W))
    np.testing.assert_allclose(kron.act(term, jnp.asarray(x)), A @ x @ W, rtol=1e-12)
    np.testing.assert_allclose(kron.materialise(term), np.kron(A, W.T), rtol=1e-12)


@given(
    sizes=st.tuples(*[st.sampled_from([1, 3])] * 2, *[st.sampled_from([1, 2])] * 3),
    seed=st.integers(0, 2**16),
)
def test_terms_of_any_shape_act_like_their_dense_matrix(sizes: tuple[int, ...], seed: int) -> None:
    n_dest, n_src, d_in, rank, d_out = sizes
    rng = np.random.default_rng(seed)
    A, V, O = (rng.normal(size=s) for s in [(n_dest, n_src), (d_in, rank), (rank, d_out)])
    x = rng.normal(size=(n_src, d_in))
    with jax.enable_x64(True):
        term = Kron(jnp.asarray(A), chain_of(V, O))
        acted, norm = kron.act(term, jnp.asarray(x)), kron.norm(term)
    truth = np.kron(A, (V @ O).T)
    np.testing.assert_allclose(acted.ravel(), truth @ x.ravel(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(norm, np.linalg.norm(truth), rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "head", "move", "process"])
def test_arithmetic_of_terms_and_sums(kind: str, rng: np.random.Generator, x64: None) -> None:
    term, truth = draw(rng)[kind]
    other, other_truth = draw(rng)["full"]
    x = rng.normal(size=(N, D))
    near = {"rtol": 1e-11, "atol": 1e-12}

    def matrix(operator: Kron | KronSum) -> np.ndarray:
        return np.asarray(kron.materialise(operator, **SIZES))

    np.testing.assert_allclose(matrix(3 * term), 3 * truth, **near)
    np.testing.assert_allclose(matrix(term / 4), truth / 4, **near)
    np.testing.assert_allclose(matrix(other - term), other_truth - truth, **near)
    np.testing.assert_allclose(matrix((other - term) * 2), 2 * (other_truth - truth), **near)
    np.testing.assert_allclose(matrix(other @ term), other_truth @ truth, **near)
    acted = (other - term) @ jnp.asarray(x)
    np.testing.assert_allclose(np.ravel(acted), (other_truth - truth) @ x.ravel(), **near)
