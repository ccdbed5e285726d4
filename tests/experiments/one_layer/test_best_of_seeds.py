"""What is said of the best of several networks follows the seeds, and its interval with them."""

import numpy as np
import pytest
import xarray as xr

from experiments.superposition.toy_abs.measures import _sanity
from experiments.superposition.toy_phase.measures import (
    _regions_in_theory,
    _regions_of_tens,
    _trained,
)


def phase_record(loss: np.ndarray, norm: np.ndarray) -> xr.Dataset:
    """One model on a grid of one importance and two densities; theory represents the feature."""
    cell = ("model", "importance_trained", "density_trained")
    theory = ("model", "importance_theory", "density_theory")
    return xr.Dataset(
        {
            "seeds_loss": ((*cell, "seed"), loss[None, None]),
            "seeds_norm": ((*cell, "seed"), norm[None, None]),
            "seeds_interference": ((*cell, "seed"), np.zeros_like(norm)[None, None]),
            "trained_closed_form": (cell, np.array([[[2.0, 4.0]]])),
            "theory_norm": (theory, np.ones((1, 1, 2))),
            "theory_interference": (theory, np.zeros((1, 1, 2))),
        },
        coords={
            "importance_trained": [1.0],
            "importance_theory": [1.1],
            "density_trained": [0.1, 0.5],
            "density_theory": [0.11, 0.52],
        },
    )


def test_the_best_network_of_each_cell_is_judged() -> None:
    loss = np.array([[3.0, 2.2, np.nan], [4.4, 6.0, 4.2]])  # [density, seed]
    norm = np.array([[1.0, 0.1, 1.0], [1.0, 1.0, 1.0]])
    data = phase_record(loss, norm)
    found = _trained(data, _regions_in_theory(data, "trained"))
    below, same = found["T4-trained-below"], found["regions-best"]
    # Seed 1 is the best at the first density and ignores the feature; seed 2 at the other.
    assert below.value == pytest.approx(1.1) and same.value == 0.5
    # Without seed 1, the first density is left to seed 0, at 1.5 times the closed form.
    assert below.high == pytest.approx(1.5) and (same.low, same.high) == (0.5, 1.0)
    assert below.n == 2, "one diverged at the first density"


def test_ten_networks_are_averaged_without_the_worst_of_each_cell() -> None:
    loss = np.concatenate([np.arange(10.0), np.arange(10.0)])
    norm = np.tile([0.6] * 8 + [0.0, 5.0], 2)  # 0.53 without the last one
    norm[10] = 0.0  # of the second ten: 0.47
    worst_first = np.stack([norm, norm[::-1]]), np.stack([loss, loss[::-1]])
    data = phase_record(worst_first[1], worst_first[0])
    found = _regions_of_tens(data, np.arange(20))
    assert found[:, 0, 0].tolist() == [["dedicated", "ignored"], ["ignored", "dedicated"]]


def test_neurons_of_the_best_network_are_counted() -> None:
    whole = np.kron(np.eye(3), [[1.0], [-1.0]])  # neuron, feature
    half = np.where(np.arange(6)[:, None] == 5, 0, whole)  # the last feature has one side
    W_in = np.stack([half, 1.1 * whole, whole]).swapaxes(1, 2)
    W_out = np.abs(np.stack([half, whole, whole]))
    axes = ("sanity_density", "sanity_seed")
    data = xr.Dataset(
        {
            "sanity_loss": (axes, [[0.3, 0.1, 0.2]]),
            "sanity_W_in": ((*axes, "sanity_feature", "sanity_neuron"), W_in[None]),
            "sanity_W_out": ((*axes, "sanity_neuron", "sanity_feature"), W_out[None]),
            "sanity_pure": ((*axes, "sanity_neuron"), np.ones((1, 3, 6))),
            "sanity_unexplained": ((*axes, "sanity_feature"), np.zeros((1, 3, 3))),
        }
    )
    found = _sanity(data)
    neurons, gain = found["T10-neurons"], found["T10-gain"]
    assert neurons.value == 3 and neurons.low == 2 and neurons.n == 3
    assert gain.value == pytest.approx(0.1) and gain.low == pytest.approx(0)
