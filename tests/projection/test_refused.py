"""Arguments outside their range are refused by name instead of answered with NaN or nonsense."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection import capacity, decoding, distortion, entries, laws, packings, tails
from circuitax.projection.hadamard import padded_dim
from circuitax.projection.maps import MapFamily, MapSpec, row_features
from circuitax.projection.packing_bounds import capacity_bound, welch_bound
from circuitax.projection.pair_law import pair_ratios
from circuitax.projection.stream import empty_stream
from circuitax.projection.tails import Tail
from circuitax.projection.threshold import first_dim

KEY = jax.random.key(0)
POINTS = jnp.eye(4)
SPEC = MapSpec(MapFamily.gaussian, 4, 2)
RATE = np.array([0.0, 0.5, 1.0])
PACKING = packings.Packing(POINTS, jnp.ones(4, bool))


def pairs(**options):
    return distortion.distortion(POINTS, POINTS, jnp.zeros((0, 2)), **options)


def greedy(epsilon=0.5, **options):
    options = {"dim": 3, "capacity": 4, "n_candidates": 8} | options
    return packings.greedy_packing(KEY, epsilon, **options)


def optimised(n_vectors=3, **options):
    return packings.optimised_packing(
        KEY, n_vectors, **({"dim": 3, "capacity": 4, "n_steps": 2} | options)
    )


REFUSED = {
    "ratio": (lambda: laws.ratio_cdf(-0.5, 3), "ratio=-0.5 must be at least 0"),
    "second ratio": (
        lambda: laws.ratio_cdf(np.array([1.0, np.nan]), 3),
        r"ratio\[1\]=nan must be finite and at least 0",
    ),
    "level": (lambda: laws.ratio_quantile(1.5, 3), r"level=1.5 must be in \(0, 1\)"),
    "edges": (lambda: laws.failure_probability(3, -0.1, 1.1), "low=-0.1 must be at least 0"),
    "upper edge": (lambda: laws.failure_probability(3, 0.1, np.nan), "high=nan must be finite"),
    "kurtosis": (lambda: laws.ratio_variance(0.5, 0.5, 3), "kurtosis=0.5 must be at least 1"),
    "overlap": (lambda: laws.overlap_tail(10, 1.5), r"epsilon=1.5 must be in \[0, 1\]"),
    "overlap in one dimension": (lambda: laws.overlap_tail(1, 0.5), "dim=1 must be at least 2"),
    "capacity law": (lambda: laws.random_capacity(10, np.nan), r"epsilon=nan must be in \(0, 1\)"),
    "NaN pairs": (lambda: laws.extreme_ratios(3, np.nan), "dim_out=nan must be finite"),
    "tail": (
        lambda: tails.tail_bound(Tail.subgaussian, -3, 0.5),
        "dim_out=-3 must be at least 1",
    ),
    "union": (
        lambda: tails.jl_dimension(5, 0.5, 1.5, tail=Tail.cubic),
        r"delta=1.5 must be in \(0, 1\)",
    ),
    "union epsilon": (
        lambda: tails.jl_epsilon(5, 0, tail=Tail.cubic),
        "dim_out=0 must be at least 1",
    ),
    "first dim": (lambda: first_dim(RATE, np.arange(3), 1.5), "delta=1.5 must be in"),
    "first of falling dims": (
        lambda: first_dim(RATE, np.array([3, 2, 1]), 0.5),
        r"dims=\[3 2 1\] must increase",
    ),
    "welch": (
        lambda: welch_bound(np.array([3, 0]), 2),
        r"n_vectors\[1\]=0 must be at least 1",
    ),
    "bound": (lambda: capacity_bound(0, 0.5), "dim=0 must be at least 1"),
    "column": (
        lambda: entries.draw_column(KEY, entries.EntryLaw.li, 0),
        "dim_in=0 must be at least 1",
    ),
    "kurtosis of a column": (
        lambda: entries.kurtosis(entries.EntryLaw.li, -4),
        "dim_in=-4 must be at least 1",
    ),
    "padding": (lambda: padded_dim(0), "dim_in=0 must be at least 1"),
    "block": (lambda: row_features(KEY, POINTS, SPEC, block=0), "block=0 must be at least 1"),
    "equal points": (
        lambda: pair_ratios(KEY[None], jnp.zeros(4), SPEC),
        "difference must not be zero",
    ),
    "batch of maps": (
        lambda: pair_ratios(KEY[None], POINTS[0], SPEC, batch=0),
        "batch=0 must be at least 1",
    ),
    "bins": (lambda: empty_stream(1, -1), "n_bins=-1 must be at least 0"),
    "bins of a pass": (lambda: pairs(n_bins=-1), "n_bins=-1 must be at least 0"),
    "limits": (
        lambda: pairs(limits=(1.0, -1.0)),
        r"limits=\(1.0, -1.0\) must be two numbers that increase",
    ),
    "near pairs": (lambda: pairs(near_capacity=-1), "near_capacity=-1 must be at least 0"),
    "sampled block": (
        lambda: distortion.sampled_distortion(
            KEY, POINTS, POINTS, jnp.zeros((0, 2)), n_pairs=3, block=0
        ),
        "block=0 must be at least 1",
    ),
    "active": (
        lambda: decoding.recovery(KEY, POINTS, n_active=5, n_trials=2),
        r"n_active=5 must be in \[1, 4\]",
    ),
    "crosstalk of none": (
        lambda: decoding.crosstalk_failure(10, 5, 0),
        r"n_active=0 must be in \[1, 10\]",
    ),
    "crosstalk of too many": (
        lambda: decoding.crosstalk_failure(10, 5, 11),
        r"n_active=11 must be in \[1, 10\]",
    ),
    "crosstalk threshold": (
        lambda: decoding.crosstalk_failure(10, 5, 2, 1.5),
        r"threshold=1.5 must be in \(0, 1\)",
    ),
    "greedy": (lambda: greedy(1.5), r"epsilon=1.5 must be in \(0, 1\)"),
    "greedy dimensions": (lambda: greedy(n_dims=4), r"n_dims=4 must be in \[2, 3\]"),
    "greedy batch": (lambda: greedy(batch=0), "batch=0 must be at least 1"),
    "one vector": (lambda: optimised(1), r"n_vectors=1 must be in \[2, 4\]"),
    "too many vectors": (lambda: optimised(5), r"n_vectors=5 must be in \[2, 4\]"),
    "no step": (lambda: optimised(n_steps=0), "n_steps=0 must be at least 1"),
    "no rate": (lambda: optimised(learning_rate=-0.1), "learning_rate=-0.1 must be above 0"),
    "prune": (lambda: packings.prune(PACKING, -0.1), r"epsilon=-0.1 must be in \(0, 1\)"),
    "counts of falling dims": (
        lambda: capacity.random_counts(KEY, (4, 3), 0.5, 2),
        r"dims=\(4, 3\) must increase, from at least 2",
    ),
    "counts of trials": (
        lambda: capacity.random_counts(KEY, (3, 4), 0.5, 0),
        "n_trials=0 must be at least 1",
    ),
    "greedy counts": (
        lambda: capacity.greedy_counts(KEY, (3, 4), 1.0, 1, 4),
        r"epsilon=1.0 must be in \(0, 1\)",
    ),
    "optimised counts": (
        lambda: capacity.optimised_counts(KEY, (3, 4), 0.5, 1, 0),
        "n_steps=0 must be at least 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_difference_is_known_inside_a_traced_function():
    z = jnp.array([3.0, 0.0, 0.0, 4.0])
    keys = jax.random.split(KEY, 2)
    traced = jax.jit(lambda keys: pair_ratios(keys, z, SPEC))(keys)
    np.testing.assert_allclose(traced, pair_ratios(keys, 2 * z, SPEC), rtol=1e-5)
