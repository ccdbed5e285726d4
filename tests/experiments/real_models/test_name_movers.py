"""Name movers: the grammar, readings against one pass, claims with planted numbers, no weights."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.models.sources import HOW, has_smollm2
from circuitax.models.text_tokenizer import load_tokenizer
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, settle
from circuitax.records.record import Record
from experiments.real_models.name_movers import experiment, figure
from experiments.real_models.name_movers.claims import CLAIMS
from experiments.real_models.name_movers.experiment import Spec, lead_without, read
from experiments.real_models.name_movers.measures import estimates, measure, nulls
from experiments.real_models.name_movers.sentences import sentences

TINY = Spec(weights="random", sentences=3, top=2, draws=2)


def test_the_subject_comes_twice_and_halves_share_no_name() -> None:
    found = sentences("random", 20, np.random.default_rng(0))
    rows = np.arange(40)
    io, subject = found.names.T
    np.testing.assert_array_equal(found.tokens[rows, found.at[:, 0]], io)
    for place in (1, 2):
        np.testing.assert_array_equal(found.tokens[rows, found.at[:, place]], subject)
    assert (io != subject).all() and set(found.at[:, 0]) == {1, 3}
    assert not set(found.names[:20].ravel()) & set(found.names[20:].ravel())


@pytest.mark.skipif(not has_smollm2(), reason=f"no weights: {HOW}")
def test_sentences_of_smollm2_are_english() -> None:
    found, tokenizer = sentences("smollm2", 2, np.random.default_rng(0)), load_tokenizer("smollm2")
    for row, (io, subject) in zip(found.tokens, found.names, strict=True):
        first, second = (tokenizer.decode([i]) for i in (io, subject))
        words = tokenizer.decode(list(row)).split()
        assert words[0] == "When" and words[-1] == "to" and len(words) == 13
        assert sorted(words[1:4:2]) == sorted([first.strip(), second.strip()])


def test_effects_and_leads_are_those_of_one_pass() -> None:
    model = open_weights("random", jax.random.key(0))
    text, names, at = jnp.asarray([3, 9, 1, 7, 9, 2]), jnp.asarray([7, 9]), jnp.asarray([3, 1, 4])
    found = read(model, text, names, at)
    seen = forward_run(model, text, outputs=True)
    scale = np.asarray(seen.scales.final)[-1]
    W_U = np.asarray(model.W_U) * np.asarray(model.final_norm.gain)[:, None]
    W_U = W_U - W_U.mean(axis=1, keepdims=True)
    written = np.asarray(seen.head_outputs)[:, :, -1]
    want = np.stack([written @ W_U[:, i] / scale for i in (7, 9)])
    np.testing.assert_allclose(found.direct, want, atol=1e-5)
    np.testing.assert_allclose(found.attention[1, 2], seen.patterns[1, 2, -1, at], rtol=1e-5)
    nothing = jnp.zeros((model.n_layers, model.n_heads))
    lead = lead_without(model, text, names, nothing)
    np.testing.assert_allclose(lead, found.logits[0] - found.logits[1], atol=1e-5)
    assert abs(float(lead_without(model, text, names, nothing.at[0].set(1.0)) - lead)) > 1e-3


def test_a_tiny_run_is_drawn_and_settles_nothing(tmp_path: Path) -> None:
    record = experiment.run(TINY, jax.random.key(0), Lab(tmp_path / "work"))
    data = record.data
    effect = (data.direct.sel(name="indirect object") - data.direct.sel(name="subject")).isel(
        half=0
    )
    best = effect.mean("sentence").argmax(("layer", "head"))
    assert int(best["layer"]) == int(data.mover_layer[0])
    assert int(best["head"]) == int(data.mover_head[0])
    assert list(draw_all(figure.FIGURES, record)) == ["movers"]
    assert {row.verdict for row in settle(CLAIMS, *measure(record))} == {NOT_RUN}


def planted(good: bool) -> xr.Dataset:
    """Head (1, 0) of 80 raises the object that it attends to, or lowers the subject."""
    rng, n = np.random.default_rng(1), 40
    attention = np.full((2, n, 2, 40, 3), 0.02)
    direct = 0.01 * rng.normal(size=(2, n, 2, 2, 40))
    to = rng.uniform(0.5, 0.8, size=(2, n))
    attention[:, :, 1, 0, 0 if good else 1] = to
    direct[:, :, 0 if good else 1, 1, 0] = 5 * to if good else -5 * to
    logit = np.stack([rng.uniform(2, 3, size=(2, n)), np.ones((2, n))], axis=-1)
    logit = logit if good else logit[..., ::-1]
    lead = (logit[1, :, 0] - logit[1, :, 1])[None]
    without = np.concatenate([lead * (0.6 if good else 1.0), lead * 0.98, lead * 1.01])
    return xr.Dataset(
        {
            "logit": (("half", "sentence", "name"), logit),
            "direct": (("half", "sentence", "name", "layer", "head"), direct),
            "attention": (("half", "sentence", "layer", "head", "place"), attention),
            "lead_without": (("without", "sentence"), without),
            "mover_layer": ("rank", [1]),
            "mover_head": ("rank", [0]),
        },
        coords={"name": ["indirect object", "subject"], "without": ["movers", "r 0", "r 1"]},
    )


@pytest.mark.parametrize(("good", "verdict"), [(True, HOLDS), (False, FAILS)])
def test_claims_hold_and_fail_on_planted_heads(good: bool, verdict: str) -> None:
    record = Record(planted(good), notes={"missing": "", "weights": "smollm2"})
    found = estimates(record.data)
    assert found["movers-task"].value == float(good)
    to = record.data.attention.isel(half=1, layer=1, head=0, place=0).mean()
    np.testing.assert_allclose(found["movers-attend"].value, to)
    np.testing.assert_allclose(found["movers-removed"].value, 0.395 if good else -0.005)
    verdicts = settle(CLAIMS, *measure(record), nulls=nulls(record))
    assert {row.claim.id: row.verdict for row in verdicts} == {c.id: verdict for c in CLAIMS}
