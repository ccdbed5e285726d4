"""Values that follow the scale."""

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import InterpolationResolutionError

from circuitax.config.scale import RunSettings, Scale, register_resolvers


@pytest.mark.parametrize(
    ("scale", "steps"), [("tiny", 20), ("quick", 2000), ("evening", 2000), ("paper", 10000)]
)
def test_by_scale_reads_the_root(scale: str, steps: int) -> None:
    register_resolvers()
    steps_of, rates_of = "${by_scale:20,2000,10000}", "${by_scale:[1],[1,2],[]}"
    config = OmegaConf.create({"scale": "???", "train": {"steps": steps_of, "rates": rates_of}})
    config.scale = scale
    assert config.train.steps == steps
    config.scale = Scale[scale]
    assert config.train.steps == steps
    assert len(config.train.rates) == {"tiny": 1, "quick": 2, "evening": 2, "paper": 0}[scale]


@pytest.mark.parametrize(
    ("scale", "steps"), [("tiny", 1), ("quick", 2), ("evening", 3), ("paper", 4)]
)
def test_four_values_name_the_evening_too(scale: str, steps: int) -> None:
    register_resolvers()
    config = OmegaConf.create({"scale": scale, "steps": "${by_scale:1,2,3,4}"})
    assert config.steps == steps


@pytest.mark.parametrize("values", ["1,2", "1,2,3,4,5"])
def test_other_numbers_of_values_are_refused(values: str) -> None:
    register_resolvers()
    config = OmegaConf.create({"scale": "quick", "steps": f"${{by_scale:{values}}}"})
    with pytest.raises(InterpolationResolutionError, match="must have three"):
        _ = config.steps


def test_seed_is_checked() -> None:
    with pytest.raises(ValueError, match="seed=-1 must be between 0 and 2147483647"):
        RunSettings("toy", seed=-1)
    with pytest.raises(ValueError, match="seed=2147483648 must be"):
        RunSettings("toy", seed=2**31)
