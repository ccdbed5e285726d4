"""The largest entries of a vocabulary-sized circuit, against NumPy in blocks; and peak memory.

    python -m experiments.benchmarks.token_circuit

prints the peak of memory of our side alone, in MB, which the table asks of a fresh process.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.chain import chain_of
from circuitax.kernel.streaming import TopEntries, top_k
from experiments.benchmarks.case import Case

VOCABULARY, D_HEAD, K = 50_000, 64, 100
BLOCK_ROWS = 400  # 80 MB a block
TOLERANCE = 1e-4
SIZE = f"V x V, V = {VOCABULARY}, d_head {D_HEAD}, k = {K}"


def cases(stack: ExitStack) -> list[Case]:
    """Time beside NumPy, and memory."""
    del stack  # NumPy is here already
    left, right = factors(VOCABULARY)
    ours = our_search(left, right)
    checked = False

    def our_round() -> float:
        start = time.perf_counter()
        ours()
        return time.perf_counter() - start

    def their_round() -> float:
        nonlocal checked
        start = time.perf_counter()
        found = in_blocks(left, right, K, BLOCK_ROWS)
        seconds = time.perf_counter() - start
        if not checked:
            require_equal(ours(), found)
            checked = True
        return seconds

    def our_memory() -> float:
        command = [sys.executable, "-m", "experiments.benchmarks.token_circuit"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return [
        Case(
            name=f"largest entries of a token circuit, {SIZE}",
            unit="s",
            ours=our_round,
            theirs=their_round,
            peer=f"NumPy {np.__version__}, {BLOCK_ROWS} rows at a time, a running argpartition",
            flops=2.0 * VOCABULARY**2 * D_HEAD,
            note="the aim is half of the matmul peak; the same entries on both sides",
        ),
        Case(
            name=f"largest entries of a token circuit, {SIZE}: peak memory of the process",
            unit="MB",
            ours=our_memory,
            note="the whole matrix would be 10 GB; JAX itself is about 300 MB",
        ),
    ]


def factors(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """What a random head's tokens read and write."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((vocabulary, D_HEAD), np.float32)
    return left, rng.standard_normal((D_HEAD, vocabulary), np.float32)


def our_search(left: np.ndarray, right: np.ndarray) -> Callable[[], TopEntries]:
    """The streaming search, compiled at its first call."""
    chain = chain_of(jnp.asarray(left), jnp.asarray(right))
    search = jax.jit(lambda chain: top_k(chain, K))
    return lambda: jax.block_until_ready(search(chain))


def in_blocks(left: np.ndarray, right: np.ndarray, k: int, block_rows: int) -> TopEntries:
    """The k largest entries: those of each block of rows joined to the best so far."""
    width = right.shape[1]
    best, at = np.empty(0, left.dtype), np.empty(0, np.int64)
    for start in range(0, len(left), block_rows):
        block = (left[start : start + block_rows] @ right).ravel()
        # Entries below the running k-th cannot matter; the others are few after the first block.
        where = np.flatnonzero(block > best.min()) if len(best) == k else np.arange(block.size)
        best = np.concatenate([best, block[where]])
        at = np.concatenate([at, where + start * width])
        if best.size > k:
            chosen = np.argpartition(-best, k - 1)[:k]
            best, at = best[chosen], at[chosen]
    order = np.argsort(-best)
    row, column = np.divmod(at[order], width)
    return TopEntries(*(jnp.asarray(part) for part in (best[order], row, column)))


def require_equal(ours: TopEntries, theirs: TopEntries) -> None:
    """Refuse other entries than the peer's.

    Raises:
        RuntimeError: If places differ, or values by more than `TOLERANCE`.
    """
    places = [
        set(zip(side.rows.tolist(), side.columns.tolist(), strict=True)) for side in (ours, theirs)
    ]
    gap = float(jnp.abs(ours.values - theirs.values).max())
    if places[0] != places[1] or not gap <= TOLERANCE:
        raise RuntimeError(
            f"the two sides differ in {len(places[0] - places[1])} of {K} entries, and by {gap:.2g}"
        )


if __name__ == "__main__":
    our_search(*factors(VOCABULARY))()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
