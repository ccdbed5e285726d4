"""A figure as files: PNG of at most 256 colours, a third of the size of all colours, and PDF."""

import io
from pathlib import Path
from typing import Any

import matplotlib
import oxipng
from matplotlib.figure import Figure
from PIL import Image

_COLOURS = 256
_EFFORT = 4  # of oxipng, which knows 0 to 6
# No dates and no program versions, so that drawing again gives the same bytes.
_METADATA = {"CreationDate": None, "Producer": None, "Creator": None}


def save_picture(figure: Figure, path: Path | io.BytesIO, *, dpi: int, **how: Any) -> None:
    """Save a figure as PNG; drawing it again gives the same bytes.

    Args:
        figure: What is drawn; its background is opaque.
        path: The file, or one in memory.
        dpi: Dots an inch, which the file states.
        **how: Further arguments of Matplotlib's ``savefig``.
    """
    whole = io.BytesIO()
    figure.savefig(whole, format="png", dpi=dpi, **how)
    picture = Image.open(whole).convert("RGB")
    # Dithered, an even area would become a pattern of dots. Rounds of k-means would take up to
    # seconds and move the palette by a few levels of 255; with half as many colours and no rounds,
    # pale bands on each other took the hue of a neighbour.
    few = picture.quantize(
        _COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=0, dither=Image.Dither.NONE
    )
    few.save(path, "PNG", optimize=True, dpi=(dpi, dpi))


def packed_picture(figure: Figure, *, dpi: int, **how: Any) -> bytes:
    """A figure as PNG, packed without loss by oxipng; drawing it again gives the same bytes.

    Args:
        figure: What is drawn; its background is opaque.
        dpi: Dots an inch, which the file states.
        **how: Further arguments of Matplotlib's ``savefig``.
    """
    whole = io.BytesIO()
    save_picture(figure, whole, dpi=dpi, **how)
    return oxipng.optimize_from_memory(whole.getvalue(), level=_EFFORT)


def save_pdf(figure: Figure, path: Path, *, dpi: int, **how: Any) -> None:
    """Save a figure as PDF with TrueType fonts; drawing it again gives the same bytes.

    Args:
        figure: What is drawn.
        path: The file.
        dpi: Dots an inch of what is drawn as pixels.
        **how: Further arguments of Matplotlib's ``savefig``.
    """
    # Many journals refuse the Type 3 fonts of Matplotlib's default.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, format="pdf", metadata=_METADATA, dpi=dpi, **how)
