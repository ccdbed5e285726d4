"""Next-token prediction as a training problem: a transformer, and where its texts come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.windows import read_windows
from circuitax.kernel.forward import final_stream, unembed
from circuitax.kernel.keys import at_index
from circuitax.kernel.tokens import behind_start
from circuitax.kernel.weights import TransformerWeights
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from circuitax.training import ensemble
from circuitax.training.loop import Metrics
from circuitax.training.losses import next_token_nats
from circuitax.training.problem import Member, TrainState
from circuitax.training.sharding import split_samples


@runtime_checkable
class Source(Protocol):
    """Where texts come from: hashable, and called with a key it returns a batch."""

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """One batch, a pure function of the key."""
        ...


@dataclass(frozen=True)
class NextToken:
    """A `Problem`: mean cross-entropy of all next tokens of a batch, nats a token.

    Members differ by their keys only; ``hyper`` is not used.

    Attributes:
        model: The transformer.
        source: Its texts.
    """

    model: TransformerSpec
    source: Source

    def init(self, key: Key[Array, ""], hyper: PyTree) -> TransformerWeights:
        """Fresh weights."""
        return init_weights(key, self.model, float)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """The texts of one step, behind the model's start token if it has one."""
        return behind_start(self.source(at_index(key, step)), self.model.start_token)

    def loss(
        self, params: TransformerWeights, batch: Int[Array, "batch n_ctx"], hyper: PyTree
    ) -> Float[Array, ""]:
        """The scalar that is minimised."""
        return jnp.mean(text_losses(self.model, params, split_samples(batch)))


@dataclass(frozen=True)
class StreamedNextToken:
    """`NextToken` on texts that do not fit on the device: each chunk of steps brings its own.

    ``hyper`` holds the chunk's texts, ``[chunk, batch, n_ctx]`` for a member; see `stream`.

    Attributes:
        model: The transformer.
        chunk: Steps of a chunk, as in the `Plan`.
    """

    model: TransformerSpec
    chunk: int

    def init(self, key: Key[Array, ""], hyper: PyTree) -> TransformerWeights:
        """Fresh weights."""
        return init_weights(key, self.model, float)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, ""]:
        """Which of the chunk's texts: that of step t is number t modulo ``chunk``, see `stream`."""
        return step % self.chunk

    def loss(
        self,
        params: TransformerWeights,
        batch: Int[Array, ""],
        hyper: Int[Array, "chunk batch n_ctx"],
    ) -> Float[Array, ""]:
        """The scalar that is minimised."""
        texts = behind_start(hyper[batch], self.model.start_token)
        return jnp.mean(text_losses(self.model, params, split_samples(texts)))


def stream(
    plan: ensemble.Plan, members: Member, tokens: np.ndarray, batch: int, length: int
) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """`ensemble.advance` on a memory-mapped text of any size, read chunk by chunk.

    Every member sees the windows that `NextToken` would draw for it on the device.

    Args:
        plan: Its problem is a `StreamedNextToken` with the plan's chunk.
        members: Keys and rates; their ``hyper`` is replaced.
        tokens: The text on disk.
        batch: Windows of a step.
        length: Tokens of a window.

    Raises:
        ValueError: If the problem's chunk is not the plan's.
    """
    ours = plan.problem.chunk if isinstance(plan.problem, StreamedNextToken) else None
    if ours != plan.chunk:
        raise ValueError(f"plan.chunk={plan.chunk} must equal plan.problem.chunk={ours}")

    def advance(state: TrainState) -> tuple[TrainState, Metrics]:
        # Diverged members stand still; the others are all at the same step.
        start = int(np.max(state.step))
        steps = range(start, start + plan.chunk)
        texts = np.stack(
            [read_windows(key, tokens, batch, length, steps) for key in members.data_key]
        )
        # Text t at t modulo the chunk, wherever the chunk starts.
        texts = np.roll(texts, start, axis=1)
        return ensemble.advance(plan, members._replace(hyper=jnp.asarray(texts)))(state)

    return advance


def text_losses(
    model: TransformerSpec, weights: TransformerWeights, texts: Int[Array, "batch n_ctx"]
) -> Float[Array, "batch n_predicted"]:
    """The loss on every token but the first of every text, nats; average over texts for a curve.

    Entry t is the loss on token t + 1, given tokens 0 to t.
    """
    spec = model.forward_spec()
    streams = jax.vmap(lambda text: final_stream(weights, text, spec)[0])(texts)
    # All texts in one product: a vmapped one has a gradient that copies the logits.
    logits, _ = unembed(weights, streams.reshape(-1, model.d_model), spec)
    return next_token_nats(logits.reshape(*texts.shape, -1), texts)
