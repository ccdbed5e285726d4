"""The axes of every weight of a transformer, by its name, and the sizes implied by shapes.

A weight is named by its place in a `Model`, such as ``blocks.attention.W_Q``.
"""

from collections.abc import Mapping
from typing import Any

from circuitax.kernel.spec import TransformerSpec

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
    for axis in AXES[name]:
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
