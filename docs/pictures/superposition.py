"""Pictures of the methods on superposition and on directions, of the examples of their pages."""

import jax
import jax.numpy as jnp
import numpy as np
from circuits import _table
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import circuitax as cx
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREEN, GREY, ORANGE
from circuitax.figures.style import new_figure
from circuitax.projection import laws
from circuitax.superposition.climb import TEGUM_FACTORS, tegum_gains, vertices
from circuitax.superposition.feature_laws import power_law, unlearned_loss

ARROW = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0}


def exact_loss() -> Figure:
    """Loss of a pentagon over its bias: computed, and as means of samples."""
    p, norm = 0.05, 1.135
    angle = 2 * np.pi * np.arange(5) / 5
    W = norm * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    @jax.jit
    def loss(bias: jax.Array) -> jax.Array:
        weights = cx.TiedWeights(W, jnp.full(5, bias))
        return cx.expected_loss(weights, jnp.full(5, p), jnp.ones(5), n_terms=64).value

    bias = np.linspace(-0.45, 0, 46)
    values = np.array([loss(b) for b in bias])
    rng = np.random.default_rng(0)
    at = bias[::3].repeat(3)
    x = rng.uniform(size=(at.size, 5000, 5)) * (rng.uniform(size=(at.size, 5000, 5)) < p)
    answer = np.maximum(x @ np.asarray(W.T @ W) + at[:, None, None], 0)
    means = ((answer - x) ** 2).sum(axis=2).mean(axis=1)
    figure, axes = new_figure(width=4.5, height=2.0)
    (ax,) = axes[0]
    ax.plot(at, means, "o", color=GREY, ms=3, alpha=0.6, label="mean of 5,000 samples")
    ax.plot(bias, values, color=BLUE, label="exact")
    ax.plot(-0.246, loss(-0.246), "o", color=ORANGE)
    ax.annotate(
        "−0.246: 0.008904",
        (-0.246, loss(-0.246)),
        (-0.246, 0.0135),
        color=ORANGE,
        ha="center",
        arrowprops={"arrowstyle": "-", "color": ORANGE, "lw": 0.6},
    )
    ax.set(xlabel="bias of the pentagon", ylabel="loss at density 0.05")
    ax.legend()
    return figure


def polytopes() -> Figure:
    """Shapes from above, and what each saves for every dimension over the density."""
    figure, axes = new_figure(2, 5, height=3.6, height_ratios=[1, 1.5])
    shown = ("digon", "triangle", "tetrahedron", "pentagon", "square antiprism")
    for ax, name, colour in zip(axes[0], shown, COLOURS, strict=False):
        _shape(ax, name, colour)
    for ax in axes[1]:
        ax.remove()
    below = figure.add_subplot(axes[1, 0].get_gridspec()[1, :])
    p = jnp.asarray(1 / np.geomspace(1.02, 40, 60))
    gains = dict(zip(TEGUM_FACTORS, np.asarray(tegum_gains(p).gain), strict=True))
    best = np.max(list(gains.values()), axis=0)
    for name, colour in zip(("dedicated", *shown, "hexagon"), (GREY, *COLOURS), strict=False):
        below.plot(1 / p, gains[name] / best, color=colour, label=name)
    below.set(xscale="log", ylim=(0.8, 1.005), xlabel="1/p, from dense to rare features")
    below.set_xticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"])
    below.set_ylabel("gain for each dimension,\nshare of the best")
    below.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _shape(ax: Axes, name: str, colour: str) -> None:
    k, r = TEGUM_FACTORS[name]
    V = vertices(name)[:, :k]
    turn = np.array([[1, 0, 0.25], [0, 1, 0.35]]) if r == 3 else np.eye(2, 3)
    distance = np.linalg.norm(V[:, :, None] - V[:, None], axis=0)
    flat, nearest = turn @ V, np.min(distance + 9 * np.eye(k))
    if r == 3:
        for i, j in zip(*np.nonzero(np.triu(distance < 1.35 * nearest, 1)), strict=True):
            ax.plot(*flat[:, [i, j]], color=GREY, lw=0.5)
    for x, y in flat.T:
        ax.annotate("", (x, y), (0, 0), arrowprops=ARROW | {"color": colour})
    ax.plot(*flat, "o", color=colour, ms=3)
    ax.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{name}\nk = {k}, r = {r}\nD = {r}/{k}")


