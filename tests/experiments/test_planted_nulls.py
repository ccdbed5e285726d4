"""A null tells a planted effect from none: records that differ in nothing but the effect.

Each row takes an accepted record and writes what a claim is about anew: with the effect the claim
holds and its null does not; without it the claim does not hold, or its null holds too.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import discover
from circuitax.records.claims import FAILS, HOLDS, UNDECIDED, WOULD_HOLD, SettledClaim, settle
from circuitax.records.record import Record
from experiments.real_models.certified_paths.measures import INDUCTION

RESULTS = Path(__file__).parents[2] / "results"
ENTRIES = discover()
Plant = Callable[[xr.Dataset, np.random.Generator, bool], dict[str, np.ndarray]]


class Row(NamedTuple):
    """A claim, how its null is drawn, the effect, and the verdict without it."""

    experiment: str
    claim: str
    drawn: str
    plant: Plant
    without: str


def _second_step(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    loss = rng.normal(2, 0.1, data.loss_by_steps.shape)
    loss[..., data.steps.values == 2] += there
    return {"loss_by_steps": loss}


def _depth(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    loss = rng.normal(2, 0.1, data.loss.shape)
    loss[0] += there
    return {"loss": loss}


def _bounds(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    return {"position_evaluated": np.full(data.position_evaluated.shape, 1e3 if there else 1e12)}


def _certified(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    return {"n_evaluated": np.full(data.n_evaluated.shape, 1e5 if there else 1e31)}


def _heads_on_paths(
    data: xr.Dataset, rng: np.random.Generator, there: bool
) -> dict[str, np.ndarray]:
    every = [f"{layer}.{head}" for layer in range(30) for head in range(9)]
    name = " → ".join(sorted(INDUCTION)[:1] if there else every)
    return {"path": np.full(data.path.shape, name)}


def _at_one_density(
    data: xr.Dataset, rng: np.random.Generator, there: bool
) -> dict[str, np.ndarray]:
    # Without the effect both rise with sparsity, and seeds of one density differ by chance.
    seeds = rng.normal(size=(2, *data.analytic.shape))
    level = 10 / data.density + xr.zeros_like(data.analytic)
    features, attack = level.transpose(*data.analytic.dims).values + seeds
    return {"analytic": features if there else attack, "kept_per_dimension": features}


def _sparse_is_weak(
    data: xr.Dataset, rng: np.random.Generator, there: bool
) -> dict[str, np.ndarray]:
    over = 1 / data.density if there else xr.ones_like(data.density)
    noise = xr.zeros_like(data.analytic) + rng.normal(1, 0.05, data.analytic.shape)
    return {"analytic": (over * noise).transpose(*data.analytic.dims).values}


def _shrinkage(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    ratio = xr.zeros_like(data.norm_ratio) + rng.normal(0.7, 0.01, data.norm_ratio.shape)
    if there:
        ratio = ratio.where(ratio["kind"] == "relu", 1.0)
    found = xr.full_like(data.cosine, 0.995)
    # Seeds that miss directions have any ratio, and do not count.
    missed = data.seed % 2 == 1
    ratio, found = ratio.where(~missed, 0.2), found.where(~missed, 0.9)
    return {"norm_ratio": ratio.values, "cosine": found.values}


def _direct_path(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    by_step = data.order_loss_by_step.values.copy()
    by_step[0] = float(data.uniform) if there else data.order_loss.values
    return {"order_loss_by_step": by_step}


def _near_offsets(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    # Behind a present token with little, attention falls evenly, or the previous token has it all.
    falling = 0.4 * 0.7 ** np.arange(data.sizes["offset"])
    attention = falling * rng.uniform(0.98, 1.02, data.attention.shape)
    attention[..., 0] = 0.22
    if there:
        attention[..., 2:] = 0.02
    return {"attention": attention}


def _saved_twice(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    # Selections are no layer, the first, the second, both: each saves 1 alone.
    first = data.first_order_loss.values.copy()
    first[:, 0], first[:, 1], first[:, 2] = 5, 4, 4
    first[:, 3] = (3.95 if there else 3) + rng.normal(0, 0.02, len(first))
    return {"first_order_loss": first}


def _positions_decide(
    data: xr.Dataset, rng: np.random.Generator, there: bool
) -> dict[str, np.ndarray]:
    return {"positional": rng.normal(0.7 if there else 0.5, 0.03, data.positional.shape)}


def _said(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    raised = np.exp(rng.normal(1.0 if there else 0.0, 0.3, data.bug_said.shape))
    without = np.full(data.bug_without.shape, 1e-3)
    return {"bug_said": raised * without, "bug_without": without}


def _copying(data: xr.Dataset, rng: np.random.Generator, there: bool) -> dict[str, np.ndarray]:
    start = rng.normal(0, 0.1, data.copying.shape)
    return {"copying_at_init": start, "copying": start + there}


ROWS = (
    Row("path_explosion", "second-step-needs-depth", "sides exchanged", _second_step, FAILS),
    Row("path_explosion", "depth-pays", "groups shuffled", _depth, FAILS),
    Row("path_explosion", "ledger-positions", "false world", _bounds, WOULD_HOLD),
    Row("certified_paths", "certified-complete", "false world", _certified, WOULD_HOLD),
    Row("certified_paths", "certified-induction", "random heads", _heads_on_paths, WOULD_HOLD),
    Row("toy_adversarial", "adversarial-tracks", "shuffled in densities", _at_one_density, FAILS),
    Row("toy_adversarial", "adversarial-rise", "shuffled in seeds", _sparse_is_weak, FAILS),
    Row("toy_sae", "sae-shrinkage", "another method", _shrinkage, WOULD_HOLD),
    Row("text_circuits", "text-order-0", "before training", _direct_path, WOULD_HOLD),
    Row("text_circuits", "text-local", "nearness alone", _near_offsets, WOULD_HOLD),
    Row("text_circuits", "text-layer-0-nearly-redundant", "additive", _saved_twice, FAILS),
    Row("text_circuits", "text-positional", "random heads", _positions_decide, FAILS),
    Row("one_layer_circuits", "bugs-said", "sides exchanged", _said, UNDECIDED),
    Row("one_layer_circuits", "ov-most-copy", "two trained heads", _copying, FAILS),
)


@cache
def accepted(name: str) -> Record:
    return Record.load(RESULTS / name / "accepted")


def judged(row: Row, there: bool) -> SettledClaim:
    """The verdict on a row's claim, by all of its null's draws."""
    record, entry = accepted(row.experiment), ENTRIES[row.experiment]
    arrays = row.plant(record.data, np.random.default_rng(7), there)
    changed = {name: (record.data[name].dims, values) for name, values in arrays.items()}
    altered = Record(record.data.assign(changed), record.notes)
    (claim,) = (claim for claim in entry.load_claims() if claim.id == row.claim)
    estimates = entry.load_measure()(altered).estimates
    (found,) = settle([claim], estimates, {}, None, entry.load_nulls()(altered))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row.claim for row in ROWS])
def test_a_null_tells_a_planted_effect_from_none(row: Row) -> None:
    found, none = judged(row, there=True), judged(row, there=False)
    assert found.verdict == HOLDS, found
    assert found.null is not None and not found.null.holds
    assert none.verdict == row.without, none
