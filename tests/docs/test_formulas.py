"""Every displayed formula of the methods pages, against the function that it describes.

A formula is what a page displays, indented by four spaces. Each has one row here, at one random
input: what the library computes, and the formula written out in NumPy.
"""

import functools
import itertools
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments.directions.toy_scaling.decay import signed_decay
from jax.typing import ArrayLike
from scipy import integrate, special

import circuitax as cx
from circuitax.circuits.detectors import detect, prefix_mask, previous_mask
from circuitax.circuits.ledger.host_model import host_model
from circuitax.circuits.ledger.path_bounds import head_path_bounds, position_path_moments
from circuitax.circuits.ledger.path_mass import path_mass
from circuitax.circuits.paths.components import components_of
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.orders import order_streams
from circuitax.circuits.score_terms import dressed_score_terms
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.mlps import (
    interaction_eigenvectors,
    interaction_matrices,
    mlp_composition,
)
from circuitax.kernel import attention, kron, mlp, secants, toy
from circuitax.kernel.chain import materialise
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.mlp import activate
from circuitax.kernel.norm import Norm, norm_scale
from circuitax.kernel.weights import HeadStack, MLPWeights, NormWeights
from circuitax.models.subcomponents import Subcomponents
from circuitax.projection import coherence, laws, packings, tails
from circuitax.superposition import attacks as adversarial
from circuitax.superposition import (
    climb,
    dictionaries,
    feature_laws,
    features,
    hidden_layers,
    kgons,
    pair_loss,
    polygon_families,
    triple_loss,
)

Both = tuple[ArrayLike, ArrayLike]
FOLDER = Path(__file__).parents[2] / "docs/methods"
FORMULAS: dict[tuple[str, str], Callable[[np.random.Generator], Both]] = {}
TOKENS = [3, 1, 4, 1, 5, 3]


def formula(
    page: str, text: str
) -> Callable[[Callable[[np.random.Generator], Both]], Callable[[np.random.Generator], Both]]:
    """Register a row: the page, what it displays, and both sides of it."""

    def row(both: Callable[[np.random.Generator], Both]) -> Callable[[np.random.Generator], Both]:
        assert (page, text) not in FORMULAS
        FORMULAS[page, text] = both
        return both

    return row


def displayed() -> list[tuple[str, str]]:
    """What the pages display, code of their examples left out."""
    found = []
    for path in sorted(FOLDER.glob("*.md")):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        found += [(path.stem, line) for line in re.findall(r"^ {4,}(\S.*)$", text, flags=re.M)]
    return found


def numbered() -> list[str]:
    """Names of the rows: the page and a number."""
    pages = [page for page, _ in displayed()]
    return [f"{page}-{pages[:i].count(page)}" for i, page in enumerate(pages)]


def test_every_displayed_formula_has_a_row_and_every_page_a_formula() -> None:
    assert sorted(displayed()) == sorted(FORMULAS)
    assert {page for page, _ in FORMULAS} == {p.stem for p in FOLDER.glob("*.md")} - {"README"}


@pytest.mark.parametrize("row", displayed(), ids=numbered())
def test_a_formula_is_what_its_function_computes(
    row: tuple[str, str], x64: None, rng: np.random.Generator
) -> None:
    ours, written = FORMULAS[row](rng)
    ours, written = np.asarray(ours), np.asarray(written)
    assert ours.shape == written.shape and np.abs(written).max() > 1e-3
    assert np.isfinite(written).all()
    np.testing.assert_allclose(ours, written, rtol=1e-9, atol=1e-12)


def at_most(small: ArrayLike, large: ArrayLike) -> Both:
    """The two sides of a bound; equal where the bound holds."""
    return small, np.minimum(small, large)


def nearly(ours: ArrayLike, written: ArrayLike, tolerance: ArrayLike) -> Both:
    """The two sides of what is estimated, or raised for rounding; equal within a tolerance."""
    close = np.abs(np.subtract(ours, written)) <= tolerance
    return ours, np.where(close, ours, written)


def model_of(rng: np.random.Generator, **options: Any) -> cx.Model:
    """Two layers of two heads with random weights."""
    shapes = {"W_Q": (6, 3), "W_K": (6, 3), "W_V": (6, 3), "W_O": (3, 6)}
    heads = {name: rng.normal(size=(2, 2, *shape)) / 2 for name, shape in shapes.items()}
    W_E, W_U = rng.normal(size=(7, 6)), rng.normal(size=(6, 7))
    return cx.Model.of(W_E=W_E, W_U=W_U, attention=HeadStack(**heads), **options)


