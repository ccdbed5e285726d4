"""The report: figures, viewers and claims in one self-contained HTML file."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from circuitax.records.agreement import WORDS, Here, counts_here
from circuitax.records.claim_sections import anchor
from circuitax.records.claims import ORIGINS, PUBLISHED, VERDICTS, Verdict
from circuitax.records.claims_table import here_text, measured_text, null_text
from circuitax.records.gallery import MARKS, GalleryFigure, GalleryItem, badge, by_chapter
from circuitax.records.papers import Paper

_HERE_COLUMN = '<th scope="col"><button>Here</button></th>'
_HERE_FILTER = '<label>Here <select name="here"><option value="">all</option>{}</select></label>'
_NO_PAPER = ("no paper",)
TEMPLATE = Path(__file__).with_name("report.html")


class Interactive(NamedTuple):
    """Viewers, as parts of the page.

    Attributes:
        sections: HTML of the viewers by experiment.
        titles: Their titles, likewise.
        missing: Why an experiment that has viewers shows none, by experiment.
        script: What draws them.
        style: Their style sheet.
    """

    sections: Mapping[str, Sequence[str]]
    titles: Mapping[str, Sequence[str]]
    missing: Mapping[str, str]
    script: str
    style: str


NONE = Interactive({}, {}, {}, "", "")


def render_report(
    items: Sequence[GalleryItem],
    pictures: Mapping[str, str],
    missing: Sequence[str],
    command: str,
    interactive: Interactive = NONE,
    here: Mapping[str, Here] | None = None,
) -> str:
    """The page as HTML, with its style and its script inside.

    Args:
        items: Runs in any order.
        pictures: The figures as ``data:`` addresses, by their ``png``; a figure that is not among
            them is named with a link.
        missing: Experiments without a run.
        command: Command that makes the page.
        interactive: Viewers; each stands in the section of its experiment.
        here: Claims as they were measured on this machine, by id; they have a column, if any.
    """
    chapters = by_chapter(items)
    ordered = [item for group in chapters.values() for item in group]
    rows = [(verdict, item) for item in ordered for verdict in item.verdicts]
    published = [
        here[verdict.claim.id]
        for verdict, _ in rows
        if here and verdict.claim.id in here and verdict.claim.origin == PUBLISHED
    ]
    filled = {
        "COMMAND": escape(command),
        "MISSING": f"<p>Not run yet: {escape(', '.join(missing))}.</p>" if missing else "",
        "COUNTS": escape(badge([verdict for verdict, _ in rows])),
        "CONTENTS": "".join(
            f"<li><b>{escape(chapter.title)}</b>: "
            + ", ".join(_link(item) for item in group)
            + "</li>"
            for chapter, group in chapters.items()
        ),
        "PAPERS": _options(
            sorted({name for v, _ in rows for name in v.claim.cites or _NO_PAPER}, key=_place)
        ),
        "ORIGINS": _options(
            [name for name in ORIGINS if name in {v.claim.origin for v, _ in rows}]
        ),
        "VERDICTS": _options([name for name in VERDICTS if name in {v.verdict for v, _ in rows}]),
        "EXPERIMENTS": _options([item.experiment for item in ordered]),
        "HERE": _HERE_COLUMN if here else "",
        "WORDS": f"<p>Of the published statements: {counts_here(published)}.</p>" if here else "",
        "AGREEMENTS": _HERE_FILTER.format(_options(WORDS)) if here else "",
        "ROWS": "\n".join(_row(verdict, item, here) for verdict, item in rows),
        "FIGURES": "\n".join(
            f"<h2>{escape(chapter.title)}</h2>\n"
            + "\n".join(
                _section(item, pictures, interactive.sections.get(item.experiment, ()))
                for item in group
            )
            for chapter, group in chapters.items()
        ),
        "VIEWERS": _viewers(interactive),
        "VIEWER-STYLE": interactive.style,
        "VIEWER-SCRIPT": interactive.script,
    }
    page = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"<!--([A-Z-]+)-->", lambda found: filled[found[1]], page)


def _place(title: str) -> tuple[int, str]:
    """Key that orders papers as `Paper` lists them, then those that it does not list, then none."""
    order = [*Paper, *_NO_PAPER]
    return (order.index(title) if title in order else len(Paper)), title


def _options(names: Sequence[str]) -> str:
    return "".join(f"<option>{escape(name)}</option>" for name in names)


def _link(item: GalleryItem) -> str:
    name = escape(item.experiment)
    return f'<a href="#{name}">{name}</a>'


def _viewers(interactive: Interactive) -> str:
    """Links to the viewers, and reasons for missing ones."""
    told = [
        f'<li><a href="#{escape(name)}">{escape(title)}</a></li>'
        for name, titles in interactive.titles.items()
        for title in titles
    ]
    told += [
        f"<li>No viewer of {escape(name)}: {escape(reason)}.</li>"
        for name, reason in interactive.missing.items()
    ]
    return f"<h2>To try</h2>\n<ul>{''.join(told)}</ul>" if told else ""


def _row(verdict: Verdict, item: GalleryItem, here: Mapping[str, Here] | None) -> str:
    claim, estimate = verdict.claim, verdict.estimate
    made = (here or {}).get(claim.id)
    source = escape(claim.source)
    if claim.link:
        source = f'<a href="{escape(claim.link)}">{source}</a>'
    facts = {
        "Printed": claim.printed,
        "Why this tolerance": claim.why,
        "Selection": claim.selection,
        "Reason": verdict.reason,
        "Interval": "" if estimate is None else estimate.method,
        "Null": "" if claim.null is None else f"{claim.null.kind}: {claim.null.how}",
    }
    more = "".join(
        f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items() if text
    )
    kinds = {
        "paper": "\n".join(claim.cites or _NO_PAPER),
        "origin": claim.origin,
        "verdict": verdict.verdict,
        "experiment": item.experiment,
        "here": made.word if made else "",
    }
    data = " ".join(f'data-{name}="{escape(text)}"' for name, text in kinds.items())
    cells = (
        f"{escape(claim.statement)}<details><summary>{escape(claim.id)}</summary>"
        f"<dl>{more}</dl></details>",
        source,
        escape(claim.origin),
        escape(claim.expected.text),
        escape(measured_text(estimate)),
        escape(null_text(verdict)),
        "-" if estimate is None else str(estimate.n),
        f'<b class="verdict">{MARKS[verdict.verdict]} {verdict.verdict}</b>',
        _link(item),
        *([escape(here_text(made) if made else "-")] if here else []),
    )
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr id="{escape(anchor(claim.id))}" {data}>{body}</tr>'


def _section(item: GalleryItem, pictures: Mapping[str, str], viewers: Sequence[str]) -> str:
    name = escape(item.experiment)
    parts = [f'<section id="{name}"><h3>{name}</h3><p>{escape(item.message)}</p>']
    if item.verdicts:
        shown = escape(badge(item.verdicts))
        parts.append(f'<p><a href="#claims?experiment={name}">Claims: {shown}</a></p>')
    parts += viewers
    parts += [_figure(figure, pictures) for figure in item.figures]
    parts.append(
        f"<p><code>{escape(item.command)}</code> · {escape(item.scale)} scale · "
        f"{item.seconds:.0f} s{' · ' if item.origin else ''}{escape(item.origin)} · "
        f'<a href="{escape(item.link)}">run</a></p></section>'
    )
    return "\n".join(parts)


def _figure(figure: GalleryFigure, pictures: Mapping[str, str]) -> str:
    if figure.png in pictures:
        shown = f'<img loading="lazy" src="{pictures[figure.png]}" alt="{escape(figure.alt)}">'
    else:
        shown = f'<a href="{escape(figure.png)}">{escape(figure.alt)}</a>'
    more = f' <a href="{escape(figure.pdf)}">PDF</a>' if figure.pdf else ""
    if figure.here:
        more += f' <a href="{escape(figure.here)}">The same figure, computed here</a>'
    return (
        f"<figure>{shown}<figcaption><b>{escape(figure.message)}</b> {escape(figure.caption)} "
        f"<i>{escape(figure.refuted)}</i>{more}</figcaption></figure>"
    )
