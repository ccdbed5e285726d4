"""Common code of experiments on two-layer models: their texts, and names of the results.

The readings are those of `circuits.weight_readings`, `circuits.window_readings` and
`circuits.text_readings`.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Array, Int, Key

from circuitax.circuits.term_losses import first_order_selections
from circuitax.circuits.weights.composition import KINDS
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.spec import TransformerSpec

HEADS = ("member", "layer", "head")
PAIRS = ("member", "kind", "writer", "reader")
AXES: dict[str, tuple[str, ...]] = {
    "composition": PAIRS,
    "composition_z": PAIRS,
    "composition_most": PAIRS,
    "copying": HEADS,
    "matching": ("member", "writer", "reader"),
    "order_loss": ("member", "order"),
    "first_order_loss": ("member", "selection"),
    "score_loss": ("member", "score_selection"),
    "ablated": HEADS,
    "ablated_preserving": HEADS,
    "attention": (*HEADS, "offset"),
    "positional": ("member", "head"),
    "stripes": HEADS,
    "top_is_match": HEADS,
    "raises": HEADS,
    "prefix": HEADS,
    "previous": HEADS,
    "loss": ("member",),
    "loss_by_position": ("member", "position"),
    "chance": ("member",),
    "identity": ("member",),
}


def n_ctx_for(model: TransformerSpec, offsets: int) -> int:
    """The context of models whose attention is to be tabled by distance.

    Args:
        model: Spec of the models, with a bound on the length of texts.
        offsets: Distances wanted, from the present token back.

    Raises:
        ValueError: If there are more distances than half of the context holds.
    """
    n_ctx = model.n_ctx or 0
    if offsets > n_ctx // 2:
        raise ValueError(f"offsets={offsets} must be at most half of n_ctx={n_ctx}")
    return n_ctx


def repeated_texts(
    key: Key[Array, ""], n_texts: int, model: TransformerSpec
) -> Int[Array, "n_texts n_ctx"]:
    """Random distinct tokens, repeated with periods from a quarter to a half of the context."""
    n_ctx = model.n_ctx or 0
    source = RepeatedSource(
        n_texts,
        n_ctx,
        model.d_vocab,
        min_period=n_ctx // 4,
        max_period=n_ctx // 2,
        distinct=True,
    )
    return source(key)


def circuit_data(
    before: Mapping[str, np.ndarray],
    after: Mapping[str, np.ndarray],
    runs: Mapping[str, np.ndarray],
) -> "xr.Dataset":
    """Measurements of all members, with named axes.

    Args:
        before: `weight_readings` of the untrained models; saved as ``<name>_at_init``.
        after: Those of the trained models.
        runs: Named arrays of the trained models, such as `window_readings` and detector scores.
    """
    arrays = {name: (AXES[name], values) for name, values in {**after, **runs}.items()}
    arrays |= {f"{name}_at_init": (AXES[name], values) for name, values in before.items()}
    selected = (("selection", "subset"), first_order_selections(2).astype(int))
    return xr.Dataset({**arrays, "selected": selected}, coords={"kind": list(KINDS)})
