"""Induction heads of a real model: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREY, LAYER_COLOURS
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import NotRun, Sample, crossfit_choice, exactly, mean_of
from experiments.real_models.shared.model_facts import of_smollm2

CELLS, READINGS = ("layer", "head"), ("Q", "K", "V")
INDUCTION_SCORE = 0.5  # from which a head counts as one that matches prefixes
PREVIOUS, INDUCTION = LAYER_COLOURS[:2]
CURVES = {
    "intact": (BLACK, "intact"),
    "induction": (INDUCTION, "without {} induction"),
    "previous": (PREVIOUS, "without {} previous-token"),
    "random": (GREY, "without {} random"),
}
BLOCK = 4  # places that a point of the loss curves is the mean of; one block ends at the turn


def other_heads(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Heads drawn from the same layers in the place of the best induction and previous heads."""
    found = data.removed_head.copy()
    for name in ("induction", "previous"):
        layers = data.removed_layer.sel(without=name).values
        order = np.tile(np.arange(data.sizes["head"]), (data.sizes["layer"], 1))
        order = rng.permuted(order, axis=1)
        nth = [int((layers[:i] == layer).sum()) for i, layer in enumerate(layers)]
        found.loc[{"without": name}] = order[layers, nth]
    return data.assign(removed_head=found)


WORLDS = {"other heads": other_heads}


def first_half(data: xr.Dataset) -> Sample:
    """Share of the heads that match prefixes in the first half of the layers."""
    data = of_smollm2(data)
    layers, _ = np.nonzero(_prefix(data).values > INDUCTION_SCORE)
    return exactly(float(np.mean(layers < data.sizes["layer"] / 2)))


def copying(data: xr.Dataset) -> Sample:
    """Direct effect of the best induction heads less that of the other heads of their layers."""
    data = of_smollm2(data)
    layers = np.unique(data.removed_layer.sel(without="induction"))
    own, all_ = of_top(data, data.direct), data.direct.isel(layer=layers)
    others = (all_.sum(CELLS) - own.sum("rank")) / (
        all_.sizes["layer"] * all_.sizes["head"] - own.sizes["rank"]
    )
    return mean_of((own.mean("rank") - others).values)


def anti_copying(data: xr.Dataset) -> Sample:
    """Direct effect of the matching head that copies least, chosen on the other texts."""
    data = of_smollm2(data)
    against = (-data.direct).where(_prefix(data) > INDUCTION_SCORE, -np.inf).stack(cell=CELLS)
    anti = crossfit_choice(against, "cell", "text", data.sizes["text"])
    return mean_of(data.direct.stack(cell=CELLS).isel(cell=anti))


def keys_earlier(data: xr.Dataset) -> Sample:
    """Attention to matches whose earlier token alone is kept, less to those whose own is."""
    best = of_top(of_smollm2(data), data.scores.sel(twin="spoilt")).mean("rank")
    return mean_of(best.sel(kind="earlier").values - best.sel(kind="attended").values)


def keys_over(data: xr.Dataset, other: str) -> Sample:
    """Share of pairs that compose less through keys, less that through another way."""
    place = places(of_smollm2(data))
    return exactly(float((place.sel(reading="K") - place.sel(reading=other)).mean()))


def best_keys(data: xr.Dataset) -> Sample:
    """Share of pairs that compose less than each induction head with its best writer."""
    return exactly(float(places(of_smollm2(data)).sel(reading="K").max("writer").mean()))


def second_copies(data: xr.Dataset, without: str) -> Sample:
    """Rise of the loss on second copies without a set, less that without sets at random."""
    loss = of_smollm2(data).loss.sel(part="second").mean("text")
    rise = loss - loss.sel(set="intact")
    return mean_of((rise.sel(set=without) - rise.sel(set=draws(data, without))).values)


def previous_feeds(data: xr.Dataset, without: str) -> Sample:
    """Prefix score of the best induction heads without a set, over the intact one."""
    score = of_smollm2(data).prefix_of_top.mean("rank")
    return mean_of((score.sel(set=without) / score.sel(set="intact")).values)


def in_context(data: xr.Dataset) -> Sample:
    """Loss on the last quarter of a chapter less that on the second eighth."""
    return mean_of(prose_falls(data).sel(set="intact").values)


def in_context_lost(data: xr.Dataset, without: str) -> Sample:
    """Rise of that difference without a set, less that without sets at random."""
    falls = prose_falls(data)
    rise = falls - falls.sel(set="intact")
    others = rise.sel(set=draws(data, without)).mean("set")
    return mean_of((rise.sel(set=without) - others).values)


def places(data: xr.Dataset) -> xr.DataArray:
    """Share of the other pairs of the same two layers that compose less, from 0 to 1.

    ``[reading, reader, writer]`` of the best induction and previous-token heads; NaN where the
    induction head is not in a later layer.
    """
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    found = np.full((len(READINGS), len(readers), len(writers)), np.nan)
    for i, (later, reader) in enumerate(readers):
        for j, (layer, writer) in enumerate(writers):
            if layer < later:
                pairs = data.composition.sel(layer=layer, reader_layer=later)
                own = pairs.sel(head=writer, reader_head=reader)
                less = (pairs < own).sum(("head", "reader_head"))
                found[:, i, j] = less / (pairs.sizes["head"] * pairs.sizes["reader_head"] - 1)
    dims = ("reading", "reader", "writer")
    return xr.DataArray(found, dims=dims, coords={"reading": [*READINGS]})


