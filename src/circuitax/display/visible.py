"""The text of tokens in a readable and distinct form."""

from itertools import groupby

_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
_WHOLE = {"<|endoftext|>": "‹text›"}  # the boundary before a document


def visible(token: str, most: int = 9) -> str:
    """A token with spaces and breaks visible, runs of them counted, long ones truncated."""
    if token in _WHOLE:
        return _WHOLE[token]
    parts = []
    for character, run in groupby(token):
        n = len(list(run))
        mark = _MARKS.get(character, character if character.isprintable() else "·")
        parts.append(f"{mark}×{n}" if character in _MARKS and n > 2 else mark * n)
    text = "".join(parts)
    return text if len(text) <= most else text[: most - 1] + "…"
