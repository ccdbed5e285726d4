"""Values of paths of each order, and of the heads of each layer, in two-layer models.

The losses are those of `window_readings`: with all paths up to each order, and with the
order-1 terms of no layer, of either one and of both.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from circuitax.records.sample import Sample, mean_of


class TermWorth(NamedTuple):
    """Nats a token that are saved, one number for each member.

    Source: framework paper, term importance analysis; it prints 1.8, 5.2 and 0.3 nats by order, and
    1.3, 0.05 and 4.0 for the first layer alone, the first behind the second, and the second.
    """

    direct: xr.DataArray  # over uniform guessing
    heads: xr.DataArray  # single heads, once the direct path is there
    virtual: xr.DataArray  # virtual heads, once single heads are there
    first_alone: xr.DataArray  # heads of the first layer, given the direct path alone
    first_last: xr.DataArray  # those, given the second layer's too
    second_last: xr.DataArray  # heads of the second layer, given the first layer's too

    @property
    def of_all_orders(self) -> xr.DataArray:
        """By paths of all orders together, over uniform guessing."""
        return self.direct + self.heads + self.virtual

    @property
    def of_both_layers(self) -> xr.DataArray:
        """By single heads of both layers together, once the direct path is there."""
        return self.first_alone + self.second_last

    def named(self, text: str) -> dict[str, Sample]:
        """Means, differences and shares by the ids of rows, which begin with a word for the text.

        "Nearly redundant" is what heads of the first layer save given the second's, over alone.
        """
        values = {
            "order-0": self.direct,
            "order-1-above-0": self.heads - self.direct,
            "order-1-above-2": self.heads - self.virtual,
            "order-2": self.virtual,
            "order-1-share": self.heads / self.of_all_orders,
            "order-2-share": self.virtual / self.of_all_orders,
            "layer-0-nearly-redundant": self.first_last / self.first_alone,
            "layer-1-above-0": self.second_last - self.first_last,
            "layer-1-share": self.second_last / self.of_both_layers,
        }
        return {f"{text}-{name}": mean_of(each) for name, each in values.items()}


def term_worth(members: xr.Dataset) -> TermWorth:
    """Differences of ``order_loss`` and ``first_order_loss`` of no layer, either one, and both."""
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


def even_attention(n_ctx: int) -> float:
    """The attention of a head that attends to all tokens so far alike to any one of them.

    ``mean_t 1/(t + 1)`` over the second half of the context, where attention is tabled.
    """
    return float((1 / (1 + np.arange(n_ctx // 2, n_ctx))).mean())


def previous_preferred(members: xr.Dataset) -> xr.DataArray:
    """Attention to the previous token, less the greater of that to the tokens beside it.

    ``a_1 - max(a_0, a_2)``, mean over first-layer heads, ``[member]``.
    """
    near = members.attention.isel(layer=0)
    return (near.isel(offset=1) - near.isel(offset=[0, 2]).max("offset")).mean("head")
