"""Circuits on text: what is refused, what a known circuit measures, and preconditions of claims."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import induction_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import notes_of_kept
from circuitax.lab.lab import Lab
from circuitax.records.claims import ABSENT, FAILS, HOLDS, WOULD_HOLD, SettledClaim, settle
from circuitax.records.record import Record
from experiments.induction.shared.two_layers import n_ctx_for
from experiments.induction.shared.window_readings import order_losses, window_readings
from experiments.induction.text_circuits import experiment as text_circuits
from experiments.induction.text_circuits.claims import CLAIMS
from experiments.induction.text_circuits.experiment import Spec
from experiments.induction.text_circuits.measures import measure, nulls


@pytest.mark.parametrize(("name", "least"), [("windows", 1), ("offsets", 2), ("repeats", 1)])
def test_refusals(name: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name}={least - 1} must be at least {least}"):
        Spec(**{name: least - 1})


def test_models_of_one_layer_are_refused(tmp_path: Path) -> None:
    upstream = Record(notes=notes_of_kept({"layers-1": TransformerSpec(n_layers=1)}, [0]))
    upstream.save(tmp_path / "models")
    lab = Lab(tmp_path / "work", inputs={"text_models": tmp_path / "models"})
    with pytest.raises(ValueError, match="model=layers-2 must be one of layers-1"):
        text_circuits.run(Spec(), jax.random.key(0), lab)


def test_distances_longer_than_half_the_text_are_refused() -> None:
    assert n_ctx_for(TransformerSpec(n_ctx=8), 4) == 8
    with pytest.raises(ValueError, match="offsets=5 must be at most half of n_ctx=8"):
        n_ctx_for(TransformerSpec(n_ctx=8), 5)


def test_a_known_circuit_on_windows() -> None:
    """The previous-token head looks one back, and acts through patterns alone."""
    model = induction_model(jax.random.key(0), 10, 12, n_distractors=1)
    block = np.random.default_rng(0).permutation(np.arange(1, 10))[:5]
    windows = jnp.asarray(np.concatenate([[0], block, block, block[:1]])[None])
    found = window_readings(model, windows, 4)
    np.testing.assert_allclose(found["attention"][0, 0], [0, 1, 0, 0], atol=1e-3)
    assert found["order_loss"].shape == (3,) and found["first_order_loss"].shape == (5,)
    np.testing.assert_allclose(found["order_loss"][-1], found["loss"], rtol=1e-5)
    np.testing.assert_allclose(found["first_order_loss"][-1], found["loss"], rtol=1e-5)
    assert found["ablated"][0, 0] - found["loss"] > 0.2
    np.testing.assert_allclose(found["ablated_preserving"][0, 0], found["loss"], rtol=1e-3)
    assert found["positional"][0] > 0.99


def test_checkpoints_of_members_are_read_in_their_order() -> None:
    """Steps first, members second: each cell is the loss of its own weights."""
    model = induction_model(jax.random.key(0), 10, 12, n_distractors=1)
    windows = jnp.asarray(np.random.default_rng(0).integers(0, 10, (2, 12)))
    factors = jnp.array([[0.0, 0.5, 1.0], [0.2, 0.7, 0.4]])  # step, member
    every = jax.tree.map(lambda W: jnp.multiply.outer(factors, W), model)
    found = jax.jit(jax.vmap(jax.vmap(lambda model: order_losses(model, windows))))(every)
    for step, member in np.ndindex(2, 3):
        one = jax.tree.map(lambda W, at=(step, member): W[at], every)
        expected = window_readings(one, windows, 2)["order_loss"]
        np.testing.assert_allclose(found[step, member], expected, rtol=1e-5)
    assert np.ptp(np.asarray(found)[..., -1]) > 0.1


def dataset(previous: float, prefix: float) -> xr.Dataset:
    """Eight seeds of a made-up model with these scores of its best heads."""
    members, rng = 8, np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=members)
    attention = np.full((members, 2, 2, 4), 0.1)
    attention[..., 0] = 0.2
    attention[:, 0, 0, 1] = previous
    prefixes = np.zeros((members, 2, 2))
    prefixes[:, 1, 1] = prefix
    z = np.full((members, 3, 2, 2), -1.0) + noise[:, None, None, None]
    z[:, 1, 0, 1] = 9
    order = np.array([4.0, 2.0, 1.5]) + noise[:, None]
    untrained = np.array([5.1, 5.11, 5.13]) + noise[:, None] * [1, 2, 3]
    first = np.array([4.0, 3.0, 2.2, 2.0, 1.5]) + noise[:, None]
    heads = ("member", "layer", "head")
    return xr.Dataset(
        {
            "order_loss": (("member", "order"), order),
            "first_order_loss": (("member", "selection"), first),
            "composition_z": (("member", "kind", "writer", "reader"), z),
            "composition_z_at_init": (("member", "kind", "writer", "reader"), 0 * z),
            "matching_at_init": (("member", "writer", "reader"), np.zeros((members, 2, 2))),
            "order_loss_by_step": (("step", "member", "order"), np.stack([untrained, order])),
            "copying": (heads, np.full((members, 2, 2), 0.9) + noise[:, None, None]),
            "copying_at_init": (heads, np.zeros((members, 2, 2))),
            "matching": (("member", "writer", "reader"), np.full((members, 2, 2), 0.8)),
            "attention": ((*heads, "offset"), attention),
            "positional": (("member", "head"), np.full((members, 2), 0.9) + noise[:, None]),
            "ablated": (heads, np.full((members, 2, 2), 2.1)),
            "ablated_preserving": (heads, np.full((members, 2, 2), 2.0) + noise[:, None, None]),
            "prefix": (heads, prefixes),
            "alive": ("member", np.ones(members, bool)),
            "uniform": 5.0,
            "bigram_loss": 3.0,
            "n_ctx": 64,
        },
        coords={"kind": list("QKV")},
    )


def test_marginals_are_what_terms_take_off_the_loss() -> None:
    measured, _, _ = measure(Record(dataset(0.9, 0.9)))
    values = {name: estimate.value for name, estimate in measured.items()}
    assert values["text-order-1-above-0"] == pytest.approx(2 - 1, abs=0.02)
    assert values["text-order-1-above-2"] == pytest.approx(2 - 0.5, abs=0.02)
    assert values["text-order-0-above-bigram"] == pytest.approx(4 - 3, abs=0.02)
    # the first layer: 1.0 given the direct path, 0.2 given the second layer, whose own is 1.0
    assert values["text-layer-0-redundant"] == pytest.approx(1 - 0.2, abs=0.02)
    assert values["text-layer-0-nearly-redundant"] == pytest.approx(0.2 / 1, abs=0.02)
    assert values["text-layer-1-above-0"] == pytest.approx(1 - 0.2, abs=0.02)


def settled(data: xr.Dataset) -> list[SettledClaim]:
    record = Record(data)
    return settle(CLAIMS, *measure(record), nulls(record))


def test_draws_of_the_null_lose_what_is_claimed() -> None:
    verdicts = {v.claim.id: v for v in settled(dataset(0.9, 0.9))}
    for name in ("text-order-0", "text-k-composition", "text-corner"):
        outcome = verdicts[name].null
        assert outcome is not None and outcome.n == 1 and not outcome.holds, name
    for name in ("text-order-1-above-2", "text-local"):
        outcome = verdicts[name].null
        assert outcome is not None and outcome.n == 1000 and verdicts[name].verdict == HOLDS, name


def test_one_trained_head_makes_the_mean_over_heads_rise() -> None:
    data = dataset(0.9, 0.9)
    data.copying[..., 0] -= 0.1
    (found,) = (v for v in settled(data) if v.claim.id == "text-copying-rises")
    assert found.verdict == WOULD_HOLD and found.null is not None
    # One of two heads rises by 0.9.
    assert found.null.n == found.null.holding and found.null.median == pytest.approx(0.45, abs=0.02)


def test_heads_of_both_layers_must_copy() -> None:
    data = dataset(0.9, 0.9)
    data.copying[::2, 0] = -0.3
    data.copying[1::2, 1] = -0.2
    (found,) = (v for v in settled(data) if v.claim.id == "text-copying-rises")
    assert found.verdict == FAILS and found.estimate is not None
    assert found.estimate.value == pytest.approx(-0.25)


def test_claims_about_heads_need_the_heads() -> None:
    with_heads = settled(dataset(0.9, 0.9))
    without = settled(dataset(0.2, 0.1))
    named = {"text-k-composition", "text-corner"}
    assert {v.verdict for v in with_heads if v.claim.id in named} == {HOLDS}
    reasons = {v.claim.id: v.reason for v in without if v.verdict == ABSENT}
    assert set(reasons) == named
    assert "none of 8 seeds has an induction head: the best score is 0.10" in reasons["text-corner"]
    one = dataset(0.2, 0.1)
    one.attention[3, 0, 0, 1] = 0.9
    (alone,) = (v for v in settled(one) if v.claim.id == "text-k-composition")
    assert alone.verdict == ABSENT and alone.reason.startswith("only one of 8 seeds has a previous")
