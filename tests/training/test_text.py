import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import device_mesh
from circuitax.training.language import train_on_text
from circuitax.training.optim import Optimizer, OptimSpec

TEXT = np.random.default_rng(0).integers(0, 9, 300).astype(np.uint16)
OPTIM = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=6)
SIZES = {"batch": 4, "length": 12, "seeds": 2, "chunk": 3}


@pytest.mark.parametrize("n_layers", [0, 1])
def test_device_and_disk_train_alike(n_layers: int) -> None:
    spec = TransformerSpec(d_vocab=9, n_ctx=12, n_layers=n_layers, n_heads=2, d_model=8)
    model = Transformer(spec)
    losses = []
    for limit in (10_000, 100):
        state, advance = train_on_text(
            jax.random.key(0), model, OPTIM, TEXT, device_bytes=limit, **SIZES
        )
        for _ in range(2):
            state, metrics = advance(state)
        losses.append(np.asarray(metrics["loss"]))
        assert state.step.tolist() == [6, 6]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][0] != losses[0][1]


@pytest.mark.parametrize("limit", [10_000, 100])
def test_one_rate_a_member(limit: int) -> None:
    model = Transformer(TransformerSpec(d_vocab=9, n_ctx=12, n_layers=1, n_heads=2, d_model=8))

    def train(rate: float | jax.Array | None) -> np.ndarray:
        state, advance = train_on_text(
            jax.random.key(0), model, OPTIM, TEXT, learning_rate=rate, device_bytes=limit, **SIZES
        )
        return np.asarray(advance(state)[0].params["W_E"])

    swept, usual, slow = train(jnp.array([1e-2, 1e-3])), train(None), train(1e-3)
    np.testing.assert_allclose(swept, np.stack([usual[0], slow[1]]), rtol=1e-6)
    assert np.abs(usual - slow).max() > 1e-3
    with pytest.raises(ValueError, match=r"learning_rate has shape \(3,\), .* each of seeds=2"):
        train(jnp.ones(3))


def test_one_member_has_its_batch_split_over_the_devices() -> None:
    model = Transformer(TransformerSpec(d_vocab=9, n_ctx=12, n_layers=1, n_heads=2, d_model=8))
    sizes, found = SIZES | {"seeds": 1, "batch": 32}, []
    for mesh, limit, split in (
        (None, 10_000, False),
        (device_mesh(2), 10_000, True),
        (device_mesh(2), 100, None),  # read from disk, which cannot be traced
    ):
        key = jax.random.key(0)
        state, advance = train_on_text(
            key, model, OPTIM, TEXT, device_bytes=limit, mesh=mesh, **sizes
        )
        if split is not None:
            assert ("sharding_constraint" in str(jax.make_jaxpr(advance)(state))) == split
        found.append(advance(state)[0].params["W_E"])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-4, atol=1e-6)


def test_windows_longer_than_the_context() -> None:
    model = Transformer(TransformerSpec(d_vocab=9, n_ctx=8, n_layers=1, n_heads=2, d_model=8))
    with pytest.raises(ValueError, match="length=12 must be at most n_ctx=8"):
        train_on_text(jax.random.key(0), model, OPTIM, TEXT, **SIZES)
