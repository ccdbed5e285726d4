"""Every key of a file is read, known to be harmless, or refused by its name.

What a family does with a key is what transformers 5.24 and llama.cpp do with it.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from circuitax.kernel.run import run
from circuitax.models.hub_config import FAMILIES, read_hub
from circuitax.models.pretrained import load_pretrained, load_tokenizer

HERE = Path(__file__).parents[1] / "fixtures" / "families"
F32, BOOL, TEXT, LIST = 6, 7, 8, 9
BASES = {"rope_theta": 90.0, "rope_local_base_freq": 20.0}
LINEAR = {"rope_type": "linear", "factor": 2.0}
BARE = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}


def settings(name: str, **changes: Any) -> dict[str, Any]:
    """Those of a fixture; None takes a key out."""
    config = json.loads((HERE / name / "config.json").read_text()) | changes
    return {key: value for key, value in config.items() if value is not None}


@pytest.mark.parametrize(
    "changes",
    [
        BASES | {"rope_parameters": None, "rope_scaling": LINEAR},
        BASES | {"rope_parameters": BARE},
    ],
)
def test_bases_of_gemma3_in_the_older_format(changes: dict[str, Any]) -> None:
    assert (
        read_hub(settings("gemma3_text", **changes)).spec == read_hub(settings("gemma3_text")).spec
    )


def test_bases_of_gemma3_that_no_key_gives() -> None:
    spec = read_hub(settings("gemma3_text", rope_parameters=None)).spec
    assert (spec.rotary_base, spec.local_rotary_base) == (1e6, 1e4)


@pytest.mark.parametrize("name", ["qwen2", "qwen3"])
def test_layers_of_qwen_from_the_28th_on_have_a_window(name: str) -> None:
    changes: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 4}
    changes |= {"max_window_layers": None, "layer_types": None, "num_hidden_layers": 30}
    assert read_hub(settings(name, **changes)).spec.local_layers == (28, 29)
    refused = settings(name, layer_types=["sliding_attention"] * 3, use_sliding_window=False)
    with pytest.raises(ValueError, match="'use_sliding_window' is false; set it to true"):
        read_hub(refused)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llama", {"use_sliding_window": True}, "is True, .* model_type 'mistral' opens it"),
        ("llama", {"sliding_window": 4096}, "is 4096, .* model_type 'mistral' opens it"),
        ("llama", {"layer_types": ["sliding_attention"] * 3}, "which no llama has here: remove"),
        ("llama", {"embedding_multiplier": 12.0}, "is 12.0, .* model_type 'granite' opens it"),
        ("llama", {"residual_multiplier": 0.2}, "is 0.2, .* model_type 'granite' opens it"),
        ("llama", {"attention_multiplier": 0.1}, "is 0.1, .* model_type 'granite' opens it"),
        ("llama", {"logits_scaling": 8.0}, "is 8.0, .* model_type 'granite' opens it"),
        ("llama", {"query_pre_attn_scalar": 9}, "is 9, .* model_type 'gemma2' opens it"),
        ("llama", {"no_rope_layers": [1, 0, 1]}, "model_type 'smollm3' opens it"),
        ("llama", {"partial_rotary_factor": 0.5}, "is 0.5, .* model_type 'phi3' opens it"),
        ("llama", {"rope_scaling": LINEAR}, "'rope_scaling' is .*, which no llama has here"),
        ("llama", {"num_local_experts": 8}, "is 8, which no llama has here: remove it"),
        ("llama", {"rope_parameters": {"rope_theta": 9.0, "mscale": 2}}, "'mscale' is 2, which"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "is 50.0, .* 'gemma2' opens it"),
        ("gemma3_text", {"rope_parameters": LINEAR}, "'rope_type' is 'linear', which no gemma3"),
        ("mistral", {"layer_types": ["full_attention"] * 2}, "which no mistral has here: remove"),
        ("opt", {"do_layer_norm_before": False}, "is False, which no opt has here"),
        ("opt", {"word_embed_proj_dim": 8}, "is 8, must be that of 'hidden_size', 16: a map"),
        ("gpt_neo", {"attention_layers": ["local"] * 2}, "'attention_types' is .*, must name"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "is True, which no gpt2 has here"),
        ("phi3", {"rope_parameters": {"rope_type": "longrope"}}, "'rope_type' is 'longrope', must"),
    ],
)
def test_a_key_that_a_family_lacks_is_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_hub(settings(name, **changes))
    assert "\n" not in str(error.value) and str(error.value).startswith("config key '")


def test_what_would_open_of_a_model_of_texts_and_pictures(tmp_path: Path) -> None:
    inner = settings("gemma3_text")
    with pytest.raises(
        ValueError, match=r"'model_type' is 'gemma3', .* its text part opens: 'text"
    ):
        read_hub({"model_type": "gemma3", "text_config": inner})
    state = load_file(HERE / "gemma3_text" / "model.safetensors")
    folder_of(tmp_path, inner, {f"language_model.{name}": W for name, W in state.items()})
    found, same = load_pretrained(tmp_path), load_pretrained(HERE / "gemma3_text")
    np.testing.assert_array_equal(found.blocks.attention.W_Q, same.blocks.attention.W_Q)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_new_key_is_refused_in_every_family(family: str) -> None:
    name = family.replace("-", "_")
    read_hub(settings(name, torch_dtype="bfloat16", use_cache=False, clip_qkv=None))
    with pytest.raises(ValueError, match=r"'temper' is 0\.5, which no .* remove it"):
        read_hub(settings(name, temper=0.5))


def folder_of(folder: Path, config: dict[str, Any], state: dict[str, np.ndarray]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    save_file(state, folder / "model.safetensors")
    return folder


def test_a_tied_flag_beside_two_tensors(tmp_path: Path) -> None:
    """The head was dropped without a word."""
    state = load_file(HERE / "llama" / "model.safetensors")
    source = folder_of(tmp_path, settings("llama", tie_word_embeddings=True), state)
    with pytest.raises(ValueError, match=r"'tie_word_embeddings' is True, but .* false opens them"):
        load_pretrained(source)
    same = state | {"lm_head.weight": state["model.embed_tokens.weight"]}
    model = load_pretrained(folder_of(tmp_path, settings("llama", tie_word_embeddings=True), same))
    np.testing.assert_array_equal(model.W_U.T, model.W_E)


@pytest.mark.parametrize(
    ("name", "changes", "weight", "message"),
    [
        ("llama", {}, "self_attn.o_proj", "in the file, but config key 'attention_bias' is False"),
        ("llama", {}, "mlp.up_proj", "in the file, but config key 'mlp_bias' is False"),
        ("llama", {"attention_bias": True}, "", "missing, but config key 'attention_bias' is True"),
        ("gpt_neox", {"attention_bias": False}, "", "in the file, but config key 'attention_bias'"),
        ("qwen2", {}, "self_attn.o_proj", "in the file, but its family has none"),
        ("mistral", {}, "self_attn.q_proj", "in the file, but its family has none"),
        ("llama", {"model_type": "qwen2"}, "", "missing, but config key 'model_type' is 'qwen2'"),
    ],
)
def test_biases_are_where_the_settings_say(
    tmp_path: Path, name: str, changes: dict[str, Any], weight: str, message: str
) -> None:
    state = load_file(HERE / name / "model.safetensors")
    if weight:
        for layer in range(settings(name)["num_hidden_layers"]):
            stem = f"model.layers.{layer}.{weight}"
            state[stem + ".bias"] = np.arange(len(state[stem + ".weight"]), dtype=np.float32)
    if changes.get("model_type"):
        changes = {**changes, "pretraining_tp": None, "mlp_bias": None}
    with pytest.raises(ValueError, match=message):
        load_pretrained(folder_of(tmp_path, settings(name, **changes), state))


def test_padding_is_refused_or_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask is refused, since padding on the left would be text; on the right it is behind it."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in a user's session
    model = load_pretrained(HERE / "mistral")
    padded = {"input_ids": [[0, 0, 3], [4, 5, 6]], "attention_mask": [[0, 0, 1], [1, 1, 1]]}
    with pytest.raises(ValueError, match="tokens is a dict, must be integers, texts of one length"):
        run(model, padded)
    alone, behind = (run(model, ids).logits for ids in ([4, 5, 6], [4, 5, 6, 0, 0]))
    np.testing.assert_allclose(alone, behind[:3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_a_factor_without_a_type_is_linear(gguf: Any, written: Any, key: str) -> None:
    plain = load_pretrained(written(gguf)).spec
    said = gguf.with_key(f"llama.{key}", F32, 4.0)
    found = load_pretrained(written(said)).spec.rotary_frequencies
    powers = plain.rotary_base ** (-np.arange(0, 4, 2) / 4)
    np.testing.assert_allclose(found, powers / 4)
    off = said.with_key("llama.rope.scaling.type", TEXT, "none")
    assert load_pretrained(written(off)).spec == plain


@pytest.mark.parametrize(
    ("key", "kind", "value", "message"),
    [
        ("llama.attention.scale", F32, 0.5, "is 0.5, which is not known here: it may change"),
        ("llama.logit_scale", F32, 2.0, "is 2.0, which is not known here: it may change"),
        ("llama.attention.causal", BOOL, False, "is False, which is not known here"),
        ("adapter.type", TEXT, "lora", "'adapter.type' is 'lora', which is not known here"),
    ],
)
def test_a_new_key_of_a_gguf_file_is_refused(
    gguf: Any, written: Any, key: str, kind: int, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_pretrained(written(gguf.with_key(key, kind, value)))


def test_tokens_that_a_gguf_file_adds(gguf: Any, written: Any) -> None:
    plain = load_tokenizer(written(gguf)).encode("ab cd")
    assert plain.tokens == ["ab", "Ġcd"]
    said = gguf.with_key("tokenizer.ggml.bos_token_id", 4, 0)
    said = said.with_key("tokenizer.ggml.eos_token_id", 4, 5)
    said = said.with_key("tokenizer.ggml.add_bos_token", BOOL, True)
    assert load_tokenizer(written(said)).encode("ab cd").ids == [0, *plain.ids]
    said = said.with_key("tokenizer.ggml.add_eos_token", BOOL, True)
    assert load_tokenizer(written(said)).encode("ab cd").ids == [0, *plain.ids, 5]
    strange = said.with_key("tokenizer.ggml.precompiled_charsmap", TEXT, "x")
    with pytest.raises(ValueError, match="precompiled_charsmap' is not known here"):
        load_tokenizer(written(strange))


def test_tokens_of_a_users_own_are_whole(gguf: Any, written: Any) -> None:
    """A token of type 4 is found before a text is split, as it is written: here with a space."""
    kind, names = gguf.keys["tokenizer.ggml.tokens"]
    _, types = gguf.keys["tokenizer.ggml.token_type"]
    tokens = [*names.items[:-1], "a c"]
    said = gguf.with_key("tokenizer.ggml.tokens", kind, names._replace(items=tokens))
    merges = gguf.keys["tokenizer.ggml.merges"][1]
    said = said.with_key("tokenizer.ggml.merges", kind, merges._replace(items=merges.items[:-1]))
    said = said.with_key(
        "tokenizer.ggml.token_type", kind, types._replace(items=[*types.items[:-1], 4])
    )
    tokenizer = load_tokenizer(written(said))
    found = tokenizer.encode("bda cab")
    assert found.tokens == ["b", "d", "a c", "ab"]
    assert tokenizer.decode(found.ids) == "bda cab"
    logits = run(load_pretrained(written(said)), jnp.asarray(found.ids)).logits
    assert logits.shape == (4, len(tokens))


def test_a_sentencepiece_vocabulary_joins_the_best_pair(gguf: Any, written: Any) -> None:
    """Against the rule itself: of all neighbours those whose union has the highest score."""
    letters = ["▁", *"abcd"]
    joins = ["ab", "▁a", "cd", "abc", "bcd", "▁ab", "dab", "▁abcd", "▁▁"]
    pieces = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *joins]
    rng = np.random.default_rng(0)
    scores = [0.0] * 258 + [-1e4] * len(letters) + (-rng.permutation(len(joins)) - 1.0).tolist()
    said = gguf.with_key("tokenizer.ggml.model", TEXT, "llama")
    said = said.with_key("tokenizer.ggml.bos_token_id", 4, 1)
    items = type(gguf.keys["tokenizer.ggml.tokens"][1])
    kinds = [2, 3] + [6] * 256 + [1] * (len(letters) + len(joins))
    for key, kind, values in (("tokens", TEXT, pieces), ("scores", F32, scores)):
        said = said.with_key(f"tokenizer.ggml.{key}", LIST, items(kind, values))
    said = said.with_key("tokenizer.ggml.token_type", LIST, items(5, kinds))
    tokenizer = load_tokenizer(written(said))
    for text in ("abcd", "ab abcdab", "dabcd  a", "".join(rng.choice([*"abcd "], 200)).strip()):
        parts = list("▁" + text.replace(" ", "▁"))
        while True:
            both = [left + right for left, right in pairwise(parts)]
            known = [(-scores[pieces.index(one)], i) for i, one in enumerate(both) if one in pieces]
            if not known:
                break
            _, i = min(known)
            parts[i : i + 2] = [both[i]]
        found = tokenizer.encode(text)
        assert found.tokens == ["<s>", *parts]
        assert tokenizer.decode(found.ids) == text
    assert tokenizer.encode("é").ids == [1, pieces.index("▁"), 2 + 0xC3, 2 + 0xA9]
    bare = said.with_key("tokenizer.ggml.add_space_prefix", BOOL, False)
    assert load_tokenizer(written(bare)).encode("ab").tokens == ["<s>", "ab"]


@pytest.mark.parametrize(
    ("split", "pieces"),
    [
        ("llama-bpe", ["Ġ", "Ġword", "'LL", "123", "45", "Ġ!?Ċ", "(x"]),
        ("qwen2", ["Ġ", "Ġword", "'LL", "1", "2", "3", "4", "5", "Ġ!?Ċ", "(x"]),
        ("smollm", ["Ġ", "Ġword", "'", "LL", "1", "2", "3", "4", "5", "Ġ!?", "Ċ", "(", "x"]),
        ("gpt-2", ["Ġ", "Ġword", "'", "LL", "12345", "Ġ!?", "Ċ", "(", "x"]),
    ],
)
def test_where_texts_are_split(gguf: Any, written: Any, split: str, pieces: list[str]) -> None:
    """As by llama.cpp's expression of that name."""
    said = gguf.with_key("tokenizer.ggml.pre", TEXT, split)
    said = said.with_key("tokenizer.ggml.bos_token_id", 4, 0)
    tokenizer = load_tokenizer(written(said))
    found = tokenizer.pre_tokenizer.pre_tokenize_str("  word'LL12345 !?\n(x")
    assert [piece for piece, _ in found] == pieces
    # Llama 3 begins texts, where the file does not say otherwise.
    assert (tokenizer.encode("a").ids[0] == 0) == (split == "llama-bpe")
