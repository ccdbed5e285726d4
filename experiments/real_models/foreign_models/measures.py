"""Measured values of the claims on foreign models, or the file that would settle them."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim
from circuitax.records.estimate import Estimate, exact, proportion_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.real_models.foreign_models import nulls as null_draws
from experiments.real_models.foreign_models.claims import CLAIMS
from experiments.real_models.foreign_models.sources import (
    EXCEPT,
    FRESH,
    INTO,
    LETTERS_OF,
    MODELS,
    ON_POSITIVE,
    PRINTED,
    REFERENCE,
    SIZES,
    UNCLAIMED,
)
from experiments.real_models.foreign_models.tasks import LISTED, TOWERS, UNLISTED

PATH = "0.0 → 1.0"
COMMAND = "python -m experiments.run experiment=foreign_models source=FOLDER"
TABLES = PRINTED | REFERENCE
BY_COINS = {"unique-signs", "unique-signs-0.0", "sign-fires", "sign-fires-sides"}
SIGHTED = [i for i in range(10) if i not in (6, 8)]  # of positions 11 to 20 without 17 and 19


def measure(record: Record) -> Measured:
    """One number for each claim: of given texts without an interval, of fresh ones with it."""
    data, notes = record.data, record.notes
    measured: dict[str, Estimate] = {}
    not_run: dict[str, str] = {}
    for task, model in MODELS.items():
        claims = [claim for claim in CLAIMS if claim.id.partition("-")[0] == task]
        at_hand = notes["models"].get(task)
        if at_hand is None:
            missing = notes["missing"][task]
            why = f"needs {missing} in a folder of yours: `{COMMAND}`"
            not_run |= {claim.id: why for claim in claims}
            continue
        values = _values(data, task)
        for claim in claims:
            if claim.quantity in values:
                n = _n(claim, at_hand["texts"], notes)
                estimate = share_of_texts if claim.quantity in FRESH else exact
                measured[claim.quantity] = estimate(values[claim.quantity], n)
        if task == "copies":
            batches = data["copies-unseen"].values
            measured["copies-unseen"] = exact(batches.mean(), batches.size)._replace(
                method="mean of batches; what is allowed holds its standard error"
            )
        if (unlike := {k: at_hand[k] for k, v in SIZES[task].items() if at_hand[k] != v}) != {}:
            sizes = ", ".join(f"{name}={value}" for name, value in unlike.items())
            why = f"measured, but the {model} at hand has {sizes}: it is not the published one"
            not_run |= {claim.id: why for claim in claims}
        elif notes["dtype"] != "float64":
            not_run |= {c.id: "needs dtype=float64" for c in claims if c.kind == "identity"}
    return Measured(measured, {}, not_run)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: cells and labels shuffled, random models, no need of corrections."""
    measured = measure(record).estimates
    n = {name: found.n for name, found in measured.items()}
    altered = (with_data(record, data) for data in null_draws.permuted(record.data))
    false = with_data(record, null_draws.false_world(record.data))
    tossed = (with_data(record, data) for data in null_draws.coins(record.data))
    signs = {k: v for k, v in measured_again(measure, tossed).items() if k in BY_COINS}
    return {
        "permuted": measured_again(measure, altered),
        "random": null_draws.random(n) | signs,
        "false world": measured_again(measure, [false]),
    }


def share_of_texts(share: float, n: int) -> Estimate:
    """A share of texts, or a mean of their shares of right positions, with Wilson's interval.

    A text's share of right positions varies no more than a yes or no with the same mean, so that
    the interval over ``n`` texts is wide enough for both.
    """
    found = proportion_estimate(round(share * n), n)
    return found._replace(value=float(share), method="share of texts, Wilson 95%")


def _n(claim: Claim, texts: int, notes: dict) -> int:
    """Number of examples behind a claim: the run's, unless it states its own."""
    return int(notes["examples"].get(claim.quantity, min(texts, claim.n)))


def _values(data: xr.Dataset, task: str) -> dict[str, float]:
    """Every quantity of one model's claims."""
    found: dict[str, float] = {}
    for name in (str(name) for name in data if str(name).startswith(f"{task}-")):
        values, table = data[name].values, TABLES.get(name)
        if table is not None:
            found[name] = float(np.abs(values - np.array(table)).max())
        elif values.ndim == 0:
            found[name] = float(values)
    return found | DERIVED[task](data)


