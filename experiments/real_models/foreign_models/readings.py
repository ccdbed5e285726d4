"""Models that others trained: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from circuitax.figures.palette import BLACK, BLUE, COLOURS, ORANGE, SKY
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import proportion_estimate
from circuitax.records.sample import NotRun, Sample, exactly, sample, share_of
from experiments.real_models.foreign_models.examples import TOWERS

# Tables printed by the authors of the models.
PRINTED: dict[str, list[float]] = {
    "palindrome-mean-ablation": [0.614, 6.642, 0.299, 6.815],
    "palindrome-zero-ablation": [1.672, 3.477, 2.847, 7.274],
    "palindrome-wrong": [2, 1, 0],
    "palindrome-turns": [0.373, 0.544],
    "sign-fit": [0.073, 0.938, 0.999, 0.579],
    "sign-silenced-centred": [0.536, 0.637, 0.614, 0.159],
    "sign-neurons-centred": [0.0185, 0.0163, 0.0951, 0.0200, 0.0311, 0.0002, 0.0, 0.0465],
    "sign-cosines": [0.970, -0.958, -0.949, -0.190, -0.128],
}
# Texts of each task, and of quantities with others.
TEXTS = {"palindrome": 2500, "unique": 1000, "sign": 1000, "bracket": 5000, "copies": 1280}
OTHER_TEXTS = {
    "palindrome-accuracy": 5000,
    "palindrome-turns-self": 1000,
    "palindrome-turns-mirror": 1000,
    "palindrome-blind": 1000,
    "palindrome-sighted": 1000,
    "unique-accuracy": 5000,
    "unique-adversarial": 1,
    "sign-accuracy": 10_000,
    "bracket-tower": 1,
    "bracket-towers": 1,
    "bracket-more-towers": 1,
    "bracket-opposite": 1,
    "copies-unseen": 20,
    "copies-closes": 16,
}
NAMES = {"palindrome": "palindrome", "unique": "first unique", "sign": "running sign"}
HEADS = ("0.0", "0.1", "1.0", "1.1")
PATH = "0.0 → 1.0"
TOWER, LISTED, UNLISTED = 30, (24, 26, 28, 30, 32), (2, 4, 6)  # by the page, and besides it
# First unique letter: what the page says of own logits, by the first step of paths through a head
# of layer 1 and that head's letters, and where the sign is another one than else.
INTO = ("direct", "0.0", "0.1", "0.2")
LETTERS_OF = ("ac", "defj", "bghi")
EXCEPT = {("0.2", 0): "a", ("0.2", 2): "bg"}  # first step, head of layer 1
UNCLAIMED = ("0.1", 0, "a")  # head 0.1 serves all letters but a
ON_POSITIVE = 4  # of the six neurons, the first, which fire where the mean is positive by the text


def _numbers(data: xr.Dataset, task: str) -> dict[str, float]:
    """Single numbers of a model, and of each table the largest difference from what is printed."""
    found = {}
    for name in (str(name) for name in data if str(name).startswith(f"{task}-")):
        values = data[name].values
        if name in PRINTED:
            found[name] = float(np.abs(values - np.array(PRINTED[name])).max())
        elif values.ndim == 0 and not name.endswith("-closes"):
            found[name] = float(values)
    return found


def palindrome(data: xr.Dataset) -> dict[str, Sample]:
    """The palindrome classifier: answers, ablations, where it looks, its blind spots, its path."""
    data = _of(data, "palindrome")
    called = data["palindrome-called-so"].values
    # The last of the positions is 20, to which another head looks.
    read, broken = (data[f"palindrome-{name}"].values[:, :-1] for name in ("read", "broken"))
    is_one = data["palindrome-is-one"].values
    each = data["palindrome-paths"].astype(float)
    on_none = each[~is_one].mean("text")
    leads = [
        float(paths.sel(path=PATH) - paths.drop_sel(path=PATH).max())
        for paths in (on_none - each[is_one].mean("text"), on_none)
    ]
    # Of palindromes no pair is broken, and the page calls the attention to theirs random.
    positions = zip(read[~is_one].T, broken[~is_one].T, strict=True)
    unfolded = data["palindrome-zero-unfolded"] - np.array(PRINTED["palindrome-zero-ablation"])
    turns = data["palindrome-turns"].values
    values = {
        **_numbers(data, "palindrome"),
        "palindrome-looks": min(
            _ratio(read, broken), *(_ratio(seen, where) for seen, where in positions)
        ),
        "palindrome-path": min(leads),
        "palindrome-zero-gap": np.abs(unfolded).max(),
        "palindrome-turns-self": turns[0],
        "palindrome-turns-mirror": turns[1],
    }
    return _exact(data, values) | {
        "palindrome-blind": _share(data, "palindrome-blind", called[[6, 8]].min()),
        "palindrome-sighted": _share(data, "palindrome-sighted", np.delete(called, [6, 8]).max()),
    }


def _ratio(read: np.ndarray, broken: np.ndarray) -> float:
    """Attention to broken pairs over that to equal ones."""
    return float(read[broken].mean(dtype=float) / read[~broken].mean(dtype=float))


def first_unique(data: xr.Dataset) -> dict[str, Sample]:
    """Answers, an adversarial text, attention to copies, and the published division."""
    data = _of(data, "unique")
    attention, letters = data["unique-copies"].values, np.arange(10)
    own, served = np.isin(letters, (0, 1, 6)), letters > 0
    values = {
        **_numbers(data, "unique"),
        "unique-adversarial": data["unique-adversarial-shares"].min(),
        "unique-copies-0.1": attention[1, served].min() - attention[1, 0],
        "unique-copies-0.2": attention[2, own].min() - attention[2, ~own].max(),
        "unique-misses": data["unique-miss-of-each"].max(),
        "unique-misses-all": data["unique-miss-of-each"].min(),
    }
    return _exact(data, values)


def path_signs(data: xr.Dataset, first: list[str]) -> Sample:
    """By first steps, the share of own logits, one a head's letter, that have the page's sign."""
    own = _of(data, "unique")["unique-own-logits"].values
    agree = []
    for head, letters in enumerate(LETTERS_OF):
        for step, letter in ((step, letter) for step in first for letter in letters):
            excepted = letter in EXCEPT.get((step, head), "")
            boosts = (step in ("0.0", "0.2")) != excepted
            if (step, head, letter) != UNCLAIMED:
                value = own[INTO.index(step), head, "abcdefghij".index(letter)]
                agree.append((value > 0) == boosts)
    return share_of(agree)


def running_sign(data: xr.Dataset) -> dict[str, Sample]:
    """What the two published functions differ by, and on which side neurons fire."""
    data = _of(data, "sign")
    fit = np.abs(data["sign-fit-centred"] - np.array(PRINTED["sign-fit"]))
    silenced = np.abs(data["sign-silenced"] - np.array(PRINTED["sign-silenced-centred"]))
    negative, positive = data["sign-fired"].values.T
    both = negative + positive
    other = np.where(np.arange(len(both)) < ON_POSITIVE, negative, positive)
    # A neuron that never fires has no side.
    shares = other / np.where(both > 0, both, np.inf)
    values = {
        **_numbers(data, "sign"),
        "sign-two-functions": min(fit.max(), silenced.max()),
        "sign-fires-sides": shares.min(),
    }
    return _exact(data, values)


def brackets(data: xr.Dataset) -> dict[str, Sample]:
    """Right answers, towers that are called balanced, and what both last heads react to."""
    data = _of(data, "bracket")
    towers = dict(zip(TOWERS, data["bracket-each-tower"].values, strict=True))
    failure, added = data["bracket-failure"].values, data["bracket-last-heads"].values
    balanced, total, suffix = (added[failure == i].mean(axis=0, dtype=float) for i in range(3))
    total, suffix = total - balanced, suffix - balanced
    leads = (total[0] - total[1], suffix[1] - suffix[0], total[0] - suffix[0], suffix[1] - total[1])
    values = {
        **_numbers(data, "bracket"),
        "bracket-accuracy": 1 - data["bracket-wrong"] / _n(data, "bracket-accuracy"),
        "bracket-tower": towers[TOWER],
        "bracket-towers": min(towers[i] for i in LISTED),
        "bracket-more-towers": min(towers[i] for i in UNLISTED),
        "bracket-roles": min(leads),
    }
    return _exact(data, values)


def copies(data: xr.Dataset) -> dict[str, Sample]:
    """Loss after training, and attention to the successors of both occurrences."""
    data = _of(data, "copies")
    given = data["copies-successor"].values
    values = {
        **_numbers(data, "copies"),
        "copies-unseen": data["copies-unseen"].values.mean(),
        "copies-successors": given[:2, 1:].min(),
        "copies-second": given[2, 1:].max(),
    }
    return _exact(data, values)


def closes(data: xr.Dataset, task: str) -> Sample:
    """What all paths or components leave of the logits."""
    data = _of(data, task)
    if data.attrs["dtype"] != "float64":
        raise NotRun("needs dtype=float64")
    return exactly(float(data[f"{task}-closes"]), _n(data, f"{task}-closes"))


def _of(data: xr.Dataset, task: str) -> xr.Dataset:
    """The data of a run that had the task's model."""
    if task not in data.attrs["models"]:
        missing = data.attrs["missing"][task]
        command = "python -m experiments.run experiment=foreign_models source=FOLDER"
        raise NotRun(f"needs {missing} in a folder of yours: `{command}`")
    return data


