"""Declared figures of an experiment: name, message, caption, and possible refutation."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from matplotlib.figure import Figure

from circuitax.figures.style import styled
from circuitax.records.record import Record


def _always(record: Record) -> bool:
    return True


@dataclass(frozen=True)
class FigureSpec:
    """One figure of an experiment; ``FIGURES`` of its ``figure.py`` lists them, the main one first.

    Attributes:
        name: Name of its file, and of its place in the gallery.
        draw: Draws it from a record; the first paragraph of its docstring describes the picture to
            those who do not see it.
        message: One sentence: its title.
        caption: What else a reader must know; may be empty.
        refuted: Sentences that say what would refute the message; may be empty.
        where: Whether a record has what is drawn.
        flagship: Whether it opens the gallery.
    """

    name: str
    draw: Callable[[Record], Figure]
    message: str
    caption: str = ""
    refuted: str = ""
    where: Callable[[Record], bool] = _always
    flagship: bool = False

    @property
    def drawn(self) -> str:
        """The first paragraph of the docstring of ``draw``, in one line."""
        return " ".join((inspect.getdoc(self.draw) or "").split("\n\n")[0].split())


@styled
def draw_all(figures: Iterable[FigureSpec], record: Record) -> dict[str, Figure]:
    """Pictures by name, of the figures whose data the record has."""
    return {figure.name: figure.draw(record) for figure in figures if figure.where(record)}
