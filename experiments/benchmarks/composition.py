"""Q-, K- and V-composition of all pairs of heads, against TransformerLens: time, and peak memory.

    python -m experiments.benchmarks.composition 12 12 768 64

prints the peak of memory of our side alone, in MB, which the table asks of a fresh process.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.weights.composition import composition_scores
from circuitax.kernel.model import Model
from circuitax.kernel.weights import HeadStack
from experiments.benchmarks.case import Case
from experiments.benchmarks.memory import forget_peak, jax_alone_mb, peak_mb
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.profiled import time_by_kind

PEER = "TransformerLens 3.9.0 on PyTorch 2.13.0, all_composition_scores"
TARGET = 30.0
TOLERANCE = 1e-4


class Size(NamedTuple):
    """Heads of one model."""

    n_layers: int
    n_heads: int
    d_model: int
    d_head: int

    def __str__(self) -> str:
        return (
            f"{self.n_layers} layers x {self.n_heads} heads, d_head {self.d_head}, "
            f"d_model {self.d_model}"
        )

    @property
    def weights_mb(self) -> float:
        """Megabytes of ``W_Q``, ``W_K``, ``W_V`` and ``W_O`` in float32."""
        return 4 * 4 * self.n_layers * self.n_heads * self.d_model * self.d_head / 2**20

    @property
    def flops(self) -> float:
        """Half of every head's four Grams, and half of each product of two for later readers."""
        heads = self.n_layers * self.n_heads
        pairs = self.n_heads**2 * self.n_layers * (self.n_layers - 1) / 2
        return self.d_model**2 * (4.0 * heads * self.d_head + 3.0 * pairs)


# The peer needs 17.9 GB at the middle size; at the smallest it fits beside others.
SHARED, MIDDLE, LARGE = Size(8, 12, 768, 64), Size(12, 12, 768, 64), Size(48, 25, 1600, 64)


def cases(stack: ExitStack) -> list[Case]:
    """Against the peer where its memory suffices; alone at two larger sizes."""
    peer = stack.enter_context(Peer("transformer_lens_composition.py"))
    return [
        time_case(SHARED, peer),
        memory_case(SHARED, peer),
        time_case(MIDDLE),
        memory_case(MIDDLE),
        time_case(LARGE, wanted="45 s, 70 %"),
        memory_case(LARGE, wanted="2,300 MB"),
    ]


def random_model(size: Size) -> Model:
    """Heads as ``peers/transformer_lens_composition.py`` draws them, in a model of one token."""
    rng = np.random.default_rng(0)
    wide, tall = (size.d_model, size.d_head), (size.d_head, size.d_model)

    def draw(last: tuple[int, int]) -> jax.Array:
        drawn = rng.standard_normal((size.n_layers, size.n_heads, *last), np.float32)
        drawn /= np.float32(size.d_model**0.5)
        return jnp.asarray(drawn)

    heads = HeadStack(draw(wide), draw(wide), draw(wide), draw(tall))
    return Model.of(
        W_E=jnp.zeros((1, size.d_model)), W_U=jnp.zeros((size.d_model, 1)), attention=heads
    )


def our_scores(size: Size) -> Callable[[], jax.Array]:
    """All three kinds on random weights, compiled at the first call; those weights are drawn then.

    The table makes all its cases before it measures any, and the largest weights are 2 GB.
    """
    models: list[Model] = []
    scores = jax.jit(composition_scores)

    def ours() -> jax.Array:
        if not models:
            models.append(random_model(size))
        return jax.block_until_ready(scores(models[0]))

    return ours


def require_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Refuse scores that differ; NaN of ours, where nothing composes, is 0 of theirs.

    Raises:
        RuntimeError: If they differ by more than `TOLERANCE`.
    """
    gap = float(np.abs(np.nan_to_num(ours) - theirs).max())
    if not gap <= TOLERANCE:
        raise RuntimeError(f"the two sides' scores differ by {gap:.2g}, more than {TOLERANCE}")


def time_case(
    size: Size, peer: Peer | None = None, *, target: float = TARGET, wanted: str = ""
) -> Case:
    """Time of all three kinds, against the peer if there is one.

    Args:
        size: Of the model.
        peer: A running ``peers/transformer_lens_composition.py``.
        target: Least ratio that is wanted of it.
        wanted: What else is wanted.
    """
    scores = our_scores(size)
    checked = False

    def ours() -> float:
        start = time.perf_counter()
        scores()
        return time.perf_counter() - start

    def their_round(peer: Peer) -> float:
        nonlocal checked
        answer = peer.ask(**size._asdict(), with_scores=not checked)
        if not checked:
            require_equal(np.asarray(scores()), np.asarray(answer["scores"]))
            checked = True
        return answer["seconds"]

    return Case(
        name=f"composition scores Q, K, V, all pairs, {size}",
        unit="s",
        ours=ours,
        theirs=partial(their_round, peer) if peer else None,
        peer=PEER if peer else "",
        target=target if peer else None,
        wanted=wanted,
        flops=size.flops,
        moved=size.weights_mb * 2**20,
        parts=lambda: time_by_kind(scores),
        note="operations are those that symmetric Grams and later readers need, not those lost at "
        "the edges of tiles and groups" + (f"; scores equal to {TOLERANCE:g}" if peer else ""),
    )


def memory_case(size: Size, peer: Peer | None = None, *, wanted: str = "") -> Case:
    """Peak of memory of a process that does nothing else; arguments as for `time_case`."""

    @cache  # the same in every round, and a minute at the largest size
    def ours() -> float:
        command = [sys.executable, "-m", "experiments.benchmarks.composition", *map(str, size)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    def their_round(peer: Peer) -> float:
        return peer.ask(**size._asdict(), with_scores=False)["peak_mb"]

    return Case(
        name=f"composition scores, {size}: peak memory of the process",
        unit="MB",
        ours=ours,
        theirs=partial(their_round, peer) if peer else None,
        peer=PEER if peer else "",
        wanted=wanted,
        floors={"weights and JAX": lambda: size.weights_mb + jax_alone_mb()},
        note=f"the weights are {size.weights_mb:.0f} MB of it, and are there before; measured once",
    )


if __name__ == "__main__":
    drawn = jax.block_until_ready(random_model(Size(*map(int, sys.argv[1:]))))
    forget_peak()  # drawing weights on the host holds some of them twice until they are ready
    jax.block_until_ready(jax.jit(composition_scores)(drawn))
    print(peak_mb())
