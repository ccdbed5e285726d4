"""From parts of the final stream to parts of the logits: frozen final norm, then unembedding."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.folding import fold_read
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run, one_text


class ReadOut(NamedTuple):
    """``logits = (x / scale) W_U + b_U`` with the final norm folded into ``W_U`` and ``b_U``."""

    scale: Float[Array, " n_ctx"] | None
    W_U: Float[Array, "d_model d_vocab"]
    b_U: Float[Array, " d_vocab"] | None


def read_out_of(run: Run) -> ReadOut:
    """The read-out of one text; exact for the run's own final scale."""
    model = one_text(run).model
    if model.spec.logit_cap is not None:
        raise ValueError(
            f"logit_cap={model.spec.logit_cap} must be None to split logits into a sum: make "
            "the run with model.with_options(logit_cap=None)"
        )
    norm = model.spec.norm
    if not model.spec.final_norm or norm == Norm.none:
        return ReadOut(None, model.W_U, model.b_U)
    W_U, b_U = fold_read(model.W_U, model.b_U, norm, model.final_norm)
    return ReadOut(run.trace.scales.final, W_U, b_U)


def logits_of(
    parts: Float[Array, "*parts n_ctx d_model"], read_out: ReadOut
) -> Float[Array, "*parts n_ctx d_vocab"]:
    """Logits of parts of the final stream, without the constant ``b_U``."""
    return _scaled(parts, read_out) @ read_out.W_U


def logits_along(
    parts: Float[Array, "*parts n_ctx d_model"],
    directions: Float[Array, "n_ctx d_model"],
    read_out: ReadOut,
) -> Float[Array, "*parts n_ctx"]:
    """`logits_of` along one direction for each position, without work on the whole vocabulary."""
    return jnp.einsum("...td,td->...t", _scaled(parts, read_out), directions)


def token_directions(
    read_out: ReadOut,
    chosen: Int[Array, " n_ctx"],
    against: Int[Array, " n_ctx"] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """Directions that read the logit of one token at each position, or a difference of two."""
    _check_ids("chosen", chosen, read_out)
    if against is not None:
        _check_ids("against", against, read_out)
    directions = read_out.W_U[:, chosen]
    if against is not None:
        directions = directions - read_out.W_U[:, against]
    return directions.T


def _check_ids(name: str, ids: Int[Array, " n_ctx"], read_out: ReadOut) -> None:
    d_vocab = read_out.W_U.shape[1]
    if isinstance(ids, jax.core.Tracer):
        return
    for token in np.unique(np.asarray(ids)):
        if not 0 <= token < d_vocab:
            raise ValueError(f"{name} has the id {token}, must lie in [0, {d_vocab=})")


def _scaled(parts: Array, read_out: ReadOut) -> Array:
    if read_out.scale is None:
        return parts
    return parts / jnp.broadcast_to(read_out.scale[:, None], parts.shape)
