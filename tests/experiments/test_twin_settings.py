"""A twin takes the branches that the accepted run took: each of its fields is of the same kind.

What a branch asks of a field is whether it is there, on, zero or one of some names; sizes differ.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from circuitax.config.catalogue import discover
from circuitax.config.twins import twin_cases

RESULTS = Path(__file__).parents[2] / "results"
NAMES = [name for name in discover() if (RESULTS / name / "accepted" / "twin.json").is_file()]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from flat(part, f"{path}.{name}" if path else name)
    else:
        yield path, value


def kind(value: Any) -> Any:
    """What branches ask of a value: a switch, a name, None, a number's sign, kinds of a list."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, list):
        return frozenset(str(kind(item)) for item in value)
    return (value > 0) - (value < 0)


def covers(twin: Any, accepted: Any) -> bool:
    kinds = kind(twin), kind(accepted)
    if all(isinstance(each, frozenset) for each in kinds):
        return kinds[0] >= kinds[1]
    return kinds[0] == kinds[1]


@pytest.mark.parametrize("name", NAMES)
def test_some_case_of_the_twin_has_each_kind_of_the_accepted_fields(name: str) -> None:
    accepted = RESULTS / name / "accepted"
    ran = dict(flat(json.loads((accepted / "spec.json").read_text())))
    cases = json.loads((accepted / "twin.json").read_text())["cases"]
    specs = [dict(flat(case["settings"]["specs"][name])) for case in cases.values()]
    missed = [
        field
        for field, value in ran.items()
        if not any(field in spec and covers(spec[field], value) for spec in specs)
    ]
    assert missed == [], "give them in conf/twins.yaml"
    assert set(cases) <= set(twin_cases(name))