def maps_of(model: cx.Model, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """``W_QK`` without the score scale, and ``W_OV``, of one head."""
    W_Q, W_K, W_V, W_O = (np.asarray(w)[layer, head] for w in model.blocks.attention[:4])
    return W_Q @ W_K.T, W_V @ W_O


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each row of one with each row of the other."""
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (a, b)]
    return unit[0] @ unit[1].T


@functools.cache
def heads() -> tuple[Any, ...]:
    """The first layer of a run: model, run, x, and the four maps of its heads."""
    model = model_of(np.random.default_rng(7))
    maps = [np.asarray(W)[0] for W in model.blocks.attention[:4]]
    return model, cx.run(model, TOKENS, outputs=True), np.asarray(model.W_E)[TOKENS], *maps


@formula("attention", "s_tu = score_scale ⟨x_t W_Q, x_u W_K⟩")
def _(rng: np.random.Generator) -> Both:
    model, _, x, W_Q, W_K, _, _ = heads()
    q, k = (attention.project(jnp.asarray(x), jnp.asarray(W)) for W in (W_Q, W_K))
    found = attention.attention_scores(q, k, model.spec.scale)
    products = [[[(x_t @ W_Q[h]) @ (x_u @ W_K[h]) for x_u in x] for x_t in x] for h in range(2)]
    return found, np.divide(products, np.sqrt(3))


@formula("attention", "A_tu = exp(s_tu) / Σ_{v ≤ t} exp(s_tv)")
def _(rng: np.random.Generator) -> Both:
    _, run, x, W_Q, W_K, _, _ = heads()
    A = np.zeros((2, 6, 6))
    for h, t, u in np.ndindex(A.shape):
        s = (x[t] @ W_Q[h]) @ (x @ W_K[h]).T / np.sqrt(3)
        A[h, t, u] = np.exp(s[u]) / np.exp(s[: t + 1]).sum() if u <= t else 0
    return run.trace.patterns[0], A


@formula("attention", "head_t = Σ_{u ≤ t} A_tu (x_u W_V) W_O")
def _(rng: np.random.Generator) -> Both:
    _, run, x, _, _, W_V, W_O = heads()
    A, written = np.asarray(run.trace.patterns[0]), np.zeros((2, 6, 6))
    for h, t in np.ndindex(2, 6):
        written[h, t] = sum(A[h, t, u] * (x[u] @ W_V[h]) @ W_O[h] for u in range(t + 1))
    return run.trace.head_outputs[0], written


@formula("attention", "x + Σ_h A^h x W_V^h W_O^h = x + [A^1 x W_V^1, …, A^H x W_V^H] W_O")
def _(rng: np.random.Generator) -> Both:
    _, run, x, _, _, W_V, W_O = heads()
    A = np.asarray(run.trace.patterns[0])
    total = x + sum(A[h] @ x @ W_V[h] @ W_O[h] for h in range(2))
    beside = np.concatenate([A[h] @ x @ W_V[h] for h in range(2)], axis=1)
    return np.stack([run.trace.streams[1]] * 2), [total, x + beside @ np.concatenate(W_O)]


# Composition: K from head 0.0 to head 1.1.


@functools.cache
def pair() -> tuple[Any, ...]:
    """Scores of a model, and of one pair what is written, what reads it, P and G."""
    model = model_of(np.random.default_rng(5))
    W, R = maps_of(model, 0, 0)[1], maps_of(model, 1, 1)[0].T
    P, G = W.T @ W, R @ R.T
    return cx.composition(model), W, R, P / np.trace(P), G / np.trace(G)


PAIR = (1, 0, 0, 1, 1)


@formula("composition", "score = ‖W_OV R‖ / (‖W_OV‖ ‖R‖)")
def _(rng: np.random.Generator) -> Both:
    found, W, R, _, _ = pair()
    norm = np.linalg.norm
    return found.score[PAIR], norm(W @ R) / (norm(W) * norm(R))


@formula("composition", "score² = tr(P G)")
def _(rng: np.random.Generator) -> Both:
    found, _, _, P, G = pair()
    return found.score[PAIR] ** 2, np.trace(P @ G)


@formula("composition", "null_std = √(2 f(P) f(G) / ((d − 1) (d + 2)))")
def _(rng: np.random.Generator) -> Both:
    found, _, _, P, G = pair()
    d = len(P)
    f = [np.trace(M @ M) - 1 / d for M in (P, G)]
    return found.null_std[PAIR], np.sqrt(2 * f[0] * f[1] / ((d - 1) * (d + 2)))


@formula("composition", "z = (score² − 1/d) / null_std")
def _(rng: np.random.Generator) -> Both:
    found, _, _, P, _ = pair()
    return found.z[PAIR], (found.score[PAIR] ** 2 - 1 / len(P)) / found.null_std[PAIR]


@formula("composition", "maximum = √(Σ_i a_i² b_i²) / (‖W_OV‖ ‖R‖)")
def _(rng: np.random.Generator) -> Both:
    found, W, R, _, _ = pair()
    a, b = (np.linalg.svd(M, compute_uv=False) for M in (W, R))
    return found.maximum[PAIR], np.sqrt(np.sum(a**2 * b**2) / (np.sum(a**2) * np.sum(b**2)))


@formula(
    "composition",
    "P ∝ Σ_k |W_in[:, k]|² W_out[k]ᵀ W_out[k], G ∝ Σ_k |W_out[k]|² W_in[:, k] W_in[:, k]ᵀ",
)
def _(rng: np.random.Generator) -> Both:
    W_in, W_out = rng.normal(size=(2, 6, 5)), rng.normal(size=(2, 5, 6))
    model = model_of(rng, mlp=MLPWeights(W_in, W_out), activation="silu")
    found = mlp_composition(model)
    P = sum(np.sum(W_in[0, :, k] ** 2) * np.outer(W_out[0, k], W_out[0, k]) for k in range(5))
    G = sum(np.sum(W_out[1, k] ** 2) * np.outer(W_in[1, :, k], W_in[1, :, k]) for k in range(5))
    W, R = maps_of(model, 0, 1)[1], maps_of(model, 1, 0)[1]
    # MLP 0 to MLP 1, head 0.1 to MLP 1, and MLP 0 to the values of head 1.0.
    ours = [
        (scores.score[at] ** 2, scores.null_std[at])
        for scores, at in zip(found, [(0, 0, 1, 1), (0, 0, 1), (2, 0, 1, 0)], strict=True)
    ]
    written = []
    for writes, reads in ((W.T @ W, G), (P, G), (P, R @ R.T)):
        one, two = writes / np.trace(writes), reads / np.trace(reads)
        f = [np.trace(M @ M) - 1 / 6 for M in (one, two)]
        written.append((np.trace(one @ two), np.sqrt(2 * f[0] * f[1] / (5 * 8))))
    return np.array(ours), written


@formula("dictionaries", "mean max cosine = (1/n) Σ_i max_c cos(d_i, D_c)")
def _(rng: np.random.Generator) -> Both:
    d, D = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
    return dictionaries.mean_max_cosine(jnp.asarray(d), jnp.asarray(D)), cosine(d, D).max(
        axis=1
    ).mean()


@formula(
    "dictionaries",
    "hedging = (1/width) Σ_c max_{i ≠ o} (cos(D_c, d_i) − cos(D_c, d_o) cos(d_o, d_i))",
)
def _(rng: np.random.Generator) -> Both:
    d, D = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
    found, between = cosine(D, d), cosine(d, d)
    total = 0.0
    for row in found:
        o = int(row.argmax())
        total += max(row[i] - row[o] * between[o, i] for i in range(5) if i != o)
    return dictionaries.hedging(jnp.asarray(d), jnp.asarray(D)), total / 3


@formula("directions", "mean_{i ≠ j} ⟨u_i, u_j⟩² = (‖Uᵀ U‖² − N) / (N (N − 1))")
def _(rng: np.random.Generator) -> Both:
    rows = rng.normal(size=(6, 4))
    U = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    right = (np.sum((U.T @ U) ** 2) - 6) / 30
    left = np.mean([(U[i] @ U[j]) ** 2 for i, j in itertools.permutations(range(6), 2)])
    return np.array([coherence.mean_overlaps(jnp.asarray(rows)).mean_square, left]), [right, right]


def welch(rng: np.random.Generator) -> Both:
    """The bound, and that random directions keep it."""
    n, d = 9, 4
    square = (n - d) / (d * (n - 1))
    mean = coherence.mean_overlaps(jnp.asarray(rng.normal(size=(n, d)))).mean_square
    return np.array([packings.welch_bound(n, d) ** 2, square]), [square, min(square, mean)]


formula("directions", "welch² = (N − d) / (d (N − 1))")(welch)
formula("scaling", "welch² = (n − m) / (m (n − 1))")(welch)


@formula("directions", "P(|⟨u, v⟩| > ε) = I_{1 − ε²}((d − 1)/2, 1/2)")
def _(rng: np.random.Generator) -> Both:
    d, eps = 5, rng.uniform(0.2, 0.6)

    def density(c: float) -> float:  # of a cosine: that of a band of the sphere
        return float((1 - c**2) ** ((d - 3) / 2))

    above, whole = (integrate.quad(density, low, 1)[0] for low in (eps, 0))
    return np.array([laws.overlap_tail(d, eps)] * 2), [
        special.betainc((d - 1) / 2, 1 / 2, 1 - eps**2),
        above / whole,
    ]


def share_of_a_dimension(W: np.ndarray) -> list[float]:
    """D_i of features in columns, one by one."""
    norm = np.linalg.norm(W, axis=0)
    return [norm[i] ** 2 / np.sum((W[:, i] / norm[i] @ W) ** 2) for i in range(W.shape[1])]


@formula("directions", "D_i = |w_i|² / Σ_j (ŵ_i · w_j)²")
def _(rng: np.random.Generator) -> Both:
    rows = rng.normal(size=(6, 4))
    return features.dimensionality_of_rows(jnp.asarray(rows)), share_of_a_dimension(rows.T)


@formula("polytopes", "D_i = |W_i|² / Σ_j (Ŵ_i · W_j)²")
def _(rng: np.random.Generator) -> Both:
    W = rng.normal(size=(3, 6))
    return cx.dimensionality(jnp.asarray(W)), share_of_a_dimension(W)


@formula("polytopes", "D* = m / ‖W‖²")
def _(rng: np.random.Generator) -> Both:
    W = rng.normal(size=(3, 6))
    return features.dimensions_per_feature(jnp.asarray(W)), 3 / sum(w**2 for w in W.ravel())


@formula("polytopes", "gain = (k (p/3 − p²/4) − L_polytope) / r")
def _(rng: np.random.Generator) -> Both:
    p, place = rng.uniform(0.05, 0.3), list(climb.TEGUM_FACTORS).index("digon")
    found = climb.tegum_gains(jnp.array([p]))
    k, r = climb.TEGUM_FACTORS["digon"]
    norm, bias = float(found.norm[place, 0]), float(found.bias[place, 0])
    loss = 2 * one_output(p, norm**2, -(norm**2), bias)
    return found.gain[place, 0], (k * (p / 3 - p**2 / 4) - loss) / r


def one_output(p: float, a: float, k: float, b: float) -> float:
    """``E (x − relu(a x + k y + b))²``, x and y on with probability p and then uniform on [0, 1].

    Each of the four cases is a polynomial between kinks, integrated along x for Gauss points of y.
    """
    node, weight = np.polynomial.legendre.leggauss(12)

    def pieces(kinks: list[float]) -> tuple[np.ndarray, np.ndarray]:
        ends = np.unique(np.clip([0, *kinks, 1], 0, 1))
        x = [(low + high) / 2 + (high - low) / 2 * node for low, high in itertools.pairwise(ends)]
        w = [(high - low) / 2 * weight for low, high in itertools.pairwise(ends)]
        return np.concatenate(x), np.concatenate(w)

    def given(y: float) -> float:
        alone = max(k * y + b, 0) ** 2
        x, w = pieces([-(k * y + b) / a])
        return (1 - p) * alone + p * float(w @ (x - np.maximum(a * x + k * y + b, 0)) ** 2)

    y, w = pieces([-b / k, -(a + b) / k])
    return (1 - p) * given(0) + p * float(w @ [given(value) for value in y])


@formula("phase-proof", "F(a, k, b) = p/3 − 2 E[x relu(z)] + E[relu(z)²]")
def _(rng: np.random.Generator) -> Both:
    p, a, k, b = rng.uniform(0.1, 0.9), rng.uniform(0.5, 1.5), -rng.uniform(0.3, 1), 0.2
    return pair_loss.pair_error(p, a, k, b), one_output(p, a, k, b)


@formula("phase-proof", "loss = F(a, k, b₁) + r F(c, k, b₂)")
def _(rng: np.random.Generator) -> Both:
    p, r, b, w = 0.3, rng.uniform(0.2, 3), rng.normal(size=2) / 4, np.array([1.1, -0.7])
    model = cx.TiedWeights(jnp.asarray(w[None]), jnp.asarray(b))
    loss = cx.expected_loss(model, jnp.full(2, p), jnp.array([1, r]), n_terms=0).value
    a, k, c = w[0] ** 2, w[0] * w[1], w[1] ** 2
    return loss, one_output(p, a, k, b[0]) + r * one_output(p, c, k, b[1])


def best_gain(p: float, beta: float) -> tuple[Any, float]:
    """Moments of the digon's family, and the gain that suits them best."""
    family = polygon_families.polygon_family(2, lambda part, whole: -1.0)
    at = polygon_families.family_moments(family, p, beta)
    return at, at.work / at.energy


@formula("polygon-proof", "F(g, β) = p/3 − 2 g P(β) + g² Q(β)")
def _(rng: np.random.Generator) -> Both:
    p, beta, g = rng.uniform(0.1, 0.9), -0.15, rng.uniform(0.5, 1.5)
    at, _ = best_gain(p, beta)
    return p / 3 - 2 * g * at.work + g**2 * at.energy, one_output(p, g, -g, g * beta)


@formula("polygon-proof", "min_g F = p/3 − P(β)² / Q(β)")
def _(rng: np.random.Generator) -> Both:
    p, beta = rng.uniform(0.1, 0.9), -0.15
    at, g = best_gain(p, beta)
    assert one_output(p, 1.1 * g, -1.1 * g, 1.1 * g * beta) > one_output(p, g, -g, g * beta)
    return p / 3 - at.work**2 / at.energy, one_output(p, g, -g, g * beta)


@formula("triple-proof", "F ≥ (p/3) ((a − 1)/(a + 1))²")
def _(rng: np.random.Generator) -> Both:
    p, a, k, b = 0.3, rng.uniform(1.5, 6), rng.normal(size=2), rng.normal() / 2
    return at_most(
        p / 3 * ((a - 1) / (a + 1)) ** 2,
        triple_loss.triple_error(p, a, triple_loss.Couplings(*k), b),
    )


@formula("exact-loss", "L = Σ_i I_i E (x_i − relu(Σ_j G_ij x_j + b_i))²")
def _(rng: np.random.Generator) -> Both:
    W, b, importance = rng.normal(size=(1, 2)), rng.normal(size=2) / 4, rng.uniform(0.5, 2, 2)
    model = cx.TiedWeights(jnp.asarray(W), jnp.asarray(b))
    loss = cx.expected_loss(model, jnp.full(2, 0.4), jnp.asarray(importance), n_terms=0).value
    G = W.T @ W
    own, other = np.diag(G), G[0, 1]
    return loss, sum(importance[i] * one_output(0.4, own[i], other, b[i]) for i in (0, 1))


@formula("distortion", "distortion(x, y) = ‖f(x) − f(y)‖² / ‖x − y‖² − 1")
def _(rng: np.random.Generator) -> Both:
    x, P = rng.normal(size=(5, 8)), rng.normal(size=(8, 3))
    found = cx.distortion(jnp.asarray(x), jnp.asarray(x @ P), jnp.array([[-0.3, 0.3]]))
    every = [
        np.sum(((a - b) @ P) ** 2) / np.sum((a - b) ** 2) - 1
        for a, b in itertools.combinations(x, 2)
    ]
    return np.array([found.low, found.high]), [min(every), max(every)]


@formula("distortion", "P(1 + distortion ≤ r) = γ(m/2, m r/2) / Γ(m/2)")
def _(rng: np.random.Generator) -> Both:
    m, r = 7, rng.uniform(0.6, 1.4)
    lower = integrate.quad(lambda t: t ** (m / 2 - 1) * np.exp(-t), 0, m * r / 2)[0]
    return laws.ratio_cdf(r, m), lower / special.gamma(m / 2)


@formula("distortion", "m ≥ 2 ln N / (ε² (1/4 − ε/6))")
def _(rng: np.random.Generator) -> Both:
    n, eps = 100, rng.uniform(0.2, 0.6)
    m = 2 * np.log(n) / (eps**2 * (1 / 4 - eps / 6))
    failure = n * (n - 1) / 2 * tails.tail_bound(tails.Tail.cubic, m, eps)
    assert 0.98 < failure < 1, "the union bound is met, and with a smaller m it would not be"
    return tails.statement_constant(eps) * np.log(n) / eps**2, m


@formula("distortion", "m ≥ 8 ln N / (ε² (1/4 − ε/12))")
def _(rng: np.random.Generator) -> Both:
    n, eps = 100, rng.uniform(0.2, 0.6)
    m = 8 * np.log(n) / (eps**2 * (1 / 4 - eps / 12))
    failure = n * (n - 1) / 2 * tails.tail_bound(tails.Tail.cubic, m, eps / 2)
    assert 0.98 < failure < 1
    return tails.proof_constant(eps) * np.log(n) / eps**2, m


def patterns(rng: np.random.Generator) -> np.ndarray:
    """One causal pattern over the positions of `TOKENS`."""
    A = np.tril(rng.uniform(size=(6, 6)))
    return A / A.sum(axis=1, keepdims=True)


@formula("induction", "prefix matching = mean_t Σ_{s ≤ t : x_{s−1} = x_t} A_ts")
def _(rng: np.random.Generator) -> Both:
    A, x = patterns(rng), TOKENS
    sums = []
    for t in range(6):
        after = [s for s in range(1, t + 1) if x[s - 1] == x[t]]
        sums += [sum(A[t, s] for s in after)] if after else []
    return detect(jnp.asarray(A), prefix_mask(jnp.array(x))).score, np.mean(sums)


@formula("induction", "previous token = mean_{t ≥ 1} A_{t, t−1}")
def _(rng: np.random.Generator) -> Both:
    A = patterns(rng)
    found = detect(jnp.asarray(A), previous_mask(jnp.array(TOKENS))).score
    return found, np.mean([A[t, t - 1] for t in range(1, 6)])


def kron_terms(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """A₁, W₁, A₂, W₂ and x, of sizes that all differ: 3 positions to 4 to 2, 5 features to 6."""
    shapes = ((4, 3), (5, 6), (2, 4), (6, 7), (3, 5))
    return tuple(rng.normal(size=shape) for shape in shapes)


def term(A: np.ndarray | None, W: np.ndarray | None) -> cx.Kron:
    return cx.Kron(*(None if M is None else jnp.asarray(M) for M in (A, W)))


@formula("kronecker", "(A ⊗ W) x = A x W")
def _(rng: np.random.Generator) -> Both:
    A, W, _, _, x = kron_terms(rng)
    return term(A, W) @ jnp.asarray(x), A @ x @ W


@formula("kronecker", "(A ⊗ W)[(t, j), (s, i)] = A_ts W_ij")
def _(rng: np.random.Generator) -> Both:
    A, W, _, _, x = kron_terms(rng)
    entries = np.empty((4, 6, 3, 5))
    for t, j, s, i in np.ndindex(entries.shape):
        entries[t, j, s, i] = A[t, s] * W[i, j]
    found = kron.materialise(term(A, W))
    np.testing.assert_allclose(found @ x.ravel(), (A @ x @ W).ravel(), rtol=1e-12)
    return found, entries.reshape(24, 15)


@formula("kronecker", "(A₂ ⊗ W₂) ∘ (A₁ ⊗ W₁) = (A₂ A₁) ⊗ (W₁ W₂)")
def _(rng: np.random.Generator) -> Both:
    A, W, A2, W2, x = kron_terms(rng)
    after = np.kron(A2, W2.T) @ np.kron(A, W.T)
    composed = term(A2, W2) @ term(A, W)
    np.testing.assert_allclose(composed @ jnp.asarray(x), A2 @ (A @ x @ W) @ W2, rtol=1e-12)
    return np.stack([kron.materialise(composed), after]), [np.kron(A2 @ A, (W @ W2).T)] * 2


@formula("kronecker", "A ⊗ W = (A ⊗ I) ∘ (I ⊗ W) = (I ⊗ W) ∘ (A ⊗ I)")
def _(rng: np.random.Generator) -> Both:
    A, W, _, _, x = kron_terms(rng)
    move, process = term(A, None), term(None, W)
    found = [operator @ jnp.asarray(x) for operator in (move @ process, process @ move)]
    return np.stack(found), [A @ (x @ W), (A @ x) @ W]


@formula("kronecker", "Attn(x) = x + Σ_h (A^h ⊗ W_V^h W_O^h) x")
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    run = cx.run(model, TOKENS)
    x, A = np.asarray(model.W_E)[TOKENS], np.asarray(run.trace.patterns[0])
    written = sum(np.kron(A[h], maps_of(model, 0, h)[1].T) @ x.ravel() for h in range(2))
    return run.trace.streams[1], x + np.reshape(written, x.shape)


@formula("kronecker", "⟨A₁ ⊗ W₁, A₂ ⊗ W₂⟩ = tr(A₁ᵀ A₂) tr(W₁ᵀ W₂)")
def _(rng: np.random.Generator) -> Both:
    A, A2, W, W2 = (rng.normal(size=shape) for shape in ((3, 2), (3, 2), (4, 5), (4, 5)))
    entries = np.sum(np.kron(A, W.T) * np.kron(A2, W2.T))
    found = kron.inner(term(A, W), term(A2, W2))
    return np.array([found, entries]), [np.trace(A.T @ A2) * np.trace(W.T @ W2)] * 2


def mlp_of(rng: np.random.Generator, *stack: int, biases: bool = True) -> MLPWeights:
    """A gated MLP of 5 units on a stream of 4, or a stack of them."""
    sizes = {"W_in": (4, 5), "W_out": (5, 4), "W_gate": (4, 5)}
    sizes |= {"b_in": (5,), "b_out": (4,), "b_gate": (5,)} if biases else {}
    return MLPWeights(
        **{name: rng.normal(size=(*stack, *size)) / 3 for name, size in sizes.items()}
    )


def applied(weights: MLPWeights, x: np.ndarray, activation: str) -> ArrayLike:
    return mlp.apply_mlp(jax.tree.map(jnp.asarray, weights), jnp.asarray(x), activation)


def silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-z))


