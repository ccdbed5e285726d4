# %% [markdown]
# # A proven phase diagram
#
# Two features share one hidden dimension; the second has importance r. Is it ignored, does it have
# the dimension to itself, or do both share it? We search all weights and biases by boxes, with
# interval arithmetic, so that the answer is a theorem: what is left holds every global optimum.

# %%
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import circuitax as cx
from circuitax.lab.runs import accepted_run

prove_pair = cx.superposition.pair_proof.prove_pair
Candidates = cx.superposition.pair_proof.Candidates
CLASSES = ("ignored", "dedicated", "opposite signs", "equal signs")
none = Candidates(np.zeros((0, 2)), np.zeros((0, 2)))
importance = np.array([0.1, 0.5, 2.0, 10.0])
proof = prove_pair(0.8, importance, none)
for r, possible, low, high in zip(
    importance, proof.possible, proof.lower, proof.upper, strict=True
):
    held = [name for name, may in zip(CLASSES, possible, strict=True) if may]
    print(f"r = {r}: {' or '.join(held)}; the least loss is in [{low:.7f}, {high:.7f}]")

# %% [markdown]
# No optimiser was asked: the loss of ignoring a feature, `p/3 − p²/4` times its importance, is
# candidate enough, because at this density it is the optimum. Where features are rarer, sharing is
# better. The accepted run of `phase_proof` has a whole diagram, 24 densities by 24 importances.

# %%
with xr.open_dataset(accepted_run("phase_proof") / "data.nc") as kept:
    record = kept.load()
possible = record.possible.astype(bool)
proven = possible.sum("class") == 1
print(f"proven at {int(proven.sum())} of {proven.size} points")
kind = possible.argmax("class").where(proven)
figure, ax = plt.subplots(figsize=(4.4, 3.2), layout="constrained")
mesh = ax.pcolormesh(record.importance, 1 / record.density, kind, cmap="viridis", vmin=0, vmax=3)
ax.set(xscale="log", yscale="log", xlabel="importance of the second feature", ylabel="1/p")
bar = figure.colorbar(mesh, ticks=range(4))
bar.set_ticklabels(CLASSES)
figure.set_label(
    "Proven classes over importance and 1/p: the second feature is ignored at low importance, "
    "dedicated at high importance, and both share the dimension where features are rare."
)

# %% [markdown]
# A point where the search left two classes would be white. What two neighbouring points say proves
# nothing about the points between them, but the search also encloses boundaries: at a density of
# 0.3, the class changes between two importances that differ in the fourth digit.

# %%
between = record.boundary.sel(line=0.3).values
print("the class changes between importances", between.round(5))
