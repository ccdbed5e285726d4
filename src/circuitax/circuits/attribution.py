"""Attribution by derivatives: differences between two texts, times derivatives of a lead.

Baselines beside `circuits.contrast`, which takes secants: attribution patching, EAP-IG, and rules
of propagation such as RelP's; and CD-T, which takes no derivative. Interchange is what they
approximate: of positions, of one layer's parts, of nodes. A coalition of players has what stands in
the first text, all others what stands in the second one; its value is the lead of one logit over
another. `shapley` shares the whole difference out.

`weight_shares` takes the difference of two models on the same texts, exactly, with the derivations
of docs/methods/contrast.md.
"""

import operator
from math import factorial
from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.contrast import question
from circuitax.circuits.detectors import neuron_activations
from circuitax.circuits.patching import Ablation, ablated_metrics
from circuitax.circuits.paths.components import Components
from circuitax.kernel import attention
from circuitax.kernel.checks import check_range
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, final_stream, token_ids, unembed
from circuitax.kernel.interventions import Activations, Interventions
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.mlp import activate, gate
from circuitax.kernel.model import Model, check_next_tokens, check_one_member
from circuitax.kernel.model_fields import named_fields
from circuitax.kernel.norm import Rule, Step, norm_scale, plain
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run
from circuitax.kernel.secants import PAIR, log_total, weight_secant

SOURCES = 32  # of CD-T that pass together, beside one whole text
POINTS = 8  # at which derivatives are taken together: the weights are read once for all of them


class Outputs(NamedTuple):
    """Streams of one text, and what heads, MLPs and neurons give; None without MLPs."""

    streams: Float[Array, "n_layers+1 n_ctx d_model"]
    heads: Float[Array, "n_layers n_heads n_ctx d_model"]
    mlps: Float[Array, "n_layers n_ctx d_model"] | None
    units: Float[Array, "n_layers n_ctx d_mlp"] | None


class Flows(NamedTuple):
    """Flows by position at each cut, past the heads of each layer, and through nodes."""

    cuts: Float[Array, "n_layers+1 n_ctx"]
    past: Float[Array, " n_layers"]
    heads: Float[Array, "n_layers n_heads"]
    mlps: Float[Array, " n_layers"] | None
    units: Float[Array, "n_layers d_mlp"] | None


def gradient_flows(
    run: Run, other: Run, *, token: SupportsIndex, minus: SupportsIndex, steps: int = 0
) -> Flows:
    """Attribution patching, or EAP-IG: ``⟨Δy, ∂lead/∂y⟩`` of every output y, run less other.

    Args:
        run: A run on one text, at which the derivative is taken, as `contrast` takes it.
        other: A run of the same model on another text of as many tokens.
        token: Id whose logit leads, at the end.
        minus: Id whose logit is subtracted.
        steps: 0 for attribution patching; else the derivative is a mean over the middles of so many
            steps between the embeddings of both texts.

    Raises:
        ValueError: If `contrast` refuses the runs or ids, or the steps are negative.

    Source: Nanda 2023, attribution patching; Hanna et al. 2024, EAP-IG, whose code takes one end of
        each step.
    """
    model, texts, asked = question(run, other, token, minus, -1)
    check_range("steps", steps, "[0, inf)")
    parts = jnp.asarray((np.arange(steps) + 0.5) / steps if steps else [1.0], model.W_E.dtype)
    each = flows_at(model, texts, asked[:2], jnp.zeros(parts.size, int), parts)
    return jax.tree.map(lambda x: x.mean(axis=0), each)


@compiled()
def flows_at(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    asked: Int[Array, "2"],
    cuts: Int[Array, " point"],
    parts: Float[Array, " point"],
) -> Flows:
    """Flows by derivatives on the way from the second text to the first, a point in front.

    At each point the stream at one cut stands at a part of the way, and all behind it follows.
    """
    less = jax.tree.map(jnp.subtract, *(outputs(model, text) for text in texts))

    def at(point: tuple[Array, Array]) -> Flows:
        cut, part = point
        shift = jnp.zeros_like(less.streams).at[cut].set(part * less.streams[cut])
        return flows(less, multipliers(model, texts[1:], asked, shift))

    return jax.lax.map(at, (cuts, parts), batch_size=POINTS)


