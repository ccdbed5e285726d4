"""Models in GGUF files, whose tensors the `gguf` library reads and dequantises."""

import mmap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import DTypeLike

from circuitax.kernel.activations import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.hub_layouts import llama_layout
from circuitax.models.hub_weights import model_from_layout
from circuitax.models.tensors import Tensors

# Whether entries i and i + half of a head turn together, instead of neighbours.
_HALVES = {"llama": False, "qwen2": True, "qwen3": True}
_NAMES = {
    "token_embd.weight": "embed_tokens.weight",
    "output_norm.weight": "norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE = "rope_freqs.weight"
_ROWS = 2048  # of a matrix that are dequantised at a time


def open_gguf(file: Path) -> Any:
    """The library's reader of a file.

    Raises:
        ValueError: If the library is missing, or the file is no GGUF file.
    """
    if find_spec("gguf") is None:
        raise ValueError(f"{file.name} needs the gguf library: pip install 'circuitax[gguf]'")
    try:
        return import_module("gguf").GGUFReader(str(file))
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"{file} must be a GGUF file: {error}") from None


def field(reader: Any, key: str, default: Any = None) -> Any:
    """One value of the file's metadata: a number, a text or a list.

    Raises:
        ValueError: If it is missing and there is no default.
    """
    found = reader.fields.get(key)
    if found is None:
        if default is None:
            raise ValueError(f"GGUF key {key!r} is missing")
        return default
    return found.contents()


def _length(reader: Any, key: str) -> int:
    """How many entries a list of the metadata has, none of which is decoded."""
    if key not in reader.fields:
        raise ValueError(f"GGUF key {key!r} is missing")
    return len(reader.fields[key].data)


def model_from_gguf(file: Path, dtype: DTypeLike) -> Model:
    """A model from a GGUF file of architecture llama, qwen2 or qwen3.

    Args:
        file: The file.
        dtype: Of the weights; quantised ones are written out.

    Raises:
        ValueError: If the library is missing, the file is damaged, or its architecture, a setting
            or a tensor is not modelled.
    """
    reader = open_gguf(file)
    family = field(reader, "general.architecture")
    if family not in _HALVES:
        raise ValueError(
            f"GGUF key 'general.architecture' is {family!r}, must be one of {', '.join(_HALVES)}"
        )
    tensors = gguf_tensors(reader)
    spec = _spec(reader, family, tensors)
    # Arrays of every token and merge, which for a small model take a quarter of its weights.
    reader.fields.clear()
    tied = "lm_head.weight" not in tensors.names
    layout = llama_layout(spec, "", halves=_HALVES[family])
    return model_from_layout(tensors, layout._replace(ignored=(_ROPE,)), spec, dtype, tied=tied)


def gguf_tensors(reader: Any) -> Tensors:
    """The tensors of an open file, dequantised as they are read; none of its pages is kept.

    Args:
        reader: From `open_gguf`.
    """
    found = {_name(tensor.name): tensor for tensor in reader.tensors}
    dequantize = import_module("gguf").quants.dequantize

    def read(name: str) -> np.ndarray:
        tensor = found[name]
        rows = tensor.data
        first = np.asarray(dequantize(rows[:_ROWS], tensor.tensor_type))
        if len(rows) <= _ROWS:
            _forget(reader)
            return first
        # The library holds a second copy of what it is given, in pieces too small to be given back.
        whole = np.empty((len(rows), *first.shape[1:]), first.dtype)
        whole[:_ROWS] = first
        for start in range(_ROWS, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            whole[start : start + _ROWS] = dequantize(part, tensor.tensor_type)
            _forget(reader)
        return whole

    return Tensors(frozenset(found), read)


def _forget(reader: Any) -> None:
    """Give back the pages of the mapped file that were read; they are read again when needed."""
    mapped = reader.data.base
    if hasattr(mapped, "madvise"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)


def _name(theirs: str) -> str:
    """The Hub's name of a tensor; an unknown one stays, and is refused when all are placed."""
    if theirs.startswith("blk."):
        _, layer, part, kind = theirs.split(".")
        return f"layers.{layer}.{_LAYER_NAMES.get(part, part)}.{kind}"
    return _NAMES.get(theirs, theirs)


def _spec(reader: Any, family: str, tensors: Tensors) -> TransformerSpec:
    def number(key: str, default: Any = None) -> Any:
        return field(reader, f"{family}.{key}", default)

    scaling = number("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise ValueError(
            f"GGUF key '{family}.rope.scaling.type' is {scaling!r}, must be none or linear"
        )
    if number("expert_count", 0):
        raise ValueError(f"GGUF key '{family}.expert_count' must be 0: experts are not modelled")
    if number("attention.sliding_window", 0):
        raise ValueError(f"GGUF key '{family}.attention.sliding_window' must be absent")
    d_model, n_heads = number("embedding_length"), number("attention.head_count")
    n_kv = number("attention.head_count_kv", n_heads)
    d_head = number("attention.key_length", d_model // n_heads)
    turned, base = number("rope.dimension_count", d_head), float(number("rope.freq_base", 1e4))
    frequencies = None
    if scaling == "linear" or _ROPE in tensors.names:
        divisor = np.full(turned // 2, float(number("rope.scaling.factor", 1.0)))
        if _ROPE in tensors.names:
            divisor = divisor * tensors.take(_ROPE, (turned // 2,))
        powers = base ** (-np.arange(0, turned, 2) / turned)
        frequencies = tuple((powers / divisor).tolist())
    return TransformerSpec(
        d_vocab=_length(reader, "tokenizer.ggml.tokens"),
        n_ctx=number("context_length"),
        n_layers=number("block_count"),
        n_heads=n_heads,
        n_kv_heads=None if n_kv == n_heads else n_kv,
        d_model=d_model,
        d_head=d_head,
        d_mlp=number("feed_forward_length"),
        gated=True,
        activation=Activation.silu,
        positions=Positions.rotary,
        norm=Norm.rmsnorm,
        norm_eps=_rounded(number("attention.layer_norm_rms_epsilon")),
        rotary_base=base,
        rotary_dim=None if turned == d_head else turned,
        rotary_frequencies=frequencies,
        qk_norm="layers.0.self_attn.q_norm.weight" in tensors.names,
    )


def _rounded(value: float) -> float:
    """A float32 of the file as the decimal number that was meant: 1e-05, not 9.99999975e-06."""
    return float(str(np.float32(value)))
