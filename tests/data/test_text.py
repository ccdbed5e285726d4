"""From a spec to tokens."""

import json
from pathlib import Path

import pytest

from circuitax.data.corpus import TextError
from circuitax.data.files import fingerprint
from circuitax.data.text import TextSpec, open_text
from circuitax.data.tokenizer import BOUNDARY


def folder_of_text(path: Path) -> Path:
    path.mkdir()
    for i in range(6):
        (path / f"{i}.txt").write_text(f"chapter {i}: it was the best of times, the worst\n" * 4)
    return path


def test_opens_a_folder_and_says_so(tmp_path: Path) -> None:
    folder = folder_of_text(tmp_path / "novel")
    spec = TextSpec(d_vocab=270, path=str(folder), cache=str(tmp_path / "cache"))
    text = open_text(spec)
    about = text.about()
    assert about["corpus"] == "novel"
    assert (about["train_documents"], about["validation_documents"]) == (5, 1)
    assert about["train_tokens"] == len(text.tokens.train)
    decoded = text.tokenizer.decode(text.tokens.validation.tolist(), skip_special_tokens=False)
    assert decoded.startswith(f"{BOUNDARY}chapter ")
    assert open_text(spec).about() == about


def test_tokenizer_from_a_file(tmp_path: Path) -> None:
    folder = folder_of_text(tmp_path / "novel")
    cache = tmp_path / "cache"
    open_text(TextSpec(d_vocab=270, path=str(folder), cache=str(cache)))
    (file,) = (cache / "tokenizers").glob("*/tokenizer.json")
    spec = TextSpec(d_vocab=270, path=str(folder), tokenizer=str(file), cache=str(tmp_path / "new"))
    assert open_text(spec).about()["d_vocab"] == 270
    assert not (tmp_path / "new/tokenizers").exists()
    with pytest.raises(ValueError, match="d_vocab=300 must equal the 270 tokens"):
        open_text(TextSpec(d_vocab=300, path=str(folder), tokenizer=str(file)))


def test_tokenizer_with_a_gap_between_its_ids(tmp_path: Path) -> None:
    folder = folder_of_text(tmp_path / "novel")
    cache = tmp_path / "cache"
    open_text(TextSpec(d_vocab=270, path=str(folder), cache=str(cache)))
    (file,) = (cache / "tokenizers").glob("*/tokenizer.json")
    tokenizer = json.loads(file.read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab[max(vocab, key=vocab.get)] = 270
    (tmp_path / "gap.json").write_text(json.dumps(tokenizer))
    spec = TextSpec(d_vocab=270, path=str(folder), tokenizer=str(tmp_path / "gap.json"))
    with pytest.raises(TextError, match=r"gap\.json' has a token with id 270, must have ids below"):
        open_text(spec)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": "a", "dataset": "b"}, "must not both be given"),
        ({"d_vocab": 100}, "d_vocab=100 must be at least 257"),
        ({"validation_fraction": 1.5}, "validation_fraction=1.5"),
    ],
)
def test_spec_is_checked(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextSpec(**fields)


def test_a_text_names_all_that_it_reads(tmp_path: Path) -> None:
    text, words = tmp_path / "text", tmp_path / "tokenizer.json"
    text.write_text("one")
    words.write_text("{}")
    first = TextSpec(path=str(text), tokenizer=str(words)).outside_inputs()
    assert set(first) == {"path", "tokenizer"}
    text.write_text("two")
    second = TextSpec(path=str(text), tokenizer=str(words)).outside_inputs()
    assert second["path"] != first["path"] and second["tokenizer"] == first["tokenizer"]
    own = TextSpec().outside_inputs()
    assert set(own) == {"python"} and own["python"].startswith("3.")
    assert TextSpec(dataset=str(tmp_path)).outside_inputs() == {"dataset": fingerprint(tmp_path)}
    with pytest.raises(TextError, match=r"^dataset='no/such' "):
        TextSpec(dataset="no/such").outside_inputs()
