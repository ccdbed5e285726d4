"""Optimizers against the rules of PyTorch, and Muon."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import draw_parameters, transformer_parameters
from circuitax.training.optim import MAPS, Optimizer, OptimSpec, Schedule, direction, rate_factor


def gradient(p: np.ndarray) -> np.ndarray:
    return np.sin(3 * p) + 0.1 * p


def ours(spec: OptimSpec, p: np.ndarray, n_steps: int) -> np.ndarray:
    params = jnp.array(p)
    optimizer = direction(spec)
    state = optimizer.init(params)
    for _ in range(n_steps):
        d, state = optimizer.update(jnp.array(gradient(np.asarray(params))), state, params)
        params = params - spec.learning_rate * d
    return np.asarray(params)


def torch_rule(spec: OptimSpec, p: np.ndarray, n_steps: int) -> np.ndarray:
    """torch.optim.{SGD, Adam, AdamW} as their documentation prints them."""
    lr, decay = spec.learning_rate, spec.weight_decay
    m = v = buffer = np.zeros_like(p)
    for t in range(1, n_steps + 1):
        g = gradient(p)
        if spec.clip_norm is not None:
            g = g * min(1, spec.clip_norm / np.linalg.norm(g))
        if spec.name is Optimizer.adamw:
            p = p - lr * decay * p
        else:
            g = g + decay * p
        if spec.name is Optimizer.sgd:
            buffer = spec.momentum * buffer + g
            p = p - lr * buffer
            continue
        m = spec.b1 * m + (1 - spec.b1) * g
        v = spec.b2 * v + (1 - spec.b2) * g**2
        m_hat, v_hat = m / (1 - spec.b1**t), v / (1 - spec.b2**t)
        p = p - lr * m_hat / (np.sqrt(v_hat) + spec.eps)
    return p


@pytest.mark.parametrize(
    "spec",
    [
        OptimSpec(Optimizer.adamw, learning_rate=0.1, weight_decay=0.3),
        OptimSpec(Optimizer.adam, learning_rate=0.1, weight_decay=0.3, b1=0.5, eps=1e-2),
        OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.3, momentum=0.8),
        OptimSpec(Optimizer.adamw, learning_rate=0.1, weight_decay=0.3, clip_norm=0.1),
    ],
    ids=["adamw", "adam", "sgd", "clipped"],
)
def test_trajectory_is_pytorchs(spec: OptimSpec, x64: None, rng: np.random.Generator) -> None:
    p = rng.normal(size=6)
    expected = torch_rule(spec, p, 7)
    np.testing.assert_allclose(ours(spec, p, 7), expected, rtol=1e-12, atol=1e-12)
    # The decay is a real part of it: without, the end is elsewhere.
    assert np.abs(torch_rule(replace(spec, weight_decay=0.0), p, 7) - expected).max() > 1e-3


def test_clipping_bites_and_spares_small_gradients(x64: None) -> None:
    spec = OptimSpec(Optimizer.sgd, weight_decay=0.0, clip_norm=1.0)
    optimizer, zero = direction(spec), jnp.zeros(2)
    big, _ = optimizer.update(jnp.array([3.0, 4.0]), optimizer.init(zero), zero)
    small, _ = optimizer.update(jnp.array([0.3, 0.4]), optimizer.init(zero), zero)
    np.testing.assert_allclose(big, [0.6, 0.8], rtol=1e-12)
    np.testing.assert_allclose(small, [0.3, 0.4], rtol=1e-12)


def test_E17_weight_decay_is_the_sources_and_not_optaxs() -> None:
    # With no gradient AdamW only shrinks: by lr * decay of the parameter, biases too.
    spec = OptimSpec(learning_rate=0.1)
    params = {"W": jnp.ones((2, 3)), "b": jnp.ones(3)}
    zero = jax.tree.map(jnp.zeros_like, params)
    optimizer = direction(spec)
    d, _ = optimizer.update(zero, optimizer.init(params), params)
    for name in params:
        np.testing.assert_allclose(params[name] - 0.1 * d[name], 1 - 0.1 * 0.01, rtol=1e-6)
    printed = optax.adamw(0.1)
    updates, _ = printed.update(zero, printed.init(params), params)
    np.testing.assert_allclose(updates["W"], -0.1 * 1e-4, rtol=1e-4)


def test_schedules_by_hand(x64: None) -> None:
    def factors(**fields: object) -> list[float]:
        spec = OptimSpec(steps=8, **fields)
        return [float(rate_factor(spec, jnp.array(t))) for t in (0, 1, 4, 8, 9)]

    assert factors() == [1, 1, 1, 1, 1]
    assert factors(schedule=Schedule.linear) == [1, 0.875, 0.5, 0, 0]
    assert factors(schedule=Schedule.linear, end_fraction=0.5) == [1, 0.9375, 0.75, 0.5, 0.5]
    cosine = factors(schedule=Schedule.cosine)
    np.testing.assert_allclose(cosine, [1, (1 + np.cos(np.pi / 8)) / 2, 0.5, 0, 0], atol=1e-12)
    assert factors(warmup_steps=4) == [0.25, 0.5, 1, 1, 1]
    assert factors(warmup_steps=4, schedule=Schedule.linear) == [0.25, 0.5, 1, 0, 0]
    assert factors(warmup_steps=8, schedule=Schedule.linear)[:3] == [0.125, 0.25, 0.625]


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