@formula("mlps", "MLP(x) = act(x W_in + b_in) W_out + b_out")
def _(rng: np.random.Generator) -> Both:
    W, x = mlp_of(rng)._replace(W_gate=None, b_gate=None), rng.normal(size=(3, 4))
    return applied(W, x, "silu"), silu(x @ W.W_in + W.b_in) @ W.W_out + W.b_out


@formula("mlps", "MLP(x) = (act(x W_gate + b_gate) ⊙ (x W_in + b_in)) W_out + b_out")
def _(rng: np.random.Generator) -> Both:
    W, x = mlp_of(rng), rng.normal(size=(3, 4))
    hidden = silu(x @ W.W_gate + W.b_gate) * (x @ W.W_in + W.b_in)
    return applied(W, x, "silu"), hidden @ W.W_out + W.b_out


@formula("mlps", "MLP(x) = b_out + Σ_k act(⟨x, W_in[:, k]⟩ + b_in,k) W_out[k, :]")
def _(rng: np.random.Generator) -> Both:
    W, x = mlp_of(rng)._replace(W_gate=None, b_gate=None), rng.normal(size=4)
    values = [max(x @ W.W_in[:, k] + W.b_in[k], 0) * W.W_out[k] for k in range(5)]
    return applied(W, x[None], "relu")[0], W.b_out + sum(values)


