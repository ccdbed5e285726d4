"""Direct and ablation effects of every component of a pre-LN transformer on the right token."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.detectors import detect, previous_mask
from circuitax.circuits.patching import ablated_metrics, each_component
from circuitax.circuits.paths.components import (
    Components,
    attribute,
    components_of,
    over_mean_token,
    stacked,
)
from circuitax.circuits.weights.folding import norm_price
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import bandwidth, memory_management
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.interventions import Trace
from circuitax.kernel.linalg import cosine
from circuitax.kernel.model import Model
from circuitax.kernel.run import run

# What takes the place of a component: nothing, its mean over windows at each position, its output
# on another window; or nothing, with patterns and norm scales kept.
REPLACED = ("zero", "mean", "resample", "zero, patterns kept")


def of_windows(model: Model, windows: Array) -> dict[str, Array]:
    """Means over windows: direct effects on the next token, and nats without each component.

    Direct effects are logits over the mean token, final norm frozen. ``looks_back`` is the
    attention of each head to the previous token, by which heads of several models are aligned.
    """

    def parts_of(text: Array) -> Components:
        return components_of(run(model, text, outputs=True))

    parts = jax.lax.map(parts_of, windows)
    mean = jax.tree.map(lambda x: x.mean(axis=0), parts)

    def one(at: Array) -> dict[str, Array]:
        text = windows[at]
        other = jax.tree.map(lambda x: x[at - 1], parts)
        seen = run(model, text, outputs=True)

        def loss(logits: Array) -> Array:
            return next_token_losses(logits, text).mean()

        def without(replacement: Components | None, preserved: Trace | None = None) -> Array:
            cells = each_component(model)
            return ablated_metrics(
                model, text, cells, loss, replacement=replacement, preserved=preserved
            )

        lost = [without(None), without(mean), without(other), without(None, seen.trace)]
        centred = over_mean_token(seen)
        split = attribute(centred, jnp.roll(text, -1))
        effects = jnp.concatenate([stacked(split.parts), split.bias[None]])
        return {
            "loss": loss(seen.logits),
            "looks_back": detect(seen.trace.patterns, previous_mask(text)).score,
            "ablated": jnp.stack(lost),
            "direct": effects[:, :-1].mean(axis=1),
            "remainder": jnp.abs(split.remainder).max() / jnp.abs(centred.logits).max(),
        }

    found = jax.lax.map(one, jnp.arange(len(windows)))
    worst = found.pop("remainder").max()
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    price = norm_price(model, windows)
    W_O = model.blocks.attention.W_O
    used = bandwidth(W_O.reshape(-1, *W_O.shape[2:]))
    return means | {
        "nats_lost": means["ablated"] - means["loss"],
        "remainder": worst,
        "norm_constant": price.constant,
        "norm_price": price.price,
        "bandwidth_written": jnp.asarray(used.written),
        "bandwidth_effective": used.effective,
        "bandwidth_reused": used.reused,
    }


def alignments(model: Model, windows: Array) -> Float[Array, " cell"]:
    """Mean cosine of the output of each head, then each MLP, with the stream it is added to."""
    ov = token_ov(model)

    def one(text: Array) -> Array:
        seen = run(model, text, outputs=True)
        parts = components_of(seen)
        heads = memory_management(seen, ov).alignment.ravel()
        if parts.mlps is None:
            return heads
        behind_heads = seen.trace.streams[:-1] + parts.heads.sum(axis=1)
        if parts.b_O is not None:
            behind_heads = behind_heads + parts.b_O
        return jnp.concatenate([heads, cosine(parts.mlps, behind_heads).mean(axis=-1)])

    return jax.lax.map(one, windows).mean(axis=0)
