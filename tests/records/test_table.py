"""``claims.toml``: what is read, and what is refused by name."""

import pytest

from circuitax.records.table import read_table

TABLE = """
title = "Five features"
message = "Features share dimensions when they are rare."
seconds = { quick = 60 }
[[figure]]
name = "weights"
title = "Rare features share dimensions."
[[row]]
id = "pentagon"
paper = "toy_models"
says = "At density 0.1 all five are kept."
figure = "weights"
measure = "share_of_pentagons"
control = { is = "networks at their start", world = "untrained", draws = 30 }
[[row.quantity]]
id = "share"
says = "share of pentagons"
at = { density = 0.1 }
rule = "network"
[[row.quantity]]
id = "norm"
says = "norm of a feature"
measure = "norm"
rule = "number"
printed = "1.10"
control = { is = "no feature", value = 0 }
"""


def read(tmp_path, text):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    return read_table(path)


def test_a_row_lends_what_its_quantities_do_not_say(tmp_path):
    table = read(tmp_path, TABLE)
    share, norm = table.rows[0].quantities
    assert [share.measure, norm.measure] == ["share_of_pentagons", "norm"]
    assert (share.control.world, share.control.draws) == ("untrained", 30)
    assert share.at == {"density": 0.1}
    assert norm.control.value == 0 and norm.control.world == ""
    assert table.seconds == {"quick": 60} and table.figures[0].name == "weights"


@pytest.mark.parametrize(
    ("printed", "precision"), [('"1.10"', 0.01), ("1.1", 0.0), ('"2e-3"', 1e-3), ('"12"', 1.0)]
)
def test_digits_say_how_precise_a_number_is(tmp_path, printed, precision):
    found = read(tmp_path, TABLE.replace('"1.10"', printed)).rows[0].quantities[1]
    assert found.precision == pytest.approx(precision)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at = {", "att = {", "unknown key 'att'.*did you mean 'at'"),
        ('"toy_models"', '"toys"', "paper='toys' of row 'pentagon' must be one of"),
        ('rule = "network"', 'rule = "share"', "rule='share' of quantity 'share' must be"),
        ('printed = "1.10"', "", "quantity 'norm' must have the printed number"),
        ('printed = "1.10"', "printed = 0", "quantity 'norm' prints 0"),
        ('says = "share of pentagons"', "", "quantity 'share' lacks a key"),
        ('is = "no feature", ', "", "control .* must say what it is"),
        (", value = 0", "", "must have one of value, measure, world"),
        ('figure = "weights"', 'figure = "arrows"', "figure='arrows' of row 'pentagon'"),
        ("all five are kept", "one " * 30, "has 34 words, at most 25"),
        (
            'control = { is = "networks at their start", world = "untrained", draws = 30 }',
            "",
            "quantity 'share' is published, and must have one control",
        ),
    ],
)
def test_faults_are_named(tmp_path, old, new, words):
    with pytest.raises(ValueError, match=words):
        read(tmp_path, TABLE.replace(old, new, 1))
