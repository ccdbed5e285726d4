"""An induction head on real text: what it takes, what it is worth there, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.in_context import repeated_pairs, token_losses
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.patching import ablate, each_component
from circuitax.data.repeated import RepeatedSource
from circuitax.data.repeated_windows import RepeatedWindowSource
from circuitax.data.text import TextSpec, open_text
from circuitax.data.windows import WindowSource, device_tokens, spaced_windows
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.tokens import behind_start
from circuitax.lab.lab import Lab
from circuitax.lab.language_sizes import require_readable
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.plain import to_plain
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState
from circuitax.training.selection import divergence
from experiments.text_induction.claims import ARMS, estimates
from experiments.text_induction.claims import CLAIMS as CLAIMS

BUDGET_SECONDS = 180
PAPER_SECONDS = 2_800_000  # by its work against quick scale; not run


@dataclass(frozen=True)
class Spec:
    """One recipe and one number of tokens for every arm.

    Attributes:
        task: Which text.
        model: Sizes; the number of layers is set by each arm.
        optim: Optimizer, over the whole of training.
        batch: Windows a step.
        seeds: Members of each arm, each with its own initialisation and data.
        primer: Steps on windows that repeat themselves, before plain text, in the primed arms.
        min_period: Shortest repeat of the primer.
        max_period: Longest one.
        repeated_share: Of the windows after the primer, or of all, those that repeat too; 0 for
            plain text, which the claims are about.
        measure_every: Steps between two measurements; must divide ``primer`` and ``optim.steps``.
        windows: Windows of held-out text to measure on.
        texts: Random repeated texts for the head scores.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    batch: int = 32
    seeds: int = 8
    primer: int = 400
    min_period: int = 8
    max_period: int = 32
    repeated_share: float = 0.0
    measure_every: int = 50
    windows: int = 256
    texts: int = 32

    def __post_init__(self) -> None:
        for name in ("batch", "seeds", "primer", "measure_every", "windows", "texts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.primer >= self.optim.steps:
            raise ValueError(f"primer={self.primer} must be below optim.steps={self.optim.steps}")
        for name, steps in (("primer", self.primer), ("optim.steps", self.optim.steps)):
            if steps % self.measure_every:
                raise ValueError(f"measure_every={self.measure_every} must divide {name}={steps}")
        if self.model.n_ctx is None or not (
            1 <= self.min_period <= self.max_period < self.model.n_ctx
        ):
            raise ValueError(
                f"min_period={self.min_period} and max_period={self.max_period} must satisfy "
                f"1 <= min_period <= max_period < model.n_ctx={self.model.n_ctx}"
            )
        if not 0 <= self.repeated_share <= 1:
            raise ValueError(f"repeated_share={self.repeated_share} must be from 0 to 1")
        if self.max_period > self.model.d_vocab:
            raise ValueError(
                f"max_period={self.max_period} must be at most model.d_vocab={self.model.d_vocab}, "
                "since the random texts repeat distinct tokens"
            )
        require_readable(self.model, d_vocab=self.task.d_vocab)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train each arm on equally many tokens, with and without a primer; then ablate every head."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    plain = WindowSource(spec.batch, length, device_tokens(text.tokens.train))
    primer = RepeatedWindowSource(plain, spec.min_period, spec.max_period)
    after = replace(primer, share=spec.repeated_share) if spec.repeated_share else plain
    repeated = RepeatedSource(spec.texts, length, spec.model.d_vocab, spec.min_period,
                              spec.max_period, distinct=True)  # fmt: skip
    held_out, exam = (
        behind_start(texts, spec.model.start_token)
        for texts in (
            jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length)),
            repeated(derive(key, "repeats")),
        )
    )
    n_primer = spec.primer // spec.measure_every
    n_chunks = spec.optim.steps // spec.measure_every
    found, divergences = {}, {}
    for arm, (n_layers, primed) in ARMS.items():
        sizes = replace(spec.model, n_layers=n_layers)
        as_models = partial(model_from_params, spec=sizes)
        members = new_members(derive(key, arm), spec.optim.learning_rate, jnp.zeros(spec.seeds))
        examine = jax.jit(jax.vmap(measure, (0, None, None)))

        def look(params: Any, examine: Callable = examine, as_models: Callable = as_models) -> dict:
            return examine(as_models(params), held_out, exam)

        plans = [Plan(NextToken(Transformer(sizes), source), spec.optim, spec.measure_every)
                 for source in (primer, after)]  # fmt: skip
        name = arm.replace(", ", "-").replace(" ", "-")
        state = init(plans[1], members)
        lab.save_arrays(f"{name}-step-0", as_models(state.params))
        parts = [jax.tree.map(lambda x: x[None], look(state.params))]
        if primed:
            train = _with_look(advance(plans[0], members), look)
            state, curves = lab.loop(f"{name}-primer", state, train, n_primer, show="loss")
            parts.append(curves)
        train = _with_look(advance(plans[1], members), look)
        left = n_chunks - n_primer if primed else n_chunks
        state, curves = lab.loop(f"{name}-text", state, train, left, show="loss")
        parts.append(curves)
        models = as_models(state.params)
        lab.save_arrays(name, models)
        found[arm] = {k: np.concatenate([np.asarray(p[k]) for p in parts]) for k in parts[0]}
        remove = jax.vmap(jax.jit(ablated), (0, None))
        found[arm] |= lab.stage(f"{name}-ablated", remove, models, held_out)
        found[arm]["alive"] = np.asarray(state.alive)
        divergences[arm] = divergence(state.alive, state.step)
    lab.save_arrays("held-out", {"windows": held_out})
    data = _dataset(spec, found, np.asarray(repeated_pairs(held_out)))
    notes = {"text": text.about(), "divergence": divergences, "model": to_plain(spec.model)}
    mixed = f"repeated_share={spec.repeated_share}: no arm ends on plain text"
    unmet = {claim.id: mixed for claim in CLAIMS} if spec.repeated_share else {}
    return Record(data=data, measured=estimates(data), unmet=unmet, notes=notes)


