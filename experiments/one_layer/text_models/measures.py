"""Models of text, measured: held-out losses, their gaps, and the gain from more text."""

from circuitax.records.estimate import mean_estimate
from circuitax.records.null_samples import exchanged, regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.one_layer.shared.measures_text_family import last_losses, measure

__all__ = ["measure", "nulls"]


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: sides exchanged, models shuffled between depths, one layer for none."""
    losses = last_losses(record)
    above = losses["layers-1"] - float(record.data.bigram_loss)
    permuted = exchanged({"text-one-layer": -above})
    if "layers-2" in losses:
        permuted["text-two-layers"] = regrouped(losses["layers-1"], losses["layers-2"])
    return {"permuted": permuted, "mismatched": {"text-zero-layers": [mean_estimate(above)]}}
