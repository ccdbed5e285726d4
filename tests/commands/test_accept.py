"""Accepting: clean runs of an experiment's own defaults, without weights or logs."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from circuitax.commands import accept, render
from circuitax.config.catalogue import ExperimentEntry
from circuitax.lab.runs import DERIVED, accepted_run, finished_runs, provenance, verdicts
from circuitax.records.claims import SettledClaim
from circuitax.records.manifest import damage, write_manifest
from circuitax.records.owner import this_process
from circuitax.records.setting_changes import SettingChange


@pytest.fixture(autouse=True)
def quick_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins in the place of those that a process of its own computes, see test_twins."""

    def made(runs: dict[str, Path]) -> dict[str, dict[str, str]]:
        return {name: {"experiment": name, "commit": "abc"} for name in runs}

    monkeypatch.setattr(accept, "made", made)


def set_dirty(run: Path, dirty: bool) -> None:
    facts = provenance(run)
    (run / "provenance.json").write_text(json.dumps({**facts, "dirty": dirty}))
    write_manifest(run, left_out=DERIVED)


def test_the_newest_run_with_its_own_defaults_is_kept(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("seed=1") == 0
    (plain,) = finished_runs("house_walk")
    assert walk("n_steps=5") == 0
    for run in finished_runs("house_walk"):
        set_dirty(run, True)
    assert accept.main([]) == 2
    assert "was made from changed sources" in capsys.readouterr().err
    assert not (results / "README.md").exists()
    set_dirty(plain, False)
    assert accept.main([]) == 0
    kept = results / "house_walk" / "accepted"
    assert provenance(kept)["run"] == plain.name
    names = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert "data.nc" in names and "figures/path.png" in names
    before = {path.name: path.read_bytes() for path in (plain / "figures").iterdir()}
    with (
        Image.open(kept / "figures/path.png") as page,
        Image.open(plain / "figures/path.png") as fine,
    ):
        assert page.width < 0.6 * fine.width, "pictures in git are for pages"
    assert not {name for name in names if name.startswith(("arrays", "log", "metrics", "."))}
    assert not {name for name in names if "/." in name or name.endswith(".pdf")}
    assert json.loads((kept / "twin.json").read_text())["experiment"] == "house_walk"
    assert "twin.json" in json.loads((kept / "manifest.json").read_text())["sha256"]
    chapter = (results / "gallery" / "further.md").read_text()
    assert "../house_walk/accepted/figures/path.png" in chapter
    assert f"[{plain.name}](../house_walk/accepted)" in (results / "claims/code.md").read_text()
    assert plain in finished_runs("house_walk") and kept not in finished_runs("house_walk")
    assert before == {path.name: path.read_bytes() for path in (plain / "figures").iterdir()}
    picture = (kept / "figures/path.png").read_bytes()
    assert render.main(["house_walk/accepted"]) == 0
    assert (kept / "figures/path.png").read_bytes() == picture, "git sees no change"
    assert (kept / "figures/path.pdf").is_file()


def test_any_run_can_be_named(walk: Callable[..., int], results: Path) -> None:
    assert walk("n_steps=5") == 0
    (run,) = finished_runs("house_walk")
    assert accept.main([f"run=house_walk/{run.name}", "dirty=yes"]) == 0
    assert provenance(results / "house_walk" / "accepted")["run"] == run.name


def test_other_settings_than_the_accepted_ones_need_a_row_and_another_root_key(
    walk: Callable[..., int],
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    kept = results / "house_walk" / "accepted"
    first = provenance(kept)["run"]
    assert walk("n_steps=5") == 0
    named = f"house_walk/{finished_runs('house_walk')[-1].name}"
    for row, message in (
        ([], r"house_walk/\w+ has other settings than the accepted run before \(n_steps\): a"),
        ([SettingChange((named,), "seen", "why", "")], "seed=0, which must be another"),
    ):
        monkeypatch.setattr(accept, "read_setting_changes", lambda path, row=row: row)
        assert accept.main([f"run={named}", "dirty=yes"]) == 2
        assert re.search(message, capsys.readouterr().err)
        assert provenance(kept)["run"] == first
    explained = [SettingChange((named,), "seen", "why", "nothing is drawn")]
    monkeypatch.setattr(accept, "read_setting_changes", lambda path: explained)
    assert accept.main([f"run={named}", "dirty=yes"]) == 0
    assert f"house_walk/{provenance(kept)['run']}" == named


def test_long_tables_stay_behind(
    walk: Callable[..., int], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert walk() == 0
    (run,) = finished_runs("house_walk")
    sizes = {path.name: path.stat().st_size for path in (run / "tables").iterdir()}
    shortest = min(sizes.values())
    assert shortest < max(sizes.values())
    monkeypatch.setattr(accept, "LONGEST_TABLE", shortest)
    assert accept.main(["dirty=yes"]) == 0
    kept = results / "house_walk" / "accepted"
    assert {path.name for path in (kept / "tables").iterdir()} == {
        name for name, size in sizes.items() if size == shortest
    }
    assert damage(kept) == ""


def test_a_damaged_run_is_refused_before_anything_is_replaced(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    (run,) = finished_runs("house_walk")
    kept = results / "house_walk" / "accepted"
    assert accept.main(["dirty=yes"]) == 0
    assert damage(kept) == ""
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    for name in ("data.nc", "arrays/end.safetensors", "manifest.json"):
        good = (run / name).read_bytes()
        (run / name).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        capsys.readouterr()
        for arguments in (["dirty=yes"], ["dirty=yes", f"run=house_walk/{run.name}"]):
            assert accept.main(arguments) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert f"must be whole, but {name} is damaged" in line
        (run / name).write_bytes(good)
        assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    # Claims and figures are made again from the data.
    for name in ("claims.json", "figures/path.png"):
        (run / name).write_bytes(b"")
        assert accept.main(["dirty=yes"]) == 0
        assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    assert [verdict.verdict for verdict in verdicts(kept)] == ["holds", "holds"]


def test_accepted_runs_are_settled_in_place(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    kept = results / "house_walk" / "accepted"
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    for name in ("claims.json", "scalars.json", "figures/path.png"):
        (kept / name).write_bytes(b"")
    (results / "CLAIMS.md").write_text("")
    capsys.readouterr()
    assert accept.main(["settle=yes"]) == 0
    assert "house_walk: accepted settled" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    assert "`walk-starts`" in (results / "CLAIMS.md").read_text()
    # Settled one by one, and refused in one line where there is nothing to settle.
    (kept / "figures/path.png").write_bytes(b"")
    assert accept.main(["settle=yes", "only=house_walk"]) == 0
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    capsys.readouterr()
    for typed, message in (
        ("only=house_reader", "only=house_reader has no accepted run to settle"),
        ("run=house_walk/accepted", "run=house_walk/accepted must not stand beside settle=yes"),
        ("scale=tiny", "scale=tiny must not stand beside settle=yes"),
    ):
        assert accept.main(["settle=yes", typed]) == 2
        assert message in capsys.readouterr().err


def test_nothing_is_promoted_when_another_accepted_record_settles_nothing(
    walk: Callable[..., int],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    other = results / "house_reader" / "accepted"
    shutil.copytree(results / "house_walk" / "accepted", other)
    page = (results / "CLAIMS.md").read_text()
    assert walk("seed=1") == 0

    def settled(run: Path, entry: ExperimentEntry) -> list[SettledClaim]:
        if run == other:
            raise ValueError("measure() of 'house_reader' failed")
        return verdicts(run)

    monkeypatch.setattr(accept, "settle_run", settled)
    first = provenance(results / "house_walk" / "accepted")
    assert accept.main(["dirty=yes"]) == 2
    assert "measure() of 'house_reader' failed" in capsys.readouterr().err
    assert provenance(results / "house_walk" / "accepted") == first
    assert (results / "CLAIMS.md").read_text() == page


def test_a_kill_between_the_renames_is_undone_by_the_next_command(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes", "twin=no"]) == 0
    kept = results / "house_walk" / "accepted"
    _, _, host = this_process().split("-")
    for command, typed in (
        (accept.main, ["settle=yes"]),
        (render.main, ["house_walk/accepted"]),
        (render.main, [str(kept)]),
        (render.main, ["house_walk"]),
    ):
        kept.rename(kept.with_name(f".accepted.999999999-1-{host}.old"))
        assert command(typed) == 0
        assert damage(kept) == "" and not list(kept.parent.glob(".*"))
    kept.rename(kept.with_name(f".accepted.999999999-1-{host}.old"))
    assert accepted_run("house_walk") == kept
    assert "## house_walk" in (results / "gallery" / "further.md").read_text()


@pytest.mark.parametrize("name", ["../outside", "no_such", ""])
def test_a_run_of_no_experiment_is_refused(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert walk() == 0
    run = finished_runs("house_walk")[0]
    facts = json.loads((run / "provenance.json").read_text()) | {"experiment": name}
    (run / "provenance.json").write_text(json.dumps(facts))
    write_manifest(run, left_out=DERIVED)
    assert accept.main([f"run=house_walk/{run.name}", "dirty=yes"]) == 2
    message = f"says that it is of experiment={name!r}, which does not exist"
    assert message in capsys.readouterr().err
    assert not (results.parent / "outside").exists()


def test_mistakes(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accept.main([]) == 2
    assert "there is no finished run to accept" in capsys.readouterr().err
    assert walk("n_steps=5") == 0
    for arguments, message in (
        (["only=house_walk"], "only=house_walk has no finished run with its own defaults"),
        (["dirty=perhaps"], "dirty=perhaps must be one of no, yes"),
        (["run=house_walk/abc"], "run='abc' must be the folder of a finished run"),
    ):
        capsys.readouterr()
        assert accept.main(arguments) == 2
        assert message in capsys.readouterr().err
    assert accept.main(["--help"]) == 0


def test_a_run_by_other_code_is_refused(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    (run,) = finished_runs("house_walk")
    facts = {**provenance(run), "source": "0" * 12, "commit": "abc"}
    (run / "provenance.json").write_text(json.dumps(facts))
    write_manifest(run, left_out=DERIVED)
    assert accept.main(["dirty=yes"]) == 2
    assert "was computed by other code, that of commit abc" in capsys.readouterr().err
    assert not (results / "house_walk" / "accepted").exists()
    assert accept.main(["dirty=yes", "twin=no"]) == 0
    assert not (results / "house_walk" / "accepted" / "twin.json").exists()
