"""Weights that an upstream experiment kept: all members of one model, one axis in front."""

import jax
import jax.numpy as jnp

from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init_model


def kept_weights(lab: Lab, source: str, name: str, model: TransformerSpec) -> Model:
    """What ``source`` saved as ``name``.

    Args:
        lab: Of the experiment that reads; its module names ``source`` in ``requires``.
        source: An experiment.
        name: Of the arrays.
        model: The spec of the members, as the notes of ``source`` have it.
    """
    like = jax.eval_shape(lambda: init_model(jax.random.key(0), model))
    weights: Model = lab.load_arrays(name, source=source, like=like)
    on_device: Model = jax.tree.map(jnp.asarray, weights)
    return on_device
