"""Models of text, measured: held-out losses, their gaps, and the gain from more text."""

import numpy as np

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only, widened
from experiments.one_layer.shared.measures_lengths import more_text

FLOORS = ("unigram", "bigram", "trigram")

# What the held-out windows that all seeds share have of the variance (docs/checks.md), and claims
# for which that was not measured.
OF_WINDOWS = {"text-one-layer": 0.93, "text-two-layers": 0.57}
LEFT_OUT = ("text-zero-layers",)


def measure(record: Record) -> Measured:
    """Mean held-out loss over the seeds that stayed finite, by model, and the claimed gaps.

    What more text gives is as `more_text` names it.
    """
    samples = last_losses(record)
    losses = {name: mean_estimate(values) for name, values in samples.items()}
    gaps = {"text-one-layer": mean_estimate(float(record.data.bigram_loss) - samples["layers-1"])}
    not_run: dict[str, str] = {}
    if "layers-2" in samples:
        gaps["text-two-layers"] = difference_estimate(samples["layers-1"], samples["layers-2"])
    else:
        not_run["text-two-layers"] = "model.n_layers=1 is one layer"
    above = mean_estimate(samples["layers-0"] - float(record.data.bigram_loss))
    floors = {name: exact(float(record.data[f"{name}_loss"])) for name in FLOORS}
    found = (
        {f"loss-{name}": loss for name, loss in losses.items()}
        | {f"floor-{name}": loss for name, loss in floors.items()}
        | gaps
        | {"text-zero-layers": above}
        | more_text(record.data, attention_only(record))
    )
    return Measured(over_seeds_only(widened(found, OF_WINDOWS), LEFT_OUT), {}, not_run)


def last_losses(record: Record) -> dict[str, np.ndarray]:
    """Held-out loss of each seed that stayed finite, by model."""
    return {
        str(name): members_where(record.data.sel(model=name))
        .loss_by_position.mean("position")
        .values
        for name in record.data.model.values
    }


def attention_only(record: Record) -> list[str]:
    """The models that were trained for several lengths too."""
    return [str(name) for name in record.data.model.values if str(name) != "full"]
