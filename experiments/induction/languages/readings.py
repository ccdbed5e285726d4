"""English prose beside Python source: what is read from the record, and its figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    mean_bars,
    notice,
    seed_column,
    seed_dots,
    trigram_table,
    zero_line,
)
from circuitax.figures.palette import BLACK, TEXT_COLOURS
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, NotRun, Sample, mean_of
from experiments.induction.shared.measures_term_worth import term_worth

LANGUAGES = {
    "python": ("Python source", TEXT_COLOURS["python"]),
    "english": ("English prose", TEXT_COLOURS["english"]),
}
COPIES = 0.25  # copying score that one random head in twenty has between trained embeddings


def depths(data: xr.Dataset) -> dict[str, Sample]:
    """Held-out losses of no layer and of one, beside that of the table of bigrams."""
    members = _english(data)
    none, one = (members.loss_of_depth.isel(model=i) for i in range(2))
    return {
        "english-zero-layers": mean_of(none - members.bigram_loss),
        "english-one-layer": mean_of(members.bigram_loss - one),
    }


def no_layer(data: xr.Dataset) -> Sample:
    """Held-out loss of the table of bigrams, less that of a model without layers."""
    members = _english(data)
    return mean_of(members.bigram_loss - members.loss_of_depth.isel(model=0))


def share_copies(data: xr.Dataset, at_start: bool = False) -> Sample:
    """Share of heads of one layer with an OV eigenvalue score above that of random heads."""
    members = _english(data)
    scores = members.ov_copying_at_init if at_start else members.ov_copying
    return mean_of((scores > COPIES).mean("cell"))


def copying_rise(data: xr.Dataset) -> Sample:
    """OV eigenvalue score after training less before, median of heads."""
    members = _english(data)
    return mean_of((members.ov_copying - members.ov_copying_at_init).median("cell"))


def rejoined(data: xr.Dataset) -> Sample:
    """Preference for a word's own second piece, of the head best at other words; its rise."""
    members = _english(data)

    def score(when: str) -> xr.DataArray:
        chosen = members[f"rejoin_choice{when}"].fillna(0).argmax("cell")
        return members[f"rejoin{when}"].isel(cell=chosen)

    rise = score("") - score("_at_init")
    if not bool(np.isfinite(rise).all()):
        raise NotRun("this text has too few words of two tokens")
    return mean_of(rise)


def worth(data: xr.Dataset) -> dict[str, Sample]:
    """Nats a token that paths of each order and single heads of each layer save."""
    return term_worth(_english(data)).named("english")


def _english(data: xr.Dataset) -> xr.Dataset:
    if "missing" in data.attrs:
        raise NotRun(f"the English text is not at hand: {data.attrs['missing']}")
    members = _of_language(data, "english")
    if not members.sizes["member"]:
        raise Absent("no seed stayed finite")
    return members


def _of_language(data: xr.Dataset, language: str) -> xr.Dataset:
    """The seeds all of whose depths stayed finite."""
    chosen = data.sel(language=language)
    return members_where(chosen, (chosen.alive == 1).all("model"))


def readings(data: xr.Dataset) -> Figure:
    """Four panels, Python beside English in each: losses, orders of paths, layers, and copying."""
    if "missing" in data.attrs:
        return notice(f"not at hand: {data.attrs['missing']}")
    figure, axes = new_figure(2, 2, height=5.0)
    loss, orders, layers, copying = axes.flat
    counts = []
    for i, (language, (label, colour)) in enumerate(LANGUAGES.items()):
        members = _of_language(data, language)
        counts.append(f"{members.sizes['member']} ({label})")
        shift = 0.4 * i - 0.2
        how: dict[str, Any] = {"shift": shift, "width": 0.38, "label": label}
        for k, row in enumerate(members.loss_of_depth.transpose("model", "member").values):
            seed_dots(loss, k + shift, row, colour, half_width=0.12)
            interval_bars(loss, [k + shift], [mean_estimate(row)], capsize=3)
        loss.plot([], [], "s", color=colour, label=label)
        table = {"color": BLACK, "linewidth": 1, "linestyle": "--"}
        ends, height = [shift - 0.19, shift + 0.19], [float(members.bigram_loss)] * 2
        loss.plot(ends, height, label="bigram table" if i else None, **table)
        saved = term_worth(members)
        mean_bars(orders, [saved.direct, saved.heads, saved.virtual], colour, **how)
        mean_bars(layers, [saved.first_alone, saved.first_last], colour, **how)
        copies = (members.ov_copying > COPIES).mean("cell")
        seed_column(copying, i, copies, colour, form=".2f", half_width=0.12)
    loss.set_xticks(range(3), ("no layer", "one layer", "two layers"))
    loss.set(ylabel="held-out loss, nats per token", title="each layer helps")
    low = min(float(data.loss_of_depth.min()), float(data.bigram_loss.min()))
    loss.set_ylim(bottom=low - 0.5)
    orders.set_xticks(range(3), ("direct\npath", "single\nheads", "virtual\nheads"))
    orders.set(ylabel="nats saved")
    orders.set(title="what paths are worth, two layers")
    layers.set_xticks((0, 1), ("without heads\nof layer 1", "with them"))
    layers.set(ylabel="nats saved", title="what heads of layer 0 are worth")
    copying.set_xticks(range(2), [label for label, _ in LANGUAGES.values()])
    copying.set(ylabel="share of heads", title="heads of one layer that copy", xlim=(-0.5, 1.5))
    for ax in axes.flat:
        zero_line(ax)
    title = f"mean and 95 % interval over seeds, n = {' and '.join(counts)}"
    legend_above(figure, loss, columns=3, title=title, title_fontsize=7)
    letter_panels(axes.flat)
    return figure


def words(data: xr.Dataset) -> Figure:
    """The strongest sources of each head of the first member with one layer, as text."""
    table = data.attrs.get("tables", {}).get("english", {}).get("words")
    if table is None:
        return notice("the English text is not at hand, or too few of its tokens are words")
    shown = np.vectorize(lambda word: visible(word.strip(), 10), otypes=[object])
    return trigram_table(*(shown(table[name]) for name in ("sources", "destinations", "outs")))
