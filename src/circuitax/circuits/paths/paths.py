"""Paths of an attention-only model: every choice of at most one head per layer.

When ``Π_l (1 + Σ_h H_lh)`` is multiplied out, a path picks the 1 or one head in each layer. This is
combinatorics on the host, without arrays.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

import itertools
import math
from collections.abc import Iterator

Head = tuple[int, int]
"""(layer, head)."""

Path = tuple[Head, ...]
"""Heads in the order in which they act, layers rising; ``()`` is the direct path."""


def n_paths(n_layers: int, n_heads: int, order: int | None = None) -> int:
    """Number of paths through ``order`` heads, ``C(L, k) H^k``; in all, ``(1 + H)^L``.

    Source: framework paper, "path expansion"; S0 section 6, "explosion of possible paths".
    """
    _not_negative(n_layers=n_layers, n_heads=n_heads, order=order)
    if order is None:
        return (1 + n_heads) ** n_layers
    return math.comb(n_layers, order) * n_heads**order


def all_paths(n_layers: int, n_heads: int, max_order: int | None = None) -> Iterator[Path]:
    """Every path once, in the order of `expansion.path_streams`."""
    _not_negative(n_layers=n_layers, n_heads=n_heads, max_order=max_order)
    paths: list[Path] = [()]
    for layer in range(n_layers):
        paths += [
            (*path, (layer, head))
            for head in range(n_heads)
            for path in paths
            if max_order is None or len(path) < max_order
        ]
    return iter(paths)


def path_index(path: Path, n_heads: int) -> int:
    """The position of a path among `all_paths`: its digits in base ``1 + n_heads``."""
    check_path(path, 1 + max((layer for layer, _ in path), default=0), n_heads)
    return sum((1 + head) * (1 + n_heads) ** layer for layer, head in path)


def check_path(path: Path, n_layers: int, n_heads: int) -> None:
    """Refuse a path through layers or heads that the model lacks."""
    layers = [layer for layer, _ in path]
    if any(later <= earlier for earlier, later in itertools.pairwise(layers)):
        raise ValueError(f"path={path} must name layers in rising order, each at most once")
    for layer, head in path:
        if not (0 <= layer < n_layers and 0 <= head < n_heads):
            raise ValueError(
                f"path={path} must name layers below {n_layers} and heads below {n_heads}"
            )


def path_name(
    path: Path, sources: tuple[int | None, ...] | None = None, start: int | None = None
) -> str:
    """``"direct"``, or heads in order of action, such as ``"0.3 → 1.2"`` or ``"mlp 0 → 1.2"``."""
    heads = [f"{layer}.{head}" for layer, head in path]
    if sources is not None:
        read = ["bias" if source is None else source for source in sources]
        heads = [f"{head}[{place}]" for head, place in zip(heads, read, strict=True)]
    if start is not None:
        heads = [f"mlp {start}", *heads]
    return " → ".join(heads) or "direct"


def _not_negative(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 0:
            raise ValueError(f"{name}={value} must be at least 0")
