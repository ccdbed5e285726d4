"""Induction in deeper and in wider models: where heads form, what they score, who learns when."""

PLACE = 20
