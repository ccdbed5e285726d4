"""For each claim there is a record on which it does not hold, or it is listed as one without.

``python tests/experiments/test_claims_can_fail.py [EXPERIMENT ...]`` searches a mutation for every
claim that holds on the accepted record, and writes ``claims_can_fail.toml``: by experiment, the
mutations with the claims that they take from *holds*, and the claims that none of them does. What
fails or is undecided on the accepted record needs no other.
"""

import json
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.records.claims import HOLDS, settle
from circuitax.records.record import Record

RESULTS = Path(__file__).parents[2] / "results"
TABLE = Path(__file__).with_name("claims_can_fail.toml")
COMMAND = "tests/experiments/test_claims_can_fail.py"
EVERY = "*"  # all variables at once
# In the place of a mutation: claims that their null takes from holds, and those that nothing does.
NULL, NONE = "its null", "none"
# More measures than this are not tried for the claims of one experiment.
TRIES = 400
# Claims that nothing takes from holds: a number that only falls.
MOST_WITHOUT = 3


def _reflected(x: np.ndarray) -> np.ndarray:
    """Signs of real numbers turned, truth values negated, whole numbers counted from the end."""
    if x.dtype == bool:
        return ~x
    if np.issubdtype(x.dtype, np.integer):
        return x.max(initial=0) + x.min(initial=0) - x if x.size else x
    return -x


def _shuffled(x: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).permutation(x.ravel()).reshape(x.shape)


def _changed_if_real(change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    def changed(x: np.ndarray) -> np.ndarray:
        return change(x) if np.issubdtype(x.dtype, np.floating) else x

    return changed


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "shuffled": _shuffled,
    "reflected": _reflected,
    "zero": np.zeros_like,
    "one": np.ones_like,
    "sorted": lambda x: np.sort(x, axis=None).reshape(x.shape),
    "tripled": _changed_if_real(lambda x: 3 * x),
    "halved": _changed_if_real(lambda x: x / 2),
    "shifted": _changed_if_real(lambda x: x + np.nanmax(np.abs(x), initial=1)),
}


def mutated(record: Record, variable: str, way: str) -> Record:
    """The record with one variable, or all numbers of all variables, changed in one of `WAYS`."""
    names = record.data.data_vars if variable == EVERY else [variable]
    changed = {}
    for name in names:
        array = record.data[name]
        if array.dtype.kind in "biuf":
            changed[name] = array.copy(data=WAYS[way](array.values).astype(array.dtype))
    return Record(record.data.assign(changed), record.notes)


