"""TransformerLens's settings, each honoured or refused."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from circuitax.kernel.forward import forward
from circuitax.kernel.mlp import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.lens_format import spec_from_config
from circuitax.models.pretrained import load_pretrained, save_pretrained
from circuitax.models.transformer import init

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transformer_lens"
SIZES = {
    "d_model": 16,
    "n_layers": 2,
    "d_mlp": 64,
    "d_head": 4,
    "n_heads": 4,
    "n_ctx": 12,
    "d_vocab": 11,
    "act_fn": "gelu",
    "attn_only": True,
}
CONFIG = SIZES | {"normalization_type": None}
LOCAL = {"use_local_attn": True, "attn_types": ["global", "local"], "window_size": 3}
ROTARY = {"positional_embedding_type": "rotary", "rotary_adjacent_pairs": True}
# All that TransformerLens 3.9's own config of ``shortformer_LN`` holds besides the sizes.
IN_FULL = {
    **{"normalization_type": "LN", "positional_embedding_type": "shortformer", "eps": 1e-5},
    **{"attention_dir": "causal", "use_attn_scale": True, "attn_scale": 2.0, "d_vocab_out": 11},
    **{"attn_scores_soft_cap": -1.0, "output_logits_soft_cap": -1.0, "clip_qkv": None},
    **{"attn_types": None, "window_size": None, "n_key_value_heads": None, "num_experts": None},
    **{"experts_per_token": None, "relative_attention_max_distance": None, "final_rms": False},
    **{"relative_attention_num_buckets": None, "rotary_dim": None, "rotary_base": 10_000},
    **{"rotary_base_local": None, "rotary_scaling_factor": 1.0, "rotary_adjacent_pairs": False},
    **{"gated_mlp": False, "load_in_4bit": False, "parallel_attn_mlp": False, "seed": 0},
    **{"quantization_method": None, "use_local_attn": False, "use_qk_norm": False},
    **{"tie_word_embeddings": False, "post_embedding_ln": False, "use_attention_sinks": False},
    **{"scale_attn_by_inverse_layer_idx": False, "use_logn_attn": False, "n_params": 2048},
    **{"use_normalization_before_and_after": False, "use_dynamic_ntk_rope": False},
    **{"use_NTK_by_parts_rope": False, "use_yarn_rope": False, "yarn_factor": 1.0},
    **{"uses_rms_norm": False, "layer_norm_folding": False},
    **{"ungroup_grouped_query_attention": False},
    **{"device": "cpu", "n_devices": 1, "dtype": "torch.float32", "model_name": "custom"},
    **{"use_attn_result": False, "use_split_qkv_input": False, "use_hook_tokens": False},
    **{"use_hook_mlp_in": False, "use_attn_in": False, "default_prepend_bos": True},
    **{"tokenizer_name": None, "tokenizer_prepends_bos": None, "trust_remote_code": False},
    **{"original_architecture": None, "from_checkpoint": False, "checkpoint_index": None},
    **{"init_mode": "gpt2", "init_weights": True, "initializer_range": 0.2},
}


def test_a_config_in_full_is_that_of_the_repository() -> None:
    short = json.loads((FIXTURES / "shortformer_LN" / "config.json").read_text())
    assert spec_from_config(SIZES | IN_FULL) == spec_from_config(short)


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({"positional_embedding_type": "shortformer"}, "positions", Positions.shortformer),
        ({"shortformer_pos": False, **ROTARY}, "positions", Positions.rotary),
        ({**ROTARY, "rotary_base": 500, "rotary_dim": 4}, "rotary_base", 500.0),
        ({"attention_dir": "bidirectional"}, "causal", False),
        ({"use_attn_scale": False, "attn_scale": 3.0}, "score_scale", 1.0),
        ({"attn_scale": 8.0}, "score_scale", 0.125),
        ({"eps": 1e-6}, "norm_eps", 1e-6),
        ({"attn_only": False, "parallel_attn_mlp": True}, "parallel", True),
        ({"normalization_type": "RMS", "final_rms": True}, "norm", Norm.rmsnorm),
        ({"ln_eps": 1e-4}, "norm_eps", 1e-4),
        ({"eps": 1e-6, "ln_eps": 1e-4}, "norm_eps", 1e-6),
        (ROTARY | {"rotary_dim": 2}, "rotary_dim", 2),
        ({"d_vocab_out": 5}, "d_vocab_out", 5),
        ({"n_key_value_heads": 2}, "n_kv_heads", 2),
        ({"n_key_value_heads": 4}, "n_kv_heads", None),
        ({"attn_scores_soft_cap": 50.0}, "score_cap", 50.0),
        ({"output_logits_soft_cap": 30.0}, "logit_cap", 30.0),
        (LOCAL, "window", 3),
        (LOCAL, "local_layers", (1,)),
        (LOCAL | ROTARY | {"rotary_base_local": 20}, "local_rotary_base", 20.0),
        ({"window_size": 3}, "window", None),
        ({"use_qk_norm": True}, "qk_norm", True),
        ({"attn_only": False, "gated_mlp": True}, "gated", True),
        ({"attn_only": False, "act_fn": "gelu_fast"}, "activation", Activation.gelu_tanh),
        ({"tie_word_embeddings": True}, "d_vocab_out", None),
        # Settings of a training, of which older files hold all.
        ({"normalization": None, "lr_hidden": 2e-3}, "d_vocab_out", None),
    ],
)
def test_honoured(change: dict, name: str, value: object) -> None:
    assert getattr(spec_from_config(CONFIG | change), name) == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": True}, "'d_model' is True, must be an integer"),
        ({"temper": 0.5}, "'temper' is 0.5, which no model of TransformerLens 3.9 has: remove it"),
        ({"attn_only": "no"}, "'attn_only' is 'no', must be true or false"),
        ({"attn_only": False, "act_fn": ["gelu"]}, r"'act_fn' is \['gelu'\], must be one of"),
        ({"normalization_type": ["LN"]}, r"'normalization_type' is \['LN'\], must be one of"),
        ({"normalization_type": "DyT"}, "'normalization_type' is 'DyT', must be one of"),
        ({"normalization": "LN"}, "'normalization_type' is None, must be that of 'normalization'"),
        ({"positional_embedding_type": "alibi"}, r"'alibi', must be one of \['rotary', 'short"),
        ({"positional_embedding_type": "relative_positional_bias"}, "'relative_positional_bias',"),
        (ROTARY | {"shortformer_pos": True}, "'shortformer_pos' is True, which contradicts"),
        (
            {"positional_embedding_type": "shortformer", "shortformer_pos": False},
            "'shortformer_pos' is False, which contradicts: 'positional_embedding_type' is 'short",
        ),
        ({"shortformer_pos": 1}, "'shortformer_pos' is 1, must be true or false"),
        (ROTARY | {"rotary_dim": 3}, "rotary_dim=3 must be even and at most d_head=4"),
        (ROTARY | {"rotary_base": 0}, "'rotary_base' is 0, must be a positive number"),
        (ROTARY | {"d_head": 3}, "d_head=3 must be even for positions=rotary"),
        ({"attention_dir": "forward"}, "'attention_dir' is 'forward', must be one of"),
        ({"use_attn_scale": 1}, "'use_attn_scale' is 1, must be true or false"),
        ({"attn_scale": 0}, "'attn_scale' is 0, must be a positive number"),
        ({"eps": -1e-5}, "'eps' is -1e-05, must be a positive number"),
        ({"eps": float("inf")}, "'eps' is inf, must be a positive number"),
        ({"eps": "1e-5"}, "'eps' is '1e-5', must be a positive number"),
        (LOCAL | {"attn_types": ["local"]}, r"'attn_types' is \['local'\], must name local or"),
        (LOCAL | {"attn_types": None}, "'attn_types' is None, must name local or global"),
        (LOCAL | {"window_size": None}, "'window_size' is None, must be an integer"),
        ({"attn_scores_soft_cap": 0}, "'attn_scores_soft_cap' is 0, must be a positive number"),
        ({"n_key_value_heads": 3}, "n_kv_heads=3 must divide n_heads=4"),
        ({"final_rms": True}, "'final_rms' is True, must be false"),
        ({"rotary_scaling_factor": 8.0}, r"'rotary_scaling_factor' is 8\.0, must be 1\.0"),
        ({"quantization_method": "mxfp4"}, "'quantization_method' is 'mxfp4', must be null"),
    ],
)
def test_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec_from_config(CONFIG | change)


@pytest.mark.parametrize("causal", [True, False])
def test_rotary_positions_are_those_of_TransformerLens(
    x64: None, tmp_path: Path, causal: bool
) -> None:
    """Layer 0's patterns as ``calculate_sin_cos_rotary`` and ``rotate_every_two`` have them."""
    state = load_file(FIXTURES / "standard_None" / "model.safetensors")
    del state["pos_embed.W_pos"]
    state["blocks.0.attn.rotary_sin"] = np.zeros((12, 4), np.float32)
    save_file(state, tmp_path / "model.safetensors")
    direction = {"attention_dir": "causal" if causal else "bidirectional"}
    config = CONFIG | ROTARY | direction | {"rotary_base": 50, "attn_scale": 1.7}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load_pretrained(tmp_path, dtype="float64")
    tokens = np.array([3, 1, 4, 1, 5])
    _, trace = jax.jit(forward)(model, tokens)

    x = state["embed.W_E"][tokens].astype(np.float64)
    angles = np.arange(5)[:, None] / np.repeat(50 ** (np.arange(2) / 2), 2)
    turned = []
    for name in "QK":
        y = x @ state[f"blocks.0.attn.W_{name}"] + state[f"blocks.0.attn.b_{name}"][:, None]
        flipped = np.stack([-y[..., 1::2], y[..., ::2]], axis=-1).reshape(y.shape)
        turned.append(y * np.cos(angles) + flipped * np.sin(angles))
    scores = turned[0] @ turned[1].swapaxes(1, 2) / 1.7
    if causal:
        scores[:, ~np.tri(5, dtype=bool)] = -np.inf
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(trace.patterns[0], expected, rtol=0, atol=1e-12)


