"""Byte-level BPE and token arrays on disk."""

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from circuitax.data.corpus import Corpus, Document, build_corpus, text_document
from circuitax.data.tokenizer import (
    BOUNDARY,
    boundary_id,
    corpus_tokenizer,
    corpus_tokens,
    size,
    token_names,
    token_text,
    tokenizer_digest,
    tokenizer_from_file,
    train_tokenizer,
)

TEXT = "the theory of the thing: then they think of this, that and the other.\n"


def small_corpus() -> Corpus:
    return build_corpus("small", [text_document(f"d{i}", TEXT * 3) for i in range(5)])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(small_corpus(), 280)


@hypothesis.given(text=st.text(max_size=40))
@hypothesis.example(text="  \r\n\t naïve 日本 🙂\0")
@hypothesis.example(text=f"spelled {BOUNDARY} out")
def test_every_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert boundary_id(tokenizer) not in ids


def test_merges_the_frequent(tokenizer: Tokenizer) -> None:
    assert size(tokenizer) == 280
    names = token_names(tokenizer)
    assert names[0] == BOUNDARY
    assert " the" in names
    assert len(tokenizer.encode("the the the").ids) <= 4


def test_trained_once_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = corpus_tokenizer(small_corpus(), 270, tmp_path)
    (file,) = tmp_path.glob("*/tokenizer.json")
    monkeypatch.setattr("circuitax.data.tokenizer.train_tokenizer", None)
    assert tokenizer_digest(corpus_tokenizer(small_corpus(), 270, tmp_path)) == tokenizer_digest(
        first
    )
    assert tokenizer_digest(tokenizer_from_file(file)) == tokenizer_digest(first)


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        tokenizer_from_file(tmp_path / "no.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=r"must be a tokenizer.json"):
        tokenizer_from_file(tmp_path / "bad.json")
    Tokenizer(models.BPE()).save(str(tmp_path / "bare.json"))
    with pytest.raises(ValueError, match="must hold the boundary token"):
        tokenizer_from_file(tmp_path / "bare.json")


def test_a_file_that_pads_and_cuts_does_neither_here(tmp_path: Path) -> None:
    made = corpus_tokenizer(small_corpus(), 270, tmp_path)
    text = "one text that is longer than four tokens"
    expected = made.encode(text).ids
    made.enable_truncation(4)
    made.enable_padding(length=64)
    made.save(str(tmp_path / "batches.json"))
    loaded = tokenizer_from_file(tmp_path / "batches.json")
    assert loaded.encode(text).ids == expected
    assert tokenizer_digest(loaded) == tokenizer_digest(
        corpus_tokenizer(small_corpus(), 270, tmp_path)
    )


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = {"âĨ": 256, "aâĨ": 257}  # two of the three bytes of an arrow
    vocabulary = {letter: i for i, letter in enumerate(letters)} | merged
    tokenizer = Tokenizer(models.BPE(vocabulary, [("â", "Ĩ"), ("a", "âĨ")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_every_byte_has_a_text_of_its_own(byte_level: Tokenizer) -> None:
    texts = {token_text(byte_level, i) for i in range(256)}
    plain = {chr(b) for b in range(128)}
    assert texts == plain | {f"\\x{b:02x}" for b in range(128, 256)}


def test_parts_of_characters_are_shown_by_their_bytes(byte_level: Tokenizer) -> None:
    assert byte_level.decode([256]) == "\ufffd"
    assert token_text(byte_level, 256) == r"\xe2\x86" == repr("→".encode())[2:10]
    assert token_text(byte_level, 257) == r"a\xe2\x86"


def test_a_tokenizer_that_names_bytes_keeps_its_names() -> None:
    tokenizer = Tokenizer(models.BPE({"<0xE2>": 0, "one": 1}, [], byte_fallback=True))
    tokenizer.decoder = decoders.ByteFallback()
    assert token_text(tokenizer, 0) == "<0xE2>" and token_text(tokenizer, 1) == "one"


TOKENS_TEXT = "the theory of the thing: then they think of this, that and the other.\n"


def tokens_small_corpus() -> Corpus:
    return build_corpus(
        "small", [text_document(f"d{i}", f"{i} {TOKENS_TEXT}" * 3) for i in range(5)]
    )


def test_arrays_hold_the_documents_in_order(tmp_path: Path) -> None:
    corpus = tokens_small_corpus()
    tokenizer = train_tokenizer(corpus, 280)
    tokens = corpus_tokens(corpus, tokenizer, tmp_path)
    assert isinstance(tokens.train, np.memmap) and tokens.train.dtype == np.uint16
    assert not tokens.train.flags.writeable
    for part, array in ((corpus.train, tokens.train), (corpus.validation, tokens.validation)):
        edges = np.flatnonzero(array == tokens.boundary)
        assert edges[0] == 0 and len(edges) == len(part)
        for document, ids in zip(part, np.split(array, edges[1:]), strict=True):
            assert tokenizer.decode(ids[1:].tolist()) == "".join(document.pieces())


def test_one_boundary_for_a_document_in_many_pieces(tmp_path: Path) -> None:
    long = Document("long", lambda: iter([TOKENS_TEXT] * 100))
    corpus = build_corpus(
        "pieces", [long, text_document("short", TOKENS_TEXT)], validation_fraction=0.5
    )
    tokenizer = train_tokenizer(corpus, 260)
    tokens = corpus_tokens(corpus, tokenizer, tmp_path)
    arrays = {
        d.name: array
        for (d,), array in (
            (corpus.train, tokens.train),
            (corpus.validation, tokens.validation),
        )
    }
    assert np.count_nonzero(arrays["long"] == tokens.boundary) == 1
    assert tokenizer.decode(arrays["long"][1:].tolist()) == TOKENS_TEXT * 100
