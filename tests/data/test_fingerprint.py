"""A fingerprint follows content and names, not the place."""

import os
from pathlib import Path

import pytest

from circuitax.data.corpus import TextError
from circuitax.data.files import fingerprint
from circuitax.data.text import TextSpec


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint(tmp_path / "a") == known
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fingerprint("~/a") == known
    assert fingerprint(tmp_path / "none") == "absent"


def test_folders_follow_names_and_contents(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> str:
        for file, text in files.items():
            path = tmp_path / name / file.replace("_", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return fingerprint(tmp_path / name)

    first = folder("one", a="1", b_c="2")
    assert folder("two", a="1", b_c="2") == first
    assert len({first, folder("3", a="2", b_c="1"), folder("4", a="1", b="2"), folder("5")}) == 4
    (tmp_path / "two" / ".git").mkdir()
    (tmp_path / "two" / ".git" / "x").write_text("hidden")
    assert fingerprint(tmp_path / "two") == first
    (tmp_path / "two" / "b" / "c").write_text("3")
    assert fingerprint(tmp_path / "two") != first


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0)
    assert fingerprint(tmp_path / "a") == "absent"


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
