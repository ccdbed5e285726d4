"""Prices of composition: how far each kind is above chance, and what that costs."""

import jax.numpy as jnp
from jaxtyping import Array
from scipy.stats import ortho_group

from circuitax.circuits.weights.composition import composition_scores
from circuitax.kernel.model import Model
from circuitax.training.language import Step

# What has a price; "turned" is K-composition behind one random rotation of all that heads write.
KINDS = ("Q", "K", "V", "turned")


def priced(model: Model, step: Step) -> Array:
    """The price of each kind times its excess over chance, summed."""
    return jnp.dot(step.hyper, excess(model))


def excess(model: Model) -> Array:
    """``d score² - 1`` of each of `KINDS`, mean over pairs of a head and one of the next layer.

    Zero on average for heads that a random rotation stands between, whose ``score²`` is 1/d.
    """
    W_O = model.blocks.attention.W_O
    rotation = jnp.asarray(ortho_group.rvs(model.d_model, random_state=0), W_O.dtype)
    attention = model.blocks.attention._replace(W_O=W_O @ rotation)
    turned = model.replace(blocks=model.blocks._replace(attention=attention))
    own, other = (composition_scores(m)[:, 0, :, 1, :] ** 2 for m in (model, turned))
    scores = jnp.concatenate([own, other[1:2]])
    return model.d_model * scores.mean(axis=(1, 2)) - 1
