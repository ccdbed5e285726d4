"""Weights of the Hugging Face Hub's families, under our names and in our layout."""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike

from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, NormWeights
from circuitax.memory import machine_bytes
from circuitax.models.hub_layouts import LAYOUTS, Layout, Part
from circuitax.models.tensors import Tensors

_ALIGNMENT = 64  # bytes


def model_from_hub(
    tensors: Tensors, family: str, spec: TransformerSpec, dtype: DTypeLike, *, tied: bool
) -> Model:
    """A model of a Hub family."""
    # A model with a head for its task has one more name in front of all that is inside.
    prefix = ""
    for known in ("model.", "transformer.", "gpt_neox.", "language_model.model."):
        if any(name.startswith(known) for name in tensors.names):
            prefix = known
    layout = LAYOUTS[family](spec, prefix)
    return model_from_layout(tensors, layout, spec, dtype, tied=tied)


def model_from_layout(
    tensors: Tensors, layout: Layout, spec: TransformerSpec, dtype: DTypeLike, *, tied: bool
) -> Model:
    """A model whose weights a `Layout` places; arguments and errors as of `model_from_hub`."""
    tensors.require_layers(spec.n_layers)
    parts = dict(layout.parts)
    known: set[str] = set()
    untied = parts["W_U"]
    if tied:
        if untied.key in tensors.names:
            known.add(untied.key)  # some files keep the shared array under both names
        del parts["W_U"]
    # The largest first: what is read later adds its own size once more while it is copied.
    sizes = {ours: math.prod(part.shape) * _count(part, spec) for ours, part in parts.items()}
    needed, memory = sum(sizes.values()) * np.dtype(dtype).itemsize, machine_bytes()
    if memory is not None and needed > memory:
        raise ValueError(
            f"the weights would take {needed:.1e} bytes as {np.dtype(dtype)}, must fit into the "
            f"{memory:.1e} of this machine"
        )
    named: dict[str, Array] = {}
    for ours in sorted(parts, key=lambda name: -sizes[name]):
        part = parts[ours]
        keys = [part.key.format(layer) for layer in range(_count(part, spec))]
        if part.optional and not any(key in tensors.names for key in keys):
            if layout.zeros:
                named[ours] = jnp.zeros(_whole_shape(part, len(keys)), dtype)
            continue
        known.update(keys)
        named[ours] = _stacked(tensors, part, keys, dtype)
        if ours == "W_E" and tied:
            # Before an embedding scale, which the unembedding does not have.
            named["W_U"] = jax.block_until_ready(named["W_E"].T)
    if layout.embed_scale != 1.0:
        named["W_E"] = named["W_E"] * jnp.asarray(layout.embed_scale, dtype)
    for name in sorted(tensors.names):
        if name not in known and not name.endswith(layout.ignored):
            raise ValueError(f"weight {name!r} has no place in a model with this config")
    return _model(spec, named)


def _count(part: Part, spec: TransformerSpec) -> int:
    return spec.n_layers if "{}" in part.key else 1


def _whole_shape(part: Part, n_layers: int) -> tuple[int, ...]:
    """Shape of ours, with an axis of layers where there are some."""
    shape = part.convert(np.empty(part.shape, np.bool_)).shape
    return (n_layers, *shape) if "{}" in part.key else shape


def _stacked(tensors: Tensors, part: Part, keys: list[str], dtype: DTypeLike) -> Array:
    """One weight of all layers, written into place layer by layer."""
    working = np.promote_types(np.dtype(dtype), np.float32)
    layered = "{}" in part.key
    whole: np.ndarray | None = None
    for layer, key in enumerate(keys):
        one = part.convert(tensors.take(key, part.shape).astype(working, copy=False))
        if not layered:
            whole = one
            break
        if whole is None:
            whole = _aligned((len(keys), *one.shape), working)
        whole[layer] = one
    if whole is None:
        return jnp.zeros(_whole_shape(part, 0), dtype)
    # JAX takes aligned memory as it is; what it copies it lets go of much later.
    if not layered:
        whole, given = _aligned(whole.shape, working), whole
        whole[...] = given
    return jax.block_until_ready(jnp.asarray(whole, dtype))


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array without values that begins at a multiple of 64 bytes."""
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)


def _model(spec: TransformerSpec, named: Mapping[str, Array]) -> Model:
    def fields(place: str, kinds: tuple[str, ...]) -> dict[str, Array]:
        return {kind: named[place + kind] for kind in kinds if place + kind in named}

    def norm(place: str) -> NormWeights | None:
        found = fields(place + ".", NormWeights._fields)
        return NormWeights(**found) if found else None

    mlp = fields("blocks.mlp.", MLPWeights._fields)
    blocks = Blocks(
        HeadStack(**fields("blocks.attention.", HeadStack._fields)),
        norm("blocks.attention_norm"),
        MLPWeights(**mlp) if mlp else None,
        norm("blocks.mlp_norm"),
        norm("blocks.attention_post_norm"),
        norm("blocks.mlp_post_norm"),
    )
    biases = any(name.rpartition(".")[2].startswith("b_") for name in named)
    return Model(
        spec.replace(biases=biases),
        **fields("", ("W_E", "W_U", "W_pos", "b_U")),
        blocks=blocks,
        final_norm=norm("final_norm"),
    )
