"""The spread that `score_scale` reports is that of the model's own scores."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init
from circuitax.records.claims import FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.null_samples import regrouped
from circuitax.records.record import Record
from experiments.paths.score_scale import measures
from experiments.paths.score_scale.claims import CLAIMS
from experiments.paths.score_scale.experiment import measure


@pytest.mark.parametrize("options", [{}, {"norm": Norm.layernorm, "biases": True}])
def test_variance_counts_positions_norms_and_what_the_mask_leaves(options: dict) -> None:
    spec = TransformerSpec(d_vocab=7, n_ctx=6, n_layers=2, n_heads=2, d_model=8, **options)
    model = init(jax.random.key(0), spec)
    texts = np.random.default_rng(0).integers(0, 7, (3, 6))
    found = measure(model, jnp.asarray(texts))["variance"]
    heads = jax.tree.map(lambda leaf: np.asarray(leaf[0], float), model.blocks.attention)
    x = np.asarray(model.W_E, float)[texts]
    if options:  # a layer norm at its start: neither gain nor offset
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + spec.norm_eps)
    x = x + np.asarray(model.W_pos, float)[:6]
    seen = np.tril(np.ones((6, 6), bool))
    spread = []
    for head in range(2):
        scores = (x @ heads.W_Q[head]) @ (x @ heads.W_K[head]).swapaxes(1, 2) / 2
        spread.append(scores[:, seen].var())
    np.testing.assert_allclose(found, np.mean(spread), rtol=1e-5)


def saturates(*without: float) -> str:
    """The verdict on a Jacobian without the scale of these means by width; with it, it is 1."""
    noise = 1 + 0.01 * np.random.default_rng(0).normal(size=(2, 4, 2, 8))
    axes = ("scale", "width", "time", "member")
    means = np.stack([np.ones(4), np.array(without)])[:, :, None, None]
    data = xr.Dataset(
        {
            "jacobian": (axes, means * noise),
            "variance": (axes, noise),
            "loss": (axes, noise),
            "alive": (("scale", "width", "member"), np.ones((2, 4, 8), bool)),
        },
        {"scale": ["1/sqrt(d_k)", "1"], "width": [4, 16, 64, 256], "time": ["initial", "trained"]},
    )
    record = Record(data)
    found = settle(CLAIMS, *measures.measure(record), nulls=measures.nulls(record))
    return next(row.verdict for row in found if row.claim.id == "scale-saturates")


def test_a_softmax_saturates_where_its_gradient_goes_on_falling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "regrouped", partial(regrouped, n_draws=2))
    assert saturates(0.95, 0.6, 0.35, 0.2) == HOLDS
    assert saturates(0.95, 0.6, 0.6, 0.6) == FAILS
    # One step that alone has the whole fall shows nothing of the widths after it.
    assert saturates(0.95, 0.1, 0.09, 0.08) == WOULD_HOLD


def test_worlds_that_near_a_floor_need_a_fall_above_it() -> None:
    sizes = {"width": [4, 16, 64, 256], "time": ["initial", "trained"], "member": range(2)}
    shape = tuple(map(len, sizes.values()))
    scaled = xr.Dataset({"jacobian": (tuple(sizes), np.ones(shape))}, sizes)
    means = xr.DataArray([0.9, 0.55, 0.35, 0.2], dims="width")
    raw = scaled.assign(jacobian=scaled.jacobian * means)
    (world,) = measures._floored(raw, scaled, 0.15)
    # What is above the floor is halved in the step before: 0.4 and 0.2.
    np.testing.assert_allclose(world.jacobian.isel(member=0, time=0), [0.9, 0.55, 0.35, 0.25])
    for few in (raw.isel(width=slice(2)), raw.assign(jacobian=raw.jacobian / 3)):
        assert not measures._floored(few, scaled.isel(width=slice(few.sizes["width"])), 0.15)
