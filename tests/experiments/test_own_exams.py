"""Each seed sits an exam of its own: an interval over seeds holds the noise of the exam."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from jaxtyping import PyTree

from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.lab.lab import Lab


class Given(Exception):
    """What an experiment gives its members, each its own."""


OWN = ("bilinear", "induction_depth", "induction_phase", "path_explosion", "two_layer_circuits")


@pytest.mark.parametrize("name", OWN)
def test_two_seeds_are_asked_different_texts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = discover()[name].load()
    spec = plan([f"experiment={name}", "scale=tiny", "seeds=3"], discover())[1][-1].spec

    def given(measure: Callable, *own: PyTree) -> None:
        raise Given(own)

    monkeypatch.setattr(experiment, "each_with_own", given)
    with pytest.raises(Given) as found:
        experiment.run(spec, jax.random.key(0), Lab(tmp_path))
    for exams in map(np.asarray, jax.tree.leaves(found.value.args[0])):
        assert len(exams) == 3
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert (exams[one] != exams[other]).mean() > 0.3
