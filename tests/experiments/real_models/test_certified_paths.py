"""Lists of proven paths: prompts, what scores miss, claims with planted numbers, and no weights."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.lab.lab import Lab
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, UNDECIDED, WOULD_HOLD, settle
from circuitax.records.record import Record
from experiments.real_models.certified_paths import experiment, figure
from experiments.real_models.certified_paths.claims import CLAIMS, N
from experiments.real_models.certified_paths.experiment import SCORES, Spec
from experiments.real_models.certified_paths.measures import estimates, heads_of, measure, nulls
from experiments.real_models.certified_paths.misses import misses
from experiments.real_models.certified_paths.prompts import (
    KINDS,
    PROSE,
    is_long_word,
    prose_prompts,
    random_prompts,
)

TINY = Spec(weights="random", prompts=2, lengths=(5,), k=5, budget=20_000)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Record:
    place = tmp_path_factory.mktemp("certified")
    return experiment.run(TINY, jax.random.key(0), Lab(place / "work"))


def test_the_right_token_of_a_prompt_came_after_its_last_one(rng: np.random.Generator) -> None:
    for prompt in random_prompts([13, 19], 49_152, rng):
        half = (prompt.ids.size + 1) // 2
        np.testing.assert_array_equal(prompt.ids[half:], prompt.ids[: half - 1])
        assert prompt.right == prompt.ids[half - 1] and prompt.ids.min() >= 1000
    texts = [rng.integers(0, 12, 60) for _ in range(40)]
    found = prose_prompts([7, 9, 7], iter(texts), lambda i: i % 2 == 0, rng)
    assert [p.ids.size for p in found] == [7, 9, 7] and {p.kind for p in found} == {PROSE}
    for prompt in found:
        pairs = list(zip(prompt.ids[:-1].tolist(), prompt.ids[1:].tolist(), strict=True))
        assert (int(prompt.ids[-1]), prompt.right) in pairs and prompt.right % 2 == 0
    with pytest.raises(ValueError, match="texts must hold more repeated words: 0 prompts found"):
        prose_prompts([7], iter([np.arange(50)]), lambda i: True, rng)
    assert is_long_word(" unto") and not is_long_word(" the") and not is_long_word("unto")


def test_misses_by_hand() -> None:
    paths = ((), ((0, 1),), ((0, 1), (2, 0)), ((1, 1),))
    scores = np.array([[0.0, -9.0], [0.1, 5.0], [0.2, 8.0]])
    found = misses(paths, scores)  # it names 0.1, 2.1 and 1.1, and not 2.0
    assert found.heads == pytest.approx(1 / 3) and found.paths == pytest.approx(1 / 3)
    assert found.hidden.tolist() == [False, False, True, False] and found.n_heads == 3
    assert np.isnan(misses(((),), scores).heads)
    assert heads_of("mlp 3 → 5.2 → 17.1") == ["5.2", "17.1"] and heads_of("direct") == []


def test_lists_close_and_their_gaps_end_in_a_proof(tiny: Record) -> None:
    data = tiny.data
    assert data.kind.values.tolist() == [KINDS[0]] * 2 + [KINDS[1]] * 2
    assert data.complete.all() and (data.gap[:, -1] <= 1).all()
    np.testing.assert_allclose(data.order_sum.sum("order"), data.lead, atol=1e-4)
    assert float(data.closing_error.max()) < 1e-4
    np.testing.assert_allclose(data.order_found.sum("order"), data.value.sum("rank"), rtol=1e-9)
    assert (np.diff(abs(data.value), axis=1) <= 0).all()
    assert (abs(data.value[:, -1]) >= data.omitted_bound).all()
    missed = data.missed_heads.values
    assert np.nanmin(missed) >= 0 and np.nanmax(missed) <= 1


def test_orders_beyond_the_last_are_one_and_a_gap_is_that_of_its_time() -> None:
    np.testing.assert_array_equal(experiment._by_order([1, 2, 4]), [1, 2, 4, 0, 0, 0])
    np.testing.assert_array_equal(
        experiment._by_order(2.0 ** np.arange(8)), [1, 2, 4, 8, 16, 32 + 64 + 128]
    )
    # Rounds: evaluations so far, bound on all others, value of the k-th.
    rounds = ((10, 8.0, 0.0), (20, 6.0, 2.0), (40, 3.0, 4.0))
    found = SimpleNamespace(rounds=rounds)
    gap = experiment._gap(found, np.array([5, 10, 19, 20, 39, 40, 90]))
    np.testing.assert_array_equal(gap, [np.nan, np.nan, np.nan, 3, 3, 0.75, 0.75])


def test_a_random_model_settles_nothing_and_is_drawn(tiny: Record) -> None:
    assert {v.verdict for v in settle(CLAIMS, *measure(tiny))} == {NOT_RUN}
    figures = draw_all(figure.FIGURES, tiny)
    bars = [patch.get_width() for patch in figures["attribution"].axes[1].patches]
    np.testing.assert_allclose(bars, tiny.data.value[0])
    line = figures["certificate"].axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), tiny.data.gap[0])


def planted() -> Record:
    """Every list proven, with one induction head and one hidden path in each."""
    n, k = N, 20
    path = np.full((n, k), "mlp 3", dtype="U30")
    path[:, 3], path[:, 7] = "mlp 0 → 18.6", "2.1 → 5.5"
    missed = np.full((n, 3), 0.25) + np.linspace(0, 0.1, n)[:, None]
    missed[:, SCORES.index("frozen gradient")] -= 0.1
    data = xr.Dataset(
        {
            "complete": ("prompt", np.ones(n, bool)),
            "n_evaluated": ("prompt", np.linspace(2e4, 3e5, n).astype(int)),
            "closing_error": ("prompt", np.linspace(0, 1e-3, n)),
            "path": (("prompt", "rank"), path),
            "value": (("prompt", "rank"), np.full((n, k), 0.5)),
            "missed_heads": (("prompt", "score"), missed),
            "missed_paths": (("prompt", "score"), missed),
        },
        coords={"kind": ("prompt", np.repeat(KINDS, n // 2)), "score": list(SCORES)},
    )
    return Record(data=data, notes={"weights": "smollm2", "missing": "", "k": k})


def test_planted_numbers_settle_the_claims() -> None:
    record = planted()
    found = estimates(record.data)
    assert found["certified-short"].value == pytest.approx(0.95)
    assert found["certified-missed-heads"].value == pytest.approx(0.3)
    assert found["certified-frozen-misses-less"].value == pytest.approx(0.1)
    verdicts = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))}
    # All 30 of 30 prompts have such a head, which is too few to be sure of nine in ten.
    assert verdicts.pop("certified-induction") == UNDECIDED
    # Planted: the gradient with patterns held misses them too.
    for name in ("certified-missed-heads", "certified-missed-paths"):
        assert verdicts.pop(name) == WOULD_HOLD
    assert set(verdicts.values()) == {HOLDS}
    record.data.complete[:20] = False
    record.data.path[:30, 3] = "mlp 0 → 18.5"
    verdicts = {v.claim.id: v.verdict for v in settle(CLAIMS, *measure(record), nulls(record))}
    assert verdicts["certified-complete"] == FAILS and verdicts["certified-induction"] == FAILS
    assert verdicts["certified-missed-heads"] == UNDECIDED  # too few lists are proven


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lengths=\(6,\) must be odd numbers"):
        Spec(lengths=(6,))
    with pytest.raises(ValueError, match="budget=10 must be at least 1000"):
        Spec(budget=10)
