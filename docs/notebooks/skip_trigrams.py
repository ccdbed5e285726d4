# %% [markdown]
# # From a one-layer model to its skip-trigrams
#
# A one-layer attention-only model can do two things: predict the next token from the present one
# (a bigram), and raise a token because of an earlier one (a *skip-trigram*, `source … present →
# next`). Here we train such a model in seconds and then read what it learned from its weights,
# without running it.
#
# ## A language of one sentence
#
# After *keep*, *in* is followed by *mind* and *at* by *bay*; after *hold*, by *hand* and *sea*.

# %%
import jax
import jax.numpy as jnp
import numpy as np
import optax

import circuitax as cx
from circuitax.circuits.weights.token_tables import head_tables
from circuitax.data.tokenizer import token_names
from circuitax.kernel.chain import materialise
from circuitax.kit.kept_models import open_language_model
from circuitax.lab.runs import accepted_run

WORDS = ["keep", "hold", "it", "them", "always", "in", "at", "mind", "bay", "hand", "sea"]
ID = {word: i for i, word in enumerate(WORDS)}
ENDS = {
    ("keep", "in"): "mind",
    ("keep", "at"): "bay",
    ("hold", "in"): "hand",
    ("hold", "at"): "sea",
}
rng = np.random.default_rng(0)


def sentence():
    source, present = rng.choice(["keep", "hold"]), rng.choice(["in", "at"])
    filler = rng.choice(["it", "them", "always"], size=2)
    return [ID[word] for word in (source, *filler, present, ENDS[source, present])]


texts = jnp.array([sentence() for _ in range(256)])
print(" ".join(WORDS[i] for i in texts[0]))

# %% [markdown]
# ## Training
#
# A model is a pytree, so Optax trains it as it is. The last token of every sentence can be told
# for certain by whoever looks back at the first; whoever does not is left with log 2 nats.

# %%
spec = cx.TransformerSpec.simplified(
    n_layers=1, n_heads=1, d_model=16, d_vocab=len(WORDS), score_scale=0.25
)
model = cx.init(jax.random.key(1), spec)
optimizer = optax.adamw(0.02, weight_decay=2.0)  # decay keeps the tables small


def last_loss(model):
    return cx.token_losses(cx.run(model, texts))[:, -1].mean()


@jax.jit
def train(model):
    def step(carry, _):
        model, state = carry
        loss, gradient = jax.value_and_grad(last_loss)(model)
        updates, state = optimizer.update(gradient, state, model)
        return (optax.apply_updates(model, updates), state), loss

    (model, _), losses = jax.lax.scan(step, (model, optimizer.init(model)), None, length=250)
    return model, losses


model, losses = train(model)
print(f"loss of the last token: {losses[0]:.3f} at first, {losses[-1]:.5f} at the end")

# %% [markdown]
# ## Reading the weights
#
# Two tables say all that the head does. The *QK circuit* scores which source each token looks at;
# the *OV circuit* says which tokens a source raises when it is looked at. Both are products of
# weight matrices with the embedding at both ends: words by words.

# %%


def only_head(chain):
    """A chain of all layers and heads, of which there is one; W_E and W_U have no such axes."""
    return cx.Chain(tuple(f[0, 0] if f.ndim == 4 else f for f in chain.factors))


qk, ov = (materialise(only_head(chain)) for chain in (cx.token_qk(model), cx.token_ov(model)))
direct = model.W_E @ model.W_U
SOURCES, PRESENT, NEXT = ["keep", "hold"], ["in", "at"], ["mind", "bay", "hand", "sea"]


def show(title, table, rows, columns):
    print(title, *(f"{word:>6}" for word in columns), sep="  ")
    for row in rows:
        print(
            f"{row:>{len(title)}}", *(f"{table[ID[row], ID[c]]:+6.1f}" for c in columns), sep="  "
        )


