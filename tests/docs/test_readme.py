"""What the README shows works: code, links and commands; its numbers are those of the results."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from circuitax.config.catalogue import discover

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_exact_loss_has_a_gradient() -> None:
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(BLOCKS[1], "README.md", "exec"), {})
    loss, *slope = out.getvalue().split()
    assert float(loss) == pytest.approx(0.008904, rel=1e-3)
    slopes = [float(x) for x in " ".join(slope).strip("[] ").split()]
    assert slopes == pytest.approx([9.3833e-05] * 5, rel=1e-3)  # the same for every feature


def test_a_problem_of_ones_own_trains() -> None:
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()):
        exec(compile(BLOCKS[2], "README.md", "exec"), names)
    log = names["log"]
    assert log.metrics.sizes == {"step": 10, "member": 4, "probe_0": 5}
    assert (log.metrics.loss[-1] < log.metrics.loss[0] / 2).all()
    # 0.1 / 3 where nothing is learned; a member may be left with one feature that disturbs another.
    assert 0.004 < log.metrics.loss[-1].min() < 0.015
    assert len(BLOCKS) == 3, "test_newcomer.py runs the first block"


def test_numbers_are_those_of_the_results() -> None:
    benchmarks = (ROOT / "results/benchmarks.md").read_text()
    ratios = re.findall(r"([\d.]+)×", TEXT)
    assert len(ratios) >= 7
    for ratio in ratios:
        assert f"| {ratio}x (" in benchmarks, f"no benchmark has the ratio {ratio}"
    headline = re.search(r"\*\*(Of .*)\*\*", (ROOT / "results/CLAIMS.md").read_text())
    assert headline is not None
    sentences = re.findall(r"(?:Of )?\d[^.]*\.", headline[1])
    assert len(sentences) >= 3
    for sentence in sentences:
        if "bare sign" not in sentence:
            assert sentence in TEXT, "the headline of the claims page"


def test_the_time_of_reproducing_everything_is_the_expected_one() -> None:
    # What needs a package that `LEAN=1` leaves out takes seconds without it.
    packages = ("make smollm2", "[english]")
    conf = ROOT / "conf/experiment"
    seconds = {name: entry.budget_seconds for name, entry in discover().items()}
    needs = {
        name
        for name in seconds
        if any(word in (conf / f"{name}.yaml").read_text().split("\n\n")[0] for word in packages)
    }
    assert 5 <= len(needs) <= 12
    without = sum(time for name, time in seconds.items() if name not in needs)
    # Budgets are seconds alone on two cores; two side by side take longer each, not twice as long.
    assert without / 2 < 30 * 60 < without
    more = sum(time for name, time in seconds.items() if name in needs)
    assert "(about an hour on 2 cores)" in TEXT
    assert "half an hour less" in TEXT and 0.35 < more / 3600 < 0.65


def test_the_table_has_every_command() -> None:
    (row,) = [line for line in TEXT.splitlines() if "`experiments/*.py`" in line]
    there = {path.stem for path in (ROOT / "experiments").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", row)) == there


def test_links_and_commands_exist() -> None:
    for target in re.findall(r"\]\(([^)#h][^)#]*)", TEXT):
        assert (ROOT / target).exists(), target
    names = [name for name in re.findall(r"experiment=(\w+)", TEXT) if name != "my_question"]
    assert names
    for name in names:
        assert list((ROOT / "experiments").glob(f"*/{name}/experiment.py")), name
    for entry in re.findall(r"python -m experiments\.(\w+)", TEXT):
        assert (ROOT / "experiments" / f"{entry}.py").exists(), entry
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target
