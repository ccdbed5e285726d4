"""A head's scores expanded by source, and the loss with scores rebuilt from some of the terms.

``s_ts = scale · ⟨q_t, k_s⟩`` is bilinear, and with the norm scale frozen both sides are sums over
whatever wrote to the stream. A second-layer head of a model with H heads per layer has
``(1 + H)²`` terms without positions and biases. Norms of queries and keys are frozen too. A
bound on scores (``score_cap``) comes after all this: terms sum to what it bounds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.paths.components import Components, component_names, components_of
from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    frozen_model,
    head_constants,
    head_writes,
)
from circuitax.circuits.weights.folding import fold_read
from circuitax.circuits.weights.heads import position_vectors
from circuitax.kernel.attention import (
    attention_pattern,
    attention_scores,
    causal_mask,
    smear_keys,
    spread_groups,
    turn,
)
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.norm import Norm, norm_scale
from circuitax.kernel.run import Run, unedited
from circuitax.kernel.spec import TransformerSpec


class ScoreTerms(NamedTuple):
    """Scores before mask and softmax, split by source of the query and source of the key.

    Attributes:
        terms: ``[query source, key source, dest, src]``, in the order of `score_sources`.
        remainder: Scores of the undivided stream minus the terms: rounding.
    """

    terms: Float[Array, "n_sources n_sources dest src"]
    remainder: Float[Array, "dest src"]


def score_sources(run: Run, layer: int) -> tuple[str, ...]:
    """Names of the sources that a layer's queries and keys can be built from."""
    names = [
        name
        for name in component_names(components_of(run))
        if name in ("tokens", "positions") or _layer_of(name) < layer
    ]
    return (*names, *_own_sources(run))


def _own_sources(run: Run) -> list[str]:
    """Sources that enter behind the norm of the layer."""
    blocks, names = run.model.blocks, []
    if run.model.spec.positions.in_queries_and_keys:
        names.append("positions")
    norm = blocks.attention_norm
    if blocks.attention.b_Q is not None or (norm is not None and norm.offset is not None):
        names.append("bias")
    return names


def score_terms(run: Run, layer: int, head: int | Int[Array, ""]) -> ScoreTerms:
    """The scores of one head, expanded on the query side and on the key side.

    Source: framework paper, "QK circuit of the second layer" (terms ``A_q ⊗ A_k ⊗ W``).
    """
    sources = _sources(components_of(run), layer)
    q, k = _queries_and_keys(sources, run, layer, head)
    terms = run.model.spec.scale * jnp.einsum("atk,bsk->abts", q, k)
    whole = head_scores(run, layer, head)
    return ScoreTerms(terms, whole - terms.sum(axis=(0, 1)))


def dressed_score_sources(run: Run, layer: int, *, by: str = "head") -> tuple[str, ...]:
    """Names of the sources of `dressed_score_terms`."""
    if by == "head":
        n_heads = run.model.blocks.attention.W_Q.shape[1]
        names = ["direct", *(f"head {l}.{h}" for l in range(layer) for h in range(n_heads))]
    else:
        names = ["biases", *(f"token {s}" for s in range(run.tokens.shape[0]))]
    return (*names, *_own_sources(run))


def dressed_score_terms(
    run: Run, layer: int, head: int | Int[Array, ""], *, by: str = "head"
) -> ScoreTerms:
    """The scores of one head, expanded on both sides through the dressed stream.

    ``s_ts = scale Σ_ab ⟨q_t^a, k_s^b⟩``, a and b sources of the stream x that enters the layer:
    ``x = Σ_a x^a``, each through ``Π_l (I + M_l)`` of the MLPs behind it. Order of both axes:
    `dressed_score_sources`.

    Source: ours; docs/methods/mlps.md.
    """
    frozen = frozen_model(run)
    parts = _by_last_head(run, frozen, layer) if by == "head" else _by_token(frozen, layer)
    q, k = _queries_and_keys(parts, run, layer, head)
    terms = run.model.spec.scale * jnp.einsum("atk,bsk->abts", q, k)
    return ScoreTerms(terms, head_scores(run, layer, head) - terms.sum(axis=(0, 1)))


def _by_last_head(
    run: Run, frozen: FrozenModel, layer: int
) -> Float[Array, "n_parts n_ctx d_model"]:
    """The stream that enters a layer: past no head, and by the last head."""
    outputs = run.trace.head_outputs
    if outputs is None:
        raise ValueError("run.trace.head_outputs is None: make the run with outputs=True")
    parts = frozen.embedding[None]
    for before in range(layer):
        parts, written = after_layer(frozen, before, parts, outputs[before])
        parts = jnp.concatenate([parts, written])
    return parts


