"""Markov chains: predictors against marginal likelihoods, texts against them, phases by hand."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.special import gammaln

from experiments.induction.markov_chains.chains import ChainSource, posterior_mean
from experiments.induction.markov_chains.readings import share_in_order


def log_marginal(counts: np.ndarray) -> float:
    """Of rows of counts, under one Dirichlet(1, …, 1) each."""
    k = counts.shape[-1]
    rows = gammaln(k) - gammaln(k + counts.sum(-1)) + gammaln(1 + counts).sum(-1)
    return float(rows.sum())


def counted(text: tuple[int, ...], order: int, k: int = 3) -> np.ndarray:
    counts = np.zeros((k,) * (order + 1))
    for t in range(order, len(text)):
        counts[text[t - order : t + 1]] += 1
    return counts


@pytest.mark.parametrize("order", [0, 1, 2])
def test_predictors_are_ratios_of_marginal_likelihoods(order: int) -> None:
    text = (2, 0, 0, 1, 2, 0, 2, 2, 0, 0)
    with jax.enable_x64(True):
        found = posterior_mean(np.array(text), order, 3)
    for t in range(max(order, 1), len(text)):
        logs = [log_marginal(counted((*text[:t], new), order)) for new in range(3)]
        expected = np.exp(logs - np.float64(log_marginal(counted(text[:t], order))))
        np.testing.assert_allclose(found[t - 1], expected, rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_texts_follow_their_best_predictor(order: int) -> None:
    texts = ChainSource(4000, 8, 3, order)(jax.random.key(order))
    best, other = (
        np.asarray(jax.vmap(lambda t, o=o: posterior_mean(t, o, 3))(texts))[:, 6]
        for o in (order, 0)
    )
    hit = np.eye(3)[np.asarray(texts)[:, 7]]
    # Neither its own shares nor those of another predictor explain what is left over.
    for weights in (best, other):
        surprise = ((hit - best) * weights).sum(axis=1)
        assert abs(surprise.mean()) < 4 * surprise.std() / np.sqrt(len(surprise))
    assert np.log((best * hit).sum(1)).mean() > np.log((other * hit).sum(1)).mean()


def test_symbols_of_even_chains_are_equally_frequent() -> None:
    even, plain = (
        np.asarray(ChainSource(8, 2000, 3, even=e)(jax.random.key(3))) for e in (True, False)
    )
    shares = [np.stack([np.bincount(t, minlength=3) / 2000 for t in x]) for x in (even, plain)]
    assert abs(shares[0] - 1 / 3).max() < 0.08
    assert abs(shares[1] - 1 / 3).max() > 0.2
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (even[0, :-1], even[0, 1:]), 1 / 1999)
    assert abs(pairs - 1 / 9).max() > 0.05


def test_phases_are_what_a_model_is_nearest_to() -> None:
    names = ["uniform", "unigram", "bigram", "trigram"]
    # Nearest to: uniform twice, then once to pairs, unigram three times, pairs twice.
    nearest = [0, 0, 2, 1, 1, 1, 2, 2]
    distance = np.ones((2, 8, 1, 4))
    distance[..., 3] = np.nan
    for step, name in enumerate(nearest):
        distance[0, step, 0, name] = 0.1
        distance[1, step, 0, 0] = 0.1
    data = xr.Dataset(
        {
            "distance": (("arm", "step", "member", "predictor"), distance),
            "alive": (("arm", "member"), np.ones((2, 1), bool)),
        },
        {"arm": ["2 layers", "1 layer"], "step": np.arange(8), "predictor": names},
    )
    turns = ("uniform", "unigram", "bigram")
    assert share_in_order(data, "2 layers", turns).value == 1
    assert share_in_order(data, "1 layer", turns).value == 0
    assert share_in_order(data, "1 layer", ("uniform",)).value == 1
