"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

from dataclasses import asdict, dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    require_at_least,
    require_divides,
    require_equal,
    require_readable,
)
from circuitax.kit.kept_models import notes_of_kept
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import drawn_by_each, each_member, each_with_own
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.head_roles import example_member, roles
from experiments.induction.shared.two_layers import circuit_data
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.two_layer_circuits.text_readings import text_readings

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
        chunk: Steps between two looks; must divide ``optim.steps``.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: int = 10
    texts: int = 32
    chunk: int = 100

    def __post_init__(self) -> None:
        require_at_least(self, 1, "seeds", "texts")
        require_divides(self, "chunk", "optim.steps")
        require_equal(self, 2, "model.n_layers")
        require_readable(self.model, d_vocab=self.task.d_vocab, length=self.task.length)
        replace(self.task, distinct=True)
        require_arrays(
            self,
            "3 seeds model",
            "task.batch task.length model.d_vocab",
            "task.batch model.n_heads task.length task.length",
            "seeds texts task.length model.d_vocab",
            "seeds texts model.n_heads task.length task.length",
        )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
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
        null=1 / np.sqrt(spec.model.d_model),
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
    return Record(data=roles(data), notes=notes | notes_of_kept({MODEL: spec.model}, [steps]))
