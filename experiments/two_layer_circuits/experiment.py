"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

from dataclasses import asdict, dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.circuits.term_losses import first_order_selections
from circuitax.circuits.text_readings import text_readings
from circuitax.circuits.weight_readings import weight_readings
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.lab.language_sizes import require_readable
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.plain import to_plain
from circuitax.models.transformer import Transformer
from circuitax.records.head_roles import roles
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.selection import divergence
from experiments.two_layer_circuits.claims import CLAIMS as CLAIMS
from experiments.two_layer_circuits.claims import estimates

BUDGET_SECONDS = 60
PAPER_SECONDS = 4_300  # by its work against quick scale; not run


@dataclass(frozen=True)
class Spec:
    """One recipe, many seeds.

    Attributes:
        model: Sizes; two layers.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members, each with its own initialisation and data.
        texts: Texts to measure on.
        chunk: Steps between two looks; must divide ``optim.steps``.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: int = 10
    texts: int = 32
    chunk: int = 100

    def __post_init__(self) -> None:
        for name in ("seeds", "texts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.chunk < 1 or self.optim.steps % self.chunk:
            raise ValueError(f"chunk={self.chunk} must divide optim.steps={self.optim.steps}")
        if self.model.n_layers != 2:
            raise ValueError(f"model.n_layers={self.model.n_layers} must be 2")
        require_readable(self.model, d_vocab=self.task.d_vocab, length=self.task.length)
        replace(self.task, distinct=True)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train, then read the weights at both ends and the runs at the last."""
    exam = replace(spec.task, batch=spec.texts, distinct=True)(derive(key, "evaluation"))
    plan = Plan(NextToken(Transformer(spec.model), spec.task), spec.optim, spec.chunk)
    members = new_members(derive(key, "training"), spec.optim.learning_rate, jnp.zeros(spec.seeds))
    read = jax.jit(jax.vmap(weight_readings))
    state, train = init(plan, members), advance(plan, members)
    before = jax.tree.map(np.asarray, read(model_from_params(state.params, spec.model)))
    n_chunks = spec.optim.steps // spec.chunk
    state, _ = lab.loop("training", state, train, n_chunks, show="loss")
    models = model_from_params(state.params, spec.model)
    lab.save_arrays("weights", models)
    after = lab.stage("weights", read, models)
    late = spec.task.max_period + 1  # the first repeat of the longest period comes unannounced
    examine = jax.vmap(lambda model: text_readings(model, exam, late))
    runs = lab.stage("runs", jax.jit(examine), models)
    patterns = jax.vmap(lambda model: forward(model, exam[0])[1].patterns)(models)
    arrays = _arrays(spec, before, after, runs) | {
        "pattern": (("member", "layer", "head", "dest", "src"), np.asarray(patterns)),
        "text": ("dest", np.asarray(exam[0])),
        "alive": ("member", np.asarray(state.alive)),
    }
    data = roles(xr.Dataset(arrays, coords={"kind": ["Q", "K", "V"]}))
    measured, unmet = estimates(data)
    notes = {"divergence": divergence(state.alive, state.step), "late": late,
             "model": to_plain(spec.model), "task": asdict(spec.task)}  # fmt: skip
    return Record(data=data, measured=measured, unmet=unmet, notes=notes)


def _arrays(
    spec: Spec, before: dict[str, np.ndarray], after: dict[str, np.ndarray],
    runs: dict[str, np.ndarray],
) -> dict[str, tuple]:  # fmt: skip
    heads, pairs = ("member", "layer", "head"), ("member", "writer", "reader")
    axes = {
        "composition": ("member", "kind", *pairs[1:]),
        "composition_z": ("member", "kind", *pairs[1:]),
        "composition_most": ("member", "kind", *pairs[1:]),
        "copying": heads,
        "matching": pairs,
        "order_loss": ("member", "order"),
        "first_order_loss": ("member", "selection"),
        "score_loss": ("member", "score_selection"),
        "ablated": heads,
        "ablated_preserving": heads,
        "stripes": heads,
        "top_is_match": heads,
        "raises": heads,
        "prefix": heads,
        "previous": heads,
        "loss": ("member",),
        "loss_by_position": ("member", "position"),
        "chance": ("member",),
        "identity": ("member",),
    }
    found = after | runs
    arrays: dict[str, tuple] = {name: (dims, found[name]) for name, dims in axes.items()}
    arrays |= {f"{name}_at_init": (axes[name], values) for name, values in before.items()}
    return arrays | {
        "null": ((), 1 / np.sqrt(spec.model.d_model)),
        "uniform": ((), np.log(spec.model.d_vocab)),
        "selected": (("selection", "subset"), first_order_selections(2).astype(int)),
    }
