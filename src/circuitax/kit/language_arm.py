"""One arm of transformers on synthetic texts: an ensemble of one size, trained and measured."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import Edit, NextToken, Penalty, Source
from circuitax.training.optim import OptimSpec


def language_arm(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    sizes: TransformerSpec,
    source: Source,
    optim: OptimSpec,
    *,
    seeds: int,
    every: int,
    measure: Callable[[PyTree], dict[str, Array]] | None = None,
    edit: Edit | None = None,
    penalty: Penalty | None = None,
    hyper: Array | None = None,
) -> Trained:
    """Train transformers of one size to predict the next token, and measure them along the way.

    ``edit`` and ``penalty`` are those of `NextToken`, ``hyper`` their numbers, one for each seed.
    """
    plan = Plan(NextToken(Transformer(sizes), source, edit, penalty), optim, every, mesh=lab.mesh)
    members = new_members(key, optim.learning_rate, jnp.zeros(seeds) if hyper is None else hyper)
    return measured_training(
        lab,
        name,
        init(plan, members),
        advance(plan, members),
        steps=optim.steps,
        every=every,
        measure=measure,
        as_models=partial(model_from_params, spec=sizes),
    )
