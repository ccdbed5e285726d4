"""Names of heads from weights: kernels, areas, claims with planted numbers, and no weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.kernel.forward import forward
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, settle
from circuitax.records.record import Record
from experiments.real_models.rotary_atlas import experiment, figure
from experiments.real_models.rotary_atlas.claims import CLAIMS
from experiments.real_models.rotary_atlas.experiment import (
    CONTENTS,
    Spec,
    look,
    untouched_kernel,
    weight_contents,
)
from experiments.real_models.rotary_atlas.measures import by_name, estimates, measure, nulls

TINY = Spec(weights="random", texts=2, length=12, offsets=6, tokens=8)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Record:
    place = tmp_path_factory.mktemp("atlas")
    return experiment.run(TINY, jax.random.key(0), Lab(place / "work"))


def test_contents_from_weights_know_nothing_of_heads() -> None:
    model = open_weights("random", jax.random.key(3))
    ids = np.array([3, 17, 17, 30])
    embedded, untouched = weight_contents(model, jnp.asarray(ids))
    rows = np.asarray(model.W_E)[ids]
    read = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + model.spec.norm_eps)
    np.testing.assert_allclose(embedded[1, 0], read.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(untouched[0], embedded[0], rtol=1e-6)
    assert abs(untouched[1] - untouched[0]).max() > 1e-2  # an MLP has written
    heads = model.blocks.attention._replace(W_V=5 * model.blocks.attention.W_V)
    other = model.replace(blocks=model.blocks._replace(attention=heads))
    np.testing.assert_allclose(weight_contents(other, jnp.asarray(ids))[1], untouched, atol=1e-6)


def test_kernels_are_attention_and_are_drawn(tiny: Record) -> None:
    data = tiny.data
    scores = data.predicted.sel(content=["embedding", "untouched", "stream", "random"])
    np.testing.assert_allclose(scores.sum("offset"), 1, rtol=1e-5)
    spread = data.predicted.sel(content="spread").sum("offset")  # tokens farther back have the rest
    assert (spread > 0).all() and (spread <= 1 + 1e-5).all()
    assert (data.measured.sum("offset") <= 1 + 1e-5).all() and (data.measured >= 0).all()
    np.testing.assert_allclose(data.previous.mean("text"), data.measured.isel(offset=1), rtol=1e-5)
    assert (data.previous_raw <= data.previous + 1e-6).all()
    chosen = data.predicted.argmax("offset")
    np.testing.assert_array_equal(chosen, data.best)
    assert {v.verdict for v in settle(CLAIMS, *measure(tiny))} == {NOT_RUN}
    figures = draw_all(figure.FIGURES, tiny)
    shown = figures["atlas"].axes[0].images[0].get_array()
    order = np.argsort(-by_name(data, "previous", "untouched").ravel(), kind="stable")
    np.testing.assert_allclose(
        shown, data.predicted.sel(content="untouched").values.reshape(order.size, -1)[order]
    )


def test_attention_between_untouched_streams_is_that_of_a_model_without_values() -> None:
    model, ids = open_weights("random", jax.random.key(4)), jnp.asarray([3, 17, 5, 30, 8, 22, 1])
    found = untouched_kernel(model, ids, 3)
    heads = model.blocks.attention
    silent = heads._replace(W_V=jnp.zeros_like(heads.W_V))
    mute = model.replace(blocks=model.blocks._replace(attention=silent))
    patterns = np.asarray(forward(mute, ids)[1].patterns)
    rows = patterns[..., 3:, :]
    mass = rows[..., 1:].sum(axis=(-2, -1))
    back = sum(rows[..., t - 3, t - 1] for t in range(3, 7))
    np.testing.assert_allclose(found[..., 1], back / mass, rtol=1e-5)
    assert abs(found - look(model, ids, 3)[0]).max() > 1e-3


def planted() -> Record:
    """Two previous-token heads among 270 that their weights name, and nine local ones."""
    kernel = np.full((30, 9, 16), 0.02)
    kernel[2, :, :5] = 0.16
    kernel[4, 1, 1] = kernel[7, 3, 1] = 0.7
    noise = 0.005 * np.arange(16)[:, None, None]
    texts, cells = 16, ("layer", "head")
    data = xr.Dataset(
        {
            "predicted": (("content", *cells, "offset"), np.stack([kernel] * len(CONTENTS))),
            "best": (("content", *cells), np.stack([kernel.argmax(axis=-1)] * len(CONTENTS))),
            "previous": (("text", *cells), kernel[..., 1] + noise),
            "previous_raw": (("text", *cells), kernel[..., 1] * 0.5 + noise),
            "local": (("text", *cells), kernel[..., :5].sum(axis=-1) + noise),
        },
        coords={"content": list(CONTENTS)},
    )
    assert data.sizes["text"] == texts
    return Record(data=data, notes={"weights": "smollm2", "missing": ""})


def test_planted_numbers_settle_the_claims() -> None:
    record = planted()
    assert estimates(record.data)["rotary-previous"].value == 1
    assert {v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))} == {HOLDS}
    record.data.predicted[CONTENTS.index("untouched"), 4, 1, 1] = 0.0
    record.data.best[CONTENTS.index("untouched"), 4, 1] = 5
    found = estimates(record.data)
    assert found["rotary-previous"].value == pytest.approx(0.5, abs=0.01)
    assert found["rotary-best-offset"].value == pytest.approx(0.5)
    verdicts = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))}
    assert verdicts["rotary-previous"] == verdicts["rotary-best-offset"] == FAILS
    assert verdicts["rotary-previous-stream"] == HOLDS


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="offsets=128 must be below length=128"):
        Spec(offsets=128)
    with pytest.raises(ValueError, match="offsets=4 must be at least 5"):
        Spec(offsets=4)
