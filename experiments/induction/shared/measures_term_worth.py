"""Values of paths of each order, and of the heads of each layer, in two-layer models.

The losses are those of `circuits.window_readings`: with all paths up to each order, and with the
order-1 terms of no layer, of either one and of both.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.nulls import Null

# The null that `without_redundancy` draws.
SAVINGS_ADD_UP = Null(
    "false world",
    "savings of both layers add up: what is saved twice has a mean of 0, shuffled among seeds",
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


def nearest_preferred(members: xr.Dataset) -> xr.DataArray:
    """Attention of first-layer heads to each of the three nearest tokens, less the most to another.

    ``a_k - max over j != k of a_j`` of the present token, the previous one and the one before it,
    ``[member, head, offset]``.

    Args:
        members: With ``attention`` ``[member, layer, head, offset]``, from offset 0 on.

    Raises:
        ValueError: If fewer than three offsets are on record.
    """
    if (n_offsets := members.sizes["offset"]) < 3:
        raise ValueError(f"attention has {n_offsets} offsets, must have those of 0, 1 and 2 tokens")
    near = members.attention.isel(layer=0, offset=slice(3))
    others = [near.isel(offset=[i for i in range(3) if i != k]).max("offset") for k in range(3)]
    return near - xr.concat(others, "offset")


def previous_preferred(members: xr.Dataset) -> xr.DataArray:
    """`nearest_preferred` of the previous token, mean over first-layer heads, ``[member]``."""
    return nearest_preferred(members).isel(offset=1, drop=True).mean("head")


def offsets_exchanged(members: xr.Dataset, n_draws: int = 1000, seed: int = 0) -> list[Estimate]:
    """Means of `previous_preferred` where any of the three tokens is the previous one of a head.

    Args:
        members: As for `nearest_preferred`.
        n_draws: Draws, at least 1.
        seed: Seed of the choices.
    """
    each = nearest_preferred(members).transpose("member", "head", "offset").values
    chosen = np.random.default_rng(seed).integers(3, size=(n_draws, *each.shape[:2], 1))
    drawn = np.take_along_axis(each[None], chosen, axis=-1)[..., 0].mean(axis=-1)
    return [mean_estimate(row) for row in drawn]
