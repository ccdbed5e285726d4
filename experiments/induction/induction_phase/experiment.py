"""Induction heads form in a phase change, with two layers or smeared keys, not with one layer."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import duplicate_mask, induction_scores
from circuitax.circuits.losses import change_window, loss_slope, steepest_stretch
from circuitax.circuits.patching import Ablation, ablated_metrics, each_component
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.arms import file_name_of
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.two_layers import require_readable

# Layers, and whether keys are smeared.
ARMS = {
    "1 layer": (1, False),
    "1 layer, smeared": (1, True),
    "2 layers": (2, False),
    "2 layers, smeared": (2, True),
}
# A head with a prefix-matching score from here on matches prefixes.
PREFIX_SCORE = 0.4
# Texts whose single tokens span the space in which trajectories of training are drawn.
TRAJECTORY_TEXTS = 16
# How an ablation is done, and which heads are taken together.
KINDS = ("patterns held", "all reacts")
GROUPS = ("prefix-matching heads", "all others")


@dataclass(frozen=True)
class Spec:
    """One recipe for all four arms.

    Attributes:
        model: Sizes; layers and smeared keys are set by each arm.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members of each arm, each with its own initialisation and data.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each seed has its own, the same in all arms.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 16
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 64

    def __post_init__(self) -> None:
        require_readable(self.model, self.task)
        if self.task.min_period < 2 or self.task.max_period > self.task.length - 2:
            raise ValueError(
                f"task.min_period={self.task.min_period} and max_period={self.task.max_period} "
                "must leave tokens before and after for the in-context score"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train the four arms and measure every curve of every seed."""
    source = replace(spec.task, batch=spec.texts, distinct=True)
    exams = drawn_by_each(source, derive(key, "evaluation"), spec.seeds)
    examine = each_with_own(partial(measure, task=spec.task), exams)
    take_out = each_with_own(partial(without_heads, task=spec.task), exams)
    found, divergences = {}, {}
    for arm, (n_layers, smeared) in ARMS.items():
        sizes = replace(spec.model, n_layers=n_layers, smeared_keys=smeared)
        trained = language_arm(
            lab,
            file_name_of(arm),
            derive(key, arm),
            sizes,
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=examine,
        )
        found[arm] = trained.curves | take_out(trained.models) | {"alive": trained.alive}
        divergences[arm] = trained.divergence
    notes = {"divergence": divergences, "prefix_score": PREFIX_SCORE}
    return _dataset(spec, trained.steps, found).assign_attrs(notes)


def measure(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """Scores of one member; the in-context score is late losses minus early ones, as in the paper.

    Before position ``min_period - 1`` no token can be known, from ``max_period`` on all can.
    """
    scores = induction_scores(model, texts)
    losses = scores.loss_by_position
    return scores._asdict() | {
        "loss": losses.mean(),
        "in_context": in_context(task, losses),
        "token_loss": text_losses(model, texts[:TRAJECTORY_TEXTS]).ravel(),
        **looking_back(model, texts),
        **circuits(model),
    }


def looking_back(model: Model, texts: Array) -> dict[str, Array]:
    """Attention to the previous token where a token is new to its text, and where it is not."""
    patterns = jax.vmap(lambda text: forward(model, text)[1].patterns)(texts)
    back = jnp.diagonal(patterns, offset=-1, axis1=-2, axis2=-1)  # at every token but the first
    again = jax.vmap(duplicate_mask)(texts).any(axis=-1)[:, 1:]

    def mean_where(chosen: Array) -> Array:
        return jnp.einsum("blht,bt->lh", back, chosen.astype(back.dtype)) / chosen.sum()

    return {"previous_new": mean_where(~again), "previous_again": mean_where(again)}


def circuits(model: Model) -> dict[str, Array]:
    """Circuits in the weights: copying of every head, and matching through K of all head pairs.

    Each is a trace over the sum of absolute eigenvalues. Both are NaN for one layer, and for
    smeared keys, whose circuit is not of one token.
    """
    heads = range(model.n_heads)
    if model.n_layers < 2 or model.blocks.attention.smear is not None:
        nothing = jnp.full((model.n_layers, model.n_heads), jnp.nan)
        return {"copying": nothing, "matching": jnp.full((len(heads), len(heads)), jnp.nan)}
    found = [same_matching(*composed_keys(model, (0, head), 1))[1] for head in heads]
    return {"copying": copying_score(token_ov(model)), "matching": jnp.stack(found)}


def in_context(task: RepeatedSource, losses: Array) -> Array:
    """Late losses minus early ones, over the last axis."""
    early, late = losses[..., : task.min_period - 1], losses[..., task.max_period :]
    return late.mean(axis=-1) - early.mean(axis=-1)


def without_heads(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """In-context score of one member without each head, and without two groups of heads.

    "Patterns held" is the paper's pattern-preserving ablation: attention patterns stay as they
    were, and only what the head writes is gone.
    """
    scores = induction_scores(model, texts)
    matching = (scores.prefix >= PREFIX_SCORE).astype(float)
    each = each_component(model).heads
    cells = Ablation(jnp.concatenate([each, jnp.stack([matching, 1 - matching])]))

    def one(text: Array) -> Array:
        trace = forward(model, text)[1]
        found = [
            ablated_metrics(
                model,
                text,
                cells,
                lambda logits: next_token_losses(logits, text),
                preserved=preserved,
            )
            for preserved in (trace, None)
        ]
        return jnp.stack(found)

    left = in_context(task, jax.vmap(one)(texts).mean(axis=0))
    n = each.shape[0]
    return {"each": left[:, :n].reshape(-1, *each.shape[1:]), "groups": left[:, n:]}


def _dataset(spec: Spec, steps: np.ndarray, found: dict[str, dict[str, Any]]) -> xr.Dataset:
    # One array of all arms; those with fewer layers get NaN for the layers they lack.
    stack = partial(stack_named, found.values())
    over, each_arm = ("arm", "step", "member"), ("arm", "member")
    by_position, alive = stack("loss_by_position"), stack("alive")
    slopes = np.asarray(loss_slope(jnp.asarray(by_position)))
    falling = xr.DataArray(slopes, dims=(*over, "position"))
    data = xr.Dataset(
        {
            "loss": (over, stack("loss")),
            "in_context": (over, stack("in_context")),
            # Most of the record: to 1/1024 nat, and slopes as means over members.
            "loss_by_position": ((*over, "position"), np.round(by_position * 1024) / 1024),
            "slope": falling.where(xr.DataArray(alive, dims=each_arm)).mean("member"),
            "prefix": ((*over, "layer", "head"), stack("prefix", -2)),
            "previous": ((*over, "layer", "head"), stack("previous", -2)),
            "copying": ((*over, "layer", "head"), stack("copying", -2)),
            "matching": ((*over, "writer", "reader"), stack("matching")),
            "ablated": ((*each_arm, "ablation", "layer", "head"), stack("each", -2)),
            "ablated_group": ((*each_arm, "ablation", "group"), stack("groups")),
            "alive": (each_arm, alive),
            "chance": float(found["2 layers"]["chance"][0].mean()),
        },
        coords={
            "arm": list(found),
            "step": steps,
            "ablation": list(KINDS),
            "group": list(GROUPS),
            "index": ("position", np.arange(1, by_position.shape[-1] + 1)),
        },
    )
    planes, explained = own_planes(stack("token_loss"))
    data["trajectory"] = ((*over, "component"), planes)
    data["explained"] = ("component", explained)
    data["best_prefix"] = data.prefix.max(["layer", "head"])
    previous = data.previous.isel(layer=0)
    data["best_previous"] = previous.max("head")
    best = previous.fillna(0).argmax("head")
    for name in ("previous_new", "previous_again"):
        first = xr.DataArray(stack(name, -2)[..., 0, :], dims=(*over, "head"))
        data[f"best_{name}"] = first.isel(head=best)

    def each(rule: Callable, name: str, *rest: float) -> Any:
        curve = data[name].transpose("arm", "member", "step").values
        return jax.tree.map(np.asarray, rule(jnp.asarray(steps), jnp.asarray(curve), *rest))

    for name in ("in_context", "best_prefix"):
        window = each(change_window, name)
        for part, value in window._asdict().items():
            data[f"{name}_{part}"] = (each_arm, value)
    stretch = spec.optim.steps / 6
    jump = each(steepest_stretch, "in_context", stretch)
    data["jump_start"] = (each_arm, jump.start)
    data["jump_end"] = data.jump_start + stretch
    # By the longest period every text repeats; before that, a shorter context may do.
    data["every_text_repeats"] = spec.task.max_period
    data["first_repeat"] = spec.task.min_period
    return data


def own_planes(token_losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`trajectories` of each member in all arms, in a plane of its own, as its texts are its own.

    Axes have no direction: each is turned the way that the first member goes along it. Takes
    ``[arm, step, member, token]``; returns places ``[arm, step, member, component]``, and the share
    that each component explains, a mean over members.
    """
    each = [trajectories(losses) for losses in np.moveaxis(token_losses, 2, 0)]
    places = np.stack([place for place, _ in each], axis=2)
    along = np.nansum(places * places[:, :, :1], axis=(0, 1))
    return np.where(along < 0, -places, places), np.nanmean([share for _, share in each], axis=0)


def trajectories(token_losses: np.ndarray, n_components: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Training as paths in the plane of largest variance of single tokens' losses ``[..., token]``.

    Returns places on the first principal components of all models together and the share of the
    variance that each explains; NaN where a loss is not finite, or with fewer finite models.
    """
    flat = token_losses.reshape(-1, token_losses.shape[-1])
    finite = np.isfinite(flat).all(axis=1)
    if finite.sum() <= n_components:
        nowhere = np.full((*token_losses.shape[:-1], n_components), np.nan)
        return nowhere, np.full(n_components, np.nan)
    centred = flat - flat[finite].mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred[finite], full_matrices=False)
    places = centred @ axes[:n_components].T
    share = sizes[:n_components] ** 2 / (sizes**2).sum()
    return places.reshape(*token_losses.shape[:-1], n_components), share
