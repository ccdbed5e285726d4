"""Settings of the Hugging Face Hub's families (``config.json``) as a `TransformerSpec`."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from circuitax.kernel.mlp import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.hub_weights import (
    Hub,
    Layout,
    gpt_layout,
    gpt_neox_layout,
    llama_layout,
    phi3_layout,
)
from circuitax.models.sources import (
    DEEPEST,
    HARMLESS,
    LONGEST,
    Config,
    Settings,
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
    **{name: Activation(name) for name in ("relu", "gelu", "gelu_10", "silu")},
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), Activation.gelu_tanh),
    "gelu_python": Activation.gelu,
    "relu2": Activation.relu_squared,
    "swish": Activation.silu,
}
# Keys that a family may lack, by the value at which they change nothing; None is one of all keys.
_OFF = {
    False: "add_cross_attention attention_bias is_encoder_decoder mlp_bias reorder_and_upcast_attn "
    "_remove_final_layer_norm rope_interleaved scale_attn_by_inverse_layer_idx use_mrope "
    "use_bidirectional_attention use_sliding_window",
    1: "attention_multiplier embedding_multiplier logits_scaling partial_rotary_factor "
    "residual_multiplier do_layer_norm_before layer_norm_elementwise_affine",
    "default": "mlp_type rope_type",
    "gelu_pytorch_tanh": "hidden_act hidden_activation",
    "layer_norm": "norm_type",
}
# The families that have what another is asked for.
_OPENS = {
    "gemma2": "attn_logit_softcapping final_logit_softcapping query_pre_attn_scalar",
    "granite": "attention_multiplier embedding_multiplier logits_scaling residual_multiplier",
    "llama": "attention_bias mlp_bias",
    "mistral": "sliding_window use_sliding_window",
    "phi3": "partial_rotary_factor",
    "smollm3": "no_rope_layers",
}
_QKV, _QKVO = ("q_proj", "k_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj")


class Family(NamedTuple):
    """A row of the table of families.

    Attributes:
        spec: Of the settings.
        layout: Of the weights, by the spec and the prefix of their names.
        defaults: Of absent keys, where they are not those of Llama.
        biases: The maps that have one where a key is true; where a family has them always, that
            key is ``model_type``.
        folded: Options of the layout that are in the settings.
    """

    spec: Callable[[Config], TransformerSpec]
    layout: Callable[..., Layout]
    defaults: Config = MappingProxyType({})
    biases: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    folded: Callable[[Config], dict[str, Any]] = lambda config: {}


def read_hub(config: Config) -> Hub:
    """What a ``config.json`` says; a key that is neither read nor known to be harmless is refused.

    Source: transformers 5.24, the configuration classes, for names and defaults.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        text = config.get("text_config")
        inside = isinstance(text, Mapping) and text.get("model_type") in list(FAMILIES)
        raise ValueError(
            f"config key 'model_type' is {cut(family)}, must be one of "
            f"{', '.join(sorted(FAMILIES))}"
            + "; its text part opens: 'text_config' as config.json beside the weights "
            "'language_model.*' alone, or its GGUF file" * inside
        )
    row = FAMILIES[family]
    settings = Settings(config, row.defaults)
    spec = row.spec(settings)
    tied = flag(settings, "tie_word_embeddings", False)
    biases: dict[str, tuple[str, Any]] = {}
    for key, maps in row.biases.items():
        value = family if key == "model_type" else flag(settings, key, False)
        biases |= dict.fromkeys(maps, (key, value))
    hub = Hub(spec, partial(row.layout, spec, **row.folded(settings)), tied, biases)
    for key, value in settings.unread():
        off = next((value for value, keys in _OFF.items() if key in keys.split()), None)
        other = next((name for name, keys in _OPENS.items() if key in keys.split()), None)
        full = key == "layer_types" and value == ["full_attention"] * spec.n_layers
        if key in HARMLESS or value in (None, off) or (full and spec.window is None):
            continue
        hint = f"model_type {other!r} opens it" if other else "remove it if it changes no number"
        raise ValueError(f"config key {key!r} is {cut(value)}, which no {family} has here: {hint}")
    return hub


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


def _gpt(
    config: Config,
    activation: Activation,
    width: str = "n_embd",
    length: str = "n_positions",
    depth: str = "n_layer",
    heads: str = "n_head",
) -> TransformerSpec:
    d_model = integer(config, width)
    return TransformerSpec(
        d_vocab=integer(config, "vocab_size"),
        n_ctx=integer(config, length, most=LONGEST),
        n_layers=integer(config, depth, most=DEEPEST),
        n_heads=integer(config, heads, 1),
        d_model=d_model,
        d_mlp=4 * d_model,
        activation=activation,
        positions=Positions.learned,
        norm=Norm.layernorm,
        norm_eps=number(config, "layer_norm_epsilon", 1e-5),
        biases=True,
    )


