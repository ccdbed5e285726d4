"""Identities of every attention-only model, each as its greatest relative error."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment

from circuitax.circuits.patching import ablation_error
from circuitax.circuits.paths.components import logits_of
from circuitax.circuits.paths.expansion import expand, head_term, order_streams
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model, head_writes
from circuitax.circuits.score_terms import score_terms
from circuitax.circuits.weights.heads import token_ov
from circuitax.kernel import kron
from circuitax.kernel.attention import attention_pattern, causal_mask
from circuitax.kernel.chain import chain_of, diagonal
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import freeze
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.spectrum import cyclic, eigenvalues, norm
from circuitax.kernel.spectrum import trace as trace_of


def of_paths(run: Run) -> dict[str, Float[Array, ""]]:
    """Errors of the path expansion of one run, patterns and norm scales frozen.

    The model must have no biases: the direct path is compared with ``W_E W_U`` alone.
    """
    logits, frozen = run.logits, frozen_model(run)
    size = jnp.abs(logits).max()
    orders = logits_of(order_streams(frozen), frozen.read_out)
    direct = logits_of(run.model.W_E[run.tokens], frozen.read_out)
    runs = _repeated_runs(run, frozen)
    wrong = {
        "paths": expand(run).remainder,
        "orders": orders.sum(axis=0) - logits,
        "direct": orders[0] - direct,
        "runs": runs - jnp.cumsum(orders, axis=0),
        "ablation": ablation_error(run),
        "kronecker": _kronecker_error(frozen),
    }
    return {name: jnp.abs(error).max(initial=0) / size for name, error in wrong.items()}


def of_scores(run: Run) -> dict[str, Array]:
    """Scores of the heads of layer 1 as sums over sources of query and key."""
    heads = jnp.arange(run.model.n_heads)
    found = jax.vmap(lambda head: score_terms(run, 1, head))(heads)
    scores = found.terms.sum(axis=(1, 2))
    places = jnp.arange(run.tokens.shape[0])
    # The forward pass has its own scores; its patterns are what they must give.
    pattern = attention_pattern(scores, causal_mask(places, places, run.model.spec.causal))
    errors = jnp.stack(
        [
            jnp.abs(found.remainder).max() / jnp.abs(scores).max(),
            jnp.abs(pattern - run.trace.patterns[1]).max(),
        ]
    )
    return {"scores": errors.max()}


def of_spectra(model: Model) -> dict[str, np.ndarray]:
    """Low-rank eigenvalues, traces and norms of one model's OV circuits against dense matrices."""
    chain = token_ov(model, centred=False)
    heads = model.blocks.attention
    W_V, W_O = np.asarray(heads.W_V), np.asarray(heads.W_O)
    dense = np.asarray(model.W_E) @ W_V @ W_O @ np.asarray(model.W_U)
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
        "trace": np.stack([np.asarray(trace_of(chain)), np.asarray(diagonal(chain).sum(-1))]) - own,
        "norm": np.asarray(norm(chain)) - sizes,
    }
    wrong = {
        name: np.abs(error if name == "eigenvalues" else error / sizes).max()
        for name, error in errors.items()
    }
    return wrong | {"cycled": np.abs(np.asarray(norm(shifted)) / sizes - 1).min()}


def _repeated_runs(run: Run, frozen: FrozenModel) -> Float[Array, "order n_ctx d_vocab"]:
    """The paper's algorithm: each run adds the heads' outputs of the run before."""
    n_layers, n_heads = run.trace.patterns.shape[:2]
    saved = jnp.zeros((n_layers, n_heads, *frozen.tokens.shape), frozen.tokens.dtype)
    off = jnp.zeros((n_layers, n_heads, run.tokens.shape[0]), frozen.tokens.dtype)
    logits = []
    for _ in range(n_layers + 1):
        edit = freeze(run.trace)._replace(head_keep=off, head_add=saved)
        found, trace = forward(run.model, run.tokens, edit)
        logits.append(found)
        written = [head_writes(frozen, layer, trace.streams[layer]) for layer in range(n_layers)]
        saved = jnp.stack(written) if written else saved
    return jnp.stack(logits)


def _kronecker_error(frozen: FrozenModel) -> Array:
    """A head as one dense matrix on the whole stream, against ``A x W``."""
    x = frozen.tokens
    if not frozen.A.shape[0]:
        return jnp.zeros_like(x)
    term = head_term(frozen, 0, 0)
    by_hand = frozen.A[0, 0] @ x @ frozen.W_V[0, 0] @ frozen.W_O[0, 0]
    return (kron.materialise(term) @ x.ravel()).reshape(x.shape) - by_hand


def _spectra_apart(small: np.ndarray, dense: np.ndarray) -> float:
    """Greatest distance in the best pairing of two spectra, the smaller filled up with zeros."""
    padded = np.concatenate([small, np.zeros(len(dense) - len(small))])
    cost = np.abs(padded[:, None] - dense[None, :])
    return float(cost[linear_sum_assignment(cost)].max())
