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
from circuitax.models.config_fields import (
    DEEPEST,
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
from circuitax.models.hub_weights import (
    Hub,
    Layout,
    gpt_layout,
    gpt_neox_layout,
    llama_layout,
    phi3_layout,
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
# Keys that no forward pass without training reads, by the reason why.
_IGNORED = {
    "names and versions": "_name_or_path architectures auto_map model_type name_or_path "
    "tokenizer_class transformers_version unsloth_fixed unsloth_version",
    "training": "attention_dropout attn_pdrop dropout embd_pdrop embedding_dropout "
    "gradient_checkpointing hidden_dropout hidden_dropout_prob init_std initializer_factor "
    "initializer_range layerdrop resid_pdrop residual_dropout",
    "how it is computed": "_attn_implementation attn_implementation cache_implementation "
    "chunk_size_feed_forward dtype gradient_checkpointing output_attentions output_hidden_states "
    "pretraining_tp return_dict scale_attention_softmax_in_fp32 torch_dtype torchscript use_cache "
    "use_return_dict",
    "tokens and generation": "bad_words_ids begin_suppress_tokens bos_token_id "
    "decoder_start_token_id do_sample eos_token_id forced_bos_token_id forced_eos_token_id "
    "length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beams "
    "pad_token_id prefix repetition_penalty sep_token_id suppress_tokens task_specific_params "
    "temperature top_k top_p typical_p",
    "other heads than the language model's": "classifier_dropout finetuning_task id2label "
    "label2id num_labels problem_type summary_activation summary_first_dropout "
    "summary_proj_to_labels summary_type summary_use_proj",
    "lengths and layers of options that are refused where they are on": "is_decoder n_ctx "
    "original_max_position_embeddings",
}
_HARMLESS = frozenset(" ".join(_IGNORED.values()).split())
# The value at which a key that a family lacks changes nothing; None always is one.
_OFF: dict[str, Any] = {
    "add_cross_attention": False,
    "attention_bias": False,
    "attention_multiplier": 1,
    "embedding_multiplier": 1,
    "is_encoder_decoder": False,
    "logits_scaling": 1,
    "mlp_bias": False,
    "mlp_type": "default",
    "norm_type": "layer_norm",
    "partial_rotary_factor": 1,
    "pruned_heads": {},
    "reorder_and_upcast_attn": False,
    "residual_multiplier": 1,
    "rope_interleaved": False,
    "scale_attn_by_inverse_layer_idx": False,
    "use_bidirectional_attention": False,
    "use_sliding_window": False,
}
# The family that has what another is asked for.
_OPENS = {
    "attention_multiplier": "granite",
    "attn_logit_softcapping": "gemma2",
    "embedding_multiplier": "granite",
    "final_logit_softcapping": "gemma2",
    "logits_scaling": "granite",
    "no_rope_layers": "smollm3",
    "partial_rotary_factor": "phi3",
    "query_pre_attn_scalar": "gemma2",
    "residual_multiplier": "granite",
    "sliding_window": "mistral",
    "use_sliding_window": "mistral",
}
_QKV, _QKVO = ("q_proj", "k_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj")
_BIASES = {"attention_bias": _QKVO, "mlp_bias": ("gate_proj", "up_proj", "down_proj")}


class Family(NamedTuple):
    """A row of the table of families.

    Attributes:
        spec: Of the settings.
        layout: Of the weights, by the spec and the prefix of their names.
        defaults: Of absent keys, where they are not those of Llama.
        biases: The maps that have one where a key is true; where a family has them always, that
            key is ``model_type``.
        scales: Factors by which weights are multiplied when they are read.
    """

    spec: Callable[[Config], TransformerSpec]
    layout: Callable[[TransformerSpec, str], Layout]
    defaults: Config = MappingProxyType({})
    biases: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    scales: Callable[[Config, TransformerSpec], dict[str, float]] = lambda config, spec: {}


def read_hub(config: Config) -> Hub:
    """What a ``config.json`` says; a key that is neither read nor known to be harmless is refused.

    Source: transformers 5.24, the configuration classes, for names and defaults.
    """
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(
            f"config key 'model_type' is {cut(family)}, must be one of "
            f"{', '.join(sorted(FAMILIES))}"
        )
    row = FAMILIES[family]
    settings = Settings(config, row.defaults)
    spec = row.spec(settings)
    tied = flag(settings, "tie_word_embeddings", False)
    biases = {}
    for key, maps in row.biases.items():
        value = family if key == "model_type" else flag(settings, key, False)
        biases |= dict.fromkeys(maps, (key, value))
    scales = row.scales(settings, spec)
    for key, value in settings.unread():
        full = key == "layer_types" and spec.window is None and value == _full(spec.n_layers)
        if key in _HARMLESS or value is None or full or (key in _OFF and value == _OFF[key]):
            continue
        other = _OPENS.get(key, family)
        instead = (
            f"model_type {other!r} opens it"
            if other != family
            else "remove it from the file if it changes no number"
        )
        raise ValueError(
            f"config key {key!r} is {cut(value)}, which no {family} has here: {instead}"
        )
    return Hub(spec, lambda prefix: row.layout(spec, prefix)._replace(scales=scales), tied, biases)


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
    sizes, rope = _sizes(config), _rope(config)
    turned = _turned(sizes["d_head"], rope, config.get("rotary_pct", 0.25))
    return TransformerSpec(
        **sizes,
        d_mlp=integer(config, "intermediate_size"),
        activation=choice(config, "hidden_act", _ACTIVATIONS, "gelu"),
        norm=Norm.layernorm,
        norm_eps=number(config, "layer_norm_eps", 1e-5),
        parallel=flag(config, "use_parallel_residual"),
        biases=True,
        rotary_dim=turned,
        **_rotary(rope, config.get("rotary_emb_base"), turned),
    )


def _llama(config: Config, turned: int | None = None, **options: Any) -> TransformerSpec:
    """Llama, which the families below it change by options."""
    sizes = _sizes(config)
    usual = {
        "d_mlp": integer(config, "intermediate_size"),
        "gated": True,
        "norm": Norm.rmsnorm,
        "rotary_dim": turned,
    }
    if "activation" not in options:
        usual["activation"] = choice(config, "hidden_act", _ACTIVATIONS, "silu")
    if "norm_eps" not in options:
        usual["norm_eps"] = number(config, "rms_norm_eps", 1e-6)
    if "rotary_base" not in options:
        width = turned or sizes["d_head"]
        usual |= _rotary(_rope(config), config.get("rope_theta"), width)
    return TransformerSpec(**sizes, **(usual | options))


def _mistral(config: Config) -> TransformerSpec:
    return _llama(config, window=optional(config, "sliding_window"))


def _phi3(config: Config) -> TransformerSpec:
    d_head = _sizes(config)["d_head"]
    turned = _turned(d_head, _rope(config), config.get("partial_rotary_factor", 1.0))
    window = optional(config, "sliding_window")
    return _llama(config, turned=None if turned == d_head else turned, window=window)


def _granite(config: Config) -> TransformerSpec:
    return _llama(config, score_scale=number(config, "attention_multiplier", 1.0))


def _granite_scales(config: Config, spec: TransformerSpec) -> dict[str, float]:
    written = number(config, "residual_multiplier", 1.0)
    places = ("attention.W_O", "attention.b_O", "mlp.W_out", "mlp.b_out")
    return {f"blocks.{place}": written for place in places} | {
        "W_E": number(config, "embedding_multiplier", 1.0),
        "W_U": 1 / number(config, "logits_scaling", 1.0),
    }


def _olmo(config: Config) -> TransformerSpec:
    return _llama(config, norm=Norm.layernorm_pre, norm_eps=1e-5)


def _starcoder2(config: Config) -> TransformerSpec:
    return _llama(
        config,
        gated=False,
        norm=Norm.layernorm,
        norm_eps=number(config, "norm_epsilon", 1e-5),
        window=optional(config, "sliding_window"),
    )


def _smollm3(config: Config) -> TransformerSpec:
    """Some layers have no positions: the usual angles are 0, and local layers have a base."""
    spec, n_layers = _llama(config), integer(config, "num_hidden_layers")
    if not flag(config, "use_sliding_window", False):
        config.get("sliding_window")  # which is not read then
    every, turning = integer(config, "no_rope_layer_interval", 1), config.get("no_rope_layers")
    if turning is None:
        turning = [int((layer + 1) % every != 0) for layer in range(n_layers)]
    if not isinstance(turning, list) or [*turning] != [int(bool(on)) for on in turning]:
        raise ValueError(f"config key 'no_rope_layers' is {cut(turning)}, must list 0 and 1")
    if len(turning) != n_layers or (spec.rotary_frequencies and not all(turning)):
        raise ValueError(
            f"config key 'no_rope_layers' is {cut(turning)}, must have one entry for each of "
            f"{n_layers} layers, and rope_type 'default' where one is 0"
        )
    return (
        spec
        if all(turning)
        else spec.replace(
            rotary_frequencies=(0.0,) * (spec.rotary_width // 2),
            local_layers=tuple(layer for layer, on in enumerate(turning) if on),
            local_rotary_base=spec.rotary_base,
        )
    )


def _qwen(config: Config, **options: Any) -> TransformerSpec:
    n_layers, kinds = integer(config, "num_hidden_layers", most=DEEPEST), config.get("layer_types")
    windowed, width = flag(config, "use_sliding_window", False), config.get("sliding_window")
    full = integer(config, "max_window_layers")
    if kinds is None:
        kinds = [
            "sliding_attention"
            if windowed and width is not None and i >= full
            else "full_attention"
            for i in range(n_layers)
        ]
    local = _sliding(kinds, n_layers)
    if local and not windowed:
        raise ValueError(
            "config key 'layer_types' has 'sliding_attention', must have none where "
            "'use_sliding_window' is false; set it to true"
        )
    return _llama(config, **options, **_local(config, local))


def _gemma(config: Config) -> TransformerSpec:
    # Its "gelu" has always been the tanh form.
    names = _ACTIVATIONS | {"gelu": Activation.gelu_tanh}
    return _llama(config, activation=choice(config, "hidden_act", names))


def _gemma2(config: Config, every: int = 2, **options: Any) -> TransformerSpec:
    n_layers, kinds = integer(config, "num_hidden_layers", most=DEEPEST), config.get("layer_types")
    if kinds is None:
        kinds = [
            "sliding_attention" if (layer + 1) % every else "full_attention"
            for layer in range(n_layers)
        ]
    return _llama(
        config,
        activation=choice(config, "hidden_activation", _ACTIVATIONS, "gelu_pytorch_tanh"),
        score_scale=number(config, "query_pre_attn_scalar", 256) ** -0.5,
        logit_cap=bound(config, "final_logit_softcapping"),
        post_norm=True,
        **_local(config, _sliding(kinds, n_layers)),
        **options,
    )


def _gemma3(config: Config) -> TransformerSpec:
    rope = group(config, "rope_parameters")
    far, near = group(rope, "full_attention"), group(rope, "sliding_attention")
    base = number(far, "rope_theta", config.get("rope_theta", 1e6))
    if near.get("rope_type", "default") != "default":
        raise ValueError(
            "config key 'rope_type' of sliding layers is "
            f"{cut(near['rope_type'])}, must be 'default'"
        )
    older = config.get("_sliding_window_pattern", 6)
    return _gemma2(
        config,
        every=number(config, "sliding_window_pattern", older, whole=True),
        qk_norm=True,
        local_rotary_base=number(near, "rope_theta", config.get("rope_local_base_freq", 1e4)),
        **_rotary(group(config, "rope_scaling") or far, base, _sizes(config)["d_head"]),
    )


def _gemma_scales(config: Config, spec: TransformerSpec) -> dict[str, float]:
    return {"W_E": spec.d_model**0.5}


_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096}
_ADDED = partial(llama_layout, unit_gain=True)
FAMILIES: dict[str, Family] = {
    "gemma": Family(
        _gemma,
        _ADDED,
        _GEMMA | {"hidden_act": "gelu_pytorch_tanh"},
        {"attention_bias": _QKVO},
        _gemma_scales,
    ),
    "gemma2": Family(
        lambda config: _gemma2(config, score_cap=bound(config, "attn_logit_softcapping")),
        _ADDED,
        _GEMMA | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
        {"attention_bias": _QKVO},
        _gemma_scales,
    ),
    "gemma3_text": Family(_gemma3, _ADDED, _GEMMA, {"attention_bias": _QKVO}, _gemma_scales),
    "gpt2": Family(
        _gpt2,
        partial(gpt_layout, tokens="wte", positions="wpe"),
        {"tie_word_embeddings": True},
    ),
    "gpt_neox": Family(
        _gpt_neox,
        gpt_neox_layout,
        {"attention_bias": True},
        {"attention_bias": ("dense", "query_key_value")},
    ),
    "granite": Family(_granite, llama_layout, {}, _BIASES, _granite_scales),
    "helium": Family(
        _llama,
        partial(llama_layout, halves=False),
        {"head_dim": 128, "rms_norm_eps": 1e-8},
        _BIASES | {"attention_bias": _QKV},
    ),
    "llama": Family(_llama, llama_layout, {}, _BIASES),
    "mistral": Family(_mistral, llama_layout, {"sliding_window": 4096}),
    "olmo": Family(_olmo, llama_layout, {}, {"attention_bias": _QKVO}),
    "openai-gpt": Family(
        _openai_gpt,
        partial(gpt_layout, tokens="tokens_embed", positions="positions_embed"),
        {"tie_word_embeddings": True},
    ),
    "phi3": Family(_phi3, phi3_layout, {"rms_norm_eps": 1e-5}),
    "qwen2": Family(
        _qwen,
        llama_layout,
        {"max_window_layers": 28, "sliding_window": 4096},
        {"model_type": _QKV},
    ),
    "qwen3": Family(
        partial(_qwen, qk_norm=True),
        llama_layout,
        {"head_dim": 128, "max_window_layers": 28, "sliding_window": 4096},
        {"attention_bias": _QKVO},
    ),
    "smollm3": Family(
        _smollm3,
        llama_layout,
        {"no_rope_layer_interval": 4, "num_key_value_heads": 4, "tie_word_embeddings": True},
        _BIASES,
    ),
    "starcoder2": Family(
        _starcoder2,
        partial(llama_layout, mlp=("", "c_fc", "c_proj")),
        {
            "hidden_act": "gelu_pytorch_tanh",
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "use_bias": True,
        },
        {"use_bias": (*_QKVO, "c_fc", "c_proj")},
    ),
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


def _turned(d_head: int, rope: Config, usual: Any) -> int:
    """How many entries of a head turn."""
    part = number(rope, "partial_rotary_factor", usual)
    if part > 1:
        raise ValueError(f"config key 'partial_rotary_factor' is {part}, must be at most 1")
    return int(d_head * part)


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


def _full(n_layers: int) -> list[str]:
    return ["full_attention"] * n_layers


def _local(config: Config, local: tuple[int, ...]) -> dict[str, Any]:
    """The window of local layers; it is not read where there is none."""
    width = config.get("sliding_window")
    if not local:
        return {}
    return {"window": integer({"sliding_window": width}, "sliding_window"), "local_layers": local}


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
