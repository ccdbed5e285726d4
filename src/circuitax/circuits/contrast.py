"""The difference of two runs of one model, exactly, by position, head, route, neuron and norm.

Over a set of pairs of texts: means with their intervals.

Derivations, relatives and proofs: docs/methods/contrast.md.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import stats

from circuitax.display.tables import NumberTable, documented
from circuitax.kernel.checks import check_index, counted_index, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, final_stream, token_ids, unembed
from circuitax.kernel.interventions import Activations, Interventions, NormScales, Trace
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm, apply_norm
from circuitax.kernel.run import Run, unedited
from circuitax.kernel.secants import PAIR, secant
from circuitax.kernel.shown import known, largest, shapes
from circuitax.kernel.weights import NormWeights

CUTS = 6  # columns of the printed table


@documented
class Routes(NamedTuple):
    """What enters each head, by how it is read; the sum is what it writes, before a post-norm.

    Attributes:
        value: By what is carried over, at the mean pattern.
        query: By where the head looks from, at mean values.
        key: By what is looked for, at mean values.
    """

    value: Float[Array, "n_layers n_heads"]
    query: Float[Array, "n_layers n_heads"]
    key: Float[Array, "n_layers n_heads"]


@documented
class Contrast(NamedTuple):
    """Parts of the difference of a metric between two runs, first less second.

    Attributes:
        delta: The difference: of the logit, or of the lead of one logit over another.
        flow: What crosses each cut, before layer l and (index n_layers) behind the last, at each
            position; every row sums to delta, and row 0 is what each token brings in.
        heads: What each head writes brings in, over all positions.
        routes: The same by value, query and key.
        mlps: What each MLP writes brings in; None without MLPs.
        neurons: The same by hidden unit, before a norm after the MLP; None without MLPs.
        gates: The part of it that comes by the gate, the rest coming by the value that the gate
            multiplies; None without gates.
        norms: What comes by the divisor of each norm, the rest coming by its numerator.
        tokens: Both texts.
        asked: The token, the one that is subtracted (-1 for none), and the position.
    """

    delta: Float[Array, ""]
    flow: Float[Array, "n_layers+1 n_ctx"]
    heads: Float[Array, "n_layers n_heads"]
    routes: Routes
    mlps: Float[Array, " n_layers"] | None
    neurons: Float[Array, "n_layers d_mlp"] | None
    gates: Float[Array, "n_layers d_mlp"] | None
    norms: NormScales
    tokens: Int[Array, "2 n_ctx"]
    asked: Int[Array, "3"]

    def text(self, name: Callable[[int], str] = str) -> str:
        """Two tables: flow by position at some cuts, and the largest nodes.

        Args:
            name: The text of a token id, such as ``lambda i: repr(tokenizer.decode([i]))``.
        """
        token, minus, position = (int(x) for x in np.asarray(self.asked))
        metric = f"logit of {name(token)}" + ("" if minus < 0 else f" less {name(minus)}")
        cuts = np.unique(np.linspace(0, len(self.flow) - 1, CUTS).round().astype(int))
        flow = np.asarray(self.flow)[cuts].T
        kept = sorted(at for (at,) in largest(np.abs(flow).max(axis=1)))
        rows = []
        for at in kept:
            here, there = (name(int(i)) for i in np.asarray(self.tokens)[:, at])
            rows.append((f"{at} {here}" + f" / {there}" * (here != there), list(flow[at])))
        left_out = len(flow) - len(kept)
        notes = [f"  {left_out} other positions are smaller"] if left_out else []
        title = (
            f"Δ {metric} at {position}: {float(self.delta):+.4g}, by position at a layer's entry"
        )
        columns = [f"layer {cut}" for cut in cuts[:-1]] + ["end"]
        return f"{NumberTable(title, columns, rows, notes).text()}\n{self._nodes().text()}"

    def _nodes(self) -> NumberTable:
        """Heads with their routes, and MLPs, largest first."""
        split = np.stack([np.asarray(part) for part in self.routes], axis=-1)
        nodes = {
            f"head {l}.{h}": [x, *split[l, h]]
            for (l, h), x in np.ndenumerate(np.asarray(self.heads))
        }
        if self.mlps is not None:
            nan = float("nan")
            nodes |= {f"mlp {l}": [x, nan, nan, nan] for l, x in enumerate(np.asarray(self.mlps))}
        names, numbers = list(nodes), list(nodes.values())
        order = largest(np.array([row[0] for row in numbers]))
        rows = [(names[i], numbers[i]) for (i,) in order]
        sizes = (np.abs([x[0] for x in numbers]).sum(), np.abs(np.asarray(self.flow[0])).sum())
        notes = ["  absolute sum of all heads and MLPs {:.4g}, of tokens {:.4g}".format(*sizes)]
        title = "Heads and MLPs, largest first"
        return NumberTable(title, ("all", "value", "query", "key"), rows, notes)

    def __repr__(self) -> str:
        concrete = np.ndim(self.delta) == 0 and known(*self)
        return self.text() if concrete else shapes(self)


def contrast(
    run: Run,
    other: Run,
    *,
    token: SupportsIndex | Int[Array, ""],
    minus: SupportsIndex | Int[Array, ""] | None = None,
    position: SupportsIndex = -1,
) -> Contrast:
    """Why this and not that: the difference of a logit between two texts, split without remainder.

    ``Δ = Σ_t ⟨Δx_t, m_t⟩`` at every cut between layers: Δx is the difference of the streams and m
    the multiplier, found by one pass backwards in which every derivative is replaced by the secant
    between the two texts. Nothing is held: patterns, norms and gates change as they do. Exchange
    of the texts changes every sign. Where the texts meet it is the gradient, and the flow is that
    of attribution patching.

    Args:
        run: A run on one text, without edits. Both texts are run again, in single precision at
            least.
        other: A run of the same model on another text of as many tokens.
        token: Id whose logit is compared.
        minus: Id whose logit is subtracted; None for none.
        position: Where the logit is read; negative positions count from the end.

    Raises:
        ValueError: If a run is of a batch or an ensemble or is edited, the models or the lengths of
            the texts differ, an id or the position is out of range, or both ids are one.

    Source: ours; DeepLIFT (Shrikumar et al., 2017) for multipliers that sum to a difference.
    """
    return contrast_of_texts(*question(run, other, token, minus, position))


def question(
    run: Run,
    other: Run,
    token: SupportsIndex | Int[Array, ""],
    minus: SupportsIndex | Int[Array, ""] | None,
    position: SupportsIndex,
) -> tuple[Model, Int[Array, "2 n_ctx"], Int[Array, "3"]]:
    """The model, both texts, and token, subtracted token (-1 for none) and position, checked."""
    model, n_ctx = unedited(run).model, run.tokens.shape[0]
    if unedited(other, name="other").model.spec != model.spec:
        raise ValueError("other.model has another spec, must be the model of run")
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(other.model), strict=True):
        if a is not b and known(a, b) and not np.array_equal(a, b):
            raise ValueError("other.model has other weights, must be the model of run")
    if other.tokens.shape[0] != n_ctx:
        raise ValueError(
            f"other has a text of {other.tokens.shape[0]} tokens, must have the {n_ctx} of run: "
            "repeat or add a neutral word in the shorter text"
        )
    for name, index in (("token", token), ("minus", minus)):
        if index is not None:
            check_index(name, index, model.spec.vocab_out)
    place = counted_index("position", position, n_ctx)
    texts = jnp.stack([run.tokens, other.tokens])
    asked = jnp.stack([jnp.asarray(i) for i in (token, -1 if minus is None else minus, place)])
    if known(asked) and asked[0] == asked[1]:
        raise ValueError(f"minus={asked[1]} is the id of token, must be another one")
    return jax.tree.map(at_least_single, model), texts, asked


class Pass(NamedTuple):
    """A text's part of what is compared: the lead, the trace, and what heads and MLPs read.

    `projected` has queries, keys and values.
    """

    lead: Float[Array, ""]
    trace: Trace
    read: Float[Array, "n_layers n_ctx d_model"]
    projected: tuple[Array, Array, Array]
    mlp_read: Float[Array, "n_layers n_ctx d_model"] | None = None
    units: Float[Array, "n_layers n_ctx d_mlp"] | None = None
    opened: Float[Array, "n_layers n_ctx d_mlp"] | None = None
    values: Float[Array, "n_layers n_ctx d_mlp"] | None = None


def multipliers_of(
    model: Model, texts: Int[Array, "2 n_ctx"], asked: Int[Array, "3"]
) -> tuple[Any, Pass]:
    """`Interventions` whose additions are the multipliers of their places, and both passes."""
    taps = _taps(model, texts.shape[1])

    def of(text: Int[Array, " n_ctx"]) -> tuple[Interventions, Pass]:
        def lead(taps: Interventions) -> tuple[Float[Array, ""], Pass]:
            found = one_pass(model, text, taps, asked)
            return found.lead, found

        return jax.grad(lead, has_aux=True)(taps)

    # Both texts have one linear map, so that it is gone through backwards once, not in each.
    return jax.vmap(of, axis_name=PAIR, out_axes=(None, 0))(texts)


@compiled()
def contrast_of_texts(
    model: Model, texts: Int[Array, "2 n_ctx"], asked: Int[Array, "3"]
) -> Contrast:
    multipliers, each = multipliers_of(model, texts, asked)
    less = jax.tree.map(lambda x: x[0] - x[1], each)
    routes = [
        jnp.einsum("lhtk,lhtk->lh", read, by)
        for read, by in zip(less.projected, multipliers.add[:3], strict=True)
    ]
    mlps = neurons = gates = None
    if model.blocks.mlp is not None:
        mlps = jnp.einsum("ltd,ltd->l", less.trace.mlp_outputs, multipliers.mlp_add)
        neurons = jnp.einsum("ltm,ltm->lm", less.units, multipliers.add.post)
    if each.opened is not None and each.values is not None:
        mean = each.values.mean(axis=0)
        gates = jnp.einsum("ltm,ltm,ltm->lm", mean, less.opened, multipliers.add.post)
    divisors = zip(less.trace.scales, multipliers.scale_add, strict=True)
    return Contrast(
        less.lead,
        jnp.einsum("ltd,ltd->lt", less.trace.streams, multipliers.stream_add),
        jnp.einsum("lhtd,lhtd->lh", less.trace.head_outputs, multipliers.head_add),
        Routes(query=routes[0], key=routes[1], value=routes[2]),
        mlps,
        neurons,
        gates,
        NormScales(*(None if m is None else (d * m).sum(axis=-1) for d, m in divisors)),
        texts,
        asked,
    )


def one_pass(
    model: Model, text: Int[Array, " n_ctx"], taps: Interventions, asked: Int[Array, "3"]
) -> Pass:
    """The forward pass of one of both texts, with secants for derivatives."""
    spec, blocks = model.spec, model.blocks
    token, minus, position = asked
    in_layers = taps._replace(scale_add=taps.scale_add._replace(final=None))
    stream, trace = final_stream(model, text, in_layers, outputs=True, rule=secant)
    last = stream[position][None]
    logits, scale = unembed(model, last, scale_add=taps.scale_add.final, rule=secant)
    trace = trace._replace(scales=trace.scales._replace(final=scale))
    lead = logits[0, token] - jnp.where(minus < 0, 0, logits[0, minus])

    def read_from(streams: Array, weights: NormWeights | None) -> Array:
        each = partial(apply_norm, norm=spec.read_norm, eps=spec.norm_eps, rule=secant)
        return jax.vmap(lambda x, w: each(x, weights=w)[0])(streams, weights)

    read = read_from(trace.streams[:-1], blocks.attention_norm)
    inside: Any = trace.inside
    found = Pass(lead, trace._replace(gates=None, inside=None), read, inside[:3])
    if blocks.mlp is None:
        return found
    mlp_read = read_from(trace.streams[:-1] if spec.parallel else inside.mid, blocks.mlp_norm)
    found = found._replace(mlp_read=mlp_read, units=inside.post)
    if inside.pre_linear is None or trace.gates is None:
        return found
    return found._replace(opened=trace.gates.values[:, 0], values=inside.pre_linear)


def _taps(model: Model, n_ctx: int) -> Interventions:
    """Zeros, added where flows are read: derivatives by them are the multipliers."""
    spec = model.spec
    dtype = model.W_E.dtype
    layers, heads = (spec.n_layers, n_ctx), (spec.n_layers, spec.n_heads, n_ctx)

    def zeros(*shape: int) -> Array:
        return jnp.zeros(shape, dtype)

    scale = None if spec.norm == Norm.none else zeros(*layers)
    scales = NormScales(
        attention=scale,
        mlp=scale if spec.d_mlp is not None else None,
        final=zeros(1) if spec.final_norm and scale is not None else None,
        attention_post=scale if spec.post_norm else None,
        mlp_post=scale if spec.post_norm and spec.d_mlp is not None else None,
    )
    read = zeros(*heads, model.d_head)
    projected = Activations(q=read, k=read, v=zeros(*heads, model.d_value))
    taps = Interventions(
        stream_add=zeros(spec.n_layers + 1, n_ctx, spec.d_model),
        head_add=zeros(*heads, spec.d_model),
        scale_add=scales,
        add=projected,
    )
    if spec.d_mlp is None:
        return taps
    written, units = zeros(*layers, spec.d_model), zeros(*layers, spec.d_mlp)
    return taps._replace(mlp_read_add=written, mlp_add=written, add=projected._replace(post=units))


LEVEL = 0.95


@documented
class ContrastSet(NamedTuple):
    """Contrasts of pairs, and what they have on average.

    Attributes:
        each: With a leading axis of pairs.
        mean: Over the pairs; texts and question are those of the first.
        half: Half of Student's 95 % interval of each mean.
    """

    each: Contrast
    mean: Contrast
    half: Contrast

    def __repr__(self) -> str:
        heads, halves = np.asarray(self.mean.heads), np.asarray(self.half.heads)
        rows = [
            (f"head {l}.{h}", [heads[l, h], halves[l, h], *(np.asarray(x)[l, h] for x in routes)])
            for (l, h), routes in ((at, self.mean.routes) for at in largest(heads))
        ]
        n, delta, half = len(self.each.delta), float(self.mean.delta), float(self.half.delta)
        title = f"Mean of {n} pairs: Δ {delta:+.4g} ± {half:.2g}; heads, largest first"
        return NumberTable(title, ("mean", "±", "value", "query", "key"), rows).text()


def contrast_set(
    model: Model,
    texts: Tokens,
    others: Tokens,
    *,
    token: Tokens,
    minus: Tokens,
    position: SupportsIndex = -1,
    block: int = 4,
) -> ContrastSet:
    """`contrast` of pairs of texts of one length, several at a time.

    Args:
        model: Of both texts.
        texts: The first of each pair, ``[n_pairs, n_ctx]``.
        others: The second.
        token: Whose logit is compared, for each pair.
        minus: Whose logit is subtracted.
        position: Where the logit is read.
        block: How many pairs are computed at a time, on which memory depends.

    Raises:
        ValueError: If the texts or ids do not fit, or there are fewer than two pairs.
    """
    both = [
        token_ids(ids, model.d_vocab, batch=True, name=name)
        for name, ids in (("texts", texts), ("others", others))
    ]
    asked = [
        token_ids(ids, model.spec.vocab_out, name=name)
        for name, ids in (("token", token), ("minus", minus))
    ]
    n_pairs = len(both[0])
    if n_pairs < 2 or both[0].ndim != 2 or both[0].shape != both[1].shape:
        raise ValueError(
            f"texts and others have shapes {both[0].shape} and {both[1].shape}, must be one, of "
            "two pairs at least"
        )
    if any(ids.shape != (n_pairs,) for ids in asked):
        raise ValueError(f"token and minus must be of {n_pairs} ids, one for each pair")
    if (same := np.flatnonzero(asked[0] == asked[1])).size:
        raise ValueError(f"minus[{same[0]}] is the id of token[{same[0]}], must be another one")
    place = jnp.full(n_pairs, counted_index("position", position, both[0].shape[1]), jnp.int32)
    model = jax.tree.map(at_least_single, model)
    each = _in_blocks(
        model, jnp.stack(both, 1), jnp.stack([*asked, place], 1), whole("block", block, 1)
    )
    factor = stats.t.ppf((1 + LEVEL) / 2, n_pairs - 1) / np.sqrt(n_pairs)

    def over_pairs(statistic: Any) -> Contrast:
        found = jax.tree.map(lambda x: statistic(np.asarray(x)), each)
        return found._replace(tokens=each.tokens[0], asked=each.asked[0])

    mean = over_pairs(lambda x: x.mean(axis=0))
    return ContrastSet(each, mean, over_pairs(lambda x: factor * x.std(axis=0, ddof=1)))


@compiled("block")
def _in_blocks(
    model: Model,
    texts: Int[Array, "n_pairs 2 n_ctx"],
    asked: Int[Array, "n_pairs 3"],
    block: int,
) -> Contrast:
    def one(pair: tuple[Array, Array]) -> Contrast:
        return contrast_of_texts(model, *pair)

    return jax.lax.map(one, (texts, asked), batch_size=block)
