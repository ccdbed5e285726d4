"""A run's figures from its record on disk, without JAX."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from circuitax.lab.source import source_hash
from circuitax.records.record import Record
from circuitax.records.store import whole_folder, write_text

FIGURES = "figures"
# No dates and no program versions, so that drawing again gives the same bytes.
_METADATA = {"pdf": {"CreationDate": None, "Producer": None, "Creator": None}}
_METADATA["png"] = {"Software": None}
_DPI = 200
_SOURCE = ".source"


def draw_figures(run: Path, module: Path, function: str = "draw") -> list[Path]:
    """Draw every figure of a run anew, as PNG and PDF; the old ones stay if drawing fails.

    Args:
        run: Folder of the run.
        module: File that defines ``draw(record) -> dict[str, Figure]``; it may not exist.
        function: ``draw``, or ``draw_sweep`` for the merged record of a sweep, which a module need
            not define and which may have nothing to draw.

    Returns:
        The PNG files.
    """
    if not module.is_file():
        return []
    loaded, record = _load(module), Record.load(run)
    if function == "draw":
        figures = loaded.draw(record)
    elif not (figures := getattr(loaded, function, lambda record: {})(record)):
        return []
    with whole_folder(run / FIGURES) as folder:
        for name, figure in figures.items():
            for suffix, metadata in _METADATA.items():
                figure.savefig(folder / f"{name}.{suffix}", metadata=metadata, dpi=_DPI)
        write_text(folder / _SOURCE, _hash(module))
    return [run / FIGURES / f"{name}.png" for name in figures]


def up_to_date(run: Path, module: Path) -> bool:
    """Whether the figures of a run were drawn by the present source."""
    if not module.is_file():
        return True
    drawn_by = run / FIGURES / _SOURCE
    return drawn_by.is_file() and drawn_by.read_text(encoding="utf-8") == _hash(module)


def _hash(module: Path) -> str:
    return source_hash([module], module.parent.glob("*.mplstyle"), ("circuitax",))


def _load(module: Path) -> ModuleType:
    package = importlib.util.find_spec("circuitax.figures")
    if package is not None and package.origin and Path(package.origin).parent == module.parent:
        return importlib.import_module(f"circuitax.figures.{module.stem}")
    spec = importlib.util.spec_from_file_location(f"figures_{module.stem}", module)
    if spec is None or spec.loader is None:
        raise ValueError(f"module={module.name!r} must be a Python file")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
