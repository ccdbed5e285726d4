"""Held-out losses of models of English, and the gain from more text."""

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only
from experiments.one_layer.english_models.claims import CLAIMS
from experiments.one_layer.shared.measures_lengths import length_losses
from experiments.one_layer.shared.measures_text_family import attention_only
from experiments.one_layer.shared.measures_text_family import measure as measure_family


def measure(record: Record) -> Measured:
    """All that `text_models` measures, under its names, and the claims on English."""
    if "missing" in record.notes:
        why = f"the English text is not at hand: {record.notes['missing']}"
        return Measured({}, {}, {claim.id: why for claim in CLAIMS})
    found = dict(measure_family(record).estimates)
    for name in attention_only(record):
        if (gain := f"last-doubling-{name}") in found:
            found[f"english-enough-{name.removeprefix('layers-')}"] = found[gain]
    if "layers-2" in record.data.model.values:
        ends = members_where(record.data.sel(model="layers-2")).loss_by_position.mean("position")
        if ends.size:
            found["english-below-trigram"] = mean_estimate(float(record.data.trigram_loss) - ends)
    left_out = [name for name in found if name.startswith("english-")]
    unmet = unmet_rest(CLAIMS, found, "no seed stayed finite")
    return Measured(over_seeds_only(found, left_out), unmet)


def nulls(record: Record) -> Nulls:
    """Gains of the first doubling, and losses before training."""
    if "missing" in record.notes:
        return {}
    data, mismatched, untrained = record.data, dict[str, Draws](), dict[str, Draws]()
    for name in attention_only(record):
        losses = length_losses(data, name)
        if losses.size:
            # Of two lengths the first doubling is the last one.
            first = [mean_estimate(losses[-1] - losses[-2])] if len(losses) > 2 else [None]
            mismatched[f"english-enough-{name.removeprefix('layers-')}"] = first
    if "layers-2" in data.model.values:
        start = members_where(data.sel(model="layers-2")).loss.isel(step=0)
        if start.size:
            untrained["english-below-trigram"] = [mean_estimate(float(data.trigram_loss) - start)]
    return {"mismatched": mismatched, "untrained": untrained}
