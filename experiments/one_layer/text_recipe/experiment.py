"""The recipe of the text models, measured: each depth at the best of several optimizers.

`text_models` trains every depth with one recipe and a learning rate of its own. Here held-out loss
after equally many tokens is measured against the rate for several optimizers, and warm-up, batch,
width and initialisation are each varied around the best rate of the recipe's optimizer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.corpus import TextError
from circuitax.data.text import TextSpec, open_text
from circuitax.data.windows import device_tokens, spaced_windows
from circuitax.kernel.forward import behind_start
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    require_at_least,
    require_increasing,
    require_positive,
    require_readable,
)
from circuitax.kit.memory import require_arrays
from circuitax.kit.ragged import padded, stack_ragged
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.one_layer.text_recipe.best import best_index, nearest
from experiments.one_layer.text_recipe.ends import Bench, end_losses


class Setting(NamedTuple):
    """Settings varied one at a time: steps of warm-up, windows a step, d_model, factor on maps."""

    warmup: int
    batch: int
    width: int
    init: float


@dataclass(frozen=True)
class Spec:
    """The recipe, the optimizers and rates beside it, and the values that are tried around it.

    Attributes:
        task: Which text.
        model: The attention-only family; its ``n_layers`` is the deepest, all below are trained.
        optim: The recipe; its ``learning_rate`` is not used.
        recipe_rates: Peak rate in use at each depth, no layers first, deeper models the last; each
            among the rates tried for the recipe's optimizer.
        optimizers: Names of `Optimizer`; the recipe's comes first.
        decays: Weight decay of each.
        momenta: Momentum of each; 0 for those that have none.
        rates: Peak rates tried for each, increasing.
        batch: Windows a step.
        seeds: Initialisations and data streams, the same at every rate of every optimizer.
        warmups: Steps of warm-up to try; the recipe's among them, as in the following.
        batches: Windows a step to try, with as many tokens in all and in the warm-up.
        widths: d_model to try.
        inits: Factors on ``model.init_scale`` to try, 1 among them.
        sweep_rates: At how many of the recipe's rates each of these is tried: the best one, and
            those beside it.
        windows: Windows of held-out text.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    recipe_rates: Any = (1e-2,)  # tuple[float, ...]
    optimizers: Any = ("adam",)  # tuple[str, ...]
    decays: Any = (0.0,)  # tuple[float, ...]
    momenta: Any = (0.0,)  # tuple[float, ...]
    rates: Any = ((5e-3, 1e-2, 2e-2),)  # tuple[tuple[float, ...], ...]
    batch: int = 32
    seeds: int = 3
    warmups: tuple[int, ...] = (0, 50)
    batches: tuple[int, ...] = (16, 32)
    widths: tuple[int, ...] = (32, 64)
    inits: Any = (0.5, 1.0)  # tuple[float, ...]
    sweep_rates: int = 3
    windows: int = 128

    def __post_init__(self) -> None:
        for name in ("recipe_rates", "decays", "momenta", "inits"):
            object.__setattr__(self, name, tuple(float(x) for x in getattr(self, name)))
        rates = tuple(tuple(float(rate) for rate in row) for row in self.rates)
        object.__setattr__(self, "rates", rates)
        require_at_least(self, 1, "batch", "seeds", "windows", "batches", "widths")
        require_at_least(self, 0, "decays", "momenta", "warmups")
        require_positive(self, "recipe_rates", "inits")
        require_readable(self.model, d_vocab=self.task.d_vocab)
        self._check_optimizers()
        if not 1 <= self.sweep_rates <= len(self.rates[0]):
            raise ValueError(
                f"sweep_rates={self.sweep_rates} must be from 1 to the {len(self.rates[0])} rates "
                f"of {self.optimizers[0]}"
            )
        for name in ("warmups", "batches", "widths", "inits"):
            require_increasing(self, name, length=1)
        base = base_of(self)
        for name, value in base._asdict().items():
            if value not in values_of(self, name):
                raise ValueError(f"{name}s={values_of(self, name)} must hold the recipe's, {value}")
        for batch in self.batches:
            if self.optim.steps * self.batch % batch:
                raise ValueError(
                    f"batches={self.batches} must divide the {self.optim.steps * self.batch} "
                    "windows of a training"
                )
        # A warm-up longer than its training, or a width that heads do not divide, is refused here.
        for setting in dict.fromkeys(s for _, s in settings(self)):
            optim_of(self, setting)
            self.model.replace(d_model=setting.width)
        require_arrays(
            self,
            "3 seeds model",
            "12 seeds model.n_layers widths",
            "batch model.n_ctx model.d_vocab",
            "batches model.n_ctx model.d_vocab",
        )

    def _check_optimizers(self) -> None:
        known = [optimizer.value for optimizer in Optimizer]
        if not self.optimizers or set(self.optimizers) - set(known):
            raise ValueError(f"optimizers={self.optimizers} must be one or more of {known}")
        if self.optimizers[0] != self.optim.name.value:
            raise ValueError(
                f"optimizers={self.optimizers} must begin with the recipe's, "
                f"{self.optim.name.value}"
            )
        for name in ("decays", "momenta", "rates"):
            if len(getattr(self, name)) != len(self.optimizers):
                raise ValueError(
                    f"{name}={getattr(self, name)} must be as long as optimizers={self.optimizers}"
                )
        for row in self.rates:
            if not row or min(row) <= 0 or sorted(set(row)) != list(row):
                raise ValueError(f"rates={self.rates} must hold increasing positive rates")
        for rate in self.recipe_rates:
            if rate not in self.rates[0]:
                raise ValueError(
                    f"recipe_rates={self.recipe_rates} must be among the rates of "
                    f"{self.optimizers[0]}, {self.rates[0]}"
                )
        for i in range(len(self.optimizers)):
            arm_optim(self, i)


