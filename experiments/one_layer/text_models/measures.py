"""Models of text, measured: held-out losses, their gaps, and the gain from more text."""

from circuitax.records.estimate import mean_estimate
from circuitax.records.null_samples import regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.one_layer.shared.measures_text_family import GAPS, last_losses, measure

__all__ = ["measure", "nulls"]


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: models shuffled between depths, and one layer in the place of none."""
    losses = last_losses(record)
    gaps = {
        claim: regrouped(losses[f"layers-{n - 1}"], losses[f"layers-{n}"])
        for n, claim in GAPS
        if f"layers-{n}" in losses
    }
    above = mean_estimate(losses["layers-1"] - float(record.data.bigram_loss))
    return {"permuted": gaps, "mismatched": {"text-zero-layers": [above]}}
