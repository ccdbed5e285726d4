"""Sizes that no machine holds are refused when a spec is made, naming the field."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from circuitax.config.catalogue import discover
from circuitax.kit import memory
from circuitax.kit.memory import require_memory, toy_numbers
from circuitax.memory import askable_bytes, machine_bytes

HUGE = 2**31 - 4  # what the configuration lets through
SIZES = {
    "jl_capacity": ("decode_features", "decode_dim"),
    "jl_distortion": ("dim_in",),
    "jl_theorem": ("dim_in", "n_points"),
    "jl_threshold": ("max_dim",),
    "toy_adversarial": ("n_features", "exact_features", "densities", "seeds", "samples"),
    "toy_dynamics": ("n_features", "n_hidden", "batch_size", "seeds", "exam_size"),
    "toy_geometry": ("n_features", "batch_size", "seeds", "theory_points"),
    "toy_intro": (
        *("model.n_features", "model.n_hidden", "task.batch_size", "seeds"),
        *("restarts", "crossover_points"),
    ),
    "toy_phase": ("theory_grid", "exact_grid", "trained_grid", "restarts", "batch_size", "seeds"),
    "toy_privileged": ("n_features", "n_hidden", "batch_size", "restarts"),
}


@dataclass(frozen=True)
class Spec:
    rows: int = 3
    names: str = "x" * 1000


def test_the_line_names_the_fields_and_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "askable_bytes", lambda: 10**12)
    require_memory(Spec(), 2.5e11, "rows")
    with pytest.raises(ValueError) as refused:
        require_memory(Spec(), 2.6e11, "rows", "names")
    assert str(refused.value) == (
        f"rows=3 must be smaller (with names={'x' * 60}...): the arrays would take 1.0e+12 bytes "
        "or more, at most 1.0e+12 can be asked for here"
    )


def test_this_machine_says_how_much_it_has() -> None:
    assert 2**28 < (machine_bytes() or 0) < 2**50


def test_a_small_machine_may_start_a_sweep_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for has, may_ask in ((10**9, 2**36), (10**12, 10**12), (None, 2**36)):
        monkeypatch.setattr("circuitax.memory.machine_bytes", lambda has=has: has)
        assert askable_bytes() == may_ask


def test_weights_moments_and_outputs_are_counted() -> None:
    assert toy_numbers(2, n_features=5, n_hidden=3, batch_size=7) == 2 * (3 * (15 + 5) + 35)


@pytest.mark.parametrize("name", SIZES)
def test_every_size_is_bounded(name: str) -> None:
    spec = discover()[name].load().Spec()
    for path in SIZES[name]:
        with pytest.raises(ValueError, match="must be smaller") as refused:
            changed(spec, path, HUGE)
        assert f"{path}={HUGE}" in str(refused.value) and len(str(refused.value)) < 300


def changed(spec: Any, path: str, value: int) -> Any:
    """The spec with one field changed; a dot leads into a field that is a spec."""
    name, _, rest = path.partition(".")
    return replace(spec, **{name: changed(getattr(spec, name), rest, value) if rest else value})