def _llama(
    config: Config,
    *,
    eps: str | None = "rms_norm_eps",
    base: str = "rope_theta",
    part: str | None = None,
    windowed: bool = False,
    **options: Any,
) -> TransformerSpec:
    """Llama, and those that differ by names, options, a window, or turn a part of each head."""
    d_model, n_heads = integer(config, "hidden_size"), integer(config, "num_attention_heads", 1)
    shared = optional(config, "num_key_value_heads")
    d_head = turned = optional(config, "head_dim") or d_model // n_heads
    rope = group(config, "rope_parameters") or group(config, "rope_scaling")
    if part is not None:
        turned = int(d_head * number(rope, "partial_rotary_factor", config.get(part)))
    if "rotary_base" not in options:
        options |= _rotary(rope, config.get(base), turned)
    if "activation" not in options:
        options["activation"] = choice(config, "hidden_act", _ACTIVATIONS, "silu")
    usual: dict[str, Any] = {
        "d_vocab": integer(config, "vocab_size"),
        "n_ctx": optional(config, "max_position_embeddings", LONGEST),
        "n_layers": integer(config, "num_hidden_layers", most=DEEPEST),
        "n_heads": n_heads,
        "n_kv_heads": None if shared in (None, n_heads) else shared,
        "d_model": d_model,
        "d_head": d_head,
        "d_mlp": integer(config, "intermediate_size"),
        "gated": True,
        "norm": Norm.rmsnorm,
        "norm_eps": number(config, eps, 1e-6) if eps else 1e-5,
        "positions": Positions.rotary,
        "rotary_dim": None if turned == d_head else turned,
        "window": optional(config, "sliding_window") if windowed else None,
    }
    return TransformerSpec(**(usual | options))


def _opt(config: Config) -> TransformerSpec:
    activation = choice(config, "activation_function", _ACTIVATIONS, "relu")
    names = ("hidden_size", "max_position_embeddings", "num_hidden_layers", "num_attention_heads")
    spec = _gpt(config, activation, *names).replace(d_mlp=integer(config, "ffn_dim"))
    if optional(config, "word_embed_proj_dim") not in (None, spec.d_model):
        raise ValueError(
            f"config key 'word_embed_proj_dim' is {config['word_embed_proj_dim']}, must be that of "
            f"'hidden_size', {spec.d_model}: a map behind the embedding is not modelled"
        )
    return spec


def _gpt_neo(config: Config) -> TransformerSpec:
    activation = choice(config, "activation_function", _ACTIVATIONS, "gelu_new")
    names = ("hidden_size", "max_position_embeddings", "num_layers", "num_heads")
    spec = _gpt(config, activation, *names)
    types: Any = config.get("attention_types")
    listed = config.get("attention_layers")
    try:
        kinds = [kind for group, n in types for _ in range(min(n, DEEPEST)) for kind in group]
    except (TypeError, ValueError):
        kinds = []
    known = len(kinds) == spec.n_layers and set(kinds) <= {"global", "local"}
    if not known or listed not in (None, kinds):
        raise ValueError(
            f"config key 'attention_types' is {cut(types)}, must name global or local for each of "
            f"{spec.n_layers} layers, as 'attention_layers' does where it is given"
        )
    local = tuple(layer for layer, kind in enumerate(kinds) if kind == "local")
    window = {"window": integer(config, "window_size"), "local_layers": local} if local else {}
    config.get("window_size")
    d_mlp = optional(config, "intermediate_size") or spec.d_mlp
    return spec.replace(d_mlp=d_mlp, score_scale=1.0, **window)


def _gpt_neox(config: Config) -> TransformerSpec:
    parallel = flag(config, "use_parallel_residual")
    return _biased(
        config, eps="layer_norm_eps", base="rotary_emb_base", part="rotary_pct", parallel=parallel
    )


def _granite(config: Config) -> TransformerSpec:
    return _llama(config, score_scale=number(config, "attention_multiplier", 1.0))


def _granite_factors(config: Config) -> dict[str, Any]:
    written = number(config, "residual_multiplier", 1.0)
    places = ("attention.W_O", "attention.b_O", "mlp.W_out", "mlp.b_out")
    scales = {f"blocks.{place}": written for place in places}
    scales["W_E"] = number(config, "embedding_multiplier", 1.0)
    return {"scales": scales | {"W_U": 1 / number(config, "logits_scaling", 1.0)}}


