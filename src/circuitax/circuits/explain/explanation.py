"""One prediction explained: the terms of a logit, its largest paths, and attention patterns.

`explain` is the entry. It gathers what other modules compute: direct effects, which add up to the
logit, the path ledger, and the patterns of the heads that matter. `str` prints it.
"""

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.ledger.ledger import Ledger, ledger
from circuitax.circuits.paths.attribution import attribute, over_mean_token
from circuitax.circuits.paths.components import component_names, components_of, stacked
from circuitax.circuits.paths.paths import Head
from circuitax.circuits.paths.read_out import logits_of, read_out_of
from circuitax.display.explanation_page import explanation_viewer
from circuitax.display.viewers import viewer_frame
from circuitax.kernel.indices import check_index, counted_index
from circuitax.kernel.run import Run, one_text

NO_PATHS = "ask for them (--paths 10, or n_paths=10)"
RAISED, LOWERED = 3, 2  # tokens listed of what a head writes at one position
MANY_HEADS = 100  # beyond these, paths are searched only when asked for


class Explanation(NamedTuple):
    """Explanation of one logit at one position, or of the difference of two, from one run.

    ``effects.sum() + bias + remainder`` is the logit.

    Attributes:
        tokens: The text, as names of its tokens.
        position: Where the logit is read, from 0.
        chosen: The token whose logit is explained.
        against: The token whose logit is subtracted; None for none.
        next_tokens: The most probable next tokens.
        next_logits: Their logits.
        next_probs: Their probabilities.
        logit: What is explained.
        names: Components, such as ``tokens``, ``head 0.3``, ``mlp 1``.
        effects: What each adds to the logit, in the order of the names.
        bias: What belongs to no component: ``b_U`` and the final norm's offset.
        remainder: Rounding errors only.
        paths: The largest paths, with a bound on all others; None where none were asked for.
        heads: The heads that matter, as (layer, head): those on the paths, then by their effect.
        patterns: Their attention, ``[head, n_ctx, n_ctx]``, a row for each destination.
        written: What they add, by head and position: next tokens whose logits rise and fall most,
            with the logit over the mean token.
    """

    tokens: tuple[str, ...]
    position: int
    chosen: str
    against: str | None
    next_tokens: tuple[str, ...]
    next_logits: np.ndarray
    next_probs: np.ndarray
    logit: float
    names: tuple[str, ...]
    effects: np.ndarray
    bias: float
    remainder: float
    paths: Ledger | None
    heads: tuple[Head, ...]
    patterns: np.ndarray
    written: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The page of `explanation_page`, for a notebook."""
        return viewer_frame(explanation_viewer(self), 700)

    @property
    def title(self) -> str:
        """Title of the explanation, in words."""
        lead = "" if self.against is None else f" minus {self.against!r}"
        return f"logit of {self.chosen!r}{lead} after {self.tokens[self.position]!r}"

    def ranked(self) -> list[tuple[str, float]]:
        """Components by the size of their effect, largest first."""
        order = np.argsort(-np.abs(self.effects), kind="stable")
        return [(self.names[i], float(self.effects[i])) for i in order]

    def path_names(self) -> list[str]:
        """The paths in the ledger's notation; empty without a ledger."""
        return [] if self.paths is None else self.paths.names


def explain(
    run: Run,
    *,
    token: SupportsIndex | None = None,
    minus: SupportsIndex | None = None,
    position: SupportsIndex = -1,
    name: Callable[[int], str] = str,
    n_next: int = 10,
    n_paths: int | None = None,
    n_heads: int = 12,
    budget: int = 1_000_000,
) -> Explanation:
    """A next-token prediction explained by direct effects, paths and patterns.

    Args:
        run: A run on one text, made with ``outputs=True``; any transformer.
        token: Id whose logit is explained; None for the most probable one.
        minus: Id whose logit is subtracted; None for none.
        position: Where the logit is read; negative positions count from the end.
        name: The text of a token id, such as ``tokenizer.decode([i])``.
        n_next: How many next tokens to list, at least 1.
        n_paths: How many paths to look for, 0 for none. None looks for 10 in models of at most
            ``MANY_HEADS`` heads: the bounds behind the search grow with their square, and take
            some ten seconds for the 270 heads of SmolLM2 and 16 tokens.
        n_heads: Heads to keep beside those on the paths, at least 1.
        budget: Evaluations of the ledger's search, at least 1.

    Raises:
        ValueError: If the run is of a batch or an ensemble, was made without ``outputs`` or inside
            jit, is not finite, or an argument is out of range.

    Source: ours; direct effects are TransformerLens's "direct logit attribution".
    """
    one_text(run)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(run)):
        raise ValueError("explain works on the host and must be called outside jit, vmap and grad")
    spec = run.model.spec
    if n_paths is None:
        n_paths = 10 if spec.n_layers * spec.n_heads <= MANY_HEADS else 0
    for option, number, least in (
        ("n_next", n_next, 1),
        ("n_paths", n_paths, 0),
        ("n_heads", n_heads, 1),
    ):
        if number < least:
            raise ValueError(f"{option}={number} must be at least {least}")
    n_ctx = run.tokens.shape[0]
    position = counted_index("position", position, n_ctx)
    logits = np.asarray(run.logits[position], np.float64)
    if not np.isfinite(logits).all():
        raise ValueError("run.logits must be finite")
    chosen = int(logits.argmax()) if token is None else index(token)
    against = None if minus is None else index(minus)
    check_index("token", chosen, logits.size)
    if against is not None:
        check_index("minus", against, logits.size)
    names, effects, bias, remainder = _effects(run, chosen, against, position)
    paths = None
    if n_paths:
        paths = ledger(
            run, token=chosen, minus=against, position=position, k=n_paths, budget=budget
        )
    heads = _heads(run, names, effects, paths, n_heads)
    best = np.argsort(-logits, kind="stable")[:n_next]
    probs = np.exp(logits - logits.max())
    return Explanation(
        tokens=tuple(name(int(i)) for i in run.tokens),
        position=position,
        chosen=name(chosen),
        against=None if against is None else name(against),
        next_tokens=tuple(name(int(i)) for i in best),
        next_logits=logits[best],
        next_probs=(probs / probs.sum())[best],
        logit=float(logits[chosen] - (0.0 if against is None else logits[against])),
        names=names,
        effects=effects,
        bias=bias,
        remainder=remainder,
        paths=paths,
        heads=heads,
        patterns=np.stack([np.asarray(run.trace.patterns[head]) for head in heads])
        if heads
        else np.zeros((0, n_ctx, n_ctx)),
        written=_written(run, heads, name),
    )


