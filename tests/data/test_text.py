"""From a spec to tokens."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.data import text as texts
from circuitax.data.corpus import TextError
from circuitax.data.files import fingerprint
from circuitax.data.text import (
    RepeatedWindowSource,
    TextSpec,
    WindowSource,
    device_tokens,
    draw_windows,
    fits_on_device,
    open_text,
    read_windows,
    spaced_windows,
)
from circuitax.data.tokenizer import BOUNDARY
from circuitax.kernel.keys import at_index


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


KEY = jax.random.key(5)


def test_windows_are_runs_of_the_text() -> None:
    text = jnp.arange(100, dtype=jnp.uint16)
    rows = draw_windows(KEY, text, 64, 9)
    assert rows.shape == (64, 9) and rows.dtype == jnp.int32
    np.testing.assert_array_equal(rows - rows[:, :1], np.tile(np.arange(9), (64, 1)))


def test_every_start_is_equally_likely() -> None:
    # One fixed key; a correct sampler fails here with probability 1e-4.
    rows = draw_windows(KEY, jnp.arange(12), 9000, 4)
    counts = np.bincount(np.asarray(rows[:, 0]), minlength=9)
    assert len(counts) == 9
    assert stats.chisquare(counts).pvalue > 1e-4


def test_disk_and_device_give_the_same_batches(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 500, 1000).astype("<u2")
    (tmp_path / "t.bin").write_bytes(array.tobytes())
    mapped = np.memmap(tmp_path / "t.bin", "<u2", mode="r")
    from_disk = read_windows(KEY, mapped, 6, 11, range(3, 7))
    for row, step in zip(from_disk, range(3, 7), strict=True):
        on_device = draw_windows(at_index(KEY, step), jnp.asarray(array), 6, 11)
        np.testing.assert_array_equal(row, on_device)
    assert not np.array_equal(from_disk[0], from_disk[1])


def test_corpus_beyond_int32() -> None:
    # A view of 2^33 tokens that takes no memory: every token is the same byte.
    huge = np.lib.stride_tricks.as_strided(np.full(1, 7, np.uint16), (1 << 33,), (0,))
    assert not fits_on_device(huge, limit_bytes=1 << 40)
    rows = read_windows(KEY, huge, 4, 5, range(2))
    np.testing.assert_array_equal(rows, np.full((2, 4, 5), 7))


def test_starts_beyond_int32_reach_the_whole_corpus() -> None:
    class Positions:
        """Stands for an array whose token at i is i >> 24."""

        nbytes = 1 << 35

        def __len__(self) -> int:
            return 1 << 34

        def __getitem__(self, index: np.ndarray) -> np.ndarray:
            return index >> 24

    rows = read_windows.__wrapped__(KEY, Positions(), 500, 2, range(2))  # past the shape checks
    assert rows.min() < 20 and rows.max() > 1004


def test_spaced_windows_cover_without_overlap() -> None:
    rows = spaced_windows(np.arange(103), 5, 20)
    assert len(np.unique(rows)) == 100
    assert rows[0, 0] == 0 and rows[-1, -1] >= 80
    with pytest.raises(ValueError, match="n_windows=6 must be between 1 and 5"):
        spaced_windows(np.arange(103), 6, 20)
    with pytest.raises(
        TextError, match="a text of 4 tokens is shorter than one window of length=16"
    ):
        spaced_windows(np.arange(4), 1, 16)


def test_source_is_the_sampler_and_equal_for_equal_texts() -> None:
    text = jnp.arange(50, dtype=jnp.uint16)
    source = WindowSource(5, 7, text)
    np.testing.assert_array_equal(source(KEY), draw_windows(KEY, text, 5, 7))
    assert source == WindowSource(5, 7, jnp.array(text))
    others = WindowSource(5, 7, text + 1), WindowSource(5, 8, text), WindowSource(6, 7, text)
    assert len({source, *others}) == 4
    with pytest.raises(ValueError, match="length=51"):
        WindowSource(5, 51, text)
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        WindowSource(5, 1, text)


def test_a_text_too_large_for_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.arange(50, dtype=np.uint16)
    np.testing.assert_array_equal(device_tokens(tokens), tokens)
    monkeypatch.setattr(texts, "_MOST_ON_DEVICE", 49)
    with pytest.raises(TextError, match=r"a text of 50 tokens .* must have at most"):
        device_tokens(tokens)


# Every token tells its own place in the text.
WINDOWS = WindowSource(600, 12, jnp.arange(500))


def test_the_beginning_of_a_window_comes_again_and_again() -> None:
    rows = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5)(jax.random.key(1)))
    periods = np.array([np.flatnonzero(row == row[0])[1] for row in rows])
    for row, period in zip(rows, periods, strict=True):
        np.testing.assert_array_equal(row, row[0] + np.arange(12) % period)
    # One fixed key; a correct sampler fails here with probability 1e-4.
    assert stats.chisquare(np.bincount(periods - 3, minlength=3)).pvalue > 1e-4
    assert set(periods) == {3, 4, 5}


def test_some_windows_repeat_and_the_others_stay_whole() -> None:
    rows = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5, share=0.25)(jax.random.key(1)))
    whole = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5)(jax.random.key(1)))
    np.testing.assert_array_equal(rows[:150], whole[:150])
    np.testing.assert_array_equal(rows[150:], rows[150:, :1] + np.arange(12))
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"share={share} must lie in"):
            RepeatedWindowSource(WINDOWS, 3, 5, share=share)
