"""Firing of MLP units, and the rate at which the tokens that they raise come next.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.run import Run, one_text


def mlp_streams(run: Run) -> Float[Array, "n_layers n_ctx d_model"]:
    """The stream that each MLP reads, before its norm where it reads through one."""
    # The parallel form reads the layer's input.
    return one_text(run).streams[:-1] if run.model.spec.parallel else one_text(run).mid


def neuron_activations(run: Run) -> Float[Array, "n_layers n_ctx d_mlp"]:
    """Activations of the last hidden layer: the factor of each unit on its row of ``W_out``."""
    return one_text(run).post


def gated_values(run: Run) -> Float[Array, "n_layers n_ctx d_mlp"]:
    """``x W_in + b_in`` of gated MLPs, which the activation of the gate multiplies."""
    return one_text(run).pre_linear


class Firing(NamedTuple):
    """Rate at which a unit's values come next: where it fires, and everywhere.

    Attributes:
        fired: Share of next tokens among the unit's values, where it fires.
        everywhere: The same share over all positions.
    """

    fired: Float[Array, "n_layers d_mlp"]
    everywhere: Float[Array, "n_layers d_mlp"]


def values_come_true(
    activations: Float[Array, "n_layers n d_mlp"],
    coming: Int[Array, " n"],
    values: Bool[Array, "n_layers d_mlp d_vocab"],
    n_firing: int,
) -> Firing:
    """Rate at which the next token is one of a unit's values, at the unit's largest activations.

    Source: S2 and Geva et al. (2021): values are distributions over what follows their keys.
    """

    def of_unit(active: Array, raised: Array) -> tuple[Array, Array]:
        hits = raised[coming].astype(active.dtype)
        firing = jax.lax.top_k(active, n_firing)[1]
        return hits[firing].mean(), hits.mean()

    def of_layer(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        active, raised = pair
        return jax.lax.map(lambda unit: of_unit(*unit), (active.T, raised))

    return Firing(*jax.lax.map(of_layer, (activations, values)))


def mean_by_token(
    activations: Float[Array, "n_layers n d_mlp"], present: Int[Array, " n"], d_vocab: int
) -> Float[Array, "n_layers d_mlp d_vocab"]:
    """Mean activation of each unit by the token at the position; 0 for tokens that never occur."""
    counts = jnp.zeros(d_vocab, activations.dtype).at[present].add(1)
    total = jax.vmap(lambda a: jax.ops.segment_sum(a, present, d_vocab))(activations)
    return jnp.matrix_transpose(safe_divide(total, counts[None, :, None]))
