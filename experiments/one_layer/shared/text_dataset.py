"""The labelled arrays of the record: losses of the models, and the tables they are held against."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from circuitax.data.tables import table_losses, trigram_loss
from circuitax.data.text import Text
from circuitax.data.tokenizer import token_names
from circuitax.kit.ragged import stack_named


def dataset(
    text: Text,
    found: dict[str, dict[str, np.ndarray]],
    counts: np.ndarray,
    windows: np.ndarray,
    *,
    batch: int,
    steps: np.ndarray,
    lengths: Sequence[int],
) -> "xr.Dataset":
    """Results of each model, and the losses of the unigram, bigram and trigram tables.

    Args:
        text: Its training part makes the trigram table.
        found: Arrays of each model, by name.
        counts: Pairs of neighbours in the training part.
        windows: Held-out windows of the last losses.
        batch: Windows a step.
        steps: Updates done at each measurement.
        lengths: Steps of each training that ``length_loss`` has the end of.
    """

    def stack(name: str) -> np.ndarray:
        # Members that a model does not have are NaN, and count as not alive.
        return stack_named(found.values(), name, 1 if name == "loss" else 0, dtype=float)

    tokens, each = batch * (windows.shape[1] - 1), ("model", "member")
    ends = np.stack([arrays["length_loss"] for arrays in found.values()])
    return xr.Dataset(
        {
            "loss": (("model", "step", "member"), stack("loss")),
            "loss_by_position": ((*each, "position"), stack("loss_by_position")),
            "repeats_by_position": ((*each, "position"), stack("repeats_by_position")),
            "best_prefix": (each, stack("best_prefix")),
            "alive": (each, stack("alive") == 1),
            "length_loss": (("model", "length", "seed"), ends),
            "trigram_loss": trigram_loss(text.tokens.train, len(counts), windows),
        }
        | table_losses(counts, windows),
        coords={
            "model": list(found),
            "step": steps,
            "tokens": ("step", steps * tokens),
            "length": np.array(lengths) * tokens,
            "position": np.arange(1, windows.shape[1]),
            "token": list(token_names(text.tokenizer)),
        },
    )
