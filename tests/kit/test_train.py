"""Training of a problem of one's own, against steps of gradient descent written out in NumPy."""

import os
import re
import signal
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import circuitax as cx
from circuitax.training.ensemble import new_members
from circuitax.training.optim import Optimizer, OptimSpec

SGD = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0)


@dataclass(frozen=True)
class Line:
    """A slope that follows a target, ``(w - target - hyper)^2 / 2``, and a ramp of a penalty."""

    target: float = 2.0
    ramp: int = 1_000

    def init(self, key: jax.Array, hyper: Any) -> dict[str, jax.Array]:
        return {"w": jnp.array([1.0, -3.0])}

    def batch(self, key: jax.Array, step: jax.Array) -> jax.Array:
        return step

    def loss(self, params: Any, batch: jax.Array, hyper: Any) -> Any:
        strength = batch.astype(float) / self.ramp
        penalty = strength * jnp.sum(params["w"] ** 2) / 2
        error = params["w"] - self.target - hyper
        metrics = {"penalty": penalty, "strength": strength, "error": error}
        return jnp.sum(error**2) / 2 + penalty, metrics


def expected(n_members: int, steps: int) -> dict[str, np.ndarray]:
    w = np.tile([1.0, -3.0], (n_members, 1))
    goal = 2.0 + np.arange(n_members)[:, None]
    rows: dict[str, list[np.ndarray]] = {"w": [], "penalty": [], "error": [], "loss": []}
    for step in range(steps):
        penalty = step / 1000 * (w**2).sum(axis=1) / 2
        rows["penalty"].append(penalty)
        rows["error"].append(w - goal)
        rows["loss"].append(((w - goal) ** 2).sum(axis=1) / 2 + penalty)
        w = w - 0.1 * (w - goal + step / 1000 * w)
        rows["w"].append(w)
    return {name: np.array(values) for name, values in rows.items()}


def means(rows: np.ndarray, every: int) -> np.ndarray:
    return rows.reshape(-1, every, *rows.shape[1:]).mean(axis=1)


def sizes(params: Any) -> dict[str, jax.Array]:
    return {"largest": jnp.max(params["w"]), "weights": params["w"]}


def test_members_metrics_and_probe_are_those_of_gradient_descent(x64: None) -> None:
    log = cx.train(Line(), 3, 12, key=jax.random.key(0), optim=SGD, every=4, probe=sizes)
    want = expected(3, 12)
    assert log.finished
    np.testing.assert_allclose(log.models["w"], want["w"][-1], rtol=1e-12)
    assert log.metrics.step.values.tolist() == [4, 8, 12]
    for name in ("loss", "penalty", "error"):
        np.testing.assert_allclose(log.metrics[name], means(want[name], 4), rtol=1e-12)
    assert log.metrics.error.dims == ("step", "member", "error_0")
    np.testing.assert_allclose(log.metrics.weights, want["w"][3::4], rtol=1e-12)
    np.testing.assert_allclose(log.metrics.largest, want["w"][3::4].max(axis=-1), rtol=1e-12)
    text = repr(log)
    assert "3 members, 12 steps" in text and len(text.splitlines()) <= 20
    assert "optimizer sgd, weight_decay 0.0" in text
    last = np.median(means(want["loss"], 4)[-1])
    assert f"<td>loss</td><td>{last:+.4g}</td>" in re.sub(" style=[^>]*", "", log._repr_html_())


def test_rates_and_numbers_of_members_are_their_own(x64: None) -> None:
    rates, shifts = jnp.array([0.05, 0.2]), jnp.array([1.0, -1.0])
    members = new_members(jax.random.key(0), rates, shifts)
    log = cx.train(Line(ramp=10**12), members, 5, optim=SGD, probe=lambda params: params["w"][0])
    for i, (rate, shift) in enumerate(zip(rates, shifts, strict=True)):
        goal = 2.0 + shift
        want = goal + (1.0 - goal) * (1 - rate) ** 5
        np.testing.assert_allclose(log.models["w"][i, 0], want, rtol=1e-9)
        np.testing.assert_allclose(log.metrics.probe[-1, i], want, rtol=1e-9)


