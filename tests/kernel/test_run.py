"""A run: a batch is its texts, and what it knows is an attribute."""

import jax
import numpy as np
import pytest

from circuitax.kernel.edits import ablate_head
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import TRACED, freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import one_text, run, token_losses, unedited

TEXTS = [[3, 1, 4, 1], [5, 9, 2, 6]]


def test_a_batch_is_its_texts(make_transformer) -> None:
    model = make_transformer(mlp=True)
    batch = run(model, TEXTS, outputs=True)
    assert batch.is_batch and batch.n_texts == 2 and "tokens [2, 4]" in repr(batch)
    assert len(list(batch)) == 2
    for i, text in enumerate(TEXTS):
        alone = run(model, np.array(text), outputs=True)
        assert not alone.is_batch and one_text(alone) is alone
        for name in ("tokens", "logits"):
            got, want = getattr(batch[i], name), getattr(alone, name)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        want = forward(model, text, outputs=True)[1].head_outputs
        np.testing.assert_allclose(batch[i].trace.head_outputs, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"run has 2 texts, must have one: take run"):
        one_text(batch)
    with pytest.raises(ValueError, match="run has one text already"):
        alone[0]
    with pytest.raises(IndexError, match="index=2 must be from 0 to 1"):
        batch[2]


def test_what_a_run_knows_is_an_attribute(make_transformer, x64: None) -> None:
    model = make_transformer(mlp=True)
    batch = run(model, TEXTS, outputs=True)
    z = np.asarray(batch.logits)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    want = [[-log_p[b, t, TEXTS[b][t + 1]] for t in range(3)] for b in range(2)]
    np.testing.assert_allclose(token_losses(batch), want, rtol=1e-12)
    np.testing.assert_allclose(batch.loss, np.mean(want), rtol=1e-12)
    np.testing.assert_allclose(batch[1].loss, np.mean(want[1]), rtol=1e-12)
    for name in ("patterns", "streams", "scales", "head_outputs", "mlp_outputs"):
        assert getattr(batch, name) is getattr(batch.trace, name)
    written = batch.head_outputs.sum(axis=(1, 2)) + batch.mlp_outputs.sum(axis=1)
    np.testing.assert_allclose(batch.streams[:, -1] - batch.streams[:, 0], written, atol=1e-10)
    slope = jax.grad(lambda W: run(model.replace(W_U=W), TEXTS).loss)(model.W_U)
    step = model.W_U.at[2, 3].add(1e-6)
    moved = run(model.replace(W_U=step), TEXTS).loss - batch.loss
    np.testing.assert_allclose(slope[2, 3], moved / 1e-6, rtol=1e-4)
    with pytest.raises(ValueError, match="n_ctx=1 must be at least 2"):
        run(model, [3]).loss  # noqa: B018
    classifier = model.replace(W_U=model.W_U[:, :4])
    with pytest.raises(ValueError, match="d_vocab_out=4 must be d_vocab=11 to predict tokens"):
        run(classifier, TEXTS).loss  # noqa: B018


def test_ids_beyond_32_bits_are_no_other_ids(make_transformer) -> None:
    model = make_transformer()
    for ids in ([1, 2**32 + 3], np.array([1, 2**32 + 3])):
        with pytest.raises(ValueError, match="4294967299"):
            run(model, ids)


def test_an_edited_run_says_so(make_transformer) -> None:
    plain = run(make_transformer(mlp=True), TEXTS[0], outputs=True)
    held = run(plain.model, TEXTS[0], freeze(plain.trace))
    ablated = jax.jit(run)(plain.model, TEXTS[0], ablate_head(plain, (0, 1)))
    assert unedited(plain) is plain and unedited(held, TRACED) is held
    for seen, names in ((held, "all_patterns, scales, gates"), (ablated, "head_keep, head_add")):
        with pytest.raises(ValueError, match=rf"run was made with interventions \({names}\)"):
            unedited(seen)
    with pytest.raises(ValueError, match="head_keep"):
        unedited(run(plain.model, TEXTS, ablate_head(plain, (0, 1)))[1], TRACED)


def test_the_lens_reads_every_stream_as_the_last_is_read(make_transformer, x64: None) -> None:
    """In NumPy: the norm of each stream by its own divisor, and the unembedding."""
    model = make_transformer(norm=Norm.rmsnorm)
    seen = run(model, TEXTS)
    x = np.asarray(seen.streams[1, :, 2])
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + model.spec.norm_eps)
    want = x * np.asarray(model.final_norm.gain) @ np.asarray(model.W_U)
    np.testing.assert_allclose(seen.lens([2])[1, :, 0], want, atol=1e-12)
    np.testing.assert_allclose(seen.lens()[:, -1], seen.logits, atol=1e-12)
    for name in ("head_outputs", "q", "scores"):
        with pytest.raises(ValueError, match=f"^run.{name} was not recorded: .* outputs=True$"):
            getattr(seen, name)
    with pytest.raises(ValueError, match=r"^run.post is of MLPs, and the model has none$"):
        seen.post  # noqa: B018
