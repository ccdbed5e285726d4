"""The report is one file: its figures and claims are in it, and a browser filters them."""

import base64
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from circuitax.figures.embedding import embedded_picture
from circuitax.records.agreement import Here
from circuitax.records.claim_texts import ClaimRow
from circuitax.records.claims import ClaimSource, SettledClaim, at_least, near
from circuitax.records.claims_page import render_details
from circuitax.records.estimate import exact
from circuitax.records.gallery import GalleryFigure, GalleryItem
from circuitax.records.nulls import Null, NullOutcome
from circuitax.records.papers import Paper
from circuitax.records.report import Interactive, render_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
TOYS = ClaimSource(
    "toy-models paper, section 2; S4; ours",
    cites=(Paper.TOY_MODELS, Paper.S4, "A paper of the reader"),
    origin="published",
    link="https://example.org",
)
SHUFFLED = Null("permuted", "labels <are> shuffled")
OURS = ClaimSource("our number", origin="ours", why="rounding <&>")


def verdicts(source: ClaimSource, *measured: tuple[str, str, float]) -> tuple[SettledClaim, ...]:
    expected = near(0.5, 0.1)
    return tuple(
        SettledClaim(
            source.claim(name, f"{name} is <b>", expected, "why", printed="0.5"),
            verdict,
            exact(value),
            "",
        )
        for name, verdict, value in measured
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("figures")
    Image.new("RGB", (4, 3), "red").save(folder / "dots.png")
    figures = tuple(
        GalleryFigure(name, f"{name}.png", "", f"{name} fall.", "", "", f'a "{name}" picture')
        for name in ("dots", "left_out")
    )
    common = {"flagship": "", "scale": "quick", "seconds": 1.0, "command": "cmd", "link": "run"}
    items = [
        GalleryItem(
            "toys",
            "About toys",
            "superposition",
            10,
            figures=figures,
            verdicts=(
                *verdicts(TOYS, ("ten", "fails", 10.0), ("nine", "holds", 9.0)),
                SettledClaim(OURS.claim("more", "m", at_least(1)), "not run", None, "no weights"),
                SettledClaim(
                    OURS.claim("drawn", "d", at_least(1), null=SHUFFLED),
                    "would hold anyway",
                    exact(2),
                    "",
                    NullOutcome(20, 3, 0.5, 0.75, 1.25),
                ),
            ),
            **common,
        ),
        GalleryItem(
            "paths",
            "About paths",
            "paths",
            10,
            figures=(),
            verdicts=verdicts(OURS, ("two", "holds", 2.5)),
            **common,
        ),
    ]
    pictures = {"dots.png": embedded_picture(folder / "dots.png")}
    interactive = Interactive(
        {"toys": ['<section class="viewer" id="moved">a viewer</section>']},
        {"toys": ["Move <it>"]},
        {"third": "not run yet"},
        'document.getElementById("moved").textContent = "drawn";',
        ".viewer { color: black }",
    )
    return render_report(items, pictures, ["third"], "make it", interactive)


class _Loads(HTMLParser):
    """Addresses that a page loads by itself, and the ids in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag in ("img", "script", "link", "iframe", "source", "embed", "object"):
            self.loaded += [given[name] or "" for name in ("src", "href", "data") if name in given]


def test_nothing_is_loaded_and_every_link_inside_leads_somewhere(page: str) -> None:
    read = _Loads(page)
    assert len(read.loaded) == 2  # a picture and an empty icon
    assert all(address.startswith("data:") for address in read.loaded)
    assert "<!--" not in page and "@import" not in page and "url(" not in page
    assert len(read.ids) == len(set(read.ids))
    inside = {link.split("?")[0] for link in re.findall(r'href="#([^"]*)"', page)}
    assert inside == {"claims", "toys", "paths"} and inside <= set(read.ids)


def test_claims_and_figures_are_told(page: str) -> None:
    assert page.index('id="claim-two"') < page.index('id="claim-ten"')  # algebra comes first
    (row,) = re.findall(r'<tr id="claim-ten".*?</tr>', page, re.DOTALL)
    cited = ["Toy-models paper", "S4, the notes on the framework paper", "A paper of the reader"]
    assert 'data-paper="{}"'.format("\n".join(cited)) in row
    listed = "".join(f"<option>{paper}</option>" for paper in [*cited, "no paper"])
    assert listed in page
    assert 'data-verdict="fails"' in row
    assert "ten is &lt;b&gt;" in row and "✘ fails" in row and "0.5 ± 0.1" in row and ">10<" in row
    assert "<dt>Printed</dt><dd>0.5</dd>" in row
    (drawn,) = re.findall(r'<tr id="claim-drawn".*?</tr>', page, re.DOTALL)
    assert "<td>permuted: 0.75 [0.5, 1.25], 3 of 20 would hold</td>" in drawn
    assert "<dt>Null</dt><dd>labels &lt;are&gt; shuffled</dd>" in drawn
    assert 'data-verdict="would hold anyway"' in drawn and "≈ would hold anyway" in drawn
    assert "<td>not declared</td>" in row and row.count("<td>") == page.count('<th scope="col">')
    assert "no weights" in page and "Not run yet: third." in page
    assert 'alt="a &#34;dots&#34; picture"' in page
    assert '<a href="left_out.png">a &#34;left_out&#34; picture</a>' in page
    assert '<a href="#toys">Move &lt;it&gt;</a>' in page
    assert "No viewer of third: not run yet." in page
    section = page[page.index('<section id="toys">') : page.index("a viewer")]
    assert "<img" not in section, "a viewer comes before the pictures"
    assert page.count("<img ") == 1 and "rounding &lt;&amp;&gt;" in page


def test_the_fold_of_a_claim_has_the_facts_of_its_row_on_the_claims_page(page: str) -> None:
    (verdict,) = verdicts(TOYS, ("ten", "fails", 10.0))
    details = render_details([ClaimRow(verdict, "toys", "quick", "a1", "run", "png", "code")])
    (fold,) = re.findall(r"<details>.*</details>", details["sources"])
    (row,) = re.findall(r'<tr id="claim-ten".*?</tr>', page, re.DOTALL)
    told = {name.lower(): text for name, text in re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", row)}
    beside = dict(re.findall("<b>(.*?)</b> (.*?)(?:<br>|</details>)", fold))
    assert beside.pop("source").endswith(">toy-models paper, section 2; S4; ours</a>")
    assert told == {"printed": "0.5", **beside}
    assert beside == {
        "because": "why",
        "selection": "all members",
        "interval": "exact",
        "scale": "quick",
    }


def test_what_was_measured_here_has_a_column_on_both_pages() -> None:
    (verdict,) = verdicts(TOYS, ("ten", "fails", 10.0))
    here = Here("differs", exact(9.5), "apart | 3 times")
    row = ClaimRow(verdict, "toys", "quick", "a1", "run", "png", "code", "", here, "../made")
    (line,) = [l for l in render_details([row])["sources"].splitlines() if l.startswith("| <a ")]
    assert line.endswith("| **differs**: 9.5, n = 1; apart \\| 3 times · [run](../made) |")
    shown = GalleryItem("toys", "", "paths", 1, "", "quick", 1, "cmd", "run", (), (verdict,))
    page = render_report([shown], {}, [], "make it", here={"ten": here})
    assert "<td>differs: 9.5, n = 1; apart | 3 times</td></tr>" in page
    assert "Of the published statements: 1 differ." in page and 'data-here="differs"' in page
    assert page.count('<th scope="col">') == 10


def test_an_embedded_picture_is_the_picture(tmp_path: Path) -> None:
    picture = Image.new("RGB", (5, 4), "blue")
    picture.save(tmp_path / "a.png")
    text = embedded_picture(tmp_path / "a.png")
    picture.resize((6, 4)).save(tmp_path / "a.png")
    assert text.startswith("data:image/webp;base64,UklGR")
    assert embedded_picture(tmp_path / "a.png") != text  # a changed file is read again


def test_a_picture_finer_than_a_screen_is_made_smaller(tmp_path: Path) -> None:
    def shown(picture: Image.Image, dpi: int) -> Image.Image:
        path = tmp_path / f"{dpi}.png"
        picture.save(path, dpi=(dpi, dpi))
        data = base64.b64decode(embedded_picture(path).split(",")[1])
        return Image.open(io.BytesIO(data)).convert("RGB")

    # No two neighbours are alike, as in a photograph: nothing without loss is small.
    photograph = Image.effect_noise((600, 300), 90).convert("RGB")
    assert shown(photograph, 300).size == (400, 200)
    assert shown(photograph, 200).size == shown(photograph, 100).size == (600, 300)
    plain = Image.new("RGB", (600, 300), "white")
    ImageDraw.Draw(plain).line((10, 20, 500, 200), "blue")
    assert shown(plain, 300).tobytes() == plain.tobytes(), "lines are kept as they are"


def seen(page: str, actions: str, folder: Path, query: str = "", size: str = "1280,900") -> str:
    """What a browser makes of the page after these actions; it fails on errors in the console."""
    assert BROWSER is not None
    path = folder / "report.html"
    path.write_text(page.replace("</html>", f"<script>{actions}</script></html>"))
    options = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --dump-dom"
    done = subprocess.run(
        [
            BROWSER,
            *options.split(),
            f"--window-size={size}",
            f"--user-data-dir={folder / 'user'}",
            f"{path.as_uri()}{query}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not errors, errors
    return done.stdout


def rows(dom: str) -> list[str]:
    """Ids of the rows that are shown, in their order."""
    found = re.findall(r"<tr id=\"claim-(\w+)\"([^>]*)>", dom)
    return [name for name, attributes in found if "hidden" not in attributes]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium to open the report in")
def test_a_browser_filters_and_sorts(page: str, tmp_path: Path) -> None:
    assert rows(page) == ["two", "ten", "nine", "more", "drawn"]
    assert rows(seen(page, "", tmp_path, "#claims?experiment=toys&origin=published")) == [
        "ten",
        "nine",
    ]
    choose = (
        "form.elements.verdict.value = 'holds';"
        "form.elements.verdict.dispatchEvent(new Event('input', {bubbles: true}));"
    )
    dom = seen(page, choose, tmp_path)
    assert rows(dom) == ["two", "nine"] and "2 of 5 claims" in dom
    dom = seen(page, "document.querySelectorAll('thead button')[4].click();", tmp_path)
    assert rows(dom) == ["drawn", "two", "nine", "ten", "more"]  # by value, not by letter
    assert 'aria-sort="ascending"' in dom
    falls = "for (const _ of [1, 2]) document.querySelectorAll('thead button')[4].click();"
    assert rows(seen(page, falls, tmp_path)) == ["ten", "nine", "two", "drawn", "more"]  # none last
    for chosen, left in (
        ("S4, the notes on the framework paper", ["ten", "nine"]),
        ("Toy-models paper", ["ten", "nine"]),
        ("no paper", ["two", "more", "drawn"]),
    ):
        pick = (
            f"form.elements.paper.value = '{chosen}';"
            "form.elements.paper.dispatchEvent(new Event('change', {bubbles: true}));"
        )
        assert rows(seen(page, pick, tmp_path)) == left
    words = "form.elements.words.value = 'toy TEN'; filter();"
    dom = seen(page, words, tmp_path)
    assert rows(dom) == ["ten"] and 'id="moved">drawn<' in dom
    with pytest.raises(AssertionError, match="Uncaught"):
        seen(page, "missing();", tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium to open the report in")
def test_the_filters_cover_no_other_section_and_a_small_screen_shows_verdicts(
    page: str, tmp_path: Path
) -> None:
    tall = "document.body.insertAdjacentHTML('beforeend', '<p style=\"height: 300em\">');"
    place = "const box = query => document.querySelector(query).getBoundingClientRect();"
    told = "document.title = [box('#filters').bottom <= box('#toys h3').top, innerWidth >= 960];"
    jump = f"{tall}{place}document.getElementById('toys').scrollIntoView();{told}"
    assert "<title>true,true</title>" in seen(page, jump, tmp_path)
    right = "document.title = [box('#claim-ten .verdict').right < innerWidth, innerWidth < 720,"
    wide = "document.documentElement.scrollWidth <= innerWidth];"
    dom = seen(page, place + right + wide, tmp_path, size="500,800")
    assert "<title>true,true,true</title>" in dom
