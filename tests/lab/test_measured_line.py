"""Lines that measure claims: names written out, put together, and none at all."""

from pathlib import Path

import pytest

from circuitax.config.catalogue import discover
from circuitax.lab.measured_line import Line, line_that_measures
from circuitax.lab.showing import claim_rows
from circuitax.records.claims import settle

ROOT = Path(__file__).parents[2]

MEASURES = '''"""Names of "told" quantities."""

def measure(record):
    found = {"told": 1}
    for source in ("trained", "optimum"):
        found[f"T4-{source}-below"] = 2
        found[f"T4-{source}"] = 3
    found |= {f"{language}-{name}": v for name, v in others().items()}
    return found

def others():
    return {
        "most-copy": 4,
        "copy": 5,
    }

def left(x):
    return x["read"], x["elsewhere"], x[f"spread-{len(x)}"]
'''
BESIDE = """x = {"elsewhere": 1}
x["told"] = 2
x["elsewhere"] = 3
trios = {"english": 4, "read": 5}
x[f"{trios}-one-layer"] = 6
"""


@pytest.mark.parametrize(
    ("quantity", "file", "number"),
    [
        ("told", 0, 4),  # the first file wins, and its documentation is another string
        ("T4-trained-below", 0, 6),
        ("T4-optimum", 0, 7),
        ("english-most-copy", 0, 13),
        ("english-copy", 0, 14),
        ("english-other", 0, 8),
        ("english-one-layer", 0, 8),  # a file of less weight may only make its name
        ("elsewhere", 1, 3),  # the last line that has the name, and does not read it
        ("read", 1, 4),
        ("spread-3", 0, 8),
        ("nowhere", 0, 3),
    ],
)
def test_a_quantity_leads_to_its_line(
    tmp_path: Path, quantity: str, file: int, number: int
) -> None:
    files = [tmp_path / "measures.py", tmp_path / "beside.py"]
    for path, text in zip(files, (MEASURES, BESIDE), strict=True):
        path.write_text(text)
    assert line_that_measures(quantity, files) == Line(files[file], number)


def test_claims_of_an_experiment_lead_to_lines_that_name_them() -> None:
    entry = discover()["toy_phase"]
    path = entry.file("measures")
    for claim in entry.load_claims():
        line = path.read_text().splitlines()[line_that_measures(claim.quantity, [path]).number - 1]
        # A number is assigned, alone or as the first of its dict, or an entry of one.
        assert line.lstrip().startswith(('found["T4-', 'found = {"T4-', '"T4-')), claim.id


def test_claims_of_a_shared_measure_lead_to_where_it_is_shared() -> None:
    entry, results = discover()["text_models"], ROOT / "results"
    run = results / entry.name / "accepted"
    unmet = {claim.id: "not measured here" for claim in entry.load_claims()}
    for row in claim_rows(run, entry, settle(entry.load_claims(), {}, unmet), results):
        path, number = row.code.split("#L")
        assert path == "../experiments/one_layer/shared/measures_text_family.py"
        line = (results / path).read_text().splitlines()[int(number) - 1]
        assert '"text-' in line, (row.verdict.claim.id, line)
