"""A family of models of one text: no layers, one and more, and a full transformer beside them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.data.synthetic import RepeatedSource
from circuitax.data.tables import bigram_counts
from circuitax.data.text import Text, open_text
from circuitax.kernel.forward import behind_start
from circuitax.kernel.generate import Sampling
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec, to_plain
from circuitax.kit.kept_models import log_spaced_steps, notes_of_kept, publish_model
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from circuitax.lab.language_model import (
    LanguageModel,
    continuations,
    read_prompt,
)
from circuitax.lab.runs import TOKENIZER
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.language import text_losses, train_on_text
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Metrics, TrainState
from experiments.one_layer.shared.family_spec import FamilySpec
from experiments.one_layer.shared.held_out import held_out_windows
from experiments.one_layer.shared.lengths import lengths, shorter_losses
from experiments.one_layer.shared.text_dataset import dataset


def train_family(spec: FamilySpec, key: jax.Array, lab: Lab) -> Record:
    """Train every model, keep weights on a log-spaced schedule, measure on one held-out text."""
    text = open_text(spec.task)
    length = spec.model.n_ctx or 0
    curve, last = held_out_windows(text, spec.windows, spec.model)
    repeated = RepeatedSource(
        64, length, spec.task.d_vocab, length // 4, length // 2, distinct=True
    )
    exam = behind_start(jax.jit(repeated)(derive(key, "repeats")), spec.model.start_token)
    found, samples, divergences, published = {}, {}, {}, {}
    for name, sizes in models(spec):
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
    data = dataset(
        text,
        found,
        counts["train"],
        np.asarray(last),
        batch=spec.batch,
        steps=np.arange(0, spec.optim.steps + 1, spec.measure_every),
        lengths=lengths(spec.optim.steps, spec.halvings),
    )
    return Record(data=data, notes=notes | notes_of_kept(dict(models(spec)), kept, published))


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
    seeds = spec.full_seeds if name == "full" else spec.seeds
    optim = _recipe(spec, name, sizes)
    state, train = _ensemble(spec, sizes, optim, text, seeds, spec.measure_every, key, lab)

    def measure(members: Model) -> dict[str, Array]:
        return {"loss": _by_position(members, windows).mean(axis=1)}

    return measured_training(
        lab,
        name,
        state,
        train,
        steps=spec.optim.steps,
        every=spec.measure_every,
        measure=measure,
        as_models=partial(model_from_params, spec=sizes),
        keep_at=log_spaced_steps(spec.optim.steps, spec.measure_every),
    )


def _recipe(spec: FamilySpec, name: str, sizes: TransformerSpec) -> OptimSpec:
    """The optimizer of one model, with the rate of its depth."""
    if name == "full":
        return replace(spec.optim, learning_rate=spec.full_learning_rate)
    factor = spec.depth_rates[min(sizes.n_layers, len(spec.depth_rates) - 1)]
    return replace(spec.optim, learning_rate=factor * spec.optim.learning_rate)


def _ensemble(
    spec: FamilySpec,
    sizes: TransformerSpec,
    optim: OptimSpec,
    text: Text,
    seeds: int,
    chunk: int,
    key: jax.Array,
    lab: Lab,
) -> tuple[TrainState, Callable[[TrainState], tuple[TrainState, Metrics]]]:
    return train_on_text(
        key,
        Transformer(sizes),
        optim,
        text.tokens.train,
        batch=spec.batch,
        length=spec.model.n_ctx or 0,
        seeds=seeds,
        chunk=chunk,
        mesh=lab.mesh,
    )


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
    """Last held-out losses ``[length, seed]``, the longest training first; NaN where diverged."""
    n = spec.halving_seeds
    if name == "full":
        return np.full((spec.halvings + 1, n), np.nan)

    def begin(steps: int, chunk: int) -> Any:
        optim = replace(_recipe(spec, name, sizes), steps=steps)
        return _ensemble(spec, sizes, optim, text, n, chunk, key, lab)

    def losses(members: Model) -> np.ndarray:
        return np.asarray(_by_position(members, windows)).mean(axis=1)

    shorter = shorter_losses(
        lab,
        name,
        lengths(spec.optim.steps, spec.halvings)[1:],
        begin,
        partial(model_from_params, spec=sizes),
        losses,
        most=spec.measure_every,
    )
    last = np.where(longest["alive"], longest["loss_by_position"].mean(axis=1), np.nan)
    return np.stack([last[:n], *shorter])


@jax.jit
def _by_position(members: Model, windows: Array) -> Array:
    return jax.vmap(lambda model: text_losses(model, windows).mean(axis=0))(members)


def _measured(trained: Trained, windows: Array, exam: Array) -> dict[str, np.ndarray]:
    """Arrays of one model: losses along training and along the text, and scores on repeats."""
    repeats = each_member(induction_scores, exam)(trained.models)
    return {
        "loss": trained.curves["loss"],
        "loss_by_position": np.asarray(_by_position(trained.models, windows)),
        "repeats_by_position": np.asarray(repeats.loss_by_position),
        "best_prefix": np.asarray(repeats.prefix.reshape(len(trained.alive), -1).max(1, initial=0)),
        "alive": trained.alive,
    }


def _sample(spec: FamilySpec, name: str, model: Model, text: Text, key: jax.Array) -> str:
    """The prompt, and its continuation by the first member of a model."""
    writer = LanguageModel(name, 0, spec.optim.steps, model, text.tokenizer)
    (continuation,) = continuations(
        writer,
        read_prompt(writer, spec.prompt),
        spec.sample_tokens,
        key=key,
        sampling=Sampling(temperature=0.8),
    )
    return spec.prompt + continuation


def models(spec: FamilySpec) -> Iterator[tuple[str, TransformerSpec]]:
    """Every model by the name its weights are kept under."""
    for n_layers in range(spec.model.n_layers + 1):
        yield f"layers-{n_layers}", replace(spec.model, n_layers=n_layers)
    if spec.full_seeds:
        yield "full", spec.full
