"""Whitespace is told apart, and nothing unprintable is left."""

import pytest

from circuitax.display.viewers import visible


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (" self", "␣self"),
        ("\n" + 19 * " ", "⏎␣×19"),
        ("\n" + 11 * " ", "⏎␣×11"),
        ("\n\n  ", "⏎⏎␣␣"),
        ("\t\x1f", "⇥·"),
        ("<|endoftext|>", "‹text›"),
        ("internationally", "internat…"),
    ],
)
def test_a_token_is_visible(token: str, text: str) -> None:
    assert visible(token) == text
