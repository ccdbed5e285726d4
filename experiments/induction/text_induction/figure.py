"""Real text alone gives no induction head cheaply; a primer does, and text wears it down slowly."""

from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import BLACK, BLUE, GREY, ORANGE, letter_panels, new_figure
from circuitax.records.members import members_where
from circuitax.records.record import Record

ARMS = {
    "2 layers": (BLUE, "--", "^"),
    "2 layers, primed": (ORANGE, "-", "o"),
    "1 layer, primed": (GREY, ":", "s"),
}
CURVES = {
    "prefix": "prefix matching, best head",
    "previous": "previous token, best head",
    "loss_repeated": "loss on repeated pairs, nats",
    "loss_new": "loss on other tokens, nats",
}


def training(record: Record) -> Figure:
    """Head scores on random repeats and losses on held-out text, over the tokens trained on."""
    data = record.data
    figure, axes = new_figure(2, 2, height=4.5, sharex=True)
    primer = float(data.tokens.sel(step=int(data.primer))) / 1e6
    for ax, (name, label) in zip(axes.flat, CURVES.items(), strict=True):
        ax.axvspan(0, primer, color=ORANGE, alpha=0.1, linewidth=0)
        for arm, (colour, line, _) in ARMS.items():
            values = members_where(data.sel(arm=arm))[name]
            if "head" in values.dims:
                values = values.max(["layer", "head"])
            rows = values.transpose("step", "member").values
            tokens = values.tokens.values / 1e6
            mean_curve(ax, tokens, rows, colour, label=arm, each=True, linestyle=line)
        ax.set(ylabel=label, xlim=(0, float(data.tokens[-1]) / 1e6))
    for ax in axes[0]:
        ax.set_ylim(0, 1)
    chance = axes[0, 0].axhline(float(data.chance), color=BLACK, linewidth=0.6, linestyle=":")
    axes[0, 0].legend([chance], ["uniform attention"], loc="upper right")
    axes[0, 1].text(primer, 0.99, " ← primer, plain text →", va="top", fontsize=6)
    for ax in axes[1]:
        ax.set_xlabel("tokens trained on, millions")
        # The fall from uniform guessing would hide everything else.
        ax.set_ylim(top=5.2)
    n, share = data.sizes["member"], float(data.share_repeated)
    figure.legend(
        *axes[1, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        title=f"mean of {n} seeds, 95 % interval; {share:.0%} of held-out tokens end a "
        "repeated pair",
        title_fontsize=7,
    )
    letter_panels(axes.flat)
    return figure


def heads(record: Record) -> Figure:
    """Cost of removing each head, under fixed patterns, against its prefix matching."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.6, sharex=True)
    names = {"loss_repeated": "repeated pairs", "loss_new": "other tokens"}
    for ax, (name, label) in zip(axes[0], names.items(), strict=True):
        for arm, (colour, _, mark) in ARMS.items():
            members = members_where(data.sel(arm=arm))
            cost = members[f"ablated_{name}"] - members[name].isel(step=-1)
            prefix = members.prefix.isel(step=-1)
            ax.scatter(
                prefix.values.ravel(),
                cost.transpose(*prefix.dims).values.ravel(),
                s=12,
                facecolors="none",
                edgecolors=colour,
                marker=mark,
                label=arm,
            )
        ax.axhline(0, color=BLACK, linewidth=0.5)
        ax.set(xlabel="prefix matching on random repeats", ylabel=f"cost on {label}, nats")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        title=f"one mark for each head of {data.sizes['member']} seeds",
        title_fontsize=7,
    )
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "training",
        training,
        message="Prefix matching rises during the primer and fades slowly on plain text, where "
        "the loss on repeated pairs stays lower than without a primer.",
        refuted="Refuted if an orange curve of the upper left or the lower left panel falls or "
        "rises back to the blue one.",
    ),
    FigureSpec(
        "heads",
        heads,
        message="Predictions of repeated pairs depend on the prefix-matching head.",
        refuted="Refuted if heads far to the right cost nothing to remove.",
    ),
)