@formula("mlps", "g(z) = 1 if z > 0 else 0 for ReLU, Φ(z) for GELU, 1 / (1 + exp(−z)) for SiLU")
def _(rng: np.random.Generator) -> Both:
    z = rng.normal(size=9)
    gates = [np.where(z > 0, 1, 0), special.ndtr(z), 1 / (1 + np.exp(-z))]
    found = [activate(jnp.asarray(z), name) for name in ("relu", "gelu", "silu")]
    return np.stack(found), z * np.stack(gates)


@formula(
    "mlps",
    "MLP(x) = x M + c, M = Σ_k g_k W_in[:, k] W_out[k, :], c = b_out + Σ_k g_k b_in,k W_out[k, :]",
)
def _(rng: np.random.Generator) -> Both:
    gated, x = mlp_of(rng), rng.normal(size=4)
    found, written = [], []
    for W in (gated, gated._replace(W_gate=None, b_gate=None)):
        z = x @ W.W_in + W.b_in
        g = 1 / (1 + np.exp(-z)) if W.W_gate is None else silu(x @ W.W_gate + W.b_gate)
        M = sum(g[k] * np.outer(W.W_in[:, k], W.W_out[k]) for k in range(5))
        c = W.b_out + sum(g[k] * W.b_in[k] * W.W_out[k] for k in range(5))
        found.append(applied(W, x[None], "silu")[0])
        written.append(x @ M + c)
    return np.stack(found), written


