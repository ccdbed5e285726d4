"""Weights of the Hugging Face Hub's families, under our names and in our layout."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Shaped

from circuitax.cores import machine_bytes
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import model_from_names
from circuitax.models.sources import Tensors


def to_neighbours(x: Shaped[np.ndarray, "*shape"], n_turned: int) -> Shaped[np.ndarray, "*shape"]:
    """Pairs (i, i + n_turned/2) of the last axis moved to (2i, 2i + 1), as in `kernel.rotary`."""
    if n_turned % 2:
        raise ValueError(f"n_turned={n_turned} must be even")
    order = np.arange(x.shape[-1])
    half = n_turned // 2
    order[0:n_turned:2], order[1:n_turned:2] = np.arange(half), half + np.arange(half)
    return x[..., order]


Convert = Callable[[np.ndarray], np.ndarray]


class Part(NamedTuple):
    """Location of one of our weights in a file; ``{}`` in the key stands for the layer.

    Attributes:
        shape: In the file.
        convert: To ours, of one layer.
    """

    key: str
    shape: tuple[int, ...]
    convert: Convert
    optional: bool = False


class Layout(NamedTuple):
    """Layout of a family's weights, and the entries of its files that are ignored.

    Attributes:
        ignored: Ends of names of buffers.
        zeros: Whether optional weights that are absent are 0, and not None.
        scales: Factors on weights of ours; a tied unembedding does not have the embedding's.
        rounded: Whether factors have the weights' type before they multiply, as Gemma's do.
    """

    parts: dict[str, Part]
    ignored: tuple[str, ...] = ()
    zeros: bool = False
    scales: Mapping[str, float] = {}
    rounded: bool = False


class Hub(NamedTuple):
    """What the settings of a model of the Hub say.

    Attributes:
        spec: Without the flags set by weights.
        layout: Of the weights, by the prefix of their names.
        tied: Whether the unembedding is the embedding.
        biases: Key and value that give a map its bias, by the map's name.
    """

    spec: TransformerSpec
    layout: Callable[[str], Layout]
    tied: bool
    biases: dict[str, tuple[str, Any]]


def llama_layout(
    spec: TransformerSpec,
    prefix: str,
    *,
    halves: bool = True,
    unit_gain: bool = False,
    scales: Mapping[str, float] | None = None,
    renamed: Mapping[str, str] = MappingProxyType({}),
    first_position: int = 0,
) -> Layout:
    """Llama's files, and those of the families that are named after it, or have other names.

    ``renamed`` has the family's word for pieces of Llama's names, ``""`` for those that it lacks;
    ``first_position`` is the row of the first token in the table of positions.
    """
    d, d_head, n_heads, n_kv = spec.d_model, spec.head_width, spec.n_heads, spec.kv_heads
    d_mlp = spec.d_mlp or 0
    at = prefix + "layers.{}."
    turned = partial(to_neighbours, n_turned=spec.rotary_width) if halves else np.asarray
    gain: Convert = (lambda g: 1 + g) if unit_gain else np.asarray

    def heads(name: str, n: int, order: Convert) -> dict[str, Part]:
        letter, here = name[0].upper(), at + f"self_attn.{name}."
        width = n * d_head
        return {
            f"blocks.attention.W_{letter}": Part(
                here + "weight", (width, d), lambda W: order(_heads_in(W, n))
            ),
            f"blocks.attention.b_{letter}": Part(
                here + "bias", (width,), lambda b: order(b.reshape(n, -1)), optional=True
            ),
        }

    def bare(key: str, size: int, convert: Convert = np.asarray, optional: bool = False) -> Part:
        return Part(key, (size,), convert, optional)

    inside = "pre_feedforward_layernorm" if spec.post_norm else "post_attention_layernorm"
    parts = {
        "W_E": Part(prefix + "embed_tokens.weight", (spec.d_vocab, d), np.asarray),
        "W_U": Part("lm_head.weight", (spec.vocab_out, d), np.transpose),
        **heads("q_proj", n_heads, turned),
        **heads("k_proj", n_kv, turned),
        **heads("v_proj", n_kv, np.asarray),
        "blocks.attention.W_O": Part(
            at + "self_attn.o_proj.weight", (d, n_heads * d_head), partial(_heads_out, n=n_heads)
        ),
        "blocks.attention.b_O": bare(at + "self_attn.o_proj.bias", d, optional=True),
        "blocks.attention_norm.gain": bare(at + "input_layernorm.weight", d, gain),
        "blocks.mlp_norm.gain": bare(at + inside + ".weight", d, gain),
        "final_norm.gain": bare(prefix + "norm.weight", d, gain),
    }
    if spec.norm == Norm.layernorm:
        for place in ("blocks.attention_norm", "blocks.mlp_norm", "final_norm"):
            key = parts[place + ".gain"].key.removesuffix("weight") + "bias"
            parts[place + ".offset"] = bare(key, d)
    if spec.norm == Norm.layernorm_pre:
        parts = {name: part for name, part in parts.items() if not name.endswith(".gain")}
    if not spec.pre_norm:
        del parts["blocks.attention_norm.gain"], parts["blocks.mlp_norm.gain"]
    if spec.positions.needs_table:
        rows = (spec.n_ctx or 0) + first_position
        key = prefix + "embed_positions.weight"
        parts["W_pos"] = Part(key, (rows, d), lambda W: W[first_position:])
    for name, theirs, shape in (
        ("gate", "gate_proj", (d_mlp, d)),
        ("in", "up_proj", (d_mlp, d)),
        ("out", "down_proj", (d, d_mlp)),
    ):
        if spec.gated or name != "gate":
            key = at + f"mlp.{theirs}."
            parts[f"blocks.mlp.W_{name}"] = Part(key + "weight", shape, np.transpose)
            parts[f"blocks.mlp.b_{name}"] = bare(key + "bias", shape[0], optional=True)
    for name, n in (("q", n_heads), ("k", n_kv)) if spec.qk_norm else ():
        # Of one head, or of all in a row.
        form = (n, d_head) if spec.joint_qk_norm else (d_head,)
        parts[f"blocks.attention.{name}_gain"] = bare(
            at + f"self_attn.{name}_norm.weight",
            math.prod(form),
            lambda g, form=form: turned(gain(g).reshape(form)),  # type: ignore[misc]
        )
    if spec.post_norm:
        for ours, theirs in (("attention", "attention"), ("mlp", "feedforward")):
            parts[f"blocks.{ours}_post_norm.gain"] = bare(
                at + f"post_{theirs}_layernorm.weight", d, gain
            )
    for ours, part in parts.items():
        pieces = [renamed.get(piece, piece) for piece in part.key.split(".")]
        parts[ours] = part._replace(key=".".join(filter(None, pieces)))
    usual = {"W_E": d**0.5} if unit_gain else {}
    buffers = ("rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias")
    return Layout(parts, buffers, scales=scales or usual, rounded=unit_gain)


def phi3_layout(spec: TransformerSpec, prefix: str) -> Layout:
    """Llama's, with queries, keys and values in one map, and so gate and input of the MLP."""
    layout = llama_layout(spec, prefix)
    for key, names in (
        ("self_attn.qkv_proj", [f"attention.W_{letter}" for letter in "QKV"]),
        ("mlp.gate_up_proj", ["mlp.W_gate", "mlp.W_in"]),
    ):
        pieces = [layout.parts[f"blocks.{name}"] for name in names]
        ends = np.cumsum([0, *(piece.shape[0] for piece in pieces)])
        for i, (name, piece) in enumerate(zip(names, pieces, strict=True)):
            layout.parts[f"blocks.{name}"] = Part(
                f"{prefix}layers.{{}}.{key}.weight",
                (int(ends[-1]), spec.d_model),
                lambda W, rows=slice(ends[i], ends[i + 1]), to=piece.convert: to(W[rows]),  # type: ignore[misc]
            )
    return layout