def _n(data: xr.Dataset, name: str) -> int:
    task = name.partition("-")[0]
    texts = data.attrs["models"][task]["texts"]
    return int(min(texts, OTHER_TEXTS.get(name, TEXTS[task])))


def _exact(data: xr.Dataset, values: dict) -> dict[str, Sample]:
    return {name: exactly(value, _n(data, name)) for name, value in values.items()}


def _share(data: xr.Dataset, name: str, share: float) -> Sample:
    """A share of texts drawn afresh."""
    n = _n(data, name)
    return sample(proportion_estimate(round(share * n), n)._replace(value=float(share)))


def agreement(data: xr.Dataset) -> Figure:
    """Printed against measured, on an axis that is linear near zero."""
    figure, axes = new_figure(height=2.6, width=3.4)
    ax = axes[0, 0]
    for i, (task, name) in enumerate(NAMES.items()):
        pairs = [
            np.stack([np.array(table, float), data[key].values])
            for key, table in PRINTED.items()
            if key in data and key.startswith(f"{task}-")
        ]
        if pairs:
            x, y = np.concatenate(pairs, axis=1)
            mark = {"color": COLOURS[i], "marker": "os^"[i], "markersize": 3, "alpha": 0.8}
            ax.plot(x, y, linestyle="", label=f"{name} ({x.size} numbers)", **mark)
    ends = np.array(ax.get_xlim())
    ax.plot(ends, ends, color=BLACK, linewidth=0.6, zorder=0)
    for set_scale in (ax.set_xscale, ax.set_yscale):
        set_scale("symlog", linthresh=0.1)
    ax.set(xlabel="printed by the authors", ylabel="measured here", xlim=ends, ylim=ends)
    ax.legend(fontsize=6)
    return figure


