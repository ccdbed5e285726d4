"""Induction heads of a real model: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, seed_column, seed_dots, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, KIND_COLOURS, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.crossfit import crossfit_best, crossfit_choice
from circuitax.records.sample import NotRun, Sample, exactly, mean_of
from experiments.real_models.real_induction.repeats import NEW, PAIR, SEEN
from experiments.real_models.shared.model_facts import not_smollm2

CELLS = ("layer", "head")
READINGS = ("Q", "K", "V")
INDUCTION_SCORE = 0.5  # from which a head counts as one that matches prefixes
SETS = {"intact": BLACK, "induction": BLUE, "previous": ORANGE}
NAMED = 4  # heads with their names beside them
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
    data = _real(data)
    layers, _ = np.nonzero(_prefix(data).values > INDUCTION_SCORE)
    return exactly(float(np.mean(layers < data.sizes["layer"] / 2)))


def matching_head(data: xr.Dataset) -> Sample:
    """Prefix score of the head that is best on the other texts."""
    data = _real(data)
    prefix = data.scores.sel(twin="plain", kind="prefix").stack(cell=CELLS)
    return mean_of(crossfit_best(prefix, "cell", "text", data.sizes["text"]))


def copying(data: xr.Dataset) -> Sample:
    """Direct effect of the best induction heads less that of the other heads of their layers."""
    data = _real(data)
    layers = np.unique(data.removed_layer.sel(without="induction"))
    own, all_ = of_top(data, data.direct), data.direct.isel(layer=layers)
    others = (all_.sum(CELLS) - own.sum("rank")) / (
        all_.sizes["layer"] * all_.sizes["head"] - own.sizes["rank"]
    )
    return mean_of((own.mean("rank") - others).values)


def anti_copying(data: xr.Dataset) -> Sample:
    """Direct effect of the matching head that copies least, chosen on the other texts."""
    data = _real(data)
    against = (-data.direct).where(_prefix(data) > INDUCTION_SCORE, -np.inf).stack(cell=CELLS)
    anti = crossfit_choice(against, "cell", "text", data.sizes["text"])
    return mean_of(data.direct.stack(cell=CELLS).isel(cell=anti))


def keys_earlier(data: xr.Dataset) -> Sample:
    """Attention to matches whose earlier token alone is kept, less to those whose own is."""
    best = of_top(_real(data), data.scores.sel(twin="spoilt")).mean("rank")
    return mean_of(best.sel(kind="earlier").values - best.sel(kind="attended").values)


def keys_over(data: xr.Dataset, other: str) -> Sample:
    """Share of pairs that compose less through keys, less that through another way."""
    place = places(_real(data))
    return exactly(float((place.sel(reading="K") - place.sel(reading=other)).mean()))


def best_keys(data: xr.Dataset) -> Sample:
    """Share of pairs that compose less than each induction head with its best writer."""
    return exactly(float(places(_real(data)).sel(reading="K").max("writer").mean()))


def second_copies(data: xr.Dataset, without: str) -> Sample:
    """Rise of the loss on second copies without a set, less that without sets at random."""
    rise = rises(_real(data))
    others = [name for name in draws(data) if name != without]
    return mean_of((rise.sel(set=without) - rise.sel(set=others)).values)


def previous_feeds(data: xr.Dataset, without: str) -> Sample:
    """Prefix score of the best induction heads without a set, over the intact one."""
    score = _real(data).prefix_of_top.mean("rank")
    return mean_of((score.sel(set=without) / score.sel(set="intact")).values)


def in_context(data: xr.Dataset) -> Sample:
    """Loss on the last quarter of a chapter less that on the second eighth."""
    return mean_of(prose_falls(_prose(data)).sel(set="intact").values)


def in_context_lost(data: xr.Dataset, without: str) -> Sample:
    """Rise of that difference without a set, less that without sets at random."""
    falls = prose_falls(_prose(data))
    return _over_random(data, falls - falls.sel(set="intact"), without)


def prose_pairs(data: xr.Dataset, without: str) -> Sample:
    """Rise of the loss where a pair comes again, less that without sets at random."""
    return _over_random(data, prose_rises(_prose(data), PAIR), without)


def prose_pairs_most(data: xr.Dataset, without: str) -> Sample:
    """Rise of the loss where a pair comes again, less that where the token is new."""
    data = _prose(data)
    rise = prose_rises(data, PAIR) - prose_rises(data, NEW)
    return mean_of(rise.sel(set=without).values)


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


def draws(data: xr.Dataset) -> list[str]:
    """Names of the random sets."""
    return [str(name) for name in data["set"].values if str(name).startswith("random")]


def rises(data: xr.Dataset) -> xr.DataArray:
    """Loss increase without each set on second copies, mean over texts, in nats."""
    later = data.loss.sel(part="second").mean("text")
    return later - later.sel(set="intact")


def prose_falls(data: xr.Dataset) -> xr.DataArray:
    """Mean loss over the last quarter less that over the second eighth, ``[set, chapter]``."""
    loss = data.prose_loss
    n = loss.sizes["predicted"] + 1
    early = loss.isel(predicted=slice(n // 8, n // 4))
    late = loss.isel(predicted=slice(-n // 4, None))
    return late.mean("predicted") - early.mean("predicted")


def prose_rises(data: xr.Dataset, kind: int) -> xr.DataArray:
    """Loss increase without each set on the tokens of a kind, ``[set, chapter]``, in nats."""
    losses = data.prose_loss.where(data.prose_kind == kind).mean("predicted")
    return losses - losses.sel(set="intact")


def _over_random(data: xr.Dataset, rise: xr.DataArray, without: str) -> Sample:
    """A rise by chapter without a set, less the mean of random sets."""
    others = [name for name in draws(data) if name != without]
    return mean_of((rise.sel(set=without) - rise.sel(set=others).mean("set")).values)


def _prefix(data: xr.Dataset) -> xr.DataArray:
    """Prefix score of each head, mean over texts."""
    return data.scores.sel(twin="plain", kind="prefix").mean("text")


def _real(data: xr.Dataset) -> xr.Dataset:
    """The data of a run of SmolLM2."""
    if why := not_smollm2(data.attrs):
        raise NotRun(why)
    return data


def _prose(data: xr.Dataset) -> xr.Dataset:
    """The data of a run of SmolLM2 with prose."""
    data = _real(data)
    if data.attrs["no_prose"]:
        raise NotRun(f"no prose: {data.attrs['no_prose']}")
    return data


def composition(data: xr.Dataset) -> Figure:
    """Reads of induction heads from each earlier head, and the rank of previous-token heads."""
    figure, axes = new_figure(1, 2, height=2.5, width_ratios=(1.7, 1))
    left, right = axes[0]
    keys, n_layers = data.composition.sel(reading="K"), data.sizes["layer"]
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    for i, (later, reader) in enumerate(readers):
        scores = keys.sel(reader_layer=later, reader_head=reader)
        where = i + 0.8 * (np.arange(n_layers) / n_layers - 0.5)
        x = np.repeat(where, data.sizes["head"])
        left.plot(x, scores.values.ravel(), "o", color=GREY, markersize=1.5, markeredgewidth=0)
        for layer, head in sorted(writers):
            score = float(scores.sel(layer=layer, head=head))
            left.plot(where[layer], score, "s", color=ORANGE, markersize=3, markeredgewidth=0)
            if np.isfinite(score):
                first = layer == min(writers)[0]  # early heads lie close to each other
                offset = (-3, 1) if first else (4, -2) if layer > n_layers / 2 else (1, 4)
                beside = {"xytext": offset, "ha": "right" if first else "left"}
                point = (where[layer], score)
                left.annotate(
                    f"{layer}.{head}", point, fontsize=6, textcoords="offset points", **beside
                )
    left.plot([], [], "o", color=GREY, markersize=3, markeredgewidth=0, label="an earlier head")
    left.plot([], [], "s", color=ORANGE, markersize=3, markeredgewidth=0, label="previous token")
    reference_line(left, y=data.attrs["d_model"] ** -0.5, label="random rotation, mean")
    left.set_xticks(range(len(readers)), [f"{layer}.{head}" for layer, head in readers])
    left.set(xlabel="induction head; in each column earlier layers to the left")
    back = f"{data.attrs['length'] - 1} tokens back"
    left.set(ylabel="K-composition", title=f"What induction heads read as keys, {back}")
    left.set_ylim(0, 1.3 * np.nanmax(np.append(keys.values, 0.1)))
    left.legend(loc="upper left", ncols=3, fontsize=6)
    place = places(data)
    for i, (reading, colour) in enumerate(zip(READINGS, KIND_COLOURS, strict=True)):
        values = place.sel(reading=reading).values
        values = values[np.isfinite(values)]  # none where no previous-token head lies earlier
        seed_dots(right, i, values, colour)
        if values.size:
            mean = values.mean()
            right.plot([i - 0.3, i + 0.3], [mean, mean], color=BLACK, linewidth=1.2)
            beside = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
            right.annotate(f"{mean:.2f}", (i, 1.0), fontsize=6.5, **beside)
    reference_line(right, y=0.5, label="a random pair")
    right.set_xticks(range(len(READINGS)), ["queries", "keys", "values"])
    right.set(xlim=(-0.5, 2.5), ylim=(-0.05, 1.25), ylabel="share of pairs that compose less")
    right.set(xlabel="read as (lines: means)", title="Among pairs of the same layers")
    right.legend(loc="upper right", fontsize=6)
    letter_panels(axes[0])
    return figure


def heads(data: xr.Dataset) -> Figure:
    """Layers of heads of a kind, their outputs, and the origin of their keys."""
    figure, axes = new_figure(1, 3, height=2.75)
    mean = data.scores.sel(twin="plain").mean("text")
    left, middle, right = axes[0]
    kinds = (("prefix", BLUE, "o", "prefix"), ("previous", ORANGE, "s", "previous token"))
    for kind, colour, mark, label in kinds:
        scores = mean.sel(kind=kind).values
        layers = np.repeat(np.arange(len(scores)), scores.shape[1])
        style = {"color": colour, "markersize": 2.5, "markeredgewidth": 0, "label": label}
        left.plot(layers, scores.ravel(), mark, **style)
    left.set(xlabel="layer", ylabel="attention, mean of texts", ylim=(0, 1.19))
    left.set_title("Heads of both kinds")
    left.legend(loc="upper center", ncols=2, fontsize=6)
    prefix, direct = mean.sel(kind="prefix").values, data.direct.mean("text").values
    middle.scatter(prefix, direct, s=6, color=BLUE, alpha=0.7, linewidths=0)
    zero_line(middle)
    reference_line(middle, x=INDUCTION_SCORE)
    for layer, head in {*_largest(prefix, NAMED), *_largest(direct, 2)}:
        point = (prefix[layer, head], direct[layer, head])
        how = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
        middle.annotate(f"{layer}.{head}", point, fontsize=6, **how)
    middle.set(xlabel="prefix score", ylabel="effect on the right logit")
    middle.set_title("What they write")
    middle.margins(y=0.1)
    spoilt = of_top(data, data.scores.sel(twin="spoilt"))
    kept = (("earlier", BLUE, -0.2, "the token before"), ("attended", ORANGE, 0.2, "its own token"))
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


def prose(data: xr.Dataset) -> Figure:
    """Loss along prose, and the effect of sets of heads by predicted token."""
    figure, axes = new_figure(1, 2, height=2.3)
    left, right = axes[0]
    mean = data.prose_loss.mean("chapter").rename(predicted="place")
    others = draws(data)
    _curves(left, {name: mean.sel(set=name) for name in SETS}, data.sizes["rank"], 2 * BLOCK)
    random = mean.sel(set=others).mean("set")
    _curve(left, random, GREEN, f"without {data.sizes['rank']} random", 2 * BLOCK)
    left.set(xlabel="place of the predicted token", title="Loss along prose", ylim=(0, None))
    left.set_ylabel(f"loss, nats, mean of {2 * BLOCK} places")
    left.legend(loc="lower left", fontsize=6, ncols=2)
    for i, kind in enumerate((PAIR, SEEN, NEW)):
        rise = prose_rises(data, kind)
        both = {"induction": rise.sel(set="induction"), "random": rise.sel(set=others).mean("set")}
        for (name, values), colour, shift in zip(
            both.items(), (BLUE, GREEN), (-0.2, 0.2), strict=True
        ):
            finite = values.values[np.isfinite(values.values)]
            if finite.size:  # short texts have no pair twice
                seed_column(right, i + shift, finite, colour, form=".2f")
            right.plot([], [], "o", color=colour, label=f"without {name}" if i == 0 else None)
    zero_line(right)
    right.set_xticks(range(3), ["pair seen\nbefore", "token seen\nbefore", "new token"])
    right.set(xlim=(-0.5, 2.5), ylabel="rise of the loss, nats", title="Cost by what is predicted")
    right.margins(y=0.3)
    title = f"{data.sizes['chapter']} chapters, mean and 95 % t"
    right.legend(loc="upper right", fontsize=6, title=title, title_fontsize=6)
    letter_panels(axes[0])
    return figure


def ablation(data: xr.Dataset) -> Figure:
    """Losses along the text, and the effect of each set of heads."""
    figure, axes = new_figure(1, 2, height=2.7, width_ratios=(1.7, 1))
    left, right = axes[0]
    loss, n = data.loss_by_place, data.sizes["rank"]
    _curves(left, {name: loss.sel(curve=name) for name in SETS}, n)
    _curve(left, loss.sel(curve="random"), GREEN, f"without {n} random")
    left.axvline(data.attrs["length"] + 0.5, color=GREY, linewidth=0.5)
    left.set(xlabel="place of the predicted token", ylabel=f"loss, nats, mean of {BLOCK} places")
    left.set(title="Loss along two copies", ylim=(0, None))
    left.legend(loc="lower left", fontsize=6)
    rise = rises(data)
    seed_column(right, 2, rise.sel(set=draws(data)).values, GREEN, form=".2f")
    for i, name in enumerate(("induction", "previous")):
        value = float(rise.sel(set=name))
        right.plot(i, value, "X", color=SETS[name], markersize=7)
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        right.annotate(f"{value:.2f}", (i, value), fontsize=6.5, **above)
    zero_line(right)
    of_random = f"random,\n{len(draws(data))} sets"
    right.set_xticks(range(3), ["induction", "previous\ntoken", of_random])
    right.set(xlim=(-0.5, 2.5), ylabel="rise of the loss, nats", title="Cost on second copies")
    right.margins(y=0.15)
    letter_panels(axes[0])
    sample_note(figure, f"means of {data.sizes['text']} texts; b: mean and 95 % t over random sets")
    return figure


def _largest(values: np.ndarray, n: int) -> list[tuple[int, int]]:
    rows, columns = np.unravel_index(np.argsort(-values.ravel())[:n], values.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _curves(ax: Axes, losses: dict[str, xr.DataArray], n: int, block: int = BLOCK) -> None:
    for name, loss in losses.items():
        label = name if name == "intact" else f"without {n} {name}{'-token' * (name == 'previous')}"
        _curve(ax, loss, SETS[name], label, block)


def _curve(ax: Axes, losses: xr.DataArray, colour: str, label: str, block: int = BLOCK) -> None:
    blocks = losses.assign_coords(place=np.arange(losses.size) + 1)
    blocks = blocks.coarsen(place=block, boundary="trim").mean()
    ax.plot(blocks.place, blocks, color=colour, linewidth=0.9, label=label)
