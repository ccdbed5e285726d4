"""The two conventions of the toy models' loss."""

from enum import StrEnum


class Convention(StrEnum):
    """Sum of the loss over features (toy-models paper) or mean over them (its code)."""

    sum = "sum"
    mean = "mean"
