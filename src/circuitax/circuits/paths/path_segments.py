"""One segment of a dressed path, opened: its value by MLP and by hidden unit.

Between two heads a path stays at one position, and all MLPs of that position act together, ``x ↦ x
Π_l (I + M_l)``. Multiplied out this has 2^n terms that cancel; two splits have a term a layer, or a
term a unit, and are exact:

    x Π_l (I + M_l) = x + Σ_l x Π_{j<l} (I + M_j) M_l        by the last MLP that is passed
    x Π_l (I + M_l) = through M_l + past it, for any one l   M_l by its hidden units
"""

from typing import NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.paths.expansion import Path
from circuitax.circuits.paths.frozen import FrozenModel, after_layer, mlp_units
from circuitax.display.tables import NumberTable
from circuitax.kernel.checks import counted_index
from circuitax.kernel.shown import known, tabled


@tabled
class OpenedSegment(NamedTuple):
    """The value of a path by what it passes in one segment.

    Attributes:
        whole: The value of the path.
        past: Ways past all MLPs of the segment; constants that enter on it belong here.
        last: Ways by the last MLP that they pass; with ``past`` they sum to ``whole``.
        units: All ways through each hidden unit of each MLP.
        layers: The layers of these MLPs.
    """

    whole: Float[Array, ""]
    past: Float[Array, ""]
    last: Float[Array, " n_mlps"]
    units: Float[Array, "n_mlps d_mlp"]
    layers: Array | np.ndarray

    @property
    def through(self) -> Float[Array, " n_mlps"]:
        """Sums over the units of each MLP; the sums of two layers overlap and do not add."""
        return self.units.sum(axis=-1)

    @property
    def absolute(self) -> Float[Array, ""]:
        """``|past| + Σ |last|``, beside ``whole``."""
        return jnp.abs(self.past) + jnp.abs(self.last).sum()

    @property
    def absolute_units(self) -> Float[Array, " n_mlps"]:
        """``Σ |unit|`` of each MLP, beside ``through``."""
        return jnp.abs(self.units).sum(axis=-1)

    def largest_units(self, n: int) -> list[tuple[str, float]]:
        """The units through which most flows, as ``mlp 29.n1107``; concrete arrays only."""
        units = np.asarray(self.units)
        order = np.argsort(-np.abs(units), axis=None, kind="stable")[:n]
        places = zip(*np.unravel_index(order, units.shape), strict=True)
        return [(f"mlp {int(self.layers[i])}.n{int(j)}", float(units[i, j])) for i, j in places]

    def _table(self) -> NumberTable | None:
        if np.ndim(self.whole) or not known(self.whole, self.units):
            return None
        rows = [
            (f"mlp {int(layer)}", [float(last), float(through), float(absolute)])
            for layer, last, through, absolute in zip(
                self.layers, self.last, self.through, self.absolute_units, strict=True
            )
        ]
        rows.append(("past all MLPs", [float(self.past), np.nan, np.nan]))
        title = f"One segment of a path: {self.whole:+.4f}, absolute sum {self.absolute:.4f}"
        columns = ("last MLP", "through it", "its units' absolute sum")
        return NumberTable(title, columns, rows)


