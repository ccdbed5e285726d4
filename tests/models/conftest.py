"""A model of a few hundred numbers with its tokenizer, as a folder of the Hub and as GGUF bytes."""

import json
import struct
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

TOKENS = ["<|endoftext|>", *"abcdĠ", "ab", "cd", "abcd", "Ġa", "Ġab", "Ġcd"]
MERGES = [("a", "b"), ("c", "d"), ("ab", "cd"), ("Ġ", "a"), ("Ġ", "ab"), ("Ġ", "cd")]
CONFIG = {
    "model_type": "llama",
    "vocab_size": len(TOKENS),
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 16,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "tie_word_embeddings": False,
}
# Of one layer, with its name in a GGUF file.
SHAPES = {
    "self_attn.q_proj": ("attn_q", (8, 8)),
    "self_attn.k_proj": ("attn_k", (4, 8)),
    "self_attn.v_proj": ("attn_v", (4, 8)),
    "self_attn.o_proj": ("attn_output", (8, 8)),
    "mlp.gate_proj": ("ffn_gate", (6, 8)),
    "mlp.up_proj": ("ffn_up", (6, 8)),
    "mlp.down_proj": ("ffn_down", (8, 6)),
    "input_layernorm": ("attn_norm", (8,)),
    "post_attention_layernorm": ("ffn_norm", (8,)),
}
# Kinds of values, by their number in the format, with Python's letter for those of fixed size.
LETTERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
U32, F32, TEXT, LIST = 4, 6, 8, 9


class Items(NamedTuple):
    """A list of a GGUF file; it may say another length than it has."""

    kind: int
    items: list[Any]
    length: int | None = None


class GGUF(NamedTuple):
    """What a GGUF file says, true or not; `raw` writes it down."""

    keys: dict[str, tuple[int, Any]]
    """Kind and value by name."""
    tensors: dict[str, dict[str, Any]]
    """``shape``, ``kind`` and ``offset`` by name."""
    data: bytes
    n_keys: int | None = None
    n_tensors: int | None = None

    def raw(self) -> bytes:
        counts = (
            len(self.tensors) if self.n_tensors is None else self.n_tensors,
            len(self.keys) if self.n_keys is None else self.n_keys,
        )
        parts = [b"GGUF", struct.pack("<IQQ", 3, *counts)]
        for name, (kind, value) in self.keys.items():
            parts += [_text(name), struct.pack("<I", kind), _value(kind, value)]
        for name, tensor in self.tensors.items():
            shape = tensor["shape"]
            parts += [_text(name), struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))]
            parts += [struct.pack("<IQ", tensor["kind"], tensor["offset"])]
        head = b"".join(parts)
        return head + bytes(-len(head) % 32) + self.data

    def with_key(self, name: str, kind: int, value: Any) -> "GGUF":
        return self._replace(keys={**self.keys, name: (kind, value)})

    def with_tensor(self, name: str, **changes: Any) -> "GGUF":
        changed = deepcopy(self.tensors)
        changed[name].update(changes)
        return self._replace(tensors=changed)


def _text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(encoded)) + encoded


def _value(kind: int, value: Any) -> bytes:
    if kind == TEXT:
        return _text(value)
    if kind == LIST:
        length = len(value.items) if value.length is None else value.length
        head = struct.pack("<IQ", value.kind, length)
        return head + b"".join(_value(value.kind, item) for item in value.items)
    return struct.pack("<" + LETTERS[kind], value)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A folder with settings, weights and a tokenizer."""
    folder = tmp_path / "hub"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    rng = np.random.default_rng(3)
    shapes = {f"model.{name}.weight": (12, 8) for name in ("embed_tokens",)}
    shapes |= {"lm_head.weight": (12, 8), "model.norm.weight": (8,)}
    for layer in range(2):
        for name, (_, shape) in SHAPES.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors")
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(TOKENS)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(TOKENS[0], special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def gguf() -> GGUF:
    """The same sizes and tokens as a GGUF file."""
    pytest.importorskip("gguf", reason="the gguf library is an extra")
    sizes = {
        "context_length": 16,
        "embedding_length": 8,
        "block_count": 2,
        "feed_forward_length": 6,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": 4,
        "rope.dimension_count": 4,
    }
    keys: dict[str, tuple[int, Any]] = {"general.architecture": (TEXT, "llama")}
    keys |= {f"llama.{name}": (U32, size) for name, size in sizes.items()}
    keys["llama.attention.layer_norm_rms_epsilon"] = (F32, 1e-5)
    keys["tokenizer.ggml.model"] = (TEXT, "gpt2")
    keys["tokenizer.ggml.pre"] = (TEXT, "gpt-2")
    keys["tokenizer.ggml.tokens"] = (LIST, Items(TEXT, TOKENS))
    keys["tokenizer.ggml.merges"] = (LIST, Items(TEXT, [" ".join(pair) for pair in MERGES]))
    keys["tokenizer.ggml.token_type"] = (LIST, Items(5, [3] + [1] * (len(TOKENS) - 1)))
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (12, 8), "output.weight": (12, 8)}
    shapes["output_norm.weight"] = (8,)
    for layer in range(2):
        for name, shape in SHAPES.values():
            shapes[f"blk.{layer}.{name}.weight"] = shape
    rng = np.random.default_rng(4)
    tensors: dict[str, dict[str, Any]] = {}
    data = b""
    for name, shape in shapes.items():
        tensors[name] = {"shape": shape, "kind": 0, "offset": len(data)}
        written = rng.normal(size=shape).astype("<f4").tobytes()
        data += written + bytes(-len(written) % 32)
    return GGUF(keys, tensors, data)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[GGUF], Path]:
    """A GGUF file on the disk."""

    def write(said: GGUF) -> Path:
        file = tmp_path / "model.gguf"
        file.write_bytes(said.raw())
        return file

    return write
