"""The model that the page "Bring your own model" makes of arrays is run and read as it says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import circuitax as cx

TEXT = (Path(__file__).parents[2] / "docs/own-model.md").read_text(encoding="utf-8")


def test_a_model_of_arrays_is_run_and_its_largest_paths_are_printed() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    names: dict[str, Any] = {}
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, "own-model.md", "exec"), names)
    sizes = names["model"].spec
    assert (sizes.n_layers, sizes.n_heads, sizes.d_model, sizes.d_vocab) == (1, 2, 8, 5)
    # The direct path and one for each head, whose values the ledger prints, the largest first.
    values = np.asarray(cx.expand(names["run"]).terms)[:, -1, 2]
    assert values.shape == (3,) and np.abs(values).max() > 0.1
    printed = [float(line.split()[-1]) for line in out.getvalue().splitlines()[:3]]
    largest = sorted(values, key=lambda value: -abs(value))
    np.testing.assert_allclose(printed, largest, atol=1e-3)
