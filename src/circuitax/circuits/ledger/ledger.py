"""The path ledger: the largest paths to one logit, and a proven bound on all the others.

`ledger` is the entry. The search (`best_first`) goes from the logit backwards. A partial path is a
row over positions and a direction; `path_bounds` bounds whatever can precede it. The search runs
on the host in double precision and returns indices; the values at those indices are the
differentiable `path_mass.head_path_values`.

A *head path* is a chain of heads, summed over positions; a *position path* is a chain of heads and
of the positions they read. MLPs are taken in one of two ways, as in `frozen_model`: what each wrote
is a source of paths beside the embedding and is not split, or, with gates held, MLPs are maps, and
position paths run through heads in the stream that is dressed by them.
"""

from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.ledger.best_first import Found, best_first, kth_of
from circuitax.circuits.ledger.dressed_moments import DressedBounds, dressed_bounds
from circuitax.circuits.ledger.dressed_steps import DressedSteps, NeuronSteps
from circuitax.circuits.ledger.host_model import (
    check_bounds,
    check_host,
    host_model,
    lost,
    on_final_stream,
    one_thread,
    overflow_is_refused,
    require_finite,
)
from circuitax.circuits.ledger.ledger_steps import HeadSteps, PositionSteps
from circuitax.circuits.ledger.path_bounds import (
    PathBounds,
    head_path_bounds,
    position_path_moments,
    sum_of_paths,
)
from circuitax.circuits.paths.expansion import Path, path_name
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.display.tables import documented, sum_table
from circuitax.kernel.checks import check_index, counted_index, whole
from circuitax.kernel.run import Run, one_text

SHOWN = 15  # paths that `str` names, at most


@documented
class Ledger(NamedTuple):
    """The k largest paths in absolute value, and a proven bound on every other path.

    Attributes:
        paths: Heads in the order in which they act.
        positions: For position paths, the position each head reads; None where a path starts from
            its first head's bias. Empty tuples for head paths.
        values: Contributions to the logit, largest first in absolute value.
        errors: How far rounding may have moved each of them: proven, as is the bound.
        found: Sum of the values.
        remainder: The sum of all paths minus ``found``: in double precision, but without a proven
            error, unlike what is above and below.
        omitted_bound: No path left out is larger than this in absolute value: proven, rounding
            included.
        complete: Whether that bound is at most every value less its error, so that these are the k
            largest paths. Paths that differ by less than rounding leave it open.
        n_evaluated: Paths whose value was computed.
        bias: What belongs to no path: ``b_U`` and the final norm's offset. 0 from `head_ledger` and
            `position_ledger`, which take a direction instead of a token.
        starts: Where each path starts: None for the embedding, else the layer of an MLP.
        rounds: After each round of the search: evaluations, the bound on every path that is not
            among the k largest so far, and the k-th value.
        read: What the paths add up to, in words.
        neurons: Where the last stretch is opened, the layer and unit of the neuron that wrote last;
            None for a path that a head or nothing else wrote. Otherwise empty.
    """

    paths: tuple[Path, ...]
    positions: tuple[tuple[int | None, ...], ...]
    values: np.ndarray
    errors: np.ndarray
    found: float
    remainder: float
    omitted_bound: float
    complete: bool
    n_evaluated: int
    bias: float = 0.0
    starts: tuple[int | None, ...] = ()
    rounds: tuple[tuple[int, float, float], ...] = ()
    read: str = "logit"
    neurons: tuple[tuple[int, int] | None, ...] = ()

    def steps(self, tokens: Sequence[str]) -> list[str]:
        """Position paths with the tokens that heads read: ``' Mary' → 23.0 → ' to' → 29.1``."""
        if not any(self.positions):
            return self.names
        steps = [
            " → ".join(
                f"{'bias' if at is None else repr(tokens[at])} → {layer}.{head}"
                for at, (layer, head) in zip(sources, path, strict=True)
            )
            or "direct"
            for path, sources in zip(self.paths, self.positions, strict=True)
        ]
        return self.to_neurons(steps)

    def to_neurons(self, steps: list[str]) -> list[str]:
        """Paths in words, each with the neuron that writes last where it has one."""
        ends = ["" if unit is None else f" → mlp {unit[0]}.n{unit[1]}" for unit in self.neurons]
        return [a + b for a, b in zip(steps, ends or [""] * len(steps), strict=True)]

    @property
    def names(self) -> list[str]:
        """The paths in words, such as ``0.1 → 1.0``."""
        named = zip(self.paths, self.positions, self.starts, strict=True)
        return self.to_neurons([path_name(path, at or None, start) for path, at, start in named])

    def _repr_html_(self) -> str:
        """The paths as bars that add up to the logit, for a notebook."""
        terms = [(name, float(value)) for name, value in zip(self.names, self.values, strict=True)]
        others = f"all others, none beyond {self.omitted_bound:.3g}; sum not proven"
        rest = [(others, self.remainder)]
        return sum_table(f"Paths to the {self.read}", [*terms, *rest, ("bias", self.bias)], "sum")

    def __str__(self) -> str:
        return self.text(SHOWN)

    def text(self, n_rows: int | None = None) -> str:
        """The paths, one a line, with their sum and what the others have; ``str`` has 15."""
        names = self.names
        which = "the largest" if self.complete else "the budget or rounding ended the search"
        others = f"all other paths, none beyond {self.omitted_bound:.3g}; sum not proven"
        sums = {
            f"sum of these {len(names)} paths ({which})": self.found,
            others: self.remainder,
            "b_U and the final offset (b_O: direct)": self.bias,
            self.read: self.found + self.remainder + self.bias,
        }
        rows = list(zip(names, self.values, strict=True))
        if n_rows is not None and len(rows) > n_rows + 1:
            rest = self.values[n_rows:].sum()
            rows = [*rows[:n_rows], (f"sum of {len(names) - n_rows} more, in text()", rest)]
        rows += sums.items()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:+.4f}" for name, value in rows)

    def __repr__(self) -> str:
        return str(self)


