"""The fields of a model: their names, axes and common dtype, and checks against a spec.

A weight is named by its place in a `Model`, such as ``blocks.attention.W_Q``.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, NormWeights

Shape = tuple[int, ...]

_HEADS, _MLP = "blocks.attention.", "blocks.mlp."
# An ensemble has an axis of members in front of these.
AXES: dict[str, tuple[str, ...]] = {
    "W_E": ("d_vocab", "d_model"),
    "W_U": ("d_model", "d_vocab_out"),
    "W_pos": ("n_ctx", "d_model"),
    "b_U": ("d_vocab_out",),
    _HEADS + "W_Q": ("n_layers", "n_heads", "d_model", "d_head"),
    _HEADS + "W_K": ("n_layers", "n_kv_heads", "d_model", "d_head"),
    _HEADS + "W_V": ("n_layers", "n_kv_heads", "d_model", "d_value"),
    _HEADS + "W_O": ("n_layers", "n_heads", "d_value", "d_model"),
    _HEADS + "b_Q": ("n_layers", "n_heads", "d_head"),
    _HEADS + "b_K": ("n_layers", "n_kv_heads", "d_head"),
    _HEADS + "b_V": ("n_layers", "n_kv_heads", "d_value"),
    _HEADS + "b_O": ("n_layers", "d_model"),
    _HEADS + "smear": ("n_layers", "n_heads"),
    _HEADS + "q_gain": ("n_layers", "d_head"),
    _HEADS + "k_gain": ("n_layers", "d_head"),
    _MLP + "W_in": ("n_layers", "d_model", "d_mlp"),
    _MLP + "W_out": ("n_layers", "d_mlp", "d_model"),
    _MLP + "W_gate": ("n_layers", "d_model", "d_mlp"),
    _MLP + "b_in": ("n_layers", "d_mlp"),
    _MLP + "b_out": ("n_layers", "d_model"),
    _MLP + "W_hidden": ("n_layers", "n_extra", "d_mlp", "d_mlp"),
    _MLP + "b_hidden": ("n_layers", "n_extra", "d_mlp"),
    _MLP + "b_gate": ("n_layers", "d_mlp"),
    "blocks.attention_norm.gain": ("n_layers", "d_model"),
    "blocks.attention_norm.offset": ("n_layers", "d_model"),
    "blocks.mlp_norm.gain": ("n_layers", "d_model"),
    "blocks.mlp_norm.offset": ("n_layers", "d_model"),
    "blocks.attention_post_norm.gain": ("n_layers", "d_model"),
    "blocks.mlp_post_norm.gain": ("n_layers", "d_model"),
    "final_norm.gain": ("d_model",),
    "final_norm.offset": ("d_model",),
}
# The weights that decide sizes; all others are checked against them.
_DECIDE = (
    *("W_E", "W_U", "W_pos", _HEADS + "W_Q", _HEADS + "W_V"),
    *(_MLP + "W_in", _MLP + "W_hidden"),
)


def axes_of(name: str, spec: TransformerSpec) -> tuple[str, ...]:
    """The axes of one weight in a model of this spec; gains of a joint QK-norm have heads."""
    heads = {_HEADS + "q_gain": "n_heads", _HEADS + "k_gain": "n_kv_heads"}
    if spec.joint_qk_norm and name in heads:
        return ("n_layers", heads[name], "d_head")
    return AXES[name]


def weight_shape(name: str, spec: TransformerSpec) -> Shape:
    """The shape of one weight in a model of this spec."""
    sizes = {
        "d_vocab": spec.d_vocab,
        "d_vocab_out": spec.vocab_out,
        "n_ctx": spec.n_ctx,
        "n_layers": spec.n_layers,
        "n_heads": spec.n_heads,
        "n_kv_heads": spec.kv_heads,
        "d_model": spec.d_model,
        "d_head": spec.head_width,
        "d_value": spec.value_width,
        "d_mlp": spec.d_mlp,
        "n_extra": spec.mlp_depth - 1,
    }
    shape = []
    for axis in axes_of(name, spec):
        size = sizes[axis]
        if size is None:
            raise ValueError(f"{name} has no shape in a model with {axis}=None")
        shape.append(size)
    return tuple(shape)


def implied_options(shapes: Mapping[str, Shape], *, has_table: bool) -> dict[str, Any]:
    """The fields of a `TransformerSpec` that are determined by the shapes of a model's weights."""
    sizes: dict[str, int] = {}
    for name in _DECIDE:
        if name not in shapes:
            continue
        axes, shape = AXES[name], shapes[name]
        if len(shape) < len(axes):
            raise ValueError(f"{name} has shape {shape}, must be [{', '.join(axes)}]")
        for axis, size in zip(axes, shape[len(shape) - len(axes) :], strict=True):
            sizes.setdefault(axis, size)
    options: dict[str, Any] = {
        "d_mlp": sizes.get("d_mlp"),
        "mlp_depth": 1 + sizes.get("n_extra", 0),
        "gated": _MLP + "W_gate" in shapes,
        "smeared_keys": _HEADS + "smear" in shapes,
        "qk_norm": _HEADS + "q_gain" in shapes,
        "post_norm": "blocks.attention_post_norm.gain" in shapes,
        "biases": any(name.rpartition(".")[2].startswith("b_") for name in shapes),
    }
    # None where the size is that of the usual model, so that equal models have equal specs.
    for name, usual in (("n_kv_heads", "n_heads"), ("d_vocab_out", "d_vocab")):
        options[name] = None if sizes[name] == sizes[usual] else sizes[name]
    if has_table and "n_ctx" in sizes:
        options["n_ctx"] = sizes["n_ctx"]
    fixed = ("d_vocab", "d_model", "n_layers", "n_heads", "d_head", "d_value")
    return options | {name: sizes[name] for name in fixed}