def neurons() -> Figure:
    """The network of the example: weights on edges, and what its outputs are."""
    W_in = np.array([[1.0, -1.0, 0.5], [0.0, 0.0, 1.0]])
    W_out = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    figure, axes = new_figure(1, 2, width=5.5, height=2.1, width_ratios=[1.5, 1])
    ax = axes[0, 0]
    places = {"in": [2.0, 0.4], "neuron": [2.5, 1.3, 0.2], "out": [1.9, 0.2]}
    columns = {"in": 0, "neuron": 1.5, "out": 3}
    for (left, right), W in (("in", "neuron"), W_in), (("neuron", "out"), W_out):
        for i, j in zip(*np.nonzero(W), strict=True):
            start, end = (columns[left], places[left][i]), (columns[right], places[right][j])
            colour = BLUE if W[i, j] > 0 else ORANGE
            ax.annotate(
                "", end, start, arrowprops=ARROW | {"color": colour, "shrinkA": 8, "shrinkB": 8}
            )
            middle = 0.62 * np.array(start) + 0.38 * np.array(end)
            ax.text(*middle, f"{W[i, j]:g}", color=colour, ha="center", va="bottom")
    names = {"in": "x{}", "neuron": "ReLU", "out": "y{}"}
    for kind, heights in places.items():
        for i, height in enumerate(heights):
            ax.text(
                columns[kind],
                height,
                names[kind].format(i),
                ha="center",
                va="center",
                bbox={"boxstyle": "round", "fc": "white", "ec": GREY},
            )
    ax.set(xlim=(-0.4, 3.4), ylim=(-0.2, 3.0))
    ax.axis("off")
    x = np.linspace(-1, 1, 41)
    for i, colour in enumerate((BLUE, GREEN)):
        inputs = np.zeros((41, 2))
        inputs[:, i] = x
        y = np.maximum(np.maximum(inputs @ W_in, 0) @ W_out, 0)
        axes[0, 1].plot(x, y[:, i], color=colour, label=f"y{i} of x{i} alone", lw=2.5 - i)
    axes[0, 1].set(xlabel="input", ylabel="output", ylim=(-0.05, 1.35))
    axes[0, 1].legend(loc="upper center")
    return figure


def dictionaries() -> Figure:
    """A learned direction between two true ones, and all cosines."""
    figure, axes = new_figure(1, 2, width=4.5, height=1.9, width_ratios=[1, 1.3])
    ax = axes[0, 0]
    half = 0.5**0.5
    for (x, y), colour, name in (
        ((1, 0), BLACK, "$d_0$"),
        ((0, 1), BLACK, "$d_1$"),
        ((half, half), ORANGE, "$D_0$, merged"),
    ):
        ax.annotate("", (x, y), (0, 0), arrowprops=ARROW | {"color": colour})
        ax.text(x + 0.04, y + 0.04, name, color=colour)
    ax.set(xlim=(-0.1, 1.5), ylim=(-0.1, 1.2), aspect="equal")
    ax.axis("off")
    truth = np.eye(3, 4)
    learned = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    cosines = learned / np.linalg.norm(learned, axis=1, keepdims=True) @ truth.T
    _table(axes[0, 1], cosines, "cosine", 1, digits=3)
    axes[0, 1].set(xlabel="true direction $d_i$", ylabel="learned $D_c$")
    return figure


def parameter_decomposition() -> Figure:
    """The parts of the example: true ones, and three of which the first reads both features."""
    W = np.array([[1.0, 0.0], [0.6, 0.8]])
    V, U = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), np.stack([W[0], W[1], -W[0]])
    figure, axes = new_figure(1, 6, height=1.6)
    _table(axes[0, 0], W, "W", 1)
    titles = ("true part 0", "true part 1", "other part 0", "other part 1", "other part 2")
    parts = [np.outer(*pair) for pair in [*zip(np.eye(2), W, strict=True), *zip(V, U, strict=True)]]
    for ax, part, title in zip(axes[0, 1:], parts, titles, strict=True):
        _table(ax, part, title, 1)
    axes[0, 0].set(ylabel="reads feature", xlabel="writes")
    return figure


