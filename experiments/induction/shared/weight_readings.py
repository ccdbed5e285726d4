"""Measurements on a two-layer model's weights alone: composition, copying, same-matching."""

import jax.numpy as jnp
from jaxtyping import Array

from circuitax.circuits.weights.composition import composition
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.kernel.model import Model


def weight_readings(model: Model) -> dict[str, Array]:
    """Q-, K- and V-composition between the two layers, copying, and same-matching.

    ``composition_z`` is the deviation of its score from random rotations, ``[kind, writer,
    reader]``; ``copying`` the eigenvalue score of every OV circuit, ``[layer, head]``; ``matching``
    that of the circuit in which a head of layer 1 matches its token with what a head of layer 0
    wrote, ``[writer, reader]``.
    """
    found = composition(model)
    matching = [
        same_matching(*composed_keys(model, (0, writer), 1))[1] for writer in range(model.n_heads)
    ]
    return {
        "composition_z": found.z[:, 0, :, 1, :],
        "copying": copying_score(token_ov(model)),
        "matching": jnp.stack(matching),
    }
