"""Top-20 paths of SmolLM2-135M on prompts that repeat, each list with a proof or its stated gap.

What is split is the lead of the right next token over its strongest rival. Each prompt is a stage
of its own, so that a stopped run goes on where it was.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.ledger.ledger import Ledger, head_ledger
from circuitax.circuits.patching import head_gradients
from circuitax.circuits.paths.components import attribute
from circuitax.circuits.paths.expansion import Path, path_name
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run
from circuitax.kit.members import stack_named
from circuitax.kit.real_model import RANDOM, at_hand, open_weights, real_texts, token_names
from circuitax.lab.lab import Lab
from experiments.real_models.certified_paths.prompts import (
    Prompt,
    is_long_word,
    prose_prompts,
    random_prompts,
)
from experiments.real_models.shared.real_spec import RealSpec

SCORES = ("gradient", "frozen gradient", "direct effect")
POINTS = 25  # of the curve of the bound
# Dimensions of what is known of a prompt.
AXES = {
    "value": ("rank",),
    "path": ("rank",),
    "gap": ("point",),
    "missed_heads": ("score",),
}


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, and the number of its texts.

    Attributes:
        prompts: Prompts of each kind.
        lengths: Tokens of a prompt, odd; prompts go through them in turn.
        k: Paths in a list.
        budget: Evaluations after which a search ends without a proof.
    """

    prompts: Annotated[int, "[2, inf)"] = 30
    lengths: Annotated[tuple[int, ...], "[5, inf)"] = (13, 15, 19)
    k: Positive = 20
    budget: Annotated[int, "[1000, inf)"] = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lengths or any(length % 2 == 0 for length in self.lengths):
            raise ValueError(f"lengths={self.lengths} must be odd numbers, at least one")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """List the paths behind each prompt; without the packages say how to get them."""
    notes = at_hand(spec.weights, lab, text=True)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    prompts = _prompts(spec, model.d_vocab, host_generator(derive(key, "prompts")))
    found = [
        lab.stage(f"prompt-{i:03d}", examine, model, prompt, spec.k, spec.budget)
        for i, prompt in enumerate(lab.track(prompts, "prompts"))
    ]
    name = token_names(spec.weights)
    arrays: dict[str, Any] = {
        key: (("prompt", *AXES.get(key, ())), stack_named(found, key)) for key in found[0]
    }
    arrays |= {
        "text": ("prompt", ["".join(name(int(i)) for i in p.ids) for p in prompts]),
        "right": ("prompt", [name(prompt.right) for prompt in prompts]),
    }
    coords = {
        "kind": ("prompt", [prompt.kind for prompt in prompts]),
        "score": list(SCORES),
        "evaluations": ("point", _points(spec.budget)),
    }
    return xr.Dataset(arrays, coords, notes | {"k": spec.k, "budget": spec.budget})


def examine(model: Model, prompt: Prompt, k: int, budget: int) -> dict[str, Any]:
    """The ledger of one prompt, its search, and scores of heads for comparison."""
    seen = forward_run(model, prompt.ids, outputs=True)
    logits = np.asarray(seen.logits[-1], np.float64)
    others = np.where(np.arange(logits.size) == prompt.right, -np.inf, logits)
    rival = int(others.argmax())
    lead = logits[prompt.right] - logits[rival]
    frozen, last = frozen_model(seen, mlps="sources"), prompt.ids.size - 1
    direction = frozen.read_out.W_U[:, prompt.right] - frozen.read_out.W_U[:, rival]
    found = head_ledger(frozen, last, direction, k=k, budget=budget)
    n_paths = len(found.paths)
    names = [path_name(p, None, s) for p, s in zip(found.paths, found.starts, strict=True)]
    missed = [missed_heads(found.paths, np.asarray(s)) for s in scores(seen, prompt.right, rival)]
    return {
        "lead": lead,
        "complete": found.complete,
        "omitted_bound": found.omitted_bound,
        "closing_error": abs(found.found + found.remainder + found.bias - lead),
        "value": np.pad(found.values, (0, k - n_paths)),
        "path": np.array([*names, *[""] * (k - n_paths)], dtype="U60"),
        "gap": _gap(found, _points(budget)),
        "missed_heads": np.array(missed),
    }


def missed_heads(paths: tuple[Path, ...], scores: np.ndarray) -> float:
    """Share of the heads on the paths that a score does not name.

    A score names as many heads as the paths have, by its size; NaN where no path has a head.
    """
    on_paths = {head for path in paths for head in path}
    if not on_paths:
        return np.nan
    order = np.argsort(-np.abs(scores), axis=None, kind="stable")[: len(on_paths)]
    rows, columns = np.unravel_index(order, scores.shape)
    named = set(zip(rows.tolist(), columns.tolist(), strict=True))
    return len(on_paths - named) / len(on_paths)


@jax.jit
def scores(seen: Run, right: int, rival: int) -> list[Array]:
    """Each of `SCORES` for every head, ``[n_layers, n_heads]``."""
    wanted = jnp.full(seen.tokens.shape, right), jnp.full(seen.tokens.shape, rival)
    return [
        head_gradients(seen, right, rival),
        head_gradients(seen, right, rival, frozen=True),
        attribute(seen, *wanted).parts.heads[:, :, -1],
    ]


def _prompts(spec: Spec, d_vocab: int, rng: np.random.Generator) -> list[Prompt]:
    lengths = [spec.lengths[i % len(spec.lengths)] for i in range(spec.prompts)]
    name = token_names(spec.weights)

    def is_word(token: int) -> bool:
        return spec.weights == RANDOM or is_long_word(name(token))

    given = random_prompts(lengths, d_vocab, rng)
    return given + prose_prompts(lengths, real_texts(spec.weights, rng), is_word, rng)


def _points(budget: int) -> np.ndarray:
    return np.geomspace(100, budget, POINTS)


def _gap(found: Ledger, points: np.ndarray) -> np.ndarray:
    """The bound on all other paths over the k-th value, after so many evaluations; 1 is a proof."""
    evaluated, bound, kth = np.array(found.rounds).T
    last = np.maximum(np.searchsorted(evaluated, points, side="right") - 1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(kth[last] > 0, bound[last] / kth[last], np.nan)
