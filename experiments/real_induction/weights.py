"""The model that is read: SmolLM2 where its package is installed, or a small random one."""

import jax
import jax.numpy as jnp

from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.pretrained import load_pretrained
from circuitax.models.smollm2 import has_smollm2
from circuitax.models.transformer import init_model

REAL, RANDOM = NAMES = ("smollm2", "random")
SMALL = TransformerSpec(
    d_vocab=40,
    n_layers=3,
    n_heads=4,
    n_kv_heads=2,
    d_model=16,
    positions=Positions.rotary,
    norm=Norm.rmsnorm,
)


def open_weights(name: str, key: jax.Array) -> Model | None:
    """The model of that name; None where its package is not installed.

    Args:
        name: One of `NAMES`.
        key: For the random model.
    """
    if name == RANDOM:
        return init_model(key, SMALL, jnp.zeros(()).dtype)
    return load_pretrained("smollm2") if has_smollm2() else None
