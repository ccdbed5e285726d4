"""Scores of neurons and heads for a lead, and the lead when all others are set to their means."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.detectors import neuron_activations
from circuitax.kernel.forward import final_stream, unembed
from circuitax.kernel.interventions import Interventions, freeze
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kernel.weights import MLPWeights

METHODS = ("paths", "RelP", "gradient", "direct effect")
# Sentences that pass the model together: its weights are read once for all of them.
BATCH = 32


class Nodes(NamedTuple):
    """Values of neurons and heads: activations and outputs, scores, or a mask of kept ones."""

    neurons: Array | np.ndarray
    heads: Array | np.ndarray


class Read(NamedTuple):
    """One sentence's lead, and its neurons' activations and heads' outputs."""

    lead: Float[Array, ""]
    nodes: Nodes


def mlp_of(model: Model) -> MLPWeights:
    """The weights of all MLPs, which both models have."""
    if model.blocks.mlp is None:
        raise ValueError(f"model={model.spec} must have MLPs")
    return model.blocks.mlp


@jax.jit
def read(
    model: Model,
    texts: Int[Array, "n n_ctx"],
    right: Int[Array, " n"],
    wrong: Int[Array, " n"],
) -> Read:
    """The lead of the right token at the end of each text, and all nodes."""

    def one(given: tuple[Array, Array, Array]) -> Read:
        text, yes, no = given
        seen = forward_run(model, text, outputs=True)
        nodes = Nodes(neuron_activations(seen), jnp.asarray(seen.head_outputs))
        return Read(seen.logits[-1, yes] - seen.logits[-1, no], nodes)

    return jax.lax.map(one, (texts, right, wrong), batch_size=BATCH)


@jax.jit
def scores(
    model: Model,
    texts: Int[Array, "n n_ctx"],
    right: Int[Array, " n"],
    wrong: Int[Array, " n"],
    mean: Nodes,  # [n_layers, n_ctx, d_mlp] and [n_layers, n_heads, n_ctx, d_model]
) -> Nodes:  # [n, method, n_layers, d_mlp] and [n, method, n_layers, n_heads]
    """Effects of all nodes on the leads by each of `METHODS`, over what their means would do.

    ``Σ_t (h_t - mean_t) w_t``, where w is how the lead depends on what is written there: with
    patterns, scales and gates held (all paths of the frozen model), with both sides of a gated
    product at half (RelP), with nothing held (the gradient), or directly.
    """
    W_out = jnp.asarray(mlp_of(model).W_out)

    def one(given: tuple[Array, Array, Array]) -> Nodes:
        text, yes, no = given
        seen = forward_run(model, text, outputs=True)
        nothing = jnp.zeros_like(seen.trace.streams[1:])

        def slopes(held: Interventions) -> tuple[Array, Array]:
            def lead(heads: Array, mlps: Array) -> Array:
                edit = held._replace(head_add=spread.at[:, 0].set(heads), mlp_add=mlps)
                stream = final_stream(model, text, edit)[0][-1]
                return lead_at(stream, model, yes, no, held.scales.final)

            return jax.grad(lead, argnums=(0, 1))(nothing, nothing)

        # What any head of a layer writes counts alike.
        spread = jnp.zeros_like(mean.heads)
        ways = [
            slopes(held)
            for held in (freeze(seen.trace), freeze(seen.trace, "shared"), Interventions())
        ]
        at_end = jax.grad(lead_at)(seen.trace.streams[-1, -1], model, yes, no, seen.scales.final)
        direct = nothing.at[:, -1].set(at_end)
        ways.append((direct, direct))
        neurons = neuron_activations(seen) - mean.neurons
        heads = jnp.asarray(seen.head_outputs) - mean.heads
        return Nodes(
            jnp.stack([jnp.einsum("lmd,ltd,ltm->lm", W_out, w, neurons) for _, w in ways]),
            jnp.stack([jnp.einsum("lhtd,ltd->lh", heads, w) for w, _ in ways]),
        )

    return jax.lax.map(one, (texts, right, wrong), batch_size=BATCH)


def lead_at(
    stream: Float[Array, " d_model"],
    model: Model,
    right: Int[Array, ""],
    wrong: Int[Array, ""],
    scale: Float[Array, " n_ctx"] | None = None,
) -> Float[Array, ""]:
    """The lead of one token over another by the final stream, with the scale held where given."""
    logits = unembed(model, stream[None], None if scale is None else scale[-1:])[0][0]
    return logits[right] - logits[wrong]


@jax.jit
def leads_with(
    model: Model,
    texts: Int[Array, "n n_ctx"],
    right: Int[Array, " n"],
    wrong: Int[Array, " n"],
    mean: Nodes,
    kept: Nodes,  # 1 or 0, [n_layers, d_mlp] and [n_layers, n_heads]
) -> Float[Array, " n"]:
    """Leads when all nodes that are not kept are set to their means; everything reacts."""
    mlp = mlp_of(model)
    W_out = jnp.asarray(mlp.W_out)
    held = jnp.einsum("ltm,lm,lmd->ltd", mean.neurons, 1 - kept.neurons, W_out)
    few = mlp._replace(W_out=W_out * kept.neurons[..., None])
    part = model.replace(blocks=model.blocks._replace(mlp=few))
    keep = jnp.asarray(kept.heads)[..., None]
    edit = Interventions(head_keep=keep, head_add=(1 - keep[..., None]) * mean.heads, mlp_add=held)

    def one(given: tuple[Array, Array, Array]) -> Array:
        text, yes, no = given
        return lead_at(final_stream(part, text, edit)[0][-1], model, yes, no)

    return jax.lax.map(one, (texts, right, wrong), batch_size=BATCH)
