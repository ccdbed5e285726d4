"""Models that others trained: their data and files, and a whole run on small ones of ours."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import save_file

from circuitax.figures.spec import draw_all
from circuitax.lab.lab import Lab
from circuitax.records.claims import NOT_RUN, settle
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from experiments.real_models.foreign_models import (
    experiment,
    figure,
    measures,
    nulls,
    palindrome,
    tasks,
)
from experiments.real_models.foreign_models.claims import CLAIMS
from experiments.real_models.foreign_models.experiment import Spec
from experiments.real_models.foreign_models.measures import measure, share_of_texts
from experiments.real_models.foreign_models.opening import open_model
from experiments.real_models.foreign_models.sources import MODELS, SIZES
from experiments.real_models.foreign_models.torch_draws import TorchDraws

LENGTHS = {"palindrome": 22, "unique": 20, "sign": 20, "bracket": 42, "copies": 85}
CLASSES = {"palindrome": 2, "sign": 3, "bracket": 2}
MLPS = {"sign": 8, "bracket": 6}
NORMED = ("palindrome", "unique", "bracket")
ACCEPTED = Path(__file__).parents[3] / "results" / "foreign_models" / "accepted"


def save_small(folder: Path, task: str, d_model: int = 8, d_head: int = 4) -> None:
    """A random model of the task's shape, as TransformerLens names its tensors."""
    sizes, draws = SIZES[task], np.random.default_rng(len(task))
    n_heads, d_mlp, n_ctx = sizes["n_heads"], MLPS.get(task), LENGTHS[task]
    n_out = CLASSES.get(task, sizes["d_vocab"])
    shapes: dict[str, tuple[int, ...]] = {
        "embed.W_E": (sizes["d_vocab"], d_model),
        "pos_embed.W_pos": (n_ctx, d_model),
        "unembed.W_U": (d_model, n_out),
        "unembed.b_U": (n_out,),
    }
    if task in NORMED:
        shapes |= {"ln_final.w": (d_model,), "ln_final.b": (d_model,)}
    for layer in range(sizes["n_layers"]):
        here = {f"attn.W_{n}": (n_heads, d_model, d_head) for n in "QKV"}
        here |= {f"attn.b_{n}": (n_heads, d_head) for n in "QKV"}
        here |= {"attn.W_O": (n_heads, d_head, d_model), "attn.b_O": (d_model,)}
        if task in NORMED:
            here |= {"ln1.w": (d_model,), "ln1.b": (d_model,)}
        if d_mlp:
            here |= {"mlp.W_in": (d_model, d_mlp), "mlp.b_in": (d_mlp,)}
            here |= {"mlp.W_out": (d_mlp, d_model), "mlp.b_out": (d_model,)}
            here |= {"ln2.w": (d_model,), "ln2.b": (d_model,)} if task in NORMED else {}
        shapes |= {f"blocks.{layer}.{name}": shape for name, shape in here.items()}
    state = {name: draws.normal(0, 0.6, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(state, folder / f"{MODELS[task]}.safetensors")
    config = {
        **{k: v for k, v in sizes.items() if k not in ("d_model", "d_head")},
        "d_model": d_model,
        "d_head": d_head,
        "d_mlp": d_mlp,
        "n_ctx": n_ctx,
        "act_fn": "relu",
        "attn_only": d_mlp is None,
        "normalization": "LN" if task in NORMED else None,
    }
    if task in CLASSES:
        config["d_vocab_out"] = n_out
    if task == "bracket":
        config["attention_dir"] = "bidirectional"
        strings = ["(" * 4, "())(", "()))", "()", ")(", "(()())", ")))(((", "())(()", "(())"]
        rows = [tasks.brackets(s) for s in strings * 2]
        tokens = np.full((len(rows), n_ctx), tasks.PAD)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = row
        labels = np.array([_is_balanced(row) for row in tokens], int)
        np.savez(folder / experiment.STRINGS, dataset_tokens=tokens, dataset_labels=labels)
    (folder / f"{MODELS[task]}.json").write_text(json.dumps(config))


def _is_balanced(row: np.ndarray) -> bool:
    height = 0
    for token in row:
        height += int(token == tasks.OPEN) - int(token == tasks.CLOSE)
        if height < 0:
            return False
    return height == 0


def recorded(tmp_path: Path, source: str, texts: int = 16) -> tuple[Record, Measured]:
    with jax.enable_x64(True):
        record = experiment.run(
            Spec(source=source, texts=texts), jax.random.key(0), Lab(tmp_path / "work")
        )
    record.save(tmp_path / "run")
    saved = Record.load(tmp_path / "run")
    return saved, measure(saved)


def test_without_weights_no_claim_is_settled_and_each_names_its_file(tmp_path: Path) -> None:
    record, found = recorded(tmp_path, "")
    verdicts = settle(CLAIMS, *found)
    assert len(verdicts) >= 40 and {v.verdict for v in verdicts} == {NOT_RUN}
    assert all("safetensors" in v.reason and "source=FOLDER" in v.reason for v in verdicts)
    drawn = draw_all(figure.FIGURES, record)
    assert "No weights were given" in drawn["agreement"].axes[0].texts[0].get_text()


@pytest.mark.slow
def test_small_models_of_the_same_format_run_through_but_settle_nothing(tmp_path: Path) -> None:
    for task in MODELS:
        save_small(tmp_path, task)
    record, found = recorded(tmp_path, str(tmp_path))
    assert set(found.estimates) == {claim.quantity for claim in CLAIMS}
    for task in MODELS:
        assert found.estimates[f"{task}-closes"].value < 1e-12, "paths or parts sum to the logits"
    # The mistakes are seen in any model: another norm scale, a value bias, centring without a norm.
    assert found.estimates["unique-misses-all"].value > 1e-2
    unfolded = record.data["palindrome-zero-unfolded"].values
    assert np.abs(unfolded - record.data["palindrome-zero-ablation"].values).max() > 1e-3
    assert found.estimates["sign-moved"].value > 1e-2
    verdicts = settle(CLAIMS, *found)
    assert {v.verdict for v in verdicts} == {NOT_RUN}
    assert all("it is not the published one" in v.reason for v in verdicts)
    drawn = draw_all(figure.FIGURES, record)
    assert set(drawn) == {"agreement", "mistakes"}
    left = drawn["mistakes"].axes[0]
    assert left.get_xscale() == "log" and len(left.patches) == 2 * 72


def test_one_model_alone_is_read(tmp_path: Path) -> None:
    save_small(tmp_path, "sign")
    record, found = recorded(tmp_path, str(tmp_path))
    assert set(record.notes["models"]) == {"sign"}
    assert all(name.startswith("sign-") for name in found.estimates)
    assert "arena_brackets.npz" in found.not_run["bracket-wrong"]


def test_shares_of_fresh_texts_have_an_interval_and_given_texts_none() -> None:
    p, n, z = 0.99222, 5000, 1.959963984540054
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    found = share_of_texts(p, n)
    assert found.value == p and found.n == n
    # Counts are whole: p is that of 4,961.1 texts.
    assert found.low == pytest.approx((middle - half) / (1 + z**2 / n), abs=5e-5)
    assert found.high == pytest.approx((middle + half) / (1 + z**2 / n), abs=5e-5)
    measured = measure(Record.load(ACCEPTED)).estimates
    sighted = measured["palindrome-sighted"]
    assert sighted.low < sighted.value and sighted.n == 1000
    # Accuracies are of the publisher's own validation sets.
    for name in ("palindrome-accuracy", "unique-accuracy", "copies-accuracy", "unique-loss"):
        assert measured[name].method == "exact"


def test_what_is_no_folder_of_models_is_refused(tmp_path: Path) -> None:
    for source in (__file__, str(tmp_path), str(tmp_path / "typo")):
        with pytest.raises(ValueError, match="must be a folder with at least one of arena_july"):
            Spec(source=source)
    with pytest.raises(ValueError, match="texts=4"):
        Spec(texts=4)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    save_small(tmp_path, "sign")
    settings = tmp_path / "arena_november_cumsum.json"
    config = json.loads(settings.read_text())
    settings.write_text(json.dumps(config | {"n_heads": 2}))
    with pytest.raises(ValueError, match=r"arena_november_cumsum in .*W_Q"):
        recorded(tmp_path, str(tmp_path))
    settings.write_text("{")
    with pytest.raises(ValueError, match=r"arena_november_cumsum.json must hold the model's"):
        recorded(tmp_path, str(tmp_path))
    settings.write_text(json.dumps(config))
    (tmp_path / "arena_november_cumsum.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="must be a safetensors file"):
        recorded(tmp_path, str(tmp_path))


def test_a_model_of_another_task_is_refused(tmp_path: Path) -> None:
    save_small(tmp_path, "sign")
    for end in ("json", "safetensors"):
        old = tmp_path / f"{MODELS['sign']}.{end}"
        old.rename(tmp_path / f"{MODELS['copies']}.{end}")
    with pytest.raises(ValueError, match="nanda_induction_infinite has n_layers=1, must be 2"):
        recorded(tmp_path, str(tmp_path))


def test_torch_draws_are_those_of_a_mersenne_twister() -> None:
    # Words of MT19937 started from 5489, as the C++ standard gives the ten-thousandth.
    draws = TorchDraws(5489)
    assert draws.integers(0, 2**32, (10_000,))[-1] == 4123659995
    permutation = TorchDraws(1).permutation(50)
    assert sorted(permutation) == list(range(50)) and list(permutation) != list(range(50))
    uniforms = TorchDraws(2).uniforms((1000,))
    assert uniforms.min() >= 0 and uniforms.max() < 1 and abs(uniforms.mean() - 0.5) < 0.05


def test_labels_are_right() -> None:
    tokens, labels = tasks.palindromes(60, 42)
    assert [list(row[1:-1]) == list(row[1:-1])[::-1] for row in tokens] == list(labels == 1)
    whole, broken = tasks.broken_palindromes(60, 42)
    np.testing.assert_array_equal(whole, whole[:, [0, *range(20, 0, -1), 21]])
    np.testing.assert_array_equal(whole[:, 11:], broken[:, 11:])
    assert (whole[:, 1:11] != broken[:, 1:11]).all() and broken[:, 1:11].max() <= 30
    assert (whole == tasks.palindromes(60, 42).tokens)[:, 11:].all()
    tokens, labels = tasks.first_unique(20, 42)
    for row, label in zip(tokens[:, :9].tolist(), labels[:, 8], strict=True):
        once = [letter for letter in row[1:9] if row[1:9].count(letter) == 1]
        assert label == (once[0] if once else tasks.NONE)
    tokens, labels = tasks.running_signs(20, 42)
    assert (labels[:, 7] == 1 + np.sign((tokens[:, :8] - 5).sum(axis=1))).all()
    batch = tasks.one_batch(0, 8)
    for row, starts, marked in zip(batch.tokens, batch.starts, batch.marked, strict=True):
        copies = [list(row[s : s + tasks.COPY]) for s in starts]
        assert copies[0] == copies[1] == copies[2] and marked.sum() == 30
    assert _is_balanced(tasks.brackets("(()())")) and not _is_balanced(tasks.tower(6))


def test_nulls_of_heads_and_norms_are_those_of_random_ones() -> None:
    drawn = nulls.random({"copies-others": 1, "bracket-fit": 2000})
    # One pair scores 1/√48 on average; the largest of twelve pairs lies above it.
    assert 48**-0.5 < np.min(drawn["copies-others"]) < np.max(drawn["copies-others"]) < 0.25
    # E[|x|]² / d of d = 55 free directions is 1 - 1/(2 d) to first order.
    np.testing.assert_allclose(np.mean(drawn["bracket-fit"]), 1 - 1 / 110, atol=1e-3)
    assert drawn.keys() == {"copies-others", "bracket-fit"}


def test_in_the_false_world_the_corrections_find_nothing() -> None:
    towers = np.linspace(0.1, 0.99, len(tasks.TOWERS))
    data = xr.Dataset(
        {
            "unique-miss-of-each": ("a", [3.0, 4.0]),
            "unique-remainder-of-each": ("a", [1e-14, 2e-14]),
            "copies-previous": ("b", [0.8, 0.1]),
            "copies-previous-others": 0.1,
            "bracket-each-tower": ("c", towers),
        }
    )
    false = nulls.false_world(data)
    np.testing.assert_array_equal(false["unique-miss-of-each"], [1e-14, 2e-14])
    assert float(false["copies-previous-others"]) == 0.8
    np.testing.assert_array_equal(false["bracket-each-tower"], towers)
    assert [
        sorted(drawn["bracket-each-tower"].values)
        for drawn, _ in zip(nulls.permuted(data), range(2), strict=False)
    ] == [sorted(towers)] * 2


def _palindromes(rng: np.random.Generator, effect: float) -> xr.Dataset:
    """Readings of 400 texts, half of them palindromes, in which broken pairs are seen or not."""
    broken = rng.random((400, 8)) < 0.3
    is_one = np.arange(400) < 200
    paths = rng.normal(0, 1, (400, 3))
    paths[:, 1] += effect * ~is_one
    return xr.Dataset(
        {
            "palindrome-called-so": ("a", np.linspace(0, 1, 10)),
            "palindrome-zero-unfolded": ("b", np.zeros(4)),
            "palindrome-read": (
                ("text", "pair"),
                rng.uniform(0.1, 0.2, (400, 8)) * (1 + effect * broken),
            ),
            "palindrome-broken": (("text", "pair"), broken),
            "palindrome-is-one": ("text", is_one),
            "palindrome-paths": (("text", "path"), paths),
        },
        {"path": ["0.0", "0.0 → 1.0", "1.0"]},
    )


def test_shuffled_pairs_and_texts_lose_what_their_labels_tell() -> None:
    of = measures.DERIVED["palindrome"]
    for effect, looks, path in ((3.0, 4.0, 3.0), (0.0, 1.0, 0.0)):
        data = _palindromes(np.random.default_rng(0), effect)
        found = of(data)
        # The least of seven positions, by noise.
        assert looks * 0.88 < found["palindrome-looks"] < looks * 1.01
        # Without an effect the largest of the others is above its own by noise.
        assert found["palindrome-path"] == pytest.approx(path, abs=0.4)
        drawn = [of(one) for one, _ in zip(nulls.permuted(data), range(40), strict=False)]
        assert max(one["palindrome-looks"] for one in drawn) < 1.3
        assert max(one["palindrome-path"] for one in drawn) < 0.6
    assert len({one["palindrome-looks"] for one in drawn}) == 40


def test_a_position_without_a_look_and_a_path_that_speaks_of_palindromes_do_not_pass() -> None:
    of, data = measures.DERIVED["palindrome"], _palindromes(np.random.default_rng(0), 3.0)
    read, paths = data["palindrome-read"].copy(), data["palindrome-paths"].copy()
    read[:, 2] = 0.15
    assert of(data.assign({"palindrome-read": read}))["palindrome-looks"] == pytest.approx(1)
    paths[:, 1] -= 3
    assert of(data.assign({"palindrome-paths": paths}))["palindrome-path"] < 0.2


def test_shuffled_failures_make_heads_alike() -> None:
    rng = np.random.default_rng(0)
    failure = rng.integers(-1, 4, 600).astype(np.int8)
    # What balanced strings add is no reaction to a failure.
    added = rng.normal([4, -4], 1, (600, 2))
    added[failure == 1, 0] += 5
    added[failure == 2, 1] += 5
    data = xr.Dataset(
        {
            "bracket-each-tower": ("tower", np.ones(len(tasks.TOWERS))),
            "bracket-last-heads": (("string", "head"), added),
            "bracket-failure": ("string", failure),
        }
    )
    assert measures.DERIVED["bracket"](data)["bracket-roles"] == pytest.approx(5, abs=0.4)
    # A head that reacts to both failures alike tells none from the other.
    alike = added.copy()
    alike[failure == 2, 0] += 5
    alike[failure == 2, 1] += 5
    both = data.assign({"bracket-last-heads": (("string", "head"), alike)})
    assert measures.DERIVED["bracket"](both)["bracket-roles"] == pytest.approx(0, abs=0.4)
    for drawn, _ in zip(nulls.permuted(data), range(40), strict=False):
        kinds = drawn["bracket-failure"].values
        np.testing.assert_array_equal(kinds[failure <= 0], failure[failure <= 0])
        np.testing.assert_array_equal(np.bincount(kinds + 1), np.bincount(failure + 1))
        assert measures.DERIVED["bracket"](drawn)["bracket-roles"] < 1


def test_a_head_at_its_start_is_less_even_than_is_allowed() -> None:
    uneven = nulls.random({"sign-uneven": 1})["sign-uneven"]
    # The first two tokens alone: scores of spread s make σ(s_1 - s_0) - 1/2 of about √2 s / 4.
    assert 1e-3 < np.min(uneven) < np.median(uneven) < 0.05


def test_texts_count_by_where_they_are_broken() -> None:
    whole = tasks.broken_palindromes(6, 0)[0]
    places = ((), (17,), (17, 19), (19,), (17, 12), (12,))
    for row, broken in zip(whole, places, strict=True):
        row[list(broken)] = (row[list(broken)] + 1) % 31
    wrong = np.array([True, True, True, False, True, False])
    # A palindrome called none is broken nowhere, and no text of the kind.
    np.testing.assert_array_equal(palindrome._by_kind(whole, wrong), [2, 2, 1])


def test_mean_values_are_the_mean_of_what_a_head_adds(tmp_path: Path) -> None:
    save_small(tmp_path, "palindrome")
    with jax.enable_x64(True):
        model = open_model(tmp_path, MODELS["palindrome"])
        assert model is not None
        one = tasks.palindromes(8, 1)
        same = np.repeat(one.tokens[:1], 3, axis=0)
        kept = palindrome._losses_without(model, same, np.repeat(one.labels[:1], 3))
        logits = jnp.asarray(palindrome.forward(model, same[0])[0][palindrome.LAST])
        loss = -jax.nn.log_softmax(logits)[one.labels[0]]
        # Of one text alone the means are its own, so that nothing changes.
        np.testing.assert_allclose(kept, np.full(4, float(loss)), atol=1e-12)
        moved = palindrome._losses_without(model, *one)
        assert len(set(np.round(moved, 6))) == 4
