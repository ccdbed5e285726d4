"""Texts that are Markov chains from a prior, and their best predictors in closed form."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.keys import derive

# Of three symbols one draw in eight has no negative entry.
_DRAWS = 128


@dataclass(frozen=True)
class ChainSource:
    """Texts of a chain of ``order`` o over k symbols; the first o symbols are uniform.

    Every row of a text's table of transitions is drawn from Dirichlet(1, …, 1). With ``even`` the
    table is drawn uniformly from those whose rows and columns all sum to 1: every symbol is then
    equally frequent, and counting single symbols tells nothing.

    Source: arXiv 2402.11004, section 2, which draws the first symbol from the stationary
    distribution; with a uniform one the posterior means below are the best predictors exactly,
    but where ``even``.
    """

    batch: int = 64
    length: int = 100
    d_vocab: int = 3
    order: int = 1
    even: bool = False

    def __post_init__(self) -> None:
        if self.even and (self.order, self.d_vocab) != (1, 3):
            raise ValueError(
                f"order={self.order} and d_vocab={self.d_vocab} must be 1 and 3 where even=True"
            )

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        k, o = self.d_vocab, self.order
        if self.even:
            table = jax.vmap(_even_table)(jax.random.split(derive(key, "table"), self.batch))
        else:
            table = jax.random.dirichlet(derive(key, "table"), jnp.ones(k), (self.batch, k**o))
        first = jax.random.randint(derive(key, "first"), (self.batch, o), 0, k)
        draws = jax.random.uniform(derive(key, "next"), (self.length - o, self.batch))
        place = k ** jnp.arange(o - 1, -1, -1)

        def step(last: Array, uniform: Array) -> tuple[Array, Array]:
            row = jnp.take_along_axis(table, (last @ place)[:, None, None], axis=1)[:, 0]
            above = uniform[:, None] > jnp.cumsum(row, axis=-1)[:, :-1]
            symbol = above.sum(axis=-1)
            return jnp.concatenate([last[:, 1:], symbol[:, None]], axis=1), symbol

        _, rest = jax.lax.scan(step, first, draws)
        return jnp.concatenate([first, rest.T], axis=1)


def _even_table(key: Key[Array, ""]) -> Float[Array, "3 3"]:
    """The first of many draws of four corner entries that leaves no entry negative."""
    corner = jax.random.uniform(key, (_DRAWS, 2, 2))
    wide = jnp.concatenate([corner, 1 - corner.sum(axis=2, keepdims=True)], axis=2)
    tables = jnp.concatenate([wide, 1 - wide.sum(axis=1, keepdims=True)], axis=1)
    fits = (tables >= 0).all(axis=(1, 2))
    return jnp.where(fits.any(), tables[jnp.argmax(fits)], 1 / 3)


def posterior_mean(
    text: Int[Array, " n_ctx"], order: int, d_vocab: int
) -> Float[Array, "n_ctx d_vocab"]:
    """The next symbol after each prefix, by counts in it: ``(1 + c_next) / (k + Σ c)``.

    ``c`` counts what followed earlier places with the same last ``order`` symbols; order 0 counts
    all symbols so far. The posterior mean of a row with prior Dirichlet(1, …, 1).
    """
    followed, n = jax.nn.one_hot(text, d_vocab), text.shape[0]
    if order == 0:
        return _shares(jnp.cumsum(followed, axis=0))
    place = jnp.arange(n)
    same = (place[:, None] > place[None, :]) & (place >= order - 1)[None, :]
    for back in range(order):
        earlier = text[jnp.maximum(place - back, 0)]
        same &= earlier[:, None] == earlier[None, :]
    return _shares(same[:, :-1].astype(followed.dtype) @ followed[1:])


def _shares(counts: Float[Array, "n_ctx d_vocab"]) -> Float[Array, "n_ctx d_vocab"]:
    return (1 + counts) / (1 + counts).sum(axis=-1, keepdims=True)
