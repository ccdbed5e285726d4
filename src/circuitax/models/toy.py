"""Toy models of superposition: their spec, Linen modules, and conversion of weights.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range, choose_fields
from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import dense_forward, tied_forward
from circuitax.kernel.weights import DenseLayer, DenseWeights, TiedWeights

Variables = Mapping[str, Any]
# XLA takes twice as long to compile the draw of a small matrix as that of so many numbers in a row.
LEAST_DRAWN = 256


class ToyKind(Enum):
    """Kind of toy model; names as written in a config."""

    tied = "tied"
    """``out(W^T W x + b)``: linear hidden layer, decoder tied to the encoder."""
    privileged = "privileged"
    """``out(W^T ReLU(W x) + b)``: tied, with a ReLU that gives the hidden layer a basis."""
    dense = "dense"
    """Untied ReLU network of ``depth`` hidden layers; the pentagon network is one of depth 1."""


@dataclass(frozen=True)
class ToySpec:
    """Shape and initialisation of a toy model.

    Attributes:
        n_features: Inputs and outputs n, at least 1.
        n_hidden: Width m of every hidden layer, at least 1.
        kind: Which model.
        depth: Hidden layers, at least 1; more than one only for ``dense``.
        output: ``relu`` or ``linear``, after the last layer.
        init_std: Standard deviation of the initial weights, 0 or more; None is Xavier's for one
            model, ``sqrt(2 / (d_in + d_out))`` layer by layer. Biases start at 0.
    """

    n_features: int = 5
    n_hidden: int = 2
    kind: ToyKind = ToyKind.tied
    depth: int = 1
    output: Activation = Activation.relu
    init_std: float | None = None

    def __post_init__(self) -> None:
        choose_fields(self)
        for field in ("n_features", "n_hidden", "depth"):
            check_range(field, getattr(self, field), "[1, inf)")
        if self.kind is not ToyKind.dense and self.depth != 1:
            raise ValueError(f"depth={self.depth} must be 1 for a {self.kind.value} model")
        if self.output not in (Activation.relu, Activation.linear):
            raise ValueError(f"output={self.output.value} must be relu or linear")
        if self.init_std is not None and not 0 <= self.init_std < math.inf:
            raise ValueError(f"init_std={self.init_std} must be 0 or more and finite")

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of every layer, input to output."""
        return (self.n_features, *[self.n_hidden] * self.depth, self.n_features)

    def weight_std(self, d_in: int, d_out: int) -> float:
        """Standard deviation of one initial weight matrix; records hold this number."""
        return xavier_std(d_in, d_out) if self.init_std is None else self.init_std


def xavier_std(d_in: int, d_out: int) -> float:
    """``sqrt(2 / (d_in + d_out))``, for one model."""
    return math.sqrt(2 / (d_in + d_out))


class TiedToy(nn.Module):
    """Declares W and b of a tied model and calls the kernel's forward."""

    spec: ToySpec

    @nn.compact
    def __call__(self, x: Float[Array, "*batch n_features"]) -> Float[Array, "*batch n_features"]:
        n, m = self.spec.n_features, self.spec.n_hidden
        std = self.spec.weight_std(n, m)
        W = self.param("W", _normal(std), (m, n), float)
        b = self.param("b", nn.initializers.zeros, (n,), float)
        hidden_relu = self.spec.kind is ToyKind.privileged
        return tied_forward(TiedWeights(W, b), x, self.spec.output, hidden_relu=hidden_relu)


class DenseToy(nn.Module):
    """Declares the layers of an untied ReLU network and calls the kernel's forward."""

    spec: ToySpec

    @nn.compact
    def __call__(self, x: Float[Array, "*batch n_features"]) -> Float[Array, "*batch n_features"]:
        layers = []
        pairs = zip(self.spec.widths, self.spec.widths[1:], strict=False)
        for i, (d_in, d_out) in enumerate(pairs):
            normal = _normal(self.spec.weight_std(d_in, d_out))
            W = self.param(f"W_{i}", normal, (d_in, d_out), float)
            b = self.param(f"b_{i}", nn.initializers.zeros, (d_out,), float)
            layers.append(DenseLayer(W, b))
        relu = self.spec.output is Activation.relu
        return dense_forward(DenseWeights(tuple(layers)), x, output_relu=relu)[0]


def _normal(std: float) -> Callable[..., Array]:
    """``std`` times normal numbers: equal to Flax's initialiser of that name, bit for bit."""

    def draw(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Array:
        count = math.prod(shape)
        small = count < LEAST_DRAWN
        drawn = jax.random.normal(key, (LEAST_DRAWN,) if small else shape, dtype)
        scaled = drawn * jnp.asarray(std, dtype)
        return scaled[:count].reshape(shape) if small else scaled

    return draw


def module(spec: ToySpec) -> nn.Module:
    """The Linen module of a spec."""
    return DenseToy(spec) if spec.kind is ToyKind.dense else TiedToy(spec)


def init_weights(spec: ToySpec, key: Key[Array, ""]) -> TiedWeights | DenseWeights:
    """The weights of a freshly initialised model, in the kernel's container."""
    return extract(module(spec).init(key, jnp.zeros(spec.n_features)))


def extract(variables: Variables) -> TiedWeights | DenseWeights:
    """The kernel's container of weights from a module's variables; `restore` is its inverse."""
    params = variables["params"]
    if "W" in params:
        return TiedWeights(params["W"], params["b"])
    n_layers = sum(name.startswith("W_") for name in params)
    return DenseWeights(
        tuple(DenseLayer(params[f"W_{i}"], params[f"b_{i}"]) for i in range(n_layers))
    )


def restore(weights: TiedWeights | DenseWeights) -> Variables:
    """A module's variables from the kernel's container."""
    if isinstance(weights, TiedWeights):
        return {"params": {"W": weights.W, "b": weights.b}}
    params: dict[str, Array] = {}
    for i, layer in enumerate(weights.layers):
        params |= {f"W_{i}": layer.W, f"b_{i}": layer.b}
    return {"params": params}
