"""What models of text reached: held-out loss of each, and the gaps between neighbours."""

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record

GAPS = ((1, "text-one-layer"), (2, "text-two-layers"))


def measure(record: Record) -> Measured:
    """Mean held-out loss over the seeds that stayed finite, by model, and the claimed gaps."""
    samples = {
        str(name): members_where(record.data.sel(model=name))
        .loss_by_position.mean("position")
        .values
        for name in record.data.model.values
    }
    gaps, not_run = {}, {}
    for n, claim in GAPS:
        if f"layers-{n}" in samples:
            gaps[claim] = difference_estimate(samples[f"layers-{n - 1}"], samples[f"layers-{n}"])
        else:
            not_run[claim] = f"model.n_layers={n - 1} is one layer"
    losses = {f"loss-{name}": mean_estimate(values) for name, values in samples.items()}
    return Measured(losses | gaps, {}, not_run)
