"""The documentation builds as a site, without a link that leads nowhere."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

import circuitax

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("material") is None or find_spec("mkdocstrings") is None,
        reason="make docs installs mkdocs-material and mkdocstrings",
    ),
]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="results/index.html"' in start and 'href="own-model.html"' in start
    assert (site / "results/toy_phase/accepted/figures/phase.png").is_file()
    notebook = (site / "notebooks/skip_trigrams.html").read_text(encoding="utf-8")
    assert "<h2" in notebook and "The bug" in notebook and "# %%" not in notebook
    api = (site / "api.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h3[^>]*>\s*(?:<[^>]*>\s*)*cx\.(\w+)", api)
    floors = {"circuits", "superposition", "projection", "train"}
    assert sorted(headings) == sorted(set(circuitax.__all__) - floors) and len(headings) > 30
    assert 'id="circuitax.kernel.model.Model.of"' in api
    loaded = re.findall(r"<(?:script|img|link rel=\"stylesheet\")[^>]*(?:src|href)=\"http", start)
    assert not loaded


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", ".ci", "src"):
        copytree(ROOT / name, tmp_path / name, ignore=ignore_patterns("__pycache__"))
    copytree(ROOT / "results", tmp_path / "results", ignore=ignore_patterns("*_*", ".*", "*.pdf"))
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    page = tmp_path / "docs/checks.md"
    page.write_text(page.read_text() + "\n[gone](nowhere.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0 and "nowhere.md" in done.stdout + done.stderr
