"""Tables of notebooks: bars that begin where the last ended, and texts that stay texts."""

import re

import numpy as np

from circuitax.display.tables import NumberTable, fact_table, sum_table


def test_bars_add_up() -> None:
    terms = [("a", 3.0), ("<b>", -1.0), ("c", -4.0)]
    html = sum_table("Terms", terms, "total")
    places = [float(x) for x in re.findall(r"left:([\d.]+)%", html)]
    widths = [float(x) for x in re.findall(r"width:([\d.]+)%", html)]
    # The ends are 0, 3, 2, -2: in shares of 5 from -2 on.
    np.testing.assert_allclose(places, [40, 80, 0])
    np.testing.assert_allclose(widths, [60, 20, 80])
    assert re.findall(r">([+−][\d.]+)<", html) == ["+3.0000", "−1.0000", "−4.0000", "−2.0000"]
    assert "absolute sum of the rows 8.0000<" in html, "3, 1 and 4, which cancel to -2"
    assert "<td" in html and "&lt;b&gt;" in html and "<b>b" not in html
    # Negative bars are hollow.
    assert [("border" in bar) for bar in re.findall(r"<i style=.*?</i>", html)] == [
        False,
        True,
        True,
    ]


def test_no_terms_and_zeros_have_a_sum() -> None:
    assert "+0.0000" in sum_table("None", [], "total")
    assert "width:0.00%" in sum_table("Zero", [("a", 0.0)], "total")


def test_a_table_of_numbers_is_the_same_as_text_and_as_html() -> None:
    rows = [("<a>", [0.123456, 12_345, np.nan]), *((f"b{i}", [-i, i, "1.5"]) for i in range(12))]
    table = NumberTable("Found", ("x", "n", "y"), rows, ["a note"])
    lines = table.text().splitlines()
    assert lines[1].split() == ["x", "n", "y"] and lines[2].split() == ["<a>", "+0.1235", "12,345"]
    assert lines[-2:] == ["  and 2 more", "a note"] and len(lines) == 15
    html = table.html()
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in html.split("<tr>")[1:]]
    assert cells[:3] == [
        ["", "x", "n", "y"],
        ["&lt;a&gt;", "+0.1235", "12,345", ""],
        ["b0", "0", "0", "1.5"],
    ]
    assert len(cells) == 12 and "and 2 more" in html and "a note" in html


def test_facts_without_text_are_left_out() -> None:
    html = fact_table("Claim", {"source": "S & T", "printed": ""})
    assert "S &amp; T" in html and "printed" not in html
