# %% [markdown]
# # Five features in two dimensions
#
# A toy model stores five features in two numbers and reads them back through a ReLU:
# `x' = ReLU(Wᵀ W x + b)`, with `W` of shape `[2, 5]`. Each feature is on with probability p, the
# *density*. Two features fit without loss, one in each dimension. What happens to the other three?
#
# We do not sample data here. The expected loss is computed exactly, as an integral, so that two
# arrangements can be compared without noise.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import circuitax as cx
from circuitax.lab.runs import accepted_run
from circuitax.superposition.polytopes import align

jax.config.update("jax_enable_x64", True)
importance = jnp.ones(5)
ARROW = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0}
PLANE = {"xlim": (-1.5, 1.5), "ylim": (-1.5, 1.5), "aspect": "equal", "xlabel": "first number"}


@jax.jit
def loss(weights, p):
    """The expected squared error over all five features, at density p."""
    return cx.expected_loss(weights, jnp.full(5, p), importance, n_terms=64).value


# %% [markdown]
# ## Two arrangements by hand
#
# *Orthogonal*: two features have a dimension each, three are given up. *Pentagon*: all five are
# stored, at angles of 72°, so that each disturbs the others; a negative bias cuts the disturbance
# off. Which one is better?

# %%
angle = 2 * jnp.pi * jnp.arange(5) / 5
pentagon = cx.TiedWeights(1.135 * jnp.stack([jnp.cos(angle), jnp.sin(angle)]), jnp.full(5, -0.246))
# A feature that is given up is answered with its mean, p / 2.
orthogonal = {
    p: cx.TiedWeights(jnp.eye(2, 5), jnp.where(jnp.arange(5) < 2, 0.0, p / 2)) for p in (0.5, 0.05)
}
for p in (0.5, 0.05):
    print(f"p = {p}: orthogonal {loss(orthogonal[p], p):.4f}, pentagon {loss(pentagon, p):.4f}")

# %% [markdown]
# Dense features (p = 0.5) want dimensions of their own. Rare ones (p = 0.05) seldom meet, so that
# disturbance seldom happens, while giving a feature up costs every time that it is on.
#
# ## What does training find?
#
# Gradient descent on the exact loss, from eight random starts at once.

# %%
p = 0.05
optimizer = optax.adam(0.05)


def train(key):
    weights = cx.TiedWeights(0.5 * jax.random.normal(key, (2, 5)), jnp.zeros(5))

    def step(carry, _):
        weights, state = carry
        updates, state = optimizer.update(jax.grad(loss)(weights, p), state)
        return (optax.apply_updates(weights, updates), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, optimizer.init(weights)), None, length=200)
    return weights


trained = jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), 8))
losses = jax.jit(jax.vmap(lambda weights: loss(weights, p)))(trained)
best = jax.tree.map(lambda leaf: leaf[losses.argmin()], trained)
print("losses of the eight:", [f"{value:.4f}" for value in sorted(losses)])

# %% [markdown]
# Not all starts arrive: some end in a local minimum, with another arrangement, so that one network
# shows one outcome. How good is the best of several? It should be as good as the pentagon, whose
# norm and bias we gave by hand.

# %%
print(f"best {losses.min():.5f}, pentagon by hand {loss(pentagon, p):.5f}")

# %% [markdown]
# ## What did it build?
#
# `D_i`, the *dimensionality*, is the share of a dimension that feature i has: 1 alone, 1/2 in a
# pair of opposite features (a *digon*), 2/5 in a pentagon.

# %%
print("dimensionality:", cx.dimensionality(best.W).round(3))

figure, axes = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
for ax, weights, title in ((axes[0], pentagon, "by hand"), (axes[1], best, "trained")):
    for x, y in weights.W.T:
        ax.annotate("", (float(x), float(y)), (0, 0), arrowprops=ARROW)
    ax.set(**PLANE, title=title)
axes[0].set(ylabel="second number")
figure.set_label(
    "Two pictures of five arrows from the origin: by hand and as trained, the arrows are equally "
    "long and 72 degrees apart, a pentagon; only its rotation differs."
)

# %% [markdown]
# ## Networks that saw samples
#
# Our networks descended the exact loss. Published ones see samples, and never the loss itself. A
# clone of the repository keeps an accepted run of the experiment `toy_intro`, with forty networks
# at this density that were trained by the protocol of the paper's own notebook. The exact loss
# tells how good they are.

# %%
record = cx.Record.load(accepted_run("toy_intro"))
sampled = record.data.sel(importance_base=1.0, sparsity=0.95)
W = sampled.W.transpose("seed", "hidden", "feature").values.astype(float)
b = sampled.b.transpose("seed", "feature").values.astype(float)
accepted = jax.jit(jax.vmap(lambda W, b: loss(cx.TiedWeights(W, b), p)))(W, b)
optimum = float(sampled.optimum_loss)
near = (accepted < 1.02 * optimum).sum()
print(f"exact optimum {optimum:.5f}, our best {losses.min():.5f}")
print(f"best on samples {accepted.min():.5f}; {near} of {len(accepted)} are within 2 % of it")

# %% [markdown]
# A rotation, a reflection, or another order of features that are equally important and equally
# frequent changes no loss. So we turn the accepted network onto ours before we compare them.

# %%
turned = align(W[accepted.argmin()], best.W, permute=True).W
apart = np.linalg.norm(turned - best.W, axis=0)
print("features apart by:", apart.round(3))

figure, ax = plt.subplots(figsize=(3.4, 3.4), layout="constrained")
for x, y in best.W.T:
    ax.annotate("", (float(x), float(y)), (0, 0), arrowprops=ARROW)
ax.plot(*turned, "o", fillstyle="none", color="C1", label="accepted, trained on samples")
ax.set(**PLANE, ylabel="second number", title="Arrows: trained here")
ax.legend(loc="lower center", fontsize="small")
figure.set_label(
    "The five arrows of the network trained here, and five circles, those of the accepted network "
    "turned onto it: every circle lies around the tip of an arrow."
)

# %% [markdown]
# To try: which arrangement wins at p = 0.2? Give the features different importances. Which are
# given up first? The experiment `toy_intro` does this over all densities, and beside the exact
# optimum.
