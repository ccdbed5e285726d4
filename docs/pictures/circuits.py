"""Pictures of the methods on circuits, of the examples that their pages work by hand."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import circuitax as cx
from circuitax.circuits.known import induction_model, skip_trigram_model
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.figures.palette import BLACK, BLUE, DIVERGING, GREEN, GREY, ORANGE
from circuitax.figures.style import new_figure
from circuitax.kernel.chain import materialise
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.weights import HeadStack

TEXT = [0, 5, 2, 9, 7, 3, 5, 2, 9, 7, 3]


def _table(ax: Axes, table: np.ndarray, title: str, largest: float, digits: int = 2) -> None:
    """A small matrix with its numbers, red above 0 and blue below."""
    ax.imshow(table, cmap=DIVERGING, vmin=-1.6 * largest, vmax=1.6 * largest, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        ax.text(j, i, f"{value + 0:.{digits}f}".rstrip("0").rstrip("."), ha="center", va="center")
    ax.set_title(title)
    ax.set(xticks=range(table.shape[1]), yticks=range(table.shape[0]))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _four_paths() -> cx.Model:
    """Two tokens and two layers of one head, which looks evenly at all that it may see."""
    I, none = jnp.eye(2), jnp.zeros((2, 1, 2, 2))
    W_OV = jnp.array([[[[0.0, 2.0], [0.0, 0.0]]], [[[0.0, 0.0], [1.0, 0.0]]]])
    heads = HeadStack(W_Q=none, W_K=none, W_V=jnp.stack([I, I])[:, None], W_O=W_OV)
    return cx.Model.of(W_E=I, W_U=I, attention=heads)


def _induction() -> tuple[cx.Model, cx.Run]:
    model = induction_model(jax.random.key(0), d_vocab=12, n_ctx=16)
    return model, cx.run(model, TEXT)


def path_expansion() -> Figure:
    """The four paths of a model of two layers, as tables of logits, and their sum."""
    run = cx.run(_four_paths(), [0, 1])
    terms = cx.expand(run).terms
    names = [
        "direct\n$t\\,W_E W_U$",
        "head 0.0\n$A\\,t\\,W^{0}$",
        "head 1.0\n$A\\,t\\,W^{1}$",
        "0.0, then 1.0\n$A^2\\,t\\,W^{0}W^{1}$",
    ]
    figure, axes = new_figure(1, 5, height=1.7)
    for ax, term, name in zip(axes[0], terms, names, strict=False):
        _table(ax, np.asarray(term), name, 3)
    _table(axes[0, 4], np.asarray(run.logits), "the sum:\nall logits", 3)
    axes[0, 0].set_ylabel("position")
    axes[0, 2].set_xlabel("logit of token")
    return figure


def contrast() -> Figure:
    """The flow of the difference of two texts, by position, before both layers and at the end."""
    model = induction_model(jax.random.key(0), d_vocab=12, n_ctx=16, n_distractors=0)
    first, second = TEXT[:-1], [*TEXT[:4], 8, *TEXT[5:-1]]
    found = cx.contrast(cx.run(model, first), cx.run(model, second), token=3)
    figure, axes = new_figure(width=5.5, height=1.5)
    (ax,) = axes[0]
    _table(ax, np.round(np.asarray(found.flow), 1), "logit of 3 at the end: 8.0 less 0.8", 8, 1)
    ax.set_yticklabels(["before layer 0", "before layer 1", "at the end"])
    words = [str(a) if a == b else f"{a} / {b}" for a, b in zip(first, second, strict=True)]
    ax.set_xticklabels(words)
    ax.set_xlabel("token at each position")
    return figure


def order_terms() -> Figure:
    """The loss at each position, with paths of up to 0, 1 and 2 heads."""
    _, run = _induction()
    losses = np.asarray(cx.term_losses(run).order)
    figure, axes = new_figure(height=1.9, width=4.5)
    (ax,) = axes[0]
    styles = [
        (GREY, "o", "direct path"),
        (BLUE, "s", "and single heads"),
        (ORANGE, ".", "all paths"),
    ]
    for row, (colour, marker, label) in zip(losses, styles, strict=True):
        ax.plot(row, color=colour, marker=marker, label=label, lw=0.8)
    ax.axhline(np.log(12), color=GREY, lw=0.6, ls=":")
    ax.text(9.3, np.log(12) - 0.8, "ln 12, a guess", ha="right", color=GREY)
    ax.axvspan(5.5, 9.5, color=GREEN, alpha=0.1, lw=0)
    ax.text(7.5, 5, "can be known", ha="center", color=GREEN)
    ax.set(xlabel="position", ylabel="loss, nats", xticks=range(10))
    ax.set_xticklabels([f"{i}\n{token}" for i, token in enumerate(TEXT[:-1])])
    ax.set_xlabel("position and token")
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def path_ledger() -> Figure:
    """How the bound on all other paths falls below the least value found."""
    spec = cx.TransformerSpec(n_layers=4, n_heads=4, d_model=32, d_vocab=20, n_ctx=8)
    run = cx.run(cx.init(jax.random.key(1), spec), [3, 1, 4, 1, 5, 9])
    found = cx.ledger(run, token=2, k=5)
    n, bound, value = np.array(found.rounds).T
    figure, axes = new_figure(width=4.5, height=2.0)
    (ax,) = axes[0]
    ax.plot(n, bound, color=ORANGE, drawstyle="steps-post")
    ax.plot(n, value, color=BLUE, drawstyle="steps-post")
    ax.text(n[1], bound[1] * 1.15, "no path left out is larger", color=ORANGE)
    ax.text(n[-1], value[-1] * 1.12, "fifth largest value found", color=BLUE, ha="right")
    end = "proven" if found.complete else "not proven"
    ax.text(n[-1], value[-1] * 0.45, f"{end} after {n[-1]:.0f} of {5**4} paths", ha="right")
    ax.set(xlabel="paths and partial paths evaluated", ylabel="logit", ylim=(0, None))
    return figure


def composition() -> Figure:
    """One score beside those of random rotations, its closed-form null and its maximum."""
    model, _ = _induction()
    found, pair = cx.composition(model), (1, 0, 0, 1, 0)
    W_Q, W_K, W_V, W_O = (np.asarray(W, float) for W in model.blocks.attention[:4])
    W, R = W_V[0, 0] @ W_O[0, 0], W_K[1, 0] @ W_Q[1, 0].T
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(size=W.shape))[0] for _ in range(400)]
    scale = np.linalg.norm(W) * np.linalg.norm(R)
    scores = [np.linalg.norm(W @ turn @ R) / scale for turn in turns]
    figure, axes = new_figure(width=4.5, height=1.9)
    (ax,) = axes[0]
    ax.hist(scores, bins=12, color=GREY, alpha=0.6)
    score, chance = float(found.score[pair]), model.d_model**-0.5
    ax.axvline(chance, color=BLACK, lw=0.8)
    ax.text(
        chance + 0.004,
        92,
        f"by chance {chance:.3f}:\n400 rotations between\nthe two heads",
        va="top",
    )
    ax.axvline(score, color=ORANGE)
    said = f"this pair {score:.3f}\n= the most that\ntwo such heads reach"
    ax.text(score - 0.004, 92, said, va="top", ha="right", color=ORANGE)
    ax.set(xlabel="K-composition, head 0.0 to head 1.0", ylabel="rotations", xlim=(0.1, 0.3))
    return figure


def token_tables() -> Figure:
    """Scores, raises, and their product for one destination."""
    none = jnp.zeros((6, 6))
    model = skip_trigram_model(none.at[2, 0].set(3), none.at[0, 4].set(2), none)
    score, ov = (np.asarray(materialise(t)).squeeze() for t in (token_qk(model), token_ov(model)))
    score, ov = (t - t.mean(axis=1, keepdims=True) for t in (score, ov))
    both = np.maximum(score[2], 0)[:, None] * np.maximum(ov, 0)
    figure, axes = new_figure(1, 3, height=2.3)
    panels = [
        (score, "score, centred over sources", "source", "destination"),
        (ov, "raise, centred over outs", "out", "source"),
        (both, "their product at destination 2", "out", "source"),
    ]
    for ax, (table, title, x, y) in zip(axes[0], panels, strict=True):
        _table(ax, table, title, 5)
        ax.set(xlabel=x, ylabel=y)
    return figure


def patching() -> Figure:
    """Where head 1.0 looks: as it is, without head 0.0, and with patterns held."""
    model, run = _induction()
    off = ablate_heads(jnp.zeros((2, model.n_heads)).at[0, 0].set(1))
    without = cx.run(model, TEXT, off)
    panels = [
        (run, "as it is"),
        (without, "without head 0.0"),
        (run, "the same, patterns held"),
    ]
    losses = [
        0.0,
        *(float(cx.ablation_effects(run, preserve_patterns=h).heads[0, 0]) for h in (False, True)),
    ]
    figure, axes = new_figure(1, 3, height=2.75)
    for ax, (one, title), loss in zip(axes[0], panels, losses, strict=True):
        _pattern(ax, np.asarray(one.trace.patterns[1, 0]))
        ax.set_title(f"{title}\nloss {abs(loss):+.2f} nats" if loss else title)
    axes[0, 0].set_ylabel("head 1.0 looks from (token)")
    return figure


def _pattern(ax: Axes, pattern: np.ndarray) -> None:
    ax.imshow(pattern, cmap="Blues", vmin=0, vmax=1)
    ticks = range(len(TEXT))
    ax.set(xticks=ticks, yticks=ticks, xticklabels=TEXT, yticklabels=TEXT)
    ax.set_xlabel("to (token)")


def induction() -> Figure:
    """Patterns of the two heads of induction, and the loss, on one text that repeats itself."""
    _, run = _induction()
    figure, axes = new_figure(1, 3, height=2.4)
    for ax, (layer, title) in zip(
        axes[0], [(0, "0.0 looks one back"), (1, "1.0 at what followed")], strict=False
    ):
        _pattern(ax, np.asarray(run.trace.patterns[layer, 0]))
        ax.set_title(f"head {title}")
    axes[0, 0].set_ylabel("from (token)")
    loss = cx.induction_scores(run.model, [TEXT]).loss_by_position
    ax = axes[0, 2]
    ax.bar(range(len(loss)), loss, color=BLUE)
    ax.axhline(np.log(12), color=GREY, lw=0.8, ls=":")
    ax.text(9.4, np.log(12) + 0.1, "ln 12", ha="right", color=GREY)
    ax.set(
        title="loss on the next token, nats",
        xticks=range(10),
        xticklabels=TEXT[:-1],
        xlabel="token",
    )
    return figure
