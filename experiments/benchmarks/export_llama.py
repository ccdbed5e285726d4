"""A rotary, gated model of ours as others read it: for transformers, and for TransformerLens."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec


def smollm2_spec(n_layers: int = 30, d_vocab: int = 49_152) -> TransformerSpec:
    """The sizes of SmolLM2-135M, or fewer layers and tokens of them."""
    return TransformerSpec(
        d_vocab=d_vocab,
        n_ctx=8192,
        n_layers=n_layers,
        n_heads=9,
        n_kv_heads=3,
        d_model=576,
        d_head=64,
        d_mlp=1536,
        gated=True,
        activation=Activation.silu,
        positions=Positions.rotary,
        rotary_base=100_000.0,
        norm=Norm.rmsnorm,
    )


def hub_folder(model: Model, folder: Path) -> None:
    """``config.json`` and ``model.safetensors`` of the family ``llama``.

    Args:
        model: Without biases, with an RMS norm, a gated MLP and rotary positions.
        folder: Is made.
    """
    spec, blocks = model.spec, model.blocks
    tied = np.array_equal(np.asarray(model.W_E), np.asarray(model.W_U).T)
    found = {"model.embed_tokens.weight": model.W_E, "model.norm.weight": _gain(model.final_norm)}
    if not tied:
        found["lm_head.weight"] = np.asarray(model.W_U).T
    heads, mlp = blocks.attention, blocks.mlp
    if mlp is None or mlp.W_gate is None:
        raise ValueError("blocks.mlp must be gated")
    for layer in range(spec.n_layers):
        W_O = np.asarray(heads.W_O[layer]).reshape(-1, spec.d_model)
        each = {
            "self_attn.q_proj": _rows(_halves(heads.W_Q[layer])),
            "self_attn.k_proj": _rows(_halves(heads.W_K[layer])),
            "self_attn.v_proj": _rows(heads.W_V[layer]),
            "self_attn.o_proj": W_O.T,
            "mlp.gate_proj": np.asarray(mlp.W_gate[layer]).T,
            "mlp.up_proj": np.asarray(mlp.W_in[layer]).T,
            "mlp.down_proj": np.asarray(mlp.W_out[layer]).T,
            "input_layernorm": _gain(blocks.attention_norm)[layer],
            "post_attention_layernorm": _gain(blocks.mlp_norm)[layer],
        }
        found |= {f"model.layers.{layer}.{name}.weight": W for name, W in each.items()}
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": spec.d_vocab,
        "hidden_size": spec.d_model,
        "intermediate_size": mlp.W_in.shape[-1],
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_width,
        "max_position_embeddings": spec.n_ctx,
        "rms_norm_eps": spec.norm_eps,
        "rope_theta": spec.rotary_base,
        "hidden_act": "silu",
        "tie_word_embeddings": bool(tied),
        "torch_dtype": "float32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    arrays = {name: np.ascontiguousarray(W, np.float32) for name, W in found.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})


def lens_weights(model: Model, file: Path) -> dict[str, Any]:
    """The weights under TransformerLens's names in one file, and the settings that go with them.

    Args:
        model: As for `hub_folder`.
        file: Is written.
    """
    spec, blocks = model.spec, model.blocks
    heads, mlp = blocks.attention, blocks.mlp
    if mlp is None or mlp.W_gate is None:
        raise ValueError("blocks.mlp must be gated")
    found = {
        "embed.W_E": model.W_E,
        "unembed.W_U": model.W_U,
        "ln_final.w": _gain(model.final_norm),
    }
    for layer in range(spec.n_layers):
        each = {
            "attn.W_Q": heads.W_Q[layer],
            "attn._W_K": heads.W_K[layer],
            "attn._W_V": heads.W_V[layer],
            "attn.W_O": heads.W_O[layer],
            "mlp.W_gate": mlp.W_gate[layer],
            "mlp.W_in": mlp.W_in[layer],
            "mlp.W_out": mlp.W_out[layer],
            "ln1.w": _gain(blocks.attention_norm)[layer],
            "ln2.w": _gain(blocks.mlp_norm)[layer],
        }
        found |= {f"blocks.{layer}.{name}": W for name, W in each.items()}
    save_file({name: np.ascontiguousarray(W, np.float32) for name, W in found.items()}, file)
    return {
        "n_layers": spec.n_layers,
        "n_heads": spec.n_heads,
        "n_key_value_heads": spec.kv_heads,
        "d_model": spec.d_model,
        "d_head": spec.head_width,
        "d_mlp": mlp.W_in.shape[-1],
        "d_vocab": spec.d_vocab,
        "n_ctx": 2048,
        "act_fn": "silu",
        "gated_mlp": True,
        "final_rms": True,
        "normalization_type": "RMS",
        "eps": spec.norm_eps,
        "positional_embedding_type": "rotary",
        "rotary_dim": spec.head_width,
        "rotary_base": int(spec.rotary_base),
        "rotary_adjacent_pairs": True,
    }


def _rows(W: Any) -> np.ndarray:
    """``[heads, d_model, d_head]`` as ``[heads · d_head, d_model]``."""
    return np.asarray(W).transpose(0, 2, 1).reshape(-1, W.shape[1])


def _halves(W: Any) -> np.ndarray:
    """Neighbours (2i, 2i + 1) of the last axis moved half a width apart."""
    return np.concatenate([np.asarray(W)[..., ::2], np.asarray(W)[..., 1::2]], axis=-1)


def _gain(norm: Any) -> np.ndarray:
    if norm is None:
        raise ValueError("every norm must have a gain")
    return np.asarray(norm.gain)
