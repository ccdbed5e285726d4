"""Every recipe of the cookbook is run as it stands, and what it computes is right."""

import re
import shlex
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import xarray as xr

import circuitax as cx
from circuitax.commands import job
from circuitax.config import catalogue
from circuitax.lab import runs
from circuitax.superposition.enumeration import enumerated_loss

ROOT = Path(__file__).parents[2]
RECIPES = {
    section.splitlines()[0]: re.findall(r"```(?:python)?\n(.*?)```", section, flags=re.DOTALL)
    for section in (ROOT / "docs/cookbook.md").read_text(encoding="utf-8").split("\n## ")[1:]
}
SWEEP = "Sweep your experiment, and collect the runs"
Names = dict[str, Any]


def a_llama_file(names: Names, printed: str) -> None:
    logits = np.asarray(names["run"].logits)[-1]
    total = next(line for line in printed.splitlines() if line.startswith("logit of token 5 minus"))
    assert float(total.split()[-1]) == pytest.approx(logits[5] - logits[3], abs=1e-4)
    opened = cx.run(cx.load_pretrained(names["folder"]), names["run"].tokens).logits[-1]
    np.testing.assert_allclose(jax.nn.softmax(logits), jax.nn.softmax(opened), atol=1e-5)


def what_you_have(names: Names, printed: str) -> None:
    assert all(word in printed for word in ("patterns", "z", "by last head"))
    pattern, W_Q = np.asarray(names["pattern"]), np.asarray(names["W_Q"])
    np.testing.assert_allclose(np.tril(pattern).sum(axis=-1), 1, atol=1e-5)
    normed = names["run"].streams[1]  # before its norm, whose gain and offset are not folded
    assert pattern.shape == (8, 8) and W_Q.shape == (2, 4, normed.shape[-1], 4)


def a_pattern(names: Names, printed: str) -> None:
    patterns, before = names["edited"].patterns, names["run"].patterns
    np.testing.assert_allclose(patterns[0, 1, 3], [0.25] * 4 + [0] * 4, atol=1e-6)
    np.testing.assert_array_equal(patterns[0, 2], before[0, 2])
    assert (np.abs(patterns[1] - before[1]).max(axis=(1, 2)) > 1e-3).all()


def a_circuit(names: Names, printed: str) -> None:
    run, other, circuit = (names[name] for name in ("run", "other", "circuit"))
    clamped = cx.run(names["model"], run.tokens, names["edit"], outputs=True)
    for layer in range(2):
        for head in range(4):
            if (layer, head) not in circuit:
                want = other.head_outputs[layer, head]
                np.testing.assert_allclose(clamped.head_outputs[layer, head], want, atol=1e-6)
    np.testing.assert_allclose(clamped.head_outputs[0, 3], run.head_outputs[0, 3], atol=1e-6)
    assert np.abs(clamped.head_outputs[1, 2] - run.head_outputs[1, 2]).max() > 1e-3
    assert len(set(re.findall(r"\d\.\d+", printed))) == 3


def a_path(names: Names, printed: str) -> None:
    """The last of the three: the reader's values, and no other head's output, move."""
    model, run, other = names["model"], names["run"], names["other"]
    moved = cx.run(model, run.tokens, names["edit"], outputs=True).head_outputs - run.head_outputs
    change = np.asarray(other.head_outputs[0, 1] - run.head_outputs[0, 1], float)
    stream, attention = np.asarray(run.streams[1], float), model.blocks.attention
    width = np.sqrt(stream.var(axis=-1, keepdims=True) + model.spec.norm_eps)
    read = (
        (change - change.mean(axis=-1, keepdims=True))
        / width
        * np.asarray(model.blocks.attention_norm.gain[1])
    )
    want = run.patterns[1, 2] @ read @ attention.W_V[1, 2] @ attention.W_O[1, 2]
    np.testing.assert_allclose(moved[1, 2], want, atol=1e-5)
    assert np.abs(want).max() > 1e-3
    np.testing.assert_allclose(moved.at[1, 2].set(0), 0, atol=2e-6)  # rounding
    assert len(set(re.findall(r"\d\.\d+", printed))) == 3


def a_gradient(names: Names, printed: str) -> None:
    score, model, slope = (names[name] for name in ("k_composition", "model", "slope"))
    ahead, back = (
        jax.tree.map(lambda weight, up, h=h: weight + h * up, model, slope) for h in (0.01, -0.01)
    )
    size = sum(float(jnp.sum(up**2)) for up in jax.tree.leaves(slope))
    assert (score(ahead) - score(back)) / 0.02 == pytest.approx(size, rel=0.02)
    before, after = map(float, printed.split("->"))
    assert after > before + 0.01


def a_loss(names: Names, printed: str) -> None:
    metrics, W = names["log"].metrics, np.asarray(names["log"].models)
    assert (metrics.loss[-1] < metrics.loss[0] / 2).all()
    np.testing.assert_allclose(metrics.penalty[-1], 1e-3 * np.abs(W).sum(axis=(1, 2)), rtol=0.05)
    assert (metrics.penalty[0] < metrics.penalty[-1] / 2).all()


