"""Small models that others published: found in a folder, recognised by their sizes, measured."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.files import fingerprint
from circuitax.kernel.model import Model
from circuitax.lab.lab import Lab
from circuitax.models.lens_format import model_from_lens, spec_from_config
from circuitax.models.sources import open_safetensors

PLACE = "weights/foreign"
BLOCK = 500  # texts that run at once

Arrays = dict[str, Any]


class Published(NamedTuple):
    """A published model: its files, and sizes that tell it from another of its kind.

    Attributes:
        name: Of ``NAME.safetensors`` and ``NAME.json``, TransformerLens's tensors and settings.
        sizes: Attributes of the model.
        beside: Another file that is read with it; empty for none.
    """

    name: str
    sizes: Mapping[str, int]
    beside: str = ""

    @property
    def files(self) -> list[str]:
        """Names of all its files."""
        ends = (".safetensors", ".json")
        return [*(self.name + end for end in ends), *[self.beside] * bool(self.beside)]


@dataclass(frozen=True)
class PublishedSpec:
    """Location of the models, and the number of examples.

    Attributes:
        source: Folder with the models' files; empty for none, when nothing is measured. The default
            may be absent, anything else must be there.
        texts: Most examples of each published set; 10,000 is all of them.
    """

    source: str = PLACE
    texts: Annotated[int, "[8, inf)"] = 10_000

    MODELS: ClassVar[Mapping[str, Published]] = {}

    def __post_init__(self) -> None:
        weights = [of.files[0] for of in self.MODELS.values()]
        if self.source not in ("", PLACE) and not any((self.folder / w).is_file() for w in weights):
            raise ValueError(
                f"source={self.source!r} must be a folder with at least one of {', '.join(weights)}"
            )

    @property
    def folder(self) -> Path:
        """The folder of the source."""
        return Path(self.source).expanduser()

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the files, so that other weights make another run."""
        files = [file for of in self.MODELS.values() for file in of.files] if self.source else []
        return {file: fingerprint(self.folder / file) for file in files}


def measured(
    spec: PublishedSpec, readers: Mapping[str, Callable[[Model, int], Arrays]], lab: Lab
) -> xr.Dataset:
    """What each reader says of its model; the notes name files that are missing for the others.

    Axes that no other variable has are named after it.
    """
    folder = spec.folder
    notes: dict[str, Any] = {"models": {}, "missing": {}, "dtype": str(jnp.zeros(()).dtype)}
    found: Arrays = {}
    for task, of in spec.MODELS.items():
        lacking = [file for file in of.files if not (spec.source and (folder / file).is_file())]
        if lacking:
            notes["missing"][task] = " and ".join(lacking)
            continue
        notes["models"][task] = {"texts": spec.texts}
        model = _open(folder, of)
        lab.log(f"{of.name}: {model!r}")
        found |= readers[task](model, spec.texts)
    data = xr.Dataset({name: _labelled(name, value) for name, value in found.items()})
    return data.assign_attrs(notes)


def _open(folder: Path, of: Published) -> Model:
    config = json.loads((folder / f"{of.name}.json").read_bytes())
    n_out = config.pop("d_vocab_out", None)  # a classifier's classes
    spec = spec_from_config(config).replace(d_vocab_out=n_out)
    with open_safetensors([folder / of.files[0]]) as tensors:
        model = model_from_lens(tensors, spec, jnp.result_type(float))
    for size, published in of.sizes.items():
        if getattr(model, size) != published:
            raise ValueError(
                f"{of.name} has {size}={getattr(model, size)}, must be {published}: it is another "
                "model than the published one"
            )
    return model


def _labelled(name: str, value: Any) -> Any:
    if isinstance(value, xr.DataArray):
        return value
    array = np.asarray(value)
    return xr.Variable([f"{name}:{i}" for i in range(array.ndim)], array)


def on_each(of_text: Callable[..., Any], *texts: Any) -> Any:
    """A function of one text, compiled, on many of them; a block at a time where there are many."""
    rows = jax.tree.map(jnp.asarray, texts)
    if len(rows[0]) <= BLOCK:
        return jax.jit(jax.vmap(of_text))(*rows)
    return jax.jit(lambda *all: jax.lax.map(lambda row: of_text(*row), all, batch_size=BLOCK))(
        *rows
    )


def log_probabilities(logits: Any) -> np.ndarray:
    """Logarithms of the softmax."""
    return np.asarray(jax.nn.log_softmax(logits, axis=-1))


def of_labels(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The value of each label, along the last axis."""
    return np.take_along_axis(values, labels[..., None], axis=-1)[..., 0]
