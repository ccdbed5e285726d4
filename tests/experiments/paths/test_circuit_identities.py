"""The identities experiment: what it refuses, and that each of its errors can be large."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.paths import expansion
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init
from circuitax.records.record import Record
from experiments.paths.circuit_identities import experiment as circuit_identities
from experiments.paths.circuit_identities import readings
from experiments.paths.circuit_identities.claims import CLAIMS
from experiments.paths.circuit_identities.measures import measure

MODEL = TransformerSpec(d_vocab=9, n_ctx=5, n_layers=2, n_heads=2, d_model=8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"score_heads": 0}, "score_heads=0"),
        ({"max_depth": 1}, "max_depth=1 must be from 2 to 5"),
        ({"max_depth": 6}, "max_depth=6"),
        ({"random": TransformerSpec(n_layers=1)}, "random.n_layers=1 must be 2"),
        ({"model": TransformerSpec(biases=True)}, "model.biases"),
        ({"model": TransformerSpec(d_mlp=4)}, "model.d_mlp"),
        ({"model": TransformerSpec(n_ctx=None, positions=Positions.none)}, "model.n_ctx=None"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        circuit_identities.Spec(**change)


def test_a_wrong_term_shows_in_every_sum(x64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One head's values doubled in the frozen model, but not in the forward pass."""
    seen = run_model(init(jax.random.key(0), MODEL, jnp.float64), [1, 4, 2, 4, 8])
    errors = jax.jit(readings.of_paths)(seen)
    assert set(errors) == set(circuit_identities.CHECKS)
    assert max(float(error) for error in errors.values()) < 1e-14
    original = readings.frozen_model

    def planted(*args, **options):
        model = original(*args, **options)
        return model._replace(W_V=model.W_V.at[0, 0].multiply(2))

    for module in (readings, expansion):
        monkeypatch.setattr(module, "frozen_model", planted)
    jax.clear_caches()  # what was compiled before has the true values
    try:
        planted_errors = readings.of_paths(seen)
    finally:
        jax.clear_caches()
    for name in ("paths", "orders", "ablation"):
        assert planted_errors[name] > 1e-3, name


def test_spectra_are_paired_whatever_their_order() -> None:
    small = np.array([1 + 1j, 1 - 1j])
    assert readings._spectra_apart(small, np.array([0, 1 - 1j, 0, 1 + 1j])) == 0
    assert readings._spectra_apart(small, np.array([0, 1 - 1j, 0.5, 1 + 1j])) == 0.5


def test_float32_settles_no_float64_identity() -> None:
    claims = {claim.id for claim in CLAIMS if claim.kind == "identity"}
    ones = xr.DataArray(np.zeros((1, 6, 2)), dims=("arm", "check", "member"))
    data = xr.Dataset(
        {
            "path_error": ones,
            "path_error_float32": ("member", np.zeros(2)),
            "spectral_error": (("member", "check_spectral"), np.zeros((2, 4))),
            "score_error": (("positions", "member"), np.zeros((2, 2))),
            "score_count": (("positions", "member"), np.full((2, 2), 9)),
            "random_composition": (
                ("member", "kind", "writer", "reader"),
                np.random.default_rng(0).normal(size=(2, 3, 2, 2)),
            ),
            "random_copying": (("member", "head"), np.random.default_rng(1).normal(size=(2, 4))),
            "random_d_model": 8,
            "float64": False,
        },
        coords={
            "check": list(circuit_identities.CHECKS),
            "check_spectral": list(circuit_identities.SPECTRAL),
            "positions": ["none", "shortformer"],
        },
    )
    measured, _, not_run = measure(Record(data, {"score_heads": 2, "random_d_head": 4}))
    assert set(not_run) == claims - {"identity-paths-float32"}
    assert measured["identity-score-count"].value == 7  # 9 terms where positions make it 16
