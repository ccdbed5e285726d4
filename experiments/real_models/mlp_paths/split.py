"""One prompt's logit, split by its paths."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.groups import path_groups
from circuitax.circuits.paths.orders import order_streams
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run
from experiments.real_models.mlp_paths.orders import mlp_order_streams
from experiments.real_models.mlp_paths.scores import (
    Shares,
    direct_shares,
    gradient_shares,
    over_mean,
    path_shares,
)


class Split(NamedTuple):
    """One prompt's logit, split.

    Attributes:
        token: The likeliest next one, whose logit over the mean is split.
        by_heads: Paths by their number of heads.
        by_mlps: Paths by their number of MLPs.
        one_head: Paths of one head, by layer, head and source position.
        past_heads: The paths past all heads, from the last token.
        exact: Shares of tokens and heads by all paths.
        relp: Those by the half rule.
        gradient: Those by gradients of the model itself.
        direct: Of heads, past all later layers.
    """

    token: Int[Array, ""]
    logit: Float[Array, ""]
    frozen: FrozenModel
    direction: Float[Array, " d_model"]
    by_heads: Float[Array, " order"]
    by_mlps: Float[Array, " order"]
    one_head: Float[Array, "n_layers n_heads n_ctx"]
    past_heads: Float[Array, ""]
    exact: Shares
    relp: Shares
    gradient: Shares
    direct: Float[Array, "n_layers n_heads"]


@jax.jit
def read(model: Model, text: Int[Array, " n_ctx"]) -> Run:
    """The run that is explained."""
    return forward_run(model, text, outputs=True)


@jax.jit
def split(seen: Run) -> Split:
    """The logit of the likeliest next token over the mean token, by its paths."""
    frozen, last = frozen_model(seen), seen.tokens.shape[0] - 1
    token = seen.logits[-1].argmax()
    direction = centre_vocabulary(frozen.read_out.W_U)[:, token]
    w = direction / jnp.asarray(frozen.read_out.scale)[-1]
    groups = path_groups(frozen, last, direction)
    return Split(
        token,
        over_mean(seen.logits[-1], token),
        frozen,
        direction,
        order_streams(frozen)[:, -1] @ w,
        mlp_order_streams(frozen)[:, -1] @ w,
        groups.one_head,
        groups.by_head[0, 1 + last],
        path_shares(seen, direction, "frozen"),
        path_shares(seen, direction, "shared"),
        gradient_shares(seen, token),
        direct_shares(seen, direction),
    )
