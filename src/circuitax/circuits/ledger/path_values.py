"""Values of chosen paths as pure functions of a frozen model, for `jit`, `vmap` and `grad`.

The ledger searches on the host and returns which paths are the largest; these are their values.
"""

from typing import SupportsIndex

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.expansion import path_stream
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.circuits.paths.paths import Path, check_path
from circuitax.kernel.checks import counted_index


def head_path_values(
    frozen: FrozenModel,
    paths: tuple[Path, ...],
    position: SupportsIndex,
    direction: Float[Array, " d_model"],
    starts: tuple[int | None, ...] | None = None,
) -> Float[Array, " n_paths"]:
    """The values of chosen head paths, pure and differentiable."""
    position = counted_index("position", position, frozen.tokens.shape[0])
    if not paths:
        raise ValueError("paths must have at least one path, has none")
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
    if not paths:
        raise ValueError("paths must have at least one path, has none")
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
