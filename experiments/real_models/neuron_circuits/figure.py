"""Leads that circuits of neurons and heads keep, by their size and by what chose them."""

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import reference_line, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits.measures import KEPT, fewest, kept_shares, rights
from experiments.real_models.shared.model_facts import model_read

COLOURS = {
    "paths": BLUE,
    "RelP": ORANGE,
    "gradient": GREEN,
    "direct effect": PINK,
    "random": GREY,
}


def circuits(record: Record) -> Figure:
    """Share of the lead that is kept, by number of nodes, for each task."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    tasks, parts = [str(task) for task in data.task.values], [str(p) for p in data.part.values]
    figure, axes = new_figure(len(parts), len(tasks), height=4.2)
    for row, part in zip(axes, parts, strict=True):
        for panel, task in zip(row, tasks, strict=True):
            zero_line(panel)
            reference_line(panel, y=KEPT)
            for method in map(str, data.chosen_by.values):
                if rights(data, task).any():
                    shares = kept_shares(data, task, part, method).mean(axis=1)
                    colour = COLOURS[method]
                    panel.plot(data["size"], shares, ".-", color=colour, markersize=4)
            panel.set(xscale="log", ylim=(-0.3, 1.3), title=task)
            panel.set(xlabel=f"{part} kept")
        row[0].set(ylabel="share of the lead kept")
    lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    axes[0][0].legend(handles=lines, fontsize=6)
    letter_panels([panel for row in axes for panel in row])
    numbers = [int(rights(data, task).sum()) for task in tasks]
    sample_note(figure, "sentences: " + ", ".join(map(str, numbers)) + "; dotted: 80 %")
    if numbers[0] > 1:
        found = fewest(record, tasks[0], parts[0], "RelP").value
        headline(
            figure,
            f"{what}: {found:.0f} of {record.notes['n_neurons']} neurons, chosen by RelP, keep "
            "80 % of agreement",
        )
    return figure


FIGURES = (
    FigureSpec(
        "circuits",
        circuits,
        message="Neurons and heads that keep a task when all others are set to their means: how "
        "many it takes depends on what chooses them.",
        caption="Above heads are untouched, and neurons alone are counted; below both are.",
        refuted="Refuted if the curves lie on that of chance.",
    ),
)
