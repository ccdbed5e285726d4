"""Three models that others trained: printed numbers, stated parts, and mistakes in the write-ups.

Nothing is downloaded and no weights are kept. ``source`` is a folder with ``NAME.safetensors`` and
``NAME.json`` (TransformerLens's tensor names and settings) of one or more of `MODELS`; the bracket
classifier's strings are read from ``arena_brackets.npz`` beside it.
"""

from dataclasses import dataclass
from functools import partial

import jax
import xarray as xr

from circuitax.lab.lab import Lab
from experiments.real_models.shared.published_models import Published, PublishedSpec, measured
from experiments.real_models.signs_and_brackets.brackets import brackets
from experiments.real_models.signs_and_brackets.copies import copies
from experiments.real_models.signs_and_brackets.signs import running_sign

STRINGS = "arena_brackets.npz"
MODELS = {
    "sign": Published(
        "arena_november_cumsum",
        {"n_layers": 1, "n_heads": 1, "d_model": 24, "d_head": 12, "d_vocab": 11},
    ),
    "bracket": Published(
        "arena_brackets",
        {"n_layers": 3, "n_heads": 2, "d_model": 56, "d_head": 28, "d_vocab": 5},
        STRINGS,
    ),
    "copies": Published(
        "nanda_induction_infinite",
        {"n_layers": 2, "n_heads": 4, "d_model": 48, "d_head": 12, "d_vocab": 128},
    ),
}


@dataclass(frozen=True)
class Spec(PublishedSpec):
    """As `PublishedSpec`, of these models."""

    MODELS = MODELS


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read every model that is there; the notes name the files that are missing for the others."""
    brackets_of = partial(brackets, strings=spec.folder / STRINGS)
    return measured(spec, {"sign": running_sign, "bracket": brackets_of, "copies": copies}, lab)
