"""Measured values of the claims on several sizes, from a record."""

import numpy as np
import xarray as xr
from scipy import stats

from circuitax.records.claims import unmet_rest
from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate, proportion_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import beside
from circuitax.records.null_samples import regrouped
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from experiments.induction.induction_depth import nulls as altered
from experiments.induction.induction_depth.claims import CLAIMS, LAST_PART, LEVEL
from experiments.induction.shared.head_roles import NO_MATCH, PREFIX_SCORE
from experiments.induction.shared.phase_change import has_changed, jump_share, last_score, of_size

DRAWS, PLACES = 200, 1000  # of shuffled heads, and places of a distribution
CORNER = 0.8  # eigenvalue scores from here on are in the corner


def measure(record: Record) -> Measured:
    """The measured value of every claim; absent for models whose heads formed in too few seeds."""
    data = record.data
    bare, lives = has_no_mlps(data), data.alive.any("member").values
    arms, mlps = (
        [members_where(data.sel(arm=arm)) for arm in data.arm.values[chosen & lives]]
        for chosen in (bare, ~bare)
    )
    by_layers = {n: [part for part in arms if int(part.n_layers) == n] for n in range(2, 7)}
    by_width = {str(part.arm.item()): part for part in by_layers[2]}
    narrow, second, wide = (by_width.get(widths_of(data)[i]) for i in (0, 1, -1))
    deep = [*by_layers[3], *by_layers[4]]
    deeper, with_mlps = [*by_layers[5], *by_layers[6]], [p for p in mlps if int(p.n_layers) == 2]
    found: dict[str, Estimate] = {}
    for n_layers, at in _places([*deep, *deeper]).items():
        found[f"depth-last-{n_layers}"] = share_estimate(at == n_layers - 1)
    found |= _of_heads(deep) | _corner(deep) | _copies([*deep, *deeper])
    if second is not None:
        found |= _of_changes(last_score(second), deep, deeper, with_mlps)
    for part in by_layers[3]:
        found["depth-share-3"] = mean_estimate(jump_share(part))
    found |= _of_sizes([with_head(part) for part in (*arms, *mlps) if int(part.n_layers) > 1])
    if second is not None:
        found |= _of_tokens(second)
    if narrow is not None and wide is not None:
        rates = _rates(narrow, wide)
        found |= {name: difference_estimate(*groups) for name, groups in rates.items()}
    sizes = {
        "depth-change": deep,
        **dict.fromkeys(("depth-gain", "depth-loss"), second is not None),
        **dict.fromkeys(("depth-order-before", "depth-order-after"), bool(narrow and wide)),
        "depth-change-deeper": deeper,
        "depth-share-3": by_layers[3],
        **{f"depth-last-{n}": parts for n, parts in by_layers.items()},
        **dict.fromkeys(("depth-mlp-change", "depth-mlp-share", "depth-mlp-matching"), with_mlps),
    }
    rest = unmet_rest(CLAIMS, found, "too few seeds have heads of the kinds named")
    if deeper and "depth-change-deeper" in rest:
        level = are_level(deeper)
        rest["depth-change-deeper"] = (
            f"the score of only {level.sum()} of {level.size} models is level when training ends"
        )
    lacking = [claim for claim in rest if not sizes.get(claim, True)]
    not_run = dict.fromkeys(lacking, "this run has no finite models of that size")
    return Measured(found, {k: why for k, why in rest.items() if k not in not_run}, not_run)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: heads shuffled in their layers, other stretches, sizes and widths."""
    data = record.data
    arms = {
        str(arm): members_where(data.sel(arm=arm))
        for arm in data.arm.values
        if data.alive.sel(arm=arm).any()
    }
    attention = [part for part in arms.values() if not int(part.get("d_mlp", 0))]
    deep = [part for part in attention if int(part.n_layers) in (3, 4)]
    deepest = [part for part in attention if int(part.n_layers) > 2]
    rng = np.random.default_rng(0)
    draws = [_of_heads([altered.heads_shuffled(part, rng) for part in deep]) for _ in range(DRAWS)]
    names = _of_heads(deep)
    permuted: dict[str, Draws] = {name: [draw.get(name) for draw in draws] for name in names}
    rng = np.random.default_rng(0)
    copies = "depth-matching-copies"
    permuted[copies] = [
        _copies([altered.heads_shuffled(part, rng) for part in deepest]).get(copies)
        for _ in range(DRAWS)
    ]
    if _corner(deep):
        permuted["depth-corner-alone"] = _corners(deep)
    # Either of the last two layers alike: counts at even steps of their binomial distribution.
    levels = (np.arange(PLACES) + 0.5) / PLACES
    random: dict[str, Draws] = {
        f"depth-last-{n_layers}": [
            proportion_estimate(count, at.size) for count in stats.binom.ppf(levels, at.size, 1 / 2)
        ]
        for n_layers, at in _places(deepest).items()
    }
    widths = widths_of(data)
    second = arms.get(widths[1]) if len(widths) > 1 else None
    delayed: dict[str, Draws] = {}
    if len(widths) > 1 and {widths[0], widths[-1]} <= arms.keys():
        narrow, wide = arms[widths[0]], arms[widths[-1]]
        if before := _rates(narrow, wide).get("depth-order-before"):
            permuted["depth-order-before"] = regrouped(*before)
        delayed["depth-order-after"] = _as_late(narrow, wide) or [None]
    first_layers = [
        np.maximum(best, np.roll(best, 1)) >= PREFIX_SCORE
        for part in arms.values()
        if int(part.n_layers) == 2 and int(part.get("d_mlp", 0))
        for best in [part.prefix.isel(layer=0).max("head").values]
    ]
    mismatched: dict[str, Draws] = {
        "depth-mlp-matching": [share_estimate(matches) for matches in first_layers] or [None]
    }
    if second is not None:
        mismatched |= _of_one_layer(list(arms.values()), second)
        shallow = [part for part in arms.values() if int(part.n_layers) == 1]
        large = [altered.as_large(part, second) for part in shallow]
        others = [_of_tokens(part) for part in (*altered.beside_change(second), *shallow, *large)]
        for name, reach in altered.REACH.items():
            fixed = [other[name] for other in others]
            through = altered.through_others(second, altered.KINDS[name], DRAWS) or fixed
            mismatched[name] = [max([draw, *fixed], key=reach) for draw in through]
    if alike := _of_other_sizes(list(arms.values())):
        mismatched["depth-score-alike"] = alike
    return {
        "permuted": permuted,
        "random": random,
        "mismatched": mismatched,
        "false world": delayed,
    }


def _of_one_layer(arms: list[xr.Dataset], second: xr.Dataset) -> dict[str, Draws]:
    """Measures of the phase change, of models of one layer; those with MLPs beside others with."""
    found: dict[str, Draws] = {}
    for part in arms:
        if int(part.n_layers) == 1:
            # A gain that is as large and forms as that of one layer.
            usual, share = last_score(second), jump_share(part)
            changed = share_estimate(has_changed(of_size(part, usual), usual))
            if int(part.get("d_mlp", 0)):
                found |= {"depth-mlp-change": [changed], "depth-mlp-share": [mean_estimate(share)]}
                continue
            found |= {key: [changed] for key in ("depth-change", "depth-change-deeper")}
            found["depth-share-3"] = [mean_estimate(share)]
    return found


def _of_other_sizes(arms: list[xr.Dataset]) -> list[Estimate]:
    """The least score over the greatest, with models that lack the head for those of one size."""
    shallow, sizes = ([p for p in arms if (int(p.n_layers) > 1) == deep] for deep in (False, True))
    found: list[Estimate] = []
    for size in sizes:
        beside = [with_head(each) for each in sizes if each is not size]
        for other in (members_where(size, ~has_head(size)), *shallow):
            if other.sizes["member"] > 1:
                found += _of_sizes([other, *beside]).values()
    return found


def _corners(deep: list[xr.Dataset]) -> list[Estimate | None]:
    """The greatest lead of worlds: shuffled, with idle heads' OV or QK, or all in the corner."""
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        worlds = [[altered.heads_shuffled(part, rng) for part in deep]]
        worlds += [altered.idle_in(deep, name, rng) for name in ("eigenvalues", "matching")]
        leads = [lead for world in worlds for lead in _corner(world).values()]
        found.append(max(leads, key=lambda lead: lead.low, default=None))
    return beside(found, _corner(altered.all_in_corner(deep)).values())


