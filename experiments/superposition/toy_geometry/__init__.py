"""Equal features fill dimensions with polytopes, and D* stays at 1/2 over a range of densities."""

CHAPTER = "superposition"
PLACE = 24
