"""One prediction explained: its parts add up, and its page holds them."""

import json
import re

import jax
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.explain.explained import Explanation
from circuitax.circuits.explain.explanation import explain
from circuitax.display.explanation_page import explanation_page, page_facts
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec

TEXT = [3, 1, 4, 1, 5]
WORDS = ["<s>", " cat", "\n", "</script>", " <b>", " dog", "é", '"'] * 2


def tiny(**options: object) -> Model:
    defaults = {"d_vocab": 11, "n_ctx": 8, "n_layers": 2, "n_heads": 3, "d_model": 12}
    spec = TransformerSpec(
        **defaults | {"positions": Positions.learned, "norm": Norm.layernorm} | options
    )
    model = cx.init(jax.random.key(0), spec, float)
    return jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), model
    )


def explained(model: Model, **options: object) -> Explanation:
    seen = run(model, TEXT, outputs=True)
    return explain(seen, name=WORDS.__getitem__, **{"n_nodes": 0} | options)


def test_paths_are_the_ledgers_and_name_heads_with_patterns() -> None:
    with jax.enable_x64(True):
        seen = run(tiny(), TEXT, outputs=True)
        found = explain(seen, n_paths=4, n_heads=2, n_nodes=0)
        token = int(np.asarray(seen.logits[-1]).argmax())
        ledger = cx.ledger(seen, token=token, k=4, by_position=True, mlps="dressed")
    assert found.paths is not None and found.paths.complete
    np.testing.assert_array_equal(found.paths.values, ledger.values)
    np.testing.assert_allclose(ledger.found + ledger.remainder + ledger.bias, found.logit)
    on_paths = {head for path in ledger.paths for head in path}
    assert on_paths <= set(found.heads)
    assert len(found.heads) <= len(on_paths) + 2
    for head, pattern in zip(found.heads, found.patterns, strict=True):
        np.testing.assert_array_equal(pattern, np.asarray(seen.trace.patterns)[head])
    powers = np.exp(np.asarray(seen.logits)[-1])
    np.testing.assert_allclose(found.next_probs[0], powers.max() / powers.sum())
    assert (np.diff(found.next_logits) <= 0).all()


def test_the_text_says_what_adds_up() -> None:
    found = explained(tiny(), n_next=3)
    text = found.text()
    assert text.startswith(f"logit of {found.chosen!r} after ' dog': ")
    effects = text.split("direct effects")[1].split("paths")[0]
    numbers = [float(x) for x in re.findall(r"[+-]\d+\.\d{4}", effects)]
    np.testing.assert_allclose(sum(numbers[:-1]), numbers[-1], atol=2e-3)
    paths = text.split("\npaths\n")[1].split("\n\n")[0].splitlines()
    values = [float(line.rsplit(maxsplit=1)[1]) for line in paths]
    np.testing.assert_allclose(sum(values[-4:-1]), values[-1], atol=2e-3)
    assert "sum of these 10 paths (the largest, proven)" in paths[-4]
    assert text.count("%") >= 3 + len(found.heads)
    assert "none searched" in explained(tiny(), n_paths=0).text()


@pytest.mark.parametrize("norm", [Norm.none, Norm.layernorm])
def test_what_a_head_writes_is_its_logits_over_the_mean_token(norm: Norm) -> None:
    with jax.enable_x64(True):
        model = tiny(norm=norm)
        seen = run(model, TEXT, outputs=True)
        found = explain(seen, n_heads=2, n_nodes=0)
        outputs, W_U = np.asarray(seen.trace.head_outputs), np.asarray(model.W_U)
        if norm is not Norm.none:
            outputs = outputs - outputs.mean(axis=-1, keepdims=True)
            outputs = outputs / np.asarray(seen.trace.scales.final)[:, None]
            outputs = outputs * np.asarray(model.final_norm.gain)
    for (layer, head), places in zip(found.heads, found.written, strict=True):
        logits = outputs[layer, head] @ (W_U - W_U.mean(axis=1, keepdims=True))
        for told, row in zip(places, logits, strict=True):
            order = [*np.argsort(-row)[:3], *np.argsort(row)[:2][::-1]]
            assert [name for name, _ in told] == [str(i) for i in order]
            np.testing.assert_allclose([x for _, x in told], row[order], rtol=1e-9)


