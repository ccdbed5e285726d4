"""Every claim declares its null."""

import pytest

from circuitax.config.catalogue import discover

ENTRIES = discover()


@pytest.mark.parametrize("name", ENTRIES)
def test_every_claim_declares_its_null(name: str) -> None:
    claims = ENTRIES[name].load_claims()
    assert [claim.id for claim in claims if claim.needs_null and claim.null is None] == []
