"""Planted heads: the paper's trace, and how a record made by hand settles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import Strengths, planted_model
from circuitax.records.claims import HOLDS, WOULD_HOLD, settle
from circuitax.records.record import Record
from experiments.induction.planted_heads import measures
from experiments.induction.planted_heads.claims import CLAIMS
from experiments.induction.planted_heads.experiment import qk_trace
from experiments.induction.planted_heads.measures import measure, nulls


def test_the_trace_is_that_of_dense_circuits_weighted_by_previous_scores() -> None:
    with jax.enable_x64(True):
        strengths = Strengths(*(jnp.array([0.3, -0.4]) for _ in range(3)))
        model = planted_model(jax.random.key(3), strengths, 6, 5)
        weights = np.array([0.7, 0.2])
        found = np.asarray(qk_trace(model, jnp.asarray(weights)))
        W = {name: np.asarray(value) for name, value in model.named().items()}
        E = W["W_E"]
        Q, K, V, O = (W[f"blocks.attention.W_{name}"] for name in "QKVO")
        for head in range(2):
            expected = 0.0
            for writer in range(2):
                circuit = E @ Q[1, head] @ (E @ V[0, writer] @ O[0, writer] @ K[1, head]).T
                expected += weights[writer] * np.trace(circuit - circuit.mean(axis=1)[:, None])
            np.testing.assert_allclose(found[head], expected, rtol=1e-9)


def test_claims_are_rank_correlations_over_the_heads_of_a_model() -> None:
    copying = np.array([-1.0, -0.5, -0.2, 0.5])
    rows = {
        "planted_copying": copying,
        "planted_matching": [0.0, 0.3, 0.6, 1.0],
        "planted_previous": [0.0, 0.3, 0.6, 1.0],
        "previous": [0.1, 0.2, 0.4, 0.3],
        "prefix": [0.1, 0.2, 0.3, 0.9],
        "qk_trace": [0.0, 1.0, 3.0, 2.0],
        "eigenvalues": copying**3,
        "cosine": copying / 2,
        "raised": [0.0, 0.0, 0.0, 1.0],
    }
    data = xr.Dataset(
        {name: (("member", "head"), np.array([row, row], float)) for name, row in rows.items()}
    )
    at = np.array([[0.6, 0.4], [0.7, 0.3]])
    data["at_offset"] = (("member", "asked", "offset"), np.array([at, at]))
    value = {k: v.value for k, v in measure(Record(data=data)).estimates.items()}
    assert value["planted-eigenvalues-known"] == pytest.approx(1)
    assert value["planted-previous-known"] == pytest.approx(0.8)
    assert value["planted-matching"] == pytest.approx(0.8)
    assert value["planted-erasing-seen"] == pytest.approx(1)
    assert value["planted-erasing-unseen"] == pytest.approx(-1)  # all the same: orders none
    assert value["planted-offsets"] == pytest.approx(0.5)


def test_weights_of_other_models_tell_whether_scores_share_more_than_their_strength(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 2)
    rng, n = np.random.default_rng(0), 16
    strength = np.stack([rng.permutation(np.linspace(-1, 1, 8)) for _ in range(n)])
    own = rng.normal(size=strength.shape)

    def verdicts(seen: np.ndarray) -> set[str]:
        names = ("eigenvalues", "raised", "cosine", "qk_trace", "prefix", "previous")
        planted = {f"planted_{name}": strength for name in ("copying", "matching", "previous")}
        rows = dict.fromkeys(names, seen) | planted
        data = xr.Dataset({name: (("member", "head"), row.copy()) for name, row in rows.items()})
        data["at_offset"] = (("member", "asked", "offset"), np.stack([np.eye(3)] * n))
        record = Record(data=data)
        found = settle(CLAIMS, *measure(record), nulls=nulls(record))
        asked = ("planted-copying", "planted-matching")
        return {row.verdict for row in found if row.claim.id in asked}

    assert verdicts(strength**3) == {WOULD_HOLD}
    assert verdicts(own) == {HOLDS}
