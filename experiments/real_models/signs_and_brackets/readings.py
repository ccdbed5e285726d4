"""Three models that others trained: what is read from the record."""

import numpy as np
import xarray as xr

from circuitax.records.sample import Sample
from experiments.real_models.shared.published_numbers import (
    exact_numbers,
    n_texts,
    of_task,
    single_numbers,
)

# Tables printed by the author of the page.
PRINTED: dict[str, list[float]] = {
    "sign-fit": [0.073, 0.938, 0.999, 0.579],
    "sign-silenced-centred": [0.536, 0.637, 0.614, 0.159],
    "sign-neurons-centred": [0.0185, 0.0163, 0.0951, 0.0200, 0.0311, 0.0002, 0.0, 0.0465],
    "sign-cosines": [0.970, -0.958, -0.949, -0.190, -0.128],
}
# Texts of each task, and of quantities with others.
TEXTS = {
    "sign": 1000,
    "sign-accuracy": 10_000,
    "bracket": 5000,
    **dict.fromkeys(("bracket-tower", "bracket-towers", "bracket-more-towers"), 1),
    "bracket-opposite": 1,
    "copies": 1280,
    "copies-unseen": 20,
}
TOWER, LISTED, UNLISTED = 30, (24, 26, 28, 30, 32), (2, 4, 6)  # by the page, and besides it
TOWERS = tuple(range(2, 38, 2))  # sizes of the first of two towers
ON_POSITIVE = 4  # of the six neurons, the first, which fire where the mean is positive by the text


def running_sign(data: xr.Dataset) -> dict[str, Sample]:
    """What the two published functions differ by, and on which side neurons fire."""
    data = of_task(data, "sign", "signs_and_brackets")
    fit = np.abs(data["sign-fit-centred"] - np.array(PRINTED["sign-fit"]))
    silenced = np.abs(data["sign-silenced"] - np.array(PRINTED["sign-silenced-centred"]))
    negative, positive = data["sign-fired"].values.T
    both = negative + positive
    other = np.where(np.arange(len(both)) < ON_POSITIVE, negative, positive)
    # A neuron that never fires has no side.
    shares = other / np.where(both > 0, both, np.inf)
    values = {
        **single_numbers(data, "sign", PRINTED),
        "sign-two-functions": min(fit.max(), silenced.max()),
        "sign-fires-sides": shares.min(),
    }
    return exact_numbers(data, values, TEXTS)


def brackets(data: xr.Dataset) -> dict[str, Sample]:
    """Right answers, towers that are called balanced, and what both last heads react to."""
    data = of_task(data, "bracket", "signs_and_brackets")
    towers = dict(zip(TOWERS, data["bracket-each-tower"].values, strict=True))
    failure, added = data["bracket-failure"].values, data["bracket-last-heads"].values
    balanced, total, suffix = (added[failure == i].mean(axis=0, dtype=float) for i in range(3))
    total, suffix = total - balanced, suffix - balanced
    leads = (total[0] - total[1], suffix[1] - suffix[0], total[0] - suffix[0], suffix[1] - total[1])
    values = {
        **single_numbers(data, "bracket", PRINTED),
        "bracket-accuracy": 1 - data["bracket-wrong"] / n_texts(data, "bracket-accuracy", TEXTS),
        "bracket-tower": towers[TOWER],
        "bracket-towers": min(towers[i] for i in LISTED),
        "bracket-more-towers": min(towers[i] for i in UNLISTED),
        "bracket-roles": min(leads),
    }
    return exact_numbers(data, values, TEXTS)


def copies(data: xr.Dataset) -> dict[str, Sample]:
    """Loss after training, and that of the file in a plain residual stream."""
    data = of_task(data, "copies", "signs_and_brackets")
    unseen = data["copies-unseen"].values.mean()
    values = {**single_numbers(data, "copies", PRINTED), "copies-unseen": unseen}
    return exact_numbers(data, values, TEXTS)
