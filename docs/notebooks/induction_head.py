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
from circuitax.circuits.known import induction_model
from circuitax.kit.kept_models import open_language_model
from circuitax.lab.runs import accepted_run

model = induction_model(jax.random.key(0), d_vocab=12, n_ctx=16, n_distractors=2)


def rounded(x, digits=2):
    return np.round(np.asarray(x, float), digits)


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
print("looks at the previous token:\n", rounded(scores.previous))
print("matches prefixes:\n", rounded(scores.prefix))
print("loss by position:", rounded(scores.loss_by_position, 1))

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
print("K-composition, writer × reader:\n", rounded(K[0, :, 1, :], 3))

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
reacting = cx.ablation_effects(run, lead).heads
frozen = cx.ablation_effects(run, lead, preserve_patterns=True).heads
print("change of the lead without each head, later heads react:\n", rounded(reacting))
print("with patterns held:\n", rounded(frozen))

# %% [markdown]
# Head 0.0 matters only while patterns may change: its work is K-composition. This difference
# between the two ablations is how the induction-heads paper tells the two roles apart.
#
# ## And in models that learned?
#
# A clone of the repository keeps accepted runs. In `two_layer_circuits`, many models of two layers
# learned from random texts that repeat themselves; each found what we wrote by hand. What stays of
# them are the same scores as above. We take the best head of each layer in every model, and print
# the least, the median and the greatest of these.

# %%
learned = cx.Record.load(accepted_run("two_layer_circuits")).data
print(learned.sizes["member"], "models, after training on repeats:")
for name, score in (("prefix matching", learned.prefix), ("previous token", learned.previous)):
    for layer, best in enumerate(score.max("head").transpose("layer", "member").values):
        print(f"{name}, layer {layer}:", rounded(np.quantile(best, [0, 0.5, 1])))

# %% [markdown]
# Plain text is another matter. The run of `text_models` keeps one of its models of two layers,
# trained on Python's own source, weights and all. We read it as we read the model made by hand. It
# has **no induction head**: on random tokens that repeat, the best head gives 3 % of its attention
# to what followed before, where chance gives 2 %, and the loss hardly falls where the text begins
# to repeat.

# %%
plain = open_language_model(accepted_run("text_models"), "layers-2").model
firsts = jax.random.randint(jax.random.key(2), (32, plain.n_ctx // 2), 1, plain.d_vocab)
read = cx.induction_scores(plain, jnp.concatenate([firsts, firsts], axis=1))
half = plain.n_ctx // 2
print("matches prefixes:\n", rounded(read.prefix, 3), "by chance:", rounded(read.chance, 3))
print("looks at the previous token:\n", rounded(read.previous))
first, second = read.loss_by_position[: half - 1].mean(), read.loss_by_position[half:].mean()
print(f"loss {first:.2f} nats at first, {second:.2f} in the repeat")

# %% [markdown]
# It is not this model alone. `text_circuits` scored all that were trained in this way, and a
# head counts as an induction head from 0.4 on.

# %%
scored = cx.Record.load(accepted_run("text_circuits")).data.prefix.sel(layer=1)
print(f"best prefix score of the {scored.sizes['member']} models: {float(scored.max()):.2f}")

# %% [markdown]
# To try: give `induction_model` more distractors, or load a model of your own with
# `cx.load_pretrained(folder)`. The experiment `two_layer_circuits` does all this to models that
# learned their heads.
