"""Optimizers against PyTorch's update rules written in NumPy, and the shape of the rates."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from circuitax.training.optim import Optimizer, OptimSpec, Schedule, direction, rate_factor


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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be positive"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be positive"),
        ({"eps": 0.0}, "eps=0.0 must be positive"),
        ({"steps": 0}, "steps=0 must be positive"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 must be 0 or more"),
        ({"b1": 1.0}, r"b1=1.0 must be in \[0, 1\)"),
        ({"b2": -0.1}, r"b2=-0.1 must be in \[0, 1\)"),
        ({"momentum": 1.0, "name": Optimizer.sgd}, r"momentum=1.0 must be in \[0, 1\)"),
        ({"momentum": 0.9}, "momentum=0.9 must be 0 for adamw; set b1"),
        ({"end_fraction": 1.5}, r"end_fraction=1.5 must be in \[0, 1\]"),
        ({"warmup_steps": 11, "steps": 10}, r"warmup_steps=11 must be in \[0, steps\], steps=10"),
        ({"clip_norm": 0.0}, "clip_norm=0.0 must be positive, or null"),
    ],
)
def test_impossible_specs_say_so(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OptimSpec(**fields)
