"""Q-, K- and V-composition of all pairs of heads, against TransformerLens: time, and peak memory.

    python -m experiments.benchmarks.composition 12 12 768 64

prints the peak of memory of our side alone, in MB, which the table asks of a fresh process.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.weights.composition import composition_scores
from circuitax.kernel.model import Model
from circuitax.kernel.weights import HeadStack
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import alone, forget_peak, peak_mb, seconds

PEER = "TransformerLens 4.3.0 on PyTorch 2.14.1, all_composition_scores"
TOLERANCE = 1e-4


class Size(NamedTuple):
    """Heads of one model."""

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int


def cases(stack: ExitStack) -> list[Case]:
    """Against the peer where its memory suffices (17.9 GB at the middle size); alone beyond."""
    peer = stack.enter_context(Peer("lens"))
    return [
        *both(Size(8, 12, 768, 64), peer, target=30.0),
        *both(Size(12, 12, 768, 64)),
        *both(Size(48, 25, 1600, 64), wanted="45 s, 70 %", most="2,300 MB"),
    ]


def random_model(size: Size) -> Model:
    """Heads as ``peers/lens.py`` draws them, in a model of one token."""
    n_layers, n_heads, d_model, d_head = size
    rng = np.random.default_rng(0)
    shapes = [(d_model, d_head)] * 3 + [(d_head, d_model)]
    drawn = (rng.standard_normal((n_layers, n_heads, *last), np.float32) for last in shapes)
    heads = HeadStack(*(jnp.asarray(W / np.float32(d_model**0.5)) for W in drawn))
    W_E, W_U = jnp.zeros((1, d_model)), jnp.zeros((d_model, 1))
    return Model.of(W_E=W_E, W_U=W_U, attention=heads)


def both(
    size: Size,
    peer: Peer | None = None,
    *,
    target: float | None = None,
    wanted: str = "",
    most: str = "",
) -> list[Case]:
    """Time of all three kinds, and the peak of memory of a process that does nothing else."""
    n_layers, n_heads, d_model, d_head = size
    what = f"{n_layers} layers x {n_heads} heads, d_head {d_head}, d_model {d_model}"
    weights = 4 * 4 * n_layers * n_heads * d_model * d_head
    pairs = n_heads**2 * n_layers * (n_layers - 1) / 2
    # Drawn at the first round: all cases are made before one is measured.
    model, scores = cache(lambda: random_model(size)), jax.jit(composition_scores)
    note = (
        "operations are those that symmetric Grams and later readers need, not those lost at the "
        "edges of tiles and groups"
    )
    theirs: Callable[[], float] | None = None
    their_peak: Callable[[], float] | None = None
    if peer is not None:
        asked: dict[str, Any] = {"what": "composition", "size": size}
        theirs = peer.round(lambda: scores(model()), tolerance=TOLERANCE, **asked)
        their_peak = peer.round(key="peak_mb", **asked)
    name = PEER if peer else ""
    return [
        Case(
            f"composition scores Q, K, V, all pairs, {what}",
            "s",
            lambda: seconds(scores, model()),
            theirs,
            name,
            target,
            wanted,
            # Half of every head's four Grams, and of each product of two for later readers.
            flops=d_model**2 * (4.0 * n_layers * n_heads * d_head + 3.0 * pairs),
            moved=weights,
            note=f"{note}; scores equal to {TOLERANCE:g}" if peer else note,
        ),
        Case(
            f"composition scores, {what}: peak memory of the process",
            "MB",
            cache(lambda: alone("composition", *size)),
            their_peak,
            name,
            wanted=most,
            note=f"the weights are {weights / 2**20:.0f} MB of it, and are there before; "
            "measured once",
        ),
    ]


if __name__ == "__main__":
    drawn_model = jax.block_until_ready(random_model(Size(*map(int, sys.argv[1:]))))
    forget_peak()  # drawing weights on the host holds some of them twice until they are ready
    jax.block_until_ready(jax.jit(composition_scores)(drawn_model))
    print(peak_mb())