@measures(
    "palindrome-blind",
    "palindrome-looks",
    "palindrome-path",
    "palindrome-sighted",
    "palindrome-zero-gap",
)
def _palindrome(data: xr.Dataset) -> dict[str, float]:
    called = data["palindrome-called-so"].values
    # The last of the positions is 20, to which another head looks.
    read, broken = (data[f"palindrome-{name}"].values[:, :-1] for name in ("read", "broken"))
    is_one = data["palindrome-is-one"].values
    each = data["palindrome-paths"].astype(float)
    on_none = each[~is_one].mean("text")
    leads = (
        float(paths.sel(path=PATH) - paths.drop_sel(path=PATH).max())
        for paths in (on_none - each[is_one].mean("text"), on_none)
    )
    # Of palindromes no pair is broken, and the page calls the attention to theirs random.
    positions = zip(read[~is_one].T, broken[~is_one].T, strict=True)
    printed = np.array(PRINTED["palindrome-zero-ablation"])
    return {
        "palindrome-blind": called[[6, 8]].min(),
        "palindrome-sighted": called[SIGHTED].max(),
        "palindrome-looks": min(
            _ratio(read, broken), *(_ratio(seen, where) for seen, where in positions)
        ),
        "palindrome-path": min(leads),
        "palindrome-zero-gap": float(np.abs(data["palindrome-zero-unfolded"] - printed).max()),
    }


def _ratio(read: np.ndarray, broken: np.ndarray) -> float:
    """Attention to broken pairs over that to equal ones."""
    return float(read[broken].mean(dtype=float) / read[~broken].mean(dtype=float))


@measures("unique-adversarial", "unique-copies-*", "unique-misses*", "unique-signs*")
def _unique(data: xr.Dataset) -> dict[str, float]:
    copies, letters = data["unique-copies"].values, np.arange(10)
    own, served = np.isin(letters, (0, 1, 6)), letters > 0
    signs = _signs(data["unique-own-logits"].values)
    return {
        "unique-adversarial": float(data["unique-adversarial-shares"].min()),
        "unique-copies-0.1": copies[1, served].min() - copies[1, 0],
        "unique-copies-0.2": copies[2, own].min() - copies[2, ~own].max(),
        "unique-misses": float(data["unique-miss-of-each"].max()),
        "unique-misses-all": float(data["unique-miss-of-each"].min()),
        "unique-signs": min(share for first, share in signs.items() if first != "0.0"),
        "unique-signs-0.0": signs["0.0"],
    }


def _signs(own: np.ndarray) -> dict[str, float]:
    """By first step, the share of own logits, ``[step, head, letter]``, of the page's sign.

    The letters that the page excepts count by themselves.
    """
    agree: dict[str, list[bool]] = {name: [] for name in (*INTO, "exceptions")}
    for step, first in enumerate(INTO):
        for head, letters in enumerate(LETTERS_OF):
            for letter in letters:
                excepted = letter in EXCEPT.get((first, head), "")
                boosts = (first in ("0.0", "0.2")) != excepted
                if (first, head, letter) != UNCLAIMED:
                    is_so = (own[step, head, "abcdefghij".index(letter)] > 0) == boosts
                    agree["exceptions" if excepted else first].append(is_so)
    return {name: float(np.mean(each)) for name, each in agree.items()}


@measures("sign-fires", "sign-fires-sides", "sign-two-functions")
def _sign(data: xr.Dataset) -> dict[str, float]:
    fit = np.abs(data["sign-fit-centred"] - np.array(PRINTED["sign-fit"]))
    silenced = np.abs(data["sign-silenced"] - np.array(PRINTED["sign-silenced-centred"]))
    negative, positive = data["sign-fired"].values.T
    both = negative + positive
    said = np.where(np.arange(len(both)) < len(ON_POSITIVE), positive, negative)
    other = both - said
    # A neuron that never fires has no side.
    shares = other / np.where(both > 0, both, np.inf)
    return {
        "sign-two-functions": float(min(fit.max(), silenced.max())),
        "sign-fires": int((said > other).sum()),
        "sign-fires-sides": float(shares.min()),
    }


@measures("bracket-more-towers", "bracket-roles", "bracket-towers")
def _bracket(data: xr.Dataset) -> dict[str, float]:
    towers = dict(zip(TOWERS, data["bracket-each-tower"].values, strict=True))
    failure, added = data["bracket-failure"].values, data["bracket-last-heads"].values
    balanced, total, suffix = (added[failure == i].mean(axis=0, dtype=float) for i in range(3))
    total, suffix = total - balanced, suffix - balanced
    return {
        "bracket-towers": min(towers[i] for i in LISTED),
        "bracket-more-towers": min(towers[i] for i in UNLISTED),
        "bracket-roles": min(
            *(total[0] - total[1], suffix[1] - suffix[0]),
            *(total[0] - suffix[0], suffix[1] - total[1]),
        ),
    }


@measures("copies-second", "copies-successors")
def _copies(data: xr.Dataset) -> dict[str, float]:
    given = data["copies-successor"].values
    return {"copies-successors": given[:2, 1:].min(), "copies-second": given[2, 1:].max()}


DERIVED = {
    "palindrome": _palindrome,
    "unique": _unique,
    "sign": _sign,
    "bracket": _bracket,
    "copies": _copies,
}
