"""The parts of one prompt's logit: sums of paths, shares, linear maps, and removals for real."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    frozen_model,
    head_constants,
    head_writes,
    mlp_writes,
)
from circuitax.circuits.paths.groups import carried_back, path_groups
from circuitax.circuits.paths.order_terms import order_streams
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run

AT_ONCE = 64  # directions
FIRST, TOP = 3, 10  # singular vectors that are read, and tokens that each of them names
TAIL = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)  # largest paths whose share is kept

Carry = tuple[Array, Array]


class Shares(NamedTuple):
    """Scores of each source token and of each head."""

    tokens: Float[Array, " n_ctx"]
    heads: Float[Array, "n_layers n_heads"]


def over_mean(logits: Float[Array, " d_vocab"], token: int | Int[Array, ""]) -> Float[Array, ""]:
    """The logit of a token over the mean of all, which the softmax does not see."""
    return logits[token] - logits.mean()


def path_shares(seen: Run, direction: Float[Array, " d_model"], gates: str) -> Shares:
    """All paths from each token, and all through each head, at all positions.

    Gates are ``"frozen"``, which is exact, or ``"shared"`` for RelP's rule.
    """
    frozen = frozen_model(seen, gates=gates)
    back = carried_back(frozen, frozen.tokens.shape[0] - 1, direction)
    heads = jnp.einsum("lhtd,ltd->lh", seen.head_outputs, back.written)
    return Shares((frozen.embedding * back.entering[0]).sum(axis=1), heads)


def direct_shares(seen: Run, direction: Float[Array, " d_model"]) -> Float[Array, "layers heads"]:
    """Direct share of each head in the logit, past all later layers."""
    w = direction / jnp.asarray(seen.scales.final)[-1]
    return jnp.einsum("lhd,d->lh", jnp.asarray(seen.head_outputs)[:, :, -1], w)


def gradient_shares(seen: Run, token: Int[Array, ""]) -> Shares:
    """Gradient times input of each token, and times output of each head; nothing is held."""
    model, embedded = seen.model, jnp.asarray(seen.model.W_E)[seen.tokens]
    layers, heads = seen.patterns.shape[:2]
    nothing = jnp.zeros((layers + 1, *embedded.shape), embedded.dtype)

    def logit(kept: Array, moved: Array) -> Array:
        edit = Interventions(head_keep=kept[..., None], stream_add=nothing.at[0].set(moved))
        return over_mean(forward(model, seen.tokens, edit)[0][-1], token)

    start = jnp.ones((layers, heads), embedded.dtype), jnp.zeros_like(embedded)
    of_heads, of_tokens = jax.grad(logit, argnums=(0, 1))(*start)
    return Shares((of_tokens * embedded).sum(axis=1), of_heads)


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


def mlp_order_streams(frozen: FrozenModel) -> Float[Array, "order n_ctx d_model"]:
    """Contribution of the paths through 0 … n_layers MLPs to the final stream, heads inside.

    ``c_k ← c_k (I + Σ_h A^h ⊗ W_OV^h)``, then ``c_k ← c_k + c_{k-1} M_l``, layer by layer. What
    an MLP leaves at a stream of zeros has order 1, biases of heads have order 0.
    """
    maps: Any = frozen.maps  # there are, in a dressed model
    n_layers = frozen.A.shape[0]

    def step(streams: Array, layer: Int[Array, ""]) -> tuple[Array, None]:
        written = head_writes(frozen, layer, streams, summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams = streams + written
        if frozen.b_O is not None:
            streams = streams.at[0].add(frozen.b_O[layer])
        through = mlp_writes(maps, layer, streams[:-1])
        return streams.at[1:].add(through).at[1].add(maps.constant[layer]), None

    streams = jnp.zeros((n_layers + 1, *frozen.tokens.shape), frozen.tokens.dtype)
    streams = streams.at[0].set(frozen.embedding)
    return jax.lax.scan(step, streams, jnp.arange(n_layers))[0]


def streams_past_heads(frozen: FrozenModel) -> Float[Array, "n_layers n_ctx d_model"]:
    """Input of each layer past no head: a token's embedding behind the MLPs before."""

    def step(alone: Array, layer: Int[Array, ""]) -> tuple[Array, Array]:
        return after_layer(frozen, layer, alone, alone, constants=False)[0], alone

    return jax.lax.scan(step, frozen.embedding, jnp.arange(frozen.A.shape[0]))[1]


@jax.jit
def two_head_paths(
    frozen: FrozenModel, position: int, direction: Float[Array, " d_model"]
) -> Float[Array, "second_layer second_head first_layer first_head"]:
    """Paths from tokens through two heads, summed over the positions they read.

    The value of a pair is 0 where the first head is not in an earlier layer.
    """
    n_layers, n_heads = frozen.A.shape[:2]
    ends = carried_back(frozen, position, direction, through_heads=False).written[:, position]

    def step(carry: Carry, layer: Int[Array, ""]) -> tuple[Carry, Array]:
        alone, streams = carry
        reads = jnp.einsum("hdk,hke,e->hd", frozen.W_V[layer], frozen.W_O[layer], ends[layer])
        read = jnp.einsum("isd,hd->his", streams, reads)
        values = jnp.einsum("hs,his->hi", frozen.A[layer, :, position], read)
        written = head_writes(frozen, layer, alone)
        streams, written = after_layer(frozen, layer, streams, written, constants=False)
        alone, _ = after_layer(frozen, layer, alone, alone, constants=False)
        streams = jax.lax.dynamic_update_slice_in_dim(streams, written, layer * n_heads, axis=0)
        return (alone, streams), values

    streams = jnp.zeros((n_layers * n_heads, *frozen.embedding.shape), frozen.embedding.dtype)
    start = frozen.embedding, streams
    values = jax.lax.scan(step, start, jnp.arange(n_layers))[1]
    return values.reshape(n_layers, n_heads, n_layers, n_heads)


