"""The notebooks run, and what their text says is what they compute."""

import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from circuitax.lab import runs

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def cells(name: str) -> list[dict[str, Any]]:
    """The cells of code of a notebook."""
    text = (ROOT / "docs/notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def executed(name: str) -> dict[str, Any]:
    """The names that a notebook has at its end, and what it ``printed``."""
    text = "\n\n".join("".join(cell["source"]) for cell in cells(name))
    found: dict[str, Any] = {}
    with matplotlib.rc_context({"backend": "agg"}), redirect_stdout(StringIO()) as out:
        exec(compile(text, name, "exec"), found)
    plt.close("all")
    return found | {"printed": out.getvalue()}


@pytest.mark.parametrize("path", sorted((ROOT / "docs/notebooks").glob("*.ipynb")), ids=str)
def test_a_notebook_keeps_its_outputs_and_says_what_its_pictures_show(path: Path) -> None:
    outputs = [(cell, output) for cell in cells(path.stem) for output in cell["outputs"]]
    drawn = [cell for cell, output in outputs if "image/png" in output.get("data", {})]
    assert drawn and all("set_label(" in "".join(cell["source"]) for cell in drawn)
    said = json.dumps([output for _, output in outputs])
    assert "Error" not in re.findall(r'"ename": "(\w+)', said) and "not installed" not in said


def test_one_hot() -> None:
    names = executed("one_hot")
    np.testing.assert_allclose(names["probabilities"], names["bigrams"][[0, 1, 2, 3]], rtol=1e-5)
    ranks = names["ranks"]
    assert ranks[5] < 1e-4 < 1 < ranks[3] < ranks[1], "rank 5 is exact, less is not"


def test_attention() -> None:
    names = executed("attention")
    np.testing.assert_allclose(names["pattern"], names["weights"], atol=1e-6)
    np.testing.assert_allclose(names["weights"][2], [0.2483, 0.2483, 0.5035], atol=5e-5)
    assert names["late"].sum(axis=1)[1] == pytest.approx(0.599, abs=5e-4)
    assert names["same"] < 1e-6


def test_paths() -> None:
    names = executed("paths")
    np.testing.assert_allclose(names["both"], [[2, 0], [1.5, 0]])
    np.testing.assert_allclose(names["term"] @ names["I"], names["both"], atol=1e-12)
    assert len(names["expansion"].terms) == 4**3 and names["left"] < 1e-12


@pytest.mark.slow
def test_an_explained_sentence() -> None:
    names = executed("explained_sentence")
    assert names["explained"].paths.complete
    assert int(names["record"].complete.sum()) == 100
    assert "no path that is not listed has more than" in names["printed"]


@pytest.mark.slow
def test_a_phase_diagram() -> None:
    names = executed("phase_diagram")
    proof, ignored = names["proof"], 0.8 / 3 - 0.8**2 / 4
    expected = np.minimum(names["importance"], 1) * ignored
    assert (proof.lower <= expected).all() and (expected <= proof.upper + 1e-12).all()
    assert proof.possible.argmax(axis=1).tolist() == [0, 0, 1, 1]
    assert int(names["proven"].sum()) == 576 and 0.2 < names["between"].min() < 0.21


@pytest.mark.slow
def test_five_features() -> None:
    names = executed("five_features")
    p_dense, p_rare = 0.5, 0.05
    loss, orthogonal, pentagon = (names[n] for n in ("loss", "orthogonal", "pentagon"))
    assert loss(orthogonal[p_dense], p_dense) < loss(pentagon, p_dense)
    assert loss(orthogonal[p_rare], p_rare) > 4 * loss(pentagon, p_rare)
    # Three features given up with the mean as answer: variance of U on with probability p.
    assert loss(orthogonal[p_rare], p_rare) == pytest.approx(3 * (0.05 / 3 - 0.025**2), rel=1e-6)
    losses = np.sort(names["losses"])
    assert losses[:4] == pytest.approx(0.0089, abs=2e-4) and losses[-1] > 1.5 * losses[0]
    np.testing.assert_allclose(names["cx"].dimensionality(names["best"].W), 0.4, atol=2e-3)
    (ax, _) = names["axes"]
    assert len(ax.texts) == 5
    # The accepted networks: the record's own losses, and the best of them lies on ours.
    said = names["sampled"].loss.values
    np.testing.assert_allclose(names["accepted"], said, rtol=1e-5)
    assert len(said) >= 8 and names["optimum"] <= said.min() < 1.01 * names["losses"].min()
    assert names["apart"].max() < 0.02 < np.abs(names["W"][0] - names["best"].W).max()
    shown = names["ax"].lines[0].get_xydata()
    np.testing.assert_allclose(shown, names["turned"].T)


@pytest.mark.slow
def test_skip_trigrams() -> None:
    names = executed("skip_trigrams")
    ids, qk, ov, direct = names["ID"], names["qk"], names["ov"], names["direct"]
    assert names["losses"][-1] < 0.05 < np.log(2) < names["losses"][0]
    for present in ("in", "at"):
        scores = {word: qk[ids[present], ids[word]] for word in names["WORDS"][:5]}
        fillers = max(scores[word] for word in ("it", "them", "always"))
        assert min(scores["keep"], scores["hold"]) > fillers
    for source, other in (("keep", "hold"), ("hold", "keep")):
        ends = [names["ENDS"][source, present] for present in ("in", "at")]
        others = [names["ENDS"][other, present] for present in ("in", "at")]
        raised = ov[ids[source]]
        # The bug: both ends are raised, whatever the present word.
        assert min(raised[ids[e]] for e in ends) > 3 > -3 > max(raised[ids[e]] for e in others)
        for i, present in enumerate(("in", "at")):
            assert direct[ids[present], ids[ends[i]]] > direct[ids[present], ids[ends[1 - i]]]
    # A table and a test of each row, of the model of real text: most sources do what it says.
    lines = names["printed"].splitlines()
    assert len(lines) >= 24 and "' raise'" in names["printed"] and "'Error'" in names["printed"]
    assert names["found"].shape == (12, len(names["names"]) - 1)
    assert np.median(names["above"]) < 10 and (names["above"] < 10).mean() > 0.6


@pytest.mark.slow
def test_an_induction_head() -> None:
    names = executed("induction_head")
    scores, K, found = names["scores"], names["K"], names["found"]
    assert scores.previous[0, 0] > 0.99 and np.delete(scores.previous.ravel(), 0).max() < 0.5
    assert scores.prefix[1, 0] > 0.99 and np.delete(scores.prefix.ravel(), 3).max() < 0.5
    assert scores.loss_by_position[6:].max() < 0.05 < scores.loss_by_position[:5].min()
    assert np.unravel_index(K[0, :, 1, :].argmax(), (3, 3)) == (0, 0)
    assert names["guess"] == 2 and found.complete
    assert found.values[0] == pytest.approx(8, abs=0.01) and "1.0 " in names["printed"]
    reacting, frozen = names["reacting"], names["frozen"]
    assert reacting[0, 0] < -5 and abs(frozen[0, 0]) < 0.05
    assert reacting[1, 0] < -5 and frozen[1, 0] < -5
    # Models that learned on repeats have such heads in the second layer; those of plain text not.
    prefix, previous = (names["learned"][name].max("head") for name in ("prefix", "previous"))
    assert (prefix.sel(layer=1) > 0.7).all() and (prefix.sel(layer=0) < 0.2).all()
    assert (previous.sel(layer=0) > 0.4).all() and (previous.sel(layer=1) < 0.2).all()
    read, scored = names["read"], names["scored"]
    assert read.prefix.shape == (2, 4) and read.prefix.max() < read.chance < 0.025
    assert names["first"] == pytest.approx(names["second"], abs=0.5) and names["first"] > 6
    assert scored.sizes == {"member": 8, "head": 4} and float(scored.max()) < 0.05


def test_without_accepted_runs_one_line_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs.accepted_run("toy_intro").parts[-2:] == ("toy_intro", "accepted")
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path))
    assert runs.accepted_run("toy_intro").is_relative_to(ROOT), "results are kept elsewhere"
    here = tmp_path / "toy_intro/accepted"
    here.mkdir(parents=True)
    (here / runs.PROVENANCE).write_text("{}")
    assert runs.accepted_run("toy_intro") == here
    monkeypatch.setattr(runs, "checkout", lambda: tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="experiment=kgons must have an accepted run: those of a"):
        runs.accepted_run("kgons")
