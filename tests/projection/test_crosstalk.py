"""The law of threshold decoding against read-outs of many random dictionaries, in NumPy."""

import numpy as np
import pytest

from circuitax.projection.coherence import crosstalk_failure
from circuitax.projection.crosstalk import sphere_success


def drawn_success(n_features: int, dim: int, n_active: int, trials: int) -> float:
    """Share of fresh dictionaries whose first ``n_active`` rows are read out without an error."""
    rng = np.random.default_rng(n_active)
    right = 0
    for _ in range(trials):
        v = rng.normal(size=(n_features, dim))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        found = v @ v[:n_active].sum(axis=0) > 0.5
        right += bool(found[:n_active].all() and not found[n_active:].any())
    return right / trials


@pytest.mark.parametrize("n_active", [2, 3, 4])
def test_the_law_is_that_of_random_dictionaries(n_active: int) -> None:
    trials = 1500
    drawn, law = drawn_success(160, 64, n_active, trials), sphere_success(160, 64, n_active)
    assert abs(drawn - law) < 4 * np.sqrt(law * (1 - law) / trials)
    assert 0.02 < law < 0.98, "a case that says something"


def test_a_shared_length_makes_errors_come_together() -> None:
    """Twelve dictionaries of 512 in 128 dimensions, 500 trials each, drawn once: see the name."""
    simulated = {2: 0.9875, 3: 0.7777, 4: 0.3365, 5: 0.0985, 6: 0.0160}
    for k, share in simulated.items():
        assert sphere_success(512, 128, k) == pytest.approx(share, abs=0.025)
    assert 1 - crosstalk_failure(512, 128, 6) < 0.3 * simulated[6]
    assert sphere_success(512, 128, 1) == pytest.approx(1, abs=1e-6)


def test_mistakes() -> None:
    for arguments in ((512, 1, 2), (4, 8, 5), (4, 8, 0)):
        with pytest.raises(ValueError, match="must be at least 2"):
            sphere_success(*arguments)
