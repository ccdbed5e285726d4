"""The architecture page: its code runs, and its table has every folder of the library."""

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/architecture.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_a_module_of_ones_own_trains(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "architecture"}
    exec(compile(CODE, "architecture.md", "exec"), names)
    lines = re.findall(r"\[([\d. ]+)\]", capsys.readouterr().out)
    losses = np.array([[float(x) for x in line.split()] for line in lines])
    assert losses.shape == (3, 2)  # chunks and members
    assert (losses[2] < losses[0] - 0.05).all() and (losses[0] < np.log(8) + 0.5).all()
    kernels = names["state"].params["Dense_0"]["kernel"]
    assert kernels.shape == (2, 6, 8) and jnp.abs(kernels[0] - kernels[1]).max() > 1e-2


def test_the_table_has_every_folder() -> None:
    listed = set(re.findall(r"^\| \d \| `circuitax/(\w+)/`", TEXT, flags=re.MULTILINE))
    there = {path.parent.name for path in (ROOT / "src/circuitax").glob("*/__init__.py")}
    assert listed == there
