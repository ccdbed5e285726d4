"""Measured values of the claims on lists of paths."""

import numpy as np
import xarray as xr
from circuitax.records.claims import unmet_rest
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import DRAWS, exchanged
from circuitax.records.nulls import Nulls

from circuitax.records.estimate import (
    Estimate,
    exact,
    mean_estimate,
    mean_of_finite,
    share_estimate,
)
from circuitax.records.record import Record
from experiments.real_models.certified_paths.claims import CLAIMS
from experiments.real_models.shared.model_facts import not_smollm2

# The five best induction heads of `real_induction`, by an independent pass over other texts.
INDUCTION = frozenset({"18.6", "17.3", "17.4", "18.7", "17.5"})


N_LAYERS, N_HEADS = 30, 9  # of SmolLM2-135M


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    notes = record.notes
    why = not_smollm2(notes)
    if not why and notes["k"] != 20:
        why = f"k={notes['k']}: the claims are about twenty paths"
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(record.data)
    return Measured(found, unmet_rest(CLAIMS, found, "no list is proven"), {})


@measures("certified-*")
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Shares and means over prompts, which are the independent units."""
    proven = data.isel(prompt=np.flatnonzero(data.complete.values))
    random = data.isel(prompt=np.flatnonzero(data.kind.values == "random tokens"))
    heads = proven.missed_heads
    found = {
        "certified-complete": share_estimate(data.complete.values),
        "certified-closing": exact(data.closing_error.max(), data.sizes["prompt"]),
        "certified-short": mean_estimate((n_heads(data) <= 1).mean(axis=1)),
        "certified-induction": share_estimate([_has_induction(row) for row in random.path.values]),
    }
    if not proven.sizes["prompt"]:
        return found
    return found | {
        "certified-missed-heads": mean_of_finite(heads.sel(score="gradient").values),
        "certified-missed-paths": share_estimate(
            proven.missed_paths.sel(score="gradient").values > 0
        ),
        "certified-frozen-misses-less": mean_of_finite(
            (heads.sel(score="gradient") - heads.sel(score="frozen gradient")).values
        ),
    }


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other heads, gradients and paths, and a list that lacks one."""
    data = record.data
    if not_smollm2(record.notes):
        return {}
    proven = data.isel(prompt=np.flatnonzero(data.complete.values))
    held, own = (proven.missed_heads.sel(score=name) for name in ("frozen gradient", "gradient"))
    gaps = (own - held).values
    hidden = proven.missed_paths.sel(score="frozen gradient").values > 0
    rng = np.random.default_rng(0)
    paths = data.path.values[data.kind.values == "random tokens"]
    on_paths = [{head for name in row for head in heads_of(str(name))} for row in paths]
    some = [
        {f"{cell // N_HEADS}.{cell % N_HEADS}" for cell in rng.choice(N_LAYERS * N_HEADS, 5, False)}
        for _ in range(DRAWS)
    ]
    few, all_paths = 1 + N_LAYERS * N_HEADS, (1 + N_HEADS) ** N_LAYERS
    return {
        "false world": {
            "certified-closing": [float(np.abs(data.value.isel(rank=-1)).max())],
            "certified-complete": [share_estimate(data.n_evaluated.values >= all_paths)],
        },
        "random": {
            "certified-short": [few / all_paths],
            "certified-induction": [
                share_estimate([not heads.isdisjoint(row) for row in on_paths]) for heads in some
            ],
        },
        "mismatched": {
            "certified-missed-heads": [mean_of_finite(held.values)],
            "certified-missed-paths": [share_estimate(hidden)],
        },
        "permuted": exchanged({"certified-frozen-misses-less": gaps[np.isfinite(gaps)]}),
    }


def heads_of(name: str) -> list[str]:
    """The heads that a path's name tells, such as 5.2 and 17.1 of ``mlp 3 → 5.2 → 17.1``."""
    return [part for part in name.split(" → ") if "." in part]


def n_heads(data: xr.Dataset) -> np.ndarray:
    """Number of heads of each listed path, ``[prompt, rank]``."""
    return np.array([[len(heads_of(str(name))) for name in row] for row in data.path.values])


def _has_induction(names: np.ndarray) -> bool:
    return any(not INDUCTION.isdisjoint(heads_of(str(name))) for name in names)
