"""A slider over sparsity: how the directions of five features move as they become rarer."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from circuitax.display.viewers import Viewer
from circuitax.records.record import Record
from experiments.superposition.toy_intro.figure import rotated_alike, solutions

DIGITS = 4


def view(run: Path) -> list[Viewer]:
    """The slider; none where the directions do not lie in a plane."""
    data = Record.load(run).data
    if data.sizes["hidden"] != 2:
        return []
    kinds = ("trained", "optimum") if "optimum_W" in data else ("trained",)
    cells = [(float(base), kind) for base in data.importance_base.values for kind in kinds]
    panels = []
    rows = rotated_alike(solutions(data), data.importance_base.values)
    for (base, kind), (_, weights) in zip(cells, rows, strict=True):
        cell = data.sel(importance_base=base)
        losses = cell.optimum_loss if kind == "optimum" else cell.loss.min("seed")
        which = "exact optimum" if kind == "optimum" else f"best of {data.sizes['seed']} seeds"
        importance = "equal importance" if base == 1 else f"importance {base:g}ⁱ"
        panels.append(
            {
                "name": f"{importance}, {which}",
                "directions": np.round(weights.swapaxes(-1, -2), DIGITS).tolist(),
                "loss": np.round(losses.values, 6).tolist(),
            }
        )
    shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, data.sizes["feature"]))
    facts = {
        "density": np.round(data.density.values, 6).tolist(),
        "panels": panels,
        "colours": [to_hex(shade) for shade in shades],
    }
    text = (
        "Move the slider from dense to rare features. Each arrow is the direction of one feature "
        "in the two hidden dimensions; the circle has radius 1. Trained networks, and the exact "
        f"optimum beside them, at {data.sizes['sparsity']} densities; solutions are turned so that "
        "neighbours can be compared. What is drawn between two stops is the movement only."
    )
    return [Viewer("directions", "Five features in two dimensions, by sparsity", text, facts)]