def test_all_paths_from_tokens_through_heads_and_mlps_are_the_logit() -> None:
    with jax.enable_x64(True):
        found = explained(tiny(d_mlp=8, biases=True), n_paths=10_000)
        assert found.paths.complete
        np.testing.assert_allclose(
            found.paths.values.sum() + found.paths.bias, found.logit, rtol=1e-9
        )
        assert found.opened.complete
        np.testing.assert_allclose(
            found.opened.values.sum() + found.opened.bias, found.logit, rtol=1e-9
        )
    every = (found.path_names(), found.path_names(found.opened))
    for names in every:
        assert len(set(names)) == len(names) and "direct" in names
        assert any(name.startswith("' cat' at 3 → 0.") for name in names)
    assert not any("mlp" in name for name in every[0])
    through = [name for name in every[1] if name.startswith("' cat' at 3 → 0.")]
    assert any(re.search(r" → 0\.\d → mlp 1\.n\d$", name) for name in through)
    assert "paths to the head or neuron that writes to the logit" in found.text()


@pytest.mark.parametrize("d_mlp", [None, 10])
def test_the_graphs_carry_the_logit_and_mark_what_is_proven(d_mlp: int | None) -> None:
    with jax.enable_x64(True):
        model = tiny(d_mlp=d_mlp, biases=True)
        found = explained(model, token=6, n_nodes=10, n_paths=5)
    titles = [graph.title for graph in found.graphs]
    assert titles == (["heads and neurons", "heads", "heads and MLPs"] if d_mlp else ["heads"])
    assert found.paths.complete
    on_paths = {
        (*head, at)
        for path, sources in zip(found.paths.paths, found.paths.positions, strict=True)
        for head, at in zip(path, [*sources[1:], 4], strict=False)
    }
    for graph in found.graphs:
        n = len(graph.nodes)
        np.testing.assert_allclose(graph.edges[-1].sum() + found.bias, found.logit, rtol=1e-9)
        flows = [node.value for node in graph.nodes]
        np.testing.assert_allclose(graph.edges[:, :n].sum(axis=0), flows, rtol=1e-7, atol=1e-12)
        heads = {each.node[1:] for each in graph.nodes if each.node.kind == "head"}
        assert on_paths <= heads
        # The first of the paths is marked from its token to the logit.
        path, sources = found.paths.paths[0], found.paths.positions[0]
        rows = {each.node: i for i, each in enumerate(graph.nodes)}
        steps = [rows["head", *h, at] for h, at in zip(path, [*sources[1:], 4], strict=False)]
        begins = n + 5 if sources and sources[0] is None else n + (sources[0] if sources else 4)
        for end in [*steps, n]:
            assert graph.proven[end, begins]
            begins = end
        assert graph.proven.sum() < graph.proven.size / 4
    # What a neuron's gate, and a head's attention, come from: with all biases, the number itself.
    about = {each.node: each for each in found.graphs[0].nodes}
    units = {("unit", u.layer, u.unit, u.position): u.gate for u in found.neurons}
    asked = [
        (node, why) for node, each in about.items() for why in each.reasons if why.what == "gate"
    ]
    assert bool(asked) == bool(d_mlp)
    for node, why in asked:
        if tuple(node) in units:
            np.testing.assert_allclose(why.value, units[tuple(node)], rtol=1e-9)
    with jax.enable_x64(True):
        seen = run(model, TEXT, outputs=True)
        pattern = np.asarray(seen.trace.patterns)
    for node, each in about.items():
        for why in each.reasons:
            if why.what == "keys":  # the difference of scores is that of the logs of attention
                row = np.log(pattern[node.layer, node.which, node.position, : node.position + 1])
                others = np.delete(row, why.about)
                np.testing.assert_allclose(why.value, row[why.about] - others.mean(), rtol=1e-9)