FIELDS = ("W_E", "W_U", "blocks", "W_pos", "b_U", "final_norm")
Fields = tuple[Any, ...]  # the weights of a model, in the order of `FIELDS`
_NORMS = (
    *("blocks.attention_norm", "blocks.mlp_norm", "final_norm"),
    *("blocks.attention_post_norm", "blocks.mlp_post_norm"),
)


def named_fields(fields: Fields) -> dict[str, Any]:
    """The weights by name, such as ``blocks.attention.W_Q``."""
    tree = dict(zip(FIELDS, fields, strict=True))
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def as_arrays(fields: Fields) -> Fields:
    """The weights as JAX arrays of one floating-point type, the widest among them."""
    containers = (Blocks, NormWeights, type(None))
    leaves = [value if isinstance(value, containers) else jnp.asarray(value) for value in fields]
    arrays = jax.tree.map(jnp.asarray, tuple(leaves))
    for name, array in named_fields(arrays).items():
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name} has type {array.dtype}, must be floating-point numbers")
    dtype = jnp.result_type(*(array.dtype for array in jax.tree.leaves(arrays)))
    return jax.tree.map(lambda array: array.astype(dtype), arrays)


def refitted(spec: TransformerSpec, fields: Fields) -> TransformerSpec:
    """The spec with the sizes of the weights; the same object when it has them already."""
    shapes = {name: leaf.shape for name, leaf in named_fields(fields).items()}
    decided = implied_options(shapes, has_table=spec.positions.needs_table)
    resolved: dict[str, Any] = {"d_head": spec.head_width, "d_value": spec.value_width}
    resolved["n_kv_heads"] = None if spec.kv_heads == spec.n_heads else spec.kv_heads
    resolved["d_vocab_out"] = None if spec.vocab_out == spec.d_vocab else spec.d_vocab_out
    if all(resolved.get(name, getattr(spec, name)) == value for name, value in decided.items()):
        return spec
    scale = spec.score_scale if decided["d_head"] == spec.head_width else spec.scale
    return spec.replace(**decided, score_scale=scale)


def check_fields(spec: TransformerSpec, fields: Fields) -> None:
    """Refuse weights that do not fit the spec, by name."""
    check_options(spec, fields)
    named = named_fields(fields)
    leading = named["W_E"].shape[:-2]
    for name, leaf in named.items():
        want = weight_shape(name, spec)
        if leaf.shape != (*leading, *want):
            behind = f" behind the leading axes {leading} of W_E" if leading else ""
            axes = ", ".join(axes_of(name, spec))
            raise ValueError(f"{name} has shape {leaf.shape}, must be [{axes}] = {want}{behind}")


def check_options(spec: TransformerSpec, fields: Fields) -> None:
    """Refuse weights that the spec would ignore, and options whose weights are missing."""
    _, _, blocks, W_pos, _, final_norm = fields
    if spec.norm in (Norm.none, Norm.layernorm_pre):
        norms = (
            *(blocks.attention_norm, blocks.mlp_norm, final_norm),
            *(blocks.attention_post_norm, blocks.mlp_post_norm),
        )
        for name, weights in zip(_NORMS, norms, strict=True):
            if weights is not None:
                raise ValueError(f"{name} is given, but norm={spec.norm.value} has no gain")
    if not spec.pre_norm and not blocks.attention_norm is blocks.mlp_norm is None:
        raise ValueError("blocks.attention_norm and mlp_norm must be None for pre_norm=False")
    if final_norm is not None and not spec.final_norm:
        raise ValueError("final_norm is given as weights, but final_norm=False in the spec")
    if spec.positions.needs_table and W_pos is None:
        raise ValueError(f"positions={spec.positions.value} needs W_pos, which is None")
    if W_pos is not None and not spec.positions.needs_table:
        raise ValueError(f"W_pos is given, but positions={spec.positions.value} has no table")
    heads = blocks.attention
    if not spec.qk_norm == (heads.q_gain is not None) == (heads.k_gain is not None):
        raise ValueError(
            f"qk_norm={spec.qk_norm} needs both or none of blocks.attention.q_gain and k_gain"
        )
    if not spec.post_norm == (blocks.attention_post_norm is not None):
        raise ValueError(
            f"post_norm={spec.post_norm} needs blocks.attention_post_norm, or lacks it"
        )
    if not (spec.post_norm and blocks.mlp is not None) == (blocks.mlp_post_norm is not None):
        raise ValueError(f"post_norm={spec.post_norm} needs blocks.mlp_post_norm, or lacks it")
    if spec.post_norm and heads.b_O is not None:
        raise ValueError(
            "blocks.attention.b_O must be None beside post_norm=True, whose divisor "
            "would make it differ between positions"
        )
    if (spec.d_mlp is None) != (blocks.mlp is None):
        given = "None" if blocks.mlp is None else "given"
        raise ValueError(f"blocks.mlp is {given}, but d_mlp={spec.d_mlp} in the spec")
