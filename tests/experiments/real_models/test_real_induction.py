"""Induction heads of a real model: texts and masks, claims with planted numbers, and no weights."""

import itertools

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, WOULD_HOLD, settle
from circuitax.records.record import Record
from experiments.real_models.real_induction import experiment, figure
from experiments.real_models.real_induction.claims import CLAIMS
from experiments.real_models.real_induction.experiment import Spec
from experiments.real_models.real_induction.measures import (
    estimates,
    measure,
    nulls,
    prose_estimates,
    rises,
)
from experiments.real_models.real_induction.nulls import (
    keys_over,
    keys_over_without,
    of_other_writers,
    shares_with_less,
)
from experiments.real_models.real_induction.pairs import READINGS, heads_of, places
from experiments.real_models.real_induction.reference import FIRST, ROWS, SCORES, TURN
from experiments.real_models.real_induction.repeats import (
    KINDS,
    NEW,
    PAIR,
    SEEN,
    repeated_pairs,
    repeats,
)

TINY = Spec(weights="random", texts=2, length=8, top=2, draws=2, chapters=2, stretch=24)


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
    figures = draw_all(figure.FIGURES, tiny)
    assert set(figures) == {"heads", "composition", "ablation", "prose"}
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
    losses[1, :, 2] += 6.0
    losses[3:, :, 2] += np.linspace(0, 0.1, 10)[:, None]
    spoilt = scores.copy()
    spoilt[:, KINDS.index("earlier")] = 0.5 + np.arange(4)[:, None, None] / 100
    direct = scores[:, KINDS.index("prefix")] + np.arange(4)[:, None, None] / 100
    direct[:, 20, 6] = [-1.0, -1.1, -0.9, -1.2]
    # It matches too little to count; this one does.
    scores[:, KINDS.index("prefix"), 25, 0] = 0.6
    direct[:, 25, 0] = [-0.5, -0.6, -0.4, -0.7]
    of_rank = list(SCORES["prefix"])[:5]
    fed = np.full((len(sets), 4, 5), 0.7)
    fed[2] = 0.1
    cells, top = ("layer", "head"), np.array([of_rank] * (len(sets) - 1))
    top[1] = list(SCORES["previous"])[:5]
    top[2:] = [(5, head) for head in range(5)]
    # All pairs alike but those of previous-token heads and induction heads, through keys.
    composed = np.zeros((3, layers, heads, 2, heads))
    composed[:, 17:, :, 0], composed[:, 18:, :, 1] = np.nan, np.nan
    for layer, head in top[1]:
        for later, reader in top[0]:
            composed[1, layer, head, later - 17, reader] += 1.0 if (layer, head) == (16, 0) else 0.5
    pairs = ("reading", *cells, "reader_layer", "reader_head")
    data = xr.Dataset(
        {
            "loss": (("set", "text", "part"), losses),
            "prefix_of_top": (("set", "text", "rank"), fed),
            "scores": (("twin", "text", "kind", *cells), np.stack([scores, spoilt])),
            "direct": (("text", *cells), direct),
            "removed_layer": (("without", "rank"), top[..., 0]),
            "removed_head": (("without", "rank"), top[..., 1]),
            "composition": (pairs, composed),
            "composition_z": (pairs, 4 * composed),
            "beyond_rotations": ("reading", [0.1, 0.7, 0.2]),
        },
        coords={
            "set": sets,
            "without": sets[1:],
            "part": ["first", "turn", "second"],
            "twin": ["plain", "spoilt"],
            "kind": list(KINDS),
            "reading": list(READINGS),
            "reader_layer": [17, 18],
        },
        attrs={"d_model": 576},
    )
    losses = np.full((len(sets), 12, 127), 4.0) - np.linspace(0, 1, 127)
    kinds = np.tile([PAIR, SEEN, NEW, NEW], (12, 32))[:, :127]
    rise = np.where(kinds == PAIR, 0.5, 0.1) * (1 + np.arange(12)[:, None] / 100)
    losses[1] += rise * np.linspace(0.5, 1.5, 127)
    data["prose_loss"] = (("set", "chapter", "predicted"), losses + np.arange(12)[:, None] / 100)
    data["prose_kind"] = (("chapter", "predicted"), kinds)
    notes = {"weights": "smollm2", "missing": "", "no_prose": "", "length": length}
    return Record(data=data, notes=notes)


