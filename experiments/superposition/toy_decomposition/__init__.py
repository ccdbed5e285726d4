"""Parameter decomposition without noise: rank-one subcomponents of models whose parts are known."""

CHAPTER = "superposition"
PLACE = 85
