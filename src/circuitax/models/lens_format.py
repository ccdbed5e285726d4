"""TransformerLens's files and a `Model`: ``config.json``, and weights in its names, both ways."""

import json
import re
from functools import partial
from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike

from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.hub_weights import Layout, Part, model_from_layout, to_neighbours
from circuitax.models.parameters import params_from_model, transformer_parameters
from circuitax.models.sources import (
    DEEPEST,
    LARGEST,
    LONGEST,
    Config,
    Settings,
    Tensors,
    bound,
    choice,
    cut,
    flag,
    integer,
    number,
)

_NORMS = {
    None: Norm.none,
    "LN": Norm.layernorm,
    "LNPre": Norm.layernorm_pre,
    "RMSPre": Norm.rmsnorm,
    "RMS": Norm.rmsnorm,
}
_ACTIVATIONS = {
    **{name: Activation(name) for name in ("relu", "gelu", "silu", "solu_ln")},
    # The last of a kind is the one that is written.
    **dict.fromkeys(("gelu_fast", "gelu_pytorch_tanh", "gelu_new"), Activation.gelu_tanh),
}
_POSITIONS = {
    "standard": Positions.learned,
    "shortformer": Positions.shortformer,
    "rotary": Positions.rotary,
}
_DIRECTIONS = {"causal": True, "bidirectional": False}
_SIZES = ("n_layers", "d_model", "d_head", "n_heads", "d_vocab")
_MOST = {"n_layers": DEEPEST}
_EPS = 1e-5
# The values that TransformerLens uses for absent keys.
_DEFAULTS = {
    "attn_only": False,
    "attention_dir": "causal",
    "use_attn_scale": True,
    "attn_scale": -1.0,
    "parallel_attn_mlp": False,
    "rotary_adjacent_pairs": False,
    "rotary_base": 10_000,
    "gated_mlp": False,
    "use_local_attn": False,
    "use_qk_norm": False,
}
# Keys that are written where our field is not at its default.
_SAME = {
    "eps": "norm_eps",
    "parallel_attn_mlp": "parallel",
    "n_key_value_heads": "n_kv_heads",
    "d_vocab_out": "d_vocab_out",
    "use_qk_norm": "qk_norm",
    "attn_scores_soft_cap": "score_cap",
    "output_logits_soft_cap": "logit_cap",
    "rotary_base_local": "local_rotary_base",
}
# Options that our forward pass lacks, by the value that switches them off.
_ABSENT = {
    None: "clip_qkv experts_per_token num_experts quantization_method "
    "relative_attention_max_distance relative_attention_num_buckets",
    False: "load_in_4bit post_embedding_ln scale_attn_by_inverse_layer_idx use_NTK_by_parts_rope "
    "use_attention_sinks use_dynamic_ntk_rope use_logn_attn use_normalization_before_and_after "
    "use_yarn_rope",
    1.0: "rotary_scaling_factor",
}
# Other fields of TransformerLens 3.9, which are not read or follow one that is off.
_IGNORED = """
NTK_by_parts_factor NTK_by_parts_high_freq_factor NTK_by_parts_low_freq_factor NTK_original_ctx_len
act_fn attn_scale attn_types checkpoint_index checkpoint_label_type checkpoint_value d_mlp
decoder_start_token_id default_prepend_bos device dtype from_checkpoint gated_mlp init_mode
init_weights initializer_range layer_norm_folding model_name n_devices n_params norm_topk_prob
original_architecture rotary_adjacent_pairs rotary_base_local rotary_dim seed tie_word_embeddings
tokenizer_name tokenizer_prepends_bos train_seq_length trust_remote_code
ungroup_grouped_query_attention use_attn_in use_attn_result use_hook_mlp_in use_hook_tokens
use_split_qkv_input uses_rms_norm window_size yarn_attention_factor yarn_beta_fast yarn_beta_slow
yarn_factor yarn_global_attn_only yarn_original_max_position_embeddings yarn_truncate
"""


