"""The two conventions of the toy models' loss."""

from enum import StrEnum


class Convention(StrEnum):
    """Whether a loss is summed over the features (toy-models paper) or averaged (its code).

    The optimum is the same, but a gradient and its ratio to Adam's eps differ by a factor of
    n_features (erratum E17 of docs/errata.md).
    """

    sum = "sum"
    mean = "mean"
