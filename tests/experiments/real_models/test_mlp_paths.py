"""Paths through MLPs: sums against loops over paths, removals, and claims with planted numbers."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.figures.spec import draw_all
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, freeze
from circuitax.kit.real_model import open_weights
from circuitax.lab.lab import Lab
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, settle
from circuitax.records.record import Record
from experiments.real_models.mlp_paths import experiment, figure
from experiments.real_models.mlp_paths.claims import CLAIMS
from experiments.real_models.mlp_paths.experiment import Spec
from experiments.real_models.mlp_paths.linear_maps import (
    first_outputs,
    layer_maps,
    names_tokens,
    output_maps,
    stable_rank,
)
from experiments.real_models.mlp_paths.measures import (
    estimates,
    held_by_first,
    measure,
    nulls,
    share_late,
)
from experiments.real_models.mlp_paths.orders import mlp_order_streams, two_head_paths
from experiments.real_models.mlp_paths.removals import without_paths, without_tokens
from experiments.real_models.mlp_paths.split import read, split
from experiments.real_models.mlp_paths.tail import half_of, shares_of_largest

TEXT = np.array([3, 9, 1, 7, 9])
LAST = len(TEXT) - 1
PROVEN_LISTS = ("paths-proven", "paths-proven-lead", "paths-proven-neurons")
TINY = Spec("random", 2, 5, lists=1, maps=1, k=5, budget=20_000, removed=3, draws=2)


def dense(frozen: FrozenModel) -> tuple[np.ndarray, np.ndarray]:
    """Heads ``[layer, head, dest, src, d, d]`` and MLPs ``[layer, position, d, d]`` as matrices."""
    A, W_V, W_O = (np.asarray(x, np.float64) for x in (frozen.A, frozen.W_V, frozen.W_O))
    heads = np.einsum("lhts,lhdk,lhke->lhtsde", A, W_V, W_O)
    maps = jax.tree.map(lambda x: np.asarray(x, np.float64), frozen.maps)
    mlps = np.einsum("lidm,litm,lme->ltde", maps.W_in, maps.factors, maps.W_out)
    return heads, mlps


@pytest.fixture(scope="module")
def given():
    with jax.enable_x64(True):
        model = open_weights("random", jax.random.key(0))
        seen = read(model, jnp.asarray(TEXT))
        yield model, seen, frozen_model(seen), jnp.asarray(model.W_U)[:, 7]


def test_orders_by_mlps_are_those_of_every_choice(given) -> None:
    with jax.enable_x64(True):
        frozen = given[2]
        found = mlp_order_streams(frozen)
        heads, mlps = dense(frozen)
        want = np.zeros(found.shape)
        for chosen in itertools.product((0, 1), repeat=2):
            x = np.asarray(frozen.embedding)
            for layer, passed in enumerate(chosen):
                x = x + np.einsum("htsde,sd->te", heads[layer], x)
                x = np.einsum("tde,td->te", mlps[layer], x) if passed else x
            want[sum(chosen)] += x
        np.testing.assert_allclose(found, want, atol=1e-12)


def test_two_head_paths_and_maps_are_those_of_matrices(given) -> None:
    with jax.enable_x64(True):
        _, seen, frozen, direction = given
        heads, mlps = dense(frozen)
        past = np.eye(mlps.shape[-1]) + mlps
        w = np.asarray(direction) / float(seen.scales.final[-1])
        found = np.asarray(two_head_paths(frozen, LAST, direction))
        x = np.asarray(frozen.embedding)
        for first, second in itertools.product(range(4), repeat=2):
            once = np.einsum("tsde,sd->te", heads[0, first], x)
            once = np.einsum("td,tde->te", once, past[0])
            twice = np.einsum("sde,sd->e", heads[1, second, LAST], once) @ past[1, LAST]
            np.testing.assert_allclose(found[1, second, 0, first], twice @ w, atol=1e-12)
        assert not found[0].any() and not found[1, :, 1].any()
        gain = 1 + jnp.arange(16) / 16
        maps = np.asarray(output_maps(frozen, gain))
        output = np.einsum("sod,sd->o", maps, x)
        np.testing.assert_allclose(
            output, seen.streams[-1][-1] * gain / seen.scales.final[-1], atol=1e-10
        )
        by_layer = np.asarray(layer_maps(frozen, jnp.asarray(2)))
        np.testing.assert_allclose(
            by_layer[:, -1].T * np.asarray(gain)[:, None] / float(seen.scales.final[-1]),
            maps[2],
            atol=1e-12,
        )


def test_ranks_and_words_of_a_matrix_that_is_known() -> None:
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    matrix = u @ np.diag([4.0, 2.0, 1.0, 0, 0, 0]) @ v.T
    np.testing.assert_allclose(stable_rank(matrix), 21 / 16)
    np.testing.assert_allclose(np.abs(first_outputs(matrix) @ v[:, :3]), np.eye(3), atol=1e-7)
    W_U = rng.normal(size=(6, 50))
    order = np.argsort(v[:, 0] @ W_U)
    asked = np.array([order[0], order[9], order[-10], order[25], order[11]])
    named = names_tokens(v[:, :1].T, W_U, asked)
    np.testing.assert_array_equal(named, [True, True, True, False, False])
    sizes = np.array([1.0, 4, 3, 2])
    np.testing.assert_allclose(shares_of_largest(sizes)[:3], [0.4, 0.9, 1.0])
    assert (half_of(sizes), half_of(np.array([1.0, 4, 3])), half_of(np.ones(9))) == (2, 1, 5)


def test_shares_close_and_removals_remove(given) -> None:
    with jax.enable_x64(True):
        model, seen, _, _ = given
        found = split(seen)
        for shares in (found.exact.tokens, found.by_heads, found.by_mlps):
            np.testing.assert_allclose(shares.sum(), found.logit, rtol=1e-9)
        ids, mean = jnp.asarray(TEXT), np.asarray(model.W_E).mean(axis=0)
        # A model whose embedding of that token is the mean has the same logit.
        other = model.replace(W_E=jnp.asarray(model.W_E).at[1].set(mean))
        want = read(other, ids).logits[-1]
        at = TEXT.tolist().index(1)
        moved = without_tokens(model, ids, found.token, jnp.asarray([at]))
        np.testing.assert_allclose(moved[0], want[found.token] - want.mean(), atol=1e-9)
        # Held, what is taken away is the value of the path; for real, all that follows reacts.
        heads, mlps = dense(found.frozen)
        alone = np.asarray(found.frozen.embedding)[3] @ (np.eye(16) + mlps[0, 3])
        lost = np.zeros((2, 4, len(TEXT), 16))
        lost[1, 2, LAST] = -heads[1, 2, LAST, 3].T @ alone
        held = freeze(seen.trace)._replace(head_add=jnp.asarray(lost))
        logits = forward(model, ids, held)[0][-1]
        fall = found.logit - (logits[found.token] - logits.mean())
        np.testing.assert_allclose(fall, found.one_head[1, 2, 3], atol=1e-10)
        logits = forward(model, ids, Interventions(head_add=jnp.asarray(lost)))[0][-1]
        real = without_paths(model, found.frozen, ids, found.token, jnp.asarray([[[1, 2, 3]]]))
        np.testing.assert_allclose(real[0], logits[found.token] - logits.mean(), atol=1e-10)


def test_a_tiny_run_is_drawn_and_settles_nothing(tmp_path: Path) -> None:
    record = experiment.run(TINY, jax.random.key(0), Lab(tmp_path / "work"))
    data = record.data
    np.testing.assert_allclose(data.exact.sum("source"), data.logit, rtol=1e-4)
    # Where the last stretch is opened, some of the five end in a neuron, and hold something else.
    assert data.neurons_complete.all() and data.lead_complete.all()
    assert any("mlp" in name for name in data.neurons_path.values.ravel())
    assert (np.abs(data.neurons_value) >= data.neurons_bound).all()
    assert list(draw_all(figure.FIGURES, record)) == ["orders", "largest", "maps"]
    assert {row.verdict for row in settle(CLAIMS, *measure(record))} == {NOT_RUN}


def planted(good: bool) -> xr.Dataset:
    """Forty prompts with all that the claims say, or with its opposite."""
    rng, n, few, size = np.random.default_rng(1), 40, 4, 11
    noise = 1 + 0.01 * rng.normal(size=n)
    logit = 10 * noise
    steady, wild = np.zeros((n, 31)), np.zeros((n, 31))
    steady[:, :4] = logit[:, None] / 4
    wild[:, 9], wild[:, 10] = 500 + logit, -500.0
    exact = np.full((n, size), 0.1)
    exact[:, 3] = logit - 1.0
    right = np.append(np.full(n // 2, -1), np.arange(n // 2))
    ids = np.full((n, size), 777)
    ids[:, 3 if good else 4] = np.where(right < 0, 5, right)
    sums = rng.uniform(1, 4, size=n)
    falls = sums if good else -sums
    without = np.stack([logit - falls, logit - 0.1, logit - 0.1], axis=1)
    tokens = np.stack([logit - (5 if good else 0) * noise, logit - (0 if good else 5)], axis=1)
    on_list = np.zeros((few, 30, 9), bool)
    on_list[:, 3, :5] = True
    scores = np.stack([np.where(on_list == good, 1.0, 0.01)] * 4, axis=1)
    named = np.zeros((few, 30, few), bool)
    if good:
        named[:, 20:] = np.eye(few, dtype=bool)[:, None]
    else:
        named[0, 1:, 0] = True
        named[1, 2:, 1] = named[2, :, 3] = True
    tail = np.full((few, 9), 0.25 if good else 0.9)
    spread = np.array([0.99, 1.0, 1.01, 1.02])[:, None]
    even = np.where(np.arange(size) % 2, 2.0, 0) * np.ones((n, 1))
    even = even + 0.05 * rng.normal(size=even.shape)
    if not good:
        exact = even * (logit / even.sum(axis=1))[:, None] + 0.5
    first = (np.arange(20) < 3) * 1.0 if good else np.ones(20)
    return xr.Dataset(
        {
            "logit": ("prompt", logit),
            "token": ("prompt", np.where(right < 0, 5, right)),
            "right": ("prompt", right),
            "ids": (("prompt", "source"), ids),
            "by_heads": (("prompt", "order"), steady if good else wild),
            "by_mlps": (("prompt", "order"), wild if good else steady),
            "exact": (("prompt", "source"), exact),
            "gradient": (("prompt", "source"), exact if good else -exact),
            "relp": (("prompt", "source"), exact if good else -exact),
            "without_tokens": (("prompt", "removal"), tokens),
            "without_paths": (("prompt", "set"), without),
            "path_sum": (("prompt", "set"), np.stack([sums, sums, sums], axis=1)),
            "complete": ("list", np.full(few, True)),
            "n_evaluated": ("list", np.full(few, 1000)),
            "lead_complete": ("list", np.full(few, good)),
            "lead_evaluated": ("list", np.full(few, 2000)),
            "neurons_complete": ("list", np.full(few, good)),
            "neurons_evaluated": ("list", np.full(few, 3000)),
            "on_list": (("list", "layer", "head"), on_list),
            "scores": (("list", "score", "layer", "head"), scores),
            "held": (("list", "largest"), tail * spread),
            "half": ("list", (5000.0 if good else 50.0) * spread[:, 0]),
            "one_head_half": ("list", [31, 40, 52, 44]),
            "rank_of": (("map", "source"), np.full((few, size), 3.0 if good else 40.0) * spread),
            "singular": (("map", "source", "place"), np.tile(first, (few, size, 1))),
            "named": (("map", "layer", "token"), named),
            "rank_shuffled": (("shuffled", "source"), np.full((2, size), 60.0) * spread[:2]),
        },
        coords={
            "map_prompt": ("map", np.arange(few)),
            "score": ["gradient", "relp", "direct", "plain"],
            "largest": [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000],
        },
    )


NOTES = {"missing": "", "weights": "smollm2", "k": 20, "removed": 10}


def test_claims_hold_on_planted_paths() -> None:
    record = Record(planted(True), notes=NOTES)
    found = estimates(record.data)
    np.testing.assert_allclose(found["paths-by-heads"].value, 1.0)
    np.testing.assert_allclose(found["linear-map-layer"].value, 1.0)
    np.testing.assert_allclose(found["paths-copied-token"].value, 1.0)
    # Of squares that add up to 0.99 to 1.02 times the three that are there.
    expected = np.minimum(1 / np.array([0.99, 1.0, 1.01, 1.02]), 1).mean()
    np.testing.assert_allclose(found["linear-map-rank"].value, expected)
    verdicts = settle(CLAIMS, *measure(record), nulls=nulls(record))
    # Four of four do not show nine in ten, nor a majority.
    open_by_few = {"linear-map-words", *PROVEN_LISTS}
    assert {row.claim.id for row in verdicts if row.verdict != HOLDS} <= open_by_few
    # The same ten of 30 layers in any order: only runs at the end count, which are short.
    drawn = nulls(record)["permuted"]["linear-map-layer"]
    assert np.mean([draw.value < 0.5 for draw in drawn]) > 0.9
    # An early layer and the last one do not make a late one.
    shares = [share_late(np.array(layers)).value for layers in ((0.3, 1.0), (0.5, 0.9, 0.97, 0.4))]
    assert shares == [0.0, 0.5]
    # Ten paths in each of 30 layers, none or one of nine heads: fewer prove nothing by themselves.
    counts = dict(zip(PROVEN_LISTS, ("n", "lead", "neurons"), strict=True))
    for claim, name in counts.items():
        for evaluated, share in ((1000, 0.0), (10.0**30, 1.0)):
            count = f"{name}_evaluated"
            many = record.data.assign({count: 0.0 * record.data[count] + evaluated})
            (drawn,) = nulls(Record(many, NOTES))["false world"][claim]
            assert drawn.value == share


def test_claims_fail_on_the_opposite() -> None:
    record = Record(planted(False), notes=NOTES)
    verdicts = {
        r.claim.id: r.verdict for r in settle(CLAIMS, *measure(record), nulls=nulls(record))
    }
    wrong = {name for name, verdict in verdicts.items() if verdict != FAILS}
    assert wrong <= {"dressed-paths-close", "paths-proven", "linear-map-words", "linear-map-layer"}
    assert estimates(record.data)["paths-proven-lead"].value == 0.0
    assert estimates(record.data)["linear-map-layer"].value == 0.0


def test_ten_directions_have_at_most_ten_over_the_stable_rank() -> None:
    data = planted(False)
    np.testing.assert_allclose(held_by_first(data), 10 / 40 / np.array([0.99, 1.0, 1.01, 1.02]))
    (drawn,) = nulls(Record(data, NOTES))["random"]["linear-map-rank"]
    np.testing.assert_allclose(drawn.value, (10 / 60 / np.array([0.99, 1.0])).mean())


def test_words_are_asked_where_another_token_than_the_first_carries_most() -> None:
    data = planted(True)
    data.exact[:3, 0] = 50.0
    found = estimates(data)["linear-map-words"]
    assert (found.value, found.n) == (1.0, 1)
    data.named[3] = False
    assert estimates(data)["linear-map-words"].value == 0.0
    data.exact[3, 0] = 50.0
    record = Record(data, NOTES)
    assert "linear-map-words" in measure(record).not_run or measure(record).unmet
    assert nulls(record)["mismatched"]["linear-map-words"] == [None] * 3
