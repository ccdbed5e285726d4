"""The induction circuit on real text: composition, corner, repeats and worth of its paths."""

from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores, shares_at_repeats, sums_at_repeats
from circuitax.circuits.losses import repeated_pairs
from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kit.kept_models import KeptModels, kept_windows
from circuitax.kit.members import each_member, file_name_of
from circuitax.lab.lab import Lab
from experiments.induction.shared.head_roles import roles
from experiments.induction.shared.two_layers import HEADS, circuit_data, n_ctx_for, repeated_texts
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.shared.window_readings import window_readings

ARM = "2 layers, primed"


@dataclass(frozen=True)
class Spec:
    """Amount of text; the models are the primed two-layer ones of ``text_induction``.

    Attributes:
        windows: Held-out windows to measure on, from the first of those kept.
        offsets: Distances at which attention is tabled, from the present token back.
        repeats: Texts of random tokens, repeated, which the models were not trained on.
    """

    windows: Positive = 128
    offsets: Positive = 8
    repeats: Positive = 32


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read the weights at both ends of training; run the last on text and on random repeats."""
    kept, name = KeptModels.of_input(lab, "text_induction"), file_name_of(ARM)
    model = kept.spec(name)
    n_ctx = n_ctx_for(model, spec.offsets)
    first, last = kept.members(name, kept.steps[0]), kept.members(name)
    windows = kept_windows(lab, "text_induction", spec.windows)
    exam = repeated_texts(derive(key, "repeats"), spec.repeats, model)
    read = each_member(weight_readings)
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    examine = each_member(lambda model: window_readings(model, windows, spec.offsets))
    runs = lab.stage("runs", examine, last)
    detect = each_member(lambda model: induction_scores(model, exam)._asdict())
    scores = lab.stage("scores", detect, last)
    seen = {
        where: lab.stage(f"repeats-{where}", each_member(_at_repeats, texts), last)
        for where, texts in (("text", windows), ("random", exam))
    }
    patterns = jax.vmap(lambda model: forward(model, exam[0])[1].patterns)(last)
    detected = {score: scores[score] for score in ("prefix", "previous")}
    at_repeats = {
        score: (("where", *HEADS), np.stack([found[score] for found in seen.values()]))
        for score in ("stripes", "top_is_match", "raises")
    }
    data = circuit_data(before, after, runs | detected).assign(at_repeats)
    data = data.assign(
        pattern=((*HEADS, "dest", "src"), np.asarray(patterns)),
        text=("dest", np.asarray(exam[0])),
        alive=lab.input("text_induction").data.alive.sel(arm=ARM, drop=True),
        uniform=np.log(model.d_vocab),
        n_ctx=n_ctx,
    )
    return roles(data.assign_coords(where=list(seen)))


def _at_repeats(model: Model, texts: Array) -> dict[str, Array]:
    """Scores of heads at recurring pairs of tokens, pooled over texts."""

    def one(text: Array) -> dict[str, Array]:
        return sums_at_repeats(run_model(model, text), repeated_pairs(text))

    return shares_at_repeats(jax.tree.map(lambda x: x.sum(axis=0), jax.lax.map(one, texts)))