@jax.jit
def without_tokens(
    model: Model, text: Int[Array, " n_ctx"], token: int, sources: Int[Array, " n"]
) -> Float[Array, " n"]:
    """The logit of a token with the embedding of one position each replaced by their mean."""
    n_layers, n_ctx = model.n_layers, text.shape[0]
    mean = jnp.asarray(model.W_E).mean(axis=0)
    keep = jnp.ones((n_layers + 1, n_ctx), mean.dtype)
    add = jnp.zeros((n_layers + 1, n_ctx, mean.size), mean.dtype)

    def logit(source: Array) -> Array:
        edit = Interventions(
            stream_keep=keep.at[0, source].set(0.0), stream_add=add.at[0, source].set(mean)
        )
        return over_mean(forward(model, text, edit)[0][-1], token)

    return jax.lax.map(logit, sources)


@jax.jit
def without_paths(
    model: Model,
    frozen: FrozenModel,
    text: Int[Array, " n_ctx"],
    token: int,
    paths: Int[Array, "n several 3"],
) -> Float[Array, " n"]:
    """The logit of a token without several paths through one head, all removed at once.

    What the head writes at the last position loses what it has of one token, which came past
    no other head. Paths are layer, head and source position.
    """
    alone = streams_past_heads(frozen)
    nothing = jnp.zeros((*frozen.A.shape[:3], alone.shape[-1]), alone.dtype)

    def logit(several: Array) -> Array:
        layer, head, source = several.T
        values = jnp.einsum("pd,pdk->pk", alone[layer, source], frozen.W_V[layer, head])
        written = jnp.einsum("pk,pkd->pd", values, frozen.W_O[layer, head])
        written = written * frozen.A[layer, head, -1, source][:, None]
        edit = Interventions(head_add=nothing.at[layer, head, -1].add(-written))
        return over_mean(forward(model, text, edit)[0][-1], token)

    return jax.lax.map(logit, paths)


@jax.jit
def output_maps(
    frozen: FrozenModel, gain: Float[Array, " d_model"]
) -> Float[Array, "n_ctx d_out d_model"]:
    """Maps from each token's embedding to the output of the final norm at the last position.

    They are the "detached Jacobian" of Golden 2025: derivatives with patterns, norm scales and
    gates held, computed a few directions at a time.
    """
    last = frozen.tokens.shape[0] - 1

    def back(direction: Array) -> Array:
        return carried_back(frozen, last, direction).entering[0]

    rows = jax.lax.map(back, jnp.diag(gain), batch_size=min(AT_ONCE, gain.size))
    return jnp.moveaxis(rows, 1, 0)


@jax.jit
def layer_maps(frozen: FrozenModel, source: Int[Array, ""]) -> Float[Array, "d_model n_layers d"]:
    """Maps from one token's embedding to the stream behind each layer at the last position."""
    n_layers, d_model = frozen.A.shape[0], frozen.tokens.shape[1]

    def forth(direction: Array) -> Array:
        def step(stream: Array, layer: Array) -> tuple[Array, Array]:
            written = head_writes(frozen, layer, stream, summed=True)
            stream, written = after_layer(frozen, layer, stream, written, constants=False)
            return stream + written, (stream + written)[-1]

        start = jnp.zeros_like(frozen.embedding).at[source].set(direction)
        return jax.lax.scan(step, start, jnp.arange(n_layers))[1]

    eye = jnp.eye(d_model, dtype=frozen.tokens.dtype)
    return jax.lax.map(forth, eye, batch_size=min(AT_ONCE, d_model))


def stable_rank(matrix: Float[np.ndarray, "rows columns"]) -> float:
    """``‖M‖_F² / σ_1²``: at most the rank, and 1 for a single direction; 0 of a matrix of zeros."""
    largest = float(np.linalg.norm(matrix, 2)) ** 2
    return float(np.linalg.norm(matrix)) ** 2 / largest if largest else 0.0


def first_outputs(matrix: Float[np.ndarray, "d_in d_out"]) -> Float[np.ndarray, "first d_out"]:
    """The `FIRST` singular vectors on the side of the output, the first one first."""
    square = np.asarray(matrix, np.float64)
    square = square.T @ square
    last = len(square) - 1
    return scipy.linalg.eigh(square, subset_by_index=(last - FIRST + 1, last))[1].T[::-1]


def names_tokens(
    vectors: Float[np.ndarray, "first d_model"],
    W_U: Float[np.ndarray, "d_model d_vocab"],
    tokens: Int[np.ndarray, " n"],
) -> np.ndarray:
    """Whether each token is one of the `TOP` that a vector raises, or lowers, most; ``[n]``.

    The signs of singular vectors mean nothing.
    """
    logits = vectors @ W_U
    both = np.concatenate([logits, -logits])
    higher = (both[:, :, None] > both[:, None, tokens]).sum(axis=1)
    return np.asarray((higher < TOP).any(axis=0))


def shares_of_largest(sizes: np.ndarray) -> np.ndarray:
    """Share of a sum that its largest 1, 3, 10, … terms make; 1 where there are fewer."""
    together = np.append(np.sort(sizes)[::-1].cumsum(), sizes.sum())
    total = together[-1]
    return together[np.minimum(TAIL, len(sizes)) - 1] / total if total else np.ones(len(TAIL))


def half_of(sizes: np.ndarray) -> int:
    """The fewest terms of a sum that hold half of it."""
    together = np.sort(sizes)[::-1].cumsum()
    return int(np.searchsorted(together, together[-1] / 2)) + 1
