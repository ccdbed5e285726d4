"""The fields of a model: their names, their common dtype, and checks against a spec."""

from typing import Any

import jax
import jax.numpy as jnp

from circuitax.kernel.norm import Norm
from circuitax.kernel.shapes import AXES, implied_options, weight_shape
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, NormWeights

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
            axes = ", ".join(AXES[name])
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
