"""The documentation builds as a site, without a link that leads nowhere; notebooks are run."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, ignore_patterns
from types import ModuleType

import matplotlib.image
import pytest

import circuitax

ROOT = Path(__file__).parents[2]
NAMES = [n for n in dir(circuitax) if not isinstance(getattr(circuitax, n), ModuleType)]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
needs_mkdocs = pytest.mark.skipif(
    find_spec("material") is None or find_spec("mkdocstrings") is None,
    reason="make docs installs mkdocs-material and mkdocstrings",
)
NOTEBOOK = """\
# Of the file, not of the page.
# %% [markdown]
# # Squares
#
# Their *sum*, `n² / 3` and so on.

# %%
total = sum(i * i for i in range(4))
print("total:", total)

# %% [markdown]
# Drawn:

# %%
import matplotlib.pyplot as plt

for count in (2, 3):
    figure, ax = plt.subplots(figsize=(2, 1))
    ax.plot([total] * count)
    figure.set_label(f"A line of {count} points.")
"""
PAGE = """\
# Squares

Their *sum*, `n² / 3` and so on.

```python
total = sum(i * i for i in range(4))
print("total:", total)
```

```text
total: 14
```

Drawn:

```python
import matplotlib.pyplot as plt

for count in (2, 3):
    figure, ax = plt.subplots(figsize=(2, 1))
    ax.plot([total] * count)
    figure.set_label(f"A line of {count} points.")
```

![A line of 2 points.](squares-1.png)

![A line of 3 points.](squares-2.png)
"""


@pytest.fixture(scope="module")
def notebook_page() -> ModuleType:
    """The program that makes pages of notebooks, which is in no package."""
    spec = importlib.util.spec_from_file_location("notebook_page", ROOT / ".ci/notebook_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_notebook_becomes_its_text_its_code_and_what_that_prints_and_draws(
    notebook_page: ModuleType, tmp_path: Path
) -> None:
    source = tmp_path / "squares.py"
    source.write_text(NOTEBOOK, encoding="utf-8")
    notebook_page.main(source, tmp_path)
    assert (tmp_path / "squares.md").read_text(encoding="utf-8") == PAGE
    picture = matplotlib.image.imread(tmp_path / "squares-1.png")
    assert picture.shape[:2] == (notebook_page.DPI, 2 * notebook_page.DPI)
    assert picture[..., :3].min() < 0.5 < picture[..., :3].max()
    assert (tmp_path / "squares-2.png").read_bytes() != (tmp_path / "squares-1.png").read_bytes()


def test_a_figure_without_alt_text_and_code_that_fails_are_named(
    notebook_page: ModuleType, tmp_path: Path
) -> None:
    silent = NOTEBOOK.replace("figure.set_label", "str")
    with pytest.raises(ValueError, match=r"squares-1\.png must have a label"):
        notebook_page.page(silent, "squares", tmp_path)
    wrong = NOTEBOOK.replace("range(4)", "range(nothing)")
    with pytest.raises(NameError, match="nothing") as caught:
        notebook_page.page(wrong, "squares", tmp_path)
    assert caught.traceback[-1].lineno == NOTEBOOK.splitlines().index("# %%") + 1


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_of_functions_has_every_public_name() -> None:
    program = importlib.util.spec_from_file_location("site_hooks", ROOT / ".ci/site.py")
    assert program is not None and program.loader is not None
    hooks = importlib.util.module_from_spec(program)
    try:
        program.loader.exec_module(hooks)
    except ModuleNotFoundError:
        pytest.skip("make docs installs mkdocs")
    page = hooks.api_page((ROOT / "src/circuitax/__init__.py").read_text(encoding="utf-8"))
    assert sorted(re.findall(r"heading: cx\.(\w+)", page)) == sorted(NAMES)


@pytest.mark.slow
@needs_mkdocs
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="results/index.html"' in start and 'href="own-model.html"' in start
    assert (site / "results/toy_phase/accepted/figures/phase.png").is_file()
    notebook = (site / "notebooks/skip_trigrams.html").read_text(encoding="utf-8")
    assert "<h2" in notebook and "The bug" in notebook and "# %%" not in notebook
    pentagon = (site / "notebooks/five_features.html").read_text(encoding="utf-8")
    assert re.search(r'<img alt="[^"]*pentagon[^"]*" src="five_features-1\.png"', pentagon)
    assert "dimensionality:" in pentagon and (site / "notebooks/five_features-1.png").is_file()
    # The tables of claims have the width of the page, and a style that the build leads to.
    claims = (site / "results/CLAIMS.html").read_text(encoding="utf-8")
    assert "../site.css" in claims and (site / "site.css").is_file()
    assert 'data-md-type="toc" hidden' in claims and 'data-md-type="toc" hidden' not in pentagon
    gallery = (site / "results/index.html").read_text(encoding="utf-8")
    assert gallery.count("<img ") == 3 and 'href="gallery/paths.html#path_explosion"' in gallery
    chapter = (site / "results/gallery/paths.html").read_text(encoding="utf-8")
    assert "scale=quick</code> · quick scale" in chapter and "· run" not in chapter
    detail = (site / "results/claims/framework.html").read_text(encoding="utf-8")
    assert 'data-md-type="toc" hidden' in detail and "· code" not in detail
    # Links in folds and in tables lead to the pages of the site.
    assert all(".md#" not in page for page in (claims, gallery, chapter, detail))
    assert 'href="../errata.html"' in claims
    api = (site / "api.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h3[^>]*>\s*(?:<[^>]*>\s*)*cx\.(\w+)", api)
    assert sorted(headings) == sorted(NAMES)
    assert 'id="circuitax.kernel.model.Model.of"' in api
    loaded = re.findall(r"<(?:script|img|link rel=\"stylesheet\")[^>]*(?:src|href)=\"http", start)
    assert not loaded
    # The search needs no server, on no page.
    assert '<script src="iframe-worker.js"' in start and (site / "iframe-worker.js").is_file()
    assert '<script src="../iframe-worker.js"' in claims
    if BROWSER is not None:
        assert found(site / "index.html", "pentagon") > 2
        assert found(site / "results/CLAIMS.html", "pentagon") > 2
        assert found(site / "index.html", "xylophone") == 0


def found(page: Path, word: str) -> int:
    """Pages that the site's search finds, in a browser that opens the file itself."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    address = f"{page.as_uri()}?q={word}"
    done = subprocess.run(
        [*command, "--virtual-time-budget=30000", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (said,) = re.findall(r'md-search-result__meta">\s*([^<]*?)\s*<', done.stdout)
    assert said.endswith(("matching documents", "matching document")), said
    return 0 if said.startswith("No") else int(said.split()[0])


@pytest.mark.slow
@needs_mkdocs
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", ".ci", "src"):
        copytree(ROOT / name, tmp_path / name, ignore=ignore_patterns("__pycache__"))
    copytree(ROOT / "results", tmp_path / "results", ignore=ignore_patterns("*_*", ".*", "*.pdf"))
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    for notebook in (tmp_path / "docs/notebooks").glob("*.py"):
        notebook.write_text("# %% [markdown]\n# # Its title\n")  # they need not run for this
    page = tmp_path / "docs/checks.md"
    page.write_text(page.read_text() + "\n[gone](nowhere.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and "nowhere.md" in done.stdout + done.stderr
