"""Roles of heads from weights: eigenvalues, memory, subspaces, and chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import subspace_angles

from circuitax.circuits.weights import heads, spectra
from circuitax.kernel.chain import chain_of, materialise
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spectrum import trace


def _dense_score(matrix):
    values = np.linalg.eigvals(matrix)
    return values.sum().real / np.abs(values).sum()


def test_copying_scores_are_those_of_the_full_circuits(make_run, x64):
    run = make_run(2)
    ov = heads.token_ov(run.model)
    found = jax.jit(spectra.copying_score)(ov)
    dense = np.asarray(materialise(ov))
    expected = [[_dense_score(dense[layer, head]) for head in range(2)] for layer in range(2)]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(trace(ov), dense.trace(axis1=-2, axis2=-1), atol=1e-10)


def test_copying_heads_score_one_and_anticopying_minus_one(rng, x64):
    B = jnp.asarray(np.linalg.qr(rng.normal(size=(9, 3)))[0])
    copy = chain_of(B, B.T)
    np.testing.assert_allclose(spectra.copying_score(copy), 1, atol=1e-12)
    np.testing.assert_allclose(spectra.copying_score(chain_of(-B, B.T)), -1, atol=1e-12)
    # a cyclic shift of three directions has the cube roots of 1: they sum to 0
    turn = jnp.roll(jnp.eye(3), 1, axis=0)
    np.testing.assert_allclose(spectra.copying_score(chain_of(B, turn, B.T)), 0, atol=1e-12)


def test_same_matching_of_an_ideal_induction_pair(make_run, x64):
    """Keys that read what the previous-token head wrote match equal tokens: score 1."""
    run = make_run(2, d_model=6, d_vocab=7)
    attention = run.model.blocks.attention
    queries, keys = spectra.composed_keys(run.model, (0, 1), 1)
    circuit, score = spectra.same_matching(queries, keys, centred=False)
    E, W_V, W_O = run.model.W_E, attention.W_V[0, 1], attention.W_O[0, 1]
    for head in range(2):
        marker = np.asarray(E) @ W_V @ W_O @ attention.W_K[1, head]
        dense = np.asarray(E) @ attention.W_Q[1, head] @ np.asarray(marker).T
        np.testing.assert_allclose(materialise(circuit)[head], dense, atol=1e-12)
        np.testing.assert_allclose(score[head], _dense_score(dense), atol=1e-9)
    ideal = chain_of(E, W_V, W_O)
    _, one = spectra.same_matching(ideal, ideal, centred=False)
    np.testing.assert_allclose(one, 1, atol=1e-10)


def test_random_scores_are_small_at_rank_64():
    """Published null: 0 ± 0.03 at rank 64; the mean is 0 by the symmetry M → -M."""
    null = spectra.random_score(jax.random.key(0), 64, 60)
    assert abs(null.mean) < 5 * 0.03 / np.sqrt(60)
    assert 0.01 < null.std < 0.03


def test_score_of_nothing_is_zero_and_gradients_are_finite(rng, x64):
    assert spectra.eigenvalue_score(jnp.zeros(3, complex)) == 0
    W = jnp.asarray(rng.normal(size=(5, 3)))

    def score(W):
        return spectra.copying_score(chain_of(W, jnp.asarray(rng_fixed)))

    rng_fixed = np.linspace(-1, 1, 15).reshape(3, 5) + np.eye(3, 5)
    slope = jax.grad(score)(W)
    direction = jnp.asarray(rng.normal(size=(5, 3)))
    step = 1e-6
    difference = (score(W + step * direction) - score(W - step * direction)) / (2 * step)
    np.testing.assert_allclose(jnp.vdot(slope, direction), difference, rtol=1e-5)


def test_copying_is_the_share_of_the_own_token(rng, x64):
    W = rng.normal(size=(2, 9, 9))
    tokens = np.array([1, 4, 7, 8])
    found = spectra.copying(chain_of(jnp.asarray(W)), jnp.asarray(tokens))
    for head in range(2):
        own = total = 0.0
        for u in tokens:
            row = W[head, u, tokens] - W[head, u, tokens].mean()
            own += max(W[head, u, u] - W[head, u, tokens].mean(), 0)
            total += np.maximum(row, 0).sum()
        np.testing.assert_allclose(found.score[head], 2 * own / total - 1, rtol=1e-12)
    eye = chain_of(jnp.eye(9))
    np.testing.assert_allclose(spectra.copying(eye, jnp.asarray(tokens)).score, 1)
    np.testing.assert_allclose(
        spectra.copying(chain_of(-jnp.eye(9)), jnp.asarray(tokens)).score, -1
    )
    assert found.null == -0.5


def test_name_movers_attend_to_names_and_copy_them():
    tokens = jnp.array([5, 0, 3, 1, 4])
    names = jnp.array([True, False, True, False, False])
    pattern = jnp.array([[[0.6, 0.1, 0.3, 0.0, 0.0]]] * 3)
    copy, anti = jnp.eye(6), -jnp.eye(6)
    only_one = jnp.eye(6).at[3, 3].set(-1)  # copies token 5 and not token 3
    ov = chain_of(jnp.stack([copy, anti, only_one]))
    found = spectra.name_moving(pattern, ov, tokens, names)
    np.testing.assert_allclose(found.score, [0.9, 0, 0.6], rtol=1e-6)
    assert found.null == 0.2


def test_memory_managers_write_against_the_stream(make_run, x64):
    """A head that attends to itself and writes minus the stream has both signs negative."""
    run = make_run(1, d_model=7, d_value=7, d_head=7)
    attention = run.model.blocks.attention
    eye = jnp.eye(7)
    heads_ = attention._replace(
        W_Q=attention.W_Q.at[0, 0].set(40 * eye),
        W_K=attention.W_K.at[0, 0].set(eye),
        W_V=attention.W_V.at[0, 0].set(eye),
        W_O=attention.W_O.at[0, 0].set(-eye),
    )
    model = run.model.replace(W_E=eye, W_U=eye, blocks=run.model.blocks._replace(attention=heads_))
    ov = heads.token_ov(model)
    found = jax.jit(spectra.memory_management)(run_model(model, jnp.arange(5), outputs=True), ov)
    np.testing.assert_allclose(found.alignment[0, 0], -1, atol=1e-4)
    np.testing.assert_allclose(found.own_token[0, 0], -(1 - 1 / 7), atol=1e-4)
    assert found.alignment[0, 1] > -0.9


def test_principal_angles_are_scipys(rng, x64):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    found = spectra.principal_cosines(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(found, np.sort(np.cos(subspace_angles(x, y)))[::-1], atol=1e-12)
    value = spectra.overlap(jnp.asarray(x), jnp.asarray(y)).value
    np.testing.assert_allclose(value, np.mean(np.cos(subspace_angles(x, y)) ** 2), atol=1e-12)


def test_overlap_does_not_see_the_basis_and_averages_to_its_null(rng):
    x = jnp.asarray(rng.normal(size=(9, 4)), jnp.float32)
    inside = x[:, :2] @ jnp.array([[2.0, 1.0], [0.5, -3.0]])
    np.testing.assert_allclose(spectra.overlap(x, inside).value, 1, atol=1e-5)
    many = jnp.asarray(rng.normal(size=(400, 9, 2)), jnp.float32)
    found = jax.jit(jax.vmap(lambda y: spectra.overlap(x, y).value))(many)
    null = spectra.overlap(x, many[0]).null
    assert null == 4 / 9
    assert abs(found.mean() - null) < 5 * found.std() / 20


@pytest.mark.parametrize(("a", "b"), [(4, 2), (2, 4), (3, 3)])
def test_overlap_spreads_as_stated(a, b, rng, x64):
    """Against 4,000 random pairs: the standard deviation has an error of about 1.1 %."""
    x, y = (jnp.asarray(rng.normal(size=(4000, 9, k))) for k in (a, b))
    found = jax.jit(lambda x, y: spectra.overlap(x, y).value)(x, y)
    std = spectra.overlap(x[0], y[0]).std
    np.testing.assert_allclose(found.std(ddof=1), std, rtol=0.06)
    assert spectra.overlap(jnp.eye(3), jnp.eye(3)[:, :1]).std == 0


def test_bandwidth_by_hand():
    """Two writers on the same plane of a 4-space: half is used, and all of it twice."""
    plane = jnp.eye(4)[:2]
    same = spectra.bandwidth(jnp.stack([plane, 3 * plane]))
    np.testing.assert_allclose([same.written, same.effective, same.reused], [1, 0.5, 1], atol=1e-6)
    apart = spectra.bandwidth(jnp.stack([plane, jnp.eye(4)[2:]]))
    np.testing.assert_allclose([apart.written, apart.effective, apart.reused], [1, 1, 0], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_maps_of_lower_rank_are_refused(scale, rng):
    """A regression: of two equal columns, one gave an arbitrary direction to the overlap."""
    whole = jnp.asarray(rng.normal(size=(9, 3)), jnp.float32) * scale
    other = jnp.asarray(rng.normal(size=(9, 2)), jnp.float32)
    deficient = whole.at[:, 2].set(whole[:, 0] - 2 * whole[:, 1])
    assert np.isfinite(spectra.overlap(whole, other).value)
    message = "has linearly dependent columns, must have full column rank k=3"
    with pytest.raises(ValueError, match=f"x {message}"):
        spectra.overlap(deficient, other)
    with pytest.raises(ValueError, match=f"y {message}"):
        spectra.principal_cosines(other, jnp.zeros((9, 3)))
    with pytest.raises(ValueError, match=f"the transpose of W_O {message}"):
        spectra.bandwidth(jnp.stack([whole.T, deficient.T]))


def test_under_jit_maps_of_lower_rank_are_nan_and_the_others_are_not(rng):
    whole = jnp.asarray(rng.normal(size=(9, 3)), jnp.float32)
    deficient = whole.at[:, 2].set(whole[:, 0])
    other = jnp.asarray(rng.normal(size=(9, 2)), jnp.float32)
    value = jax.jit(jax.vmap(lambda x: spectra.overlap(x, other).value))
    found = value(jnp.stack([whole, deficient]))
    np.testing.assert_allclose(found[0], spectra.overlap(whole, other).value, rtol=1e-6)
    assert np.isnan(found[1])
    assert np.isfinite(jax.grad(lambda x: value(x[None])[0])(whole)).all()
