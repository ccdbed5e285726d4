"""Every claim declares its null, or stands in the list of those that do not yet."""

from pathlib import Path

import pytest

from circuitax.config.catalogue import discover

ENTRIES = discover()
LIST = Path(__file__).with_name("without_null.txt")


def listed() -> dict[str, list[str]]:
    """Ids of claims without a null by experiment, from the list."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
            found[name] = []
        elif line and not line.startswith("#"):
            found[name].append(line)
    return found


@pytest.mark.parametrize("name", ENTRIES)
def test_a_claim_that_declares_no_null_is_listed_and_no_other(name: str) -> None:
    claims = ENTRIES[name].load_claims()
    bare = [claim.id for claim in claims if claim.needs_null and claim.null is None]
    kept = listed().get(name, [])
    assert [claim for claim in bare if claim not in kept] == [], "a new claim declares its null"
    assert [claim for claim in kept if claim not in bare] == [], f"delete these from {LIST.name}"


def test_the_list_names_experiments() -> None:
    assert set(listed()) <= set(ENTRIES) and all(listed().values())
