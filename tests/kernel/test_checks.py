"""Range checks: what is refused, what the message says, what passes under a transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.checks import check_range


@pytest.mark.parametrize(
    ("value", "interval", "message"),
    [
        (1.5, "[0, 1]", r"p=1.5 must be in \[0, 1\]$"),
        (1, "[0, 1)", r"p=1 must be in \[0, 1\)$"),
        (0.0, "(0, 1]", r"p=0.0 must be in \(0, 1\]$"),
        (float("nan"), "[0, 1]", r"p=nan must be in \[0, 1\]$"),
        (0, "[1, inf)", r"p=0 must be at least 1$"),
        (np.inf, "[1, inf)", r"p=inf must be finite and at least 1$"),
        (0.0, "(0, inf)", r"p=0.0 must be above 0$"),
        (np.nan, "(0, inf)", r"p=nan must be finite and above 0$"),
        (-np.inf, "(-inf, inf)", r"p=-inf must be finite$"),
        (np.array([0.5, -0.1, 2.0]), "[0, 1]", r"p\[1\]=-0.1 must be in \[0, 1\]$"),
        (np.array([[0.5, 0.1], [2.0, 3.0]]), "[0, 1]", r"p\[1, 0\]=2.0 must be in \[0, 1\]$"),
        (jnp.float32(-0.1), "[0, 1]", r"p=-0.1 must be in \[0, 1\]$"),
        (jnp.array([0.5, 1.25]), "[0, 1]", r"p\[1\]=1.25 must be in \[0, 1\]$"),
    ],
)
def test_refused(value, interval, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check_range("p", value, interval)


@pytest.mark.parametrize(
    ("value", "interval"),
    [
        (0, "[0, 1]"),
        (1.0, "(0, 1]"),
        (np.array([0.1, 0.9]), "(0, 1)"),
        (1e9, "[1, inf)"),
        (np.array([]), "(0, 1)"),
    ],
)
def test_accepted(value, interval):
    check_range("p", value, interval)


def test_traced_values_pass():
    def checked(p):
        check_range("p", p, "[0, 1]")
        return 2 * p

    assert float(jax.jit(checked)(3.0)) == 6
    assert float(jax.grad(checked)(3.0)) == 2
    assert jax.vmap(checked)(jnp.array([3.0, -4.0])).tolist() == [6, -8]
    with pytest.raises(ValueError, match=r"p=3\.0 must be in"):
        checked(3.0)


def test_a_known_array_inside_a_traced_function_is_checked():
    known = jnp.array([0.5, 2.0])

    def checked(x, interval):
        check_range("p", known, interval)
        return x * known

    assert jax.jit(lambda x: checked(x, "[0, 2]"))(3.0).tolist() == [1.5, 6]
    with pytest.raises(ValueError, match=r"p\[1\]=2.0 must be in \[0, 1\]"):
        jax.jit(lambda x: checked(x, "[0, 1]"))(3.0)
