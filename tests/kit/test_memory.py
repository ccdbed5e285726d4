"""Sizes that no machine holds are refused when a spec is made, naming the field."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import jax
import pytest

from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit import memory
from circuitax.kit.memory import require_arrays, require_memory
from circuitax.memory import askable_bytes, machine_bytes
from circuitax.models.transformer import init

# Counts that pass at 2^30 - 1 on a machine of 64 GiB: one of them takes 64 bytes at most, which
# `config.build` asks for anyway; or how much is there is known once a text, a model or a run that
# is read has been opened, and more is refused then.
HUGE = 2**30 - 1
FEW_BYTES = {
    "bigram": {"optim.steps"},
    "circuit_identities": {"model.d_vocab", "model.n_layers", "seeds"},
    "cost_of_size": {"rounds"},
    "jl_capacity": {"n_trials", "n_candidates", "n_steps", "optim.steps", "n_dictionaries"},
    "jl_theorem": {"n_maps", "n_pair_maps"},
    "jl_threshold": {"n_resamples"},
    "neuron_circuits": {"sizes"},
    "one_layer_circuits": {"bugs", "bug_places", "unless.model.n_ctx"},
    "certified_paths": {"k", "budget"},
    "mlp_paths": {"k", "budget"},
    "english_models": {"full.n_ctx", "full.n_layers", "full.d_mlp", "full.mlp_depth"},
    "phase_proof": {"family"},
    "score_scale": {"optim.steps"},
    "stream_use": {"bins"},
    "text_models": {"full.n_ctx"},
    "text_recipe": {"optim.steps"},
    "toy_adversarial": {"ascent_steps"},
    "toy_constructive": {"exam_size", "permutations"},
    "toy_decomposition": {"small.power", "large.power"},
    "toy_demonstrate": {"climbs"},
    "toy_geometry": {"theory_points"},
    "toy_perturbed": {"exact_points", "base_points"},
    "toy_privileged": {"exam_batches"},
    "triple_proof": {"max_boxes", "restarts"},
}
KNOWN_LATER = {
    "certified_paths": {"prompts", "lengths"},
    "english_models": {"windows"},
    "foreign_models": {"texts"},
    "head_roles": {"texts", "shuffles", "pairs", "windows"},
    "induction_price": {"windows", "lengths"},
    "languages": {"windows", "offsets", "repeats", "table_tokens", "words"},
    "mlp_paths": {"removed"},
    "name_movers": {"top"},
    "neuron_tables": {"task.d_vocab", "windows", "entries", "neurons"},
    "published_weights": {"previous", "inducers", "texts", "period"},
    "real_induction": {"top", "chapters", "stretch"},
    "stream_use": {"texts", "length"},
    "text_circuits": {"task.d_vocab", "windows", "offsets", "repeats"},
    "text_induction": {"windows"},
    "text_induction_circuits": {"windows", "offsets", "repeats"},
    "text_models": {"windows"},
    "text_recipe": {"windows"},
    "text_superposition": {
        *("most", "draws", "features.vectors", "features.active"),
        *("smollm2_features.vectors", "smollm2_features.active"),
    },
    "rotary_atlas": {"tokens"},
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


@pytest.mark.parametrize("answer", [ValueError("unrecognized name"), OSError(22, "invalid"), -1])
def test_a_system_that_does_not_say_how_much_it_has(
    answer: Exception | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sysconf(name: str) -> int:
        if isinstance(answer, Exception):
            raise answer
        return 1 if name == "SC_PAGE_SIZE" else answer

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert machine_bytes() is None and askable_bytes() == 2**36
    monkeypatch.delattr(os, "sysconf")
    assert machine_bytes() is None


def test_a_small_machine_may_start_a_sweep_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for has, may_ask in ((10**9, 2**36), (10**12, 10**12), (None, 2**36)):
        monkeypatch.setattr("circuitax.memory.machine_bytes", lambda has=has: has)
        assert askable_bytes() == may_ask


@dataclass(frozen=True)
class Shapes:
    seeds: int = 3
    widths: tuple[int, ...] = (5, 7)
    rates: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)
    n_ctx: int | None = None
    model: TransformerSpec = field(default_factory=TransformerSpec)


def abstract_model() -> Any:
    return jax.eval_shape(lambda key: init(key, TransformerSpec()), jax.random.key(0))


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ("seeds", 3),
        ("2 seeds seeds widths", 2 * 3 * 3 * 7),
        ("rates n_ctx widths", 4 * 7),
        ("seeds model", 3 * sum(p.size for p in jax.tree.leaves(abstract_model()))),
        ("model.d_model model.d_vocab", 32 * 64),
    ],
)
def test_axes_of_a_shape_are_multiplied(
    shape: str, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "askable_bytes", lambda: 4 * numbers)
    require_arrays(Shapes(), "seeds", shape)
    monkeypatch.setattr(memory, "askable_bytes", lambda: 4 * numbers - 1)
    with pytest.raises(ValueError, match="must be smaller"):
        require_arrays(Shapes(), shape)


def test_the_longest_axis_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "askable_bytes", lambda: 8)
    with pytest.raises(ValueError, match=r"^widths=\(5, 7\) must be smaller \(with seeds=3\): "):
        require_arrays(Shapes(), "seeds widths")


def test_every_count_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every whole number of every experiment, alone at 2^30 - 1, before any array is made."""
    monkeypatch.setattr("circuitax.memory.machine_bytes", lambda: 2**36)
    entries, passed = discover(), {}
    for name in entries:
        (cell,) = plan([f"experiment={name}", "scale=quick"], entries)[1]
        accepted = set()
        for path in whole_numbers(cell.spec):
            try:
                changed(cell.spec, path, HUGE)
            except ValueError as error:
                text = str(error)
                assert len(text) < 400
                if "must be smaller" in text:
                    assert str(HUGE) in text or " weights" in text, text
            else:
                accepted.add(path)
        if accepted:
            passed[name] = accepted
    for name in FEW_BYTES.keys() | KNOWN_LATER.keys():
        assert passed.pop(name) == FEW_BYTES.get(name, set()) | KNOWN_LATER.get(name, set()), name
    assert not passed


def whole_numbers(spec: Any, prefix: str = "") -> Iterator[str]:
    """Paths of all fields with a whole number, or a list of them, but keys."""
    for item in fields(spec):
        value, path = getattr(spec, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from whole_numbers(value, f"{path}.")
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, int) and not isinstance(first, bool) and not path.endswith("seed"):
            yield path


def changed(spec: Any, path: str, value: int) -> Any:
    """The spec with one field changed, of a list the last; a dot leads into a spec."""
    name, _, rest = path.partition(".")
    old = getattr(spec, name)
    if rest:
        return replace(spec, **{name: changed(old, rest, value)})
    return replace(spec, **{name: (*old[:-1], value) if isinstance(old, tuple) else value})
