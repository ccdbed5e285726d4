"""The difference of two runs: against a secant in NumPy, and closing for every option of a spec."""

from pathlib import Path
from typing import Any

import flint
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import circuitax as cx
from circuitax.circuits.contrast import Contrast, contrast_set
from circuitax.circuits.contrast_edges import KINDS, contrast_edges, moves
from circuitax.circuits.paths.path_graph import Node
from circuitax.kernel.mlp import Activation
from circuitax.kernel.secants import divided_difference, logarithmic_mean

FAMILIES = Path(__file__).parents[1] / "fixtures" / "families"
SIZES: dict[str, Any] = {"d_vocab": 11, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 7}
OPTIONS: dict[str, dict[str, Any]] = {
    "attention_only": {"d_mlp": None, "smeared_keys": True},
    "relu": {"activation": "relu", "n_kv_heads": 1, "positions": "learned"},
    "gelu": {"activation": "gelu", "biases": True, "norm": "layernorm", "window": 2},
    "deeper_parallel": {"activation": "gelu_tanh", "mlp_depth": 2, "parallel": True}
    | {"norm": "layernorm_pre", "positions": "sinusoidal"},
    "gated_capped": {"activation": "silu", "gated": True, "norm": "rmsnorm", "window": 2}
    | {"positions": "rotary", "score_cap": 2.0, "logit_cap": 3.0}
    | {"local_layers": (0,), "local_rotary_base": 100.0},
    "bilinear": {"activation": "linear", "gated": True, "norm": "rmsnorm", "final_norm": False},
    "post_ln": {"post_ln": True, "norm": "layernorm", "activation": "solu_ln"}
    | {"positions": "shortformer_sinusoidal"},
    "encoder": {"post_ln": True, "norm": "rmsnorm", "causal": False, "d_head": 3, "d_value": 5},
}
TEXTS = [1, 2, 3, 4, 5, 6], [1, 7, 3, 4, 9, 6]


def drawn(options: dict[str, Any]) -> cx.Model:
    """A model whose biases and gains are not those of a fresh one, with scores far from 0."""
    spec = cx.TransformerSpec(**SIZES, init_scale=1.5).replace(**options)
    model = cx.init(jax.random.key(1), spec, float)
    noise = jax.random.key(2)
    return jax.tree.map(lambda x: x + 0.2 * jax.random.normal(noise, x.shape, x.dtype), model)


def check_closes(c: Contrast, runs: list[cx.Run], tolerance: float, post_norm: bool) -> None:
    leads = [run.logits[-1, 3] - run.logits[-1, 5] for run in runs]
    size = max(1.0, float(np.abs(leads).max()))
    near = {"rtol": 0, "atol": tolerance * size}
    assert abs(leads[0] - leads[1]) > 1e-2
    np.testing.assert_allclose(c.delta, leads[0] - leads[1], **near)
    np.testing.assert_allclose(c.flow.sum(axis=1), np.full(len(c.flow), c.delta), **near)
    if not post_norm:
        np.testing.assert_allclose(sum(c.routes), c.heads, **near)
    if c.mlps is not None and not post_norm:
        np.testing.assert_allclose(c.neurons.sum(axis=1), c.mlps, **near)


def check_places_close(c: Contrast, runs: list[cx.Run]) -> None:
    near = {"rtol": 0, "atol": 1e-12 * max(1.0, float(np.abs(c.flow).max()))}
    moved = moves(*runs, token=3, minus=5)
    for found, route in zip(moved, c.routes, strict=False):
        np.testing.assert_allclose(found.sum(axis=(-1, -2)), route, **near)
    nodes = [Node("head", 0, 0, 3), Node("head", 0, 1, 1), Node("head", 1, 1, 5)]
    if c.mlps is not None:
        nodes += [Node("mlp", 0, 0, 1), Node("mlp", 1, 0, 5)]
        np.testing.assert_allclose(moved.mlps.sum(axis=1), c.mlps, **near)
    edges = contrast_edges(*runs, nodes, token=3, minus=5).edges
    np.testing.assert_allclose(edges[:, -1].sum(), c.delta, **near)
    np.testing.assert_allclose(edges[:, :, len(nodes) :].sum(axis=(0, 1)), c.flow[0], **near)
    into, out_of = edges[:, :-1].sum(axis=(0, 2)), edges[:, :, : len(nodes)].sum(axis=(0, 1))
    np.testing.assert_allclose(into, out_of, **near)