def _by_token(frozen: FrozenModel, layer: int) -> Float[Array, "n_parts n_ctx d_model"]:
    """The stream that enters a layer: from all biases, and from each token."""
    n_ctx, d_model = frozen.embedding.shape
    here = jnp.arange(n_ctx)
    parts = jnp.zeros((1 + n_ctx, n_ctx, d_model), frozen.embedding.dtype)
    parts = parts.at[1 + here, here].set(frozen.embedding)
    for before in range(layer):
        written = head_writes(frozen, before, parts, summed=True)
        written = written.at[0].add(head_constants(frozen, before).sum(axis=0))
        parts, written = after_layer(frozen, before, parts, written)
        parts = parts + written
    return parts


def head_scores(run: Run, layer: int, head: int | Int[Array, ""]) -> Float[Array, "dest src"]:
    """The scores of one head before mask and softmax, undivided."""
    q, k = _queries_and_keys(run.trace.streams[layer][None], run, layer, head)
    return attention_scores(q.sum(axis=0)[None], k.sum(axis=0)[None], run.model.spec.scale)[0]


class ScoreDirections(NamedTuple):
    """A weighted sum of one head's scores as two linear maps of the stream its layer reads.

    Attributes:
        value: ``Σ_s weight_s s_ts``.
        query: With the keys held; zero but at the destination. ``Σ_t stream_t · query_t`` is the
            value, but for biases and positions of the queries.
        key: With the query held, likewise.
    """

    value: Float[Array, ""]
    query: Float[Array, "n_ctx d_model"]
    key: Float[Array, "n_ctx d_model"]


def score_directions(
    run: Run,
    layer: int | Int[Array, ""],
    head: int | Int[Array, ""],
    dest: int | Int[Array, ""],
    weights: Float[Array, " n_ctx"],
) -> ScoreDirections:
    """Directions of the stream that move a head's attention, on the query and on the key side.

    The gradient of ``Σ_s weights_s s_ts`` in the stream, norm scales held, once with the keys held
    and once with the query. Carried back, it says which tokens and heads made the head look there.

    Source: ours; framework paper, "QK circuit".
    """
    stream = run.trace.streams[layer]

    def value(x: Array, by_query: bool) -> Array:
        parts = jnp.stack([x, stream - x])  # their sum, and with it every scale, stays
        q, k = _queries_and_keys(parts, run, layer, head)
        q, k = (q[0], k.sum(axis=0)) if by_query else (q.sum(axis=0), k[0])
        return run.model.spec.scale * (q[dest] @ k.T) @ weights

    query, key = (jax.grad(value)(stream, side) for side in (True, False))
    q, k = (part.sum(axis=0) for part in _queries_and_keys(stream[None], run, layer, head))
    whole = run.model.spec.scale * (q[dest] @ k.T) @ weights
    return ScoreDirections(whole, query, key)


def _queries_and_keys(
    sources: Float[Array, "n_parts n_ctx d_model"],
    run: Run,
    layer: int | Int[Array, ""],
    head: int | Int[Array, ""],
) -> tuple[Float[Array, "n_sources n_ctx d_head"], Float[Array, "n_sources n_ctx d_head"]]:
    """Queries and keys of each source; smearing and rotation are linear and apply to each."""
    unedited(run, ("all_patterns", "patterns", "pattern_frozen", "scales", "gates", "gate_share"))
    spec = run.model.spec
    heads = spread_groups(run.model.blocks.attention, spec.n_heads)
    q = _read(sources, heads.W_Q, heads.b_Q, run, layer, head)
    k = _read(sources, heads.W_K, heads.b_K, run, layer, head)
    if heads.q_gain is not None and heads.k_gain is not None:
        q_gain, k_gain, whole = heads.q_gain[layer], heads.k_gain[layer], [q, k]
        if spec.joint_qk_norm:
            q_gain, k_gain, stream = q_gain[head], k_gain[head], sources.sum(axis=0)[None]
            whole = [
                jnp.concatenate(
                    [_read(stream, W, b, run, layer, at) for at in range(spec.n_heads)], axis=-1
                )
                for W, b in ((heads.W_Q, heads.b_Q), (heads.W_K, heads.b_K))
            ]
        q = _divided(q, whole[0].sum(axis=0), q_gain, spec)
        k = _divided(k, whole[1].sum(axis=0), k_gain, spec)
    if heads.smear is not None:
        k = smear_keys(k, jnp.broadcast_to(heads.smear[layer, head], k.shape[:1]))
    index, local = jnp.arange(k.shape[1]), _is_local(spec, layer)
    return turn(q, index, spec, local), turn(k, index, spec, local)


