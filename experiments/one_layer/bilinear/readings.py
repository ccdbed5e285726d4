"""Bilinear MLPs read: the loss beside other kinds, and few eigenvectors."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_column, zero_line
from circuitax.figures.palette import BLACK, DEPTH_COLOURS, GREEN, GREY, PINK
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.sample import Absent, NotRun, Sample, mean_of_those_finite

KEPT = 4
MOST = 0.03  # nats by which a layer more may lose: beyond, a model was not trained well enough
NEEDED = 64  # eigenvectors of a direction, of which rows name shares
LOOKS = {"bilinear": (GREEN, "-"), "gelu": (BLACK, "--"), "linear": (PINK, ":")}
NAMES = {"bilinear": "bilinear", "gelu": "GELU", "linear": "linear"}
DEPTHS = ((1, DEPTH_COLOURS[1], "one layer"), (2, DEPTH_COLOURS[2], "two layers"))


def gap(data: xr.Dataset, depth: int, kind: str = "bilinear") -> Sample:
    """Last held-out loss less that of the GELU model of the same depth, nats."""
    last = data.loss.isel(step=-1).mean("seed")
    if depth > 1:
        more = float(last.sel(model=f"gelu-{depth}") - last.sel(model=f"gelu-{depth - 1}"))
        if more > MOST:
            raise Absent(
                f"GELU models of {depth} layers end {more:.2f} nats above those of {depth - 1}: "
                "they were not trained well enough to compare with"
            )
    return mean_of_those_finite(gaps_of(data, kind, depth))


def kept_share(data: xr.Dataset, depth: int, random: bool = False) -> Sample:
    """Of the loss that the MLPs of one depth save, the share kept by four eigenvectors."""
    if data.attrs["d_model"] != NEEDED:
        raise NotRun(f"this run has not {NEEDED} eigenvectors of each direction")
    loss = data.random_loss.mean("draw") if random else data.kept_loss.sel(kept=KEPT)
    return mean_of_those_finite(shares_kept(data, loss, depth))


def gaps_of(data: xr.Dataset, kind: str, depth: int) -> np.ndarray:
    """Last loss of each seed less that of the GELU model of the same depth."""
    last = data.loss.isel(step=-1)
    names = [f"{kind}-{depth}", f"gelu-{depth}"]
    one, other = (last.sel(model=name).values for name in names)
    return np.asarray((one - other)[_alive(data, names[0]) & _alive(data, names[1])], float)


def shares_kept(data: xr.Dataset, loss: xr.DataArray, depth: int) -> np.ndarray:
    """Of what the MLPs of one depth save, the share at this loss, of each seed."""
    whole, removed, kept = (
        np.asarray(x.sel(depth=depth).values, float)
        for x in (data.whole_loss, data.removed_loss, loss)
    )
    return ((removed - kept) / (removed - whole))[_alive(data, f"bilinear-{depth}")]


def _alive(data: xr.Dataset, model: str) -> np.ndarray:
    if model not in data.model.values:
        raise NotRun(f"this run has no model {model}")
    return np.asarray(data.alive.sel(model=model).values, bool)


def losses(data: xr.Dataset) -> Figure:
    """Held-out loss along training, and gaps between kinds of MLPs."""
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=[1.2, 1])
    training, gaps = axes[0]
    fewest = int(data.depth.min())  # that of the title
    for kind, (colour, style) in LOOKS.items():
        rows = data.loss.sel(model=f"{kind}-{fewest}").transpose("step", "seed").values
        mean_curve(
            training, data.step, rows, colour, label=NAMES[kind], linestyle=style, opacity=0.2
        )
    training.set(xlabel="step", ylabel="held-out loss, nats a token")
    training.set_title(f"layers: {fewest}")
    training.legend(fontsize=6)
    places: list[tuple[float, str]] = []
    for depth in map(int, data.depth.values):
        for kind in ("bilinear", "linear"):
            place, rows = len(places) + 0.4 * (depth - 1), gaps_of(data, kind, depth)
            if rows.size:
                seed_column(gaps, place, rows, LOOKS[kind][0], form="+.3f", size=5)
            places.append((place, f"{NAMES[kind]}\n{depth}"))
    zero_line(gaps)
    gaps.set_xticks([x for x, _ in places], [name for _, name in places])
    gaps.tick_params(axis="x", labelsize=6)
    gaps.set(xlabel="layers", ylabel="loss less GELU's, nats", title="Equal parameters")
    gaps.margins(x=0.15, y=0.15)
    letter_panels(axes[0])
    sample_note(figure, f"dots: {data.sizes['seed']} seeds; mean and 95 % t interval")
    return figure


def eigenvectors(data: xr.Dataset) -> Figure:
    """Share of the loss that MLPs save, against the eigenvectors kept of each direction."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.5)
    ax = axes[0, 0]
    for depth, colour, label in DEPTHS:
        if depth not in data.depth.values:
            continue
        rows = np.array([shares_kept(data, data.kept_loss.sel(kept=k), depth) for k in data.kept])
        if not rows.size:
            continue
        mean_curve(ax, data.kept, rows, colour, label=label, marker="o", markersize=3)
        random = shares_kept(data, data.random_loss.mean("draw"), depth)
        ax.plot([4], [random.mean()], "x", color=colour)
    ax.plot([], [], "x", color=GREY, label="four at random")
    reference_line(ax, y=1)
    zero_line(ax)
    ax.set(xscale="log", xlabel="eigenvectors of each direction", ylabel="share of the saved loss")
    ticks = [tick for tick in (1, 2, 4, 8, 16, 32, 64) if tick <= data.attrs["d_model"]]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.legend(fontsize=6, loc="lower right")
    sample_note(figure, f"mean and 95 % interval of {data.sizes['seed']} seeds")
    return figure