def has_no_mlps(data: xr.Dataset) -> np.ndarray:
    """Mask of attention-only arms; all of a record that does not say."""
    return np.asarray(data.get("d_mlp", 0 * data.n_layers)) == 0


def widths_of(data: xr.Dataset) -> list[str]:
    """Names of the arms of two layers without MLPs, from the narrowest to the widest."""
    return [str(arm) for arm in data.arm.values[(data.n_layers.values == 2) & has_no_mlps(data)]]


@measures("depth-mlp-*", "depth-change", "depth-change-deeper")
def _of_changes(
    usual: float, deep: list[xr.Dataset], deeper: list[xr.Dataset], with_mlps: list[xr.Dataset]
) -> dict[str, Estimate]:
    """Shares of models with the phase change, and the prefix matching of those with MLPs."""
    found: dict[str, Estimate] = {}
    if deep:
        found["depth-change"] = share_estimate(
            np.concatenate([has_changed(part, usual).values for part in deep])
        )
    if deeper:
        level = are_level(deeper)
        changed = np.concatenate([has_changed(part, usual).values for part in deeper])
        if 2 * level.sum() >= level.size:
            found["depth-change-deeper"] = share_estimate(changed[level])
    for part in with_mlps:
        found["depth-mlp-change"] = share_estimate(has_changed(part, usual))
        found["depth-mlp-share"] = mean_estimate(jump_share(part))
        found["depth-mlp-matching"] = share_estimate(has_head(part))
    return found


