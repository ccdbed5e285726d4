"""The price of an induction head: tokens until one forms, against how much of the text repeats.

Trainings on plain text of a laptop's size form no induction head. Here a share of the windows
repeats its beginning, from all of them to none, and everything else stays: how many tokens it takes
at each share gives a law, and how much plain text repeats by itself gives the place to read it at.
The training of a share ends once all its seeds have a head: the price is paid.
"""

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.data.synthetic import RepeatedSource
from circuitax.data.text import TextSpec, open_text
from circuitax.data.windows import RepeatedWindowSource, WindowSource, device_tokens, spaced_windows
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.arms import crossed_members
from circuitax.kit.checks import (
    require_at_least,
    require_at_most,
    require_divides,
    require_equal,
    require_in,
    require_positive,
    require_readable,
)
from circuitax.kit.measured_training import Trained, joined, measured_training
from circuitax.kit.members import each_member
from circuitax.kit.memory import require_arrays
from circuitax.kit.ragged import stack_ragged
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init
from circuitax.training.optim import OptimSpec
from experiments.induction.induction_price.diluted import DilutedRepeats
from experiments.induction.induction_price.verbatim import repeat_rates


@dataclass(frozen=True)
class Spec:
    """One recipe for every share.

    Attributes:
        task: Which text.
        model: Two layers.
        optim: Optimizer; its steps are the most that a share takes.
        plain_steps: Steps on plain text, a multiple of ``stretch`` up to ``optim.steps``.
        stretch: Steps after which it is asked whether all seeds of a share have their head; must
            divide ``optim.steps``.
        batch: Windows a step.
        shares: Shares of windows that repeat their beginning, falling, the last 0 for plain text.
        seeds: Members at each share, each with its own initialisation and windows.
        min_period: Shortest repeat, and the shortest stretch that counts as a repeat of plain text.
        max_period: Longest one.
        threshold: Score of the best prefix-matching head from which on it has formed.
        measure_every: Steps between two measurements; must divide ``stretch``.
        texts: Random repeated texts for the scores.
        windows: Windows of each kind on which repeats are counted.
        lengths: Further lengths of stretches whose rate in plain text is noted.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    plain_steps: int = 1000
    stretch: int = 200
    batch: int = 16
    shares: Any = (1.0, 0.5, 0.0)  # tuple[float, ...]
    seeds: int = 5
    min_period: int = 8
    max_period: int = 32
    threshold: float = 0.2
    measure_every: int = 20
    texts: int = 16
    windows: int = 512
    lengths: Any = (2, 4, 16)  # tuple[int, ...]

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "seeds", "texts", "windows", "measure_every")
        require_at_least(self, 1, "stretch", "plain_steps")
        object.__setattr__(self, "shares", tuple(float(share) for share in self.shares))
        object.__setattr__(self, "lengths", tuple(int(length) for length in self.lengths))
        require_in(self, "[0, 1]", "shares")
        if sorted(set(self.shares), reverse=True) != list(self.shares) or len(self.shares) < 3:
            raise ValueError(f"shares={self.shares} must fall, and be three or more")
        if self.shares[-1] != 0:
            raise ValueError(f"shares={self.shares} must end with 0, which is plain text")
        require_divides(self, "measure_every", "stretch")
        require_divides(self, "stretch", "plain_steps", "optim.steps")
        require_at_most(self, "optim.steps", "plain_steps")
        require_equal(self, 2, "model.n_layers")
        require_positive(self, "threshold")
        if self.model.start_token is not None:
            raise ValueError(f"model.start_token={self.model.start_token} must be null")
        if self.model.n_ctx is None or not (
            1 <= self.min_period <= self.max_period < self.model.n_ctx
        ):
            raise ValueError(
                f"min_period={self.min_period} and max_period={self.max_period} must satisfy "
                f"1 <= min_period <= max_period < model.n_ctx={self.model.n_ctx}"
            )
        require_at_least(self, 1, "lengths")
        why = "since the random texts repeat distinct tokens"
        require_at_most(self, "model.d_vocab", "max_period", why=why)
        require_readable(self.model, d_vocab=self.task.d_vocab)
        require_arrays(
            self,
            "3 seeds model",
            "batch model.n_ctx model.d_vocab",
            "batch model.n_heads model.n_ctx model.n_ctx",
            "texts model.n_ctx model.d_vocab",
        )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every seed at every share, score its heads along the way, and count repeats of text."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    plain = WindowSource(spec.batch, length, device_tokens(text.tokens.train))
    problem = DilutedRepeats(Transformer(spec.model), plain, spec.min_period, spec.max_period)
    repeated = RepeatedSource(
        spec.texts, length, spec.model.d_vocab, spec.min_period, spec.max_period, distinct=True
    )
    exam = repeated(derive(key, "repeats"))
    arms = [_one_share(spec, problem, exam, key, lab, i) for i in range(len(spec.shares))]
    lengths = np.array(sorted({spec.min_period, *spec.lengths}))
    whole = spaced_windows(text.tokens.train, spec.windows, length)
    source = WindowSource(spec.windows, length, plain.tokens)
    again = RepeatedWindowSource(source, spec.min_period, spec.max_period)(derive(key, "counted"))
    rates = np.stack([repeat_rates(np.asarray(kind), lengths) for kind in (whole, again)])
    steps = max((arm.steps for arm in arms), key=len)

    def by_share(arrays: list[np.ndarray]) -> np.ndarray:
        return stack_ragged(arrays, axis=0, dtype=float)

    data = xr.Dataset(
        {
            **{
                name: (("share", "step", "seed"), by_share([arm.curves[name] for arm in arms]))
                for name in ("prefix", "previous")
            },
            "training_loss": (
                ("share", "chunk", "seed"),
                by_share([arm.training_loss for arm in arms]),
            ),
            "alive": (("share", "seed"), np.stack([arm.alive for arm in arms])),
            "repeat_rate": (("windows", "length"), rates),
            "chance": float(arms[0].curves["chance"][0, 0]),
            "threshold": spec.threshold,
            "min_period": spec.min_period,
        },
        coords={
            "step": steps,
            "tokens": ("step", steps * spec.batch * (length - 1)),
            "share": list(spec.shares),
            "windows": ["plain", "repeated"],
            "length": lengths,
        },
    )
    divergence = {str(s): arm.divergence for s, arm in zip(spec.shares, arms, strict=True)}
    return Record(data=data, notes={"text": text.about(), "divergence": divergence})


def _one_share(
    spec: Spec, problem: DilutedRepeats, exam: Array, key: jax.Array, lab: Lab, at: int
) -> Trained:
    """All seeds at one share, until all that stayed finite have their head or the steps are done.

    A seed has the same start and sees the same windows at every share.
    """
    share = spec.shares[at]
    members = crossed_members(
        key, spec.optim.learning_rate, jnp.full(spec.seeds, share), spec.seeds
    )
    plan = Plan(problem, spec.optim, spec.measure_every, mesh=lab.mesh)
    state, parts = init(plan, members), list[Trained]()
    most = spec.optim.steps if share else spec.plain_steps
    for done in lab.track(range(0, most, spec.stretch), f"share-{at}"):
        part = measured_training(
            lab,
            f"share-{at}-from-{done}",
            state,
            advance(plan, members),
            steps=spec.stretch,
            every=spec.measure_every,
            measure=each_member(measure, exam),
            as_models=partial(model_from_params, spec=spec.model),
            at_start=not done,
            show="prefix",
        )
        parts.append(part)
        state = part.state
        have = np.max([one.curves["prefix"].max(axis=0) for one in parts], axis=0) >= spec.threshold
        if share and (have | ~part.alive).all():
            break
    return reduce(joined, parts)


def measure(model: Model, exam: Array) -> dict[str, Array]:
    """The best prefix-matching head and the best previous-token head of one member."""
    scores = induction_scores(model, exam)
    return {
        "prefix": scores.prefix.max(),
        "previous": scores.previous.max(),
        "chance": scores.chance,
    }
