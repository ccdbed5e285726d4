"""A model in shards and in a GGUF file is the model of its one safetensors file."""

import json
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from circuitax.models import sources
from circuitax.models.gguf_format import gguf_tensors, open_gguf
from circuitax.models.pretrained import load_pretrained, load_tokenizer

FAMILIES = Path(__file__).parents[1] / "fixtures" / "families"
TOKENS = jnp.array([3, 17, 40, 8, 17, 2, 31])
GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}


def same_weights(found: Model, expected: Model) -> None:
    jax.tree.map(np.testing.assert_array_equal, found.named(), expected.named())


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """The gpt2 fixture in two files and their index."""
    state = load_file(FAMILIES / "gpt2" / "model.safetensors")
    names = sorted(state)
    files = {"model-00001-of-00002.safetensors": names[::2]}
    files["model-00002-of-00002.safetensors"] = names[1::2]
    for file, inside in files.items():
        save_file({name: state[name] for name in inside}, tmp_path / file)
    where = {name: file for file, inside in files.items() for name in inside}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    shutil.copy(FAMILIES / "gpt2" / "config.json", tmp_path)
    return tmp_path


def test_shards_are_one_model(shards: Path) -> None:
    same_weights(load_pretrained(shards), load_pretrained(FAMILIES / "gpt2"))


def test_a_missing_shard_and_a_name_in_two_are_named(shards: Path) -> None:
    first, second = sorted(shards.glob("*.safetensors"))
    state = load_file(second)
    twice = next(iter(load_file(first)))
    save_file(state | {twice: np.zeros(1, np.float32)}, second)
    with pytest.raises(ValueError, match=f"weight '{twice}' is in both"):
        load_pretrained(shards)
    second.unlink()
    with pytest.raises(ValueError, match=r"names 'model-00002-of-00002\.safetensors', must name"):
        load_pretrained(shards)
    (shards / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ValueError, match="must be JSON with a 'weight_map'"):
        load_pretrained(shards)


def write_gguf(folder: Path, file: Path) -> None:
    """A Hub folder as a GGUF file of single precision, laid out as llama.cpp converts it."""
    gguf = pytest.importorskip("gguf", reason="the gguf library is an extra")
    config = json.loads((folder / "config.json").read_text())
    family, n_heads = config["model_type"], config["num_attention_heads"]
    writer = gguf.GGUFWriter(str(file), family)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if "factor" in config["rope_parameters"]:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config["rope_parameters"]["factor"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_rope_dimension_count(config["head_dim"])
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
    for name, array in load_file(folder / "model.safetensors").items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        stem, _, kind = name.removeprefix("model.").rpartition(".")
        place = ""
        if stem.startswith("layers."):
            _, layer, stem = stem.split(".", 2)
            place = f"blk.{layer}."
        if family == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
            n = n_heads if "q_proj" in stem else config["num_key_value_heads"]
            halves = array.reshape(n, 2, -1, *array.shape[1:])
            array = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape))
        writer.add_tensor(f"{place}{GGUF_NAMES[stem]}.{kind}", array.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_a_gguf_file_is_the_model_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(FAMILIES / name, folder)
    # The windows of the qwen2 fixture have no place in a GGUF file of its architecture.
    config = json.loads((folder / "config.json").read_text())
    config |= {"use_sliding_window": False, "layer_types": ["full_attention"] * 3}
    (folder / "config.json").write_text(json.dumps(config))
    write_gguf(folder, tmp_path / "model.gguf")
    found, expected = load_pretrained(tmp_path / "model.gguf"), load_pretrained(folder)
    same_weights(found, expected)
    logits = [np.asarray(jax.jit(forward)(m, TOKENS)[0]) for m in (found, expected)]
    np.testing.assert_allclose(*logits, rtol=1e-5, atol=1e-5)


def test_pages_of_a_gguf_file_are_given_back(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the gguf library is an extra")
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("pages in use are counted where the kernel tells them")
    file = tmp_path / "wide.gguf"
    written = np.random.default_rng(5).normal(size=(5000, 256)).astype(np.float16)
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_tensor("token_embd.weight", written)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = open_gguf(file)
    assert reader.tensors[0].data.sum(dtype=float) == pytest.approx(written.sum(dtype=float))

    def pages_kb() -> int:
        lines = smaps.read_text().split(str(file))[1].splitlines()
        return int(next(line for line in lines if line.startswith("Rss:")).split()[1])

    assert pages_kb() > 2000
    read = gguf_tensors(reader).read("embed_tokens.weight")
    np.testing.assert_array_equal(read, written)
    assert pages_kb() < 200


PARAGRAPH = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the feelings or views of such a man may be on "
    "his first entering a neighbourhood, this truth is so well fixed in the minds of the "
    "surrounding families, that he is considered the rightful property of some one or other of "
    "their daughters."
)


@pytest.mark.skipif(not sources.has_smollm2(), reason=f"no weights: {sources.HOW}")
def test_reference_numbers() -> None:
    model, tokenizer = load_pretrained("smollm2"), load_tokenizer("smollm2")
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) - model.W_U.size == 134_515_008
    forward = jax.jit(run)
    paris = tokenizer.encode("The capital of France is").ids
    assert paris == [504, 3575, 282, 4649, 314]
    logits = np.asarray(forward(model, jnp.asarray(paris)).logits[-1])
    top = np.argsort(-logits)[:5]
    assert [tokenizer.decode([int(i)]) for i in top] == [" Paris", " the", " London", " Le", " New"]
    expected = [17.3713, 14.8886, 13.2450, 13.0095, 12.9515]
    np.testing.assert_allclose(logits[top], expected, atol=2e-4)
    # The loss sees what the top word does not: with wrong rotary pairs it is 4.76.
    ids = np.array(tokenizer.encode(PARAGRAPH).ids)
    assert len(ids) == 76 and tokenizer.decode(ids.tolist()) == PARAGRAPH
    log_probs = jax.nn.log_softmax(forward(model, jnp.asarray(ids)).logits)
    loss = -np.asarray(log_probs)[np.arange(75), ids[1:]].mean()
    assert loss == pytest.approx(3.3990, abs=1e-4)
