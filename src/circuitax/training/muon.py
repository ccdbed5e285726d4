"""Muon: updates with equal singular values for weight maps, Adam for all other weights."""

import jax
import optax
from jaxtyping import PyTree
from optax import contrib

# Root mean square of an entry of a step, which is that of Adam's in practice (Liu et al. 2025):
# one learning rate then serves both parts.
STEP_RMS = 0.2
_READS = contrib.MuonDimensionNumbers(reduction_axis=2, output_axis=(1, 3))
_DENSE = contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
# The maps inside a transformer's blocks, by the last part of their names: which axes they read and
# which they write. Heads of a layer are one map, layers are separate (`kernel.shapes.AXES`).
MAPS = {
    "W_Q": _READS,
    "W_K": _READS,
    "W_V": _READS,
    "W_O": contrib.MuonDimensionNumbers(reduction_axis=(1, 2), output_axis=3),
    "W_in": _DENSE,
    "W_gate": _DENSE,
    "W_out": _DENSE,
    "W_hidden": contrib.MuonDimensionNumbers(reduction_axis=2, output_axis=3),
}


def muon_direction(
    *, momentum: float, b1: float, b2: float, eps: float, weight_decay: float
) -> optax.GradientTransformation:
    """The map from gradients to a step direction d, without the rate: an update is ``-rate d``.

    For a map W of a block, d is ``0.2 sqrt(max(shape)) U Vᵀ + decay W``, where ``U S Vᵀ`` is the
    Nesterov mean of its gradients; five Newton–Schulz steps give ``U Vᵀ`` up to singular values
    between about 0.7 and 1.2. Embedding, unembedding, gains and biases take AdamW's direction with
    a Nesterov mean.

    Source: ``optax.contrib.muon`` with its rate taken out; Liu et al. 2025 for the size of steps.
    """
    return contrib.muon(
        learning_rate=-1.0,  # Optax turns the sign, as for a whole update
        ns_steps=5,
        beta=momentum,
        eps=eps,
        weight_decay=weight_decay,
        nesterov=True,
        adam_b1=b1,
        adam_b2=b2,
        adam_weight_decay=weight_decay,
        muon_weight_dimension_numbers=maps_of,
        consistent_rms=STEP_RMS,
    )


def maps_of(params: PyTree) -> PyTree:
    """The input and output axes of each parameter by name; None for parameters that are no map."""
    names = [_last(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    # Without any name it is what Optax left of a model whose maps have no entries.
    if names and not MAPS.keys() & set(names):
        raise ValueError(f"params has {names}, must have one of {', '.join(MAPS)} for muon")
    # A model without layers has maps without entries.
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: MAPS.get(_last(path)) if leaf.size else None, params
    )


def _last(path: tuple) -> str:
    return jax.tree_util.keystr(path[-1:], simple=True).rpartition(".")[2]
