"""Every function of the face refuses arguments of a wrong kind in one line that names them.

Calls are made outside of jit and without the shape checks of the test suite, as a user makes them.
"""

import os
import traceback
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import circuitax as cx

pytestmark = pytest.mark.usefixtures("unchecked_types")

NAN = float("nan")
KEY = jax.random.key(0)
SPEC = cx.TransformerSpec(d_vocab=5, n_ctx=6, n_layers=1, n_heads=2, d_model=4, d_mlp=4)
TEXT = [1, 2, 3, 1]
TOY = cx.TiedWeights(jnp.ones((2, 3)), jnp.zeros(3))
POINTS = np.arange(12.0).reshape(4, 3)


class Halved:
    """A problem of one number."""

    def init(self, key: Any, hyper: Any) -> Any:
        return jax.random.normal(key, ())

    def batch(self, key: Any, step: Any) -> Any:
        return ()

    def loss(self, params: Any, batch: Any, hyper: Any) -> Any:
        return params**2 / 2


NO_KEY = [0, np.array([0, 1], np.uint32), None, jax.random.split(KEY, 2)]
NO_COUNT = [0, -1, 1.5, "a", NAN, True, [1]]
NO_MODEL = [None, "x", np.ones((2, 2))]
NO_TEXT = [[-1, 2], [1, 99], [1.0], [], "ab", None, 3, [[[1]]], [NAN], [True], ["a"], [[1], [1, 2]]]
NO_RUN = ["a model", None, "x", np.ones(3)]
NO_HEAD = [1, (9, 9), (-1, 0), "0.1", (0, 1, 2), (0.5, 1), None]
NO_PLACES = [[-1], [77], [0.5], "a", 1, [True, False, True, False]]
NO_EDIT = ["x", 3, np.ones(3), "a model"]
NO_INDEX = [-100, 10**6, 1.5, "a", NAN, [1]]
NO_NAME = ["misspelt", 3]
NO_SHARE = [-1, NAN, "a", None]


def not_like(x: np.ndarray) -> list[Any]:
    """What is no finite real array of this shape."""
    bad = np.full(x.shape, NAN)
    return [bad, x[None], np.concatenate([x, x], -1), "abc", None, x + 1j, np.full(x.shape, "x")]


