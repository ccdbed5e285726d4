"""The page "Add an experiment in ten minutes" is followed to the letter, and does what it says."""

import re
import shlex
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import xarray as xr

from circuitax.commands import job
from circuitax.config import catalogue
from circuitax.lab import runs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/add-an-experiment.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for fence in re.findall(r"```\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in fence.splitlines()
    if line.startswith("python -m ")
]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None
) -> Iterator[Callable[[str], int]]:
    """Types one command, with the folder of one's own that the page offers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "results"))
    monkeypatch.setenv(catalogue.VARIABLE, "mine")
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)

    def call(command: str) -> int:
        _, _, module, *arguments = shlex.split(command)
        if module == "experiments.new":
            arguments.append("folder=mine")
        # An entry imports its command when it is started as a program only.
        command = module.replace("experiments.", "circuitax.commands.")
        status = import_module(command).main(arguments)
        return 0 if status is None else status

    yield call


@pytest.mark.slow
def test_every_command_of_the_page_works_in_its_order(
    typed: Callable[[str], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [command.split()[2].removeprefix("experiments.") for command in COMMANDS]
    assert names == ["new", "run", "render", "run", "collect"]
    for command in COMMANDS[:2]:
        assert typed(command) == 0, capsys.readouterr().err[-2000:]
    parts = {path.stem for path in (tmp_path / "mine/my_question").glob("*.py")}
    assert {name for name in parts if f"`{name}.py`" in TEXT} == parts
    (run,) = [path for path in (tmp_path / "results/my_question").iterdir() if path.is_dir()]
    assert list((run / "figures").glob("*.png")), "look at the picture"
    (claim,) = runs.verdicts(run)
    assert claim.verdict != "not run" and "planned" not in claim.reason, "its claim is settled"
    for command in COMMANDS[2:]:
        assert typed(command) == 0, capsys.readouterr().err[-2000:]
    (merged,) = (tmp_path / "results/my_question/collected").rglob("data.nc")
    data = xr.open_dataset(merged, engine="h5netcdf")
    assert data.dim_in.values.tolist() == [16, 64]
    assert list(merged.parent.rglob("*.csv"))


def test_the_page_names_what_the_template_writes() -> None:
    template = ROOT / "src/circuitax/commands/template/experiment.yaml.txt"
    (example,) = re.findall(r"`(\$\{by_scale:[^`]*\})`", TEXT)
    assert example in template.read_text(encoding="utf-8").replace("{{", "{").replace("}}", "}")
