"""Signs of own logits and sides of neurons of foreign models, judged on planted records."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.records.record import Record
from experiments.real_models.foreign_models import measures, nulls
from experiments.real_models.foreign_models.measures import measure
from experiments.real_models.foreign_models.sources import INTO, LETTERS_OF

ACCEPTED = Path(__file__).parents[3] / "results" / "foreign_models" / "accepted"


def _signs_and_sides(own: np.ndarray, fired: list[list[float]]) -> xr.Dataset:
    names = ("sign-fit-centred", "sign-silenced")
    zeros = {name: (f"{name}:0", np.zeros(4)) for name in names}
    return xr.Dataset(
        {
            "unique-copies": (("head", "token"), np.zeros((3, 10))),
            "unique-adversarial-shares": ("share", np.ones(2)),
            "unique-miss-of-each": ("text", np.ones(2)),
            "unique-own-logits": (("step", "layer_1", "letter"), own),
            "sign-fired": (("neuron", "side"), np.array(fired)),
            **zeros,
        }
    )


def _as_the_page_says() -> np.ndarray:
    """Own logits of -1 and 1: 0.0 and 0.2 boost but for a, b and g of 0.2, the others suppress."""
    own = np.ones((4, 3, 10))
    own[[INTO.index("direct"), INTO.index("0.1")]] = -1
    own[INTO.index("0.2"), 0, 0] = -1
    own[INTO.index("0.2"), 2, [1, 6]] = -1
    return own


def test_signs_are_judged_of_each_first_step_by_itself() -> None:
    own = _as_the_page_says()
    of = measures.DERIVED["unique"]
    found = of(_signs_and_sides(own, [[0, 1]] * 6))
    assert found["unique-signs"] == found["unique-signs-0.0"] == 1
    # Head 0.1 into 1.0 says nothing of a, and letters of other heads do not count.
    own[INTO.index("0.1"), 0, 0] = 1
    own[:, 0, 3] *= -1
    assert of(_signs_and_sides(own, [[0, 1]] * 6))["unique-signs"] == 1
    # Each of the three exceptions counts.
    boosted = own.copy()
    boosted[INTO.index("0.2"), 2, 6] = 1
    found = of(_signs_and_sides(boosted, [[0, 1]] * 6))
    assert found["unique-signs"] == pytest.approx(2 / 3)
    own[INTO.index("direct"), 1, ["abcdefghij".index(c) for c in LETTERS_OF[1]]] = 1
    found = of(_signs_and_sides(own, [[0, 1]] * 6))
    assert found["unique-signs"] == 0.6 and found["unique-signs-0.0"] == 1
    own[INTO.index("0.0")] *= -1
    found = of(_signs_and_sides(own, [[0, 1]] * 6))
    assert found["unique-signs"] == 0.6 and found["unique-signs-0.0"] == 0


def test_a_neuron_fires_on_one_side_by_its_share_there() -> None:
    of, own = measures.DERIVED["sign"], _as_the_page_says()
    said = [[0.0, 2.0]] * 4 + [[2.0, 0.0]] * 2
    found = of(_signs_and_sides(own, said))
    assert found["sign-fires"] == 6 and found["sign-fires-sides"] == 0
    turned = [[2.0, 0.04], *(side[::-1] for side in said[1:])]
    found = of(_signs_and_sides(own, turned))
    assert found["sign-fires"] == 0
    assert found["sign-fires-sides"] == pytest.approx(2 / 2.04)
    silent = [*turned[:5], [0.0, 0.0]]
    found = of(_signs_and_sides(own, silent))
    assert found["sign-fires"] == 0 and found["sign-fires-sides"] == 0


def test_coins_turn_neurons_and_one_first_step_besides_0_0() -> None:
    data = _signs_and_sides(_as_the_page_says(), [[2.0, 0.0]] * 4 + [[0.0, 2.0]] * 2)
    drawn = list(nulls.coins(data))
    own = data["unique-own-logits"].values
    for i, one in enumerate(drawn[:6]):
        moved = (one["unique-own-logits"].values != own).any(axis=(1, 2))
        assert list(moved) == [i % 3 == 0, True, i % 3 == 1, i % 3 == 2]
    sides = [measures.DERIVED["sign"](one) for one in drawn]
    all_six = np.mean([found["sign-fires-sides"] == 1 for found in sides])
    assert 0.002 < all_six < 0.04, "one pattern of 64"
    # The page's six are one pattern too; three are expected.
    assert np.mean([found["sign-fires"] for found in sides]) == pytest.approx(3, abs=0.2)
    signs = [measures.DERIVED["unique"](one) for one in drawn]
    # Six or more of ten coins: 0.377.
    share = np.mean([found["unique-signs-0.0"] >= 0.6 for found in signs])
    assert share == pytest.approx(0.377, abs=0.07)
    assert np.mean([found["unique-signs"] >= 0.8 for found in signs]) < 0.06


def test_E45_neurons_fire_on_the_other_side_than_the_text_says() -> None:
    measured = measure(Record.load(ACCEPTED)).estimates
    assert measured["sign-fires"].value == 0
    assert measured["sign-fires-sides"].value > 0.95
