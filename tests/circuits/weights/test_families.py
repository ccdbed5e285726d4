"""Every family of the Hub: paths, scores and circuits add up to what the model computes."""

from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms as terms
from circuitax.circuits.ledger import ledger, path_mass
from circuitax.circuits.paths import components, expansion, frozen
from circuitax.circuits.paths.components import logits_of, token_directions
from circuitax.circuits.paths.expansion import order_streams, virtual_ov
from circuitax.circuits.weights import heads
from circuitax.circuits.weights.composition import composed, composition, composition_scores
from circuitax.circuits.weights.folding import fold_norms
from circuitax.circuits.weights.spectra import composed_keys
from circuitax.kernel.chain import materialise
from circuitax.kernel.forward import forward
from circuitax.kernel.run import Run, run
from circuitax.models.pretrained import load_pretrained

HERE = Path(__file__).parents[2] / "fixtures" / "families"
NAMES = ["gpt2", "gpt_neox", "llama", "llama_biased", "qwen2", "qwen3", "gemma3_text", "olmo2"]
L, H, N = 3, 4, 12


@cache
def run_of(name: str) -> Run:
    tokens = np.load(HERE / name / "reference.npz")["tokens"][0]
    model = load_pretrained(HERE / name, dtype=jnp.float64)
    return run(model, jnp.asarray(tokens), outputs=True)


@pytest.fixture(params=NAMES)
def seen(request: pytest.FixtureRequest, x64: None) -> Run:
    return run_of(request.param)


def close(found, expected) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def maps(model, layer: int, head: int) -> dict[str, np.ndarray]:
    """One head's maps, with the gains of all norms that are linear, by an index of its own."""
    blocks, spec = model.blocks, model.spec
    at = blocks.attention
    group = head // (spec.n_heads // at.W_K.shape[1])
    found = {
        "Q": np.asarray(at.W_Q[layer, head]),
        "K": np.asarray(at.W_K[layer, group]),
        "V": np.asarray(at.W_V[layer, group]),
        "O": np.asarray(at.W_O[layer, head]),
    }
    if at.q_gain is not None:
        joint = spec.joint_qk_norm
        found["Q"] = found["Q"] * np.asarray(at.q_gain[layer, head] if joint else at.q_gain[layer])
        found["K"] = found["K"] * np.asarray(at.k_gain[layer, group] if joint else at.k_gain[layer])
    if blocks.attention_post_norm is not None:
        found["O"] = found["O"] * np.asarray(blocks.attention_post_norm.gain[layer])
    return found


@pytest.mark.parametrize("mlps", ["dressed", "sources"])
def test_paths_close_to_the_logits(seen: Run, mlps: str) -> None:
    found = expansion.expand(seen, mlps=mlps)
    close(found.terms.sum(axis=0) + found.bias[None], seen.logits)
    assert np.abs(found.remainder).max() < 1e-9 * np.abs(seen.logits).max()
    linear = frozen.frozen_model(seen, mlps=mlps)
    by_order = logits_of(order_streams(linear), linear.read_out).sum(axis=0)
    b_U = linear.read_out.b_U
    close(by_order if b_U is None else by_order + b_U[None], seen.logits)
    kinds = ("tokens", "positions", "biases", "mlps")
    kept = [expansion.path_streams(frozen.with_source(linear, kind)).sum(axis=0) for kind in kinds]
    close(sum(kept), expansion.path_streams(linear).sum(axis=0))


def test_one_path_is_the_product_of_its_maps(seen: Run) -> None:
    linear = frozen.frozen_model(seen, mlps="sources")
    for path in [((0, 1), (2, 3)), ((1, 2),), ((0, 3), (1, 0), (2, 2))]:
        x = np.asarray(linear.mlps[0] if path[0][0] else linear.embedding)
        for layer, head in path:
            at = maps(seen.model, layer, head)
            norm = seen.model.blocks.attention_norm
            gain = np.ones(x.shape[-1]) if norm is None else np.asarray(norm.gain[layer])
            read = x * gain
            if seen.model.spec.norm.centres:
                read = (x - x.mean(axis=-1, keepdims=True)) * gain
            read = read / np.asarray(seen.trace.scales.attention[layer])[:, None]
            x = np.asarray(seen.trace.patterns[layer, head]) @ read @ at["V"] @ at["O"]
            if seen.trace.scales.attention_post is not None:
                x = x / np.asarray(seen.trace.scales.attention_post[layer])[:, None]
        if path[0][0]:
            close(expansion.path_stream(linear, path, 0), x)
        else:
            bare = linear._replace(b_V=None, b_O=None, mlps=None)
            close(expansion.path_stream(bare, path), x)


def test_ledger_is_brute_force_over_sources_and_paths(seen: Run) -> None:
    linear, token, minus = frozen.frozen_model(seen, mlps="sources"), 7, 11
    direction = linear.read_out.W_U[:, token] - linear.read_out.W_U[:, minus]
    w = direction / linear.read_out.scale[-1]
    every = {
        (path, start): float(expansion.path_stream(linear, path, start)[-1] @ w)
        for path in expansion.all_paths(L, H)
        for start in (None, *range(path[0][0] if path else L))
    }
    found = ledger.ledger(seen, token=token, minus=minus, k=15)
    assert found.complete and len(set(zip(found.paths, found.starts, strict=True))) == 15
    largest = sorted((abs(value) for value in every.values()), reverse=True)
    close(np.abs(found.values), largest[:15])
    for path, start, value in zip(found.paths, found.starts, found.values, strict=True):
        assert every[path, start] == pytest.approx(value, abs=1e-9)
    assert found.omitted_bound >= largest[15] * (1 - 1e-9)
    gap = float(seen.logits[-1, token] - seen.logits[-1, minus])
    assert found.found + found.remainder + found.bias == pytest.approx(gap, rel=1e-9)
    close(
        path_mass.head_path_values(linear, found.paths, N - 1, direction, found.starts),
        found.values,
    )
    assert "mlp " in str(found)


