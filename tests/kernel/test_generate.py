"""S0 Algorithm 10, cached against the printed loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.generate import Sampling, generate, next_token
from circuitax.kernel.keys import at_index
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

PROMPT = jnp.array([3, 1])
recompute = jax.jit(forward, static_argnames="outputs")
run = jax.jit(generate, static_argnames=("n_new", "sampling"))


@pytest.fixture
def model(make_transformer) -> Model:
    return make_transformer(
        mlp=True, smear=True, positions=Positions.shortformer, norm=Norm.rmsnorm
    )


@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.5, top_k=6, top_p=0.95)])
def test_S0_algorithm_10_recomputing_everything_gives_the_same_text(
    x64: None, model: Model, sampling: Sampling
) -> None:
    key = jax.random.key(5)
    # The model is causal, so what stands behind the text so far does not matter: one length.
    text = jnp.zeros(6, PROMPT.dtype).at[:2].set(PROMPT)
    for j in range(4):
        logits, _ = recompute(model, text)
        text = text.at[2 + j].set(next_token(at_index(key, j), logits[1 + j], sampling))
    got = run(model, PROMPT, 4, key=key, sampling=sampling)
    np.testing.assert_array_equal(got, text)
    assert len(set(np.asarray(text[2:]).tolist())) > 1, "a constant text would prove little"


def test_a_prompt_may_be_a_list(model: Model) -> None:
    key = jax.random.key(1)
    np.testing.assert_array_equal(
        generate(model, PROMPT.tolist(), 3, key=key), generate(model, PROMPT, 3, key=key)
    )


def test_keys_decide_and_longer_texts_continue_shorter_ones(model: Model) -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    texts = jax.jit(jax.vmap(lambda key: generate(model, PROMPT, 5, key=key)))(keys)
    assert len({tuple(text) for text in np.asarray(texts).tolist()}) > 1
    short = run(model, PROMPT, 2, key=keys[2])
    np.testing.assert_array_equal(texts[2, :4], short)


@pytest.mark.parametrize(
    ("prompt", "n_new", "message"),
    [
        (jnp.zeros(0, jnp.int32), 1, r"prompt has shape \(0,\), must have at least one token"),
        (PROMPT, 0, "n_new=0 must be at least 1"),
        (PROMPT, 6, "n_new=6 after 2 tokens reads 7 positions, must be at most the 6"),
    ],
)
def test_texts_that_cannot_be(model: Model, prompt: jax.Array, n_new: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(model, prompt, n_new, key=jax.random.key(0))
