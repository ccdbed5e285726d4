"""What moved between two folders of results, such as tiny runs before and after a change.

    CIRCUITAX_RESULTS=/tmp/before python -m experiments.reproduce scale=tiny   # at one commit
    CIRCUITAX_RESULTS=/tmp/after python -m experiments.reproduce scale=tiny    # at another
    python .ci/net.py /tmp/before /tmp/after

Every array of every experiment that both have: equal, rounded (up to 1e-6 of its largest entry), or
moved, which is exit status 1.
"""

import sys
from pathlib import Path

import numpy as np
import xarray as xr

ROUNDED = 1e-6


def newest(results: Path) -> dict[str, Path]:
    """The data of the newest run of each experiment."""
    files = sorted(results.glob("*/*/data.nc"), key=lambda path: path.stat().st_mtime)
    return {path.parent.parent.name: path for path in files if path.parent.name != "accepted"}


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """Greatest difference of two arrays over the greatest entry; inf if they cannot be compared."""
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return np.inf
    if a.dtype.kind not in "fciu":
        return 0.0 if np.array_equal(a, b) else np.inf
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    kept = np.isfinite(a)
    if not kept.any():
        return 0.0
    size = max(1.0, float(np.abs(a[kept]).max()))
    return float(np.abs(a[kept] - b[kept]).max()) / size


def main() -> int:
    """Print what moved, and the counts."""
    before, after = (newest(Path(folder)) for folder in sys.argv[1:3])
    counts = {"equal": 0, "rounded": 0, "moved": 0, "gone": 0, "new": 0}
    for name in sorted(before.keys() & after.keys()):
        old, new = (xr.open_dataset(runs[name], engine="h5netcdf") for runs in (before, after))
        counts["gone"] += len(set(old.variables) - set(new.variables))
        counts["new"] += len(set(new.variables) - set(old.variables))
        for variable in sorted(set(old.variables) & set(new.variables)):
            far = apart(old[variable].values, new[variable].values)
            word = "equal" if far == 0 else "rounded" if far <= ROUNDED else "moved"
            counts[word] += 1
            if word == "moved":
                print(f"{name}.{variable}: {far:.2g}")
    print(f"{len(before.keys() & after.keys())} experiments: {counts}")
    return 1 if counts["moved"] else 0


if __name__ == "__main__":
    sys.exit(main())
