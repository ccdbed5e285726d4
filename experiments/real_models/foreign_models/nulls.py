"""Draws of the nulls of the claims on foreign models: records altered, and random models."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from scipy import stats

from circuitax.records.estimate import Estimate, proportion_estimate
from circuitax.records.nulls import Draws
from experiments.real_models.foreign_models.sources import INTO, SIZES
from experiments.real_models.foreign_models.tasks import COPY

DRAWS = 500
# Tables whose cells are shuffled, and labels: which pairs are broken, which texts are palindromes.
SHUFFLED = (
    "palindrome-called-so",
    "palindrome-broken",
    "palindrome-is-one",
    "unique-copies",
    "bracket-each-tower",
    "copies-successor",
)
# The reading of the world in which a correction is false, in the place of what it is measured on.
FALSE = {
    "unique-miss-of-each": "unique-remainder-of-each",
    "sign-fit-centred": "sign-fit",
    "sign-silenced": "sign-silenced-centred",
}


def permuted(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The data with the cells of each table shuffled, drawn anew for each.

    How a string of brackets fails is shuffled among those that begin with "(" and fail.
    """
    rng = np.random.default_rng(0)
    names = [name for name in SHUFFLED if name in data]
    for _ in range(DRAWS):
        changed = {
            name: data[name].copy(
                data=rng.permutation(data[name].values.ravel()).reshape(data[name].shape)
            )
            for name in names
        }
        if "bracket-failure" in data:
            failure = data["bracket-failure"].values
            fails = failure > 0
            kinds = failure.copy()
            kinds[fails] = rng.permutation(failure[fails])
            changed["bracket-failure"] = data["bracket-failure"].copy(data=kinds)
        yield data.assign(changed)


def false_world(data: xr.Dataset) -> xr.Dataset:
    """The data in which no correction is needed, and another head looks back too."""
    changed = {
        name: data[name].copy(data=data[other].values)
        for name, other in FALSE.items()
        if name in data
    }
    if "copies-previous" in data:
        changed["copies-previous-others"] = data["copies-previous"].max()
    return data.assign(changed)


def coins(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The data with the sides of each neuron, and the signs of own logits, as coins say.

    The signs are those of the paths through 0.0, and of one other first step in turn.
    """
    rng = np.random.default_rng(0)
    steps = [INTO.index(first) for first in INTO if first != "0.0"]
    for draw in range(DRAWS):
        changed = {}
        if "sign-fired" in data:
            fired = data["sign-fired"].values
            turned = rng.integers(0, 2, (len(fired), 1)) == 1
            changed["sign-fired"] = np.where(turned, fired[:, ::-1], fired)
        if "unique-own-logits" in data:
            own = data["unique-own-logits"].values.copy()
            tossed = [INTO.index("0.0"), steps[draw % len(steps)]]
            own[tossed] *= rng.choice([-1, 1], own[tossed].shape)
            changed["unique-own-logits"] = own
        yield data.assign({name: data[name].copy(data=new) for name, new in changed.items()})


def random(n: dict[str, int]) -> dict[str, Draws]:
    """Draws of random answers, directions and heads.

    Args:
        n: Examples behind a quantity.
    """
    rng = np.random.default_rng(0)
    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    found: dict[str, Callable[[], Draws]] = {
        "sign-follows": lambda: _correlations(rng),
        "sign-uneven": lambda: _unevenness(np.random.default_rng(1)),
        "bracket-wrong": lambda: stats.binom.ppf(levels, n["bracket-wrong"], 5 / 10_000),
        "bracket-fit": lambda: _fits_of_norm(rng, n["bracket-fit"]),
        "bracket-opposite": lambda: _cosines(rng),
        "copies-others": lambda: _largest_composition(rng),
        "copies-top-path": lambda: _shares(levels, n["copies-top-path"]),
    }
    return {name: draw() for name, draw in found.items() if name in n}


def _shares(levels: np.ndarray, n: int) -> list[Estimate]:
    """Shares of texts whose source is one of a copy's positions, each alike, at even steps."""
    return [proportion_estimate(int(k), n) for k in stats.binom.ppf(levels, n, 1 / COPY)]


def _correlations(rng: np.random.Generator) -> np.ndarray:
    """Of what an even head writes with the running mean: that of its numbers with the values."""
    values = np.arange(SIZES["sign"]["d_vocab"])
    return np.array(
        [abs(np.corrcoef(rng.normal(size=values.size), values)[0, 1]) for _ in range(DRAWS)]
    )


def _unevenness(rng: np.random.Generator, n_ctx: int = 20) -> np.ndarray:
    """The largest difference from 1/(t + 1) of a head that reads one random text.

    Embeddings, positions, W_Q and W_K are normal with spread 0.8 / √d_model, TransformerLens's
    start, which makes scores small: with larger ones attention is less even still.
    """
    sizes, places = SIZES["sign"], np.arange(1, n_ctx + 1)
    start = 0.8 / sizes["d_model"] ** 0.5
    found = []
    for _ in range(DRAWS):
        W_E = start * rng.normal(size=(sizes["d_vocab"], sizes["d_model"]))
        W_pos = start * rng.normal(size=(n_ctx, sizes["d_model"]))
        W_Q, W_K = start * rng.normal(size=(2, sizes["d_model"], sizes["d_head"]))
        stream = W_E[rng.integers(sizes["d_vocab"], size=n_ctx)] + W_pos
        scores = stream @ W_Q @ (stream @ W_K).T / sizes["d_head"] ** 0.5
        weights = np.tril(np.exp(scores))
        patterns = weights / weights.sum(axis=1, keepdims=True)
        found.append(np.abs(patterns - np.tri(n_ctx) / places[:, None]).max())
    return np.array(found)


def _cosines(rng: np.random.Generator) -> np.ndarray:
    one, two = rng.normal(size=(2, DRAWS, SIZES["bracket"]["d_head"]))
    return (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)


def _fits_of_norm(rng: np.random.Generator, n: int, draws: int = 20) -> np.ndarray:
    """R² of a linear fit from random vectors to the same vectors normalised."""
    found = []
    for _ in range(draws):
        x = rng.normal(size=(n, SIZES["bracket"]["d_model"]))
        x -= x.mean(axis=1, keepdims=True)
        wanted = x / x.std(axis=1, keepdims=True)
        # The last coordinate follows from the others, whose sum is 0 with it.
        known = np.hstack([x[:, :-1], np.ones((n, 1))])
        rest = wanted - known @ np.linalg.solve(known.T @ known, known.T @ wanted)
        spread = wanted - wanted.mean(axis=0)
        found.append(1 - (rest**2).sum() / (spread**2).sum())
    return np.array(found)


def _largest_composition(rng: np.random.Generator, draws: int = 200) -> np.ndarray:
    """The largest K-composition of three random heads with four random heads of the next layer."""
    sizes = SIZES["copies"]

    def low_rank(n_heads: int) -> np.ndarray:
        left, right = rng.normal(size=(2, draws, n_heads, sizes["d_model"], sizes["d_head"]))
        product_of = left @ right.swapaxes(-1, -2)
        return product_of / np.linalg.norm(product_of, axis=(-2, -1), keepdims=True)

    writers, readers = low_rank(sizes["n_heads"] - 1), low_rank(sizes["n_heads"])
    scores = np.linalg.norm(writers[:, :, None] @ readers[:, None], axis=(-2, -1))
    return scores.max(axis=(1, 2))