def a_probe(names: Names, printed: str) -> None:
    log = names["log"]
    assert log.metrics.step.values.tolist() == [20, 40]
    for i in range(2):
        want = names["scores"](log.models[i])
        np.testing.assert_allclose(log.metrics.probe[-1, i], want, rtol=1e-4)
    assert np.abs(log.metrics.probe[1] - log.metrics.probe[0]).max() > 1e-4


def a_tuned_model(names: Names, printed: str) -> None:
    log, tuned = names["log"], names["log"].models[0]
    assert log.metrics.loss[-1, 0] < log.metrics.loss[0, 0] / 2
    found = cx.run(tuned, jnp.arange(8)).logits
    assert jnp.argmax(found[:-1], axis=-1).tolist() == list(range(1, 8))
    assert jnp.abs(tuned.W_E - names["model"].W_E).max() > 1e-3


def an_optimum(names: Names, printed: str) -> None:
    found = names["found"]
    assert float(found.loss[2]) == pytest.approx(0.0089036, rel=1e-4)  # the pentagon's
    for i, density in enumerate((0.8, 0.3, 0.05)):
        W, b = np.asarray(found.weights.W[i]), np.asarray(found.weights.b[i])
        exact = enumerated_loss(W, b, np.full(5, density), np.ones(5))
        assert float(found.loss[i]) == pytest.approx(exact, abs=1e-7)
    assert [float(x) for x in re.findall(r"0\.\d+", printed.splitlines()[-1])] == [0.4] * 5


def some_distances(names: Names, printed: str) -> None:
    X, Y = (np.asarray(names[name], float) for name in ("points", "images"))
    i, j = np.triu_indices(len(X), 1)
    ratio = np.linalg.norm(Y[i] - Y[j], axis=1) / np.linalg.norm(X[i] - X[j], axis=1)
    squared = ratio**2 - 1
    *_, cubic, chernoff, exact = (int(line.split()[-1]) for line in printed.split("\n")[-4:-1])
    assert exact < chernoff < cubic
    _, head, row, *_ = printed.strip().splitlines()
    low, median, mean, high, deviation = row.split()[1:]
    want = [squared.min(), np.median(squared), squared.mean(), squared.max(), squared.std()]
    given = [float(x) for x in (low, median, mean, high, deviation)]
    assert head.split() == ["low", "median", "mean", "high", "deviation"]
    assert given == pytest.approx(want, abs=4e-3)  # the median to a cell of the histogram
    counts = re.findall(r"bound \d: ([\d,]+) below, ([\d,]+) above", printed)
    for bound, (below, above) in zip((0.2, 0.4), counts, strict=True):
        for count, failed in ((below, squared < -bound), (above, squared > bound)):
            assert int(count.replace(",", "")) == pytest.approx(failed.sum(), abs=3)


def an_experiment(names: Names, printed: str) -> None:
    (line,) = re.findall(r"array\(\[(.*)\]\)", printed)
    for width, mean in zip((4, 16, 64), map(float, line.split(",")), strict=True):
        # Correlations of rows have mean square 1 / (width - 1).
        assert mean == pytest.approx((2 / np.pi / (width - 1)) ** 0.5, rel=0.1)


CHECKS: list[Callable[[Names, str], None]] = [
    a_llama_file,
    what_you_have,
    a_pattern,
    a_path,
    a_circuit,
    a_gradient,
    a_loss,
    a_probe,
    a_tuned_model,
    an_optimum,
    some_distances,
    an_experiment,
]
PYTHON = [title for title in RECIPES if title != SWEEP]


def test_there_are_thirteen_recipes_of_at_most_fifteen_lines() -> None:
    assert len(RECIPES) == 13 and len(CHECKS) == len(PYTHON) == 12
    for title, blocks in RECIPES.items():
        (code,) = blocks
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= 15 and max(map(len, lines)) <= 100, title


@pytest.mark.parametrize(
    ("title", "check"),
    list(zip(PYTHON, CHECKS, strict=True)),
    ids=[check.__name__ for check in CHECKS],
)
def test_a_recipe_does_what_it_says(
    title: str,
    check: Callable[[Names, str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as in a user's session
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    names: Names = {}
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(RECIPES[title][0], title, "exec"), names)
    check(names, out.getvalue())


@pytest.mark.slow
def test_an_experiment_is_swept_and_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "results"))
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)
    for line in RECIPES[SWEEP][0].splitlines():
        word, *rest = shlex.split(line)
        if word == "export":
            name, _, value = rest[0].partition("=")
            assert name == catalogue.VARIABLE
            monkeypatch.setenv(name, value)
            continue
        command = rest[1].removeprefix("experiments.")
        assert not import_module(f"circuitax.commands.{command}").main(rest[2:])
    (merged,) = (tmp_path / "results/my_sweep/collected").rglob("data.nc")
    assert xr.open_dataset(merged, engine="h5netcdf").dim_in.values.tolist() == [16, 64]