def mistakes(data: xr.Dataset) -> Figure:
    """A wrong norm scale, a value bias not folded, and centring without a norm."""
    figure, axes = new_figure(1, 3, height=2.8)
    _miss_histogram(axes[0, 0], data)
    zero, unfolded = (data[f"palindrome-zero-{name}"].values for name in ("ablation", "unfolded"))
    _pairs(axes[0, 1], HEADS, unfolded, zero, PRINTED["palindrome-zero-ablation"])
    axes[0, 1].set(xlabel="head at zero", ylabel="lead of the right answer, logits")
    axes[0, 1].set_title("Printed leads need\n$b_V$ folded into $b_O$")
    _legend(axes[0, 1], "weights as they are", "$b_V$ folded")
    rows = ("sign-fit", "sign-silenced")
    file, centred = ([data[f"{row}{end}"].values[0] for row in rows] for end in ("", "-centred"))
    said = [PRINTED["sign-fit"][0], PRINTED["sign-silenced-centred"][0]]
    _pairs(axes[0, 2], ("none", "all"), file, centred, said)
    axes[0, 2].set(xlabel="neurons at zero", ylabel="loss, nats")
    axes[0, 2].set_title("Printed losses are\nof two functions")
    _legend(axes[0, 2], "the file's function", "centred as published")
    letter_panels(axes[0])
    return figure


def _miss_histogram(ax: Axes, data: xr.Dataset) -> None:
    wrong, right = data["unique-miss-of-each"].values, data["unique-remainder-of-each"].values
    bins = np.logspace(-15, 3, 73).tolist()
    ax.hist(np.maximum(right, 1e-15), bins, color=BLUE, label="own norm scale")
    ax.hist(np.maximum(wrong, 1e-15), bins, color=ORANGE, label="layer 0's, as published")
    ax.set(
        xscale="log", xlabel="largest miss of all paths, logits", ylabel=f"texts of {wrong.size}"
    )
    ax.set_title("Over a wrong norm scale\npaths miss the logits")
    ax.legend(title="layer 1 reads over", fontsize=6, loc="upper center")


def _pairs(
    ax: Axes, names: tuple[str, ...], left: ArrayLike, right: ArrayLike, said: ArrayLike
) -> None:
    """Two bars each, and the printed number as a cross on the one that it agrees with."""
    x = np.arange(len(names))
    nearer = np.abs(np.subtract(left, said)) < np.abs(np.subtract(right, said))
    ax.plot(x + np.where(nearer, -0.2, 0.2), said, "x", color=BLACK, zorder=3)
    ax.bar(x - 0.2, left, 0.4, color=ORANGE)
    ax.bar(x + 0.2, right, 0.4, color=SKY, hatch="//", edgecolor="white", linewidth=0)
    ax.set_xticks(x, names)


def _legend(ax: Axes, left: str, right: str) -> None:
    """Names of the marks of `_pairs`, above the bars."""
    ax.legend(["printed", left, right], fontsize=6, loc="upper left")
    ax.set_ylim(0, 1.45 * ax.get_ylim()[1])
