"""Share of a text that repeats verbatim, within windows of one length."""

import numpy as np
from jaxtyping import Int


def longest_repeats(windows: Int[np.ndarray, "n length"]) -> Int[np.ndarray, "n length"]:
    """The length of the longest stretch that ends at a token and stands earlier in its window too.

    ``max over s < t of max{k : x_{t-j} = x_{s-j} for j = 0 … k-1}``; 0 for a token that has not
    occurred before. The two stretches may overlap, as in a run of one token.

    Args:
        windows: Texts, one a row, at least one token each.
    """
    n, length = windows.shape
    found = np.zeros((n, length), int)
    # Entry s is the length of the common stretch that ends at t and at s.
    common = np.zeros((n, length), int)
    for t in range(length):
        before = np.concatenate([np.zeros((n, 1), int), common[:, :-1]], axis=1)
        common = np.where(windows == windows[:, t : t + 1], before + 1, 0)
        found[:, t] = common[:, :t].max(axis=1, initial=0)
    return found


def repeat_rates(
    windows: Int[np.ndarray, "n length"], lengths: Int[np.ndarray, " k"]
) -> np.ndarray:
    """The share of tokens, but the first of each window, that end a repeat of each length or more.

    Args:
        windows: Texts, one a row, at least two tokens each.
        lengths: Stretches in tokens, at least 1 each.

    Raises:
        ValueError: If a window has fewer than two tokens, or a length is below 1.
    """
    if windows.shape[1] < 2:
        raise ValueError(f"windows has {windows.shape[1]} tokens each, must have at least 2")
    if lengths.min() < 1:
        raise ValueError(f"lengths={lengths.tolist()} must be at least 1 each")
    longest = longest_repeats(windows)[:, 1:]
    return (longest[..., None] >= lengths).mean(axis=(0, 1))
