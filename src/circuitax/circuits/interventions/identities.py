"""An identity of every attention-only model, as its numerical error."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.interventions.patching import ablate, each_component
from circuitax.circuits.paths.expansion import expand
from circuitax.circuits.paths.paths import all_paths
from circuitax.kernel.run import Run


def ablation_error(run: Run) -> Float[Array, "head n_ctx d_vocab"]:
    """Logits with a head ablated, patterns frozen, minus logits less all paths through that head.

    Source: framework paper, "freezing attention patterns" and "path expansion trick".
    """
    terms = expand(run).terms
    n_layers, n_heads = run.trace.patterns.shape[:2]
    paths = list(all_paths(n_layers, n_heads))
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    if not cells:
        return jnp.zeros((0, *run.logits.shape), run.logits.dtype)
    through = jnp.array([[cell in path for path in paths] for cell in cells], run.logits.dtype)
    without = run.logits[None] - jnp.einsum("cp,ptv->ctv", through, terms)
    removed = each_component(run.model)
    kept = ablate(run.model, run.tokens, removed, lambda logits: logits, preserved=run.trace)
    return kept - without