def _smollm3(config: Config) -> TransformerSpec:
    """Layers without positions are the usual ones, of angle 0; the others are local ones."""
    spec, every = _llama(config), integer(config, "no_rope_layer_interval", 1)
    config.get("sliding_window")  # nothing without use_sliding_window, which is refused
    turning = config.get("no_rope_layers")
    if turning is None:
        turning = [(layer + 1) % every for layer in range(spec.n_layers)]
    listed = isinstance(turning, list) and len(turning) == spec.n_layers
    if not listed or (spec.rotary_frequencies is not None and not all(turning)):
        raise ValueError(
            f"config key 'no_rope_layers' is {cut(turning)}, must list 0 or 1 for each of "
            f"{spec.n_layers} layers, and no 0 beside a 'rope_type' other than 'default'"
        )
    if all(turning):
        return spec
    return spec.replace(
        rotary_frequencies=(0.0,) * (spec.rotary_width // 2),
        local_layers=tuple(layer for layer, on in enumerate(turning) if on),
        local_rotary_base=spec.rotary_base,
    )


def _qwen(config: Config, **options: Any) -> TransformerSpec:
    on, first = flag(config, "use_sliding_window", False), integer(config, "max_window_layers")
    windowed = on and config.get("sliding_window") is not None
    local = _local(config, lambda layer: windowed and layer >= first)
    if local and not on:
        raise ValueError(
            "config key 'layer_types' has 'sliding_attention', must have none where "
            "'use_sliding_window' is false; set it to true"
        )
    return _llama(config, **options, **local)


def _gemma(config: Config) -> TransformerSpec:
    # Its "gelu" has always been the tanh form.
    names = _ACTIVATIONS | {"gelu": Activation.gelu_tanh}
    return _llama(config, activation=choice(config, "hidden_act", names, "gelu"))


def _gemma2(config: Config, every: int = 2, capped: bool = True, **options: Any) -> TransformerSpec:
    return _llama(
        config,
        activation=choice(config, "hidden_activation", _ACTIVATIONS, "gelu_pytorch_tanh"),
        score_scale=number(config, "query_pre_attn_scalar", 256) ** -0.5,
        score_cap=bound(config, "attn_logit_softcapping") if capped else None,
        logit_cap=bound(config, "final_logit_softcapping"),
        post_norm=True,
        **_local(config, lambda layer: (layer + 1) % every != 0),
        **options,
    )


def _gemma3(config: Config) -> TransformerSpec:
    rope, width = group(config, "rope_parameters"), integer(config, "head_dim", 1)
    far, near = group(rope, "full_attention"), group(rope, "sliding_attention")
    base = number(far, "rope_theta", config.get("rope_theta", 1e6))
    older = config.get("_sliding_window_pattern", 6)
    return _gemma2(
        config,
        every=number(config, "sliding_window_pattern", older, whole=True),
        capped=False,
        qk_norm=True,
        local_rotary_base=number(near, "rope_theta", config.get("rope_local_base_freq", 1e4)),
        **_rotary(group(config, "rope_scaling") or far, base, width),
    )


_OUT = {"attention_bias": _QKVO}
_BIASES = _OUT | {"mlp_bias": ("gate_proj", "up_proj", "down_proj")}
_TIED = {"tie_word_embeddings": True}
_GEMMA = _TIED | {"head_dim": 256, "sliding_window": 4096}
_CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
_HELIUM = {"head_dim": 128, "rms_norm_eps": 1e-8, "rope_theta": 1e5}
_NEOX = {"attention_bias": True, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "rotary_pct": 0.25}
_NEOX_BIASES = {"attention_bias": ("dense", "query_key_value")}
_NEO_BIASES = {"model_type": ("out_proj", "c_fc", "c_proj")}
_OPT_BIASES = {"enable_bias": (*_QKV, "out_proj", "fc1", "fc2")}
_NEO = _TIED | {"attention_types": [[["global", "local"], 12]], "window_size": 256}
_OPT = _TIED | {"enable_bias": True}
_PHI = {"partial_rotary_factor": 1.0, "rms_norm_eps": 1e-5}
_QWEN = {"max_window_layers": 28, "sliding_window": 4096}
_SMALL = _TIED | {"no_rope_layer_interval": 4, "rope_theta": 2e6}
_CODE = _TIED | {"hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": True}
_CODE_BIASES = {"use_bias": (*_QKVO, "c_fc", "c_proj")}
_gemma_layout = partial(llama_layout, unit_gain=True)
_gpt1_layout = partial(gpt_layout, tokens="tokens_embed", positions="positions_embed")
_gpt2_layout = partial(gpt_layout, tokens="wte", positions="wpe")
_helium_layout = partial(llama_layout, halves=False)
_MLP_NAMES = {"up_proj": "c_fc", "down_proj": "c_proj"}
_starcoder2_layout = partial(llama_layout, renamed=_MLP_NAMES)
_gpt_neo_layout = partial(
    llama_layout,
    renamed=_MLP_NAMES
    | {"embed_tokens": "wte", "embed_positions": "wpe", "layers": "h", "norm": "ln_f"}
    | {"input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}
    | {"self_attn": "attn.attention", "o_proj": "out_proj"},
)
_opt_layout = partial(
    llama_layout,
    renamed={"o_proj": "out_proj", "mlp": "", "up_proj": "fc1", "down_proj": "fc2"}
    | {"input_layernorm": "self_attn_layer_norm", "norm": "final_layer_norm"}
    | {"post_attention_layernorm": "final_layer_norm"},
    first_position=2,
)
_arcee = partial(_llama, gated=False)
_biased = partial(_llama, gated=False, norm=Norm.layernorm)
_mistral = partial(_llama, windowed=True)
_olmo = partial(_llama, norm=Norm.layernorm_pre, eps=None)
_olmo2 = partial(_llama, pre_norm=False, post_norm=True, qk_norm=True, joint_qk_norm=True)
_phi3 = partial(_llama, windowed=True, part="partial_rotary_factor")
_starcoder2 = partial(_biased, windowed=True, eps="norm_epsilon")
FAMILIES: dict[str, Family] = {
    "arcee": Family(_arcee, llama_layout, {"rms_norm_eps": 1e-5, "hidden_act": "relu2"}, _BIASES),
    "gemma": Family(_gemma, _gemma_layout, _GEMMA, _OUT),
    "gemma2": Family(_gemma2, _gemma_layout, _GEMMA | _CAPS, _OUT),
    "gemma3_text": Family(_gemma3, _gemma_layout, _GEMMA, _OUT),
    "gpt2": Family(_gpt2, _gpt2_layout, _TIED),
    "gpt_neo": Family(_gpt_neo, _gpt_neo_layout, _NEO, _NEO_BIASES),
    "gpt_neox": Family(_gpt_neox, gpt_neox_layout, _NEOX, _NEOX_BIASES),
    "granite": Family(_granite, llama_layout, {}, _BIASES, _granite_factors),
    "helium": Family(_llama, _helium_layout, _HELIUM, _BIASES | {"attention_bias": _QKV}),
    "llama": Family(_llama, llama_layout, {}, _BIASES),
    "mistral": Family(_mistral, llama_layout, {"sliding_window": 4096}),
    "olmo": Family(_olmo, llama_layout, {}, _OUT),
    "olmo2": Family(_olmo2, llama_layout, {"rms_norm_eps": 1e-5}, _OUT),
    "openai-gpt": Family(_openai_gpt, _gpt1_layout, _TIED),
    "opt": Family(_opt, _opt_layout, _OPT, _OPT_BIASES),
    "phi3": Family(_phi3, phi3_layout, _PHI),
    "qwen2": Family(_qwen, llama_layout, _QWEN, {"model_type": _QKV}),
    "qwen3": Family(partial(_qwen, qk_norm=True), llama_layout, _QWEN | {"head_dim": 128}, _OUT),
    "smollm3": Family(_smollm3, llama_layout, _SMALL, _BIASES),
    "starcoder2": Family(_starcoder2, _starcoder2_layout, _CODE, _CODE_BIASES),
}


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


def _local(config: Config, sliding: Callable[[int], bool]) -> dict[str, Any]:
    """The window and the layers that have it: those that ``layer_types`` names, or the usual."""
    n_layers, kinds = integer(config, "num_hidden_layers", most=DEEPEST), config.get("layer_types")
    names = ("full_attention", "sliding_attention")
    if kinds is None:
        kinds = [names[sliding(layer)] for layer in range(n_layers)]
    listed = isinstance(kinds, list) and len(kinds) == n_layers
    if not listed or any(kind not in names for kind in kinds):
        raise ValueError(
            f"config key 'layer_types' is {cut(kinds)}, must list {' or '.join(names)} for each of "
            f"{n_layers} layers"
        )
    local = tuple(layer for layer, kind in enumerate(kinds) if kind == names[1])
    config.get("sliding_window")  # which is not read where no layer has one
    return {"window": integer(config, "sliding_window"), "local_layers": local} if local else {}
