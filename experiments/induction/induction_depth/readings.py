"""Induction heads of several depths and widths: what is read from the record, and its figures."""

from collections.abc import Collection, Iterator

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from circuitax.figures.marks import mean_curve, reference_line, zero_line
from circuitax.figures.palette import DEPTH_COLOURS, GREY, ORANGE
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.record import members_where
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
from experiments.induction.shared.phase_change import (
    at_step,
    change_through,
    has_changed,
    last_score,
)

CORNER = 0.8  # eigenvalue scores from here on are in the corner
DEEP, USUAL = (3, 4), 1  # the second: place of the width that all depths have, of two layers
WIDTHS = ("-", ":", "-.")  # lines of the widths of two layers


def share_changed(data: xr.Dataset, layers: list[int], mlps: bool = False) -> Sample:
    """Share of the models of some depths whose in-context score jumps."""
    usual = last_score(_parts(data, [2])[USUAL])
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
    models = _models_with_head(data, ("prefix", "copying"), depths=(*DEEP, 5, 6))
    shares = [float(np.mean(raised[1:][seen[1:] >= PREFIX_SCORE] > 0)) for seen, raised in models]
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
    for scores in _models_with_head(data, ("prefix", "eigenvalues", "matching")):
        prefix, values, keys = (score[1:] for score in scores)
        inside, matches = np.minimum(values, keys) >= CORNER, prefix >= PREFIX_SCORE
        if not matches.all():
            leads.append(inside[matches].mean() - inside[~matches].mean())
    lead = mean_estimate(_enough(leads))
    # Of shares no difference is above 1.
    return lead._replace(high=min(lead.high, 1.0), method=f"{lead.method}, cut at 1")


def token_change(data: xr.Dataset, kind: str, layers: int = 2) -> Sample:
    """Change of the loss on a last token through the steepest sixth of the in-context score."""
    part = _parts(data, [layers])[USUAL if layers == 2 else 0]
    return mean_of(change_through(part, part[kind]))


def scores_alike(data: xr.Dataset, one_layer: bool = False) -> Sample:
    """Least over greatest last in-context score of sizes, of models with a prefix-matching head.

    With models of one layer, which have no such head, among the sizes if ``one_layer``.
    """
    arms = _parts(data, range(1, 99), None)
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
        lost = at_step(part.loss, begin) - at_step(part.loss, stop)
        return np.asarray(lost.values / factor)

    always = xr.ones_like(start)
    return {"before": fall(first * always, start), "after": fall(end, last * always)}


def _parts(
    data: xr.Dataset, layers: Collection[int], mlps: bool | None = False
) -> list[xr.Dataset]:
    """The living members of each arm of some depths, with MLPs or without, or both (None)."""
    with_mlps = data.d_mlp.values > 0
    kind = with_mlps == (with_mlps if mlps is None else mlps)
    chosen = [int(n) in layers for n in data.n_layers.values] & kind
    parts = [members_where(data.sel(arm=arm)) for arm in data.arm.values[chosen]]
    if not parts or not all(part.sizes["member"] for part in parts):
        raise NotRun("this run has no finite models of that size")
    return parts


def _has_head(part: xr.Dataset) -> xr.DataArray:
    return part.prefix.max(["layer", "head"]) >= PREFIX_SCORE


def _models_with_head(
    data: xr.Dataset, names: tuple[str, ...], depths: Collection[int] = DEEP
) -> Iterator[list[np.ndarray]]:
    """Scores ``[layer, head]`` of each model of some depths with a match behind its first layer."""
    for part in _parts(data, depths):
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


def curves(data: xr.Dataset) -> Figure:
    """In-context score of every size, of two layers and of other depths."""
    figure, axes = new_figure(1, 2, height=3.0, sharey=True)
    kinds = (("two layers", [2]), ("other depths", [1, *range(3, 99)]))
    for ax, (title, layers) in zip(axes[0], kinds, strict=True):
        for part in _parts(data, layers, None):
            label, curve = str(part.arm.values), part.in_context.transpose("step", "member")
            line = "--" if "MLP" in label else WIDTHS[0 if len(layers) > 1 else len(ax.lines) % 3]
            colour = DEPTH_COLOURS[int(part.n_layers)]
            mean_curve(ax, curve.step, curve, colour, label=label, linestyle=line)
        zero_line(ax)
        ax.set(title=title, xlabel="steps", ylim=(None, 1.3))
        ax.legend(fontsize=6, loc="upper center", ncols=2)
    axes[0, 0].set_ylabel("in-context score, nats")
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def heads(data: xr.Dataset) -> Figure:
    """Prefix matching against copying, of every head of three layers and more."""
    parts = _parts(data, range(3, 99))
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.8)
    ax = axes[0, 0]
    for part in parts:
        last = part.layer == int(part.n_layers) - 1
        for chosen, colour in ((~last, GREY), (last, ORANGE)):
            x, y = (part[name].isel(layer=chosen.values) for name in ("copying", "prefix"))
            ax.plot(x.values.ravel(), y.values.ravel(), "o", color=colour, markersize=2.5)
    ax.plot([], [], "o", color=ORANGE, label="heads of the last layer")
    reference_line(ax, y=PREFIX_SCORE, label="matches")
    zero_line(ax, vertical=True)
    ax.set(xlabel="copying, cosine", ylabel="prefix matching")
    ax.legend(fontsize=6)
    sample_note(figure, f"all heads of {sum(part.sizes['member'] for part in parts)} models")
    return figure
