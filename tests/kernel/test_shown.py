"""What objects print: names and numbers a person asks for, in at most twenty lines."""

import html
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import treescope

import circuitax as cx
from circuitax.circuits.patching import Effects
from circuitax.circuits.paths.components import Components
from circuitax.kernel.interventions import NormScales, Trace

LARGE = np.arange(30 * 9.0).reshape(30, 9)


def printed(value: object) -> list[str]:
    lines = repr(value).splitlines()
    assert len(lines) <= 20 and max(map(len, lines)) <= 100
    return lines


def test_a_trace_prints_shapes_and_leaves_out_what_is_not_there() -> None:
    scales = NormScales(final=jnp.ones(5))
    lines = printed(Trace(jnp.zeros((3, 5, 8)), jnp.zeros((2, 4, 5, 5)), scales))
    assert [line.split() for line in lines[1:]] == [
        ["streams", "float32[3,", "5,", "8]"],
        ["patterns", "float32[2,", "4,", "5,", "5]"],
        ["scales.final", "float32[5]"],
    ]


def test_effects_print_the_largest_by_name() -> None:
    lines = printed(Effects(jnp.array([[0.5, -2.0]]), jnp.array([1.25])))
    assert [line.split() for line in lines[2:]] == [
        ["head", "0.1", "-2"],
        ["mlp", "0", "+1.25"],
        ["head", "0.0", "+0.5"],
    ]
    large = printed(Effects(jnp.asarray(LARGE)))
    assert large[2].split() == ["head", "29.8", "+269"] and len(large) == 14


@pytest.mark.parametrize("inside", [jax.jit, jax.vmap, jax.eval_shape])
def test_what_is_not_known_yet_prints_shapes(inside) -> None:
    seen: list[str] = []

    def show(heads: jax.Array) -> jax.Array:
        seen.extend(printed(Effects(heads)))
        seen.extend(printed(Components(heads, None, heads, None, None)))
        return heads

    (inside if inside is not jax.eval_shape else lambda f: lambda x: jax.eval_shape(f, x))(show)(
        jnp.zeros((1, 3, 4))
    )
    assert "float32[" in seen[1]


def facts(frame: str) -> dict:
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    page = html.unescape(page)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(data))


def make(seed: int = 0) -> cx.Model:
    spec = cx.TransformerSpec(d_vocab=11, n_ctx=8, n_layers=2, n_heads=2, d_model=8, d_mlp=4)
    return cx.init(jax.random.key(seed), spec.replace(positions="learned"))


def test_a_model_is_a_tree_of_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "treescope" in make()._repr_html_()
    monkeypatch.setattr(treescope, "render_to_html", treescope.render_to_text)
    tree = make()._repr_html_()
    assert "TransformerSpec(d_vocab=11, n_ctx=8, n_layers=2" in tree
    assert "W_out=<jax.Array float32(2, 4, 8)" in tree and "'W_U': <jax.Array" in tree
    monkeypatch.setitem(sys.modules, "treescope", None)
    assert make()._repr_html_() is None
    monkeypatch.undo()
    seen = []
    jax.jit(lambda model: seen.append(model._repr_html_()))(make())
    assert seen == [None]


def test_a_run_shows_where_its_heads_look() -> None:
    run = cx.run(make(), [3, 1, 4, 1])
    shown = facts(run._repr_html_())
    assert shown["tokens"] == ["3", "1", "4", "1"] and shown["heads"][3] == "1.1"
    A = np.rint(100 * np.asarray(run.patterns[1, 1]))
    assert shown["patterns"][3] == [list(A[i, : i + 1]) for i in range(4)]
    batch = cx.run(make(), [[3, 1, 4, 1], [5, 9, 2, 6]])
    assert facts(batch._repr_html_())["patterns"] == shown["patterns"]
    assert "text 0 of 2" in batch._repr_html_()
    seen = []
    jax.vmap(lambda text: seen.append(cx.run(make(), text)._repr_html_()))(batch.tokens)
    assert seen == [None]
