"""Sources of claims on foreign models, and the two forms of most claims: tables and sums."""

from dataclasses import replace
from typing import Any

import numpy as np

from circuitax.records.claims import Claim, ClaimSource, Expected, at_most
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper
from experiments.real_models.foreign_models.sources import ARENA, PRINTED, PROGRESS, REFERENCE

PALINDROME = ClaimSource(
    "ARENA, monthly problem July 2023",
    cites=(Paper.ARENA,),
    n=2500,
    selection="2,500 texts, seed 42",
    why="half a unit of the last printed digit",
    opening="Palindrome classifier: ",
    origin="published",
    link=ARENA,
)
UNIQUE = replace(
    PALINDROME,
    source="ARENA, monthly problem August 2023",
    n=1000,
    selection="1,000 texts of 20 positions, seed 42",
    opening="First unique letter: ",
)
SIGN = replace(
    UNIQUE, source="ARENA, monthly problem November 2023", opening="Sign of a running sum: "
)
BRACKET = replace(
    UNIQUE,
    source="ARENA 1.4, balanced brackets",
    n=5000,
    selection="the first 5,000 strings of the published data",
    opening="Brackets: ",
)
COPIES = replace(
    UNIQUE,
    source="progress-measures repository, induction run",
    cites=(Paper.NANDA_2023,),
    n=1280,
    selection="1,280 texts, seed 1000",
    opening="Repeated subsequences: ",
    link=PROGRESS,
)
REFERENCE_WHY = "half a unit of the last digit of the reference"


def answered(how: str, answer: float) -> Null:
    """A number, which the answer of one who knows nothing of the model misses."""
    return Null(PRINTED_NUMBER, how, answer)


def table(source: ClaimSource, id: str, statement: str, tol: float, **how: Any) -> Claim:
    """The largest difference from all cells of a printed or reference table."""
    numbers = PRINTED.get(id) or REFERENCE[id]
    if id in PRINTED:
        how = {"printed": _words(numbers)} | how
    else:
        source = replace(source, origin="ours", link="", why=REFERENCE_WHY)
    each = np.concatenate([np.ravel(row) for row in numbers])
    apart = float(np.abs(each - each.mean()).max())
    if apart:
        how = {"null": answered("every cell is the mean of the table's", apart)} | how
    text = f"{statement}: largest difference from the {_cells(numbers)} numbers"
    return source.claim(id, text, Expected(-tol, tol, f"≤ {tol:g}"), **how)


def _cells(table: list) -> int:
    return sum(_cells(row) if isinstance(row, list) else 1 for row in table)


def _words(table: list) -> str:
    return ", ".join(f"{value:g}" for value in table)


def closes(source: ClaimSource, id: str, what: str, **own: Any) -> Claim:
    return replace(source, origin="theorem", link="", kind="identity").claim(
        id,
        f"{what} sum to the logits: largest remainder",
        at_most(1e-9),
        "rounding in double precision",
        **own,
    )
