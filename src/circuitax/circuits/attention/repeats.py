"""Heads at recurring pairs of tokens: attention to the match, and the rise of its next token.

`sums_at_repeats` reads one text; its results are added over texts before `shares_at_repeats`
divides, so that every repeat counts alike, whichever text it is in.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.circuits.attention.detectors import induction_mask
from circuitax.circuits.paths.attribution import attribute_sources, value_weighted
from circuitax.circuits.paths.read_out import read_out_of, token_directions
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.run import Run, one_text


def sums_at_repeats(run: Run, repeats: Bool[Array, " n_losses"]) -> dict[str, Array]:
    """Sums over the predictions that repeat an earlier pair, for each head.

    Returns:
        ``moved``, value-weighted attention; ``on_match``, its part on tokens that follow an earlier
        copy of the present one and are the next one; ``hits``, how often a head looks most at one
        of these; ``raised``, the direct effect on the next token's logit over that on the mean
        token; and ``n_repeats``, the number of predictions.
    """
    text, trace = one_text(run).tokens, run.trace
    match = induction_mask(text)[:-1] & repeats[:, None]
    counted = repeats.astype(trace.patterns.dtype)[None, None]
    moved = value_weighted(run)[:, :, :-1]
    looks = trace.patterns[:, :, :-1]
    top = jnp.argmax(looks, axis=-1, keepdims=True)
    hit = jnp.take_along_axis(jnp.broadcast_to(match, looks.shape), top, axis=-1)
    read_out = read_out_of(run)
    read_out = read_out._replace(W_U=centre_vocabulary(read_out.W_U))
    directions = token_directions(read_out, jnp.roll(text, -1))
    effect = attribute_sources(run, directions).sum(axis=-1)
    return {
        "moved": (moved.sum(axis=-1) * counted).sum(axis=-1),
        "on_match": jnp.where(match[None, None], moved, 0).sum(axis=(2, 3)),
        "hits": hit[..., 0].sum(axis=-1),
        "raised": (effect[:, :, :-1] * counted).sum(axis=-1),
        "n_repeats": repeats.sum(),
    }


def shares_at_repeats(sums: dict[str, Array]) -> dict[str, Float[Array, "n_layers n_heads"]]:
    """Shares and means of each head at repeats.

    Returns:
        ``stripes``, the share of value-weighted attention that lies on matches; ``top_is_match``,
        the share of repeats where a head looks most at a match; ``raises``, the mean direct effect
        in logits. All are 0 where nothing repeats.
    """
    n = jnp.broadcast_to(sums["n_repeats"].astype(sums["moved"].dtype), sums["moved"].shape)
    return {
        "stripes": safe_divide(sums["on_match"], sums["moved"]),
        "top_is_match": safe_divide(sums["hits"].astype(n.dtype), n),
        "raises": safe_divide(sums["raised"], n),
    }
