"""Toy modules against their formulas, and their initial weights against Flax."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import pentagon_weights
from circuitax.kernel.weights import DenseWeights, TiedWeights
from circuitax.models.toy import (
    ToyKind,
    ToySpec,
    extract,
    init_weights,
    module,
    restore,
    xavier_std,
)


def numpy_tied(W: np.ndarray, b: np.ndarray, x: np.ndarray, spec: ToySpec) -> np.ndarray:
    hidden = np.einsum("hf,sf->sh", W, x)
    if spec.kind is ToyKind.privileged:
        hidden = np.maximum(hidden, 0)
    z = np.einsum("hf,sh->sf", W, hidden) + b
    return np.maximum(z, 0) if spec.output is Activation.relu else z


@pytest.mark.parametrize("kind", [ToyKind.tied, ToyKind.privileged])
@pytest.mark.parametrize("output", [Activation.relu, Activation.linear])
def test_tied_module_is_the_formula(
    kind: ToyKind, output: Activation, x64: None, rng: np.random.Generator
) -> None:
    spec = ToySpec(4, 3, kind, output=output)
    W, b, x = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(6, 4))
    got = module(spec).apply(restore(TiedWeights(jnp.array(W), jnp.array(b))), jnp.array(x))
    np.testing.assert_allclose(got, numpy_tied(W, b, x, spec), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("output", [Activation.relu, Activation.linear])
def test_dense_module_is_the_formula(
    depth: int, output: Activation, x64: None, rng: np.random.Generator
) -> None:
    spec = ToySpec(4, 3, ToyKind.dense, depth, output)
    weights = jax.tree.map(lambda w: jnp.array(rng.normal(size=w.shape)), _init(spec))
    x = rng.normal(size=(6, 4))
    got = module(spec).apply(restore(weights), jnp.array(x))
    for i, layer in enumerate(weights.layers):
        x = x @ np.asarray(layer.W) + np.asarray(layer.b)
        if i < depth or output is Activation.relu:
            x = np.maximum(x, 0)
    assert len(weights.layers) == depth + 1
    np.testing.assert_allclose(got, x, rtol=1e-12, atol=1e-12)


def _init(spec: ToySpec, seed: int = 0) -> TiedWeights | DenseWeights:
    return init_weights(spec, jax.random.key(seed))


def test_S0_example_26_pentagon_is_a_dense_toy_of_depth_one() -> None:
    spec = ToySpec(5, 2, ToyKind.dense)
    pentagon = pentagon_weights()
    assert jax.tree.map(jnp.shape, pentagon) == jax.tree.map(jnp.shape, _init(spec))
    out = module(spec).apply(restore(pentagon), jnp.eye(5))
    np.testing.assert_allclose(out, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("spec", [ToySpec(4, 3), ToySpec(4, 3, ToyKind.dense, 2)])
def test_extract_and_restore_are_inverse(spec: ToySpec) -> None:
    variables = module(spec).init(jax.random.key(1), jnp.zeros(4))
    weights = extract(variables)
    assert isinstance(weights, DenseWeights if spec.kind is ToyKind.dense else TiedWeights)
    again = restore(weights)
    assert again["params"].keys() == variables["params"].keys()
    for name, value in variables["params"].items():
        np.testing.assert_array_equal(again["params"][name], value)


class ByFlax(nn.Module):
    """Parameters of the same names in the same order, drawn by Flax's own initialiser."""

    shapes: dict[str, tuple[int, ...]]

    @nn.compact
    def __call__(self) -> None:
        for name, shape in self.shapes.items():
            self.param(name, nn.initializers.normal(0.3), shape, float)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("n_features", [127, 128])
def test_initial_weights_are_those_of_flax_bit_for_bit(n_features: int, double: bool) -> None:
    """With two hidden numbers: 254 weights are fewer than are drawn, 256 are just as many."""
    n, m = n_features, 2
    tied = {"W": (m, n)}
    dense = {"W_0": (n, m), "b_0": (m,), "W_1": (m, m), "b_1": (m,), "W_2": (m, n)}
    with jax.enable_x64(double):
        keys = jax.random.split(jax.random.key(5), 2)
        for kind, depth, shapes in ((ToyKind.tied, 1, tied), (ToyKind.dense, 2, dense)):
            spec = ToySpec(n, m, kind, depth, init_std=0.3)
            drawn = jax.jit(jax.vmap(lambda key, spec=spec: init_weights(spec, key)))(keys)
            expected = jax.jit(jax.vmap(ByFlax(shapes).init))(keys)["params"]
            found = restore(drawn)["params"]
            for name in (name for name in shapes if name.startswith("W")):
                assert found[name].dtype == (np.float64 if double else np.float32)
                np.testing.assert_array_equal(found[name], expected[name])


def test_E17_scale_of_initial_weights_does_not_depend_on_the_ensemble() -> None:
    # Ours: one model's scale, whatever is trained beside it.
    spec = ToySpec(200, 20)
    keys = jax.random.split(jax.random.key(0), 20)
    stacked = jax.vmap(lambda key: init_weights(spec, key))(keys)
    std = spec.weight_std(200, 20)
    assert std == xavier_std(200, 20) == np.sqrt(2 / 220)
    n = stacked.W.size
    assert abs(np.std(stacked.W) / std - 1) < 5 / np.sqrt(2 * n)
    # The stacked notebook weights take the instance axis for a fan.
    given = dataclasses.replace(spec, init_std=0.02132)
    W = init_weights(given, jax.random.key(0)).W
    assert abs(np.std(W) / 0.02132 - 1) < 5 / np.sqrt(2 * W.size)
