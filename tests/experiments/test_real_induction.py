"""Induction heads of a real model: texts and masks, claims with planted numbers, and no weights."""

from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.models import smollm2
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, settle
from circuitax.records.record import Record
from experiments.real_induction import experiment, figure
from experiments.real_induction.claims import CLAIMS
from experiments.real_induction.experiment import Spec
from experiments.real_induction.measures import estimates, measure, rises
from experiments.real_induction.reference import FIRST, ROWS, SCORES, TURN
from experiments.real_induction.repeats import KINDS, repeats

TINY = Spec(weights="random", texts=2, length=8, top=2, draws=2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Record:
    place = tmp_path_factory.mktemp("real")
    return experiment.run(TINY, jax.random.key(0), Lab(place / "work"))


def test_texts_are_those_of_the_reference() -> None:
    texts = repeats(4, 64, 49_152)
    assert texts.plain[0, :5].tolist() == [17161, 13102, 10711, 6125, 6848]
    assert texts.plain[:, :64].sum() == 2_791_137
    np.testing.assert_array_equal(texts.plain[:, :64], texts.plain[:, 64:])
    changed = texts.spoilt != texts.plain
    assert changed[:, 1:64:2].all() and changed.sum() == 4 * 32


def test_masks_mark_what_they_say() -> None:
    length = 6
    texts = repeats(1, length, 49_152)
    plain, spoilt = texts.plain[0], texts.spoilt[0]
    masks = dict(zip(KINDS, texts.masks, strict=True))
    for dest, src in np.argwhere(masks["prefix"]):
        assert plain[src - 1] == plain[dest] and plain[src] == plain[dest + 1]
    for dest, src in np.argwhere(masks["earlier"]):
        assert spoilt[src - 1] == spoilt[dest] and spoilt[src] != spoilt[dest + 1]
    for dest, src in np.argwhere(masks["attended"]):
        assert spoilt[src - 1] != spoilt[dest] and spoilt[src] == spoilt[dest + 1]
    assert masks["prefix"].sum() == length - 1
    np.testing.assert_array_equal(masks["prefix"], masks["earlier"] | masks["attended"])


def test_removing_heads_does_what_it_says(tiny: Record) -> None:
    data = tiny.data
    cells = (4 * data.removed_layer + data.removed_head).to_series().groupby("without").agg(set)
    assert all(len(chosen) == 2 for chosen in cells)
    assert not (cells["random 0"] | cells["random 1"]) & cells["induction"]
    mean = data.scores.sel(twin="plain", kind="prefix").mean("text").values.ravel()
    assert cells["induction"] == set(np.argsort(mean)[-2:])
    # Intact losses are those of a forward pass of its own.
    model = open_weights("random", jax.random.split(jax.random.key(0))[0])
    texts = repeats(2, 8, 40).plain
    log_probs = jax.nn.log_softmax(forward_run(model, texts).logits)
    expected = -np.take_along_axis(np.asarray(log_probs)[:, :-1], texts[:, 1:, None], 2)[..., 0]
    intact = data.loss.sel(set="intact")
    by_place = data.loss_by_place.sel(curve="intact")
    np.testing.assert_allclose(by_place, expected.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(intact.sel(part="first"), expected[:, :7].mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(intact.sel(part="second"), expected[:, 8:].mean(axis=1), rtol=1e-5)
    assert abs(data.loss.sel(set="induction") - intact).max() > 1e-3


def test_a_random_model_settles_nothing_and_is_drawn(tiny: Record) -> None:
    verdicts = settle(CLAIMS, *measure(tiny))
    assert {v.verdict for v in verdicts} == {NOT_RUN}
    figures = figure.draw(tiny)
    assert set(figures) == {"heads", "ablation"}
    crosses = figures["ablation"].axes[1].get_lines()
    rise = rises(tiny.data)
    heights = [np.asarray(line.get_ydata()) for line in crosses]
    drawn = {round(float(y[0]), 6) for y in heights if y.size == 1}
    assert round(float(rise.sel(set="induction")), 6) in drawn


def planted() -> Record:
    """A record whose numbers are the reference's."""
    length, layers, heads, sets = 64, 30, 9, ["intact", "induction", "previous"]
    sets += [f"random {i}" for i in range(10)]
    scores = np.zeros((4, len(KINDS), layers, heads))
    for kind, table in SCORES.items():
        for cell, value in table.items():
            scores[(slice(None), KINDS.index(kind), *cell)] = value
    losses = np.empty((len(sets), 4, 3))
    losses[:] = np.stack([np.full(4, FIRST), np.full(4, TURN), np.array(ROWS)], axis=-1)
    losses[1, :, 2] += 2.0
    losses[3:, :, 2] += np.linspace(0, 0.1, 10)[:, None]
    spoilt = scores.copy()
    spoilt[:, KINDS.index("earlier")] = 0.5 + np.arange(4)[:, None, None] / 100
    direct = scores[:, KINDS.index("prefix")] + np.arange(4)[:, None, None] / 100
    direct[:, 20, 6] = [-1.0, -1.1, -0.9, -1.2]
    of_rank = list(SCORES["prefix"])[:5]
    fed = np.full((len(sets), 4, 5), 0.7)
    fed[2] = 0.1
    cells, top = ("layer", "head"), np.array([of_rank] * (len(sets) - 1))
    data = xr.Dataset(
        {
            "loss": (("set", "text", "part"), losses),
            "prefix_of_top": (("set", "text", "rank"), fed),
            "scores": (("twin", "text", "kind", *cells), np.stack([scores, spoilt])),
            "direct": (("text", *cells), direct),
            "removed_layer": (("without", "rank"), top[..., 0]),
            "removed_head": (("without", "rank"), top[..., 1]),
        },
        coords={
            "set": sets,
            "without": sets[1:],
            "part": ["first", "turn", "second"],
            "twin": ["plain", "spoilt"],
            "kind": list(KINDS),
        },
    )
    return Record(data=data, notes={"weights": "smollm2", "missing": "", "length": length})


def test_planted_numbers_settle_the_claims() -> None:
    record = planted()
    found = estimates(record.data)
    assert found["real-loss-second"].value == pytest.approx(2.3954, abs=1e-4)
    assert found["real-first-half"].value == 0.0
    assert found["real-anti-copying"].value == pytest.approx(-1.05)
    assert found["real-ablation"].value == pytest.approx(1.95)
    assert found["real-previous-feeds"].value == pytest.approx(1 / 7)
    verdicts = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record))}
    assert verdicts.pop("real-first-half") == FAILS
    assert verdicts.pop("real-ablation-previous") == FAILS  # planted: it costs nothing
    assert set(verdicts.values()) == {HOLDS}
    record.data.scores[0, :, KINDS.index("prefix"), 23, 2] += 0.01
    again = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record))}
    assert again["real-prefix"] == FAILS


def test_without_the_package_the_run_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "no-such-package-of-weights")
    record = experiment.run(Spec(), jax.random.key(0), Lab(tmp_path / "work"))
    assert Spec().outside_inputs() == {"smollm2": "absent"}
    verdicts = settle(CLAIMS, *measure(record))
    assert {v.verdict for v in verdicts} == {NOT_RUN}
    assert all("make smollm2" in v.reason for v in verdicts)
    (drawn,) = figure.draw(record).values()
    assert "make smollm2" in drawn.axes[0].texts[0].get_text()


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="weights='gpt2' must be one of smollm2, random"):
        Spec(weights="gpt2")
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        Spec(draws=1)
