"""Gradient times activation: the first-order estimate of each head's effect."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, ablate_heads
from circuitax.kernel.run import Run, one_text


def head_gradients(
    run: Run,
    token: int | Int[Array, ""],
    minus: int | Int[Array, ""],
    *,
    position: int = -1,
    frozen: bool = False,
) -> Float[Array, "n_layers n_heads"]:
    """``Σ_t y_h(t) · ∂m/∂y_h(t)`` of every head h, m the lead of one logit over another.

    Source: Nanda 2023, attribution patching; here with zero for the other run.
    """
    model, trace = one_text(run).model, run.trace
    held = Interventions()
    if frozen:
        held = held._replace(all_patterns=trace.patterns, scales=trace.scales)
    if frozen and model.blocks.mlp is not None:
        if trace.mlp_outputs is None:
            raise ValueError("run.trace.mlp_outputs is None: make the run with outputs=True")
        nothing = jnp.zeros((trace.mlp_outputs.shape[0], 1), trace.mlp_outputs.dtype)
        held = held._replace(mlp_keep=nothing, mlp_add=trace.mlp_outputs)

    def lead(ablated: Float[Array, "n_layers n_heads"]) -> Float[Array, ""]:
        edit = held._replace(head_keep=ablate_heads(ablated).head_keep)
        logits = forward(model, run.tokens, edit)[0][position]
        return logits[token] - logits[minus]

    return -jax.grad(lead)(jnp.zeros(trace.patterns.shape[:2], trace.patterns.dtype))
