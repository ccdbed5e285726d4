"""The walk's path."""

from matplotlib.figure import Figure

from circuitax.records.record import Record


def draw(record: Record) -> dict[str, Figure]:
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot(record.data["position"].mean("member").values)
    return {"path": figure}