def gpt_layout(spec: TransformerSpec, prefix: str, tokens: str, positions: str) -> Layout:
    """GPT and GPT-2 files, which differ in the names of their tables."""
    d, n, d_mlp = spec.d_model, spec.n_heads, spec.d_mlp or 0
    at = prefix + "h.{}."
    parts = {
        "W_E": Part(f"{prefix}{tokens}.weight", (spec.d_vocab, d), np.asarray),
        "W_U": Part("lm_head.weight", (spec.vocab_out, d), np.transpose),
        "W_pos": Part(f"{prefix}{positions}.weight", (spec.n_ctx or 0, d), np.asarray),
        "blocks.attention.W_O": Part(
            at + "attn.c_proj.weight", (d, d), lambda W: W.reshape(n, -1, d)
        ),
        "blocks.attention.b_O": Part(at + "attn.c_proj.bias", (d,), np.asarray),
        "blocks.mlp.W_in": Part(at + "mlp.c_fc.weight", (d, d_mlp), np.asarray),
        "blocks.mlp.b_in": Part(at + "mlp.c_fc.bias", (d_mlp,), np.asarray),
        "blocks.mlp.W_out": Part(at + "mlp.c_proj.weight", (d_mlp, d), np.asarray),
        "blocks.mlp.b_out": Part(at + "mlp.c_proj.bias", (d,), np.asarray),
        **_layer_norm("blocks.attention_norm", at + "ln_1", d),
        **_layer_norm("blocks.mlp_norm", at + "ln_2", d),
    }
    if spec.final_norm:
        parts |= _layer_norm("final_norm", prefix + "ln_f", d)
    for i, letter in enumerate("QKV"):
        # Its maps are kept as [in, out], queries, keys and values side by side.
        parts[f"blocks.attention.W_{letter}"] = Part(
            at + "attn.c_attn.weight",
            (d, 3 * d),
            lambda W, i=i: _heads_in(W[:, i * d : (i + 1) * d].T, n),  # type: ignore[misc]
        )
        parts[f"blocks.attention.b_{letter}"] = Part(
            at + "attn.c_attn.bias",
            (3 * d,),
            lambda b, i=i: b[i * d : (i + 1) * d].reshape(n, -1),  # type: ignore[misc]
        )
    return Layout(parts, (".attn.bias", ".attn.masked_bias", "position_ids"))


