"""Two-layer circuits: what is refused, what a known circuit measures, and preconditions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known.ground_truth import induction_model
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.spec import TransformerSpec
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.head_roles import roles
from experiments.induction.shared.two_layers import AXES
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.two_layer_circuits.claims import CLAIMS
from experiments.induction.two_layer_circuits.experiment import Spec
from experiments.induction.two_layer_circuits.measures import measure
from experiments.induction.two_layer_circuits.text_readings import text_readings

MODEL = TransformerSpec(d_vocab=32, n_ctx=32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"texts": 0}, "texts=0"),
        ({"chunk": 7}, "chunk=7 must divide optim.steps=40"),
        (
            {"model": TransformerSpec(d_vocab=32, n_ctx=32, n_layers=1)},
            "model.n_layers=1 must be 2",
        ),
        ({"model": TransformerSpec(d_vocab=33)}, "model.d_vocab=33 must equal task.d_vocab=32"),
        (
            {
                "task": RepeatedSource(d_vocab=12, max_period=16),
                "model": TransformerSpec(d_vocab=12, n_ctx=32),
            },
            "max_period=16 must be at most d_vocab=12",
        ),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**{"model": MODEL, "optim": OptimSpec(steps=40), "chunk": 20} | change)


@pytest.fixture(scope="module")
def known() -> dict[str, np.ndarray]:
    """Everything measured of the hand-made induction model on random tokens, repeated."""
    model = induction_model(jax.random.key(0), 12, 16, n_distractors=1)
    block = np.stack([np.random.default_rng(i).permutation(12)[:6] for i in range(3)])
    texts = jnp.asarray(np.tile(block, (1, 3))[:, :16])
    found = jax.jit(text_readings, static_argnames="late")(model, texts, late=7)
    return {name: np.asarray(x) for name, x in (found | weight_readings(model)).items()}


def members(prefix: float, known: dict[str, np.ndarray]) -> xr.Dataset:
    """The known model eight times over, its induction score overwritten."""
    data = xr.Dataset(
        {name: (AXES[name], np.stack([values] * 8)) for name, values in known.items()},
        coords={"kind": list("QKV")},
    )
    data["alive"] = ("member", np.ones(8, bool))
    data["composition_z_at_init"] = 0 * data.composition_z
    data.prefix[:, 1, 0] = prefix
    return roles(data)


def test_preconditions(known: dict[str, np.ndarray]) -> None:
    measured, unmet, _ = measure(Record(members(0.1, known)))
    assert set(measured) == {"ablation-identity"}
    assert set(unmet) == {claim.id for claim in CLAIMS} - {"ablation-identity"}
    assert "only 0 of 8 seeds" in unmet["k-composition-z"]
    measured, unmet, _ = measure(Record(members(0.9, known)))
    assert set(measured) == {claim.id for claim in CLAIMS} and not unmet
    assert measured["k-composition-first"].value == 1
    assert measured["corner-alone"].value > 0
    crowded = members(0.9, known)
    crowded.prefix[:, 1] = 0.9  # every head of layer 1 is an induction head
    _, unmet, _ = measure(Record(roles(crowded)))
    assert set(unmet) == {"corner-alone", "preserving-induction"}