@compiled()
def outputs(model: Model, text: Int[Array, " n_ctx"]) -> Outputs:
    """All outputs of one plain pass."""
    seen = forward_run(model, text, outputs=True)
    units = None if model.blocks.mlp is None else neuron_activations(seen)
    return Outputs(seen.streams, jnp.asarray(seen.head_outputs), seen.mlp_outputs, units)


def lead(
    model: Model,
    text: Int[Array, " n_ctx"],
    asked: Int[Array, "2"],
    edit: Interventions | None = None,
    rule: Rule = plain,
) -> Float[Array, ""]:
    """The logit of the first asked token less that of the second, at the end."""
    stream, _ = final_stream(model, text, edit, rule=rule)
    edit = edit or Interventions()
    held, add = jax.tree.map(lambda x: x[-1:], (edit.scales.final, edit.scale_add.final))
    logits, _ = unembed(model, stream[-1][None], held, add, rule)
    return logits[0, asked[0]] - logits[0, asked[1]]


def multipliers(
    model: Model,
    texts: Int[Array, "n n_ctx"],
    asked: Int[Array, "2"],
    shift: Float[Array, "places n_ctx d_model"],
    rule: Rule = plain,
) -> Interventions:
    """Mean over texts, with shifted streams, of the derivative of the lead by every output."""
    spec, n_ctx = model.spec, texts.shape[1]
    layers, wide = (spec.n_layers, n_ctx), (spec.n_layers, spec.n_heads, n_ctx, spec.d_model)
    taps = Interventions(stream_add=shift, head_add=jnp.zeros(wide, shift.dtype))
    if spec.d_mlp is not None:
        mlps, units = (jnp.zeros((*layers, n), shift.dtype) for n in (spec.d_model, spec.d_mlp))
        taps = taps._replace(mlp_add=mlps, add=Activations(post=units))

    def mean(taps: Interventions) -> Float[Array, ""]:
        each = jax.vmap(lambda text: lead(model, text, asked, taps, rule), axis_name=PAIR)
        return each(texts).mean()

    return jax.grad(mean)(taps)


def flows(less: Outputs, by: Interventions) -> Flows:
    """Differences times multipliers; the heads of a layer have one, and so has what passes them."""
    past = jnp.einsum("ltd,ltd->l", less.streams[:-1], jnp.asarray(by.head_add)[:, 0])
    return Flows(
        jnp.einsum("ltd,ltd->lt", less.streams, by.stream_add),
        past,
        jnp.einsum("lhtd,lhtd->lh", less.heads, by.head_add),
        None if less.mlps is None else jnp.einsum("ltd,ltd->l", less.mlps, by.mlp_add),
        None if less.units is None else jnp.einsum("ltm,ltm->lm", less.units, by.add.post),
    )


def holding(share: float | int) -> Rule:
    """Patterns, divisors and gates held; a share of each gated product goes by its gate.

    Source: RelP, with a share of one half; `kernel.interventions.freeze`.
    """
    hold = jax.lax.stop_gradient
    held: dict[Step, Step] = {
        attention.attend: lambda s, mask, v: attention.attend(hold(s), mask, v),
        norm_scale: lambda x, norm, eps: hold(norm_scale(x, norm, eps)),
        activate: lambda z, name: z * hold(gate(z, name)),
        operator.mul: lambda a, b: share * a * hold(b) + (1 - share) * hold(a) * b,
    }
    return lambda step: held.get(step, step)


