"""Models that others trained: printed numbers, stated paths, and mistakes in the write-ups.

Nothing is downloaded and no weights are kept. ``source`` is a folder with ``NAME.safetensors`` and
``NAME.json`` (TransformerLens's tensor names and settings) of one or more of the models in
`sources.MODELS`; the bracket classifier's strings are read from ``arena_brackets.npz`` beside it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.files import fingerprint
from circuitax.kernel.model import Model
from circuitax.kit.checks import require_at_least
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.real_models.foreign_models import (
    bracket,
    first_unique,
    induction,
    palindrome,
    running_sign,
)
from experiments.real_models.foreign_models.opening import open_model
from experiments.real_models.foreign_models.sources import MODELS, NEEDED, SIZES

READERS = {
    "palindrome": palindrome.read,
    "unique": first_unique.read,
    "sign": running_sign.read,
    "copies": induction.read,
}
STRINGS = "arena_brackets.npz"
PLACE = "weights/foreign"


@dataclass(frozen=True)
class Spec:
    """Locations of the models, and the number of examples.

    Attributes:
        source: Folder with the models' files; empty for none, when no claim is settled. The
            default may be absent, anything else must be there.
        texts: Most examples of each published set; 10,000 is all of them.
    """

    source: str = PLACE
    texts: int = 10_000

    def __post_init__(self) -> None:
        require_at_least(self, 8, "texts")
        if self.source not in ("", PLACE) and not self._found():
            names = ", ".join(f"{name}.safetensors" for name in MODELS.values())
            raise ValueError(
                f"source={self.source!r} must be a folder with at least one of {names}"
            )

    def _found(self) -> list[str]:
        folder = Path(self.source).expanduser()
        return [n for n in MODELS.values() if (folder / f"{n}.safetensors").is_file()]

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the files, so that other weights make another run."""
        if not self.source:
            return {}
        folder = Path(self.source).expanduser()
        files = [f"{name}.{end}" for name in MODELS.values() for end in ("safetensors", "json")]
        return {name: fingerprint(folder / name) for name in (*files, STRINGS)}


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Read every model that is there; the notes name the files that are missing for the others."""
    folder = Path(spec.source).expanduser()
    notes: dict[str, Any] = {"models": {}, "missing": {}, "examples": {}}
    notes["dtype"] = str(jnp.zeros(()).dtype)
    found: dict[str, Any] = {}
    for task, name in MODELS.items():
        model = open_model(folder, name) if spec.source else None
        strings = folder / STRINGS
        lacking = [f"{name}.safetensors and {name}.json"] * (model is None)
        lacking += [STRINGS] * (task == "bracket" and not (spec.source and strings.is_file()))
        if model is None or lacking:
            notes["missing"][task] = " and ".join(lacking)
            continue
        _check(task, name, model)
        lab.log(f"{name}: {model!r}")
        if task == "bracket":
            with np.load(strings) as data:
                read = bracket.read(
                    model, spec.texts, key, data["dataset_tokens"], data["dataset_labels"]
                )
        else:
            read = READERS[task](model, spec.texts, key)
        found |= read
        sizes = {size: getattr(model, size) for size in SIZES[task]}
        notes["models"][task] = sizes | {"texts": spec.texts}
    for name in [name for name in found if name.endswith("-n")]:
        notes["examples"][name.removesuffix("-n")] = int(found.pop(name))
    names = found.pop("palindrome-path-names", None)
    data = xr.Dataset({name: _variable(name, value) for name, value in found.items()})
    if names is not None:
        data = data.assign_coords(path=names)
    return Record(data=data, notes=notes)


def _variable(name: str, value: Any) -> "xr.Variable":
    """A labelled array; axes that no other variable has are named after it."""
    array = np.asarray(value)
    if name == "palindrome-paths":
        return xr.Variable(("text", "path"), array)
    return xr.Variable([f"{name}:{i}" for i in range(array.ndim)], array)


def _check(task: str, name: str, model: Model) -> None:
    for size in NEEDED:
        if getattr(model, size) != SIZES[task][size]:
            raise ValueError(
                f"{name} has {size}={getattr(model, size)}, must be {SIZES[task][size]}: it is a "
                "model of another task"
            )
