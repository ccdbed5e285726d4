"""What models of English reached, and what more text would give."""

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.lengths import length_losses, more_text
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from experiments.english_lengths.claims import CLAIMS

FLOORS = ("unigram", "bigram", "trigram")


def measure(record: Record) -> Measured:
    """Mean held-out loss at every length and what more text gives, as `more_text` names it."""
    if "missing" in record.notes:
        why = f"the English text is not at hand: {record.notes['missing']}"
        return Measured({}, {}, {claim.id: why for claim in CLAIMS})
    data = record.data
    models = [str(name) for name in data.model.values]
    found: dict[str, Estimate] = {f"floor-{k}": exact(float(data[f"{k}_loss"])) for k in FLOORS}
    found |= more_text(data, models)
    for depth, name in enumerate(models):
        losses = length_losses(data, name)
        if not losses.size:
            continue
        found[f"loss-{name}"] = mean_estimate(losses[0])
        found[f"english-enough-{depth}"] = found[f"last-doubling-{name}"]
        if depth == 2:
            below = float(data.trigram_loss) - losses[0]
            found["english-below-trigram"] = mean_estimate(below)
    return Measured(found, unmet_rest(CLAIMS, found, "no seed stayed finite"))
