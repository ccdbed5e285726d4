"""Mistakes of a first hour, as a user meets them: each is one line that says what to do.

They are made in one process without the shape checks of the test suite, which would speak first.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

MADE = """
import json, sys
import jax, jax.numpy as jnp
import circuitax as cx
from circuitax.training.ensemble import new_members

spec = cx.TransformerSpec(d_vocab=5, n_ctx=4, n_layers=1, n_heads=2, d_model=4)
model = cx.init(jax.random.key(0), spec)
run = cx.run(model, [1, 2, 3], outputs=True)
key = jax.random.key(0)
TOY = cx.TiedWeights(jnp.ones((2, 3)), jnp.zeros(3))
class Nothing:
    init = batch = loss = len
MAP = cx.MapSpec("rademacher", 4, 2)
MORE = {
    "ledger": {"token": 1},
    "explain": {},
    "ablate_head": {"head": (0, 0)},
    "patch_head": {"head": (0, 0), "output": 0},
    "patch_path": {"head": (0, 0), "reader": None, "output": 0},
    "patch_pattern": {"head": (0, 0), "pattern": 0},
    "patch_stream": {"layer": 0, "stream": 0},
}
MISTAKES = {
    "seed for a key": lambda: cx.init(0, spec),
    "array for a key": lambda: cx.project(jnp.zeros(2), jnp.ones((3, 4)), MAP),
    "no spec": lambda: cx.init(key, 3),
    "no hyper": lambda: new_members(key, 0.1, None),
    "two rows": lambda: cx.find_optimum(key, [[[0.1]]], [[[1.0]]], n_hidden=1),
    "unlike rows": lambda: cx.find_optimum(key, [0.1, 0.2], [1.0], n_hidden=1),
    "no record": lambda: cx.Record.load("head_width"),
    "text for ids": lambda: cx.run(model, "hello"),
    "ragged texts": lambda: cx.run(model, [[1, 2], [3]]),
    "name for a map": lambda: cx.project(key, jnp.ones((3, 4)), "gaussian"),
    "one density": lambda: cx.expected_loss(TOY, 0.1, 1.0),
    "no matrix": lambda: cx.dimensionality(jnp.ones(3)),
    "head without layer": lambda: cx.ablate_head(run, 1),
    "name of a head": lambda: cx.patch_head(run, "0.1", jnp.ones((3, 4))),
    "patterns for all": lambda: cx.run(model, [1, 2, 3], cx.Interventions(patterns=run.patterns)),
    "half a dimension": lambda: cx.MapSpec("gaussian", 20.5, 5),
    "unlike points": lambda: cx.project(key, [[1.0, 2.0]], MAP),
    "one bound": lambda: cx.distortion([[0.0], [1.0]], [[0.0], [2.0]], [-0.1, 0.1]),
    "lists": lambda: cx.distortion([[0.0], [1.0]], [[0.0], [2.0]], [[-0.1, 0.1]]),
    "name for optim": lambda: cx.train(Nothing(), 2, 4, key=key, optim="adam"),
    "init of a key": lambda: cx.train(Nothing(), 2, 4, key=key),
    "half a hidden": lambda: cx.find_optimum(key, [0.1, 0.2], [1.0, 1.0], n_hidden=1.5),
    "text for a token": lambda: cx.ledger(run, token="a"),
    "seed for a text": lambda: cx.generate(model, [1], 2, key=0),
    "array for weights": lambda: cx.expected_loss(TOY.W, jnp.full(3, 0.1), jnp.ones(3)),
    "layers to compose": lambda: cx.composition(cx.init(key, spec.replace(n_layers=0))),
    "layers to explain": lambda: cx.explain(cx.run(cx.init(key, spec.replace(n_layers=0)), [1])),
    "no path": lambda: cx.patch(run, cx.run(model, [[1, 2, 3]])),
}
for name in MORE:
    MISTAKES[f"model for {name}"] = lambda name=name: getattr(cx, name)(model, **MORE[name])
for name in ("composition", "composition_scores", "fold_norms", "token_qk", "token_ov"):
    MISTAKES[f"run for {name}"] = lambda name=name: getattr(cx, name)(run)
MISTAKES["run for forward"] = lambda: cx.forward(run, [1])
MISTAKES["run for run"] = lambda: cx.run(run, [1])
for name in ("expand", "component_logits", "term_losses", "token_losses", "ablate_each"):
    MISTAKES[f"model for {name}"] = lambda name=name: getattr(cx, name)(model)
