"""Measured values of the claims on the stream's use, from a record."""

from typing import SupportsFloat

import numpy as np
from circuitax.records.claims import unmet_rest
from circuitax.records.measured import Measured
from circuitax.records.nulls import Nulls

from circuitax.records.estimate import Estimate, exact, share_estimate
from circuitax.records.record import Record
from experiments.real_models.shared.model_facts import not_smollm2
from experiments.real_models.stream_use.claims import CLAIMS

# Random directions of 576 dimensions have cosines with a deviation of 0.04.
NEGATIVE = -0.3
ERASES = -0.5  # cosine or eigenvalue score, below which a neuron or a head may erase
LARGE = -0.9  # eigenvalue score, below which a head erases
PRESENT = 1 / 2  # attention to the present token, from which a head attends primarily to it
# Draws of the nulls, random heads that those of a model are drawn from, and random embeddings.
DRAWS, HEADS, SPECTRA = 500, 540, 20


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    data, notes = record.data, record.notes
    why = not_smollm2(notes)
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    quarter = data.sizes["component"] // 4
    least, count = data.least.sel(map="read").values, data["count"].sel(map="read")
    found = {
        "stream-embedding": _of_the_model(data.variance.values[:quarter].sum()),
        "stream-neuron-erases": _of_the_model(count[data.centre < ERASES].sum() / count.sum()),
        "stream-neuron-layers": _of_the_model((least < NEGATIVE).mean()),
        "stream-head-erases": _of_the_model((data.eigenvalues < ERASES).mean()),
    }
    erases, present = data.eigenvalues.values < LARGE, data.present.mean("text").values
    if erases.any():
        found["stream-head-present"] = share_estimate(present[erases] >= PRESENT)
    why = f"no head has an eigenvalue score below {LARGE}"
    return Measured(found, unmet_rest(CLAIMS, found, why))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random directions, heads and embeddings, and heads shuffled."""
    data, notes = record.data, record.notes
    if not_smollm2(notes):
        return {}
    from scipy import stats

    rng = np.random.default_rng(0)
    d_model, d_head = data.sizes["component"], data.sizes["component"] // data.sizes["head"]
    n_directions = int(data["count"].sel(map="read").sum())
    chance = stats.beta.cdf((1 + ERASES) / 2, (d_model - 1) / 2, (d_model - 1) / 2)
    neurons = rng.binomial(n_directions, chance, DRAWS) / n_directions
    scores = [_random_score(rng, d_model, d_head) for _ in range(HEADS)]
    heads = (rng.choice(scores, (DRAWS, data.eigenvalues.size)) < ERASES).mean(axis=1)
    spectra = [_random_spectrum(rng, int(data.attrs["d_vocab"]), d_model) for _ in range(SPECTRA)]
    erases, present = data.eigenvalues.values.ravel() < LARGE, data.present.mean("text").values
    shuffled = (rng.permutation(erases).reshape(present.shape) for _ in range(DRAWS))
    some = [share_estimate(present[drawn] >= PRESENT) for drawn in shuffled if drawn.any()]
    n_layers = data.sizes["layer"]
    of_layers = _least_cosines(rng, n_directions // n_layers, d_model, DRAWS, n_layers)
    return {
        "random": {
            "stream-embedding": np.array([share[: d_model // 4].sum() for share in spectra]),
            "stream-neuron-erases": neurons,
            "stream-neuron-layers": (of_layers < NEGATIVE).mean(axis=1),
            "stream-head-erases": heads,
        },
        "permuted": {"stream-head-present": some or [None]},
    }


def _least_cosines(
    rng: np.random.Generator, n_directions: int, d_model: int, *shape: int
) -> np.ndarray:
    """The least of so many cosines of random directions, of a shape.

    A cosine is ``1 - 2 B`` with ``B`` of the beta distribution ``((d-1)/2, (d-1)/2)``, whose
    largest of n has the level ``U^(1/n)``.
    """
    from scipy import stats

    levels = rng.uniform(size=shape) ** (1 / n_directions)
    half = (d_model - 1) / 2
    return np.asarray(1 - 2 * stats.beta.ppf(levels, half, half))


def _random_score(rng: np.random.Generator, d_model: int, d_head: int) -> float:
    """Eigenvalue score ``Σ Re λ / Σ |λ|`` of a head of Gaussian weights.

    ``W_V W_O`` has the eigenvalues of ``W_O W_V`` beside zeros.
    """
    W_V, W_O = rng.normal(size=(d_model, d_head)), rng.normal(size=(d_head, d_model))
    eigenvalues = np.linalg.eigvals(W_O @ W_V)
    return float(eigenvalues.real.sum() / np.abs(eigenvalues).sum())


def _random_spectrum(rng: np.random.Generator, d_vocab: int, d_model: int) -> np.ndarray:
    """Shares of variance of a Gaussian embedding, the largest first, by Bartlett's factor."""
    factor = np.tril(rng.normal(size=(d_model, d_model)), -1)
    factor[np.diag_indices(d_model)] = np.sqrt(rng.chisquare(d_vocab - np.arange(d_model)))
    squares = np.linalg.svd(factor, compute_uv=False) ** 2
    return np.asarray(squares / squares.sum())


def _of_the_model(value: SupportsFloat) -> Estimate:
    """A number of the one model: training has made it, and no second model says how it spreads."""
    return exact(value)._replace(method="one model, no interval")
