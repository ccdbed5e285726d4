"""Measured values of the claims on bigrams, from a record."""

from circuitax.records.estimate import exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only

# Claims measured on windows that all seeds share.
ON_TEXTS = ("bigram-held-out", "bigram-direct-path", "bigram-marginal")


def measure(record: Record) -> Measured:
    """The measured value of every claim, and the table's own cross-entropy."""
    data = record.data
    both = members_where(data, data.alive.isel(width=[0, -1]).all("width"))
    narrow, full = both.isel(width=0), both.isel(width=-1)
    paths = members_where(data, "path_alive").path_kl
    direct = paths.sel(kind="direct path")
    measured = {
        "bigram-full-width": mean_estimate(full.kl),
        "bigram-held-out": mean_estimate(full.held_out - data.table_held_out_loss),
        "bigram-bottleneck": mean_estimate((narrow.kl - full.kl).values),
        "bigram-direct-path": mean_estimate((direct - paths.sel(kind="zero layers")).values),
        "bigram-marginal": mean_estimate((direct - paths.sel(kind="whole, mean")).values),
        "table-held-out": exact(data.table_held_out_loss),
    }
    return Measured(over_seeds_only(measured, ON_TEXTS), {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: narrower models, and kinds of paths and widths exchanged."""
    data = record.data
    both = members_where(data, data.alive.isel(width=[0, -1]).all("width"))
    paths = members_where(data, "path_alive").path_kl
    if not both.sizes["member"] or not paths.sizes["seed"]:
        return {}
    narrow, full = both.isel(width=0), both.isel(width=-1)
    direct = paths.sel(kind="direct path")
    differences = {
        "bigram-bottleneck": narrow.kl - full.kl,
        "bigram-direct-path": direct - paths.sel(kind="zero layers"),
        "bigram-marginal": direct - paths.sel(kind="whole, mean"),
    }
    half = members_where(data, data.alive.isel(width=-2)).isel(width=-2)
    held_out = mean_estimate(narrow.held_out - data.table_held_out_loss)
    return {
        "mismatched": {
            "bigram-full-width": [mean_estimate(half.kl)],
            "bigram-held-out": [held_out],
        },
        "permuted": exchanged(differences),
    }
