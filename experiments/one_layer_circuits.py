"""One layer: skip-trigrams read from real-text weights, copying, positions, bugs, and the limit."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.data.text import TextSpec, open_text
from circuitax.data.windows import spaced_windows
from circuitax.kernel.activations import Activation
from circuitax.kernel.keys import derive
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.lab.lab import Lab
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.one_layer_claims import CLAIMS as CLAIMS
from experiments.one_layer_claims import estimates, learned
from experiments.one_layer_measures import bug_price, head_tables, of_weights
from experiments.one_layer_unless import UnlessTask, additivity_gap

BUDGET_SECONDS = 60
requires = ("text_models",)


@dataclass(frozen=True)
class Spec:
    """What is read from the one-layer text models, and the language that no sum can express.

    Attributes:
        text: The text that ``text_models`` was trained on; its held-out part prices the bugs.
        windows: Held-out windows for the price.
        pairs: Most frequent (source, destination) pairs that get a free vector.
        sources: Rows of the skip-trigram table of a head.
        entries: Destinations and outs in a row.
        unless: The language "a unless b", and the model trained on it.
        optim: Optimizer of that model.
    """

    text: TextSpec = field(default_factory=TextSpec)
    windows: int = 512
    pairs: int = 64
    sources: int = 12
    entries: int = 5
    unless: UnlessTask = field(default_factory=UnlessTask)
    optim: OptimSpec = field(default_factory=OptimSpec)

    def __post_init__(self) -> None:
        for name in ("windows", "pairs", "sources", "entries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Tables and scores of every head before and after training; the price of bugs; the gap."""
    upstream = lab.input("text_models")
    plain = upstream.notes["model"]
    named = {
        "positions": Positions(plain["positions"]),
        "norm": Norm(plain["norm"]),
        "activation": Activation(plain["activation"]),
    }
    model = TransformerSpec(**plain | named | {"n_layers": 1})
    like = jax.eval_shape(lambda: init_weights(jax.random.key(0), model))
    steps = upstream.notes["steps_kept"]
    first, last = (
        lab.load_arrays(f"layers-1-step-{step}", source="text_models", like=like)
        for step in (steps[0], steps[-1])
    )
    first, last = (jax.tree.map(jnp.asarray, weights) for weights in (first, last))
    forward_spec = model.forward_spec()
    read = jax.jit(jax.vmap(partial(of_weights, spec=forward_spec, n_ctx=model.n_ctx or 64)))
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    tables = jax.jit(partial(head_tables, spec=forward_spec, n=spec.sources, k=spec.entries))
    one = jax.tree.map(lambda leaf: leaf[0], last)
    table = lab.stage("tables", tables, one)
    text = open_text(spec.text)
    windows = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, model.n_ctx or 64))
    price = jax.jit(jax.vmap(partial(bug_price, spec=forward_spec, n_pairs=spec.pairs), (0, None)))
    bugs = lab.stage("bugs", price, last, windows)
    gap = additivity_gap(spec.unless, spec.optim, derive(key, "unless"), lab)
    data = _dataset(before, after, table, bugs, gap)
    data = data.assign_coords(token=upstream.data.token)
    data["alive"] = upstream.data.alive.sel(model="layers-1", drop=True)
    data["learned"] = learned(data)
    measured, unmet = estimates(data)
    return Record(data=data, measured=measured, unmet=unmet)


def _dataset(
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
    table: dict[str, np.ndarray],
    bugs: dict[str, np.ndarray],
    gap: dict[str, np.ndarray],
) -> xr.Dataset:
    heads = ("member", "head")
    axes: dict[str, tuple[str, ...]] = {
        "copying": heads,
        "top_1": heads,
        "top_5": heads,
        "diagonal": heads,
        "positional": heads,
        "eigenvalues": (*heads, "eigenvalue"),
        "position_scores": (*heads, "offset"),
    }
    rows = {
        "sources": ("head", "row"),
        "weight": ("head", "row"),
        "destinations": ("head", "row", "entry"),
        "scores": ("head", "row", "entry"),
        "outs": ("head", "row", "entry"),
        "raises": ("head", "row", "entry"),
    }
    arrays: dict[str, tuple[tuple[str, ...], Array | np.ndarray]] = {}
    for name, dims in axes.items():
        arrays[name] = (dims, after[name])
        arrays[f"{name}_at_init"] = (dims, before[name])
    arrays |= {name: (dims, table[name]) for name, dims in rows.items()}
    arrays |= {name: (("member",), values) for name, values in bugs.items()}
    arrays |= {name: (("run", "cell")[: values.ndim], values) for name, values in gap.items()}
    return xr.Dataset(arrays)
