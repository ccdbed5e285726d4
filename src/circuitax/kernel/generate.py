"""Text generation: read the prompt once, then one token at a time through a cache.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from circuitax.kernel.cache import Cache, empty_cache
from circuitax.kernel.checks import shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward
from circuitax.kernel.indices import whole
from circuitax.kernel.keys import at_index, check_key
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.sampling import Sampling, next_token
from circuitax.kernel.tokens import Tokens, token_ids

_Carry = tuple[Array, Cache | None]


def generate(
    model: Model,
    prompt: Tokens,
    n_new: int,
    *,
    key: Key[Array, ""],
    sampling: Sampling | None = None,
) -> Int[Array, " n_text"]:
    """The prompt followed by ``n_new`` tokens, a pure function of the key, for jit and vmap.

    Token j is drawn with ``fold_in(key, j)``, so a longer text begins with the shorter one.

    Args:
        model: One model, causal.
        prompt: Ids, at least one: a list, or an array of NumPy or JAX; put the start token there if
            the model has one.
        n_new: Static, at least 1.
        key: Decides every draw; unused when greedy.
        sampling: Static; None to sample from the model itself.

    Raises:
        ValueError: If the prompt is empty, ``n_new`` is less than 1, the text would be longer than
            the position table, or the outputs are no tokens.

    Source: S0 Algorithm 10.
    Differs: keys and values of earlier tokens are kept instead of computing ``T(X_0)`` anew.
    """
    check_key(key, one=True)
    check_one_member(model)
    ids = token_ids(prompt, model.d_vocab, name="prompt")
    n_prompt, n_new = ids.shape[0], whole("n_new", n_new, 1)
    if sampling is not None and not isinstance(sampling, Sampling):
        given = f"sampling={shortened(sampling)}"
        raise ValueError(f"{given} must be a Sampling, such as Sampling(temperature=0)")
    if model.spec.vocab_out != model.d_vocab:
        raise ValueError(
            f"d_vocab_out={model.spec.vocab_out} must be d_vocab={model.d_vocab} to generate tokens"
        )
    if model.spec.positions.needs_table and model.W_pos is not None:
        # The last token is returned but never read by the model.
        n_ctx, n_read = model.W_pos.shape[0], n_prompt + n_new - 1
        if n_read > n_ctx:
            raise ValueError(
                f"n_new={n_new} after {n_prompt} tokens reads {n_read} positions, "
                f"must be at most the {n_ctx} of model.W_pos"
            )
    return _generate(model, ids, n_new, key, sampling or Sampling())


@compiled("n_new", "how")
def _generate(
    model: Model, prompt: Int[Array, " n_prompt"], n_new: int, key: Key[Array, ""], how: Sampling
) -> Int[Array, " n_text"]:
    def pick(logits: Array, step: Array) -> Array:
        return next_token(at_index(key, step), logits, how).astype(prompt.dtype)

    def step(carry: _Carry, j: Array) -> tuple[_Carry, Array]:
        last, cache = carry
        logits, trace = forward(model, last[None], cache=cache)
        new = pick(logits[0], j)
        return (new, trace.cache), new

    logits, trace = forward(model, prompt, cache=empty_cache(model, prompt.shape[0] + n_new - 1))
    first = pick(logits[-1], jnp.zeros((), jnp.int32))
    _, rest = jax.lax.scan(step, (first, trace.cache), jnp.arange(1, n_new, dtype=jnp.int32))
    return jnp.concatenate([prompt, first[None], rest])
