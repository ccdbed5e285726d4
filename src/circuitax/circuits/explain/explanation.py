"""One prediction explained: the terms of a logit, its largest paths, and attention patterns."""

from collections.abc import Callable
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from circuitax.circuits.detectors import neuron_activations
from circuitax.circuits.explain.explained import Explanation, Neuron, by_size, head_names
from circuitax.circuits.explain.path_graphs import path_graphs
from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import Ledger, position_ledger
from circuitax.circuits.paths.components import (
    attribute,
    component_names,
    components_of,
    logits_of,
    over_mean_token,
    read_out_of,
    stacked,
)
from circuitax.circuits.paths.expansion import Head, order_streams
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.groups import PathGroups, gate_attribution, neuron_flows, path_groups
from circuitax.circuits.sites import shown
from circuitax.kernel.checks import check_index, counted_index, shortened, whole
from circuitax.kernel.interventions import TRACED
from circuitax.kernel.run import Run, unedited

RAISED, LOWERED = 3, 2  # tokens listed of what a head writes at one position
MANY_HEADS = 100  # beyond these, paths are searched only when asked for


def explain(
    run: Run,
    token: SupportsIndex | None = None,
    *,
    minus: SupportsIndex | None = None,
    position: SupportsIndex = -1,
    name: Callable[[int], str] = str,
    n_next: int = 10,
    n_paths: int | None = None,
    n_heads: int = 12,
    n_neurons: int = 8,
    n_nodes: int = 32,
    budget: int = 1_000_000,
) -> Explanation:
    """A next-token prediction explained by source tokens, heads, neurons, paths and patterns.

    Source tokens, last heads and neurons are sums over all paths through heads and MLPs, of the
    frozen model: patterns, norm scales and gates stay as they are in this run. They say how the
    number came about, not what another text would give.
    On SmolLM2 and a short text a first call takes some 40 seconds of processor time, 24 of them
    compiling, and a second 13; `component_logits` alone takes one.

    Args:
        run: A run on one text, made with ``outputs=True``; any transformer.
        token: Id whose logit is explained; None for the most probable one.
        minus: Id whose logit is subtracted; None for none.
        position: Where the logit is read; negative positions count from the end.
        name: The text of a token id, such as ``tokenizer.decode([i])``.
        n_next: How many next tokens to list, at least 1.
        n_paths: How many paths through heads in the dressed stream to look for, 0 for none. None
            looks for 10 in models of at most ``MANY_HEADS`` heads: the bounds behind the search
            take minutes for the 270 heads of SmolLM2.
        n_heads: Heads to keep beside those on the paths, at least 1.
        n_neurons: Hidden units to keep, at least 0.
        n_nodes: Nodes of each graph of paths (`path_graphs`); 0 for no graph.
        budget: Evaluations of the ledger's search, at least 1.

    Raises:
        ValueError: If the run is of a batch or an ensemble, was made without ``outputs`` or inside
            jit, is not finite, or an argument is out of range.

    Source: ours; direct effects are TransformerLens's "direct logit attribution".
    """
    unedited(run, TRACED)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(run)):
        raise ValueError("explain works on the host and must be called outside jit, vmap and grad")
    spec = run.model.spec
    if not spec.n_layers:
        raise ValueError("run.model has no layers: its one path is direct, see cx.ledger")
    if n_paths is None:
        n_paths = 10 if spec.n_layers * spec.n_heads <= MANY_HEADS else 0
    for option, number, least in (
        ("n_next", n_next, 1),
        ("n_paths", n_paths, 0),
        ("n_heads", n_heads, 1),
        ("n_neurons", n_neurons, 0),
        ("n_nodes", n_nodes, 0),
    ):
        whole(option, number, least)
    if not callable(name):
        raise ValueError(f"name={shortened(name)} must be a function from an id to its text")
    n_ctx = run.tokens.shape[0]
    position = counted_index("position", position, n_ctx)
    logits = np.asarray(run.logits[position], np.float64)
    if not np.isfinite(logits).all():
        raise ValueError("run.logits must be finite")
    chosen = int(logits.argmax()) if token is None else whole("token", token)
    against = None if minus is None else whole("minus", minus)
    check_index("token", chosen, logits.size)
    if against is not None:
        check_index("minus", against, logits.size)
    names, effects, bias, remainder = _effects(run, chosen, against, position)
    frozen = frozen_model(run)
    direction = frozen.read_out.W_U[:, chosen]
    if against is not None:
        direction = direction - frozen.read_out.W_U[:, against]
    paths, opened = None, None
    if n_paths:
        paths, opened = (
            found if found is None else found._replace(bias=bias)
            for found in _largest_paths(frozen, position, direction, n_paths, budget)
        )
    heads = _heads(run, names, effects, paths, n_heads)
    others = np.argsort(-np.where(np.arange(logits.size) == chosen, -np.inf, logits), kind="stable")
    rival = int(others[0]) if against is None and logits.size > 1 else None
    lead_of = direction if rival is None else direction - frozen.read_out.W_U[:, rival]
    groups, of_lead = _both_groups(frozen, position, direction, lead_of)
    lead = np.zeros(1 + n_ctx)
    if rival is not None:
        lead = np.array(of_lead.by_source, np.float64)
        b_U = frozen.read_out.b_U
        lead[0] += 0.0 if b_U is None else float(b_U[chosen] - b_U[rival])
    w = direction if frozen.read_out.scale is None else direction / frozen.read_out.scale[position]
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
        patterns=np.asarray(run.trace.patterns)[tuple(np.reshape(heads, (-1, 2)).astype(int).T)],
        written=_written(run, heads, name),
        by_head=np.asarray(groups.by_head, np.float64),
        one_head=np.asarray(groups.one_head, np.float64),
        orders=np.asarray(order_streams(frozen)[:, position] @ w, np.float64),
        neurons=_neurons(run, frozen, position, direction, n_neurons, name),
        rival=None if rival is None else name(rival),
        lead=lead,
        graphs=path_graphs(
            run, frozen, position, direction, n_nodes=n_nodes, name=name, paths=paths
        )
        if n_nodes
        else (),
        opened=opened,
    )