def test_planted_numbers_settle_the_claims() -> None:
    record = planted()
    found = estimates(record.data)
    assert found["real-loss-second"].value == pytest.approx(2.3954, abs=1e-4)
    assert found["real-first-half"].value == 0.0
    assert found["real-anti-copying"].value == pytest.approx(-0.55)
    assert found["real-ablation"].value == pytest.approx(5.95)
    assert found["real-previous-feeds"].value == pytest.approx(1 / 7)
    assert found["real-k-rotation"].value == pytest.approx(4 * (1 + 3 * 0.5) / 4)
    # Pairs of one model are no replicates: n is 1, and their spread is told in words; 19.3 comes
    # too late.
    assert found["real-k-rotation"].n == 1
    assert found["real-k-rotation"].method.startswith("one model: mean of 20 values from ")
    verdicts = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))}
    assert verdicts.pop("real-first-half") == FAILS
    assert verdicts.pop("real-ablation-previous") == FAILS  # planted: it costs nothing
    # Planted alike for all heads and all random sets, these tell nothing of induction heads.
    # Attention to the right token alone decides which heads write for it.
    alike = {"keys-earlier", "prose-pairs", "prose-pairs-most", "prose-in-context-ablated"}
    alike |= {"copying"}
    assert {k for k, v in verdicts.items() if v == WOULD_HOLD} == {f"real-{k}" for k in alike}
    assert set(verdicts.values()) == {HOLDS, WOULD_HOLD}
    record.data.scores[0, :, KINDS.index("prefix"), 23, 2] += 0.01
    again = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))}
    assert again["real-prefix"] == FAILS


def test_a_head_is_judged_on_a_text_that_did_not_choose_it() -> None:
    data, text = planted().data.copy(deep=True), 2
    # The best head of one text is none of the others', and neither is the one that copies least:
    # text 2 is judged by the heads of the others, whose mean it wins with numbers that large.
    prefix = data.scores.sel(twin="plain", kind="prefix").values.copy()
    prefix[text, 1, 1], data.direct[text, 18, 6] = 9.0, -9.0
    data.scores.loc[{"twin": "plain", "kind": "prefix"}] = prefix
    found = estimates(data)
    assert prefix[:, 18, 6].mean() > 0.5
    elsewhere = [i for i in range(4) if i != text]
    least = data.direct.values[elsewhere, 18, 6].sum() + data.direct.values[text, 25, 0]
    assert found["real-anti-copying"].value == pytest.approx(least / 4)
    assert found["real-matching-head"].value == pytest.approx(0.8952 / 4)


def test_every_random_set_of_prose_counts() -> None:
    record = planted()
    before = prose_estimates(record.data)["real-prose-pairs"].value
    record.data.prose_loss.loc[{"set": "random 2"}] += 5 * (record.data.prose_kind == PAIR)
    found = prose_estimates(record.data)
    assert found["real-prose-pairs"].value == pytest.approx(before - 0.5)
    random = nulls(record)["random"]
    for name in ("real-prose-pairs", "real-prose-pairs-most"):
        drawn = random[name]
        assert [i for i, draw in enumerate(drawn) if draw.low > 0] == [2] and len(drawn) == 10


def test_five_heads_stand_among_all_choices_of_their_layers() -> None:
    data = planted().data
    drawn = np.random.default_rng(0).normal(size=data.direct.shape)
    data["direct"] = (data.direct.dims, drawn)
    mean, own = drawn.mean(axis=0), [(18, 6), (17, 3), (17, 4), (18, 7), (17, 5)]
    heads = [(17, head) for head in range(9)] + [(18, head) for head in range(9)]
    sums = [
        sum(mean[cell] for cell in five)
        for five in itertools.combinations(heads, 5)
        if sum(layer == 17 for layer, _ in five) == 3
    ]
    less = np.mean(np.array(sums) < sum(mean[cell] for cell in own) - 1e-9)
    assert len(sums) == 3024 and estimates(data)["real-copying"].value == pytest.approx(less)
    # All heads write alike for what they look at: the five that look there have most.
    (drawn,) = nulls(planted())["false world"]["real-copying"]
    assert drawn.value == 3023 / 3024


def test_keys_before_values_hang_on_no_single_writer() -> None:
    data = planted().data
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    composed = np.random.default_rng(0).uniform(size=data.composition.shape)
    data["composition"] = (data.composition.dims, composed)
    alone = data.copy(deep=True)
    for layer, head in writers:
        for later, reader in readers:
            if layer < later:
                at = {"reading": "K", "layer": layer, "head": head, "reader_head": reader}
                data.composition.loc[at | {"reader_layer": later}] = 2.0
                if layer == 16:
                    alone.composition.loc[at | {"reader_layer": later}] = 2.0
    all_carry, one_carries = (estimates(x)["real-k-composition"].value for x in (data, alone))
    assert all_carry >= 0.95 > one_carries
    # Without it, what the other three have stands among the choices of three.
    place = places(alone).transpose("reader", "writer", "reading")
    kept = place.isel(writer=[i for i, (layer, _) in enumerate(writers) if layer not in (16, 19)])
    own = float((kept.sel(reading="K") - kept.sel(reading="V")).mean())
    (at,) = [i for i, (layer, _) in enumerate(writers) if layer == 16]
    choices = keys_over_without(alone, "V")
    assert choices.shape == (4, 8**4) and [layer for layer, _ in writers][3] == 19 and at < 3
    assert one_carries == pytest.approx((choices[at] < own - 1e-12).mean())


