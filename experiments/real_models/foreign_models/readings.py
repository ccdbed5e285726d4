"""Two puzzles of ARENA: what is read from the record."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import proportion_estimate
from circuitax.records.sample import Sample, sample, share_of
from experiments.real_models.shared.published_numbers import (
    exact_numbers,
    n_texts,
    of_task,
    remainder,
    single_numbers,
)

# Tables printed by the author of the pages.
PRINTED: dict[str, list[float]] = {
    "palindrome-mean-ablation": [0.614, 6.642, 0.299, 6.815],
    "palindrome-zero-ablation": [1.672, 3.477, 2.847, 7.274],
    "palindrome-wrong": [2, 1, 0],
    "palindrome-turns": [0.373, 0.544],
}
# Texts of each task, and of quantities with others.
TEXTS = {
    "palindrome": 2500,
    "palindrome-accuracy": 5000,
    **dict.fromkeys(("palindrome-turns-self", "palindrome-turns-mirror"), 1000),
    **dict.fromkeys(("palindrome-blind", "palindrome-sighted"), 1000),
    "unique": 1000,
    "unique-accuracy": 5000,
    "unique-adversarial": 1,
}
PATH = "0.0 → 1.0"
# First unique letter: what the page says of own logits, by the first step of paths through a head
# of layer 1 and that head's letters, and where the sign is another one than else.
INTO = ("direct", "0.0", "0.1", "0.2")
LETTERS_OF = ("ac", "defj", "bghi")
EXCEPT = {("0.2", 0): "a", ("0.2", 2): "bg"}  # first step, head of layer 1
UNCLAIMED = ("0.1", 0, "a")  # head 0.1 serves all letters but a


def palindrome(data: xr.Dataset) -> dict[str, Sample]:
    """The palindrome classifier: answers, ablations, where it looks, its blind spots, its path."""
    data = of_task(data, "palindrome", "foreign_models")
    called = data["palindrome-called-so"].values
    # The last of the positions is 20, to which another head looks.
    read, broken = (data[f"palindrome-{name}"].values[:, :-1] for name in ("read", "broken"))
    is_one = data["palindrome-is-one"].values
    each = data["palindrome-paths"].astype(float)
    on_none = each[~is_one].mean("text")
    leads = [
        float(paths.sel(path=PATH) - paths.drop_sel(path=PATH).max())
        for paths in (on_none - each[is_one].mean("text"), on_none)
    ]
    # Of palindromes no pair is broken, and the page calls the attention to theirs random.
    positions = zip(read[~is_one].T, broken[~is_one].T, strict=True)
    unfolded = data["palindrome-zero-unfolded"] - np.array(PRINTED["palindrome-zero-ablation"])
    turns = data["palindrome-turns"].values
    values = {
        **single_numbers(data, "palindrome", PRINTED),
        "palindrome-looks": min(
            _ratio(read, broken), *(_ratio(seen, where) for seen, where in positions)
        ),
        "palindrome-path": min(leads),
        "palindrome-zero-gap": np.abs(unfolded).max(),
        "palindrome-turns-self": turns[0],
        "palindrome-turns-mirror": turns[1],
    }
    return exact_numbers(data, values, TEXTS) | {
        "palindrome-blind": _share(data, "palindrome-blind", called[[6, 8]].min()),
        "palindrome-sighted": _share(data, "palindrome-sighted", np.delete(called, [6, 8]).max()),
    }


def _ratio(read: np.ndarray, broken: np.ndarray) -> float:
    """Attention to broken pairs over that to equal ones."""
    return float(read[broken].mean(dtype=float) / read[~broken].mean(dtype=float))


def first_unique(data: xr.Dataset) -> dict[str, Sample]:
    """Answers, an adversarial text, attention to copies, and the published division."""
    data = of_task(data, "unique", "foreign_models")
    attention, letters = data["unique-copies"].values, np.arange(10)
    own, served = np.isin(letters, (0, 1, 6)), letters > 0
    values = {
        **single_numbers(data, "unique", PRINTED),
        "unique-adversarial": data["unique-adversarial-shares"].min(),
        "unique-copies-0.1": attention[1, served].min() - attention[1, 0],
        "unique-copies-0.2": attention[2, own].min() - attention[2, ~own].max(),
        "unique-misses": data["unique-miss-of-each"].max(),
        "unique-misses-all": data["unique-miss-of-each"].min(),
    }
    return exact_numbers(data, values, TEXTS)


def path_signs(data: xr.Dataset, first: list[str]) -> Sample:
    """By first steps, the share of own logits, one a head's letter, that have the page's sign."""
    own = of_task(data, "unique", "foreign_models")["unique-own-logits"].values
    agree = []
    for head, letters in enumerate(LETTERS_OF):
        for step, letter in ((step, letter) for step in first for letter in letters):
            excepted = letter in EXCEPT.get((step, head), "")
            boosts = (step in ("0.0", "0.2")) != excepted
            if (step, head, letter) != UNCLAIMED:
                value = own[INTO.index(step), head, "abcdefghij".index(letter)]
                agree.append((value > 0) == boosts)
    return share_of(agree)


def closes(data: xr.Dataset, task: str) -> Sample:
    """What all paths or components leave of the logits."""
    return remainder(of_task(data, task, "foreign_models"), task, TEXTS)


def _share(data: xr.Dataset, name: str, share: float) -> Sample:
    """A share of texts drawn afresh."""
    n = n_texts(data, name, TEXTS)
    return sample(proportion_estimate(round(share * n), n)._replace(value=float(share)))
