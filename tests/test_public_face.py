"""What ``import circuitax as cx`` gives: every name, lazily, with a page of help."""

import enum
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx
from circuitax.documented import described
from circuitax.kernel.norm import Norm
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


def test_every_name_exists_is_typed_and_is_in_the_table_of_contents() -> None:
    assert dir(cx) == sorted(dir(cx))
    text = Path(cx.__file__).read_text(encoding="utf-8")
    imported = text.split("if TYPE_CHECKING:")[1].split("_PLACES")[0]
    listed = " ".join(cx.__doc__.split())
    for name in dir(cx):
        value = getattr(cx, name)
        entry = f"``cx.{name}``" if isinstance(value, ModuleType) else f" {signature(value, name)} "
        assert entry in listed, f"{entry} is not in the docstring"
        assert re.search(rf"\b{name}\b", imported), f"{name} is unknown to type checkers"


def test_a_floor_has_its_modules() -> None:
    for name in ("kernel", "models", "data", "circuits", "records", "figures", "training"):
        floor = getattr(cx, name)
        for module in dir(floor):
            assert getattr(floor, module).__name__ == f"circuitax.{name}.{module}"


def test_help_reads_like_a_table_of_contents() -> None:
    page = pydoc.render_doc(cx, renderer=pydoc.plaintext)
    assert page.index("Analyses of a run") < page.index("Algebra")
    assert "the largest paths to one logit, and a bound on all others" in page
    assert len(page.splitlines()) < 200


def within(annotation: Any) -> Iterator[type]:
    """The classes of this library in an annotation."""
    if isinstance(annotation, type) and annotation.__module__.startswith("circuitax"):
        yield annotation
    for part in get_args(annotation):
        yield from within(part)


def reached() -> set[type]:
    """Classes of the face, those that its functions return, and those of their fields."""
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
    return found


def test_help_describes_every_field_of_what_one_gets() -> None:
    tuples = [cls for cls in reached() if hasattr(cls, "_fields")]
    assert {cx.Interventions, cx.Estimate} < set(tuples)
    for cls in tuples:
        assert set(described(cls)) == set(cls._fields), cls
        assert all(getattr(cls, name).__doc__ == text for name, text in described(cls).items())
    page = pydoc.render_doc(cx.Interventions, renderer=pydoc.plaintext)
    assert "Alias for field" not in page and "On what each MLP writes." in page


def test_the_table_of_contents_names_fields_of_results() -> None:
    contents = re.split(r"\n    (?=\w)", cx.__doc__)
    given = {
        re.split(r"\W", entry)[0]: re.findall(r"``(\w+)``", entry.partition("; gives")[2])
        for entry in contents
        if "; gives" in entry
    }
    for name in dir(cx):
        value = getattr(cx, name)
        result = inspect.isfunction(value) and get_type_hints(value).get("return")
        if hasattr(result, "_fields") and result not in {cx.Interventions, cx.Chain}:
            assert given.get(name), f"which fields does the result of {name} have?"
    for name, fields in given.items():
        result = get_type_hints(getattr(cx, name))["return"]
        assert set(fields) <= {*dir(result), *get_type_hints(result)}, name


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, circuitax as cx; dir(cx); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, circuitax as cx; cx.Record; cx.Claim; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_floors_are_namespaces_of_their_modules() -> None:
    code = (
        "import circuitax as cx\n"
        "assert 'weights' in dir(cx.circuits) and 'ensemble' in dir(cx.training)\n"
        "assert cx.circuits.weights.heads.token_ov is cx.token_ov\n"
        "assert cx.superposition.geometry.geometry.norms and cx.projection.laws.ratio_cdf\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("asked", "name", "answer"),
    [
        (cx, "legder", r"has no attribute 'legder'; did you mean cx\.ledger"),
        (cx, "composed_key", r"did you mean circuitax\.circuits\.weights\.spectra\.composed_keys"),
        (cx, "run_with_cache", r"it is cx\.run here"),
        (cx, "qqqqqq", "has no attribute 'qqqqqq'$"),
        (cx.circuits, "legder", r"did you mean circuitax\.circuits\.ledger"),
        (cx.circuits.paths, "expantion", r"did you mean circuitax\.circuits\.paths\.expansion"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(asked: Any, name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=answer):
        getattr(asked, name)


def test_an_unknown_attribute_of_a_model_or_run_is_told_the_nearest() -> None:
    spec = cx.TransformerSpec(d_vocab=5, n_ctx=4, n_layers=1, n_heads=2, d_model=4)
    model = cx.init(jax.random.key(0), spec)
    with pytest.raises(AttributeError, match=r"Model has no attribute 'W_q'; .*model\.W_Q"):
        model.W_q  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'cfg'; it is model\.spec here"):
        model.cfg  # noqa: B018
    with pytest.raises(AttributeError, match=r"'ledger'; did you mean circuitax\..*ledger\.ledger"):
        cx.run(model, [1, 2]).ledger  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean run\.patterns"):
        cx.run(model, [1, 2]).pattern  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '_repr_png_'$"):
        model._repr_png_  # noqa: B018


def test_names_elsewhere_have_one_here() -> None:
    for told in ELSEWHERE.values():
        for name in re.findall(r"cx\.(\w+)", told):
            assert name in dir(cx)


def test_a_model_is_run_read_and_saved_through_the_face(tmp_path, x64: None) -> None:
    spec = cx.TransformerSpec(
        d_vocab=11, n_ctx=8, n_layers=2, n_heads=2, d_model=8, norm=Norm.layernorm, biases=True
    )
    model = cx.init(jax.random.key(1), spec)
    run = cx.run(model, [1, 4, 2, 1, 4], outputs=True)
    paths = cx.expand(run)
    np.testing.assert_allclose(paths.remainder, 0, atol=1e-12)
    book = cx.ledger(run, token=2, minus=3, k=3)
    lead = run.logits[-1, 2] - run.logits[-1, 3]
    np.testing.assert_allclose(book.found + book.remainder + book.bias, lead, atol=1e-12)
    parts = cx.component_logits(run)
    np.testing.assert_allclose(parts.remainder, 0, atol=1e-12)
    cx.save_pretrained(model, tmp_path / "saved")
    again = cx.run(cx.load_pretrained(tmp_path / "saved"), run.tokens)
    np.testing.assert_allclose(again.logits, run.logits, atol=1e-5)
    models = jax.vmap(lambda key: cx.init(key, spec))(jax.random.split(jax.random.key(0), 3))
    scores = jax.vmap(cx.composition_scores)(models)
    assert scores.shape[0] == 3 and bool(jnp.isfinite(scores[:, :, 0, :, 1]).all())
    assert not np.allclose(scores[0, :, 0, :, 1], scores[1, :, 0, :, 1])
