"""The gallery tells a story: chapters in order, the main figure first, verdicts and numbers."""

from circuitax.records.chapters import CHAPTERS
from circuitax.records.claims import ClaimSource, Verdict, at_least, near
from circuitax.records.estimate import exact
from circuitax.records.gallery import GalleryFigure, GalleryItem, render_gallery

PAPER = ClaimSource("a paper", origin="published", link="https://example.org")
NEAR = PAPER.claim("one", "The | ratio", near(0.5, 0.1), "why", printed="0.5")
MORE = PAPER.claim("two", "More", at_least(1), "why", kind="shape", origin="ours")
VERDICTS = (
    Verdict(NEAR, "holds", exact(0.4321), ""),
    Verdict(MORE, "fails", exact(0.2), "none"),
)


def item(name: str, chapter: str, place: int, *figures: str, flagship: str = "") -> GalleryItem:
    shown = tuple(
        GalleryFigure(
            f, f"{name}/{f}.png", f"{name}/{f}.pdf", f"{f} says.", "More.", "Refuted if.", f"[{f}]"
        )
        for f in figures
    )
    verdicts = VERDICTS if name == "b" else ()
    return GalleryItem(
        name, f"about {name}", chapter, place, flagship, "quick", 3.2, "cmd", "b/1", shown, verdicts
    )


def test_chapters_and_places_order_the_page() -> None:
    items = [
        item("z", "", 5),
        item("a", "induction", 1, "w"),
        item("c", "paths", 20, "y", "x", flagship="x"),
        item("b", "paths", 10, "v"),
    ]
    page = render_gallery(items, ["missing"], "make it")
    marks = ["x says", "## Contents", "## The algebra", "### b", "### c", "c/y.png"]
    marks += ["## Two layers", "### a", "## Further experiments", "### z", "No figure."]
    places = [page.index(f"\n{mark}" if mark[0] == "#" else mark) for mark in marks]
    assert places == sorted(places)
    assert page.count("c/x.png") == 2  # as a flagship and in its place
    assert page.index("c/y.png") < page.rindex("c/x.png")
    assert "Superposition" not in page  # an empty chapter is not shown
    assert "Not run yet: missing." in page


def test_a_section_says_what_a_visitor_asks() -> None:
    page = render_gallery([item("b", "paths", 10, "v")], [], "make it")
    assert "<summary>Claims: ✔ 1 holds · ✘ 1 fails</summary>" in page
    assert "✔ [`one`](CLAIMS.md#claim-one) · ✘ [`two`](CLAIMS.md#claim-two)" in page
    assert "![(v)](b/v.png)" in page
    assert "**v says.** More. *Refuted if.* [PDF](b/v.pdf)" in page
    assert "| The \\| ratio | 0.5 | 0.4321 | [✔ holds](CLAIMS.md#claim-one) |" in page
    assert "Printed beside ours (1)" in page and "| More |" not in page
    assert "`cmd` · quick scale · 3 s · [run](b/1)" in page


def test_the_last_chapter_takes_what_names_none() -> None:
    assert CHAPTERS[-1][0] == ""
    assert "## Further experiments" in render_gallery([item("q", "typo", 1)], [], "make it")
