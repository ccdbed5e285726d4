"""The scales of an experiment, the dtypes of its numbers, and values that depend on the scale."""

import enum
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Name of the resolver, as configurations write it.
BY_SCALE = "by_scale"


class Scale(enum.Enum):
    """Size of a run: seconds, minutes or an evening on two cores, or the published sizes."""

    tiny = "tiny"
    quick = "quick"
    evening = "evening"
    paper = "paper"


SCALES = tuple(Scale.__members__)


class Precision(enum.Enum):
    """Floating-point type of a run."""

    float32 = "float32"
    float64 = "float64"


class Reuse(enum.Enum):
    """Rule for reusing finished runs: of the same code, or of code with the same twin too."""

    code = "code"
    twin = "twin"


@dataclass(frozen=True)
class RunSettings:
    """The settings common to all runs, beside those of the experiment.

    Attributes:
        experiment: Name of the experiment.
        scale: Size of the run.
        seed: Root of all randomness.
        dtype: Floating-point type.
        again: Whether a finished run is computed again; not part of its identity.
        reuse: Which finished runs are reused; not part of the identity either.
    """

    experiment: str
    scale: Scale = Scale.quick
    seed: int = 0
    dtype: Precision = Precision.float32
    again: bool = False
    reuse: Reuse = Reuse.code

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed={self.seed} must be between 0 and {2**31 - 1}")


def register_resolvers() -> None:
    """Register OmegaConf's resolver ``${by_scale:tiny,quick,paper}``; repeating it changes nothing.

    Four values are ``${by_scale:tiny,quick,evening,paper}``. With three, a run at evening scale
    takes the quick one.
    """
    OmegaConf.register_new_resolver(BY_SCALE, _by_scale, replace=True)


def _by_scale(tiny: Any, quick: Any, *larger: Any, _root_: DictConfig) -> Any:
    if len(larger) not in (1, 2):
        raise ValueError(
            f"by_scale has {2 + len(larger)} values, must have three (tiny, quick, paper) or "
            "four (tiny, quick, evening, paper)"
        )
    evening, paper = (quick, *larger)[-2:]
    scale = _root_.scale
    name = scale.name if isinstance(scale, Scale) else str(scale)
    return {"tiny": tiny, "quick": quick, "evening": evening, "paper": paper}[name]
