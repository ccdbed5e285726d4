"""Test session: eight simulated CPU devices, no rank promotion, derandomised properties."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# The suite compiles much and computes little: eight devices, and no time spent on optimisation.
_FLAGS = {
    "xla_force_host_platform_device_count": "8",
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": "true",
}
_given = os.environ.get("XLA_FLAGS", "")
_added = [f"--{name}={value}" for name, value in _FLAGS.items() if name not in _given]
os.environ["XLA_FLAGS"] = " ".join([_given, *_added]).strip()

from collections.abc import Iterator

import hypothesis
import jax
import numpy as np
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile(
    "circuitax",
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.load_profile("circuitax")


@pytest.fixture(autouse=True, scope="module")
def compiled_code() -> Iterator[None]:
    """Let go of what a module compiled: a process dies beyond 65,530 pieces of mapped memory."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision for the length of one test; identities are checked at 1e-12 in it."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A NumPy generator seeded by the test's own name."""
    return np.random.default_rng(list(request.node.name.encode()))
