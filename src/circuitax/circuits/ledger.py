"""The path ledger: the largest paths to one logit, and a proof about all the others.

Best-first search from the logit backwards. A partial path is a row over positions and a direction;
`second_moments` bounds whatever can precede it, so that a branch is dropped only when nothing in
it can matter. The search runs on the host in double precision and returns indices; the values at
those indices are the differentiable `head_path_values`.

A *head path* is a chain of heads, summed over positions; a *position path* is a chain of heads and
of the positions they read.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.expansion import path_stream
from circuitax.circuits.frozen import FrozenModel
from circuitax.circuits.ledger_steps import HeadSteps, PositionSteps, join, take
from circuitax.circuits.paths import Path
from circuitax.circuits.second_moments import (
    HostModel,
    final_stream,
    head_path_moments,
    host_model,
    position_path_moments,
)
from circuitax.kernel.indices import check_index

_LEAST_BATCH = 64


class Ledger(NamedTuple):
    """The k largest paths in absolute value, and the certificate."""

    paths: tuple[Path, ...]
    """Heads in the order in which they act."""
    positions: tuple[tuple[int | None, ...], ...]
    """For position paths, the position each head reads; None where a path starts from its first
    head's bias. Empty tuples for head paths."""
    values: np.ndarray
    """Contributions to the logit, largest first in absolute value."""
    found: float
    """Sum of the values."""
    remainder: float
    """The whole (all paths, without ``b_U``) minus ``found``."""
    omitted_bound: float
    """No path left out is larger than this in absolute value: proven, up to rounding."""
    complete: bool
    """Whether it is at most the k-th value, so that these are the k largest paths."""
    n_evaluated: int
    """Paths whose value was computed."""


def head_ledger(
    model: FrozenModel,
    position: int,
    direction: Float[Array, " d_model"],
    k: int = 20,
    budget: int = 2_000_000,
) -> Ledger:
    """The k largest head paths to a logit.

    Args:
        model: A frozen model.
        position: Where the logit is read.
        direction: Of the unembedding: ``read_out.W_U[:, token]``, or a difference of two columns.
        k: How many paths, at least 1.
        budget: Stop after this many evaluations; the gap is then in ``omitted_bound``.

    Raises:
        ValueError: If ``position`` is out of range, k or the budget is less than 1, the direction
            has another length than the stream, or it or the model is not finite.

    Source: leap 1 of our reference page; bound of design section 11.
    """
    host, w, whole = _prepare(model, position, direction, k, budget)
    steps = HeadSteps(host, head_path_moments(host, position), position, w)
    return _search(steps, model.A.shape[1], k, budget, whole)


def position_ledger(
    model: FrozenModel,
    position: int,
    direction: Float[Array, " d_model"],
    k: int = 20,
    budget: int = 2_000_000,
) -> Ledger:
    """The k largest position paths to a logit; arguments as in `head_ledger`.

    The moments are exact here: the sum of squares of all contributions is known before the search,
    so ``√(total - Σ found²)`` also bounds what is left out. The output biases ``b_O`` written
    before a path's first head count to the token it starts from.

    Raises:
        ValueError: As in `head_ledger`.
    """
    host, w, whole = _prepare(model, position, direction, k, budget)
    moments = position_path_moments(host, position)
    steps = PositionSteps(host, moments, position, w)
    ledger = _search(steps, model.A.shape[1], k, budget, whole)
    total = w @ moments.at_end @ w + (host.direct[position] @ w) ** 2
    # The subtraction may lose all digits; what it can lose is added back.
    rest = total * (1 + 1e-12) - np.sum(ledger.values**2)
    bound = min(ledger.omitted_bound, float(np.sqrt(max(rest, 0))))
    return ledger._replace(
        omitted_bound=bound, complete=ledger.complete or bound <= _kth(ledger.values, k)
    )


