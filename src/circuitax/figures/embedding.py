"""A picture as text, embedded in a page."""

import base64
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import Image

_SCREEN = 200  # dots an inch: more is for print, and lies beside the page
_QUALITY = 88  # of WebP: text stays sharp
_EFFORT = 50  # of WebP without loss: more saves little and takes long


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
        _webp(whole, lossless=True, quality=_EFFORT, method=3),
        _webp(screen, quality=_QUALITY, method=2),
        key=len,
    )
    return "data:image/webp;base64," + base64.b64encode(found).decode("ascii")


def _webp(picture: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="webp", **options)
    return buffer.getvalue()
