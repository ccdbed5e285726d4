"""What models of text reached: held-out losses, their gaps, and what more text would give."""

from experiments.one_layer.shared.measures_text_family import measure

__all__ = ["measure"]
