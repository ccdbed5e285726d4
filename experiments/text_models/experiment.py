"""Transformers of zero, one and two layers on real text: what each layer is worth, in nats."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.induction_scores import induction_scores
from circuitax.data.bigrams import bigram_counts, cross_entropy, smoothed_bigrams
from circuitax.data.corpus import TextError
from circuitax.data.repeated import RepeatedSource
from circuitax.data.text import Text, TextSpec, open_text
from circuitax.data.tokenizer import token_names
from circuitax.data.windows import spaced_windows
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.sampling import Sampling
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.tokens import behind_start
from circuitax.kit.kept_models import MODELS
from circuitax.lab.lab import Lab
from circuitax.lab.language_model import (
    TOKENIZER,
    LanguageModel,
    continuations,
    read_prompt,
)
from circuitax.lab.language_sizes import require_readable
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.plain import to_plain
from circuitax.models.transformer import Transformer
from circuitax.records.claims import Claim, at_least
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.record import Record
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState
from circuitax.training.selection import divergence
from circuitax.training.text import train_on_text

BUDGET_SECONDS = 210
PAPER_SECONDS = 3_300_000  # by its work against quick scale; not run


@dataclass(frozen=True)
class Spec:
    """One recipe for every model.

    Attributes:
        task: Which text.
        model: The attention-only family; its ``n_layers`` is the deepest, all below are trained.
        full: A pre-LN transformer with MLPs beside them.
        optim: Optimizer.
        batch: Windows a step.
        seeds: Members of each model, each with its own initialisation and data.
        full_learning_rate: Peak rate of the full transformer; all else is as ``optim`` says.
        full_seeds: Members of the full transformer, at most ``seeds``; 0 leaves it out.
        measure_every: Steps between two measurements; must divide ``optim.steps``.
        windows: Windows of held-out text for the curves; four times as many for the last losses.
        sample_tokens: Length of the samples of text.
        prompt: What every sample begins with, after the boundary.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    full: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    batch: int = 32
    seeds: int = 8
    full_learning_rate: float = 3e-2
    full_seeds: int = 3
    measure_every: int = 20
    windows: int = 128
    sample_tokens: int = 60
    prompt: str = ""

    def __post_init__(self) -> None:
        for name in ("batch", "seeds", "windows", "sample_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.full_seeds <= self.seeds:
            raise ValueError(f"full_seeds={self.full_seeds} must be 0 to seeds={self.seeds}")
        if not self.full_learning_rate > 0:
            raise ValueError(f"full_learning_rate={self.full_learning_rate} must be positive")
        if self.measure_every < 1 or self.optim.steps % self.measure_every:
            raise ValueError(
                f"measure_every={self.measure_every} must divide optim.steps={self.optim.steps}"
            )
        for name in ("model", "full"):
            model: TransformerSpec = getattr(self, name)
            require_readable(model, d_vocab=self.task.d_vocab, name=name)
            # A token of the prompt has at least one byte; the last token of a sample is not read.
            read = len(self.prompt.encode()) + self.sample_tokens + (model.start_token is not None)
            if model.n_ctx is None or model.n_ctx < max(8, read):
                raise ValueError(
                    f"{name}.n_ctx={model.n_ctx} must be at least 8 and hold the boundary, the "
                    f"{len(self.prompt.encode())} bytes of the prompt and "
                    f"sample_tokens={self.sample_tokens} but the last"
                )
        if self.full.start_token != self.model.start_token:
            raise ValueError(
                f"full.start_token={self.full.start_token} must equal model.start_token="
                f"{self.model.start_token}: both read the same windows"
            )
        if (self.full.n_ctx or 0) < (self.model.n_ctx or 0):
            raise ValueError(
                f"full.n_ctx={self.full.n_ctx} must be at least model.n_ctx={self.model.n_ctx}: "
                "both read the same windows"
            )
        if (self.model.n_ctx or 0) // 2 > self.model.d_vocab:
            raise ValueError(
                f"model.n_ctx={self.model.n_ctx} must be at most 2 d_vocab + 1 = "
                f"{2 * self.model.d_vocab + 1}, since half of it is tokens that all differ"
            )
        if self.model.n_layers < 1:
            raise ValueError(f"model.n_layers={self.model.n_layers} must be at least 1")


def _claim(id: str, statement: str) -> Claim:
    return Claim(id=id, source="induction-heads paper, loss curves (O4); framework paper",
                 statement=statement, quantity=id, expected=at_least(0), n=5, kind="shape",
                 why="a relation: the corpus changes with the Python version",
                 selection="all seeds that stayed finite; each its own data")  # fmt: skip


CLAIMS = (
    _claim("text-one-layer", "On real text one layer beats zero: gap between the 95 % intervals of "
           "held-out loss over seeds, nats"),
    _claim("text-two-layers", "On real text two layers beat one: gap between the 95 % intervals of "
           "held-out loss over seeds, nats"),
)  # fmt: skip


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every model, keep weights on a log-spaced schedule, measure on one held-out text."""
    text = open_text(spec.task)
    length = spec.model.n_ctx or 0
    most = len(text.tokens.validation) // (4 * length)
    if spec.windows > most:
        raise TextError(
            f"windows={spec.windows} must be at most {most}: four times as many of {length} tokens "
            f"must fit into the {len(text.tokens.validation)} held out; give more text or "
            f"windows={max(most, 1)}"
        )
    held_out = [
        behind_start(
            jnp.asarray(spaced_windows(text.tokens.validation, n, length)), spec.model.start_token
        )
        for n in (spec.windows, 4 * spec.windows)
    ]
    repeated = RepeatedSource(64, length, spec.task.d_vocab, min_period=length // 4,
                              max_period=length // 2, distinct=True)  # fmt: skip
    exam = behind_start(repeated(derive(key, "repeats")), spec.model.start_token)
    found, samples, divergences = {}, {}, {}
    for name, sizes in models(spec):
        members, found[name], divergences[name] = _train(
            spec, name, sizes, text, held_out, exam, derive(key, name), lab
        )
        writer = LanguageModel(name, 0, spec.optim.steps, members.member(0), text.tokenizer)
        (continuation,) = continuations(
            writer, read_prompt(writer, spec.prompt), spec.sample_tokens,
            key=derive(key, "samples"), sampling=Sampling(temperature=0.8),
        )  # fmt: skip
        samples[name] = spec.prompt + continuation
    counts = {
        split: bigram_counts(getattr(text.tokens, split), spec.task.d_vocab).astype(np.int32)
        for split in ("train", "validation")
    }
    # What the experiments on these models need of the text.
    lab.save_arrays("bigram-counts", counts)
    lab.save_arrays("held-out", {"windows": held_out[1]})
    lab.save_text(TOKENIZER, text.tokenizer.to_str())
    data = _dataset(spec, text, found, counts["train"], np.asarray(held_out[1]))
    notes = {"text": text.about(), "samples": samples, "divergence": divergences,
             "model": to_plain(spec.model), "full": to_plain(spec.full),
             MODELS: {name: to_plain(model) for name, model in models(spec)},
             "steps_kept": _steps_kept(spec),
             # A deeper family has models that another run of a sweep lacks.
             "ragged": ["model"]}  # fmt: skip
    unmet = {} if spec.model.n_layers > 1 else {"text-two-layers": "model.n_layers=1 is one layer"}
    return Record(data=data, measured=_estimates(data), unmet=unmet, notes=notes)


def _train(
    spec: Spec, name: str, sizes: TransformerSpec, text: Text, held_out: list[Array], exam: Array,
    key: jax.Array, lab: Lab,
) -> tuple[Model, dict[str, np.ndarray], dict[str, Any]]:  # fmt: skip
    length, kept = spec.model.n_ctx or 0, _steps_kept(spec)
    seeds, optim = spec.seeds, spec.optim
    if name == "full":
        seeds, optim = spec.full_seeds, replace(optim, learning_rate=spec.full_learning_rate)
    state, train = train_on_text(
        key, Transformer(sizes), optim, text.tokens.train, batch=spec.batch,
        length=length, seeds=seeds, chunk=spec.measure_every,
    )  # fmt: skip

    @jax.jit
    def by_position(members: Model, windows: Array) -> Array:
        return jax.vmap(lambda model: text_losses(model, windows).mean(axis=0))(members)

    def advance(state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        state, metrics = train(state)
        step = int(np.max(state.step))
        members = model_from_params(state.params, sizes)
        if step in kept:
            lab.save_arrays(f"{name}-step-{step}", members)
        loss = by_position(members, held_out[0]).mean(axis=1)
        return state, {"loss": loss, "training_loss": metrics["loss"]}

    members = model_from_params(state.params, sizes)
    lab.save_arrays(f"{name}-step-0", members)
    first = np.asarray(by_position(members, held_out[0]).mean(axis=1))
    state, curves = lab.loop(name, state, advance, spec.optim.steps // spec.measure_every,
                             show="loss")  # fmt: skip
    members = model_from_params(state.params, sizes)
    repeats = jax.jit(jax.vmap(lambda model: induction_scores(model, exam)))(members)
    arrays = {
        "loss": np.concatenate([first[None], curves["loss"]]),
        "loss_by_position": np.asarray(by_position(members, held_out[1])),
        "repeats_by_position": np.asarray(repeats.loss_by_position),
        "best_prefix": np.asarray(repeats.prefix.reshape(seeds, -1).max(1, initial=0)),
        "alive": np.asarray(state.alive),
    }
    return members, arrays, divergence(state.alive, state.step)


def models(spec: Spec) -> Iterator[tuple[str, TransformerSpec]]:
    """Every model by the name its weights are kept under."""
    for n_layers in range(spec.model.n_layers + 1):
        yield f"layers-{n_layers}", replace(spec.model, n_layers=n_layers)
    if spec.full_seeds:
        yield "full", spec.full


def _steps_kept(spec: Spec) -> list[int]:
    """Powers of two of the measuring interval, and both ends."""
    n_chunks = spec.optim.steps // spec.measure_every
    chunks = {0, n_chunks} | {2**i for i in range(n_chunks.bit_length())}
    return sorted(chunk * spec.measure_every for chunk in chunks)


def _dataset(
    spec: Spec, text: Text, found: dict[str, dict[str, np.ndarray]], counts: np.ndarray,
    windows: np.ndarray,
) -> xr.Dataset:  # fmt: skip
    def stack(name: str) -> np.ndarray:
        # Members that a model does not have count as not alive.
        axis = 1 if name == "loss" else 0
        arrays = [np.moveaxis(a[name], axis, 0) for a in found.values()]
        whole = np.full((len(arrays), spec.seeds, *arrays[0].shape[1:]), np.nan)
        for row, array in zip(whole, arrays, strict=True):
            row[: len(array)] = array
        return np.moveaxis(whole, 1, 1 + axis)

    table = smoothed_bigrams(counts.astype(np.int64))
    unigram = counts.sum(axis=0) + 1.0
    unigrams = np.broadcast_to(unigram / unigram.sum(), table.shape)
    pairs = np.zeros(table.shape, np.int64)
    np.add.at(pairs, (windows[:, :-1], windows[:, 1:]), 1)
    steps = np.arange(0, spec.optim.steps + 1, spec.measure_every)
    each = ("model", "member")
    return xr.Dataset(
        {
            "loss": (("model", "step", "member"), stack("loss")),
            "loss_by_position": ((*each, "position"), stack("loss_by_position")),
            "repeats_by_position": ((*each, "position"), stack("repeats_by_position")),
            "best_prefix": (each, stack("best_prefix")),
            "alive": (each, stack("alive") == 1),
            "bigram_loss": cross_entropy(pairs, np.log(table)),
            "unigram_loss": cross_entropy(pairs, np.log(unigrams)),
        },
        coords={
            "model": list(found),
            "step": steps,
            "tokens": ("step", steps * spec.batch * (windows.shape[1] - 1)),
            "position": np.arange(1, windows.shape[1]),
            "token": list(token_names(text.tokenizer)),
        },
    )


def _estimates(data: xr.Dataset) -> dict[str, Estimate]:
    last: dict[str, Estimate] = {}
    for name in data.model.values:
        members = data.sel(model=name)
        losses = members.loss_by_position.mean("position").values[members.alive.values]
        last[str(name)] = mean_estimate(losses)
    gaps = {
        claim: exact(last[f"layers-{n - 1}"].low - last[f"layers-{n}"].high, last[f"layers-{n}"].n)
        for n, claim in ((1, "text-one-layer"), (2, "text-two-layers"))
        if f"layers-{n}" in last
    }
    return {f"loss-{name}": estimate for name, estimate in last.items()} | gaps