def are_level(parts: list[xr.Dataset]) -> np.ndarray:
    """Mask of the members of all parts whose in-context score is level when training ends."""
    found = []
    for part in parts:
        last = float(part.step[-1])
        before = part.in_context.interp(step=last - LAST_PART * (last - float(part.step[0])))
        found.append((before - part.in_context.isel(step=-1)).values < LEVEL)
    return np.concatenate(found)


def _places(parts: list[xr.Dataset]) -> dict[int, np.ndarray]:
    """The layer of the best prefix-matching head of each model that has one, by layers."""
    found = {}
    for part in parts:
        best = part.prefix.stack(each=("layer", "head")).dropna("each")
        formed = (best.max("each") >= PREFIX_SCORE).values
        if formed.any():
            found[int(part.n_layers)] = best.layer.values[best.argmax("each").values][formed]
    return found


@measures("depth-before-*", "depth-evaluator-*", "depth-score-together")
def _of_heads(deep: list[xr.Dataset]) -> dict[str, Estimate]:
    """Scores of single heads of deep models, as one number for each seed."""
    samples: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        if np.isfinite(value):
            samples.setdefault(name, []).append(float(value))

    names = ("prefix", "copying", "qk_trace", "eigenvalues", "before_after")
    for part in deep:
        layers = part.isel(layer=slice(int(part.n_layers)))
        models = [layers[name].transpose("member", "layer", "head").values for name in names]
        for every in zip(*models, strict=True):
            prefix, copying, qk_trace, _, along = (each[1:] for each in every)
            matches, idle = prefix >= PREFIX_SCORE, prefix < NO_MATCH
            if not matches.any():
                continue
            # Heads that match nothing are alike: how little they match would rank them.
            matched = np.maximum(prefix, NO_MATCH)
            add("depth-score-together", _ranks_in_layers(matched, copying))
            add("depth-evaluator-matching", _ranks_in_layers(prefix, qk_trace))
            add("depth-evaluator-copying", _ranks_in_layers(every[1], every[3]))
            add("depth-before-after", along[matches].mean())
            add("depth-before-after-others", _lead_in_layers(along, matches, idle))
    return {name: mean_estimate(values) for name, values in samples.items() if len(values) > 1}


@measures("depth-corner-alone")
def _corner(deep: list[xr.Dataset]) -> dict[str, Estimate]:
    """Share of a model's heads that match in the corner, less that of its other heads."""
    leads = []
    for part in deep:
        later = part.isel(layer=slice(1, int(part.n_layers)))
        later = later.transpose("member", "layer", "head", ...)
        corner = np.minimum(later.eigenvalues, later.matching).values >= CORNER
        for inside, matches in zip(corner, later.prefix.values >= PREFIX_SCORE, strict=True):
            if matches.any() and not matches.all():
                leads.append(inside[matches].mean() - inside[~matches].mean())
    if len(leads) < 2:
        return {}
    lead = mean_estimate(leads)
    # Of shares no difference is above 1.
    cut = lead._replace(high=min(lead.high, 1.0), method=f"{lead.method}, cut at 1")
    return {"depth-corner-alone": cut}


@measures("depth-matching-copies")
def _copies(parts: list[xr.Dataset]) -> dict[str, Estimate]:
    """Share of prefix-matching heads behind the first layer that copy, as one number a seed."""
    shares = []
    for part in parts:
        later = part.isel(layer=slice(1, int(part.n_layers))).transpose("member", ...)
        for prefix, copying in zip(later.prefix.values, later.copying.values, strict=True):
            if (matches := prefix >= PREFIX_SCORE).any():
                shares.append(float(np.mean(copying[matches] > 0)))
    if len(shares) < 2:
        return {}
    return {"depth-matching-copies": mean_estimate(shares, bounds=(0, 1))}


