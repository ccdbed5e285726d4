"""A price on composition: its value in NumPy, and delays by hand."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.stats import ortho_group

from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init
from circuitax.records.sample import NotRun
from experiments.induction.composition_dose.prices import KINDS, excess
from experiments.induction.composition_dose.readings import (
    carried,
    delay,
    score_lost,
    share_formed,
)
from experiments.induction.shared.carried import LOOK


def test_excess_of_every_kind_in_numpy() -> None:
    with jax.enable_x64(True):
        spec = TransformerSpec(d_vocab=5, n_ctx=6, n_layers=2, n_heads=2, d_model=6, d_head=3)
        model = init(jax.random.key(0), spec)
        found = excess(model)
        heads = {
            name: np.asarray(getattr(model.blocks.attention, name))
            for name in ("W_Q", "W_K", "W_V", "W_O")
        }
    turn = ortho_group.rvs(6, random_state=0)
    expected = np.zeros(4)
    for h in range(2):
        writes = heads["W_V"][0, h] @ heads["W_O"][0, h]
        for i in range(2):
            qk = heads["W_Q"][1, i] @ heads["W_K"][1, i].T
            ov = heads["W_V"][1, i] @ heads["W_O"][1, i]
            pairs = [(writes, qk), (writes, qk.T), (writes, ov), (writes @ turn, qk.T)]
            for kind, (a, b) in enumerate(pairs):
                norms = np.linalg.norm(a) * np.linalg.norm(b)
                expected[kind] += (np.linalg.norm(a @ b) / norms) ** 2 / 4
    np.testing.assert_allclose(found, 6 * expected - 1, rtol=1e-9)


def test_delays_compare_a_seed_with_itself() -> None:
    # Without a price seeds reach half of their score, -2, at steps 1 and 3; with it at 2 and never.
    curves = [[[0, -2, -4, -4], [0, 0, 0, -4]], [[0, 0, -2, -4], [0, 0, 0, 0]]]
    over = ("dose", "member", "step")
    one = xr.Dataset(
        {
            "in_context": (over, np.array(curves, float)),
            "prefix": (over, np.array(curves) / -5),
            "alive": (("dose", "member"), np.ones((2, 2), bool)),
        },
        {"dose": [0.0, 1.0], "step": [0, 10, 20, 30]},
    )
    data = xr.concat([one] * 4, "kind").assign_coords(kind=list(KINDS))
    late = delay(data, "K", 1.0)
    assert late.value == pytest.approx(5)  # 10 and, as it never comes, 0 to the last step
    assert score_lost(data, "K", 1.0).value == pytest.approx(2)
    assert share_formed(data, "K", 1.0).value == pytest.approx(0.5)
    with pytest.raises(NotRun, match="other doses"):
        delay(data, "K", 0.1)


def test_shares_are_those_of_the_sixth_in_which_the_score_falls_most() -> None:
    # The score falls from step 30 to 40 in the first member, from 10 to 20 in the second.
    score = -np.array([[0, 0, 0, 0, 4, 4, 4], [0, 1, 5, 5, 5, 5, 5]], float)
    share = np.zeros((2, 7, len(LOOK)))
    share[0, 4, :2], share[1, 2, :2] = [-3, -1], [-1, -1]
    share[:, 5, 2] = -9  # after the fall
    one = xr.Dataset(
        {
            "in_context": (("member", "step"), score),
            "weight_share": (("member", "step", "weight"), share),
            "alive": ("member", np.ones(2, bool)),
        },
        {"step": 10 * np.arange(7), "weight": list(LOOK)},
    )
    data = one.expand_dims(kind=list(KINDS), dose=[0.0])
    first, second, third = list(LOOK)[:3]
    assert carried(data, first, 0.0).value == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert carried(data, second, 0.0).value == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert carried(data, third, 0.0).value == 0
