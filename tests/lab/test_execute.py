"""A run is computed, resumed to the same bits, and reused when and only when all is the same."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import VARIABLE, ExperimentEntry
from circuitax.config.plan import PlannedRun, plan
from circuitax.config.spec import ConfigError
from circuitax.lab import runs, source
from circuitax.lab.execute import Outcome, _announcement, execute, fresh
from circuitax.lab.loop import StopFlag
from circuitax.lab.runs import (
    Busy,
    finished_runs,
    held,
    provenance,
    run_folder,
    settled_rows,
    whole,
    work_folder,
)
from circuitax.records.record import Record

Entries = dict[str, ExperimentEntry]
HOUSE = Path(__file__).parent.parent / "house"
WALK = ("experiment=house_walk", "scale=tiny")


def planned(entries: Entries, *typed: str) -> PlannedRun:
    return plan(typed or WALK, entries)[1][0]


def done(run: PlannedRun, said: list[str] | None = None) -> Outcome:
    say = ([] if said is None else said).append
    return execute(run, command="python -m experiments.run", stop=StopFlag(), say=say)


def test_a_run_has_its_data_its_provenance_its_rows_and_its_figures(entries: Entries) -> None:
    run = planned(entries, *WALK, "seed=7")
    outcome = done(run)
    assert (outcome.reused, outcome.figure_error) == (False, "")
    record = Record.load(outcome.folder)
    assert record.notes == {"members": 3}
    np.testing.assert_allclose(record.data.end, record.data.position[-1])
    facts = provenance(outcome.folder)
    assert (facts["seed"], facts["run"]) == (7, run.id)
    assert "house_walk.experiment" in facts["modules"] and "circuitax.lab.loop" in facts["modules"]
    assert not {"house_walk.readings", "circuitax.figures.picture"} & set(facts["modules"])
    told = str({**facts, "modules": {}})
    assert str(work_folder()) not in told and platform.node() not in told
    ((quantity,),) = (settled.quantities for settled in settled_rows(outcome.folder))
    assert quantity.estimate is not None
    np.testing.assert_allclose(quantity.estimate.value, np.mean(record.data.end.values**2), 1e-6)
    assert [path.name for path in runs.figures(outcome.folder)] == ["path.png"]
    assert not (work_folder() / run.id).exists()


def test_any_reader_of_the_data_finds_names_and_units(entries: Entries) -> None:
    file = done(planned(entries, *WALK, "seed=7")).folder / "data.nc"
    with xr.open_dataset(file) as data:
        found = {str(name): dict(variable.attrs) for name, variable in data.variables.items()}
    assert found["position"] == {"long_name": "place of each walker", "units": "steps"}
    assert found["end"] == {"long_name": "end"}  # the table does not name it
    assert found == {str(n): v.attrs for n, v in Record.load(file.parent).data.variables.items()}


def test_it_is_reused_until_a_module_changes_which_is_named(
    entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(entries)
    first = done(run)
    assert fresh(run) == first.folder and done(run).reused
    changed = "house_walk.experiment"
    before = source._mark

    def mark(name: str) -> str:
        return "another" if name == changed else before(name)

    monkeypatch.setattr(source, "_mark", mark)
    said: list[str] = []
    assert fresh(run) is None and not done(run, said).reused
    assert said[0] == f"house_walk {run.id} is computed again: {changed} changed"


def test_comments_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    texts = ('"""A."""\nx = 1\n', '"""B."""\n# why\nx = (1)\n', "x = 2\n")
    marks = []
    for text in texts:
        path.write_text(text)
        marks.append(source.syntax_hash(path))
    assert marks[0] == marks[1] != marks[2]


def test_asked_again_it_is_computed_again(entries: Entries) -> None:
    run = planned(entries)
    done(run)
    again = replace(run, settings=replace(run.settings, again=True))
    assert not done(again).reused


def test_a_reader_follows_the_data_of_what_it_reads(entries: Entries) -> None:
    reader = planned(entries, "experiment=house_reader", "scale=tiny")
    assert not done(reader).reused and done(reader).reused
    walk = run_folder("house_walk", reader.inputs[0].id)
    kept = provenance(run_folder("house_reader", reader.id))  # type: ignore[arg-type]
    assert set(kept["input_data"]) == {"house_walk"}
    (walk / "data.nc").write_bytes(b"damaged")
    said: list[str] = []
    assert done(reader, said).reused  # the walk has the same data once it is computed again
    assert said[0] == f"house_walk {walk.name} is computed again: data.nc is damaged"


def test_a_new_run_says_how_it_differs_from_the_last_one_typed_so(entries: Entries) -> None:
    first = planned(entries)
    done(first)
    changed = replace(first, spec=replace(first.spec, members=4))  # as a changed default would be
    said: list[str] = []
    done(changed, said)
    assert said[0].endswith(f"; differs from {first.id} in members")


def test_a_run_that_is_named_is_read_in_the_place_of_the_default(entries: Entries) -> None:
    walk = done(planned(entries, *WALK, "seed=5")).folder
    read = ("experiment=house_reader", "scale=tiny", "input.house_walk=")
    by_name, by_folder = (planned(entries, *read[:2], f"{read[2]}{x}") for x in (walk.name, walk))
    assert by_name.id == by_folder.id != planned(entries, *read[:2]).id
    found = done(by_name).folder
    assert provenance(found)["inputs"] == {"house_walk": walk.name}
    assert finished_runs("house_walk") == [walk], "the default was not computed"
    with pytest.raises(ConfigError, match="is a run of house_reader, must be of house_walk"):
        planned(entries, *read[:2], f"{read[2]}{found.name}")


def test_the_time_of_other_settings_is_that_of_a_run_like_them(entries: Entries) -> None:
    usual = planned(entries, "experiment=house_walk", "seed=2")
    assert _announcement(usual, resumes=False).endswith("about 2 s expected on 2 cores")
    longer = planned(entries, "experiment=house_walk", "n_steps=7")
    assert _announcement(longer, resumes=True).endswith("at quick scale, resumed")
    file = done(planned(entries, *WALK)).folder / "provenance.json"  # of 4 steps
    file.write_text(json.dumps(json.loads(file.read_text()) | {"seconds": 40.0}))
    assert _announcement(longer, resumes=True).endswith("about 70 s expected on 2 cores")


def test_what_is_damaged_is_named_wherever_it_is_read(entries: Entries) -> None:
    folder = done(planned(entries)).folder
    with (folder / "arrays" / "end.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    with pytest.raises(runs.DamagedRun, match=r"arrays/end\.safetensors is damaged"):
        whole(folder)
    (folder / "provenance.json").unlink()
    with pytest.raises(runs.DamagedRun):
        whole(folder)


def test_one_process_computes_a_run(entries: Entries) -> None:
    run = planned(entries)
    with held((work_folder() / run.id).with_suffix(".lock"), "it"), pytest.raises(Busy):
        done(run)
    assert not done(run).reused


def test_a_figure_that_fails_leaves_the_data(entries: Entries) -> None:
    outcome = done(planned(entries, *WALK, "fail=figure"))
    found = re.fullmatch(r"ValueError: (\w+\.py):(\d+): \w+: .*position.*", outcome.figure_error)
    assert found and found[1] == "readings.py"
    assert "end" in Record.load(whole(outcome.folder)).data


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_ended_resumes_to_the_same_bits(
    entries: Entries, results: Path, number: signal.Signals
) -> None:
    typed = [*WALK, "n_steps=40"]
    run = planned(entries, *typed)
    expected = Record.load(done(run).folder).data
    code = (
        "import sys; from circuitax.lab.lab import Lab; "
        "Lab.__init__.__kwdefaults__['checkpoint_seconds'] = 0.2; "
        "from circuitax.commands.run import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {
        **os.environ,
        VARIABLE: str(HOUSE),
        runs.VARIABLE: str(results / "other"),
        "HOUSE_WALK_DELAY": "0.1",
    }
    command = [sys.executable, "-c", code, *typed]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    states = results / "other" / ".work" / run.id / "loops" / "walk" / "state"
    until = time.monotonic() + 60
    while not list(states.glob("[0-9]*")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate()[1]
    assert process.returncode == (143 if number is signal.SIGTERM else -number), said
    ended = subprocess.run(
        command, env=environment | {"HOUSE_WALK_DELAY": "0"}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "at tiny scale, resumed" in ended.stderr
    if number is signal.SIGTERM:  # a kill may come before the first checkpoint is whole
        assert re.search(r"loop walk: resumed from chunk \d+ of 40", ended.stderr)
    found = Record.load(results / "other" / "house_walk" / run.id).data
    assert found.identical(expected)