LENS_OPTIONS_FIXTURES = Path(__file__).parent.parent / "fixtures" / "lens_options"


@pytest.mark.parametrize("name", ["grouped", "local"])
def test_logits_and_patterns_of_TransformerLens(x64: None, name: str) -> None:
    model = load_pretrained(LENS_OPTIONS_FIXTURES / name, dtype="float64")
    expected = np.load(LENS_OPTIONS_FIXTURES / name / "reference.npz")
    logits, trace = jax.jit(jax.vmap(lambda tokens: forward(model, tokens)))(expected["tokens"])
    np.testing.assert_allclose(logits, expected["logits"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(trace.patterns, expected["patterns"], rtol=1e-9, atol=1e-10)


def test_a_gated_bias_moves_behind_the_product() -> None:
    model = load_pretrained(LENS_OPTIONS_FIXTURES / "grouped")
    state = load_file(LENS_OPTIONS_FIXTURES / "grouped/model.safetensors")
    assert model.blocks.mlp is not None
    np.testing.assert_array_equal(model.blocks.mlp.b_in, 0)
    late = state["blocks.1.mlp.b_in"] @ state["blocks.1.mlp.W_out"]
    np.testing.assert_allclose(
        model.blocks.mlp.b_out[1], state["blocks.1.mlp.b_out"] + late, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "options",
    [
        {"n_kv_heads": 2, "positions": Positions.rotary, "rotary_dim": 2, "rotary_base": 30.0},
        {"n_ctx": None, "positions": Positions.rotary},
        {"window": 3, "local_layers": (1,), "score_cap": 2.0, "logit_cap": 5.0},
        {"qk_norm": True, "causal": False, "norm": Norm.rmsnorm, "norm_eps": 1e-3},
        {"d_vocab_out": 3, "score_scale": 0.25, "parallel": True, "d_mlp": 5},
        {"activation": Activation.gelu_tanh, "d_mlp": 5, "norm": Norm.layernorm},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_go_there_and_back(tmp_path: Path, options: dict) -> None:
    sizes = {"d_vocab": 7, "n_ctx": 6, "d_model": 8, "d_head": 4, "n_heads": 4, "biases": True}
    spec = TransformerSpec(**(sizes | {"positions": Positions.learned} | options))
    model = init(jax.random.key(0), spec)
    save_pretrained(model, tmp_path)
    again = load_pretrained(tmp_path)
    assert again.spec == spec
    jax.tree.map(np.testing.assert_array_equal, again.named(), model.named())


def test_a_save_whose_gains_are_in_its_maps(tmp_path: Path, x64: None) -> None:
    """``RMSPre``, the form of every Llama in TransformerLens, from the model with its gains."""
    source = FIXTURES.parent / "lens_options" / "grouped"
    state, config = load_file(source / "model.safetensors"), source / "config.json"
    for layer in range(2):
        at = f"blocks.{layer}."
        gain = state.pop(at + "ln1.w")[:, None]
        for name in ("attn.W_Q", "attn._W_K", "attn._W_V"):
            state[at + name] = (gain * state[at + name]).astype(np.float64)
        gain = state.pop(at + "ln2.w")[:, None]
        for name in ("mlp.W_in", "mlp.W_gate"):
            state[at + name] = gain * state[at + name]
    state["unembed.W_U"] = state.pop("ln_final.w")[:, None] * state["unembed.W_U"]
    save_file(state, tmp_path / "model.safetensors")
    settings = json.loads(config.read_text()) | {"normalization_type": "RMSPre"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    model, reference = load_pretrained(tmp_path, dtype="float64"), np.load(source / "reference.npz")
    assert model.final_norm is None and model.spec.norm == Norm.rmsnorm
    logits, _ = jax.jit(jax.vmap(forward, (None, 0)))(model, jnp.asarray(reference["tokens"]))
    np.testing.assert_allclose(logits, reference["logits"], atol=1e-5)


def ln(x: np.ndarray, gain: Any = 1.0, offset: Any = 0.0) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-5
    ) * gain + offset


@pytest.mark.parametrize("norm", ["LN", "LNPre"])
def test_solu_ln(tmp_path: Path, x64: None, rng: np.random.Generator, norm: str) -> None:
    """The norm inside the MLP, with gain and offset or without; and there and back."""
    state, m = load_file(FIXTURES / f"standard_{norm}" / "model.safetensors"), 24
    shapes = {"mlp.W_in": (16, m), "mlp.b_in": (m,), "mlp.W_out": (m, 16), "mlp.b_out": (16,)}
    if norm == "LN":
        shapes |= {"ln2.w": (16,), "ln2.b": (16,), "mlp.ln.w": (m,), "mlp.ln.b": (m,)}
    for layer in range(2):
        for name, shape in shapes.items():
            state[f"blocks.{layer}.{name}"] = rng.standard_normal(shape)
    config = CONFIG | {"attn_only": False, "act_fn": "solu_ln", "normalization_type": norm}
    (tmp_path / "config.json").write_text(json.dumps(config | {"d_mlp": m}))
    save_file(state, tmp_path / "model.safetensors")
    model, tokens = load_pretrained(tmp_path, dtype="float64"), jnp.array([1, 5, 2, 2, 6])
    found = run(model, tokens, outputs=True)
    for layer in range(2):
        W = {name: state[f"blocks.{layer}.{name}"] for name in shapes}
        read = ln(np.asarray(found.mid[layer]), W.get("ln2.w", 1.0), W.get("ln2.b", 0.0))
        z = read @ W["mlp.W_in"] + W["mlp.b_in"]
        softmax = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
        post = ln(z * softmax, W.get("mlp.ln.w", 1.0), W.get("mlp.ln.b", 0.0))
        want = post @ W["mlp.W_out"] + W["mlp.b_out"]
        np.testing.assert_allclose(found.mlp_outputs[layer], want, rtol=0, atol=1e-12)
    save_pretrained(model, tmp_path / "again")
    again = load_pretrained(tmp_path / "again")
    np.testing.assert_allclose(run(again, tokens).logits, found.logits, rtol=0, atol=1e-12)
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == state.keys()
    mlp = model.blocks.mlp._replace(W_out=model.W_out + 1)
    with pytest.raises(ValueError, match="W_out must have columns of mean 0 to save"):
        save_pretrained(model.replace(blocks=model.blocks._replace(mlp=mlp)), tmp_path)
    if norm == "LN":
        del state["blocks.1.mlp.ln.b"]
        save_file(state, tmp_path / "l.safetensors")
        with pytest.raises(ValueError, match=r"weight 'blocks\.1\.mlp\.ln\.b' is missing"):
            load_pretrained(tmp_path / "l.safetensors", config=config | {"d_mlp": m})
