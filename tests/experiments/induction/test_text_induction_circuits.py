"""The induction circuit on text: refusals, precondition, and a hand-made circuit in its corner."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.known import induction_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import notes_of_kept
from circuitax.lab.lab import Lab
from circuitax.records.claims import FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.null_samples import exchanged
from circuitax.records.record import Record
from experiments.induction.shared.head_roles import roles
from experiments.induction.shared.two_layers import circuit_data
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.shared.window_readings import window_readings
from experiments.induction.text_induction_circuits import experiment as text_induction_circuits
from experiments.induction.text_induction_circuits import measures
from experiments.induction.text_induction_circuits.claims import CLAIMS
from experiments.induction.text_induction_circuits.experiment import Spec, _at_repeats
from experiments.induction.text_induction_circuits.measures import measure


@pytest.mark.parametrize("name", ["windows", "offsets", "repeats"])
def test_refusals(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        Spec(**{name: 0})


def test_distances_longer_than_half_the_text_are_refused(tmp_path: Path) -> None:
    kept = notes_of_kept({"2-layers-primed": TransformerSpec(n_layers=2, n_ctx=8)}, [0, 10])
    Record(notes=kept).save(tmp_path / "models")
    lab = Lab(tmp_path / "work", inputs={"text_induction": tmp_path / "models"})
    with pytest.raises(ValueError, match="offsets=5 must be at most half of n_ctx=8"):
        text_induction_circuits.run(Spec(offsets=5), jax.random.key(0), lab)


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """Two hand-made induction models, measured as trained ones are."""
    blocks = np.stack([np.random.default_rng(i).permutation(np.arange(1, 10))[:5] for i in (0, 1)])
    start = np.zeros((2, 1), int)
    texts = jnp.asarray(np.concatenate([start, blocks, blocks, blocks[:, :1]], axis=1))
    made = [induction_model(jax.random.key(seed), 10, 12, n_distractors=1) for seed in (0, 1)]
    models = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)

    def measured(one):
        scores = induction_scores(one, texts)
        runs = window_readings(one, texts, 4) | {"prefix": scores.prefix}
        return weight_readings(one), runs, scores.previous, _at_repeats(one, texts)

    read, runs, previous, seen = jax.tree.map(np.asarray, jax.jit(jax.vmap(measured))(models))
    nothing = {name: 0 * values for name, values in read.items()}
    found = circuit_data(nothing, read, runs)
    heads = ("member", "layer", "head")
    found["previous"] = (heads, previous)
    for name, values in seen.items():
        found[name] = (("where", *heads), np.stack([values, values]))
    found = found.assign_coords(where=["text", "random"])
    found["uniform"] = np.log(10)
    found["alive"] = ("member", np.ones(2, bool))
    return roles(found)


def test_a_known_circuit_is_found(data: xr.Dataset) -> None:
    measured, unmet, _ = measure(Record(data))
    assert set(measured) == {claim.id for claim in CLAIMS} and not unmet
    value = {name: estimate.value for name, estimate in measured.items()}
    assert value["primed-previous"] > 0.99
    assert value["primed-k-composition"] > 3 and value["primed-k-above-v"] > 3
    assert min(value["primed-copying"], value["primed-matching"]) > 0.8
    assert value["primed-corner-alone"] == 1
    assert value["primed-attends"] == 1
    assert value["primed-stripes"] > 0.9
    # The distractor, a head without a score, does not count; another head with one does.
    blurred = data.assign(stripes=data.stripes / 4, prefix=data.prefix.where(data.layer == 0, 0.5))
    assert measure(Record(blurred)).estimates["primed-stripes"].value < 0.2
    assert value["primed-raises"] == pytest.approx(8 * 9 / 10, rel=0.03)
    assert value["primed-previous-through-patterns"] > 0.2


def test_a_head_that_copies_and_matches_without_induction_is_in_the_corner(
    data: xr.Dataset,
) -> None:
    everywhere = data.assign(copying=data.copying * 0 + 0.9, matching=data.matching * 0 + 0.9)
    assert measure(Record(everywhere)).estimates["primed-corner-alone"].value == 0
    # A head that matches somewhat is neither an induction head nor one that matches nothing.
    all_match = data.assign(prefix=np.maximum(data.prefix, 0.3))
    assert "only 0 of 2 seeds" in measure(Record(all_match)).unmet["primed-corner-alone"]


def test_without_the_head_every_claim_is_out_of_reach(data: xr.Dataset) -> None:
    measured, unmet, _ = measure(Record(roles(data.assign(prefix=0.1 * data.prefix))))
    assert measured == {} and set(unmet) == {claim.id for claim in CLAIMS}
    assert "only 0 of 2 primed seeds" in unmet["primed-copying"]


def test_nulls_tell_what_training_made_from_what_was_there(
    data: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "exchanged", partial(exchanged, n_draws=100))
    eight = data.isel(member=[0, 1] * 4)
    of_weights = ("composition_z", "copying", "matching")
    before = {f"{name}_at_init": eight[name] for name in of_weights}
    two_back = eight.attention.copy(data=eight.attention.roll(offset=1))

    def verdicts(**changes: xr.DataArray) -> dict[str, str]:
        record = Record(eight.assign(changes))
        return {
            s.claim.id: s.verdict for s in settle(CLAIMS, *measure(record), measures.nulls(record))
        }

    names = ("primed-copying", "primed-matching")
    found, none = verdicts(), verdicts(**before)
    assert {found[name] for name in names} == {HOLDS}
    assert {none[name] for name in names} == {WOULD_HOLD}
    # Either first-layer head is the one that composes, in half of the models each.
    turned = eight.composition_z.roll(writer=1).where(eight.member % 2 > 0, eight.composition_z)
    assert found["primed-k-composition"] == HOLDS
    assert verdicts(composition_z=turned)["primed-k-composition"] != HOLDS
    # Q-composition of the same two heads, or that of the other first-layer head, is stronger.
    k = eight.composition_z.sel(kind="K").max()
    for same in (True, False):
        rival = (eight.kind == "Q") & ((eight.writer == eight.previous_head) == same)
        above = verdicts(composition_z=eight.composition_z.where(~rival, k + 5))
        assert (above["primed-k-composition"], above["primed-k-above-v"]) == (FAILS, HOLDS)
    # All heads make the token less likely, by as much as they made it likely, and half more.
    lower = eight.raises - 1.5 * eight.raises.max()
    assert found["primed-raises"] == HOLDS
    assert verdicts(raises=lower)["primed-raises"] == FAILS
    # A first-layer head that raises it as much, or more, in half of the models.
    as_much = eight.raises.max() + 1
    beside = eight.raises.where((eight.layer == 1) | (eight.member % 2 == 0), as_much)
    assert verdicts(raises=beside)["primed-raises"] != HOLDS
    # Its null is the best of as many heads at the token two back.
    assert found["primed-previous"] == HOLDS
    everywhere = verdicts(attention=np.maximum(eight.attention, two_back))
    assert everywhere["primed-previous"] == WOULD_HOLD
    # Every head of a layer attends to the match: so does one that is no induction head.
    assert found["primed-attends"] == HOLDS
    for layer in (0, 1):
        alike = eight.top_is_match.where(eight.layer != layer, 1)
        assert verdicts(top_is_match=alike)["primed-attends"] == WOULD_HOLD
    # In seven places of ten, and not in six.
    for share, verdict in ((0.71, HOLDS), (0.6, FAILS)):
        assert verdicts(top_is_match=share * eight.top_is_match)["primed-attends"] == verdict
