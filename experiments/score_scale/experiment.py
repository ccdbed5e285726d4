"""What 1/sqrt(d_k) is for: unscaled scores grow with a head's width and saturate the softmax."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.saturation import jacobian_norm, row_entropy
from circuitax.circuits.score_terms import head_scores
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.attention import causal_mask
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_readable
from circuitax.lab.lab import Lab
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken, text_losses
from circuitax.training.optim import OptimSpec
from circuitax.training.selection import divergence

BUDGET_SECONDS = 90
PAPER_SECONDS = 2_800  # by its work against quick scale; not run
SCALES = ("1/sqrt(d_k)", "1")


@dataclass(frozen=True)
class Spec:
    """Heads of several widths, with and without the scale.

    Attributes:
        model: Sizes; ``d_head`` and ``score_scale`` are set here. Embeddings of norm
            ``sqrt(d_model)`` have coordinates of variance 1, as behind a layer norm.
        task: Repeated random texts.
        optim: Optimizer.
        widths: Widths of heads, increasing.
        seeds: Members at each width and scale, each with its own initialisation and data.
        texts: Texts to measure on.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    widths: tuple[int, ...] = (4, 16, 64, 256)
    seeds: int = 8
    texts: int = 32

    def __post_init__(self) -> None:
        widths = tuple(self.widths)
        object.__setattr__(self, "widths", widths)
        if len(widths) < 2 or list(widths) != sorted(set(widths)) or widths[0] < 1:
            raise ValueError(f"widths={widths} must be at least two, increasing from 1 or more")
        for name in ("seeds", "texts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.model.n_layers < 1:
            raise ValueError(f"model.n_layers={self.model.n_layers} must be at least 1")
        require_readable(self.model, d_vocab=self.task.d_vocab, length=self.task.length)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Measure every width and scale at initialisation, train, and measure again."""
    exam = replace(spec.task, batch=spec.texts)(derive(key, "evaluation"))
    cells, divergences = [], {}
    for scale in SCALES:
        for width in spec.widths:
            factor = width**-0.5 if scale == SCALES[0] else 1.0
            sizes = replace(spec.model, d_head=width, d_value=spec.model.head_width,
                            score_scale=factor)  # fmt: skip
            members = new_members(derive(key, f"{scale} {width}"), spec.optim.learning_rate,
                                  jnp.zeros(spec.seeds))  # fmt: skip
            chunk = _chunk(spec.optim.steps)
            plan = Plan(NextToken(Transformer(sizes), spec.task), spec.optim, chunk)
            state = init(plan, members)
            examine = jax.jit(jax.vmap(measure, in_axes=(0, None)))
            models = model_from_params(state.params, sizes)
            before = jax.tree.map(np.asarray, examine(models, exam))
            name = f"{'scaled' if scale == SCALES[0] else 'raw'}-{width}"
            state, curves = lab.loop(name, state, advance(plan, members),
                                     spec.optim.steps // chunk, show="loss")  # fmt: skip
            models = model_from_params(state.params, sizes)
            after = jax.tree.map(np.asarray, examine(models, exam))
            cell = {k: np.stack([before[k], after[k]]) for k in before}
            cell |= {"training_loss": curves["loss"], "alive": np.asarray(state.alive)}
            cells.append(cell)
            divergences[name] = divergence(state.alive, state.step)
    data = _dataset(spec, cells)
    return Record(data=data, notes={"divergence": divergences})


def measure(model: Model, texts: Array) -> dict[str, Array]:
    """Spread of the first layer's scores, and saturation and loss of the whole model."""
    heads = jnp.arange(model.n_heads)

    def one(text: Array) -> tuple[Array, Array]:
        found = run_model(model, text)
        scores = jax.vmap(lambda head: head_scores(found, 0, head))(heads)
        return scores, found.trace.patterns

    scores, patterns = jax.vmap(one)(texts)
    place = jnp.arange(texts.shape[1])
    seen = causal_mask(place, place, model.spec.causal)
    # The first rows can attend to little; the last quarter says what a full context does.
    late = patterns[..., -texts.shape[1] // 4 :, :]
    return {
        "variance": jnp.var(scores, axis=(0, 2, 3), where=seen).mean(),
        "entropy": row_entropy(late).mean(),
        "jacobian": jacobian_norm(late).mean(),
        "loss": text_losses(model, texts).mean(),
    }


def _chunk(steps: int) -> int:
    return next(c for c in (50, 20, 10, 5, 2, 1) if steps % c == 0)


def _dataset(spec: Spec, cells: list[dict[str, np.ndarray]]) -> xr.Dataset:
    def grid(name: str) -> np.ndarray:
        stacked = np.stack([cell[name] for cell in cells])
        return stacked.reshape(len(SCALES), len(spec.widths), *stacked.shape[1:])

    over = ("scale", "width", "time", "member")
    data = {name: (over, grid(name)) for name in ("variance", "entropy", "jacobian", "loss")}
    chunk = spec.optim.steps // cells[0]["training_loss"].shape[0]
    return xr.Dataset(
        {
            **data,
            "training_loss": (("scale", "width", "step", "member"), grid("training_loss")),
            "alive": (("scale", "width", "member"), grid("alive")),
        },
        coords={
            "scale": list(SCALES),
            "width": list(spec.widths),
            "time": ["initial", "trained"],
            "step": np.arange(chunk, spec.optim.steps + 1, chunk),
        },
    )