def spec_from_config(config: Config) -> TransformerSpec:
    """The spec of a TransformerLens model.

    Source: TransformerLens 3.9, ``HookedTransformerConfig``, for names and defaults.
    """
    given = Settings(config, _DEFAULTS | {"eps": config.get("ln_eps", _EPS)})
    given.get("ln_eps")
    for absent, keys in _ABSENT.items():
        for key in keys.split():
            if given.get(key) not in (None, absent):
                required = json.dumps(absent)
                raise ValueError(f"config key {key!r} is {cut(given[key])}, must be {required}")
    sizes: dict[str, Any] = {
        key: integer(given, key, most=_MOST.get(key, LARGEST)) for key in _SIZES
    }
    unlimited = config.get("n_ctx", 0) is None
    sizes["n_ctx"] = None if unlimited else integer(given, "n_ctx", most=LONGEST)
    attn_only = flag(given, "attn_only")
    positions, norm = _positions(given), _norm(given)
    if given.get("final_rms") not in (None, False) and norm != Norm.rmsnorm:
        raise ValueError(f"config key 'final_rms' is {cut(given['final_rms'])}, must be false")
    spec = TransformerSpec(
        **sizes,
        n_kv_heads=_size(given, "n_key_value_heads", None, sizes["n_heads"]),
        d_vocab_out=_size(given, "d_vocab_out", -1, sizes["d_vocab"]),
        d_mlp=None if attn_only else integer(given, "d_mlp"),
        gated=not attn_only and flag(given, "gated_mlp"),
        activation=Activation.gelu if attn_only else choice(given, "act_fn", _ACTIVATIONS),
        positions=positions,
        norm=norm,
        norm_eps=number(given, "eps", None),
        qk_norm=flag(given, "use_qk_norm"),
        score_cap=_cap(given, "attn_scores_soft_cap"),
        logit_cap=_cap(given, "output_logits_soft_cap"),
        **_rotary_options(given, positions, sizes["d_head"]),
        **_local_options(given, positions, sizes["n_layers"]),
        parallel=flag(given, "parallel_attn_mlp"),
        score_scale=_score_scale(given),
        causal=choice(given, "attention_dir", _DIRECTIONS),
        biases=True,
    )
    # Older files, which say ``normalization``, hold all settings of their training too.
    for key, value in () if "normalization" in config else given.unread():
        if value is not None and key not in _IGNORED.split():
            raise ValueError(
                f"config key {key!r} is {cut(value)}, which no model of TransformerLens 3.9 has: "
                "remove it if it changes no number"
            )
    return spec


def config_from_spec(spec: TransformerSpec) -> dict[str, Any]:
    """The ``config.json`` of a spec; rare options are written where they are set."""
    if spec.positions not in _POSITIONS.values():
        known = ", ".join(sorted(positions.value for positions in _POSITIONS.values()))
        raise ValueError(f"positions={spec.positions.value} must be one of {known} to save")
    if spec.value_width != spec.head_width:
        raise ValueError(f"d_value={spec.value_width} must equal d_head={spec.head_width} to save")
    if spec.d_mlp is not None and spec.activation not in _ACTIVATIONS.values():
        raise ValueError(f"activation={spec.activation.value} has no name in the format")
    # Its gated MLP adds b_in after the product with the gate, and ours before.
    needed: dict[str, Any] = {"mlp_depth": 1, "rotary_frequencies": None}
    needed |= dict.fromkeys(("smeared_keys", "gated", "post_norm", "post_ln"), False)
    needed |= {"final_norm": True} if spec.norm != Norm.none else {}
    for name, value in needed.items():
        if getattr(spec, name) != value:
            raise ValueError(f"{name}={getattr(spec, name)} must be {value} to save")
    names = {norm: name for name, norm in _NORMS.items()}
    acts = {activation: name for name, activation in _ACTIVATIONS.items()}
    return {
        "d_model": spec.d_model,
        "n_layers": spec.n_layers,
        "d_mlp": 4 * spec.d_model if spec.d_mlp is None else spec.d_mlp,
        "d_head": spec.head_width,
        "n_heads": spec.n_heads,
        "n_ctx": spec.n_ctx,
        "d_vocab": spec.d_vocab,
        "act_fn": acts.get(spec.activation, spec.activation.value),
        "attn_only": spec.d_mlp is None,
        "normalization": names[spec.norm],
        "shortformer_pos": spec.positions == Positions.shortformer,
        **_further_options(spec),
    }


