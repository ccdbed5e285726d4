"""Measured values of the claims on circuits of neurons, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits.claims import CLAIMS
from experiments.real_models.shared.model_facts import not_smollm2

KEPT, SIZE, RESAMPLES = 0.8, 300, 500
RANDOM = "random"
COUNTS = {
    "neurons-agreement": ("agreement", "neurons", "RelP"),
    "neurons-agreement-both": ("agreement", "neurons and heads", "paths"),
    "neurons-pronoun-both": ("pronoun", "neurons and heads", "paths"),
    "neurons-object-both": ("indirect object", "neurons and heads", "paths"),
}
PAIRS = {
    "neurons-relp-gradient": ("RelP", "gradient"),
    "neurons-paths-relp": ("paths", "RelP"),
    "neurons-paths-direct": ("paths", "direct effect"),
    "neurons-paths-random": ("paths", RANDOM),
}


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    why = not_smollm2(record.notes)
    if not why and SIZE not in record.data["size"].values:
        why = f"sizes={record.data['size'].values.tolist()}: the claims are about {SIZE} nodes"
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(record)
    why = "the model gets no two sentences of the task right"
    return Measured(found, unmet_rest(CLAIMS, found, why), {})


@measures("neurons-*")
def estimates(record: Record) -> dict[str, Estimate]:
    """Fewest nodes, and differences of what is kept, over sentences that are right."""
    found = {}
    for name, (task, part, method) in COUNTS.items():
        if rights(record.data, task).sum() > 1:
            found[name] = fewest(record, task, part, method)
    for name, pair in PAIRS.items():
        values = differences(record.data, *pair)
        if values.size > 1:
            found[name] = mean_estimate(values)
    return found


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: a random order, and choices exchanged."""
    if not_smollm2(record.notes) or SIZE not in record.data["size"].values:
        return {}
    data = record.data
    random = {
        name: [fewest(record, task, part, RANDOM)] if rights(data, task).sum() > 1 else [None]
        for name, (task, part, _) in COUNTS.items()
    }
    sides = {name: differences(data, *pair) for name, pair in PAIRS.items()}
    return {
        "random": random,
        "permuted": exchanged({name: values for name, values in sides.items() if values.size > 1}),
    }


def rights(data: xr.Dataset, task: str) -> np.ndarray:
    """Sentences of the second half of the words that the whole model gets right."""
    return np.asarray(data.lead.sel(task=task, half="looked at").values > 0)


def kept_shares(data: xr.Dataset, task: str, part: str, method: str) -> np.ndarray:
    """Lead that is left over the mean lead of the whole model, ``[size, sentence]``."""
    right = rights(data, task)
    whole = data.lead.sel(task=task, half="looked at").values[right].mean()
    return np.asarray(
        data.kept.sel(task=task, part=part, chosen_by=method).values[:, right] / whole
    )


def crossing(shares: np.ndarray, sizes: np.ndarray, most: int) -> float:
    """The least size whose share is 80 %, between sizes by their logarithms; ``most`` if none is.

    Args:
        shares: One for each size.
        sizes: Rising.
        most: All nodes.
    """
    above = np.flatnonzero(shares >= KEPT)
    if not above.size:
        return float(most)
    i = above[0]
    if i == 0:
        return float(sizes[0])
    part = (KEPT - shares[i - 1]) / (shares[i] - shares[i - 1])
    return float(np.exp(np.log(sizes[i - 1]) + part * np.log(sizes[i] / sizes[i - 1])))


def fewest(record: Record, task: str, part: str, method: str) -> Estimate:
    """Fewest nodes that keep 80 % of the mean lead, with the interval of resampled sentences."""
    shares = kept_shares(record.data, task, part, method)
    sizes, most = record.data["size"].values, record.notes["n_neurons"]
    leads = record.data.lead.sel(task=task, half="looked at").values[rights(record.data, task)]
    rng, n = np.random.default_rng(0), shares.shape[1]
    drawn = []
    for rows in rng.integers(n, size=(RESAMPLES, n)):
        whole = leads[rows].mean() / leads.mean()
        drawn.append(crossing(shares[:, rows].mean(axis=1) / whole, sizes, most))
    low, high = np.quantile(drawn, (0.025, 0.975))
    value = crossing(shares.mean(axis=1), sizes, most)
    return Estimate(value, min(low, value), max(high, value), n, "sentences resampled, 95%")


def differences(data: xr.Dataset, first: str, second: str) -> np.ndarray:
    """Share kept by 300 nodes of one choice minus that of another, sentences of all tasks."""
    place = int(np.flatnonzero(data["size"].values == SIZE)[0])
    shares = [
        [
            kept_shares(data, str(task), "neurons and heads", method)[place]
            for method in (first, second)
        ]
        for task in data.task.values
        if rights(data, str(task)).any()
    ]
    return np.concatenate([one - other for one, other in shares]) if shares else np.zeros(0)
