"""Ablation, patching and path patching, against single edited runs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits import patching, path_patching, sites
from circuitax.circuits.explain.explanation import explain
from circuitax.circuits.ledger.ledger import ledger
from circuitax.circuits.losses import term_losses
from circuitax.circuits.patching import head_gradients
from circuitax.circuits.paths import components, expansion
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.score_terms import score_terms
from circuitax.kernel.edits import (
    ablate_head,
    patch_activation,
    patch_head,
    patch_pattern,
    patch_stream,
)
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import Interventions, ablate_heads, freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model

FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned}


def _parts(run):
    return components.components_of(run)


def _other(run):
    """The same model on another text."""
    tokens = (run.tokens + 3) % 7
    return run_model(run.model, tokens, outputs=True)


@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
def test_replacements_by_hand(kind, make_run, x64):
    """Downstream reacts: later layers are recomputed in NumPy from the edited stream."""
    run = make_run(2)
    parts, other = _parts(run), _parts(_other(run))
    mean = jax.tree.map(lambda x, y: (x + y) / 2, parts, other)
    replacement = {"zero": None, "mean": mean, "resample": other}[kind]
    cells = patching.each_component(run.model)
    found = patching.ablated_metrics(
        run.model, run.tokens, cells, lambda z: z, replacement=replacement
    )
    new = 0 if replacement is None else np.asarray(replacement.heads[0, 1])
    x = np.asarray(run.trace.streams[1]) - np.asarray(parts.heads[0, 1]) + new
    heads = run.model.blocks.attention
    out = x.copy()
    for h in range(2):
        scores = x @ heads.W_Q[1, h] @ np.asarray(heads.W_K[1, h]).T @ x.T * run.model.spec.scale
        scores = np.where(np.tril(np.ones((5, 5))), scores, -np.inf)
        A = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        out = out + A @ x @ heads.W_V[1, h] @ heads.W_O[1, h]
    np.testing.assert_allclose(found[1], out @ run.model.W_U, atol=1e-11)


def test_mlps_are_ablated_too(make_run, x64):
    run = make_run(2, mlp=True, norm=Norm.rmsnorm)
    cells = patching.each_component(run.model)
    assert cells.heads.shape == (6, 2, 2) and cells.mlps.shape == (6, 2)
    streams = patching.ablated_metrics(run.model, run.tokens, cells, lambda z: z)
    silent = run.model.blocks.mlp._replace(W_out=run.model.blocks.mlp.W_out.at[1].set(0))
    model = run.model.replace(blocks=run.model.blocks._replace(mlp=silent))
    np.testing.assert_allclose(streams[5], forward(model, run.tokens)[0], atol=1e-12)
    # replacing a component by what it was changes nothing
    same = patching.ablated_metrics(
        run.model, run.tokens, cells, lambda z: z, replacement=_parts(run)
    )
    np.testing.assert_allclose(same, np.broadcast_to(run.logits, same.shape), atol=1e-11)


def test_stream_patches_hand_over_the_donors_future(make_run, x64):
    """The donor's final stream at a position gives the donor's logits there; layer 0 likewise."""
    run = make_run(2)
    donor = _other(run)
    found = run.logits[None, None] + patching.patch_effects(run, donor, lambda z: z)
    assert found.shape == (3, 5, 5, 7)
    for position in range(5):
        np.testing.assert_allclose(found[2, position, position], donor.logits[position], atol=1e-12)
    swapped = run.tokens.at[2].set(donor.tokens[2])
    np.testing.assert_allclose(found[0, 2], forward(run.model, swapped)[0], atol=1e-12)
    np.testing.assert_allclose(found[1, 3, :3], run.logits[:3], atol=1e-12)


@pytest.mark.parametrize("between", path_patching.BETWEEN)
@pytest.mark.parametrize("reads", path_patching.READS)
def test_one_path_changes_what_one_head_reads_also_where_heads_share_keys(reads, between, x64):
    """In NumPy: the reader's norm and map of the stream that it sees, for one pair of heads."""
    model = cx.load_pretrained("tests/fixtures/families/llama", dtype=jnp.float64)
    assert model.blocks.attention.W_K.shape[1] < model.n_heads
    run, donor = (
        run_model(model, text, outputs=True) for text in ([1, 4, 2, 7, 1], [3, 6, 2, 9, 5])
    )
    writer, reader = (0, 1), (2, 3)
    output = donor.head_outputs[writer]
    stream = np.asarray(run.streams[2] + output - run.head_outputs[writer])
    if between != "held":
        held = patch_head(run, writer, output)
        for head in np.ndindex(model.n_layers, model.n_heads):
            if between == "mlps" and head != writer:
                held = patch_head(run, head, run.head_outputs[head], edit=held)
        stream = np.asarray(run_model(model, run.tokens, held).streams[2])
    heads, norm = model.blocks.attention, model.blocks.attention_norm
    x = stream / np.sqrt((stream**2).mean(-1, keepdims=True) + model.spec.norm_eps)
    W = {"query": heads.W_Q, "key": heads.W_K, "value": heads.W_V}[reads][2]
    seen = x * np.asarray(norm.gain[2]) @ np.asarray(W[3 * W.shape[0] // model.n_heads])
    tap = path_patching.TAPS[reads]
    want = run_model(model, run.tokens, patch_activation(run, tap, reader, jnp.asarray(seen)))
    edit = path_patching.patch_path(run, writer, reader, output, reads=reads, between=between)
    found = run_model(model, run.tokens, edit)
    np.testing.assert_allclose(found.logits, want.logits, atol=1e-11)
    options = {"reads": reads, "between": between, "writers": [0], "readers": [1, 2]}
    effects = path_patching.path_effects(run, donor, lambda z: z[-1, 3], **options)
    change = want.logits[-1, 3] - run.logits[-1, 3]
    np.testing.assert_allclose(effects[0, 1, 1, 3], change, atol=1e-11)
    assert abs(change) > 1e-6


def test_a_path_to_the_logits_is_the_direct_effect(make_run, x64):
    run = make_run(2)
    nothing = jnp.zeros_like(run.trace.head_outputs[0, 1])
    edit = path_patching.patch_path(run, (0, 1), None, nothing)
    logits, _ = forward(run.model, run.tokens, edit)
    direct = np.asarray(run.trace.head_outputs[0, 1]) @ np.asarray(run.model.W_U)
    np.testing.assert_allclose(run.logits - logits, direct, atol=1e-12)


@pytest.mark.parametrize("n_extra", [0, 1])
@pytest.mark.parametrize("sender", ["head", "mlp"])
def test_all_edges_into_heads_and_mlps_are_the_component(sender, n_extra, make_run, x64):
    """Also for senders and receivers that are MLPs; a head is read by its own layer's MLP."""
    run = make_run(3, mlp=True, n_extra=n_extra, **FULL)
    other, parts = _parts(_other(run)), _parts(run)
    later = jnp.zeros((3, 2)).at[1:].set(1)
    add = freeze(run.trace, gates=None)._replace(all_patterns=None)
    if sender == "head":
        change, mlps = other.heads[0, 1] - parts.heads[0, 1], jnp.ones(3)
        added = jnp.zeros_like(run.trace.head_outputs).at[0, 1].set(change)
        by_component = add._replace(head_add=added)
    else:
        change, mlps = other.mlps[0] - parts.mlps[0], jnp.ones(3).at[0].set(0)
        by_component = add._replace(mlp_add=jnp.zeros_like(parts.mlps).at[0].set(change))
    edges = path_patching.Edges(later, later, later, jnp.asarray(1.0), mlps)
    edit = path_patching.patch_paths(run, change, edges)
    by_paths, _ = forward(run.model, run.tokens, edit)
    want, _ = forward(run.model, run.tokens, by_component)
    np.testing.assert_allclose(by_paths, want, atol=1e-11)
    without = path_patching.patch_paths(run, change, edges._replace(mlps=jnp.zeros(3)))
    elsewhere, _ = forward(run.model, run.tokens, without)
    assert np.abs(elsewhere - want).max() > 1e-2


def test_an_edge_into_an_mlp_by_hand(make_run, x64):
    """Head 1.0 → MLP 1, rmsnorm: the MLP's new output joins the stream, nothing else moves."""
    run = make_run(2, mlp=True, norm=Norm.rmsnorm)
    change = -run.trace.head_outputs[1, 0]
    none = jnp.zeros((2, 2))
    edges = path_patching.Edges(none, none, none, jnp.asarray(0.0), jnp.array([0.0, 1.0]))
    edit = path_patching.patch_paths(run, change, edges)
    found, trace = forward(run.model, run.tokens, edit, outputs=True)
    np.testing.assert_allclose(trace.patterns, run.trace.patterns, atol=1e-12)
    mlp = jax.tree.map(lambda w: np.asarray(w[1]), run.model.blocks.mlp)
    stream = np.asarray(run.trace.streams[1] + run.trace.head_outputs[1].sum(0))
    x = (stream + np.asarray(change)) / np.asarray(run.trace.scales.mlp[1])[:, None]
    gain = run.model.blocks.mlp_norm
    x = x if gain is None else x * np.asarray(gain.gain[1])
    hidden = x @ mlp.W_in
    Phi = np.vectorize(lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))))
    new = (hidden * Phi(hidden)) @ mlp.W_out
    np.testing.assert_allclose(trace.mlp_outputs[1], new, atol=1e-12)
    final = (stream + new) / np.asarray(run.trace.scales.final)[:, None]
    np.testing.assert_allclose(found, final @ run.model.W_U, atol=1e-11)


