"""Muon: steps of maps have equal singular values and Adam's size; all else takes Adam's steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import draw_parameters, transformer_parameters
from circuitax.training.optim import MAPS, Optimizer, OptimSpec, direction, maps_of

SPEC = TransformerSpec(
    d_vocab=20, n_ctx=8, n_layers=2, n_heads=2, d_model=8, d_mlp=16, gated=True, biases=True
)
MUON = OptimSpec(Optimizer.muon, 1e-2, weight_decay=0.0, momentum=0.95)


def drawn(spec: TransformerSpec, seed: int) -> dict[str, jax.Array]:
    return draw_parameters(jax.random.key(seed), transformer_parameters(spec))


def step(optim: OptimSpec, params: dict, grads: dict) -> dict[str, np.ndarray]:
    optimizer = direction(optim)
    found, _ = optimizer.update(grads, optimizer.init(params), params)
    return {name: np.asarray(leaf, float) for name, leaf in found.items()}


def as_matrices(name: str, leaf: np.ndarray) -> np.ndarray:
    """One matrix for each layer, read × write, with the heads of a layer side by side."""
    n_layers = leaf.shape[0]
    if name[-3:] in {"W_Q", "W_K", "W_V"}:
        return leaf.transpose(0, 2, 1, 3).reshape(n_layers, leaf.shape[2], -1)
    if name[-3:] == "W_O":
        return leaf.reshape(n_layers, -1, leaf.shape[3])
    return leaf


def test_the_step_of_a_map_has_nearly_equal_singular_values() -> None:
    params, grads = drawn(SPEC, 0), drawn(SPEC, 1)
    found = step(MUON, params, grads)
    maps = [name for name in params if name.rpartition(".")[2] in MAPS]
    assert len(maps) == 7
    for name in maps:
        for grad, d in zip(
            as_matrices(name, np.asarray(grads[name], float)),
            as_matrices(name, found[name]),
            strict=True,
        ):
            left, values, right = np.linalg.svd(grad, full_matrices=False)
            exact = 0.2 * np.sqrt(max(grad.shape)) * left @ right
            # Newton–Schulz leaves singular values between 0.65 and 1.25; the gradient's do not.
            size = np.linalg.svd(d)[1] / (0.2 * np.sqrt(max(grad.shape)))
            assert size.min() > 0.65 and size.max() < 1.25 < values.max() / values.min()
            assert (d * exact).sum() > 0.95 * np.linalg.norm(d) * np.linalg.norm(exact)
            assert 0.12 < np.sqrt((d**2).mean()) * np.sqrt(max(d.shape) / min(d.shape)) < 0.36


def test_what_is_no_map_of_a_block_takes_adams_step() -> None:
    params, grads = drawn(SPEC, 0), drawn(SPEC, 1)
    found = step(MUON, params, grads)
    adam = optax.scale_by_adam(b1=MUON.b1, b2=MUON.b2, eps=MUON.eps, nesterov=True)
    expected, _ = adam.update(grads, adam.init(params), params)
    others = [name for name in params if name.rpartition(".")[2] not in MAPS]
    assert {"W_E", "W_U", "b_U"} < set(others)
    for name in others:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6)


def test_decay_is_decoupled_for_all_parameters() -> None:
    params = drawn(SPEC, 0)
    zero = jax.tree.map(jnp.zeros_like, params)
    decayed = OptimSpec(Optimizer.muon, 1e-2, weight_decay=0.3, momentum=0.95)
    for name, d in step(decayed, params, zero).items():
        np.testing.assert_allclose(d, 0.3 * np.asarray(params[name]), rtol=1e-6, atol=1e-7)


def test_a_model_without_layers_is_trained_by_adam_alone() -> None:
    spec = SPEC.replace(n_layers=0)
    found = step(MUON, drawn(spec, 0), drawn(spec, 1))
    assert found["blocks.attention.W_Q"].shape == (0, 2, 8, 4)
    assert np.abs(found["W_E"]).min() > 0.5


def test_parameters_of_no_transformer_are_refused() -> None:
    with pytest.raises(ValueError, match=r"params has \['W', 'b'\], must have one of W_Q"):
        maps_of({"W": jnp.ones((2, 3)), "b": jnp.ones(3)})
