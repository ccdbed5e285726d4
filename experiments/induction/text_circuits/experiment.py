"""Two layers on real text: what paths of each order are worth, and what heads look at."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import jax
import numpy as np
import xarray as xr

from circuitax.circuits.detectors import induction_scores
from circuitax.config.ranges import Positive
from circuitax.data.text import TextSpec
from circuitax.kernel.keys import derive
from circuitax.kit.kept_models import KeptModels, kept_windows
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from experiments.induction.shared.two_layers import AXES, n_ctx_for, repeated_texts
from experiments.induction.shared.window_readings import order_losses, window_readings

MODEL = "layers-2"


@dataclass(frozen=True)
class Spec:
    """Amount of text; the models are the two-layer ones of ``text_models``.

    Attributes:
        task: The text that those models were trained on.
        windows: Held-out windows to measure on, at most those that were kept.
        offsets: Distances at which attention is tabled, from the present token back.
        repeats: Texts of repeated random tokens, on which induction heads would show.
    """

    task: TextSpec = field(default_factory=TextSpec)
    windows: Positive = 128
    offsets: Annotated[int, "[3, inf)"] = 8
    repeats: Positive = 32

    def upstream(self, name: str) -> dict[str, str | int]:
        """``text_models`` of the same text; see `circuitax.config.plan`."""
        return self.task.upstream()


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Run the models of every step kept, and look at heads of the last ones, on held-out text."""
    upstream, kept = lab.input("text_models").data, KeptModels.of_input(lab, "text_models")
    model = kept.spec(MODEL)
    n_ctx = n_ctx_for(model, spec.offsets)
    every, last = kept.at_every_step(MODEL), kept.members(MODEL)
    windows = kept_windows(lab, "text_models", spec.windows)
    exam = repeated_texts(derive(key, "repeats"), spec.repeats, model)
    orders = each_member(jax.vmap(lambda model: order_losses(model, windows)))
    by_step = lab.stage("orders", orders, every)
    examine = each_member(partial(window_readings, offsets=spec.offsets), windows)
    runs = lab.stage("runs", examine, last)
    detect = each_member(lambda model: {"prefix": induction_scores(model, exam).prefix})
    read = runs | lab.stage("repeats", detect, last)
    data = xr.Dataset({name: (AXES[name], values) for name, values in read.items()}).assign(
        order_loss_by_step=(("step", *AXES["order_loss"]), by_step),
        alive=upstream.alive.sel(model=MODEL, drop=True),
        uniform=np.log(model.d_vocab),
        n_ctx=n_ctx,
        bigram_loss=upstream.bigram_loss,
    )
    return data.assign_coords(step=kept.steps)
