"""Real models: what is read of weights and passes, against NumPy, small changes, known models."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import induction_model
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.groups import carried_back, neuron_flows
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import SMALL, open_weights
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import save_pretrained
from circuitax.models.sources import HOW, has_smollm2
from circuitax.models.transformer import init as init_model
from circuitax.records.record import Record
from experiments.real_models.certified_paths.experiment import missed_heads
from experiments.real_models.certified_paths.readings import heads_of
from experiments.real_models.contrast.readings import by_reading
from experiments.real_models.name_movers.experiment import read as read_names
from experiments.real_models.neuron_circuits.circuits import (
    METHODS,
    Nodes,
    leads_with,
    read,
    scores,
)
from experiments.real_models.published_weights import experiment as published_weights
from experiments.real_models.real_induction.repeats import repeats
from experiments.real_models.stream_use.experiment import (
    head_eigenvalues,
    neuron_cosines,
    variances,
)

# --- Circuits of neurons: scores, and nodes that are set to their means.

TEXTS = jnp.asarray([[3, 9, 1, 7], [4, 9, 2, 7], [3, 8, 1, 6]])
RIGHT, WRONG = jnp.asarray([5, 11, 20]), jnp.asarray([6, 12, 21])


def test_scores_are_those_of_flows_and_of_small_changes(x64):
    model = open_weights("random", jax.random.key(0))
    seen = read(model, TEXTS, RIGHT, WRONG)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape[1:]), seen.nodes)
    found = scores(model, TEXTS, RIGHT, WRONG, zero)
    one = forward_run(model, TEXTS[1], outputs=True)
    frozen, shared = frozen_model(one), frozen_model(one, gates="shared")
    direction = frozen.read_out.W_U[:, 11] - frozen.read_out.W_U[:, 12]
    flows = neuron_flows(one, frozen, 3, direction).sum(axis=1)
    np.testing.assert_allclose(found.neurons[1, 0], flows, atol=1e-12)
    relp, direct = METHODS.index("RelP"), METHODS.index("direct effect")
    halved = neuron_flows(one, shared, 3, direction).sum(axis=1)
    np.testing.assert_allclose(found.neurons[1, relp], halved, atol=1e-12)
    assert np.abs(halved - flows).max() > 1e-3
    written, wrote = carried_back(shared, 3, direction).written, one.head_outputs
    by_head = np.einsum("lhtd,ltd->lh", wrote, written)
    np.testing.assert_allclose(found.heads[1, relp], by_head, atol=1e-12)
    ends = wrote[:, :, -1] @ direction / one.scales.final[-1]
    np.testing.assert_allclose(found.heads[1, direct], ends, atol=1e-12)
    np.testing.assert_allclose(seen.lead[1], one.logits[-1, 11] - one.logits[-1, 12])
    # The gradient is what a node less by a little costs, for a neuron and for a head.
    keep, little = Nodes(jnp.ones((2, 24)), jnp.ones((2, 4))), 1e-5
    for name, cell in (("neurons", (0, 5)), ("heads", (1, 2))):
        less = keep._replace(**{name: getattr(keep, name).at[cell].add(-little)})
        slope = (seen.lead - leads_with(model, TEXTS, RIGHT, WRONG, zero, less)) / little
        gradient = getattr(found, name)[:, METHODS.index("gradient")]
        np.testing.assert_allclose(gradient[:, *cell], slope, atol=1e-4)


def test_nodes_at_their_own_values_change_nothing(x64):
    model = open_weights("random", jax.random.key(0))
    seen = read(model, TEXTS, RIGHT, WRONG)
    own = jax.tree.map(lambda x: x[0], seen.nodes)
    none = Nodes(jnp.zeros((2, 24)), jnp.zeros((2, 4)))
    leads = leads_with(model, TEXTS, RIGHT, WRONG, own, none)
    np.testing.assert_allclose(leads[0], seen.lead[0], atol=1e-10)
    assert abs(leads[1] - seen.lead[1]) > 1e-3


# --- Use of the stream.


def test_weights_are_read_as_numpy_reads_them(x64):
    model = init_model(jax.random.key(0), SMALL)
    W = {name: np.asarray(value) for name, value in model.named().items()}
    E = W["W_E"] - W["W_E"].mean(axis=0)
    sizes = np.linalg.svd(E, compute_uv=False) ** 2
    np.testing.assert_allclose(variances(model.W_E), sizes / sizes.sum(), atol=1e-12)
    found = neuron_cosines(model)
    for layer, neuron in ((0, 3), (1, 20)):
        gain = W["blocks.mlp_norm.gain"][layer]
        writes = W["blocks.mlp.W_out"][layer, neuron]
        for name, key in (("read", "W_in"), ("gate", "W_gate")):
            reads = gain * W[f"blocks.mlp.{key}"][layer, :, neuron]
            expected = reads @ writes / np.linalg.norm(reads) / np.linalg.norm(writes)
            np.testing.assert_allclose(found[name][layer, neuron], expected, rtol=1e-9)
    eigenvalues = np.asarray(head_eigenvalues(model))
    gain, V, O = (W[f"blocks.attention{name}"] for name in ("_norm.gain", ".W_V", ".W_O"))
    for layer, head in ((0, 1), (1, 3)):
        # Two heads of queries read the values of one.
        values = np.linalg.eigvals(gain[layer][:, None] * V[layer, head // 2] @ O[layer, head])
        expected = values.sum().real / np.abs(values).sum()
        np.testing.assert_allclose(eigenvalues[layer, head], expected, rtol=1e-7, atol=1e-9)


# --- Name movers, and heads that scores miss.


def test_effects_are_those_of_one_pass():
    model = open_weights("random", jax.random.key(0))
    text, names, at = jnp.asarray([3, 9, 1, 7, 9, 2]), jnp.asarray([7, 9]), jnp.asarray([3, 1, 4])
    found = read_names(model, text, names, at)
    seen = forward_run(model, text, outputs=True)
    scale = np.asarray(seen.scales.final)[-1]
    W_U = np.asarray(model.W_U) * np.asarray(model.final_norm.gain)[:, None]
    W_U = W_U - W_U.mean(axis=1, keepdims=True)
    written = np.asarray(seen.head_outputs)[:, :, -1]
    want = np.stack([written @ W_U[:, i] / scale for i in (7, 9)])
    np.testing.assert_allclose(found.direct, want, atol=1e-5)
    np.testing.assert_allclose(found.attention[1, 2], seen.patterns[1, 2, -1, at], rtol=1e-5)


def test_misses_by_hand():
    paths = ((), ((0, 1),), ((0, 1), (2, 0)), ((1, 1),))
    by_score = np.array([[0.0, -9.0], [0.1, 5.0], [0.2, 8.0]])
    # It names 0.1, 2.1 and 1.1, and not 2.0.
    assert missed_heads(paths, by_score) == pytest.approx(1 / 3)
    assert np.isnan(missed_heads(((),), by_score))
    assert heads_of("mlp 3 → 5.2 → 17.1") == ["5.2", "17.1"] and heads_of("direct") == []


# --- Published weights: the hand-made induction model, read from its folder.


def test_a_known_induction_model_is_read_from_its_folder(tmp_path):
    """Head 0.0 looks back and 1.0 inducts; it is saved with its score scale in W_Q."""
    n_tokens = 12
    model = induction_model(jax.random.key(0), n_tokens, 13)
    heads = model.blocks.attention
    scaled = model.blocks._replace(attention=heads._replace(W_Q=heads.W_Q * jnp.sqrt(model.d_head)))
    plain = model.spec.replace(score_scale=None)
    save_pretrained(model.replace(blocks=scaled, spec=plain), tmp_path / "induction")
    draws = np.random.default_rng(0)
    block = draws.permuted(np.tile(np.arange(1, n_tokens), (3, 1)), axis=1)[:, :6]
    np.save(tmp_path / "text.npy", np.concatenate([np.zeros((3, 1), int), block, block], axis=1))
    spec = published_weights.Spec(
        source=str(tmp_path / "induction"),
        one_layer="",
        tokens=str(tmp_path / "text.npy"),
        previous=0,
        inducers=(0,),
    )
    data = published_weights.run(spec, jax.random.key(3), Lab(tmp_path / "work"))
    others = range(1, model.n_heads)
    assert (data.copied.sel(k=1) == 1).all()
    assert data.previous[0, 0] > 0.9 > 2 * data.previous[0, others].max()
    assert data.prefix[1, 0] > 0.9 and data.prefix[1, others].max() < 0.5
    without = data.prefix_without.isel(head=0) / data.prefix[1, 0]
    assert without[0] < 0.2 and (without[1:] > 0.9).all()
    K, V = (data.composition.sel(kind=kind) for kind in "KV")
    assert K.argmax(...) == {"writer": 0, "reader": 0}
    assert V.isel(reader=0).max() < K[0, 0]
    corner = np.minimum(data.copying[1], data.matching)
    assert corner[0] > corner[1:].max() + 0.3
    saved = -np.diff(data.order_loss)
    assert saved[0] > 0 and abs(saved[1]) < 0.1
    first, second = data.first_order_loss.values[1:3]
    assert second < first, "the second layer alone saves more"
    assert data.text_prefix[1, 0] > data.text_prefix[1, others].max() + 0.5


# --- Induction in SmolLM2, against a NumPy pass of its own over the same weights and texts, in
# double precision.

# Losses in nats: first copy, its first repeat, second copy; and the last of each text.
FIRST_COPY, TURN, SECOND_COPY = 13.2835, 13.1828, 2.3955
BY_TEXT = (2.5036, 2.4556, 2.4138, 2.2088)
# Attention of heads (layer, head), the largest first.
BY_HEAD = {
    "prefix": {(18, 6): 0.8952, (17, 3): 0.7865, (17, 4): 0.7009, (18, 7): 0.5865, (17, 5): 0.5696},
    "previous": {(16, 0): 0.8961, (11, 1): 0.8646, (2, 1): 0.7347, (19, 3): 0.7312, (1, 2): 0.7034},
    "same": {(14, 3): 0.7468, (8, 0): 0.6835, (15, 6): 0.4478, (2, 4): 0.2487, (5, 6): 0.2419},
}
ACCEPTED = Path(__file__).parents[2] / "results" / "real_induction" / "accepted"


def test_texts_are_those_of_the_reference():
    texts = repeats(4, 64, 49_152)
    assert texts.plain[0, :5].tolist() == [17161, 13102, 10711, 6125, 6848]
    assert texts.plain[:, :64].sum() == 2_791_137
    changed = texts.spoilt != texts.plain
    assert changed[:, 1:64:2].all() and changed.sum() == 4 * 32


def test_the_accepted_record_has_the_numbers_of_the_reference():
    data = Record.load(ACCEPTED).data
    intact = data.loss.sel(set="intact")
    parts = {"first": FIRST_COPY, "turn": TURN, "second": SECOND_COPY}
    for part, expected in parts.items():
        assert float(intact.sel(part=part).mean()) == pytest.approx(expected, abs=2e-4)
    np.testing.assert_allclose(intact.sel(part="second"), BY_TEXT, atol=2e-4)
    for kind, by_head in BY_HEAD.items():
        found = data.scores.sel(twin="plain", kind=kind).mean("text").values
        largest = np.argsort(-found, axis=None)[: len(by_head)]
        cells = zip(*np.unravel_index(largest, found.shape), strict=True)
        assert [tuple(map(int, cell)) for cell in cells] == list(by_head)
        np.testing.assert_allclose(found.flat[largest], list(by_head.values()), atol=2e-4)


@pytest.mark.slow
@pytest.mark.skipif(not has_smollm2(), reason=f"no weights: {HOW}")
def test_smollm2_has_the_loss_of_the_reference():
    texts = repeats(4, 64, 49_152)
    seen = jax.jit(forward_run)(open_weights("smollm2", jax.random.key(0)), texts.plain[3])
    log_p = jax.nn.log_softmax(seen.logits, axis=-1)[:-1]
    losses = -np.take_along_axis(np.asarray(log_p), texts.plain[3, 1:, None], axis=1)[:, 0]
    assert losses[64:].mean() == pytest.approx(BY_TEXT[3], abs=2e-4)


# --- Differences of two texts.


def test_what_heads_read_is_a_share_of_the_difference_in_pairs_that_are_right():
    whole = [[[3.0, -1.0], [2.0, -3.0], [4.0, 1.0]]]  # the last pair is wrong at its other text
    chosen_by = [[[0.1, 5.0, 4.0]]]
    route = np.zeros((1, 3, 3, 3))  # by value, query and key
    route[0, :, :, 0] = 100.0
    route[0, :, 1, 1:], route[0, :, 2, 2] = 1.0, 0.5
    data = xr.Dataset(
        {
            "whole": (("task", "unit", "side"), whole),
            "chosen_by": (("task", "method", "head"), chosen_by),
            "route": (("task", "unit", "read", "head"), route),
        },
        {"task": ["agreement"], "method": ["secant"], "read": ["value", "query", "key"]},
        {"missing": "", "weights": "smollm2"},
    )
    found = by_reading(data, "agreement", "secant", n=2, read="query").estimate()
    assert found.n == 2
    np.testing.assert_allclose(found.value, np.mean([1.5 / 4, 1.5 / 5]))
