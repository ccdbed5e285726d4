"""How long is enough on English prose, and what a table of three tokens knows.

training   Held-out loss of models without layers, with one and with two, against the tables of
           one, two and three tokens: along the longest training (a), and at the ends of trainings
           of several lengths with a law through them (b). More text is not needed where b is flat.
           Refuted if the ends still fall at the right of b.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.lengths import ends_by_length, length_axis
from circuitax.figures.marks import legend_above, mean_curve, reference_line
from circuitax.figures.palette import DEPTH_COLOURS
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.record import Record
from experiments.english_lengths.measures import FLOORS, measure

STYLES = dict(zip(FLOORS, ("dotted", "dashed", "solid"), strict=True))


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figure; without the English text, a page that says so."""
    if "missing" in record.notes:
        figure, axes = new_figure(1, 1, height=1.2)
        axes[0, 0].text(0.5, 0.5, f"not at hand: {record.notes['missing']}", ha="center")
        axes[0, 0].set_axis_off()
        return {"training": figure}
    return {"training": training(record)}


def training(record: Record) -> Figure:
    """Losses along training, and at the ends of trainings."""
    data: xr.Dataset = record.data
    figure, axes = new_figure(1, 2, height=3.0)
    left, right = axes[0]
    for name, colour in zip(map(str, data.model.values), DEPTH_COLOURS, strict=False):
        n = name.removeprefix("layers-")
        label = "1 layer" if n == "1" else f"{n} layers"
        values = data.loss.sel(model=name).transpose("step", "seed").values
        alive = np.isfinite(values).all(axis=0)
        tokens = data.tokens.values / 1e6
        mean_curve(left, tokens, values[:, alive], colour, label=label, marker=None)
        ends_by_length(right, data, name, colour)
    for floor, style in STYLES.items():
        line = reference_line(left, y=data[f"{floor}_loss"], style=style)
        line.set_label(f"{floor} table")
        if floor != "unigram":  # far above all that is read there
            reference_line(right, y=data[f"{floor}_loss"], style=style)
    left.set(xlabel="tokens seen, millions", ylabel="held-out loss, nats per token")
    left.set_title("along the longest training")
    left.set_ylim(top=max(float(data.unigram_loss), float(data.loss[:, -1].max())) + 0.3)
    right.set_title("ends of trainings")
    length_axis(right, data)
    letter_panels(axes[0])
    legend_above(figure, left, columns=3, title=message(record), title_fontsize=7)
    return figure


def message(record: Record) -> str:
    """What the last doubling gained, and what the bands are."""
    gains = ", ".join(
        f"{e.value:.3f} ({name.removeprefix('last-doubling-layers-')})"
        for name, e in measure(record).estimates.items()
        if name.startswith("last-doubling-")
    )
    return (
        f"The last doubling of tokens gained, in nats (layers): {gains}.\n"
        f"Bands and bars are 95 % intervals of means over {record.data.sizes['seed']} seeds; "
        "dashed in b: a power law, extrapolated"
    )
