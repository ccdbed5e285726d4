"""``claims.toml``: what an experiment is called, needs, draws and states; read and checked.

Chapters have one order in folders, pages and commands.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from circuitax.names import nearest
from circuitax.records.rule import COMPARISON, NETWORK, NUMBER, RELATION, RULES

# Folders of generated pages, which stand beside those of the experiments' runs.
GALLERY, CLAIMS = "gallery", "claims"


class Chapter(NamedTuple):
    """A chapter.

    Attributes:
        name: Name of its folder below ``experiments/``; empty for experiments that are in none.
        title: How pages call it.
        about: What it is about, one or two sentences.
    """

    name: str
    title: str
    about: str

    @property
    def page(self) -> str:
        """File name of its page in the gallery."""
        return f"{self.name or 'further'}.md"


CHAPTERS = (
    Chapter(
        "paths",
        "The algebra of paths",
        "An attention-only transformer is a sum of paths. What that identity gives, how far it "
        "carries, and what it costs.",
    ),
    Chapter(
        "one_layer",
        "No layer and one layer",
        "Without layers a model is a table of bigrams; one layer adds skip-trigrams.",
    ),
    Chapter(
        "induction",
        "Two layers and induction",
        "Heads that read what earlier heads wrote: an earlier text is found and continued.",
    ),
    Chapter(
        "superposition",
        "Superposition and geometry",
        "A network keeps more features than it has dimensions when they are rare, and arranges "
        "them as polytopes.",
    ),
    Chapter(
        "directions",
        "Almost orthogonal directions",
        "How many nearly orthogonal directions a space has room for: the theorems of Johnson and "
        "Lindenstrauss, what random maps do, and what models use.",
    ),
    Chapter("real_models", "Real models", "The same questions to published weights."),
    Chapter("", "Further experiments", "Experiments in a folder of no chapter."),
)
CHAPTER_NAMES = tuple(chapter.name for chapter in CHAPTERS)


def chapter_of(name: str) -> Chapter:
    """The chapter of a name; for an unknown name the last one, which has no folder."""
    return next((chapter for chapter in CHAPTERS if chapter.name == name), CHAPTERS[-1])


# Who says a row: a paper, or nobody else.
PAPERS = ("framework", "induction", "toy_models", "other")
CORRECTION, THEOREM, OURS = "correction", "theorem", "ours"
ORIGINS = (*PAPERS, CORRECTION, THEOREM, OURS)
SCALES = ("quick", "evening", "paper")
N_DRAWS = 40
# What a row says once for all its quantities that do not say otherwise.
SHARED = ("measure", "rule", "side", "than", "control")

T = TypeVar("T")


@dataclass(frozen=True)
class ControlText:
    """One control: ``is`` in words, and one of the ways in which it is made.

    Attributes:
        words: What it is, such as ``"the same heads at the start of training"`` (``is`` in TOML).
        value: A number.
        measure: Another reading of the same record, with ``at``.
        at: Arguments of that reading.
        world: Name of an altered record: of `worlds.GENERIC`, or in ``WORLDS`` of the readings.
        arguments: Arguments of a generic world, its other keys in TOML.
        draws: Draws of a world that varies.
    """

    words: str
    value: float | int | None = None
    measure: str = ""
    at: Mapping[str, Any] = field(default_factory=dict)
    world: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    draws: int = N_DRAWS


@dataclass(frozen=True)
class Quantity:
    """One measured number behind a row.

    Attributes:
        id: Unique over all experiments, such as ``"T3-gaps"``.
        says: What is measured, with its unit.
        measure: Function of the readings that takes it.
        at: Arguments of that function.
        rule: ``"number"``, ``"relation"``, ``"network"`` or ``"comparison"``.
        printed: The number that is printed: a number, or text such as ``"0.750"``, whose last digit
            says how precise it is.
        spread: The spread that is printed with it.
        side: ``"above"`` or ``"below"``, of a relation.
        than: The limit that is printed; 0 where two arms are compared.
        control: Its control.
        note: What else a reader must know.
    """

    id: str
    says: str
    measure: str
    rule: str
    at: Mapping[str, Any] = field(default_factory=dict)
    printed: float | int | str | None = None
    spread: float | int = 0.0
    side: str = ""
    than: float | int | None = None
    control: ControlText | None = None
    note: str = ""

    @property
    def number(self) -> float:
        """The printed number."""
        return float(cast("float", self.printed))

    @property
    def precision(self) -> float:
        """The printed spread, or one unit of the last digit that is printed."""
        if self.spread or not isinstance(self.printed, str):
            return float(self.spread)
        mantissa, _, exponent = self.printed.lower().partition("e")
        digits = len(mantissa.partition(".")[2])
        return float(10.0 ** (int(exponent or 0) - digits))


@dataclass(frozen=True)
class Row:
    """One result: a plain sentence, who says it where, and the quantities behind it.

    Attributes:
        id: Short name, unique over all experiments.
        says: The sentence, at most 25 words.
        paper: One of `ORIGINS`.
        place: Figure or section, such as ``"T3"`` (docs/coverage.md) or ``"section 4"``.
        printed: What the source prints, in its words or ours.
        source: Which other paper, for ``"other"``; with its section.
        link: Its address.
        figure: The figure that shows it.
        think: What we think where ours disagrees.
        absent: Why it is not tested here, whatever the record has: weights that are not at hand.
        revised: Whether measure, selection or limit changed after its first result was seen.
        before: Its word with the root keys before release 0.2, where that was another.
        quantities: One to six.
    """

    id: str
    says: str
    paper: str
    quantities: tuple[Quantity, ...]
    place: str = ""
    printed: str = ""
    source: str = ""
    link: str = ""
    figure: str = ""
    think: str = ""
    absent: str = ""
    revised: bool = False
    before: str = ""

    @property
    def published(self) -> bool:
        """Whether a paper says so, and the row is counted."""
        return self.paper in PAPERS


@dataclass(frozen=True)
class FigureText:
    """One figure of an experiment; the first is the main one.

    Attributes:
        name: Name of its file.
        title: One sentence that can be read aloud.
        draw: Function of the readings that draws it from the data; its name when empty.
        caption: What else a reader must know.
        refuted: What would refute the title.
        needs: Variables or dimensions without which it is not drawn.
        flagship: Whether it opens the gallery.
        of_sweep: Whether it is drawn from a collected sweep, and not from one run.
    """

    name: str
    title: str
    draw: str = ""
    caption: str = ""
    refuted: str = ""
    needs: tuple[str, ...] = ()
    flagship: bool = False
    of_sweep: bool = False


@dataclass(frozen=True)
class Table:
    """All of one experiment's ``claims.toml``.

    Attributes:
        title: Its name for people, such as ``"Five features in two dimensions"``.
        message: One sentence: what it shows.
        place: Orders the experiments of a chapter.
        requires: Experiments whose results it reads.
        seconds: Expected seconds on two cores, by scale.
        needs_packages: Distributions without one of which it has nothing to read.
        alone: Whether it measures time, so that nothing else may run beside it.
        variables: Long name and unit, ``"loss of a network [nats]"``, by variable of the record.
        figures: In the order of the gallery.
        rows: In the order of the page.
    """

    title: str
    message: str
    place: int = 1000
    requires: tuple[str, ...] = ()
    seconds: Mapping[str, float | int] = field(default_factory=dict)
    needs_packages: tuple[str, ...] = ()
    alone: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[FigureText, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Of all rows."""
        return tuple(quantity for row in self.rows for quantity in row.quantities)


