"""Values of paths of each order, and of the heads of each layer, in two-layer models.

The losses are those of `circuits.window_readings`: with all paths up to each order, and with the
order-1 terms of no layer, of either one and of both.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.nulls import Null

TINY = 1e-12
# The null that `without_redundancy` draws.
SAVINGS_ADD_UP = Null(
    "false world",
    "savings of both layers add up: what is saved twice has a mean of 0, shuffled among seeds",
)
# The null that `nearness_alone` draws.
NEARNESS = Null(
    "false world",
    "attention falls with distance alone: from the previous token to the next two as from the "
    "second to the third in another head of the same seed, drawn at random",
)


class TermWorth(NamedTuple):
    """Nats a token that are saved, one number for each member.

    Source: framework paper, term importance analysis; it prints 1.8, 5.2 and 0.3 nats by order, and
    1.3, 0.05 and 4.0 for the first layer alone, the first behind the second, and the second.

    Attributes:
        direct: By the direct path, over uniform guessing.
        heads: By single heads, once the direct path is there.
        virtual: By virtual heads, once single heads are there.
        first_alone: By the first layer's heads, given the direct path alone.
        first_last: By the first layer's heads, given the second layer's too.
        second_last: By the second layer's heads, given the first layer's too.
    """

    direct: xr.DataArray
    heads: xr.DataArray
    virtual: xr.DataArray
    first_alone: xr.DataArray
    first_last: xr.DataArray
    second_last: xr.DataArray

    @property
    def of_all_orders(self) -> xr.DataArray:
        """By paths of all orders together, over uniform guessing."""
        return self.direct + self.heads + self.virtual

    @property
    def of_both_layers(self) -> xr.DataArray:
        """By single heads of both layers together, once the direct path is there."""
        return self.first_alone + self.second_last


def term_worth(members: xr.Dataset) -> TermWorth:
    """Differences of the losses of a record.

    Args:
        members: With ``uniform``, ``order_loss`` ``[member, order]`` and ``first_order_loss``
            ``[member, selection]``, whose selections are no layer, the first, the second, and both.
    """
    order, first = members.order_loss, members.first_order_loss
    none, layer_0, layer_1, both = (first.isel(selection=i) for i in range(4))
    orders = [order.isel(order=k) for k in range(3)]
    return TermWorth(
        members.uniform - orders[0],
        orders[0] - orders[1],
        orders[1] - orders[2],
        none - layer_0,
        layer_1 - both,
        layer_0 - both,
    )


def without_redundancy(
    alone: xr.DataArray, last: xr.DataArray, n_draws: int = 1000, seed: int = 0
) -> list[Estimate]:
    """Shares of its saving that a layer keeps beside the other, were both savings to add up.

    What seed i saves twice, ``r_i = alone_i - last_i``, is shifted to a mean of 0 and shuffled
    among seeds: ``mean_i (alone_i - r_s(i)) / alone_i``.

    Args:
        alone: What the layer saves without the other, ``[member]``.
        last: What it saves after the other, likewise.
        n_draws: Draws, at least 1.
        seed: Seed of the permutations.
    """
    saved, twice = alone.values, (alone - last).values
    rng = np.random.default_rng(seed)
    shuffled = (rng.permutation(twice - twice.mean()) for _ in range(n_draws))
    return [mean_estimate((saved - row) / saved) for row in shuffled]


def even_attention(n_ctx: int) -> float:
    """The attention of a head that attends to all tokens so far alike to any one of them.

    ``mean_t 1/(t + 1)`` over the second half of the context, where attention is tabled.
    """
    return float((1 / (1 + np.arange(n_ctx // 2, n_ctx))).mean())


def previous_preferred(members: xr.Dataset) -> xr.DataArray:
    """Attention to the previous token, less the greater of that to the tokens beside it.

    ``a_1 - max(a_0, a_2)``, mean over first-layer heads, ``[member]``.

    Args:
        members: With ``attention`` ``[member, layer, head, offset]``, from offset 0 on.

    Raises:
        ValueError: If fewer than four offsets are on record, which `nearness_alone` needs.
    """
    if (n_offsets := members.sizes["offset"]) < 4:
        raise ValueError(f"attention has {n_offsets} offsets, must have those of 0 to 3 tokens")
    near = members.attention.isel(layer=0)
    return (near.isel(offset=1) - near.isel(offset=[0, 2]).max("offset")).mean("head")


def nearness_alone(members: xr.Dataset, n_draws: int = 1000, seed: int = 0) -> list[Estimate]:
    """Means of `previous_preferred` where attention falls with distance and prefers no offset.

    From the previous token on it falls as it does behind: ``a_1 = a_2 r`` with the ratio
    ``r = a_2 / a_3`` of another head of the same seed; the present token keeps its attention.

    Args:
        members: As for `previous_preferred`.
        n_draws: Draws, at least 1.
        seed: Seed of the permutations.
    """
    near, rng = members.attention.isel(layer=0), np.random.default_rng(seed)
    present, _, second, third = near.transpose("offset", "member", "head").values[:4]
    beside, ratio = np.maximum(present, second), second / np.maximum(third, TINY)
    continued = (second * rng.permuted(ratio, axis=1) for _ in range(n_draws))
    return [mean_estimate((previous - beside).mean(axis=1)) for previous in continued]
