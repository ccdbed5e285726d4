"""Models that others trained: printed numbers, stated paths, and mistakes in the write-ups.

Nothing is downloaded and no weights are kept. ``source`` is a folder with ``NAME.safetensors`` and
``NAME.json`` (TransformerLens's tensor names and settings) of one or more of the models in
`MODELS`; the bracket classifier's strings are read from ``arena_brackets.npz`` beside it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.files import fingerprint
from circuitax.kernel.model import Model
from circuitax.lab.lab import Lab
from circuitax.models.lens_format import model_from_lens, spec_from_config
from circuitax.models.sources import open_safetensors
from experiments.real_models.foreign_models import models
from experiments.real_models.foreign_models.copies import copies

# File names without ending, by task.
MODELS = {
    "palindrome": "arena_july_palindrome",
    "unique": "arena_august_first_unique",
    "sign": "arena_november_cumsum",
    "bracket": "arena_brackets",
    "copies": "nanda_induction_infinite",
}
# What tells the published model from another of its kind.
SIZES = {
    "palindrome": {"n_layers": 2, "n_heads": 2, "d_model": 28, "d_head": 14, "d_vocab": 33},
    "unique": {"n_layers": 2, "n_heads": 3, "d_model": 42, "d_head": 14, "d_vocab": 11},
    "sign": {"n_layers": 1, "n_heads": 1, "d_model": 24, "d_head": 12, "d_vocab": 11},
    "bracket": {"n_layers": 3, "n_heads": 2, "d_model": 56, "d_head": 28, "d_vocab": 5},
    "copies": {"n_layers": 2, "n_heads": 4, "d_model": 48, "d_head": 12, "d_vocab": 128},
}
READERS = {
    "palindrome": models.palindrome,
    "unique": models.first_unique,
    "sign": models.running_sign,
    "copies": copies,
}
STRINGS = "arena_brackets.npz"
PLACE = "weights/foreign"


@dataclass(frozen=True)
class Spec:
    """Locations of the models, and the number of examples.

    Attributes:
        source: Folder with the models' files; empty for none, when nothing is measured. The default
            may be absent, anything else must be there.
        texts: Most examples of each published set; 10,000 is all of them.
    """

    source: str = PLACE
    texts: Annotated[int, "[8, inf)"] = 10_000

    def __post_init__(self) -> None:
        if self.source not in ("", PLACE) and not any(map(self._weights, MODELS)):
            names = ", ".join(f"{name}.safetensors" for name in MODELS.values())
            raise ValueError(
                f"source={self.source!r} must be a folder with at least one of {names}"
            )

    def _weights(self, task: str) -> bool:
        return (Path(self.source).expanduser() / f"{MODELS[task]}.safetensors").is_file()

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the files, so that other weights make another run."""
        if not self.source:
            return {}
        folder = Path(self.source).expanduser()
        files = [f"{name}.{end}" for name in MODELS.values() for end in ("safetensors", "json")]
        return {name: fingerprint(folder / name) for name in (*files, STRINGS)}


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read every model that is there; the notes name the files that are missing for the others."""
    folder = Path(spec.source).expanduser()
    notes: dict[str, Any] = {"models": {}, "missing": {}, "dtype": str(jnp.zeros(()).dtype)}
    found: dict[str, Any] = {}
    for task, name in MODELS.items():
        files = [f"{name}.safetensors", f"{name}.json", *[STRINGS] * (task == "bracket")]
        lacking = [file for file in files if not (spec.source and (folder / file).is_file())]
        if lacking:
            notes["missing"][task] = " and ".join(lacking)
            continue
        notes["models"][task] = {"texts": spec.texts}
        model = _open(folder, task)
        lab.log(f"{name}: {model!r}")
        if task == "bracket":
            with np.load(folder / STRINGS) as data:
                strings, balanced = data["dataset_tokens"], data["dataset_labels"]
            found |= models.brackets(model, spec.texts, strings, balanced)
        else:
            found |= READERS[task](model, spec.texts, key)
    names = found.pop("palindrome-path-names", None)
    data = xr.Dataset({name: _variable(name, value) for name, value in found.items()})
    if names is not None:
        data = data.assign_coords(path=names)
    return data.assign_attrs(notes)


def _open(folder: Path, task: str) -> Model:
    """The published model of a task, from its files."""
    name = MODELS[task]
    config = json.loads((folder / f"{name}.json").read_bytes())
    n_out = config.pop("d_vocab_out", None)  # a classifier's classes
    spec = spec_from_config(config).replace(d_vocab_out=n_out)
    with open_safetensors([folder / f"{name}.safetensors"]) as tensors:
        model = model_from_lens(tensors, spec, jnp.result_type(float))
    for size, published in SIZES[task].items():
        if getattr(model, size) != published:
            raise ValueError(
                f"{name} has {size}={getattr(model, size)}, must be {published}: it is another "
                "model than the published one"
            )
    return model


def _variable(name: str, value: Any) -> xr.Variable:
    """A labelled array; axes that no other variable has are named after it."""
    array = np.asarray(value)
    if name == "palindrome-paths":
        return xr.Variable(("text", "path"), array)
    return xr.Variable([f"{name}:{i}" for i in range(array.ndim)], array)
