"""Laws of a random map's independent entries of mean 0 and variance 1.

The entries are drawn column by column. A column depends on its own key and on nothing else, so a
map is the same whatever the block in which it is drawn, and the first m columns of a wider map are
the map with m columns.
"""

import enum
import math

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range, choice


class EntryLaw(enum.Enum):
    """Laws with mean 0 and variance 1; their fourth moments are in `kurtosis`."""

    gaussian = "gaussian"
    rademacher = "rademacher"
    achlioptas = "achlioptas"
    li = "li"


def draw_column(
    key: Key[Array, ""], law: EntryLaw | str, dim_in: int, dtype: DTypeLike = jnp.float32
) -> Float[Array, " {dim_in}"]:
    """One column of independent entries of the given law.

    ``gaussian`` N(0, 1); ``rademacher`` ±1; the sparse laws are ``±√s`` with probability 1/(2s)
    each and 0 otherwise, with s = 3 (``achlioptas``) and s = √dim_in (``li``).

    Source: Achlioptas 2003, Theorem 1.1; Li, Hastie and Church 2006, section 1.
    """
    law = choice("law", EntryLaw, law)
    check_range("dim_in", dim_in, "[1, inf)")
    if law is EntryLaw.gaussian:
        return jax.random.normal(key, (dim_in,), dtype)
    if law is EntryLaw.rademacher:
        return jax.random.rademacher(key, (dim_in,), dtype)
    s = inverse_density(law, dim_in)
    # One uniform serves sign and support: the two outer tails have mass 1/(2s) each.
    u = jax.random.uniform(key, (dim_in,), dtype)
    sign = (u < 0.5 / s).astype(dtype) - (u >= 1 - 0.5 / s).astype(dtype)
    return math.sqrt(s) * sign


def draw_columns(
    keys: Key[Array, " n_columns"], law: EntryLaw | str, dim_in: int, dtype: DTypeLike = jnp.float32
) -> Float[Array, "{dim_in} n_columns"]:
    """The columns of several keys side by side; see `draw_column`."""
    return jax.vmap(lambda key: draw_column(key, law, dim_in, dtype), out_axes=1)(keys)


def inverse_density(law: EntryLaw | str, dim_in: int) -> float:
    """The s of a law whose entries are non-zero with probability 1/s."""
    check_range("dim_in", dim_in, "[1, inf)")
    law = choice("law", EntryLaw, law)
    if law is EntryLaw.achlioptas:
        return 3.0
    return math.sqrt(dim_in) if law is EntryLaw.li else 1.0


def kurtosis(law: EntryLaw | str, dim_in: int) -> float:
    """The fourth moment ``E r^4`` of an entry: 3, 1, 3 and √dim_in in the order of `EntryLaw`.

    It decides how fast ``‖f(z)‖²`` concentrates, through `laws.ratio_variance`.
    """
    law = choice("law", EntryLaw, law)
    return 3.0 if law is EntryLaw.gaussian else inverse_density(law, dim_in)
