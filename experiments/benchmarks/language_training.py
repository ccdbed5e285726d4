"""Training attention-only transformers, against TransformerLens: one model, and ensembles."""

import json
import math
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.data.text import WindowSource
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, device_mesh, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import seconds

PEER = "TransformerLens 4.3.0 on PyTorch 2.14.1, its NativeModel, no hooks, fused Adam"
LAYERS, HEADS, BATCH, RATE = 2, 4, 32, 1e-3
TEXT_TOKENS = 200_000
MEMBERS = 8


class Size(NamedTuple):
    """One model and the steps of a round on either side."""

    d_model: int
    context: int
    vocabulary: int
    our_steps: int
    their_steps: int


LARGE = Size(128, 128, 1024, our_steps=20, their_steps=10)
# Those of the induction and text experiments here.
NARROW, WIDE = Size(32, 64, 64, 50, 50), Size(64, 64, 512, 20, 20)


def cases(stack: ExitStack) -> list[Case]:
    """One model against eager and compiled PyTorch; ensembles of tiny ones, a model."""
    found = [_case(stack, LARGE, 1, target=1.8, wanted="65 %")]
    if shutil.which("g++"):
        found.append(_case(stack, LARGE, 1, compiled=True, wanted="65 %"))
    return [
        *found,
        _case(stack, NARROW, MEMBERS, target=4.0),
        _case(stack, WIDE, MEMBERS, target=3.0, wanted="70 %"),
    ]


def training_problem(size: Size) -> NextToken:
    """Windows of independent tokens by Zipf's law, as the peer draws them; no norm."""
    spec = TransformerSpec(
        d_vocab=size.vocabulary,
        n_ctx=size.context,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_model=size.d_model,
        positions=Positions.learned,
        final_norm=False,
    )
    share = 1 / np.arange(1, size.vocabulary + 1)
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.choice(size.vocabulary, TEXT_TOKENS, p=share / share.sum()), jnp.int32)
    return NextToken(Transformer(spec), WindowSource(BATCH, size.context, tokens))


def our_round(size: Size, n_members: int) -> Callable[[], float]:
    """One chunk of training, its windows drawn inside; microseconds a token and model."""
    members = new_members(jax.random.key(0), RATE, jnp.zeros(n_members))
    optim = OptimSpec(Optimizer.adam, RATE, weight_decay=0.0)
    mesh = device_mesh(data=math.gcd(BATCH, len(jax.devices())) if n_members == 1 else 1)
    plan = Plan(training_problem(size), optim, size.our_steps, mesh=mesh)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)

    def chunk() -> jax.Array:
        nonlocal state
        state, metrics = advance(state)
        return metrics["alive"]

    n_tokens = size.our_steps * n_members * BATCH * size.context
    return lambda: 1e6 * seconds(chunk) / n_tokens


def _case(
    stack: ExitStack,
    size: Size,
    n_members: int,
    *,
    compiled: bool = False,
    target: float | None = None,
    wanted: str = "",
) -> Case:
    sizes = {
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "d_model": size.d_model,
        "d_head": size.d_model // HEADS,
        "n_ctx": size.context,
        "d_vocab": size.vocabulary,
    }
    theirs = stack.enter_context(Peer("lens")).round(
        scale=1e6 / (size.their_steps * BATCH * size.context),
        what="training",
        sizes=json.dumps(sizes),
        batch=BATCH,
        rate=RATE,
        text_tokens=TEXT_TOKENS,
        compiled=compiled,
        steps=size.their_steps,
    )
    d = size.d_model
    # Of the forward pass of a layer, for a token; scores and mixing count whole, since neither side
    # skips what the causal mask removes.
    layer = 4 * 2 * d * d + 2 * 2 * size.context * d
    which = "one model" if n_members == 1 else f"{n_members} models, a model"
    more = ", and trains one model after the other; our members lie on one device a core"
    return Case(
        f"attention-only training, {which}: {LAYERS} layers, d_model {size.d_model}, "
        f"{HEADS} heads, context {size.context}, batch {BATCH}, vocabulary {size.vocabulary}",
        "µs a token",
        our_round(size, n_members),
        theirs,
        f"{PEER}, {'torch.compile' if compiled else 'eager'}",
        target,
        wanted,
        flops=3.0 * (LAYERS * layer + 2 * d * size.vocabulary),
        seconds=1e-6,
        note="tokens a second are a million over the figure; same text, Adam and learned "
        "positions, no norm; operations are three times those of the forward pass's matrix "
        "products, causal mask not exploited; the peer has biases too"
        + ("; our batch is split over one device a core" if n_members == 1 else more),
    )
