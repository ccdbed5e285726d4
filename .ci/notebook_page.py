"""A notebook in the percent format as a page: its text, its code, and what that prints and draws.

    python .ci/notebook_page.py docs/notebooks/NAME.py FOLDER

writes ``NAME.md`` into FOLDER, and beside it one picture for each figure. A figure says with
``figure.set_label("…")`` what a reader is told who does not see it.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

DPI = 150


class Cell(NamedTuple):
    """A piece of a notebook: ``text`` is Markdown, or code that begins in line ``line``."""

    is_code: bool
    text: str
    line: int


def cells(script: str) -> Iterator[Cell]:
    """The cells of a script in the percent format; what stands before the first one is none."""
    heads = list(re.finditer(r"^# %%.*\n", script, flags=re.MULTILINE))
    ends = [head.start() for head in heads[1:]] + [len(script)]
    for head, end in zip(heads, ends, strict=True):
        body = script[head.end() : end]
        if "[markdown]" in head[0]:
            yield Cell(False, re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip(), 0)
        else:
            yield Cell(True, body.strip(), script.count("\n", 0, head.end()) + 1)


def page(script: str, name: str, folder: Path) -> str:
    """The notebook as Markdown, run from top to bottom; its figures are saved in the folder.

    Args:
        script: In the percent format.
        name: Of the notebook; its figures are ``NAME-1.png`` and so on.
        folder: There already.

    Raises:
        ValueError: If a figure has no label.
    """
    import matplotlib

    matplotlib.use("agg")
    _figures()  # those of whoever calls are none of the notebook's
    names: dict[str, Any] = {"__name__": "__main__"}
    parts: list[str] = []
    n_figures = 0
    for cell in cells(script):
        if not cell.is_code:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        with redirect_stdout(StringIO()) as out:
            # Line numbers of a traceback are those of the file.
            exec(compile("\n" * (cell.line - 1) + cell.text, f"{name}.py", "exec"), names)
        if printed := out.getvalue().rstrip():
            parts.append(f"```text\n{printed}\n```")
        for label, figure in _figures():
            n_figures += 1
            place = f"{name}-{n_figures}.png"
            if not label:
                raise ValueError(f"{place} must have a label, by figure.set_label: its alt text")
            figure.savefig(folder / place, dpi=DPI, metadata={"Software": None})
            parts.append(f"![{label}]({place})")
    return "\n\n".join(parts) + "\n"


def _figures() -> list[tuple[str, Any]]:
    """The figures that are open, which are then closed, with their labels."""
    import matplotlib.pyplot as plt

    drawn = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    return [(figure.get_label(), figure) for figure in drawn]


def main(source: Path, folder: Path) -> None:
    """Write the page of a notebook and its pictures."""
    text = page(source.read_text(encoding="utf-8"), source.stem, folder)
    (folder / f"{source.stem}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
