"""Measured values of the claims on circuits of neurons, from a record."""

import numpy as np
import xarray as xr
from circuitax.records.claims import unmet_rest
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits.claims import CLAIMS
from experiments.real_models.shared.model_facts import not_smollm2

KEPT, SIZE, RESAMPLES = 0.8, 300, 500
CHANCE = "chance"
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
    "neurons-paths-random": ("paths", CHANCE),
}


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    why = not_smollm2(record.notes)
    if not why and SIZE not in record.data["random_size"].values:
        why = f"random_sizes={record.data['random_size'].values.tolist()}: the claims are about "
        why += f"{SIZE} nodes"
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(record)
    why = "the model gets no two pairs of the task right"
    return Measured(found, unmet_rest(CLAIMS, found, why), {})


@measures("neurons-*")
def estimates(record: Record) -> dict[str, Estimate]:
    """Fewest nodes, and differences of what is kept, over pairs that are right."""
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
    """Draws of the nulls: random orders, and choices exchanged."""
    if not_smollm2(record.notes) or SIZE not in record.data["random_size"].values:
        return {}
    data = record.data
    random = {
        name: [
            fewest(record, task, part, order) if rights(data, task).sum() > 1 else None
            for order in range(data.sizes["order"])
        ]
        for name, (task, part, _) in COUNTS.items()
    }
    sides = {name: differences(data, *pair) for name, pair in PAIRS.items()}
    return {
        "random": random,
        "permuted": exchanged({name: values for name, values in sides.items() if values.size > 1}),
    }


def rights(data: xr.Dataset, task: str) -> np.ndarray:
    """Mask of the pairs of the second half of the words of which both sentences are right."""
    lead = data.lead.sel(task=task, half="looked at")
    return np.asarray((lead > 0).all("side").values)


def leads_of(
    data: xr.Dataset, task: str, part: str, by: str | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads of circuits, with nothing kept, and of the whole model: means of a pair's sentences.

    Args:
        data: Of a record.
        task: One of its tasks.
        part: Whether neurons alone are counted, or heads too.
        by: What chose the nodes; the index of a random order, or `CHANCE` for the mean of all.

    Returns:
        ``[size, pair]``, ``[pair]`` and ``[pair]``, of the pairs that are right.
    """
    here = data.sel(task=task, part=part).mean("side").isel(pair=rights(data, task))
    if by == CHANCE:
        kept = here.by_chance.mean("order")
    elif isinstance(by, int):
        kept = here.by_chance.isel(order=by)
    else:
        kept = here.kept.sel(chosen_by=by)
    return kept.values, here.empty.values, here.lead.sel(half="looked at").values


def sizes_of(data: xr.Dataset, by: str | int) -> np.ndarray:
    """Sizes of the circuits that `leads_of` returns."""
    of_orders = by == CHANCE or isinstance(by, int)
    return np.asarray(data["random_size" if of_orders else "size"].values)


def shares(kept: np.ndarray, empty: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Share of the lead that circuits keep, over what is left where nothing is kept.

    ``(F(C) - F(∅)) / (F(M) - F(∅))`` with F the mean lead, the faithfulness of the paper's
    benchmark.

    Args:
        kept: ``[size, pair]``.
        empty: ``[pair]``.
        whole: ``[pair]``.
    """
    return np.asarray((kept.mean(axis=1) - empty.mean()) / (whole.mean() - empty.mean()))


def resampled(kept: np.ndarray, empty: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """`shares` of pairs drawn with replacement, ``[draw, size]``; arguments as there."""
    rows = np.random.default_rng(0).integers(whole.size, size=(RESAMPLES, whole.size))
    empties = empty[rows].mean(axis=1)
    left = whole[rows].mean(axis=1) - empties
    return np.asarray((kept[:, rows].mean(axis=2) - empties) / left).T


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


def fewest(record: Record, task: str, part: str, by: str | int) -> Estimate:
    """Fewest nodes that keep 80 % of the lead, with the interval of resampled pairs.

    Args:
        record: With at least two pairs of the task that are right.
        task: As in `leads_of`; so are the others.
        part: As in `leads_of`.
        by: As in `leads_of`.
    """
    kept, empty, whole = leads_of(record.data, task, part, by)
    sizes = sizes_of(record.data, by)
    most = record.notes["n_neurons"]
    if part != "neurons":
        most += record.notes["n_heads"]
    drawn = [crossing(each, sizes, most) for each in resampled(kept, empty, whole)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    value = crossing(shares(kept, empty, whole), sizes, most)
    return Estimate(value, min(low, value), max(high, value), whole.size, "pairs resampled, 95%")


def differences(data: xr.Dataset, first: str, second: str) -> np.ndarray:
    """Share kept by 300 nodes of one choice minus that of another, pairs of all tasks."""
    found = []
    for task in map(str, data.task.values):
        if not rights(data, task).any():
            continue
        sides = []
        for by in (first, second):
            kept, empty, whole = leads_of(data, task, "neurons and heads", by)
            sides.append(kept[sizes_of(data, by) == SIZE][0] / (whole.mean() - empty.mean()))
        found.append(sides[0] - sides[1])
    return np.concatenate(found) if found else np.zeros(0)
