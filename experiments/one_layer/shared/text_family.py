"""A family of models of one text: no layers, one and more, and a full transformer beside them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.config.ranges import NotNegative, Positive, PositiveNumber
from circuitax.data.synthetic import RepeatedSource
from circuitax.data.tables import bigram_counts, table_losses, trigram_loss
from circuitax.data.text import Text, TextSpec, open_text
from circuitax.data.tokenizer import token_names
from circuitax.kernel.forward import behind_start
from circuitax.kernel.generate import Sampling
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec, to_plain
from circuitax.kit.kept_models import (
    LanguageModel,
    continuations,
    log_spaced_steps,
    notes_of_kept,
    publish_model,
    read_prompt,
)
from circuitax.kit.measured_training import Trained, chunk_size
from circuitax.kit.members import each_member, stack_named
from circuitax.lab.lab import Lab
from circuitax.lab.runs import TOKENIZER
from circuitax.models.transformer import Transformer
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.one_layer.shared.held_out import held_out_windows
from experiments.one_layer.shared.text_training import text_arm


@dataclass(frozen=True)
class FamilySpec:
    """One recipe for every model, but for the rate, which each depth has at its own best.

    Attributes:
        task: Which text.
        model: The attention-only family; its ``n_layers`` is the deepest, all below are trained.
        full: A pre-LN transformer with MLPs beside them.
        optim: Optimizer; its steps are those of the longest training.
        depth_rates: Peak rate of each depth over that of ``optim``, no layers first. Deeper models
            take the last.
        batch: Windows a step.
        seeds: Members of each model, each with its own initialisation and data.
        halvings: How many shorter trainings of the attention-only models there are, each half as
            long as the one before, with a schedule of its own.
        halving_seeds: Members of a shorter training: the first ones, which begin as in the longest.
        full_learning_rate: Peak rate of the full transformer; all else is as ``optim`` says.
        full_seeds: Members of the full transformer; 0 leaves it out.
        measure_every: Steps between two measurements.
        windows: Windows of held-out text for the curves; four times as many for the last losses.
        sample_tokens: Length of the samples of text.
        prompt: What every sample begins with, after the boundary.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    full: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    depth_rates: Annotated[tuple[float, ...], "(0, inf)"] = (1.0,)
    batch: Positive = 32
    seeds: Positive = 8
    halvings: NotNegative = 0
    halving_seeds: Annotated[int, "[1, seeds]"] = 3
    full_learning_rate: PositiveNumber = 3e-2
    full_seeds: Annotated[int, "[0, seeds]"] = 3
    measure_every: Annotated[int, "divides optim.steps"] = 20
    windows: Positive = 128
    sample_tokens: Positive = 60
    prompt: str = ""

    def __post_init__(self) -> None:
        shortest = self.optim.steps // 2**self.halvings
        if self.optim.steps % 2**self.halvings or shortest < self.optim.warmup_steps:
            raise ValueError(
                f"halvings={self.halvings} must leave whole steps, at least "
                f"optim.warmup_steps={self.optim.warmup_steps}: optim.steps={self.optim.steps}"
            )
        if not self.depth_rates:
            raise ValueError("depth_rates=() must hold at least one rate")
        # A token of the prompt has at least one byte; the last token of a sample is not read.
        start = self.model.start_token
        read = len(self.prompt.encode()) + self.sample_tokens + (start is not None)
        for name, model in (("model", self.model), ("full", self.full)):
            if model.d_vocab != self.task.d_vocab:
                raise ValueError(f"{name}.d_vocab={model.d_vocab} must be that of task")
            if model.n_ctx is None or model.n_ctx < max(8, read):
                raise ValueError(
                    f"{name}.n_ctx={model.n_ctx} must be at least {max(8, read)}: it holds the "
                    f"boundary, the bytes of the prompt and sample_tokens={self.sample_tokens}"
                )
        if self.full.start_token != start or (self.full.n_ctx or 0) < (self.model.n_ctx or 0):
            raise ValueError(
                f"full.n_ctx={self.full.n_ctx} must be at least model.n_ctx={self.model.n_ctx}, "
                f"and full.start_token={self.full.start_token} be {start}: both read the same"
            )

    def models(self) -> Iterator[tuple[str, TransformerSpec]]:
        """Every model by the name its weights are kept under."""
        for n_layers in range(self.model.n_layers + 1):
            yield f"layers-{n_layers}", replace(self.model, n_layers=n_layers)
        if self.full_seeds:
            yield "full", self.full

    def lengths(self) -> list[int]:
        """Steps of the longest training and of the shorter ones, each half of the one before."""
        return [self.optim.steps // 2**k for k in range(self.halvings + 1)]


def train_family(spec: FamilySpec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every model, keep weights on a log-spaced schedule, measure on one held-out text."""
    text = open_text(spec.task)
    length = spec.model.n_ctx or 0
    curve, last = held_out_windows(text, spec.windows, spec.model)
    repeated = RepeatedSource(
        64, length, spec.task.d_vocab, length // 4, length // 2, distinct=True
    )
    exam = behind_start(jax.jit(repeated)(derive(key, "repeats")), spec.model.start_token)
    found, samples, divergences, published = {}, {}, {}, {}
    for name, sizes in spec.models():
        trained = _train(spec, name, sizes, text, curve, derive(key, name), lab)
        found[name] = _measured(trained, last, exam)
        divergences[name] = trained.divergence
        found[name]["length_loss"] = _ends_by_length(
            spec, name, sizes, text, last, found[name], derive(key, name), lab
        )
        # A model without such a member ended the run with an error.
        published[name] = int(np.flatnonzero(trained.alive)[0])
        first = trained.models[published[name]]
        publish_model(lab, name, first)
        samples[name] = _sample(spec, name, first, text, derive(key, "samples"))
    counts = {
        split: bigram_counts(getattr(text.tokens, split), spec.task.d_vocab).astype(np.int32)
        for split in ("train", "validation")
    }
    # What the experiments on these models need of the text.
    lab.save_arrays("bigram-counts", counts)
    lab.save_arrays("held-out", {"windows": last})
    lab.save_text(TOKENIZER, text.tokenizer.to_str())
    kept = log_spaced_steps(spec.optim.steps, spec.measure_every)
    notes = {
        "text": text.about(),
        "samples": samples,
        "divergence": divergences,
        "model": to_plain(spec.model),
        "full": to_plain(spec.full),
        # A deeper family has models that another run of a sweep lacks.
        "ragged": ["model"],
    }
    data = _dataset(spec, text, found, counts["train"], np.asarray(last))
    return data.assign_attrs(notes | notes_of_kept(dict(spec.models()), kept, published))


def _train(
    spec: FamilySpec,
    name: str,
    sizes: TransformerSpec,
    text: Text,
    windows: Array,
    key: jax.Array,
    lab: Lab,
) -> Trained:
    """Train all members of one model, and follow their loss on held-out windows."""

    def measure(members: Model) -> dict[str, Array]:
        return {"loss": _by_position(members, windows).mean(axis=1)}

    return text_arm(
        lab,
        name,
        key,
        Transformer(sizes),
        _recipe(spec, name, sizes),
        text.tokens.train,
        batch=spec.batch,
        length=spec.model.n_ctx or 0,
        seeds=spec.full_seeds if name == "full" else spec.seeds,
        every=spec.measure_every,
        measure=measure,
        keep_at=log_spaced_steps(spec.optim.steps, spec.measure_every),
    )


def _recipe(spec: FamilySpec, name: str, sizes: TransformerSpec) -> OptimSpec:
    """The optimizer of one model, with the rate of its depth."""
    if name == "full":
        return replace(spec.optim, learning_rate=spec.full_learning_rate)
    factor = spec.depth_rates[min(sizes.n_layers, len(spec.depth_rates) - 1)]
    return replace(spec.optim, learning_rate=factor * spec.optim.learning_rate)


def _ends_by_length(
    spec: FamilySpec,
    name: str,
    sizes: TransformerSpec,
    text: Text,
    windows: Array,
    longest: dict[str, np.ndarray],
    key: jax.Array,
    lab: Lab,
) -> np.ndarray:
    """Last held-out losses ``[length, seed]``, the longest training first; NaN where diverged.

    Each training has its whole schedule, so that its end can be compared with the ends of the
    others, which a point inside a training cannot.
    """
    n = spec.halving_seeds
    if name == "full":
        return np.full((spec.halvings + 1, n), np.nan)
    ends = [np.where(longest["alive"], longest["loss_by_position"].mean(axis=1), np.nan)[:n]]
    for steps in spec.lengths()[1:]:
        trained = text_arm(
            lab,
            f"{name}-of-{steps}",
            key,
            Transformer(sizes),
            replace(_recipe(spec, name, sizes), steps=steps),
            text.tokens.train,
            batch=spec.batch,
            length=spec.model.n_ctx or 0,
            seeds=n,
            every=chunk_size(steps, most=spec.measure_every),
        )
        losses = np.asarray(_by_position(trained.models, windows)).mean(axis=1)
        ends.append(np.where(trained.alive, losses, np.nan))
    return np.stack(ends)


@jax.jit
def _by_position(members: Model, windows: Array) -> Array:
    return jax.vmap(lambda model: text_losses(model, windows).mean(axis=0))(members)


def _measured(trained: Trained, windows: Array, exam: Array) -> dict[str, np.ndarray]:
    """Arrays of one model: losses along training and along the text, and on repeats."""
    repeats = each_member(induction_scores, exam)(trained.models)
    return {
        "loss": trained.curves["loss"],
        "loss_by_position": np.asarray(_by_position(trained.models, windows)),
        "repeats_by_position": np.asarray(repeats.loss_by_position),
        "alive": trained.alive,
    }


def _sample(spec: FamilySpec, name: str, model: Model, text: Text, key: jax.Array) -> str:
    """The prompt, and its continuation by the first member of a model."""
    writer = LanguageModel(name, 0, spec.optim.steps, model, text.tokenizer)
    prompt = read_prompt(writer, spec.prompt)
    warm = Sampling(temperature=0.8)
    (continuation,) = continuations(writer, prompt, spec.sample_tokens, key=key, sampling=warm)
    return spec.prompt + continuation


def _dataset(
    spec: FamilySpec,
    text: Text,
    found: dict[str, dict[str, np.ndarray]],
    counts: np.ndarray,
    windows: np.ndarray,
) -> xr.Dataset:
    """Results of each model, and the losses of the unigram, bigram and trigram tables."""

    def stack(name: str) -> np.ndarray:
        # Members that a model does not have are NaN, and count as not alive.
        return stack_named(found.values(), name, 1 if name == "loss" else 0, dtype=float)

    steps = np.arange(0, spec.optim.steps + 1, spec.measure_every)
    tokens, each = spec.batch * (windows.shape[1] - 1), ("model", "member")
    ends = np.stack([arrays["length_loss"] for arrays in found.values()])
    return xr.Dataset(
        {
            "loss": (("model", "step", "member"), stack("loss")),
            "loss_by_position": ((*each, "position"), stack("loss_by_position")),
            "repeats_by_position": ((*each, "position"), stack("repeats_by_position")),
            "alive": (each, stack("alive") == 1),
            "length_loss": (("model", "length", "seed"), ends),
            "trigram_loss": trigram_loss(text.tokens.train, len(counts), windows),
        }
        | table_losses(counts, windows),
        coords={
            "model": list(found),
            "step": steps,
            "tokens": ("step", steps * tokens),
            "length": np.array(spec.lengths()) * tokens,
            "position": np.arange(1, windows.shape[1]),
            "token": list(token_names(text.tokenizer)),
        },
    )
