"""Circuits of neurons: grammars, scores and means against one pass, claims with planted numbers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.groups import carried_back, neuron_flows
from circuitax.figures.spec import draw_all
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.models.sources import HOW, has_smollm2
from circuitax.models.text_tokenizer import load_tokenizer
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, WOULD_HOLD, settle
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits import experiment, figure
from experiments.real_models.neuron_circuits.circuits import (
    METHODS,
    Nodes,
    leads_with,
    read,
    scores,
)
from experiments.real_models.neuron_circuits.claims import CLAIMS
from experiments.real_models.neuron_circuits.experiment import PARTS, Spec, first_of
from experiments.real_models.neuron_circuits.measures import crossing, measure, nulls, shares
from experiments.real_models.neuron_circuits.tasks import TASKS, drawn_pairs, most_pairs

TEXTS = jnp.asarray([[3, 9, 1, 7], [4, 9, 2, 7], [3, 8, 1, 6]])
RIGHT, WRONG = jnp.asarray([5, 11, 20]), jnp.asarray([6, 12, 21])


@pytest.mark.parametrize("task", TASKS)
def test_what_is_right_follows_from_the_sentence(task: str) -> None:
    n = most_pairs()
    found = drawn_pairs("random", task, n, np.random.default_rng(0))
    assert found.tokens.shape[:3] == (2, n, 2)
    np.testing.assert_array_equal(found.right, found.wrong[..., ::-1])
    assert (found.right != found.wrong).all()
    for half in range(2):
        assert len(np.unique(found.tokens[half].reshape(n, -1), axis=0)) == n
    # Sentences of a pair differ in one word, and the last is the same.
    differ = found.tokens[:, :, 0] != found.tokens[:, :, 1]
    assert (differ.sum(axis=-1) == 1).all() and not differ[..., -1].any()
    if task == "indirect object":
        assert ((found.tokens == found.right[..., None]).sum(axis=-1) == 1).all()
        assert ((found.tokens == found.wrong[..., None]).sum(axis=-1) == 2).all()
    else:
        subject = found.tokens[..., 1]
        for word in set(subject.ravel().tolist()):
            assert len(set(found.right[subject == word].tolist())) == 1
        assert not set(subject[0].ravel().tolist()) & set(subject[1].ravel().tolist())


def test_more_pairs_than_a_grammar_has_are_refused() -> None:
    with pytest.raises(ValueError, match="pairs=61 must be at most 60"):
        Spec("random", 61)
    with pytest.raises(ValueError, match="n=61 must be at most 60"):
        drawn_pairs("random", "pronoun", 61, np.random.default_rng(0))
    with pytest.raises(ValueError, match="task='rhyme' must be one of"):
        drawn_pairs("random", "rhyme", 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"random_sizes=\(5,\) must be some of"):
        Spec("random", 3, (2, 8), 1, (5,))


@pytest.mark.skipif(not has_smollm2(), reason=f"no weights: {HOW}")
@pytest.mark.parametrize("task", TASKS)
def test_words_of_smollm2_are_english(task: str) -> None:
    found = drawn_pairs("smollm2", task, 40, np.random.default_rng(0))
    tokenizer = load_tokenizer("smollm2")
    text = tokenizer.decode([*found.tokens[0, 0, 0], found.right[0, 0, 0]])
    first = {"agreement": "The ", "pronoun": "Then ", "indirect object": "When "}[task]
    assert text.startswith(first)
    assert len(text.replace(",", " ,").split()) == found.tokens.shape[-1] + 1


def test_scores_are_those_of_flows_and_of_small_changes() -> None:
    with jax.enable_x64(True):
        model = open_weights("random", jax.random.key(0))
        seen = read(model, TEXTS, RIGHT, WRONG)
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape[1:]), seen.nodes)
        found = scores(model, TEXTS, RIGHT, WRONG, zero)
        one = forward_run(model, TEXTS[1], outputs=True)
        frozen = frozen_model(one)
        direction = frozen.read_out.W_U[:, 11] - frozen.read_out.W_U[:, 12]
        flows = neuron_flows(one, frozen, 3, direction).sum(axis=1)
        np.testing.assert_allclose(found.neurons[1, 0], flows, atol=1e-12)
        shared = frozen_model(one, gates="shared")
        relp = neuron_flows(one, shared, 3, direction).sum(axis=1)
        np.testing.assert_allclose(found.neurons[1, METHODS.index("RelP")], relp, atol=1e-12)
        assert np.abs(relp - flows).max() > 1e-3
        written, wrote = carried_back(shared, 3, direction).written, one.head_outputs
        assert wrote is not None
        np.testing.assert_allclose(
            found.heads[1, METHODS.index("RelP")],
            np.einsum("lhtd,ltd->lh", wrote, written),
            atol=1e-12,
        )
        ends = wrote[:, :, -1] @ direction / one.scales.final[-1]
        np.testing.assert_allclose(found.heads[1, METHODS.index("direct effect")], ends, atol=1e-12)
        np.testing.assert_allclose(seen.lead[1], one.logits[-1, 11] - one.logits[-1, 12])
        # The gradient is what a node less by a little costs, for a neuron and for a head.
        keep = Nodes(jnp.ones((2, 24)), jnp.ones((2, 4)))
        little = 1e-5
        for name, cell in (("neurons", (0, 5)), ("heads", (1, 2))):
            less = keep._replace(**{name: getattr(keep, name).at[cell].add(-little)})
            lead = leads_with(model, TEXTS, RIGHT, WRONG, zero, less)
            slope = (seen.lead - lead) / little
            place = METHODS.index("gradient")
            np.testing.assert_allclose(getattr(found, name)[:, place][:, *cell], slope, atol=1e-4)


def test_nodes_at_their_own_values_change_nothing() -> None:
    with jax.enable_x64(True):
        model = open_weights("random", jax.random.key(0))
        seen = read(model, TEXTS, RIGHT, WRONG)
        own = jax.tree.map(lambda x: x[0], seen.nodes)
        none = Nodes(jnp.zeros((2, 24)), jnp.zeros((2, 4)))
        leads = leads_with(model, TEXTS, RIGHT, WRONG, own, none)
        np.testing.assert_allclose(leads[0], seen.lead[0], atol=1e-10)
        assert abs(leads[1] - seen.lead[1]) > 1e-3


def test_the_first_nodes_are_the_largest() -> None:
    by = Nodes(np.array([[0.1, 5.0], [2.0, 0.3]]), np.array([[3.0], [0.2]]))
    kept = first_of(by, 3, False)
    np.testing.assert_array_equal(kept.neurons, [[0, 1], [1, 0]])
    np.testing.assert_array_equal(kept.heads, [[1], [0]])
    kept = first_of(by, 3, True)
    np.testing.assert_array_equal(kept.neurons, [[0, 1], [1, 1]])
    assert kept.heads.all()
    sizes = np.array([10, 100, 1000])
    np.testing.assert_allclose(crossing(np.array([0.3, 0.6, 1.0]), sizes, 5000), 10**2.5)
    assert crossing(np.array([0.3, 0.6, 0.7]), sizes, 5000) == 5000
    assert crossing(np.array([0.9, 0.6, 0.7]), sizes, 5000) == 10


def test_shares_are_over_what_is_left_with_nothing_kept() -> None:
    kept = np.array([[1.0, 3.0], [4.0, 5.0]])
    found = shares(kept, np.array([0.5, 1.5]), np.array([4.0, 6.0]))
    np.testing.assert_allclose(found, [(2 - 1) / (5 - 1), (4.5 - 1) / (5 - 1)])


def test_a_tiny_run_is_drawn_and_settles_nothing(tmp_path: Path) -> None:
    spec = Spec("random", 3, (2, 56), 2, (56,))
    record = experiment.run(spec, jax.random.key(0), Lab(tmp_path / "work"))
    whole = record.data.lead.sel(half="looked at")
    kept = record.data.kept.sel(part=PARTS[1], size=56)
    for method in record.data.chosen_by.values:  # all 48 neurons and 8 heads are kept
        np.testing.assert_allclose(kept.sel(chosen_by=method), whole, atol=1e-5)
    few = record.data.kept.sel(part=PARTS[1], size=2, chosen_by="paths")
    assert np.abs(few - whole).max() > 1e-3
    # The last words of a pair are the same, so that means alone lead by the same to both sides.
    nothing = record.data.empty.sel(part=PARTS[1])
    np.testing.assert_allclose(nothing.mean("side"), 0.0, atol=1e-5)
    assert np.abs(nothing).max() > 1e-3
    assert list(draw_all(figure.FIGURES, record)) == ["circuits"]
    assert {row.verdict for row in settle(CLAIMS, *measure(record))} == {NOT_RUN}


def planted(good: bool) -> Record:
    """Circuits that keep the lead from 50 nodes on, chance never; or the other way round.

    With nothing kept 0.5 of the lead is left.
    """
    rng, n, empty = np.random.default_rng(1), 20, 0.5
    sizes, random_sizes = np.array([10, 30, 100, 300, 1000, 3000]), np.array([300, 1000])
    lead = rng.uniform(2.0, 2.2, size=(3, 2, n, 2))
    lead[:, :, 0, 1] = -1.0  # the model gets one sentence of the first pair wrong
    share = {"paths": 0.95, "RelP": 0.9, "gradient": 0.85, "direct effect": 0.8}
    late = np.where(sizes > 40, 1.0, 0.1)[:, None, None]
    whole = lead[:, None, 1, None]

    def left(part: float, late: np.ndarray | float = 1.0) -> np.ndarray:
        noise = 1e-3 * rng.normal(size=(3, 2, np.size(late), n, 2))
        return empty + (whole - empty) * (part if good else 0.7 - part) * late + noise

    kept = np.stack([left(part, late) for part in share.values()], axis=2)
    chance = np.stack([np.repeat(left(0.0), 2, axis=2) for _ in range(20)], axis=2)
    data = xr.Dataset(
        {
            "lead": (("task", "half", "pair", "side"), lead),
            "kept": (("task", "part", "chosen_by", "size", "pair", "side"), kept),
            "by_chance": (("task", "part", "order", "random_size", "pair", "side"), chance),
            "empty": (("task", "part", "pair", "side"), np.full((3, 2, n, 2), empty)),
        },
        coords={
            "task": list(TASKS),
            "half": ["chosen on", "looked at"],
            "part": list(PARTS),
            "chosen_by": list(METHODS),
            "size": sizes,
            "random_size": random_sizes,
        },
    )
    notes = {"missing": "", "weights": "smollm2", "n_neurons": 46_080, "n_heads": 270}
    return Record(data, notes=notes)


@pytest.mark.parametrize(("good", "verdict"), [(True, HOLDS), (False, FAILS)])
def test_claims_hold_and_fail_on_planted_circuits(good: bool, verdict: str) -> None:
    record = planted(good)
    found = measure(record)
    rows = settle(CLAIMS, *found, nulls=nulls(record))
    assert {row.claim.id: row.verdict for row in rows} == {c.id: verdict for c in CLAIMS}
    assert {each.n for name, each in found[0].items() if name.endswith("-both")} == {19}


def test_a_circuit_no_better_than_chance_would_hold_anyway() -> None:
    record = planted(True)
    chosen = record.data.kept.sel(chosen_by="paths", size=[300, 1000]).rename(size="random_size")
    same = (
        chosen.drop_vars("chosen_by").expand_dims(order=20).transpose(*record.data.by_chance.dims)
    )
    record = Record(record.data.assign(by_chance=same), record.notes)
    rows = settle(CLAIMS, *measure(record), nulls=nulls(record))
    found = {row.claim.id: row.verdict for row in rows}
    assert found["neurons-pronoun-both"] == WOULD_HOLD
