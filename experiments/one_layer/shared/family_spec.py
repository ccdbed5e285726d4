"""The settings of a family of models of one text."""

from dataclasses import dataclass, field
from typing import Any

from circuitax.data.text import TextSpec
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    require_at_least,
    require_divides,
    require_equal,
    require_in,
    require_positive,
    require_readable,
)
from circuitax.kit.memory import require_arrays
from circuitax.training.optim import OptimSpec
from experiments.one_layer.shared.lengths import require_halvings


@dataclass(frozen=True)
class FamilySpec:
    """One recipe for every model, but for the rate, which each depth has at its own best.

    Attributes:
        task: Which text.
        model: The attention-only family; its ``n_layers`` is the deepest, all below are trained.
        full: A pre-LN transformer with MLPs beside them.
        optim: Optimizer; its steps are those of the longest training.
        depth_rates: Peak rate of each depth over that of ``optim``, no layers first; positive.
            Deeper models take the last.
        batch: Windows a step.
        seeds: Members of each model, each with its own initialisation and data.
        halvings: How many shorter trainings of the attention-only models there are, each half as
            long as the one before, with a schedule of its own; 0 for none.
        halving_seeds: Members of a shorter training, at most ``seeds``: the first ones, which begin
            as in the longest.
        full_learning_rate: Peak rate of the full transformer; all else is as ``optim`` says.
        full_seeds: Members of the full transformer, at most ``seeds``; 0 leaves it out.
        measure_every: Steps between two measurements; must divide ``optim.steps``.
        windows: Windows of held-out text for the curves; four times as many for the last losses.
        sample_tokens: Length of the samples of text.
        prompt: What every sample begins with, after the boundary.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    full: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    depth_rates: Any = (1.0,)  # tuple[float, ...]
    batch: int = 32
    seeds: int = 8
    halvings: int = 0
    halving_seeds: int = 3
    full_learning_rate: float = 3e-2
    full_seeds: int = 3
    measure_every: int = 20
    windows: int = 128
    sample_tokens: int = 60
    prompt: str = ""

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "seeds", "windows", "sample_tokens", "model.n_layers")
        object.__setattr__(self, "depth_rates", tuple(float(rate) for rate in self.depth_rates))
        if not self.depth_rates:
            raise ValueError(f"depth_rates={self.depth_rates} must hold at least one rate")
        require_at_least(self, 0, "halvings")
        require_in(self, "[1, seeds]", "halving_seeds")
        require_in(self, "[0, seeds]", "full_seeds")
        require_positive(self, "full_learning_rate", "depth_rates")
        require_divides(self, "measure_every", "optim.steps")
        require_halvings(self.optim, self.halvings)
        for name in ("model", "full"):
            model: TransformerSpec = getattr(self, name)
            require_readable(model, d_vocab=self.task.d_vocab, name=name)
            # A token of the prompt has at least one byte; the last token of a sample is not read.
            read = len(self.prompt.encode()) + self.sample_tokens + (model.start_token is not None)
            if model.n_ctx is None or model.n_ctx < max(8, read):
                raise ValueError(
                    f"{name}.n_ctx={model.n_ctx} must be at least 8 and hold the boundary, the "
                    f"{len(self.prompt.encode())} bytes of the prompt and "
                    f"sample_tokens={self.sample_tokens} but the last"
                )
        why = "both read the same windows"
        require_equal(self, "model.start_token", "full.start_token", why=why)
        require_at_least(self, "model.n_ctx", "full.n_ctx", why=why)
        if (self.model.n_ctx or 0) // 2 > self.model.d_vocab:
            raise ValueError(
                f"model.n_ctx={self.model.n_ctx} must be at most 2 d_vocab + 1 = "
                f"{2 * self.model.d_vocab + 1}, since half of it is tokens that all differ"
            )
        require_arrays(
            self,
            "3 seeds model",
            "3 full_seeds full",
            "batch model.n_ctx model.d_vocab",
            "batch model.n_heads model.n_ctx model.n_ctx",
        )