@pytest.mark.parametrize("d_mlp", [None, 10])
def test_tokens_heads_and_orders_add_up_to_the_logit(d_mlp: int | None) -> None:
    with jax.enable_x64(True):
        model = tiny(d_mlp=d_mlp, biases=True)
        found = explained(model, token=6, position=2, n_neurons=5)
        logits = np.asarray(run(model, TEXT).logits)[2]
        whole = logits[6] - found.bias
        np.testing.assert_allclose(found.by_head.sum(), whole, rtol=1e-9)
        np.testing.assert_allclose(found.orders.sum(), whole, rtol=1e-9)
        # A token that is not yet read has no part in it.
        np.testing.assert_allclose(found.by_head[:, 4:], 0, atol=1e-12)
        # In this run all other tokens fall behind the best of them by a lead that splits too.
        rival = max((x, i) for i, x in enumerate(logits) if i != 6)[1]
        assert found.rival == WORDS[rival]
        np.testing.assert_allclose(found.lead.sum(), logits[6] - logits[rival], rtol=1e-9)
    by_last = {name: value for name, value, _ in found.last_heads()}
    row = 1 + 1 * 3 + 2
    np.testing.assert_allclose(by_last["1.2"], found.by_head[row].sum())
    name, value = found.single_paths()[0]
    layer, head = (int(x) for x in name.split(" → ")[1].split("."))
    assert found.one_head[layer, head].max() == value or found.one_head[layer, head].min() == value
    assert len(found.neurons) == (5 if d_mlp else 0)
    sizes = [abs(unit.value) for unit in found.neurons]
    assert sizes == sorted(sizes, reverse=True)
    for unit in found.neurons:
        np.testing.assert_allclose(sum(x for _, x in unit.opened_by[0]), unit.gate, rtol=1e-9)
    text = found.text()
    assert text.splitlines()[1].startswith(f"from {found.sources()[0][0]} ")
    assert ("neurons, by all that flows" in text) == bool(d_mlp)


def test_the_page_needs_nothing_else_and_holds_the_numbers() -> None:
    found = explained(tiny(d_mlp=10), token=3, n_nodes=12, n_paths=5)
    page = explanation_page(found, "a <model> & more")
    assert "http://" not in page and "https://" not in page and "src=" not in page
    assert "@import" not in page and "url(" not in page and "@S" not in page
    assert page.count("</script>") == 2, "no token ends a script"
    assert "<title>logit of &#x27;&lt;/script&gt;&#x27;" in page
    data = page.split('type="application/json">')[1].split("</script>")[0]
    facts = json.loads(data)
    assert facts == page_facts(found)
    assert "a &lt;model&gt; &amp; more. Patterns" in page
    graph = facts["graph"]
    for told, kept in zip(graph["graphs"], found.graphs, strict=True):
        # All that stands at the first position is one column, which gives what leaves it.
        own = [i for i, each in enumerate(kept.nodes) if each.node.position > 0]
        first = [i for i in range(len(kept.nodes)) if i not in own] + [len(kept.nodes)]
        leaves = kept.edges[[*own, -1]][:, first]
        np.testing.assert_allclose(told["sources"][0], leaves.sum(), atol=5e-3)
        whole = sum(told["sources"]) + facts["bias"]
        np.testing.assert_allclose(whole, facts["logit"], atol=5e-3)
        into = [value for begin, end, value, _ in told["edges"] if end == len(own)]
        np.testing.assert_allclose(sum(into), told["all"]["into"], atol=5e-3)
        sizes = [abs(value) for *_, value, _ in told["edges"]]
        assert sizes == sorted(sizes, reverse=True)
        names = [graph["nodes"][i]["name"] for i in told["nodes"]]
        assert names == [kept.nodes[i].node.name for i in own]
    assert facts["tokens"] == ["</script>", "␣cat", "␣<b>", "␣cat", "␣dog"]
    total = sum(e["value"] for e in facts["effects"]) + facts["bias"]
    np.testing.assert_allclose(total, facts["logit"], atol=5e-3)
    assert {h for row in facts["paths"]["rows"] for h in row["heads"]} <= set(facts["heads"])
    np.testing.assert_allclose(np.sum(facts["patterns"], axis=-1), 1, atol=5e-3)
    assert cx.explanation_page(found, "a <model> & more") == page
