"""Paths of a real model through MLPs: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import pearsonr

from circuitax.figures.marks import mean_bars, mean_curve, reference_line, seed_column, zero_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    exactly,
    geometric_mean_of,
    mean_of,
    share_of,
)
from experiments.real_models.shared.model_facts import of_smollm2

ORDERS = 8  # orders that are drawn
DIRECTIONS = 10  # first singular vectors that may approximate a map
KINDS = {"prose": ORANGE, "random tokens": BLUE}
SHORT = {
    "gradient": "gradient",
    "relp": "RelP",
    "direct": "direct\neffect",
    "plain": "MLPs as\nsources",
}


def exchanged(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The largest paths and others at random, or both tokens, change places in half the prompts."""
    half = rng.integers(0, 2, (data.sizes["prompt"], 1)) == 1
    changed = {}
    for name in ("without_paths", "without_tokens"):
        values = data[name].values
        others = values[:, 1:].mean(axis=1, keepdims=True)
        both = np.concatenate([others, np.repeat(values[:, :1], values.shape[1] - 1, axis=1)], 1)
        changed[name] = data[name].copy(data=np.where(half, both, values))
    return data.assign(changed)


WORLDS = {"exchanged": exchanged}


def closing(data: xr.Dataset) -> Sample:
    """Largest difference between the sum of all paths and the logit, over the logit."""
    data = _real(data)
    miss = np.abs(data.exact.sum("source") - data.logit) / np.abs(data.logit)
    return exactly(miss.max(), data.sizes["prompt"])


def by_heads(data: xr.Dataset) -> Sample:
    """Sum of the absolute values of the orders by heads over the logit."""
    return mean_of(cancellation(_real(data), "by_heads"))


def by_mlps(data: xr.Dataset) -> Sample:
    """The same of the orders by MLPs, a geometric mean."""
    return geometric_mean_of(np.log(cancellation(_real(data), "by_mlps")))


def few_heads(data: xr.Dataset) -> Sample:
    """Share of the paths through at most three heads in the sum of all."""
    orders = _real(data).by_heads.values
    return mean_of(orders[:, :4].sum(axis=1) / orders.sum(axis=1))


def three_tokens(data: xr.Dataset) -> Sample:
    """Share of the three largest source tokens in the sum of absolute values."""
    sizes = np.sort(np.abs(_real(data).exact.values), axis=1)
    return mean_of(sizes[:, -3:].sum(axis=1) / sizes.sum(axis=1))


def half(data: xr.Dataset, of: str) -> Sample:
    """How many of the largest paths hold half of the sum of absolute values."""
    return geometric_mean_of(np.log(_real(data)[of].values))


def proven(data: xr.Dataset) -> Sample:
    """Share of prompts whose largest paths are proven to be the largest."""
    return share_of(_real(data).complete.values)


def found(data: xr.Dataset, score: str) -> Sample:
    """Share of the heads on the proven list that are among as many first by a score."""
    data = _real(data)
    shares = found_heads(data, data.scores.sel(score=score).values)
    if not shares.size:
        raise Absent("no list is proven")
    return mean_of(shares)


def same_source(data: xr.Dataset, score: str) -> Sample:
    """Share of prompts whose largest source token a score puts first too."""
    data = _real(data)
    return share_of(data[score].values.argmax(axis=1) == data.exact.values.argmax(axis=1))


def removed_token(data: xr.Dataset) -> Sample:
    """Fall without the first source less that without another, over the logit."""
    without = _real(data).without_tokens.values
    return mean_of((without[:, 1] - without[:, 0]) / data.logit.values)


def removed_paths(data: xr.Dataset) -> Sample:
    """Fall without the largest paths less the mean fall without others, over the logit."""
    without = _real(data).without_paths.values
    return mean_of((without[:, 1:].mean(axis=1) - without[:, 0]) / data.logit.values)


def foreseen(data: xr.Dataset) -> Estimate:
    """Correlation over prompts of the fall without the largest paths with their sum."""
    falls = pearsonr(*foreseen_falls(_real(data)))
    low, high = falls.confidence_interval()
    n = data.sizes["prompt"]
    return Estimate(float(falls.statistic), float(low), float(high), n, "Fisher 95%")


