"""Pages from the files of ``templates/``: Markdown as it is given, HTML with every text escaped."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from circuitax.records import agreement, chapters, claim_sections, claim_texts, claims

# Verdicts and origins by name, which templates compare with.
_CONSTANTS = ("HOLDS", "FAILS", "UNDECIDED", "WOULD_HOLD", "ABSENT", "NOT_RUN", "VERDICTS")
_PAGES = Environment(
    loader=PackageLoader("circuitax.records"),
    autoescape=select_autoescape(["html.jinja"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_PAGES.globals |= {name: getattr(claims, name) for name in _CONSTANTS}
_PAGES.globals |= {
    "AGREES": agreement.AGREES,
    "CLAIMS": chapters.CLAIMS,
    "GALLERY": chapters.GALLERY,
    "MARKS": claim_texts.MARKS,
    "chapter_of": chapters.chapter_of,
    "facts": claim_texts.facts,
}
_PAGES.filters |= {
    "address": claim_sections.address,
    "anchor": claim_sections.anchor,
    "slug": claim_sections.slug,
    "badge": claim_texts.badge,
    "cause": claim_texts.cause,
    "cell": claim_texts.cell,
    "counts": claim_texts.counts_text,
    "here": claim_texts.here_text,
    "measured": claim_texts.measured_text,
    "null": claim_texts.null_text,
    "sentence": claim_texts.sentence,
}


def render(template: str, **values: Any) -> str:
    """The text of a page.

    Args:
        template: File name in ``templates/``, without ``.jinja``.
        **values: Values by the names that the template uses.

    Raises:
        jinja2.UndefinedError: If the template uses a name that has no value.
    """
    return _PAGES.get_template(f"{template}.jinja").render(values)
