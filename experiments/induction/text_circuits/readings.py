"""Two layers on text read: what paths of each order are worth, and who looks where."""

import numpy as np
import xarray as xr

from circuitax.records.record import members_where
from circuitax.records.sample import Sample, exactly, mean_of
from experiments.induction.shared.figure_term_panels import distance, terms
from experiments.induction.shared.measures_term_worth import (
    even_attention,
    previous_preferred,
    term_worth,
)

__all__ = ["WORLDS", "distance", "even_share", "heads_near", "layers", "orders", "positional"]
__all__ += ["terms"]


def before_training(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The same models with their weights at the start."""
    return data.assign(order_loss=data.order_loss_by_step.isel(step=0, drop=True))


WORLDS = {"before training": before_training}


def orders(data: xr.Dataset) -> dict[str, Sample]:
    """Nats a token that paths of order 0, 1 and 2 save, their differences and shares."""
    members = members_where(data)
    above = members.order_loss.isel(order=0) - members.bigram_loss
    return term_worth(members).named("text") | {"text-order-0-above-bigram": mean_of(above)}


def layers(data: xr.Dataset) -> dict[str, Sample]:
    """What single heads of a layer save with and without those of the other one."""
    return term_worth(members_where(data)).named("text")


def heads_near(data: xr.Dataset) -> dict[str, Sample]:
    """How much first-layer heads prefer the previous token, and the attention of the best to it."""
    members = members_where(data)
    best = members.attention.isel(layer=0, offset=1).max("head")
    return {
        "text-local": mean_of(previous_preferred(members)),
        "text-previous-head": mean_of(best),
    }


def even_share(data: xr.Dataset) -> Sample:
    """Attention to the previous token of a head that attends to all tokens alike."""
    return exactly(even_attention(int(data.n_ctx)))


def positional(data: xr.Dataset) -> Sample:
    """Share of the variance over sources of first-layer scores that positions make."""
    return mean_of(members_where(data).positional.mean("head"))