show("present looks at:", qk, PRESENT, [*SOURCES, "it", "them", "always"])
show("   source raises:", ov, SOURCES, NEXT)

# %% [markdown]
# Read the first table by rows: *in* and *at* score the verbs above the fillers, so that is where
# the head looks most. The second: looking at *keep* raises *mind* and *bay* above *hand* and *sea*;
# looking at *hold* does the opposite. Both tables together are four skip-trigrams.
#
# ## The bug
#
# Look again: *keep* raises *bay* whatever the present word is, after *in* too. One table for where
# to look and one for what to write cannot say "*bay*, but only after *at*". That *keep … in → bay*
# is raised is a *bug* that every such head has. Who saves the prediction? The direct path, from
# the present word straight to the logits, which knows nothing of *keep*:

# %%
show("     direct path:", direct, PRESENT, NEXT)

# %% [markdown]
# After *keep* the choice is between *mind* and *bay*: *in* prefers *mind*, *at* prefers *bay*;
# after *hold* it is the same with *hand* and *sea*. A table by source plus a table by
# present word is all that the model has, and for this language it is enough.
#
# ## The same tables of a model of real text
#
# A clone of the repository keeps an accepted run of the experiment `text_models`, and in it the
# weights of a one-layer model that read 13 million tokens of Python's own source. It has four heads
# and 1,024 tokens, of which we take those of two letters and more. In each row is a source, then
# the tokens that look at it, then the tokens that it raises.

# %%
text_model = open_language_model(accepted_run("text_models"), "layers-1")
names = token_names(text_model.tokenizer)
longer = jnp.array([i for i, name in enumerate(names) if i and len(name.strip()) > 1])
table = head_tables(text_model.model, longer, 3, 3)


def words(ids):
    return " ".join(f"{names[i]!r:<11}" for i in ids)


rows = [(head, row) for head in range(text_model.model.n_heads) for row in range(3)]
for at in rows:
    looks, raised = (words(table[name][at]) for name in ("destinations", "outs"))
    print(f"{at[0]}  {words([table['sources'][at]])} … {looks} → {raised}")

# %% [markdown]
# Do these tables, read from weights alone, say what the model does? We put every row to the test:
# a text with its source, some words between, and the first of the tokens that look at it. How
# probable is the first token of the last column? We try all other tokens in the place of the
# source, and count how many make it more probable.

# %%
between = text_model.tokenizer.encode("x = 1").ids
others = jnp.arange(1, len(names))


@jax.jit
@jax.vmap
def log_probs(source, present, out):
    def one(other):
        text = jnp.stack([0, other, *between, present])
        return jax.nn.log_softmax(cx.forward(text_model.model, text)[0][-1])[out]

    return jax.vmap(one)(others)


chosen = [table["sources"], table["destinations"][..., 0], table["outs"][..., 0]]
sources, presents, outs = (ids.ravel() for ids in chosen)
found = log_probs(sources, presents, outs)
own = found[jnp.arange(len(sources)), sources - 1]
above = (found > own[:, None]).sum(axis=1)
for at, source, present, out, gain, count in zip(
    rows, sources, presents, outs, own - found.mean(axis=1), above, strict=True
):
    triple = f"{words([source])} … {words([present])} → {words([out])}"
    print(f"{at[0]}  {triple} {gain:+5.1f} nats, {count} others do more")

# %% [markdown]
# Most rows keep their word: of more than 1,000 tokens, hardly any raises the last one as much as
# the source that was read off the weights. Some do not. Their scores are large only against those
# of other sources, and attention is normalised: what the other heads and the words between take
# away is in no table of two tokens.
#
# To try: let *keep* and *hold* swap their ends (`keep in → mind`, `keep at → bay`, `hold in → bay`,
# `hold at → mind`). No sum of a table by present word and a table by source can say this. What
# does the model do with two heads? The experiment `one_layer_circuits` reads such tables from
# models of real text and measures what the bugs cost.
