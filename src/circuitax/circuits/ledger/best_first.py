"""Best-first search among partial paths: the k largest values, and a bound on all others."""

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from circuitax.circuits.ledger.dressed_steps import DressedSteps
from circuitax.circuits.ledger.host_model import require_finite
from circuitax.circuits.ledger.ledger_steps import Batch, HeadSteps, PositionSteps, join, take
from circuitax.circuits.paths.expansion import Path

_LEAST_BATCH = 64


class Found(NamedTuple):
    """Result of a search; the fields shared with `Ledger` have the same meaning."""

    paths: tuple[Path, ...]
    positions: tuple[tuple[int | None, ...], ...]
    starts: tuple[int | None, ...]
    values: np.ndarray
    errors: np.ndarray
    omitted_bound: float
    complete: bool
    n_evaluated: int
    rounds: tuple[tuple[int, float, float], ...]


def best_first(
    steps: HeadSteps | PositionSteps | DressedSteps, n_heads: int, k: int, budget: int
) -> Found:
    """Expand the most promising partial paths in batches, until the bound excludes the rest.

    Source: ours; the search and its bound are derived in docs/methods/path-ledger.md.
    """
    front, ids = _finite(steps.root()), np.zeros(1, int)
    parents, hops = [np.array([-1])], [front.hop]
    best = _Best(k)
    best.add(front, ids)
    n_nodes, dropped = 1, 0.0
    rounds: list[tuple[int, float, float]] = []
    bar = tqdm(desc="paths", total=budget, delay=2, leave=False, disable=None)
    while True:
        keep = front.bound > best.least
        dropped = max(dropped, front.bound[~keep].max(initial=0.0))
        front, ids = take(front, keep), ids[keep]
        omitted = float(max(best.runner_up, dropped, front.bound.max(initial=0.0)))
        rounds.append((best.n_evaluated, omitted, best.kth))
        bar.update(best.n_evaluated - bar.n)
        if not ids.size or best.n_evaluated >= budget:
            break
        # Strict best-first would expand one at a time; a batch that grows with the front keeps
        # the number of NumPy calls logarithmic and wastes little.
        size = min(max(_LEAST_BATCH, ids.size // 8), ids.size, steps.largest_batch or ids.size)
        chosen = np.argpartition(-front.bound, size - 1)[:size]
        new, parent = steps.children(take(front, chosen).state)
        _finite(new)
        new_ids = n_nodes + np.arange(new.hop.size)
        n_nodes += new.hop.size
        parents.append(ids[chosen][parent])
        hops.append(new.hop)
        best.add(new, new_ids)
        rest = np.delete(np.arange(ids.size), chosen)
        # The root's direction is wider than all others; it is expanded first, and alone.
        front = join([take(front, rest), new]) if rest.size else new
        ids = np.concatenate([ids[rest], new_ids])
    bar.close()
    parent_of, hop_of = np.concatenate(parents), np.concatenate(hops)
    paths, positions = [], []
    for node in best.nodes:
        trail = []
        while hop_of[node] >= 0:
            trail.append(int(hop_of[node]))
            node = parent_of[node]
        # The search walks from the logit back, so the last step taken acts first.
        heads, sources = steps.decode(trail)
        paths.append(tuple((head // n_heads, head % n_heads) for head in heads))
        positions.append(sources)
    return Found(
        tuple(paths),
        tuple(positions),
        tuple(int(source) - 1 if source else None for source in best.sources),
        best.values,
        best.errors,
        omitted,
        complete=omitted <= best.surely,
        n_evaluated=best.n_evaluated,
        rounds=tuple(rounds),
    )


class _Best:
    """The largest values so far, and an upper bound on all others."""

    def __init__(self, k: int) -> None:
        self.k, self.n_evaluated, self.runner_up = k, 0, 0.0
        self.values, self.errors = np.zeros(0), np.zeros(0)
        self.nodes, self.sources = np.zeros(0, int), np.zeros(0, int)
        self.least = 0.0
        """So large are k exact values at least."""

    @property
    def kth(self) -> float:
        return kth_of(self.values, self.k)

    @property
    def surely(self) -> float:
        """A lower bound on the exact values of the k largest; 0 while there are fewer."""
        return kth_of(np.sort(np.maximum(np.abs(self.values) - self.errors, 0))[::-1], self.k)

    def add(self, batch: Batch, ids: np.ndarray) -> None:
        """Add the values of a batch."""
        row, source = np.nonzero(np.arange(batch.value.shape[1]) < batch.n_sources[:, None])
        value, error = batch.value[row, source], batch.error[row, source]
        self.n_evaluated += value.size
        if len(self.values) == self.k:  # most are too small to be sorted
            large = np.abs(value) > self.kth
            self._leave(value[~large], error[~large])
            row, source, value, error = row[large], source[large], value[large], error[large]
        values, errors = (
            np.concatenate(pair) for pair in ((self.values, value), (self.errors, error))
        )
        order = np.argsort(-np.abs(values), kind="stable")
        first, rest = order[: self.k], order[self.k :]
        self._leave(values[rest], errors[rest])
        self.values, self.errors = values[first], errors[first]
        self.nodes = np.concatenate([self.nodes, ids[row]])[first]
        self.sources = np.concatenate([self.sources, source])[first]
        self.least = max(self.least, self.surely)

    def _leave(self, values: np.ndarray, errors: np.ndarray) -> None:
        self.runner_up = max(self.runner_up, (np.abs(values) + errors).max(initial=0.0))


def _finite(batch: Batch) -> Batch:
    require_finite("values and bounds of paths", batch.value, batch.error, batch.bound)
    return batch


def kth_of(best: np.ndarray, k: int) -> float:
    """The absolute value of the k-th of values sorted by size; 0 while there are fewer."""
    return float(np.abs(best[k - 1])) if len(best) >= k else 0.0
