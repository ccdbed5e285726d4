"""Held-out losses at the ends of trainings that differ by their rates and seeds alone."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from circuitax.data.windows import WindowSource
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.arms import crossed_members
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.language import NextToken, text_losses
from circuitax.training.optim import OptimSpec

LONGEST_CHUNK = 10  # steps; an ensemble has up to some twenty members


class Bench(NamedTuple):
    """Common inputs of all trainings of one run.

    Attributes:
        lab: Of the experiment.
        tokens: The text that is trained on.
        windows: Held-out windows, ``[window, n_ctx]``.
        seeds: Initialisations and streams of windows, the same at every rate.
    """

    lab: Lab
    tokens: Array
    windows: Array
    seeds: int


def end_losses(
    bench: Bench,
    name: str,
    key: Key[Array, ""],
    sizes: TransformerSpec,
    optim: OptimSpec,
    *,
    batch: int,
    rates: Float[np.ndarray, " rate"],
    init: float = 1.0,
) -> Float[np.ndarray, "rate seed"]:
    """Held-out losses of one ensemble at its end; NaN for members that diverged.

    Rates and the factor on the maps are arguments of the compiled step: ensembles of one shape and
    one schedule share one compilation.

    Args:
        bench: What all trainings share.
        name: Of the loop; a run uses each name once.
        key: Seeds follow from it: one is the same in all ensembles of one key.
        sizes: Of every model.
        optim: Optimizer; its rate is not used.
        batch: Windows a step.
        rates: Peak rates.
        init: Factor on all maps at the start.
    """
    n_members = len(rates) * bench.seeds
    members = crossed_members(key, 1.0, jnp.zeros(n_members), bench.seeds)
    members = members._replace(learning_rate=jnp.asarray(np.tile(rates, bench.seeds), float))
    chunk = chunk_size(optim.steps, most=LONGEST_CHUNK)
    source = WindowSource(batch, sizes.n_ctx or 0, bench.tokens)
    plan = ensemble.Plan(NextToken(Transformer(sizes), source), optim, chunk, mesh=bench.lab.mesh)
    state = ensemble.init(plan, members)
    trained = measured_training(
        bench.lab,
        name,
        state._replace(params=scaled_maps(state.params, init)),
        ensemble.advance(plan, members),
        steps=optim.steps,
        every=chunk,
        as_models=partial(model_from_params, spec=sizes),
    )
    losses = np.asarray(_held_out(trained.models, bench.windows))
    return np.where(trained.alive, losses, np.nan).reshape(bench.seeds, len(rates)).T


def scaled_maps(params: PyTree, factor: float) -> PyTree:
    """Fresh parameters as ``init_scale`` times ``factor`` draws them: all maps but embeddings.

    Args:
        params: Parameters of a `models.transformer.Transformer`, by name.
        factor: Positive.
    """
    fixed = {"W_E", "W_pos"}
    return {
        name: leaf * factor if name.rpartition(".")[2][:2] == "W_" and name not in fixed else leaf
        for name, leaf in params.items()
    }


@jax.jit
def _held_out(members: Model, windows: Array) -> Array:
    # One after the other: the logits of all members would fill the memory.
    return jax.lax.map(lambda model: text_losses(model, windows).mean(), members)
