"""Byte-level BPE, trained once and cached or loaded from a file, and token arrays on disk.

It has one bare Exception for everything, and where it panics, a BaseException that no caller
expects and pages of a Rust traceback on the standard error stream.

Every string has a token sequence, since the 256 bytes are in the vocabulary, and decoding gives the
string back. Token 0 is the boundary, which is set before each document; no text contains it.

Each array is, document after document in name order, the boundary token followed by the document's
tokens. Windows are cut anywhere, so a window may hold the end of one document and the beginning of
the next with the boundary between them; attention is not reset there, so that a model has to learn
it.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Encoding, Tokenizer, decoders, models, pre_tokenizers, trainers

from circuitax.data.corpus import Corpus, Document, TextError
from circuitax.data.files import cache_folder, write_once


@contextmanager
def refused_as(must: str) -> Iterator[None]:
    """Context that turns every error of the library, panics too, into a TextError with ``must``."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TextError(f"{must}: {(str(error).splitlines() or [''])[0][:200]}") from None


@contextmanager
def silent() -> Iterator[None]:
    """Context without output to the standard error stream, by any thread: for short calls only."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


_UNREADABLE = "\ufffd"


def token_text(tokenizer: Tokenizer, token: int) -> str:
    r"""The decoded text of a token, or its bytes where those are no whole characters."""
    text = str(tokenizer.decode([token], skip_special_tokens=False))
    if _UNREADABLE not in text:
        return text
    name = str(tokenizer.id_to_token(token))
    if not set(name) <= _bytes().keys():
        return name
    return bytes(_bytes()[letter] for letter in name).decode("utf-8", "backslashreplace")


@cache
def _bytes() -> dict[str, int]:
    """The byte of each letter in byte-level names: printable ones stand for themselves."""
    shown = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    others = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(others)}


BOUNDARY = "<|endoftext|>"
_FILE = "tokenizer.json"
SMALLEST_VOCABULARY = 257  # the bytes and the boundary


def corpus_tokenizer(corpus: Corpus, d_vocab: int, folder: Path | None = None) -> Tokenizer:
    """The corpus's own tokenizer with ``d_vocab`` tokens, trained on its training documents."""
    if d_vocab < SMALLEST_VOCABULARY:
        raise ValueError(
            f"d_vocab={d_vocab} must be at least {SMALLEST_VOCABULARY}: 256 bytes and the boundary"
        )
    folder = folder or cache_folder() / "tokenizers"
    target = folder / f"{corpus.digest[:20]}-{d_vocab}"

    def write(new: Path) -> None:
        # As text: a full disk is an error of its own in Python alone.
        text = train_tokenizer(corpus, d_vocab).to_str(pretty=True)
        (new / _FILE).write_text(text, encoding="utf-8")

    return tokenizer_from_file(write_once(target, write) / _FILE)


def train_tokenizer(corpus: Corpus, d_vocab: int) -> Tokenizer:
    """Byte-pair encoding by frequency on the training documents; see `corpus_tokenizer`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[BOUNDARY],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(corpus), trainer)
    if (n_tokens := tokenizer.get_vocab_size()) < d_vocab:
        raise TextError(
            f"d_vocab={d_vocab} must be at most {n_tokens} for corpus {corpus.title!r}: it has no "
            "more pairs to merge"
        )
    return _plain(tokenizer)


def tokenizer_from_file(file: str | Path) -> Tokenizer:
    """A tokenizer from a ``tokenizer.json`` of the `tokenizers` library."""
    file = Path(file).expanduser()
    check_tokenizer_file(file)
    tokenizer = read_tokenizer(file, f"tokenizer={str(file)!r} must be a tokenizer.json")
    try:
        boundary_id(tokenizer)
    except ValueError as error:
        raise TextError(f"tokenizer={str(file)!r}: {error}") from None
    return _plain(tokenizer)


def read_tokenizer(file: Path, must: str) -> Tokenizer:
    """A tokenizer without truncation, padding or randomness."""
    with refused_as(must), silent():
        tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if getattr(tokenizer.model, "dropout", None) is not None:
        tokenizer.model.dropout = None
    return tokenizer


def encode_prompt(tokenizer: Tokenizer, text: str, *, special: bool) -> Encoding:
    """A short text as tokens."""
    with refused_as(f"{text[:60]!r} has no tokens in this vocabulary"), silent():
        return tokenizer.encode(text, add_special_tokens=special)


def check_tokenizer_file(file: str | Path) -> None:
    """Refuse a path without a file, or with a file that is no JSON object, at little cost."""
    file = Path(file).expanduser()
    try:
        with file.open("rb") as opened:
            begins = opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError:
        raise TextError(
            f"tokenizer={str(file)!r} must be a tokenizer.json file: there is none"
        ) from None
    if not begins.startswith(b"{"):
        raise TextError(f"tokenizer={str(file)!r} must be a tokenizer.json: it is not JSON")


def boundary_id(tokenizer: Tokenizer) -> int:
    """The id of the token set before each document."""
    token: int | None = tokenizer.token_to_id(BOUNDARY)
    if token is None:
        raise ValueError(f"a tokenizer must hold the boundary token {BOUNDARY!r}")
    return token


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """SHA-256 of the tokenizer's JSON, which determines every token id."""
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


