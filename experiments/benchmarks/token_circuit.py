"""The largest entries of a V × V circuit, against NumPy in blocks; and the memory it takes.

    python -m experiments.benchmarks.token_circuit

prints the peak of memory of our side alone, in MB, which the table's row asks of a fresh process.
"""

from contextlib import ExitStack
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.chain import chain_of, top_k
from experiments.benchmarks.harness import Case, against
from experiments.benchmarks.machine import alone, peak_mb, seconds

D_VOCAB, RANK, K = 50_000, 64, 100
THEIR_ROWS = 500  # of a block of NumPy's product, 100 MB: larger blocks were no faster


def cases(_: ExitStack) -> list[Case]:
    """Time against NumPy, whose answer must be the same, and memory."""
    left, right = factors()
    chain, search = (
        chain_of(jnp.asarray(left), jnp.asarray(right)),
        jax.jit(top_k, static_argnums=1),
    )
    name = f"top {K} of a V×V circuit, V={D_VOCAB}, d_head={RANK}"
    return [
        Case(
            name,
            "s",
            lambda: seconds(search, chain, K),
            against(lambda: search(chain, K).values, lambda: numpy_top_k(left, right, K)),
            "NumPy, row blocks, a running threshold, partition",
            2.0,
            "80 %",
            flops=2.0 * D_VOCAB**2 * RANK,
            moved=left.nbytes + right.nbytes,
            note="the matrix would have 10 GB; both sides hold blocks of it, and give the same "
            "entries",
        ),
        Case(
            f"{name}: peak memory of the process",
            "MB",
            cache(lambda: alone("token_circuit")),
            wanted="1,000 MB",
        ),
    ]


def factors() -> tuple[np.ndarray, np.ndarray]:
    """Two thin random factors of a circuit, float32."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((D_VOCAB, RANK), np.float32)
    return left, rng.standard_normal((RANK, D_VOCAB), np.float32)


def numpy_top_k(left: np.ndarray, right: np.ndarray, k: int) -> np.ndarray:
    """Values of the k largest entries of ``left @ right``, falling; blocks of some rows."""
    best = np.full(k, -np.inf, left.dtype)
    for start in range(0, len(left), THEIR_ROWS):
        block = left[start : start + THEIR_ROWS] @ right
        beyond = block[block > best[0]]
        if len(beyond) > k:
            beyond = np.partition(beyond, len(beyond) - k)[-k:]
        best = np.sort(np.concatenate([best, beyond]))[-k:]
    return best[::-1]


if __name__ == "__main__":
    seconds(jax.jit(top_k, static_argnums=1), chain_of(*map(jnp.asarray, factors())), K)
    print(peak_mb())
