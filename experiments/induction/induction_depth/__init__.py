"""Induction in deeper and in wider models: where heads form, what they score, who learns when."""

CHAPTER = "two layers"
PLACE = 15