def test_components_and_sources_add_up(seen: Run) -> None:
    split = components.component_logits(seen)
    assert np.abs(split.remainder).max() < 1e-9 * np.abs(seen.logits).max()
    chosen = seen.tokens
    by_part = components.attribute(seen, chosen)
    assert np.abs(by_part.remainder).max() < 1e-9 * np.abs(seen.logits).max()
    directions = token_directions(frozen.frozen_model(seen).read_out, chosen)
    by_source = components.attribute_sources(seen, directions)
    close(by_source.sum(axis=-1), by_part.parts.heads)


def test_scores_by_source_are_the_scores_of_every_head(seen: Run) -> None:
    spec = seen.model.spec
    for layer in range(L):
        allowed = np.tril(np.ones((N, N), bool))
        if spec.window is not None and spec.is_local(layer):
            allowed &= ~np.tril(np.ones((N, N), bool), -spec.window)
        for head in range(H):
            split = terms.score_terms(seen, layer, head)
            scores = np.asarray(terms.head_scores(seen, layer, head))
            close(split.terms.sum(axis=(0, 1)), scores)
            weights = np.exp(scores - scores.max()) * allowed
            close(weights / weights.sum(axis=-1, keepdims=True), seen.trace.patterns[layer, head])
            assert len(terms.score_sources(seen, layer)) == split.terms.shape[0]


@pytest.mark.parametrize("by", ["head", "token"])
def test_scores_through_the_dressed_stream_close(seen: Run, by: str) -> None:
    for layer, head in ((0, 1), (2, 3)):
        split = terms.dressed_score_terms(seen, layer, head, by=by)
        close(split.terms.sum(axis=(0, 1)), terms.head_scores(seen, layer, head))
        names = terms.dressed_score_sources(seen, layer, by=by)
        assert len(names) == len(set(names)) == split.terms.shape[0]


def test_composition_of_every_pair(seen: Run) -> None:
    model = fold_norms(seen.model)
    found = composition(model)
    close(composition_scores(model)[:, :2, :, 2], found.score[:, :2, :, 2])
    for writer in [(0, h) for h in range(H)] + [(1, 2)]:
        first = maps(model, *writer)
        ov = first["V"] @ first["O"]
        for reader in [(2, h) for h in range(H)]:
            second = maps(model, *reader)
            qk = second["Q"] @ second["K"].T
            for kind, inner in enumerate((qk, qk.T, second["V"] @ second["O"])):
                expected = np.linalg.norm(ov @ inner)
                expected /= np.linalg.norm(ov) * np.linalg.norm(inner)
                assert found.score[kind, *writer, *reader] == pytest.approx(expected, rel=1e-9)
                assert np.isfinite(found.z[kind, *writer, *reader])
                product = composed(model, "QKV"[kind], writer, reader)
                close(materialise(product), ov @ inner)


def test_circuits_of_every_head(seen: Run) -> None:
    model = fold_norms(seen.model)
    E, U = np.asarray(model.W_E), np.asarray(model.W_U)
    rows = E / np.sqrt((E**2).mean(axis=-1, keepdims=True) + model.spec.norm_eps)
    rows = rows if model.spec.pre_norm else E
    ov = np.asarray(materialise(heads.token_ov(model, centred=False)))
    virtual = np.asarray(materialise(virtual_ov(model, 0, 2)))
    for layer in range(L):
        for head in range(H):
            at = maps(model, layer, head)
            close(ov[layer, head], rows @ at["V"] @ at["O"] @ U)
            later = maps(model, 2, 1)
            if layer == 0:
                close(virtual[head, 1], at["V"] @ at["O"] @ later["V"] @ later["O"])
                queries, keys = composed_keys(model, (0, head), 2)
                close(materialise(keys)[1], E @ at["V"] @ at["O"] @ later["K"])
                close(materialise(queries)[1], E @ later["Q"])


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_qk_circuits_of_the_first_layer_are_its_scores(seen: Run, offset: int) -> None:
    spec = seen.model.spec
    if spec.qk_norm:
        with pytest.raises(ValueError, match="qk_norm must be False"):
            heads.token_qk(seen.model)
        return
    if spec.positions != "rotary":
        pytest.skip("positions are in the stream")
    table = materialise(heads.token_qk(seen.model, offset=offset, centred=False))
    for head in range(H):
        scores = np.asarray(terms.head_scores(seen, 0, head))
        for dest in range(offset, N):
            u, v = seen.tokens[dest], seen.tokens[dest - offset]
            expected = scores[dest, dest - offset]
            assert table[0, head, u, v] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_folded_norms_change_nothing(seen: Run) -> None:
    logits, trace = forward(fold_norms(seen.model), seen.tokens)
    close(logits, seen.logits)
    close(trace.patterns, seen.trace.patterns)