def directions() -> Figure:
    """Cosines of random directions and their law."""
    n, d = 512, 64
    rows = np.random.default_rng(0).normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = (rows @ rows.T)[np.triu_indices(n, 1)]
    figure, axes = new_figure(1, 2, width=5.5, height=2.0)
    left, right = axes[0]
    left.hist(cosines, bins=60, density=True, color=GREY, alpha=0.6)
    x = np.linspace(-0.6, 0.6, 200)
    left.plot(x, stats.beta((d - 1) / 2, (d - 1) / 2, -1, 2).pdf(x), color=BLUE)
    left.set(xlabel="cosine of a pair", ylabel="density", title=f"{n} random directions, d = {d}")
    size = np.sort(np.abs(cosines))[::-1]
    share = np.arange(1, size.size + 1) / size.size
    right.plot(size, share, color=GREY, lw=2.5, label="these pairs")
    right.plot(x[x > 0], laws.overlap_tail(d, x[x > 0]), color=BLUE, label="law of a random pair")
    right.set(yscale="log", ylim=(3e-6, 1.5), xlabel="ε", ylabel="share of pairs with |cos| > ε")
    right.legend()
    return figure


def scaling() -> Figure:
    """The tail that a model of width m loses, and the least mean squared overlap."""
    m = np.arange(1, 100)
    figure, axes = new_figure(1, 2, width=5.5, height=2.0)
    left, right = axes[0]
    for exponent, colour in ((0, GREY), (1, BLUE), (2, ORANGE)):
        density = power_law(100, exponent)
        left.plot(
            m, [unlearned_loss(density, int(k)) for k in m], color=colour, label=f"α = {exponent}"
        )
    left.plot(10, 1.2, "o", color=GREY)
    left.plot(10, float(unlearned_loss(power_law(100, 1), 10)), "o", color=BLUE)
    left.set(xlabel="width m, of n = 100 features", ylabel="tail, no superposition")
    left.legend()
    right.plot(m, (100 - m) / (m * 99), color=BLUE, label="welch²")
    right.plot(m, 1 / m, color=GREY, ls="--", label="1/m, random directions")
    right.set(xscale="log", yscale="log", xlabel="width m", ylabel="mean squared overlap")
    right.legend()
    return figure


def distortion() -> Figure:
    """The law of one pair, and how many dimensions are enough and how many work."""
    figure, axes = new_figure(1, 2, width=5.5, height=2.1)
    left, right = axes[0]
    x = np.linspace(-0.6, 0.6, 241)
    for m, colour in ((50, GREY), (200, BLUE), (800, ORANGE)):
        left.plot(x, stats.chi2(m, scale=1 / m).pdf(1 + x), color=colour, label=f"m = {m}")
    left.axvspan(-0.3, 0.3, color=GREEN, alpha=0.1, lw=0)
    left.set(xlabel="distortion of one pair", ylabel="density", ylim=(0, None))
    left.legend()
    N, epsilon = np.geomspace(10, 10**6, 21), 0.3
    works = [laws.median_threshold(int(n), epsilon) for n in N]
    right.plot(
        N,
        8 * np.log(N) / (epsilon**2 * (1 / 4 - epsilon / 12)),
        color=ORANGE,
        label="enough, by the proof",
    )
    right.plot(
        N,
        2 * np.log(N) / (epsilon**2 * (1 / 4 - epsilon / 6)),
        color=BLUE,
        label="enough, as stated",
    )
    right.plot(N, works, color=GREEN, label="works in half of maps")
    right.set(xscale="log", xlabel="points N", ylabel="dimensions m, ε = 0.3", ylim=(0, None))
    right.legend()
    return figure
