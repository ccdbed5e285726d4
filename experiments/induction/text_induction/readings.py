"""Induction on real text, read: prefix scores, losses on repeated pairs, ablations."""

import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve
from circuitax.figures.palette import BLACK, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import Estimate, difference_estimate, mean_estimate
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, NotRun

PRIMED, PLAIN, SINGLE = "2 layers, primed", "2 layers", "1 layer, primed"
HEADS = ("layer", "head")
ARMS = {PLAIN: (BLACK, "--", "^"), PRIMED: (ORANGE, "-", "o"), SINGLE: (GREY, ":", "s")}
CURVES = {
    "prefix": "prefix matching, best head",
    "previous": "previous token, best head",
    "loss_repeated": "loss on repeated pairs, nats",
    "loss_new": "loss on other tokens, nats",
}


def prefix_score(data: xr.Dataset, arm: str) -> Estimate:
    """Prefix-matching score of the best head at the end, mean over seeds; a share of attention."""
    best = _alive(data, arm).prefix.isel(step=-1).max(HEADS)
    return mean_estimate(best.values, bounds=(0, 1))


def prefix_at_start(data: xr.Dataset, arm: str) -> Estimate:
    """The same before training."""
    return mean_estimate(_alive(data, arm).prefix.isel(step=0).max(HEADS).values)


def stays(data: xr.Dataset) -> Estimate:
    """Best prefix score at the end over that at the end of the primer."""
    best = _alive(data, PRIMED).prefix.max(HEADS)
    kept = best.isel(step=-1) / best.sel(step=int(data.primer))
    return mean_estimate(kept.values)


def repeats(data: xr.Dataset, arm: str = PRIMED) -> Estimate:
    """The lesser of what a primer saves on repeated pairs and how much more than on other tokens.

    What other tokens lose alone would count as saved on pairs, if the second were judged alone.
    """
    plain, primed = (_alive(data, name).isel(step=-1) for name in (PLAIN, arm))
    saved = difference_estimate(plain.loss_repeated.values, primed.loss_repeated.values)
    more = [(each.loss_repeated - each.loss_new).values for each in (plain, primed)]
    return min(saved, difference_estimate(*more), key=lambda found: found.value)


def head_worth(data: xr.Dataset) -> Estimate:
    """Cost on repeated pairs minus cost on other tokens, of the best prefix-matching head, nats."""
    members = _alive(data, PRIMED)
    end = members.isel(step=-1)
    repeated = members.ablated_loss_repeated - end.loss_repeated
    margin = repeated - (members.ablated_loss_new - end.loss_new)
    best = end.prefix.stack(cell=HEADS).fillna(-1).argmax("cell")
    return mean_estimate(margin.stack(cell=HEADS).isel(cell=best).values)


def _alive(data: xr.Dataset, arm: str) -> xr.Dataset:
    # Older records were made before the share was noted: all of them end on plain text.
    if share := data.attrs.get("repeated_share", 0.0):
        raise NotRun(f"repeated_share={share}: no arm ends on plain text")
    members = members_where(data.sel(arm=arm))
    if not members.sizes["member"]:
        raise Absent(f"no seed of {arm} stayed finite")
    return members


def training(data: xr.Dataset) -> Figure:
    """Head scores on random repeats and losses on held-out text, over the tokens trained on."""
    figure, axes = new_figure(2, 2, height=4.5, sharex=True)
    primer = float(data.tokens.sel(step=int(data.primer))) / 1e6
    for ax, (name, label) in zip(axes.flat, CURVES.items(), strict=True):
        ax.axvspan(0, primer, color=ORANGE, alpha=0.1, linewidth=0)
        for arm, (colour, line, _) in ARMS.items():
            values = members_where(data.sel(arm=arm))[name]
            if "head" in values.dims:
                values = values.max(HEADS)
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
    title = f"mean of {n} seeds, 95 % interval; {share:.0%} of held-out tokens end a repeated pair"
    legend_above(figure, axes[1, 0], columns=3, title=title, title_fontsize=7)
    letter_panels(axes.flat)
    return figure


def heads(data: xr.Dataset) -> Figure:
    """Cost of removing each head, under fixed patterns, against its prefix matching."""
    figure, axes = new_figure(1, 2, height=2.6, sharex=True)
    names = {"loss_repeated": "repeated pairs", "loss_new": "other tokens"}
    for ax, (name, label) in zip(axes[0], names.items(), strict=True):
        for arm, (colour, _, mark) in ARMS.items():
            members = members_where(data.sel(arm=arm))
            cost = members[f"ablated_{name}"] - members[name].isel(step=-1)
            prefix = members.prefix.isel(step=-1)
            y = cost.transpose(*prefix.dims).values.ravel()
            how = {"s": 12, "facecolors": "none", "edgecolors": colour, "marker": mark}
            ax.scatter(prefix.values.ravel(), y, label=arm, **how)
        ax.axhline(0, color=BLACK, linewidth=0.5)
        ax.set(xlabel="prefix matching on random repeats", ylabel=f"cost on {label}, nats")
    title = f"one mark for each head of {data.sizes['member']} seeds"
    legend_above(figure, axes[0, 0], columns=3, title=title, title_fontsize=7)
    letter_panels(axes[0])
    return figure
