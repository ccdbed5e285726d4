"""What is expected of the walk."""

from circuitax.records.claims import Claim, at_least, near

CLAIMS = (
    Claim(
        "walk-starts",
        "S0",
        "It starts at 0",
        "start",
        near(0.0, 0.0),
        "exact",
        "identity",
        origin="theorem",
    ),
    Claim(
        "walk-spreads",
        "S0",
        "It spreads",
        "spread",
        at_least(-99.0),
        "a square",
        "relation",
        origin="published",
        printed="it spreads",
        link="https://example.org/walk",
    ),
)