def read_table(path: Path) -> Table:
    """The table of a file.

    Raises:
        ValueError: If the file is no TOML, a key is unknown or missing, or a row cannot be judged;
            the message names the file and the row.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        figures = tuple(_made(FigureText, item, "figure") for item in found.pop("figure", []))
        rows = tuple(_row(item) for item in found.pop("row", []))
        table = _made(Table, {**found, "figures": figures, "rows": rows}, "table")
        _check(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return table


def _row(item: dict[str, Any]) -> Row:
    item = dict(item)
    shared = {name: item.pop(name) for name in SHARED if name in item}
    quantities = []
    for each in item.pop("quantity", []):
        each = {**shared, **each}
        control = each.pop("control", None)
        each["control"] = None if control is None else _control(control)
        quantities.append(_made(Quantity, each, f"quantity {each.get('id', '')!r}"))
    return _made(Row, {**item, "quantities": tuple(quantities)}, f"row {item.get('id', '')!r}")


def _control(item: Mapping[str, Any]) -> ControlText:
    item = dict(item)
    own = {name: item.pop(name) for name in ("value", "measure", "at", "draws") if name in item}
    words, world = item.pop("is", ""), item.pop("world", "")
    if not words:
        raise ValueError(f"control {item or own} must say what it is: is = '…'")
    if item and not world:
        raise ValueError(f"control {words!r} has unknown keys {sorted(item)}")
    if [("value" in own), ("measure" in own), bool(world)].count(True) != 1:
        raise ValueError(f"control {words!r} must have one of value, measure, world")
    return ControlText(words, world=world, arguments=item, **{"at": {}, **own})


def _made(kind: type[T], item: Mapping[str, Any], what: str) -> T:
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for key in item:
        if key not in known:
            raise ValueError(f"{what} has the unknown key {key!r}{nearest(key, known)}")
    values = {key: tuple(each) if isinstance(each, list) else each for key, each in item.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{what} lacks a key: {error}") from error


def _check(table: Table) -> None:
    figures = {figure.name for figure in table.figures}
    for row in table.rows:
        if row.paper not in ORIGINS:
            raise ValueError(f"paper={row.paper!r} of row {row.id!r} must be one of {ORIGINS}")
        if len(row.says.split()) > 25:
            raise ValueError(
                f"says of row {row.id!r} has {len(row.says.split())} words, at most 25"
            )
        if not row.quantities and not row.absent:
            raise ValueError(f"row {row.id!r} must have a quantity, or say why it is absent")
        if row.figure and row.figure not in figures:
            raise ValueError(f"figure={row.figure!r} of row {row.id!r} must be one of {figures}")
        for quantity in row.quantities:
            _check_quantity(row, quantity)


def _check_quantity(row: Row, quantity: Quantity) -> None:
    name = f"quantity {quantity.id!r}"
    if quantity.rule not in RULES:
        raise ValueError(f"rule={quantity.rule!r} of {name} must be one of {RULES}")
    if quantity.rule == NUMBER and quantity.printed is None:
        raise ValueError(f"{name} must have the printed number")
    if quantity.rule == NUMBER and not (quantity.number or quantity.precision):
        raise ValueError(f"{name} prints 0, and must have a spread or be a relation")
    if quantity.rule == RELATION:
        if quantity.side not in ("above", "below"):
            raise ValueError(f"side={quantity.side!r} of {name} must be 'above' or 'below'")
        if quantity.than is None and quantity.control is None:
            raise ValueError(f"{name} must have a control, or a limit than = …")
    if quantity.control is None and (
        quantity.rule == NETWORK or (row.published and quantity.rule != COMPARISON)
    ):
        raise ValueError(f"{name} is published, and must have one control")
