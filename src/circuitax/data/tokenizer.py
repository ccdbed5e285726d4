"""Byte-level BPE: trained once on a corpus and cached, or loaded from a file.

Every string has a token sequence, since the 256 bytes are in the vocabulary, and decoding gives the
string back. Token 0 is the boundary, which is set before each document; no text contains it.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Encoding, Tokenizer, decoders, models, pre_tokenizers, trainers

from circuitax.data.cache import cache_folder, write_once
from circuitax.data.corpus import Corpus, TextError
from circuitax.data.tokenizer_errors import refused_as, silent

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
