"""Every accepted record: its table is right, its rows settle as they are kept, its figures draw."""

import json
from pathlib import Path

import pytest

from circuitax.config.catalogue import READINGS, discover
from circuitax.figures.picture import draw_all
from circuitax.lab.settle import settle_rows
from circuitax.records.record import Record
from circuitax.records.rows import row_to_json
from circuitax.records.rule import REPRODUCED
from circuitax.records.table import THEOREM

ENTRIES = discover()
RESULTS = Path(__file__).parents[2] / "results"
ACCEPTED = {name: RESULTS / name / "accepted" for name in ENTRIES}


def data_of(name):
    return Record.load(ACCEPTED[name]).noted


@pytest.mark.parametrize("name", ENTRIES)
def test_rows_settle_as_they_are_kept(name):
    """To the last digit: what pages show is what the record gives by the present readings."""
    entry = ENTRIES[name]
    found = [row_to_json(row) for row in settle_rows(data_of(name), entry)]
    kept = json.loads((ACCEPTED[name] / "claims.json").read_text())
    assert json.loads(json.dumps(found)) == kept


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.table.rows])
def test_theorems_are_confirmed(name):
    kept = json.loads((ACCEPTED[name] / "claims.json").read_text())
    wrong = [row["id"] for row in kept if row["paper"] == THEOREM and row["word"] != REPRODUCED]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.table.figures])
def test_figures_draw(name):
    """Each declared figure that the record has data for, and the main one always."""
    entry = ENTRIES[name]
    drawn = draw_all(entry.table, entry.load(READINGS), data_of(name))
    assert entry.table.figures[0].name in drawn
    assert all(figure.get_axes() for figure in drawn.values())


def test_every_result_is_counted_once():
    """Ids of rows and of quantities are unique over all experiments."""
    rows = [row for entry in ENTRIES.values() for row in entry.table.rows]
    ids = [row.id for row in rows]
    quantities = [quantity.id for row in rows for quantity in row.quantities]
    assert len(set(ids)) == len(ids)
    assert len(set(quantities)) == len(quantities)
