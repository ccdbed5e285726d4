"""Every command is given a damaged run: it names the file, and rewrites nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from circuitax.commands import (
    accept,
    claims,
    collect,
    events,
    explain,
    generate,
    poster,
    render,
    reproduce,
    run,
    twins,
)
from circuitax.commands.worker import Job
from circuitax.config.catalogue import checkout
from circuitax.lab.runs import DERIVED, finished_runs
from circuitax.records.manifest import damage, write_manifest

# Which run a command is given and how; the first line that it says about it, and its exit status.
REFUSED = {
    "accept": (accept.main, ["run=house_walk/{run}", "dirty=yes"]),
    "claims": (claims.main, ["house_walk/{run}"]),
    "collect": (collect.main, ["experiment=house_walk", "sweep=all"]),
    "events": (events.main, ["run=house_walk/{run}"]),
    "explain": (explain.main, ["house_walk/{run}", "let"]),
    "generate": (generate.main, ["house_walk/{run}", "let"]),
    "poster": (poster.main, []),
    "render": (render.main, ["house_walk/{run}"]),
}
# These go on with what is whole; the tests below say how.
GO_ON = {"reproduce", "run", "twins"}
READ_NO_RUN = {"benchmark", "changes", "new"}


def test_every_command_is_here() -> None:
    entries = {path.stem for path in (checkout() / "experiments").glob("[a-z]*.py")}
    assert entries == {*REFUSED, *GO_ON, *READ_NO_RUN}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but those of work under way."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".work" not in path.parts
    }


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_run_is_refused_and_stays(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert walk() == 0
    (done,) = finished_runs("house_walk")
    accepted = done.with_name("accepted")
    shutil.copytree(done, accepted)
    damaged = accepted if name == "poster" else done
    flip(damaged / "data.nc")
    (damaged / "settled.json").unlink()  # else the claims would need no data
    before = contents(results)
    main, typed = REFUSED[name]
    capsys.readouterr()
    assert main([item.format(run=done.name) for item in typed]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "must be whole, but data.nc is damaged" in line
    assert ("git brings it back" if name == "poster" else "computes it again") in line
    assert contents(results) == before


def test_reproduce_leaves_a_damaged_run_out_and_goes_on(
    children: list[Job], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main(["only=house_walk,house_stack", "scale=tiny"]) == 0
    (done,) = finished_runs("house_walk")
    flip(done / "data.nc")
    before = contents(done)
    capsys.readouterr()
    assert reproduce.main(["only=house_stack", "scale=tiny"]) == 1
    out = capsys.readouterr().out
    named = [line for line in out.splitlines() if line.startswith("house_walk is left out")]
    assert len(named) == 1 and "must be whole, but data.nc is damaged" in named[0]
    assert "damaged, and left out of the pages: house_walk" in out
    page = (results / "latest" / "README.md").read_text()
    assert '<a id="house_walk">' not in page and '<a id="house_stack">' in page
    assert contents(done) == before
    # The command that made it computes it again, and shows it.
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    assert "computed again: data.nc is damaged" in capsys.readouterr().err
    assert '<a id="house_walk">' in (results / "latest" / "README.md").read_text()


def test_damage_while_others_are_computed(
    children: list[Job], stand_in: Callable[[type], None], child: type, results: Path
) -> None:
    """The run of an earlier command is damaged after this one has looked at it."""
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    (done,) = finished_runs("house_walk")
    before = (done / "claims.json").read_bytes()

    class ThenDamaged(child):
        def compute(self, job: Job) -> None:
            flip(done / "data.nc")
            super().compute(job)

    stand_in(ThenDamaged)
    assert reproduce.main(["only=house_stack", "scale=tiny"]) == 1
    assert (done / "claims.json").read_bytes() == before
    assert '<a id="house_walk">' not in (results / "latest" / "README.md").read_text()


def test_run_computes_a_damaged_run_again(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["experiment=house_reader", "scale=tiny"]) == 0
    (upstream,) = finished_runs("house_walk")
    flip(upstream / "data.nc")
    assert run.main(["experiment=house_reader", "scale=tiny"]) == 0
    assert f"house_walk/{upstream.name} is computed again: data.nc is" in capsys.readouterr().err
    assert damage(upstream) == ""


def test_twins_of_other_accepted_runs_are_compared(
    walk: Callable[..., int],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("house_walk", "house_stack"):
        accepted = results / name / "accepted"
        accepted.mkdir(parents=True)
        (accepted / "provenance.json").write_text("{}")
        (accepted / "twin.json").write_text(json.dumps({"commit": "abc", "experiment": name}))
        write_manifest(accepted, left_out=DERIVED)
    flip(results / "house_walk" / "accepted" / "twin.json")
    asked = []

    def checked(kept, jobs):
        asked.extend(kept)
        return [(name, {"outcome": "same"}) for name in kept]

    monkeypatch.setattr(twins, "checked", checked)
    assert twins.main(["only=house_walk,house_stack"]) == 1
    out = capsys.readouterr().out
    assert asked == ["house_stack"] and "house_stack: same" in out
    assert "house_walk: failed; " in out and "twin.json is damaged" in out
