"""Heads and paths of a proven list that a score of heads misses."""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.paths.expansion import Path


class Misses(NamedTuple):
    """Shares in [0, 1]; not a number where no path of the list has a head.

    Attributes:
        hidden: Whether each path has a head that is missing.
        n_heads: Heads on the paths of the list.
    """

    heads: float
    paths: float
    hidden: np.ndarray
    n_heads: int


def misses(paths: tuple[Path, ...], scores: np.ndarray) -> Misses:
    """Heads and paths outside the top heads by score, as many as the paths have.

    Args:
        paths: The largest paths.
        scores: A score of every head, ``[n_layers, n_heads]``; its size counts, not its sign.

    Returns:
        The share of the paths' heads that is missing, and the share of the paths with a head that
        have a missing one.
    """
    on_paths = {head for path in paths for head in path}
    if not on_paths:
        return Misses(np.nan, np.nan, np.zeros(len(paths), bool), 0)
    order = np.argsort(-np.abs(scores), axis=None, kind="stable")[: len(on_paths)]
    rows, columns = np.unravel_index(order, scores.shape)
    named = set(zip(rows.tolist(), columns.tolist(), strict=True))
    hidden = np.array([not named.issuperset(path) for path in paths])
    share = hidden.sum() / sum(bool(path) for path in paths)
    return Misses(len(on_paths - named) / len(on_paths), share, hidden, len(on_paths))
