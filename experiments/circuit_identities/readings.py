"""What must vanish on any attention-only model: each identity as its greatest relative error."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment

from circuitax.circuits.components import components_of
from circuitax.circuits.expansion import expand, head_term
from circuitax.circuits.frozen import FrozenModel, frozen_model, head_writes
from circuitax.circuits.heads import token_ov
from circuitax.circuits.order_terms import order_streams
from circuitax.circuits.patching import ablate, each_component
from circuitax.circuits.paths import all_paths
from circuitax.circuits.read_out import logits_of
from circuitax.circuits.score_terms import score_terms
from circuitax.kernel import kron
from circuitax.kernel.attention import attention_pattern, causal_mask
from circuitax.kernel.chain import chain_of, diagonal
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Trace, freeze
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.spectrum import cyclic, eigenvalues, norm, trace
from circuitax.kernel.weights import TransformerWeights


def of_paths(
    weights: TransformerWeights, tokens: Int[Array, " n_ctx"], spec: ForwardSpec
) -> dict[str, Float[Array, ""]]:
    """Errors of the path expansion of one model, patterns and norm scales frozen.

    Needs no biases: the direct path is compared with ``W_E W_U`` alone.
    """
    logits, seen = forward(weights, tokens, spec)
    model = frozen_model(weights, tokens, spec, seen)
    size = jnp.abs(logits).max()
    terms = expand(model, logits)
    orders = logits_of(order_streams(model), model.read_out)
    direct = logits_of(weights.W_E[tokens], model.read_out)
    runs = _repeated_runs(weights, tokens, spec, seen, model)
    wrong = {
        "paths": terms.remainder,
        "orders": orders.sum(axis=0) - logits,
        "direct": orders[0] - direct,
        "runs": runs - jnp.cumsum(orders, axis=0),
        "ablation": ablation_error(weights, tokens, spec),
        "kronecker": _kronecker_error(model),
    }
    return {name: jnp.abs(error).max(initial=0) / size for name, error in wrong.items()}


def of_single_precision(
    weights: TransformerWeights, tokens: Int[Array, " n_ctx"], spec: ForwardSpec
) -> dict[str, Float[Array, ""]]:
    """The error of the path sum alone."""
    logits, seen = forward(weights, tokens, spec)
    terms = expand(frozen_model(weights, tokens, spec, seen), logits)
    return {"paths": jnp.abs(terms.remainder).max() / jnp.abs(logits).max()}


def ablation_error(
    weights: TransformerWeights, tokens: Int[Array, " n_ctx"], spec: ForwardSpec
) -> Float[Array, "head n_ctx d_vocab"]:
    """Pattern-preserving ablation of each head, minus the logits less all paths through it."""
    logits, seen = forward(weights, tokens, spec)
    terms = expand(frozen_model(weights, tokens, spec, seen), logits).terms
    n_layers, n_heads = seen.patterns.shape[:2]
    paths = list(all_paths(n_layers, n_heads))
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    if not cells:
        return jnp.zeros((0, *logits.shape), logits.dtype)
    through = jnp.array([[cell in path for path in paths] for cell in cells], logits.dtype)
    without = logits[None] - jnp.einsum("cp,ptv->ctv", through, terms)
    removed = each_component(weights)
    return ablate(weights, tokens, spec, removed, lambda z: z, preserved=seen) - without


def of_scores(
    weights: TransformerWeights, tokens: Int[Array, " n_ctx"], spec: ForwardSpec
) -> dict[str, Array]:
    """Scores of the heads of layer 1 as sums over sources of query and key, and their number."""
    _, seen = forward(weights, tokens, spec, outputs=True)
    parts = components_of(weights, tokens, spec, seen)
    n_heads = seen.patterns.shape[1]
    found = jax.vmap(lambda head: score_terms(weights, spec, seen, parts, 1, head))(
        jnp.arange(n_heads)
    )
    scores = found.terms.sum(axis=(1, 2))
    places = jnp.arange(tokens.shape[0])
    # The forward pass has its own scores; its patterns are what they must give.
    pattern = attention_pattern(scores, causal_mask(places, places, spec.causal))
    errors = jnp.stack(
        [
            jnp.abs(found.remainder).max() / jnp.abs(scores).max(),
            jnp.abs(pattern - seen.patterns[1]).max(),
        ]
    )
    count = found.terms.shape[1] * found.terms.shape[2]
    return {"scores": errors.max(), "count": jnp.asarray(count)}


def of_spectra(weights: TransformerWeights, spec: ForwardSpec) -> dict[str, np.ndarray]:
    """Low-rank eigenvalues, traces and norms of one model's OV circuits against dense matrices."""
    chain = token_ov(weights, spec, centred=False)
    heads = weights.blocks.attention
    W_V, W_O = np.asarray(heads.W_V), np.asarray(heads.W_O)
    dense = np.asarray(weights.W_E) @ W_V @ W_O @ np.asarray(weights.W_U)
    sizes = np.linalg.norm(dense, axis=(-2, -1))
    small = np.asarray(eigenvalues(cyclic(chain)))
    distances = [
        _spectra_apart(small[at], np.linalg.eigvals(dense[at])) / np.abs(small[at]).max()
        for at in np.ndindex(*sizes.shape)
    ]
    own = np.trace(dense, axis1=-2, axis2=-1)
    shifted = chain_of(*chain.factors[2:], *chain.factors[:2])
    errors = {
        "eigenvalues": np.array(distances),
        "trace": np.stack([np.asarray(trace(chain)), np.asarray(diagonal(chain).sum(-1))]) - own,
        "norm": np.asarray(norm(chain)) - sizes,
    }
    wrong = {
        name: np.abs(error if name == "eigenvalues" else error / sizes).max()
        for name, error in errors.items()
    }
    return wrong | {"cycled": np.abs(np.asarray(norm(shifted)) / sizes - 1).min()}


def _repeated_runs(
    weights: TransformerWeights, tokens: Array, spec: ForwardSpec, seen: Trace, model: FrozenModel
) -> Float[Array, "order n_ctx d_vocab"]:
    """The paper's algorithm: each run adds what its heads would have written in the run before."""
    n_layers, n_heads = seen.patterns.shape[:2]
    saved = jnp.zeros((n_layers, n_heads, *model.tokens.shape), model.tokens.dtype)
    off = jnp.zeros((n_layers, n_heads, tokens.shape[0]), model.tokens.dtype)
    logits = []
    for _ in range(n_layers + 1):
        edit = freeze(seen)._replace(head_keep=off, head_add=saved)
        found, run = forward(weights, tokens, spec, edit)
        logits.append(found)
        written = [head_writes(model, layer, run.streams[layer]) for layer in range(n_layers)]
        saved = jnp.stack(written) if written else saved
    return jnp.stack(logits)


def _kronecker_error(model: FrozenModel) -> Array:
    """A head as one dense matrix on the whole stream, against ``A x W``."""
    x = model.tokens
    if not model.A.shape[0]:
        return jnp.zeros_like(x)
    term = head_term(model, 0, 0)
    by_hand = model.A[0, 0] @ x @ model.W_V[0, 0] @ model.W_O[0, 0]
    return (kron.materialise(term) @ x.ravel()).reshape(x.shape) - by_hand


def _spectra_apart(small: np.ndarray, dense: np.ndarray) -> float:
    """Greatest distance in the best pairing of two spectra, the smaller filled up with zeros."""
    padded = np.concatenate([small, np.zeros(len(dense) - len(small))])
    cost = np.abs(padded[:, None] - dense[None, :])
    return float(cost[linear_sum_assignment(cost)].max())
