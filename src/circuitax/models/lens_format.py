"""Conversion between TransformerLens's ``config.json`` and our `TransformerSpec`."""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from circuitax.kernel.activations import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec

T = TypeVar("T")

_NORMS = {
    None: Norm.none,
    "LN": Norm.layernorm,
    "LNPre": Norm.layernorm_pre,
    "RMS": Norm.rmsnorm,
}
_ACTIVATIONS = {"relu": Activation.relu, "gelu": Activation.gelu, "silu": Activation.silu}
_POSITIONS = {
    "standard": Positions.learned,
    "shortformer": Positions.shortformer,
    "rotary": Positions.rotary,
}
_DIRECTIONS = {"causal": True, "bidirectional": False}
_SIZES = ("n_layers", "d_model", "d_head", "n_heads", "n_ctx", "d_vocab")
# The values that TransformerLens uses for absent keys.
_DEFAULTS = {
    "attn_only": False,
    "attention_dir": "causal",
    "use_attn_scale": True,
    "attn_scale": -1.0,
    "eps": 1e-5,
    "parallel_attn_mlp": False,
    "rotary_adjacent_pairs": False,
    "rotary_base": 10_000,
}
# Options that our forward pass lacks, with the value that switches them off.
_ABSENT = {
    "attn_scores_soft_cap": -1.0,
    "attn_types": None,
    "clip_qkv": None,
    "experts_per_token": None,
    "final_rms": False,
    # Its gated MLP adds b_in after the product with the gate, and ours before.
    "gated_mlp": False,
    "load_in_4bit": False,
    "n_key_value_heads": None,
    "num_experts": None,
    "output_logits_soft_cap": -1.0,
    "post_embedding_ln": False,
    "quantization_method": None,
    "relative_attention_max_distance": None,
    "relative_attention_num_buckets": None,
    "rotary_base_local": None,
    "rotary_scaling_factor": 1.0,
    "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": False,
    "use_NTK_by_parts_rope": False,
    "use_attention_sinks": False,
    "use_dynamic_ntk_rope": False,
    "use_local_attn": False,
    "use_logn_attn": False,
    "use_normalization_before_and_after": False,
    "use_qk_norm": False,
    "use_yarn_rope": False,
    "window_size": None,
}


def spec_from_config(config: Mapping[str, Any]) -> TransformerSpec:
    """The spec of a TransformerLens model.

    Keys that do not change the function, such as ``device``, ``seed`` and ``init_mode``, are not
    read.

    Raises:
        ValueError: If a key is missing, has a value that this library does not model, or
            contradicts another.

    Source: TransformerLens 3.9, ``HookedTransformerConfig``, for names and defaults.
    """
    for key, absent in _ABSENT.items():
        if config.get(key) not in (None, absent):
            required = json.dumps(absent)
            raise ValueError(f"config key {key!r} is {config[key]!r}, must be {required}")
    given = _DEFAULTS | dict(config)
    sizes: dict[str, Any] = {key: _integer(given, key) for key in _SIZES}
    for key, unset, size in (("d_vocab_out", -1, "d_vocab"), ("rotary_dim", None, "d_head")):
        if given.get(key) not in (None, unset, sizes[size]):
            raise ValueError(f"config key {key!r} is {given[key]!r}, must be {size}={sizes[size]}")
    attn_only = _flag(given, "attn_only")
    return TransformerSpec(
        **sizes,
        d_mlp=None if attn_only else _integer(given, "d_mlp"),
        activation=Activation.gelu if attn_only else _choice(given, "act_fn", _ACTIVATIONS),
        positions=_positions(given),
        norm=_norm(given),
        norm_eps=_positive(given, "eps"),
        parallel=_flag(given, "parallel_attn_mlp"),
        score_scale=_score_scale(given),
        causal=_choice(given, "attention_dir", _DIRECTIONS),
        biases=True,
        rotary_base=_positive(given, "rotary_base"),
    )