@formula("mlps", "x_L = x_0 + Σ_l (Σ_h head_lh + mlp_l)")
def _(rng: np.random.Generator) -> Both:
    weights = {"W_in": (2, 6, 5), "W_out": (2, 5, 6)}
    layers = MLPWeights(**{name: rng.normal(size=size) / 2 for name, size in weights.items()})
    model = model_of(rng, mlp=layers, activation="silu")
    run = cx.run(model, TOKENS, outputs=True)
    parts, x = components_of(run), np.asarray(model.W_E)[TOKENS]
    added = x + np.sum(parts.heads, axis=(0, 1)) + np.sum(parts.mlps, axis=0)
    for layer in range(2):
        A = np.asarray(run.trace.patterns[layer])
        x = x + sum(A[h] @ x @ maps_of(model, layer, h)[1] for h in range(2))
        x = x + silu(x @ layers.W_in[layer]) @ layers.W_out[layer]
    return np.stack([run.trace.streams[-1], added]), [x, x]


@formula("mlps", "x_L = x_0 (I + M_0) (I + M_1) … (I + M_{L−1})")
def _(rng: np.random.Generator) -> Both:
    layers, W_E = mlp_of(rng, 3, biases=False), rng.normal(size=(7, 4))
    silent = HeadStack(*(np.zeros((3, 1, 4, 4)) for _ in range(4)))
    model = cx.Model.of(W_E=W_E, W_U=W_E.T, attention=silent, mlp=layers, activation="silu")
    found, x = cx.run(model, TOKENS).trace.streams, W_E[TOKENS]
    ends = []
    for t in range(6):
        product = np.eye(4)
        for layer in range(3):
            g = silu(np.asarray(found[layer, t]) @ layers.W_gate[layer])
            product = product @ (np.eye(4) + layers.W_in[layer] * g @ layers.W_out[layer])
        ends.append(x[t] @ product)
    return found[-1], ends


def with_mlps(rng: np.random.Generator) -> tuple[cx.Model, MLPWeights]:
    """Two layers of two heads, each before an MLP of five units of SiLU."""
    sizes = {"W_in": (2, 6, 5), "W_out": (2, 5, 6)}
    layers = MLPWeights(**{name: rng.normal(size=size) / 2 for name, size in sizes.items()})
    return model_of(rng, mlp=layers, activation="silu"), layers


def passage(layers: MLPWeights, layer: int, x: np.ndarray) -> np.ndarray:
    """``I + M`` of the MLP that reads x, at each position, gates held."""
    W_in, W_out = layers.W_in[layer], layers.W_out[layer]
    gates = 1 / (1 + np.exp(-x @ W_in))
    return np.stack([np.eye(6) + W_in * g @ W_out for g in gates])


@formula(
    "mlps",
    "⟨MLP(x), u⟩ = x B_u xᵀ, B_u = Σ_k ⟨W_out[k], u⟩ (g_k w_kᵀ + w_k g_kᵀ) / 2 = Σ_i λ_i v_i v_iᵀ",
)
def _(rng: np.random.Generator) -> Both:
    W, x, u = mlp_of(rng, biases=False), rng.normal(size=4), rng.normal(size=4)
    B = interaction_matrices(jax.tree.map(jnp.asarray, W), jnp.asarray(u))
    values, vectors = interaction_eigenvectors(B)
    pairs = [np.outer(W.W_gate[:, k], W.W_in[:, k]) for k in range(5)]
    summed = sum((W.W_out[k] @ u) * (pairs[k] + pairs[k].T) / 2 for k in range(5))
    written = applied(W, x[None], "linear")[0] @ u
    again = sum(values[i] * np.outer(vectors[:, i], vectors[:, i]) for i in range(4))
    ours = [np.full((4, 4), written), B, again]
    return np.stack(ours), np.stack([np.full((4, 4), x @ summed @ x), summed, summed])


@formula("mlps", "s_ts = scale Σ_ab ⟨q_t^a, k_s^b⟩")
def _(rng: np.random.Generator) -> Both:
    model, layers = with_mlps(rng)
    run = cx.run(model, TOKENS, outputs=True)
    x, A = np.asarray(model.W_E)[TOKENS], np.asarray(run.trace.patterns[0])
    OV = [maps_of(model, 0, h)[1] for h in range(2)]
    heads_write = [A[h] @ x @ OV[h] for h in range(2)]
    before = x + sum(heads_write)
    by_token = [np.zeros((6, 6))]  # no biases
    for s in range(6):
        only = np.zeros((6, 6))
        only[s] = x[s]
        by_token.append(only + sum(A[h] @ only @ OV[h] for h in range(2)))
    X = passage(layers, 0, before)
    W_Q, W_K = (np.asarray(W)[1, 1] for W in model.blocks.attention[:2])
    stream = before + silu(before @ layers.W_in[0]) @ layers.W_out[0]
    whole = stream @ W_Q @ (stream @ W_K).T / np.sqrt(3)
    ours, written = [], []
    for by, undressed in (("head", [x, *heads_write]), ("token", by_token)):
        found = dressed_score_terms(run, 1, 1, by=by)
        parts = [[row @ X[t] for t, row in enumerate(part)] for part in undressed]
        terms = [[a @ W_Q @ (b @ W_K).T for b in parts] for a in np.array(parts)]
        ours += [found.terms, found.terms.sum(axis=(0, 1))]
        written += [np.divide(terms, np.sqrt(3)), whole]
    return np.concatenate([jnp.ravel(a) for a in ours]), np.concatenate(
        [np.ravel(a) for a in written]
    )


@formula("neurons", "purity_k = max_i W_ki² / Σ_i W_ki²")
def _(rng: np.random.Generator) -> Both:
    W = rng.normal(size=(3, 5))
    return features.purity(jnp.asarray(W)), [max(row**2) / sum(row**2) for row in W]


@formula("neurons", "slope_kij = ReLU(±W_in[i, k]) W_out[k, j]")
def _(rng: np.random.Generator) -> Both:
    W_in, W_out = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
    slope = [
        [[[max(sign * W_in[i, k], 0) * W_out[k, j] for j in range(3)] for i in range(3)]]
        for sign in (1, -1)
        for k in range(4)
    ]
    found = hidden_layers.gains(jnp.asarray(W_in), jnp.asarray(W_out))
    return found, np.reshape(slope, (2, 4, 3, 3))


@formula("neurons", "attack_i = ±ε (Wᵀ W)_i / |(Wᵀ W)_i|")
def _(rng: np.random.Generator) -> Both:
    W, x, eps = rng.normal(size=(2, 4)), rng.uniform(size=(1, 4)), 0.3
    G = W.T @ W
    attacks = [sign * eps * row / np.linalg.norm(row) for sign in (1, -1) for row in G]
    errors = [np.sum((np.maximum((x[0] + a) @ G, 0) - x[0]) ** 2) for a in attacks]
    model = cx.TiedWeights(jnp.asarray(W), jnp.zeros(4))
    return adversarial.analytic_errors(model, jnp.asarray(x), jnp.ones(4), eps)[:, 0], errors


@formula("neurons", "bound = (√error + ε √(max_i I_i) |Wᵀ W|₂)²")
def _(rng: np.random.Generator) -> Both:
    W, eps, importance = rng.normal(size=(2, 4)), 0.3, np.array([4, 1, 2, 0.5])
    error = rng.uniform(size=3)
    stretch = np.sqrt(importance.max()) * np.linalg.norm(W.T @ W, ord=2)
    model = cx.TiedWeights(jnp.asarray(W), jnp.zeros(4))
    bound = adversarial.attack_bound(model, jnp.asarray(error), jnp.asarray(importance), eps)
    return bound, (np.sqrt(error) + eps * stretch) ** 2


