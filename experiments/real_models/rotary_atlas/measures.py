"""Agreement of names from weights with the behaviour of heads on text."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_of_finite
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.real_models.rotary_atlas.claims import CLAIMS
from experiments.real_models.rotary_atlas.names import LOCAL, NEAR, PREVIOUS
from experiments.real_models.rotary_atlas.roc import roc_area
from experiments.real_models.shared.model_facts import not_smollm2

DRAWS = 100


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    notes = record.notes
    why = not_smollm2(notes)
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(record.data)
    return Measured(found, unmet_rest(CLAIMS, found, "no text has such a head"), {})


@measures("rotary-*")
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over texts; a text in which no head, or every head, has the name says nothing."""
    previous, local = data.previous >= PREVIOUS, data.local >= LOCAL
    chosen = data.best.sel(content="untouched").values == 1
    shares = [chosen[one].mean() if one.any() else np.nan for one in previous.values]
    found = {
        "rotary-previous": areas(previous, by_name(data, "previous", "untouched")),
        "rotary-local": areas(local, by_name(data, "local", "untouched")),
        "rotary-previous-stream": areas(previous, by_name(data, "previous", "stream")),
        "rotary-local-stream": areas(local, by_name(data, "local", "stream")),
        "rotary-previous-embedding": areas(previous, by_name(data, "previous", "embedding")),
        "rotary-previous-raw": areas(
            data.previous_raw >= PREVIOUS, by_name(data, "previous", "untouched")
        ),
        "rotary-best-offset": np.array(shares),
    }
    for content in ("spread", "random"):
        if content not in data.content.values:
            continue
        found[f"rotary-previous-{content}"] = areas(previous, by_name(data, "previous", content))
        found[f"rotary-local-{content}"] = areas(local, by_name(data, "local", content))
    return {
        name: mean_of_finite(values) for name, values in found.items() if np.isfinite(values).any()
    }


def nulls(record: Record) -> Nulls:
    """Draws of the null: what weights predict, shuffled among all heads."""
    if not_smollm2(record.notes):
        return {}
    data, cells = record.data, ("layer", "head")
    flat = data[["predicted", "best"]].stack(cell=cells)
    found = []
    for i in range(DRAWS):
        order = np.random.default_rng(i).permutation(flat.sizes["cell"])
        mixed = {
            name: flat[name].copy(data=np.take(flat[name].values, order, axis=axis))
            for name in ("predicted", "best")
            for axis in [flat[name].dims.index("cell")]
        }
        moved = xr.Dataset(mixed).unstack("cell")
        found.append(estimates(data.assign(moved.transpose(..., "layer", "head", "offset"))))
    return {"permuted": {name: [draw.get(name) for draw in found] for name in found[0]}}


def by_name(data: xr.Dataset, name: str, content: str) -> np.ndarray:
    """The score of each head for a name, ``[layer, head]``: attention that its weights predict."""
    kernel = data.predicted.sel(content=content)
    if name == "previous":
        return np.asarray(kernel.isel(offset=1))
    return np.asarray(kernel.isel(offset=slice(NEAR)).sum("offset"))


def areas(named: xr.DataArray, scores: np.ndarray) -> np.ndarray:
    """The area below the curve in each text; not a number where it has one group only."""
    each = named.values
    return np.array(
        [roc_area(one, scores) if one.any() and not one.all() else np.nan for one in each]
    )
