"""Chapters of the experiments, in the one order of folders, pages and commands."""

from typing import NamedTuple

# Folders of generated pages, which stand beside those of the experiments' runs.
GALLERY, CLAIMS = "gallery", "claims"


class Chapter(NamedTuple):
    """A chapter.

    Attributes:
        name: Name of its folder below ``experiments/``; empty for experiments that are in none.
        title: How pages call it.
        about: What it is about, one or two sentences.
    """

    name: str
    title: str
    about: str

    @property
    def page(self) -> str:
        """File name of its page in the gallery."""
        return f"{self.name or 'further'}.md"


CHAPTERS = (
    Chapter(
        "paths",
        "The algebra of paths",
        "An attention-only transformer is a sum of paths. What that identity gives, how far it "
        "carries, and what it costs.",
    ),
    Chapter(
        "one_layer",
        "No layer and one layer",
        "Without layers a model is a table of bigrams; one layer adds skip-trigrams.",
    ),
    Chapter(
        "induction",
        "Two layers and induction",
        "Heads that read what earlier heads wrote: an earlier text is found and continued.",
    ),
    Chapter(
        "superposition",
        "Superposition and geometry",
        "A network keeps more features than it has dimensions when they are rare, and arranges "
        "them as polytopes.",
    ),
    Chapter(
        "directions",
        "Almost orthogonal directions",
        "How many nearly orthogonal directions a space has room for: the theorems of Johnson and "
        "Lindenstrauss, what random maps do, and what models use.",
    ),
    Chapter("real_models", "Real models", "The same questions to published weights."),
    Chapter("", "Further experiments", "Experiments in a folder of no chapter."),
)
NAMES = tuple(chapter.name for chapter in CHAPTERS)


def chapter_of(name: str) -> Chapter:
    """The chapter of a name; for an unknown name the last one, which has no folder."""
    return next((chapter for chapter in CHAPTERS if chapter.name == name), CHAPTERS[-1])
