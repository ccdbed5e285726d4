"""Use of the residual stream in a real model: what the framework paper says beside figures.

Embeddings vary along few directions of the stream and leave the others free; some neurons write
against what they read; some heads take back what stands at the present token. All three were seen
in the paper's models, and are looked for in SmolLM2-135M.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int

from circuitax.circuits.detectors import detect, previous_mask
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.circuits.weights.spectra import copying_score
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import chain_of
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.linalg import cosine
from circuitax.kernel.model import Model
from circuitax.kit.real_model import at_hand, open_weights, text_excerpts
from circuitax.lab.lab import Lab
from experiments.real_models.shared.real_spec import RealSpec


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, and the amount of text.

    Attributes:
        texts: Stretches of prose, one from the beginning of each chapter.
        length: Tokens of a stretch.
        bins: Of the histogram of cosines.
    """

    texts: Annotated[int, "[2, inf)"] = 4
    length: Annotated[int, "[2, inf)"] = 128
    bins: Annotated[int, "[2, inf)"] = 100


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Spectra, cosines and eigenvalues of weights; attention on text; without packages say how."""
    notes = at_hand(spec.weights, lab, text=True)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "texts"))
    rows = jnp.asarray(text_excerpts(spec.weights, rng, spec.texts, spec.length))
    present = lab.stage("present", lambda: np.stack([attention_to_present(model, r) for r in rows]))
    cosines = {name: np.asarray(value) for name, value in neuron_cosines(model).items()}
    edges = np.linspace(-1, 1, spec.bins + 1)
    counts = [np.histogram(cosines[name], edges)[0] for name in cosines]
    arrays = {
        "variance": ("component", np.asarray(variances(model.W_E))),
        "count": (("map", "bin"), np.stack(counts)),
        "eigenvalues": (("layer", "head"), np.asarray(head_eigenvalues(model))),
        "present": (("text", "layer", "head"), present),
    }
    coords = {"map": list(cosines), "centre": ("bin", (edges[1:] + edges[:-1]) / 2)}
    tied = bool(jnp.array_equal(model.W_E, model.W_U.T))
    return xr.Dataset(arrays, coords, notes | {"tied": tied})


def variances(W_E: Float[Array, "d_vocab d_model"]) -> Float[Array, " d_model"]:
    """Share of the variance over tokens along each principal component, the largest first."""
    centred = W_E - W_E.mean(axis=0, keepdims=True)
    sizes = jnp.linalg.eigvalsh(centred.T @ centred)[::-1]
    return jnp.maximum(sizes, 0) / sizes.sum()


def neuron_cosines(model: Model) -> dict[str, Float[Array, "n_layers d_mlp"]]:
    """Cosines of each neuron's output direction with its input and its gate direction.

    The norm before the MLP is folded into what it reads.
    """
    mlp = model.blocks.mlp
    if mlp is None:
        raise ValueError(f"model={model.spec} must have MLPs")
    reads = {"read": mlp.W_in} | ({} if mlp.W_gate is None else {"gate": mlp.W_gate})
    found = {}
    for name, W in reads.items():
        folded, _ = fold_read(W, None, model.spec.norm, model.blocks.mlp_norm)
        found[name] = cosine(jnp.swapaxes(folded, -1, -2), mlp.W_out)
    return found


def head_eigenvalues(model: Model) -> Float[Array, "n_layers n_heads"]:
    """Eigenvalue score of ``W_V W_O``: near -1 for an erasing head."""
    heads, gain = per_head(model), over_heads(model.blocks.attention_norm)
    W_V, _ = fold_read(heads.W_V, None, model.spec.norm, gain)
    return copying_score(chain_of(W_V, heads.W_O))


@jax.jit
def attention_to_present(
    model: Model, text: Int[Array, " n_ctx"]
) -> Float[Array, "n_layers n_heads"]:
    """Mean attention of every head to the position it stands at."""
    patterns = forward(model, text)[1].patterns
    return detect(patterns, previous_mask(text, 0)).score
