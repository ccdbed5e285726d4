"""The induction circuit on real text: the framework paper's two-layer figures, over seeds.

composition   As for random sequences. Refuted if the marked pair is not the brightest of its K
              panel.
patterns      What both heads attend to on random tokens, repeated, which they were not trained on.
              Refuted without stripes.
eigenvalues   Refuted if induction heads after training lie where they lay before.
repeats       Where a pair of tokens comes again: where heads look, and what they add to the right
              logit, on text and on random tokens. Refuted if layer 0 looks there too.
terms         Refuted if virtual heads take off more loss than single ones.
distance      Refuted if no head of layer 0 peaks one token back.
"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.head_panels import composition, eigenvalues, patterns
from circuitax.figures.style import BLUE, GREY, ORANGE, letter_panels, new_figure, styled
from circuitax.figures.term_panels import distance, terms
from circuitax.records.record import Record

PANELS = {
    "top_is_match": ("looks most at the match", "share of places"),
    "stripes": ("value-weighted attention there", "share"),
    "raises": ("added to the right logit", "logits over the mean token"),
}


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The six figures of the experiment."""
    data = record.data
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    return {
        "composition": composition(data),
        "patterns": patterns(data),
        "eigenvalues": eigenvalues(data),
        "repeats": repeats(alive),
        "terms": terms(alive),
        "distance": distance(alive),
    }


def repeats(data: xr.Dataset) -> Figure:
    """Attention, value-weighted attention and logit effect at repeated pairs, a dot a head."""
    figure, axes = new_figure(1, 3, height=2.4)
    places = np.linspace(-0.25, 0.25, data.sizes["member"])[:, None]
    for ax, (name, (title, label)) in zip(axes[0], PANELS.items(), strict=True):
        for column, where in enumerate(data["where"].values):
            for layer, (colour, marker) in enumerate(((BLUE, "s"), (ORANGE, "o"))):
                part = data[name].sel(where=where).isel(layer=layer)
                values = part.transpose("member", "head").values
                at = np.broadcast_to(column + places, values.shape)
                ax.plot(at.ravel(), values.ravel(), marker, color=colour, markersize=3, alpha=0.7,
                        label=f"layer {layer}" if column == 0 else None)  # fmt: skip
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.set(title=title, ylabel=label, xlim=(-0.5, 1.5), xticks=(0, 1),
               xticklabels=("on text", "random tokens"))  # fmt: skip
    for ax in axes[0, :2]:
        ax.set_ylim(-0.03, 1.03)
    axes[0, 2].legend()
    letter_panels(axes[0])
    return figure
