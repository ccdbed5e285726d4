# %% [markdown]
# # All paths of a small transformer
#
# Once its patterns are known, a head is the linear map `x ↦ A x W`, written `A ⊗ W`. Two layers of
# one head are then a sum of four paths: none, one, the other, both.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import circuitax as cx
from circuitax.kernel.weights import HeadStack

jax.config.update("jax_enable_x64", True)
I, none = jnp.eye(2), jnp.zeros((2, 1, 2, 2))
W_O = jnp.array([[[[0.0, 2.0], [0.0, 0.0]]], [[[0.0, 0.0], [1.0, 0.0]]]])
heads = HeadStack(W_Q=none, W_K=none, W_V=jnp.stack([I, I])[:, None], W_O=W_O)
run = cx.run(cx.Model.of(W_E=I, W_U=I, attention=heads), [0, 1])
print(cx.expand(run))

# %% [markdown]
# The path through both heads, by hand: patterns multiply on the left, maps on the right.

# %%
A = np.array([[1.0, 0.0], [0.5, 0.5]])
first, second = np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])
both = A @ A @ np.eye(2) @ first @ second
term = cx.Kron(jnp.asarray(A), jnp.asarray(second)) @ cx.Kron(jnp.asarray(A), jnp.asarray(first))
print("by hand", both.tolist(), "as one Kronecker term", (term @ jnp.eye(2)).tolist())

# %% [markdown]
# ## How many, and do they close?
#
# A model with L layers of H heads has `(1 + H)^L` paths. Their sum is the logits, whatever the
# weights are.

# %%
spec = cx.TransformerSpec(n_layers=3, n_heads=3, d_model=15, d_vocab=20, n_ctx=8)
random = cx.run(cx.init(jax.random.key(0), spec), [3, 1, 4, 1, 5])
expansion = cx.expand(random)
left = float(abs(expansion.remainder).max())
print(len(expansion.terms), "paths; their sum misses the logits by", f"{left:.0e}")
