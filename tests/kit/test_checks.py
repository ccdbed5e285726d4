"""Every check of a field: what it lets through, and the line that it says otherwise."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    field_of,
    require_at_least,
    require_at_most,
    require_below,
    require_divides,
    require_equal,
    require_in,
    require_increasing,
    require_positive,
    require_readable,
)


@dataclass(frozen=True)
class Optim:
    steps: int = 40
    rate: float = 0.5


@dataclass(frozen=True)
class Spec:
    seeds: int = 3
    chunk: int = 8
    share: float = 0.5
    dims: tuple[int, ...] = (4, 8, 16)
    n_ctx: int | None = None
    optim: Optim = field(default_factory=Optim)


def said(check: Any, *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(ValueError) as refused:
        check(*arguments, **keywords)
    return str(refused.value)


def test_at_least_takes_its_bound_and_refuses_one_less() -> None:
    require_at_least(Spec(), 3, "seeds", "chunk", "optim.steps")
    assert said(require_at_least, Spec(), 4, "chunk", "seeds") == "seeds=3 must be at least 4"
    assert said(require_at_least, Spec(), 41, "optim.steps").startswith("optim.steps=40 must be")
    require_at_least(Spec(seeds=8), "chunk", "seeds")
    assert said(require_at_least, Spec(), "chunk", "seeds") == "seeds=3 must be at least chunk=8"
    assert said(require_at_least, Spec(), 1, "n_ctx") == "n_ctx=None must be at least 1"
    reason = said(require_at_least, Spec(), 4, "seeds", why="even ones fit, odd price")
    assert reason == "seeds=3 must be at least 4: even ones fit, odd price"


def test_every_entry_of_a_sequence_counts() -> None:
    require_at_least(Spec(), 4, "dims")
    assert said(require_at_least, Spec(), 5, "dims") == "dims=(4, 8, 16) must all be at least 5"
    assert said(require_at_most, Spec(), 15, "dims") == "dims=(4, 8, 16) must all be at most 15"


def test_at_most_and_below_differ_at_the_bound() -> None:
    require_at_most(Spec(), 3, "seeds")
    require_at_most(Spec(), "chunk", "seeds", "chunk")
    assert said(require_at_most, Spec(), "seeds", "chunk") == "chunk=8 must be at most seeds=3"
    require_below(Spec(), "optim.steps", "chunk")
    assert said(require_below, Spec(chunk=40), "optim.steps", "chunk") == (
        "chunk=40 must be below optim.steps=40"
    )


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan")])
def test_positive_refuses_zero_and_nan(share: float) -> None:
    require_positive(Spec(), "share", "optim.rate")
    assert said(require_positive, Spec(share=share), "share") == f"share={share} must be positive"


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "what"),
    [
        ("[2, 5]", (2, 3, 5), (1, 6), "from 2 to 5"),
        ("(0, 1)", (0.01, 0.99), (0.0, 1.0), "above 0 and below 1"),
        ("(0, 0.5]", (0.1, 0.5), (0.0, 0.51), "above 0 and at most 0.5"),
        ("[0, 1)", (0.0, 0.9), (-0.1, 1.0, float("nan")), "at least 0 and below 1"),
        ("[1, chunk]", (1, 8), (0, 9), "from 1 to chunk=8"),
    ],
)
def test_intervals_hold_the_ends_they_say(
    interval: str, inside: tuple, outside: tuple, what: str
) -> None:
    for share in inside:
        require_in(Spec(share=share), interval, "share")
    for share in outside:
        assert said(require_in, Spec(share=share), interval, "share") == (
            f"share={share} must be {what}"
        )


def test_an_interval_is_written_as_in_mathematics() -> None:
    for wrong in ("0, 1", "[0, 1", "[0 1]", "(1)"):
        assert "must be written like" in said(require_in, Spec(), wrong, "share")


def test_a_chunk_divides_the_steps() -> None:
    require_divides(Spec(), "chunk", "optim.steps")
    assert said(require_divides, Spec(chunk=7), "chunk", "optim.steps") == (
        "chunk=7 must divide optim.steps=40"
    )
    assert "chunk=0 must divide" in said(require_divides, Spec(chunk=0), "chunk", "optim.steps")
    both = said(require_divides, Spec(chunk=4), "chunk", "optim.steps", "seeds")
    assert both == "chunk=4 must divide seeds=3"


def test_equal_to_a_number_or_to_a_field() -> None:
    require_equal(Spec(), 3, "seeds")
    require_equal(Spec(seeds=8), "chunk", "seeds")
    assert said(require_equal, Spec(), 2, "seeds") == "seeds=3 must be 2"
    assert said(require_equal, Spec(), "chunk", "seeds", why="a pair") == (
        "seeds=3 must equal chunk=8: a pair"
    )


@pytest.mark.parametrize("dims", [(4, 4, 8), (8, 4, 16), (4, 8), ()])
def test_increasing_means_strictly_and_enough_values(dims: tuple[int, ...]) -> None:
    require_increasing(Spec(), "dims", length=3)
    message = said(require_increasing, Spec(dims=dims), "dims", length=3)
    assert message == f"dims={dims} must hold 3 increasing values or more"


def test_fields_are_read_through_dots() -> None:
    assert field_of(Spec(), "optim.rate") == 0.5
    with pytest.raises(AttributeError):
        require_at_least(Spec(), 1, "optim.stepps")


def test_a_model_must_be_able_to_read_its_texts() -> None:
    model = TransformerSpec(d_vocab=32, n_ctx=16, n_layers=1, n_heads=1, d_model=4)
    require_readable(model, d_vocab=32, length=16)
    assert said(require_readable, model, d_vocab=33) == (
        "model.d_vocab=32 must equal task.d_vocab=33"
    )
    assert said(require_readable, model, d_vocab=32, length=17, name="full") == (
        "task.length=17 must be at most full.n_ctx=16"
    )
    started = TransformerSpec(d_vocab=32, n_ctx=16, n_layers=1, n_heads=1, d_model=4, start_token=3)
    require_readable(started, d_vocab=32)
    assert "start_token=3 must be null" in said(require_readable, started, d_vocab=32, length=8)