def test_the_best_writer_and_keys_over_others_stand_among_other_writers() -> None:
    data = planted().data
    composed = np.random.default_rng(0).uniform(size=data.composition.shape)
    data["composition"] = (data.composition.dims, composed)
    place, choices, bests = places(data), keys_over(data, "Q"), of_other_writers(data)
    own = float((place.sel(reading="K") - place.sel(reading="Q")).mean())
    best = float(place.sel(reading="K").max("writer").mean())
    assert choices.shape == (8**4,)
    found = estimates(data)
    assert found["real-k-over-q"].value == pytest.approx((choices < own).mean())
    assert found["real-k-best"].value == pytest.approx((bests < best).mean())
    # The first choice: of layers 16, 11, 2 and 1 the first head that is no writer; without 19.3.
    first = data.copy(deep=True)
    first["removed_head"][1] = [1, 0, 0, 3, 0]
    moved = places(first)
    expected = float((moved.sel(reading="K") - moved.sel(reading="Q")).mean())
    assert choices[0] == pytest.approx(expected)
    assert bests[0] == pytest.approx(float(moved.sel(reading="K").max("writer").mean()))


def test_a_share_of_the_choices_among_themselves_is_even() -> None:
    values = np.random.default_rng(0).normal(size=3024)
    shares = shares_with_less(values)
    np.testing.assert_allclose(np.sort(shares), np.arange(3024) / 3024)
    assert 0.04 < (shares >= 0.95).mean() <= 0.05
    assert shares_with_less(np.ones(4)).tolist() == [0, 0, 0, 0]


def test_without_prose_its_claims_alone_are_not_run() -> None:
    record = planted()
    record.notes["no_prose"] = "get it"
    verdicts = {v.claim.id: v for v in settle(CLAIMS, *measure(record), nulls(record))}
    missing = {name for name, v in verdicts.items() if v.verdict == NOT_RUN}
    assert missing == {name for name in verdicts if name.startswith("real-prose")}
    assert "get it" in verdicts["real-prose-pairs"].reason


def test_tokens_of_prose_are_told_apart() -> None:
    text = np.array([[1, 2, 3, 1, 2, 1, 3, 4]])
    expected = [[NEW, NEW, SEEN, PAIR, SEEN, SEEN, NEW]]
    np.testing.assert_array_equal(repeated_pairs(text), expected)


def test_a_pair_stands_among_all_pairs_of_its_two_layers() -> None:
    data = planted().data
    drawn = np.random.default_rng(0).uniform(size=data.composition.shape)
    data["composition"] = (data.composition.dims, drawn)
    place = places(data)
    assert place.shape == (3, 5, 5)
    assert np.isnan(place[:, :, 3]).all()  # 19.3 comes after all induction heads
    pairs = drawn[1, 11, :, 0, :]  # 11.1 and 17.3, through keys
    assert place.sel(reading="K")[1, 1] == (pairs < pairs[1, 3]).sum() / 80
    best = pairs.argmax()
    data["removed_head"][1, 1], data["removed_head"][0, 1] = best // 9, best % 9
    assert places(data).sel(reading="K")[1, 1] == 1.0


def test_one_other_writer_of_eight_is_in_an_eighth_of_the_choices() -> None:
    data = planted().data
    composed = np.random.default_rng(0).uniform(size=data.composition.shape)
    composed[1, :, :, 0, 3:6] /= 2
    composed[1, :, :, 1, 6:8] /= 2
    composed[1, 11, 5, 0, 3:6] = composed[1, 11, 5, 1, 6:8] = 2.0  # through keys
    data["composition"] = (data.composition.dims, composed)
    draws = of_other_writers(data)
    assert draws.shape == (8**4,)  # 19.3 comes after all induction heads
    assert (draws > 0.95).mean() == 1 / 8
    composed[1, 11, [1, 5]] = composed[1, 11, [5, 1]]  # 11.1 is a previous-token head itself
    data["composition"] = (data.composition.dims, composed)
    assert not (of_other_writers(data) > 0.95).any()


def test_the_composition_of_the_record_is_that_of_dense_maps(tiny: Record) -> None:
    model = open_weights("random", jax.random.split(jax.random.key(0))[0])
    heads = model.blocks.attention
    W_Q, W_K, W_V, W_O = (np.asarray(W, float) for W in heads[:4])
    angle = (TINY.length - 1) * 10_000.0 ** (-np.arange(0, 4, 2) / 4)
    q = W_Q[1, 2]
    turned = np.empty_like(q)
    turned[:, ::2] = q[:, ::2] * np.cos(angle) - q[:, 1::2] * np.sin(angle)
    turned[:, 1::2] = q[:, ::2] * np.sin(angle) + q[:, 1::2] * np.cos(angle)
    ov, read = W_V[0, 0] @ W_O[0, 1], W_K[1, 1] @ turned.T
    score = np.linalg.norm(ov @ read) / np.linalg.norm(ov) / np.linalg.norm(read)
    found = tiny.data.composition.sel(reading="K", layer=0, head=1, reader_layer=1, reader_head=2)
    assert float(found) == pytest.approx(score, rel=1e-5)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="weights='gpt2' must be one of smollm2, random"):
        Spec(weights="gpt2")
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        Spec(draws=1)
