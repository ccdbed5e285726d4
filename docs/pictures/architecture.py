"""The diagrams of S2 and S4, of small models that were trained on text, with their numbers."""

import functools

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import circuitax as cx
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.token_tables import head_tables
from circuitax.data.tokenizer import token_names
from circuitax.figures.palette import BLACK, BLUE, DIVERGING, GREEN, GREY, ORANGE
from circuitax.figures.style import new_figure
from circuitax.kernel import attention
from circuitax.kernel.attention import turn
from circuitax.kernel.chain import materialise
from circuitax.kernel.norm import apply_norm
from circuitax.kit.kept_models import LanguageModel, open_language_model
from circuitax.lab.runs import accepted_run

SENTENCE = "for item in self.items:"
PRESENTED_HEAD = 1


@functools.cache
def _language_model(name: str) -> LanguageModel:
    return open_language_model(accepted_run("text_models"), name)


def _run() -> tuple[cx.Run, list[str]]:
    """The sentence through the model of two layers with MLPs, and its tokens' names."""
    opened = _language_model("full")
    ids = [0, *opened.tokenizer.encode(SENTENCE).ids]
    names = token_names(opened.tokenizer)
    return cx.run(opened.model, ids, outputs=True), [_shown(names[i]) for i in ids]


def _shown(name: str) -> str:
    return (
        "start" if name.startswith("<|") else name.replace(" ", "␣") if name.strip() else repr(name)
    )


def _first_layer(run: cx.Run) -> tuple[np.ndarray, ...]:
    """What the first layer reads, and queries, keys and values of all heads."""
    model = run.model
    heads = type(model.blocks.attention)(
        *(None if W is None else W[0] for W in model.blocks.attention)
    )
    norm = type(model.blocks.attention_norm)(
        *(None if w is None else w[0] for w in model.blocks.attention_norm)
    )
    x, _ = apply_norm(run.trace.streams[0], model.spec.norm, model.spec.norm_eps, norm)
    q, k, v = (
        attention.project(x, W, b)
        for W, b in ((heads.W_Q, heads.b_Q), (heads.W_K, heads.b_K), (heads.W_V, heads.b_V))
    )
    index = jnp.arange(x.shape[0])
    q, k = (turn(y, index, model.spec, False) for y in (q, k))
    return tuple(np.asarray(y, float) for y in (x, q, k, v))


def _heat(ax: Axes, table: np.ndarray, title: str, labels: list[str] | None = None) -> None:
    """A matrix in colours, its shape and its range in the title."""
    shown = np.where(np.isfinite(table), table, np.nan)
    largest = np.nanmax(np.abs(shown))
    ax.imshow(shown, cmap=DIVERGING, vmin=-1.3 * largest, vmax=1.3 * largest, aspect="auto")
    ax.set_title(f"{title}\n{list(table.shape)}\n{np.nanmin(shown):.1f} to {np.nanmax(shown):.1f}")
    ax.set(xticks=[], yticks=[])
    if labels is not None:
        ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(length=0)


def scaled_dot_product() -> Figure:
    """S2's first figure: the steps of one head, each with what it makes of a line of code."""
    run, names = _run()
    _, q, k, v = (y[PRESENTED_HEAD] if y.ndim == 3 else y for y in _first_layer(run))
    d_head, n = q.shape[-1], len(names)
    products = q @ k.T
    masked = np.where(np.tri(n, dtype=bool), products / np.sqrt(d_head), -np.inf)
    pattern = np.exp(masked - masked.max(axis=1, keepdims=True))
    pattern /= pattern.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pattern, run.trace.patterns[0, PRESENTED_HEAD], atol=1e-4)
    panels = [
        (q, "queries Q"),
        (k, "keys K"),
        (products, "Q Kᵀ"),
        (products / np.sqrt(d_head), f"/ √{d_head}"),
        (masked, "mask"),
        (pattern, "softmax: A"),
        (v, "values V"),
        (pattern @ v, "A V"),
    ]
    figure, axes = new_figure(2, 4, height=3.9)
    for i, (ax, (table, title)) in enumerate(zip(axes.flat, panels, strict=True)):
        _heat(ax, table, title, names if i % 4 == 0 else None)
    return figure


