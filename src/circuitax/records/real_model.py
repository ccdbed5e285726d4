"""Why a record says nothing of SmolLM2: it was not at hand, or a random model took its place."""

from collections.abc import Mapping
from typing import Any


def not_smollm2(notes: Mapping[str, Any]) -> str:
    """A reason for claims about SmolLM2 that a record cannot settle; empty where it can.

    Args:
        notes: Of the record, with ``missing`` and ``weights`` as `kit.real_model.at_hand` has them.
    """
    if notes["missing"]:
        return f"nothing to read: {notes['missing']}"
    if notes["weights"] != "smollm2":
        return f"weights={notes['weights']}: a small random model, and not SmolLM2"
    return ""
