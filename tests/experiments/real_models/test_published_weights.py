"""Published weights: what is missing is said, and what is at hand is measured."""

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, WordLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

import circuitax as cx
from circuitax.circuits.known import induction_model, skip_trigram_model
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.lens_format import spec_from_config
from circuitax.models.pretrained import save_pretrained
from circuitax.records.claims import FAILS, HOLDS, NOT_RUN, settle
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from experiments.real_models.published_weights import claims
from experiments.real_models.published_weights import experiment as published_weights
from experiments.real_models.published_weights.claims import CLAIMS
from experiments.real_models.published_weights.experiment import Spec, sizes
from experiments.real_models.published_weights.measures import (
    REMOVALS,
    measure,
    nulls,
    unpublished,
)
from experiments.real_models.published_weights.sources import SETTINGS

V, N = 12, 13
NOWHERE = {"source": "", "one_layer": ""}


def measured(tmp_path: Path, **fields: object) -> Measured:
    """What the saved record of a run settles."""
    spec = Spec(**NOWHERE | {"previous": 0, "inducers": (0,)} | fields)
    record = published_weights.run(spec, jax.random.key(3), Lab(tmp_path / "work"))
    record.save(tmp_path / "run")
    return measure(Record.load(tmp_path / "run"))


@pytest.fixture(scope="module")
def induction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-made model, saved as TransformerLens saves: its score scale goes into W_Q."""
    model = induction_model(jax.random.key(0), V, N)
    heads = model.blocks.attention
    scaled = heads._replace(W_Q=heads.W_Q * jnp.sqrt(model.d_head))
    folder = tmp_path_factory.mktemp("models") / "induction"
    save_pretrained(
        model.replace(
            blocks=model.blocks._replace(attention=scaled),
            spec=model.spec.replace(score_scale=None),
        ),
        folder,
    )
    return folder


def save_one_layer(model: Model, folder: Path) -> None:
    """Saved with shortformer vectors of 0, and the score scale of TransformerLens."""
    spec = model.spec.replace(n_ctx=4, positions=Positions.shortformer, score_scale=None)
    save_pretrained(model.replace(W_pos=jnp.zeros((4, model.d_model)), spec=spec), folder)


def test_without_weights_no_claim_was_run_and_each_has_a_command(tmp_path: Path) -> None:
    found = measured(tmp_path)
    verdicts = settle(CLAIMS, *found)
    assert {verdict.verdict for verdict in verdicts} == {NOT_RUN}
    for verdict in verdicts:
        if verdict.claim not in claims.NEVER:
            assert "hf download" in verdict.reason
            assert "python -m experiments.run experiment=published_weights" in verdict.reason


def test_a_known_induction_model_is_read_from_its_folder(induction: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.npy"
    block = np.random.default_rng(0).permuted(np.tile(np.arange(1, V), (3, 1)), axis=1)[:, :6]
    np.save(tokens, np.concatenate([np.zeros((3, 1), int), block, block], axis=1))
    found = measured(tmp_path, source=str(induction), tokens=str(tokens))
    value = {name: estimate.value for name, estimate in found.estimates.items()}
    assert value["arena-previous"] == 0
    assert value["arena-induction"] == 0, "no other head induces"
    assert value["arena-copying-top-1"] == 1 == value["arena-both-top-5"]
    assert value["arena-induction-score"] > 0.9
    assert value["arena-without-previous"] < 0.2
    assert value["arena-without-others"] > 0.9
    assert value["arena-k-composition"] == 1
    assert value["arena-v-composition"] < 0.5
    assert value["published-corner"] > 0.3
    assert value["published-order-1"] > 0 and abs(value["published-order-2"]) < 0.1
    assert value["published-layer-1"] > value["published-layer-0"]
    assert value["published-text-induction"] > 0.5
    # Nothing is settled by a model that is not the published one, whatever it scores.
    verdicts = settle(CLAIMS, *found)
    assert {verdict.verdict for verdict in verdicts} == {NOT_RUN}
    reasons = {v.claim.id: v.reason for v in verdicts}
    assert "the model at hand has 2 layers, 4 heads of 13" in reasons["arena-previous"]


def test_removals_need_something_to_remove(induction: Path, tmp_path: Path) -> None:
    found = measured(tmp_path, source=str(induction), inducers=(1,))
    assert not REMOVALS & set(found.estimates)
    assert set(found.not_run) >= REMOVALS
    assert found.estimates["arena-induction"].value == 2, "one missing, one not expected"


def test_named_skip_trigrams_and_their_bugs(tmp_path: Path) -> None:
    words = ["<|endoftext|>", " keep", " in", " at", " mind", " bay", " back", " and", " forth"]
    words += [f"other {i}" for i in range(12)]
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="<|endoftext|>"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    scores, raises = np.zeros((2, len(ids), len(ids)), np.float32)
    for source, dest, out in (
        (" keep", " in", " mind"),
        (" keep", " at", " bay"),
        (" back", " and", " forth"),
    ):
        scores[ids[dest], ids[source]] = 5
        raises[ids[source], ids[out]] = 3
    model = skip_trigram_model(jnp.asarray(scores), jnp.asarray(raises), jnp.zeros((21, 21)))
    save_one_layer(model, tmp_path / "one")
    assert model.d_value == 21
    found = measured(
        tmp_path, one_layer=str(tmp_path / "one"), tokenizer=str(tmp_path / "tokenizer.json")
    )
    assert found.estimates["published-skip-trigrams"].value == 1
    assert found.estimates["published-bug"].value == 1, "bilinear: both bugs are forced"
    assert found.estimates["published-most-copy"].value == 0
    assert found.estimates["published-copying-pattern"].value < 0.1


def test_words_that_are_no_tokens_settle_nothing(tmp_path: Path) -> None:
    words = {"<|endoftext|>": 0, " keep": 1, " in": 2}
    Tokenizer(WordLevel(words, unk_token="<|endoftext|>")).save(str(tmp_path / "words.json"))
    save_one_layer(skip_trigram_model(*jnp.zeros((3, 3, 3))), tmp_path / "one")
    found = measured(
        tmp_path, one_layer=str(tmp_path / "one"), tokenizer=str(tmp_path / "words.json")
    )
    assert {found.not_run[claim.id] for claim in claims.WORDS} == {
        "the named words are not whole tokens of this tokenizer"
    }


def test_a_model_that_copies_has_the_copying_pattern(tmp_path: Path) -> None:
    n = 12
    scores = jnp.full((n, n), 1.0) - 0.5 * jnp.eye(n, k=1)  # some sources preferred
    model = skip_trigram_model(scores, 3 * jnp.eye(n), jnp.zeros((n, n)))
    save_one_layer(model, tmp_path / "one")
    found = measured(tmp_path, one_layer=str(tmp_path / "one"))
    assert found.estimates["published-copying-pattern"].value > 0.9
    assert found.estimates["published-most-copy"].value == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": 0}, "texts=0"),
        ({"period": 0}, "period=0"),
        ({"inducers": ()}, r"inducers=\(\) must name a head"),
        ({"previous": -1}, "previous=-1"),
        ({"inducers": (4, -1)}, r"inducers=\(4, -1\)"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**change)


def test_models_that_do_not_fit_leave_the_others_their_claims(
    induction: Path, tmp_path: Path
) -> None:
    model = skip_trigram_model(jnp.ones((9, 9)), 3 * jnp.eye(9), jnp.zeros((9, 9)))
    save_one_layer(model, tmp_path / "one")
    found = measured(tmp_path, source=str(induction), previous=7, one_layer=str(tmp_path / "one"))
    assert "has 4 heads, none 7" in found.not_run["arena-previous"]
    assert "previous=" in found.not_run["published-order-1"]
    assert "published-most-copy" in found.estimates, "the other model is still read"
    found = measured(tmp_path / "two", one_layer=str(induction))
    assert "has 2 layers, must have 1" in found.not_run["published-most-copy"]
    assert "has 2 layers, must have 1" in found.not_run["published-bug"]
    found = measured(tmp_path / "three", source=str(tmp_path / "one"))
    assert "has 1 layers, must have 2" in found.not_run["arena-previous"]


def neox_tokenizer(file: Path) -> None:
    """A byte-level tokenizer whose text starts with <|BOS|>; it has no <|endoftext|>."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = [" keep in mind", " keep at bay", " back and forth"] * 20
    trainer = BpeTrainer(
        vocab_size=300,
        special_tokens=["<|EOS|>", "<|BOS|>", "<|PAD|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.post_processor = TemplateProcessing("<|BOS|> $A", special_tokens=[("<|BOS|>", 1)])
    tokenizer.save(str(file))


@pytest.mark.parametrize("norm", [Norm.layernorm, Norm.none])
def test_an_8_head_shortformer_model_and_a_neox_tokenizer_in_one_run(
    tmp_path: Path, norm: Norm
) -> None:
    """What the published models of other authors look like; all of it in one run."""
    neox_tokenizer(tmp_path / "neox.json")
    small = {"d_vocab": 300, "n_ctx": 24, "n_heads": 8, "d_model": 16, "biases": True}
    spec = TransformerSpec(**small, n_layers=2, positions=Positions.shortformer, norm=norm)
    cx.save_pretrained(cx.init(jax.random.key(0), spec), tmp_path / "two")
    cx.save_pretrained(cx.init(jax.random.key(1), spec.replace(n_layers=1)), tmp_path / "one")
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(0, 300, (3, 24)))
    found = measured(
        tmp_path,
        source=str(tmp_path / "two"),
        one_layer=str(tmp_path / "one"),
        tokenizer=str(tmp_path / "neox.json"),
        tokens=str(tmp_path / "tokens.npy"),
        previous=7,
        inducers=(4, 6),
        texts=2,
        period=6,
    )
    for name in ("arena-previous", "published-order-2", "published-most-copy"):
        assert np.isfinite(found.estimates[name].value), name
    assert found.estimates["published-skip-trigrams"].n >= 1, "whole words of that tokenizer"
    assert set(found.not_run) | set(found.unmet) == {claim.id for claim in CLAIMS}
    # Heads that it lacks are named, and nothing else is lost.
    found = measured(tmp_path / "again", source=str(tmp_path / "two"), previous=7, inducers=(10,))
    assert "has 8 heads, none 10" in found.not_run["arena-induction"]


@pytest.mark.parametrize("field", ["source", "one_layer"])
def test_a_name_without_a_model_is_refused(field: str, tmp_path: Path) -> None:
    for place in (__file__, str(tmp_path), str(tmp_path / "typo"), "nobody/typo"):
        with pytest.raises(ValueError, match=field):
            Spec(**{field: place})


def test_files_that_are_none_are_refused(induction: Path, tmp_path: Path) -> None:
    for name in ("tokenizer", "tokens"):
        with pytest.raises(ValueError, match=f"{name}=.* there is no"):
            Spec(**{name: str(tmp_path)})
    (tmp_path / "text.npy").write_text("words")
    with pytest.raises(ValueError, match=r"tokens=.*text.npy' must be a .npy file"):
        measured(tmp_path, source=str(induction), tokens=str(tmp_path / "text.npy"))


def test_tokens_that_do_not_fit_the_model_are_refused(induction: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "long.npy", np.zeros((2, N + 1), int))
    with pytest.raises(ValueError, match=r"tokens='long.npy' has shape \(2, 14\)"):
        measured(tmp_path / "again", source=str(induction), tokens=str(tmp_path / "long.npy"))


def test_models_of_the_published_sizes_settle_their_claims() -> None:
    arena = TransformerSpec(d_vocab=50_278, n_ctx=2048, n_layers=2, n_heads=12, d_model=768)
    assert unpublished(claims.TWO_LAYERS, sizes(arena), 2) == {}
    assert len(unpublished(claims.ONE_LAYER, sizes(arena), 1)) == len(claims.ONE_LAYER)


def test_the_published_two_layer_model_comes_without_settings() -> None:
    spec = spec_from_config(SETTINGS["source"])
    assert (spec.n_layers, spec.n_heads, spec.head_width, spec.d_mlp) == (2, 12, 64, None)
    assert (spec.positions, spec.norm) == (Positions.shortformer, Norm.none)
    assert not unpublished(claims.TWO_LAYERS, sizes(spec), 2), "it is the published one"


def test_a_model_at_hand_that_cannot_be_read_is_no_absent_one(
    induction: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "half"
    shutil.copytree(induction, folder)
    (folder / "model.safetensors").write_bytes(b"no tensors" * 100_000)
    with pytest.raises(ValueError, match="must be a safetensors file"):
        measured(tmp_path, source=str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no \.safetensors or \.pth or \.gguf"):
        measured(tmp_path, source=str(folder))


@pytest.mark.parametrize(("effect", "verdict"), [(True, HOLDS), (False, FAILS)])
def test_heads_that_copy_and_named_words_differ_from_chance(effect: bool, verdict: str) -> None:
    # Half of eight heads have an eigenvalue score above 0.1, and no head has a named triple.
    signs = np.where(effect, 1, [1, -1] * 4)
    right = np.ones((2, 8), bool)
    data = xr.Dataset(
        {
            "one_layer_copying": ("one_layer_head", 0.5 * signs),
            "one_layer_copies": ("one_layer_head", np.full(8, 0.6 * effect)),
            "words_are_tokens": True,
            "skip_trigram": (("triple", "one_layer_head"), np.full((12, 8), effect)),
            "bug": (
                ("which", "pair", "one_layer_head"),
                np.stack([right, np.full((2, 8), effect)]),
            ),
        },
        {"which": ["right", "wrong"]},
    )
    of = {"n_layers": 1, "n_heads": 8, "d_head": 64, "d_vocab": 48_262}
    record = Record(data, {"one_layer": of})
    estimates = measure(record).estimates
    named = (*claims.ONE_LAYER, *claims.WORDS)
    found = settle(named, estimates, {}, None, nulls(record))
    assert {v.claim.id: v.verdict for v in found} == {claim.id: verdict for claim in named}
    assert all(v.null is not None and not v.null.holds for v in found)


def test_a_random_share_is_above_a_half_as_often_as_not() -> None:
    shares = nulls(Record(xr.Dataset(), {}))["random"]["published-larger"]
    # One normal value is greater than another, in the sense of their sum, half of the time; five
    # thousand draws know it to 0.007.
    assert np.mean(shares >= 0.5) == pytest.approx(0.5, abs=0.025)
