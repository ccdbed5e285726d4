"""Every accepted record: its table is right, its rows settle as they are kept, its figures draw."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from circuitax.config.catalogue import READINGS, discover
from circuitax.figures.picture import draw_all
from circuitax.lab.settle import settle_rows
from circuitax.records.record import Record
from circuitax.records.rows import row_to_json
from circuitax.records.rule import NOT_REPRODUCED, REPRODUCED
from circuitax.records.table import THEOREM

ENTRIES = discover()
ACCEPTED = {n: Path(__file__).parents[2] / "results" / n / "accepted" for n in ENTRIES}

# What titles say in numbers: the words, the quantity, and where its whole interval must lie.
SAID = [
    ("jl_capacity/decoding", "several times more", "jl-decoding-reach", 2.5, np.inf),
    ("jl_theorem/maps", "half the time", "thm27-E8-upper", 0.45, 0.55),
    ("text_circuits/terms", "more than virtual heads", "text-order-1-above-2", 0, np.inf),
    ("text_induction_circuits/terms", "more loss", "primed-order-1-above-2", 0, np.inf),
    ("bilinear/losses", "a lower loss", "bilinear-gap-1", -np.inf, 0),
    ("bilinear/eigenvectors", "keep half", "bilinear-kept-1", 0.45, 0.55),
    ("path_explosion/orders", "save most", "most-paths-least-loss", -np.inf, 0.5),
    ("phase_proof/proof", "0.706", "proof-triple-place", 0.7055 - 4 / 7, 0.7065 - 4 / 7),
    ("toy_phase/phase", "0.706", "proof-triple-place", 0.7055 - 4 / 7, 0.7065 - 4 / 7),
    ("toy_geometry/dimensions", "near 1/2", "T5-plateau", 0, 0.05),
    ("composition_dose/text", "no induction head", "text-reward-large", 0, 0.4),
    ("toy_dynamics/levels", "0 or 1/2", "dynamics-digons", 0.95, 1),
]
# What is drawn, where a title compares marks of its figure.
DRAWN = {
    "languages": lambda f: (
        np.diff([p.get_height() for p in f["readings"].axes[1].patches])[::3] < 0
    ),
    "head_roles": lambda f: (
        np.diff([float(t.get_text()) for t in f["norms"].axes[0].texts])[3] > 0.5
    ),
    "contrast": lambda f: [y.get_ydata()[4] > 0.8 for y in f["circuits"].axes[0].lines[:4]],
    "kgons": lambda f: np.diff([y.get_ydata()[0] > 0 for y in f["kgons"].axes[0].lines[4:6]]),
}


def data_of(name):
    return Record.load(ACCEPTED[name]).noted


@pytest.mark.parametrize("name", ENTRIES)
def test_rows_settle_as_they_are_kept(name):
    """What pages show is what the record gives; fits differ on other processors, by up to 8e-4."""
    found = [row_to_json(row) for row in settle_rows(data_of(name), ENTRIES[name])]
    kept = json.loads((ACCEPTED[name] / "claims.json").read_text())
    leaves, structure = jax.tree.flatten(json.loads(json.dumps(found)))
    assert structure == jax.tree.structure(kept)
    for leaf, wanted in zip(leaves, jax.tree.leaves(kept), strict=True):
        assert leaf == (pytest.approx(wanted, rel=2e-3) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.table.rows])
def test_no_theorem_is_contradicted(name):  # a draw may leave a share undecided
    kept = json.loads((ACCEPTED[name] / "claims.json").read_text())
    rows = [row for row in kept if row["paper"] == THEOREM]
    assert all(REPRODUCED in (row["word"], row["before"]) for row in rows)
    assert NOT_REPRODUCED not in [q["word"] for row in rows for q in row["quantities"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.table.figures])
def test_figures_draw(name):
    """Each declared figure that the record has data for, and the main one always."""
    entry = ENTRIES[name]
    drawn = draw_all(entry.table, entry.load(READINGS), data_of(name))
    assert entry.table.figures[0].name in drawn
    assert all(figure.get_axes() for figure in drawn.values())
    assert np.all(DRAWN.get(name, len)(drawn)), "a title says otherwise"


def test_numbers_of_titles_are_those_of_the_record():
    rows = [
        row for path in ACCEPTED.values() for row in json.loads((path / "claims.json").read_text())
    ]
    quantities = {q["id"]: q["measured"] for row in rows for q in row["quantities"]}
    titles = {f"{n}/{f.name}": f.title for n, e in ENTRIES.items() for f in e.table.figures}
    for figure, words, name, least, most in SAID:
        assert words in titles[figure]
        assert least <= quantities[name]["low"] <= quantities[name]["high"] <= most, figure


def test_every_result_is_counted_once():
    """Ids of rows and of quantities are unique over all experiments."""
    rows = [row for entry in ENTRIES.values() for row in entry.table.rows]
    ids = [row.id for row in rows]
    quantities = [quantity.id for row in rows for quantity in row.quantities]
    assert len(set(ids)) == len(ids)
    assert len(set(quantities)) == len(quantities)