def test_the_bound_on_attacks_needs_the_greatest_importance(x64: None) -> None:
    """A model without superposition, I = (4, 1): the attack on feature 0 loses I_0 ε², and the
    bound is tight; without the importance it would be ε², and false."""
    plain, importance, eps = cx.TiedWeights(jnp.eye(2), jnp.zeros(2)), jnp.array([4.0, 1.0]), 0.1
    x = jnp.array([[0.5, 0.5]])
    lost = adversarial.analytic_errors(plain, x, importance, eps)[:2, 0]
    np.testing.assert_allclose(lost, [0.04, 0.01], rtol=1e-12)
    bound = adversarial.attack_bound(plain, jnp.zeros(1), importance, eps)
    np.testing.assert_allclose(bound, 0.04, rtol=1e-12)


@formula("order-terms", "c_k ← c_k + Σ_h A^h c_{k−1} W_OV^h")
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    run = cx.run(model, TOKENS)
    streams = [np.asarray(model.W_E)[TOKENS], *np.zeros((2, 6, 6))]
    for layer in range(2):
        A = np.asarray(run.trace.patterns[layer])
        W = [maps_of(model, layer, head)[1] for head in range(2)]
        before = [c.copy() for c in streams]
        for k in (1, 2):
            streams[k] = before[k] + sum(A[h] @ before[k - 1] @ W[h] for h in range(2))
    return order_streams(frozen_model(run)), streams


@formula("parameter-decomposition", "W ≈ Σ_c V_cᵀ U_c")
def _(rng: np.random.Generator) -> Both:
    V, U = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    module = Subcomponents(4, 3, 2)
    start = module.init(jax.random.key(0), method="matrix")["params"]
    found = module.apply(
        {"params": start | {"V": jnp.asarray(V), "U": jnp.asarray(U)}}, method="matrix"
    )
    return found, sum(np.outer(v, u) for v, u in zip(V, U, strict=True))


@formula("parameter-decomposition", "row score_i = max_c cos(V_ci U_c, W_i)")
def _(rng: np.random.Generator) -> Both:
    W, V, U = rng.normal(size=(3, 2)), rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    found = dictionaries.row_match(jnp.asarray(W), jnp.asarray(V), jnp.asarray(U)).cosine
    return found, [cosine(V[:, i : i + 1] * U, W[i : i + 1]).max() for i in range(3)]


@formula("parameter-decomposition", "whole score_ic = (V_ci / |V_c|) cos(U_c, W_i)")
def _(rng: np.random.Generator) -> Both:
    W, V, U = rng.normal(size=(3, 2)), rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    found = dictionaries.rank_one_cosines(jnp.asarray(W), jnp.asarray(V), jnp.asarray(U))
    score = np.empty((3, 4))
    for i, c in np.ndindex(3, 4):
        score[i, c] = V[c, i] / np.linalg.norm(V[c]) * cosine(U[c][None], W[i][None])[0, 0]
        true, part = np.zeros((3, 2)), np.outer(V[c], U[c])
        true[i] = W[i]
        assert score[i, c] == pytest.approx(cosine(true.ravel()[None], part.ravel()[None])[0, 0])
    return found, score


def secant_of(step: Callable[..., Any], *pairs: ArrayLike) -> np.ndarray:
    """The difference of a step by its secant, for the differences of its inputs."""
    both = tuple(jnp.asarray(pair) for pair in pairs)
    tangents = tuple(jnp.stack([pair[0] - pair[1]] * 2) for pair in both)
    mapped = jax.vmap(secants.secant(step), axis_name=secants.PAIR)
    return np.asarray(jax.jvp(mapped, both, tangents)[1])[0]


@formula("contrast", "Δ(ab) = ā Δb + b̄ Δa")
def _difference_of_a_product(rng: np.random.Generator) -> Both:
    a, b = rng.normal(size=(2, 2, 4))
    return secant_of(operator.mul, a, b), a.mean(0) * (b[0] - b[1]) + b.mean(0) * (a[0] - a[1])


@formula("contrast", "Δ(x / y) = mean(1 / y) Δx − x̄ Δy / (y_A y_B)")
def _difference_of_a_quotient(rng: np.random.Generator) -> Both:
    x, y = rng.normal(size=(2, 4)), rng.uniform(1, 3, (2, 4))
    written = (1 / y).mean(0) * (x[0] - x[1]) - x.mean(0) * (y[0] - y[1]) / (y[0] * y[1])
    return secant_of(operator.truediv, x, y), written


@formula("contrast", "Δf = f[z_A, z_B] Δz, f[z_A, z_B] = (f(z_A) − f(z_B)) / (z_A − z_B)")
def _difference_of_an_activation(rng: np.random.Generator) -> Both:
    z = rng.normal(size=(2, 4))
    f = np.asarray(activate(jnp.asarray(z), "gelu"))
    slope = secants.divided_difference(*jnp.asarray(z), "gelu")
    return slope * (z[0] - z[1]), (f[0] - f[1]) / (z[0] - z[1]) * (z[0] - z[1])


@formula("contrast", "Δσ = mean(c̄ Δc) / σ̄")
def _difference_of_a_divisor(rng: np.random.Generator) -> Both:
    x = rng.normal(size=(2, 3, 5))
    c = x - x.mean(-1, keepdims=True)
    sigma = np.sqrt((c**2).mean(-1) + 1e-5)
    written = (c.mean(0) * (c[0] - c[1])).mean(-1) / sigma.mean(0)
    step = secants.secant(norm_scale)
    mapped = jax.vmap(lambda x: step(x, Norm.layernorm, 1e-5), axis_name=secants.PAIR)
    both = jnp.asarray(x)
    return jax.jvp(mapped, (both,), (jnp.stack([both[0] - both[1]] * 2),))[1][0], written


@formula(
    "contrast",
    "ΔP_j = L_j (Δs_j − Σ_k L_k Δs_k / Σ_k L_k), L_j = (P_Aj − P_Bj) / (ln P_Aj − ln P_Bj)",
)
def _difference_of_a_softmax(rng: np.random.Generator) -> Both:
    s = rng.normal(size=(2, 1, 3, 3))
    P = special.softmax(s, axis=-1)
    L = (P[0] - P[1]) / (np.log(P[0]) - np.log(P[1]))
    ds = s[0] - s[1]
    written = L * (ds - (L * ds).sum(-1, keepdims=True) / L.sum(-1, keepdims=True))
    step, mask, v = secants.secant(attention.attend), jnp.ones((3, 3), bool), jnp.eye(3)[None]
    mapped = jax.vmap(lambda s: step(s, mask, v)[0], axis_name=secants.PAIR)
    return jax.jvp(mapped, (jnp.asarray(s),), (jnp.stack([jnp.asarray(ds)] * 2),))[1][0], written


