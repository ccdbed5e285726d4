"""A model without layers learns the bigram table; the direct path of a one-layer model does not.

This is Remark 21 of S0, "Some Structures in Transformer Architectures", the project's source note.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.circuits.losses import bigram_log_probs, direct_path_log_probs
from circuitax.config.ranges import Positive
from circuitax.data.tables import cross_entropy, mean_divergence, smoothed_bigrams
from circuitax.data.text import TextSpec
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.kit.members import split_members, stack_named
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.optim import OptimSpec

# Tokens met less often in the held-out windows have no mean prediction worth comparing.
FEWEST = 20
STRENGTH = 1.0  # pseudo-counts in each row of the smoothed table


@dataclass(frozen=True)
class Spec:
    """Fit of the zero-layer models; the text is that of `text_models`.

    Attributes:
        task: The text that those models were trained on.
        widths: d_model as shares of the vocabulary, the last one 1.
        optim: Optimizer, on the whole count matrix.
        seeds: Members at each width.
    """

    task: TextSpec = field(default_factory=TextSpec)
    widths: Annotated[tuple[float, ...], "(0, 1]", "increasing"] = (1 / 64, 1 / 16, 1 / 4, 1.0)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 5

    def __post_init__(self) -> None:
        if self.widths[-1:] != (1,):
            raise ValueError(f"widths={self.widths} must end with 1, the whole vocabulary")

    def upstream(self, name: str) -> dict[str, str | int]:
        """``text_models`` of the same text; see `circuitax.config.plan`."""
        return self.task.upstream()


@dataclass(frozen=True)
class FullBatchBigrams:
    """A `Problem`: cross-entropy of every adjacent pair of a text, exactly, nats a pair.

    The loss of a zero-layer model on a text depends on the counts of pairs alone, so a step on the
    count matrix is a step on the whole text: no sampling noise, whatever its length.

    Attributes:
        module: Of a spec with ``n_layers=0``.

    Source: S0 (circuits notes) Remark 21.
    """

    module: Transformer

    def init(self, key: Key[Array, ""], hyper: Array) -> PyTree:
        """Fresh parameters."""
        return self.module.init(key, self._every_token())["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> tuple[()]:
        """Nothing: the text is in ``hyper``."""
        return ()

    def loss(self, params: PyTree, batch: PyTree, hyper: Float[Array, "v v"]) -> Float[Array, ""]:
        """The scalar that is minimised; ``hyper`` holds the share of every pair among all pairs."""
        logits = jnp.asarray(self.module.apply({"params": params}, self._every_token()))
        return -jnp.sum(hyper * jax.nn.log_softmax(logits, axis=-1))

    def _every_token(self) -> Int[Array, " d_vocab"]:
        # As one text: a model without layers predicts from each token alone.
        return jnp.arange(self.module.spec.d_vocab)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Fit the table at every width; then read the direct paths of the trained text models."""
    upstream = lab.input("text_models")
    counts = lab.load_arrays("bigram-counts", source="text_models")
    train, held_out = (counts[split].astype(np.int64) for split in ("train", "validation"))
    table = smoothed_bigrams(train, STRENGTH)
    fitted, divergences = _fit(spec, train, held_out, table, derive(key, "widths"), lab)
    paths = _paths(upstream, table, lab)
    data = xr.merge([fitted, paths])
    data["table_train_loss"] = cross_entropy(train, np.log(table))
    data["table_held_out_loss"] = cross_entropy(held_out, np.log(table))
    notes = {
        "text": upstream.notes["text"],
        "divergence": divergences,
        "smoothing": f"Dirichlet around the unigram, strength {STRENGTH}",
    }
    return data.assign_attrs(notes)


