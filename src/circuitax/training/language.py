"""Next-token prediction as a training problem, on the device or streamed from disk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.text import DEVICE_BYTES, WindowSource, fits_on_device, read_windows
from circuitax.kernel.forward import batch_logits, behind_start, forward, next_token_losses
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.model import Model
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.ensemble import (
    Plan,
    check_mesh,
    every_device,
    shared_batches,
    split_samples,
)
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Metrics, TrainState


@runtime_checkable
class Source(Protocol):
    """A source of texts: hashable, and called with a key it returns a batch."""

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """One batch, a pure function of the key."""
        ...


@runtime_checkable
class LanguageModule(Protocol):
    """A Flax module, hashable by its fields, called with a batch of texts."""

    def init(self, rngs: Key[Array, ""], *args: Any) -> Any:
        """The variables of the module, ``{"params": ...}``."""
        ...

    def apply(self, variables: Any, *args: Any) -> Any:
        """The logits of a batch of texts."""
        ...


class Step(NamedTuple):
    """One training step, as interventions and penalties see it.

    Attributes:
        number: Updates done before it.
        key: Randomness of its own, for noise or for heads chosen anew.
        hyper: The member's numbers, such as the strength of a penalty.
    """

    number: Int[Array, ""]
    key: Key[Array, ""]
    hyper: PyTree


Edit = Callable[[Model, Int[Array, " n_ctx"], Step], Interventions]
Penalty = Callable[[Model, Step], Float[Array, ""]]


@dataclass(frozen=True)
class NextToken:
    """A `Problem`: mean cross-entropy of all next tokens of a batch, nats per token.

    With ``edit`` every text is passed under `Interventions`, and with ``penalty`` a function of the
    model is added: ``L(θ) = <loss of forward(θ, text, edit(θ, text, step))> + penalty(θ, step)``,
    where gradients flow through both unless ``jax.lax.stop_gradient`` holds a part. The metrics
    ``next_token`` and ``penalty`` are the two terms.

    Attributes:
        module: The Flax module that is trained; a `Transformer` where there is an edit or penalty.
        source: Source of its texts.
        edit: Interventions of one text, ``edit(model, text, step)``.
        penalty: A number, ``penalty(model, step)``; a negative one is a reward.
    """

    module: LanguageModule
    source: Source
    edit: Edit | None = None
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        for name in ("edit", "penalty"):
            if getattr(self, name) is not None and not isinstance(self.module, Transformer):
                kind = type(self.module).__name__
                raise ValueError(f"module is a {kind}, must be a Transformer where {name} is given")

    def init(self, key: Key[Array, ""], hyper: PyTree) -> PyTree:
        """Fresh parameters."""
        texts = jax.eval_shape(self.source, key)
        return initial_params(self.module, key, texts.shape[-1])

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PyTree:
        """The texts of one step, behind the module's start token if it has one, and the step."""
        own = at_index(key, step)
        texts = behind_start(self.source(own), _start_token(self.module))
        if self.edit is None and self.penalty is None:
            return texts
        return texts, Step(step, derive(own, "edit"), None)

    def loss(
        self, params: PyTree, batch: PyTree, hyper: PyTree
    ) -> Float[Array, ""] | tuple[Float[Array, ""], dict[str, Array]]:
        """The loss to minimise, and its two terms where something is edited or added."""
        if self.edit is None and self.penalty is None:
            return jnp.mean(module_losses(self.module, params, split_samples(batch)))
        texts, step = batch
        step = step._replace(hyper=hyper)
        model = model_from_params(params, cast(Transformer, self.module).spec)
        losses = edited_losses(model, split_samples(texts), self.edit, step)
        added = jnp.zeros(()) if self.penalty is None else self.penalty(model, step)
        found = jnp.mean(losses)
        return found + added, {"next_token": found, "penalty": added}


def edited_losses(
    model: Model, texts: Int[Array, "batch n_ctx"], edit: Edit | None, step: Step
) -> Float[Array, "batch n_predicted"]:
    """`text_losses` of every text under its own interventions."""

    def one(text: Int[Array, " n_ctx"]) -> Float[Array, " n_predicted"]:
        edits = None if edit is None else edit(model, text, step)
        return next_token_losses(forward(model, text, edits)[0], text)

    return jax.vmap(one)(texts)


