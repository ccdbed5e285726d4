"""What a caller may change inside the one forward pass, and what the pass records.

Every analysis that ablates, patches or freezes builds one of these pytrees and calls the same
forward; a sweep over heads is a vmap over the pytree. A field that is None costs nothing. The
``n_ctx`` axis of every ``keep`` and ``add`` may have size 1, meaning all positions.
"""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float

from circuitax.kernel.cache import Cache


class NormScales(NamedTuple):
    """Divisors of every norm, for each position; None where a model has no such read."""

    attention: Float[Array, "n_layers n_ctx"] | None = None
    mlp: Float[Array, "n_layers n_ctx"] | None = None
    final: Float[Array, " n_ctx"] | None = None
    attention_post: Float[Array, "n_layers n_ctx"] | None = None
    mlp_post: Float[Array, "n_layers n_ctx"] | None = None


class Trace(NamedTuple):
    """Intermediates of one forward pass; unused ones are removed by the compiler."""

    streams: Float[Array, "n_layers+1 n_ctx d_model"]
    """The residual stream entering each layer, and after the last (before the final norm)."""
    patterns: Float[Array, "n_layers n_heads dest src"]
    scales: NormScales
    head_outputs: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    mlp_outputs: Float[Array, "n_layers n_ctx d_model"] | None = None
    cache: Cache | None = None


class Interventions(NamedTuple):
    """Edits ``y <- keep * y + add``, and values to freeze.

    ``head_keep = 0`` is zero ablation; with ``head_add`` set to a mean or to another run's outputs
    it is mean or resample ablation; with ``patterns`` frozen too it preserves patterns.
    """

    stream_keep: Float[Array, "n_layers+1 n_ctx"] | None = None
    stream_add: Float[Array, "n_layers+1 n_ctx d_model"] | None = None
    """On the stream entering each layer, and on the final one (index n_layers)."""
    query_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    key_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    value_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    """Added, after the norm, to what one head reads: path patching into Q, K or V."""
    mlp_read_add: Float[Array, "n_layers n_ctx d_model"] | None = None
    """Added, after the norm, to what an MLP reads: path patching into it."""
    head_keep: Float[Array, "n_layers n_heads n_ctx"] | None = None
    head_add: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None
    """On what each head writes (without ``b_O``), behind a norm after attention, whose divisor is
    that of the heads before the edit: heads replaced by what they wrote change nothing."""
    mlp_keep: Float[Array, "n_layers n_ctx"] | None = None
    mlp_add: Float[Array, "n_layers n_ctx d_model"] | None = None
    """On what each MLP writes."""
    patterns: Float[Array, "n_layers n_heads dest src"] | None = None
    """Used instead of the computed patterns."""
    pattern_frozen: Bool[Array, "n_layers n_heads"] | None = None
    """Which heads take their pattern from ``patterns``; None for all."""
    scales: NormScales = NormScales()
    """Norm divisors used instead of the computed ones."""


def freeze(trace: Trace) -> Interventions:
    """The interventions under which the model is linear in its embeddings: A and scales fixed.

    Exact for attention-only models; an MLP stays nonlinear.

    Source: framework paper, "freezing attention patterns".
    """
    return Interventions(patterns=trace.patterns, scales=trace.scales)


def ablate_heads(
    ablated: Float[Array, "n_layers n_heads"],
    replacement: Float[Array, "n_layers n_heads n_ctx d_model"] | None = None,
) -> Interventions:
    """Turn heads off, or replace what they write; fractions interpolate.

    ``y_h <- (1 - a_h) y_h + a_h r_h``.

    Args:
        ablated: 1 for a head to be replaced, 0 for one left alone.
        replacement: r, such as means over data or another run's outputs; None for zeros.

    Source: induction-heads paper, "ablations".
    """
    a = ablated[:, :, None]
    add = None if replacement is None else a[..., None] * replacement
    return Interventions(head_keep=1 - a, head_add=add)


def check_interventions(
    given: Interventions, n_layers: int, n_heads: int, n_ctx: int, d_model: int
) -> None:
    """Refuse an array of the wrong shape by its name, instead of by an einsum deep inside.

    Raises:
        ValueError: If a shape does not fit the model, or ``pattern_frozen`` lacks ``patterns``.
    """
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
        "patterns": heads + ctx + ctx,
        "pattern_frozen": heads,
        "scales.attention": layers + ctx,
        "scales.mlp": layers + ctx,
        "scales.final": ctx,
        "scales.attention_post": layers + ctx,
        "scales.mlp_post": layers + ctx,
    }
    flat = given._asdict()
    scales = flat.pop("scales")
    flat |= {f"scales.{name}": array for name, array in scales._asdict().items()}
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
