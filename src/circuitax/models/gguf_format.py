"""Models in GGUF files, whose tensors the `gguf` library reads and dequantises."""

import mmap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import DTypeLike

from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.hub_weights import llama_layout, model_from_layout
from circuitax.models.sources import (
    DEEPEST,
    LARGEST,
    LONGEST,
    Settings,
    Tensors,
    cut,
    integer,
    number,
)

# Whether entries i and i + half of a head turn together, instead of neighbours.
_HALVES = {"gemma3": True, "llama": False, "qwen2": True, "qwen3": True}
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
# The Hub's names of norms behind each part, and ours of the file's.
_POST_NORMS = {
    "pre_feedforward_layernorm": "post_attention_layernorm",
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_ROPE = "rope_freqs.weight"
# Beginnings of keys that describe the file or its texts; those of texts are the tokenizer's.
_HARMLESS = ("general.", "tokenizer.", "quantize.", "split.", "GGUF.")
# Keys of an architecture that change no number that shapes do not tell, and those that do if not 0.
_IGNORED = ("attention.value_length", "rope.scaling.original_context_length", "vocab_size")
_ZERO = ("attention.sliding_window", "expert_count", "expert_used_count")
_LIST, _TEXT = 9, 8  # kinds of values, by their number in the format
_ROWS = 512  # of a matrix that are dequantised at a time

T = TypeVar("T")


def open_gguf(file: Path) -> Any:
    """The library's reader of a file."""
    if find_spec("gguf") is None:
        raise ValueError(f"{file.name} needs the gguf library: pip install 'circuitax[gguf]'")
    if not file.is_file():
        raise ValueError(f"{file} must be a GGUF file: it is none")
    try:
        # Offsets are added as unsigned integers, which would begin again from 0.
        with np.errstate(over="raise"):
            return _reader_within(import_module("gguf").GGUFReader)(str(file))
    except (ValueError, IndexError, KeyError, FloatingPointError, RecursionError) as error:
        raise ValueError(f"{file} must be a GGUF file: {error}") from None


def _reader_within(reader: Any) -> Any:
    """The library's reader, with a check for tensors beyond the end of the file."""

    class Within(reader):
        mapped: Any = None
        data: Any

        def _get(self, offset: int, dtype: Any, count: Any = 1, *order: Any, **named: Any) -> Any:
            if self.mapped is None:  # a slice of a map costs three times that of an array
                self.mapped, self.data = self.data.base, np.asarray(self.data)
            end = int(offset) + np.dtype(dtype).itemsize * int(count)
            if end > len(self.data):
                raise ValueError(f"it has {len(self.data)} bytes, and names byte {end}")
            return super()._get(offset, dtype, count, *order, **named)

        def _get_field_parts(self, start: Any, kind: Any) -> Any:
            of_texts = kind == _LIST and self._get(start, np.uint32)[0] == _TEXT
            if not of_texts or self.byte_order == "S":
                return super()._get_field_parts(start, kind)
            # A text costs the library ten calls, and a tokenizer has a hundred thousand of them.
            parts = [self._get(start, np.uint32), self._get(start + 4, np.uint64)]
            at = start + 12
            for _ in range(int(parts[1][0])):
                begin = at + 8
                at = begin + int.from_bytes(self.data[at:begin].tobytes(), "little")
                if max(begin, at) > len(self.data):
                    raise ValueError(f"it has {len(self.data)} bytes, and names byte {at}")
                parts.append(self.data[begin:at])
            kinds = [import_module("gguf").GGUFValueType(number) for number in (_LIST, _TEXT)]
            return at - start, parts, list(range(2, len(parts))), kinds

    return Within


def field(reader: Any, key: str, kind: type[T], default: T | None = None) -> T:
    """One value of the file's metadata."""
    if key not in reader.fields:
        if default is None:
            raise ValueError(f"GGUF key {key!r} is missing")
        return default
    value = _content(reader, key)
    if not isinstance(value, kind):
        raise ValueError(f"GGUF key {key!r} is {cut(value)}, must be a {kind.__name__}")
    return value


def _content(reader: Any, key: str) -> Any:
    try:
        return reader.fields[key].contents()
    except ValueError:
        raise ValueError(f"GGUF key {key!r} must be in UTF-8") from None


def model_from_gguf(file: Path, dtype: DTypeLike | None) -> Model:
    """A model from a GGUF file of architecture gemma3, llama, qwen2 or qwen3."""
    reader = open_gguf(file)
    family = field(reader, "general.architecture", str)
    if family not in _HALVES:
        raise ValueError(
            f"GGUF key 'general.architecture' is {cut(family)}, must be one of {', '.join(_HALVES)}"
        )
    tensors = gguf_tensors(reader)
    spec = _spec(reader, family, tensors)
    # Arrays of every token and merge, which for a small model take a quarter of its weights.
    reader.fields.clear()
    tied = "lm_head.weight" not in tensors.names
    layout = llama_layout(
        spec,
        "",
        halves=_HALVES[family],
        # Gains of gemma3 are whole in these files, which have 1 + weight.
        scales={"W_E": spec.d_model**0.5} if family == "gemma3" else {},
        renamed=_POST_NORMS if spec.post_norm else {},
    )
    return model_from_layout(tensors, layout._replace(ignored=(_ROPE,)), spec, dtype, tied=tied)


def gguf_tensors(reader: Any) -> Tensors:
    """The tensors of an open file, dequantised as they are read; its memory pages are released."""
    found = {_name(tensor.name): tensor for tensor in reader.tensors}
    quants = import_module("gguf").quants

    def shape(name: str) -> tuple[int, ...]:
        return tuple(reversed(found[name].shape.tolist()))

    def read(name: str) -> np.ndarray:
        tensor = found[name]
        rows = tensor.data
        try:
            first = np.asarray(quants.dequantize(rows[:1], tensor.tensor_type))
        except NotImplementedError:
            kind = tensor.tensor_type.name
            raise ValueError(
                f"weight {name!r} is of type {kind}, must be F32 or a quantised one"
            ) from None
        # `dequantize` goes by 16 rows, which takes four times as long, in pieces of memory too
        # small to be given back. It has made the tables that some types need.
        packed = getattr(quants, tensor.tensor_type.name, None)
        whole = np.empty((len(rows), *first.shape[1:]), first.dtype)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            whole[start : start + _ROWS] = (
                packed.dequantize_rows(part)
                if packed
                else quants.dequantize(part, tensor.tensor_type)
            )
            _forget(reader)
        return whole

    # Norms of a file in half precision are of single precision; quantised weights become that.
    halves = {"F16": "float16", "BF16": "bfloat16"}
    return Tensors(
        frozenset(found),
        shape,
        read,
        lambda name: halves.get(found[name].tensor_type.name, "float32"),
    )


def _forget(reader: Any) -> None:
    """Release the mapped pages already read; a later access reads them again."""
    if hasattr(reader.mapped, "madvise"):  # not on Windows
        reader.mapped.madvise(mmap.MADV_DONTNEED)


def _name(theirs: str) -> str:
    """The Hub's name of a tensor; an unknown name is kept, and refused when all are placed."""
    if theirs.startswith("blk.") and theirs.count(".") == 3:
        _, layer, part, kind = theirs.split(".")
        return f"layers.{layer}.{_LAYER_NAMES.get(part, part)}.{kind}"
    return _NAMES.get(theirs, theirs)


def _spec(reader: Any, family: str, tensors: Tensors) -> TransformerSpec:
    keys = [key for key in reader.fields if not key.startswith(_HARMLESS)]
    settings = Settings({key: _content(reader, key) for key in keys})

    def size(key: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        key = f"{family}.{key}"
        return integer({key: settings.get(key, default)}, key, least, most)

    def real(key: str, default: float | None = None) -> float:
        return float(number(settings, f"{family}.{key}", default))

    # As llama.cpp reads them: linear where a factor has no type, and the factor's older name.
    scaling = settings.get(f"{family}.rope.scaling.type", "linear")
    if scaling not in ("none", "linear"):
        raise ValueError(
            f"GGUF key '{family}.rope.scaling.type' is {cut(scaling)}, must be none or linear"
        )
    factor = real("rope.scaling.factor", real("rope.scale_linear", 1.0))
    d_model, n_heads = size("embedding_length"), size("attention.head_count")
    n_kv = size("attention.head_count_kv", n_heads)
    d_head = size("attention.key_length", d_model // n_heads)
    turned = size("rope.dimension_count", d_head, least=2, most=d_head)
    base = real("rope.freq_base", 1e4)
    # As llama.cpp has it: no window in every sixth layer, and a scale of its own for the largest.
    options: dict[str, Any] = {"activation": Activation.silu}
    if family == "gemma3":
        options = {"activation": Activation.gelu_tanh, "post_norm": True}
        n_layers = size("block_count", least=0, most=DEEPEST)
        if n_layers == 62:
            options["score_scale"] = (d_model // n_heads) ** -0.5
        window = size("attention.sliding_window", 0, least=0)
        every = size("attention.sliding_window_pattern", 6)
        local = tuple(layer for layer in range(n_layers) if (layer + 1) % every)
        near = real("rope.freq_base_swa", 1e4)
        if window and local:
            options |= {"window": window, "local_layers": local, "local_rotary_base": near}
    frequencies = None
    if (scaling == "linear" and factor != 1.0) or _ROPE in tensors.names:
        divisor = np.full(turned // 2, factor if scaling == "linear" else 1.0)
        if _ROPE in tensors.names:
            divisor = divisor * tensors.take(_ROPE, (turned // 2,))
        powers = base ** (-np.arange(0, turned, 2) / turned)
        frequencies = tuple((powers / divisor).tolist())
    spec = TransformerSpec(
        d_vocab=len(field(reader, "tokenizer.ggml.tokens", list)),
        n_ctx=size("context_length", most=LONGEST),
        n_layers=size("block_count", least=0, most=DEEPEST),
        n_heads=n_heads,
        n_kv_heads=None if n_kv == n_heads else n_kv,
        d_model=d_model,
        d_head=d_head,
        d_mlp=size("feed_forward_length"),
        gated=True,
        positions=Positions.rotary,
        norm=Norm.rmsnorm,
        norm_eps=_rounded(real("attention.layer_norm_rms_epsilon")),
        rotary_base=base,
        rotary_dim=None if turned == d_head else turned,
        rotary_frequencies=frequencies,
        qk_norm="layers.0.self_attn.q_norm.weight" in tensors.names,
        **options,
    )
    for key, value in settings.unread():
        name = key.removeprefix(f"{family}.")
        if name not in _IGNORED and (name not in _ZERO or value != 0):
            must = "must be 0" if name in _ZERO else "which is not known here"
            raise ValueError(f"GGUF key {key!r} is {cut(value)}, {must}: it may change numbers")
    return spec


def _rounded(value: float) -> float:
    """The decimal number behind a float32 of the file: 1e-05, not 9.99999975e-06."""
    return float(str(np.float32(value)))
