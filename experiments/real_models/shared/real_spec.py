"""Settings of all experiments on SmolLM2."""

from dataclasses import dataclass
from typing import ClassVar

from circuitax.kit.real_model import REAL, check_real_name, outside_inputs


@dataclass(frozen=True)
class RealSpec:
    """The model that is read.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
    """

    weights: str = REAL

    PROSE: ClassVar[bool] = True  # whether English prose is read too

    def __post_init__(self) -> None:
        check_real_name(self.weights)

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights and prose, so that other files make another run."""
        return outside_inputs(self.weights, text=self.PROSE)
