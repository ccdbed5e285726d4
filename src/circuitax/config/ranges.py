"""Ranges of the fields of a spec, from the metadata of their types."""

from typing import Any


def check(spec: Any) -> None:
    """Refuse a field outside the range that its type declares."""
