"""The figures of an experiment: drawn, titled, as PNG, PDF and SVG, and inside a page."""

import base64
import inspect
import io
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import oxipng
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from circuitax.figures.style import restyled, styled, wrapped
from circuitax.records.sample import Absent, NotRun
from circuitax.records.table import FigureText, Table

_COLOURS = 256
_EFFORT = 4  # of oxipng, which knows 0 to 6
_SVG_BYTES = 150_000  # of a figure of lines; one of many dots is smaller as a picture
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


def save_vectors(figure: Figure, path: Path, *, dpi: int, **how: Any) -> None:
    """Save a figure as PDF with TrueType fonts, and as SVG if that is small; always the same bytes.

    Args:
        figure: What is drawn.
        path: The PDF file; the SVG file stands beside it.
        dpi: Dots an inch of what is drawn as pixels.
        **how: Further arguments of Matplotlib's ``savefig``.
    """
    drawing, svg = io.BytesIO(), path.with_suffix(".svg")
    # Many journals refuse the Type 3 fonts of Matplotlib's default.
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": path.stem}):
        figure.savefig(path, format="pdf", metadata=_METADATA, dpi=dpi, **how)
        figure.savefig(drawing, format="svg", metadata={"Date": None}, dpi=dpi, **how)
    svg.unlink(missing_ok=True)
    if drawing.tell() <= _SVG_BYTES:
        svg.write_bytes(drawing.getvalue())


Titled = tuple[Figure, Bbox]  # a figure, and what to save of its page, in inches

_SIZE = 8  # points, the size of the other titles
_LINE = 1.25 * _SIZE / 72  # inches from line to line
_MARGIN = 0.04  # inches, at the sides and below


def add_title(figure: Figure, message: str) -> Bbox:
    """Write a message above a figure, if any; returns what to save, in inches: both of them.

    Panels stay where they are.
    """
    width, height = figure.get_size_inches()
    lines = wrapped(message, width - 2 * _MARGIN, _SIZE)
    if not lines:
        return Bbox.from_bounds(0, 0, width, height)
    _keep_layout(figure)
    figure.text(
        _MARGIN / width,
        1 + _MARGIN / height,
        "\n".join(lines),
        horizontalalignment="left",
        verticalalignment="bottom",
        fontsize=_SIZE,
        fontweight="bold",
        in_layout=False,
        parse_math=False,
    )
    return Bbox.from_bounds(0, 0, width, height + len(lines) * _LINE + 2 * _MARGIN)


def _keep_layout(figure: Figure) -> None:
    """Fix the layout of the figure: its saved version has a larger box."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        if legend.get_bbox_to_anchor() is figure.bbox:
            legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)


_SCREEN = 200  # dots an inch: more is for print, and lies beside the page
_QUALITY = 88  # of WebP: text stays sharp
_WEBP_EFFORT = 50  # of WebP without loss: more saves little and takes long


def embedded_picture(path: Path) -> str:
    """A picture as a ``data:`` address, in the WebP format.

    What is smaller of two: the whole picture without loss, as lines on white mostly are, or one as
    fine as a screen shows it.

    Args:
        path: A picture in any format that Pillow reads.
    """
    return _embedded(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)  # a page is written anew after each of many runs
def _embedded(path: Path, changed: int) -> str:
    with Image.open(path) as picture:
        finer = picture.info.get("dpi", (_SCREEN,))[0] / _SCREEN
        whole = picture.convert("RGB")
    sides = [round(side / max(finer, 1)) for side in whole.size]
    screen = whole.resize(sides, Image.Resampling.LANCZOS)
    found = min(
        _webp(whole, lossless=True, quality=_WEBP_EFFORT, method=3),
        _webp(screen, quality=_QUALITY, method=2),
        key=len,
    )
    return "data:image/webp;base64," + base64.b64encode(found).decode("ascii")


def _webp(picture: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="webp", **options)
    return buffer.getvalue()


@styled
def draw_all(
    table: Table,
    readings: ModuleType,
    data: xr.Dataset,
    *,
    of_sweep: bool = False,
    style: Path | None = None,
) -> dict[str, Figure]:
    """Pictures by name, of the figures whose variables the data have.

    One that says that something is `Absent` or `NotRun` is left out.

    Args:
        table: Declares the figures.
        readings: Module with a function of the data for each of them.
        data: Arrays of a record, with its notes as attributes.
        of_sweep: Whether the data are those of a collected sweep.
        style: Style of Matplotlib on top of the common one, whose cycle recolours the palette.
    """
    drawn = {}
    with restyled(style) as recolour:
        for figure in table.figures:
            there = all(name in data or name in data.dims for name in figure.needs)
            if figure.of_sweep == of_sweep and there:
                with suppress(Absent, NotRun):
                    drawn[figure.name] = getattr(readings, figure.draw or figure.name)(data)
        recolour(drawn.values())
    return drawn


def described(figure: FigureText, readings: ModuleType) -> str:
    """The picture for those who do not see it: the first paragraph of the docstring that draws."""
    text = inspect.getdoc(getattr(readings, figure.draw or figure.name)) or ""
    return " ".join(text.split("\n\n")[0].replace("``", "").split())