def multi_head() -> Figure:
    """S2's second figure: the patterns of all heads, what they mixed side by side, and one map."""
    run, names = _run()
    _, _, _, v = _first_layer(run)
    A = np.asarray(run.trace.patterns[0], float)
    beside = np.concatenate([A[h] @ v[h] for h in range(len(A))], axis=1)
    W_O = np.asarray(run.model.blocks.attention.W_O[0], float)
    W_O = W_O.reshape(-1, W_O.shape[-1])
    b_O = run.model.blocks.attention.b_O
    written = beside @ W_O + (0 if b_O is None else np.asarray(b_O[0], float))
    total = np.asarray(run.trace.head_outputs[0], float).sum(axis=0)
    np.testing.assert_allclose(beside @ W_O, total, atol=1e-4)
    figure, axes = new_figure(2, 4, height=3.9)
    for h, ax in enumerate(axes[0]):
        _heat(ax, A[h], f"head {h}: A", names if h == 0 else None)
    _heat(axes[1, 0], beside, "A⁰V⁰ | A¹V¹ | A²V² | A³V³", names)
    for h in range(1, len(A)):
        axes[1, 0].axvline(h * v.shape[-1] - 0.5, color=BLACK, lw=0.6)
    _heat(axes[1, 1], W_O, "times W_O")
    _heat(axes[1, 2], written, "written")
    _heat(axes[1, 3], np.asarray(run.trace.streams[0] + written, float), "added to the stream")
    return figure


def transformer() -> Figure:
    """S2's third figure, as far as there is one stream: each step, its shape and its size."""
    run, _ = _run()
    model, trace = run.model, run.trace
    n, d = trace.streams.shape[1:]
    V, L, H = model.d_vocab, model.n_layers, model.n_heads

    def size(y: object) -> float:
        return float(np.sqrt(np.mean(np.asarray(y, float)[-1] ** 2)))

    after = [trace.streams[0]]
    parts: list[tuple[str, str, object]] = []
    for l in range(L):
        heads = trace.head_outputs[l].sum(axis=0)
        parts += [
            (f"{H} heads", f"{H} × 4 maps\n[{d}, {model.d_head}]", heads),
            ("MLP", f"[{d}, {model.d_mlp}]\n[{model.d_mlp}, {d}]", trace.mlp_outputs[l]),
        ]
        after += [trace.streams[l + 1] - trace.mlp_outputs[l], trace.streams[l + 1]]
    figure, axes = new_figure(height=2.3)
    (ax,) = axes[0]
    ax.axis("off")
    ax.set(xlim=(-0.4, 13.1), ylim=(-1.0, 2.3))

    def box(x: float, y: float, text: str, colour: str) -> None:
        shape = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": colour}
        ax.text(x, y, text, ha="center", va="center", bbox=shape, fontsize=7)

    ax.annotate("", (12.2, 0), (0, 0), arrowprops={"arrowstyle": "->", "lw": 2, "color": GREY})
    box(0.2, 0, f"tokens\n[{n}]", BLACK)
    box(1.4, 0, f"W_E\n[{V}, {d}]", BLUE)
    for i, (name, shape, written) in enumerate(parts):
        x = 2.9 + 1.95 * i
        colour = ORANGE if "heads" in name else GREEN
        ax.annotate("", (x, 0.95), (x, 0.02), arrowprops={"arrowstyle": "->", "color": GREY})
        ax.annotate(
            "", (x + 1, 0.05), (x + 0.45, 0.95), arrowprops={"arrowstyle": "->", "color": GREY}
        )
        ax.text(x - 0.06, 0.4, "norm", ha="right", va="center", fontsize=7, color=GREY)
        box(x + 0.2, 1.5, f"{name}\n{shape}", colour)
        ax.text(x + 0.2, 2.1, f"writes {size(written):.2f}", ha="center", fontsize=7, color=colour)
        ax.text(
            x + 1,
            -0.03,
            "+",
            ha="center",
            va="center",
            bbox={"boxstyle": "circle,pad=0.1", "fc": "white"},
        )
    for i, stream in enumerate(after):
        ax.text(2.15 + 1.95 * i, -0.35, f"{size(stream):.2f}", ha="center", fontsize=7)
    ax.text(2.15, -0.75, f"the stream [{n}, {d}]: root mean square of its last row", fontsize=7)
    box(11.05, 0, f"norm, W_U\n[{d}, {V}]", BLUE)
    probability = np.asarray(_softmax(run.logits[-1]))
    best = np.argsort(-probability)[:3]
    vocabulary = token_names(_language_model("full").tokenizer)
    said = "\n".join(f"{probability[i]:.2f} {vocabulary[i]!r}" for i in best)
    ax.text(10.75, 0.75, f"next token:\n{said}", fontsize=7, va="bottom", family="monospace")
    return figure


