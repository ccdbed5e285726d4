"""Objects in a notebook: what their HTML holds is what they hold."""

import html
import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import treescope
import xarray as xr

import circuitax as cx
from circuitax.records.claims import near


def facts(frame: str) -> dict:
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    page = html.unescape(page)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(data))


def numbers(table: str) -> list[float]:
    return [float(x.replace("−", "-")) for x in re.findall(r">([+−][\d.]+)<", table)]


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


def test_paths_add_up_to_the_logit() -> None:
    run = cx.run(make(), [3, 1, 4, 1], outputs=True)
    token = int(jnp.argmax(run.logits[-1]))
    for shown in (cx.ledger(run, token=token, k=3), cx.expand(run)):
        *terms, total = numbers(shown._repr_html_())
        np.testing.assert_allclose(total, run.logits[-1, token], atol=1e-4)
        np.testing.assert_allclose(sum(terms), total, atol=1e-3)
    ledger = cx.ledger(run, token=token, k=3)
    np.testing.assert_allclose(numbers(ledger._repr_html_())[:3], ledger.values, atol=5e-5)
    found = cx.expand(run)
    paths = dict(zip(found.paths, found.terms, strict=True))
    assert len(found.paths) == 9 and found.paths[0] == ()
    alone = cx.circuits.paths.expansion.path_stream(
        cx.circuits.paths.frozen.frozen_model(run), ((0, 1), (1, 0))
    )
    np.testing.assert_allclose(paths[(0, 1), (1, 0)], alone @ run.model.W_U, atol=1e-5)
    np.testing.assert_allclose(found.logits, run.logits, atol=1e-5)
    assert (
        jax.vmap(lambda text: cx.expand(cx.run(make(), text, outputs=True)))(
            jnp.array([[1, 2], [3, 4]])
        )._repr_html_()
        is None
    )


def test_tables_hold_what_is_printed() -> None:
    points = jax.random.normal(jax.random.key(0), (6, 5))
    found = cx.distortion(points, points[:, :3], jnp.array([[-0.5, 0.5]]))
    with jax.enable_x64(True):
        optimum = cx.find_optimum(
            jax.random.key(0), jnp.array([0.3, 0.1]), jnp.ones(2), n_hidden=1, n_restarts=4
        )
    run = cx.run(make(), [3, 1, 4, 1], outputs=True)
    for value in (
        found,
        cx.projection.stream.summarise(found),
        optimum,
        cx.composition(make()),
        cx.ablation_effects(run),
        cx.term_losses(run),
        cx.induction_scores(make(), jnp.array([[1, 2, 1, 2]])),
    ):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", value._repr_html_())
        words = {html.unescape(word) for cell in cells for word in cell.split()}
        printed = [line for line in repr(value).splitlines() if line.startswith("  ")]
        assert len(cells) >= 6 and words >= set(" ".join(printed[:2]).split())
    seen = []
    jax.vmap(lambda images: seen.append(cx.distortion(points, images)._repr_html_()))(
        jnp.stack([points, points])
    )
    assert seen == [None]


def test_an_explanation_is_its_page() -> None:
    run = cx.run(make(), [3, 1, 4, 1], outputs=True)
    explained = cx.explain(run, name="token {}".format)
    shown = facts(explained._repr_html_())
    assert shown["tokens"][2] == "token␣4"
    np.testing.assert_allclose(shown["logit"], run.logits[-1].max(), atol=1e-4)


def test_a_record_and_a_claim_say_what_they_hold() -> None:
    record = cx.Record(xr.Dataset({"loss": (("step",), [1.5, 0.5])}), {"diverged": 3})
    page = record._repr_html_()
    assert "step" in page and "loss" in page and "diverged" in page
    claim = cx.Claim("a-b", "S1", "It <is> one.", "loss", near(1, 0.2), "so", origin="ours")
    page = claim._repr_html_()
    assert "It &lt;is&gt; one." in page and "loss: 1 ± 0.2" in page and "explanation" not in page
