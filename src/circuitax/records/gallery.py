"""The gallery page: the figures of every experiment with the command that makes them."""

from collections.abc import Sequence
from typing import NamedTuple


class GalleryItem(NamedTuple):
    """One run of an experiment, as the page shows it.

    Attributes:
        experiment: Name of the experiment.
        message: What it shows, one line.
        scale: Scale of the run.
        seconds: Time it took.
        command: Command that made the run.
        link: Address of the run's folder, relative to the page.
        figures: Addresses of its PNG figures, relative to the page.
        verdicts: Counts of its claims, such as ``"3 hold, 1 fails"``; may be empty.
    """

    experiment: str
    message: str
    scale: str
    seconds: float
    command: str
    link: str
    figures: tuple[str, ...]
    verdicts: str


def render_gallery(items: Sequence[GalleryItem], missing: Sequence[str], command: str) -> str:
    """The page as Markdown.

    Args:
        items: Runs in the order shown.
        missing: Experiments without a run.
        command: Command that makes the page.
    """
    parts = [
        "# Results\n",
        f"Figures of {len(items)} experiments, made from the runs by `{command}`. "
        "What they settle is on the [claims page](CLAIMS.md).\n",
    ]
    parts.append(
        "\n".join(f"- [{i.experiment}](#{i.experiment}): {i.message}" for i in items) + "\n"
    )
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.\n")
    parts.extend(_section(item) for item in items)
    return "\n".join(parts)


def _section(item: GalleryItem) -> str:
    facts = f"`{item.command}` · {item.scale} scale · {item.seconds:.0f} s · [run]({item.link})"
    if item.verdicts:
        facts += f" · claims: {item.verdicts}"
    images = "\n\n".join(f"![{item.experiment}]({address})" for address in item.figures)
    return f"## {item.experiment}\n\n{item.message}\n\n{images or 'No figure.'}\n\n{facts}\n"
