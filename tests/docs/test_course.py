"""Each sitting of the course has its parts, and its solutions print what they say."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_, *SITTINGS = re.split(r"^## ", (DOCS / "course.md").read_text(encoding="utf-8"), flags=re.M)


def test_every_notebook_belongs_to_one_of_eight_sittings() -> None:
    named = [re.findall(r"docs/notebooks/(\w+)\.py", sitting) for sitting in SITTINGS]
    assert len(SITTINGS) == 8 and all(len(names) == 1 for names in named)
    kept = sorted(path.stem for path in (DOCS / "notebooks").glob("*.py"))
    assert sorted(name for (name,) in named) == kept


@pytest.mark.parametrize("sitting", SITTINGS, ids=lambda text: text.splitlines()[0])
def test_a_sitting_has_three_exercises_and_its_solutions_are_true(sitting: str) -> None:
    assert re.findall(r"^(\d)\. ", sitting, flags=re.M)[-3:] == ["1", "2", "3"]
    assert "**Read** " in sitting and "*Solutions.* " in sitting
    (code,) = re.findall(r"```python\n(.*?)```", sitting, flags=re.DOTALL)
    with redirect_stdout(StringIO()) as out:
        exec(compile(code, "course.md", "exec"), {})
    said = re.findall(r"# → (.*)", code)
    assert out.getvalue().splitlines() == said and said
