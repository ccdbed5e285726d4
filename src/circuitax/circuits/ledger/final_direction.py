"""The direction along which a ledger reads the final stream, copied to the host."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.ledger.rounding import exponent_of, require_finite
from circuitax.circuits.paths.frozen import FrozenModel


def on_final_stream(
    name: str, frozen: FrozenModel, position: int, direction: Array
) -> tuple[Float[np.ndarray, " d_model"], int]:
    """The direction on the final stream, divided by a power of two, and its exponent."""
    check_host(name, (frozen, direction))
    w, d_model = np.asarray(direction, np.float64), frozen.embedding.shape[1]
    if w.shape != (d_model,):
        raise ValueError(f"direction has shape {w.shape}, must be ({d_model},), d_model")
    if not np.isfinite(w).all():
        raise ValueError("direction must be finite")
    if frozen.read_out.scale is not None:
        w = w / float(frozen.read_out.scale[position])
        require_finite("direction divided by the scale of the final norm", w)
    unit = exponent_of(w)
    return np.ldexp(w, -unit), unit


def check_host(name: str, given: Any) -> None:
    """Refuse traced arrays, which have no concrete values."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
        raise ValueError(
            f"{name} searches on the host and must be called outside jit, vmap and grad; "
            "head_path_values of the paths it finds works inside"
        )