def held_by_first(data: xr.Dataset) -> Sample:
    """Share of a map's squared singular values that the first ten have, mean over tokens.

    The record has the first values of each map, and the sum of all squares over the first one's.
    """
    squares = _real(data).singular.values.astype(float) ** 2
    sums = np.maximum(data.rank_of.values * squares[..., 0], np.finfo(float).tiny)
    shares = np.minimum(squares[..., :DIRECTIONS].sum(axis=-1) / sums, 1)
    return mean_of(shares.mean(axis=1), bounds=(0, 1))


def held_at_most(data: xr.Dataset) -> Sample:
    """The most that the stable ranks of shuffled weights leave to the first ten directions."""
    ranks = np.maximum(_real(data).rank_shuffled.values, 1)
    return mean_of(np.minimum(1, DIRECTIONS / ranks).mean(axis=1))


def named_in_the_end(data: xr.Dataset, shift: int = 0) -> Sample:
    """Share of prompts whose map names the likeliest token, or with a shift another prompt's."""
    named = _real(data).named.isel(layer=-1).values
    n = np.arange(len(named))
    return share_of(named[n, (n + shift) % len(n)])


def named_later(data: xr.Dataset) -> Sample:
    """Share of the layers of the second half that name the likeliest token, less the first half."""
    own = _own_names(_real(data)).astype(float)
    middle = own.shape[1] // 2
    return mean_of(own[:, middle:].mean(axis=1) - own[:, :middle].mean(axis=1))


def cancellation(data: xr.Dataset, orders: str) -> np.ndarray:
    """Sum of the absolute values of the orders over the logit, of each prompt."""
    return np.asarray(np.abs(data[orders].values).sum(axis=1) / np.abs(data.logit.values))


def found_heads(data: xr.Dataset, scores: np.ndarray) -> np.ndarray:
    """Share of the heads of each proven list that are among as many first by a score."""
    shares = []
    for heads, score in zip(data.on_list.values, np.abs(scores), strict=True):
        order = np.argsort(-score, axis=None, kind="stable")[: heads.sum()]
        order = order[score.ravel()[order] > 0]
        shares.append(heads.ravel()[order].sum() / max(heads.sum(), 1))
    return np.array(shares)[data.complete.values & (data.on_list.values.sum(axis=(1, 2)) > 0)]


