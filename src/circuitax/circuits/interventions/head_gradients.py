"""Gradient times activation: what a first-order estimate says that each head is worth."""

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

    It is how fast m falls as the head is turned off, and so the estimate of attribution patching
    for what zero ablation costs. With everything held but what heads read through their values, it
    is no estimate: m is linear in each head, and this is the sum of all paths through it
    (`circuits.ledger`).

    Args:
        run: A run of any transformer on one text; made with ``outputs=True`` if ``frozen`` and the
            model has MLPs.
        token: Id whose logit is explained.
        minus: Id whose logit is subtracted.
        position: Where the logits are read; negative positions count from the end.
        frozen: Whether patterns, norm scales and what MLPs wrote are held.

    Raises:
        ValueError: If the run is of several texts, or what MLPs wrote is needed and was not
            recorded.

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
