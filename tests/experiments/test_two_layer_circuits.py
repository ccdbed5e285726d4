"""Two-layer circuits: what is refused, what a known circuit measures, and preconditions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.ground_truth import induction_model
from circuitax.data.repeated import RepeatedSource
from circuitax.models.specs import TransformerSpec
from circuitax.records.head_roles import roles
from circuitax.training.optim import OptimSpec
from experiments.two_layer_circuits.claims import estimates
from experiments.two_layer_circuits.experiment import CLAIMS, Spec
from experiments.two_layer_circuits.readings import of_texts, of_weights

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
    weights, spec = induction_model(jax.random.key(0), 12, 16, n_distractors=1)
    block = np.stack([np.random.default_rng(i).permutation(12)[:6] for i in range(3)])
    texts = jnp.asarray(np.tile(block, (1, 3))[:, :16])
    found = jax.jit(of_texts, static_argnums=(2, 3))(weights, texts, 7, spec)
    return {name: np.asarray(x) for name, x in (found | of_weights(weights, spec)).items()}


def test_the_known_induction_head_is_what_the_claims_name(known: dict[str, np.ndarray]) -> None:
    assert known["previous"][0, 0] > 0.9 and known["prefix"][1, 0] > 0.9
    # The first token of a text marks itself, having no predecessor, and is as good a match.
    assert known["stripes"][1, 0] > 0.85 > known["stripes"][0].max() + 0.5
    assert known["top_is_match"][1, 0] > 0.85
    assert 0.85 * 8 * 11 / 12 < known["raises"][1, 0] < 8 * 11 / 12  # 8, less the mean's
    assert np.abs(known["raises"][0]).max() < 0.5
    assert known["identity"] < 1e-5
    assert known["ablated"][0, 0] - known["loss"] > 1 > known["ablated_preserving"][0, 0]
    # The known head finds its match by keys that head 0.0 wrote, and by nothing else.
    whole, no_q, no_k, neither = known["score_loss"]
    np.testing.assert_allclose([whole, no_q], known["loss"], atol=0.05)
    assert no_k - whole > 1 and neither - whole > 1


def members(prefix: float, known: dict[str, np.ndarray]) -> xr.Dataset:
    """The known model eight times over, its induction score overwritten."""
    heads, pairs = ("member", "layer", "head"), ("member", "writer", "reader")
    axes = {
        "composition_z": ("member", "kind", "writer", "reader"), "copying": heads,
        "matching": pairs, "order_loss": ("member", "order"), "identity": ("member",),
        "first_order_loss": ("member", "selection"), "ablated": heads, "loss": ("member",),
        "ablated_preserving": heads, "stripes": heads, "top_is_match": heads, "raises": heads,
        "prefix": heads, "previous": heads, "score_loss": ("member", "score_selection"),
    }  # fmt: skip
    data = xr.Dataset(
        {name: (dims, np.stack([known[name]] * 8)) for name, dims in axes.items()},
        coords={"kind": list("QKV")},
    )
    data["alive"] = ("member", np.ones(8, bool))
    data["composition_z_at_init"] = 0 * data.composition_z
    data.prefix[:, 1, 0] = prefix
    return roles(data)


def test_preconditions(known: dict[str, np.ndarray]) -> None:
    measured, unmet = estimates(members(0.1, known))
    assert set(measured) == {"ablation-identity"}
    assert set(unmet) == {claim.id for claim in CLAIMS} - {"ablation-identity"}
    assert "only 0 of 8 seeds" in unmet["k-composition-z"]
    measured, unmet = estimates(members(0.9, known))
    assert set(measured) == {claim.id for claim in CLAIMS} and not unmet
    assert measured["k-composition-first"].value == 1
    assert measured["corner-alone"].value > 0
    crowded = members(0.9, known)
    crowded.prefix[:, 1] = 0.9  # every head of layer 1 is an induction head
    _, unmet = estimates(roles(crowded))
    assert set(unmet) == {"corner-alone"}
