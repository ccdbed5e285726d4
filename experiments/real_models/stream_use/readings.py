"""Use of the residual stream in a real model: what is read from the record, and its figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import exact
from circuitax.records.sample import Absent, Sample, sample, share_of
from experiments.real_models.shared.model_facts import of_smollm2

ERASES = -0.5  # cosine or eigenvalue score, below which a neuron or a head may erase
LARGE = -0.9  # eigenvalue score, below which a head erases
PRESENT = 1 / 2  # attention to the present token, from which a head attends primarily to it
COLOURS = {"read": (BLUE, "what it reads"), "gate": (ORANGE, "what opens its gate")}


def first_quarter(data: xr.Dataset) -> Sample:
    """Share of the variance of tokens along the first quarter of the principal components."""
    data = of_smollm2(data)
    return _of_the_model(data.variance.values[: data.sizes["component"] // 4].sum())


def neurons_that_erase(data: xr.Dataset) -> Sample:
    """Share of neurons that write against the direction that they read."""
    count = of_smollm2(data)["count"].sel(map="read")
    return _of_the_model(count[data.centre < ERASES].sum() / count.sum())


def heads_that_erase(data: xr.Dataset) -> Sample:
    """Share of heads with a large negative eigenvalue score of ``W_V W_O``."""
    return _of_the_model((of_smollm2(data).eigenvalues < ERASES).mean())


def erasing_heads_look_here(data: xr.Dataset) -> Sample:
    """Share of the erasing heads that attend primarily to the present token."""
    data = of_smollm2(data)
    erases = data.eigenvalues.values < LARGE
    if not erases.any():
        raise Absent(f"no head has an eigenvalue score below {LARGE}")
    return share_of(data.present.mean("text").values[erases] >= PRESENT)


def _of_the_model(value: float | xr.DataArray) -> Sample:
    """A number of the one model: no second model says how it spreads."""
    return sample(exact(float(value))._replace(method="one model, no interval"))


def use(data: xr.Dataset) -> Figure:
    """Spectrum of embeddings, cosines of neurons, and eigenvalues of heads."""
    figure, axes = new_figure(1, 3, height=2.5)
    spectrum, neurons, heads = axes[0]
    n = data.sizes["component"]
    kept = np.arange(1, n + 1) / n
    spectrum.plot(kept, np.cumsum(data.variance.values), color=BLUE, label="embeddings")
    spectrum.plot(kept, kept, color=BLACK, linestyle=":", label="all directions alike")
    spectrum.set(xlabel="share of components", ylabel="share of variance", title="tokens")
    spectrum.legend(loc="lower right")
    width = float(data.centre[1] - data.centre[0])
    total = data["count"].sum("bin").values
    for i, name in enumerate(data["map"].values):
        colour, label = COLOURS[str(name)]
        density = data["count"].values[i] / total[i] / width
        neurons.step(data.centre, np.maximum(density, 1e-9), color=colour, label=label, where="mid")
    law = np.sqrt(n / (2 * np.pi)) * np.exp(-n * data.centre.values**2 / 2)
    neurons.plot(data.centre, law, color=GREY, linestyle="--", label="random directions")
    least = float(np.min(1 / total) / width)
    neurons.set(yscale="log", ylim=(least / 2, 20), xlabel="cosine with what it writes")
    neurons.set(ylabel="density of neurons", title=f"{int(total[0]):,} neurons")
    legend_above(figure, neurons, columns=3)
    score, present = data.eigenvalues.values.ravel(), data.present.mean("text").values.ravel()
    heads.plot(score, present, "o", color=BLUE, markersize=2.5, linestyle="none", alpha=0.7)
    zero_line(heads, vertical=True)
    heads.set(xlabel="eigenvalue score of $W_V W_O$", ylabel="attention to present token")
    heads.set(title=f"{score.size} heads, {data.sizes['text']} texts", xlim=(-1.05, 1.05))
    letter_panels(axes[0])
    return figure
