"""Settings that changed after a verdict have a row, and a root key that nobody had looked at."""

from pathlib import Path

import pytest

from circuitax.records.setting_changes import (
    AcceptedSettings,
    SettingChange,
    changed_settings,
    read_setting_changes,
    setting_changes_table,
    setting_fault,
)

BEFORE = AcceptedSettings("toy/a", 0, {"n": 8, "sizes": [1, 2], "optim": {"steps": 10, "b": 0.5}})
NOW = BEFORE._replace(run="toy/b")
STEPS = NOW._replace(spec={"n": 8, "sizes": [1, 3], "optim": {"steps": 20, "b": 0.5}})
ROW = SettingChange(("other/c", "toy/b"), "it failed", "more steps", "")


def test_settings_that_both_know_are_compared() -> None:
    assert changed_settings(BEFORE, NOW) == ()
    assert changed_settings(BEFORE, STEPS) == ("optim.steps", "sizes")
    code = NOW._replace(spec={"n": 8, "optim": {"steps": 10, "name": "sgd"}})
    assert changed_settings(BEFORE, code) == (), "what came or went with the code"


def test_a_change_needs_a_row_and_another_key_or_a_reason() -> None:
    other = STEPS._replace(key=1)
    kept = ROW._replace(kept_key="it draws nothing")
    assert setting_fault(BEFORE, NOW, []) == ""
    for now in (STEPS, other):
        assert "toy/b has other settings than the accepted run before (optim.steps, sizes): a" in (
            setting_fault(BEFORE, now, [ROW._replace(runs=("toy/c",))])
        )
    assert setting_fault(BEFORE, other, [ROW]) == ""
    assert "its root key, seed=0, which must be another" in setting_fault(BEFORE, STEPS, [ROW])
    assert setting_fault(BEFORE, STEPS, [kept]) == ""
    assert "its kept_key must be empty" in setting_fault(BEFORE, other, [kept])


def test_rows_are_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "changes.toml"
    path.write_text('since = "abc"\n')
    assert read_setting_changes(path) == []
    text = '[[setting]]\nruns = ["toy/a"]\nseen = "a | b"\nwhy = "so"\nkept_key = "{}"\n'
    path.write_text(text.format("") + text.replace("toy/a", "toy/b").format("no key"))
    rows = read_setting_changes(path)
    assert rows[0] == SettingChange(("toy/a",), "a | b", "so", "")
    newest, oldest = setting_changes_table(rows).splitlines()[2:]
    assert newest == "| `toy/b` | a \\| b | so | kept: no key |"
    assert oldest == "| `toy/a` | a \\| b | so | another |"
    for wrong, message in (
        (text.replace("why", "reason"), "setting 0 of changes.toml must have the fields"),
        (text.replace("a | b", " "), "setting 0 of changes.toml must have runs, seen and why"),
        (text.replace('"toy/a"', ""), "setting 0 of changes.toml must have runs, seen and why"),
    ):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=message):
            read_setting_changes(path)
