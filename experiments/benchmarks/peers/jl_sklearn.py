"""scikit-learn's random projection and all squared distances."""

import resource
import time
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances  # type: ignore[import-not-found]
from sklearn.random_projection import GaussianRandomProjection  # type: ignore[import-not-found]

CLOUDS: dict[str, np.ndarray] = {}


def answer(
    sizes: tuple[int, int, int], dtype: str, levels: list[float], values: bool
) -> dict[str, Any]:
    """Project, take all distances before and after, and, if levels are asked for, statistics."""
    n_points, dim_in, dim_out = sizes
    if dtype not in CLOUDS:
        CLOUDS.clear()  # one at a time, for the peak of memory
        cloud = np.random.default_rng(0).normal(size=(n_points, dim_in))
        CLOUDS[dtype] = cloud.astype(dtype)
    x = CLOUDS[dtype]
    start = time.perf_counter()
    y = GaussianRandomProjection(dim_out).fit_transform(x)
    before, after = (euclidean_distances(each, squared=True) for each in (x, y))
    if levels:
        pairs = np.triu_indices(len(x), 1)
        ratio = after[pairs] / before[pairs] - 1
        _ = ratio.mean(), ratio.min(), ratio.max(), np.quantile(ratio, levels)
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak_mb}
