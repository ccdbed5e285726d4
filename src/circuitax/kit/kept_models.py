"""Saved models of a run, beside its record: one naming, one writer, one reader.

The weights of all members of one model at one step are one file, ``<model>-step-<step>``. The notes
of the record say which models and steps there are: ``models`` holds the spec of each by name,
``steps_kept`` the steps. One member of each model may be kept a second time, after its last step
and in half precision: that copy is small enough to stay with accepted results, and the notes say
under ``published`` which member it is.

A saved language model has weights, spec and tokenizer, enough to continue a text.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from tokenizers import Tokenizer

from circuitax.data.corpus import TextError
from circuitax.data.tokenizer import boundary_id, encode_prompt, tokenizer_from_file
from circuitax.kernel.checks import check_range
from circuitax.kernel.generate import Sampling, generate
from circuitax.kernel.keys import member_keys
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec, from_plain, to_plain
from circuitax.lab.arrays import Damaged, load_tree
from circuitax.lab.lab import Lab
from circuitax.lab.runs import ARRAYS, PUBLISHED, TOKENIZER, WholeRun, shown
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


HELD_OUT, WINDOWS = "held-out", "windows"


def kept_windows(lab: Lab, source: str, n_windows: int) -> Int[Array, "window n_ctx"]:
    """The first held-out windows saved by an upstream experiment."""
    windows = lab.load_arrays(HELD_OUT, source=source)[WINDOWS]
    if n_windows > len(windows):
        raise TextError(
            f"windows={n_windows} must be at most {len(windows)}: {source} kept no more held-out "
            "windows"
        )
    return jnp.asarray(windows[:n_windows])


class LanguageModel(NamedTuple):
    """One member of one model of a run, at one step of its training."""

    name: str
    member: int
    step: int
    model: Model
    tokenizer: Tokenizer


def open_language_model(
    run: WholeRun, name: str = "", member: int = 0, step: int | None = None
) -> LanguageModel:
    """Read a model from the folder of a finished run, or of an accepted one.

    An accepted run has one member of each model, after its last step, in half precision.
    """
    record = Record.load(run)
    kept_any, arrays = bool(record.notes.get(MODELS)), run / ARRAYS
    if kept_any and not arrays.is_dir():
        raise ValueError(
            f"RUN={shown(run)} keeps no weights (accepted results are small enough for git): "
            "compute the experiment again, and name the new run"
        )
    if not kept_any or not (arrays / TOKENIZER).is_file():
        raise ValueError(
            f"RUN={shown(run)} keeps no language models with their tokenizer: compute a run of "
            "text_models or english_models, and name it"
        )
    kept = KeptModels.of_run(run)
    name, step = name or kept.names[-1], kept.steps[-1] if step is None else step
    if kept.whole(name):
        model = kept.member(name, member, step)
    else:
        known, model = kept.published(name)
        if (member, step) != (known, kept.steps[-1]):
            raise ValueError(
                f"member={member}, step={step} must be member {known} of {name} after step "
                f"{kept.steps[-1]}: RUN={shown(run)} was accepted with these weights alone"
            )
    # Its weights would not tell: a member that diverged keeps its last finite ones.
    if not record.data["alive"].sel(model=name).values[member]:
        raise ValueError(f"member={member} of {name} must be another: it diverged in training")
    _check_weights(model, f"{name} of {shown(run)}, member {member}, step {step}")
    return LanguageModel(name, member, step, model, tokenizer_from_file(arrays / TOKENIZER))


def _check_weights(model: Model, which: str) -> None:
    """Refuse weights that are not finite."""
    for weight, array in model.named().items():
        if not bool(jnp.isfinite(array).all()):
            raise ValueError(f"{which}: {weight} must be finite")


def read_prompt(language: LanguageModel, prompt: str) -> list[int]:
    """Prompt tokens of a text at the beginning of a document: the boundary token first.

    Before that stands the start token, where the model was trained with one.
    """
    # As training reads texts: without what a tokenizer's file puts around them.
    ids = encode_prompt(language.tokenizer, prompt, special=False).ids
    spec, boundary = language.model.spec, boundary_id(language.tokenizer)
    n_ctx, start = spec.n_ctx, spec.start_token
    front = [boundary] if start in (None, boundary) else [start, boundary]
    if n_ctx is not None and len(front) + len(ids) > n_ctx:
        raise ValueError(
            f"PROMPT has {len(ids)} tokens, it must have at most {n_ctx - len(front)}: "
            f"{language.name} reads n_ctx={n_ctx}, the boundary before the text included"
        )
    return [*front, *ids]


def tokens_left(language: LanguageModel, n_read: int) -> int | None:
    """Number of tokens that fit after ``n_read``; the last is written, never read. None: any."""
    n_ctx = language.model.n_ctx
    return None if n_ctx is None else n_ctx - n_read + 1


def continuations(
    language: LanguageModel,
    prompt: list[int],
    n_tokens: int,
    *,
    key: Key[Array, ""],
    sampling: Sampling,
    samples: int = 1,
) -> list[str]:
    """Sampled continuations of a prompt, all in one compiled batch.

    A sample ends before a boundary token: the document ends there. Bytes that are no whole
    character, which an untrained model writes, are decoded as ``\\ufffd``.
    """
    space = tokens_left(language, len(prompt))
    if n_tokens < 1 or (space is not None and n_tokens > space):
        most = "" if space is None else f" and at most {space}"
        raise ValueError(
            f"tokens={n_tokens} must be at least 1{most}: {language.name} reads "
            f"n_ctx={language.model.n_ctx}, and the prompt has {len(prompt)} with the boundary"
        )
    check_range("samples", samples, "[1, inf)")

    def text(key: Key[Array, ""]) -> Int[Array, " n_text"]:
        return generate(language.model, prompt, n_tokens, key=key, sampling=sampling)

    ids = jax.jit(jax.vmap(text))(member_keys(key, samples))
    return [_decoded(language.tokenizer, row[len(prompt) :].tolist()) for row in np.asarray(ids)]


def _decoded(tokenizer: Tokenizer, ids: list[int]) -> str:
    boundary = boundary_id(tokenizer)
    if boundary in ids:
        ids = ids[: ids.index(boundary)]
    return str(tokenizer.decode(ids))
