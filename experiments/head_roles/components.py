"""What every component of a full pre-LN transformer adds to the right token, and is worth."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.attribution import attribute
from circuitax.circuits.components import Components, components_of, stacked
from circuitax.circuits.heads import token_ov
from circuitax.circuits.in_context import token_losses
from circuitax.circuits.norm_price import norm_price
from circuitax.circuits.patching import ablate, each_component
from circuitax.circuits.read_out import read_out_of
from circuitax.circuits.roles import memory_management
from circuitax.circuits.subspaces import bandwidth
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.interventions import Trace
from circuitax.kernel.linalg import cosine
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights

# What takes the place of a component: nothing, its mean over windows at each position, its output
# on another window; or nothing, with patterns and norm scales kept.
REPLACED = ("zero", "mean", "resample", "zero, patterns kept")


def of_windows(weights: TransformerWeights, windows: Array, spec: ForwardSpec) -> dict[str, Array]:
    """Means over windows: direct effects on the next token, and nats without each component.

    Direct effects are logits over the mean token, final norm frozen.
    """

    def parts_of(text: Array) -> Components:
        return components_of(weights, text, spec, forward(weights, text, spec, outputs=True)[1])

    parts = jax.lax.map(parts_of, windows)
    mean = jax.tree.map(lambda x: x.mean(axis=0), parts)

    def one(at: Array) -> dict[str, Array]:
        text = windows[at]
        own, other = (jax.tree.map(lambda x, i=i: x[i], parts) for i in (at, at - 1))
        logits, trace = forward(weights, text, spec)

        def loss(logits: Array) -> Array:
            return token_losses(logits, text).mean()

        def without(replacement: Components | None, preserved: Trace | None = None) -> Array:
            return ablate(weights, text, spec, each_component(weights), loss,
                          replacement=replacement, preserved=preserved)  # fmt: skip

        read_out = read_out_of(weights, spec, trace)
        b_U = None if read_out.b_U is None else centre_last(read_out.b_U)
        read_out = read_out._replace(W_U=centre_vocabulary(read_out.W_U), b_U=b_U)
        centred = centre_last(logits)
        split = attribute(own, read_out, centred, jnp.roll(text, -1))
        effects = jnp.concatenate([stacked(split.parts), split.bias[None]])
        return {
            "loss": loss(logits),
            "ablated": jnp.stack([without(None), without(mean), without(other),
                                  without(None, trace)]),
            "direct": effects[:, :-1].mean(axis=1),
            "remainder": jnp.abs(split.remainder).max() / jnp.abs(centred).max(),
        }  # fmt: skip

    found = jax.lax.map(one, jnp.arange(len(windows)))
    worst = found.pop("remainder").max()
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    price = norm_price(weights, windows, spec)
    W_O = weights.blocks.attention.W_O
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


def alignments(
    weights: TransformerWeights, windows: Array, spec: ForwardSpec
) -> Float[Array, " cell"]:
    """Mean cosine of what each head, then each MLP, writes with the stream that it is added to."""
    ov = token_ov(weights, spec)

    def one(text: Array) -> Array:
        _, trace = forward(weights, text, spec, outputs=True)
        parts = components_of(weights, text, spec, trace)
        heads = memory_management(trace, ov, text).alignment.ravel()
        if parts.mlps is None:
            return heads
        behind_heads = trace.streams[:-1] + parts.heads.sum(axis=1)
        if parts.b_O is not None:
            behind_heads = behind_heads + parts.b_O
        return jnp.concatenate([heads, cosine(parts.mlps, behind_heads).mean(axis=-1)])

    return jax.lax.map(one, windows).mean(axis=0)
