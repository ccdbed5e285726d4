"""The stream's use: spectra, cosines and eigenvalues against NumPy, and how a record settles."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import copying_model
from circuitax.kit.real_model import SMALL
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record
from experiments.real_models.stream_use import experiment
from experiments.real_models.stream_use.experiment import (
    attention_to_present,
    head_eigenvalues,
    neuron_cosines,
    variances,
)
from experiments.real_models.stream_use.measures import _least_cosines, measure, nulls


def test_weights_are_read_as_numpy_reads_them() -> None:
    with jax.enable_x64(True):
        model = init(jax.random.key(0), SMALL, jnp.zeros(()).dtype)
        W = {name: np.asarray(value) for name, value in model.named().items()}
        E = W["W_E"] - W["W_E"].mean(axis=0)
        sizes = np.linalg.svd(E, compute_uv=False) ** 2
        np.testing.assert_allclose(variances(model.W_E), sizes / sizes.sum(), atol=1e-12)
        found = neuron_cosines(model)
        for layer, neuron in ((0, 3), (1, 20)):
            gain = W["blocks.mlp_norm.gain"][layer]
            writes = W["blocks.mlp.W_out"][layer, neuron]
            for name, key in (("read", "W_in"), ("gate", "W_gate")):
                reads = gain * W[f"blocks.mlp.{key}"][layer, :, neuron]
                expected = reads @ writes / np.linalg.norm(reads) / np.linalg.norm(writes)
                np.testing.assert_allclose(found[name][layer, neuron], expected, rtol=1e-9)
        scores = np.asarray(head_eigenvalues(model))
        gain, V, O = (W[f"blocks.attention{name}"] for name in ("_norm.gain", ".W_V", ".W_O"))
        for layer, head in ((0, 1), (1, 3)):
            # Two heads of queries read the values of one.
            values = np.linalg.eigvals(gain[layer][:, None] * V[layer, head // 2] @ O[layer, head])
            expected = values.sum().real / np.abs(values).sum()
            np.testing.assert_allclose(scores[layer, head], expected, rtol=1e-7, atol=1e-9)


def test_even_attention_to_the_present_is_one_over_the_position() -> None:
    found = attention_to_present(copying_model(5, 1.0), jnp.array([0, 3, 1]))
    np.testing.assert_allclose(found[0, 0], (1 + 1 / 2 + 1 / 3) / 3, rtol=1e-6)


def test_a_record_holds_the_least_cosine_of_each_layer_and_how_many_are_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cosines = {
        "read": np.array([[0.1, -0.9, 0.3], [0.6, 0.2, 0.7]]),
        "gate": np.array([[0.4, 0.6, -0.2], [-0.7, -0.6, -0.8]]),
    }
    attention = np.arange(16.0).reshape(2, 2, 4)
    texts = iter(attention)
    monkeypatch.setattr(experiment, "neuron_cosines", lambda model: cosines)
    monkeypatch.setattr(experiment, "attention_to_present", lambda model, text: next(texts))
    monkeypatch.setattr(experiment, "head_eigenvalues", lambda model: -attention[1])
    spec = experiment.Spec(weights="random", texts=2, length=8, bins=4)
    data = experiment.run(spec, jax.random.key(0), Lab(tmp_path)).data
    np.testing.assert_array_equal(data.least.sel(map="read"), [-0.9, 0.2])
    np.testing.assert_array_equal(data.least.sel(map="gate"), [-0.2, -0.8])
    np.testing.assert_array_equal(data["count"].sel(map="read"), [1, 0, 3, 2])
    np.testing.assert_array_equal(data["count"].sel(map="gate"), [3, 1, 1, 1])
    np.testing.assert_array_equal(data.centre, [-0.75, -0.25, 0.25, 0.75])
    np.testing.assert_array_equal(data.present, attention)
    np.testing.assert_array_equal(data.eigenvalues, -attention[1])
    assert float(data.variance.sum()) == pytest.approx(1, rel=1e-5)
    assert (np.diff(data.variance) <= 0).all() and not data.attrs["tied"]


def record(**notes: str) -> Record:
    data = xr.Dataset(
        {
            "variance": ("component", np.array([0.4, 0.3, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01])),
            "least": (("map", "layer"), np.array([[-0.5, -0.2], [-0.6, -0.7]])),
            "count": (("map", "bin"), np.array([[2, 3, 10, 5], [9, 9, 1, 1]])),
            "eigenvalues": (("layer", "head"), np.array([[-0.95, 0.9], [-0.4, -0.97]])),
            "present": (
                ("text", "layer", "head"),
                np.array([[[0.5, 0.8], [0.9, 0.2]], [[0.6, 0.8], [0.9, 0.4]]]),
            ),
        },
        {"map": ["read", "gate"], "centre": ("bin", [-0.75, -0.25, 0.25, 0.75])},
    )
    return Record(data=data, notes={"missing": "", "weights": "smollm2"} | notes)


def test_claims_are_settled_by_the_numbers_that_they_name() -> None:
    value = {name: found.value for name, found in measure(record()).estimates.items()}
    assert value == {
        "stream-embedding": pytest.approx(0.7),
        "stream-neuron-erases": pytest.approx(2 / 20),
        "stream-neuron-layers": pytest.approx(0.5),
        "stream-head-erases": pytest.approx(2 / 4),
        # Of two heads below -0.9 one gives the present token 0.55 of its attention, and one 0.3.
        "stream-head-present": pytest.approx(1 / 2),
    }


def test_random_neurons_and_heads_do_not_erase() -> None:
    wide = record()
    wide.data["variance"] = ("component", np.full(64, 1 / 64))
    wide.data.attrs["d_vocab"] = 100
    drawn = nulls(wide)["random"]
    for name in ("stream-neuron-erases", "stream-head-erases"):
        assert drawn[name].shape == (500,) and (drawn[name] == 0).mean() > 0.9


def test_least_cosines_of_random_directions_are_as_many_as_a_layer_has() -> None:
    # In three dimensions a cosine is uniform: the least of n has the mean -1 + 2/(n + 1).
    for n in (1, 4, 19):
        drawn = _least_cosines(np.random.default_rng(n), n, 3, 400, 30)
        assert drawn.shape == (400, 30)
        assert drawn.mean() == pytest.approx(-1 + 2 / (n + 1), abs=0.02)


def test_without_the_weights_nothing_is_settled() -> None:
    assert not measure(record(weights="random")).estimates
    assert measure(record(missing="make smollm2")).not_run["stream-embedding"].endswith("smollm2")