def contextual(step: Step) -> Step:
    """Of rows of a vmap over `PAIR`, the first is a text, the others parts γ of all its values.

    Patterns and divisors are the text's, activations those of the part, and of a gated product x z
    with parts γ_x and γ_z it is ``(x γ_z + γ_x z) / 2``. A bias goes to γ whole.
    """

    def whole(x: Array) -> Array:
        first: Array = jax.lax.all_gather(x, PAIR)[0]
        return first

    of_parts: dict[Step, Step] = {
        attention.attend: lambda s, mask, v: attention.attend(whole(s), mask, v),
        norm_scale: lambda x, norm, eps: whole(norm_scale(x, norm, eps)),
        operator.mul: lambda a, b: (whole(a) * b + a * whole(b)) / 2,
    }
    return of_parts.get(step, step)


@compiled()
def contextual_flows(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    asked: Int[Array, "2"],
    cuts: Int[Array, " cut"],
) -> Flows:
    """CD-T: the lead less that of γ, what is left of the first text where a source is the other's.

    A pass for each source: a position at one of the cuts, a head, an MLP, or what passes the heads
    of a layer. NaN for neurons and at other cuts; a model with biases, which CD-T divides by size,
    is refused. Source: Hsu et al. 2024, with γ the other text's where they have means, and without
    their rule that of two parts of opposite signs the smaller is 0.
    """
    for name in named_fields(model.fields):
        if (own := name.rpartition(".")[2]).startswith("b_") or own == "offset":
            raise ValueError(f"model has {name}, must have no biases: CD-T divides them by size")
    less = jax.tree.map(jnp.subtract, *(outputs(model, text) for text in texts))
    n_layers, n_heads, n_ctx = less.heads.shape[:3]

    def shares(field: str, values: Array, places: tuple[Array, ...]) -> Float[Array, " place"]:
        """β of the lead of the source at each place of an array."""

        def without(place: tuple[Array, ...]) -> Array:
            return jnp.zeros_like(values).at[place].set(-values[place])

        def left(add: Array) -> Float[Array, ""]:
            edit: dict[str, Any] = {field: add}
            return lead(model, texts[0], asked, Interventions(**edit), contextual)

        def of_block(block: tuple[Array, ...]) -> Float[Array, " place"]:
            added = jnp.concatenate([jnp.zeros_like(values)[None], jax.vmap(without)(block)])
            leads = jax.vmap(left, axis_name=PAIR)(added)
            return leads[0] - leads[1:]

        n = len(places[0])
        blocks = (-(-n // SOURCES), SOURCES)
        each = jax.lax.map(of_block, tuple(jnp.resize(i, blocks) for i in places))
        return each.reshape(-1)[:n]

    layers, unknown = jnp.arange(n_layers), jnp.full(less.streams.shape[:2], jnp.nan)
    at_cuts = jnp.repeat(cuts, n_ctx), jnp.tile(jnp.arange(n_ctx), len(cuts))
    past = jnp.zeros_like(less.heads).at[:, 0].set(less.streams[:-1])
    heads = jnp.repeat(layers, n_heads), jnp.tile(jnp.arange(n_heads), n_layers)
    return Flows(
        unknown.at[at_cuts].set(shares("stream_add", less.streams, at_cuts)),
        shares("head_add", past, (layers, 0 * layers)),
        shares("head_add", less.heads, heads).reshape(n_layers, n_heads),
        None if less.mlps is None else shares("mlp_add", less.mlps, (layers,)),
        None if less.units is None else less.units[:, 0] * jnp.nan,
    )


def direct_multipliers(model: Model, last: Float[Array, "n_ctx d_model"]) -> Interventions:
    """The multiplier behind the last layer for all that is written to the stream."""
    streams = jnp.broadcast_to(last, (model.n_layers + 1, *last.shape))
    heads = jnp.broadcast_to(last, (model.n_layers, model.n_heads, *last.shape))
    direct = Interventions(stream_add=streams, head_add=heads)
    if model.W_out is None:
        return direct
    through = jnp.einsum("td,lmd->ltm", last, model.W_out)
    return direct._replace(mlp_add=streams[1:], add=Activations(post=through))


def weight_shares(model: Model, other: Model, tokens: Tokens) -> Model:
    """Which weights' change moved the loss: the exact share of every entry of every weight.

    ``loss(model) - loss(other) = Σ_w Δw m_w`` over all entries w, with the multiplier m found by
    one pass backwards in which every derivative is the secant between the two models: as `contrast`
    has it between two texts, and with ``Δ(xW) = x̄ ΔW + W̄ Δx``. An exchange of the models changes
    every sign; where they meet the multiplier is the gradient.

    Args:
        model: One model, such as a checkpoint; both are read in single precision at least.
        other: Another one of the same spec.
        tokens: A text, or a batch of texts of one length, of at least two tokens each.

    Returns:
        The shares, shaped as the weights: ``shares.W_Q.sum((-2, -1))`` has those of each head.

    Raises:
        ValueError: If the specs differ, a model is an ensemble, smears keys, or has deeper MLPs or
            norms after attention, or the tokens are no texts.

    Source: ours.
    """
    for each in (model, other):
        check_one_member(each)
        check_next_tokens(each)
    if other.spec != model.spec:
        raise ValueError("other has another spec, must be a model of the spec of model")
    spec = model.spec
    for name, used in (
        ("smeared_keys", spec.smeared_keys),
        ("post_norm", spec.post_norm),
        ("mlp_depth", spec.mlp_depth > 1),
    ):
        if used:
            raise ValueError(f"model.spec.{name}={getattr(spec, name)} has no shares of weights")
    ids = token_ids(tokens, model.d_vocab, batch=True)
    if ids.shape[-1] < 2:
        raise ValueError(f"tokens has shape {ids.shape}, must have two tokens in each text")
    first, second = jax.tree.map(at_least_single, (model, other))
    return _shares(first, second, ids.reshape(-1, ids.shape[-1]))


@compiled()
def _shares(model: Model, other: Model, texts: Int[Array, "text n_ctx"]) -> Model:
    both = jax.tree.map(lambda *weights: jnp.stack(weights), model, other)

    def mean_loss(by: Model) -> Float[Array, ""]:
        def of_model(one: Model) -> Float[Array, ""]:
            moved = jax.tree.map(jnp.add, one, by)

            def of_text(text: Int[Array, " n_ctx"]) -> Float[Array, " n_losses"]:
                stream, _ = final_stream(moved, text, rule=weight_secant)
                logits, _ = unembed(moved, stream[:-1], rule=weight_secant)
                right = jnp.take_along_axis(logits, text[1:, None], axis=-1)[:, 0]
                return log_total(logits) - right

            return jax.vmap(of_text)(texts).mean()

        return jax.vmap(of_model, axis_name=PAIR)(both).mean()

    multipliers = jax.grad(mean_loss)(jax.tree.map(jnp.zeros_like, model))
    return jax.tree.map(lambda a, b, m: (a - b) * m, model, other, multipliers)


TOKENS = 256  # that pass the model together: its weights are read once for all of them


def shapley(values: Float[np.ndarray, " coalitions"]) -> Float[np.ndarray, " players"]:
    """``φ_i = Σ_S |S|! (k - 1 - |S|)! / k! (v(S ∪ i) - v(S))``, S without i.

    Args:
        values: Of every coalition; player i is in those whose number has bit i.
    """
    n = int(values.size).bit_length() - 1
    numbers = np.arange(values.size)
    share = np.array([factorial(s) * factorial(n - 1 - s) / factorial(n) for s in range(n)])
    found = []
    for i in range(n):
        without = numbers[(numbers >> i) & 1 == 0]
        gained = values[without | 1 << i] - values[without]
        found.append(share[np.bitwise_count(without)] @ gained)
    return np.array(found)


@compiled("cut", "n_players")
def position_coalitions(
    model: Model,
    first: Float[Array, "n_ctx d_model"],
    other: Float[Array, "n_ctx d_model"],
    asked: Int[Array, "2"],
    cut: int,
    n_players: int,
) -> Float[Array, " coalitions"]:
    """The lead where the last positions of a coalition have the first text's stream at a cut.

    All others have the other text's. In the order of `shapley`.
    """
    n_ctx, after = first.shape[0], _tail(model, jnp.concatenate([first, other]), cut)
    inside = jnp.pad(_members(n_players), ((0, 0), (n_ctx - n_players, 0)))
    rows = jnp.where(inside, 0, n_ctx) + jnp.arange(n_ctx)[None, :]
    size = max(1, TOKENS // n_ctx)
    return jax.lax.map(lambda text: lead(after, text, asked), rows, batch_size=size)


@compiled("layer")
def part_coalitions(
    model: Model, first: Outputs, other: Outputs, asked: Int[Array, "2"], layer: int
) -> Float[Array, " coalitions"]:
    """The lead where a coalition of one layer's heads, and of the stream past them, is the first's.

    The stream is the last player. Heads read what they read in the other text.
    """
    n_ctx, after = first.streams.shape[1], _tail(model, other.streams[layer], layer)
    heads, past = (x[layer] - y[layer] for x, y in zip(first[1::-1], other[1::-1], strict=True))
    none = jnp.zeros((after.n_layers, *heads.shape), heads.dtype)

    def value(inside: Bool[Array, " players"]) -> Float[Array, ""]:
        added = (inside[:-1, None, None] * heads).at[0].add(inside[-1] * past)
        edit = Interventions(head_add=none.at[0].set(added))
        return lead(after, jnp.arange(n_ctx), asked, edit)

    every = _members(model.n_heads + 1)
    return jax.lax.map(value, every, batch_size=max(1, TOKENS // n_ctx))


@compiled()
def with_replaced(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    both: list[Outputs],
    asked: Int[Array, "2"],
    cells: Ablation,
) -> Float[Array, "side cell"]:
    """The lead at each text where heads and MLPs of a cell are the other text's."""

    def measure(logits: Float[Array, "n_ctx d_vocab"]) -> Float[Array, ""]:
        return logits[-1, asked[0]] - logits[-1, asked[1]]

    def of(text: Int[Array, " n_ctx"], other: Outputs) -> Float[Array, " cell"]:
        to = Components(other.streams[0], None, other.heads, other.mlps, None)
        return ablated_metrics(model, text, cells, measure, replacement=to)

    return jnp.stack([of(text, other) for text, other in zip(texts, both[::-1], strict=True)])


@compiled()
def with_neurons(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    both: list[Outputs],
    asked: Int[Array, "2"],
    neurons: Int[Array, "neuron 2"],
) -> Float[Array, "side neuron"]:
    """The lead at each text where one neuron is the other text's."""
    less = jnp.asarray(both[0].units) - jnp.asarray(both[1].units)

    def leads(text: Int[Array, " n_ctx"], towards: Array) -> Float[Array, " neuron"]:
        def value(at: Int[Array, "2"]) -> Float[Array, ""]:
            here = (at[0], slice(None), at[1])
            added = jnp.zeros_like(less).at[here].set(towards[here])
            return lead(model, text, asked, Interventions(add=Activations(post=added)))

        return jax.lax.map(value, neurons, batch_size=max(1, TOKENS // text.size))

    return jnp.stack([leads(texts[0], -less), leads(texts[1], less)])


def _members(n_players: int) -> Bool[Array, "coalitions players"]:
    return jnp.asarray(np.arange(2**n_players)[:, None] >> np.arange(n_players) & 1, bool)


def _tail(model: Model, stream: Float[Array, "rows d_model"], layer: int) -> Model:
    """The layers from one on; its tokens are rows of a stream."""
    return model.replace(W_E=stream, blocks=jax.tree.map(lambda w: w[layer:], model.blocks))
