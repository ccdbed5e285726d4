"""Local heads of SmolLM2-135M named from its weights, by the scores that each distance gets."""

CHAPTER = "real models"
PLACE = 50
