"""Rows in words, for a terminal."""

from circuitax.records.estimate import mean_estimate
from circuitax.records.ledger import headline, row_lines
from circuitax.records.rows import SettledQuantity, SettledRow
from circuitax.records.rule import NOT_TESTED, PARTLY, REPRODUCED
from circuitax.records.table import Quantity, Row


def settled(word: str, why: str = "") -> SettledRow:
    quantity = Quantity(id="q", says="a length", measure="length", rule="relation")
    row = Row(id="r", paper="ours", says=f"It is {word}.", quantities=(quantity,))
    estimate = None if why else mean_estimate([1.0, 2.0])
    return SettledRow(row, word, why, (SettledQuantity(quantity, estimate, None, word, why),))


def test_what_was_not_run_is_one_line_at_the_end_with_a_count_for_each_reason() -> None:
    rows = [*[settled(NOT_TESTED, "other sizes")] * 2, settled("", "no head formed")]
    first, last = row_lines([settled(REPRODUCED), *rows])
    assert first.endswith("It is reproduced. 1.5 [-4.85, 7.85], n = 2")
    assert last.endswith("3 rows not tested here: other sizes (2); no head formed (1)")


def test_the_headline_counts_words_that_were_others_with_the_root_keys_before() -> None:
    kept, moved = (Row("r", "It is.", "framework", (), before=word) for word in ("", PARTLY))
    found = [SettledRow(row, REPRODUCED, "", ()) for row in (kept, kept, moved)]
    assert "3 are reproduced" in headline(found) and "another word to 1 of them" in headline(found)
