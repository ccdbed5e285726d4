"""One-layer circuits read: copying, and what a softmax says beyond sums."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.marks import mean_bars, seed_column, trigram_table, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, NotRun, Sample, mean_of

LEARNED = 0.75  # P(out) after a alone, from which a head has learned the rule
NEAR = 0.1  # of the largest eigenvalue: what the inset shows
COPIES = 0.25  # copying score that one random head in twenty has between trained embeddings


def copying(data: xr.Dataset, when: str = "") -> Sample:
    """OV eigenvalue score, mean over the heads of a seed; ``when="_at_init"`` before training."""
    return mean_of(members_where(data)[f"copying{when}"].mean("head"))


def share_that_copies(data: xr.Dataset, when: str = "") -> Sample:
    """Share of heads with the score from which a head copies."""
    return mean_of((members_where(data)[f"copying{when}"] > COPIES).mean("head"))


def gap_on_text(data: xr.Dataset) -> Sample:
    """Last held-out loss of the sum over sources less that of the softmax, pair by pair."""
    pairs = _finite_pairs(data)
    return mean_of(pairs.sum_end - pairs.softmax_end)


def share_of_gain(data: xr.Dataset) -> Sample:
    """Of what a softmax gains over the bigram table, the share that the sum gains too."""
    pairs = _finite_pairs(data)
    return mean_of((pairs.bigram_loss - pairs.sum_end) / (pairs.bigram_loss - pairs.softmax_end))


def unless_gap(data: xr.Dataset, learned: bool = False) -> Sample:
    """On "a unless b", loss of the best sum less that of the head, of all or those that learned."""
    runs = members_where(data, has_learned(data) if learned else "gap_alive")
    if not runs.sizes["run"]:
        raise Absent("no seed learned the rule" if learned else "no head stayed finite")
    return mean_of(runs.gap)


def sum_misses(data: xr.Dataset) -> Sample:
    """On "a unless b", loss of the best sum less the entropy of the answers."""
    return mean_of(data.additive_loss - data.optimal_loss)


def has_learned(data: xr.Dataset) -> xr.DataArray:
    """Seeds whose head tells a alone from the other cells; the others sit on a plateau."""
    return data.gap_alive & (data.p_out.isel(cell=1) > LEARNED)


def _finite_pairs(data: xr.Dataset) -> xr.Dataset:
    pairs = members_where(data, np.isfinite(data.softmax_end) & np.isfinite(data.sum_end))
    if not pairs.sizes["pair"]:
        raise NotRun("no pair of models stayed finite")
    return pairs


def trigrams(data: xr.Dataset) -> Figure:
    """S0's Table 1 for the first seed: the top sources of each head, who attends, what they raise.

    Of the most frequent tokens alone. S0 is "Some Structures in Transformer Architectures".
    """
    names = np.array([visible(str(name), 8) for name in data.token.values])
    return trigram_table(*(names[data[name]] for name in ("sources", "destinations", "outs")))


def eigenvalues(data: xr.Dataset) -> Figure:
    """Every OV eigenvalue in the complex plane, over the largest, before training and after."""
    alive = members_where(data)
    figure, axes = new_figure(1, 2, height=3.0, sharex=True, sharey=True)
    kinds = (("_at_init", "before training"), ("", "after"))
    for ax, (suffix, title) in zip(axes[0], kinds, strict=True):
        real, imaginary = np.split(alive[f"eigenvalues{suffix}"].values, 2, axis=-1)
        largest = np.hypot(real, imaginary).max()
        at = real.ravel() / largest, imaginary.ravel() / largest
        ax.scatter(*at, s=4, color=BLUE, alpha=0.4, linewidths=0)
        zero_line(ax, vertical=True)
        mean = float(alive[f"copying{suffix}"].mean())
        ax.set(title=f"{title}: mean score {mean:.2f}", xlabel="real part, share of the largest")
        near = ax.inset_axes((0.03, 0.62, 0.36, 0.36))
        near.scatter(*at, s=3, color=BLUE, alpha=0.3, linewidths=0)
        near.set(xlim=(-NEAR, NEAR), ylim=(-NEAR, NEAR), xticks=[], yticks=[])
        near.spines[:].set(visible=True, color=GREY)
        ax.indicate_inset_zoom(near, edgecolor=GREY)
        ax.set(xlim=(-1.05, 1.05), ylim=(-0.8, 1.05))
    axes[0, 0].set_ylabel("imaginary part")
    heads, seeds = alive.copying.size, alive.sizes["member"]
    sample_note(figure, f"every eigenvalue of {heads} heads of {seeds} seeds")
    return figure


def additivity(data: xr.Dataset) -> Figure:
    """Sum less softmax on text, pair by pair, and P(out) on "a unless b" by what a text holds."""
    figure, axes = new_figure(1, 2, height=2.7, width_ratios=[0.6, 1.3])
    gaps, unless = axes[0]
    pairs = _finite_pairs(data)
    seed_column(gaps, 0, (pairs.sum_end - pairs.softmax_end).values, ORANGE, form="+.3f")
    zero_line(gaps)
    gaps.set(xlim=(-0.5, 0.6), ylabel="sum less softmax, nats", xticks=[], title="on text")
    runs = members_where(data, has_learned(data), otherwise="gap_alive")
    kinds = (("p_out", BLUE, "one head"), ("additive_p_out", ORANGE, "best sum"))
    for shift, (name, colour, label) in zip((-0.2, 0.2), kinds, strict=True):
        rows = runs[name].transpose("cell", "run")
        mean_bars(unless, rows, colour, shift=shift, width=0.38, label=label)
    for x, y in enumerate((0.5, 0.9, 0.5, 0.5)):
        rule = None if x else "the rule"
        unless.plot([x - 0.45, x + 0.45], [y, y], ":", color=BLACK, linewidth=0.9, label=rule)
    unless.set(xticks=range(4), xticklabels=["neither", "a", "b", "both"], title="“a unless b”")
    unless.set(ylim=(0, 1.25), ylabel="P(out)", yticks=[0, 0.5, 1])
    unless.legend(loc="upper center", ncols=3, fontsize=6)
    letter_panels(axes[0])
    n, of = pairs.sizes["pair"], data.sizes["pair"]
    sample_note(figure, f"a: {n} of {of} pairs stayed finite; b: {runs.sizes['run']} seeds")
    return figure
