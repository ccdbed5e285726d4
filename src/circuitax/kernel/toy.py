"""The toy models of superposition: sparse synthetic features, and the forward passes.

Sparsity S is P(feature = 0). The functions take the density p = 1 - S as an array, so a sweep over
densities is a vmap and compiles once. A traced density is not checked.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.keys import derive, uniforms
from circuitax.kernel.mlp import Activation, activate
from circuitax.kernel.weights import DenseLayer, DenseWeights, TiedWeights


def feature_columns(
    u: Float[Array, "n_features batch"], density: Float[Array, " n_features"], *, signed: bool
) -> Float[Array, "n_features batch"]:
    """Independent features: ``x_i = 0`` with probability ``1 - p_i``, else uniform on [0, 1].

    One uniform u serves as mask and value: given ``u < p``, ``u / p`` is uniform again. Hence
    ``E x = p/2`` and ``E x^2 = p/3``. Random numbers are most of the time of a toy training step,
    so ensemble members with different densities share them. A float32 uniform has 2^23 levels, so
    values come on a grid of ``2^-23 / p``.

    Source: toy-models paper, "Demonstrating Superposition", and for ``signed`` "Computation in
        Superposition".
    """
    p = density[:, None]
    value = u * (1 / jnp.where(p > 0, p, 1))
    return jnp.where(u < p, 2 * value - 1 if signed else value, 0)


def unit_columns(
    u: Float[Array, "n_features batch"], density: Float[Array, " n_features"]
) -> Float[Array, "n_features batch"]:
    """`feature_columns` with every sample scaled to unit norm.

    Source: Henighan et al. 2023, "Superposition, Memorization, and Double Descent".
    Differs: the source does not say what becomes of samples without a feature.
    """
    x = feature_columns(u, density, signed=False)
    nearest = jnp.argmin(u / density[:, None], axis=0)
    alone = (jnp.arange(u.shape[0])[:, None] == nearest[None, :]).astype(x.dtype)
    squares = jnp.sum(x**2, axis=0, keepdims=True)
    empty = squares == 0
    return jnp.where(empty, alone, x / jnp.sqrt(jnp.where(empty, 1, squares)))


def copula_columns(
    normal: Float[Array, "n_features batch"],
    value: Float[Array, "n_features batch"],
    root: Float[Array, "n_features n_features"],
    density: Float[Array, " n_features"],
) -> Float[Array, "n_features batch"]:
    """Features that depend on each other through a Gaussian copula.

    Feature i is on where ``(L ε)_i < Φ^-1(p_i)`` for standard normal ε, so that its density is p_i
    whatever the correlation matrix ``L L^T`` is; where it is on, it has its own uniform value.
    """
    threshold = jax.scipy.special.ndtri(density)
    return jnp.where(root @ normal < threshold[:, None], value, 0)


def sample_correlated(
    key: Key[Array, ""],
    density: Float[Array, " n_sets"],
    batch: int,
    *,
    set_size: int,
) -> Float[Array, "batch n_features"]:
    """Correlated sets: all members of a set are on together, each with its own uniform value.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    shape = (batch, density.shape[0])
    on = uniforms(derive(key, "sets"), shape, density.dtype) < density[None, :]
    value = uniforms(derive(key, "values"), (*shape, set_size), density.dtype)
    return jnp.where(on[:, :, None], value, 0).reshape(batch, -1)


def sample_anticorrelated(
    key: Key[Array, ""],
    density: Float[Array, " n_sets"],
    batch: int,
    *,
    set_size: int,
) -> Float[Array, "batch n_features"]:
    """Anticorrelated sets: with probability p exactly one random member is on, else none.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    shape = (batch, density.shape[0])
    u, p = uniforms(derive(key, "sets"), shape, density.dtype), density[None, :]
    on = u < p
    # Where a set is on, u / p is uniform on [0, 1): its slot among set_size is the random member.
    # In float32 its product with set_size may round up to set_size.
    slot = jnp.floor(u / jnp.where(p > 0, p, 1) * set_size)
    slot = jnp.minimum(slot, set_size - 1)[:, :, None]
    members = jnp.arange(set_size, dtype=density.dtype)[None, None, :]
    value = uniforms(derive(key, "values"), shape, density.dtype)[:, :, None]
    return jnp.where(on[:, :, None] & (slot == members), value, 0).reshape(batch, -1)


def tied_forward(
    weights: TiedWeights,
    x: Float[Array, "*batch n_features"],
    activation: Activation | str = Activation.relu,
    *,
    hidden_relu: bool = False,
) -> Float[Array, "*batch n_features"]:
    """The tied autoencoder ``x_hat = out(x W^T W + b)`` of one model on a batch.

    Source: toy-models paper, sections "Mathematical Framework" and "Superposition in a Privileged
        Basis".
    Differs: the paper writes columns, ``h = W x`` and ``x' = ReLU(W^T h + b)``; W is the same.
    """
    hidden = x @ weights.W.T
    if hidden_relu:
        hidden = jax.nn.relu(hidden)
    z = hidden @ weights.W
    return activate(z + jnp.broadcast_to(weights.b, z.shape), activation)


def dense_forward(
    weights: DenseWeights,
    x: Float[Array, "*batch d_in"],
    output_relu: bool = True,
) -> tuple[Float[Array, "*batch d_out"], tuple[Float[Array, "*batch _"], ...]]:
    """A dense network with a ReLU between layers: output, and the pre-activation of every layer.

    ``z_{l+1} = h_l W_{l+1} + b_{l+1}``, ``h_l = relu(z_l)``, ``h_0 = x``.

    Source: S0 section 7, and the network of Example 26.
    """
    if not weights.layers:
        raise ValueError("weights.layers=() must hold at least one layer")
    hidden = x
    pre_activations = []
    for layer in weights.layers:
        z = hidden @ layer.W
        z = z + jnp.broadcast_to(layer.b, z.shape)
        pre_activations.append(z)
        hidden = jax.nn.relu(z)
    return hidden if output_relu else pre_activations[-1], tuple(pre_activations)


def pentagon_weights() -> DenseWeights:
    """The network of S0 Example 26: five features in two neurons, set by hand.

    ``v_k = (cos 2πk/5, sin 2πk/5)`` for k = 1..5, ``W1 = [v_1 | ... | v_5]``,
    ``b1 = (0.82, 0.97)``, ``W2 = 1.5 W1^T``, ``b2 = -W2 b1 - 0.5``. Feature k is index k - 1.

    Source: S0 Example 26.
    Differs: stored in row form, so ``layers[0].W`` has the v_k as rows. What S0 says of the network
        is exact only at magnitude 1 (E6), and wrong for two of the ten pairs (E7).
    """
    angle = 2 * jnp.pi * jnp.arange(1, 6) / 5
    vertices = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    b1 = jnp.array([0.82, 0.97])
    W2 = 1.5 * vertices.T
    return DenseWeights((DenseLayer(vertices, b1), DenseLayer(W2, -(b1 @ W2) - 0.5)))
