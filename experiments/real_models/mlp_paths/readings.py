"""Paths of a real model through MLPs: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, seed_column, zero_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import Sample, exactly, geometric_mean_of, mean_of, share_of
from experiments.real_models.shared.model_facts import of_smollm2

ORDERS = 8  # orders that are drawn
DIRECTIONS = 10  # first singular vectors that may approximate a map


def closing(data: xr.Dataset) -> Sample:
    """Largest difference between the sum of all paths and the logit, over the logit."""
    data = of_smollm2(data)
    miss = np.abs(data.exact.sum("source") - data.logit) / np.abs(data.logit)
    return exactly(miss.max(), data.sizes["prompt"])


def by_heads(data: xr.Dataset) -> Sample:
    """Sum of the absolute values of the orders by heads over the logit."""
    return mean_of(cancellation(of_smollm2(data), "by_heads"))


def by_mlps(data: xr.Dataset) -> Sample:
    """The same of the orders by MLPs, a geometric mean."""
    return geometric_mean_of(np.log(cancellation(of_smollm2(data), "by_mlps")))


def held_by_first(data: xr.Dataset) -> Sample:
    """Share of a map's squared singular values that the first ten have, mean over tokens.

    The record has the first values of each map, and the sum of all squares over the first one's.
    """
    squares = of_smollm2(data).singular.values.astype(float) ** 2
    sums = np.maximum(data.rank_of.values * squares[..., 0], np.finfo(float).tiny)
    shares = np.minimum(squares[..., :DIRECTIONS].sum(axis=-1) / sums, 1)
    return mean_of(shares.mean(axis=1), bounds=(0, 1))


def held_at_most(data: xr.Dataset) -> Sample:
    """The most that the stable ranks of shuffled weights leave to the first ten directions."""
    ranks = np.maximum(of_smollm2(data).rank_shuffled.values, 1)
    return mean_of(np.minimum(1, DIRECTIONS / ranks).mean(axis=1))


def named_in_the_end(data: xr.Dataset, shift: int = 0) -> Sample:
    """Share of prompts whose map names the likeliest token, or with a shift another prompt's."""
    named = of_smollm2(data).named.isel(layer=-1).values
    n = np.arange(len(named))
    return share_of(named[n, (n + shift) % len(n)])


def named_later(data: xr.Dataset) -> Sample:
    """Share of the layers of the second half that name the likeliest token, less the first half."""
    own = _own_names(of_smollm2(data)).astype(float)
    middle = own.shape[1] // 2
    return mean_of(own[:, middle:].mean(axis=1) - own[:, :middle].mean(axis=1))


def cancellation(data: xr.Dataset, orders: str) -> np.ndarray:
    """Sum of the absolute values of the orders over the logit, of each prompt."""
    return np.asarray(np.abs(data[orders].values).sum(axis=1) / np.abs(data.logit.values))


def _own_names(data: xr.Dataset) -> np.ndarray:
    """Whether the map up to each layer names the prompt's own likeliest token."""
    return np.stack([named[:, i] for i, named in enumerate(data.named.values)])


def orders(data: xr.Dataset) -> Figure:
    """Sums of paths by number of heads, and their cancellation."""
    figure, axes = new_figure(1, 2, height=2.4)
    by_number, cancel = axes[0]
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
    letter_panels(axes[0])
    sample_note(figure, f"{data.sizes['prompt']} prompts, mean and 95 % t interval")
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
