"""Forward passes of the toy models of superposition, and the hand-set pentagon network.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025), whose Example 26 is
the pentagon network; E6 and E7 are rows of docs/errata.md on what it says of that network.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.activations import Activation, activate
from circuitax.kernel.weights import DenseLayer, DenseWeights, TiedWeights


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
