"""What models of text reached: held-out losses, their gaps, and what more text would give."""

import numpy as np

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.learning_law import LearningLaw, fitted_law
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record

GAPS = ((1, "text-one-layer"), (2, "text-two-layers"))
FLOORS = ("unigram", "bigram", "trigram")


def measure(record: Record) -> Measured:
    """Mean held-out loss over the seeds that stayed finite, by model, and the claimed gaps.

    ``last-doubling-M`` is what training for twice the tokens gained, each length with a schedule of
    its own, in the same seeds; ``limit-M``, ``exponent-M`` and ``next-doubling-M`` are those of the
    law fitted to each seed (`learning_laws`).
    """
    samples = {
        str(name): members_where(record.data.sel(model=name))
        .loss_by_position.mean("position")
        .values
        for name in record.data.model.values
    }
    losses = {name: mean_estimate(values) for name, values in samples.items()}
    gaps: dict[str, Estimate] = {}
    not_run: dict[str, str] = {}
    for n, claim in GAPS:
        if f"layers-{n}" in samples:
            gaps[claim] = difference_estimate(samples[f"layers-{n - 1}"], samples[f"layers-{n}"])
        else:
            not_run[claim] = f"model.n_layers={n - 1} is one layer"
    above = mean_estimate(samples["layers-0"] - float(record.data.bigram_loss))
    floors = {name: exact(float(record.data[f"{name}_loss"])) for name in FLOORS}
    return Measured(
        {f"loss-{name}": loss for name, loss in losses.items()}
        | {f"floor-{name}": loss for name, loss in floors.items()}
        | gaps
        | {"text-zero-layers": above}
        | _more_text(record),
        {},
        not_run,
    )


def attention_only(record: Record) -> list[str]:
    """The models that were trained for several lengths too."""
    return [str(name) for name in record.data.model.values if str(name) != "full"]


def length_losses(record: Record, model: str) -> np.ndarray:
    """Last losses ``[length, seed]`` of the seeds that stayed finite at every length."""
    losses = record.data.length_loss.sel(model=model).transpose("length", "seed").values
    return np.asarray(losses[:, np.isfinite(losses).all(axis=0)])


def learning_laws(record: Record, model: str) -> list[LearningLaw]:
    """The law of each seed; none where there are fewer than three lengths."""
    tokens = record.data.length.values
    if len(tokens) < 3:
        return []
    return [fitted_law(tokens, losses) for losses in length_losses(record, model).T]


def _more_text(record: Record) -> dict[str, Estimate]:
    found = {}
    for name in attention_only(record):
        losses = length_losses(record, name)
        if len(losses) > 1 and losses.size:
            found[f"last-doubling-{name}"] = mean_estimate(losses[1] - losses[0])
        if laws := learning_laws(record, name):
            found[f"limit-{name}"] = mean_estimate(np.array([law.limit for law in laws]))
            found[f"exponent-{name}"] = mean_estimate(np.array([law.exponent for law in laws]))
            doubling = np.array([law.next_doubling for law in laws])
            found[f"next-doubling-{name}"] = mean_estimate(doubling)
    return found