@pytest.mark.parametrize("mlp", [False, True])
def test_the_effect_of_each_component_by_single_edited_runs(mlp, make_run, x64):
    """One edit of the forward pass for each component; the loss is written out in NumPy."""
    run = make_run(2, mlp=mlp, **FULL)
    other = _other(run)

    def loss(logits):
        z, text = np.asarray(logits)[:-1], np.asarray(run.tokens)[1:]
        return np.mean(np.log(np.exp(z).sum(-1)) - z[np.arange(4), text])

    effects = jax.jit(patching.ablation_effects)(run)
    held = patching.ablation_effects(run, preserve_patterns=True)
    swapped = patching.patch_effects(run, other, site="head_outputs")
    assert (effects.mlps is None) == (not mlp)
    for layer, head in np.ndindex(2, 2):
        keep = jnp.ones((2, 2, 1)).at[layer, head].set(0)
        zero, _ = forward(run.model, run.tokens, Interventions(head_keep=keep))
        np.testing.assert_allclose(
            effects.heads[layer, head], loss(zero) - loss(run.logits), atol=1e-12
        )
        add = jnp.zeros_like(other.trace.head_outputs)
        add = add.at[layer, head].set(other.trace.head_outputs[layer, head])
        for found, edit in (
            (held.heads, freeze(run.trace, gates=None)._replace(head_keep=keep)),
            (swapped, Interventions(head_keep=keep, head_add=add)),
        ):
            want = loss(forward(run.model, run.tokens, edit)[0]) - loss(run.logits)
            np.testing.assert_allclose(found[layer, head], want, atol=1e-12)
    for layer in range(2 * mlp):
        keep = jnp.ones((2, 1)).at[layer].set(0)
        zero, _ = forward(run.model, run.tokens, Interventions(mlp_keep=keep))
        np.testing.assert_allclose(effects.mlps[layer], loss(zero) - loss(run.logits), atol=1e-12)
    assert np.abs(effects.heads).min() > 1e-4


