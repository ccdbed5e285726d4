"""Induction heads of several depths and widths: what is read from the record, and its figures."""

from collections.abc import Collection, Iterator
from itertools import cycle
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLUE, COLOURS, DEPTH_COLOURS, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.members import members_where
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    difference_of,
    mean_of,
    resampled,
    share_of,
)
from experiments.induction.shared.head_roles import NO_MATCH, PREFIX_SCORE
from experiments.induction.shared.phase_change import has_changed, last_score

CORNER = 0.8  # eigenvalue scores from here on are in the corner
DEEP = (3, 4)
MARKS = "os^DvPX"
# Panels of one row; five fit if they are all.
COLUMNS = 4


def share_changed(data: xr.Dataset, layers: list[int], mlps: bool = False) -> Sample:
    """Share of the models of some depths whose in-context score jumps."""
    usual = last_score(_second(data))
    parts = _parts(data, layers, mlps)
    return share_of(np.concatenate([has_changed(part, usual).values for part in parts]))


def share_with_head(data: xr.Dataset, layers: list[int], mlps: bool = False) -> Sample:
    """Share of the models of some depths with a prefix-matching head at the end of training."""
    return share_of(np.concatenate([_has_head(part).values for part in _parts(data, layers, mlps)]))


def share_in_last(data: xr.Dataset, layers: int) -> Sample:
    """Share of the models with a prefix-matching head whose best one lies in the last layer."""
    (part,) = _parts(data, [layers])
    best = part.prefix.stack(each=("layer", "head")).dropna("each")
    formed = (best.max("each") >= PREFIX_SCORE).values
    if not formed.any():
        raise Absent("no model of this depth has a prefix-matching head")
    return share_of(best.layer.values[best.argmax("each").values][formed] == layers - 1)


def share_copies(data: xr.Dataset) -> Sample:
    """Share of a model's prefix-matching heads behind the first layer that copy."""
    shares = []
    for part in _parts(data, [*DEEP, 5, 6]):
        later = part.isel(layer=slice(1, int(part.n_layers))).transpose("member", ...)
        for prefix, copying in zip(later.prefix.values, later.copying.values, strict=True):
            if (matches := prefix >= PREFIX_SCORE).any():
                shares.append(float(np.mean(copying[matches] > 0)))
    return mean_of(_enough(shares), bounds=(0, 1))


def scores_together(data: xr.Dataset) -> dict[str, Sample]:
    """Rank correlations of head scores, of what heads have above the mean of their layer."""
    names = ("prefix", "copying", "qk_trace", "eigenvalues")
    found: dict[str, list[float]] = {}
    for prefix, copying, qk_trace, eigenvalues in _models_with_head(data, names):
        later = prefix[1:]
        # Heads that match nothing are alike: how little they match would rank them.
        matched = np.maximum(later, NO_MATCH)
        for name, value in (
            ("depth-score-together", _ranks_in_layers(matched, copying[1:])),
            ("depth-evaluator-matching", _ranks_in_layers(later, qk_trace[1:])),
            ("depth-evaluator-copying", _ranks_in_layers(copying, eigenvalues)),
        ):
            if np.isfinite(value):
                found.setdefault(name, []).append(value)
    return {name: mean_of(values) for name, values in found.items() if len(values) > 1}


def attribution(data: xr.Dataset, idle: bool = False) -> Sample:
    """What removing the heads that match does along the change; or those that match nothing."""
    found = []
    for prefix, along in _models_with_head(data, ("prefix", "before_after")):
        chosen = prefix[1:] < NO_MATCH if idle else prefix[1:] >= PREFIX_SCORE
        if chosen.any():
            found.append(float(along[1:][chosen].mean()))
    return mean_of(_enough(found))


def corner_lead(data: xr.Dataset) -> Estimate:
    """Share of a model's heads that match in the corner, less that of its other heads."""
    leads = []
    for part in _parts(data, DEEP):
        later = part.isel(layer=slice(1, int(part.n_layers)))
        later = later.transpose("member", "layer", "head", ...)
        corner = np.minimum(later.eigenvalues, later.matching).values >= CORNER
        for inside, matches in zip(corner, later.prefix.values >= PREFIX_SCORE, strict=True):
            if matches.any() and not matches.all():
                leads.append(inside[matches].mean() - inside[~matches].mean())
    lead = mean_estimate(_enough(leads))
    # Of shares no difference is above 1.
    return lead._replace(high=min(lead.high, 1.0), method=f"{lead.method}, cut at 1")


def token_change(data: xr.Dataset, kind: str, layers: int = 2) -> Sample:
    """Change of the loss on a last token through the steepest sixth of the in-context score."""
    part = _second(data) if layers == 2 else _parts(data, [layers])[0]
    return mean_of(_at(part[kind], part.jump_end) - _at(part[kind], part.jump_start))