said = {}
for name, make in MISTAKES.items():
    try:
        make()
        said[name] = "nothing"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("user")
    for run in ("tiny-1", "quick-2"):
        (folder / "results" / "head_width" / run).mkdir(parents=True)
        (folder / "results" / "head_width" / run / "data.nc").write_text("")
    made = subprocess.run(
        [sys.executable, "-c", MADE], cwd=folder, capture_output=True, text=True, check=True
    )
    return dict(json.loads(made.stdout))


RUN_WANTED = r"ValueError: run is a Model, must be a Run: cx\.run\(model, tokens, outputs=True\)"


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            "seed for a key",
            r"ValueError: key=0 must be a random key, such as jax\.random\.key",
        ),
        ("array for a key", r"ValueError: key=.* must be a random key"),
        ("no spec", "ValueError: spec=3 must be a TransformerSpec"),
        ("no hyper", r"ValueError: hyper=None must have an axis of members.*jnp\.arange\(n\)"),
        (
            "two rows",
            r"density has shape \(1, 1, 1\), must be \[n_features\] or \[c",
        ),
        ("unlike rows", r"importance has shape \(1,\), density has \(2,\)"),
        ("no record", r"folder='head_width' must be that of a run: there are results/head_width/"),
        ("head without layer", r"ValueError: head=1 must be a pair \(layer, head\)"),
        ("name of a head", r"ValueError: head='0\.1' must be a pair \(layer, head\)"),
        ("patterns for all", "needs interventions.pattern_frozen, the heads that it is for"),
        ("half a dimension", r"ValueError: dim_in=20\.5 must be an integer"),
        ("unlike points", r"ValueError: points has shape \(1, 2\), .* spec\.dim_in=4"),
        ("one bound", r"ValueError: bounds has shape \(2,\), must be rows \(lower, upper\)"),
        ("lists", "^nothing$"),
        ("name for optim", r"ValueError: optim='adam' must be an OptimSpec, such as circuitax\."),
        ("init of a key", r"ValueError: problem is a Nothing .* called as init\(key, hyper\)"),
        ("half a hidden", r"ValueError: n_hidden=1\.5 must be an integer"),
        ("text for a token", "ValueError: token='a' must be an integer"),
        ("seed for a text", "ValueError: key=0 must be a random key"),
        ("array for weights", r"ValueError: weights is a .*, must be TiedWeights\(W, b\)"),
        ("layers to compose", "ValueError: model has no layers, must have heads"),
        ("layers to explain", r"ValueError: run\.model has no layers: .* see cx\.ledger"),
        ("no path", r"ValueError: donor has 1 texts, must have one: .* take donor\[i\]"),
        (
            "text for ids",
            r"tokens='hello' must be ids: cx\.load_tokenizer\(source\)\.encode",
        ),
        ("ragged texts", "ValueError: tokens is a list, must be integers, texts of one length"),
        ("name for a map", "ValueError: spec='gaussian' must be a MapSpec"),
        ("one density", r"ValueError: density has shape \(\), must be \(3,\)"),
        ("no matrix", r"ValueError: W has shape \(3,\), must be \[n_hidden, n_features\]"),
        *(
            (f"run for {name}", "ValueError: model is a Run, must be a Model: take run.model")
            for name in (
                "composition",
                "composition_scores",
                "fold_norms",
                "token_qk",
                "token_ov",
                "forward",
                "run",
            )
        ),
        *(
            (f"model for {name}", RUN_WANTED)
            for name in (
                "ledger",
                "explain",
                "expand",
                "component_logits",
                "term_losses",
                "token_losses",
                "ablate_each",
                "patch_head",
                "ablate_head",
                "patch_stream",
                "patch_pattern",
                "patch_path",
            )
        ),
    ],
)
def test_a_mistake_is_told_in_one_line(said: dict[str, str], mistake: str, message: str) -> None:
    assert re.search(message, said[mistake]), said[mistake]
    assert "\n" not in said[mistake]


def test_the_runs_below_results_are_listed(said: dict[str, str]) -> None:
    assert all(run in said["no record"] for run in ("tiny-1", "quick-2"))
    assert Path("results/head_width/tiny-1").as_posix() in said["no record"]
