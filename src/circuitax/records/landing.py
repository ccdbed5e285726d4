"""The landing page: pictures that move, each with one result and the data of its record inside."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from circuitax.records.ledger import headline, ours_text, render
from circuitax.records.rows import SettledRow

Facts = dict[str, Any]
TURNING = 45  # frames of the picture behind the last step
BLUE, ORANGE = "#0072b2", "#d55e00"  # as in the figures, which stand a floor higher


class Scene(NamedTuple):
    """A picture that moves.

    Attributes:
        name: Its place on the page, and the name of the function of the script that draws it.
        title: What it shows, one sentence.
        text: What to do with it; ``{ours}`` is the number of the row.
        row: Id of the row whose word stands under it, of the first of ``experiments``.
        experiments: Those whose records it is drawn from.
        notebook: The notebook about it.
        facts: Function of those records that gives what is drawn.
    """

    name: str
    title: str
    text: str
    row: str
    experiments: tuple[str, ...]
    notebook: str
    facts: Callable[..., Facts]


class Shown(NamedTuple):
    """A scene with its data and its settled row."""

    scene: Scene
    facts: Facts
    settled: SettledRow


def octahedron(dynamics: xr.Dataset) -> Facts:
    """Six directions in three dimensions over training, of the network with the lowest loss."""
    loss = dynamics.set_loss.where(dynamics.set_alive)
    best = int(loss.isel(set_step=-1).argmin("seed"))
    return {
        "step": dynamics.set_step.values.tolist(),
        "W": _hundredths(dynamics.set_W.isel(seed=best)),  # [step, hidden, feature]
        "loss": [float(f"{value:.4g}") for value in loss.isel(seed=best).values],
    }


def phase(proof: xr.Dataset, intro: xr.Dataset) -> Facts:
    """The best pair of weights at every cell, and five features at the nearest stored density."""
    five = intro.optimum_W.sel(importance_base=1.0)
    return {
        "density": proof.density.values.round(4).tolist(),
        "importance": proof.importance.values.round(3).tolist(),
        "W": _hundredths(proof.optimiser_W.transpose("density", "importance", "feature")),
        "triple": round(float(proof.triple.mean()), 3),
        "five": {"density": intro.density.values.round(4).tolist(), "W": _hundredths(five)},
    }


def induction(training: xr.Dataset) -> Facts:
    """Loss at each place and best scores over training, means of all; and what two heads see."""
    arms = training.sel(arm=["1 layer", "2 layers"])
    found = arms.where(arms.alive).mean("member")
    return {
        "step": training.step.values.tolist(),
        "place": training["index"].values.tolist(),
        "loss": _hundredths(found.loss_by_position),  # [arm, step, place]
        "scores": {
            "prefix matching": _hundredths(found.best_prefix),
            "previous token": _hundredths(found.best_previous),
        },
        "pattern": _hundredths(training.pattern.values[..., *np.tril_indices(training.src.size)]),
        "text": training.shown_text.values.tolist(),
        "repeats": int(training.every_text_repeats),
        "n": int(arms.alive.sum("member").min()),
    }


def contrast(pairs: xr.Dataset) -> Facts:
    """Shares of the difference at each word of "The capital of X is", at every cut: the mean."""
    of = pairs.sel(task="capital").stack(each=("half", "pair"))
    first, other = of.lead.isel(side=0), of.lead.isel(side=1)
    right = ((first > 0) & (other < 0)).values
    shares = (of.crossing / (first - other)).isel(each=np.flatnonzero(right))
    return {
        "words": ["The", "capital", "of", "France | Italy", "is"],
        "shares": _hundredths(shares.mean("each").transpose("stage", "place")),
        "n": int(right.sum()),
    }


SCENES = (
    Scene(
        "octahedron",
        "Six features open into an octahedron",
        "Two sets of three correlated features share three dimensions. Each set is first one "
        "direction, then it opens. {ours} networks end like this. Drag to turn it; the slider is "
        "the training step.",
        "octahedron",
        ("toy_dynamics",),
        "five_features",
        octahedron,
    ),
    Scene(
        "phase",
        "Rare features share a dimension, frequent ones do not",
        "Two features, one dimension: touch a cell of the map to see which weights are best "
        "there. The other drawing has five equal features in two dimensions at that density.",
        "triple-point-proven",
        ("phase_proof", "toy_intro"),
        "phase_diagram",
        phase,
    ),
    Scene(
        "induction",
        "With two layers a network learns to look back",
        "The text repeats itself. Two layers (orange) suddenly predict the second copy, when "
        "their heads begin to match prefixes; one layer (grey) never does. Below, two heads of one "
        "network read eight letters twice. The slider is the training step.",
        "induction-heads-form",
        ("induction_phase",),
        "induction_head",
        induction,
    ),
    Scene(
        "contrast",
        "Why Paris and not Rome: a fact crosses the text",
        "SmolLM2, a language model, reads two texts that differ in the country. The difference of "
        "what it says is shared out over the words, exactly, at every layer: first all of it "
        "stands at the country, then at the last word. The slider is the layer.",
        "fact-crosses",
        ("contrast",),
        "explained_sentence",
        contrast,
    ),
)


def shown_scenes(
    records: Mapping[str, xr.Dataset], settled: Mapping[str, Sequence[SettledRow]]
) -> list[Shown]:
    """The scenes whose records are there, in order.

    Args:
        records: Data of runs, by experiment; one whose package was absent holds none.
        settled: Their rows, by experiment.
    """
    found = []
    for scene in SCENES:
        if all(name in records and records[name].data_vars for name in scene.experiments):
            rows = {each.row.id: each for each in settled[scene.experiments[0]]}
            facts = scene.facts(*(records[name] for name in scene.experiments))
            text = scene.text.format(ours=ours_text(rows[scene.row]))
            found.append(Shown(scene._replace(text=text), facts, rows[scene.row]))
    return found


def scene_data(scenes: Sequence[Shown]) -> str:
    """What the script draws, as JSON that no text in it can end."""
    facts = {each.scene.name: each.facts for each in scenes}
    text = json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def render_landing(scenes: Sequence[Shown], rows: Sequence[SettledRow], command: str) -> str:
    """``docs/index.html``: the scenes, with style, script and data inside.

    Args:
        scenes: From `shown_scenes`.
        rows: All rows, for the count of results.
        command: Command that makes the page.
    """
    values = {"scenes": scenes, "data": scene_data(scenes), "command": command}
    return render("landing.html", headline=headline(rows), docs="", **values)


def octahedron_picture(facts: Facts) -> str:
    """`octahedron` as a moving SVG, for pages that run no script; at its end it turns on."""
    W, loss = np.array(facts["W"]) / 100, np.log(facts["loss"])  # [step, hidden, feature]
    at = np.minimum(2 * np.arange(len(W) // 2 + TURNING), len(W) - 1)
    yaw, pitch = 0.045 * np.arange(at.size)[:, None] - 1.0, 0.35
    x, y, z = W[at].transpose(1, 0, 2)  # each [frame, feature]
    x, z = x * np.cos(yaw) + z * np.sin(yaw), z * np.cos(yaw) - x * np.sin(yaw)
    y, z = y * np.cos(pitch) - z * np.sin(pitch), y * np.sin(pitch) + z * np.cos(pitch)
    near = 104 / (1 - 0.18 * z)
    x, y, r = (np.round(v, 1) for v in (x * near, -y * near, 6 + 2.5 * z))
    unit = W[at] / np.linalg.norm(W[at], axis=1, keepdims=True)
    cosine = np.abs(np.einsum("fha,fhb->fab", unit, unit))
    opacity = np.round(np.clip(1 - cosine / 0.4, 0, 1), 2)
    pairs = [(a, b) for a in range(x.shape[1]) for b in range(a) if opacity[:, a, b].any()]
    down = np.round(60 + 140 * (loss.max() - loss) / np.ptp(loss), 1)
    along = np.round(np.linspace(370, 610, len(W)), 1)
    return render(
        "octahedron.svg",
        edges=[
            {
                **{"x1": x[:, a], "y1": y[:, a], "x2": x[:, b], "y2": y[:, b]},
                "stroke-opacity": opacity[:, a, b],
            }
            for a, b in pairs
        ],
        tips=[
            {"x": x[:, f], "y": y[:, f], "r": r[:, f], "colour": ORANGE if f < 3 else BLUE}
            for f in range(x.shape[1])
        ],
        curve=[f"{a},{b}" for a, b in zip(along, down, strict=True)],
        dot={"x": along[at], "y": down[at]},
        last=facts["step"][-1],
    )


def _hundredths(values: Any) -> list[Any]:
    """As nested lists of whole numbers, hundredths of the values: a third of the letters."""
    found: list[Any] = np.rint(100 * np.asarray(values)).astype(int).tolist()
    return found
