"""The phase diagram: closed forms, exact optimum and trained networks on one scale."""

PLACE = 30
