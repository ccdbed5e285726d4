"""Without the package of the weights, an experiment that reads them says how to get it."""

from pathlib import Path

import jax
import pytest

from circuitax.config.catalogue import discover
from circuitax.figures.spec import draw_all
from circuitax.lab.lab import Lab
from circuitax.models import sources
from circuitax.records.claims import NOT_RUN, settle

NAMES = [
    "certified_paths",
    "mlp_paths",
    "name_movers",
    "neuron_circuits",
    "real_induction",
    "rotary_atlas",
]


@pytest.mark.parametrize("name", NAMES)
def test_claims_and_figure_say_how_to_get_the_weights(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry = discover()[name]
    monkeypatch.setattr(sources, "PACKAGE", "no-such-package-of-weights")
    module = entry.load("experiment")
    record = module.run(module.Spec(), jax.random.key(0), Lab(tmp_path / "work"))
    assert module.Spec().outside_inputs()["smollm2"] == "absent"
    verdicts = settle(
        entry.load_claims(), *entry.load_measure()(record), entry.load_nulls()(record)
    )
    assert {v.verdict for v in verdicts} == {NOT_RUN}
    assert all("make smollm2" in v.reason for v in verdicts)
    (drawn,) = draw_all(entry.load_figures(), record).values()
    assert "make smollm2" in drawn.axes[0].texts[0].get_text()