def _further_options(spec: TransformerSpec) -> dict[str, Any]:
    """Options absent from most models' files, whose value is TransformerLens's default."""
    usual = TransformerSpec()
    further: dict[str, Any] = {}
    if spec.positions == Positions.rotary:
        further |= {"positional_embedding_type": "rotary", "rotary_adjacent_pairs": True}
        further |= {"rotary_base": spec.rotary_base, "rotary_dim": spec.rotary_width}
    for key, name in _SAME.items():
        if getattr(spec, name) != getattr(usual, name):
            further[key] = getattr(spec, name)
    if not spec.causal:
        further["attention_dir"] = "bidirectional"
    if spec.scale != spec.head_width**-0.5:
        further |= {"use_attn_scale": True, "attn_scale": 1 / spec.scale}
    if spec.window is not None:
        kinds = ["local" if spec.is_local(layer) else "global" for layer in range(spec.n_layers)]
        further |= {"use_local_attn": True, "attn_types": kinds, "window_size": spec.window}
    elif spec.local_rotary_base is not None:
        raise ValueError("window=None must be set beside local_rotary_base to save")
    return further


def pairs_halves(config: Config) -> bool:
    """Whether rotary positions pair entries i and i + half, rather than neighbours."""
    return not config.get("rotary_adjacent_pairs", _DEFAULTS["rotary_adjacent_pairs"])


def _size(config: Config, key: str, unset: int | None, usual: int) -> int | None:
    """A size with a default, for which None stands."""
    if config.get(key) in (None, unset):
        return None
    value = integer(config, key)
    return None if value == usual else value


def _cap(config: Config, key: str) -> float | None:
    return None if config.get(key) == -1 else bound(config, key)


def _rotary_options(config: Config, positions: Positions, d_head: int) -> dict[str, Any]:
    options: dict[str, Any] = {"rotary_base": number(config, "rotary_base", None)}
    if positions == Positions.rotary:
        options["rotary_dim"] = _size(config, "rotary_dim", None, d_head)
    return options


def _local_options(config: Config, positions: Positions, n_layers: int) -> dict[str, Any]:
    """The window of local layers; a window without ``use_local_attn`` is not read there either."""
    if not flag(config, "use_local_attn"):
        return {}
    kinds: Any = config.get("attn_types")
    listed = isinstance(kinds, list | tuple) and len(kinds) >= n_layers
    if not listed or any(kind not in ("local", "global") for kind in kinds):
        raise ValueError(
            f"config key 'attn_types' is {cut(kinds)}, must name local or global for each of "
            f"{n_layers} layers where 'use_local_attn' is true"
        )
    local = tuple(layer for layer in range(n_layers) if kinds[layer] == "local")
    options: dict[str, Any] = {"window": integer(config, "window_size")}
    if positions == Positions.rotary and config.get("rotary_base_local") is not None:
        options["local_rotary_base"] = number(config, "rotary_base_local", None)
    return options | {"local_layers": local} if local else {}


def _positions(config: Config) -> Positions:
    older, key = "shortformer_pos", "positional_embedding_type"
    if key not in config:
        shortformer = older in config and flag(config, older)
        return Positions.shortformer if shortformer else Positions.learned
    positions = choice(config, key, _POSITIONS)
    if older in config and flag(config, older) != (positions == Positions.shortformer):
        raise ValueError(
            f"config key {older!r} is {config[older]}, which contradicts: {key!r} is "
            f"{config[key]!r}"
        )
    flag(config, "rotary_adjacent_pairs")
    return positions


def _norm(config: Config) -> Norm:
    older, key = "normalization_type", "normalization"
    if key not in config:
        return choice(config, older, _NORMS)
    if older in config and config[older] != config[key]:
        raise ValueError(
            f"config key {older!r} is {cut(config[older])}, must be that of {key!r}, "
            f"{cut(config[key])}"
        )
    return choice(config, key, _NORMS)


def _score_scale(config: Config) -> float | None:
    """The score scale: 1 over TransformerLens's ``attn_scale``; -1 stands for its usual root."""
    if not flag(config, "use_attn_scale"):
        return 1.0
    if config["attn_scale"] in (-1, config["d_head"] ** 0.5):
        return None
    return 1 / number(config, "attn_scale", None)


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


def folds_gains(config: Config) -> bool:
    """Whether the norms have no gains, which ours then lack too."""
    return "RMSPre" in (config.get("normalization"), config.get("normalization_type"))


