"""Weights in TransformerLens's names and layout, both ways."""

import re
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike

from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.extract_transformer import params_from_model
from circuitax.models.hub_layouts import Layout, Part
from circuitax.models.hub_weights import model_from_layout
from circuitax.models.parameters import transformer_parameters
from circuitax.models.rotary_layout import to_neighbours
from circuitax.models.tensors import Tensors

# Our weights outside of layers and inside one, and TransformerLens's.
_TOP = {
    "W_E": "embed.W_E",
    "W_pos": "pos_embed.W_pos",
    "W_U": "unembed.W_U",
    "b_U": "unembed.b_U",
    "final_norm.gain": "ln_final.w",
    "final_norm.offset": "ln_final.b",
}
_LAYER = {
    **{f"attention.{kind}_{of}": f"attn.{kind}_{of}" for kind in "Wb" for of in "QKVO"},
    **{f"mlp.{kind}_{of}": f"mlp.{kind}_{of}" for kind in "Wb" for of in ("in", "out")},
    "mlp.W_gate": "mlp.W_gate",
    "attention.q_gain": "attn.q_norm.w",
    "attention.k_gain": "attn.k_norm.w",
    "attention_norm.gain": "ln1.w",
    "attention_norm.offset": "ln1.b",
    "mlp_norm.gain": "ln2.w",
    "mlp_norm.offset": "ln2.b",
}
_TURNED = ("W_Q", "W_K", "b_Q", "b_K", "q_gain", "k_gain")
BUFFERS = tuple(f".attn.{name}" for name in ("mask", "IGNORE", "rotary_sin", "rotary_cos"))


def lens_layout(spec: TransformerSpec, *, grouped: bool, halves: bool = False) -> Layout:
    """TransformerLens's files, whose arrays are shaped as ours; absent biases are 0."""
    turned = partial(to_neighbours, n_turned=spec.rotary_width)
    turns = halves and spec.positions == Positions.rotary
    parts = {}
    for ours, parameter in transformer_parameters(spec).items():
        name = ours.rpartition(".")[2]
        parts[ours] = Part(
            _their_name(ours, grouped=grouped),
            parameter.shape[1:] if ours.startswith("blocks.") else parameter.shape,
            turned if turns and name in _TURNED else np.asarray,
            optional=name.startswith("b_"),
        )
    return Layout(parts, 1.0, BUFFERS, zeros=True)


def model_from_lens(
    tensors: Tensors, spec: TransformerSpec, dtype: DTypeLike, *, halves: bool = False
) -> Model:
    """A model of TransformerLens; errors as of `hub_weights.model_from_hub`.

    Its gated MLP adds ``b_in`` after the product with the gate and ours before, so that ``b_in``
    moves into ``b_out``: ``b_out + b_in @ W_out``.
    """
    shared = any("attn._W_K" in name for name in tensors.names)
    layout = lens_layout(spec, grouped=shared or spec.kv_heads != spec.n_heads, halves=halves)
    model = model_from_layout(tensors, layout, spec, dtype, tied=False)
    mlp = model.blocks.mlp
    if not spec.gated or mlp is None:
        return model
    # In double precision, in which the model may be asked for.
    b_in, W_out, b_out = (np.asarray(x, np.float64) for x in (mlp.b_in, mlp.W_out, mlp.b_out))
    late = jnp.asarray(b_out + np.einsum("lm,lmd->ld", b_in, W_out), dtype)
    moved = mlp._replace(b_in=jnp.zeros(b_in.shape, dtype), b_out=late)
    return model.replace(blocks=model.blocks._replace(mlp=moved))


def lens_state(model: Model) -> dict[str, np.ndarray]:
    """The state dict of a model in TransformerLens."""
    spec, state = model.spec, {}
    for ours, array in params_from_model(model).items():
        theirs = _their_name(ours, grouped=spec.kv_heads != spec.n_heads)
        layers = np.asarray(array) if ours.startswith("blocks.") else [np.asarray(array)]
        for layer, one in enumerate(layers):
            state[theirs.format(layer)] = np.ascontiguousarray(one)
    return state


def _their_name(ours: str, *, grouped: bool) -> str:
    """Their name of a weight of ours; ``{}`` stands for the layer."""
    if ours in _TOP:
        return _TOP[ours]
    theirs = _LAYER[ours.removeprefix("blocks.")]
    if grouped:
        theirs = re.sub(r"^attn\.([Wb]_[KV])$", r"attn._\1", theirs)
    return "blocks.{}." + theirs
