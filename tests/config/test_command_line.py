"""The command line before Hydra sees it."""

from typing import Any

import pytest

from circuitax.config.command_line import check, jobs, matching, parse, split, values_of
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
    with pytest.raises(ConfigError, match="--config-dir needs a folder"):
        split(["--config-dir"])


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


def test_jobs_unfold_as_hydra_does() -> None:
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    typed = ["experiment=toy", "seed=0,1", "rates=[0.5],[0.7]", "model.width=range(2,4)"]
    (expected,) = BasicSweeper.split_arguments(parse(typed), None)
    assert jobs(typed) == expected
    assert len(expected) == 8
    with pytest.raises(ConfigError, match="sweeps over nothing"):
        jobs(["hydra.x=range(1,1)"])


def test_globs_are_for_experiments() -> None:
    parsed = matching(parse(["experiment=glob(toy_*)", "seed=1"]), "experiment", ["toy_a", "b"])
    assert values_of(parsed, "experiment") == ["toy_a"]
    assert values_of(parsed, "seed") == ["1"]
    assert values_of(parsed, "absent") == []
    with pytest.raises(ConfigError, match=r"experiment=glob\(z\*\) matches none of a, b"):
        matching(parse(["experiment=glob(z*)"]), "experiment", ["a", "b"])
