"""A measured training is the plain training, looked at: same end, every look at its step."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import KeptModels, notes_of_kept
from circuitax.kit.measured_training import chunk_size, joined, measured_training
from circuitax.kit.members import each_member
from circuitax.lab.arrays import load_tree
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec

MODEL = TransformerSpec(d_vocab=7, n_ctx=8, n_layers=1, n_heads=1, d_model=4)
TASK = RepeatedSource(batch=4, length=8, d_vocab=7, min_period=2, max_period=3)
OPTIM = OptimSpec(learning_rate=1e-2, steps=12)


def begun(every: int = 3):
    plan = Plan(NextToken(Transformer(MODEL), TASK), OPTIM, every)
    members = new_members(jax.random.key(1), OPTIM.learning_rate, jnp.zeros(2))
    return init(plan, members), advance(plan, members)


def as_models(params) -> Model:
    return model_from_params(params, MODEL)


def look(model: Model, texts: jax.Array) -> dict[str, jax.Array]:
    return {"loss": model.W_E[texts].sum(), "W_E": model.W_E}


@pytest.fixture(scope="module")
def plain() -> list[np.ndarray]:
    """Embeddings of both members after 0, 3, ... 12 steps, by the ensemble alone."""
    state, train = begun()
    found = [np.asarray(state.params["W_E"])]
    for _ in range(4):
        state, _ = train(state)
        found.append(np.asarray(state.params["W_E"]))
    return found


def test_every_measurement_is_of_its_step(tmp_path: Path, plain: list[np.ndarray]) -> None:
    lab, (state, train) = Lab(tmp_path), begun()
    trained = measured_training(
        lab,
        "arm",
        state,
        train,
        steps=12,
        every=3,
        as_models=as_models,
        measure=each_member(look, jnp.arange(3)),
        keep_at=(0, 6, 12),
        keep_as="model",
    )
    np.testing.assert_array_equal(trained.steps, [0, 3, 6, 9, 12])
    np.testing.assert_array_equal(trained.curves["W_E"], plain)
    sums = [W[:, :3].sum(axis=(1, 2)) for W in plain]
    np.testing.assert_allclose(trained.curves["loss"], sums, rtol=1e-5)
    assert trained.training_loss.shape == (4, 2)
    assert (trained.training_loss > 0).all() and len(np.unique(trained.training_loss)) == 8
    np.testing.assert_array_equal(trained.models.W_E, plain[-1])
    assert trained.alive.all() and trained.divergence["diverged"] == 0
    Record(notes=notes_of_kept({"model": MODEL}, (0, 6, 12))).save(tmp_path)
    kept = KeptModels.of_run(tmp_path)
    for step in (0, 6, 12):
        np.testing.assert_array_equal(kept.members("model", step).W_E, plain[step // 3])


def test_a_training_goes_on_where_another_ended(tmp_path: Path, plain: list[np.ndarray]) -> None:
    lab, (state, train) = Lab(tmp_path), begun()
    looking = {"every": 3, "as_models": as_models, "measure": each_member(look, jnp.arange(3))}
    first = measured_training(lab, "a", state, train, steps=3, **looking)
    goes_on = {"at_start": False, "keep_at": (12,), "keep_as": "whole"}
    second = measured_training(lab, "b", first.state, train, steps=9, **goes_on, **looking)
    both = joined(first, second)
    np.testing.assert_array_equal(both.steps, [0, 3, 6, 9, 12])
    np.testing.assert_array_equal(both.curves["W_E"], plain)
    assert both.training_loss.shape == (4, 2) and both.state is second.state
    assert (tmp_path / "arrays" / "whole-step-12.safetensors").is_file()
    with pytest.raises(ValueError, match="must go on after step 12"):
        joined(second, first)


def test_training_alone_has_no_curves(tmp_path: Path, plain: list[np.ndarray]) -> None:
    trained = measured_training(Lab(tmp_path), "arm", *begun(), steps=12, every=3)
    assert trained.curves == {}
    np.testing.assert_array_equal(trained.models["W_E"], plain[-1])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    lab, (state, train) = Lab(tmp_path), begun()
    with pytest.raises(ValueError, match="every=3 must divide steps=10"):
        measured_training(lab, "a", state, train, steps=10, every=3)
    with pytest.raises(ValueError, match=r"keep_at names \[5\]"):
        measured_training(lab, "a", state, train, steps=12, every=3, keep_at=(5, 6))
    with pytest.raises(ValueError, match=r"keep_at names \[0\]"):
        measured_training(lab, "a", state, train, steps=12, every=3, keep_at=(0,), at_start=False)


def test_chunks_divide_the_steps() -> None:
    assert [chunk_size(steps) for steps in (1500, 40, 30, 7, 4)] == [50, 20, 10, 1, 2]
    assert chunk_size(1500, most=20) == 20 and chunk_size(1500, most=100) == 100


def test_models_are_what_is_measured_and_kept(tmp_path: Path, plain: list[np.ndarray]) -> None:
    trained = measured_training(
        Lab(tmp_path),
        "arm",
        *begun(),
        steps=12,
        every=3,
        as_models=lambda params: as_models({**params, "W_E": 2 * params["W_E"]}),
        measure=each_member(look, jnp.arange(3)),
        keep_at=(0, 9),
    )
    np.testing.assert_array_equal(trained.curves["W_E"], 2 * np.array(plain))
    np.testing.assert_array_equal(trained.models.W_E, 2 * plain[-1])
    np.testing.assert_array_equal(trained.state.params["W_E"], plain[-1])
    for step in (0, 9):
        kept = load_tree(tmp_path / "arrays" / f"arm-step-{step}.safetensors")
        np.testing.assert_array_equal(kept["W_E"], 2 * plain[step // 3])