def opened_segment(
    frozen: FrozenModel,
    path: Path,
    sources: tuple[int | None, ...],
    segment: int,
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
) -> OpenedSegment:
    """One segment of a position path by MLP and hidden unit; pure and differentiable.

    Source: ours; docs/methods/mlps.md.
    """
    if frozen.maps is None or frozen.norms is not None:
        raise ValueError("frozen must have maps of MLPs and no norms: post-LN is not opened")
    maps = frozen.maps
    n_ctx = frozen.A.shape[2]
    last = counted_index("position", position, n_ctx)
    places = [*sources, last]
    walk = _Walk(frozen, path, places, direction)
    row = walk.rest(walk.start(), walk.first, segment)
    end = jax.grad(lambda row: walk.value(row, segment))(row)
    layers = walk.layers(segment)
    at = _at(frozen, places[segment])
    # The direction behind each MLP of the segment, from the last one back.
    behind, w = [], end
    for layer in reversed(layers):
        behind.append(w)
        _, back = jax.vjp(lambda x, layer=layer: walk.past(at, layer, x, segment, False), row)
        w = back(w)[0]
    units, ending, held = [], [], at.maps or maps
    whole = walk.value(walk.through(row, segment), segment)
    for layer, after in zip(layers, reversed(behind), strict=True):
        read = row
        if segment == 0 and frozen.b_O is not None:
            read = row + maps.after_heads * frozen.b_O[layer]
        opened = mlp_units(held, layer, read[None])[0]
        if walk.is_first(segment, layer):
            opened = maps.after_heads * opened
        units.append(opened * (maps.W_out[layer] @ after))
        ending.append((opened @ maps.W_out[layer]) @ end)
        row = walk.past(at, layer, row, segment, segment == 0)
    by_last = jnp.stack(ending) if ending else jnp.zeros(0, row.dtype)
    none = jnp.zeros((0, maps.W_out.shape[1]), row.dtype)
    of_units = jnp.stack(units) if units else none
    return OpenedSegment(whole, whole - by_last.sum(), by_last, of_units, np.asarray(layers))


class _Walk:
    """One row of the stream along a position path."""

    def __init__(
        self, frozen: FrozenModel, path: Path, places: list[int | None], direction: Array
    ) -> None:
        self.frozen, self.path, self.places = frozen, path, places
        self.first = 1 if path and places[0] is None else 0
        scale = frozen.read_out.scale
        self.w = direction if scale is None else direction / scale[places[-1]]

    def start(self) -> Array:
        """The row that enters the first segment."""
        if not self.first:
            return self.frozen.embedding[self.places[0]]
        (layer, head), dest = self.path[0], self.places[1]
        if self.frozen.b_V is None:
            return jnp.zeros_like(self.frozen.embedding[0])
        return self.frozen.b_V[layer, head, dest] @ self.frozen.W_O[layer, head]

    def layers(self, segment: int) -> list[int]:
        """MLPs that a segment passes; that of its head's layer too, which is 0 where parallel."""
        n_layers, begin = self.frozen.A.shape[0], self.path[segment - 1][0] if segment else 0
        end = self.path[segment][0] if segment < len(self.path) else n_layers
        return list(range(begin, end))

    def past(self, at: FrozenModel, layer: int, row: Array, segment: int, constants: bool) -> Array:
        """The row behind the MLP of one layer; in that of its head, it is what the head wrote."""
        passing, written = after_layer(at, layer, row[None], row[None], constants)
        return (written if self.is_first(segment, layer) else passing)[0]

    def is_first(self, segment: int, layer: int) -> bool:
        """Whether the head before a segment is in this layer."""
        return segment > 0 and self.path[segment - 1][0] == layer

    def through(self, row: Array, segment: int) -> Array:
        """The row at the end of a segment."""
        at = _at(self.frozen, self.places[segment])
        for layer in self.layers(segment):
            row = self.past(at, layer, row, segment, segment == 0)
        return row

    def past_head(self, row: Array, hop: int) -> Array:
        """Output of a head of the path for the row."""
        layer, head = self.path[hop]
        weight = self.frozen.A[layer, head, self.places[hop + 1], self.places[hop]]
        return weight * (row @ self.frozen.W_V[layer, head] @ self.frozen.W_O[layer, head])

    def rest(self, row: Array, begin: int, end: int) -> Array:
        """The row at the beginning of a later segment."""
        for segment in range(begin, end):
            row = self.past_head(self.through(row, segment), segment)
        return row

    def value(self, row: Array, segment: int) -> Array:
        """The value of the path from the row at the end of a segment."""
        if segment < len(self.path):
            row = self.rest(self.past_head(row, segment), segment + 1, len(self.path))
            row = self.through(row, len(self.path))
        return row @ self.w


def _at(frozen: FrozenModel, place: int | None) -> FrozenModel:
    """The model with the MLPs of one position alone."""
    maps = frozen.maps
    if maps is None or place is None:
        return frozen
    here, extra = slice(place, place + 1), maps.hidden_factors
    return frozen._replace(
        maps=maps._replace(
            factors=maps.factors[:, :, here],
            constant=maps.constant[:, here],
            hidden_factors=None if extra is None else extra[:, :, here],
        )
    )
