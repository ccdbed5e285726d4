"""A picture as text, to stand inside a page."""

import base64
import io
from functools import lru_cache
from pathlib import Path

from PIL import Image

_SCREEN = 200  # dots an inch: more is for print, and lies beside the page
_QUALITY = 88  # of WebP: text stays sharp at a third of the bytes of a PNG


def embedded_picture(path: Path) -> str:
    """A picture as a ``data:`` address, in the WebP format, as fine as a screen shows it.

    Args:
        path: A picture in any format that Pillow reads.
    """
    return _embedded(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1024)  # a page is written anew after each of many runs
def _embedded(path: Path, changed: int) -> str:
    buffer = io.BytesIO()
    with Image.open(path) as picture:
        finer = picture.info.get("dpi", (_SCREEN,))[0] / _SCREEN
        shown = picture.convert("RGB")
        if finer > 1:
            shown = shown.resize(
                [round(side / finer) for side in shown.size], Image.Resampling.LANCZOS
            )
        shown.save(buffer, format="webp", quality=_QUALITY, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
