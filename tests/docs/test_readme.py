"""What the README shows works: its code runs, its links lead somewhere, its commands exist."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def printed(block: str) -> list[str]:
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), {})
    return out.getvalue().split()


def test_the_exact_loss_has_a_gradient() -> None:
    loss, *slope = printed(BLOCKS[0])
    assert float(loss) == pytest.approx(0.008904, rel=1e-3)
    slopes = [float(x) for x in " ".join(slope).strip("[] ").split()]
    assert slopes == pytest.approx([9.3833e-05] * 5, rel=1e-3)  # the same for every feature


def test_the_ledger_names_the_induction_head_and_bounds_the_rest() -> None:
    n_paths, remainder, name, value, bound = printed(BLOCKS[1])
    assert n_paths == "25"
    assert float(remainder) < 1e-4
    assert name == "1.0"
    assert float(value) == pytest.approx(8, abs=0.01)
    assert 0 < float(bound) < 0.02
    assert len(BLOCKS) == 2


def test_links_and_commands_exist() -> None:
    for target in re.findall(r"\]\(([^)#h][^)#]*)", TEXT):
        assert (ROOT / target).exists(), target
    for name in re.findall(r"experiment=(\w+)", TEXT):
        assert (ROOT / "experiments" / f"{name}.py").exists(), name
    for entry in re.findall(r"python -m experiments\.(\w+)", TEXT):
        assert (ROOT / "experiments" / f"{entry}.py").exists(), entry
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target
