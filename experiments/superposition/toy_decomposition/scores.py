"""Match of subcomponents with the true ones, and the active ones among them."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from circuitax.kernel.toy import feature_columns
from circuitax.models.subcomponents import DecomposedMaps
from circuitax.superposition.dictionaries import (
    one_to_one,
    rank_one_cosines,
    row_match,
)
from experiments.superposition.toy_decomposition.problem import (
    Decomposition,
    TargetHyper,
    masked_maps,
    through,
    whole_maps,
)

# A subcomponent is alive if its importance is above this on any sample, and on for an input if it
# is above this there.
ALIVE = 0.1
# Value of the one feature that is on, where importances are shown.
MAGNITUDE = 0.75


@partial(jax.jit, static_argnums=(0, 2))
def scores(
    problem: Decomposition, key: jax.Array, samples: int, params: PyTree, hyper: TargetHyper
) -> dict[str, Array]:
    """The scores of every member on common samples.

    Args:
        problem: The decomposition.
        key: Of the samples.
        samples: How many.
        params: Of all members.
        hyper: The targets of all members.
    """
    one = partial(_score, problem, key, samples)
    return jax.lax.map(lambda member: one(*member), (params, hyper))


def _score(
    problem: Decomposition, key: jax.Array, samples: int, params: PyTree, hyper: TargetHyper
) -> dict[str, Array]:
    module, last = problem.decomposed, len(hyper.maps) - 1
    uniforms = jax.random.uniform(key, (problem.decomposed.widths[0], samples), float)
    x = feature_columns(uniforms, hyper.density, signed=False).T
    inputs, output = through(whole_maps(hyper), hyper.b, x)
    importance = _importances(module, params, inputs)
    masked = through(masked_maps(module, params, importance), hyper.b, x)[1]
    matrices: Any = module.apply({"params": params}, method="matrices")
    pairs = list(zip(matrices, hyper.maps, strict=True))
    errors = sum(jnp.sum((found - true) ** 2) for found, true in pairs)
    alone = MAGNITUDE * jnp.eye(x.shape[1], dtype=x.dtype)
    on_alone = _importances(module, params, through(whole_maps(hyper), hyper.b, alone)[0])
    alive = [jnp.sum(jnp.max(g, axis=0) > ALIVE).astype(float) for g in importance]
    first, end = params["maps_0"], params[f"maps_{last}"]
    match = row_match(hyper.maps[0], first["V"], first["U"])
    read = row_match(hyper.maps[-1].T, end["U"], end["V"])
    parts = rank_one_cosines(hyper.maps[0], first["V"], first["U"])
    reads = rank_one_cosines(hyper.maps[-1].T, end["U"], end["V"])
    power = jnp.mean(output**2)
    size = sum(jnp.sum(true**2) for _, true in pairs)
    no_identity = [jnp.full_like(alive[0], jnp.nan)] if last == 1 else []
    return {
        "cosine": jnp.mean(match.cosine),
        "norm_ratio": jnp.mean(match.norm_ratio),
        "rank_one": jnp.mean(jnp.max(parts, axis=1)),
        "decoder_cosine": jnp.mean(read.cosine),
        "decoder_norm_ratio": jnp.mean(read.norm_ratio),
        "decoder_rank_one": jnp.mean(jnp.max(reads, axis=1)),
        "one_to_one": one_to_one((on_alone[0] > ALIVE).astype(float)),
        "decoder_one_to_one": one_to_one((on_alone[-1] > ALIVE).astype(float)),
        "alive": jnp.stack([alive[0], *no_identity, *alive[1:]]),
        "faithfulness": jnp.asarray(errors / size),
        "masked": jnp.mean((masked - output) ** 2) / power,
        "importance": jnp.stack([jnp.sum(g, axis=1).mean() for g in importance]).sum(),
        "first_alone": jnp.stack(on_alone),
        "first_V": first["V"],
        "first_U": first["U"],
    }


def _importances(
    module: DecomposedMaps, params: PyTree, inputs: list[Array]
) -> list[Float[Array, "batch n_components"]]:
    """Causal importances, from 0 to 1."""
    raw: Any = module.apply({"params": params}, inputs)
    return [jnp.clip(g, 0, 1) for g in raw]
