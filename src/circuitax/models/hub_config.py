"""Settings of the Hugging Face Hub's families (``config.json``) as a `TransformerSpec`."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from circuitax.kernel.mlp import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.config_fields import (
    DEEPEST,
    LONGEST,
    Config,
    bound,
    choice,
    cut,
    flag,
    group,
    integer,
    number,
    optional,
)

_ACTIVATIONS = {
    "relu": Activation.relu,
    "gelu": Activation.gelu,
    "gelu_new": Activation.gelu_tanh,
    "gelu_pytorch_tanh": Activation.gelu_tanh,
    "gelu_fast": Activation.gelu_tanh,
    "silu": Activation.silu,
    "swish": Activation.silu,
}
# Options that change what a model computes and that no family here has, with the value for "off".
_ABSENT: dict[str, Any] = {
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "quantization_config": None,
    "reorder_and_upcast_attn": False,
    "scale_attn_by_inverse_layer_idx": False,
    "use_bidirectional_attention": False,
}


def spec_from_hub(config: Config) -> TransformerSpec:
    """The spec of a model of the Hub, without the flags set by its weights.

    Source: transformers 5.23, the configuration classes, for names and defaults.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(
            f"config key 'model_type' is {cut(family)}, must be one of "
            f"{', '.join(sorted(FAMILIES))}"
        )
    for key, absent in _ABSENT.items():
        if config.get(key) not in (None, absent):
            raise ValueError(f"config key {key!r} is {cut(config[key])}, must be {absent!r}")
    return FAMILIES[family](config)


def _gpt2(config: Config) -> TransformerSpec:
    spec = _gpt(config, choice(config, "activation_function", _ACTIVATIONS, "gelu_new"))
    return spec.replace(
        d_mlp=optional(config, "n_inner") or spec.d_mlp,
        score_scale=None if flag(config, "scale_attn_weights") else 1.0,
    )


def _openai_gpt(config: Config) -> TransformerSpec:
    # Its "gelu" has always been the tanh form.
    names = _ACTIVATIONS | {"gelu": Activation.gelu_tanh}
    spec = _gpt(config, choice(config, "afn", names, "gelu"))
    return spec.replace(post_ln=True, final_norm=False)


def _gpt(config: Config, activation: Activation) -> TransformerSpec:
    d_model = integer(config, "n_embd")
    return TransformerSpec(
        d_vocab=integer(config, "vocab_size"),
        n_ctx=integer(config, "n_positions", most=LONGEST),
        n_layers=integer(config, "n_layer", most=DEEPEST),
        n_heads=integer(config, "n_head", 1),
        d_model=d_model,
        d_mlp=4 * d_model,
        activation=activation,
        positions=Positions.learned,
        norm=Norm.layernorm,
        norm_eps=number(config, "layer_norm_epsilon", 1e-5),
        biases=True,
    )


def _gpt_neox(config: Config) -> TransformerSpec:
    d_model = integer(config, "hidden_size")
    n_heads = integer(config, "num_attention_heads", 1)
    d_head = d_model // n_heads
    rope = _rope(config)
    part = number(rope, "partial_rotary_factor", config.get("rotary_pct", 0.25))
    if part > 1:
        raise ValueError(f"config key 'partial_rotary_factor' is {part}, must be at most 1")
    turned = int(d_head * part)
    return TransformerSpec(
        **_sizes(config),
        d_mlp=integer(config, "intermediate_size"),
        activation=choice(config, "hidden_act", _ACTIVATIONS, "gelu"),
        norm=Norm.layernorm,
        norm_eps=number(config, "layer_norm_eps", 1e-5),
        parallel=flag(config, "use_parallel_residual"),
        biases=True,
        rotary_dim=turned,
        **_rotary(rope, config.get("rotary_emb_base"), turned),
    )


def _llama(config: Config) -> TransformerSpec:
    sizes = _sizes(config)
    turned = sizes["d_head"]
    return TransformerSpec(
        **sizes,
        d_mlp=integer(config, "intermediate_size"),
        gated=True,
        activation=choice(config, "hidden_act", _ACTIVATIONS, "silu"),
        norm=Norm.rmsnorm,
        norm_eps=number(config, "rms_norm_eps", 1e-6),
        **_rotary(_rope(config), config.get("rope_theta"), turned),
        **_windows(config, sizes["n_layers"]),
    )


def _qwen3(config: Config) -> TransformerSpec:
    return _llama(config if config.get("head_dim") else {**config, "head_dim": 128}).replace(
        qk_norm=True
    )