def _above_layers(values: np.ndarray) -> np.ndarray:
    """What heads have above the mean of their layer; of ``[layer, head]``, in one row."""
    return (values - values.mean(axis=1, keepdims=True)).ravel()


def _ranks_in_layers(first: np.ndarray, second: np.ndarray) -> float:
    """Rank correlation of what heads have above the mean of their layer, ``[layer, head]``."""
    return _ranks(_above_layers(first), _above_layers(second))


def _lead_in_layers(values: np.ndarray, some: np.ndarray, others: np.ndarray) -> float:
    """Mean of some heads less that of others, over layers that have both; nan if none has."""
    leads = [
        row[own].mean() - row[other].mean()
        for row, own, other in zip(values, some, others, strict=True)
        if own.any() and other.any()
    ]
    return float(np.mean(leads)) if leads else float("nan")


@measures("depth-gain", "depth-loss")
def _of_tokens(part: xr.Dataset) -> dict[str, Estimate]:
    """Losses on tokens that continue a repeat and that break it, through the phase change."""
    return {
        name: mean_estimate(at(part[kind], part.jump_end) - at(part[kind], part.jump_start))
        for name, kind in altered.KINDS.items()
    }


def with_head(part: xr.Dataset) -> xr.Dataset:
    """The members of one size that have a prefix-matching head when training ends."""
    return members_where(part, has_head(part))


def has_head(part: xr.Dataset) -> xr.DataArray:
    """Mask of the members that have a prefix-matching head when training ends."""
    return part.prefix.max(["layer", "head"]) >= PREFIX_SCORE


@measures("depth-score-alike")
def _of_sizes(arms: list[xr.Dataset]) -> dict[str, Estimate]:
    """Comparison of the last in-context scores of all sizes that have a member."""
    scores = [part.in_context.isel(step=-1).values for part in arms if part.sizes["member"]]
    if not scores:
        return {}

    def alike(*chosen: np.ndarray) -> float:
        means = [-score[i].mean() for score, i in zip(scores, chosen, strict=True)]
        return float(min(means) / max(means))

    return {"depth-score-alike": resampled_estimate(alike, *(len(score) for score in scores))}


@measures("depth-order-*")
def _rates(narrow: xr.Dataset, wide: xr.Dataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rates of decrease of losses in the narrowest and widest models, by the claim on both."""
    found, rates = {}, [slopes(part) for part in (narrow, wide)]
    for when in ("before", "after"):
        small, large = (rate[when][np.isfinite(rate[when])] for rate in rates)
        if min(len(small), len(large)) > 1:
            found[f"depth-order-{when}"] = (small, large)
    return found


def slopes(part: xr.Dataset) -> dict[str, np.ndarray]:
    """Fall of each member's loss for each factor e of tokens, before its change and after it.

    NaN where the change begins with the first measurement or ends with the last one.
    """
    first, last = float(part.step[1]), float(part.step[-1])
    start, end = part.jump_start, part.jump_end

    def fall(begin: xr.DataArray, stop: xr.DataArray) -> np.ndarray:
        ratio = (stop / begin.where(begin > 0)).values
        factor = np.log(np.where(ratio > 1.05, ratio, np.nan))
        lost = at(part.loss, begin) - at(part.loss, stop)
        return np.asarray(lost.values / factor)

    always = xr.ones_like(start)
    return {"before": fall(first * always, start), "after": fall(end, last * always)}


def _as_late(narrow: xr.Dataset, wide: xr.Dataset) -> list[Estimate]:
    """Rates of widest models behind a change as late as that of narrowest ones, less their own.

    Each of them loses what it does in as many steps behind its own change as training leaves the
    narrowest model behind its; one draw for each that has a rate.
    """
    last, found = float(wide.step[-1]), []
    own = slopes(wide)["after"]
    own = own[np.isfinite(own)]
    for late in narrow.jump_end.values[np.isfinite(slopes(narrow)["after"])]:
        end = wide.jump_end
        lost = (at(wide.loss, end) - at(wide.loss, end + last - late)).values
        moved = lost[np.isfinite(lost)] / np.log(last / late)
        if min(moved.size, own.size) > 1:
            found.append(difference_estimate(moved, own))
    return found


def at(curve: xr.DataArray, step: xr.DataArray) -> xr.DataArray:
    """A curve of every member at a step of its own, interpolated linearly."""
    return curve.interp(step=step).drop_vars("step")


def _ranks(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's correlation; NaN where one of the two is constant."""
    return float(stats.spearmanr(x, y).statistic) if np.ptp(x) * np.ptp(y) > 0 else np.nan
