"""Two layers on real text: what paths of each order are worth, what heads look at, who composes."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.weight_readings import weight_readings
from circuitax.circuits.window_readings import order_losses, window_readings
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.keys import derive
from circuitax.kit.two_layers import circuit_data, two_layer_spec
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.text_circuits.claims import CLAIMS as CLAIMS
from experiments.text_circuits.claims import estimates

BUDGET_SECONDS = 25
PAPER_SECONDS = 8_500  # by its work against quick scale; not run
requires = ("text_models",)


@dataclass(frozen=True)
class Spec:
    """How much text is read; the models are the two-layer ones of ``text_models``.

    Attributes:
        windows: Held-out windows to measure on, from the first of those kept.
        offsets: Distances at which attention is tabled, from the present token back.
        repeats: Texts of repeated random tokens, on which induction heads would show.
    """

    windows: int = 128
    offsets: int = 8
    repeats: int = 32

    def __post_init__(self) -> None:
        for name in ("windows", "offsets", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Read the weights at every step kept, and run the last ones on held-out text."""
    upstream = lab.input("text_models")
    model = two_layer_spec(upstream)
    n_ctx = model.n_ctx or 0
    if spec.offsets > n_ctx // 2:
        raise ValueError(f"offsets={spec.offsets} must be at most half of n_ctx={n_ctx}")
    steps = upstream.notes["steps_kept"]
    kept = [kept_weights(lab, "text_models", f"layers-2-step-{step}", model) for step in steps]
    every, last = jax.tree.map(lambda *x: jnp.stack(x), *kept), kept[-1]
    held_out = lab.load_arrays("held-out", source="text_models")["windows"][: spec.windows]
    windows = jnp.asarray(held_out)
    read = jax.jit(jax.vmap(jax.vmap(weight_readings)))  # over checkpoints and members
    over_training = lab.stage("weights", read, every)
    before, after = (jax.tree.map(lambda x, i=i: x[i], over_training) for i in (0, -1))
    orders = jax.jit(jax.vmap(jax.vmap(lambda model: order_losses(model, windows))))
    over_training |= {"order_loss": lab.stage("orders", orders, every)}
    examine = jax.vmap(lambda model: window_readings(model, windows, spec.offsets))
    runs = lab.stage("runs", jax.jit(examine), last)
    exam = RepeatedSource(
        spec.repeats, n_ctx, model.d_vocab, min_period=n_ctx // 4, max_period=n_ctx // 2,
        distinct=True,
    )(derive(key, "repeats"))  # fmt: skip
    scores = jax.jit(jax.vmap(lambda model: induction_scores(model, exam)))
    found = lab.stage("repeats", lambda: scores(last)._asdict())
    data = circuit_data(before, after, runs | {"prefix": found["prefix"]})
    data = data.assign_coords(step=steps).assign(
        {
            f"{name}_by_step": (("step", *data[name].dims), over_training[name])
            for name in ("copying", "composition_z", "order_loss")
        }
    )
    data["alive"] = upstream.data.alive.sel(model="layers-2", drop=True)
    data["uniform"] = np.log(model.d_vocab)
    data["n_ctx"] = n_ctx
    data["null"] = 1 / np.sqrt(model.d_model)
    data["bigram_loss"] = upstream.data.bigram_loss
    measured, unmet = estimates(data)
    notes = {"prefix_by_chance": float(found["chance"][0])}
    return Record(data=data, measured=measured, unmet=unmet, notes=notes)