def verdicts(entry: ExperimentEntry, record: Record) -> dict[str, str]:
    """The verdict on each claim that is measured as a finite number, nulls aside."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        estimates = entry.load_measure()(record).estimates
    return {
        claim.id: claim.expected.verdict(estimate)
        for claim in entry.load_claims()
        if (estimate := estimates.get(claim.quantity)) and np.isfinite(estimate.value)
    }


def with_failing_null(entry: ExperimentEntry, record: Record) -> set[str]:
    """Claims that do not hold in one draw of their null at least."""
    measured, nulls = entry.load_measure()(record), entry.load_nulls()(record)
    outcomes = {
        found.claim.id: found.null for found in settle(entry.load_claims(), *measured, nulls)
    }
    return {name for name, null in outcomes.items() if null and null.holding < null.n}


def table() -> dict[str, dict[str, list[str]]]:
    """By experiment: claims by mutation, such as ``"loss reflected"``, by `NULL` and `NONE`."""
    return tomllib.loads(TABLE.read_text()) if TABLE.exists() else {}


def _candidates(data: xr.Dataset) -> Iterator[tuple[str, str]]:
    for name in (EVERY, *data.data_vars):
        if name == EVERY or data[name].dtype.kind in "biuf":
            yield from ((str(name), way) for way in WAYS)


def search(entry: ExperimentEntry, record: Record) -> dict[str, list[str]]:
    """Few mutations that take each claim that holds from it, and the claims that none does."""
    left = {name for name, verdict in verdicts(entry, record).items() if verdict == HOLDS}
    taken: dict[str, set[str]] = {}
    for i, (variable, way) in enumerate(_candidates(record.data)):
        if i == TRIES or not left - set().union(*taken.values()):
            break
        try:
            found = verdicts(entry, mutated(record, variable, way))
        except Exception:
            continue  # a record that cannot be measured has no verdict
        taken[f"{variable} {way}"] = {n for n in left if found.get(n, HOLDS) != HOLDS}
    rows = {}
    while taken and (best := max(taken, key=lambda name: len(taken[name] & left))):
        if not taken[best] & left:
            break
        rows[best] = sorted(taken[best] & left)
        left -= taken[best]
    by_null = with_failing_null(entry, record) & left if left else set()
    last = {NULL: sorted(by_null), NONE: sorted(left - by_null)}
    return rows | {name: claims for name, claims in last.items() if claims}


def main() -> None:
    """Search, and write the table."""
    rows, entries = table(), discover()
    for name in sys.argv[1:] or entries:
        if (RESULTS / name / "accepted" / "data.nc").exists():
            rows[name] = search(entries[name], Record.load(RESULTS / name / "accepted"))
            sys.stdout.write(f"{name}: none {rows[name].get(NONE, [])}\n")
            _write({name: rows[name] for name in entries if rows.get(name)})


def _write(rows: dict[str, dict[str, list[str]]]) -> None:
    lines = [
        "# Mutations of accepted records, of one variable or of all (*), and the claims that do",
        "# not hold on them. Under none: claims that no mutation tried takes from holds; that list",
        f"# only shrinks. Written by `python {COMMAND} [EXPERIMENT ...]`.",
    ]
    for name, mutations in rows.items():
        lines += ["", f"[{name}]"]
        for mutation, claims in mutations.items():
            lines += [f"{json.dumps(mutation)} = [", *(f"  {json.dumps(c)}," for c in claims), "]"]
    TABLE.write_text("\n".join(lines) + "\n")


ENTRIES, ROWS = discover(), table()
ACCEPTED = [name for name in ENTRIES if (RESULTS / name / "accepted" / "data.nc").exists()]
MUTATIONS = [(name, row) for name, rows in ROWS.items() for row in rows if row not in {NULL, NONE}]


def accepted(name: str) -> Record:
    return Record.load(RESULTS / name / "accepted")


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_a_claim_that_holds_has_a_mutation_or_is_listed(name: str) -> None:
    found = verdicts(ENTRIES[name], accepted(name))
    holding = {claim for claim, verdict in found.items() if verdict == HOLDS}
    there = {claim for claims in ROWS.get(name, {}).values() for claim in claims}
    assert holding - there == set(), f"python {COMMAND} adds them"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutation"), MUTATIONS)
def test_no_claim_holds_on_the_record_that_is_mutated_for_it(name: str, mutation: str) -> None:
    variable, way = mutation.rsplit(" ", 1)
    found = verdicts(ENTRIES[name], mutated(accepted(name), variable, way))
    assert [claim for claim in ROWS[name][mutation] if found.get(claim, HOLDS) == HOLDS] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rows in ROWS.items() if NULL in rows])
def test_a_claim_does_not_hold_in_the_null_that_is_to_show_it(name: str) -> None:
    assert set(ROWS[name][NULL]) <= with_failing_null(ENTRIES[name], accepted(name))


def test_a_mutation_changes_what_it_names() -> None:
    record = accepted("score_scale")
    names = [n for n in record.data.data_vars if record.data[n].dtype.kind == "f"]
    for way in WAYS:
        every, one = mutated(record, EVERY, way).data, mutated(record, names[0], way).data
        assert [n for n in names if not one[n].equals(record.data[n])] == names[:1]
        assert every[names[-1]].equals(record.data[names[-1]]) is False
        assert every.sizes == record.data.sizes and every[names[0]].equals(one[names[0]])


def test_fewer_claims_without_a_mutation_than_before() -> None:
    without = [claim for rows in ROWS.values() for claim in rows.get(NONE, [])]
    assert len(without) <= MOST_WITHOUT


def test_the_list_of_claims_without_one_names_claims() -> None:
    for name, rows in ROWS.items():
        claims = {claim.id for claim in ENTRIES[name].load_claims()}
        assert {claim for found in rows.values() for claim in found} <= claims


if __name__ == "__main__":
    main()
