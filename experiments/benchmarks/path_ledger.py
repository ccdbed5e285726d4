"""The path ledger: the same twenty paths as brute force, sooner; and a proof where none can go."""

from collections.abc import Callable
from contextlib import ExitStack

import jax
import numpy as np

from circuitax.circuits.known import frozen_unequal
from circuitax.circuits.ledger.ledger import Ledger, head_ledger, position_ledger
from circuitax.circuits.paths.expansion import n_paths
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from experiments.benchmarks.harness import Case, against
from experiments.benchmarks.machine import seconds

K, N_CTX, D_HEAD, BUDGET = 20, 32, 16, 300_000
PEER = "NumPy in double precision, meet in the middle, one GEMM"
# Standard deviation of the logarithm of what a head writes; 0 is as initialised.
TAILS = {"as initialised": 0.0, "heavy-tailed heads": 1.5}


def cases(_: ExitStack) -> list[Case]:
    """6 layers of 8 heads against brute force; 8 of 12, and positions, against a budget."""
    return [
        _case(head_ledger, 6, 8, "as initialised", peer=True),
        _case(head_ledger, 6, 8, "heavy-tailed heads", peer=True),
        _case(head_ledger, 8, 12, "heavy-tailed heads"),
        _case(position_ledger, 6, 8, "heavy-tailed heads"),
    ]


def _case(
    ledger: Callable[..., Ledger], n_layers: int, n_heads: int, tail: str, *, peer: bool = False
) -> Case:
    model, direction = frozen(n_layers, n_heads, TAILS[tail])

    def found() -> Ledger:
        return ledger(model, N_CTX - 1, direction, k=K, budget=BUDGET)

    def largest() -> np.ndarray:
        values = np.abs(meet_in_the_middle(model, N_CTX - 1, np.asarray(direction)).ravel())
        return np.sort(values[np.argpartition(-values, K)[:K]])[::-1]

    positions = f" × {N_CTX} positions" if ledger is position_ledger else ""
    return Case(
        f"path ledger, {n_layers} layers × {n_heads} heads{positions}, top {K}, {tail}",
        "s",
        lambda: seconds(found),
        against(lambda: np.abs(found().values), largest) if peer else None,
        PEER if peer else "",
        2.0 if peer else None,
        note=_certificate(found(), n_layers, n_heads),
    )


def frozen(n_layers: int, n_heads: int, tail: float) -> tuple[FrozenModel, jax.Array]:
    """A random model frozen on a random text, and the direction of one logit."""
    key = jax.random.key(0)
    spec = TransformerSpec(
        d_vocab=64,
        n_ctx=N_CTX,
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
