"""What is measured of the head on real text, on made-up heads."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.claims import FAILS, HOLDS
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from experiments.induction.text_induction.claims import CLAIMS
from experiments.induction.text_induction.experiment import ARMS
from experiments.induction.text_induction.measures import measure, nulls


@pytest.fixture
def data() -> xr.Dataset:
    """Two members a model, two heads; in primed models head (1, 1) matches prefixes."""
    rng = np.random.default_rng(0)
    over, heads = ("arm", "step", "member"), ("layer", "head")
    loss = rng.uniform(3, 3.1, (3, 3, 2))
    loss[1, -1] = 2.0, 2.4  # primed, at the end
    prefix = np.full((3, 3, 2, 2, 2), 0.01)
    prefix[1, 1, :, 1, 1], prefix[1, 2, :, 1, 1] = 0.8, (0.4, 0.6)
    ablated = np.full((3, 2, 2, 2), 2.5)
    ablated[1, :, 1, 1] = 3.0, 3.4
    gap = np.zeros((3, 2, 2, 2))
    gap[1, :, 1, 1] = 0.3, 0.5
    gap[1, :, 0, 0] = 2.0
    names = dict.fromkeys(("loss", "loss_repeated"), (over, loss)) | {"loss_new": (over, loss + 1)}
    return xr.Dataset(
        names
        | {
            "prefix": ((*over, *heads), prefix),
            "ablated_loss_repeated": (("arm", "member", *heads), ablated),
            "ablated_loss_new": (("arm", "member", *heads), ablated - gap),
            "alive": (("arm", "member"), np.ones((3, 2), bool)),
            "primer": 10,
        },
        coords={"arm": list(ARMS), "step": [0, 10, 20]},
    )


def found(data: xr.Dataset) -> dict[str, Estimate]:
    return measure(Record(data)).estimates


def test_arms_that_end_on_mixed_windows_settle_nothing(data: xr.Dataset) -> None:
    mixed = measure(Record(data, notes={"repeated_share": 0.5})).not_run
    assert set(mixed) == {claim.id for claim in CLAIMS}
    assert "repeated_share=0.5" in mixed["text-induction-plain"]
    assert not measure(Record(data, notes={"repeated_share": 0.0})).not_run


def test_values_of_each_claim(data: xr.Dataset) -> None:
    measured = found(data)
    assert measured["text-induction-primed"].value == pytest.approx(0.5)
    assert measured["text-induction-plain"].value == pytest.approx(0.01)
    assert measured["text-induction-one-layer"].value == pytest.approx(0.01)
    assert measured["text-induction-stays"].value == pytest.approx((0.5 + 0.75) / 2)
    assert measured["text-induction-ablation"].value == pytest.approx((1.3 + 1.5) / 2)
    assert {claim.quantity for claim in CLAIMS} <= set(measured)


def test_what_a_primer_saves_on_all_tokens_alike_is_not_of_repeats(data: xr.Dataset) -> None:
    assert found(data)["text-induction-repeats"].value == pytest.approx(0)
    data.loss_new[1, -1] += 0.7
    assert found(data)["text-induction-repeats"].value == pytest.approx(0.7)


def test_harm_to_other_tokens_is_no_gain_on_repeats(data: xr.Dataset) -> None:
    (claim,) = (one for one in CLAIMS if one.id == "text-induction-repeats")
    data.loss_repeated[:] = data.loss_new[:] = 3.0
    data.loss_repeated[:, -1] += np.array([-0.01, 0.01])
    data.loss_repeated[1, -1] -= 0.8
    data.loss_new[1, -1] += 0.9  # the difference of both differences is 1.7
    assert found(data)[claim.id].value == pytest.approx(0.8)
    assert claim.expected.verdict(found(data)[claim.id]) == HOLDS
    data.loss_repeated[1, -1] += 1.0  # it is 0.7 still, and pairs are dearer
    assert found(data)[claim.id].value == pytest.approx(-0.2)
    assert claim.expected.verdict(found(data)[claim.id]) == FAILS


def test_one_layer_is_the_null_of_repeats_at_the_end_and_at_the_end_of_the_primer(
    data: xr.Dataset,
) -> None:
    data.loss_repeated[:] = data.loss_new[:] = 3.0
    data.loss_repeated[2, 2] = 2.9
    data.loss_repeated[:, 1] = np.array([3.6, 3.0, 3.4])[:, None]
    drawn = nulls(Record(data))["mismatched"]["text-induction-repeats"]
    assert [draw.value for draw in drawn] == pytest.approx([0.1, 0.2, -0.4])


def test_no_interval_of_a_score_goes_below_zero(data: xr.Dataset) -> None:
    data.prefix[2, -1, 0] = 0
    score = found(data)["text-induction-one-layer"]
    assert score.value == pytest.approx(0.005) and score.low == 0 and score.high > 0.05


def test_a_head_that_other_tokens_need_more_makes_the_margin_negative(data: xr.Dataset) -> None:
    data.ablated_loss_new[1, :, 1, 1] += 2.0
    assert found(data)["text-induction-ablation"].value == pytest.approx(-0.6)


def test_members_that_diverged_do_not_count(data: xr.Dataset) -> None:
    data.alive[1, 1] = False
    assert found(data)["text-induction-primed"].n == 1
    assert found(data)["text-induction-primed"].value == pytest.approx(0.4)