@dataclass(frozen=True)
class StreamedNextToken:
    """`NextToken` on texts too large for the device: each chunk of steps gets its own texts.

    Attributes:
        module: The Flax module that is trained.
        length: Number of tokens in a text.
        chunk: Number of steps in a chunk, as in the `Plan`.
    """

    module: LanguageModule
    length: int
    chunk: int

    def init(self, key: Key[Array, ""], hyper: PyTree) -> PyTree:
        """Fresh parameters."""
        return initial_params(self.module, key, self.length)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, ""]:
        """Indices of the chunk's texts: step t has text t modulo ``chunk``, see `stream`."""
        return step % self.chunk

    def loss(
        self, params: PyTree, batch: Int[Array, ""], hyper: Int[Array, "chunk batch n_ctx"]
    ) -> Float[Array, ""]:
        """The loss to minimise."""
        texts = behind_start(hyper[batch], _start_token(self.module))
        return jnp.mean(module_losses(self.module, params, split_samples(texts)))


def stream(
    plan: ensemble.Plan, members: Member, tokens: np.ndarray, batch: int
) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """`ensemble.advance` on a memory-mapped text of any size, read chunk by chunk."""
    problem = plan.problem
    if not isinstance(problem, StreamedNextToken):
        raise ValueError(f"plan.problem is a {type(problem).__name__}, must be a StreamedNextToken")
    if problem.chunk != plan.chunk:
        raise ValueError(f"plan.chunk={plan.chunk} must equal plan.problem.chunk={problem.chunk}")

    def advance(state: TrainState) -> tuple[TrainState, Metrics]:
        # Diverged members keep their step; all others are at the same one.
        start = int(np.max(state.step))
        steps = range(start, start + plan.chunk)
        texts = np.stack(
            [read_windows(key, tokens, batch, problem.length, steps) for key in members.data_key]
        )
        # Text t is number t modulo the chunk, wherever the chunk starts.
        texts = np.roll(texts, start, axis=1)
        return ensemble.advance(plan, members._replace(hyper=jnp.asarray(texts)))(state)

    return advance


def initial_params(module: LanguageModule, key: Key[Array, ""], length: int) -> PyTree:
    """Fresh parameters of a module that reads texts of a length."""
    variables = module.init(key, jnp.zeros((1, length), jnp.int32))
    others = sorted(set(variables) - {"params"})
    if others or "params" not in variables:
        raise ValueError(
            f"module has the collections {sorted(variables)}, must have 'params' and no other"
        )
    return variables["params"]


def module_losses(
    module: LanguageModule, params: PyTree, texts: Int[Array, "batch n_ctx"]
) -> Float[Array, "batch n_predicted"]:
    """`text_losses` of a module in training."""
    found = module.apply({"params": params}, texts)
    logits = found[0] if isinstance(found, tuple) else found
    if logits.shape[:-1] != texts.shape:
        raise ValueError(
            f"module returns logits of shape {logits.shape}, must be {texts.shape} and d_vocab"
        )
    return next_token_losses(logits, texts)


def text_losses(
    model: Model, texts: Int[Array, "batch n_ctx"]
) -> Float[Array, "batch n_predicted"]:
    """The loss on every token but the first of every text, nats; average over texts for a curve."""
    return next_token_losses(batch_logits(model, texts), texts)


def _start_token(module: LanguageModule) -> int | None:
    return getattr(module, "start_token", None)


def train_on_text(
    key: Key[Array, ""],
    module: LanguageModule,
    optim: OptimSpec,
    tokens: np.ndarray,
    *,
    batch: int,
    length: int,
    seeds: int,
    chunk: int,
    learning_rate: float | Array | None = None,
    device_bytes: int = DEVICE_BYTES,
    mesh: Mesh | str | None = "auto",
) -> tuple[TrainState, Callable[[TrainState], tuple[TrainState, Metrics]]]:
    """The initial state, and the function of one chunk, in the form that `Lab.loop` takes."""
    n_ctx = getattr(module, "n_ctx", None)
    if n_ctx is not None and length > n_ctx:
        raise ValueError(f"length={length} must be at most n_ctx={n_ctx} of the module")
    rates = jnp.asarray(optim.learning_rate if learning_rate is None else learning_rate, float)
    if rates.shape not in ((), (seeds,)):
        raise ValueError(
            f"learning_rate has shape {rates.shape}, must be one rate or one for each of "
            f"seeds={seeds}"
        )
    members = ensemble.new_members(key, rates, jnp.zeros(seeds))
    check_mesh(mesh)
    if isinstance(mesh, str):
        mesh = every_device()
    mesh = None if mesh is None else shared_batches(mesh, seeds, batch)
    if fits_on_device(tokens, device_bytes):
        source = WindowSource(batch, length, jnp.asarray(tokens))
        plan = Plan(NextToken(module, source), optim, chunk, mesh=mesh)
        return ensemble.init(plan, members), ensemble.advance(plan, members)
    plan = Plan(StreamedNextToken(module, length, chunk), optim, chunk, mesh=mesh)
    return ensemble.init(plan, members), stream(plan, members, tokens, batch)