def base_of(spec: Spec) -> Setting:
    """The recipe itself."""
    return Setting(spec.optim.warmup_steps, spec.batch, spec.model.d_model, 1.0)


def values_of(spec: Spec, sweep: str) -> tuple[float, ...]:
    """The values of one field of `Setting` that are tried."""
    return {
        "warmup": spec.warmups,
        "batch": spec.batches,
        "width": spec.widths,
        "init": spec.inits,
    }[sweep]


def settings(spec: Spec) -> Iterator[tuple[str, Setting]]:
    """Every sweep's name and each of its settings, which differ from the recipe in that alone."""
    for sweep in Setting._fields:
        for value in values_of(spec, sweep):
            changed: dict[str, Any] = {sweep: value}
            yield sweep, base_of(spec)._replace(**changed)


def optim_of(spec: Spec, setting: Setting) -> OptimSpec:
    """The recipe's optimizer with as many tokens in all, and as many in the warm-up."""
    steps = spec.optim.steps * spec.batch // setting.batch
    warmup = round(setting.warmup * spec.batch / setting.batch)
    return replace(spec.optim, steps=steps, warmup_steps=warmup)


def arm_optim(spec: Spec, i: int) -> OptimSpec:
    """The recipe with optimizer number i in the place of its own."""
    return replace(
        spec.optim,
        name=Optimizer(spec.optimizers[i]),
        weight_decay=spec.decays[i],
        momentum=spec.momenta[i],
    )


def models(spec: Spec) -> Iterator[tuple[str, TransformerSpec]]:
    """Every model by name, zero-layer ones first."""
    for n_layers in range(spec.model.n_layers + 1):
        yield f"layers-{n_layers}", spec.model.replace(n_layers=n_layers)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Every depth with every optimizer at every rate, then around the best rate of the recipe's."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    most = len(text.tokens.validation) // length
    if spec.windows > most:
        raise TextError(
            f"windows={spec.windows} must be at most {most}: as many of {length} tokens fit into "
            f"the {len(text.tokens.validation)} held out"
        )
    held_out = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length))
    windows = behind_start(held_out, spec.model.start_token)
    bench = Bench(lab, device_tokens(text.tokens.train), windows, spec.seeds)
    arms, sweeps, near = [], [], []
    for name, sizes in models(spec):
        own = derive(key, name)
        found = [
            end_losses(
                bench,
                f"{name}-{optimizer}",
                own,
                sizes,
                arm_optim(spec, i),
                batch=spec.batch,
                rates=np.array(spec.rates[i]),
            )
            for i, optimizer in enumerate(spec.optimizers)
        ]
        arms.append(stack_ragged(found, axis=0))
        around = nearest(best_index(found[0]), spec.sweep_rates, len(spec.rates[0]))
        near.append(np.array(spec.rates[0])[around])
        sweeps.append(_around(spec, bench, name, own, sizes, near[-1], found[0][around]))
    data = _dataset(spec, np.stack(arms), np.stack(sweeps), np.stack(near))
    notes = {
        "text": text.about(),
        "tokens": spec.optim.steps * spec.batch * (length - 1),
        "data": "a seed has one initialisation and one stream of windows at all rates of all "
        "optimizers; seeds are independent",
        "loss": f"mean over {spec.windows} held-out windows, nats a token; NaN where diverged",
        "ragged": ["model"],
    }
    return Record(data=data, notes=notes)


def _around(
    spec: Spec,
    bench: Bench,
    name: str,
    key: jax.Array,
    sizes: TransformerSpec,
    rates: np.ndarray,
    recipe: np.ndarray,
) -> np.ndarray:
    """Losses ``[sweep, value, near, seed]`` of every setting, at the best rate and beside it.

    Args:
        spec: Gives the settings.
        bench: What all trainings share.
        name: Of the model.
        key: Of the model, as in the trainings by which the rates were chosen.
        sizes: Of the model.
        rates: The rates.
        recipe: Losses of the recipe itself at these rates, ``[near, seed]``.
    """
    found = {base_of(spec): recipe}
    for sweep, setting in settings(spec):
        if setting not in found:
            found[setting] = end_losses(
                bench,
                f"{name}-{sweep}-{getattr(setting, sweep):g}",
                key,
                sizes.replace(d_model=setting.width),
                optim_of(spec, setting),
                batch=setting.batch,
                rates=rates,
                init=setting.init,
            )
    rows = [
        np.stack([found[setting] for of, setting in settings(spec) if of == sweep])
        for sweep in Setting._fields
    ]
    return stack_ragged(rows, axis=0)


def _dataset(spec: Spec, arms: np.ndarray, sweeps: np.ndarray, near: np.ndarray) -> "xr.Dataset":
    names = [name for name, _ in models(spec)]
    last = len(spec.recipe_rates) - 1
    longest = sweeps.shape[2]
    values = [padded(np.array(values_of(spec, sweep), float), longest) for sweep in Setting._fields]
    return xr.Dataset(
        {
            "loss": (("model", "optimizer", "rate", "seed"), arms),
            "learning_rate": (
                ("optimizer", "rate"),
                stack_ragged([np.asarray(row) for row in spec.rates], 0, dtype=float),
            ),
            "recipe_rate": ("model", [spec.recipe_rates[min(i, last)] for i in range(len(names))]),
            "sweep_loss": (("model", "sweep", "value", "near", "seed"), sweeps),
            "near_rate": (("model", "near"), near),
            "sweep_value": (("sweep", "value"), np.stack(values)),
            "recipe_value": ("sweep", np.array(base_of(spec), float)),
        },
        coords={
            "model": names,
            "optimizer": list(spec.optimizers),
            "sweep": list(Setting._fields),
        },
    )
