"""Models come back as they were kept, by name, step and member, and misuse is named."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from circuitax.data.corpus import TextError
from circuitax.data.tokenizer import BOUNDARY
from circuitax.kernel.forward import forward
from circuitax.kernel.generate import Sampling, generate
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import (
    KeptModels,
    LanguageModel,
    continuations,
    keep_model,
    kept_windows,
    log_spaced_steps,
    notes_of_kept,
    read_prompt,
    tokens_left,
)
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record

SPECS = {f"layers-{n}": TransformerSpec(11, 8, n, 1, 4) for n in (0, 1)}
STEPS = (0, 20)


def drawn(name: str, step: int):
    keys = member_keys(derive(jax.random.key(step), name), 3)
    return jax.vmap(lambda key: init(key, SPECS[name]))(keys)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lab = Lab(tmp_path / "up")
    for name in SPECS:
        for step in STEPS:
            keep_model(lab, name, step, drawn(name, step))
    Record(notes=notes_of_kept(SPECS, STEPS)).save(tmp_path / "up")
    return tmp_path / "up"


def same(one, other) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_one_reader_for_an_input_and_for_a_run(run: Path, tmp_path: Path) -> None:
    below = KeptModels.of_input(Lab(tmp_path / "down", inputs={"source": run}), "source")
    for kept in (below, KeptModels.of_run(run)):
        assert kept.names == ["layers-0", "layers-1"] and kept.steps == [0, 20]
        assert kept.spec("layers-1") == SPECS["layers-1"]
        same(kept.members("layers-1", 0), drawn("layers-1", 0))
        same(kept.members("layers-1"), drawn("layers-1", 20))
        assert isinstance(kept.members("layers-0").W_E, jax.Array)
        one = kept.member("layers-1", 2)
        np.testing.assert_array_equal(one.W_U, drawn("layers-1", 20).W_U[2])
        both = kept.at_every_step("layers-1")
        assert both.W_E.shape == (2, 3, 11, 4)
        np.testing.assert_array_equal(both.W_E[0], drawn("layers-1", 0).W_E)


def test_files_are_named_by_model_and_step(run: Path) -> None:
    names = sorted(path.name for path in (run / "arrays").iterdir())
    assert names == [f"{m}-step-{s}.safetensors" for m in SPECS for s in STEPS]


@pytest.mark.parametrize(
    ("name", "index", "step", "said"),
    [
        ("layer-1", 0, None, "model=layer-1 must be one of layers-0, layers-1"),
        ("layers-1", 0, 7, "step=7 must be one of 0, 20"),
        ("layers-1", 3, 20, "member=3 of layers-1 must be 0 to 2"),
        ("layers-1", -1, 20, "member=-1 of layers-1 must be 0 to 2"),
    ],
)
def test_what_was_not_kept(run: Path, name: str, index: int, step: int | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        KeptModels.of_run(run).member(name, index, step)


def test_a_run_without_models(tmp_path: Path) -> None:
    Record(notes={"models": {}}).save(tmp_path)
    with pytest.raises(
        ValueError, match="keeps no models: its notes name no models and steps_kept"
    ):
        KeptModels.of_run(tmp_path)


def test_log_spaced_steps_hold_both_ends_and_the_powers_between() -> None:
    assert log_spaced_steps(200, 20) == [0, 20, 40, 80, 160, 200]
    assert log_spaced_steps(160, 20) == [0, 20, 40, 80, 160]
    assert log_spaced_steps(20, 20) == [0, 20]
    with pytest.raises(ValueError, match="every=30 must divide steps=200"):
        log_spaced_steps(200, 30)


def test_no_more_windows_are_read_than_were_kept(tmp_path: Path) -> None:
    up = Lab(tmp_path / "up")
    up.save_arrays("held-out", {"windows": np.arange(12).reshape(4, 3)})
    lab = Lab(tmp_path / "down", inputs={"texts": tmp_path / "up"})
    np.testing.assert_array_equal(kept_windows(lab, "texts", 2), [[0, 1, 2], [3, 4, 5]])
    assert len(kept_windows(lab, "texts", 4)) == 4
    with pytest.raises(TextError, match=r"^windows=1000000000 must be at most 4: texts kept no mo"):
        kept_windows(lab, "texts", 10**9)


SPEC = TransformerSpec(d_vocab=257, n_ctx=8, n_layers=1, n_heads=1, d_model=4)
GREEDY = Sampling(temperature=0.0)


def bytes_only() -> Tokenizer:
    """The boundary and 256 bytes, no merges."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {BOUNDARY: 0} | {letter: i + 1 for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BOUNDARY])
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel("m", 0, 0, init(jax.random.key(0), SPEC), bytes_only())


