"""Bilinear text models: readings against NumPy, counts by hand, and claims with planted numbers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.special import log_softmax

from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.data.text import TextSpec
from circuitax.figures.spec import draw_all
from circuitax.kernel.mlp import Activation
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.memory import weights_of
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.claims import ABSENT, FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.record import Record
from circuitax.training.language import text_losses
from experiments.one_layer.bilinear import experiment
from experiments.one_layer.bilinear.claims import CLAIMS
from experiments.one_layer.bilinear.experiment import Spec, models
from experiments.one_layer.bilinear.figure import FIGURES, trigrams
from experiments.one_layer.bilinear.measures import measure, nulls, outdone
from experiments.one_layer.bilinear.pairs import (
    couples,
    followed,
    part_losses,
    strongest_pairs,
    token_profiles,
)
from experiments.one_layer.bilinear.readings import kept_losses, permuted_energies, readings

SIZES = TransformerSpec(
    9, 8, 1, 2, 6, d_mlp=4, gated=True, activation=Activation.linear, init_scale=1.5, init_embed=2.0
)
TASK = TextSpec(d_vocab=257)
MODEL = SIZES.replace(d_vocab=257, d_mlp=8, n_layers=2)
ONE = jnp.asarray([4, 0, 7])


@pytest.fixture
def given(x64, rng):
    model = init(jax.random.key(1), SIZES)
    return model, jnp.asarray(rng.integers(0, 9, size=(3, 8)))


def matrix(model, u: np.ndarray) -> np.ndarray:
    """An interaction matrix of the one layer, unit by unit."""
    gate, value, out = (np.asarray(W[0]) for W in (
        model.blocks.mlp.W_gate, model.blocks.mlp.W_in, model.blocks.mlp.W_out,
    ))  # fmt: skip
    total = sum(np.outer(gate[:, k], value[:, k]) * (out[k] @ u) for k in range(gate.shape[1]))
    return np.asarray(total + total.T) / 2


def centred(model) -> np.ndarray:
    W_U = np.asarray(model.W_U)
    return W_U - W_U.mean(axis=1, keepdims=True)


def streams(model, windows) -> tuple[np.ndarray, np.ndarray]:
    """Token embeddings and what heads wrote, of all windows and positions."""
    token = np.asarray(model.W_E)[np.asarray(windows)]
    heads = [np.asarray(run_model(model, w, outputs=True).trace.head_outputs[0]) for w in windows]
    return token, np.stack(heads).sum(axis=1)


def test_correlations_and_spectra_are_those_of_numpy(given) -> None:
    model, windows = given
    found = readings(model, windows, ONE, (1, 2, 6))
    token, heads = streams(model, windows)
    x = (token + heads).reshape(-1, 6)
    for i, v in enumerate(np.asarray(ONE)):
        B = matrix(model, centred(model)[:, v])
        values, vectors = np.linalg.eigh(B)
        order = np.argsort(-np.abs(values))
        np.testing.assert_allclose(
            found.energy[0, i], values[order] ** 2 / (B**2).sum(), atol=1e-10
        )
        whole = np.einsum("ri,ij,rj->r", x, B, x)
        for j, rank in enumerate((1, 2, 6)):
            part = ((x @ vectors[:, order[:rank]]) ** 2) @ values[order[:rank]]
            want = np.corrcoef(part, whole)[0, 1]
            np.testing.assert_allclose(found.correlation[0, i, j], want, atol=1e-9)
    assert found.correlation[0, :, 0].min() < 0.9


def test_permuted_units_have_the_gates_of_others(given) -> None:
    model, _ = given
    key = jax.random.key(3)
    found = permuted_energies(model, ONE, key[None])
    order = jax.random.permutation(key, 4)
    mlp = model.blocks.mlp
    other = model.replace(
        blocks=model.blocks._replace(mlp=mlp._replace(W_gate=mlp.W_gate[:, :, order]))
    )
    shares = []
    for v in np.asarray(ONE):
        values = np.linalg.eigvalsh(matrix(other, centred(model)[:, v])) ** 2
        shares.append(np.sort(values)[-2:].sum() / values.sum())
    np.testing.assert_allclose(found[0], np.mean(shares), rtol=1e-9)


def test_all_eigenvectors_keep_the_loss_and_none_is_a_model_without_mlp(given) -> None:
    model, windows = given
    found = kept_losses(model, windows, jax.random.split(jax.random.key(0), 3), (1, 4, 6))
    whole = text_losses(model, windows).mean()
    bare = model.replace(blocks=model.blocks._replace(mlp=None))
    np.testing.assert_allclose(found.whole, whole, rtol=1e-12)
    np.testing.assert_allclose(found.kept[-1], whole, rtol=1e-10)
    np.testing.assert_allclose(found.removed, text_losses(bare, windows).mean(), rtol=1e-10)
    # Four random eigenvectors of six are not the four largest, and differ from draw to draw.
    assert np.ptp(found.random) > 1e-3 and np.abs(found.random - found.kept[1]).min() > 1e-4


def test_parts_of_the_layer_are_what_is_taken_away(given) -> None:
    model, windows = given
    found = part_losses(model, windows)
    token, heads = streams(model, windows)
    basis = [matrix(model, u) for u in np.eye(6)]
    own, back = (
        np.stack([np.einsum("wti,ij,wtj->wt", x, B, x) for B in basis], axis=-1)
        for x in (token, heads)
    )
    cross = np.stack([2 * np.einsum("wti,ij,wtj->wt", token, B, heads) for B in basis], axis=-1)
    for i, left in enumerate((own + cross + back, cross + back, own + back, own + cross)):
        logits = (token + heads + left) @ np.asarray(model.W_U)
        log = log_softmax(logits, axis=-1)[:, :-1]
        chosen = np.take_along_axis(log, np.asarray(windows)[:, 1:, None], axis=2)
        np.testing.assert_allclose(found.loss[i], -chosen.mean(), rtol=1e-10)
    assert found.closing < 1e-12


def test_the_strongest_pair_is_that_of_the_whole_cube(given) -> None:
    model, _ = given
    found = strongest_pairs(model, ONE)
    heads, E = model.blocks.attention, np.asarray(model.W_E)
    for i, v in enumerate(np.asarray(ONE)):
        B, best = matrix(model, centred(model)[:, v]), (-1.0, None)
        for h in range(2):
            Q, K, V, O = (np.asarray(W[0, h]) for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O))
            scores = (E @ Q) @ (E @ K).T / np.sqrt(3)
            scores -= scores.mean(axis=1, keepdims=True)
            raised = 2 * E @ B @ (E @ V @ O).T
            strength = np.maximum(scores, 0) * np.maximum(raised, 0)
            at = np.unravel_index(strength.argmax(), strength.shape)
            if strength[at] > best[0]:
                best = (strength[at], (h, *at, raised[at]))
        np.testing.assert_allclose(
            [found.head[i], found.destination[i], found.source[i], found.raised[i]],
            best[1],
            rtol=1e-9,
        )


def test_rates_are_counted_behind_a_source_within_reach() -> None:
    #        0  1  2  3  4  5  6  7  8  9
    text = [7, 1, 5, 1, 6, 1, 6, 7, 1, 5]
    found = followed(np.array(text), np.array([1, 2]), np.array([7, 7]), np.array([5, 6]), 2)
    # Token 1 at 1 (source at 0), 3 (at 0: out of reach), 5 (no), 8 (source at 7).
    np.testing.assert_array_equal(found.times, [2, 0])
    np.testing.assert_allclose(found.rate_with[0], [1.0, 0.0])
    np.testing.assert_allclose(found.rate_without[0], [0.0, 1.0])
    assert np.isnan(found.rate_with[1]).all()
    wider = followed(np.array(text), np.array([1]), np.array([7]), np.array([5]), 3)
    np.testing.assert_array_equal(wider.times, [3])


def test_profiles_and_couples(given) -> None:
    model, _ = given
    found = np.asarray(token_profiles(model, ONE))
    values, vectors = np.linalg.eigh(matrix(model, centred(model)[:, 7]))
    read = np.asarray(model.W_E) @ vectors[:, np.abs(values).argmax()]
    read -= read.mean()
    np.testing.assert_allclose(np.abs(found[2] @ read) / np.linalg.norm(read), 1, rtol=1e-9)
    profiles = np.array([[[1, 0], [0, 1]], [[0.6, 0.8], [-0.8, 0.6]], [[9, 9], [9, 9]]])
    np.testing.assert_allclose(couples(profiles, 1), [[[0.6, 0.6], [0.8, 0.8]]])


def test_models_of_a_depth_have_equally_many_weights() -> None:
    spec = Spec(task=TASK, model=MODEL, kept=(2, 4), directions=5)
    found = list(models(spec))
    assert [name for name, _, _ in found][::3] == ["bilinear-1", "bilinear-2"]
    for depth in (0, 3):
        bilinear, gelu, linear = (weights_of(s) for _, _, s in found[depth : depth + 3])
        assert bilinear == gelu == linear
    assert [str(s.activation) for _, _, s in found[:3]] == ["linear", "gelu", "linear"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"rates": (1e-2,)}, r"rates=\(0.01,\) must hold one for each"),
        ({"model": MODEL.replace(gated=False)}, "model.gated=False must be True"),
        ({"model": MODEL.replace(norm="rmsnorm")}, "model.norm=rmsnorm must be none"),
        ({"model": MODEL.replace(activation="silu")}, "model.activation=silu must be linear"),
        ({"model": MODEL.replace(d_mlp=5)}, "model.d_mlp=5 must be even"),
        ({"kept": (1, 2)}, r"kept=\(1, 2\) must hold 2 and 4"),
        ({"kept": (2, 4, 7)}, "kept="),
        ({"directions": 258}, "directions=258"),
    ],
)
def test_what_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**{"task": TASK, "model": MODEL, "kept": (2, 4)} | change)


def planted(rng: np.random.Generator, there: bool) -> Record:
    """A record with every effect, or with none and what the nulls are as the claims need it."""
    seeds, directions, draws, V = 8, 6, 20, 10

    def near(value: float, *shape: int) -> np.ndarray:
        return value + rng.normal(0, 1e-3, shape)

    kinds = [f"{kind}-{n}" for n in (1, 2) for kind in ("bilinear", "gelu", "linear")]
    loss = near(3, 1, 6, seeds)
    loss[:, [2, 5]] += 0.1
    loss[:, [0, 3]] += 0 if there else 0.1
    energy = np.zeros((3, seeds, directions, 8))
    energy[..., :2] = near(0.3 if there else 0.06, 3, seeds, directions, 2)
    part = np.stack([near(3, seeds), near(3.3, seeds), near(3.1 if there else 3, seeds),
                     near(3.1, seeds)], axis=1)  # fmt: skip
    rate = near(0.2, seeds, directions, directions)
    behind = rate - 0.1
    behind[:, range(directions), range(directions)] += 0.3 if there else 0
    cosine = near(0.1, 4, 3, directions)
    cosine[:, 0] += 0.7 if there else 0
    data = xr.Dataset(
        {
            "loss": (("step", "model", "seed"), loss),
            "alive": (("model", "seed"), np.ones((6, seeds), bool)),
            "energy": (experiment.PLACES, energy),
            "energy_at_init": (experiment.PLACES, near(0.1, *energy.shape)),
            "energy_permuted": (("seed", "draw"), near(0.13, seeds, draws)),
            "correlation": (experiment.RANKS, near(0.9 if there else 0.5, 3, seeds, directions, 2)),
            "correlation_at_init": (experiment.RANKS, near(0.4, 3, seeds, directions, 2)),
            "whole_loss": (("depth", "seed"), near(3, 2, seeds)),
            "removed_loss": (("depth", "seed"), near(3.5, 2, seeds)),
            "kept_loss": (("depth", "seed", "kept"), near(3.1 if there else 3.4, 2, seeds, 2)),
            "random_loss": (("depth", "seed", "draw"), near(3.45, 2, seeds, draws)),
            "part_loss": (("seed", "part"), part),
            "part_loss_at_init": (("seed", "part"), near(5, seeds, 4)),
            "closing": (("seed",), np.full(seeds, 1e-6 if there else 1e-3)),
            "cosine": (("couple", "shift", "direction"), cosine),
            "times": (("seed", "direction"), np.full((seeds, directions), 50)),
            "raised": (("seed", "direction"), near(2, seeds, directions)),
            "source": (("seed", "direction"), rng.integers(0, V, (seeds, directions))),
            "destination": (("seed", "direction"), rng.integers(0, V, (seeds, directions))),
            "rate_with": (("seed", "direction", "other"), behind),
            "rate_without": (("seed", "direction", "other"), rate),
        },
        coords={
            "model": kinds,
            "mlp": ["0 of 1", "0 of 2", "1 of 2"],
            "depth": [1, 2],
            "kept": [2, 4],
            "direction": np.arange(directions),
            "token": [f"t{i}" for i in range(V)],
            "step": [400],
        },
    )
    return Record(data, {"d_model": 64})


def verdicts(record: Record) -> dict[str, str]:
    settled = settle(CLAIMS, *measure(record), nulls=nulls(record))
    return {one.claim.id: one.verdict for one in settled}


def test_planted_effects_hold_and_their_absence_fails() -> None:
    rng = np.random.default_rng(0)
    found = verdicts(planted(rng, True))
    assert set(found.values()) == {HOLDS}, found
    found = verdicts(planted(rng, False))
    assert set(found.values()) <= {FAILS, WOULD_HOLD}, found


def test_nothing_is_compared_with_models_that_a_layer_more_made_worse() -> None:
    record = planted(np.random.default_rng(0), True)
    assert not outdone(record.data)
    record.data["loss"][:, 4] += 0.1
    assert set(outdone(record.data)) == {"bilinear-gap-2"}
    assert verdicts(record)["bilinear-gap-2"] == ABSENT
    record.data["loss"][:, 4] -= 0.2
    assert not outdone(record.data)


def test_a_tiny_run_is_drawn(tmp_path: Path) -> None:
    spec = plan(["experiment=bilinear", "scale=tiny"], discover())[1][-1].spec
    record = experiment.run(spec, jax.random.key(0), Lab(tmp_path))
    assert np.isfinite(record.data.loss).all()
    assert record.data.closing.max() < 1e-4
    np.testing.assert_allclose(record.data.kept_loss[..., -1], record.data.whole_loss, rtol=1e-4)
    np.testing.assert_allclose(record.data.part_loss[:, 0], record.data.whole_loss[0], rtol=1e-5)
    assert {"losses", "eigenvectors"} <= set(draw_all(FIGURES, record))
    record.data["times"][:] = 30
    assert trigrams(record).axes[0].get_yticklabels()