def ledger(
    run: Run,
    token: SupportsIndex,
    *,
    minus: SupportsIndex | None = None,
    position: SupportsIndex = -1,
    k: int = 20,
    by_position: bool = False,
    mlps: str = "sources",
    neurons: bool = False,
    budget: int = 2_000_000,
) -> Ledger:
    """The k largest paths to the logit of a token, or to its lead over another token.

    The logit is read through the final norm of the run: gain, centring and offset are folded into
    the unembedding, and the divisor is that of the position. Weights, patterns and divisors are
    taken as the run has them: what is proven of a run in half precision is of its rounded numbers.

    Args:
        run: A run on one text, made with ``outputs=True`` if the model has MLPs.
        token: Id whose logit is explained.
        minus: Id whose logit is subtracted; None for none.
        position: Where the logit is read; negative positions count from the end.
        k: Paths to find, at least 1.
        by_position: Whether a path also says which position each head reads (`position_ledger`);
            otherwise it is summed over positions (`head_ledger`).
        mlps: ``"sources"``: what each MLP wrote in this run is a source of paths, beside the
            embedding. ``"dressed"``, with ``by_position`` only: paths start at tokens and run
            through heads in the dressed stream, gates held (`frozen_model`).
        neurons: Whether the last stretch of a path is opened, so that a head or a neuron writes to
            the logit itself (`position_ledger`); in the dressed stream only.
        budget: Stop after this many evaluations; ``omitted_bound`` then tells what may be missing.

    Raises:
        ValueError: If the call is inside jit, vmap or grad, the run is of a batch, of an ensemble,
            of a model whose MLPs were not recorded or whose logits are bounded, or not finite, the
            stream is dressed and paths are summed over positions, or another argument is out of
            range.

    Source: ours; the search and its bound are derived in docs/methods/path-ledger.md.
    """
    n_ctx, d_vocab = one_text(run).tokens.shape[0], run.model.spec.vocab_out
    check_host("ledger", (run, token, minus, position))
    token = whole("token", token)
    check_index("token", token, d_vocab)
    if minus is not None:
        minus = whole("minus", minus)
        check_index("minus", minus, d_vocab)
    position = counted_index("position", position, n_ctx)
    if mlps == "dressed" and not by_position:
        raise ValueError("mlps='dressed' must come with by_position=True: MLPs differ by position")
    if neurons and mlps != "dressed":
        raise ValueError(
            f"mlps={mlps!r} must be 'dressed' with neurons=True: paths go through MLPs then"
        )
    frozen = frozen_model(run, mlps=mlps)
    check_host("ledger", frozen)
    W_U, b_U = frozen.read_out.W_U, frozen.read_out.b_U
    direction = W_U[:, token] if minus is None else W_U[:, token] - W_U[:, minus]
    bias = 0.0
    if b_U is not None:
        bias = float(b_U[token]) - (0.0 if minus is None else float(b_U[minus]))
    if by_position:
        found = position_ledger(frozen, position, direction, k=k, budget=budget, neurons=neurons)
    else:
        found = head_ledger(frozen, position, direction, k=k, budget=budget)
    lead = "" if minus is None else f" minus that of token {minus}"
    return found._replace(bias=bias, read=f"logit of token {token}{lead}, at position {position}")


@overflow_is_refused
def head_ledger(
    frozen: FrozenModel,
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    *,
    k: int = 20,
    budget: int = 2_000_000,
    bounds: PathBounds | None = None,
) -> Ledger:
    """The k largest head paths along a direction; `ledger` takes a token instead.

    Source: ours; the search and its bound are derived in docs/methods/path-ledger.md.
    """
    if frozen.maps is not None:
        raise ValueError(
            "frozen.maps must be None, paths in the dressed stream are not summed over positions: "
            'take position_ledger, or frozen_model(run, mlps="sources")'
        )
    position = counted_index("position", position, frozen.tokens.shape[0])
    w, unit = on_final_stream("head_ledger", frozen, position, direction)
    _check_counts(k, budget)
    host = host_model(frozen)
    whole, exponent = float(sum_of_paths(host)[position] @ w), host.exponent + unit
    bounds = head_path_bounds(host, position) if bounds is None else bounds
    check_bounds(bounds.made_of, (host, position))
    steps = HeadSteps(host, bounds, position, w)
    with one_thread():
        return _ledger(best_first(steps, frozen.A.shape[1], k, budget), whole, exponent)


