"""Readings of published models: which there are, how many texts, and how near to printed tables."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from circuitax.records.sample import NotRun, Sample, exactly


def of_task(data: xr.Dataset, task: str, experiment: str) -> xr.Dataset:
    """The data of a run that had the task's model."""
    if task not in data.attrs["models"]:
        missing = data.attrs["missing"][task]
        command = f"python -m experiments.run experiment={experiment} source=FOLDER"
        raise NotRun(f"needs {missing} in a folder of yours: `{command}`")
    return data


def n_texts(data: xr.Dataset, name: str, texts: Mapping[str, int]) -> int:
    """Texts of a quantity, or of all quantities of its task: those published, or fewer."""
    task = name.partition("-")[0]
    return int(min(data.attrs["models"][task]["texts"], texts.get(name, texts[task])))


def exact_numbers(
    data: xr.Dataset, values: Mapping[str, float], texts: Mapping[str, int]
) -> dict[str, Sample]:
    """Numbers without sampling noise, of the published texts."""
    return {name: exactly(value, n_texts(data, name, texts)) for name, value in values.items()}


def single_numbers(
    data: xr.Dataset, task: str, printed: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Single numbers of a model, and of each table the largest difference from what is printed."""
    found = {}
    for name in (str(name) for name in data if str(name).startswith(f"{task}-")):
        values = data[name].values
        if name in printed:
            found[name] = float(np.abs(values - np.array(printed[name])).max())
        elif values.ndim == 0 and not name.endswith("-closes"):
            found[name] = float(values)
    return found


def remainder(data: xr.Dataset, task: str, texts: Mapping[str, int]) -> Sample:
    """What all paths or components leave of the logits."""
    if data.attrs["dtype"] != "float64":
        raise NotRun("needs dtype=float64")
    name = f"{task}-closes"
    return exactly(float(data[name]), n_texts(data, name, texts))
