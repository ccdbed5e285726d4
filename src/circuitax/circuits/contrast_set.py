"""The difference of two runs over a set of pairs of texts: means with their intervals."""

from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from scipy import stats

from circuitax.circuits.contrast import Contrast, contrast_of_texts
from circuitax.display.tables import NumberTable
from circuitax.documented import documented
from circuitax.kernel.checks import counted_index, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, token_ids
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model
from circuitax.kernel.shown import largest

LEVEL = 0.95


@documented
class ContrastSet(NamedTuple):
    """Contrasts of pairs, and what they have on average.

    Attributes:
        each: With a leading axis of pairs.
        mean: Over the pairs; texts and question are those of the first.
        half: Half of Student's 95 % interval of each mean.
    """

    each: Contrast
    mean: Contrast
    half: Contrast

    def __repr__(self) -> str:
        heads, halves = np.asarray(self.mean.heads), np.asarray(self.half.heads)
        rows = [
            (f"head {l}.{h}", [heads[l, h], halves[l, h], *(np.asarray(x)[l, h] for x in routes)])
            for (l, h), routes in ((at, self.mean.routes) for at in largest(heads))
        ]
        n, delta, half = len(self.each.delta), float(self.mean.delta), float(self.half.delta)
        title = f"Mean of {n} pairs: Δ {delta:+.4g} ± {half:.2g}; heads, largest first"
        return NumberTable(title, ("mean", "±", "value", "query", "key"), rows).text()


def contrast_set(
    model: Model,
    texts: Tokens,
    others: Tokens,
    *,
    token: Tokens,
    minus: Tokens,
    position: SupportsIndex = -1,
    block: int = 4,
) -> ContrastSet:
    """`contrast` of pairs of texts of one length, several at a time.

    Args:
        model: Of both texts.
        texts: The first of each pair, ``[n_pairs, n_ctx]``.
        others: The second.
        token: Whose logit is compared, for each pair.
        minus: Whose logit is subtracted.
        position: Where the logit is read.
        block: How many pairs are computed at a time, on which memory depends.

    Raises:
        ValueError: If the texts or ids do not fit, or there are fewer than two pairs.
    """
    both = [
        token_ids(ids, model.d_vocab, batch=True, name=name)
        for name, ids in (("texts", texts), ("others", others))
    ]
    asked = [
        token_ids(ids, model.spec.vocab_out, name=name)
        for name, ids in (("token", token), ("minus", minus))
    ]
    n_pairs = len(both[0])
    if n_pairs < 2 or both[0].ndim != 2 or both[0].shape != both[1].shape:
        raise ValueError(
            f"texts and others have shapes {both[0].shape} and {both[1].shape}, must be one, of "
            "two pairs at least"
        )
    if any(ids.shape != (n_pairs,) for ids in asked):
        raise ValueError(f"token and minus must be of {n_pairs} ids, one for each pair")
    if (same := np.flatnonzero(asked[0] == asked[1])).size:
        raise ValueError(f"minus[{same[0]}] is the id of token[{same[0]}], must be another one")
    place = jnp.full(n_pairs, counted_index("position", position, both[0].shape[1]), jnp.int32)
    model = jax.tree.map(at_least_single, model)
    each = _in_blocks(
        model, jnp.stack(both, 1), jnp.stack([*asked, place], 1), whole("block", block, 1)
    )
    factor = stats.t.ppf((1 + LEVEL) / 2, n_pairs - 1) / np.sqrt(n_pairs)

    def over_pairs(statistic: Any) -> Contrast:
        found = jax.tree.map(lambda x: statistic(np.asarray(x)), each)
        return found._replace(tokens=each.tokens[0], asked=each.asked[0])

    mean = over_pairs(lambda x: x.mean(axis=0))
    return ContrastSet(each, mean, over_pairs(lambda x: factor * x.std(axis=0, ddof=1)))


@compiled("block")
def _in_blocks(
    model: Model,
    texts: Int[Array, "n_pairs 2 n_ctx"],
    asked: Int[Array, "n_pairs 3"],
    block: int,
) -> Contrast:
    def one(pair: tuple[Array, Array]) -> Contrast:
        return contrast_of_texts(model, *pair)

    return jax.lax.map(one, (texts, asked), batch_size=block)