def always(model: LanguageModel, token: int) -> LanguageModel:
    """The model that writes one token for ever: its unembedding prefers it wherever it stands."""
    W_U = jnp.zeros_like(model.model.W_U)
    b_U = jnp.zeros(257).at[token].set(9.0)
    biases = ("b_Q", "b_K", "b_V", "b_O")
    fresh = init(jax.random.key(0), SPEC.replace(biases=True))
    assert all(getattr(fresh.blocks.attention, name) is not None for name in biases)
    return model._replace(model=fresh.replace(W_U=W_U, b_U=b_U))


def test_the_prompt_begins_a_document(model: LanguageModel) -> None:
    ids = read_prompt(model, "ab")
    assert ids[0] == 0 and len(ids) == 3
    assert model.tokenizer.decode(ids[1:]) == "ab"
    assert read_prompt(model, "") == [0]
    assert BOUNDARY not in [model.tokenizer.id_to_token(i) for i in read_prompt(model, "<|end")[1:]]


def test_a_model_trained_with_a_start_token_is_given_it(model: LanguageModel) -> None:
    plain = read_prompt(model, "ab")
    for start, front in ((7, [7]), (0, [])):  # 0 is the boundary, which stands there anyway
        started = model._replace(model=model.model.with_options(start_token=start))
        assert read_prompt(started, "ab") == [*front, *plain]
    started = model._replace(model=model.model.with_options(start_token=7))
    with pytest.raises(ValueError, match="PROMPT has 7 tokens, it must have at most 6"):
        read_prompt(started, "1234567")


def test_a_tokenizer_puts_nothing_around_the_prompt(model: LanguageModel) -> None:
    tokenizer = bytes_only()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOUNDARY} $A {BOUNDARY}", special_tokens=[(BOUNDARY, 0)]
    )
    assert tokenizer.encode("ab").ids != tokenizer.encode("ab", add_special_tokens=False).ids
    ids = read_prompt(model._replace(tokenizer=tokenizer), "ab")
    assert ids == read_prompt(model, "ab")


def test_greedy_text_is_the_argmax_of_the_forward_pass(model: LanguageModel) -> None:
    ids = read_prompt(model, "ab")
    wanted: list[int] = []
    for _ in range(4):
        logits, _ = forward(model.model, ids + wanted)
        wanted.append(int(jnp.argmax(logits[-1])))
    (text,) = continuations(model, ids, 4, key=jax.random.key(0), sampling=GREEDY)
    assert text == model.tokenizer.decode(wanted)


def test_samples_are_a_batch_of_single_ones(model: LanguageModel) -> None:
    ids, key, how = read_prompt(model, "a"), jax.random.key(3), Sampling(top_k=50)
    texts = continuations(model, ids, 5, key=key, sampling=how, samples=3)
    for text, one in zip(texts, member_keys(key, 3), strict=True):
        row = generate(model.model, jnp.array(ids), 5, key=one, sampling=how)
        assert text == model.tokenizer.decode(np.asarray(row)[len(ids) :].tolist())
    assert len(set(texts)) > 1


def test_a_text_ends_with_its_document_and_at_the_context(model: LanguageModel) -> None:
    ids = read_prompt(model, "abc")
    key = jax.random.key(0)
    ended = continuations(always(model, 0), ids, 4, key=key, sampling=GREEDY)
    assert ended == [""]
    # 4 read with the boundary, n_ctx=8: a fifth new token is written and never read
    assert tokens_left(model, len(ids)) == 5
    a = model.tokenizer.encode("a").ids[0]
    assert continuations(always(model, a), ids, 5, key=key, sampling=GREEDY) == ["aaaaa"]
    with pytest.raises(ValueError, match=r"tokens=6 must be at least 1 and at most 5: m reads"):
        continuations(model, ids, 6, key=key, sampling=GREEDY)
    with pytest.raises(ValueError, match="tokens=0 must be at least 1"):
        continuations(model, ids, 0, key=key, sampling=GREEDY)
    with pytest.raises(ValueError, match="samples=0 must be at least 1"):
        continuations(model, ids, 1, key=key, sampling=GREEDY, samples=0)


def test_half_a_character_is_shown_not_raised(model: LanguageModel) -> None:
    first_byte = model.tokenizer.encode("é").ids[0]
    key = jax.random.key(0)
    (text,) = continuations(always(model, first_byte), [0], 3, key=key, sampling=GREEDY)
    assert set(text) == {"\ufffd"}


def test_prompts_that_cannot_be_read(model: LanguageModel) -> None:
    assert len(read_prompt(model, "1234567")) == 8
    with pytest.raises(ValueError, match="PROMPT has 8 tokens, it must have at most 7: m reads"):
        read_prompt(model, "12345678")
    spec = TransformerSpec.simplified(d_vocab=257)
    assert spec.positions is Positions.none
    endless = model._replace(model=init(jax.random.key(0), spec))
    assert len(read_prompt(endless, "12345678")) == 9 and tokens_left(endless, 9) is None
