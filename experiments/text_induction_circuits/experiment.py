"""The induction circuit on real text: composition, corner, repeats and worth of its paths."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.in_context import repeated_pairs
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.repeats import shares_at_repeats, sums_at_repeats
from circuitax.circuits.weight_readings import weight_readings
from circuitax.circuits.window_readings import window_readings
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kit.two_layers import circuit_data, two_layer_spec
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.records.head_roles import roles
from circuitax.records.record import Record
from experiments.text_induction_circuits.claims import CLAIMS as CLAIMS
from experiments.text_induction_circuits.claims import estimates

BUDGET_SECONDS = 30
PAPER_SECONDS = 4_500  # by its work against quick scale; not run
requires = ("text_induction",)
ARM, WEIGHTS = "2 layers, primed", "2-layers-primed"


@dataclass(frozen=True)
class Spec:
    """How much text is read; the models are the primed two-layer ones of ``text_induction``.

    Attributes:
        windows: Held-out windows to measure on, from the first of those kept.
        offsets: Distances at which attention is tabled, from the present token back.
        repeats: Texts of random tokens, repeated, which the models were not trained on.
    """

    windows: int = 128
    offsets: int = 8
    repeats: int = 32

    def __post_init__(self) -> None:
        for name in ("windows", "offsets", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Read the weights at both ends of training; run the last on text and on random repeats."""
    upstream = lab.input("text_induction")
    model = two_layer_spec(upstream)
    n_ctx = model.n_ctx or 0
    if spec.offsets > n_ctx // 2:
        raise ValueError(f"offsets={spec.offsets} must be at most half of n_ctx={n_ctx}")
    first, last = (
        kept_weights(lab, "text_induction", name, model) for name in (f"{WEIGHTS}-step-0", WEIGHTS)
    )
    held_out = lab.load_arrays("held-out", source="text_induction")["windows"]
    windows = jnp.asarray(held_out[: spec.windows])
    read = jax.jit(jax.vmap(weight_readings))
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    examine = jax.vmap(lambda model: window_readings(model, windows, spec.offsets))
    runs = lab.stage("runs", jax.jit(examine), last)
    exam = RepeatedSource(
        spec.repeats, n_ctx, model.d_vocab, min_period=n_ctx // 4, max_period=n_ctx // 2,
        distinct=True,
    )(derive(key, "repeats"))  # fmt: skip
    detect = jax.jit(jax.vmap(lambda model: induction_scores(model, exam)))
    scores = lab.stage("scores", lambda: detect(last)._asdict())
    look = jax.jit(jax.vmap(_at_repeats, (0, None)))
    seen = {where: lab.stage(f"repeats-{where}", look, last, texts)
            for where, texts in (("text", windows), ("random", exam))}  # fmt: skip
    data = circuit_data(before, after, runs | {"prefix": scores["prefix"]})
    heads = ("member", "layer", "head")
    data["previous"] = (heads, scores["previous"])
    for name in ("stripes", "top_is_match", "raises"):
        data[name] = (("where", *heads), np.stack([found[name] for found in seen.values()]))
    data = data.assign_coords(where=list(seen))
    pattern = jax.vmap(lambda model: forward(model, exam[0])[1].patterns)(last)
    data["pattern"] = ((*heads, "dest", "src"), np.asarray(pattern))
    data["text"] = ("dest", np.asarray(exam[0]))
    data["alive"] = upstream.data.alive.sel(arm=ARM, drop=True)
    data["uniform"], data["n_ctx"] = np.log(model.d_vocab), n_ctx
    data = roles(data)
    measured, unmet = estimates(data)
    notes = {"prefix_by_chance": float(scores["chance"][0])}
    return Record(data=data, measured=measured, unmet=unmet, notes=notes)


def _at_repeats(model: Model, texts: Array) -> dict[str, Array]:
    """What heads do where a pair of tokens comes again, pooled over texts."""

    def one(text: Array) -> dict[str, Array]:
        return sums_at_repeats(run_model(model, text), repeated_pairs(text))

    return shares_at_repeats(jax.tree.map(lambda x: x.sum(axis=0), jax.lax.map(one, texts)))
