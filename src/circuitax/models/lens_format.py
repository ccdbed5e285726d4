"""TransformerLens's ``config.json`` against our `TransformerSpec`."""

from collections.abc import Mapping
from typing import Any

from circuitax.kernel.activations import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.models.specs import TransformerSpec

_NORMS = {
    None: Norm.none,
    "LN": Norm.layernorm,
    "LNPre": Norm.layernorm_pre,
    "RMS": Norm.rmsnorm,
}
_ACTIVATIONS = {"relu": Activation.relu, "gelu": Activation.gelu, "silu": Activation.silu}
_SIZES = ("n_layers", "d_model", "d_head", "n_heads", "n_ctx", "d_vocab")


def spec_from_config(config: Mapping[str, Any]) -> TransformerSpec:
    """The spec of a TransformerLens model.

    Raises:
        ValueError: If a key is missing, or has a value that this library does not model.
    """
    for key in _SIZES:
        if not isinstance(config.get(key), int):
            raise ValueError(f"config key {key!r} is {config.get(key)!r}, must be an integer")
    norm = config.get("normalization", config.get("normalization_type"))
    if norm not in _NORMS:
        known = sorted(str(name) for name in _NORMS)
        raise ValueError(f"config key 'normalization' is {norm!r}, must be one of {known}")
    attn_only = bool(config.get("attn_only", False))
    activation = str(config.get("act_fn"))
    if not attn_only and activation not in _ACTIVATIONS:
        raise ValueError(
            f"config key 'act_fn' is {activation!r}, must be one of {sorted(_ACTIVATIONS)}"
        )
    if not attn_only and not isinstance(config.get("d_mlp"), int):
        raise ValueError(f"config key 'd_mlp' is {config.get('d_mlp')!r}, must be an integer")
    # Its gated MLP adds b_in after the product with the gate; ours, before.
    for key in ("final_rms", "parallel_attn_mlp", "gated_mlp"):
        if config.get(key, False):
            raise ValueError(f"config key {key!r} is {config[key]!r}, must be false")
    return TransformerSpec(
        **{key: config[key] for key in _SIZES},
        d_mlp=None if attn_only else config["d_mlp"],
        activation=Activation.gelu if attn_only else _ACTIVATIONS[activation],
        positions=Positions.shortformer if config.get("shortformer_pos") else Positions.learned,
        norm=_NORMS[norm],
        biases=True,
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
