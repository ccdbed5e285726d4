"""Induction heads of a real model: prefix matching, outputs, reads, and effects."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, seed_column, seed_dots, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, KIND_COLOURS, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.real_models.real_induction.measures import (
    draws,
    of_top,
    prose_rises,
    rises,
)
from experiments.real_models.real_induction.pairs import READINGS, heads_of, places
from experiments.real_models.real_induction.reference import INDUCTION_SCORE, SCORES, SEARCHES
from experiments.real_models.real_induction.repeats import NEW, PAIR, SEEN
from experiments.real_models.shared.model_facts import model_read

SETS = {"intact": BLACK, "induction": BLUE, "previous": ORANGE}
NAMED = 4  # heads with their names beside them
BLOCK = 4  # places that a point of the loss curves is the mean of; one block ends at the turn

# What is predicted, in words.
WHERE = ("a pair of tokens comes again", "a token comes again behind others", "a token is new")


def _was_read(record: Record) -> bool:
    return not record.notes["missing"]


def heads(record: Record) -> Figure:
    """Layers of heads of a kind, their outputs, and the origin of their keys."""
    if not _was_read(record):
        why = record.notes["missing"]
        return notice(f"SmolLM2 was not read, so that nothing was measured.\n{why}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=2.75)
    mean = data.scores.sel(twin="plain").mean("text")
    left, middle, right = axes[0]
    for kind, colour, mark, label in (
        ("prefix", BLUE, "o", "prefix matching"),
        ("previous", ORANGE, "s", "previous token"),
    ):
        _by_layer(left, mean.sel(kind=kind).values, colour, mark, label)
        if what.startswith("SmolLM2"):
            places = np.array([layer for layer, _ in SCORES[kind]])
            scores = list(SCORES[kind].values())
            left.plot(places, scores, mark, color=BLACK, fillstyle="none", markeredgewidth=0.5)
    left.set(xlabel="layer", ylabel="attention, mean of texts", ylim=(0, 1.19))
    left.set_title("Heads of both kinds")
    left.legend(
        loc="upper center",
        ncols=2,
        fontsize=6,
        title="outlined: reference",
        title_fontsize=6,
    )
    prefix, direct = mean.sel(kind="prefix").values, data.direct.mean("text").values
    middle.scatter(prefix, direct, s=6, color=BLUE, alpha=0.7, linewidths=0)
    zero_line(middle)
    reference_line(middle, x=INDUCTION_SCORE)
    low, high = direct.min(), direct.max()
    cells = {*_largest(prefix, NAMED), *_largest(direct, 2)}
    cells |= {*_largest(np.where(prefix > SEARCHES, -direct, -np.inf), 1)}
    for layer, head in sorted(cells):
        point = (prefix[layer, head], direct[layer, head])
        below = [
            other
            for other in cells
            if 0 < prefix[other] - point[0] < 0.12
            and abs(direct[other] - point[1]) < 0.06 * (high - low)
        ]
        offset = (0, -8) if below else (0, 3)  # labels of neighbours would cover each other
        side = "left" if point[0] < 0.05 else "center"
        how = {"xytext": offset, "textcoords": "offset points", "ha": side}
        middle.annotate(f"{layer}.{head}", point, fontsize=6, **how)
    middle.set(xlabel="prefix score", ylabel="effect on the right logit")
    middle.set(title="What they write", ylim=(low - 0.08 * (high - low), high * 1.1 + 1e-9))
    spoilt = of_top(data, data.scores.sel(twin="spoilt"))
    for kind, colour, shift, label in (
        ("earlier", BLUE, -0.2, "token before the attended one"),
        ("attended", ORANGE, 0.2, "attended token"),
    ):
        rows = spoilt.sel(kind=kind).transpose("rank", "text").values
        mean_bars(right, rows, colour, shift=shift, width=0.38, label=label)
    best = data.sel(without="induction")
    of_rank = zip(best.removed_layer.values, best.removed_head.values, strict=True)
    names = [f"{layer}.{head}" for layer, head in of_rank]
    right.set_xticks(range(len(names)), names)
    right.set(xlabel="head", ylabel="attention to matches", ylim=(0, 1.19))
    right.set_title("What their keys read")
    right.legend(title="kept of a match", title_fontsize=6, fontsize=6, loc="upper right")
    letter_panels(axes[0])
    n = data.sizes["text"]
    kept = {
        kind: float(of_top(data, data.scores.sel(twin="spoilt")).sel(kind=kind).mean())
        for kind in ("earlier", "attended")
    }
    headline(
        figure,
        f"{what}: keys of induction heads read the token before the one they look at: with it "
        f"alone {kept['earlier']:.2f} of attention stays on matches, else {kept['attended']:.2f}",
    )
    sample_note(figure, f"means of {n} texts; c: with 95 % t interval")
    return figure


def composition(record: Record) -> Figure:
    """Reads of induction heads from each earlier head, and the rank of previous-token heads."""
    data, what = record.data, model_read(record.notes)
    length = record.notes["length"]
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
                late = layer > n_layers / 2
                offset, side = (
                    ((-3, 1), "right") if first else ((4, -2) if late else (1, 4), "left")
                )
                beside = {"xytext": offset, "ha": side, "textcoords": "offset points"}
                left.annotate(f"{layer}.{head}", (where[layer], score), fontsize=6, **beside)
    left.plot([], [], "o", color=GREY, markersize=3, markeredgewidth=0, label="an earlier head")
    left.plot([], [], "s", color=ORANGE, markersize=3, markeredgewidth=0, label="previous token")
    reference_line(left, y=data.attrs["d_model"] ** -0.5, label="random rotation, mean")
    left.set_xticks(range(len(readers)), [f"{layer}.{head}" for layer, head in readers])
    left.set(xlabel="induction head; in each column earlier layers to the left")
    left.set(
        ylabel="K-composition", title=f"What induction heads read as keys, {length - 1} tokens back"
    )
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
    above = 100 * float(place.sel(reading="K").mean())
    message = "no previous-token head stands before an induction head"
    if np.isfinite(above):
        message = f"{above:.0f} % of pairs compose less than previous-token with induction heads"
    headline(figure, f"{what}, through keys: {message}")
    return figure


def ablation(record: Record) -> Figure:
    """Losses along the text, and the effect of each set of heads."""
    data, what = record.data, model_read(record.notes)
    length = record.notes["length"]
    figure, axes = new_figure(1, 2, height=2.7, width_ratios=(1.7, 1))
    left, right = axes[0]
    random = data.loss_by_place.sel(curve="random")
    n = data.sizes["rank"]
    for name, colour in SETS.items():
        label = name if name == "intact" else f"without {n} {name}{'-token' * (name == 'previous')}"
        _curve(left, data.loss_by_place.sel(curve=name), colour, label)
    _curve(left, random, GREEN, f"without {n} random")
    left.axvline(length + 0.5, color=GREY, linewidth=0.5)
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
    right.set_xticks(
        range(3), ["induction", "previous\ntoken", f"random,\n{len(draws(data))} sets"]
    )
    right.set(xlim=(-0.5, 2.5), ylabel="rise of the loss, nats", title="Cost on second copies")
    right.margins(y=0.15)
    letter_panels(axes[0])
    lost, other = (float(rise.sel(set=name).mean()) for name in ("induction", draws(data)))
    headline(
        figure,
        f"{what}: second copies cost {lost:.1f} nats more without {n} induction heads, "
        f"{other:.1f} more without {n} at random",
    )
    sample_note(figure, f"means of {data.sizes['text']} texts; b: mean and 95 % t over random sets")
    return figure


def prose(record: Record) -> Figure:
    """Loss along prose, and the effect of sets of heads by predicted token."""
    if record.notes["no_prose"]:
        return notice(f"No prose was read.\n{record.notes['no_prose']}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 2, height=2.3)
    left, right = axes[0]
    mean = data.prose_loss.mean("chapter").rename(predicted="place")
    n = data.sizes["rank"]
    for name, colour in SETS.items():
        label = name if name == "intact" else f"without {n} {name}{'-token' * (name == 'previous')}"
        _curve(left, mean.sel(set=name), colour, label, 2 * BLOCK)
    others = draws(data)
    random = mean.sel(set=others).mean("set")
    _curve(left, random, GREEN, f"without {n} random", 2 * BLOCK)
    left.set(xlabel="place of the predicted token", title="Loss along prose", ylim=(0, None))
    left.set_ylabel(f"loss, nats, mean of {2 * BLOCK} places")
    left.legend(loc="lower left", fontsize=6, ncols=2)
    for i, kind in enumerate((PAIR, SEEN, NEW)):
        rise = prose_rises(data, kind)
        random_rise = rise.sel(set=others).mean("set").values
        for values, colour, shift, label in (
            (rise.sel(set="induction").values, BLUE, -0.2, f"without {n} induction"),
            (random_rise, GREEN, 0.2, f"without {n} random, mean of {len(others)} sets"),
        ):
            values = values[np.isfinite(values)]
            if values.size:  # short texts have no pair twice
                seed_column(right, i + shift, values, colour, form=".2f")
            right.plot([], [], "o", color=colour, label=label if i == 0 else None)
    zero_line(right)
    right.set_xticks(range(3), ["pair seen\nbefore", "token seen\nbefore", "new token"])
    right.set(xlim=(-0.5, 2.5), ylabel="rise of the loss, nats", title="Cost by what is predicted")
    right.margins(y=0.3)
    title = f"{data.sizes['chapter']} chapters, mean and 95 % t"
    right.legend(loc="upper right", fontsize=6, title=title, title_fontsize=6)
    letter_panels(axes[0])
    worth = [
        float(prose_rises(data, kind).sel(set="induction").mean()) for kind in (PAIR, SEEN, NEW)
    ]
    most = int(np.argmax(np.nan_to_num(worth, nan=-np.inf)))
    headline(
        figure,
        f"{what} on prose: without {n} induction heads most is lost where {WHERE[most]}",
    )
    return figure


def _by_layer(ax: Axes, scores: np.ndarray, colour: str, mark: str, label: str) -> None:
    layers = np.repeat(np.arange(len(scores)), scores.shape[1])
    ax.plot(
        layers, scores.ravel(), mark, color=colour, markersize=2.5, markeredgewidth=0, label=label
    )


def _largest(values: np.ndarray, n: int) -> list[tuple[int, int]]:
    order = np.argsort(-values.ravel())[:n]
    rows, columns = np.unravel_index(order, values.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _curve(ax: Axes, losses: xr.DataArray, colour: str, label: str, block: int = BLOCK) -> None:
    blocks = losses.assign_coords(place=np.arange(losses.size) + 1)
    blocks = blocks.coarsen(place=block, boundary="trim").mean()
    ax.plot(blocks.place, blocks, color=colour, linewidth=0.9, label=label)


FIGURES = (
    FigureSpec(
        "composition",
        composition,
        message="K-composition of the best induction heads with each earlier head.",
        caption="Left: all earlier heads, previous-token heads marked; they lie among the others "
        "if K-composition does not separate them. Right: ranks of these pairs among all pairs of "
        "their two layers, through queries, keys and values; a pair at random has 0.5.",
        where=_was_read,
    ),
    FigureSpec(
        "heads",
        heads,
        message="Prefix and previous-token scores of all heads by layer, with the reference "
        "numbers (left).",
        caption="Middle: the effect of each head on the right token, by its prefix score; the "
        "paper's heads that copy negatively lie below zero.",
        refuted="Right: attention of the best heads to matches of which one token is kept; the "
        "paper's figure (F14 in docs/acceptance.md) is refuted if the bars of the attended token "
        "are higher.",
    ),
    FigureSpec(
        "prose",
        prose,
        message="Loss along prose, intact and without sets of five heads (left).",
        caption="Right: the cost of removing each set at the end of a repeated pair of tokens, at "
        "a repeated token after another one, and at a new token. Induction heads have no effect of "
        "their own in prose if their dots lie among the random.",
        where=_was_read,
    ),
    FigureSpec(
        "ablation",
        ablation,
        message="Loss along a text of two copies, intact and without sets of five heads (left).",
        refuted="Right: the cost of removing each set on second copies; refuted if the crosses "
        "lie among the random sets.",
        where=_was_read,
    ),
)