def test_patches_are_changes_of_the_metric(make_run, x64):
    run = make_run(2, **FULL)
    donor = _other(run)

    def lead(logits):
        return logits[-1, 3] - logits[-1, 1]

    found = jax.jit(patching.patch_effects, static_argnums=2)(run, donor, lead)
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found[2, 4], lead(donor.logits) - lead(run.logits), atol=1e-12)
    np.testing.assert_allclose(found[2, :4], 0, atol=1e-12)
    assert np.abs(found[0]).min() > 1e-4
    np.testing.assert_allclose(patching.patch_effects(run, run), 0, atol=1e-12)
    own = patching.patch_effects(run, donor)
    want = (
        next_token_losses(donor.logits, run.tokens)[3]
        - next_token_losses(run.logits, run.tokens)[3]
    )
    np.testing.assert_allclose(own[2, 3], want / 4, atol=1e-12)


HEAD_GRADIENTS_FULL = {
    "biases": True,
    "norm": Norm.layernorm,
    "positions": Positions.learned,
    "mlp": True,
}


def test_it_is_the_slope_as_a_head_is_turned_down(make_run, x64) -> None:
    run = make_run(2, **HEAD_GRADIENTS_FULL)
    found = jax.jit(lambda run, token: head_gradients(run, token, 5, position=3))(run, 2)
    logits = jax.jit(lambda run, edit: forward(run.model, run.tokens, edit)[0])
    step = 1e-5
    for layer, head in ((0, 1), (1, 0)):
        off = jnp.zeros((2, 2)).at[layer, head].set(step)
        up, down = (logits(run, ablate_heads(a))[3] for a in (-off, off))
        slope = ((up[2] - up[5]) - (down[2] - down[5])) / (2 * step)
        np.testing.assert_allclose(found[layer, head], slope, rtol=1e-7)