def gpt_neox_layout(spec: TransformerSpec, prefix: str) -> Layout:
    d, n, d_mlp, d_head = spec.d_model, spec.n_heads, spec.d_mlp or 0, spec.head_width
    at = prefix + "layers.{}."
    parts = {
        "W_E": Part(prefix + "embed_in.weight", (spec.d_vocab, d), np.asarray),
        "W_U": Part("embed_out.weight", (spec.vocab_out, d), np.transpose),
        "blocks.attention.W_O": Part(
            at + "attention.dense.weight", (d, d), partial(_heads_out, n=n)
        ),
        "blocks.attention.b_O": Part(at + "attention.dense.bias", (d,), np.asarray, optional=True),
        "blocks.mlp.W_in": Part(at + "mlp.dense_h_to_4h.weight", (d_mlp, d), np.transpose),
        "blocks.mlp.b_in": Part(at + "mlp.dense_h_to_4h.bias", (d_mlp,), np.asarray),
        "blocks.mlp.W_out": Part(at + "mlp.dense_4h_to_h.weight", (d, d_mlp), np.transpose),
        "blocks.mlp.b_out": Part(at + "mlp.dense_4h_to_h.bias", (d,), np.asarray),
        **_layer_norm("blocks.attention_norm", at + "input_layernorm", d),
        **_layer_norm("blocks.mlp_norm", at + "post_attention_layernorm", d),
        **_layer_norm("final_norm", prefix + "final_layer_norm", d),
    }
    turned = partial(to_neighbours, n_turned=spec.rotary_width)
    orders: dict[str, Convert] = {"Q": turned, "K": turned, "V": np.asarray}
    for i, (letter, order) in enumerate(orders.items()):
        # Rows are grouped by head first, then query, key, value.
        def weight(W: np.ndarray, i: int = i, order: Convert = order) -> np.ndarray:
            return order(W.reshape(n, 3, d_head, d)[:, i].transpose(0, 2, 1))

        def bias(b: np.ndarray, i: int = i, order: Convert = order) -> np.ndarray:
            return order(b.reshape(n, 3, d_head)[:, i])

        key = at + "attention.query_key_value."
        parts[f"blocks.attention.W_{letter}"] = Part(key + "weight", (3 * d, d), weight)
        parts[f"blocks.attention.b_{letter}"] = Part(key + "bias", (3 * d,), bias, optional=True)
    buffers = (".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq")
    return Layout(parts, buffers)


def _layer_norm(ours: str, theirs: str, d: int) -> dict[str, Part]:
    return {
        f"{ours}.gain": Part(f"{theirs}.weight", (d,), np.asarray),
        f"{ours}.offset": Part(f"{theirs}.bias", (d,), np.asarray),
    }


def _heads_in(W: np.ndarray, n: int) -> np.ndarray:
    """``[n · width, d_model]`` to ``[n, d_model, width]``."""
    return W.reshape(n, -1, W.shape[1]).transpose(0, 2, 1)


