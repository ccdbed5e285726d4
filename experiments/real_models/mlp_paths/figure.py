"""Sums of paths through heads and MLPs, what finds the largest, and removals for real."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, mean_curve, reference_line, seed_column, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.real_models.mlp_paths.measures import (
    cancellation,
    first_layers,
    foreseen_falls,
    found_heads,
    held_by_first,
)
from experiments.real_models.shared.model_facts import model_read

ORDERS = 8  # orders that are drawn
KINDS = {"prose": ORANGE, "random tokens": BLUE}
SHORT = {
    "gradient": "gradient",
    "relp": "RelP",
    "direct": "direct\neffect",
    "plain": "MLPs as\nsources",
}


def orders(record: Record) -> Figure:
    """Sums of paths by number of heads, their cancellation, and the tokens they come from."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=2.4)
    by_heads, cancel, sources = axes[0]
    n = min(ORDERS, data.sizes["order"])
    mean_bars(by_heads, data.by_heads.values[:, :n].T, BLUE)
    zero_line(by_heads)
    by_heads.set_xticks(range(n))
    by_heads.set(xlabel="heads on the path", ylabel="sum of paths, logits")
    by_heads.set_title("MLPs inside the stream")
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
    sources.set(
        xlabel="largest source tokens", ylabel="share of their absolute sum", ylim=(0, 1.05)
    )
    sources.set_title("Where the logit comes from")
    sources.legend(fontsize=6)
    letter_panels(axes[0])
    ratios = [cancellation(data, name).mean() for name in ("by_heads", "by_mlps")]
    headline(
        figure,
        f"{what}: absolute sums are {ratios[0]:.2f} times the logit by heads, {ratios[1]:.0f} "
        "times by MLPs",
    )
    sample_note(figure, f"{data.sizes['prompt']} prompts, mean and 95 % t interval")
    return figure


def largest(record: Record) -> Figure:
    """The tail of single paths, heads found by scores, and the removal of paths."""
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=2.4)
    tail, found, removed = axes[0]
    for name, colour, label in (
        ("held", ORANGE, "of two heads"),
        ("held_both", BLUE, "of at most two"),
    ):
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
            seed_column(found, place, values, GREEN, form=".2f", size=5)
    found.set_xticks(range(data.sizes["score"]), [SHORT[str(s)] for s in data.score.values])
    found.tick_params(axis="x", labelsize=6)
    found.set(ylabel="share of heads found", ylim=(-0.04, 1.19), title="Heads of the largest paths")
    falls, sums = foreseen_falls(data)
    for kind, colour in KINDS.items():
        rows = data.kind.values == kind
        removed.plot(sums[rows], falls[rows], ".", color=colour, markersize=4, label=kind)
    others = data.without_paths.isel(set=slice(1, None))
    removed.plot(
        data.path_sum.isel(set=slice(1, None)).values.ravel(),
        (data.logit - others).values.ravel(),
        "x",
        color=GREY,
        markersize=3,
        label="others at random",
    )
    zero_line(removed)
    removed.set(xlabel="sum of the removed paths", ylabel="fall of the logit")
    removed.set_title("Removed for real")
    removed.set_ylim(top=1.6 * removed.get_ylim()[1])
    removed.legend(fontsize=6, loc="upper left")
    letter_panels(axes[0])
    proven = int(data.complete.sum())
    headline(
        figure,
        f"{what}: the {data.sizes['rank']} largest paths are proven on {proven} of "
        f"{data.sizes['list']} prompts",
    )
    sample_note(
        figure,
        f"a, b: {data.sizes['list']} prompts; c: {data.sizes['prompt']}, "
        f"{record.notes['removed']} paths of one head each",
    )
    return figure


def maps(record: Record) -> Figure:
    """Singular values of the linear map of each token, and the layers that name the next one."""
    data, what = record.data, model_read(record.notes)
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
    own = np.stack([one[:, i] for i, one in enumerate(data.named.values)])
    named.imshow(own, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    prompts = data.map_prompt.values
    named.set_yticks(range(len(prompts)), [repr(str(data.next.values[i])) for i in prompts])
    named.tick_params(axis="y", labelsize=6)
    named.set(xlabel="layer", title="Layers whose map names the next token")
    letter_panels(axes[0])
    held, layers = float(held_by_first(data).mean()), first_layers(data)
    late = f", from {100 * layers.mean():.0f} % of the depth on" if layers.size else ""
    headline(
        figure,
        f"{what}: ten directions hold {100 * held:.0f} % of the squares; the next token named on "
        f"{layers.size} of {len(prompts)} prompts{late}",
    )
    return figure


def measured(record: Record) -> bool:
    """Whether there is anything to draw."""
    return not record.notes["missing"]


FIGURES = (
    FigureSpec(
        "orders",
        orders,
        message="Split by the number of heads, with MLPs inside the stream, paths add up to the "
        "logit almost without cancellation; split by the number of MLPs they cancel.",
        caption="Left: all paths through 0, 1, 2, ... heads. Right: share of the source tokens "
        "that carry most.",
        refuted="Refuted if the two columns of the middle panel lie at one height.",
    ),
    FigureSpec(
        "largest",
        largest,
        message="Single paths have a long tail; what finds the heads of the largest, and what "
        "their removal costs.",
        caption="Middle: of the heads on the proven list, those first by another score. Right: "
        "nothing is held, and everything later reacts.",
        refuted="Refuted if the curves on the left are steep, or dots and crosses on the right lie "
        "at one height.",
        where=measured,
    ),
    FigureSpec(
        "maps",
        maps,
        message="The linear map from a token to the output has few large directions and a long "
        "tail; in late layers the first name the next token.",
        caption="Right: black where one of the three first singular vectors has the predicted "
        "token among its first ten, for the source token that carries most.",
        refuted="Refuted if the lines of the left panel stay near 1, or black ends on the left.",
        where=measured,
    ),
)