def head_path_values(
    model: FrozenModel,
    paths: tuple[Path, ...],
    position: int,
    direction: Float[Array, " d_model"],
) -> Float[Array, " n_paths"]:
    """The values of chosen head paths, pure and differentiable.

    Args:
        model: A frozen model.
        paths: Static, as in `Ledger.paths`.
        position: Where the logit is read, static.
        direction: As in `head_ledger`.

    Raises:
        ValueError: If ``position`` is out of range, or a path is none of this model's.
    """
    check_index("position", position, model.tokens.shape[0])
    scale = model.read_out.scale
    w = direction if scale is None else direction / scale[position]
    return jnp.stack([path_stream(model, path)[position] @ w for path in paths])


def _search(
    steps: HeadSteps | PositionSteps, n_heads: int, k: int, budget: int, whole: float
) -> Ledger:
    """Expand the most promising partial paths, a batch at a time, until none can matter."""
    front, ids = steps.root(), np.zeros(1, int)
    parents, hops = [np.array([-1])], [front.hop]
    best, best_ids = front.value, ids
    n_evaluated, runner_up, dropped = 1, 0.0, 0.0
    while True:
        kth = _kth(best, k)
        keep = front.bound > kth
        dropped = max(dropped, front.bound[~keep].max(initial=0.0))
        front, ids = take(front, keep), ids[keep]
        if not ids.size or n_evaluated >= budget:
            break
        # Strict best-first would expand one at a time; a batch that grows with the front keeps
        # the number of NumPy calls logarithmic and wastes little.
        size = min(max(_LEAST_BATCH, ids.size // 8), ids.size)
        chosen = np.argpartition(-front.bound, size - 1)[:size]
        new, parent = steps.children(take(front, chosen).state)
        new_ids = n_evaluated + np.arange(new.value.size)
        n_evaluated += new.value.size
        parents.append(ids[chosen][parent])
        hops.append(new.hop)
        values, all_ids = np.concatenate([best, new.value]), np.concatenate([best_ids, new_ids])
        order = np.argsort(-np.abs(values), kind="stable")
        runner_up = max(runner_up, np.abs(values[order[k:]]).max(initial=0.0))
        best, best_ids = values[order[:k]], all_ids[order[:k]]
        rest = np.delete(np.arange(ids.size), chosen)
        # The root's direction is wider than all others; it is the first to go, and goes alone.
        front = join([take(front, rest), new]) if rest.size else new
        ids = np.concatenate([ids[rest], new_ids])
    omitted = float(max(runner_up, dropped, front.bound.max(initial=0.0)))
    parent_of, hop_of = np.concatenate(parents), np.concatenate(hops)
    paths, positions = [], []
    for node in best_ids:
        trail = []
        while hop_of[node] >= 0:
            trail.append(int(hop_of[node]))
            node = parent_of[node]
        # The search walks from the logit back, so the last step taken acts first.
        heads, sources = steps.decode(trail)
        paths.append(tuple((head // n_heads, head % n_heads) for head in heads))
        positions.append(sources)
    found = float(best.sum())
    complete = not ids.size
    return Ledger(
        tuple(paths), tuple(positions), best, found, whole - found, omitted, complete, n_evaluated
    )


def _kth(best: np.ndarray, k: int) -> float:
    return float(np.abs(best[k - 1])) if len(best) >= k else 0.0


def _prepare(
    model: FrozenModel, position: int, direction: Array, k: int, budget: int
) -> tuple[HostModel, np.ndarray, float]:
    """The host's model, the direction on the final stream, the sum of all paths along it."""
    check_index("position", position, model.tokens.shape[0])
    for name, value in (("k", k), ("budget", budget)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    w, d_model = np.asarray(direction, np.float64), model.embedding.shape[1]
    if w.shape != (d_model,):
        raise ValueError(f"direction has shape {w.shape}, must be ({d_model},), d_model")
    if not np.isfinite(w).all():
        raise ValueError("direction must be finite")
    if model.read_out.scale is not None:
        w = w / float(model.read_out.scale[position])
    host = host_model(model)
    return host, w, float(final_stream(host)[position] @ w)