def test_frozen_it_is_the_sum_of_all_paths_through_a_head(make_run, x64) -> None:
    run = make_run(3, **HEAD_GRADIENTS_FULL)
    frozen = frozen_model(run, mlps="sources")  # what MLPs wrote is held
    w = (frozen.read_out.W_U[:, 2] - frozen.read_out.W_U[:, 5]) / frozen.read_out.scale[-1]
    values = np.asarray(expansion.path_streams(frozen)[:, -1] @ w)
    each = jax.jit(head_gradients, static_argnames=("frozen", "position"))
    found = each(run, 2, 5, frozen=True)
    expected = np.zeros((3, 2))
    for path, value in zip(expansion.all_paths(3, 2), values, strict=True):
        for head in path:
            expected[head] += value
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert abs(each(run, 2, 5) - found).max() > 1e-3  # the real model reacts


def test_removing_a_head_removes_its_paths(make_run, x64):
    run = make_run(3, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    found = jax.jit(patching.ablation_error)(run)
    assert found.shape == (6, 5, 7)
    np.testing.assert_allclose(found, 0, atol=1e-12)
    assert patching.ablation_error(make_run(0)).shape == (0, 5, 7)


def test_a_wrong_path_shows(make_run, x64, monkeypatch: pytest.MonkeyPatch):
    """One head's values doubled in the expansion, but not in the forward pass."""
    run, original = make_run(2), expansion.frozen_model

    def planted(run, **options):
        model = original(run, **options)
        return model._replace(W_V=model.W_V.at[0, 0].multiply(2))

    monkeypatch.setattr(expansion, "frozen_model", planted)
    error = jnp.abs(patching.ablation_error(run)).max(axis=(1, 2))
    assert error[0] > 1e-3


def test_cells_that_do_not_fit_at_once_are_run_block_by_block(make_run, x64, monkeypatch):
    run = make_run(2, mlp=True)
    runs, donors = (
        run_model(run.model, jnp.stack([text, text[::-1], 0 * text]), outputs=True)
        for text in (run.tokens, (run.tokens + 3) % 7)
    )
    cells = patching.each_component(run.model)

    def both():
        found = patching.ablated_metrics(run.model, run.tokens, cells, lambda z: z)
        return found, patching.patch_effects(runs, donors, lambda z: z, site="q", by_position=True)

    at_once, measured, sizes = both(), sites._measured, []

    def watched(model, texts, layer, some, *options):
        sizes.append((len(texts.streams), len(some[0])))
        return measured(model, texts, layer, some, *options)

    monkeypatch.setattr(patching, "BLOCK_ENTRIES", 3 * 5 * (4 * 6 + 7))
    monkeypatch.setattr(sites, "_measured", watched)
    for room, blocks in ((24, [(2, 10), (2, 10)]), (4, [(1, 4)] * 9)):
        sizes.clear()
        # Queries of two heads, logits, streams and scores, at five positions.
        monkeypatch.setattr(sites, "BLOCK_ENTRIES", room * 5 * (2 * 3 + 7 + 4 * 6 + 2 * 5))
        for found, expected in zip(both(), at_once, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)
        assert sizes[::2] == blocks


ANALYSES = {
    "expand": lambda run: expansion.expand(run),
    "ledger": lambda run: ledger(run, 3),
    "explain": lambda run: explain(run),
    "term_losses": lambda run: term_losses(run),
    "ablation_effects": lambda run: patching.ablation_effects(run),
    "patch_effects": lambda run: patching.patch_effects(run, run),
    "score_terms": lambda run: score_terms(run, 1, 0),
    "patch_path": lambda run: path_patching.patch_path(run, (0, 0), None, run.head_outputs[0, 0]),
    "attribute_sources": lambda run: components.attribute_sources(run, run.streams[-1]),
}


@pytest.mark.parametrize("name", list(ANALYSES))
def test_an_edited_run_is_not_analysed_as_if_it_were_none(name, make_run):
    run = make_run(2)
    edited = run_model(run.model, run.tokens, ablate_head(run, (0, 1)), outputs=True)
    with pytest.raises(ValueError, match=r"run was made with interventions \(head_keep, "):
        ANALYSES[name](edited)


def test_a_run_with_another_pattern_is_expanded_with_it(make_run, x64):
    run = make_run(2)
    edit = patch_pattern(run, (0, 1), jnp.eye(5)[::-1])
    edited = run_model(run.model, run.tokens, edit, outputs=True)
    assert np.abs(np.asarray(edited.logits - run.logits)).max() > 0.01
    np.testing.assert_allclose(expansion.expand(edited).remainder, 0, atol=1e-12)


def test_donors_of_other_sizes_are_refused(make_run):
    run = make_run(2, mlp=True)
    for donor, text in (
        (make_run(1, mlp=True), "donor.model has n_layers=1, must have the 2 of the run's"),
        (make_run(2), "donor.model has d_mlp=None, must have the 5 of the run's"),
    ):
        donor = run_model(donor.model, run.tokens, outputs=True)
        with pytest.raises(ValueError, match=text):
            patching.patch_effects(run, donor)


def lead(logits, answers):
    return logits[answers[0]] - logits[answers[1]]


def test_a_batch_has_the_effects_of_its_texts_and_compiles_once(make_run, x64):
    """Each text has answers of its own; those of other data are no new program."""
    run = make_run(2, mlp=True, **FULL)
    texts = jnp.array([[1, 4, 2, 0, 3], [5, 1, 6, 2, 2], [0, 3, 3, 1, 6]])
    runs = run_model(run.model, texts, outputs=True)
    donors = run_model(run.model, (texts + 2) % 7, outputs=True)
    answers = jnp.array([[1, 2], [3, 4], [5, 6]])
    options = {"data": answers, "position": -2, "layers": [1], "positions": [1, 3]}
    found = patching.patch_effects(runs, donors, lead, **options)
    assert found.shape == (3, 1, 2)
    for text, position in ((0, 1), (2, 3)):
        stream = donors.streams[text, 1]
        edit = patch_stream(runs[text], 1, stream, positions=[position])
        logits = np.asarray(run_model(run.model, texts[text], edit).logits[3])
        before, (a, b) = np.asarray(runs.logits[text, 3]), answers[text]
        want = logits[a] - logits[b] - (before[a] - before[b])
        np.testing.assert_allclose(found[text, 0, position // 2], want, atol=1e-12)
    ablated = patching.ablation_effects(runs, lead, data=answers, position=-2)
    alone = patching.ablation_effects(runs[1], lambda logits: lead(logits[3], (3, 4)))
    np.testing.assert_allclose(ablated.heads[1], alone.heads, atol=1e-12)
    np.testing.assert_allclose(ablated.mlps[1], alone.mlps, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "_metric", None)  # traced anew, it would be called
        patching.patch_effects(runs, donors, lead, **(options | {"data": answers[::-1]}))


@pytest.mark.parametrize("site", ["mid", "pre", "post", "q", "k", "v", "z", "scores"])
def test_a_site_is_patched_as_one_edit_of_the_same_name(site, make_run, x64):
    run = make_run(2, mlp=True, **FULL)
    donor = _other(run)
    found = patching.patch_effects(run, donor, lambda z: z, site=site, position=3)
    at = (1, 0) if site in sites.HEAD_SITES else 1
    value = getattr(donor, site)[at]
    where = None if site in sites.HEAD_SITES else [2]
    edited = run_model(
        run.model, run.tokens, patch_activation(run, site, at, value, positions=where), outputs=True
    )
    seen = getattr(edited, site)[at]
    rows = slice(None) if where is None else 2
    np.testing.assert_allclose(seen[rows], value[rows], atol=1e-12)
    change = edited.logits[3] - run.logits[3]
    np.testing.assert_allclose(found[at if where is None else (1, 2)], change, atol=1e-12)
    assert np.abs(found[0]).max() > 1e-4


def test_effects_in_the_type_of_the_model(make_run, x64):
    """Single precision where double is the default, and half precision."""
    run = make_run(2)
    want = patching.ablation_effects(run).heads
    for dtype, tolerance in ((jnp.float32, 1e-5), (jnp.float16, 1e-2)):
        model = jax.tree.map(lambda leaf, dtype=dtype: leaf.astype(dtype), run.model)
        found = patching.ablation_effects(run_model(model, run.tokens)).heads
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, want, atol=tolerance)


def test_no_layers_have_no_mlps_to_ablate_or_to_dress(make_run):
    run = make_run(0, mlp=True)
    effects, whole = patching.ablation_effects(run), run_model(run.model, run.tokens, outputs=True)
    assert path_patching.path_effects(whole, whole).shape == (0, 2, 0, 2)
    assert effects.heads.shape == (0, 2) and effects.mlps.shape == (0,)
    found = ledger(run, 3, by_position=True, mlps="dressed")
    assert found.names == ["direct"] and found.complete
    np.testing.assert_allclose(found.values, [run.logits[-1, 3]], rtol=1e-5)
