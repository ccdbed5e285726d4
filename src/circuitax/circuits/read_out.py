"""From parts of the final stream to parts of the logits: frozen final norm, then unembedding."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.folding import fold_read
from circuitax.kernel.interventions import Trace
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights


class ReadOut(NamedTuple):
    """``logits = (x / scale) W_U + b_U`` with the final norm folded into ``W_U`` and ``b_U``."""

    scale: Float[Array, " n_ctx"] | None
    W_U: Float[Array, "d_model d_vocab"]
    b_U: Float[Array, " d_vocab"] | None


def read_out_of(weights: TransformerWeights, spec: ForwardSpec, trace: Trace) -> ReadOut:
    """The read-out of one text; exact for the trace's own final scale."""
    if not spec.final_norm or spec.norm == Norm.none:
        return ReadOut(None, weights.W_U, weights.b_U)
    W_U, b_U = fold_read(weights.W_U, weights.b_U, spec.norm, weights.final_norm)
    return ReadOut(trace.scales.final, W_U, b_U)


def logits_of(
    parts: Float[Array, "*parts n_ctx d_model"], read_out: ReadOut
) -> Float[Array, "*parts n_ctx d_vocab"]:
    """The logits that parts of the final stream add, without the constant ``b_U``."""
    return _scaled(parts, read_out) @ read_out.W_U


def logits_along(
    parts: Float[Array, "*parts n_ctx d_model"],
    directions: Float[Array, "n_ctx d_model"],
    read_out: ReadOut,
) -> Float[Array, "*parts n_ctx"]:
    """The same along one direction a position, such as `token_directions`, without V-sized work."""
    return jnp.einsum("...td,td->...t", _scaled(parts, read_out), directions)


def token_directions(
    read_out: ReadOut,
    chosen: Int[Array, " n_ctx"],
    against: Int[Array, " n_ctx"] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """Directions that read the logit of one token a position, or a difference of two.

    Args:
        read_out: Of the text.
        chosen: Token ids whose logits are read.
        against: Token ids whose logits are subtracted.
    """
    directions = read_out.W_U[:, chosen]
    if against is not None:
        directions = directions - read_out.W_U[:, against]
    return directions.T


def _scaled(parts: Array, read_out: ReadOut) -> Array:
    if read_out.scale is None:
        return parts
    return parts / jnp.broadcast_to(read_out.scale[:, None], parts.shape)
