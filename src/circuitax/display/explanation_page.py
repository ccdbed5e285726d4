"""An explained prediction as one self-contained HTML page: no server, no other file."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from circuitax.display.viewers import Viewer, viewer_page
from circuitax.display.visible import visible

DIGITS = 4
LONGEST = 40  # characters of a token
HOW = (
    "Hover or focus a token to see where each head looks from there and what it writes; choose a "
    "path to light up its heads."
)


@runtime_checkable
class Explained(Protocol):
    """Fields of `circuits.explanation.Explanation` for the page; that module imports JAX."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def position(self) -> int: ...
    @property
    def next_tokens(self) -> tuple[str, ...]: ...
    @property
    def next_probs(self) -> np.ndarray: ...
    @property
    def next_logits(self) -> np.ndarray: ...
    @property
    def logit(self) -> float: ...
    @property
    def bias(self) -> float: ...
    @property
    def remainder(self) -> float: ...
    @property
    def paths(self) -> Any: ...
    @property
    def heads(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def patterns(self) -> np.ndarray: ...
    @property
    def written(self) -> Sequence[Sequence[Sequence[tuple[str, float]]]]: ...
    @property
    def title(self) -> str: ...
    def ranked(self) -> list[tuple[str, float]]: ...
    def path_names(self) -> list[str]: ...


def explanation_page(explained: Explained, model: str = "") -> str:
    """The page: hover over a token for the heads' attention, choose a path to highlight its heads.

    It works from a file, without a network, with the keyboard, and without colour.

    Args:
        explained: From `circuits.explanation.explain`.
        model: Name of the model, for the heading.

    Raises:
        ValueError: If it is no explanation.
    """
    if not hasattr(explained, "title"):
        raise ValueError(
            f"explained is a {type(explained).__name__}, must be an explanation: cx.explain(run)"
        )
    title = f"{explained.title}: {model}" if model else explained.title
    return viewer_page(title, explanation_viewer(explained, model))


def explanation_viewer(explained: Explained, model: str = "") -> Viewer:
    """An explained prediction as a part of a page; arguments as for `explanation_page`."""
    title = f"{explained.title}: {explained.logit:+.4f}"
    return Viewer("explanation", title, f"{model}. {HOW}" if model else HOW, page_facts(explained))


def page_facts(explained: Explained) -> dict[str, Any]:
    """Contents of the page, as plain values."""
    paths = explained.paths
    return {
        "tokens": [_visible(token) for token in explained.tokens],
        "position": explained.position,
        "next": [
            {"token": _visible(token), "prob": float(prob), "logit": _short(logit)}
            for token, prob, logit in zip(
                explained.next_tokens, explained.next_probs, explained.next_logits, strict=True
            )
        ],
        "effects": [
            {"name": name, "value": _short(value), "head": _code(name)}
            for name, value in explained.ranked()
        ],
        "bias": _short(explained.bias),
        "remainder": float(explained.remainder),
        "logit": _short(explained.logit),
        "paths": None
        if paths is None
        else {
            "rows": [
                {"name": name, "value": _short(value), "heads": _codes(path)}
                for name, value, path in zip(
                    explained.path_names(), paths.values, paths.paths, strict=True
                )
            ],
            "found": _short(paths.found),
            "rest": _short(paths.remainder),
            "bias": _short(paths.bias),
            "bound": float(paths.omitted_bound),
            "complete": bool(paths.complete),
        },
        "heads": _codes(explained.heads),
        "writes": [
            [
                [[_visible(token), round(float(value), 2)] for token, value in place]
                for place in head
            ]
            for head in explained.written
        ],
        "patterns": [
            [[round(float(a), 3) for a in row] for row in pattern] for pattern in explained.patterns
        ],
    }


def _short(value: Any) -> float:
    return round(float(value), DIGITS)


def _codes(heads: Sequence[Sequence[int]]) -> list[str]:
    return [f"{layer}.{head}" for layer, head in heads]


def _code(name: str) -> str | None:
    return name.removeprefix("head ") if name.startswith("head ") else None


def _visible(token: str) -> str:
    return visible(token, LONGEST) or "∅"
