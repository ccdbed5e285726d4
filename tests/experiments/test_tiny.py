"""Tiny runs, from a command line to settled rows and drawn figures, all in this process."""

import os

import jax
import pytest

from circuitax.config.catalogue import discover
from circuitax.config.plan import plan
from circuitax.data.corpus import TextError
from circuitax.lab.execute import execute
from circuitax.lab.loop import StopFlag
from circuitax.lab.runs import VARIABLE, settled_rows
from circuitax.records.record import Record
from circuitax.records.rule import NOT_REPRODUCED
from circuitax.records.table import THEOREM

# The others take minutes together: `CIRCUITAX_ALL_TINY=1` runs them too.
CHEAP = (
    "pentagon",
    "kgons",
    "jl_theorem",
    "score_scale",
    "toy_intro",
    "circuit_identities",
    "phase_proof",
    "text_models",
)
ALL = "CIRCUITAX_ALL_TINY"
ENTRIES = discover()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One folder for all, so that upstream runs are computed once."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES if os.environ.get(ALL) else CHEAP)
def test_a_tiny_run_settles_and_is_drawn(name, results, monkeypatch, logging_as_before):
    monkeypatch.setenv(VARIABLE, str(results))
    try:
        (planned,) = plan([f"experiment={name}", "scale=tiny"], ENTRIES)[1]
        with StopFlag() as stop:
            outcome = execute(planned, command="a test", stop=stop)
    except TextError as missing:
        pytest.skip(str(missing))
    finally:
        jax.clear_caches()
    # A reading that is broken, or a figure, is an error here; one that is absent says why.
    assert outcome.figure_error == ""
    record = Record.load(outcome.folder)
    assert record.data.data_vars or record.notes["missing"]
    rows = settled_rows(outcome.folder)
    assert [settled.row for settled in rows] == list(ENTRIES[name].table.rows)
    wrong = [s.row.id for s in rows if s.row.paper == THEOREM and s.word == NOT_REPRODUCED]
    assert not wrong