def config_from_spec(spec: TransformerSpec) -> dict[str, Any]:
    """The ``config.json`` of a spec.

    Raises:
        ValueError: If the spec has an option that the format lacks.
    """
    if spec.positions not in (Positions.learned, Positions.shortformer):
        raise ValueError(f"positions={spec.positions.value} must be learned or shortformer to save")
    if spec.value_width != spec.head_width:
        raise ValueError(f"d_value={spec.value_width} must equal d_head={spec.head_width} to save")
    if spec.d_mlp is not None and spec.activation not in _ACTIVATIONS.values():
        raise ValueError(f"activation={spec.activation.value} has no name in the format")
    scaled = spec.score_scale is None or spec.score_scale == spec.head_width**-0.5
    for name, right, value in (
        ("score_scale", scaled, "1/sqrt(d_head)"),
        ("norm_eps", spec.norm_eps == 1e-5, "1e-05"),
        ("causal", spec.causal, "True"),
        ("smeared_keys", not spec.smeared_keys, "False"),
        ("parallel", not spec.parallel, "False"),
        ("gated", not spec.gated, "False"),
        ("mlp_depth", spec.mlp_depth == 1, "1"),
        ("final_norm", spec.final_norm or spec.norm == Norm.none, "True"),
    ):
        if not right:
            raise ValueError(f"{name}={getattr(spec, name)} must be {value} to save")
    names = {norm: name for name, norm in _NORMS.items()}
    return {
        "d_model": spec.d_model,
        "n_layers": spec.n_layers,
        "d_mlp": 4 * spec.d_model if spec.d_mlp is None else spec.d_mlp,
        "d_head": spec.head_width,
        "n_heads": spec.n_heads,
        "n_ctx": spec.n_ctx,
        "d_vocab": spec.d_vocab,
        "act_fn": spec.activation.value,
        "attn_only": spec.d_mlp is None,
        "normalization": names[spec.norm],
        "shortformer_pos": spec.positions == Positions.shortformer,
    }


def _positions(config: Mapping[str, Any]) -> Positions:
    older, key = "shortformer_pos", "positional_embedding_type"
    if key not in config:
        shortformer = older in config and _flag(config, older)
        return Positions.shortformer if shortformer else Positions.learned
    positions = _choice(config, key, _POSITIONS)
    named = f"{key!r} is {config[key]!r}"
    if older in config and _flag(config, older) != (positions == Positions.shortformer):
        raise ValueError(f"config key {older!r} is {config[older]}, which contradicts: {named}")
    if positions == Positions.rotary and not _flag(config, "rotary_adjacent_pairs"):
        raise ValueError(
            f"config key 'rotary_adjacent_pairs' is False, must be true where {named}: entries 2i "
            "and 2i + 1 of a head are turned here, not i and i + d_head/2"
        )
    return positions


def _norm(config: Mapping[str, Any]) -> Norm:
    older, key = "normalization_type", "normalization"
    if key not in config:
        return _choice(config, older, _NORMS)
    if older in config and config[older] != config[key]:
        raise ValueError(
            f"config key {older!r} is {config[older]!r}, must be that of {key!r}, {config[key]!r}"
        )
    return _choice(config, key, _NORMS)


def _score_scale(config: Mapping[str, Any]) -> float | None:
    """TransformerLens divides scores by ``attn_scale``, of which -1 stands for the usual root."""
    if not _flag(config, "use_attn_scale"):
        return 1.0
    if config["attn_scale"] in (-1, config["d_head"] ** 0.5):
        return None
    return 1 / _positive(config, "attn_scale")


def _choice(config: Mapping[str, Any], key: str, known: Mapping[Any, T]) -> T:
    names = list(known)
    if key not in config or config[key] not in names:
        value = repr(config[key]) if key in config else "missing"
        required = sorted(str(name) for name in names)
        raise ValueError(f"config key {key!r} is {value}, must be one of {required}")
    return known[config[key]]


def _integer(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {value!r}, must be an integer")
    return value


def _flag(config: Mapping[str, Any], key: str) -> bool:
    value = config[key]
    if not isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {value!r}, must be true or false")
    return value


def _positive(config: Mapping[str, Any], key: str) -> float:
    value = config[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ValueError(f"config key {key!r} is {value!r}, must be a positive number")
    return float(value)