def _largest_paths(
    frozen: FrozenModel, position: int, direction: jax.Array, k: int, budget: int
) -> tuple[Ledger, Ledger | None]:
    """The largest paths, and where there are MLPs those with the last stretch opened."""
    if frozen.maps is None:
        return position_ledger(frozen, position, direction, k=k, budget=budget), None
    bounds = dressed_bounds(frozen, position)

    def largest(neurons: bool) -> Ledger:
        return position_ledger(
            frozen, position, direction, k=k, budget=budget, bounds=bounds, neurons=neurons
        )

    return largest(False), largest(True)


@jax.jit
def _both_groups(
    frozen: FrozenModel, position: int | Int[Array, ""], first: jax.Array, second: jax.Array
) -> tuple[PathGroups, PathGroups]:
    """The groups of two directions, from one pass of the streams."""
    both = jax.vmap(path_groups, in_axes=(None, None, 0))(
        frozen, position, jnp.stack([first, second])
    )
    return PathGroups(*(x[0] for x in both)), PathGroups(*(x[1] for x in both))


def _neurons(
    run: Run,
    frozen: FrozenModel,
    position: int,
    direction: Any,
    most: int,
    name: Callable[[int], str],
) -> tuple[Neuron, ...]:
    """The hidden units through which most flows to the logit, and what they raise directly."""
    if frozen.maps is None or not most:
        return ()
    flows = np.asarray(neuron_flows(run, frozen, position, direction), np.float64)
    read_out = read_out_of(over_mean_token(run))._replace(scale=None, b_U=None)
    active, W_out = np.asarray(neuron_activations(run)), np.asarray(frozen.maps.W_out)
    places = [f"{name(int(token))!r} at {i}" for i, token in enumerate(run.tokens)]
    found = []
    largest = np.argsort(-np.abs(flows), axis=None, kind="stable")[:most]
    for place in shown(largest, "neurons"):
        layer, at, unit = (int(i) for i in np.unravel_index(place, flows.shape))
        written = jnp.asarray(active[layer, at, unit] * W_out[layer, unit])
        ids = _largest(np.asarray(logits_of(written[None], read_out)), RAISED)[0]
        words = tuple(name(int(i)) for i in ids)
        opened = gate_attribution(run, frozen, layer, unit, at)
        sources = np.array(opened.by_source, np.float64)
        sources[-1] += float(opened.bias)
        heads = np.append(np.asarray(opened.by_last, np.float64), float(opened.direct))
        by_last = by_size([*head_names(*opened.by_last.shape), "no head"], heads)
        opened_by = tuple(by_size([*places, "biases"], sources)), tuple(by_last)
        value, gate = float(flows[layer, at, unit]), float(sources.sum())
        found.append(Neuron(layer, unit, at, value, words, gate, opened_by))
    return tuple(found)


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
    heads = list(np.ndindex(run.model.spec.n_layers, run.model.spec.n_heads))
    sizes = np.abs(effects[[name.startswith("head ") for name in names]])
    by_effect = [heads[i] for i in np.argsort(-sizes, kind="stable")[:most]]
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
