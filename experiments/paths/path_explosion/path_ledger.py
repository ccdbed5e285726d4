"""The ledger of trained models, beside all their paths computed one by one."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from circuitax.circuits.ledger.ledger import head_ledger
from circuitax.circuits.paths.expansion import n_paths, path_name, path_streams
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.kernel.model import Model
from circuitax.kernel.run import run

TOP_PATHS = 20
RANKS = 100  # at which sizes of all paths are kept


def rank(models: Model, alive: Array, texts: Array) -> dict[str, np.ndarray]:
    """The largest paths of every member on each of its texts, NaN for members that diverged.

    Of the logit of the last token less the mean logit, at the position before it.
    """
    position = texts.shape[-1] - 2
    count = n_paths(models.n_layers, models.n_heads)
    places = min(TOP_PATHS, count)

    @jax.jit
    def all_of(model: Model, text: Array) -> tuple[FrozenModel, Array, Array]:
        frozen = frozen_model(run(model, text))
        direction = frozen.read_out.W_U[:, text[-1]] - frozen.read_out.W_U.mean(axis=1)
        scale = frozen.read_out.scale
        along = direction if scale is None else direction / scale[position]
        return frozen, direction, path_streams(frozen)[:, position] @ along

    def one(model: Model, text: Array) -> dict[str, Any]:
        frozen, direction, every = all_of(model, text)
        sizes = np.sort(np.abs(np.asarray(every)))[::-1]
        found = head_ledger(frozen, position, direction, k=places)
        return {
            "complete": found.complete,
            "evaluated": found.n_evaluated / count,
            "omitted_bound": found.omitted_bound,
            "brute_force_gap": np.abs(np.abs(found.values) - sizes[:places]).max() / sizes[0],
            "top": found.values,
            "top_path": [path_name(path) for path in found.paths],
            "all_sizes": sizes[ranks(count) - 1],
        }

    living = np.flatnonzero(alive)
    rows = [[one(models[int(i)], text) for text in texts[i]] for i in living]
    arrays = {}
    for name in rows[0][0]:
        measured = np.array([[cell[name] for cell in row] for row in rows])
        missing = "" if name == "top_path" else np.nan
        kind = measured.dtype if name == "top_path" else float
        arrays[name] = np.full((len(alive), *measured.shape[1:]), missing, kind)
        arrays[name][living] = measured
    return arrays


def ranks(count: int) -> np.ndarray:
    """From 1 to ``count``, evenly on a logarithmic scale, whole and distinct."""
    return np.unique(np.round(np.geomspace(1, count, RANKS)).astype(int))
