"""Does superposition make a toy model easy to attack?"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_dots
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, NotRun, Sample, geometric_mean_of, mean_of
from experiments.superposition.shared.phase_axes import density_axis

# Share of inputs without a gradient from which gradients count as masked.
MASKED = 0.5
ATTACKS = (
    ("analytic", "analytic, worst feature of each input", "o"),
    ("feature", "analytic, one feature for all inputs", "s"),
    ("gradient", "gradient ascent", "^"),
)
VULNERABILITY = "added loss / added loss\nwithout superposition"
FEATURES = "features per dimension\n" + r"$\|W\|_F^2/m$"


def rise(data: xr.Dataset) -> Sample:
    """Vulnerability of the sparsest features over that of the densest."""
    swept = _swept(data)
    sparse, dense = swept.isel(density=-1), swept.isel(density=0)
    return geometric_mean_of(np.log((sparse.analytic / dense.analytic).values))


def by_gradient(data: xr.Dataset) -> Sample:
    """Loss added by gradient ascent over that added by the analytic attack, sparsest features."""
    sparse = _swept(data).isel(density=-1)
    masked = float(sparse.masked.mean())
    if masked < MASKED:
        raise Absent(f"gradients are not masked: {masked:.0%} of inputs have none, not half")
    return mean_of((sparse.gradient / sparse.analytic).values)


def kept(data: xr.Dataset, strength: float = 0.8) -> Sample:
    """Features of at least half the greatest norm per dimension, after training against attacks."""
    return mean_of(_kept(data, strength).values)


def kept_ratio(data: xr.Dataset) -> Sample:
    """Kept features after training against the strongest attacks over those against none."""
    return mean_of((_kept(data, 0.8) / _kept(data, 0.0)).values)


def _swept(data: xr.Dataset) -> xr.Dataset:
    """The seeds that stayed finite at all densities, from dense to sparse."""
    finite = members_where(data, np.isfinite(data.loss).all("density"))
    return finite.sortby("density", ascending=False)


def _kept(data: xr.Dataset, strength: float) -> xr.DataArray:
    """Kept features per dimension of the seeds that stayed finite at all strengths."""
    at = np.flatnonzero(np.isclose(data.defence.values, strength))
    if not at.size:
        raise NotRun(f"this run has no attacks of strength {strength:g} in training")
    finite = members_where(data, np.isfinite(data.defended_loss).all("defence"))
    return finite.defended_kept_per_dimension.isel(defence=int(at[0]))


def vulnerability(data: xr.Dataset) -> Figure:
    """Added loss over sparsity, and features per dimension likewise."""
    figure, axes = new_figure(1, 2, height=2.95)
    over, shape = axes[0]
    density = data.density.values
    for (name, label, mark), colour in zip(ATTACKS, COLOURS, strict=False):
        rows = data[name].transpose("density", "seed").values
        mean_curve(over, density, rows, colour, label=label, marker=mark, markersize=3)
    rows = data.features_per_dimension.transpose("density", "seed").values
    mean_curve(shape, density, rows, BLACK, marker="o", markersize=3)
    over.set(ylabel=VULNERABILITY, title="vulnerability rises with sparsity")
    shape.set(ylabel=FEATURES, title="and so does superposition")
    for ax in axes[0]:
        density_axis(ax, [1, 0.3, 0.1, 0.03])
        reference_line(ax, y=1)
    n, m = int(data.sizes["seed"]), data.attrs["attack_strength"]
    handles, labels = over.get_legend_handles_labels()
    title = f"attack {m:g} of the mean input norm; mean of {n} seeds and t interval 95 %"
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=title)
    letter_panels(axes[0])
    return figure


def defence(data: xr.Dataset) -> Figure:
    """Superposition left after adversarial training, and the cost of this training."""
    figure, axes = new_figure(1, 3, height=2.2)
    shown = (
        ("defended_kept_per_dimension", "kept features\nper dimension", "fewer are kept"),
        ("defended_analytic", VULNERABILITY, "vulnerability falls"),
        ("defended_loss", "loss without attack", "at a price"),
    )
    for ax, (name, label, title) in zip(axes[0], shown, strict=True):
        rows = data[name].transpose("defence", "seed").values
        mean_curve(ax, data.defence.values, rows, BLUE, marker="o", markersize=3)
        for strength, row in zip(data.defence.values, rows, strict=True):
            seed_dots(ax, strength, row, GREY, half_width=0.012, size=5)
        ax.set(ylabel=label, title=title)
        if name != "defended_loss":
            reference_line(ax, y=1)
        ax.set_ylim(0, 1.08 * float(rows.max()))
    letter_panels(axes[0])
    figure.supxlabel("strength of the attack in training / mean input norm", fontsize=8)
    figure.suptitle(
        f"training against attacks, dots {data.sizes['seed']} seeds, band t interval 95 %",
        fontsize=8,
    )
    return figure