@overflow_is_refused
def position_ledger(
    frozen: FrozenModel,
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    *,
    k: int = 20,
    budget: int = 2_000_000,
    bounds: DressedBounds | None = None,
    neurons: bool = False,
) -> Ledger:
    """The k largest position paths along a direction; arguments as in `head_ledger`.

    The moments are exact here: the sum of squares of all contributions is known before the search,
    so ``√(total - Σ found²)`` also bounds what is left out. The output biases ``b_O`` written
    before a path's first head count to the token it starts from, and so do the constants of MLPs in
    a dressed stream.
    """
    position = counted_index("position", position, frozen.tokens.shape[0])
    w, unit = on_final_stream("position_ledger", frozen, position, direction)
    _check_counts(k, budget)
    steps: PositionSteps | DressedSteps
    if frozen.maps is None:
        if bounds is not None:
            raise ValueError("bounds must be None: frozen.maps is None, the stream is not dressed")
        if neurons:
            raise ValueError(
                "neurons must be False: frozen.maps is None, the stream is not dressed"
            )
        host = host_model(frozen)
        whole, exponent = float(sum_of_paths(host)[position] @ w), host.exponent + unit
        steps = PositionSteps(host, position_path_moments(host, position), position, w)
    else:
        bounds = dressed_bounds(frozen, position) if bounds is None else bounds
        check_bounds((bounds.frozen, bounds.position), (frozen, position))
        dressed = bounds.model
        whole, exponent = float(dressed.final[position] @ w), dressed.exponent + unit
        if neurons:
            return _neuron_ledger(bounds, w, frozen.A.shape[1], whole, exponent, k, budget)
        steps = DressedSteps(dressed, bounds.moments, position, w)
    with one_thread():
        found = best_first(steps, frozen.A.shape[1], k, budget)
    # What is left of the sum of all squares, in a unit in which it does not overflow.
    root = steps.root()
    unit = int(np.frexp(max(root.bound.max(), np.abs(root.value).max()))[1])
    whole_size = np.concatenate([np.abs(root.value[0]) + root.error[0], root.bound])
    least = np.maximum(np.abs(found.values) - found.errors, 0)
    total, kept = (np.sum(np.ldexp(size, -unit) ** 2) for size in (whole_size, least))
    # The subtraction may lose all digits; what it can lose is added back.
    rest = total * (1 + 1e-12 + lost(k)) - kept
    bound = min(found.omitted_bound, float(np.ldexp(np.sqrt(max(rest, 0)), unit)))
    complete = found.complete or bound <= kth_of(np.sort(least)[::-1], k)
    return _ledger(found._replace(omitted_bound=bound, complete=complete), whole, exponent)


def _neuron_ledger(
    bounds: DressedBounds,
    w: np.ndarray,
    n_heads: int,
    whole: float,
    exponent: int,
    k: int,
    budget: int,
) -> Ledger:
    """The k largest paths whose last writer is a head or a neuron."""
    with one_thread():
        steps = NeuronSteps(bounds.model, bounds.moments, bounds.position, w)
        found = best_first(steps, n_heads, k, budget)
    paths, positions, neurons = [], [], []
    for path, sources in zip(found.paths, found.positions, strict=True):
        # A neuron is counted behind all heads, and acts last.
        unit = path[-1][0] * n_heads + path[-1][1] - steps.n_heads if path else -1
        heads = len(path) - (unit >= 0)
        paths.append(path[:heads])
        positions.append(sources[:heads])
        neurons.append(divmod(unit, steps.d_mlp) if unit >= 0 else None)
    found = found._replace(paths=tuple(paths), positions=tuple(positions))
    return _ledger(found, whole, exponent)._replace(neurons=tuple(neurons))


def _ledger(found: Found, whole: float, exponent: int) -> Ledger:
    """The search result and the sum of all paths, in the units of the model."""
    if exponent:
        found = found._replace(
            values=np.ldexp(found.values, exponent),
            # Small numbers are rounded once more.
            errors=np.nextafter(np.ldexp(found.errors, exponent), np.inf),
            omitted_bound=float(np.nextafter(np.ldexp(found.omitted_bound, exponent), np.inf)),
            rounds=tuple(
                (n, float(np.ldexp(bound, exponent)), float(np.ldexp(kth, exponent)))
                for n, bound, kth in found.rounds
            ),
        )
        whole = float(np.ldexp(whole, exponent))
    total = float(found.values.sum())
    require_finite("paths", found.values, found.errors, np.array([found.omitted_bound, whole]))
    return Ledger(**found._asdict(), found=total, remainder=whole - total)


def _check_counts(k: int, budget: int) -> None:
    for option, value in (("k", k), ("budget", budget)):
        whole(option, value, 1)
