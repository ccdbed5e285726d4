"""A model as a linear map of its heads' inputs: patterns and norm scales taken from one run.

With both frozen, attention of layer l is ``x ↦ x + Σ_h (A^h ⊗ W_OV^h) x + const``, and the logits
multiply out into paths. Everything that expands, ranks or counts paths starts from a `FrozenModel`.

An MLP is not linear. What it wrote in this run is kept as it is: one more source of paths, beside
the embedding. So paths run through heads, and the sum of all of them is still the logits; but no
path runs through an MLP, and how an MLP's output depends on the tokens is not split.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.read_out import ReadOut, read_out_of
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.kernel.indices import check_index
from circuitax.kernel.norm import Norm
from circuitax.kernel.per_head import per_head
from circuitax.kernel.run import Run, one_text


class FrozenModel(NamedTuple):
    """The linear model of one text; norms are folded, so that a head reads the bare stream.

    Keys and values that query heads share are written out for each of them.

    Biases are constants that enter the stream where they are written: a head's value bias travels
    with the head, ``b_O`` with the stream.
    """

    tokens: Float[Array, "n_ctx d_model"]
    """``W_E[tokens]``."""
    positions: Float[Array, "n_ctx d_model"] | None
    """What a position scheme added to the stream at the start; None if it adds nothing there."""
    A: Float[Array, "n_layers n_heads dest src"]
    """Patterns divided by the norm scale of the source, ``A_ts / σ_s``; and by that of the
    destination where a norm follows attention."""
    W_V: Float[Array, "n_layers n_heads d_model d_value"]
    W_O: Float[Array, "n_layers n_heads d_value d_model"]
    b_V: Float[Array, "n_layers n_heads dest d_value"] | None
    """What a head's value bias and norm offset leave at each destination."""
    b_O: Float[Array, "n_layers d_model"] | None
    read_out: ReadOut
    mlps: Float[Array, "n_layers n_ctx d_model"] | None = None
    """What the MLP of each layer wrote: sources of their own, constant like biases."""

    @property
    def embedding(self) -> Float[Array, "n_ctx d_model"]:
        """Input of layer 0."""
        return self.tokens if self.positions is None else self.tokens + self.positions


def frozen_model(run: Run) -> FrozenModel:
    """The linear model of one run: its patterns and norm scales are frozen.

    Args:
        run: A run of any transformer on one text; of one with MLPs, made with ``outputs=True``.

    Raises:
        ValueError: If the run is of several texts, or what its MLPs wrote was not recorded.

    Source: framework paper, "freezing attention patterns"; S0 Remark 20.
    """
    run = jax.tree.map(jnp.asarray, one_text(run))  # the weights may be NumPy arrays
    spec, blocks, trace = run.model.spec, run.model.blocks, run.trace
    if blocks.mlp is not None and trace.mlp_outputs is None:
        raise ValueError(
            "run.trace.mlp_outputs is None: a model with MLPs has their outputs as sources, make "
            "the run with outputs=True"
        )
    heads = per_head(run.model)
    W_V, b_V = fold_read(heads.W_V, heads.b_V, spec.norm, over_heads(blocks.attention_norm))
    A = trace.patterns
    if b_V is not None:
        b_V = A.sum(axis=-1)[..., None] * b_V[:, :, None, :]
    if spec.norm != Norm.none and trace.scales.attention is not None:
        A = A / trace.scales.attention[:, None, None, :]
    if trace.scales.attention_post is not None:
        after = trace.scales.attention_post[:, None, :, None]
        A, b_V = A / after, None if b_V is None else b_V / after
    embedded = run.model.W_E[run.tokens]
    in_stream = spec.positions.in_stream
    return FrozenModel(
        embedded,
        trace.streams[0] - embedded if in_stream else None,
        A,
        W_V,
        heads.W_O,
        b_V,
        heads.b_O,
        read_out_of(run),
        None if blocks.mlp is None else trace.mlp_outputs,
    )


def only(frozen: FrozenModel, source: str) -> FrozenModel:
    """The model with one kind of source, the others set to 0; the sum over kinds is the whole.

    Args:
        frozen: The frozen model of one text.
        source: ``"tokens"``, ``"positions"``, ``"biases"`` (of heads, layers and unembedding) or
            ``"mlps"``.

    Raises:
        ValueError: If ``source`` is another name.
    """
    if source not in ("tokens", "positions", "biases", "mlps"):
        raise ValueError(f"source={source!r} must be 'tokens', 'positions', 'biases' or 'mlps'")
    if source != "mlps":
        frozen = frozen._replace(mlps=None)
    if source != "biases":
        frozen = frozen._replace(b_V=None, b_O=None, read_out=frozen.read_out._replace(b_U=None))
    if source != "positions":
        frozen = frozen._replace(positions=None)
    if source != "tokens":
        frozen = frozen._replace(tokens=jnp.zeros_like(frozen.tokens))
    return frozen


def head_writes(
    frozen: FrozenModel,
    layer: int,
    streams: Float[Array, "*paths n_ctx d_model"],
    summed: bool = False,
) -> Float[Array, "*out n_ctx d_model"]:
    """``A^h x W_V^h W_O^h`` of one layer's heads on any stack of streams, without biases.

    Args:
        frozen: The frozen model of one text.
        layer: Which layer, in ``[0, n_layers)``.
        streams: What the heads read.
        summed: Whether the heads are added up.

    Returns:
        ``[n_heads, *paths, n_ctx, d_model]``, or ``[*paths, n_ctx, d_model]`` when summed.

    Raises:
        ValueError: If ``layer`` is out of range.
    """
    check_index("layer", layer, frozen.A.shape[0])
    values = jnp.einsum("...sd,hdk->h...sk", streams, frozen.W_V[layer])
    mixed = jnp.einsum("hts,h...sk->h...tk", frozen.A[layer], values)
    target = "...td" if summed else "h...td"
    return jnp.einsum(f"h...tk,hkd->{target}", mixed, frozen.W_O[layer])


def head_constants(frozen: FrozenModel, layer: int) -> Float[Array, "n_heads n_ctx d_model"]:
    """Outputs of the heads of one layer due to their own biases, ``A 1 b_V W_O``.

    Raises:
        ValueError: If ``layer`` is out of range.
    """
    check_index("layer", layer, frozen.A.shape[0])
    if frozen.b_V is None:
        n_heads, d_model = frozen.W_O.shape[1], frozen.W_O.shape[3]
        return jnp.zeros((n_heads, frozen.tokens.shape[0], d_model), frozen.tokens.dtype)
    return jnp.einsum("htk,hkd->htd", frozen.b_V[layer], frozen.W_O[layer])
