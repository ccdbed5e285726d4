"""The viewers of the experiments say what the accepted records say."""

import json
from pathlib import Path

import numpy as np
import pytest

from circuitax.config.catalogue import discover
from circuitax.display.viewers import Viewer, viewer_section
from circuitax.records.record import Record

ROOT = Path(__file__).parents[2]


def accepted(name: str) -> Path:
    run = ROOT / "results" / name / "accepted"
    if not run.is_dir():
        pytest.skip(f"{name} has no accepted run")
    return run


def view(name: str) -> Viewer:
    (viewer,) = discover()[name].load("viewer").view(accepted(name))
    assert len(viewer_section(viewer)) < 400_000
    return viewer


def test_directions_are_those_of_the_record_up_to_a_turn() -> None:
    data, facts = Record.load(accepted("toy_intro")).data, view("toy_intro").facts
    np.testing.assert_allclose(facts["density"], data.density, atol=1e-6)
    panels = {panel["name"]: panel for panel in facts["panels"]}
    assert len(panels) == 4
    shown = panels["importance 0.9ⁱ, exact optimum"]
    W = data.optimum_W.sel(importance_base=0.9).values
    V = np.array(shown["directions"]).swapaxes(-1, -2)
    grams = [a.swapaxes(-1, -2) @ a for a in (V, W)]
    np.testing.assert_allclose(*grams, atol=5e-4)
    assert not np.allclose(V, W)
    trained = panels[f"equal importance, best of {data.sizes['seed']} seeds"]
    cell = data.sel(importance_base=1.0)
    np.testing.assert_allclose(trained["loss"], cell.loss.min("seed"), atol=1e-6)
    assert not np.allclose(trained["loss"], shown["loss"])


def test_tables_hold_the_strongest_first_by_head() -> None:
    data, facts = Record.load(accepted("one_layer_circuits")).data, view("one_layer_circuits").facts
    assert [head["name"] for head in facts["heads"]] == ["0.0", "0.1", "0.2", "0.3"]
    row = facts["heads"][2]["rows"][1]
    np.testing.assert_allclose([x for _, x in row["outs"]], data.raises[2, 1], atol=1e-3)
    np.testing.assert_allclose([x for _, x in row["destinations"]], data.scores[2, 1], atol=1e-3)
    names = [str(name) for name in data.token.values]
    assert row["source"].replace("␣", " ") == names[int(data.sources[2, 1])]


def test_a_prediction_of_the_accepted_text_model_is_explained() -> None:
    facts = view("text_models").facts
    assert "".join(facts["tokens"]).replace("␣", " ").endswith("self.parent = pare")
    assert facts["tokens"][0] == "‹text›" and "⏎␣×7" in facts["tokens"]
    assert "\ufffd" not in json.dumps(facts, ensure_ascii=False), "parts of characters have names"
    total = sum(effect["value"] for effect in facts["effects"]) + facts["bias"]
    np.testing.assert_allclose(total, facts["logit"], atol=5e-3)
    patterns = np.array(facts["patterns"])
    assert patterns.shape[1:] == (len(facts["tokens"]),) * 2
    np.testing.assert_allclose(patterns.sum(axis=-1), 1, atol=0.03)
    assert facts["paths"]["complete"] and len(facts["writes"]) == len(facts["heads"])
