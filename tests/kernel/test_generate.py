"""Generation against recomputing everything, and sampling against distributions by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.forward import forward
from circuitax.kernel.generate import Sampling, generate, next_token, token_distribution
from circuitax.kernel.keys import at_index
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

LOGITS = jnp.log(jnp.array([0.1, 0.4, 0.05, 0.3, 0.15]))


@pytest.mark.parametrize(
    ("sampling", "want"),
    [
        (Sampling(), [0.1, 0.4, 0.05, 0.3, 0.15]),
        (Sampling(temperature=0.0), [0, 1, 0, 0, 0]),
        (Sampling(temperature=0.5), np.array([0.01, 0.16, 0.0025, 0.09, 0.0225]) / 0.285),
        (Sampling(top_k=2), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(top_p=0.65), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(top_p=0.75), [0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85]),
        (Sampling(top_p=1e-6), [0, 1, 0, 0, 0]),
        (Sampling(top_k=2, top_p=0.5), [0, 1, 0, 0, 0]),
    ],
)
def test_distributions_by_hand(sampling: Sampling, want: list[float]) -> None:
    np.testing.assert_allclose(token_distribution(LOGITS, sampling), want, rtol=1e-5)


@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 1e-45, 5e-324])
def test_small_temperatures_are_greedy(temperature: float) -> None:
    how = Sampling(temperature=temperature, top_p=0.9)
    rows = jnp.stack([LOGITS, 40 * LOGITS, -LOGITS])
    p = jax.jit(jax.vmap(lambda row: token_distribution(row, how)))(rows)
    np.testing.assert_array_equal(p, np.eye(5)[[1, 1, 2]])
    assert int(next_token(jax.random.key(0), LOGITS, how)) == 1
    tied = token_distribution(jnp.array([2.0, 3.0, 3.0]), Sampling(temperature=temperature))
    np.testing.assert_array_equal(tied, [0, 0.5, 0.5])


def test_top_p_1_keeps_everything() -> None:
    # The largest probability rounds to 1: a running sum is there before the other tokens.
    logits = jnp.zeros(50_000).at[7].set(28)
    kept = token_distribution(logits, Sampling(top_p=1.0))
    np.testing.assert_array_equal(kept, token_distribution(logits, Sampling()))
    assert (kept > 0).all()


def test_ties_at_the_border_keep_exactly_k() -> None:
    p = token_distribution(jnp.zeros(4), Sampling(top_k=3))
    np.testing.assert_allclose(p, [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=2.0, top_k=3)])
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    """Chi-squared at a fixed key; false-alarm rate 1e-4."""
    keys = jax.random.split(jax.random.key(4), 20_000)
    drawn = jax.jit(jax.vmap(lambda key: next_token(key, LOGITS, sampling)))(keys)
    counts = np.bincount(np.asarray(drawn), minlength=5)
    want = np.asarray(token_distribution(LOGITS, sampling), np.float64)
    assert not counts[want == 0].any()
    on = want > 0
    expected = len(drawn) * want[on] / want[on].sum()
    assert stats.chisquare(counts[on], expected).pvalue > 1e-4


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


def test_keys_decide_and_longer_texts_continue_shorter_ones(model: Model) -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    texts = jax.jit(jax.vmap(lambda key: generate(model, PROMPT, 5, key=key)))(keys)
    assert len({tuple(text) for text in np.asarray(texts).tolist()}) > 1
    short = run(model, PROMPT, 2, key=keys[2])
    np.testing.assert_array_equal(texts[2, :4], short)


def test_a_model_without_a_largest_logit_generates_nothing(model: Model) -> None:
    broken = model.replace(W_U=model.W_U.at[0, 3].set(jnp.nan))
    with pytest.raises(ValueError, match="model gives logits that are NaN or infinite"):
        generate(broken, PROMPT, 3, key=jax.random.key(0))
