"""How SmolLM2 uses its stream: room left by embeddings, neurons and heads that erase."""

CHAPTER = "real models"
PLACE = 35