def _softmax(logits: object) -> np.ndarray:
    z = np.exp(np.asarray(logits, float) - np.max(np.asarray(logits, float)))
    return z / z.sum()


def qk_ov() -> Figure:
    """S4's diagram: from tokens to scores and from tokens to logits, of one head of one layer."""
    opened = _language_model("layers-1")
    model, names = opened.model, token_names(opened.tokenizer)
    longer = jnp.array([i for i, name in enumerate(names) if i and len(name.strip()) > 1])
    found = head_tables(model, longer, 3, 3)
    head = PRESENTED_HEAD
    source = np.asarray(found["sources"][head])
    looks, raised = (np.asarray(found[name][head, :, 0]) for name in ("destinations", "outs"))
    qk, ov = (
        np.asarray(materialise(c)).reshape(model.n_heads, model.d_vocab, -1)[head]
        for c in (token_qk(model), token_ov(model))
    )
    qk, ov = (t - t.mean(axis=1, keepdims=True) for t in (qk, ov))
    V, d, k = model.d_vocab, model.d_model, model.d_head
    figure, axes = new_figure(2, 2, height=4.0, width_ratios=[1.5, 1])
    chains = [
        (
            "QK: which source?",
            [f"W_E\n[{V}, {d}]", f"W_Q\n[{d}, {k}]", f"W_Kᵀ\n[{k}, {d}]", f"W_Eᵀ\n[{d}, {V}]"],
            BLUE,
            "destination",
            "source",
            qk[np.ix_(looks, source)],
            looks,
            source,
        ),
        (
            "OV: which logits?",
            [f"W_E\n[{V}, {d}]", f"W_V\n[{d}, {k}]", f"W_O\n[{k}, {d}]", f"W_U\n[{d}, {V}]"],
            ORANGE,
            "source",
            "out",
            ov[np.ix_(source, raised)],
            source,
            raised,
        ),
    ]
    for (left, right), (title, maps, colour, rows, columns, table, down, across) in zip(
        axes, chains, strict=True
    ):
        left.axis("off")
        left.set(xlim=(-0.6, 4.6), ylim=(-1, 1))
        left.text(2, 0.7, f"{title} [{V}, {V}] of rank {k} at most", ha="center")
        left.annotate("", (4.4, 0), (-0.5, 0), arrowprops={"arrowstyle": "->", "color": GREY})
        for i, text in enumerate(maps):
            shape = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": colour}
            left.text(0.3 + 1.1 * i, 0, text, ha="center", va="center", bbox=shape)
        left.text(-0.55, -0.85, f"{rows}, one-hot")
        left.text(4.5, -0.85, columns, ha="right")
        _heat(right, table, "")
        right.set_title(f"head {head}, nats" if colour == ORANGE else f"head {head}, score")
        for (i, j), value in np.ndenumerate(table):
            right.text(j, i, f"{value:.1f}", ha="center", va="center")
        right.set_yticks(range(3), [_shown(names[i]) for i in down])
        right.set_xticks(range(3), [_shown(names[i]) for i in across])
        right.set(ylabel=rows, xlabel=columns)
    return figure
