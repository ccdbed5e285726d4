"""What a notebook shows of a model, a run, a ledger, an explanation and a record."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import treescope
import xarray as xr
from treescope.type_registries import TREESCOPE_HANDLER_REGISTRY

import circuitax as cx
from circuitax.circuits.known.ground_truth import induction_model
from circuitax.kit.notebook import notebook
from circuitax.records.record import Record


@pytest.fixture
def registry() -> Iterator[dict]:
    before = dict(TREESCOPE_HANDLER_REGISTRY)
    yield TREESCOPE_HANDLER_REGISTRY
    TREESCOPE_HANDLER_REGISTRY.clear()
    TREESCOPE_HANDLER_REGISTRY.update(before)


def test_trees_say_what_the_objects_hold(registry: dict) -> None:
    model = induction_model(jax.random.key(0), d_vocab=12, n_ctx=16, n_distractors=1)
    run = cx.run(model, [0, 5, 2, 9, 5], outputs=True)
    found = cx.explain(run, n_paths=2, n_heads=1)
    record = Record(xr.Dataset({"loss": ("seed", np.array([0.5, 0.25]))}), {"rule": "best"})
    notebook()
    text = treescope.render_to_text(run)
    assert text.startswith("Run(") and "model=Model(" in text and "W_Q=" in text
    assert "spec=TransformerSpec(" in text and "tokens=" in text
    assert "final_norm" not in text.split("spec=")[1].split("blocks=")[0] or "b_U=" not in text
    text = treescope.render_to_text(found.paths)
    for name, value in zip(found.path_names(), found.paths.values, strict=True):
        assert f"'{name}': {float(value)!r}" in text
    assert "'none left out is larger than': " in text
    text = treescope.render_to_text(found)
    assert found.title in text.replace("\\\\", "") or "logit of" in text
    assert "'next tokens': {" in text and "'1.0': " in text
    text = treescope.render_to_text(record)
    assert "'loss[seed]': " in text and "'rule': 'best'" in text
    assert "<div" in treescope.render_to_html(model) or "<html" in treescope.render_to_html(model)


def test_a_running_notebook_is_set_up(registry: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(
        treescope,
        "basic_interactive_setup",
        lambda autovisualize_arrays: asked.append(autovisualize_arrays),
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    notebook()
    assert asked == [], "IPython is imported, and no notebook runs"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    notebook(pictures=False)
    assert asked == [False]
