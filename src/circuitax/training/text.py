"""An ensemble of language models on one text, on the device or streamed from disk."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Key

from circuitax.data.windows import DEVICE_BYTES, WindowSource, fits_on_device
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan
from circuitax.training.language import LanguageModule, NextToken, StreamedNextToken, stream
from circuitax.training.loop import Metrics
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState
from circuitax.training.sharding import check_mesh, every_device, shared_batches


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