def test_a_model_trains_as_it_is() -> None:
    @dataclass(frozen=True)
    class Copy:
        spec: cx.TransformerSpec

        def init(self, key: jax.Array, hyper: Any) -> cx.Model:
            return cx.init(key, self.spec)

        def batch(self, key: jax.Array, step: jax.Array) -> jax.Array:
            half = jax.random.randint(jax.random.fold_in(key, step), (8, 4), 0, 6)
            return jnp.tile(half, (1, 2))

        def loss(self, params: cx.Model, batch: jax.Array, hyper: Any) -> jax.Array:
            return cx.run(params, batch).loss

    spec = cx.TransformerSpec(d_vocab=6, n_ctx=8, n_layers=1, n_heads=2, d_model=8)
    optim = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0)
    log = cx.train(Copy(spec), 2, 60, key=jax.random.key(1), optim=optim, every=20)
    assert log.models.W_E.shape == (2, 6, 8)
    assert (log.metrics.loss[-1] < log.metrics.loss[0] - 0.05).all()


def test_ctrl_c_returns_what_there_is_and_the_same_call_goes_on(tmp_path: Any, x64: None) -> None:
    seen = []

    def stopping(params: Any) -> jax.Array:
        def look(value: np.ndarray) -> None:
            seen.append(float(value))
            if len(seen) == 2:
                os.kill(os.getpid(), signal.SIGINT)

        jax.debug.callback(look, params["w"][0], ordered=True)
        return params["w"][0]

    options = {"key": jax.random.key(0), "optim": SGD, "every": 3, "folder": tmp_path}
    first = cx.train(Line(), 1, 12, probe=stopping, **options)
    done = first.metrics.sizes["step"]
    assert not first.finished and "stopped early" in repr(first) and 1 <= done < 4
    want = expected(1, 12)
    np.testing.assert_allclose(first.models["w"], want["w"][3 * done - 1], rtol=1e-12)
    second = cx.train(Line(), 1, 12, probe=stopping, **options)
    assert second.finished and len(seen) == 4
    np.testing.assert_allclose(second.models["w"], want["w"][-1], rtol=1e-12)
    np.testing.assert_allclose(second.metrics.loss, means(want["loss"], 3), rtol=1e-12)
    with pytest.raises(ValueError, match="holds another training"):
        cx.train(Line(target=3.0), 1, 12, probe=stopping, **options)


SOURCE = """
import dataclasses
import jax.numpy as jnp
RATE = 0.5
def penalty(w):
    return RATE * jnp.sum(w**2)
@dataclasses.dataclass(frozen=True)
class Own:
    def init(self, key, hyper):
        return jnp.ones(2)
    def batch(self, key, step):
        return step
    def loss(self, params, batch, hyper):
        return penalty(params - 3.0), {}
"""


def written(source: str) -> Any:
    """The problem that a file with this text has."""
    names: dict[str, Any] = {"__name__": "own"}
    exec(source, names)
    return names["Own"]()


def test_a_folder_is_of_one_code(tmp_path: Any) -> None:
    """The old training came back after the body of a loss of the same name was edited."""
    options: dict[str, Any] = {"key": jax.random.key(0), "every": 3, "folder": tmp_path}
    first = cx.train(written(SOURCE), 1, 3, **options)
    commented = SOURCE.replace("return step", "return step  # a number")
    np.testing.assert_array_equal(
        cx.train(written(commented), 1, 3, **options).models, first.models
    )
    for before, after in (
        ("jnp.ones(2)", "jnp.zeros(2)"),
        ("return step", "return -step"),
        ("params - 3.0", "params - 4.0"),
        ("w**2", "w**4"),
        ("RATE = 0.5", "RATE = 0.25"),
    ):
        assert before in SOURCE
        with pytest.raises(ValueError, match="other code, fields, members"):
            cx.train(written(SOURCE.replace(before, after)), 1, 3, **options)


def test_what_cannot_be_trained_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in a user's session
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="every=5 must be at least 1 and divide steps=12"):
        cx.train(Line(), 1, 12, key=key, every=5)
    with pytest.raises(ValueError, match="key=None must be a key"):
        cx.train(Line(), 1, 12)
    with pytest.raises(ValueError, match="str without a method init"):
        cx.train("line", 1, 12, key=key)  # type: ignore[arg-type]

    class Loose(Line):
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ValueError, match="Loose that cannot be hashed"):
        cx.train(Loose(), 1, 12, key=key)

    class Taken(Line):
        def loss(self, params: Any, batch: Any, hyper: Any) -> Any:
            return jnp.sum(params["w"]), {"grad_norm": 1.0}

    with pytest.raises(ValueError, match="a metric 'grad_norm', a name that every training"):
        cx.train(Taken(), 1, 12, key=key)
    with pytest.raises(ValueError, match="probe returns 'loss', which is the name of a metric"):
        cx.train(Line(), 1, 12, key=key, probe=lambda params: {"loss": params["w"][0]})
