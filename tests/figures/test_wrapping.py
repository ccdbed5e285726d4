"""Lines of a title fit their width, measured as the ink of its letters."""

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from circuitax.figures.picture import wrapped

TEXTS = (
    "Without heads the score is gone (orange), in 3 of 8 seeds",
    "Évitons j, Q and @: ½ of 10⁻³",
    "WᵀW - λ² = 0.75",
)


def ink(text: str, size: int) -> float:
    """Inches from the leftmost to the rightmost point of the letters, by their curves."""
    path = TextPath((0, 0), text, size=size, prop=FontProperties(weight="bold"))
    return float(path.get_extents().width) / 72


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [8, 11])
def test_a_line_breaks_where_its_ink_exceeds_the_width(text: str, size: int) -> None:
    whole = ink(text, size)
    assert wrapped(text, whole + 1e-6, size) == [text]
    first, last = wrapped(text, whole - 1e-6, size)
    assert [first, last] == text.rsplit(maxsplit=1)


def test_a_word_longer_than_a_line_stands_alone() -> None:
    assert wrapped("of interference everywhere", 0.2, 8) == ["of", "interference", "everywhere"]
