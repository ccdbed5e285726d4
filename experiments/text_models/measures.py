"""What models of text reached: held-out loss of each, and the gaps between neighbours."""

from circuitax.records.difference import gap_between
from circuitax.records.estimate import mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record

GAPS = ((1, "text-one-layer"), (2, "text-two-layers"))


def measure(record: Record) -> Measured:
    """Mean held-out loss over the seeds that stayed finite, by model, and the claimed gaps."""
    losses = {
        str(name): mean_estimate(
            members_where(record.data.sel(model=name)).loss_by_position.mean("position").values
        )
        for name in record.data.model.values
    }
    gaps, not_run = {}, {}
    for n, claim in GAPS:
        if f"layers-{n}" in losses:
            gaps[claim] = gap_between(losses[f"layers-{n - 1}"], losses[f"layers-{n}"])
        else:
            not_run[claim] = f"model.n_layers={n - 1} is one layer"
    return Measured({f"loss-{name}": loss for name, loss in losses.items()} | gaps, {}, not_run)