def _divided(
    parts: Float[Array, "n_sources n_ctx d_head"],
    whole: Float[Array, "n_ctx width"],
    gain: Float[Array, " d_head"],
    spec: TransformerSpec,
) -> Float[Array, "n_sources n_ctx d_head"]:
    """Parts of queries or keys through the norm of the whole, whose divisor is kept."""
    scale = norm_scale(whole, Norm.rmsnorm, spec.norm_eps)
    return parts / scale[None, :, None] * gain[None, None, :]


def _read(
    x: Float[Array, "n_parts n_ctx d_model"],
    W: Float[Array, "n_layers n_heads d_model d_head"],
    b: Float[Array, "n_layers n_heads d_head"] | None,
    run: Run,
    layer: int | Int[Array, ""],
    head: int | Int[Array, ""],
) -> Float[Array, "n_sources n_ctx d_head"]:
    """The parts of the stream through the frozen norm and one map, then positions, then bias."""
    model, spec = run.model, run.model.spec
    norm = model.blocks.attention_norm
    at = jax.tree.map(lambda w: w[layer], norm)
    folded, constant = fold_read(W[layer, head], None, spec.read_norm, at)
    if spec.read_norm != Norm.none and run.trace.scales.attention is not None:
        x = x / run.trace.scales.attention[layer][None, :, None]
    rows = [x @ folded]
    if spec.positions.in_queries_and_keys:
        rows.append((position_vectors(model, x.shape[1]) @ W[layer, head])[None])
    if b is not None:
        constant = b[layer, head] if constant is None else constant + b[layer, head]
    if constant is not None:
        rows.append(jnp.broadcast_to(constant[None, None], (1, x.shape[1], constant.shape[0])))
    return jnp.concatenate(rows)


def _sources(parts: Components, layer: int) -> Float[Array, "n_parts n_ctx d_model"]:
    """All writers to the stream before a layer, in the order of `component_names`."""
    blocks = [parts.tokens[None]]
    if parts.positions is not None:
        blocks.append(parts.positions[None])
    blocks.append(parts.heads[:layer].reshape(-1, *parts.heads.shape[2:]))
    blocks += [part[:layer] for part in (parts.mlps, parts.b_O) if part is not None]
    return jnp.concatenate(blocks)


def _is_local(spec: TransformerSpec, layer: int | Int[Array, ""]) -> bool | Bool[Array, ""]:
    if isinstance(layer, int):
        return spec.is_local(layer)
    if spec.local_layers is None:
        return True
    return (layer == jnp.asarray(spec.local_layers, int)).any()


def _layer_of(name: str) -> int:
    return int(name.split(" ")[1].split(".")[0])


SELECTIONS = ("all", "without Q", "without K", "without both")


def composition_selections(
    sources: tuple[str, ...],
) -> Bool[Array, "n_selections n_sources n_sources"]:
    """Selections of terms without Q-composition, without K-composition, and without both."""
    direct = jnp.array([not name.startswith("head") for name in sources])
    whole = jnp.ones((len(sources), len(sources)), bool)
    no_q = jnp.broadcast_to(direct[:, None], whole.shape)
    return jnp.stack([whole, no_q, no_q.T, no_q & no_q.T])


def rebuilt_patterns(
    terms: Float[Array, "n_heads n_sources n_sources dest src"],
    selection: Bool[Array, "n_sources n_sources"] | Float[Array, "n_sources n_sources"],
    causal: bool,
) -> Float[Array, "n_heads dest src"]:
    """``softmax over sources of Σ selected terms``; uniform attention for an empty selection."""
    index = jnp.arange(terms.shape[-1])
    scores = jnp.einsum("hqkts,qk->hts", terms, selection.astype(terms.dtype))
    return attention_pattern(scores, causal_mask(index, index, causal))


def score_selection_losses(
    run: Run,
    layer: int,
    selections: Bool[Array, "n_selections n_sources n_sources"]
    | Float[Array, "n_selections n_sources n_sources"],
) -> Float[Array, "n_selections n_losses"]:
    """Next-token losses in nats when one layer attends by selected terms of its scores only.

    Source: framework paper, "term importance analysis", which mentions Q- and K-variants without
        defining them; this is our definition.
    """
    model, tokens, patterns = run.model, run.tokens, run.trace.patterns
    n_layers, n_heads = patterns.shape[:2]
    terms = jax.lax.map(
        lambda head: score_terms(run, layer, head).terms,
        jnp.arange(n_heads),
    )
    frozen = jnp.zeros((n_layers, n_heads), bool).at[layer].set(True)

    def one(selection: Array) -> Array:
        own = rebuilt_patterns(terms, selection, model.spec.causal)
        edit = Interventions(patterns=patterns.at[layer].set(own), pattern_frozen=frozen)
        return next_token_losses(forward(model, tokens, edit)[0], tokens)

    return jax.lax.map(one, selections)
