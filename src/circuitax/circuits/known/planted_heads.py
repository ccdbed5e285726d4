"""Two-layer models with heads of planted function and strength, to validate evaluators of heads.

Each head of the first layer looks at the previous token, each of the second matches prefixes and
copies, all by a planted part of its weights beside a random part of the same size.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Num

from circuitax.kernel.checks import check_range
from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions, sinusoidal
from circuitax.kernel.weights import HeadStack


class Strengths(NamedTuple):
    """Planted share of each head's weights, in [-1, 1]; the rest is random."""

    previous: Float[Array, " n_heads"]
    matching: Float[Array, " n_heads"]
    copying: Float[Array, " n_heads"]


def planted_model(
    key: Key[Array, ""], strengths: Strengths, d_vocab: int, n_ctx: int, sharpness: float = 24.0
) -> Model:
    r"""Heads of planted strength: ``W = c · planted + √(1 - c²) · random``, of equal norms.

    Source: framework paper, "how induction heads work", in the manner of
        `ground_truth.induction_model`.
    """
    sizes = {len(part) for part in strengths}
    if len(sizes) != 1:
        raise ValueError(f"strengths name {sorted(sizes)} heads, must name as many of each kind")
    (n_heads,) = sizes
    for name, part in strengths._asdict().items():
        check_range(f"strengths.{name}", part, "[-1, 1]")
    for name, size in (("d_vocab", d_vocab), ("n_ctx", n_ctx)):
        check_range(name, size, "[2, inf)")
    check_range("sharpness", sharpness, "(0, inf)")
    V, n = d_vocab, n_ctx
    token, place = slice(0, V), slice(V, V + n)
    marker, answer = slice(V + n, 2 * V + n), slice(2 * V + n, 3 * V + n)
    d, k = 3 * V + n, max(V, n)
    of_places, of_tokens, of_values = jax.random.split(key, 3)
    look = _mixed(of_places, strengths.previous, jnp.eye(n, k=-1))
    match = _mixed(of_tokens, strengths.matching, jnp.eye(V))
    copy = _mixed(of_values, strengths.copying, jnp.eye(V))
    every, eye = (n_heads, 1, 1), jnp.eye(V)

    def placed(rows: slice, columns: int, block: Array) -> Array:
        """The block in its rows of a map ``[n_heads, d, k]``, for every head."""
        full = block if block.ndim == 3 else jnp.tile(block[None], every)
        return jnp.zeros((n_heads, d, k)).at[:, rows, :columns].set(full)

    layers = (
        {
            "W_Q": placed(place, n, sharpness * look),
            "W_K": placed(place, n, jnp.eye(n)),
            "W_V": placed(token, V, eye),
            "W_O": jnp.swapaxes(placed(marker, V, eye / n_heads), 1, 2),
        },
        {
            "W_Q": placed(token, V, sharpness * match),
            "W_K": placed(marker, V, eye),
            "W_V": placed(token, V, copy),
            "W_O": jnp.swapaxes(placed(answer, V, eye), 1, 2),
        },
    )
    heads = HeadStack(*(jnp.stack([layer[w] for layer in layers]) for w in layers[0]))
    return Model.of(
        W_E=jnp.zeros((V, d)).at[:, token].set(jnp.eye(V)),
        W_U=jnp.zeros((d, V)).at[answer].set(jnp.eye(V)),
        attention=heads,
        W_pos=jnp.zeros((n, d)).at[:, place].set(jnp.eye(n)),
        positions=Positions.learned,
        score_scale=1.0,
    )


def offset_model(
    key: Key[Array, ""], offsets: Num[Array, " n_heads"], d_vocab: int, d_model: int, gain: float
) -> Model:
    """One layer in which each head asks sinusoidal positions for a fixed offset: ``W_QK = g R``.

    Source: framework paper, primarily positional heads (F6 of docs/acceptance.md).
    """
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model={d_model} must be even, and at least 2")
    check_range("offsets", offsets, "[0, inf)")
    check_range("gain", gain, "(0, inf)")
    # Row 2i of the table is sin, row 2i + 1 cos: R takes the pair at t to the pair at t - offset.
    turned = sinusoidal(jnp.asarray(offsets), d_model, jnp.asarray(1.0).dtype)
    sin, cos = turned[:, 0::2], turned[:, 1::2]
    even = jnp.arange(0, d_model, 2)
    R = jnp.zeros((len(offsets), d_model, d_model))
    R = R.at[:, even, even].set(cos).at[:, even + 1, even + 1].set(cos)
    R = R.at[:, even, even + 1].set(sin).at[:, even + 1, even].set(-sin)
    eye = jnp.broadcast_to(jnp.eye(d_model), R.shape)
    embeddings = jax.random.normal(key, (d_vocab, d_model)) / math.sqrt(d_model)
    return Model.of(
        W_E=embeddings,
        W_U=embeddings.T,
        attention=HeadStack(*(part[None] for part in (gain * R, eye, eye, eye))),
        positions=Positions.shortformer_sinusoidal,
        score_scale=1.0,
    )


def _mixed(
    key: Key[Array, ""], strength: Float[Array, " n_heads"], planted: Float[Array, "rows columns"]
) -> Float[Array, "n_heads rows columns"]:
    """The planted matrix and a random one of its Frobenius norm, for every head."""
    c = jnp.asarray(strength)[:, None, None]
    rows, columns = planted.shape
    size = jnp.linalg.norm(planted) / math.sqrt(rows * columns)
    noise = size * jax.random.normal(key, (c.shape[0], rows, columns))
    return c * planted[None] + jnp.sqrt(1 - c**2) * noise