def _with_look(train: Callable, look: Callable) -> Callable:
    def both(state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        state, _ = train(state)
        return state, look(state.params)

    return both


def measure(model: Model, windows: Array, exam: Array) -> dict[str, Array]:
    """Losses of one member on held-out text, and what its heads do on random repeats."""
    scores = induction_scores(model, exam)
    losses = jax.lax.map(lambda text: token_losses(forward(model, text)[0], text), windows)
    return _losses(losses, repeated_pairs(windows)) | {
        "prefix": scores.prefix, "previous": scores.previous, "chance": scores.chance,
    }  # fmt: skip


def ablated(model: Model, windows: Array) -> dict[str, Array]:
    """Losses without each head in turn, patterns kept as they were."""
    cells = each_component(model)

    def one(text: Array) -> Array:
        _, trace = forward(model, text)
        return ablate(model, text, cells, lambda z: token_losses(z, text), preserved=trace)

    losses = jnp.moveaxis(jax.lax.map(one, windows), 1, 0)
    each = jax.vmap(partial(_losses, seen=repeated_pairs(windows)))(losses)
    shape = cells.heads.shape[1:]
    return {f"ablated_{name}": values.reshape(shape) for name, values in each.items()}


def _losses(losses: Array, seen: Array) -> dict[str, Array]:
    """Means over all tokens, over those that end a pair seen before, and over the others."""
    return {
        "loss": losses.mean(),
        "loss_repeated": jnp.where(seen, losses, 0).sum() / seen.sum(),
        "loss_new": jnp.where(seen, 0, losses).sum() / (~seen).sum(),
    }


def _dataset(spec: Spec, found: dict[str, dict[str, np.ndarray]], seen: np.ndarray) -> xr.Dataset:
    def stack(name: str, axis: int | None = None) -> np.ndarray:
        """Arms one above the other; arms with fewer layers get NaN for those they lack."""
        arrays = [each[name] for each in found.values()]
        if axis is not None:
            most = max(a.shape[axis] for a in arrays)
            widths = [[(0, most - n if i == axis else 0) for i, n in enumerate(a.shape)]
                      for a in arrays]  # fmt: skip
            arrays = [np.pad(a, w, constant_values=np.nan)
                      for a, w in zip(arrays, widths, strict=True)]  # fmt: skip
        return np.stack(arrays)

    over, heads = ("arm", "step", "member"), ("layer", "head")
    steps = np.arange(0, spec.optim.steps + 1, spec.measure_every)
    losses = ("loss", "loss_repeated", "loss_new")
    return xr.Dataset(
        {name: (over, stack(name)) for name in losses}
        | {name: ((*over, *heads), stack(name, 2)) for name in ("prefix", "previous")}
        | {f"ablated_{name}": (("arm", "member", *heads), stack(f"ablated_{name}", 1))
           for name in losses}
        | {
            "alive": (("arm", "member"), stack("alive")),
            "chance": float(found["2 layers, primed"]["chance"][0, 0]),
            "share_repeated": float(seen.mean()),
            "primer": spec.primer,
        },
        coords={
            "arm": list(found),
            "step": steps,
            "tokens": ("step", steps * spec.batch * ((spec.model.n_ctx or 1) - 1)),
        },
    )  # fmt: skip
