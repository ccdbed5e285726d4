"""Links to other sites: well formed, and in the bibliography, since no test can open them."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"https?://[^\s)>\"'`|\\]+")
# Sites of programs that a page tells the reader to use; everything else is a source.
TOOLS = {"hydra.cc", "jupytext.readthedocs.io", "treescope.readthedocs.io"}
FORMS = {
    "arxiv.org": r"/(abs|pdf)/(\d{4}\.\d{4,5}|[a-z-]+/\d{7})",
    "doi.org": r"/10\.\d{4,9}/\S+",
    "github.com": r"/[\w.-]+/[\w.-]+",
}


def plain(address: str) -> str:
    return address.rstrip(".,;").split("#")[0].rstrip("/")


def addresses(text: str) -> set[str]:
    return {plain(found) for found in ADDRESS.findall(text)}


def pages() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in ("", "claims", "gallery"):
        yield from (ROOT / "results" / folder).glob("*.md")
    for folder, kind in (("docs", "md"), ("src", "py"), ("experiments", "py")):
        yield from (ROOT / folder).rglob(f"*.{kind}")


def test_links_to_other_sites_are_in_the_bibliography() -> None:
    known = addresses((ROOT / "docs/bibliography.md").read_text())
    assert len(known) > 40
    strangers = {
        address: page.relative_to(ROOT)
        for page in pages()
        for address in addresses(page.read_text())
        if address not in known and urlsplit(address).netloc not in TOOLS
    }
    assert strangers == {}


def test_links_have_the_form_of_their_site() -> None:
    every = {address for page in pages() for address in addresses(page.read_text())}
    for address in every:
        parts = urlsplit(address)
        assert parts.scheme == "https" and re.fullmatch(r"[\w.-]+\.\w+", parts.netloc), address
        form = FORMS.get(parts.netloc)
        assert form is None or re.fullmatch(form, parts.path), address