@formula("contrast", "Δ = Σ_t ⟨Δx_t, m_t⟩")
def _difference_at_each_cut(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    found = cx.contrast(cx.run(model, TOKENS), cx.run(model, [3, 1, 2, 1, 5, 6]), token=2)
    return found.flow.sum(axis=1), np.full(3, found.delta)


@formula("patching", "y ← (1 − a) y + a r")
def _(rng: np.random.Generator) -> Both:
    model, a, r = model_of(rng), 0.3, rng.normal(size=(6, 6))
    edit = ablate_heads(jnp.zeros((2, 2)).at[0, 1].set(a), jnp.zeros((2, 2, 6, 6)).at[0, 1].set(r))
    x = np.asarray(model.W_E)[TOKENS]
    A = np.asarray(cx.run(model, TOKENS).trace.patterns[0])
    other, y = (A[h] @ x @ maps_of(model, 0, h)[1] for h in range(2))
    edited = cx.run(model, TOKENS, interventions=edit).trace.streams[1]
    return edited, x + other + (1 - a) * y + a * r


@formula(
    "path-expansion",
    "logits = D Σ_paths (A^{h_k} … A^{h_1}) t (W_E W_OV^{h_1} … W_OV^{h_k} W_U) + b_U",
)
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng, norm=Norm.rmsnorm, b_U=rng.normal(size=7))
    run = cx.run(model, TOKENS)
    t, scales = np.eye(7)[TOKENS], run.trace.scales
    D = np.diag(1 / np.asarray(scales.final))
    total = np.tile(model.b_U, (6, 1))
    for path in itertools.product((None, 0, 1), repeat=2):
        moved, written = t, np.asarray(model.W_E)
        for layer, head in enumerate(path):
            if head is None:
                continue
            A = np.asarray(run.trace.patterns[layer, head]) / np.asarray(scales.attention[layer])
            moved, written = A @ moved, written @ maps_of(model, layer, head)[1]
        total += D @ moved @ written @ np.asarray(model.W_U)
    paths = cx.expand(run)
    return np.stack([run.logits, paths.terms.sum(axis=0) + paths.bias[None, :]]), np.stack(
        [total, total]
    )


@formula("path-expansion", "N(x) = diag(1/σ) x (I − 1 1ᵀ/d) diag(γ) + β")
def _(rng: np.random.Generator) -> Both:
    gain, offset = rng.normal(size=(2, 6)), rng.normal(size=(2, 6))
    model = model_of(
        rng, norm=Norm.layernorm, post_ln=True, attention_norm=NormWeights(gain, offset)
    )
    run = cx.run(model, TOKENS, outputs=True)
    x = np.asarray(run.streams[1] + run.trace.head_outputs[1].sum(axis=0))
    sizes = np.sqrt(x.var(axis=1) + model.spec.norm_eps)
    centred = np.eye(6) - np.ones((6, 6)) / 6
    written = np.diag(1 / sizes) @ x @ centred @ np.diag(gain[1]) + offset[1]
    norms = frozen_model(run).norms
    held = norms.apply(1, 0, jnp.asarray(x)) + norms.offset[1, 0][None, :]
    return np.stack([run.streams[2], held]), np.stack([written, written])


@formula("path-ledger", "value² ≤ (Σ_s |a_s|) Σ_s |a_s| wᵀ M_l(s) w")
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    run = cx.run(model, TOKENS)
    M = head_path_bounds(host_model(frozen_model(run)), 5).at_head
    x, A = np.asarray(model.W_E)[TOKENS], np.asarray(run.trace.patterns)
    values, bounds = [], []
    for before, head in itertools.product(range(2), range(2)):
        # The path of one head before, read by a head of layer 1 along u, from position 5.
        u, a = rng.normal(size=3), A[1, head, 5]
        W_V = np.asarray(model.blocks.attention.W_V)[1, head]
        y = A[0, before] @ x @ maps_of(model, 0, before)[1]
        values.append((a @ y @ W_V @ u) ** 2)
        bounds.append(a.sum() * sum(a[s] * u @ M[2 + head, s] @ u for s in range(6)))
    return at_most(values, bounds)


@formula(
    "path-ledger",
    "G_{l+1}(s) = G_l(s) + Σ_h W_OV^hᵀ (Σ_{s'} (A^h_{ss'})² G_l(s')) W_OV^h",
)
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    run = cx.run(model, TOKENS)
    x, A = np.asarray(model.W_E)[TOKENS], np.asarray(run.trace.patterns)
    start = G = np.einsum("si,sj->sij", x, x)
    for layer in range(2):
        G = G + sum(
            np.einsum("ia,st,tij,jb->sab", W, A[layer, h] ** 2, G, W)
            for h, W in enumerate(maps_of(model, layer, h)[1] for h in range(2))
        )
    found = position_path_moments(host_model(frozen_model(run)), 5).at_end
    return found, (G - start)[5]  # the direct path is kept apart


@formula(
    "path-ledger",
    "x_L · w = x_0 · w + Σ_l (b_l + c_l) · w + Σ_lh o_lh · w + Σ_ln (x_l · d_ln) (w_ln · w)",
)
def _(rng: np.random.Generator) -> Both:
    model, layers = with_mlps(rng)  # b_l = c_l = 0
    run = cx.run(model, TOKENS, outputs=True)
    found = cx.ledger(run, token=4, k=10**5, by_position=True, mlps="dressed", neurons=True)
    writers: dict[Any, float] = {}
    for path, neuron, value in zip(found.paths, found.neurons, found.values, strict=True):
        last = ("neuron", *neuron) if neuron else path[-1:]
        writers[last] = writers.get(last, 0.0) + value
    x, A = np.asarray(model.W_E)[TOKENS], np.asarray(run.trace.patterns)
    w = np.asarray(model.W_U)[:, 4]
    written: dict[Any, float] = {(): x[-1] @ w}
    for layer in range(2):
        o = [A[layer, h] @ x @ maps_of(model, layer, h)[1] for h in range(2)]
        written |= {((layer, h),): o[h][-1] @ w for h in range(2)}
        x = x + sum(o)
        gates = 1 / (1 + np.exp(-x @ layers.W_in[layer]))
        d = layers.W_in[layer] * gates[-1]
        along = layers.W_out[layer] @ w
        written |= {("neuron", layer, n): (x[-1] @ d[:, n]) * along[n] for n in range(5)}
        x = x + silu(x @ layers.W_in[layer]) @ layers.W_out[layer]
    assert writers.keys() == written.keys()
    ours = [float(run.logits[-1, 4]), *writers.values()]
    return ours, [sum(written.values()), *(written[last] for last in writers)]


@functools.cache
def dressed_paths() -> tuple[Any, ...]:
    """A frozen model, a direction w, and all dressed paths to it from position 2 of three.

    ``v_direct``; of each path of one head its value v_c; and of each that ends in layer 1, in the
    same order, its source position s_c and the values of all paths through it.
    """
    model, layers = with_mlps(np.random.default_rng(11))
    run = cx.run(model, TOKENS[:3], outputs=True)
    x, A = np.asarray(model.W_E)[TOKENS[:3]], np.asarray(run.trace.patterns)
    OV = [[maps_of(model, layer, h)[1] for h in range(2)] for layer in range(2)]
    X, y = [], x
    for layer in range(2):
        y = y + sum(A[layer, h] @ y @ OV[layer][h] for h in range(2))
        X.append(passage(layers, layer, y))
        y = np.einsum("td,tde->te", y, X[-1])
    w = np.asarray(model.W_U)[:, 4]
    behind = X[1][2] @ w
    one, source, longer = [], [], []
    for h, s in np.ndindex(2, 3):
        w_c = A[1, h, 2, s] * OV[1][h] @ behind
        one.append(x[s] @ X[0][s] @ w_c)
        source.append(s)
        longer.append(
            [A[0, g, s, r] * x[r] @ OV[0][g] @ X[0][s] @ w_c for g, r in np.ndindex(2, s + 1)]
        )
    one += [A[0, g, 2, r] * x[r] @ OV[0][g] @ X[0][2] @ behind for g, r in np.ndindex(2, 3)]
    np.testing.assert_allclose(x[2] @ X[0][2] @ behind + sum(one) + sum(map(sum, longer)), y[2] @ w)
    return frozen_model(run), jnp.asarray(w), x[2] @ X[0][2] @ behind, one, source, longer


def walks() -> tuple[np.ndarray, np.ndarray, float]:
    """From the logit of `dressed_paths`: p(c) and E_c of the paths that go on, and E of the first.

    What may precede c makes the paths through c, so that wᵀ G w is the sum of their squares.
    """
    _, _, _, one, source, longer = dressed_paths()
    E, E_c = np.abs(one).sum(), np.array([np.abs(v).sum() for v in longer])
    n = 2 * (1 + np.array(source))  # two heads, and positions up to the source
    b = np.sqrt([np.sum(np.square(v)) for v in longer]) * np.sqrt(1 + n)
    return b / (E + b.sum()), E_c, E


