"""What an experiment says about its pages is read without importing it."""

from pathlib import Path

from circuitax.config.catalogue import Entry, discover
from circuitax.config.showcase import LAST, read_showcase
from circuitax.records.gallery import CHAPTERS

INIT = '''"""A test."""

CHAPTER = "algebra"
PLACE = 30
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


def entry(folder: Path) -> Entry:
    return Entry("name", "name", folder, folder, "message", (), 1.0, 1.0, None)


def test_constants_order_and_texts(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(INIT)
    (tmp_path / "figure.py").write_text(FIGURE)
    shown = read_showcase(entry(tmp_path))
    assert (shown.chapter, shown.place, shown.flagship) == ("algebra", 30, "late")
    assert list(shown.figures) == ["late", "early"]
    late, early = shown.figures.values()
    assert late.message == "The first sentence, 1.5 times."
    assert late.caption == "A second one over two lines."
    assert late.refuted == "This is refuted if all fails. Or if none does."
    assert late.drawn == "Dots over time."
    assert early == ("", "", "Refuted without stripes.", "Bars.")


def test_a_folder_that_declares_nothing_comes_last(tmp_path: Path) -> None:
    assert read_showcase(entry(tmp_path)) == ("", LAST, "", {})


def test_every_experiment_of_the_checkout_speaks_of_its_figures() -> None:
    known = {name for name, _, _ in CHAPTERS}
    entries = [item for item in discover().values() if item.package.startswith("experiments.")]
    assert len(entries) >= 22
    flagships = 0
    for item in entries:
        shown = read_showcase(item)
        assert shown.chapter in known, item.name
        assert shown.figures, item.name
        assert not shown.flagship or shown.flagship in shown.figures, item.name
        flagships += bool(shown.flagship)
    assert flagships == 3
