"""The command line before Hydra sees it."""

from typing import Any

import pytest

from circuitax.config.command_line import (
    MOST_JOBS,
    check,
    count_jobs,
    jobs,
    matching,
    parse,
    split,
    values_of,
)
from circuitax.config.schema import ConfigError

KNOWN: dict[str, Any] = {
    "experiment": str,
    "seed": int,
    "model": object,
    "model.width": int,
    "rates": tuple[float, ...],
}


def test_flags_and_overrides_are_told_apart() -> None:
    line = split(["-m", "--config-dir", "extra", "a=1", "--cfg", "job", "b=2"])
    assert line == (("a=1", "b=2"), ("-m", "--cfg", "job"), True, "extra")
    assert split(["--config-dir=extra"]).config_dir == "extra"
    assert split(["a=1"]).multirun is False
    assert split(["--again", "a=1"])[:2] == (("again=true", "a=1"), ())
    assert split(["hydra.mode=MULTIRUN"]).multirun is True
    for typed in ("-cn", "--config-name=other", "--config-path"):
        with pytest.raises(ConfigError, match="is not offered"):
            split([typed, "other"])
    with pytest.raises(ConfigError, match="--config-dir needs a folder"):
        split(["--config-dir"])


def test_what_hydra_does_not_know_is_no_flag() -> None:
    assert split(["--cfg=job", "--resolve", "--run"]).flags == ("--cfg=job", "--resolve", "--run")
    for typed, message in (
        ("--experiment=toy", "--experiment is no option.*; a field .*, as experiment=toy$"),
        ("--mutlirun", r"--mutlirun is no option \(did you mean '--multirun'\?\)"),
        ("-x", "-x is no option"),
    ):
        with pytest.raises(ConfigError, match=message):
            split([typed])


@pytest.mark.parametrize(
    ("typed", "checked"),
    [
        ("model.width=3", "model.width=3"),
        ("rates=0.5", "rates=[0.5]"),
        ("rates=[0.5,0.7]", "rates=[0.5,0.7]"),
        ("rates=0.5,0.7", "rates=[0.5],[0.7]"),
        ("rates=[0.5],[0.7,0.9]", "rates=[0.5],[0.7,0.9]"),
        ("rates=range(1,3)", "rates=[1],[2]"),
        ("hydra/launcher=cores", "hydra/launcher=cores"),
        ("hydra.sweep.dir=x", "hydra.sweep.dir=x"),
    ],
)
def test_what_is_right_passes_and_scalars_fit_lists(typed: str, checked: str) -> None:
    assert check(parse([typed]), KNOWN, multirun=True) == [checked]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("model.widht=3", r"model.widht=3 names no field \(did you mean 'model.width'\?\)"),
        ("+model.depth=3", r"\+model.depth=3 names no field .*fields are experiment, model"),
        ("+seed=3", r"\+seed=3: fields are set, not added or deleted; write seed=..."),
        ("~seed", "~seed: fields are set, not added or deleted"),
        ("seed=1,2", r"seed=1,2 is a sweep: add -m"),
        ("seed=range(3,3)", r"seed=range\(3,3\) sweeps over nothing, it must be an integer"),
        ("seed=glob(*)", r"seed=glob\(\*\) must sweep over values or a range"),
        ("seed=interval(0,1)", r"seed=interval\(0,1\) must sweep over values or a range"),
    ],
)
def test_what_is_wrong_is_named(typed: str, message: str) -> None:
    multirun = typed != "seed=1,2"
    with pytest.raises(ConfigError, match=message):
        check(parse([typed]), KNOWN, multirun=multirun)


def test_what_cannot_be_read_is_quoted() -> None:
    with pytest.raises(ConfigError, match=r"'seed=\[' cannot be read"):
        parse(["seed=["])


@pytest.mark.parametrize("typed", ["toy_intro", "", "scale:tiny"])
def test_what_has_no_value_is_told_how_to_write_it(typed: str) -> None:
    with pytest.raises(ConfigError, match=f"^{typed!r} has no value: write .*experiment=NAME$"):
        parse([typed])


def test_jobs_unfold_as_hydra_does() -> None:
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    typed = ["experiment=toy", "seed=0,1", "rates=[0.5],[0.7]", "model.width=range(2,4)"]
    (expected,) = BasicSweeper.split_arguments(parse(typed), None)
    assert jobs(typed) == expected
    assert len(expected) == 8
    with pytest.raises(ConfigError, match="sweeps over nothing"):
        jobs(["hydra.x=range(1,1)"])


@pytest.mark.parametrize(
    "typed",
    [
        ["seed=0"],
        ["seed=0,1,2", "rates=[0.5],[0.7]", "model.width=[1,2]"],
        ["seed=range(2,9)", "model.width=range(9,2,-2)"],
        ["rates=range(0,1,0.3)", "seed=range(3,3)"],
        ["seed=shuffle(range(1,4))", "rates=sort(3,1,2)", "a=choice(1,2)"],
        ["seed=range(5)"],
        ["seed=interval(0,1)"],
    ],
)
def test_jobs_are_counted_as_they_unfold(typed: list[str]) -> None:
    parsed = parse(typed)
    expected = 1
    for override in parsed:
        if override.is_discrete_sweep():
            expected *= len(list(override.sweep_string_iterator()))
    assert count_jobs(parsed) == expected


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["seed=range(0,1e9)"], "has 1,000,000,000 jobs, .* at most 10,000: seed alone"),
        (["seed=shuffle(range(0,1000000000))"], "has 1,000,000,000 jobs"),
        (["seed=range(0,101)", "x=range(0,100)"], "has 10,100 jobs, .*: seed alone has 101"),
        (["seed=range(0,inf)"], "has infinitely many jobs"),
        (["seed=range(0,5,0)"], r"seed=range\(0,5,0\) must have a step other than 0"),
        (["seed=0", "seed=1"], "seed is given twice; write one seed="),
    ],
)
def test_too_many_jobs_are_refused_before_they_unfold(typed: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        count_jobs(parse(typed))
    assert count_jobs(parse([f"seed=range(0,{MOST_JOBS})"])) == MOST_JOBS


def test_long_lists_are_cut_in_messages() -> None:
    with pytest.raises(ConfigError, match=r"sede=0,1,2.*\.\.\. names no field") as caught:
        check(parse(["sede=" + ",".join(map(str, range(5000)))]), KNOWN, multirun=True)
    assert len(str(caught.value)) < 400


def test_globs_are_for_experiments() -> None:
    parsed = matching(parse(["experiment=glob(toy_*)", "seed=1"]), "experiment", ["toy_a", "b"])
    assert values_of(parsed, "experiment") == ["toy_a"]
    assert values_of(parsed, "seed") == ["1"]
    assert values_of(parsed, "absent") == []
    with pytest.raises(ConfigError, match=r"experiment=glob\(z\*\) matches none of a, b"):
        matching(parse(["experiment=glob(z*)"]), "experiment", ["a", "b"])
