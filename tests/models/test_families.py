"""Every family of the Hub computes what transformers computes, in every precision.

`tests/fixtures/families/make_families.py` made the models and the references, in float64.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.run import run
from circuitax.models.hub_config import FAMILIES
from circuitax.models.pretrained import load_pretrained

HERE = Path(__file__).parents[1] / "fixtures" / "families"
NAMES = sorted(path.parent.name for path in HERE.glob("*/config.json"))


def test_all_families_are_here() -> None:
    kinds = {json.loads((HERE / name / "config.json").read_text())["model_type"] for name in NAMES}
    assert kinds == set(FAMILIES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1e-9), ("float32", 1e-4), ("float16", 2e-2), ("bfloat16", 8e-2)],
)
def test_logits_and_patterns(name: str, dtype: str, tolerance: float) -> None:
    reference = np.load(HERE / name / "reference.npz")
    with jax.enable_x64(dtype == "float64"):
        model = load_pretrained(HERE / name, dtype=dtype)
        assert model.W_E.dtype == dtype
        found = jax.jit(run)(model, jnp.asarray(reference["tokens"]))
        logits, patterns = (np.asarray(x, float) for x in (found.logits, found.trace.patterns))
    scale = np.abs(reference["logits"]).max()
    np.testing.assert_allclose(logits, reference["logits"], atol=tolerance * scale, rtol=0)
    np.testing.assert_allclose(patterns, reference["patterns"], atol=tolerance, rtol=0)