def _heads_out(W: np.ndarray, n: int) -> np.ndarray:
    """``[d_model, n · width]`` to ``[n, width, d_model]``."""
    return W.reshape(W.shape[0], n, -1).transpose(1, 2, 0)


_ALIGNMENT = 64  # bytes


def model_from_hub(tensors: Tensors, hub: Hub, dtype: DTypeLike | None) -> Model:
    """A model of a Hub family."""
    # A model with a head for its task has one more name in front of all that is inside.
    prefix = ""
    for known in (
        *("model.", "decoder.", "model.decoder.", "transformer.", "gpt_neox."),
        "language_model.model.",
    ):
        if any(name.startswith(known) for name in tensors.names):
            prefix = known
    layout, n_layers = hub.layout(prefix), hub.spec.n_layers
    for part in layout.parts.values():
        names = [part.key.format(layer) for layer in range(n_layers)]
        if part.optional and names:
            key, value = hub.biases.get(names[0].split(".")[-2], ("", False))
            found = any(name in tensors.names for name in names)
            if found != bool(value):
                said = f"config key {key!r} is {value!r}" if key else "its family has none"
                raise ValueError(
                    f"weight {names[0]!r} is {'in the file' if found else 'missing'}, but {said}"
                )
    return model_from_layout(tensors, layout, hub.spec, dtype, tied=hub.tied)


def model_from_layout(
    tensors: Tensors, layout: Layout, spec: TransformerSpec, dtype: DTypeLike | None, *, tied: bool
) -> Model:
    """A model whose weights a `Layout` places; arguments and errors as of `model_from_hub`.

    Without a ``dtype`` all have that of the embedding in the file.
    """
    tensors.require_layers(spec.n_layers)
    table = layout.parts["W_E"].key
    if dtype is None and table in tensors.names:
        dtype = tensors.kind(table)
    dtype = jax.dtypes.canonicalize_dtype(jnp.float32 if dtype is None else dtype)
    parts = dict(layout.parts)
    known: set[str] = set()
    untied = parts["W_U"]
    if tied:
        if untied.key in tensors.names:
            known.add(untied.key)  # some files keep the shared array under both names
            first, second = (tensors.take(p.key, p.shape) for p in (parts["W_E"], untied))
            if not np.array_equal(first, second):
                raise ValueError(
                    f"config key 'tie_word_embeddings' is True, but weights {table!r} and "
                    f"{untied.key!r} differ: false opens them both"
                )
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
            # Before a scale of the embedding, which the unembedding does not have.
            named["W_U"] = jax.block_until_ready(named["W_E"].T)
    for ours, scale in layout.scales.items():
        if ours in named and scale != 1.0:
            factor = float(np.asarray(scale, dtype)) if layout.rounded else scale
            named[ours] = (at_least_single(named[ours]) * factor).astype(dtype)
    for name in sorted(tensors.names):
        if name not in known and not name.endswith(layout.ignored):
            raise ValueError(f"weight {name!r} has no place in a model with this config")
    biases = any(name.rpartition(".")[2].startswith("b_") for name in named)
    return model_from_names(named, spec.replace(biases=biases))


def _count(part: Part, spec: TransformerSpec) -> int:
    return spec.n_layers if "{}" in part.key else 1


def _whole_shape(part: Part, n_layers: int) -> tuple[int, ...]:
    """Shape of ours, with an axis of layers where there are some."""
    shape = part.convert(np.empty(part.shape, np.bool_)).shape
    return (n_layers, *shape) if "{}" in part.key else shape


def _stacked(tensors: Tensors, part: Part, keys: list[str], dtype: DTypeLike) -> Array:
    """One weight of all layers, written into place layer by layer, there in its final type."""
    working = np.promote_types(np.dtype(dtype), np.float32)
    whole: np.ndarray | None = None
    for layer, key in enumerate(keys):
        one = part.convert(tensors.take(key, part.shape).astype(working, copy=False))
        if whole is None:
            whole = _aligned(_whole_shape(part, len(keys)), np.dtype(dtype))
        (whole[layer] if "{}" in part.key else whole)[...] = one
    if whole is None:
        return jnp.zeros(_whole_shape(part, 0), dtype)
    # JAX takes aligned memory as it is; what it copies it lets go of much later.
    return jax.block_until_ready(jax.device_put(whole))


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array without values that begins at a multiple of 64 bytes."""
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    buffer = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + n_bytes].view(dtype).reshape(shape)
