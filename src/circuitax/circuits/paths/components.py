"""The final stream as a sum of components, for any transformer, MLPs included.

Embedding, positions, every head, every MLP and every output bias write to the stream once, and the
stream is exactly their sum. Only reading logits from it freezes a scale, that of the final norm.
In post-LN the stream is no such sum.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.read_out import logits_of, read_out_of
from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.run import Run, one_text
from circuitax.kernel.shown import shapes


@documented
class Components(NamedTuple):
    """Each component's output to the stream; absent ones are None.

    Attributes:
        tokens: The embeddings of the tokens.
        positions: What the position scheme added.
        heads: What each head wrote.
        mlps: What each MLP wrote.
        b_O: The bias that the heads of a layer share, repeated at each position.
    """

    tokens: Float[Array, "n_ctx d_model"]
    positions: Float[Array, "n_ctx d_model"] | None
    heads: Float[Array, "n_layers n_heads n_ctx d_model"]
    mlps: Float[Array, "n_layers n_ctx d_model"] | None
    b_O: Float[Array, "n_layers n_ctx d_model"] | None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class ComponentLogits(NamedTuple):
    """The logits of each component; with ``bias`` and ``remainder`` they sum to the logits.

    Attributes:
        parts: Each field's last axis is ``d_vocab`` instead of ``d_model``.
        bias: ``b_U`` and the final norm's offset, which belong to no component.
        remainder: Logits minus all of these: rounding.
    """

    parts: Components
    bias: Float[Array, " d_vocab"]
    remainder: Float[Array, "n_ctx d_vocab"]

    def __repr__(self) -> str:
        return shapes(self)


def components_of(run: Run) -> Components:
    """The components of one run.

    Source: S0 section 2.2; framework paper, "residual stream as a communication channel".
    """
    one_text(run)
    model, trace = run.model, run.trace
    check_pre_ln(model, "sums of components")
    if trace.head_outputs is None:
        raise ValueError("run.trace.head_outputs is None: make the run with outputs=True")
    embedded = jnp.asarray(model.W_E)[run.tokens]
    b_O = model.blocks.attention.b_O
    if b_O is not None:
        b_O = jnp.repeat(b_O[:, None, :], run.tokens.shape[0], axis=1)
    return Components(
        embedded,
        trace.streams[0] - embedded if model.spec.positions.in_stream else None,
        trace.head_outputs,
        trace.mlp_outputs,
        b_O,
    )


def stacked(parts: Components) -> Float[Array, "n_parts n_ctx *d_out"]:
    """All parts along one axis, in the order of `component_names`."""
    blocks = [parts.tokens[None]]
    if parts.positions is not None:
        blocks.append(parts.positions[None])
    blocks.append(parts.heads.reshape(-1, *parts.heads.shape[2:]))
    blocks += [part for part in (parts.mlps, parts.b_O) if part is not None]
    return jnp.concatenate(blocks)


def component_names(parts: Components) -> tuple[str, ...]:
    """Names such as ``tokens``, ``positions``, ``head 0.3``, ``mlp 1``, ``b_O 1``."""
    n_layers, n_heads = parts.heads.shape[:2]
    names = ["tokens"] + ["positions"] * (parts.positions is not None)
    names += [f"head {layer}.{head}" for layer in range(n_layers) for head in range(n_heads)]
    for name, part in (("mlp", parts.mlps), ("b_O", parts.b_O)):
        names += [f"{name} {layer}" for layer in range(n_layers)] * (part is not None)
    return tuple(names)


@compiled()
def component_logits(run: Run) -> ComponentLogits:
    """Every component read through the frozen final norm and the unembedding.

    Args:
        run: A run on one text, made with ``outputs=True``; the remainder is taken against its
            logits.

    Raises:
        ValueError: As `components_of`.

    Source: TransformerLens calls the same sum "direct logit attribution".
    """
    read_out, logits = read_out_of(run), run.logits
    read = jax.tree.map(lambda part: logits_of(part, read_out), components_of(run))
    b_U = read_out.b_U
    bias = jnp.zeros(logits.shape[-1], logits.dtype) if b_U is None else b_U
    explained = stacked(read).sum(axis=0) + bias[None, :]
    return ComponentLogits(read, bias, logits - explained)
