"""Two attention-only models of ARENA's monthly problems: printed numbers, and their stated paths.

Nothing is downloaded and no weights are kept. ``source`` is a folder with ``NAME.safetensors`` and
``NAME.json`` (TransformerLens's tensor names and settings) of one or both of `MODELS`.
"""

from dataclasses import dataclass
from functools import partial

import jax
import xarray as xr

from circuitax.lab.lab import Lab
from experiments.real_models.foreign_models.first_unique import first_unique
from experiments.real_models.foreign_models.palindromes import palindrome
from experiments.real_models.shared.published_models import Published, PublishedSpec, measured

MODELS = {
    "palindrome": Published(
        "arena_july_palindrome",
        {"n_layers": 2, "n_heads": 2, "d_model": 28, "d_head": 14, "d_vocab": 33},
    ),
    "unique": Published(
        "arena_august_first_unique",
        {"n_layers": 2, "n_heads": 3, "d_model": 42, "d_head": 14, "d_vocab": 11},
    ),
}


@dataclass(frozen=True)
class Spec(PublishedSpec):
    """As `PublishedSpec`, of these models."""

    MODELS = MODELS


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read both models where they are there; the notes name the files that are missing."""
    of_palindromes = partial(palindrome, key=key)
    return measured(spec, {"palindrome": of_palindromes, "unique": first_unique}, lab)
