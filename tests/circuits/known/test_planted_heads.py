"""Heads of planted strength do what was planted, and as much of it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.known import Strengths, offset_model, planted_model
from circuitax.circuits.weights.heads import head_qk, position_vectors, token_ov
from circuitax.circuits.weights.spectra import composed_keys
from circuitax.kernel.chain import materialise

TEXT = jnp.tile(jnp.array([5, 2, 7, 0, 3]), (1, 3))


def planted(strength: float, n_heads: int = 1) -> Strengths:
    return Strengths(*(jnp.full(n_heads, strength) for _ in range(3)))


def test_heads_of_strength_one_are_an_induction_circuit() -> None:
    model = planted_model(jax.random.key(0), planted(1.0), 8, 15)
    scores = induction_scores(model, TEXT)
    # The first token has no predecessor and marks itself: its repeats have two matches.
    assert scores.previous[0, 0] > 0.99 and scores.prefix[1, 0] > 0.9
    np.testing.assert_allclose(
        materialise(token_ov(model, centred=False))[1, 0], np.eye(8), atol=1e-6
    )


def test_heads_of_strength_minus_one_avoid_and_take_back() -> None:
    model = planted_model(jax.random.key(0), planted(-1.0), 8, 15)
    scores = induction_scores(model, TEXT)
    assert scores.previous[0, 0] < 1e-3
    np.testing.assert_allclose(
        materialise(token_ov(model, centred=False))[1, 0], -np.eye(8), atol=1e-6
    )


def test_the_planted_share_of_a_circuit_is_its_strength() -> None:
    strengths = Strengths(jnp.array([1.0, 1.0]), jnp.array([0.6, -0.2]), jnp.array([0.3, 0.8]))
    V = 400
    model = planted_model(jax.random.key(1), strengths, V, 4)
    for head in range(2):
        ov = np.asarray(materialise(token_ov(model, centred=False)))[1, head]
        queries, keys = composed_keys(model, (0, 0), 1)
        qk = np.asarray(materialise(queries))[head] @ np.asarray(materialise(keys))[head].T
        for circuit, strength in ((ov, strengths.copying), (qk, strengths.matching)):
            cosine = np.trace(circuit) / np.linalg.norm(circuit) / np.sqrt(V)
            # The random part has a trace of its own, of size 1 beside a norm of 20.
            assert cosine == pytest.approx(float(strength[head]), abs=4 / V)


def test_random_parts_differ_from_head_to_head_and_from_part_to_part() -> None:
    nothing = jax.tree.map(np.asarray, planted_model(jax.random.key(1), planted(0.0, 2), 12, 12))
    heads = nothing.blocks.attention
    drawn = [
        heads.W_Q[layer, head, rows, :12] / 24
        for layer, head, rows in (
            (0, 0, slice(12, 24)),
            (0, 1, slice(12, 24)),
            (1, 0, slice(0, 12)),
            (1, 1, slice(0, 12)),
        )
    ]
    drawn += [heads.W_V[1, head, :12, :12] for head in (0, 1)]
    flat = np.stack([part.ravel() / np.linalg.norm(part) for part in drawn])
    assert np.abs(flat @ flat.T - np.eye(6)).max() < 0.3  # 144 numbers: 0.08 is their deviation
    # As large as what is planted: the shift by one has 11 entries, the identities 12.
    sizes = [np.linalg.norm(part) for part in drawn]
    np.testing.assert_allclose(sizes, np.sqrt([11, 11, 12, 12, 12, 12]), rtol=0.25)


def test_the_score_of_a_shift_is_a_sum_of_cosines() -> None:
    with jax.enable_x64(True):
        offsets, d = np.array([0, 1, 5]), 12
        model = offset_model(jax.random.key(0), jnp.asarray(offsets), 6, d, 1.5)
        P = np.asarray(position_vectors(model, 9))
        qk = np.asarray(materialise(head_qk(model.blocks.attention, 1.0)))[0]
        frequencies = 10_000.0 ** (-np.arange(0, d, 2) / d)
        t, s = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
        for head, offset in enumerate(offsets):
            expected = 1.5 * np.cos(frequencies * (t - s - offset)[..., None]).sum(-1)
            np.testing.assert_allclose(P @ qk[head] @ P.T, expected, rtol=1e-9, atol=1e-9)


def test_layers_of_unequal_size_are_refused() -> None:
    uneven = Strengths(jnp.ones(2), jnp.ones(3), jnp.ones(2))
    with pytest.raises(ValueError, match=r"\[2, 3\] heads"):
        planted_model(jax.random.key(0), uneven, 8, 4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"d_vocab": 1}, "d_vocab"),
        ({"n_ctx": 1}, "n_ctx"),
        ({"sharpness": 0.0}, "sharpness"),
        ({"strengths": planted(1.5)}, r"strengths\.previous"),
    ],
)
def test_what_cannot_be_planted_is_refused(changed: dict[str, Any], said: str) -> None:
    good = {"strengths": planted(0.5), "d_vocab": 8, "n_ctx": 4}
    with pytest.raises(ValueError, match=said):
        planted_model(jax.random.key(0), **(good | changed))


@pytest.mark.parametrize(
    ("offsets", "d_model", "gain", "said"),
    [
        ([0, 1], 11, 1.0, "d_model=11"),
        ([0, -1], 12, 1.0, "offsets"),
        ([0, 1], 12, 0.0, "gain"),
    ],
)
def test_offsets_that_no_rotation_gives_are_refused(
    offsets: list[int], d_model: int, gain: float, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        offset_model(jax.random.key(0), jnp.array(offsets), 6, d_model, gain)
