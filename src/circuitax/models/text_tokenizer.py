"""The tokenizer of a model: ``tokenizer.json`` of a folder, or a GGUF file's own."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from circuitax.data.tokenizer import read_tokenizer
from circuitax.models.config_fields import cut, integer
from circuitax.models.gguf_format import field, open_gguf
from circuitax.models.sources import find_source

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
