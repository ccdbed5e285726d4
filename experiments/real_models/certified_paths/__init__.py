"""The twenty largest paths of SmolLM2-135M behind an induction, proven; and what gradients miss."""

CHAPTER = "real models"
PLACE = 40
