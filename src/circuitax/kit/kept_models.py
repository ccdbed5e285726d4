"""Saved models of a run, beside its record: one naming, one writer, one reader.

The weights of all members of one model at one step are one file, ``<model>-step-<step>``. The notes
of the record say which models and steps there are: ``models`` holds the spec of each by name,
``steps_kept`` the steps. One member of each model may be kept a second time, after its last step
and in half precision: that copy is small enough to stay with accepted results, and the notes say
under ``published`` which member it is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec, from_plain, to_plain
from circuitax.lab.arrays import Damaged, load_tree
from circuitax.lab.lab import Lab
from circuitax.lab.runs import ARRAYS, PUBLISHED, WholeRun
from circuitax.models.transformer import init
from circuitax.names import nearest
from circuitax.records.record import Record

MODELS, STEPS, MEMBERS = "models", "steps_kept", "published"


def weights_name(model: str, step: int) -> str:
    """File name of a model's weights at a step."""
    return f"{model}-step-{step}"


def keep_model(lab: Lab, model: str, step: int, members: Model) -> None:
    """Save the weights of all members of a model."""
    lab.save_arrays(weights_name(model, step), members)


def publish_model(lab: Lab, name: str, model: Model) -> None:
    """Save the weights of one member of a model in half precision, for accepted results."""
    halved = jax.tree.map(lambda leaf: np.asarray(leaf, np.float16), model)
    lab.save_arrays(f"{PUBLISHED}{name}", halved)


def notes_of_kept(
    models: Mapping[str, TransformerSpec],
    steps: Iterable[int],
    published: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Notes of a record from which `KeptModels` finds the models again."""
    notes = {MODELS: {name: to_plain(spec) for name, spec in models.items()}, STEPS: sorted(steps)}
    return notes if published is None else notes | {MEMBERS: dict(published)}


def log_spaced_steps(steps: int, every: int) -> list[int]:
    """Steps at which weights are saved: 0, an interval times powers of 2, and the last."""
    if every < 1 or steps % every:
        raise ValueError(f"every={every} must divide steps={steps}")
    n_chunks = steps // every
    chunks = {0, n_chunks} | {2**i for i in range(n_chunks.bit_length())}
    return sorted(chunk * every for chunk in chunks)


class KeptModels:
    """The saved models of a finished run."""

    def __init__(
        self, notes: Mapping[str, Any], load: Callable[[str, Any, int], Any], source: str = "run"
    ) -> None:
        if not notes.get(MODELS) or not notes.get(STEPS):
            raise ValueError(f"{source} keeps no models: its notes name no {MODELS} and {STEPS}")
        self._specs, self._load, self._source = notes[MODELS], load, source
        self._published: Mapping[str, int] = notes.get(MEMBERS, {})
        self.steps: list[int] = sorted(notes[STEPS])
        self.names: list[str] = list(self._specs)

    @classmethod
    def of_input(cls, lab: Lab, source: str) -> "KeptModels":
        """The saved models of an upstream experiment named in the experiment's ``requires``."""

        def load(name: str, like: Any, leading: int) -> Any:
            return lab.load_arrays(name, source=source, like=like, leading=leading)

        return cls(lab.input(source).notes, load, source)

    @classmethod
    def of_run(cls, run: WholeRun) -> "KeptModels":
        """The saved models of a run folder."""

        def load(name: str, like: Any, leading: int) -> Any:
            return load_tree(run / ARRAYS / f"{name}.safetensors", like, leading=leading)

        return cls(Record.load(run).notes, load, run.name)

    def whole(self, name: str) -> bool:
        """Whether all members of a model are saved; accepted results hold fewer."""
        self.spec(name)
        try:
            self._load(weights_name(name, self.steps[-1]), None, 0)
        except Damaged:
            raise
        except ValueError:  # there is no such file
            return False
        return True

    def published(self, name: str) -> tuple[int, Model]:
        """The published member of a model, saved with accepted results, after its last step."""
        spec = self.spec(name)
        if name not in self._published:
            raise ValueError(f"model={name} of {self._source} was not published: train it again")
        model = self._model(f"{PUBLISHED}{name}", spec, 0)
        return int(self._published[name]), jax.tree.map(lambda a: jnp.asarray(a, float), model)

    def spec(self, name: str) -> TransformerSpec:
        """The spec of a model."""
        if name not in self._specs:
            near = nearest(name, self.names)
            raise ValueError(f"model={name} must be one of {', '.join(self.names)}{near}")
        return from_plain(self._specs[name])

    def members(self, name: str, step: int | None = None) -> Model:
        """All members of a model, on the device, with their axis in front of every array."""
        spec = self.spec(name)
        step = self.steps[-1] if step is None else step
        if step not in self.steps:
            raise ValueError(f"step={step} must be one of {', '.join(map(str, self.steps))}")
        return jax.tree.map(jnp.asarray, self._model(weights_name(name, step), spec, 1))

    def _model(self, file: str, spec: TransformerSpec, leading: int) -> Model:
        like = jax.eval_shape(lambda: init(jax.random.key(0), spec))
        try:
            model: Model = self._load(file, like, leading)
        except Damaged:
            raise
        except ValueError as error:
            raise ValueError(f"{file} of {self._source}: {error}") from None
        return model

    def at_every_step(self, name: str) -> Model:
        """All members at all steps: axes of steps and members in front of every array."""
        return jax.tree.map(
            lambda *leaves: jnp.stack(leaves), *[self.members(name, step) for step in self.steps]
        )

    def member(self, name: str, index: int, step: int | None = None) -> Model:
        """One member of a model."""
        models = self.members(name, step)
        (count,) = models.member_axes
        if not 0 <= index < count:
            raise ValueError(f"member={index} of {name} must be 0 to {count - 1}")
        return models[index]
