"""Stochastic parameter decomposition of a toy model, as a training problem."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.models.subcomponents import DecomposedMaps, lower_leaky, upper_leaky

Map = Callable[[Array], Array]


class TargetHyper(NamedTuple):
    """Hyperparameters of a member of one compiled ensemble: target, data and penalty.

    Attributes:
        maps: The maps of the target, in row form: ``x' = ReLU(x W_1 ... W_L + b)``.
        density: P(feature is on), in [0, 1].
        penalty: Weight of the importances in the loss, not negative.
    """

    maps: tuple[Float[Array, "*member d_in d_out"], ...]
    b: Float[Array, "*member n_features"]
    density: Float[Array, "*member n_features"]
    penalty: Float[Array, "*member"]


class MaskDraws(NamedTuple):
    """Uniforms of one batch.

    Attributes:
        masks: For all maps at once, and for one map at a time.
    """

    features: Float[Array, "n_features batch"]
    masks: Float[Array, "2 map batch n_components"]


class Terms(NamedTuple):
    """The four terms of the loss, before the importances are weighted.

    Attributes:
        faithfulness: Mean squared error of the maps that the subcomponents sum to, over all
            entries.
        stochastic: Mean squared error of the outputs, with random masks in all maps.
        layerwise: The same with random masks in one map, averaged over the maps.
        importance: ``sum_c |g_c|^power`` over all maps, averaged over samples.
    """

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

    Attributes:
        decomposed: The subcomponents; the maps of the target have its widths.
        power: Exponent of the importances, at least 1; 1 and 2 in the paper.
        batch_size: Fresh samples in each step, at least 1.

    Raises:
        ValueError: If a field is less than 1.

    Source: Bushnaq, Braun and Sharkey 2025 (SPD), arXiv 2506.20790, section 2.
    Differs: the two maps of a tied model are decomposed each by itself.
    """

    decomposed: DecomposedMaps
    power: int = 1
    batch_size: int = 4096

    def __post_init__(self) -> None:
        for field in ("power", "batch_size"):
            check_range(field, getattr(self, field), "[1, inf)")

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
        masks, alone = _masks(raw, batch.masks[0]), _masks(raw, batch.masks[1])
        output = through(masked_maps(module, params, masks), hyper.b, x)[1]
        single = jnp.zeros(())
        for place, masked in enumerate(masked_maps(module, params, alone)):
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


def masked_maps(
    module: DecomposedMaps, params: PyTree, masks: Sequence[Float[Array, "batch n_components"]]
) -> list[Map]:
    """The decomposed maps as functions, with a mask for each."""

    def apply(a: Array, *, mask: Array, place: int) -> Array:
        return jnp.asarray(module.apply({"params": params}, a, mask, place, method="masked"))

    return [partial(apply, mask=mask, place=place) for place, mask in enumerate(masks)]


def through(
    maps: Sequence[Map], b: Float[Array, " n_features"], x: Float[Array, "batch n_features"]
) -> tuple[list[Float[Array, "batch _"]], Float[Array, "batch n_features"]]:
    """Inputs of every map, and the output ``ReLU(x W_1 ... W_L + b)``."""
    inputs = [x]
    for part in maps[:-1]:
        inputs.append(part(inputs[-1]))
    return inputs, jax.nn.relu(maps[-1](inputs[-1]) + b[None])


def _masks(raw: Sequence[Array], draws: Array) -> list[Array]:
    """``g + (1 - g) r`` for each map."""
    importances = [lower_leaky(g) for g in raw]
    return [g + (1 - g) * r for g, r in zip(importances, draws, strict=True)]
