"""One layer: skip-trigrams read from real-text weights, copying, positions, bugs, additivity."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.data.corpus import TextError
from circuitax.data.text import TextSpec, open_text
from circuitax.data.triples import MOST_TOKENS
from circuitax.data.windows import WindowSource, device_tokens, spaced_windows
from circuitax.kernel.keys import derive
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.models.plain import from_plain
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.one_layer_circuits.additive import AdditiveTask, text_gap
from experiments.one_layer_circuits.bugs import Search, text_bugs
from experiments.one_layer_circuits.claims import CLAIMS as CLAIMS
from experiments.one_layer_circuits.claims import estimates, learned
from experiments.one_layer_circuits.readings import bug_price, head_tables, of_weights
from experiments.one_layer_circuits.unless import UnlessTask, additivity_gap

BUDGET_SECONDS = 110
PAPER_SECONDS = 650_000  # by its work against quick scale; not run
requires = ("text_models",)


@dataclass(frozen=True)
class Spec:
    """What is read from the one-layer text models, and the language that no sum can express.

    Attributes:
        task: The text that ``text_models`` was trained on; its held-out part prices the bugs.
        windows: Held-out windows for the price and the gap, and windows of the training text where
            bugs are looked at.
        pairs: Most frequent (source, destination) pairs that get a free vector.
        sources: Rows of the skip-trigram table of a head.
        entries: Destinations and outs in a row.
        bugs: Bugs listed for each model.
        bug_tokens: Most frequent tokens, among which bugs are sought.
        bug_places: Only pairs that stand at so many places of these windows are searched.
        bug_sources: Sources of largest weight, for each head, whose bugs are sought.
        additive: How sums over sources are trained on the text.
        unless: The language "a unless b", and the model trained on it.
        optim: Optimizer of that model.
    """

    task: TextSpec = field(default_factory=TextSpec)
    windows: int = 512
    pairs: int = 64
    sources: int = 4
    entries: int = 4
    bugs: int = 12
    bug_tokens: int = 512
    bug_places: int = 10
    bug_sources: int = 32
    additive: AdditiveTask = field(default_factory=AdditiveTask)
    unless: UnlessTask = field(default_factory=UnlessTask)
    optim: OptimSpec = field(default_factory=OptimSpec)

    def __post_init__(self) -> None:
        counts = ("windows", "pairs", "sources", "entries", "bugs", "bug_tokens", "bug_places",
                  "bug_sources")  # fmt: skip
        for name in counts:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.windows < 2:
            raise ValueError(f"windows={self.windows} must be at least 2: even ones fit, odd price")
        if self.bug_tokens > min(self.task.d_vocab, MOST_TOKENS):
            raise ValueError(
                f"bug_tokens={self.bug_tokens} must be at most {MOST_TOKENS} and at most "
                f"task.d_vocab={self.task.d_vocab}"
            )
        if self.bug_sources > self.bug_tokens:
            raise ValueError(
                f"bug_sources={self.bug_sources} must be at most bug_tokens={self.bug_tokens}"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Tables and scores of every head before and after training; bugs; what sums cannot do."""
    upstream = lab.input("text_models")
    model_spec = from_plain(upstream.notes["model"], n_layers=1)
    length = model_spec.n_ctx or 0
    steps = upstream.notes["steps_kept"]
    first, last = (
        kept_weights(lab, "text_models", f"layers-1-step-{step}", model_spec)
        for step in (steps[0], steps[-1])
    )
    read = jax.jit(jax.vmap(partial(of_weights, n_ctx=length)))
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    tables = jax.jit(partial(head_tables, n=spec.sources, k=spec.entries))
    table = lab.stage("tables", tables, last.member(0))
    text = open_text(spec.task)
    if text.about() != upstream.notes["text"]:
        raise TextError(
            f"task names the corpus {text.corpus.title!r} at d_vocab={spec.task.d_vocab}, must "
            f"name the text of text_models, {upstream.notes['text']['corpus']!r} at "
            f"d_vocab={upstream.notes['text']['d_vocab']}"
        )
    tokens = device_tokens(text.tokens.train)
    train = np.asarray(tokens)
    held_out = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length))
    price = jax.jit(jax.vmap(partial(bug_price, n_pairs=spec.pairs), (0, None)))
    bugs = lab.stage("price", price, last, held_out)
    search = Search(spec.bug_tokens, spec.bug_sources, spec.bugs, spec.windows, length,
                    spec.bug_places)  # fmt: skip
    listed = lab.stage("bugs", text_bugs, last, train, search)
    source = WindowSource(spec.additive.batch, length, tokens)
    sums = text_gap(last, spec.additive, source, held_out, derive(key, "text"), lab)
    gap = additivity_gap(spec.unless, spec.optim, derive(key, "unless"), lab)
    data = _dataset(before, after, table, bugs | listed, sums, gap)
    looks = np.arange(data.sizes["look"]) * spec.additive.chunk
    data = data.assign_coords(token=upstream.data.token, look=looks)
    data["alive"] = upstream.data.alive.sel(model="layers-1", drop=True)
    data["learned"] = learned(data)
    data["bigram_loss"] = upstream.data.bigram_loss
    measured, unmet = estimates(data)
    return Record(data=data, measured=measured, unmet=unmet)


def _dataset(
    before: dict[str, np.ndarray], after: dict[str, np.ndarray], table: dict[str, np.ndarray],
    bugs: dict[str, np.ndarray], sums: dict[str, np.ndarray], gap: dict[str, np.ndarray],
) -> xr.Dataset:  # fmt: skip
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
    arrays |= {name: (("member", "bug")[: v.ndim], v) for name, v in bugs.items()}
    arrays |= {f"text_{name}": (("look", "continued")[-v.ndim :], v) for name, v in sums.items()}
    arrays |= {name: (("run", "cell")[: v.ndim], v) for name, v in gap.items()}
    return xr.Dataset(arrays)
