"""Pages from the files of ``templates/``: Markdown as it is given, HTML with every text escaped."""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from circuitax.records import chapters

_PAGES = Environment(
    loader=PackageLoader("circuitax.records"),
    autoescape=select_autoescape(["html.jinja"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def cell(text: object) -> str:
    """A text on one line in which no bar ends the cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


_PAGES.globals |= {"GALLERY": chapters.GALLERY, "chapter_of": chapters.chapter_of}
_PAGES.filters["cell"] = cell


def lend(marks: Mapping[str, str], filters: Mapping[str, Callable[..., str]]) -> None:
    """Marks and texts of rows, which `circuitax.records.ledger` lends to every page."""
    _PAGES.globals["MARKS"] = marks
    _PAGES.filters |= filters


def render(template: str, **values: Any) -> str:
    """The text of a page: a file of ``templates/`` without ``.jinja``, and the values it uses."""
    return _PAGES.get_template(f"{template}.jinja").render(values)
