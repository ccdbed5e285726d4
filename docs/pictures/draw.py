"""Draw the pictures of the pages: ``python docs/pictures/draw.py [--png FOLDER] [NAME ...]``.

A picture is a function of its name in one of the modules beside this one.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import architecture
import circuits
import jax
import matplotlib
import proofs
import superposition
from matplotlib.figure import Figure

from circuitax.figures.style import STYLE

HERE = Path(__file__).parent


def pictures() -> dict[str, Callable[[], Figure]]:
    """Each picture's function, by the name of its file."""
    return {
        name.replace("_", "-"): value
        for module in (architecture, circuits, superposition, proofs)
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    }


def save(name: str, path: Path) -> None:
    """Draw one picture, the same bytes each time with the same Matplotlib."""
    with matplotlib.rc_context(fname=STYLE), jax.enable_x64(True):
        figure = pictures()[name]()
        dated = {"Date": None, "Creator": None} if path.suffix == ".svg" else {}
        figure.savefig(path, metadata=dated, dpi=150)


def main() -> None:
    """Write the SVGs that are named, or all, and with ``--png`` bitmaps to look at."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", type=Path, help="folder for bitmaps")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    for name in arguments.names or pictures():
        save(name, HERE / f"{name}.svg")
        if arguments.png:
            save(name, arguments.png / f"{name}.png")


if __name__ == "__main__":
    main()
