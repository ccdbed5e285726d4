"""scikit-learn's random projection and all squared distances; answers requests of `Peer`."""

import json
import resource
import sys
import time
from typing import Any

import numpy as np
import sklearn  # type: ignore[import-not-found]
from sklearn.metrics.pairwise import euclidean_distances  # type: ignore[import-not-found]
from sklearn.random_projection import (  # type: ignore[import-not-found]
    GaussianRandomProjection,
)

CLOUDS: dict[str, np.ndarray] = {}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Project, take all distances before and after, and, if asked, the extremes of their ratio."""
    dtype = request["dtype"]
    if dtype not in CLOUDS:
        rng = np.random.default_rng(0)
        CLOUDS.clear()  # one at a time, for the peak of memory
        CLOUDS[dtype] = rng.normal(size=(request["n_points"], request["dim_in"])).astype(dtype)
    x = CLOUDS[dtype]
    start = time.perf_counter()
    projection = GaussianRandomProjection(request["dim_out"], random_state=request["seed"])
    y = projection.fit_transform(x)
    before = euclidean_distances(x, squared=True)
    after = euclidean_distances(y, squared=True)
    found = {}
    if request["statistics"]:
        pairs = np.triu_indices(len(x), 1)
        ratio = after[pairs] / before[pairs] - 1
        levels = request["levels"]
        found = {
            "mean": float(ratio.mean()),
            "low": float(ratio.min()),
            "high": float(ratio.max()),
            "quantiles": np.quantile(ratio, levels).tolist(),
        }
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak_mb, "sklearn": sklearn.__version__, **found}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
