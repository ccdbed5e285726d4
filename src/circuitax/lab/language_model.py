"""A language model that a run kept: weights, spec and tokenizer, enough to continue a text."""

import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from tokenizers import Tokenizer

from circuitax.config.schema import nearest
from circuitax.data.tokenizer import boundary_id, load_tokenizer
from circuitax.kernel.generate import generate
from circuitax.kernel.keys import member_keys
from circuitax.kernel.sampling import Sampling
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights
from circuitax.lab.arrays import load_tree
from circuitax.lab.lab import ARRAYS
from circuitax.lab.runs import ACCEPTED, shown
from circuitax.models.plain import from_plain
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from circuitax.records.record import Record

# Below the run's arrays; `Lab.save_text` puts it there.
TOKENIZER = "tokenizer.json"
# Plain specs by name, in the notes of a run that keeps language models.
MODELS = "models"


class LanguageModel(NamedTuple):
    """One member of one model of a run, at one step of its training."""

    name: str
    member: int
    step: int
    spec: TransformerSpec
    weights: TransformerWeights
    tokenizer: Tokenizer


def open_language_model(
    run: Path, name: str = "", member: int = 0, step: int | None = None
) -> LanguageModel:
    """Read a model from the folder of a finished run.

    Args:
        run: Folder with ``arrays/tokenizer.json``, ``arrays/<name>-step-<step>.safetensors`` and
            specs by name in the notes of its record, as ``text_models`` leaves them; ``alive`` of
            the record says which members of a model did not diverge.
        name: Which model; empty for the last.
        member: Which seed, from 0.
        step: Which of the steps kept; None for the last.

    Raises:
        ValueError: If the run keeps no language models, or not this one.
    """
    record = Record.load(run)
    specs, arrays = record.notes.get(MODELS, {}), run / ARRAYS
    if run.name == ACCEPTED or (specs and not arrays.is_dir()):
        raise ValueError(
            f"RUN={shown(run)} keeps no weights (accepted results are small enough for git): "
            "compute the experiment again, and name the new run"
        )
    if not specs or not (arrays / TOKENIZER).is_file():
        raise ValueError(
            f"RUN={shown(run)} keeps no language models with their tokenizer: compute a run of "
            "text_models, and name it"
        )
    name = name or list(specs)[-1]
    if name not in specs:
        near = nearest(name, list(specs))
        raise ValueError(f"model={name} must be one of {', '.join(specs)}{near}")
    steps = _steps(arrays, name)
    step = steps[-1] if step is None else step
    if step not in steps:
        raise ValueError(f"step={step} must be one of {', '.join(map(str, steps))}")
    spec = from_plain(specs[name])
    like = jax.eval_shape(lambda: init_weights(jax.random.key(0), spec))
    members = load_tree(arrays / f"{name}-step-{step}.safetensors", like)
    n_members = len(members.W_E)
    if not 0 <= member < n_members:
        raise ValueError(f"member={member} of {name} must be 0 to {n_members - 1}")
    # Its weights would not tell: a member that diverged keeps its last finite ones.
    if not record.data["alive"].sel(model=name).values[member]:
        raise ValueError(f"member={member} of {name} must be another: it diverged in training")
    return LanguageModel(
        name, member, step, spec, jax.tree.map(lambda leaf: jnp.asarray(leaf[member]), members),
        load_tokenizer(arrays / TOKENIZER),
    )  # fmt: skip


def read_prompt(model: LanguageModel, prompt: str) -> list[int]:
    """The tokens of a text that begins a document: the boundary stands in front.

    Before that stands the start token, where the model was trained with one.

    Raises:
        ValueError: If it is no Unicode text, or longer than the model can read.
    """
    try:
        prompt.encode()
    except UnicodeEncodeError:  # bytes of another encoding, as the command line hands them on
        raise ValueError(f"PROMPT={prompt!r} must be UTF-8 text") from None
    # As training reads texts: without what a tokenizer's file puts around them.
    ids = model.tokenizer.encode(prompt, add_special_tokens=False).ids
    n_ctx, start, boundary = model.spec.n_ctx, model.spec.start_token, boundary_id(model.tokenizer)
    front = [boundary] if start in (None, boundary) else [start, boundary]
    if n_ctx is not None and len(front) + len(ids) > n_ctx:
        raise ValueError(
            f"PROMPT has {len(ids)} tokens, it must have at most {n_ctx - len(front)}: "
            f"{model.name} reads n_ctx={n_ctx}, the boundary before the text included"
        )
    return [*front, *ids]


def room(model: LanguageModel, n_read: int) -> int | None:
    """How many tokens can follow ``n_read`` ones; the last is written, never read. None: any."""
    return None if model.spec.n_ctx is None else model.spec.n_ctx - n_read + 1


def continuations(
    model: LanguageModel,
    prompt: list[int],
    n_tokens: int,
    *,
    key: Key[Array, ""],
    sampling: Sampling,
    samples: int = 1,
) -> list[str]:
    """What the model writes after a prompt, all samples in one compiled batch.

    A sample ends before a boundary token: the document ends there. Bytes that are no whole
    character, which an untrained model writes, are decoded as ``\\ufffd``.

    Args:
        model: From `open_language_model`.
        prompt: From `read_prompt`.
        n_tokens: New tokens of each sample, at least 1 and at most `room`.
        key: Sample i is drawn by member key i, whatever their number.
        sampling: Temperature and filters.
        samples: How many, at least 1.

    Raises:
        ValueError: If a number is out of its range.
    """
    space = room(model, len(prompt))
    if n_tokens < 1 or (space is not None and n_tokens > space):
        most = "" if space is None else f" and at most {space}"
        raise ValueError(
            f"tokens={n_tokens} must be at least 1{most}: {model.name} reads "
            f"n_ctx={model.spec.n_ctx}, and the prompt has {len(prompt)} with the boundary"
        )
    if samples < 1:
        raise ValueError(f"samples={samples} must be at least 1")
    ids = _texts(
        model.weights, jnp.asarray(prompt), member_keys(key, samples), model.spec.forward_spec(),
        n_tokens, sampling,
    )  # fmt: skip
    return [_decoded(model.tokenizer, row[len(prompt) :].tolist()) for row in np.asarray(ids)]


@partial(jax.jit, static_argnames=("spec", "n_new", "sampling"))
def _texts(
    weights: TransformerWeights,
    prompt: Int[Array, " n_prompt"],
    keys: Key[Array, " sample"],
    spec: ForwardSpec,
    n_new: int,
    sampling: Sampling,
) -> Int[Array, "sample n_text"]:
    def one(key: Key[Array, ""]) -> Int[Array, " n_text"]:
        return generate(weights, prompt, spec, n_new, key=key, sampling=sampling)

    return jax.vmap(one)(keys)


def _decoded(tokenizer: Tokenizer, ids: list[int]) -> str:
    boundary = boundary_id(tokenizer)
    if boundary in ids:
        ids = ids[: ids.index(boundary)]
    return str(tokenizer.decode(ids))


def _steps(arrays: Path, name: str) -> list[int]:
    files = arrays.glob(f"{name}-step-*.safetensors")
    return sorted(int(re.findall(r"\d+", path.stem)[-1]) for path in files)