def heads_of(data: xr.Dataset, name: str) -> list[tuple[int, int]]:
    """Layer and head of a set: of the best of a kind, the best first, or of one at random."""
    best = data.sel(without=name)
    layers, heads = best.removed_layer.values.tolist(), best.removed_head.values.tolist()
    return list(zip(layers, heads, strict=True))


def of_top(data: xr.Dataset, values: xr.DataArray) -> xr.DataArray:
    """The values of the heads that match prefixes best, along ``rank``."""
    best = data.sel(without="induction")
    return values.isel(layer=best.removed_layer, head=best.removed_head)


def draws(data: xr.Dataset, but: str = "") -> list[str]:
    """Names of the random sets, all or all but one."""
    names = map(str, data["set"].values)
    return [name for name in names if name.startswith("random") and name != but]


def prose_falls(data: xr.Dataset) -> xr.DataArray:
    """Mean loss over the last quarter less that over the second eighth, ``[set, chapter]``."""
    if of_smollm2(data).attrs["no_prose"]:
        raise NotRun(f"no prose: {data.attrs['no_prose']}")
    loss = data.prose_loss
    n = loss.sizes["predicted"] + 1
    early = loss.isel(predicted=slice(n // 8, n // 4))
    late = loss.isel(predicted=slice(-n // 4, None))
    return late.mean("predicted") - early.mean("predicted")


def _prefix(data: xr.Dataset) -> xr.DataArray:
    """Prefix score of each head, mean over texts."""
    return data.scores.sel(twin="plain", kind="prefix").mean("text")


def heads(data: xr.Dataset) -> Figure:
    """Layers of heads of a kind, their outputs, and the origin of their keys."""
    figure, axes = new_figure(1, 3, height=2.75)
    mean = data.scores.sel(twin="plain").mean("text")
    left, middle, right = axes[0]
    kinds = (("prefix", INDUCTION, "o", "prefix"), ("previous", PREVIOUS, "s", "previous token"))
    for kind, colour, mark, label in kinds:
        scores = mean.sel(kind=kind).values
        layers = np.repeat(np.arange(len(scores)), scores.shape[1])
        left.plot(layers, scores.ravel(), mark, color=colour, markersize=1.5, label=label)
    left.set(xlabel="layer", ylabel="attention, mean of texts", ylim=(0, 1.19))
    left.set_title("Heads of both kinds")
    left.legend(loc="upper center", ncols=2, fontsize=6)
    prefix, direct = mean.sel(kind="prefix").values, data.direct.mean("text").values
    middle.scatter(prefix, direct, s=6, color=INDUCTION, alpha=0.7, linewidths=0)
    zero_line(middle)
    reference_line(middle, x=INDUCTION_SCORE)
    middle.set(xlabel="prefix score", ylabel="effect on the right logit", title="What they write")
    spoilt = of_top(data, data.scores.sel(twin="spoilt"))
    kept = (("earlier", BLUE, -0.2, "the token before"), ("attended", GREY, 0.2, "its own token"))
    for kind, colour, shift, label in kept:
        rows = spoilt.sel(kind=kind).transpose("rank", "text").values
        mean_bars(right, rows, colour, shift=shift, width=0.38, label=label)
    names = [f"{layer}.{head}" for layer, head in heads_of(data, "induction")]
    right.set_xticks(range(len(names)), names)
    right.set(xlabel="head", ylabel="attention to matches", ylim=(0, 1.19))
    right.set_title("What their keys read")
    right.legend(title="kept of a match", title_fontsize=6, fontsize=6, loc="upper right")
    letter_panels(axes[0])
    sample_note(figure, f"means of {data.sizes['text']} texts; c: with 95 % t interval")
    return figure


def ablation(data: xr.Dataset) -> Figure:
    """Losses along two copies, intact and without each set of heads."""
    figure, axes = new_figure(height=2.5)
    ax, n = axes[0, 0], data.sizes["rank"]
    for name, (colour, label) in CURVES.items():
        losses = data.loss_by_place.sel(curve=name)
        blocks = losses.assign_coords(place=np.arange(losses.size) + 1)
        blocks = blocks.coarsen(place=BLOCK, boundary="trim").mean()
        ax.plot(blocks.place, blocks, color=colour, linewidth=0.9, label=label.format(n))
    ax.axvline(data.attrs["length"] + 0.5, color=GREY, linewidth=0.5)
    ax.set(xlabel="place of the predicted token", ylabel=f"loss, nats, mean of {BLOCK} places")
    ax.set_ylim(bottom=0)
    ax.legend(loc="lower left", fontsize=6)
    sample_note(figure, f"means of {data.sizes['text']} texts and {len(draws(data))} random sets")
    return figure
