"""The two models, and their directions as rows."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.weights.folding import fold_read
from circuitax.config.catalogue import checkout
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.real_model import RANDOM, open_weights
from circuitax.lab.runs import ACCEPTED, ARRAYS, PUBLISHED, whole
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2

OURS, SMOLLM2 = "ours", "smollm2"
REAL = "real"
FULL = "full"  # the transformer with MLPs among our text models


class Rows(NamedTuple):
    """Directions of one kind in one model, one in each row.

    Attributes:
        kind: "tokens", "read", "gate" or "write".
        layer: -1 for tokens.
        dim: Dimensions that the rows can have: one less than d_model behind a layer norm's
            centring.
    """

    model: str
    kind: str
    layer: int
    rows: Array
    dim: int


def _accepted() -> Path:
    return checkout() / "results" / "text_models" / ACCEPTED


def own_weights() -> Path:
    """Path of the accepted weights of our text model: one member in half precision."""
    return _accepted() / ARRAYS / f"{PUBLISHED}{FULL}.safetensors"


def open_models(weights: str, key: jax.Array) -> dict[str, Model]:
    """The models that are at hand, by name; small random ones for ``"random"``."""
    if weights == RANDOM:
        keys = {OURS: key, SMOLLM2: derive(key, SMOLLM2)}
        return {name: open_weights(RANDOM, own) for name, own in keys.items()}
    found = {}
    if own_weights().is_file():
        found[OURS] = KeptModels.of_run(whole(_accepted())).published(FULL)[1]
    if has_smollm2():
        found[SMOLLM2] = load_pretrained("smollm2")
    return found


def directions(name: str, model: Model) -> list[Rows]:
    """Embeddings of tokens, and what each neuron reads and writes.

    What a neuron reads has the norm before it folded in, so that it is a direction of the stream
    up to its length.
    """
    mlp, spec = model.blocks.mlp, model.spec
    if mlp is None:
        raise ValueError(f"model={name} must have MLPs: it has no neurons")
    d_model = model.W_E.shape[1]
    reads = {"read": mlp.W_in} | ({} if mlp.W_gate is None else {"gate": mlp.W_gate})
    centred = d_model - (spec.norm == Norm.layernorm)
    found = [Rows(name, "tokens", -1, model.W_E, d_model)]
    for kind, W in reads.items():
        folded, _ = fold_read(W, None, spec.norm, model.blocks.mlp_norm)
        each = np.swapaxes(np.asarray(folded), 1, 2)
        found += [Rows(name, kind, i, jnp.asarray(x), centred) for i, x in enumerate(each)]
    return found + [Rows(name, "write", i, x, d_model) for i, x in enumerate(mlp.W_out)]