def _fit(
    spec: Spec, train: np.ndarray, held_out: np.ndarray, table: np.ndarray, key: jax.Array, lab: Lab
) -> tuple[xr.Dataset, dict[str, Any]]:
    """Fit zero-layer models of every width, and compare their predictions with the table."""
    d_vocab = len(train)
    weight = train.sum(axis=1).astype(float)
    joint = jnp.broadcast_to(jnp.asarray(train / train.sum(), float), (spec.seeds, *train.shape))
    widths = sorted({max(1, round(share * d_vocab)) for share in spec.widths})
    chunk = chunk_size(spec.optim.steps, most=20)
    found: list[dict[str, Any]] = []
    divergences = {}
    for d_model in widths:
        sizes = TransformerSpec.simplified(d_vocab=d_vocab, n_layers=0, n_heads=1, d_model=d_model)
        plan = Plan(FullBatchBigrams(Transformer(sizes)), spec.optim, chunk, mesh=None)
        members = new_members(derive(key, str(d_model)), spec.optim.learning_rate, joint)
        trained = measured_training(
            lab,
            f"width-{d_model}",
            init(plan, members),
            advance(plan, members),
            steps=spec.optim.steps,
            every=chunk,
            as_models=partial(model_from_params, spec=sizes),
        )
        log_p = np.asarray(jax.vmap(bigram_log_probs)(trained.models), float)
        found.append(
            {
                "kl": [mean_divergence(table, p, weight) for p in log_p],
                "train": [cross_entropy(train, p) for p in log_p],
                "held_out": [cross_entropy(held_out, p) for p in log_p],
                "alive": trained.alive,
            }
        )
        divergences[str(d_model)] = trained.divergence
    data: dict[str, Any] = {
        name: (("width", "member"), stack_named(found, name))
        for name in ("kl", "train", "held_out", "alive")
    }
    of_rank = [mean_divergence(table, _low_rank(table, width), weight) for width in widths]
    data["rank_kl"] = ("width", of_rank)
    return xr.Dataset(data, coords={"width": widths}), divergences


def _low_rank(table: np.ndarray, rank: int) -> np.ndarray:
    """Log-probabilities of a table whose centred logits have a given rank.

    Of all logits of that rank they are the closest to the table's own in squared error.
    """
    logits = np.log(table)
    u, s, v = np.linalg.svd(logits - logits.mean(axis=1, keepdims=True))
    cut = (u[:, :rank] * s[:rank]) @ v[:rank]
    top = cut.max(axis=1, keepdims=True)
    return cut - top - np.log(np.exp(cut - top).sum(axis=1, keepdims=True))


def _paths(upstream: Record, table: np.ndarray, lab: Lab) -> xr.Dataset:
    """KL divergence of three predictions of the trained text models from the table.

    They are that of the model without layers, the direct path of the one-layer model, and the mean
    prediction of the whole one-layer model.
    """
    windows = lab.load_arrays("held-out", source="text_models")["windows"]
    kept = KeptModels.of_input(lab, "text_models")
    weight = np.bincount(windows[:, :-1].ravel(), minlength=len(table)).astype(float)
    weight[weight < FEWEST] = 0
    if not weight.any():
        weight[:] = 1
    none, one = kept.members("layers-0"), kept.members("layers-1")
    mean, texts = jax.jit(_mean_prediction), jnp.asarray(windows)
    log_probs = {
        "zero layers": jax.vmap(direct_path_log_probs)(none),
        "direct path": jax.vmap(direct_path_log_probs)(one),
        "whole, mean": [np.log(np.asarray(mean(m, texts), float)) for m in split_members(one)],
    }
    numbers = [
        [mean_divergence(table, p, weight) for p in np.asarray(members, float)]
        for members in log_probs.values()
    ]
    alive = upstream.data.alive.sel(model=["layers-0", "layers-1"]).all("model").values
    return xr.Dataset(
        {"path_kl": (("kind", "seed"), numbers), "path_alive": ("seed", alive)},
        coords={"kind": list(log_probs)},
    )


def _mean_prediction(model: Model, texts: Array) -> Array:
    """P(next | current token) of the model, averaged over the contexts of held-out text."""

    def add(total: Array, text: Array) -> tuple[Array, None]:
        probs = jax.nn.softmax(forward(model, text)[0][:-1], axis=-1)
        return total.at[text[:-1]].add(probs), None

    start = jnp.full((model.d_vocab, model.d_vocab), 1e-9)
    total, _ = jax.lax.scan(add, start, texts)
    return total / total.sum(axis=1, keepdims=True)