def scores_alike(data: xr.Dataset, one_layer: bool = False) -> Sample:
    """Least over greatest last in-context score of sizes, of models with a prefix-matching head.

    With models of one layer, which have no such head, among the sizes if ``one_layer``.
    """
    arms = [part for mlps in (False, True) for part in _parts(data, range(1, 99), mlps, some=False)]
    parts = [members_where(part, _has_head(part)) for part in arms if int(part.n_layers) > 1]
    if one_layer:
        parts += [part for part in arms if int(part.n_layers) == 1]
    scores = [part.in_context.isel(step=-1).values for part in parts if part.sizes["member"]]
    if not scores:
        raise Absent("no model has a prefix-matching head")

    def alike(*chosen: np.ndarray) -> float:
        means = [-score[i].mean() for score, i in zip(scores, chosen, strict=True)]
        return float(min(means) / max(means))

    return resampled(alike, *(len(score) for score in scores))


def order(data: xr.Dataset) -> dict[str, Sample]:
    """Fall of the loss for each factor e of tokens, of narrowest less widest models of 2 layers."""
    widths = _parts(data, [2])
    rates = [_slopes(part) for part in (widths[0], widths[-1])]
    found = {}
    for when in ("before", "after"):
        small, large = (rate[when][np.isfinite(rate[when])] for rate in rates)
        if min(len(small), len(large)) > 1:
            found[f"depth-order-{when}"] = difference_of(small, large)
    return found


def _slopes(part: xr.Dataset) -> dict[str, np.ndarray]:
    """Fall of each member's loss for each factor e of tokens, before its change and after it.

    NaN where the change begins with the first measurement or ends with the last one.
    """
    first, last = float(part.step[1]), float(part.step[-1])
    start, end = part.jump_start, part.jump_end

    def fall(begin: xr.DataArray, stop: xr.DataArray) -> np.ndarray:
        ratio = (stop / begin.where(begin > 0)).values
        factor = np.log(np.where(ratio > 1.05, ratio, np.nan))
        lost = _at(part.loss, begin) - _at(part.loss, stop)
        return np.asarray(lost.values / factor)

    always = xr.ones_like(start)
    return {"before": fall(first * always, start), "after": fall(end, last * always)}


def _parts(
    data: xr.Dataset, layers: Collection[int], mlps: bool = False, *, some: bool = True
) -> list[xr.Dataset]:
    """The living members of each arm of some depths, with MLPs or without."""
    lives = data.alive.any("member").values
    chosen = [int(n) in layers for n in data.n_layers.values] & lives & (_no_mlps(data) != mlps)
    if some and not chosen.any():
        raise NotRun("this run has no finite models of that size")
    return [members_where(data.sel(arm=arm)) for arm in data.arm.values[chosen]]


def _no_mlps(data: xr.Dataset) -> np.ndarray:
    return np.asarray(data.d_mlp == 0)


def _second(data: xr.Dataset) -> xr.Dataset:
    """The living members of two layers and of the width that all depths have."""
    part = members_where(data.sel(arm=_widths(data)[1]))
    if not part.sizes["member"]:
        raise NotRun("this run has no finite models of that size")
    return part


def _widths(data: xr.Dataset) -> list[str]:
    """Names of the arms of two layers without MLPs, from the narrowest to the widest."""
    return [str(arm) for arm in data.arm.values[(data.n_layers.values == 2) & _no_mlps(data)]]


def _has_head(part: xr.Dataset) -> xr.DataArray:
    return part.prefix.max(["layer", "head"]) >= PREFIX_SCORE


def _models_with_head(data: xr.Dataset, names: tuple[str, ...]) -> Iterator[list[np.ndarray]]:
    """Scores ``[layer, head]`` of each model of `DEEP` with a match behind its first layer."""
    for part in _parts(data, DEEP):
        layers = part.isel(layer=slice(int(part.n_layers)))
        prefix = layers.prefix.transpose("member", "layer", "head").values
        scores = [layers[name].transpose("member", "layer", "head").values for name in names]
        for member in range(len(prefix)):
            if (prefix[member, 1:] >= PREFIX_SCORE).any():
                yield [score[member] for score in scores]


def _enough(values: list[float]) -> list[float]:
    if len(values) < 2:
        raise Absent("too few seeds have heads of the kinds named")
    return values


