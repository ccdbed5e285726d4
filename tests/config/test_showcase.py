"""What an experiment says about its pages is read without importing it."""

import re
from pathlib import Path

from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.config.showcase import read_showcase

INIT = '''"""A test."""

FLAGSHIP = "late"
'''
FIGURE = '''"""What it is about. Not a figure.

late   The first sentence, 1.5 times. A second one
       over two lines. This is refuted if all fails. Or if none does.
early  Refuted without stripes.

"""

raise RuntimeError("imported")


def draw(record):
    """All."""
    figures = {"late": other(record)}
    return figures


def other(record):
    """Dots over
    time."""


def early(record):
    """Bars.

    More.
    """
'''


def entry(folder: Path) -> ExperimentEntry:
    return ExperimentEntry("name", "name", folder, folder, "message", (), 1.0, 1.0, None)


def test_constants_order_and_texts(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(INIT)
    (tmp_path / "figure.py").write_text(FIGURE)
    shown = read_showcase(entry(tmp_path))
    assert shown.flagship == "late"
    assert list(shown.figures) == ["late", "early"]
    late, early = shown.figures.values()
    assert late.message == "The first sentence, 1.5 times."
    assert late.caption == "A second one over two lines."
    assert late.refuted == "This is refuted if all fails. Or if none does."
    assert late.drawn == "Dots over time."
    assert early == ("", "", "Refuted without stripes.", "Bars.")


def test_what_is_drawn_is_read_where_the_function_stands(tmp_path: Path) -> None:
    (tmp_path / "figure.py").write_text(
        '''"""What it is about.

dots   Dots.
lines  Lines.
"""

from experiments.induction.shared.figure_head_panels import patterns
from name.panels import wide


def draw(record):
    if not record:
        return {"dots": nothing(record)}
    return {"dots": dots(record) if record else wide(record), "lines": wide(record),
            "patterns": patterns(record)}


def nothing(record):
    """A page that says so."""


def dots(record):
    """Grey dots."""
'''
    )
    (tmp_path / "panels.py").write_text('def wide(record):\n    """Lines from left to right."""\n')
    shown = read_showcase(entry(tmp_path)).figures
    assert shown["dots"].drawn == "Grey dots.", "and not what an early return draws"
    assert shown["lines"].drawn == "Lines from left to right."


def test_no_picture_of_the_gallery_lacks_a_message_or_a_description() -> None:
    pages = (Path(__file__).parents[2] / "results/gallery").glob("*.md")
    gallery = "\n".join(page.read_text("utf-8") for page in pages)
    alts = re.findall(r"^!\[(\w+), (\w+): (.*?)\]\(", gallery, re.MULTILINE)
    assert len(alts) > 100
    shown = {name: read_showcase(item).figures for name, item in discover().items()}
    whole = {("cost_of_size", "growth"), ("induction_price", "price")}  # `draw` draws them itself
    assert not [found[:2] for found in alts if found[1] not in shown[found[0]]], "no caption"
    for experiment, name, alt in alts:
        assert len(alt) >= 40, (experiment, name, alt)
        assert shown[experiment][name].message, (experiment, name)
        if (experiment, name) not in whole:
            assert alt == shown[experiment][name].drawn, (experiment, name)


def test_a_folder_may_declare_nothing(tmp_path: Path) -> None:
    assert read_showcase(entry(tmp_path)) == ("", {})


def test_every_experiment_of_the_checkout_speaks_of_its_figures() -> None:
    entries = [item for item in discover().values() if item.package.startswith("experiments.")]
    assert len(entries) >= 22
    flagships = 0
    for item in entries:
        shown = read_showcase(item)
        assert shown.figures, item.name
        assert not shown.flagship or shown.flagship in shown.figures, item.name
        flagships += bool(shown.flagship)
    assert flagships == 3