# Valid arguments, and for each of them what is refused. Texts stand for what takes time to make.
CASES: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
    "TransformerSpec": (
        {"d_vocab": 5},
        dict.fromkeys(["d_vocab", "n_ctx", "n_heads", "d_model", "d_mlp"], NO_COUNT)
        | {"n_layers": NO_COUNT[1:], "norm": NO_NAME, "positions": NO_NAME},
    ),
    "init": (
        {"key": KEY, "spec": SPEC},
        {"key": NO_KEY, "spec": [None, {}, "x"], "param_dtype": ["flot32", int, None, 3]},
    ),
    "stack": ({}, {"models": ["a model", [], None, 3, ["x"]]}),
    "load_pretrained": (
        {"source": "tests/fixtures/families/llama"},
        {"source": [None, 3, ""], "config": [3, "x"], "dtype": ["x", int]},
    ),
    "save_pretrained": (
        {"model": "a model", "folder": "refused"},
        {"model": NO_MODEL, "folder": [None, 3, ""]},
    ),
    "load_tokenizer": ({}, {"source": [None, 3, ""]}),
    "fold_norms": ({}, {"model": NO_MODEL}),
    "generate": (
        {"model": "a model", "prompt": [1], "n_new": 2, "key": KEY},
        {
            "model": NO_MODEL,
            "prompt": NO_TEXT,
            "n_new": NO_COUNT,
            "key": NO_KEY,
            "sampling": ["greedy", 3],
        },
    ),
    "repeated_tokens": (
        {"key": KEY, "batch": 2, "length": 4, "d_vocab": 5},
        {"key": NO_KEY, "batch": NO_COUNT, "length": NO_COUNT, "d_vocab": NO_COUNT},
    ),
    "run": (
        {"model": "a model", "tokens": TEXT},
        {
            "model": NO_MODEL,
            "tokens": [*NO_TEXT[:6], *NO_TEXT[7:-1], [[1], []]],
            "interventions": NO_EDIT,
            "mask": [[[True]], np.ones((1, 4)), "x"],
        },
    ),
    "forward": (
        {"model": "a model", "tokens": TEXT},
        {"model": NO_MODEL, "tokens": NO_TEXT, "interventions": NO_EDIT, "cache": NO_EDIT},
    ),
    "ablate_head": (
        {"run": "a run", "head": (0, 1)},
        {"run": NO_RUN, "head": NO_HEAD, "positions": NO_PLACES, "edit": NO_EDIT},
    ),
    "patch_head": (
        {"run": "a run", "head": (0, 1), "output": np.ones((4, 4))},
        {
            "run": NO_RUN,
            "head": NO_HEAD,
            "output": not_like(np.ones((4, 4))),
            "positions": NO_PLACES,
            "edit": NO_EDIT,
        },
    ),
    "patch_activation": (
        {"run": "a run", "name": "q", "at": (0, 1), "value": np.ones((4, 2))},
        {
            "run": NO_RUN,
            "name": NO_NAME,
            "at": NO_HEAD,
            "value": not_like(np.ones((4, 2))),
            "positions": NO_PLACES,
            "edit": NO_EDIT,
        },
    ),
    "patch_path": (
        {"run": "a run", "head": (0, 1), "reader": None, "output": np.ones((4, 4))},
        {
            "run": NO_RUN,
            "head": NO_HEAD,
            "reader": [(0, 1), *NO_HEAD[:-1]],
            "output": not_like(np.ones((4, 4))),
            "reads": NO_NAME,
            "between": NO_NAME,
        },
    ),
    "path_effects": (
        {"run": "a run", "donor": "a run"},
        {
            "run": NO_RUN,
            "donor": NO_RUN,
            "metric": [3, "loss"],
            "reads": NO_NAME,
            "between": NO_NAME,
            "writers": NO_PLACES[:-1],
            "readers": NO_PLACES[:-1],
        },
    ),
    "patch_pattern": (
        {"run": "a run", "head": (0, 1), "pattern": np.eye(4)},
        {"run": NO_RUN, "head": NO_HEAD, "pattern": not_like(np.eye(4)), "edit": NO_EDIT},
    ),
    "patch_stream": (
        {"run": "a run", "layer": 0, "stream": np.ones((4, 4))},
        {"run": NO_RUN, "layer": NO_INDEX, "stream": not_like(np.ones((4, 4))), "edit": NO_EDIT},
    ),
    "freeze": ({"trace": "a trace"}, {"trace": ["a run", None, "x"], "gates": NO_NAME}),
    "token_losses": ({}, {"run": NO_RUN}),
    "component_logits": ({}, {"run": NO_RUN}),
    "term_losses": ({}, {"run": NO_RUN}),
    "expand": (
        {"run": "a run"},
        {"run": NO_RUN, "mlps": NO_NAME, "gates": NO_NAME, "max_paths": NO_COUNT[:-1]},
    ),
    "ledger": (
        {"run": "a run", "token": 1},
        {
            "run": NO_RUN,
            "token": NO_INDEX,
            "minus": NO_INDEX,
            "position": NO_INDEX,
            "k": NO_COUNT,
            "mlps": NO_NAME,
            "budget": NO_COUNT,
        },
    ),
    "explain": (
        {"run": "a run"},
        {
            "run": NO_RUN,
            "token": NO_INDEX,
            "minus": NO_INDEX,
            "position": NO_INDEX,
            "name": [3, "x", ["a"]],
            "n_next": NO_COUNT,
            "n_paths": NO_COUNT[1:],
            "n_heads": NO_COUNT,
            "n_neurons": NO_COUNT[1:],
            "budget": NO_COUNT,
        },
    ),
    "contrast": (
        {"run": "a run", "other": "a run", "token": 1},
        {
            "run": NO_RUN,
            "other": NO_RUN,
            "token": NO_INDEX,
            "minus": NO_INDEX,
            "position": NO_INDEX,
        },
    ),
    "explanation_page": ({}, {"explained": ["a run", None, 3]}),
    "patch_effects": (
        {"run": "a run", "donor": "a run"},
        {
            "run": NO_RUN,
            "donor": NO_RUN,
            "metric": [3, "loss"],
            "site": NO_NAME,
            "data": [3],
            "position": [-1],
            "layers": NO_PLACES[:-1],
            "positions": NO_PLACES[:-1],
        },
    ),
    "ablation_effects": (
        {"run": "a run"},
        {"run": NO_RUN, "metric": [3, "loss"], "data": [3], "layers": NO_PLACES[:-1]},
    ),
    "composition": (
        {"model": "a model"},
        {"model": NO_MODEL, "offset": NO_COUNT[2:-1], "block_entries": NO_COUNT[:-1]},
    ),
    "composition_scores": (
        {"model": "a model"},
        {"model": NO_MODEL, "offset": NO_COUNT[2:-1], "block_entries": NO_COUNT[:-1]},
    ),
    "induction_scores": ({"model": "a model"}, {"texts": [*NO_TEXT, TEXT]}),
    "token_qk": ({"model": "a model"}, {"model": NO_MODEL, "offset": NO_COUNT[2:]}),
    "token_ov": ({}, {"model": NO_MODEL}),
    "expected_loss": (
        {"weights": TOY, "density": np.full(3, 0.1), "importance": np.ones(3)},
        {
            "weights": [TOY.W, None, TOY._replace(b=jnp.zeros(2)), TOY._replace(W=TOY.W * NAN)],
            "density": [*not_like(np.ones(3)), np.full(3, 1.5), 0.1],
            "importance": [*not_like(np.ones(3)), -np.ones(3)],
            "n_terms": NO_COUNT,
            "convention": NO_NAME,
        },
    ),
    "find_optimum": (
        {"key": KEY, "density": np.full(3, 0.1), "importance": np.ones(3), "n_hidden": 1},
        {
            "key": NO_KEY,
            "density": [*not_like(np.ones(3))[2:], np.full(3, 1.5), 0.1],
            "importance": [*not_like(np.ones(3)), -np.ones(3)],
            "n_hidden": NO_COUNT,
            "n_restarts": [*NO_COUNT, 10**12],
            "starts": [TOY, TOY.W],
            "init_scale": [0, *NO_SHARE],
            "n_polished": NO_COUNT,
            "tolerance": NO_SHARE,
        },
    ),
    "dimensionality": (
        {},
        {"W": [x for i, x in enumerate(not_like(np.ones((2, 3)))) if i != 2]},
    ),
    "MapSpec": (
        {"family": "gaussian", "dim_in": 3, "dim_out": 2},
        {"family": NO_NAME, "dim_in": NO_COUNT, "dim_out": NO_COUNT},
    ),
    "project": (
        {"key": KEY, "points": POINTS, "spec": "a map"},
        {
            "key": NO_KEY,
            "points": [x for i, x in enumerate(not_like(POINTS)) if i != 1],
            "spec": [None, "gaussian"],
            "block": NO_COUNT[:-1],
        },
    ),
    "distortion": (
        {"points": POINTS, "images": POINTS},
        {
            "points": [*not_like(POINTS)[:2], *not_like(POINTS)[3:], POINTS[:1]],
            "images": [*not_like(POINTS)[:2], *not_like(POINTS)[3:], POINTS[:1]],
            "bounds": [[-0.1, 0.1], "ab", [[NAN, 1]], None],
            "limits": [(1, -1), (1,), (NAN, 1.0), "ab", None],
            "measure": NO_NAME,
            "block": NO_COUNT,
            "n_bins": NO_COUNT[1:],
            "near_capacity": NO_COUNT[1:],
        },
    ),
    "jl_dimension": (
        {"n_points": 100, "epsilon": 0.3},
        {
            "n_points": [*NO_COUNT, 1],
            "epsilon": [0, 1, *NO_SHARE, [0.1, 0.2]],
            "delta": [0, 1, *NO_SHARE, [0.1, 0.2]],
            "tail": NO_NAME,
        },
    ),
    "train": (
        {"problem": Halved(), "members": 2, "steps": 4, "key": KEY},
        {
            "problem": [None, len],
            "members": NO_COUNT,
            "steps": NO_COUNT,
            "key": NO_KEY,
            "optim": ["adam", 3],
            "every": [*NO_COUNT, 3],
            "probe": [3, "x"],
            "folder": [3],
        },
    ),
}
# Packages, and classes of plain fields.
NO_CASES = {
    *("Chain", "Estimate", "Interventions", "Kron", "Model", "Record", "Run"),
    "TiedWeights",
}


