# %% [markdown]
# # A head by hand
#
# S2's three tokens A, B and C: keys (1, 0), (0, 1) and (1, 1), the query (1, 1) for C, one-hot
# values. We compute what C's head output is, step by step in NumPy, and then let the model do it.

# %%
import jax.numpy as jnp
import numpy as np

import circuitax as cx
from circuitax.kernel.weights import HeadStack

keys, values = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.eye(3)
queries = np.array([[9.0, 9.0], [0.0, 1.0], [1.0, 1.0]])
scores = queries @ keys.T / np.sqrt(2)
masked = np.where(np.tri(3, dtype=bool), scores, -np.inf)
weights = np.exp(masked) / np.exp(masked).sum(axis=1, keepdims=True)
print("weights of C:", weights[2].round(4))

# %% [markdown]
# S2 prints 0.25, 0.25, 0.50, which is rounded ([errata](../errata.md), E19). The model says the
# same; its tokens are one-hot, so that `W_Q` and `W_K` have queries and keys as rows.

# %%
heads = HeadStack(*(jnp.asarray(W)[None, None] for W in (queries, keys, np.eye(3), np.eye(3))))
model = cx.Model.of(W_E=jnp.eye(3), W_U=jnp.eye(3), attention=heads)
run = cx.run(model, [0, 1, 2], outputs=True)
pattern = np.asarray(run.trace.patterns[0, 0])
print(pattern.round(4))

# %% [markdown]
# ## The mask comes before the softmax
#
# If later tokens are set to 0 after it, they stay in the denominator, and a row no longer sums
# to 1.

# %%
late = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True) * np.tri(3)
print(
    "row sums, masked before:",
    weights.sum(axis=1).round(3),
    "and after:",
    late.sum(axis=1).round(3),
)

# %% [markdown]
# ## Position is content
#
# Without positions and mask a head does not see the order: the outputs of a shuffled text are the
# shuffled outputs. With the mask, the last position still sees the rest as a set.

# %%
shuffled = cx.run(model, [1, 0, 2], outputs=True)
same = np.abs(np.asarray(run.trace.head_outputs - shuffled.trace.head_outputs))[0, 0, 2].max()
print("what C gets, from A B C and from B A C, differs by", float(same))
