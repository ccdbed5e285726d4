"""Containers of weights, the common input of all analyses, whatever library trained the model.

All are NamedTuples of arrays in row form, ``y = x @ W``, and any leading batch axes (a stack of
layers, an ensemble of members) are allowed in front of the shapes written here. The sources write
columns, ``y = W x``: their matrices are the transposes of ours, head by head.
"""

from typing import NamedTuple

from jaxtyping import Array, Float

from circuitax.display.tables import documented
from circuitax.kernel.shown import shapes


@documented
class TiedWeights(NamedTuple):
    """The toy model ``x_hat = out(x @ W.T @ W + b)``; column i of W is feature i's direction.

    Attributes:
        W: Directions of the features in the hidden space, one column each.
        b: Bias of each feature before the output.
    """

    W: Float[Array, "*batch n_hidden n_features"]
    b: Float[Array, "*batch n_features"]

    def __repr__(self) -> str:
        return shapes(self)


class DenseLayer(NamedTuple):
    """One affine map ``x @ W + b``."""

    W: Float[Array, "*batch d_in d_out"]
    b: Float[Array, "*batch d_out"]


class DenseWeights(NamedTuple):
    """A fully connected network of any depth, with a ReLU between its layers."""

    layers: tuple[DenseLayer, ...]


@documented
class HeadStack(NamedTuple):
    """Attention weights, heads first, usually with ``[n_layers]`` in front, as in TransformerLens.

    Head h reads with ``W_V[h]`` and writes with ``W_O[h]``: the sources' ``W_OV = W_O W_V`` is
    ``(W_V @ W_O).T``, and their ``W_QK = W_Q^T W_K`` equals ``W_Q @ W_K.T``. ``d_value`` may differ
    from ``d_head``. An absent bias is None and costs nothing. With grouped attention, keys and
    values have ``n_kv_heads`` heads, and query head h reads number
    ``h // (n_heads / n_kv_heads)``; `kernel.per_head` writes them out for every query head.

    Attributes:
        W_Q: Reads queries from the stream.
        W_K: Reads keys.
        W_V: Reads values.
        W_O: Writes the mixed values to the stream.
        b_Q: Bias of queries.
        b_K: Bias of keys.
        b_V: Bias of values.
        b_O: Bias of what the heads of a layer write together.
        smear: The logit alpha of smeared keys: weight sigmoid(alpha) on the key itself.
        q_gain: Gain of the RMS norm of each query (QK-norm), which all heads of a layer share; of
            each head where ``spec.joint_qk_norm``.
        k_gain: The same for each key.
    """

    W_Q: Float[Array, "*batch n_heads d_model d_head"]
    W_K: Float[Array, "*batch n_kv_heads d_model d_head"]
    W_V: Float[Array, "*batch n_kv_heads d_model d_value"]
    W_O: Float[Array, "*batch n_heads d_value d_model"]
    b_Q: Float[Array, "*batch n_heads d_head"] | None = None
    b_K: Float[Array, "*batch n_kv_heads d_head"] | None = None
    b_V: Float[Array, "*batch n_kv_heads d_value"] | None = None
    b_O: Float[Array, "*batch d_model"] | None = None
    smear: Float[Array, "*batch n_heads"] | None = None
    q_gain: Float[Array, "*batch d_head"] | None = None
    k_gain: Float[Array, "*batch d_head"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class NormWeights(NamedTuple):
    """Weights of a norm.

    Attributes:
        gain: Factor of each entry of the normed stream.
        offset: Added to it; None for RMS norms.
    """

    gain: Float[Array, "*batch d_model"]
    offset: Float[Array, "*batch d_model"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class MLPWeights(NamedTuple):
    """``act(x @ W_in + b_in) @ W_out + b_out``.

    With a gate the hidden layer is ``act(x @ W_gate + b_gate) * (x @ W_in + b_in)``. A deeper MLP
    has ``act(hidden @ W_hidden[i] + b_hidden[i])`` for each further hidden layer, and no gate.

    Attributes:
        W_in: Reads the first hidden layer from the stream.
        W_out: Writes the last one to the stream.
        b_in: Bias of the first hidden layer.
        b_out: Bias of what is written.
        W_gate: Reads the gate; None without.
        W_hidden: Maps between hidden layers of a deeper MLP; None for one hidden layer.
        b_hidden: Their biases.
        b_gate: Bias of the gate.
    """

    W_in: Float[Array, "*batch d_model d_mlp"]
    W_out: Float[Array, "*batch d_mlp d_model"]
    b_in: Float[Array, "*batch d_mlp"] | None = None
    b_out: Float[Array, "*batch d_model"] | None = None
    W_gate: Float[Array, "*batch d_model d_mlp"] | None = None
    W_hidden: Float[Array, "*batch n_extra d_mlp d_mlp"] | None = None
    b_hidden: Float[Array, "*batch n_extra d_mlp"] | None = None
    b_gate: Float[Array, "*batch d_mlp"] | None = None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class Blocks(NamedTuple):
    """Layers of a transformer, stacked on the leading axis of each array; none is allowed.

    Attributes:
        attention: Weights of the heads.
        attention_norm: Norm of what attention reads; in post-LN, of the stream to which it is
            added.
        mlp: Weights of the MLPs; None for a model without.
        mlp_norm: As ``attention_norm``, of the MLP.
        attention_post_norm: Norm of what attention writes, before it is added to the stream.
        mlp_post_norm: The same for what the MLP writes.
    """

    attention: HeadStack
    attention_norm: NormWeights | None = None
    mlp: MLPWeights | None = None
    mlp_norm: NormWeights | None = None
    attention_post_norm: NormWeights | None = None
    mlp_post_norm: NormWeights | None = None

    def __repr__(self) -> str:
        return shapes(self)
