"""The ledger's pages: what was reproduced, what was not, and how sure; a table for each paper.

Pages are files of ``templates/``: Markdown as it is given, HTML with every text escaped.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from circuitax.records.estimate import Estimate
from circuitax.records.rows import Agreement, SettledQuantity, SettledRow, count_words
from circuitax.records.rule import (
    NOT_REPRODUCED,
    NOT_TESTED,
    NUMBER,
    PARTLY,
    RELATION,
    REPRODUCED,
    WORDS,
)
from circuitax.records.table import CORRECTION, GALLERY, OURS, THEOREM, chapter_of

# A mark for each word, so that no reader depends on colour.
MARKS = {REPRODUCED: "✔", PARTLY: "◐", NOT_REPRODUCED: "✘", NOT_TESTED: "–", "": "·"}
# A source as far as its year, or else as far as its first comma or section.
_AUTHORS = re.compile(r".*?\b(?:19|20)\d\d\b|.*?(?=,| \(|$)")
# Disagreements that the summary tells, those with most to say first.
MOST_TOLD = 10


class Page(NamedTuple):
    """A page of rows: whose they are, its file, and its title."""

    paper: str
    file: str
    title: str


PAGES = (
    Page("framework", "framework.md", "A Mathematical Framework for Transformer Circuits"),
    Page("induction", "induction-heads.md", "In-context Learning and Induction Heads"),
    Page("toy_models", "toy-models.md", "Toy Models of Superposition"),
    Page("other", "others.md", "Other papers"),
    Page(CORRECTION, "corrections-and-theorems.md", "Corrections of the papers"),
    Page(THEOREM, "corrections-and-theorems.md", "Theorems and identities"),
    Page(OURS, "ours.md", "Numbers of our own"),
)


class LedgerRow(NamedTuple):
    """A settled row and where to see it; addresses are relative to ``results/``.

    Attributes:
        settled: The row with its word.
        experiment: Name of its experiment.
        title: The experiment's name for people.
        figure: Address of the figure.
        here: The row as this machine settled it, beside an accepted run.
    """

    settled: SettledRow
    experiment: str
    title: str
    figure: str
    here: Agreement | None = None


def headline(rows: Sequence[SettledRow]) -> str:
    """The one sentence on how the published results fared."""
    words = count_words(rows)
    total = sum(words.values())
    counted = [settled.row for settled in rows if settled.row.published and settled.word]
    revised = sum(row.revised for row in counted)
    moved = sum(bool(row.before) for row in counted)
    places = len({(row.paper, row.place or row.source) for row in counted})
    a, b, c, d = (words.get(word, 0) for word in WORDS)
    return (
        f"Of {total} published results, from {places} figures and sections of the papers, {a} are "
        f"reproduced, {b} partly, {c} not; {d} could not be tested here. These are small models on "
        f"two cores; the criteria of {revised} were refined after first results, and git has the "
        "record." + f" Other root keys gave another word to {moved} of them." * (moved > 0)
    )


def render_ledger(rows: Sequence[LedgerRow], command: str) -> dict[str, str]:
    """``CLAIMS.md`` and the pages of ``claims/`` as Markdown, by file name below ``results/``.

    Raises:
        ValueError: If two rows, or two quantities, have one id.
    """
    _check_unique([each.settled.row.id for each in rows])
    _check_unique([q.quantity.id for each in rows for q in each.settled.quantities])
    placed = sorted(rows, key=lambda row: _place(row.settled.row.place))
    by_page = [(page, [r for r in placed if r.settled.row.paper == page.paper]) for page in PAGES]
    told = [r for r in rows if r.settled.row.think and r.settled.row.published]
    told = [r for r in told if r.settled.word in (NOT_REPRODUCED, PARTLY)]
    told.sort(key=lambda r: (r.settled.word != NOT_REPRODUCED, -len(r.settled.row.think)))
    values = {"command": command, "headline": headline([r.settled for r in rows])}
    published = [
        (page, _by_place(own)) for page, own in by_page if own and own[0].settled.row.published
    ]
    found = {"CLAIMS.md": render("CLAIMS.md", pages=published, told=told[:MOST_TOLD], **values)}
    for file in dict.fromkeys(page.file for page in PAGES):
        sections = [(page, own) for page, own in by_page if page.file == file and own]
        if sections:
            found[f"claims/{file}"] = render("paper.md", sections=sections, **values)
    return found


def _by_place(rows: Sequence[LedgerRow]) -> dict[str, list[LedgerRow]]:
    """Rows by the figure or section they are from; those of other papers by author and year."""
    found: dict[str, list[LedgerRow]] = {}
    for each in rows:
        row = each.settled.row
        whence = _AUTHORS.match(row.source) if row.paper == "other" else None
        found.setdefault(whence.group() if whence else row.place, []).append(each)
    return found


def estimate_text(x: Estimate | None) -> str:
    """Ours: ``"0.752 [0.741, 0.763], n = 40"``, or ``"43 of 96"`` for a proportion."""
    if x is None:
        return "–"
    if x.method.startswith("proportion"):
        return f"{round(x.value * x.n)} of {x.n}"
    if x.low == x.high == x.value:
        return f"{x.value:.4g}"
    return f"{x.value:.3g} [{x.low:.3g}, {x.high:.3g}], n = {x.n}"


def ours_text(settled: SettledRow) -> str:
    """The main quantity of a row, which is its first."""
    if not settled.quantities:
        return "–"
    return estimate_text(settled.quantities[0].estimate)


def control_text(settled: SettledQuantity) -> str:
    """What the control is and gives; of fewer than 20 draws the range."""
    text, gives = settled.quantity.control, settled.control
    if text is None:
        return "–"
    if gives is None:
        return text.words
    if gives.low == gives.high:
        return f"{text.words}: {gives.median:.3g}"
    return f"{text.words}: {gives.median:.3g} [{gives.low:.3g}, {gives.high:.3g}]"


def printed_text(settled: SettledQuantity) -> str:
    """What the paper prints of a quantity, by its rule."""
    q = settled.quantity
    if q.rule == RELATION:
        return f"{q.side} {'the control' if q.than is None else format(q.than, 'g')}"
    if q.rule == NUMBER and q.spread:
        return f"{q.printed} ± {q.spread:g}"
    return "one network" if q.printed is None and q.rule == "network" else str(q.printed or "–")


def row_lines(found: Sequence[SettledRow]) -> list[str]:
    """A line for each row for a terminal, those that disagree first; one for all not tested."""
    order = [NOT_REPRODUCED, PARTLY, REPRODUCED, ""]
    untold = [row for row in found if row.word == NOT_TESTED or ours_text(row) == "–"]
    told = sorted(
        (row for row in found if row not in untold), key=lambda row: order.index(row.word)
    )
    lines = [
        f"{MARKS[settled.word]} {settled.word or 'ours'}: {settled.row.says} {ours_text(settled)}"
        for settled in told
    ]
    if untold:
        whys = Counter(
            row.why or next((each.why for each in row.quantities if each.why), "no number")
            for row in untold
        )
        reasons = "; ".join(f"{why} ({n})" for why, n in whys.most_common())
        lines.append(f"{MARKS[NOT_TESTED]} {len(untold)} rows {NOT_TESTED}: {reasons}")
    return lines


def counts_text(found: Sequence[SettledRow]) -> str:
    """``"3 reproduced, 1 partly"``, of published rows."""
    words = count_words(found)
    return ", ".join(f"{words[word]} {word}" for word in WORDS if word in words)


def _place(text: str) -> tuple[bool, list[float]]:
    """Key that orders figures and sections as a paper has them; what has no place comes last."""
    return not text, [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def _check_unique(ids: Sequence[str]) -> None:
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"ids {twice} are used twice, each must be unique over all experiments")


def cell(text: object) -> str:
    """A text on one line in which no bar ends the cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


_PAGES = Environment(
    loader=PackageLoader("circuitax.records"),
    autoescape=select_autoescape(["html.jinja"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_PAGES.globals |= {"GALLERY": GALLERY, "MARKS": MARKS, "chapter_of": chapter_of}
_PAGES.filters |= {
    "cell": cell,
    "control": control_text,
    "counts": counts_text,
    "estimate": estimate_text,
    "ours": ours_text,
    "printed": printed_text,
}


def render(template: str, **values: Any) -> str:
    """The text of a page: a file of ``templates/`` without ``.jinja``, and the values it uses."""
    return _PAGES.get_template(f"{template}.jinja").render(values)