@pytest.mark.parametrize("name", OPTIONS)
def test_flows_close_for_every_option(name: str, x64: None) -> None:
    model = drawn(OPTIONS[name])
    runs = [cx.run(model, text) for text in TEXTS]
    found = cx.contrast(*runs, token=3, minus=5)
    check_closes(found, runs, 1e-12, False)
    check_places_close(found, runs)
    same = cx.contrast(runs[0], runs[0], token=3, minus=5)
    assert not any(np.asarray(x).any() for x in jax.tree.leaves(same[:-2]))


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in FAMILIES.glob("*/config.json"))
)
def test_flows_close_for_every_family(name: str, x64: None) -> None:
    model = cx.load_pretrained(FAMILIES / name, dtype=jnp.float64)
    runs = [cx.run(model, text) for text in TEXTS]
    found, post_norm = cx.contrast(*runs, token=3, minus=5), model.spec.post_norm
    check_closes(found, runs, 1e-12, post_norm)
    if model.spec.joint_qk_norm:
        with pytest.raises(ValueError, match="depends on all heads"):
            check_places_close(found, runs)
    elif post_norm:
        check_places_close(found, runs)


def test_flows_close_in_single_precision() -> None:
    model = drawn(OPTIONS["gated_capped"])
    runs = [cx.run(model, text) for text in TEXTS]
    check_closes(cx.contrast(*runs, token=3, minus=5), runs, 1e-4, False)