def _ranks_in_layers(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation of what heads have above the mean of their layer; NaN if constant."""
    x, y = ((each - each.mean(axis=1, keepdims=True)).ravel() for each in (first, second))
    return float(stats.spearmanr(x, y).statistic) if np.ptp(x) * np.ptp(y) > 0 else np.nan


def _at(curve: xr.DataArray, step: xr.DataArray) -> xr.DataArray:
    """A curve of every member at a step of its own, interpolated linearly."""
    return curve.interp(step=step).drop_vars("step")


def curves(data: xr.Dataset) -> Figure:
    """In-context score and loss of every size: of two layers, and of the width of all depths."""
    # The width of all depths is the second one, whether models of two layers lived or not.
    width = int(data.d_model.sel(arm=_widths(data)[1]))
    data = _alive(data)
    figure, axes = new_figure(2, 2, height=4.6, sharex=True, sharey="col")
    two, deep = data.n_layers.values == 2, data.d_model.values == width
    for row, title, chosen, colours in (
        (axes[0], "widths, two layers", two, COLOURS),
        (axes[1], "depths, one width", deep & (_no_mlps(data) | ~two), DEPTH_COLOURS[1:]),
    ):
        for ax, name in zip(row, ("in_context", "loss"), strict=True):
            _of_arms(ax, data.isel(arm=chosen), name, colours)
        zero_line(row[0])
        row[0].set_ylabel("in-context score, nats")
        row[1].set_ylabel("loss, nats")
        reference_line(row[1], y=float(data.uniform), label="uniform", style="dotted")
        beside = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        row[1].legend(title=title, title_fontsize=7, fontsize=6.5, **beside)
    for ax in axes[1]:
        ax.set_xlabel("steps")
    letter_panels(axes.flat)
    sample_note(figure, _interval(data))
    return figure


def _of_arms(ax: Axes, data: xr.Dataset, name: str, colours: tuple[str, ...]) -> None:
    """One quantity of several arms along training."""
    for arm, colour, mark in zip(data.arm.values, cycle(colours), cycle(MARKS), strict=False):
        part = members_where(data.sel(arm=arm))[name].transpose("step", "member")
        line = mean_curve(ax, part.step, part.values, colour, label=str(arm), marker=mark)
        line.set(markevery=5, markersize=3.5)


def heads(data: xr.Dataset) -> Figure:
    """Prefix matching against copying, of every head by its layer."""
    data = _alive(data)
    arms = data.arm.values[data.n_layers.values > 2]
    figure, panels, axes = _grid(len(arms), 2, 2.6)
    for ax, arm in zip(panels, arms, strict=True):
        part = members_where(data.sel(arm=arm))
        for layer in range(int(part.n_layers)):
            dots = part.isel(layer=layer)
            colour = COLOURS[layer % len(COLOURS)]
            how: dict[str, Any] = {"color": colour, "markersize": 3, "linestyle": "none"}
            at = dots.copying.values.ravel(), dots.prefix.values.ravel()
            ax.plot(*at, MARKS[layer % len(MARKS)], label=f"layer {layer}", **how)
        reference_line(ax, y=PREFIX_SCORE, label="matches", style="dotted")
        zero_line(ax, vertical=True)
        ax.set_title(f"{arm}, {part.sizes['member']} seeds")
    _label(axes, "copying, cosine", "prefix matching")
    if panels:
        legend_above(figure, panels[-1], columns=7)
    letter_panels(panels)
    return figure


def tokens(data: xr.Dataset) -> Figure:
    """Losses on a last token that continues the repeat and on one that breaks it."""
    data = _alive(data)
    arms = data.arm.values[data.n_layers.values > 1]
    figure, panels, axes = _grid(len(arms), len(arms) if len(arms) <= 5 else COLUMNS, 2.2)
    for ax, arm in zip(panels, arms, strict=True):
        part = members_where(data.sel(arm=arm))
        ends = (float(np.mean(part[f"jump_{end}"])) for end in ("start", "end"))
        ax.axvspan(*ends, color="0.9", linewidth=0, label="phase change")
        for name, colour, label in (
            ("on_repeat", BLUE, "continues the repeat"),
            ("on_break", ORANGE, "breaks it"),
        ):
            values = part[name].transpose("step", "member").values
            mean_curve(ax, part.step, values, colour, label=label, marker="", each=False)
        ax.set_title(str(arm), fontsize=7)
        ax.set_xticks([0, int(data.step[-1])])
    _label(axes, "steps", "loss on last token, nats")
    legend_above(figure, panels[0], columns=3, title=_interval(data), title_fontsize=7)
    letter_panels(panels)
    return figure


def _alive(data: xr.Dataset) -> xr.Dataset:
    """The arms of which a seed stayed finite."""
    return data.isel(arm=data.alive.any("member").values)


def _grid(n: int, columns: int, height: float) -> tuple[Figure, list[Axes], np.ndarray]:
    """A figure with n panels in rows of so many, the panels, and all axes, unused ones hidden."""
    rows = max(1, -(-n // columns))
    inches, across = height * (1 + 0.8 * (rows - 1)), min(columns, max(n, 1))
    figure, axes = new_figure(rows, across, height=inches, sharex=True, sharey=True)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:n]), axes


def _label(axes: np.ndarray, x: str, y: str) -> None:
    """Names of the axes, at the outer panels."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)


def _interval(data: xr.Dataset) -> str:
    """Number of seeds in the means."""
    counts = sorted({int(n) for n in data.alive.sum("member").values})
    return f"mean of {' or '.join(map(str, counts))} seeds each, 95 % interval"