@formula(
    "path-ledger",
    "p(c) = b_c / (E_q + Σ_c b_c), E_q = Σ_c |v_c|, "
    "b_c = √(wᵀ G w of what may precede c) · √(1 + n_c)",
)
def _(rng: np.random.Generator) -> Both:
    frozen, w, direct, *_ = dressed_paths()
    p, E_c, E = walks()
    # Two walks: each ends at once or goes on through one c, whose paths weigh 1 / p(c).
    after = np.append(E_c / p, 0)
    possible = np.array([abs(direct) + E + (a + b) / 2 for a in after for b in after])
    found = [path_mass(frozen, 2, w, jax.random.key(i), n_walks=2).absolute for i in range(12)]
    nearest = [possible[np.abs(possible - x).argmin()] for x in found]
    assert len(set(nearest)) > 4 and np.diff(np.unique(possible.round(9))).min() > 0.01
    return nearly(found, nearest, 1e-6)  # moments are raised by 2⁻²⁴


@formula("path-ledger", "Σ_p |v_p| = |v_direct| + E [Σ_{q on the walk} E_q / π(q)]")
def _(rng: np.random.Generator) -> Both:
    frozen, w, direct, one, _, longer = dressed_paths()
    n, (p, E_c, _) = 10_000, walks()
    whole = sum(abs(v) for v in (direct, *one, *itertools.chain(*longer)))
    error = np.sqrt((np.sum(E_c**2 / p) - E_c.sum() ** 2) / n)  # of the mean of n walks
    assert error < whole / 100
    found = path_mass(frozen, 2, w, jax.random.key(0), n_walks=n).absolute
    return nearly(found, whole, 3 * error)


def corners() -> np.ndarray:
    """The directions of features 1 to 5 as rows."""
    return np.array([[np.cos(0.4 * np.pi * k), np.sin(0.4 * np.pi * k)] for k in range(1, 6)])


@formula("pentagon", "v_k = (cos(2πk/5), sin(2πk/5)), k = 1, …, 5")
def _(rng: np.random.Generator) -> Both:
    return toy.pentagon_weights().layers[0].W, corners()


@formula("pentagon", "x̂ = ReLU(1.5 ReLU(x V + b₁) Vᵀ + b₂)")
def _(rng: np.random.Generator) -> Both:
    x, V, b_1 = 2 * rng.uniform(size=(20, 5)), corners(), np.array([0.82, 0.97])
    hidden = np.maximum(x @ V + b_1, 0)
    assert (hidden == 0).any(), "some neuron is off"
    answer = np.maximum(1.5 * hidden @ V.T - 1.5 * b_1 @ V.T - 0.5, 0)
    return toy.dense_forward(toy.pentagon_weights(), jnp.asarray(x))[0], answer


@formula("pentagon", "z_j = 1.5 Σ_k x_k cos(2π(j − k)/5) − 0.5")
def _(rng: np.random.Generator) -> Both:
    x = rng.uniform(0, 0.4, size=5)
    z = [1.5 * sum(x[k] * np.cos(0.4 * np.pi * (j - k)) for k in range(5)) - 0.5 for j in range(5)]
    tied = cx.TiedWeights(jnp.asarray(np.sqrt(1.5) * corners().T), jnp.full(5, -0.5))
    found = toy.dense_forward(toy.pentagon_weights(), jnp.asarray(x))[1][1]
    return np.stack([found, toy.tied_forward(tied, jnp.asarray(x), "linear")]), [z, z]


@formula("pentagon", "x̂_k(a e_k) = ReLU(1.5 a − 0.5)")
def _(rng: np.random.Generator) -> Both:
    a = np.append(rng.uniform(size=6), [0.2, 1])
    found = hidden_layers.feature_response(toy.pentagon_weights(), jnp.asarray(a))
    return jnp.einsum("kak->ka", found), np.tile(np.maximum(1.5 * a - 0.5, 0), (5, 1))


@formula("pentagon", "clip_k = min_{i : v_ki < 0} b₁_i / |v_ki|")
def _(rng: np.random.Generator) -> Both:
    found = hidden_layers.onsets(toy.pentagon_weights()).clips
    assert np.isinf(found[jnp.array([0, 4])]).all(), "features 1 and 5 have no negative entry"
    b_1 = np.array([0.82, 0.97])
    return found[1:4], [min(b_1[v < 0] / -v[v < 0]) for v in corners()[1:4]]


@formula("pentagon", "invent_k = 1 / (3 cos(2π/5))")
def _(rng: np.random.Generator) -> Both:
    found = hidden_layers.onsets(toy.pentagon_weights()).invents
    return found[jnp.array([0, 3, 4])], np.full(3, 1 / (3 * np.cos(0.4 * np.pi)))


@formula("scaling", "p_i = c i^−α / Σ_j j^−α")
def _(rng: np.random.Generator) -> Both:
    c, alpha = rng.uniform(0.5, 1), rng.uniform(0.5, 1.5)
    total = sum(j**-alpha for j in range(1, 9))
    return feature_laws.power_law(8, alpha, c), [c * i**-alpha / total for i in range(1, 9)]


@formula("scaling", "tail = (4/3) Σ_{i > m} p_i")
def _(rng: np.random.Generator) -> Both:
    p, m = rng.uniform(size=8) / 8, 3
    square = integrate.quad(lambda v: v**2 / 2, 0, 2)[0]  # v is uniform on [0, 2]
    return np.array([feature_laws.unlearned_loss(p, m)] * 2), [
        4 / 3 * sum(p[m:]),
        square * sum(p[m:]),
    ]


@formula("scaling", "decay = W_i for γ ≥ 0, W_i (1/|W_i| − 1) for γ < 0")
def _(rng: np.random.Generator) -> Both:
    W = rng.normal(size=(2, 4))
    found = [signed_decay(jnp.asarray(W), gamma) / gamma for gamma in (0.3, -0.3)]
    return np.stack(found), np.stack([W, W / np.linalg.norm(W, axis=0) - W])


@formula("scaling", "l = 1 / (√2 sin(π/T))")
def _(rng: np.random.Generator) -> Both:
    T = int(rng.integers(5, 12))
    least = 1 / (np.sqrt(2) * np.sin(np.pi / T))
    x = np.diag(np.ones(T))
    lost = [
        kgons.reconstruction_loss(*kgons.tgon_weights(x, factor * least), x)
        for factor in (1.0, 0.99)
    ]
    assert lost[0] < 1e-20 < 1e-4 < lost[1], "the least norm without error"
    return kgons.tgon_norm(T), least


@formula("token-tables", "score[u, s] = (W_E W_QK W_Eᵀ)[u, s] − mean_s (W_E W_QK W_Eᵀ)[u, s]")
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng, score_scale=1.0)
    W_E = np.asarray(model.W_E)
    table = W_E @ maps_of(model, 1, 0)[0] @ W_E.T
    return materialise(token_qk(model))[1, 0], table - table.mean(axis=1, keepdims=True)


@formula("token-tables", "raise[s, v] = (W_E W_OV W_U)[s, v] − mean_v (W_E W_OV W_U)[s, v]")
def _(rng: np.random.Generator) -> Both:
    model = model_of(rng)
    table = np.asarray(model.W_E) @ maps_of(model, 1, 0)[1] @ np.asarray(model.W_U)
    return materialise(token_ov(model))[1, 0], table - table.mean(axis=1, keepdims=True)
