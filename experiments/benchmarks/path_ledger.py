"""The path ledger: the same twenty paths as brute force, sooner; and a proof where none can go."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import jax
import numpy as np

from circuitax.circuits.known import frozen_unequal
from circuitax.circuits.ledger.host_model import host_model, one_thread
from circuitax.circuits.ledger.ledger import Ledger, head_ledger, position_ledger
from circuitax.circuits.ledger.path_bounds import head_path_bounds, position_path_moments
from circuitax.circuits.paths.expansion import n_paths
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from experiments.benchmarks.case import Case

K, N_CTX, D_HEAD, BUDGET = 20, 32, 16, 300_000
TARGET = 2.0
PEER = "NumPy in double precision, meet in the middle, one GEMM"
# Standard deviation of the logarithm of what a head writes; 0 is as initialised.
TAILS = {"as initialised": 0.0, "heavy-tailed heads": 1.5}


def cases(stack: ExitStack) -> list[Case]:
    """6 layers of 8 heads against brute force; 8 of 12, and positions, against a budget."""
    found = []
    for name, tail in TAILS.items():
        model, direction = frozen(6, 8, tail)
        ours = _timed(head_ledger, model, direction)
        found.append(
            Case(
                name=f"path ledger, 6 layers × 8 heads, top {K}, {name}",
                unit="s",
                ours=ours,
                theirs=_their_round(model, direction),
                peer=PEER,
                target=TARGET,
                floors={"eigenvectors (LAPACK)": _eigenvectors(model)},
                parts=_parts(model, direction),
                note=_certificate(
                    head_ledger(model, N_CTX - 1, direction, k=K, budget=BUDGET), 6, 8
                ),
            )
        )
    model, direction = frozen(8, 12, TAILS["heavy-tailed heads"])
    note = _certificate(head_ledger(model, N_CTX - 1, direction, k=K, budget=BUDGET), 8, 12)
    found.append(
        Case(
            name=f"path ledger, 8 layers × 12 heads, top {K}, heavy-tailed heads",
            unit="s",
            ours=_timed(head_ledger, model, direction),
            floors={"eigenvectors (LAPACK)": _eigenvectors(model)},
            parts=_parts(model, direction),
            note=note,
        )
    )
    model, direction = frozen(6, 8, TAILS["heavy-tailed heads"])
    note = _certificate(position_ledger(model, N_CTX - 1, direction, k=K, budget=BUDGET), 6, 8)
    found.append(
        Case(
            name=f"path ledger, 6 layers × 8 heads × {N_CTX} positions, top {K}, "
            "heavy-tailed heads",
            unit="s",
            ours=_timed(position_ledger, model, direction),
            floors={"second moments (NumPy)": _moments(model)},
            note=note,
        )
    )
    return found


def frozen(
    n_layers: int, n_heads: int, tail: float, n_ctx: int = N_CTX
) -> tuple[FrozenModel, jax.Array]:
    """A random model frozen on a random text, and the direction of one logit."""
    key = jax.random.key(0)
    spec = TransformerSpec(
        d_vocab=64,
        n_ctx=n_ctx,
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=n_heads * D_HEAD,
        init_embed=2.0,
    )
    linear = frozen_unequal(key, derive(key, "size"), spec, tail)
    return linear, linear.read_out.W_U[:, 3]


def meet_in_the_middle(model: FrozenModel, position: int, direction: np.ndarray) -> np.ndarray:
    """The value of every head path, ``[upper half, lower half]``; no biases, no norm at the end.

    The streams that paths through the lower layers write, times the rows and directions that paths
    through the upper layers read them with.
    """
    A, W_V, W_O, x = (
        np.asarray(array, np.float64) for array in (model.A, model.W_V, model.W_O, model.embedding)
    )
    n_layers, n_heads, n_ctx, _ = A.shape
    half = n_layers // 2
    streams = x[None]
    for layer in range(half):
        written = [A[layer, h] @ (streams @ W_V[layer, h]) @ W_O[layer, h] for h in range(n_heads)]
        streams = np.concatenate([streams, *written])
    rows, directions = np.eye(n_ctx)[position][None], np.asarray(direction, np.float64)[None]
    for layer in reversed(range(half, n_layers)):
        read = [directions @ W_O[layer, h].T @ W_V[layer, h].T for h in range(n_heads)]
        rows = np.concatenate([rows, *(rows @ A[layer, h] for h in range(n_heads))])
        directions = np.concatenate([directions, *read])
    outer = rows[:, :, None] * directions[:, None, :]
    return outer.reshape(len(rows), -1) @ streams.reshape(len(streams), -1).T


def _their_round(model: FrozenModel, direction: jax.Array) -> Callable[[], float]:
    want = np.abs(head_ledger(model, N_CTX - 1, direction, k=K).values)

    def theirs() -> float:
        start = time.perf_counter()
        values = np.abs(meet_in_the_middle(model, N_CTX - 1, np.asarray(direction)).ravel())
        best = np.sort(values[np.argpartition(-values, K)[:K]])[::-1]
        seconds = time.perf_counter() - start
        if not np.allclose(best, want, rtol=1e-6):
            raise ValueError(
                f"brute force finds {best[:3]} as largest paths, the ledger {want[:3]}"
            )
        return seconds

    return theirs


def _timed(
    ledger: Callable[..., Ledger], model: FrozenModel, direction: jax.Array
) -> Callable[[], float]:
    def ours() -> float:
        start = time.perf_counter()
        ledger(model, N_CTX - 1, direction, k=K, budget=BUDGET)
        return time.perf_counter() - start

    return ours


def _eigenvectors(model: FrozenModel) -> Callable[[], float]:
    """Seconds for the eigenvectors that bounds need: one matrix a head and position, and twice
    that behind the first layer; the last layer is read at one position."""
    n_layers, n_heads, n_ctx, _ = model.A.shape
    count = n_heads * (n_ctx * (2 * n_layers - 2) + 1)
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((count, D_HEAD, D_HEAD))
    parts = np.array_split(drawn @ np.swapaxes(drawn, 1, 2), os.cpu_count() or 1)

    def eigenvectors() -> float:
        start = time.perf_counter()
        with one_thread(), ThreadPoolExecutor(len(parts)) as threads:
            list(threads.map(np.linalg.eigh, parts))
        return time.perf_counter() - start

    return eigenvectors


def _moments(model: FrozenModel) -> Callable[[], float]:
    def moments() -> float:
        start = time.perf_counter()
        position_path_moments(host_model(model), N_CTX - 1)
        return time.perf_counter() - start

    return moments


def _parts(model: FrozenModel, direction: jax.Array) -> Callable[[], dict[str, float]]:
    """The search with bounds that are there already, against the whole."""
    bounds = head_path_bounds(host_model(model), N_CTX - 1)
    with_bounds = _timed(partial(head_ledger, bounds=bounds), model, direction)
    whole = _timed(head_ledger, model, direction)

    def parts() -> dict[str, float]:
        searching = min(with_bounds() for _ in range(3)) / min(whole() for _ in range(3))
        return {"bounds, the same for every logit": 1 - searching, "search": searching}

    return parts


def n_position_paths(n_layers: int, n_heads: int, n_ctx: int) -> int:
    """Chains of heads and of the positions they read, that end at the last of ``n_ctx``."""
    ending = [1] * n_ctx
    for _ in range(n_layers):
        ending = [own + n_heads * sum(ending[: t + 1]) for t, own in enumerate(ending)]
    return ending[-1]


def _certificate(found: Ledger, n_layers: int, n_heads: int) -> str:
    last = abs(found.values[-1])
    verdict = "these are the largest" if found.complete else "the gap remains"
    if any(found.positions):
        count, kind = n_position_paths(n_layers, n_heads, N_CTX), "paths of heads and positions"
    else:
        count, kind = n_paths(n_layers, n_heads), "paths of heads"
    return (
        f"{found.n_evaluated:,} evaluations of {count:,} {kind}; path {K} is {last:.3g}, no other "
        f"is beyond {found.omitted_bound:.3g}: {verdict}; budget {BUDGET:,} evaluations"
    )
