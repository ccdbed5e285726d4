from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from tokenizers import Tokenizer, models

from circuitax.data.corpus import Corpus, build_corpus, text_document
from circuitax.data.tokenizer import (
    BOUNDARY,
    boundary_id,
    corpus_tokenizer,
    size,
    token_names,
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


def test_same_corpus_same_tokenizer(tokenizer: Tokenizer) -> None:
    again = train_tokenizer(small_corpus(), 280)
    assert tokenizer_digest(again) == tokenizer_digest(tokenizer)
    assert tokenizer_digest(train_tokenizer(small_corpus(), 279)) != tokenizer_digest(tokenizer)


def test_validation_text_has_no_say() -> None:
    names = [d.name for d in small_corpus().validation]
    documents = [
        text_document(f"d{i}", "qqzz" * 90 if f"d{i}" in names else TEXT * 3) for i in range(5)
    ]
    other = train_tokenizer(build_corpus("other", documents), 280)
    assert tokenizer_digest(other) == tokenizer_digest(train_tokenizer(small_corpus(), 280))


def test_trained_once_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = corpus_tokenizer(small_corpus(), 270, tmp_path)
    (file,) = tmp_path.glob("*/tokenizer.json")
    monkeypatch.setattr("circuitax.data.tokenizer.train_tokenizer", None)
    assert tokenizer_digest(corpus_tokenizer(small_corpus(), 270, tmp_path)) == tokenizer_digest(
        first
    )
    assert tokenizer_digest(tokenizer_from_file(file)) == tokenizer_digest(first)


def test_broken_cache_is_made_again(tmp_path: Path) -> None:
    first = corpus_tokenizer(small_corpus(), 270, tmp_path)
    (file,) = tmp_path.glob("*/tokenizer.json")
    file.write_text('{"half')
    assert tokenizer_digest(corpus_tokenizer(small_corpus(), 270, tmp_path)) == tokenizer_digest(
        first
    )
    tokenizer_from_file(file)


def test_threads_share_the_cache(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: corpus_tokenizer(small_corpus(), 270, tmp_path), range(4))
        assert len({tokenizer_digest(t) for t in made}) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_impossible_sizes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="d_vocab=256 must be at least 257"):
        corpus_tokenizer(small_corpus(), 256, tmp_path)
    with pytest.raises(ValueError, match=r"d_vocab=5000 must be at most \d+ for corpus 'small'"):
        corpus_tokenizer(small_corpus(), 5000, tmp_path)
    assert list(tmp_path.iterdir()) == []


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
