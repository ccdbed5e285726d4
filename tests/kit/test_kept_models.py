"""Models come back as they were kept, by name, step and member, and misuse is named."""

from pathlib import Path

import jax
import numpy as np
import pytest

from circuitax.data.corpus import TextError
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import (
    KeptModels,
    keep_model,
    kept_windows,
    log_spaced_steps,
    notes_of_kept,
)
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record

SPECS = {f"layers-{n}": TransformerSpec(11, 8, n, 1, 4) for n in (0, 1)}
STEPS = (0, 20)


def drawn(name: str, step: int):
    keys = member_keys(derive(jax.random.key(step), name), 3)
    return jax.vmap(lambda key: init(key, SPECS[name]))(keys)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lab = Lab(tmp_path / "up")
    for name in SPECS:
        for step in STEPS:
            keep_model(lab, name, step, drawn(name, step))
    Record(notes=notes_of_kept(SPECS, STEPS)).save(tmp_path / "up")
    return tmp_path / "up"


def same(one, other) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_one_reader_for_an_input_and_for_a_run(run: Path, tmp_path: Path) -> None:
    below = KeptModels.of_input(Lab(tmp_path / "down", inputs={"source": run}), "source")
    for kept in (below, KeptModels.of_run(run)):
        assert kept.names == ["layers-0", "layers-1"] and kept.steps == [0, 20]
        assert kept.spec("layers-1") == SPECS["layers-1"]
        same(kept.members("layers-1", 0), drawn("layers-1", 0))
        same(kept.members("layers-1"), drawn("layers-1", 20))
        assert isinstance(kept.members("layers-0").W_E, jax.Array)
        one = kept.member("layers-1", 2)
        np.testing.assert_array_equal(one.W_U, drawn("layers-1", 20).W_U[2])
        both = kept.at_every_step("layers-1")
        assert both.W_E.shape == (2, 3, 11, 4)
        np.testing.assert_array_equal(both.W_E[0], drawn("layers-1", 0).W_E)


def test_files_are_named_by_model_and_step(run: Path) -> None:
    names = sorted(path.name for path in (run / "arrays").iterdir())
    assert names == [f"{m}-step-{s}.safetensors" for m in SPECS for s in STEPS]


@pytest.mark.parametrize(
    ("name", "index", "step", "said"),
    [
        ("layer-1", 0, None, "model=layer-1 must be one of layers-0, layers-1"),
        ("layers-1", 0, 7, "step=7 must be one of 0, 20"),
        ("layers-1", 3, 20, "member=3 of layers-1 must be 0 to 2"),
        ("layers-1", -1, 20, "member=-1 of layers-1 must be 0 to 2"),
    ],
)
def test_what_was_not_kept(run: Path, name: str, index: int, step: int | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        KeptModels.of_run(run).member(name, index, step)


def test_a_run_without_models(tmp_path: Path) -> None:
    Record(notes={"models": {}}).save(tmp_path)
    with pytest.raises(
        ValueError, match="keeps no models: its notes name no models and steps_kept"
    ):
        KeptModels.of_run(tmp_path)


def test_log_spaced_steps_hold_both_ends_and_the_powers_between() -> None:
    assert log_spaced_steps(200, 20) == [0, 20, 40, 80, 160, 200]
    assert log_spaced_steps(160, 20) == [0, 20, 40, 80, 160]
    assert log_spaced_steps(20, 20) == [0, 20]
    with pytest.raises(ValueError, match="every=30 must divide steps=200"):
        log_spaced_steps(200, 30)


def test_no_more_windows_are_read_than_were_kept(tmp_path: Path) -> None:
    up = Lab(tmp_path / "up")
    up.save_arrays("held-out", {"windows": np.arange(12).reshape(4, 3)})
    lab = Lab(tmp_path / "down", inputs={"texts": tmp_path / "up"})
    np.testing.assert_array_equal(kept_windows(lab, "texts", 2), [[0, 1, 2], [3, 4, 5]])
    assert len(kept_windows(lab, "texts", 4)) == 4
    with pytest.raises(TextError, match=r"^windows=1000000000 must be at most 4: texts kept no mo"):
        kept_windows(lab, "texts", 10**9)
