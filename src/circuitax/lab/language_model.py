"""A saved language model of a run: weights, spec and tokenizer, enough to continue a text."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from tokenizers import Tokenizer

from circuitax.data.tokenizer import boundary_id, encode_prompt, tokenizer_from_file
from circuitax.kernel.checks import check_range
from circuitax.kernel.generate import Sampling
from circuitax.kernel.keys import member_keys
from circuitax.kernel.model import Model
from circuitax.kit.kept_models import MODELS, KeptModels
from circuitax.lab.runs import ARRAYS, TOKENIZER, WholeRun, shown
from circuitax.models.parameters import params_from_model
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record


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
    try:
        prompt.encode()
    except UnicodeEncodeError:  # bytes of another encoding, as the command line hands them on
        raise ValueError(f"PROMPT={prompt!r} must be UTF-8 text") from None
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
    module, variables = (
        Transformer(language.model.spec),
        {"params": params_from_model(language.model)},
    )
    keys = member_keys(key, samples)
    ids = _texts(module, variables, jnp.asarray(prompt), keys, n_tokens, sampling)
    return [_decoded(language.tokenizer, row[len(prompt) :].tolist()) for row in np.asarray(ids)]


@partial(jax.jit, static_argnames=("module", "n_new", "sampling"))
def _texts(
    module: Transformer,
    variables: dict[str, dict[str, Array]],
    prompt: Int[Array, " n_prompt"],
    keys: Key[Array, " sample"],
    n_new: int,
    sampling: Sampling,
) -> Int[Array, "sample n_text"]:
    def one(key: Key[Array, ""]) -> Array:
        text = module.apply(variables, prompt, n_new, key=key, sampling=sampling, method="generate")
        return jnp.asarray(text)

    return jax.vmap(one)(keys)


def _decoded(tokenizer: Tokenizer, ids: list[int]) -> str:
    boundary = boundary_id(tokenizer)
    if boundary in ids:
        ids = ids[: ids.index(boundary)]
    return str(tokenizer.decode(ids))
