"""The gallery tells a story: chapters in order, the main figure first, verdicts and numbers."""

from circuitax.records.chapters import CHAPTERS
from circuitax.records.claims import ClaimSource, SettledClaim, at_least, near
from circuitax.records.estimate import exact
from circuitax.records.gallery import GalleryFigure, GalleryItem, render_chapters, render_index

PAPER = ClaimSource("a paper", origin="published", link="https://example.org")
NEAR = PAPER.claim("one", "The | ratio", near(0.5, 0.1), "why", printed="0.5")
MORE = PAPER.claim("two", "More", at_least(1), "why", kind="relation", origin="ours")
VERDICTS = (
    SettledClaim(NEAR, "holds", exact(0.4321), ""),
    SettledClaim(MORE, "fails", exact(0.2), "none"),
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
    page = render_index(items, ["missing"], "make it")
    marks = ["x says", "## Contents", "### [The algebra", '<a id="b">', '<a id="c">']
    marks += [
        "### [Two",
        '<a id="a">',
        "### [Further experiments](gallery/further.md)",
        '<a id="z">',
    ]
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)
    assert '- <a id="c"></a>[c](gallery/paths.md#c): about c' in page
    assert page.count("c/x.png") == 1 and "c/y.png" not in page, "of figures, flagships only"
    assert "Superposition" not in page  # an empty chapter is not shown
    assert "Not run yet: missing." in page
    pages = render_chapters(items)
    assert list(pages) == ["paths.md", "induction.md", "further.md"]
    marks = ["# The algebra", "## b", "## c", "c/y.png", "c/x.png"]
    places = [pages["paths.md"].index(mark) for mark in marks]
    assert places == sorted(places) and "(../README.md)" in pages["paths.md"]
    assert "## z" in pages["further.md"] and "No figure." in pages["further.md"]


def test_a_section_says_what_a_visitor_asks() -> None:
    page = render_chapters([item("b", "paths", 10, "v")])["paths.md"]
    assert "<summary>Claims: ✔ 1 holds · ✘ 1 fails</summary>" in page
    one, two = "../claims/sources.md#claim-one", "../claims/ours.md#claim-two"
    assert f"✔ [`one`]({one}) · ✘ [`two`]({two})" in page
    assert "![(v)](b/v.png)" in page
    assert "**v says.** More. *Refuted if.* [PDF](b/v.pdf)" in page
    assert f"| The \\| ratio | 0.5 | 0.4321 | not declared | [✔ holds]({one}) |" in page
    assert "Printed beside ours (1)" in page and "| More |" not in page
    assert "`cmd` · quick scale · 3 s · [run](b/1)" in page


def test_notes_stand_between_figures_and_facts() -> None:
    noted = item("b", "paths", 10, "v")._replace(notes="A pilot.\n\n| a | b |")
    page = render_chapters([noted])["paths.md"]
    places = [page.index(mark) for mark in ("Refuted if", "A pilot.\n\n| a | b |\n", "`cmd`")]
    assert places == sorted(places)
    assert "A pilot" not in render_index([noted], [], "make it")


def test_the_last_chapter_takes_what_names_none() -> None:
    assert CHAPTERS[-1][0] == ""
    assert "# Further experiments" in render_chapters([item("q", "typo", 1)])["further.md"]
