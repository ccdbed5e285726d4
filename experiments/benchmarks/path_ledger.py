"""The largest head paths to a logit: the ledger, against enumeration that meets in the middle."""

import time
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.frozen import FrozenModel, frozen_model
from circuitax.circuits.ledger import head_ledger
from circuitax.circuits.second_moments import host_model
from circuitax.kernel.forward import forward
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from experiments.benchmarks.case import Case

LAYERS, HEADS, N_CTX, D_MODEL, K = 6, 8, 16, 64, 20
TOLERANCE = 1e-6


def cases(stack: ExitStack) -> list[Case]:
    """Initialised weights, and heads of very unequal strength."""
    del stack  # NumPy is here already
    return [_case("initialised weights", 0.0), _case("lognormal head strengths", 1.5)]


def random_model(n_layers: int, n_heads: int, spread: float) -> FrozenModel:
    """A frozen model on random tokens; each head's output times ``exp(spread · normal)``."""
    spec = TransformerSpec(
        d_vocab=64, n_ctx=N_CTX, n_layers=n_layers, n_heads=n_heads, d_model=D_MODEL
    )
    weights = init_weights(jax.random.key(0), spec)
    heads = weights.blocks.attention
    strength = jnp.exp(spread * jax.random.normal(jax.random.key(1), (n_layers, n_heads, 1, 1)))
    heads = heads._replace(W_O=heads.W_O * strength)
    weights = weights._replace(blocks=weights.blocks._replace(attention=heads))
    tokens = jax.random.randint(jax.random.key(2), (N_CTX,), 0, 64)
    forward_spec = spec.forward_spec()
    return frozen_model(weights, tokens, forward_spec, forward(weights, tokens, forward_spec)[1])


def all_path_values(model: FrozenModel, position: int, direction: np.ndarray) -> np.ndarray:
    """Values of all head paths, by products of the lower and of the upper half of the layers.

    In the order of `paths.all_paths`; biases must be absent, since they are not multiplied out.
    """
    host = host_model(model)
    n_layers, n_heads = model.A.shape[:2]
    w = np.asarray(direction, np.float64)
    if model.read_out.scale is not None:
        w = w / float(model.read_out.scale[position])
    low = host.direct[None]
    for layer in range(n_layers // 2):
        heads = range(layer * n_heads, (layer + 1) * n_heads)
        new = [host.A[h] @ (low @ host.W_V[h]) @ host.W_O[h] for h in heads]
        low = np.concatenate([low, *new])
    row = np.eye(len(host.direct))[position][None]
    high: tuple[np.ndarray, ...] = (row, w[None])
    for layer in reversed(range(n_layers // 2, n_layers)):
        heads = range(layer * n_heads, (layer + 1) * n_heads)
        rows = [high[0] @ host.A[h] for h in heads]
        ends = [high[1] @ host.W_O[h].T @ host.W_V[h].T for h in heads]
        # A lower layer's digit counts less: it varies faster.
        high = tuple(
            np.stack([old, *new], axis=1).reshape(-1, old.shape[1])
            for old, new in zip(high, (rows, ends), strict=True)
        )
    upper = (high[0][:, :, None] * high[1][:, None, :]).reshape(len(high[0]), -1)
    return (upper @ low.reshape(len(low), -1).T).ravel()


def require_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Refuse other values than the peer's.

    Raises:
        RuntimeError: If one differs by more than `TOLERANCE` of the largest.
    """
    gap = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not gap <= TOLERANCE:
        raise RuntimeError(f"the two sides' largest paths differ by {gap:.2g} of the largest")


def _case(which: str, spread: float) -> Case:
    model = random_model(LAYERS, HEADS, spread)
    direction, position = model.read_out.W_U[:, 3], N_CTX - 1
    found = head_ledger(model, position, direction, K)

    def ours() -> float:
        start = time.perf_counter()
        head_ledger(model, position, direction, K)
        return time.perf_counter() - start

    def theirs() -> float:
        start = time.perf_counter()
        values = all_path_values(model, position, np.asarray(direction))
        chosen = values[np.argpartition(-np.abs(values), K - 1)[:K]]
        seconds = time.perf_counter() - start
        require_equal(found.values, chosen[np.argsort(-np.abs(chosen))])
        return seconds

    return Case(
        name=f"{K} largest head paths, {LAYERS} layers x {HEADS} heads, {which}",
        unit="s",
        ours=ours,
        theirs=theirs,
        peer=f"NumPy {np.__version__}, halves of the layers and one product",
        target=1.0,
        note=f"complete: {found.complete}; {found.n_evaluated} of {(1 + HEADS) ** LAYERS} paths "
        f"evaluated; {N_CTX} positions, d_model {D_MODEL}; the same values on both sides",
    )
