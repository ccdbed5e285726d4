"""Interventions in the forward pass, and the trace of its intermediates.

Every analysis that ablates, patches or freezes builds one of these pytrees and calls the same
forward; a sweep over heads is a vmap over the pytree. A field that is None costs nothing. The
``n_ctx`` axis of every ``keep`` and ``add`` may have size 1, meaning all positions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.display.tables import documented
from circuitax.kernel.attention import Cache
from circuitax.kernel.mlp import Gates
from circuitax.kernel.shown import shapes


@documented
class NormScales(NamedTuple):
    """Divisors of every norm, for each position; None where a model has no such read.

    Attributes:
        attention: Before attention; in post-LN, after it has been added.
        mlp: Before the MLP; in post-LN, after it has been added.
        final: Before the unembedding.
        attention_post: Of what attention writes.
        mlp_post: Of what the MLP writes.
    """

    attention: Float[Array, "n_layers n_ctx"] | None = None
    mlp: Float[Array, "n_layers n_ctx"] | None = None
    final: Float[Array, " n_ctx"] | None = None
    attention_post: Float[Array, "n_layers n_ctx"] | None = None
    mlp_post: Float[Array, "n_layers n_ctx"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class Activations(NamedTuple):
    """What heads and MLPs compute before they write; None where a model has no such thing.

    Attributes:
        q: Queries as projected: norms and rotations of queries and keys come after.
        k: Keys likewise, one for each query head also where heads share them.
        v: Values likewise.
        scores: Before the mask and the softmax, bounded where the model bounds them.
        z: Mixed values, before ``W_O``.
        mid: The stream between attention and MLP; in post-LN, behind its norm.
        pre: ``x W_in + b_in``, before the activation; of a gated MLP ``x W_gate + b_gate``.
        pre_linear: ``x W_in + b_in`` of a gated MLP, which the gate multiplies.
        post: The last hidden layer: what each neuron puts on its row of ``W_out``.
    """

    q: Float[Array, "n_layers n_heads n_ctx d_head"] | None = None
    k: Float[Array, "n_layers n_heads n_ctx d_head"] | None = None
    v: Float[Array, "n_layers n_heads n_ctx d_value"] | None = None
    scores: Float[Array, "n_layers n_heads dest src"] | None = None
    z: Float[Array, "n_layers n_heads n_ctx d_value"] | None = None
    mid: Float[Array, "n_layers n_ctx d_model"] | None = None
    pre: Float[Array, "n_layers n_ctx d_mlp"] | None = None
    pre_linear: Float[Array, "n_layers n_ctx d_mlp"] | None = None
    post: Float[Array, "n_layers n_ctx d_mlp"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class Trace(NamedTuple):
    """Intermediates of one forward pass; unused ones are removed by the compiler.

    Attributes:
        streams: The residual stream entering each layer, and after the last (before the final
            norm).
        patterns: Attention of every head.
        scales: Divisors of the norms.
        head_outputs: What each head wrote; None unless asked for.
        mlp_outputs: What each MLP wrote; None unless asked for.
        cache: Keys and values, where the pass continued a cache.
        gates: Factors of the MLPs, those held where some were; None unless outputs were asked for.
        inside: Queries, keys, scores, neurons and the like; None unless outputs were asked for.
    """

    streams: Float[Array, "n_layers+1 n_ctx d_model"]
    patterns: Float[Array, "n_layers n_heads dest src"]
    scales: NormScales
    head_outputs: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    mlp_outputs: Float[Array, "n_layers n_ctx d_model"] | None = None
    cache: Cache | None = None
    gates: Gates | None = None
    inside: Activations | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class Interventions(NamedTuple):
    """Edits ``y <- keep * y + add``, and values to freeze.

    ``head_keep = 0`` is zero ablation; with ``head_add`` set to a mean or to another run's outputs
    it is mean or resample ablation; with ``all_patterns`` too it preserves patterns. `kernel.edits`
    makes edits of one head or one layer.

    Attributes:
        stream_keep: On the stream entering each layer, and on the final one (index n_layers).
        stream_add: On the same.
        query_add: Added, after the norm, to what one head reads: path patching into Q.
        key_add: The same into K.
        value_add: The same into V.
        mlp_read_add: Added, after the norm, to what an MLP reads: path patching into it.
        head_keep: On what each head writes (without ``b_O``), behind a norm after attention, whose
            divisor is that of the heads before the edit: heads replaced by what they wrote change
            nothing.
        head_add: On the same.
        mlp_keep: On what each MLP writes.
        mlp_add: On the same.
        all_patterns: Used instead of the computed patterns by every head, so that none reacts to
            other edits.
        patterns: Used instead of the computed patterns by the heads of ``pattern_frozen``.
        pattern_frozen: Which heads take their pattern from ``patterns``; given with it.
        keep: Factors of `Activations`, by their names; each axis behind the layers is whole or 1.
        add: Added to `Activations` likewise.
        scales: Norm divisors used instead of the computed ones.
        scale_add: Added to the norm divisors.
        gates: Factors of the MLPs used instead of the computed ones: each MLP is then affine.
        gate_share: With ``gates``, the part of a gated MLP that is read through ``W_gate`` instead
            of ``W_in``, for each layer, in [0, 1]; None for 0.
    """

    stream_keep: Float[Array, "n_layers+1 n_ctx"] | None = None
    stream_add: Float[Array, "n_layers+1 n_ctx d_model"] | None = None
    query_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    key_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    value_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    mlp_read_add: Float[Array, "n_layers n_ctx d_model"] | None = None
    head_keep: Float[Array, "n_layers n_heads n_ctx"] | None = None
    head_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    mlp_keep: Float[Array, "n_layers n_ctx"] | None = None
    mlp_add: Float[Array, "n_layers n_ctx d_model"] | None = None
    all_patterns: Float[Array, "n_layers n_heads dest src"] | None = None
    patterns: Float[Array, "n_layers n_heads dest src"] | None = None
    pattern_frozen: Bool[Array, "n_layers n_heads"] | None = None
    keep: Activations = Activations()
    add: Activations = Activations()
    scales: NormScales = NormScales()
    scale_add: NormScales = NormScales()
    gates: Gates | None = None
    gate_share: Float[Array, " n_layers"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


def unpadded(trace: Trace, here: Int[np.ndarray, " n_kept"]) -> Trace:
    """The trace of one text at some of its positions."""

    def rows(x: Array) -> Array:
        return x[..., here, :]

    def pairs(x: Array | None) -> Array | None:
        return None if x is None else rows(x)[..., here]

    inside = trace.inside
    if inside is not None:
        scores = pairs(inside.scores)
        inside = jax.tree.map(rows, inside._replace(scores=None))._replace(scores=scores)
    return Trace(
        rows(trace.streams),
        rows(trace.patterns)[..., here],
        jax.tree.map(lambda scale: scale[..., here], trace.scales),
        head_outputs=jax.tree.map(rows, trace.head_outputs),
        mlp_outputs=jax.tree.map(rows, trace.mlp_outputs),
        gates=jax.tree.map(rows, trace.gates),
        inside=inside,
    )


GATES = ("frozen", "shared")
# Interventions whose whole effect stands in the trace: patterns, divisors and factors.
TRACED = (
    *("query_add", "key_add", "all_patterns", "patterns", "pattern_frozen"),
    *("scales", "gates", "gate_share"),
)


def freeze(trace: Trace, gates: str | None = "frozen") -> Interventions:
    """The interventions under which the model is affine in its embeddings.

    Held are attention patterns, norm divisors, and the factor that multiplies each hidden unit:
    g of ``z g(z)``, and of a gated MLP all of ``act(x W_gate + b_gate)``. What they depend on gets
    no credit. An edit made on top (``edit=`` of `patch_pattern` and alike) wins where it stands,
    and all else stays held.

    Args:
        trace: Of a run made with ``outputs=True``, if the model has MLPs and ``gates`` is not None.
        gates: ``"frozen"``; ``"shared"`` for the half rule, by which ``W_gate`` and ``W_in`` of a
            gated MLP get half of their product each; None to hold no factors, so that MLPs stay
            nonlinear.

    Raises:
        ValueError: If ``gates`` is another name, or the trace does not hold the factors.

    Source: framework paper, "freezing attention patterns"; docs/methods/mlps.md for the factors.
        The half rule is that of LRP and RelP.
    """
    if not isinstance(trace, Trace):
        own = ": take run.trace" if hasattr(trace, "trace") else ""
        raise ValueError(f"trace is a {type(trace).__name__}, must be a Trace{own}")
    frozen = Interventions(all_patterns=trace.patterns, scales=trace.scales)
    if gates is None or trace.scales.mlp is None:
        return frozen
    check_gates(gates)
    if trace.gates is None:
        raise ValueError(
            "trace.gates is None: a model with MLPs is affine with their gates held, make the run "
            "with outputs=True, or take freeze(trace, gates=None)"
        )
    share = None
    if gates == "shared":
        share = jnp.full(trace.gates.values.shape[0], 0.5, trace.gates.values.dtype)
    return frozen._replace(gates=trace.gates, gate_share=share)


def check_edit(name: str, edit: Any) -> None:
    """Require interventions, or None."""
    if edit is not None and not isinstance(edit, Interventions):
        raise ValueError(
            f"{name} is a {type(edit).__name__}, must be Interventions, such as cx.patch_head and "
            "alike make"
        )


def check_gates(gates: str) -> None:
    """Require a name of `GATES`."""
    if gates not in GATES:
        raise ValueError(f"gates={gates!r} must be 'frozen' or 'shared'")


def ablate_heads(
    ablated: Float[Array, "n_layers n_heads"],
    replacement: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None,
) -> Interventions:
    """Ablate heads: remove or replace their outputs; fractions interpolate.

    ``y_h <- (1 - a_h) y_h + a_h r_h``.

    Source: induction-heads paper, "ablations".
    """
    a = ablated[:, :, None]
    add = None if replacement is None else a[..., None] * replacement
    return Interventions(head_keep=1 - a, head_add=add)


def check_interventions(
    given: Interventions,
    n_layers: int,
    n_heads: int,
    n_ctx: int,
    d_model: int,
    hidden: tuple[int, int] | None = None,
    inside: tuple[int, int] | None = None,
) -> None:
    """Refuse an array of the wrong shape by its name, before an einsum fails deep inside."""
    layers, heads, ctx, d = (n_layers,), (n_layers, n_heads), (n_ctx,), (d_model,)
    allowed = {
        "stream_keep": (n_layers + 1, *ctx),
        "stream_add": (n_layers + 1, *ctx, *d),
        "query_add": heads + ctx + d,
        "key_add": heads + ctx + d,
        "value_add": heads + ctx + d,
        "head_keep": heads + ctx,
        "head_add": heads + ctx + d,
        "mlp_read_add": layers + ctx + d,
        "mlp_keep": layers + ctx,
        "mlp_add": layers + ctx + d,
        "all_patterns": heads + ctx + ctx,
        "patterns": heads + ctx + ctx,
        "pattern_frozen": heads,
        "gate_share": layers,
    }
    for name in NormScales._fields:
        shape = ctx if name == "final" else layers + ctx
        allowed |= {f"scales.{name}": shape, f"scale_add.{name}": shape}
    flat = given._asdict()
    _check_inside(flat.pop("keep"), flat.pop("add"), heads + ctx, d, hidden, inside)
    gates = flat.pop("gates")
    if gates is not None:
        if hidden is None:
            raise ValueError("interventions.gates must be None: the model has no MLP")
        depth, d_mlp = hidden
        allowed |= {
            "gates.values": (*layers, depth, *ctx, d_mlp),
            "gates.gates": (*layers, *ctx, d_mlp),
        }
        flat |= {f"gates.{name}": array for name, array in gates._asdict().items()}
    elif given.gate_share is not None:
        raise ValueError("interventions.gate_share needs interventions.gates, which it divides")
    for group in ("scales", "scale_add"):
        parts = flat.pop(group)._asdict()
        flat |= {f"{group}.{name}": array for name, array in parts.items()}
    for name, array in flat.items():
        if array is None:
            continue
        want = allowed[name]
        fits = array.shape == want
        if name.endswith(("keep", "add")) and len(want) == array.ndim:
            axis = 2 if name.startswith(("head", "query", "key", "value")) else 1
            fits = fits or array.shape == (*want[:axis], 1, *want[axis + 1 :])
        if not fits:
            raise ValueError(f"interventions.{name} has shape {array.shape}, must be {want}")
    if given.pattern_frozen is not None and given.patterns is None:
        raise ValueError("interventions.pattern_frozen needs interventions.patterns to freeze to")
    if given.patterns is not None and given.pattern_frozen is None:
        raise ValueError(
            "interventions.patterns needs interventions.pattern_frozen, the heads that it is for: "
            "patch_pattern(run, head, pattern) is for one, all_patterns for all"
        )
    if given.patterns is not None and given.all_patterns is not None:
        raise ValueError("interventions.patterns must be None beside interventions.all_patterns")


def _check_inside(
    keep: Activations,
    add: Activations,
    rows: tuple[int, int, int],
    d_model: tuple[int],
    hidden: tuple[int, int] | None,
    inside: tuple[int, int] | None,
) -> None:
    """Every axis behind the layers is whole or 1."""
    n_layers, _, n_ctx = rows
    head, value = inside or (0, 0)
    widths = {"q": head, "k": head, "v": value, "z": value, "scores": n_ctx}
    allowed: dict[str, tuple[int, ...]] = {name: (*rows, width) for name, width in widths.items()}
    allowed["mid"] = (n_layers, n_ctx, *d_model)
    units = None if hidden is None else (n_layers, n_ctx, hidden[1])
    for group, given in (("keep", keep), ("add", add)):
        for name, array in given._asdict().items():
            if array is None:
                continue
            want = allowed.get(name, units)
            if want is None:
                raise ValueError(f"interventions.{group}.{name} must be None: the model has no MLP")
            pairs = zip(array.shape, want, strict=False)
            fits = all(axis in (1, size) for axis, size in pairs) and array.shape[0] == n_layers
            if len(array.shape) != len(want) or not fits:
                raise ValueError(
                    f"interventions.{group}.{name} has shape {array.shape}, must be {want}"
                )
