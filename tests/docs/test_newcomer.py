"""The newcomer's script of the README runs from a checkout, and what it computes is right."""

import ast
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from circuitax.kernel.run import run as run_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()
SCRIPT = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[0]
FIXTURE = "tests/fixtures/transformer_lens"


def test_it_imports_circuitax_jax_and_matplotlib_and_nothing_else() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SCRIPT)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert imported == {"circuitax", "jax", "matplotlib"}
    lines = [line for line in SCRIPT.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 30


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the script has at its end; it runs beside a link to the checkout's tests."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "tests").symlink_to(ROOT / "tests")
    found: dict[str, Any] = {}
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch, matplotlib.rc_context({"backend": "agg"}):
        patch.chdir(folder)
        with redirect_stdout(out):
            exec(compile(SCRIPT, "README.md", "exec"), found)
        found["plt"].close("all")
    return found | {"folder": folder, "printed": out.getvalue()}


def test_paths_sum_to_the_logits_of_the_model_as_it_was_loaded(names: dict[str, Any]) -> None:
    loaded = names["cx"].load_pretrained(ROOT / FIXTURE / "standard_LN")
    want = run_of(loaded, names["run"].tokens).logits
    paths = names["paths"]
    assert len(paths.terms) == 25
    found = np.asarray(paths.terms, float).sum(axis=0) + np.asarray(paths.bias)
    # Folding centres the logits, which changes no probability.
    want, found = (x - x.mean(axis=-1, keepdims=True) for x in (np.asarray(want), found))
    np.testing.assert_allclose(found, want, atol=2e-5)
    assert np.abs(want).max() > 0.1


def test_the_ledger_prints_paths_whose_sum_is_the_lead_of_the_likeliest_token(
    names: dict[str, Any],
) -> None:
    count, *table = names["printed"].splitlines()
    assert count.startswith("25 paths") and float(count.split(":")[1]) < 1e-5
    values = [float(line.split()[-1]) for line in table]
    logits = np.asarray(names["run"].logits)[-1]
    assert logits.argmax() == names["first"]
    lead = logits[names["first"]] - logits[names["second"]]
    assert lead > 0.01 and values[-1] == pytest.approx(lead, abs=2e-4)
    assert sum(values[:5]) == pytest.approx(values[5], abs=1e-3)
    assert values[5] + values[6] + values[7] == pytest.approx(lead, abs=1e-3)


def test_the_picture_shows_scores_and_effects_that_are_not_the_same_everywhere(
    names: dict[str, Any],
) -> None:
    scores, effect = np.asarray(names["K"])[0, :, 1, :], np.asarray(names["effect"])
    assert scores.shape == (4, 4) and (scores > 0).all() and scores.std() > 0.01
    # The texts differ at position 1 alone: before the first layer nothing else can change the loss.
    assert effect.shape == (3, 8) and abs(effect[0, 1]) > 1e-4
    np.testing.assert_allclose(np.delete(effect[0], 1), 0, atol=1e-6)
    shown = [image.get_array() for axes in names["figure"].axes[:2] for image in axes.images]
    np.testing.assert_allclose(shown[0], scores)
    np.testing.assert_allclose(shown[1], effect)
    png = (names["folder"] / "newcomer.png").read_bytes()
    assert png[:4] == b"\x89PNG" and len(png) > 5000