def lens_layout(
    spec: TransformerSpec, *, grouped: bool, halves: bool = False, folded: bool = False
) -> Layout:
    """TransformerLens's files, whose arrays are shaped as ours; absent biases are 0."""
    turned = partial(to_neighbours, n_turned=spec.rotary_width)
    turns = halves and spec.positions == Positions.rotary
    parts = {}
    for ours, parameter in transformer_parameters(spec).items():
        if folded and ours.endswith("norm.gain"):
            continue
        name = ours.rpartition(".")[2]
        parts[ours] = Part(
            _their_name(ours, grouped=grouped),
            parameter.shape[1:] if ours.startswith("blocks.") else parameter.shape,
            turned if turns and name in _TURNED else np.asarray,
            optional=name.startswith("b_"),
        )
    return Layout(parts, BUFFERS, zeros=True)


def model_from_lens(
    tensors: Tensors,
    spec: TransformerSpec,
    dtype: DTypeLike | None,
    *,
    halves: bool = False,
    folded: bool = False,
) -> Model:
    """A model of TransformerLens; errors as of `hub_weights.model_from_hub`.

    Its gated MLP adds ``b_in`` after the product with the gate and ours before, so that ``b_in``
    moves into ``b_out``: ``b_out + b_in @ W_out``. So do the offset, the gain and the mean of the
    norm inside an MLP of ``solu_ln``, whose columns of ``W_out`` then have mean 0.
    """
    shared = any("attn._W_K" in name for name in tensors.names)
    grouped = shared or spec.kv_heads != spec.n_heads
    layout = lens_layout(spec, grouped=grouped, halves=halves, folded=folded)
    layout = layout._replace(ignored=layout.ignored + _norms_inside(spec))
    model = model_from_layout(tensors, layout, spec, dtype, tied=False)
    mlp = model.blocks.mlp
    if mlp is None or not (spec.gated or spec.activation == Activation.solu_ln):
        return model
    # In double precision, in which the model may be asked for.
    late, W_out, b_out = (np.asarray(x, np.float64) for x in (mlp.b_in, mlp.W_out, mlp.b_out))
    moved: dict[str, np.ndarray] = {"b_in": np.zeros_like(late)}
    if not spec.gated:
        inside = [np.ones_like(late), np.zeros_like(late)]
        for layer, name in product(range(spec.n_layers), _norms_inside(spec)):
            one = tensors.take(f"blocks.{layer}{name}", W_out.shape[1:2])
            inside[name.endswith("b")][layer] = one
        gain, late = inside
        scaled = gain[..., None] * W_out
        moved = {"W_out": scaled - scaled.mean(axis=1, keepdims=True)}
    moved["b_out"] = b_out + np.einsum("lm,lmd->ld", late, W_out)
    mlp = mlp._replace(**{name: jnp.asarray(x, model.W_E.dtype) for name, x in moved.items()})
    return model.replace(blocks=model.blocks._replace(mlp=mlp))


def _norms_inside(spec: TransformerSpec) -> tuple[str, ...]:
    """Ends of the names of gain and offset of the norm inside an MLP, where it has them."""
    solu = spec.d_mlp is not None and spec.activation == Activation.solu_ln
    return (".mlp.ln.w", ".mlp.ln.b") if solu and spec.norm == Norm.layernorm else ()


def lens_state(model: Model) -> dict[str, np.ndarray]:
    """The state dict of a model in TransformerLens."""
    spec, state = model.spec, {}
    for ours, array in params_from_model(model).items():
        theirs = _their_name(ours, grouped=spec.kv_heads != spec.n_heads)
        layers = np.asarray(array) if ours.startswith("blocks.") else [np.asarray(array)]
        for layer, one in enumerate(layers):
            state[theirs.format(layer)] = np.ascontiguousarray(one)
    if model.W_out is None or spec.activation != Activation.solu_ln:
        return state
    W_out = np.asarray(model.W_out, np.float64)
    rounding = np.abs(W_out).max(initial=0) * jnp.finfo(model.W_out.dtype).eps
    if np.abs(W_out.mean(axis=1)).max(initial=0) > rounding:
        raise ValueError("W_out must have columns of mean 0 to save activation=solu_ln")
    for layer, name in product(range(spec.n_layers), _norms_inside(spec)):
        one = np.full(W_out.shape[1], name.endswith("w"), model.W_out.dtype)
        state[f"blocks.{layer}{name}"] = one
    return state


def _their_name(ours: str, *, grouped: bool) -> str:
    """Their name of a weight of ours; ``{}`` stands for the layer."""
    if ours in _TOP:
        return _TOP[ours]
    theirs = _LAYER[ours.removeprefix("blocks.")]
    if grouped:
        theirs = re.sub(r"^attn\.([Wb]_[KV])$", r"attn._\1", theirs)
    return "blocks.{}." + theirs
