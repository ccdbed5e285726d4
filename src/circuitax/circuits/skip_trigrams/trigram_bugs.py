"""Skip-trigram bugs, found in tables and priced in nats.

One head raises triples by ``f(source, destination) · g(source, out)``: it cannot make
``keep … in → mind`` and ``keep … at → bay`` likely without also raising ``keep … in → bay``. Such a
forced triple is a bug. Its price is how much the loss falls when each (source, destination) pair
gets a free vector of logits.

S4 are the notes on the framework paper (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.skip_trigrams.additivity import minimise


class Bugs(NamedTuple):
    """Triples (source, destination, out) that the head raises and the data lacks.

    Attributes:
        strength: Positive score times positive raise of the triple; 0 where there is no further
            bug.
    """

    source: Int[Array, " k"]
    destination: Int[Array, " k"]
    out: Int[Array, " k"]
    strength: Float[Array, " k"]


def find_bugs(
    scores: Float[Array, "n_sources n_dest"],
    raises: Float[Array, "n_sources n_outs"],
    counts: Float[Array, "n_sources n_dest n_outs"],
    k: int,
) -> Bugs:
    """The strongest triples that never occur although both their halves do.

    Source: framework paper, "skip-trigram bugs"; S4 ("keep… in bay").
    """
    strength = jax.nn.relu(scores)[:, :, None] * jax.nn.relu(raises)[:, None, :]
    pair_occurs = counts.sum(axis=2, keepdims=True) > 0
    out_occurs = counts.sum(axis=1, keepdims=True) > 0
    forced = pair_occurs & out_occurs & (counts == 0)
    values, flat = jax.lax.top_k(jnp.where(forced, strength, 0).ravel(), k)
    source, destination, out = jnp.unravel_index(flat, counts.shape)
    return Bugs(source, destination, out, values)


class Price(NamedTuple):
    """Held-out nats per token that one free vector of logits for each pair would save.

    Attributes:
        saved: Mean over held-out events of the loss before minus after; negative if the refit
            overfits.
        saved_by_pair: Mean over the held-out events of each pair; 0 where there are none.
    """

    saved: Float[Array, ""]
    saved_by_pair: Float[Array, " n_pairs"]


def price_bugs(
    logits: Float[Array, "event d_vocab"],
    targets: Int[Array, " event"],
    pair: Int[Array, " event"],
    held_out: Float[Array, " event"],
    n_pairs: int,
    *,
    precision: float = 1.0,
    n_steps: int = 100,
) -> Price:
    """The price of bilinearity: refit ``logits + θ[pair]`` on one part, measure on the other.

    Source: ours; the price is the divergence that one free vector for each pair removes.
    """
    if not isinstance(held_out, jax.core.Tracer):
        n_held, n = int((held_out > 0).sum()), held_out.shape[0]
        if n_held in (0, n):
            raise ValueError(
                f"held_out holds out {n_held} of {n} events, must leave some on each side"
            )
    seen = 1 - held_out

    def losses(theta: Array) -> Array:
        log_p = jax.nn.log_softmax(logits + theta[pair], axis=-1)
        return -jnp.take_along_axis(log_p, targets[:, None], axis=-1)[:, 0]

    def objective(theta: Array) -> Array:
        return (losses(theta) @ seen + precision / 2 * jnp.sum(theta**2)) / seen.sum()

    nothing = jnp.zeros((n_pairs, logits.shape[1]), logits.dtype)
    theta, _ = minimise(objective, nothing, n_steps)
    saved = (losses(nothing) - losses(theta)) * held_out
    by_pair = jax.ops.segment_sum(saved, pair, n_pairs)
    events = jax.ops.segment_sum(held_out, pair, n_pairs)
    return Price(saved.sum() / held_out.sum(), by_pair / jnp.maximum(events, 1))