class NumPySecant:
    """One layer of RMS norm, attention and a gated MLP, its difference by the formulas of the page.

    Everything is carried forwards, from a difference at one place to the lead.
    """

    def __init__(self, model: cx.Model, texts: tuple[list[int], list[int]]) -> None:
        blocks = jax.tree.map(lambda x: np.asarray(x)[0], model.blocks)
        self.heads, self.mlp = blocks.attention, blocks.mlp
        self.gains = [w.gain for w in (blocks.attention_norm, blocks.mlp_norm)]
        self.gains.append(np.asarray(model.final_norm.gain))
        self.eps, self.scale = model.spec.norm_eps, model.spec.scale
        self.w = np.asarray(model.W_U)[:, 3] - np.asarray(model.W_U)[:, 5]
        self.each: list[dict[str, np.ndarray]] = []
        for text in texts:
            self.each.append(self.pass_over(np.asarray(model.W_E)[text]))

    def pass_over(self, x: np.ndarray) -> dict[str, np.ndarray]:
        def normed(x: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            r = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + self.eps)
            return r, x * r * gain

        v = {"x": x}
        v["r0"], v["read"] = normed(x, self.gains[0])
        for name, W in zip("qkv", (self.heads.W_Q, self.heads.W_K, self.heads.W_V), strict=True):
            v[name] = np.einsum("td,hdk->htk", v["read"], W)
        s = np.einsum("htk,hsk->hts", v["q"], v["k"]) * self.scale
        e = np.exp(s) * np.tril(np.ones(s.shape[1:]))
        v["P"] = e / e.sum(-1, keepdims=True)
        v["heads"] = np.einsum("hts,hsv,hvd->htd", v["P"], v["v"], self.heads.W_O)
        v["mid"] = x + v["heads"].sum(0)
        v["r1"], read = normed(v["mid"], self.gains[1])
        v["up"], v["z"] = read @ self.mlp.W_in, read @ self.mlp.W_gate
        v["opened"] = v["z"] / (1 + np.exp(-v["z"]))
        v["end"] = v["mid"] + (v["opened"] * v["up"]) @ self.mlp.W_out
        v["r2"], final = normed(v["end"], self.gains[2])
        v["lead"] = final @ self.w
        return v

    def mean(self, name: str) -> np.ndarray:
        return (self.each[0][name] + self.each[1][name]) / 2

    def less(self, name: str) -> np.ndarray:
        return self.each[0][name] - self.each[1][name]

    def norm(self, i: int, name: str, dx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By the numerator, and by the divisor."""
        r_A, r_B = (v[f"r{i}"] for v in self.each)
        dr = -2 * (self.mean(name) * dx).mean(-1, keepdims=True) * (r_A * r_B) ** 2 / (r_A + r_B)
        return self.mean(f"r{i}") * dx * self.gains[i], self.mean(name) * dr * self.gains[i]

    def heads_of(self, dread: np.ndarray) -> list[np.ndarray]:
        """What each head writes by value, query and key."""
        dq, dk, dv = (
            np.einsum("td,hdk->htk", dread, W)
            for W in (self.heads.W_Q, self.heads.W_K, self.heads.W_V)
        )
        P_A, P_B = (v["P"] for v in self.each)
        with np.errstate(divide="ignore", invalid="ignore"):
            L = np.where(P_A == P_B, P_A, (P_A - P_B) / (np.log(P_A) - np.log(P_B)))
        by_value = np.einsum("hts,hsv,hvd->htd", self.mean("P"), dv, self.heads.W_O)
        found = [by_value]
        for ds in (
            np.einsum("htk,hsk->hts", dq, self.mean("k")) * self.scale,
            np.einsum("htk,hsk->hts", self.mean("q"), dk) * self.scale,
        ):
            dP = L * (ds - (L * ds).sum(-1, keepdims=True) / L.sum(-1, keepdims=True))
            found.append(np.einsum("hts,hsv,hvd->htd", dP, self.mean("v"), self.heads.W_O))
        return found

    def units(self, dmid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each unit by its value and by its gate."""
        dread = sum(self.norm(1, "mid", dmid))
        z_A, z_B = (v["z"] for v in self.each)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(z_A == z_B, 0, self.less("opened") / (z_A - z_B))
        by_value = self.mean("opened") * (dread @ self.mlp.W_in)
        return by_value, self.mean("up") * slope * (dread @ self.mlp.W_gate)

    def from_end(self, dend: np.ndarray) -> float:
        return float((sum(self.norm(2, "end", dend)) @ self.w)[-1])

    def from_mid(self, dmid: np.ndarray) -> float:
        return self.from_end(dmid + sum(self.units(dmid)) @ self.mlp.W_out)

    def from_start(self, dx: np.ndarray) -> float:
        return self.from_mid(dx + sum(self.heads_of(sum(self.norm(0, "x", dx)))).sum(0))


def test_one_layer_is_the_secant_of_the_page(x64: None) -> None:
    options = {"n_layers": 1, "norm": "rmsnorm", "gated": True, "activation": "silu"}
    model = drawn(options | {"positions": "none"})
    runs = [cx.run(model, text) for text in TEXTS]
    c = cx.contrast(*runs, token=3, minus=5)
    by = NumPySecant(model, TEXTS)
    dx, near = by.less("x"), {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(c.delta, by.less("lead")[-1], **near)
    at = np.eye(6)[:, :, None]
    np.testing.assert_allclose(c.flow[0], [by.from_start(dx * here) for here in at], **near)
    np.testing.assert_allclose(c.flow[1], [by.from_end(by.less("end") * h) for h in at], **near)
    dread = by.less("read")
    routes = [[by.from_mid(one) for one in by_route] for by_route in by.heads_of(dread)]
    np.testing.assert_allclose(np.stack(c.routes)[:, 0], routes, **near)
    np.testing.assert_allclose(c.heads[0], [by.from_mid(one) for one in by.less("heads")], **near)
    moved = moves(*runs, token=3, minus=5)
    for route, found in enumerate(moved[:3]):
        for dest, src in ((5, 1), (5, 5), (4, 1), (1, 4)):
            wrote = by.heads_of(dread * at[src])[route] * at[dest]
            wanted = [by.from_mid(one) for one in wrote]
            np.testing.assert_allclose(found[0, :, dest, src], wanted, **near)
    # Of one head and the MLP, by hand: the head reads tokens, the MLP both, the logit all three.
    nodes = [Node("head", 0, 1, 5), Node("mlp", 0, 0, 5)]
    edges = contrast_edges(*runs, nodes, token=3, minus=5).edges
    own = by.less("heads")[1] * at[5]
    dread = sum(by.norm(1, "mid", own))
    by_unit = by.mean("opened") * (dread @ by.mlp.W_in) @ by.mlp.W_out
    into_mlp = [by.from_end(by.units(own)[1] @ by.mlp.W_out * at[5]), by.from_end(by_unit * at[5])]
    np.testing.assert_allclose(edges[3:5, 1, 0], into_mlp, **near)
    np.testing.assert_allclose(edges[-1, 2, 0], by.from_end(own), **near)
    np.testing.assert_allclose(edges[:3, 0, 2:].sum(axis=1), [m[0, 1, 5].sum() for m in moved[:3]])
    assert KINDS[3:] == ("gate", "unit", "norm", "logit")
    by_norm = sum(by.heads_of(by.norm(0, "x", dx)[1])).sum(0)
    np.testing.assert_allclose(c.norms.attention[0], by.from_mid(by_norm), **near)
    units = by.units(by.less("mid"))
    for found, want in ((c.gates[0], units[1]), (c.neurons[0], sum(units))):
        wrote = [by.from_end(np.outer(want[:, i], by.mlp.W_out[i])) for i in range(7)]
        np.testing.assert_allclose(found, wrote, **near)


@given(st.floats(-12, 3))
def test_texts_that_nearly_meet_give_the_gradient(exponent: float) -> None:
    """Two tokens at a distance of 10^-12 to 10^3: sums close, and near 0 no digit is lost."""
    with jax.enable_x64(True):
        model, distance = drawn(OPTIONS["gated_capped"]), 10.0**exponent
        way = jnp.asarray(np.random.default_rng(5).normal(size=8))
        ends = [model.W_E[2] + sign / 2 * distance * way for sign in (1, -1)]
        near = model.replace(W_E=model.W_E.at[2].set(ends[0]).at[7].set(ends[1]))
        runs = [cx.run(near, text) for text in (TEXTS[0], [1, 7, 3, 4, 5, 6])]
        c = cx.contrast(*runs, token=3, minus=5)
        np.testing.assert_allclose(c.flow.sum(axis=1), np.full(3, c.delta), rtol=0, atol=1e-12)
        if distance > 1e-5:
            return

        def lead(row: jax.Array) -> jax.Array:
            logits = cx.forward(model.replace(W_E=model.W_E.at[2].set(row)), TEXTS[0])[0][-1]
            return logits[3] - logits[5]

        # What is left of the distance behind the rounding of both rows.
        slope = jax.grad(lead)(model.W_E[2]) @ (near.W_E[2] - near.W_E[7])
        np.testing.assert_allclose(c.flow[0, 1], slope, rtol=1e-9)


def exact(activation: str, z: flint.arb) -> flint.arb:
    if activation == "relu":
        return z if z > 0 else flint.arb(0)
    if activation == "relu_squared":
        return z * z if z > 0 else flint.arb(0)
    if activation.startswith("gelu") and activation != "gelu_tanh":
        whole = z * (1 + (z / flint.arb(2).sqrt()).erf()) / 2
        return flint.arb(10) if activation == "gelu_10" and whole > 10 else whole
    if activation == "gelu_tanh":
        inner = z + flint.arb("0.044715") * z**3
        return z * (1 + ((2 / flint.arb.pi()).sqrt() * inner).tanh()) / 2
    return z / (1 + (-z).exp())


@pytest.mark.parametrize(
    "activation", ["relu", "relu_squared", "gelu", "gelu_10", "gelu_tanh", "silu"]
)
@given(a=st.floats(-12, 12), exponent=st.floats(-12, 1), up=st.booleans())
def test_divided_differences(activation: str, a: float, exponent: float, up: bool) -> None:
    b = a + (10.0**exponent if up else -(10.0**exponent))
    with flint.ctx.workprec(300):
        exactly = [flint.arb(z) for z in (a, b)]
        gap = exactly[0] - exactly[1]
        want = float((exact(activation, exactly[0]) - exact(activation, exactly[1])) / gap)
    with jax.enable_x64(True):
        got = divided_difference(jnp.asarray(a), jnp.asarray(b), Activation(activation))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=2e-15)


@given(st.floats(-300, 0), st.floats(-12, 2.4))
def test_logarithmic_means(log_p: float, exponent: float) -> None:
    log_q = log_p - 10.0**exponent
    with flint.ctx.workprec(300):
        p, q = (flint.arb(x).exp() for x in (log_p, log_q))
        want = float((p - q) / (flint.arb(log_p) - flint.arb(log_q)))
    with jax.enable_x64(True):
        both = (jnp.asarray(log_p), jnp.asarray(log_q))
        got = [logarithmic_mean(*both), logarithmic_mean(*both[::-1])]
    np.testing.assert_allclose(got, [want, want], rtol=1e-13)


def test_a_flow_has_a_gradient(x64: None) -> None:
    model = drawn(OPTIONS["gated_capped"])
    way = jnp.asarray(np.random.default_rng(6).normal(size=model.W_E.shape))

    def flow(t: float | jax.Array) -> jax.Array:
        moved = model.replace(W_E=model.W_E + t * way)
        runs = [cx.run(moved, text) for text in TEXTS]
        return cx.contrast(*runs, token=3).flow[1, 4]

    h = 1e-5
    numerical = (flow(h) - flow(-h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(flow)(0.0), numerical, rtol=1e-6)


def test_it_prints_as_a_table_and_refuses_other_lengths() -> None:
    model = drawn(OPTIONS["relu"])
    run, other = (cx.run(model, text) for text in TEXTS)
    text = cx.contrast(run, other, token=3, minus=5).text(lambda i: f"'{i}'")
    assert "logit of '3' less '5' at 5" in text and "1 '2' / '7'" in text and "head 1.0" in text
    size = np.abs(cx.contrast(run, other, token=3, minus=5).flow[0]).sum()
    assert f"of tokens {size:.4g}" in text
    assert "\n  0 '1'   " in text, "a token that both texts have is written once"
    longer = cx.run(model, [*TEXTS[1], 2])
    with pytest.raises(ValueError, match="other has a text of 7 tokens, must have the 6 of run: "):
        cx.contrast(run, longer, token=3)
    with pytest.raises(ValueError, match="has other weights"):
        cx.contrast(run, cx.run(model.replace(W_U=2 * model.W_U), TEXTS[1]), token=3)
    edited = cx.run(model, TEXTS[1], cx.ablate_head(other, (0, 1)))
    with pytest.raises(ValueError, match="other was made with interventions"):
        cx.contrast(run, edited, token=3)
    with pytest.raises(ValueError, match="minus=3 is the id of token"):
        cx.contrast(run, other, token=3, minus=3)
    first = Node("head", 0, 0, 0)
    wrong = ((first._replace(layer=2), "layer=2"), (Node("mlp", 0, 0, -1), "position=-1"))
    for node, named in (*wrong, (first, r"kind='head'.* twice")):
        with pytest.raises(ValueError, match=named):
            contrast_edges(run, other, [first, node], token=3)


def test_pairs_have_a_mean_with_an_interval() -> None:
    model = drawn(OPTIONS["attention_only"])
    texts, others = np.array([TEXTS[0], [2, 2, 3, 4, 5, 1], TEXTS[1]]), np.array([TEXTS[1]] * 3)
    others[2, 0] = 8
    asked = {"token": np.array([3, 2, 3]), "minus": np.array([5, 5, 1])}
    found = contrast_set(model, texts, others, **asked, block=2)
    each = [
        cx.contrast(
            *(cx.run(model, text) for text in pair),
            token=asked["token"][i],
            minus=asked["minus"][i],
        )
        for i, pair in enumerate(zip(texts, others, strict=True))
    ]
    heads = np.stack([c.heads for c in each])
    np.testing.assert_allclose(found.each.heads, heads, rtol=1e-4, atol=1e-6)
    low, high = stats.ttest_1samp(heads, 0).confidence_interval(0.95)
    np.testing.assert_allclose(found.mean.heads - found.half.heads, low, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.mean.heads + found.half.heads, high, rtol=1e-3, atol=1e-5)
    assert repr(found).startswith("Mean of 3 pairs: Δ ") and "head 1." in repr(found)
    with pytest.raises(ValueError, match="must be one, of two pairs at least"):
        contrast_set(model, texts[:1], others, **asked)
    with pytest.raises(ValueError, match=r"minus\[1\] is the id of token\[1\]"):
        contrast_set(model, texts, others, **(asked | {"minus": np.array([5, 2, 1])}))
