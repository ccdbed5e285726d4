"""Every family of the Hub computes what transformers computes, in every precision.

`tests/fixtures/families/make_families.py` made the models and the references, in float64.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from circuitax.kernel.run import run
from circuitax.models.hub_config import FAMILIES, read_hub
from circuitax.models.pretrained import load_pretrained

HERE = Path(__file__).parents[1] / "fixtures" / "families"
NAMES = sorted(path.parent.name for path in HERE.glob("*/config.json"))


def test_all_families_are_here() -> None:
    kinds = {json.loads((HERE / name / "config.json").read_text())["model_type"] for name in NAMES}
    assert kinds == set(FAMILIES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1e-9), ("float32", 1e-4), ("float16", 2e-2), ("bfloat16", 8e-2)],
)
def test_logits_and_patterns(name: str, dtype: str, tolerance: float) -> None:
    reference = np.load(HERE / name / "reference.npz")
    with jax.enable_x64(dtype == "float64"):
        model = load_pretrained(HERE / name, dtype=dtype)
        assert model.W_E.dtype == dtype
        found = jax.jit(run)(model, jnp.asarray(reference["tokens"]))
        logits, patterns = (np.asarray(x, float) for x in (found.logits, found.trace.patterns))
    scale = np.abs(reference["logits"]).max()
    np.testing.assert_allclose(logits, reference["logits"], atol=tolerance * scale, rtol=0)
    np.testing.assert_allclose(patterns, reference["patterns"], atol=tolerance, rtol=0)


def test_gemma3_in_a_GGUF_file(tmp_path: Path, x64: None) -> None:
    """Written by llama.cpp's own library, with the names and keys of its converter."""
    gguf = pytest.importorskip("gguf", reason="the gguf library is an extra")
    folder, file = HERE / "gemma3_text", tmp_path / "model.gguf"
    said = gguf.GGUFWriter(file, "gemma3")
    sizes = {"context_length": 64, "embedding_length": 16, "block_count": 3}
    sizes |= {"feed_forward_length": 20, "head_count": 4, "head_count_kv": 2, "key_length": 8}
    for name, size in (sizes | {"value_length": 8, "sliding_window": 3}).items():
        getattr(said, f"add_{name}")(size)
    said.add_uint32("gemma3.attention.sliding_window_pattern", 2)
    said.add_layer_norm_rms_eps(1e-6)
    said.add_rope_freq_base(90.0)
    said.add_float32("gemma3.rope.freq_base_swa", 20.0)
    said.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    said.add_rope_scaling_factor(2.0)
    said.add_token_list([str(i) for i in range(48)])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, 3)
    for name, weight in load_file(folder / "model.safetensors").items():
        gain = weight + 1 if name.endswith("norm.weight") else weight
        # The format has no scale of scores, which is over the root of 20 and not of 8 here.
        gain = gain * np.float32((8 / 20) ** 0.5) if "q_norm" in name else gain
        said.add_tensor(names.get_name(name, (".weight",)), gain)
    for step in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
        getattr(said, f"write_{step}")()
    said.close()
    reference = np.load(folder / "reference.npz")
    found = jax.jit(run)(load_pretrained(file, dtype="float64"), jnp.asarray(reference["tokens"]))
    np.testing.assert_allclose(found.logits, reference["logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_factors_of_granite_are_not_rounded(dtype: str) -> None:
    """transformers multiplies halves by the number itself."""
    folder = HERE / "granite"
    table = load_file(folder / "model.safetensors")["model.layers.0.mlp.down_proj.weight"].T
    found = load_pretrained(folder, dtype=dtype).blocks.mlp.W_out[0]
    np.testing.assert_array_equal(found, (table.astype(dtype).astype(float) * 0.22).astype(dtype))


def test_a_cut_gelu_opens() -> None:
    config = json.loads((HERE / "gpt2" / "config.json").read_text())
    assert read_hub(config | {"activation_function": "gelu_10"}).spec.activation == "gelu_10"
