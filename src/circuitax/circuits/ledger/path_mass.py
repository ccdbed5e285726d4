"""Values of chosen paths, and the absolute sum of all dressed paths by random walks.

The ledger lists the largest paths; their absolute sum has a long tail, which nobody can list. A
walk goes from the logit backwards, as the search does. At a partial path q it sees every path that
is one head longer, ends there or goes on through one of them, c, with probability

    p(c) = b_c / (E_q + Σ_c b_c),    E_q = Σ_c |v_c|,    b_c = bound_c √(1 + n_c)

``bound_c`` is the root of the sum of squares of what may precede c (`dressed_moments`), n_c the
number of paths one head longer than c; any positive b would serve. With ``π(q)``, the product of
these along q, the probability that a walk comes by q,

    S = Σ |v| = |v_direct| + E [Σ_{q on the walk} E_q / π(q)]
"""

from typing import NamedTuple, SupportsIndex

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.circuits.ledger.dressed_moments import DressedBounds, dressed_bounds
from circuitax.circuits.ledger.dressed_steps import DressedSteps
from circuitax.circuits.ledger.host_model import (
    check_bounds,
    on_final_stream,
    one_thread,
    overflow_is_refused,
)
from circuitax.circuits.paths.expansion import Path, check_path, path_stream
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.kernel.checks import check_range, counted_index
from circuitax.kernel.keys import host_generator


def head_path_values(
    frozen: FrozenModel,
    paths: tuple[Path, ...],
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    starts: tuple[int | None, ...] | None = None,
) -> Float[Array, " n_paths"]:
    """The values of chosen head paths, pure and differentiable."""
    position = counted_index("position", position, frozen.tokens.shape[0])
    scale = frozen.read_out.scale
    w = direction if scale is None else direction / scale[position]
    from_each = zip(paths, starts or (None,) * len(paths), strict=True)
    return jnp.stack([path_stream(frozen, path, at)[position] @ w for path, at in from_each])


def position_path_values(
    frozen: FrozenModel,
    paths: tuple[Path, ...],
    positions: tuple[tuple[int | None, ...], ...],
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    starts: tuple[int | None, ...] | None = None,
) -> Float[Array, " n_paths"]:
    """The values of chosen position paths, pure and differentiable."""
    last = counted_index("position", position, frozen.tokens.shape[0])
    scale = frozen.read_out.scale
    w = direction if scale is None else direction / scale[last]
    values = []
    for path, sources, start in zip(paths, positions, starts or (None,) * len(paths), strict=True):
        if len(sources) != len(path):
            raise ValueError(f"positions has {sources} for the path {path}, must have one a head")
        check_path(path, *frozen.A.shape[:2])
        A, b_V = frozen.A, frozen.b_V
        written_at = [*sources[1:], last][: len(path)]
        for (layer, head), source, dest in zip(path, sources, written_at, strict=True):
            weight = 0.0 if source is None else A[layer, head, dest, source]
            A = A.at[layer, head].set(0.0)
            if source is not None:
                A = A.at[layer, head, dest, source].set(weight)
        if sources and sources[0] is not None:
            b_V = None
        alone = frozen._replace(A=A, b_V=b_V)
        values.append(path_stream(alone, path, start)[last] @ w)
    return jnp.stack(values)


N_RESAMPLES = 300
_CHUNK = 32  # partial paths that are extended at once


class PathMass(NamedTuple):
    """Estimates over all dressed paths to one logit, with 95 % intervals.

    Attributes:
        absolute: Sum of the absolute values of all paths.
        absolute_interval: Of it.
        half: The fewest paths that hold the asked share of that sum.
        half_interval: Of it.
        n_walks: From how many walks.
        n_evaluated: Different paths whose value was computed.
    """

    absolute: float
    absolute_interval: tuple[float, float]
    half: float
    half_interval: tuple[float, float]
    n_walks: int
    n_evaluated: int


