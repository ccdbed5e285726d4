"""Roles of heads, told apart by their attention, by their writes, and by patching."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
import xarray as xr

from circuitax.circuits.paths.components import Components, component_names, components_of
from circuitax.circuits.weights.composition import KINDS
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kit.checks import require_at_least
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.kept_texts import kept_windows
from circuitax.kit.members import each_member
from circuitax.kit.memory import require_memory
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.induction.head_roles.components import REPLACED, alignments, of_windows
from experiments.induction.head_roles.path_patching import (
    ROUTES,
    of_pairs,
    swapped_pairs,
    swapped_places,
)
from experiments.induction.head_roles.readings import of_texts, of_weights
from experiments.induction.shared.head_roles import role_of_each, roles

HEADS = ("member", "layer", "head")
PAIRS = ("member", "writer", "kind", "reader")
# Of all that is read of the two-layer models.
AXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("previous", "duplicate", "duplicate_null", "duplicate_std"), HEADS),
    **dict.fromkeys(("prefix", "prefix_null", "prefix_std", "copying", "moves_name"), HEADS),
    **dict.fromkeys(("own", "own_null", "own_token", "alignment", "resampled"), HEADS),
    **dict.fromkeys(("overlap", "overlap_z", "edges"), PAIRS),
    **dict.fromkeys(("previous_null", "copying_null"), ("member",)),
    **dict.fromkeys(("clean", "corrupted", "remainder"), ("member",)),
    "routes": ("member", "writer", "route"),
    "virtual": ("member", "writer", "reader"),
    "stream": ("member", "place", "position"),
    "sources": (*HEADS, "position"),
    "direct": ("member", "component"),
}
# Of what is one number for each full transformer.
OF_ONE_MODEL = (
    "loss",
    "norm_constant",
    "norm_price",
    "bandwidth_written",
    "bandwidth_effective",
    "bandwidth_reused",
)


@dataclass(frozen=True)
class Spec:
    """Texts for the models of ``two_layer_circuits`` and the full ones of ``text_models``.

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
        require_at_least(self, 1, "texts", "pairs")
        require_at_least(self, 2, "windows", "shuffles")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Roles and patches of small models that do induction, components of models of real text."""
    return Record(data=xr.merge([induction(spec, key, lab), full(spec, lab)]))


def induction(spec: Spec, key: jax.Array, lab: Lab) -> "xr.Dataset":
    """Two layers, many seeds: scores with their nulls, patches between pairs of texts."""
    upstream, kept = lab.input("two_layer_circuits"), KeptModels.of_input(lab, "two_layer_circuits")
    models, task = kept.members("two-layers"), RepeatedSource(**upstream.notes["task"])
    require_memory(spec, spec.texts * task.length, "texts")
    require_memory(spec, spec.pairs * 2 * task.max_period, "pairs")
    require_memory(spec, spec.shuffles * task.length**2, "shuffles")
    texts = replace(task, batch=spec.texts, distinct=True)(derive(key, "texts"))
    places = swapped_places(task.max_period)
    pairs = swapped_pairs(derive(key, "pairs"), spec.pairs, task.d_vocab, task.max_period)
    look = each_member(partial(of_texts, shuffles=spec.shuffles), texts, derive(key, "shuffles"))
    patch = each_member(partial(of_pairs, places=places), pairs)
    written = lab.stage("writing", each_member(of_weights), models)
    seen = lab.stage("looking", look, models)
    found = written | seen | lab.stage("patching", patch, models)
    data = xr.Dataset(
        {name: (axes, found[name]) for name, axes in AXES.items()},
        coords={
            "kind": list(KINDS),
            "place": [*(f"into layer {i}" for i in range(models.n_layers)), "final"],
            "route": list(ROUTES),
            "component": _names(models, texts[0]),
            "head": range(models.n_heads),
        },
    )
    data = data.assign(
        alive=upstream.data.alive,
        swapped=("swap", np.array(places)),
        moves_name_null=1 / pairs.clean.shape[1],
        alignment_null=0.0,
    )
    return roles(data).assign(role=role_of_each(data))


def full(spec: Spec, lab: Lab) -> "xr.Dataset":
    """Pre-LN with MLPs, a few seeds: direct effects, ablations, norms and bandwidth.

    Raises:
        ValueError: If ``text_models`` trained no full transformer.
    """
    upstream, kept = lab.input("text_models"), KeptModels.of_input(lab, "text_models")
    if "full" not in kept.names:
        raise ValueError("full_seeds=0 of text_models must be at least 1: there is no full model")
    first, last = kept.members("full", kept.steps[0]), kept.members("full")
    windows = kept_windows(lab, "text_models", spec.windows)
    found = lab.stage("components", each_member(of_windows, windows), last)
    align = each_member(alignments, windows)
    after, before = (
        lab.stage("alignment", align, last),
        lab.stage("alignment_at_init", align, first),
    )
    names = _names(last, windows[0])
    cells = [name for name in names if name.startswith(("head", "mlp"))]
    members, each = "full_member", ("full_member", "cell")
    alive = upstream.data.alive.sel(model="full").values[: len(found["loss"])]
    return xr.Dataset(
        {name: (members, found[name]) for name in OF_ONE_MODEL}
        | {
            "alignment_full": (each, after),
            "alignment_full_at_init": (each, before),
            "direct_full": ((members, "full_component"), found["direct"]),
            "nats_lost": ((members, "replaced", "cell"), found["nats_lost"]),
            "looks_back_full": ((members, "full_layer", "full_head"), found["looks_back"]),
            "remainder_full": (members, found["remainder"]),
            "full_alive": (members, alive == 1),
            "full_uniform": np.log(last.d_vocab),
            "bandwidth_null": last.blocks.attention.W_O.shape[-2] / last.d_model,
        },
        coords={"full_component": [*names, "bias"], "replaced": list(REPLACED), "cell": cells},
    )


def _names(models: Model, text: jax.Array) -> list[str]:
    """The names of the components that one of the models adds up."""

    def parts(model: Model) -> Components:
        return components_of(run_model(model, text, outputs=True))

    return list(component_names(jax.eval_shape(parts, models[0])))