def _gemma3(config: Config) -> TransformerSpec:
    sizes = _sizes({"head_dim": 256, **config})
    width, n_layers = sizes["d_head"], sizes["n_layers"]
    rope = _rope(config)
    if "full_attention" in rope:
        far, near = group(rope, "full_attention"), group(rope, "sliding_attention")
    else:
        far = {"rope_theta": 1e6, **rope}
        near = {"rope_theta": config.get("rope_local_base_freq", 10_000.0)}
    if near.get("rope_type", "default") != "default":
        raise ValueError(
            "config key 'rope_type' of sliding layers is "
            f"{cut(near['rope_type'])}, must be 'default'"
        )
    kinds = config.get("layer_types")
    if kinds is None:
        older = config.get("_sliding_window_pattern", 6)
        every = number(config, "sliding_window_pattern", older, whole=True)
        kinds = [
            "sliding_attention" if (layer + 1) % every else "full_attention"
            for layer in range(n_layers)
        ]
    return TransformerSpec(
        **sizes,
        d_mlp=integer(config, "intermediate_size"),
        gated=True,
        activation=choice(config, "hidden_activation", _ACTIVATIONS, "gelu_pytorch_tanh"),
        norm=Norm.rmsnorm,
        norm_eps=number(config, "rms_norm_eps", 1e-6),
        score_scale=number(config, "query_pre_attn_scalar", 256) ** -0.5,
        score_cap=bound(config, "attn_logit_softcapping"),
        logit_cap=bound(config, "final_logit_softcapping"),
        qk_norm=True,
        post_norm=True,
        local_rotary_base=number(near, "rope_theta", 10_000.0),
        window=number(config, "sliding_window", 4096, whole=True),
        local_layers=_sliding(kinds, n_layers),
        **_rotary(far, config.get("rope_theta"), width),
    )


FAMILIES: dict[str, Callable[[Config], TransformerSpec]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "llama": _llama,
    "openai-gpt": _openai_gpt,
    "qwen2": _llama,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
}


def _sizes(config: Config) -> dict[str, Any]:
    d_model = integer(config, "hidden_size")
    n_heads = integer(config, "num_attention_heads", 1)
    shared = optional(config, "num_key_value_heads")
    return {
        "d_vocab": integer(config, "vocab_size"),
        "n_ctx": optional(config, "max_position_embeddings", LONGEST),
        "n_layers": integer(config, "num_hidden_layers", most=DEEPEST),
        "n_heads": n_heads,
        "n_kv_heads": None if shared in (None, n_heads) else shared,
        "d_model": d_model,
        "d_head": optional(config, "head_dim") or d_model // n_heads,
        "positions": Positions.rotary,
    }


def _rope(config: Config) -> Mapping[str, Any]:
    """Settings of rotary positions: ``rope_parameters``, or ``rope_scaling`` of older files."""
    older = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    return group(config, older)


def _rotary(rope: Mapping[str, Any], base: Any, width: int) -> dict[str, Any]:
    """``rotary_base`` and, where they are scaled, ``rotary_frequencies``."""
    base = number(rope, "rope_theta", 10_000.0 if base is None else base)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return {"rotary_base": base}
    plain = [base ** (-2 * i / width) for i in range(width // 2)]
    if kind == "linear":
        scaled = [value / number(rope, "factor", None) for value in plain]
    elif kind == "llama3":
        scaled = [_llama3(value, rope) for value in plain]
    else:
        raise ValueError(
            f"config key 'rope_type' is {cut(kind)}, must be one of default, linear, llama3"
        )
    return {"rotary_base": base, "rotary_frequencies": tuple(scaled)}


def _llama3(frequency: float, rope: Mapping[str, Any]) -> float:
    """Llama 3 scaling: long wavelengths are stretched, short ones kept, those between mixed."""
    factor, low, high = (
        number(rope, key, None) for key in ("factor", "low_freq_factor", "high_freq_factor")
    )
    length = number(rope, "original_max_position_embeddings", None)
    turns = length * frequency / (2 * math.pi)
    if turns < low:
        return frequency / factor
    if turns > high:
        return frequency
    share = (turns - low) / (high - low)
    return (1 - share) * frequency / factor + share * frequency


def _windows(config: Config, n_layers: int) -> dict[str, Any]:
    kinds = config.get("layer_types")
    if kinds is None and flag(config, "use_sliding_window", False):
        full = config.get("max_window_layers")
        full = n_layers if full is None else integer(config, "max_window_layers")
        kinds = ["full_attention" if i < full else "sliding_attention" for i in range(n_layers)]
    local = () if kinds is None else _sliding(kinds, n_layers)
    if not local:
        return {}
    return {"window": integer(config, "sliding_window"), "local_layers": local}


def _sliding(kinds: Any, n_layers: int) -> tuple[int, ...]:
    if not isinstance(kinds, list):
        raise ValueError(f"config key 'layer_types' is {cut(kinds)}, must be a list of names")
    if len(kinds) != n_layers:
        raise ValueError(f"config key 'layer_types' has {len(kinds)} entries, must have {n_layers}")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            raise ValueError(
                f"config key 'layer_types' has {cut(kind)}, must be full_attention or "
                "sliding_attention"
            )
    return tuple(i for i, kind in enumerate(kinds) if kind == "sliding_attention")