@cache
def made(what: str) -> Any:
    if what == "a map":
        return cx.MapSpec("gaussian", 3, 2)
    model = cx.init(KEY, SPEC)
    if what == "a model":
        return model
    run = cx.run(model, TEXT, outputs=True)
    return run if what == "a run" else run.trace


def real(value: Any) -> Any:
    return made(value) if isinstance(value, str) and value.startswith("a ") else value


def test_every_function_has_its_row() -> None:
    functions = {name for name in dir(cx) if not hasattr(getattr(cx, name), "__path__")}
    assert functions - set(CASES) == NO_CASES


@pytest.mark.parametrize(
    ("name", "argument"), [(name, arg) for name, (_, bad) in CASES.items() for arg in bad]
)
def test_what_is_no_such_argument_is_named(name: str, argument: str) -> None:
    valid, refused = CASES[name]
    given = {key: real(value) for key, value in valid.items()}
    wrong = []
    for value in refused[argument]:
        try:
            getattr(cx, name)(**given | {argument: real(value)})
            wrong.append(f"{value!r} is taken")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1].filename
            text = f"{type(error).__name__}: {error}"
            own = f"{os.sep}circuitax{os.sep}" in where
            named = isinstance(error, ValueError) and argument in str(error)
            if not own or not named or "\n" in text or len(text) > 400:
                wrong.append(f"{value!r}: {text} [{where}]")
    assert not wrong, "\n".join(wrong)
