"""Model of a record, and the reason if it is not SmolLM2."""

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


def model_read(notes: Mapping[str, Any]) -> str:
    """The model that was read, as figures call it.

    Args:
        notes: As for `not_smollm2`.
    """
    return "SmolLM2-135M" if notes["weights"] == "smollm2" else "A small random model"
