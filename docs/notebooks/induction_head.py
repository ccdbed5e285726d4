# %% [markdown]
# # An induction head, from weights to certified paths
#
# An *induction head* continues what was there before: in `… A B … A` it predicts `B`. It takes two
# heads in two layers. We take a model whose weights were written by hand, so that we know the
# answer, and let the tools find it. The same calls work on any attention-only model.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import circuitax as cx
from circuitax.circuits.ground_truth import induction_model
from circuitax.kit.notebook import notebook

notebook()  # in Jupyter, models, runs and ledgers at the end of a cell unfold as trees

model = induction_model(jax.random.key(0), d_vocab=12, n_ctx=16, n_distractors=2)
print(model.spec.n_layers, "layers of", model.spec.n_heads, "heads")

# %% [markdown]
# ## Who looks where?
#
# On a random text that repeats itself, two numbers tell heads apart: how much a head looks at the
# position before, and how much at the token *after* an earlier copy of the present one (*prefix
# matching*).

# %%
texts = jnp.array([[0, 5, 2, 9, 7, 3, 5, 2, 9, 7, 3], [1, 8, 4, 6, 2, 11, 8, 4, 6, 2, 11]])
scores = cx.induction_scores(model, texts)
print("looks at the previous token:\n", np.round(scores.previous, 2))
print("matches prefixes:\n", np.round(scores.prefix, 2))
print("loss by position:", np.round(scores.loss_by_position, 1))

# %% [markdown]
# Head 0 of layer 0 looks back by one, head 0 of layer 1 finds prefixes. The loss falls to nothing
# where the text begins to repeat: induction works.
#
# ## From weights: who reads whom?
#
# No text is needed for this one. *K-composition* says how much of what a head of layer 0 writes is
# read by a head of layer 1 as its keys.

# %%
Q, K, V = cx.composition_scores(model)
print("K-composition, writer × reader:\n", np.round(K[0, :, 1, :], 3))

# %% [markdown]
# One entry stands out: the previous-token head tells the induction head's *keys* what came before
# each position. So the induction head can look for "the position whose predecessor is my token".
#
# ## Certified paths
#
# With attention patterns held as they are, the logit is a sum over paths: the direct path, single
# heads, and pairs of a head and a later one. The ledger finds the largest and *proves* a bound on
# every path that it did not list.

# %%
run = cx.run(model, texts[0][:7])  # … 5 2 9 7 3 5: what follows the second 5?
guess = int(run.logits[-1].argmax())
found = cx.ledger(run, token=guess, k=3)
print("guess:", guess)
print(found)

# %% [markdown]
# Nearly all of the logit is one path through head 1.0 alone. Where is head 0.0? It moves no logit
# by itself: it decides where head 1.0 *looks*, and a path holds the patterns fixed. Removing a head
# and letting later layers react shows it.

# %%
lead = lambda logits: logits[-1, guess] - jnp.delete(logits[-1], guess).max()  # noqa: E731
reacting = cx.ablate_each(run, lead).heads
frozen = cx.ablate_each(run, lead, preserve_patterns=True).heads
print("change of the lead without each head, later heads react:\n", np.round(reacting, 2))
print("with patterns held:\n", np.round(frozen, 2))

# %% [markdown]
# Head 0.0 matters only while patterns may change: its work is K-composition. This difference
# between the two ablations is how the induction-heads paper tells the two roles apart.
#
# To try: give `induction_model` more distractors, or load a model of your own with
# `cx.load_pretrained(folder)`. The experiment `two_layer_circuits` does all this to models that
# learned their heads.
