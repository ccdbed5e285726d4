"""One text or a batch: what a run holds, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.run import Run, one_text, run, token_losses

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
    with pytest.raises(ValueError, match=r"run has 2 texts, .* vmap over the batch, or take run"):
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


def test_interventions_are_those_of_every_text(make_transformer) -> None:
    model = make_transformer()
    off = ablate_heads(jnp.ones((2, 3)))
    got = run(model, TEXTS, off).logits
    want = np.asarray(model.W_E @ model.W_U)[np.array(TEXTS)]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_jit_vmap_and_grad(make_transformer) -> None:
    model = make_transformer()
    texts = jnp.array(TEXTS)
    compiled = jax.jit(run, static_argnames="outputs")(model, texts)
    assert isinstance(compiled, Run) and compiled.model.spec == model.spec
    mapped = jax.vmap(run, in_axes=(None, 0))(model, texts)
    np.testing.assert_allclose(compiled.logits, mapped.logits, rtol=1e-4, atol=1e-5)
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), model)
    each = jax.vmap(run, in_axes=(0, None))(members, texts)
    want = run(members[1], texts).logits
    np.testing.assert_allclose(each.logits[1], want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"leading axis of members, \(2,\)"):
        run(members, texts)
    with pytest.raises(ValueError, match=r"leading axis of members"):
        one_text(each)
    slope = jax.grad(lambda model: run(model, texts).logits.sum())(model)
    rows = np.asarray(run(model, texts).trace.streams[:, -1]).sum(axis=(0, 1))
    np.testing.assert_allclose(slope.W_U, np.tile(rows[:, None], 11), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.zeros((2, 3, 4), int), r"one text \[n_ctx\] or a batch of them \[batch, n_ctx\]"),
        (np.zeros((0, 4), int), "must have at least one token"),
        (np.zeros((2, 0), int), "must have at least one token"),
        ([[0.5]], "tokens has type float32, must be integers"),
        ([[1, 2], [3, 99]], r"tokens has the id 99, must lie in \[0, d_vocab=11\)"),
    ],
)
def test_what_is_no_text_is_refused(make_transformer, tokens, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(make_transformer(), tokens)
