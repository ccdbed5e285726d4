"""Every experiment runs end to end in seconds and gives the numbers of its accepted run's code.

What is run is the twin of the accepted run: record, claims and figures. All run in this process, so
that what they share is imported and compiled once; one command of its own shows that the entry
works from any folder.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from circuitax.commands import generate, job, run
from circuitax.commands.twins import accepted_twin
from circuitax.config.catalogue import discover, upstream_order
from circuitax.figures import title_strip
from circuitax.figures.style import PAGE
from circuitax.lab import runs
from circuitax.lab.runs import accepted_run
from circuitax.lab.stop import StopFlag
from circuitax.lab.twin_files import checked_twin
from circuitax.lab.twins import compare_twins, make_twin, repeat_twin
from circuitax.records.claims import VERDICTS
from circuitax.records.record import Record
from circuitax.records.twin import DIFFERENT

ENTRIES = discover()
# Upstream experiments come first, so that their runs are reused by those that read them.
ORDER = list(dict.fromkeys(n for name in sorted(ENTRIES) for n in upstream_order(name, ENTRIES)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def results(
    shared: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None
) -> Iterator[Path]:
    """The results folder of all tests here; afterwards this process lets go of compiled code."""
    monkeypatch.setenv(runs.VARIABLE, str(shared))
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)
    yield shared
    jax.clear_caches()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is drawn for a run."""
    figures: list[Figure] = []
    add_title = title_strip.add_title

    def noting(figure: Figure, message: str) -> Bbox:
        figures.append(figure)
        return add_title(figure, message)

    monkeypatch.setattr(title_strip, "add_title", noting)
    return figures


def small_texts(figure: Figure) -> dict[str, float]:
    """Texts below 6 points, at the width at which the figure is printed: a page at most."""
    scale = min(1, PAGE / figure.get_figwidth())
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    sizes = {text.get_text(): scale * text.get_fontsize() for text in texts}
    assert sizes
    return {text: size for text, size in sizes.items() if size < 6}


def check(finished: Path) -> None:
    """One finished run: data, verdicts and pictures."""
    record = Record.load(finished)
    # Without the weights that it reads, an experiment has facts only.
    assert record.data.data_vars or record.notes["missing"]
    verdicts = json.loads((finished / "claims.json").read_text())
    assert {v["verdict"] for v in verdicts} <= set(VERDICTS)
    assert all(v["verdict"] != "fails" for v in verdicts if v["kind"] == "identity"), verdicts
    pictures = sorted((finished / "figures").glob("*.png"))
    assert pictures and all(p.stat().st_size > 5_000 for p in pictures)
    assert all(p.with_suffix(".pdf").exists() for p in pictures)


def finished_runs(folder: Path) -> set[Path]:
    return {path for path in folder.glob("*") if (path / "claims.json").exists()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDER)
def test_experiment_gives_the_numbers_of_its_accepted_code(
    name: str, results: Path, drawn: list[Figure]
) -> None:
    kept = accepted_twin(name)
    before = finished_runs(results / name)
    with StopFlag() as stop:
        if kept is None:  # an experiment that was never accepted
            make_twin(ENTRIES[name], ENTRIES, seed=0, dtype="float32", stop=stop, derived=True)
        else:
            here = repeat_twin(kept, ENTRIES, stop, derived=True)
            outcome = compare_twins(here, kept)
            if not here["cases"]:
                pytest.skip(f"weights or texts of the twin are not here: {outcome.left_out}")
            if outcome.outcome == DIFFERENT:
                said = set(checked_twin(accepted_run(name)).get("variables", ()))
                untold = sorted(set(outcome.variables) - said)
                assert not untold, f"the claims page does not say that these differ: {untold}"
    new = finished_runs(results / name) - before
    assert new
    for finished in new:
        check(finished)
    assert drawn and [small_texts(figure) for figure in drawn] == [{}] * len(drawn)


@pytest.mark.slow
def test_a_run_of_text_models_continues_a_text(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["experiment=text_models", "scale=tiny"]) == 0  # reused if it ran
    capsys.readouterr()
    generate.main(["text_models", "def", "--model", "layers-2", "--greedy"])
    said = capsys.readouterr()
    assert said.out.startswith("def") and len(said.out) > 4
    assert "layers-2 of text_models" in said.err


@pytest.mark.slow
def test_the_command_works_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "experiments.run", "experiment=pentagon", "scale=tiny"]
    environment = os.environ | {runs.VARIABLE: str(tmp_path / "results")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (finished,) = finished_runs(tmp_path / "results" / "pentagon")
    check(finished)
