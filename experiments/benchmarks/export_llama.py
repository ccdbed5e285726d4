"""A rotary, gated model of ours as a folder of the Hub, which others read."""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2
from circuitax.models.transformer import init


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


def random_model(spec: TransformerSpec) -> Model:
    """Random weights of these sizes, with gains as files have them."""
    return init(jax.random.key(0), spec, jnp.float32)


def smollm2() -> Model:
    """SmolLM2; where its package is not installed, random weights of its sizes."""
    return load_pretrained("smollm2") if has_smollm2() else random_model(smollm2_spec())


def exported(model: Model, stack: ExitStack) -> Path:
    """The weights of a model with RMS norms, a gated MLP and rotary positions, as a folder."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    spec = model.spec
    weights = hub_weights(model)
    config = hub_config(spec) | {"tie_word_embeddings": "lm_head.weight" not in weights}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    whole = {name: np.ascontiguousarray(W, np.float32) for name, W in weights.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def hub_weights(model: Any) -> dict[str, Any]:
    """By the names of the family ``llama``."""
    heads, mlp = model.blocks.attention, model.blocks.mlp
    each = {
        "self_attn.q_proj": _rows(_halves(heads.W_Q)),
        "self_attn.k_proj": _rows(_halves(heads.W_K)),
        "self_attn.v_proj": _rows(heads.W_V),
        "self_attn.o_proj": _turned(_joined(heads.W_O)),
        "mlp.gate_proj": _turned(mlp.W_gate),
        "mlp.up_proj": _turned(mlp.W_in),
        "mlp.down_proj": _turned(mlp.W_out),
        "input_layernorm": model.blocks.attention_norm.gain,
        "post_attention_layernorm": model.blocks.mlp_norm.gain,
    }
    layers = range(model.n_layers)
    found = {f"model.layers.{i}.{name}.weight": W[i] for name, W in each.items() for i in layers}
    found |= {"model.embed_tokens.weight": model.W_E, "model.norm.weight": model.final_norm.gain}
    tied = np.array_equal(np.asarray(model.W_E), np.asarray(model.W_U).T)
    return found if tied else found | {"lm_head.weight": model.W_U.T}


def hub_config(spec: TransformerSpec) -> dict[str, Any]:
    """``config.json`` of the family ``llama``."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": spec.d_vocab,
        "hidden_size": spec.d_model,
        "intermediate_size": spec.d_mlp,
        "num_hidden_layers": spec.n_layers,
        "num_attention_heads": spec.n_heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_width,
        "max_position_embeddings": spec.n_ctx,
        "rms_norm_eps": spec.norm_eps,
        "rope_theta": spec.rotary_base,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }


def _turned(W: Any) -> np.ndarray:
    return np.asarray(W).swapaxes(-1, -2)


def _joined(W: Any) -> np.ndarray:
    """``[layers, heads, d_head, d_model]`` as ``[layers, heads · d_head, d_model]``."""
    return np.asarray(W).reshape(len(W), -1, W.shape[-1])


def _rows(W: Any) -> np.ndarray:
    """``[layers, heads, d_model, d_head]`` as ``[layers, heads · d_head, d_model]``."""
    return _joined(_turned(W))


def _halves(W: Any) -> np.ndarray:
    """Neighbours (2i, 2i + 1) of the last axis moved half a width apart."""
    return np.concatenate([np.asarray(W)[..., ::2], np.asarray(W)[..., 1::2]], axis=-1)
