"""Models of text, measured: held-out losses, their gaps, and the gain from more text."""

from experiments.one_layer.shared.measures_text_family import measure

__all__ = ["measure"]
