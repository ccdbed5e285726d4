"""Specs of the Johnson–Lindenstrauss experiments refuse what cannot be run, by name."""

from typing import Any

import pytest

from experiments.directions.jl_capacity import experiment as jl_capacity
from experiments.directions.jl_distortion import experiment as jl_distortion
from experiments.directions.jl_theorem import experiment as jl_theorem
from experiments.directions.jl_threshold import experiment as jl_threshold


@pytest.mark.parametrize(
    ("module", "fields", "message"),
    [
        (jl_theorem, {"dim_in": 1}, "dim_in=1"),
        (jl_theorem, {"n_points": 2}, "n_points=2"),
        (jl_theorem, {"n_maps": 0}, "n_maps=0"),
        (jl_theorem, {"epsilon": 1.0}, "epsilon=1.0"),
        (jl_distortion, {"n_points": 8}, "n_points=8"),
        (jl_distortion, {"n_points": 600}, "n_points=600"),
        (jl_distortion, {"more_points": (1, 5)}, r"more_points=\(1, 5\)"),
        (jl_distortion, {"max_dim": 12}, "max_dim=12"),
        (jl_distortion, {"max_dim": 1024}, "max_dim=1024"),
        (jl_distortion, {"n_maps": 1}, "n_maps=1"),
        (jl_threshold, {"n_points": (100, 32)}, r"n_points=\(100, 32\)"),
        (jl_threshold, {"n_points": (4, 32)}, r"n_points=\(4, 32\)"),
        (jl_threshold, {"epsilon": (0.5,)}, r"epsilon=\(0\.5,\)"),
        (jl_threshold, {"epsilon": (0.5, 1.0)}, r"epsilon=\(0\.5, 1\.0\)"),
        (jl_threshold, {"max_dim": 10}, "max_dim=10"),
        (jl_threshold, {"n_maps": 5}, "n_maps=5"),
        (jl_threshold, {"n_resamples": 5}, "n_resamples=5"),
        (jl_capacity, {"epsilon": 0.0}, "epsilon=0.0"),
        (jl_capacity, {"random_dims": (5, 6)}, r"random_dims=\(5, 6\)"),
        (jl_capacity, {"optimised_dims": (6, 7, 8, 10, 60)}, "finite bound"),
        (jl_capacity, {"widths": (4, 99)}, r"widths=\(4, 99\)"),
        (jl_capacity, {"density": 0.0}, "density=0.0"),
        (jl_capacity, {"max_active": 0}, "max_active=0"),
        (jl_capacity, {"n_seeds": 1}, "n_seeds=1"),
    ],
)
def test_impossible_values_are_named(module: Any, fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.Spec(**fields)


@pytest.mark.parametrize("module", [jl_theorem, jl_distortion, jl_threshold, jl_capacity])
def test_the_defaults_are_valid(module: Any) -> None:
    module.Spec()
