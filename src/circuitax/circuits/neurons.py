"""Firing of MLP units, and the rate at which the tokens that they raise come next.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.mlp import hidden_units
from circuitax.kernel.norm import apply_norm
from circuitax.kernel.rules import Rule, plain
from circuitax.kernel.run import Run, one_text
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import NormWeights


def mlp_streams(run: Run, rule: Rule = plain) -> Float[Array, "n_layers n_ctx d_model"]:
    """The stream that each MLP reads, before its norm where it reads through one."""
    trace, spec, blocks = one_text(run).trace, run.model.spec, run.model.blocks
    if blocks.mlp is None:
        raise ValueError("run.model.blocks.mlp is None: the model has no neurons")
    if trace.mlp_outputs is None or trace.head_outputs is None:
        raise ValueError("run.trace.mlp_outputs is None: call forward with outputs=True")
    # An MLP reads the stream as it was before its own output was added; in the parallel form it
    # reads the layer's input.
    entering, leaving = trace.streams[:-1], trace.streams[1:]
    if spec.parallel:
        return entering
    if not spec.post_ln:
        return leaving - trace.mlp_outputs
    added = entering + trace.head_outputs.sum(axis=1)
    if blocks.attention.b_O is not None:
        added = added + blocks.attention.b_O[:, None, :]
    return _normed(added, spec, blocks.attention_norm, rule)


def _normed(
    streams: Float[Array, "n_layers n_ctx d_model"],
    spec: TransformerSpec,
    weights: NormWeights | None,
    rule: Rule = plain,
) -> Float[Array, "n_layers n_ctx d_model"]:
    each = partial(apply_norm, norm=spec.norm, eps=spec.norm_eps, rule=rule)
    return jax.vmap(lambda x, norm: each(x, weights=norm)[0])(streams, weights)


def neuron_activations(run: Run) -> Float[Array, "n_layers n_ctx d_mlp"]:
    """Activations of the last hidden layer: the factor of each unit on its row of ``W_out``."""
    spec, blocks = run.model.spec, run.model.blocks
    read = _mlp_reads(run)
    return jax.vmap(lambda layer, x: hidden_units(layer, x, spec.activation))(blocks.mlp, read)


def _mlp_reads(run: Run) -> Float[Array, "n_layers n_ctx d_model"]:
    spec = run.model.spec
    streams = mlp_streams(run)
    return streams if spec.post_ln else _normed(streams, spec, run.model.blocks.mlp_norm)


class Firing(NamedTuple):
    """Rate at which a unit's values come next: where it fires, and everywhere.

    Attributes:
        fired: Share of next tokens among the unit's values, where it fires.
        everywhere: The same share over all positions.
    """

    fired: Float[Array, "n_layers d_mlp"]
    everywhere: Float[Array, "n_layers d_mlp"]


def values_come_true(
    activations: Float[Array, "n_layers n d_mlp"],
    coming: Int[Array, " n"],
    values: Bool[Array, "n_layers d_mlp d_vocab"],
    n_firing: int,
) -> Firing:
    """Rate at which the next token is one of a unit's values, at the unit's largest activations.

    Source: S2 and Geva et al. (2021): values are distributions over what follows their keys.
    """

    def of_unit(active: Array, raised: Array) -> tuple[Array, Array]:
        hits = raised[coming].astype(active.dtype)
        firing = jax.lax.top_k(active, n_firing)[1]
        return hits[firing].mean(), hits.mean()

    def of_layer(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        active, raised = pair
        return jax.lax.map(lambda unit: of_unit(*unit), (active.T, raised))

    return Firing(*jax.lax.map(of_layer, (activations, values)))


def mean_by_token(
    activations: Float[Array, "n_layers n d_mlp"], present: Int[Array, " n"], d_vocab: int
) -> Float[Array, "n_layers d_mlp d_vocab"]:
    """Mean activation of each unit by the token at the position; 0 for tokens that never occur."""
    counts = jnp.zeros(d_vocab, activations.dtype).at[present].add(1)
    total = jax.vmap(lambda a: jax.ops.segment_sum(a, present, d_vocab))(activations)
    return jnp.matrix_transpose(safe_divide(total, counts[None, :, None]))
