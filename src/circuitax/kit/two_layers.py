"""What experiments on an upstream's two-layer models share: their spec, and how results are named.

The readings are those of `circuits.weight_readings` and `circuits.window_readings`.
"""

import numpy as np
import xarray as xr

from circuitax.circuits.composition import KINDS
from circuitax.circuits.term_losses import first_order_selections
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.plain import from_plain
from circuitax.records.record import Record


def two_layer_spec(upstream: Record) -> TransformerSpec:
    """The spec of the two-layer models that an upstream experiment trained.

    Raises:
        ValueError: If its deepest attention-only model has fewer layers.
    """
    plain = upstream.notes["model"]
    if plain["n_layers"] < 2:
        raise ValueError(f"upstream has model.n_layers={plain['n_layers']}, must be at least 2")
    return from_plain(plain, n_layers=2)


def circuit_data(
    before: dict[str, np.ndarray], after: dict[str, np.ndarray], runs: dict[str, np.ndarray]
) -> xr.Dataset:
    """What was read of all members, with named axes.

    Args:
        before: `weight_readings` of the untrained models; saved as ``<name>_at_init``.
        after: Those of the trained models.
        runs: `window_readings` of the trained models, and their ``prefix`` scores.
    """
    heads, pairs = ("member", "layer", "head"), ("member", "kind", "writer", "reader")
    axes: dict[str, tuple[str, ...]] = {
        "composition": pairs,
        "composition_z": pairs,
        "copying": heads,
        "matching": ("member", "writer", "reader"),
        "order_loss": ("member", "order"),
        "first_order_loss": ("member", "selection"),
        "loss": ("member",),
        "ablated": heads,
        "ablated_preserving": heads,
        "attention": (*heads, "offset"),
        "positional": ("member", "head"),
        "prefix": heads,
    }
    found = after | runs
    arrays = {name: (dims, found[name]) for name, dims in axes.items()}
    arrays |= {f"{n}_at_init": (axes[n], before[n]) for n in axes if n in before}
    selected = (("selection", "subset"), first_order_selections(2).astype(int))
    return xr.Dataset({**arrays, "selected": selected}, coords={"kind": list(KINDS)})
