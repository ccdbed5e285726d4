"""The rule by which published results are judged: all its cases, on made-up estimates."""

import pytest

from circuitax.records.estimate import Estimate
from circuitax.records.rule import (
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTLY,
    REPRODUCED,
    Control,
    judge_network,
    judge_number,
    judge_relation,
    judge_row,
)

NEVER = Control(0.0, 0.0, 0.02, 40)


def ours(value: float, half: float = 0.0, n: int = 40) -> Estimate:
    return Estimate(value, value - half, value + half, n, "mean")


@pytest.mark.parametrize(
    ("x", "printed", "spread", "control", "word"),
    [
        # within 10 % of the number
        (ours(1.09, 0.02), 1.0, 0.0, NEVER, REPRODUCED),
        # beyond 10 %, and on its side of the control
        (ours(1.2, 0.02), 1.0, 0.0, NEVER, PARTLY),
        # beyond 10 %, and within half of our own interval
        (ours(1.2, 0.21), 1.0, 0.0, NEVER, REPRODUCED),
        # the spread that the paper prints is wider than 10 %
        (ours(1.2, 0.02), 1.0, 0.25, NEVER, REPRODUCED),
        # an interval of more than a quarter of the number tells nothing
        (ours(1.0, 0.26), 1.0, 0.0, NEVER, NOT_TESTED),
        # unless the paper's own spread is as wide
        (ours(1.0, 0.26), 1.0, 0.3, NEVER, REPRODUCED),
        # the number is met, and the control gives it too
        (ours(1.0, 0.02), 1.0, 0.0, Control(0.9, 0.95, 1.05, 40), NOT_TESTED),
        # neither the number nor off the control
        (ours(0.01, 0.005), 1.0, 0.0, NEVER, NOT_REPRODUCED),
        # on the other side of the control than the number
        (ours(-0.5, 0.1), 1.0, 0.0, NEVER, NOT_REPRODUCED),
        # a number below its control
        (ours(0.6, 0.05), 0.5, 0.0, Control(0.9, 1.0, 1.1, 40), PARTLY),
        # one unit without an interval
        (Estimate(1.0, -float("inf"), float("inf"), 1, ""), 1.0, 0.0, NEVER, NOT_TESTED),
        # corrections and theorems need no control
        (ours(1.135), 1.135, 0.001, None, REPRODUCED),
        (ours(1.5), 1.135, 0.001, None, NOT_REPRODUCED),
    ],
)
def test_number(x, printed, spread, control, word):
    assert judge_number(x, printed, spread, control).word == word


@pytest.mark.parametrize(
    ("x", "above", "than", "control", "word"),
    [
        (ours(0.4, 0.1), True, None, NEVER, REPRODUCED),
        (ours(0.4, 0.1), False, None, Control(0.8, 1.0, 1.2, 40), REPRODUCED),
        # the whole interval is on the other side
        (ours(-0.4, 0.1), True, None, NEVER, NOT_REPRODUCED),
        # it reaches across
        (ours(0.05, 0.1), True, None, NEVER, NOT_TESTED),
        # beyond what is printed, and beyond the control
        (ours(0.7, 0.1), True, 0.5, NEVER, REPRODUCED),
        # beyond what is printed, where the control is too
        (ours(0.7, 0.1), True, 0.5, Control(0.6, 0.7, 0.8, 40), NOT_TESTED),
        # short of what is printed
        (ours(0.3, 0.1), True, 0.5, NEVER, NOT_REPRODUCED),
        # two arms are compared, without another control
        (ours(0.3, 0.1), True, 0.0, None, REPRODUCED),
        # equal to the limit, to the last digit
        (ours(0.0), True, 0.0, None, NOT_REPRODUCED),
    ],
)
def test_relation(x, above, than, control, word):
    assert judge_relation(x, above, than, control).word == word


def test_a_relation_is_to_something():
    with pytest.raises(ValueError, match="than=None needs a control"):
        judge_relation(ours(1.0), True, None, None)


@pytest.mark.parametrize(
    ("x", "control", "word"),
    [
        # 43 of 96, and none at the start
        (Estimate(43 / 96, 0.352, 0.548, 96, "proportion"), NEVER, REPRODUCED),
        # apart from the control, and fewer than one in five
        (Estimate(0.1, 0.05, 0.18, 96, "proportion"), NEVER, PARTLY),
        # none of ours
        (Estimate(0.0, 0.0, 0.04, 96, "proportion"), NEVER, NOT_REPRODUCED),
        # as often as the control
        (Estimate(0.4, 0.3, 0.5, 96, "proportion"), Control(0.3, 0.4, 0.5, 40), NOT_TESTED),
    ],
)
def test_network(x, control, word):
    assert judge_network(x, control).word == word


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ([REPRODUCED, REPRODUCED], REPRODUCED),
        ([REPRODUCED, NOT_REPRODUCED], PARTLY),
        ([REPRODUCED, NOT_TESTED], PARTLY),
        ([PARTLY], PARTLY),
        ([NOT_REPRODUCED, NOT_TESTED], NOT_REPRODUCED),
        ([NOT_TESTED], NOT_TESTED),
        ([], NOT_TESTED),
    ],
)
def test_row(words, word):
    assert judge_row(words) == word
