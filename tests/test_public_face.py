"""What ``import circuitax as cx`` gives: every name, lazily, with a page of help."""

import enum
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args, get_type_hints

import jax
import numpy as np
import pytest

import circuitax as cx
from circuitax.display.tables import described
from circuitax.names import ELSEWHERE


def signature(value: Any, name: str) -> str:
    """The name and arguments of a function with plain defaults; the name of a class."""
    if isinstance(value, type):
        return name
    parameters = inspect.signature(value).parameters.values()
    bare = [p.replace(default=plain(p.default), annotation=p.empty) for p in parameters]
    return f"{name}{inspect.Signature(bare)}"


def plain(default: Any) -> Any:
    if isinstance(default, enum.Enum):
        return default.value
    if isinstance(default, type) and default is not inspect.Parameter.empty:
        return Named(default.__name__)
    return Named("...") if isinstance(default, np.ndarray) else default


class Named(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def test_every_name_is_in_the_page_of_help() -> None:
    assert len(dir(cx)) == len(set(dir(cx))) <= 60
    page = pydoc.render_doc(cx, renderer=pydoc.plaintext)
    assert len(page.splitlines()) < 200
    listed = " ".join(page.split())
    for name in dir(cx):
        value = getattr(cx, name)
        entry = f"``cx.{name}``" if isinstance(value, ModuleType) else f" {signature(value, name)} "
        assert entry in listed, f"{entry} is not in the docstring"


def within(annotation: Any) -> Iterator[type]:
    """The classes of this library in an annotation."""
    if isinstance(annotation, type) and annotation.__module__.startswith("circuitax"):
        yield annotation
    for part in get_args(annotation):
        yield from within(part)


def test_help_describes_every_field_of_what_one_gets() -> None:
    found: set[type] = set()
    values = [getattr(cx, name) for name in dir(cx)]
    todo = [value for value in values if isinstance(value, type)]
    for value in values:
        if inspect.isfunction(value):
            todo += within(get_type_hints(value).get("return"))
    while todo:
        if (cls := todo.pop()) not in found:
            found.add(cls)
            todo += [part for hint in get_type_hints(cls).values() for part in within(hint)]
    for cls in (cls for cls in found if hasattr(cls, "_fields")):
        assert set(described(cls)) == set(cls._fields), cls
        assert all(getattr(cls, name).__doc__ == text for name, text in described(cls).items())


class Given:
    """Base of a spec.

    Attributes:
        weights: Which model.
        texts: How many.
    """


class Own(Given):
    """As `Given`.

    Attributes:
        texts: At least two.
    """


def test_inherited_fields_keep_their_descriptions() -> None:
    assert described(Own) == {"weights": "Which model.", "texts": "At least two."}


def test_names_and_rooms_are_imported_at_their_first_use() -> None:
    code = (
        "import sys, circuitax as cx\n"
        "from circuitax import circuits, training\n"
        "assert 'weights' in dir(circuits) and 'ensemble' in dir(training)\n"
        "cx.Record, cx.Estimate\n"
        "assert 'jax' not in sys.modules\n"
        "assert cx.circuits.weights.heads.token_ov is cx.token_ov\n"
        "assert 'optax' not in sys.modules and 'flax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_told_the_nearest() -> None:
    spec = cx.TransformerSpec(d_vocab=5, n_ctx=4, n_layers=1, n_heads=2, d_model=4)
    model = cx.init(jax.random.key(0), spec)
    for asked, name, answer in (
        (cx, "legder", r"has no attribute 'legder'; did you mean cx\.ledger"),
        (cx, "run_with_cache", r"it is cx\.run here"),
        (cx, "qqqqqq", "has no attribute 'qqqqqq'$"),
        (model, "W_q", r"Model has no attribute 'W_q'; .*model\.W_Q"),
        (model, "cfg", r"no attribute 'cfg'; it is model\.spec here"),
        (model, "_repr_png_", r"no attribute '_repr_png_'$"),
        (cx.run(model, [1, 2]), "pattern", r"did you mean run\.patterns"),
    ):
        with pytest.raises(AttributeError, match=answer):
            getattr(asked, name)
    told = re.findall(r"cx\.(\w+)", " ".join(ELSEWHERE.values()))
    assert set(told) <= set(dir(cx))
