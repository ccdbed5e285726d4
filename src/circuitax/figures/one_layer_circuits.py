"""One layer on real text: what heads copy, where they look, and which skip-trigrams they hold.

trigrams     The table of one head: sources, who looks at them, what they raise. Top entries by
             rule, raises as colour.
eigenvalues  OV eigenvalues of all heads and seeds in the complex plane, before and after training.
             Refuted if the trained ones do not lean to the right.
scores       Copying scores of heads, their preference for offsets, and what sums of skip-trigrams
             cannot do.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import Record


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The three figures of the experiment."""
    data = record.data
    return {
        "trigrams": trigrams(data),
        "eigenvalues": eigenvalues(data),
        "scores": scores(data),
    }


def trigrams(data: xr.Dataset) -> Figure:
    """S0 Table 1 for the head of largest top weight in the first seed; colour is the raise."""
    head = int(data.weight.isel(row=0).argmax("head"))
    table = data.isel(head=head)
    names = [_shown(str(name)) for name in data.token.values]
    n_rows, n_entries = table.sizes["row"], table.sizes["entry"]
    figure, axes = new_figure(1, 1, height=0.6 + 0.24 * n_rows)
    ax = axes[0, 0]
    raises = table.raises.values
    ax.imshow(raises, cmap="Oranges", vmin=0, vmax=raises.max() * 1.6, aspect="auto",
              extent=(n_entries + 1, 2 * n_entries + 1, n_rows, 0))  # fmt: skip
    looks = table.scores.values
    ax.imshow(looks, cmap="Blues", vmin=0, vmax=looks.max() * 1.6, aspect="auto",
              extent=(1, n_entries + 1, n_rows, 0))  # fmt: skip
    for row in range(n_rows):
        _cell(ax, 0.5, row, names[int(table.sources[row])], weight="bold")
        for entry in range(n_entries):
            _cell(ax, 1.5 + entry, row, names[int(table.destinations[row, entry])])
            _cell(ax, n_entries + 1.5 + entry, row, names[int(table.outs[row, entry])])
    ax.set(xlim=(0, 2 * n_entries + 1), ylim=(n_rows, 0), yticks=[])
    ax.set_xticks([0.5, 1 + n_entries / 2, 1 + 1.5 * n_entries],
                  ["source", "… destination", "→ out"])  # fmt: skip
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    ax.set_title(f"head 0.{head}: sources of largest score times raise", pad=18)
    for x in (1, n_entries + 1):
        ax.axvline(x, color="white", linewidth=2)
    for side in ax.spines.values():
        side.set_visible(False)
    return figure


def eigenvalues(data: xr.Dataset) -> Figure:
    """Angle and size of every eigenvalue, size on a logarithmic radius."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figure = Figure(figsize=(6.75, 3.2))
    for i, (suffix, title) in enumerate((("_at_init", "before training"), ("", "after"))):
        ax = figure.add_subplot(1, 2, i + 1, projection="polar")
        both = alive[f"eigenvalues{suffix}"].values
        half = both.shape[-1] // 2
        values = (both[..., :half] + 1j * both[..., half:]).ravel()
        radius = np.log10(np.maximum(np.abs(values), 1e-12) / np.abs(values).max()) + 3
        ax.scatter(np.angle(values), np.maximum(radius, 0), s=3, color=BLUE, alpha=0.35,
                   linewidths=0)  # fmt: skip
        mean = float(alive[f"copying{suffix}"].mean())
        ax.set(title=f"{title}: mean score {mean:.2f}", ylim=(0, 3.05), yticks=[1, 2, 3],
               yticklabels=["1 %", "10 %", "largest"])  # fmt: skip
        ax.set_xticks(np.pi * np.arange(4) / 2, ["0", "π/2", "π", "3π/2"])
        ax.tick_params(labelsize=6)
    return figure


def scores(data: xr.Dataset) -> Figure:
    """Histogram of copying scores, scores by offset, and P(out) on "a unless b"."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figure, axes = new_figure(1, 3, height=2.4)
    copying, offsets, unless = axes[0]
    bins = np.linspace(-1, 1, 21)
    copying.hist(alive.copying_at_init.values.ravel(), bins, color=GREY, label="before")
    copying.hist(alive.copying.values.ravel(), bins, color=BLUE, alpha=0.8, label="after")
    copying.set(xlabel="OV eigenvalue score", ylabel="heads, all seeds", xlim=(-1, 1))
    copying.legend()
    rows = alive.position_scores.values.reshape(-1, alive.sizes["offset"])
    offsets.plot(rows.T, color=BLUE, linewidth=0.5, alpha=0.6)
    offsets.axhline(0, color=BLACK, linewidth=0.5)
    offsets.set(xlabel="tokens back", ylabel="positional score", title="each head of each seed")
    _unless(unless, data)
    letter_panels(axes[0])
    return figure


def _unless(ax: Axes, data: xr.Dataset) -> None:
    chosen = data.learned if bool(data.learned.any()) else data.gap_alive
    runs = data.isel(run=np.flatnonzero(chosen.values))
    estimates = [mean_estimate(column) for column in runs.p_out.transpose("run", "cell").values.T]
    spread = np.array([[e.value - e.low, e.high - e.value] for e in estimates]).T
    x = np.arange(4)
    ax.bar(x, [e.value for e in estimates], 0.6, color=ORANGE,
           yerr=np.where(np.isfinite(spread), spread, 0), error_kw={"linewidth": 0.8})  # fmt: skip
    ax.axhline(0.5, color=BLACK, linewidth=0.6, linestyle=":")
    gap = float(runs.gap.mean())
    ax.set(xticks=x, xticklabels=["neither", "a", "b", "both"], ylim=(0, 1), ylabel="P(out)",
           title=f"best sum: {gap:+.3f} nats")  # fmt: skip


def _cell(ax: Axes, x: float, row: int, text: str, weight: str = "normal") -> None:
    ax.text(x, row + 0.5, text, ha="center", va="center", fontsize=6.5, family="monospace",
            weight=weight)  # fmt: skip


def _shown(name: str) -> str:
    """A token as a reader can tell it: spaces and breaks made visible, long ones cut."""
    shown = name.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥").replace("$", r"\$")
    printable = "".join(c if c.isprintable() else "·" for c in shown)
    return printable if len(printable) <= 9 else printable[:8] + "…"
