"""Growth with size: processor time and memory of six computations of this library.

Each is done at several sizes on random data. What is recorded depends on the machine, and its
exponents hardly do.
"""

from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive
from circuitax.kit.checks import require_at_least, require_increasing, require_positive
from circuitax.kit.memory import require_memory
from circuitax.kit.ragged import stack_ragged
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.paths.cost_of_size.works import (
    D_HEAD,
    D_MODEL,
    DIM_OUT,
    DIMENSIONS_POINTS,
    HEADS_A_LAYER,
    K_ENTRIES,
    N_FEATURES,
    N_HIDDEN,
    PATH_HEADS,
    PATH_WIDTH,
    POINTS_DIM,
    RANK,
    WORKS,
    processor_seconds,
)

# The least that each size may be.
LEAST = {
    "heads": 2,
    "vocabulary": K_ENTRIES,
    "paths": 2,
    "members": 1,
    "points": 2,
    "dimensions": DIM_OUT,
}
# Numbers that are held at least, for each unit of a size.
NUMBERS = {
    "heads": 4 * HEADS_A_LAYER * D_MODEL * D_HEAD,
    "vocabulary": 2 * RANK,
    "paths": 12 * (PATH_HEADS * PATH_WIDTH) ** 2,
    "members": 3 * N_FEATURES * (N_HIDDEN + 1),
    "points": POINTS_DIM,
    "dimensions": DIMENSIONS_POINTS,
}


@dataclass(frozen=True)
class Spec:
    """Sizes of the six computations: of each at least two, rising.

    Attributes:
        heads: Layers of 8 heads whose composition scores are computed, at least 2.
        vocabulary: Tokens of the circuit whose largest entries are searched, at least 100.
        paths: Layers of 8 heads whose largest paths are searched, at least 2.
        members: Toy models trained together, at least 1.
        points: Points of the cloud whose distortion is measured, at least 2.
        dimensions: Dimensions that 1,000 points are projected from, at least 64.
        rounds: Measurements of each size, at least 2.
        least_seconds: A computation is repeated until it has filled so much processor time.
    """

    heads: tuple[int, ...] = (4, 8, 16, 32)
    vocabulary: tuple[int, ...] = (4000, 8000, 16_000, 32_000)
    paths: tuple[int, ...] = (3, 4, 5, 6)
    members: tuple[int, ...] = (16, 64, 256, 1024)
    points: tuple[int, ...] = (1000, 2000, 4000, 8000)
    dimensions: tuple[int, ...] = (512, 1024, 2048, 4096)
    rounds: int = 3
    least_seconds: float = 0.3

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            require_increasing(self, name, length=2)
            require_at_least(self, least, name)
            require_memory(self, NUMBERS[name] * getattr(self, name)[-1], name)
        require_at_least(self, 2, "rounds")
        require_positive(self, "least_seconds")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Every computation at every size."""
    parts = [
        lab.stage(name, _measured, derive(key, name), spec, name)
        for name in lab.track(WORKS, "cost")
    ]
    names = ("size", "seconds", "megabytes")
    dims = {"size": ("grows", "step"), "seconds": ("grows", "step", "round")}
    data = xr.Dataset(
        {
            name: (dims.get(name, ("grows", "step")), stack_ragged([part[name] for part in parts]))
            for name in names
        },
        coords={"grows": list(WORKS)},
    )
    notes = {
        "seconds": "of processors, all cores together",
        "megabytes": "arguments, results and temporaries of the compiled program; of the path "
        "search, the peak of what Python and NumPy allocate",
        "platform": jax.default_backend(),
    }
    return Record(data=data, notes=notes)


def _measured(key: jax.Array, spec: Spec, name: str) -> dict[str, np.ndarray]:
    """Sizes, seconds ``[size, round]`` and megabytes of one computation."""
    works = [WORKS[name](key, size) for size in getattr(spec, name)]
    for work in works:
        work.compute()  # what only the first call does is not counted
    # Rounds in turns, so that what else the machine does falls on all sizes.
    seconds = [
        [processor_seconds(work.compute, spec.least_seconds) for work in works]
        for _ in range(spec.rounds)
    ]
    return {
        "size": np.array([work.size for work in works], float),
        "seconds": np.array(seconds).T,
        "megabytes": np.array([work.megabytes() for work in works]),
    }
