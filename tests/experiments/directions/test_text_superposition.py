"""Directions of real models: which rows are measured, and what the record says of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from tokenizers import Tokenizer

from circuitax.data.text import open_text
from circuitax.data.windows import spaced_windows
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kit.real_model import SMALL
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.projection.laws import overlap_tail
from circuitax.records.claims import FAILS, HOLDS, settle
from circuitax.records.record import Record
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.directions.text_superposition import figure, measures
from experiments.directions.text_superposition.claims import CLAIMS
from experiments.directions.text_superposition.experiment import Spec
from experiments.directions.text_superposition.features import FeatureSpec, features
from experiments.directions.text_superposition.levels import FEATURE
from experiments.directions.text_superposition.stream_vectors import (
    first_layers,
    own_text,
    random_windows,
    stream_vectors,
    text_windows,
)
from experiments.directions.text_superposition.weights import directions, own_tokenizer

ACCEPTED = Path(__file__).parents[3] / "results" / "text_superposition" / "accepted"


def test_a_spec_refuses() -> None:
    with pytest.raises(ValueError, match="weights='gpt2' must be real or random"):
        Spec(weights="gpt2")
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        Spec(draws=1)
    with pytest.raises(ValueError, match="seeds=1 must be at least 2"):
        FeatureSpec(seeds=1)
    with pytest.raises(ValueError, match=r"chunk=300 must divide optim.steps=10000"):
        FeatureSpec(chunk=300)
    with pytest.raises(ValueError, match=r"smollm2_features.seeds=4 must equal features.seeds=8"):
        Spec(smollm2_features=FeatureSpec(seeds=4))


def test_what_a_neuron_reads_has_the_norm_folded_in() -> None:
    spec = SMALL.__class__(**{**vars(SMALL), "norm": Norm.layernorm})
    model = init(jax.random.key(0), spec, jnp.zeros(()).dtype)
    norm, mlp = model.blocks.mlp_norm, model.blocks.mlp
    assert norm is not None and mlp is not None
    gain = 1 + jnp.arange(norm.gain.size, dtype=float).reshape(norm.gain.shape) / 10
    blocks = model.blocks._replace(mlp_norm=norm._replace(gain=gain))
    found = {(x.kind, x.layer): x for x in directions("m", model.replace(blocks=blocks))}
    assert set(found) == {("tokens", -1)} | {
        (kind, layer) for kind in ("read", "gate", "write") for layer in (0, 1)
    }
    wanted = (gain[1][:, None] * mlp.W_in[1]).T
    wanted = wanted - wanted.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found["read", 1].rows, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["write", 0].rows, mlp.W_out[0])
    assert found["read", 0].dim == 15 and found["write", 0].dim == found["tokens", -1].dim == 16


def test_claims_compare_a_set_with_random_ones_of_its_shape() -> None:
    record = Record.load(ACCEPTED)
    data, found = record.data, measures.measure(record).estimates
    (i,) = np.flatnonzero(data.set.values == "ours tokens")
    one = data.isel(set=i).sel(centred=True)
    ratio = (one.mean_square / one.null_mean_square).values
    assert found["ours-tokens-above-random"].value == pytest.approx(ratio.mean(), rel=1e-6)
    assert found["ours-tokens-above-random"].n == data.sizes["draw"] == 8
    law = data.law.sel(group="ours tokens", multiple=3.0).item()
    dim = int(one.dim)
    assert law == pytest.approx(float(overlap_tail(dim, 3 / np.sqrt(dim))), rel=1e-6)
    less = Record(data, record.notes | {"models": ["ours"], "missing": "make smollm2"})
    again = measures.measure(less)
    assert "smollm2-common" not in again.estimates and "make" in again.not_run["smollm2-common"]


def test_the_tail_of_tokens_is_drawn() -> None:
    record = Record.load(ACCEPTED)
    ax = figure.tails(record).axes[0]
    lines = {str(line.get_label()): line for line in ax.lines}
    above = record.data.above.sel(group="ours tokens", centred=False).values
    drawn = np.asarray(lines["tokens, as they are"].get_ydata())
    np.testing.assert_allclose(drawn[above > 0], above[above > 0], rtol=1e-6)


def planted() -> Record:
    """The accepted sets, with dictionaries of 256 features whose numbers are made up."""
    record = Record.load(ACCEPTED)
    seed, level = np.arange(8), record.data.sizes["level"]
    noise = 0.01 * (seed - 3.5)
    centred = np.array([1.6, 1.5])[None] * (1 + noise[:, None]) / 64
    each = {
        "mean_square": centred,
        "dimensionality_sum": np.array([40.0, 41.0])[None] * (1 + noise[:, None]),
        "tail": centred / 10,
    }
    null = {
        "mean_square": np.full((8, 2), 1 / 64),
        "dimensionality_sum": np.full((8, 2), 51.0),
        "tail": np.full((8, 2), 0.001),
    }
    tails = np.exp(-np.linspace(0, 8, 33))[None, None] * (1 + noise[:, None, None])
    of_model = {
        **{k: (("seed", "centred"), v) for k, v in each.items()},
        **{f"null_{k}": (("seed", "centred"), v) for k, v in null.items()},
        "above": (("seed", "centred", "multiple"), np.repeat(tails, 2, axis=1)),
        "dimensionality": (("seed", "centred", "level"), np.ones((8, 2, level))),
        "agreement": ("seed", 0.8 + noise),
        "null_agreement": ("seed", np.full(8, 0.4)),
        "error": ("seed", 0.2 + noise),
        "components_error": ((), 0.5),
        "dead": ("seed", 0.02 + noise / 10),
        "welch": ("seed", np.full(8, 0.108)),
    }
    arrays = {f"{stem}_{k}": x for stem in FEATURE.values() for k, x in of_model.items()}
    # Those of SmolLM2 overlap twice as much, and use half of the dimensions.
    for measured, factor in (("mean_square", 2), ("dimensionality_sum", 0.5)):
        axes, values = arrays[f"smollm2_feature_{measured}"]
        arrays[f"smollm2_feature_{measured}"] = (axes, factor * np.asarray(values))
    data = record.data.assign(arrays).assign_coords(seed=seed)
    about = {"dim": 64, "width": 256, "active": 8, "seeds": 8, "measured_on": 1000}
    return Record(data, record.notes | {f"{stem}s": about for stem in FEATURE.values()})


def verdicts(record: Record) -> dict[str, str]:
    settled = settle(CLAIMS, *measures.measure(record), measures.nulls(record))
    return {v.claim.id: v.verdict for v in settled if "features-" in v.claim.id}


def test_planted_features_settle_their_claims() -> None:
    record = planted()
    found = measures.measure(record).estimates
    assert found["features-above-random"].value == pytest.approx(1.5)
    assert found["features-error"].value == pytest.approx(0.4)
    assert found["features-agree"].value == pytest.approx(0.4) and found["features-agree"].n == 8
    assert found["features-dims"].value == pytest.approx(40 / 51)
    assert found["smollm2-features-above-random"].value == pytest.approx(3)
    assert found["smollm2-features-dims"].value == pytest.approx(20 / 51)
    assert found["smollm2-features-tail"].value == pytest.approx(1.5 / 64 / 10 / 0.001)
    assert found["smollm2-features-welch"].value == pytest.approx(
        2 * 1.5 * (1 - 0.035) / 64 / 0.108**2
    )
    assert set(verdicts(record).values()) == {HOLDS}
    lost = record.data.feature_error.values.copy()
    lost[2] = np.nan  # diverged
    data = record.data.assign(feature_error=("seed", lost))
    worse: xr.Dataset = data.assign(feature_dead=("seed", np.full(8, 0.5)))
    again = Record(worse, record.notes)
    assert measures.measure(again).estimates["features-above-random"].n == 7
    nine = worse.assign(feature_error=("seed", record.data.feature_error.values))
    assert verdicts(Record(nine, record.notes))["features-dead"] == FAILS
    alike = record.data.smollm2_feature_null_mean_square.copy(data=np.full((8, 2), 3 / 64))
    random = Record(record.data.assign(smollm2_feature_null_mean_square=alike), record.notes)
    failed = {name for name, verdict in verdicts(random).items() if verdict == FAILS}
    assert failed == {"smollm2-features-above-random"}


def test_a_record_without_features_of_smollm2_says_so() -> None:
    record = planted()
    notes = {k: v for k, v in record.notes.items() if k != "smollm2_features"}
    found = measures.measure(Record(record.data, notes))
    assert "features-tail" in found.estimates
    assert found.not_run["smollm2-features-tail"] == "no features of SmolLM2 in this run"
    nothing = measures.measure(Record(record.data, notes | {"missing": "make smollm2"}))
    assert "make smollm2" in nothing.not_run["smollm2-features-tail"]


def test_features_are_drawn_beside_tokens() -> None:
    record = planted()
    drawn = figure.features(record)
    for name, left, middle in zip(FEATURE, drawn.axes[::3], drawn.axes[1::3], strict=True):
        lines = {str(line.get_label()): line for line in left.lines}
        above = record.data[f"{FEATURE[name]}_above"].sel(centred=False).mean("seed").values
        np.testing.assert_allclose(
            np.asarray(lines["features, as they are"].get_ydata())[:20], above[:20], rtol=1e-6
        )
        tokens = record.data.above.sel(group=f"{name} tokens", centred=True).values
        shown = np.asarray(lines["tokens, centred"].get_ydata())
        np.testing.assert_allclose(shown[tokens > 0], tokens[tokens > 0], rtol=1e-6)
        assert [text.get_text() for text in middle.get_xticklabels()][-1] == "features"
    said = drawn.get_supxlabel()
    assert "our text model: 8 autoencoders of 256 latents in 64 dimensions, 2 % dead" in said
    assert "SmolLM2-135M: 8 autoencoders" in said and "leave 0.40 of the error" in said
    assert said.count("another autoencoder 0.80 (mean), of random directions 0.40") == 2
    message = drawn.get_suptitle().replace("\n", " ")
    assert "1.50 times the interference of random directions, and 0.80 of their dim" in message
    assert message.endswith("those of SmolLM2-135M 3.00 and 0.40")


def planted_stream(n_tokens: int, n_long: int) -> Model:
    """A model whose layers write nothing before its middle, where the stream is the embedding."""
    spec = SMALL.replace(d_vocab=n_tokens, n_layers=4, norm=Norm.none)
    model = init(jax.random.key(1), spec, jnp.zeros(()).dtype)
    rows = jax.random.normal(jax.random.key(2), model.W_E.shape, float)
    rows = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
    quiet = jnp.array([0.0, 0.0, 1.0, 1.0])[:, None, None]
    blocks, mlp = model.blocks, model.blocks.mlp
    assert mlp is not None
    attention = blocks.attention._replace(W_O=blocks.attention.W_O * quiet[..., None])
    blocks = blocks._replace(attention=attention, mlp=mlp._replace(W_out=mlp.W_out * quiet))
    return model.replace(W_E=rows.at[:n_long].multiply(100.0), blocks=blocks)


def test_vectors_are_of_the_middle_and_none_is_far_longer_than_others(tmp_path: Path) -> None:
    model = planted_stream(30, 2)
    windows = random_windows(model, 512, jax.random.key(3))
    found = stream_vectors(Lab(tmp_path), "streams", model, windows, 2)
    apart = np.arange(len(windows)) % 4 == 0
    assert found.left_out == int((windows < 2).sum()) > 0
    rows = np.asarray(model.W_E)[windows[~apart][windows[~apart] >= 2]]
    wanted = rows - rows.mean(axis=0)
    wanted = wanted / np.sqrt((wanted**2).sum(axis=1).mean())
    np.testing.assert_allclose(found.seen, wanted, rtol=1e-4, atol=1e-5)
    assert len(found.held) == int((windows[apart] >= 2).sum())


def test_what_enters_a_layer_ends_the_layers_before_it() -> None:
    model = init(jax.random.key(1), SMALL.replace(n_layers=6), jnp.zeros(()).dtype)
    text = jnp.arange(9)
    streams = forward(model, text)[1].streams
    for layer in (0, 3, 6):
        np.testing.assert_allclose(
            forward(first_layers(model, layer), text)[1].streams[-1], streams[layer], rtol=1e-6
        )


def test_features_of_a_crafted_model_are_its_tokens(tmp_path: Path) -> None:
    """One feature at a time suffices where every vector is one of 30, with one in its place."""
    optim = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=400)
    spec = FeatureSpec(1024, expansion=4, active=1, seeds=2, batch=64, optim=optim, chunk=200)
    model, key = planted_stream(32, 2), jax.random.key(4)
    arrays, about = features(Lab(tmp_path), spec, "smollm2", model, key, True)
    error, of_component = arrays["error"][1], arrays["components_error"][1]
    assert (error < 0.2).all() and of_component > 0.7
    assert (arrays["agreement"][1] > arrays["null_agreement"][1] + 0.1).all()
    assert (arrays["live"][1] <= 64).all() and arrays["live"][0] == ("seed",)
    assert about["layer"] == 2 and about["left_out"] > 0 and about["width"] == 64


def test_smollm2_reads_held_out_python_in_its_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Tokenizer.from_file(str(own_tokenizer()))
    tokenizers = {"smollm2": ours}
    place = "experiments.directions.text_superposition.stream_vectors.load_tokenizer"
    monkeypatch.setattr(place, tokenizers.__getitem__)
    spec = SMALL.replace(d_vocab=ours.get_vocab_size(), n_ctx=8192)
    windows = text_windows("smollm2", init(jax.random.key(0), spec), 1024)
    assert windows.shape == (8, 128)
    held_out = open_text(own_text()).tokens.validation
    np.testing.assert_array_equal(windows, spaced_windows(held_out, 8, 128))
