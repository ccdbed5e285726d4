"""Whether a record is about SmolLM2, and the model that it read."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from circuitax.records.sample import NotRun


def of_smollm2(data: xr.Dataset) -> xr.Dataset:
    """The data of a run that read SmolLM2; any other tells nothing about it, and says why.

    Args:
        data: With ``missing`` and ``weights`` of `kit.real_model.at_hand` among its notes.
    """
    if data.attrs["missing"]:
        raise NotRun(f"nothing to read: {data.attrs['missing']}")
    if data.attrs["weights"] != "smollm2":
        raise NotRun(f"weights={data.attrs['weights']}: a small random model, and not SmolLM2")
    return data


def model_read(notes: Mapping[str, Any]) -> str:
    """The model that was read, as figures call it; notes as for `of_smollm2`."""
    return "SmolLM2-135M" if notes["weights"] == "smollm2" else "A small random model"