def token_names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """The text of every token by id, as figures print it; a lone byte of UTF-8 shows as ``�``."""
    names = (tokenizer.decode([i], skip_special_tokens=False) for i in range(size(tokenizer)))
    return tuple(names)


def size(tokenizer: Tokenizer) -> int:
    """Number of tokens, the boundary included."""
    return int(tokenizer.get_vocab_size())


def largest_id(tokenizer: Tokenizer) -> int:
    """The largest id of a token; in a file with gaps between ids it is `size` or more."""
    return int(max(tokenizer.get_vocab().values()))


def _texts(corpus: Corpus) -> Iterator[str]:
    for document in corpus.train:
        yield from document.pieces()


def _plain(tokenizer: Tokenizer) -> Tokenizer:
    # Text that contains the boundary's name is encoded as ordinary letters.
    tokenizer.encode_special_tokens = True
    return tokenizer


_PIECES_AT_ONCE = 32


class TokenArrays(NamedTuple):
    """Training and validation tokens, read-only maps of files; ``boundary`` is a token id."""

    train: np.ndarray
    validation: np.ndarray
    boundary: int


def corpus_tokens(corpus: Corpus, tokenizer: Tokenizer, folder: Path | None = None) -> TokenArrays:
    """Tokenise once, then map the files; memory is independent of the size of the corpus."""
    folder = folder or cache_folder() / "tokens"
    n_tokens = size(tokenizer)
    dtype = np.dtype("<u2" if n_tokens <= 1 << 16 else "<u4")
    boundary = boundary_id(tokenizer)
    target = folder / f"{corpus.digest[:20]}-{tokenizer_digest(tokenizer)[:20]}"

    def write(new: Path) -> None:
        lengths = {}
        for split in ("train", "validation"):
            with (new / f"{split}.bin").open("wb") as file:
                for ids in _encode(getattr(corpus, split), tokenizer, boundary):
                    file.write(np.asarray(ids, dtype).tobytes())
                lengths[split] = file.tell() // dtype.itemsize
        about = {"corpus": corpus.title, "d_vocab": n_tokens, "dtype": dtype.str, **lengths}
        (new / "about.json").write_text(json.dumps(about, indent=1))

    write_once(target, write)
    return TokenArrays(
        np.memmap(target / "train.bin", dtype, mode="r"),
        np.memmap(target / "validation.bin", dtype, mode="r"),
        boundary,
    )


def _encode(
    documents: Sequence[Document], tokenizer: Tokenizer, boundary: int
) -> Iterator[list[int]]:
    # (first piece of its document?, text), encoded some pieces at a time on all cores.
    stream = ((i == 0, text) for d in documents for i, text in enumerate(d.pieces()))
    while block := list(islice(stream, _PIECES_AT_ONCE)):
        texts = [text for _, text in block]
        with refused_as("the tokenizer cannot encode this corpus"):
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        for (first, _), encoding in zip(block, encoded, strict=True):
            yield [boundary, *encoding.ids] if first else encoding.ids