def _effects(
    run: Run, chosen: int, against: int | None, position: int
) -> tuple[tuple[str, ...], np.ndarray, float, float]:
    """Component names, their effects at one position, the bias, and the rounding error."""
    n_ctx = run.tokens.shape[0]
    repeated = jnp.full(n_ctx, chosen)
    split = attribute(run, repeated, None if against is None else jnp.full(n_ctx, against))
    effects = np.asarray(stacked(split.parts)[:, position], np.float64)
    bias = float(split.bias[position])
    logits = np.asarray(run.logits[position], np.float64)
    whole = logits[chosen] - (0.0 if against is None else logits[against])
    return component_names(split.parts), effects, bias, float(whole - effects.sum() - bias)


def _heads(
    run: Run, names: tuple[str, ...], effects: np.ndarray, paths: Ledger | None, most: int
) -> tuple[Head, ...]:
    """The heads on the paths, the largest path first, then those with the largest effects."""
    on_paths = [] if paths is None else [head for path in paths.paths for head in path]
    of_head = {name: effect for name, effect in zip(names, effects, strict=True) if "." in name}
    ranked = sorted(of_head, key=lambda name: -abs(of_head[name]))[:most]
    by_effect = [_head(name) for name in ranked]
    return tuple(dict.fromkeys([*on_paths, *by_effect]))


def _written(
    run: Run, heads: tuple[Head, ...], name: Callable[[int], str]
) -> tuple[tuple[tuple[tuple[str, float], ...], ...], ...]:
    """The tokens that each head raises and lowers most at each position, largest rise first."""
    centred = over_mean_token(run)
    read_out, outputs = read_out_of(centred), components_of(centred).heads
    found = []
    for head in heads:  # one at a time: a vocabulary may be large
        logits = np.asarray(logits_of(outputs[head], read_out))
        ids = np.concatenate(
            [_largest(logits, RAISED), _largest(-logits, LOWERED)[:, ::-1]], axis=1
        )
        rows = zip(ids, np.take_along_axis(logits, ids, axis=1), strict=True)
        found.append(
            tuple(
                tuple((name(int(i)), float(x)) for i, x in zip(*row, strict=True)) for row in rows
            )
        )
    return tuple(found)


def _largest(rows: np.ndarray, n: int) -> np.ndarray:
    """Places of the largest entries of each row, the largest first."""
    n = min(n, rows.shape[-1])
    ids = np.argpartition(-rows, n - 1, axis=-1)[:, :n]
    order = np.argsort(-np.take_along_axis(rows, ids, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(ids, order, axis=-1)


def _head(name: str) -> Head:
    layer, head = name.removeprefix("head ").split(".")
    return int(layer), int(head)


def _lines(explained: Explanation, n_effects: int = 16) -> list[str]:
    """The text that `str` prints."""
    lines = [f"{explained.title}: {explained.logit:+.4f}", "", "next token"]
    width = max(len(repr(token)) for token in explained.next_tokens)
    lines += [
        f"  {token!r:<{width}}  {prob:7.2%}  logit {logit:+.3f}"
        for token, prob, logit in zip(
            explained.next_tokens, explained.next_probs, explained.next_logits, strict=True
        )
    ]
    ranked = explained.ranked()
    shown, rest = ranked[:n_effects], ranked[n_effects:]
    rows: list[tuple[str, float]] = [*shown]
    if rest:
        rows.append((f"{len(rest)} other components", sum(value for _, value in rest)))
    rows += [("bias of the logit", explained.bias), ("rounding", explained.remainder)]
    rows.append(("logit", explained.logit))
    width = max(len(label) for label, _ in rows)
    lines += ["", "direct effects, which add up to the logit"]
    lines += [f"  {label:<{width}}  {value:+.4f}" for label, value in rows]
    lines += ["", "paths"]
    if explained.paths is None:
        lines.append(f"  none searched: {NO_PATHS}")
    else:
        lines += [f"  {line}" for line in str(explained.paths).splitlines()]
    lines += ["", f"heads that matter: where each looks from {_at(explained, explained.position)}"]
    for head, pattern in zip(explained.heads, explained.patterns, strict=True):
        row = pattern[explained.position]
        best = [i for i in np.argsort(-row, kind="stable")[:3] if row[i] >= 0.01]
        looks = ", ".join(f"{_at(explained, i)} {row[i]:.0%}" for i in best)
        lines.append(f"  {head[0]}.{head[1]:<4} {looks}")
    return lines


def _at(explained: Explanation, position: Any) -> str:
    return f"{explained.tokens[position]!r} at {position}"
