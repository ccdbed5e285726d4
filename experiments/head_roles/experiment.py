"""Who does what: heads told apart by what they look at, what they write, and by patching."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.circuits.components import Components, component_names, components_of
from circuitax.circuits.composition import KINDS
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.models.plain import from_plain
from circuitax.records.record import Record
from experiments.head_roles.claims import CLAIMS as CLAIMS
from experiments.head_roles.claims import estimates, named
from experiments.head_roles.components import REPLACED, alignments, of_windows
from experiments.head_roles.path_patching import ROUTES, of_pairs, swapped_pairs, swapped_places
from experiments.head_roles.readings import of_texts, of_weights

BUDGET_SECONDS = 40
PAPER_SECONDS = 8_000  # by its work against quick scale; not run
requires = ("two_layer_circuits", "text_models")


@dataclass(frozen=True)
class Spec:
    """What the models of ``two_layer_circuits`` and the full ones of ``text_models`` are read on.

    Attributes:
        texts: Texts of random tokens, repeated, on which heads get their roles.
        shuffles: Shuffles of the tokens of each, for the null of token masks; at least 2.
        pairs: Clean and corrupted texts to patch between.
        windows: Held-out windows for the full transformers, from the first of those kept; at least
            2, since each lends its outputs to the one before.
    """

    texts: int = 32
    shuffles: int = 64
    pairs: int = 32
    windows: int = 64

    def __post_init__(self) -> None:
        for name, least in (("texts", 1), ("pairs", 1), ("windows", 2), ("shuffles", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Roles and patches of small models that do induction, components of models of real text."""
    data = xr.merge([_induction(spec, key, lab), _full(spec, lab)])
    measured, unmet = estimates(data)
    return Record(data=data, measured=measured, unmet=unmet)


def _induction(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Two layers, many seeds: scores with their nulls, patches between pairs of texts."""
    upstream = lab.input("two_layer_circuits")
    model, task = from_plain(upstream.notes["model"]), RepeatedSource(**upstream.notes["task"])
    models = kept_weights(lab, "two_layer_circuits", "weights", model)
    texts = replace(task, batch=spec.texts, distinct=True)(derive(key, "texts"))
    places = swapped_places(task.max_period)
    pairs = swapped_pairs(derive(key, "pairs"), spec.pairs, task.d_vocab, task.max_period)
    looking = partial(of_texts, shuffles=spec.shuffles)
    patching = partial(of_pairs, places=places)
    written = lab.stage("writing", jax.jit(jax.vmap(of_weights)), models)
    seen = lab.stage("looking", jax.jit(jax.vmap(looking, (0, None, None))), models, texts,
                     derive(key, "shuffles"))  # fmt: skip
    patched = lab.stage("patching", jax.jit(jax.vmap(patching, (0, None))), models, pairs)
    found = written | seen | patched
    arrays = {name: (dims, found[name]) for name, dims in _axes().items()}
    data = xr.Dataset(
        arrays,
        coords={
            "kind": list(KINDS),
            "place": [*(f"into layer {i}" for i in range(model.n_layers)), "final"],
            "route": list(ROUTES),
            "component": _names(models, texts[0]),
            "head": range(model.n_heads),
        },
    )
    data["alive"] = upstream.data.alive
    data["swapped"] = ("swap", np.array(places))
    data["moves_name_null"] = 1 / pairs.clean.shape[1]
    data["alignment_null"] = 0.0
    return named(data)


def _full(spec: Spec, lab: Lab) -> xr.Dataset:
    """Pre-LN with MLPs, a few seeds: direct effects, ablations, norms and bandwidth."""
    upstream = lab.input("text_models")
    if "full" not in upstream.data.model.values:
        raise ValueError("full_seeds=0 of text_models must be at least 1: there is no full model")
    model = from_plain(upstream.notes["full"])
    windows = jnp.asarray(lab.load_arrays("held-out", source="text_models")["windows"])
    windows = windows[: spec.windows]
    steps = upstream.notes["steps_kept"]
    first, last = (
        kept_weights(lab, "text_models", f"full-step-{s}", model) for s in (steps[0], steps[-1])
    )
    examine = jax.jit(jax.vmap(of_windows, (0, None)))
    found = lab.stage("components", examine, last, windows)
    align = jax.jit(jax.vmap(alignments, (0, None)))
    aligned = {when: lab.stage(f"alignment{when}", align, models, windows)
               for when, models in (("", last), ("_at_init", first))}  # fmt: skip
    names = _names(last, windows[0])
    cells = [name for name in names if name.startswith(("head", "mlp"))]
    members, each = "full_member", ("full_member", "cell")
    alone = ("loss", "norm_constant", "norm_price", "bandwidth_written", "bandwidth_effective",
             "bandwidth_reused")  # fmt: skip
    alive = upstream.data.alive.sel(model="full").values[: len(found["loss"])]
    return xr.Dataset(
        {name: (members, found[name]) for name in alone}
        | {f"alignment_full{when}": (each, values) for when, values in aligned.items()}
        | {
            "direct_full": ((members, "full_component"), found["direct"]),
            "nats_lost": ((members, "replaced", "cell"), found["nats_lost"]),
            "remainder_full": (members, found["remainder"]),
            "full_alive": (members, alive == 1),
            "full_uniform": np.log(model.d_vocab),
            "bandwidth_null": last.blocks.attention.W_O.shape[-2] / model.d_model,
        },
        coords={"full_component": [*names, "bias"], "replaced": list(REPLACED), "cell": cells},
    )


def _names(models: Model, text: jax.Array) -> list[str]:
    def parts(model: Model) -> Components:
        return components_of(run_model(model, text, outputs=True))

    return list(component_names(jax.eval_shape(parts, models.member(0))))


def _axes() -> dict[str, tuple[str, ...]]:
    heads, pairs = ("member", "layer", "head"), ("member", "writer", "kind", "reader")
    scores = ("previous", "duplicate", "prefix", "copying", "moves_name", "own", "alignment",
              "own_token", "own_null", "duplicate_null", "duplicate_std", "prefix_null",
              "prefix_std", "resampled")  # fmt: skip
    alone = ("previous_null", "copying_null", "clean", "corrupted", "remainder")
    return dict.fromkeys(scores, heads) | dict.fromkeys(alone, ("member",)) | {
        "overlap": pairs, "overlap_z": pairs, "edges": pairs,
        "routes": ("member", "writer", "route"), "virtual": ("member", "writer", "reader"),
        "stream": ("member", "place", "position"), "sources": (*heads, "position"),
        "direct": ("member", "component"),
    }  # fmt: skip
