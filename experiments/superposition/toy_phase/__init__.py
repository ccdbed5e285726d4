"""The phase diagram: closed forms, exact optimum and trained networks on one scale."""

CHAPTER = "superposition"
PLACE = 20
FLAGSHIP = "phase"