@overflow_is_refused
def path_mass(
    frozen: FrozenModel,
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    key: Key[Array, ""],
    *,
    n_walks: int = 400,
    share: float = 0.5,
    bounds: DressedBounds | None = None,
) -> PathMass:
    """The absolute sum of all dressed paths to a logit, and the number of paths that holds half.

    Source: ours; the estimator is that of Horvitz and Thompson; docs/methods/path-ledger.md.
    """
    position = counted_index("position", position, frozen.tokens.shape[0])
    w, unit = on_final_stream("path_mass", frozen, position, direction)
    check_range("n_walks", n_walks, "[2, inf)")
    if not 0 < share < 1:
        raise ValueError(f"share={share} must be between 0 and 1")
    bounds = dressed_bounds(frozen, position) if bounds is None else bounds
    check_bounds((bounds.frozen, bounds.position), (frozen, position))
    rng = host_generator(key)
    with one_thread():
        steps = DressedSteps(bounds.model, bounds.moments, position, w)
        nodes = _walk(steps, n_walks, rng)
    size = np.concatenate([node.ended for node in nodes])
    of_node = np.repeat(np.arange(len(nodes)), [node.ended.size for node in nodes])
    order = np.argsort(-size, kind="stable")
    size, of_node = size[order], of_node[order]

    def estimates(times: np.ndarray) -> tuple[float, float]:
        """Sum and number, each walk counted so many times."""
        weights = np.array([times[node.walks].sum() / node.chance for node in nodes]) / n_walks
        mass = np.cumsum(size * weights[of_node])
        enough = min(int(np.searchsorted(mass, share * mass[-1])), mass.size - 1)
        return float(mass[-1]), float(weights[of_node[: enough + 1]].sum())

    absolute, half = estimates(np.ones(n_walks))
    drawn = rng.multinomial(n_walks, np.full(n_walks, 1 / n_walks), size=N_RESAMPLES)
    low, high = np.quantile([estimates(times) for times in drawn], [0.025, 0.975], axis=0)
    exponent = bounds.model.exponent + unit
    absolute, least, most = (float(np.ldexp(x, exponent)) for x in (absolute, low[0], high[0]))
    return PathMass(
        absolute, (least, most), half, (float(low[1]), float(high[1])), n_walks, size.size
    )


class _Node(NamedTuple):
    """A partial path that walks came by: sizes of paths that end behind it."""

    ended: np.ndarray
    chance: float
    walks: np.ndarray


def _walk(steps: DressedSteps, n_walks: int, rng: np.random.Generator) -> list[_Node]:
    """All partial paths that some walk came by."""
    root, everyone = steps.root(), np.arange(n_walks)
    nodes = [_Node(np.abs(root.value[0]), 1.0, everyone)]
    level = [(tuple(part[0] for part in root.state), 1.0, everyone)]
    while level:
        following = []
        for start in range(0, len(level), _CHUNK):
            some = level[start : start + _CHUNK]
            states = zip(*(state for state, _, _ in some), strict=True)
            new, parent = steps.children(tuple(np.stack(part) for part in states))
            ahead = new.bound * np.sqrt(1 + _longer(steps, new.hop))
            for row, (_, chance, walks) in enumerate(some):
                (mine,) = np.nonzero(parent == row)
                ended = np.abs(new.value[mine, 0])
                nodes.append(_Node(ended, chance, walks))
                odds = np.append(ahead[mine], ended.sum())
                if not ahead[mine].any():
                    continue
                odds /= odds.sum()
                chosen = rng.choice(odds.size, size=walks.size, p=odds)
                for child in np.unique(chosen[chosen < mine.size]):
                    state = tuple(part[mine[child]] for part in new.state)
                    following.append((state, chance * odds[child], walks[chosen == child]))
        level = following
    return nodes


def _longer(steps: DressedSteps, hop: np.ndarray) -> np.ndarray:
    """Number of paths that are one head longer."""
    head, source = np.divmod(hop, steps.n_ctx + 1)
    before = np.searchsorted(steps.model.layer, steps.model.layer[head])
    return before * (source + 1.0)
