# %% [markdown]
# # From a one-hot vector to a probability
#
# A token is a number; a model needs a vector. The one-hot vector of token 2 of 5 is
# `(0, 0, 1, 0, 0)`, and times a matrix it is row 2 of that matrix. A model without layers is two
# such matrices, `W_E` into the stream and `W_U` out of it.

# %%
import jax.numpy as jnp
import numpy as np

import circuitax as cx
from circuitax.kernel.weights import HeadStack

WORDS = ["the", "cat", "sat", "on", "mat"]
COUNTS = np.array(
    [[0, 3, 0, 0, 1], [0, 0, 4, 0, 0], [0, 0, 0, 4, 0], [4, 0, 0, 0, 0], [1, 0, 0, 0, 0]], float
)
bigrams = (COUNTS + 0.01) / (COUNTS + 0.01).sum(axis=1, keepdims=True)


def without_layers(W_E, W_U):
    """A model of no layer: what has one entry for each layer has none."""
    d = W_E.shape[1]
    reading, writing = jnp.zeros((0, 1, d, 1)), jnp.zeros((0, 1, 1, d))
    heads = HeadStack(W_Q=reading, W_K=reading, W_V=reading, W_O=writing)
    return cx.Model.of(W_E=jnp.asarray(W_E), W_U=jnp.asarray(W_U), attention=heads)


model = without_layers(jnp.eye(5), np.log(bigrams))
one_hot = np.eye(5)[0]
print("the one-hot vector of 'the' times the table:", (one_hot @ bigrams).round(2))

# %% [markdown]
# With `W_U` the logarithms of a bigram table, the softmax of the logits is that table: what comes
# next depends on the present word alone (S0, Remark 21).

# %%
logits = np.asarray(cx.run(model, [0, 1, 2, 3]).logits, float)
probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
for word, row in zip(WORDS, probabilities, strict=False):
    print(f"after {word!r}: {WORDS[row.argmax()]!r} with {row.max():.2f}")

# %% [markdown]
# ## A narrow stream
#
# With d numbers in the stream, `W_E W_U` has rank d at most. How good can the table be then? The
# singular value decomposition gives the best approximation of the logits, which is not yet the
# best loss.

# %%
U, size, V = np.linalg.svd(np.log(bigrams))
ranks = {}
for d in (1, 2, 3, 5):
    narrow = without_layers(U[:, :d] * size[:d], V[:d])
    ranks[d] = np.abs(np.asarray(cx.run(narrow, [0, 1, 2, 3, 4]).logits) - np.log(bigrams)).max()
    print(f"d = {d}: logits off by at most {ranks[d]:.2f}")
