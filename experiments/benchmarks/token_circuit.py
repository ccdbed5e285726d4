"""The largest entries of a V × V circuit, against NumPy in blocks; and the memory it takes.

    python -m experiments.benchmarks.token_circuit

prints the peak of memory of our side alone, in MB, which the table's row asks of a fresh process.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.streaming import TopEntries, top_k
from experiments.benchmarks.case import Case
from experiments.benchmarks.memory import jax_alone_mb, peak_mb
from experiments.benchmarks.profiled import time_by_kind

D_VOCAB, RANK, K = 50_000, 64, 100
TARGET = 2.0
# Rows of a block of NumPy's product, 100 MB: larger blocks were no faster.
THEIR_ROWS = 500
NAME = f"top {K} of a V×V circuit, V={D_VOCAB}, d_head={RANK}"


def cases(stack: ExitStack) -> list[Case]:
    """Time against NumPy, whose answer must be the same, and memory."""
    left, right = factors(D_VOCAB)
    ours, theirs = our_round(left, right), _their_round(left, right)
    return [
        Case(
            name=NAME,
            unit="s",
            ours=ours,
            theirs=theirs,
            peer="NumPy, row blocks, a running threshold, partition",
            target=TARGET,
            wanted="80 %",
            flops=2.0 * D_VOCAB**2 * RANK,
            moved=left.nbytes + right.nbytes,
            parts=lambda: time_by_kind(ours),
            note="the matrix would have 10 GB; both sides hold blocks of it, and give the same "
            "entries",
        ),
        Case(
            name=f"{NAME}: peak memory of the process",
            unit="MB",
            ours=_our_memory,
            floors={"factors and JAX": lambda: 2 * left.nbytes / 2**20 + jax_alone_mb()},
            wanted="1,000 MB",
        ),
    ]


def factors(d_vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """Two thin random factors of a circuit, float32."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((d_vocab, RANK), np.float32)
    return left, rng.standard_normal((RANK, d_vocab), np.float32)


def our_round(left: np.ndarray, right: np.ndarray) -> Callable[[], float]:
    """One search, in seconds."""
    chain = chain_of(jnp.asarray(left), jnp.asarray(right))

    @jax.jit
    def search(chain: Chain) -> TopEntries:
        return top_k(chain, K)

    def ours() -> float:
        start = time.perf_counter()
        jax.block_until_ready(search(chain))
        return time.perf_counter() - start

    return ours


def numpy_top_k(left: np.ndarray, right: np.ndarray, k: int, rows: int) -> np.ndarray:
    """Values of the k largest entries of ``left @ right``, falling; blocks of some rows."""
    best = np.full(k, -np.inf, left.dtype)
    for start in range(0, len(left), rows):
        block = left[start : start + rows] @ right
        beyond = block[block > best[0]]
        if len(beyond) > k:
            beyond = np.partition(beyond, len(beyond) - k)[-k:]
        best = np.sort(np.concatenate([best, beyond]))[-k:]
    return best[::-1]


def _their_round(left: np.ndarray, right: np.ndarray) -> Callable[[], float]:
    found = jax.jit(lambda chain: top_k(chain, K).values)
    want = np.asarray(found(chain_of(jnp.asarray(left), jnp.asarray(right))))

    def theirs() -> float:
        start = time.perf_counter()
        values = numpy_top_k(left, right, K, THEIR_ROWS)
        seconds = time.perf_counter() - start
        if not np.allclose(values, want, rtol=1e-4):
            raise ValueError(f"NumPy's {K} largest entries of the circuit differ from ours")
        return seconds

    return theirs


def _our_memory() -> float:
    command = [sys.executable, "-m", "experiments.benchmarks.token_circuit"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    our_round(*factors(D_VOCAB))()
    print(peak_mb())
