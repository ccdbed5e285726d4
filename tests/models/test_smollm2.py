"""SmolLM2-135M from its package, against numbers of an independent NumPy forward pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.run import run
from circuitax.models import sources
from circuitax.models.pretrained import load_pretrained
from circuitax.models.text_tokenizer import load_tokenizer

PARAGRAPH = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
    "must be in want of a wife. However little known the feelings or views of such a man may be on "
    "his first entering a neighbourhood, this truth is so well fixed in the minds of the "
    "surrounding families, that he is considered the rightful property of some one or other of "
    "their daughters."
)


def test_a_missing_package_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PACKAGE", "no-such-package-of-weights")
    assert not sources.has_smollm2()
    with pytest.raises(FileNotFoundError, match=r"make smollm2") as error:
        load_pretrained("smollm2")
    assert "\n" not in str(error.value)


@pytest.mark.skipif(not sources.has_smollm2(), reason=f"no weights: {sources.HOW}")
def test_reference_numbers() -> None:
    model, tokenizer = load_pretrained("smollm2"), load_tokenizer("smollm2")
    assert sum(leaf.size for leaf in jax.tree.leaves(model)) - model.W_U.size == 134_515_008
    forward = jax.jit(run)
    paris = tokenizer.encode("The capital of France is").ids
    assert paris == [504, 3575, 282, 4649, 314]
    logits = np.asarray(forward(model, jnp.asarray(paris)).logits[-1])
    top = np.argsort(-logits)[:5]
    assert [tokenizer.decode([int(i)]) for i in top] == [" Paris", " the", " London", " Le", " New"]
    expected = [17.3713, 14.8886, 13.2450, 13.0095, 12.9515]
    np.testing.assert_allclose(logits[top], expected, atol=2e-4)
    # The loss sees what the top word does not: with wrong rotary pairs it is 4.76.
    ids = np.array(tokenizer.encode(PARAGRAPH).ids)
    assert len(ids) == 76 and tokenizer.decode(ids.tolist()) == PARAGRAPH
    log_probs = jax.nn.log_softmax(forward(model, jnp.asarray(ids)).logits)
    loss = -np.asarray(log_probs)[np.arange(75), ids[1:]].mean()
    assert loss == pytest.approx(3.3990, abs=1e-4)
