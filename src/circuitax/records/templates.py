"""Pages from the files of ``templates/``: Markdown as it is given, HTML with every text escaped."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from circuitax.records import chapters


@cache
def _pages() -> Environment:
    from circuitax.records import ledger

    pages = Environment(
        loader=PackageLoader("circuitax.records"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.globals |= {
        "GALLERY": chapters.GALLERY,
        "MARKS": ledger.MARKS,
        "chapter_of": chapters.chapter_of,
    }
    pages.filters |= {
        "cell": cell,
        "control": ledger.control_text,
        "counts": ledger.counts_text,
        "ours": ledger.ours_text,
        "printed": ledger.printed_text,
        "quantity": ledger.quantity_text,
    }
    return pages


def cell(text: object) -> str:
    """A text on one line in which no bar ends the cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def render(template: str, **values: Any) -> str:
    """The text of a page: a file of ``templates/`` without ``.jinja``, and the values it uses."""
    return _pages().get_template(f"{template}.jinja").render(values)
