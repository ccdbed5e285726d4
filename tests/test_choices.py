"""Wherever an option is an enum, its name is taken, and another is refused at once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.text import Language, TextSpec
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.models.toy import ToyKind, ToySpec
from circuitax.projection.distortion import distortion, sampled_distortion
from circuitax.projection.entries import EntryLaw, draw_column, kurtosis
from circuitax.projection.maps import MapFamily, MapSpec, nested_features
from circuitax.projection.measures import Measure
from circuitax.projection.tails import Tail, tail_bound
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import Optimizer, OptimSpec, Schedule
from circuitax.training.toy import Features, Target, ToyProblem

pytestmark = pytest.mark.usefixtures("unchecked_types")

KEY = jax.random.key(3)
POINTS = jax.random.normal(KEY, (9, 4))
NONE = jnp.zeros((0, 2))
PROBLEM = ToyProblem(ToySpec())


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "name": (OptimSpec, Optimizer.adam),
    "schedule": (lambda given: OptimSpec(schedule=given), Schedule.linear),
    "family": (lambda given: MapSpec(given, 8, 4), MapFamily.li),
    "family of features": (lambda given: nested_features(KEY, POINTS, given, 3), MapFamily.proof),
    "kind": (lambda given: ToySpec(kind=given), ToyKind.dense),
    "kind of autoencoder": (lambda given: Autoencoder(given, 4, 2), Sparsity.jumprelu),
    "target": (lambda given: ToyProblem(ToySpec(), target=given), Target.absolute),
    "features": (lambda given: ToyProblem(ToySpec(), features=given), Features.correlated),
    "mapping": (lambda given: Plan(PROBLEM, OptimSpec(), mapping=given), Mapping.vmap),
    "language": (lambda given: TextSpec(language=given), Language.english),
    "measure": (
        lambda given: distortion(POINTS, POINTS[:, :2], NONE, measure=given),
        Measure.angle,
    ),
    "measure of samples": (
        lambda given: sampled_distortion(
            KEY, POINTS, POINTS[:, :2], NONE, n_pairs=5, measure=given, n_bins=0
        ),
        Measure.inner,
    ),
    "law": (lambda given: draw_column(KEY, given, 5), EntryLaw.achlioptas),
    "law of kurtosis": (lambda given: kurtosis(given, 5), EntryLaw.gaussian),
    "tail": (lambda given: tail_bound(given, 50, 0.2), Tail.cubic),
}


@pytest.mark.parametrize("case", CASES)
def test_a_name_is_its_member_and_others_are_refused(case: str) -> None:
    call, member = CASES[case]
    same = jax.tree.map(np.array_equal, call(member.value), call(member))
    assert jax.tree.all(same)
    allowed = ", ".join(each.value for each in type(member))
    for wrong in ("adams", 3):
        with pytest.raises(
            ValueError, match=rf"^{case.split()[0]}={wrong!r} must be one of {allowed}$"
        ):
            call(wrong)
