"""Stochastic parameter decomposition of a toy model: the training problem, and its scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.models.autoencoder import DecomposedMaps, lower_leaky, upper_leaky
from circuitax.training.dictionary import one_to_one, row_match

Map = Callable[[Array], Array]

# A subcomponent is alive if its importance is above this on any sample, and on for an input if it
# is above this there.
ALIVE = 0.1
# Value of the one feature that is on, where importances are shown.
MAGNITUDE = 0.75


class TargetHyper(NamedTuple):
    """Maps and biases of ``x' = ReLU(x W_1 ... W_L + b)``, P(feature is on), weight of a member."""

    maps: tuple[Float[Array, "*member d_in d_out"], ...]
    b: Float[Array, "*member n_features"]
    density: Float[Array, "*member n_features"]
    penalty: Float[Array, "*member"]


class MaskDraws(NamedTuple):
    """Uniforms of one batch: masks in all maps at once, and in one map at a time."""

    features: Float[Array, "n_features batch"]
    masks: Float[Array, "2 map batch n_components"]


class Terms(NamedTuple):
    """Mean squared errors: of maps, of outputs with masks in all or one; ``sum_c |g_c|^power``."""

    faithfulness: Float[Array, ""]
    stochastic: Float[Array, ""]
    layerwise: Float[Array, ""]
    importance: Float[Array, ""]


@dataclass(frozen=True)
class Decomposition:
    """Rank-one subcomponents that add up to the maps, of which few matter for each input.

    A subcomponent whose causal importance for an input is g may be scaled by anything from g to 1
    without a change of the output: masks are ``g + (1 - g) r`` with r uniform on [0, 1]. The loss
    is ``faithfulness + stochastic + layerwise + penalty * importance``.

    Source: Bushnaq, Braun and Sharkey 2025 (SPD), arXiv 2506.20790, section 2.
    Differs: the two maps of a tied model are decomposed each by itself.
    """

    decomposed: DecomposedMaps
    power: int = 1
    batch_size: int = 4096

    def init(self, key: Key[Array, ""], hyper: TargetHyper) -> PyTree:
        """Random directions."""
        inputs = [jnp.zeros((1, width)) for width in self.decomposed.widths[:-1]]
        return self.decomposed.init(key, inputs)["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> MaskDraws:
        """Uniforms of one step."""
        widths, n_components = self.decomposed.widths, self.decomposed.n_components
        shape = (2, len(widths) - 1, self.batch_size, n_components)
        key = at_index(key, step)
        return MaskDraws(
            uniforms(derive(key, "features"), (widths[0], self.batch_size)),
            uniforms(derive(key, "masks"), shape),
        )

    def loss(self, params: PyTree, batch: MaskDraws, hyper: TargetHyper) -> Float[Array, ""]:
        """The sum of the terms."""
        terms = self.terms(params, batch, hyper)
        cost = hyper.penalty * terms.importance
        return terms.faithfulness + terms.stochastic + terms.layerwise + cost

    def terms(self, params: PyTree, batch: MaskDraws, hyper: TargetHyper) -> Terms:
        """Each term of the loss."""
        module, variables = self.decomposed, {"params": params}
        x = feature_columns(batch.features, hyper.density, signed=False).T
        inputs, target = through(whole_maps(hyper), hyper.b, x)
        raw: Any = module.apply(variables, inputs)
        low = [lower_leaky(g) for g in raw]
        apply: Any = partial(module.apply, variables, method="masked")
        all_at_once, one_each = (
            [
                partial(apply, mask=g + (1 - g) * r, place=place)
                for place, (g, r) in enumerate(zip(low, draws, strict=True))
            ]
            for draws in batch.masks
        )
        output = through(all_at_once, hyper.b, x)[1]
        single = jnp.zeros(())
        for place, masked in enumerate(one_each):
            maps = whole_maps(hyper)
            maps[place] = masked
            single += jnp.mean((through(maps, hyper.b, x)[1] - target) ** 2) / len(maps)
        found: Any = module.apply(variables, method="matrices")
        errors = [jnp.sum((a - b) ** 2) for a, b in zip(found, hyper.maps, strict=True)]
        n_entries = sum(part.size for part in hyper.maps)
        cost = [jnp.sum(upper_leaky(g) ** self.power, axis=1) for g in raw]
        return Terms(
            jnp.stack(errors).sum() / n_entries,
            jnp.mean((output - target) ** 2),
            jnp.asarray(single),
            jnp.stack(cost).sum(axis=0).mean(),
        )


def whole_maps(hyper: TargetHyper) -> list[Map]:
    """The maps of the target as functions."""
    return [partial(jnp.matmul, b=W) for W in hyper.maps]


def through(
    maps: Sequence[Map], b: Float[Array, " n_features"], x: Float[Array, "batch n_features"]
) -> tuple[list[Float[Array, "batch _"]], Float[Array, "batch n_features"]]:
    """Inputs of every map, and the output ``ReLU(x W_1 ... W_L + b)``."""
    inputs = [x]
    for part in maps[:-1]:
        inputs.append(part(inputs[-1]))
    return inputs, jax.nn.relu(maps[-1](inputs[-1]) + b[None])


@partial(jax.jit, static_argnums=(0, 2))
def scores(
    problem: Decomposition, key: jax.Array, samples: int, params: PyTree, hyper: TargetHyper
) -> dict[str, Array]:
    """The scores of every member on common samples."""
    one = partial(_score, problem, key, samples)
    return jax.lax.map(lambda member: one(*member), (params, hyper))


def _score(
    problem: Decomposition, key: jax.Array, samples: int, params: PyTree, hyper: TargetHyper
) -> dict[str, Array]:
    module = problem.decomposed
    uniforms = jax.random.uniform(key, (problem.decomposed.widths[0], samples), float)
    x = feature_columns(uniforms, hyper.density, signed=False).T

    def importances(x: Float[Array, "batch n_features"]) -> list[Float[Array, "batch _"]]:
        raw: Any = module.apply({"params": params}, through(whole_maps(hyper), hyper.b, x)[0])
        return [jnp.clip(g, 0, 1) for g in raw]

    importance = importances(x)
    on_alone = importances(MAGNITUDE * jnp.eye(x.shape[1], dtype=x.dtype))
    alive = [jnp.sum(jnp.max(g, axis=0) > ALIVE).astype(float) for g in importance]
    first = params["maps_0"]
    match = row_match(hyper.maps[0], first["V"], first["U"])
    no_identity = [jnp.full_like(alive[0], jnp.nan)] if len(hyper.maps) == 2 else []
    return {
        "cosine": jnp.mean(match.cosine),
        "norm_ratio": jnp.mean(match.norm_ratio),
        "one_to_one": one_to_one((on_alone[0] > ALIVE).astype(float)),
        "alive": jnp.stack([alive[0], *no_identity, *alive[1:]]),
        "alone": jnp.stack(on_alone),
    }
