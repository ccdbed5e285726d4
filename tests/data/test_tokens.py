import json
from pathlib import Path

import numpy as np
import pytest

from circuitax.data.corpus import Corpus, Document, build_corpus, text_document
from circuitax.data.tokenizer import corpus_tokens, train_tokenizer

TEXT = "the theory of the thing: then they think of this, that and the other.\n"


def small_corpus() -> Corpus:
    return build_corpus("small", [text_document(f"d{i}", f"{i} {TEXT}" * 3) for i in range(5)])


def test_arrays_hold_the_documents_in_order(tmp_path: Path) -> None:
    corpus = small_corpus()
    tokenizer = train_tokenizer(corpus, 280)
    tokens = corpus_tokens(corpus, tokenizer, tmp_path)
    assert isinstance(tokens.train, np.memmap) and tokens.train.dtype == np.uint16
    assert not tokens.train.flags.writeable
    for part, array in ((corpus.train, tokens.train), (corpus.validation, tokens.validation)):
        edges = np.flatnonzero(array == tokens.boundary)
        assert edges[0] == 0 and len(edges) == len(part)
        for document, ids in zip(part, np.split(array, edges[1:]), strict=True):
            assert tokenizer.decode(ids[1:].tolist()) == "".join(document.pieces())


def test_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    tokenizer = train_tokenizer(corpus, 280)
    first = corpus_tokens(corpus, tokenizer, tmp_path)
    monkeypatch.setattr("circuitax.data.tokenizer._encode", None)
    again = corpus_tokens(corpus, tokenizer, tmp_path)
    np.testing.assert_array_equal(first.train, again.train)
    (folder,) = tmp_path.iterdir()
    about = json.loads((folder / "about.json").read_text())
    assert about["train"] == len(first.train) and about["validation"] == len(first.validation)


def test_another_tokenizer_another_folder(tmp_path: Path) -> None:
    corpus = small_corpus()
    for d_vocab in (270, 280):
        corpus_tokens(corpus, train_tokenizer(corpus, d_vocab), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_one_boundary_for_a_document_in_many_pieces(tmp_path: Path) -> None:
    long = Document("long", lambda: iter([TEXT] * 100))
    corpus = build_corpus("pieces", [long, text_document("short", TEXT)], validation_fraction=0.5)
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
    assert tokenizer.decode(arrays["long"][1:].tolist()) == TEXT * 100
