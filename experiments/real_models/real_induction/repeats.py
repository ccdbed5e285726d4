"""Random tokens that come twice, a twin with spoilt keys, and where heads should look in them."""

from typing import NamedTuple

import numpy as np

# Kinds of attention: names of masks over a text of two copies.
PREFIX, PREVIOUS, *_ = KINDS = ("prefix", "previous", "same", "earlier", "attended")
SEED, FIRST_ID, END_ID = 0, 1000, 20_000


class Repeats(NamedTuple):
    """Texts of two copies, ``[texts, 2 * length]``.

    Attributes:
        plain: A row of random tokens, twice.
        spoilt: The same, with other tokens at the odd places of the first copy.
        masks: ``[kind, dest, src]``: what each of `KINDS` marks.
    """

    plain: np.ndarray
    spoilt: np.ndarray
    masks: np.ndarray


def repeats(texts: int, length: int, d_vocab: int) -> Repeats:
    """Texts of usual ids, the same in every run; of the whole vocabulary where that is smaller."""
    ends = (FIRST_ID, END_ID) if d_vocab >= END_ID else (0, d_vocab)
    copy = np.random.default_rng(SEED).integers(*ends, size=(texts, length))
    other = np.random.default_rng(SEED + 1).integers(*ends, size=(texts, length))
    spoilt = np.where(np.arange(length) % 2 == 1, other, copy)
    return Repeats(
        np.concatenate([copy, copy], axis=1),
        np.concatenate([spoilt, copy], axis=1),
        _masks(length),
    )


def _masks(length: int) -> np.ndarray:
    """``prefix``: the place after the earlier copy of the present token, for the second copy.

    ``previous`` and ``same``: the place before, and the earlier copy itself, of the same
    destinations as ``prefix``. In spoilt texts a match of ``earlier`` has kept the token before it
    and lost its own; one of ``attended`` has kept its own and lost the token before it.
    """
    dest, src = np.mgrid[: 2 * length, : 2 * length]
    follows = (src == dest - length + 1) & (dest >= length) & (dest < 2 * length - 1)
    same = (src == dest - length) & (dest < 2 * length - 1)
    odd = src % 2 == 1
    return np.stack([follows, src == dest - 1, same, follows & odd, follows & ~odd])