def foreseen_falls(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Fall without the largest paths, and their sum."""
    return (data.logit - data.without_paths.isel(set=0)).values, data.path_sum.isel(set=0).values


def _own_names(data: xr.Dataset) -> np.ndarray:
    """Whether the map up to each layer names the prompt's own likeliest token."""
    return np.stack([named[:, i] for i, named in enumerate(data.named.values)])


def _real(data: xr.Dataset) -> xr.Dataset:
    """The data of a run of SmolLM2 with lists of twenty paths."""
    if of_smollm2(data).attrs["k"] != 20:
        raise NotRun(f"k={data.attrs['k']}: the rows are about twenty paths")
    return data


def orders(data: xr.Dataset) -> Figure:
    """Sums of paths by number of heads, their cancellation, and the tokens they come from."""
    figure, axes = new_figure(1, 3, height=2.4)
    by_number, cancel, sources = axes[0]
    n = min(ORDERS, data.sizes["order"])
    mean_bars(by_number, data.by_heads.values[:, :n].T, BLUE)
    zero_line(by_number)
    by_number.set_xticks(range(n))
    by_number.set(xlabel="heads on the path", ylabel="sum of paths, logits")
    by_number.set_title("MLPs inside the stream")
    for place, name in enumerate(("by_heads", "by_mlps")):
        seed_column(cancel, place, cancellation(data, name), (BLUE, ORANGE)[place], form=".3g")
    reference_line(cancel, y=1, label="no cancellation")
    cancel.set_yscale("log")
    cancel.set_xticks(range(2), ["by number\nof heads", "by number\nof MLPs"])
    cancel.set_xlim(-0.6, 1.6)
    cancel.set(ylabel="sum of |orders| over logit", title="Cancellation")
    cancel.legend(fontsize=6)
    shares = np.sort(np.abs(data.exact.values), axis=1)[:, ::-1]
    shares = (shares / shares.sum(axis=1, keepdims=True)).cumsum(axis=1)
    for kind, colour in KINDS.items():
        rows = shares[data.kind.values == kind]
        mean_curve(sources, np.arange(1, rows.shape[1] + 1), rows.T, colour, label=kind)
    sources.set(xlabel="largest source tokens", ylabel="share of their absolute sum")
    sources.set(ylim=(0, 1.05), title="Where the logit comes from")
    sources.legend(fontsize=6)
    letter_panels(axes[0])
    sample_note(figure, f"{data.sizes['prompt']} prompts, mean and 95 % t interval")
    return figure


def largest(data: xr.Dataset) -> Figure:
    """The tail of single paths, heads found by scores, and the removal of paths."""
    figure, axes = new_figure(1, 3, height=2.4)
    tail, by_score, removed = axes[0]
    curves = (("held", ORANGE, "of two heads"), ("held_both", BLUE, "of at most two"))
    for name, colour, label in curves:
        for row in data[name].values:
            tail.plot(data.largest, row, color=colour, linewidth=0.6, alpha=0.5)
        tail.plot(data.largest, data[name].mean("list"), color=colour, label=label)
    tail.plot(data.half, np.full(data.sizes["list"], 0.5), ".", color=GREEN, label="half of all")
    tail.set(xscale="log", xlabel="largest paths", ylabel="share of absolute sum", ylim=(0, 1.05))
    tail.set_title("A long tail")
    tail.legend(fontsize=6)
    for place, score in enumerate(data.score.values):
        values = found_heads(data, data.scores.sel(score=score).values)
        if values.size:
            seed_column(by_score, place, values, GREEN, form=".2f", size=5)
    by_score.set_xticks(range(data.sizes["score"]), [SHORT[str(s)] for s in data.score.values])
    by_score.tick_params(axis="x", labelsize=6)
    by_score.set(ylabel="share of heads found", ylim=(-0.04, 1.19))
    by_score.set_title("Heads of the largest paths")
    falls, sums = foreseen_falls(data)
    for kind, colour in KINDS.items():
        rows = data.kind.values == kind
        removed.plot(sums[rows], falls[rows], ".", color=colour, markersize=4, label=kind)
    rest = data.isel(set=slice(1, None))
    sums, falls = rest.path_sum.values.ravel(), (data.logit - rest.without_paths).values.ravel()
    removed.plot(sums, falls, "x", color=GREY, markersize=3, label="others at random")
    zero_line(removed)
    removed.set(xlabel="sum of the removed paths", ylabel="fall of the logit")
    removed.set_title("Removed for real")
    removed.set_ylim(top=1.6 * removed.get_ylim()[1])
    removed.legend(fontsize=6, loc="upper left")
    letter_panels(axes[0])
    each = f"{data.attrs['removed']} paths of one head each"
    sample_note(figure, f"a, b: {data.sizes['list']} prompts; c: {data.sizes['prompt']}, {each}")
    return figure


def maps(data: xr.Dataset) -> Figure:
    """Singular values of the linear map of each token, and the layers that name the next one."""
    figure, axes = new_figure(1, 2, height=2.4)
    values, named = axes[0]
    rows = data.singular.values.reshape(-1, data.sizes["place"])
    rows = rows[rows[:, 0] > 0]
    rows = rows / rows[:, :1]
    for row in rows:
        values.plot(np.arange(1, row.size + 1), row, color=GREY, linewidth=0.3, alpha=0.5)
    values.plot(np.arange(1, rows.shape[1] + 1), rows.mean(axis=0), color=BLUE, label="mean")
    values.set(xlabel="singular value", ylabel="over the first", ylim=(0, 1.05))
    values.set_title("One map for each token of each prompt")
    values.legend(fontsize=6)
    style = {"aspect": "auto", "cmap": "Greys", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    named.imshow(_own_names(data), **style)
    prompts = data.map_prompt.values
    named.set_yticks(range(len(prompts)), [repr(str(data.next.values[i])) for i in prompts])
    named.tick_params(axis="y", labelsize=6)
    named.set(xlabel="layer", title="Layers whose map names the next token")
    letter_panels(axes[0])
    return figure
