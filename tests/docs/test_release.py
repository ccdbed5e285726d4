"""What a release carries agrees with the package."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def test_the_citation_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == project["version"] and citation["license"] == project["license"]
    assert citation["title"].startswith(project["name"])
    assert citation["authors"] == project["authors"] and len(citation["authors"]) == 1


def test_the_changelog_begins_with_the_release_or_with_what_is_not_released_yet() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    release = f"{citation['version']} ({citation['date-released']})"
    assert release in headings[:2] and set(headings[: headings.index(release)]) <= {"Unreleased"}


def test_badges_say_what_the_package_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if "Python :: 3." in c]
    said = {
        "version": project["version"],
        "python": " | ".join(versions),
        "licence": project["license"],
    }
    readme = (ROOT / "README.md").read_text()
    for name, text in said.items():
        path = f"docs/pictures/badge-{name}.svg"
        assert f"]({path})" in readme and f">{text}</text>" in (ROOT / path).read_text()


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=str)
def test_an_issue_template_asks_for_something(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"]
    kinds = [part["type"] for part in form["body"]]
    assert set(kinds) <= {"input", "textarea", "dropdown", "markdown", "checkboxes"}
    assert any(part.get("validations", {}).get("required") for part in form["body"])
    assert all(part["attributes"]["label"] for part in form["body"])
