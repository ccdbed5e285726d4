"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Int

from circuitax.circuits.detectors import induction_scores, shares_at_repeats, sums_at_repeats
from circuitax.circuits.losses import score_losses, term_losses
from circuitax.circuits.patching import ablated_metrics, ablation_error, each_component
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as seen_run
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import notes_of_kept
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import drawn_by_each, each_member, each_with_own
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.head_roles import example_member, roles
from experiments.induction.shared.two_layers import circuit_data, require_readable
from experiments.induction.shared.weight_readings import weight_readings

# The name by which the models are kept.
MODEL = "two-layers"


@dataclass(frozen=True)
class Spec:
    """One recipe, many seeds.

    Attributes:
        model: Sizes; two layers.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members, each with its own initialisation and data.
        texts: Texts to measure on, of each seed its own.
        chunk: Steps between two looks.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 10
    texts: Positive = 32
    chunk: Annotated[int, "divides optim.steps"] = 100

    def __post_init__(self) -> None:
        if self.model.n_layers != 2:
            raise ValueError(f"model.n_layers={self.model.n_layers} must be 2")
        require_readable(self.model, self.task)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train, then read the weights at both ends and the runs at the last."""
    source = replace(spec.task, batch=spec.texts, distinct=True)
    exams = drawn_by_each(source, derive(key, "evaluation"), spec.seeds)
    late = spec.task.max_period + 1  # the first repeat of the longest period comes unannounced
    examine = each_with_own(partial(text_readings, late=late), exams)
    problem = NextToken(Transformer(spec.model), spec.task)
    plan = Plan(problem, spec.optim, spec.chunk, mesh=lab.mesh)
    members = new_members(derive(key, "training"), spec.optim.learning_rate, jnp.zeros(spec.seeds))
    as_models = partial(model_from_params, spec=spec.model)
    read = each_member(weight_readings)
    state, steps = init(plan, members), spec.optim.steps
    before = jax.tree.map(np.asarray, read(as_models(state.params)))
    trained = measured_training(
        lab,
        "training",
        state,
        advance(plan, members),
        steps=steps,
        every=spec.chunk,
        as_models=as_models,
        keep_at=(steps,),
        keep_as=MODEL,
    )
    models = trained.models
    after = lab.stage("weights", read, models)
    runs = lab.stage("runs", examine, models)
    data = circuit_data(before, after, runs).assign(
        uniform=np.log(spec.model.d_vocab),
        alive=("member", trained.alive),
    )
    # Of the seed that is drawn alone: those of all would be most of the record.
    drawn = example_member(data)
    text = exams[drawn, 0]
    patterns = jax.jit(forward)(models[drawn], text)[1].patterns
    data["text"] = ("dest", np.asarray(text))
    data["pattern"] = (("layer", "head", "dest", "src"), np.asarray(patterns))
    notes = {"divergence": trained.divergence, "late": late, "task": asdict(spec.task)}
    kept = notes_of_kept({MODEL: spec.model}, [steps])
    return roles(data).assign_attrs(notes | kept)


def text_readings(model: Model, texts: Int[Array, "batch n_ctx"], late: int) -> dict[str, Array]:
    """Detector scores, losses of terms and losses without each head, means over repeated texts.

    Losses are means over the tokens from ``late`` on, all of which earlier tokens decide;
    ``identity`` is the greatest error of `identities.ablation_error` on the first text, relative to
    the greatest logit.
    """
    scores = induction_scores(model, texts)

    def one(text: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        seen = seen_run(model, text, outputs=True)
        terms = term_losses(seen)

        def loss(logits: Array) -> Array:
            return next_token_losses(logits, text)[late - 1 :].mean()

        cells = each_component(model)
        shape = cells.heads.shape[1:]
        preserving = ablated_metrics(model, text, cells, loss, preserved=seen.trace)
        return {
            "order_loss": terms.order[:, late - 1 :].mean(axis=1),
            "first_order_loss": terms.first_order[:, late - 1 :].mean(axis=1),
            "score_loss": score_losses(seen)[:, late - 1 :].mean(axis=1),
            "ablated_preserving": preserving.reshape(shape),
        }, sums_at_repeats(seen, jnp.arange(1, len(text)) >= late)

    found, sums = jax.lax.map(one, texts)
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    means |= shares_at_repeats(jax.tree.map(lambda x: x.sum(axis=0), sums))
    named = {"prefix": scores.prefix, "previous": scores.previous}
    first = seen_run(model, texts[0])
    identity = jnp.abs(ablation_error(first)).max() / jnp.abs(first.logits).max()
    return means | named | {"identity": identity}
