"""Training attention-only transformers, against TransformerLens: one model, and ensembles."""

import math
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.data.windows import WindowSource
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, device_mesh, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.benchmarks.case import Case
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.profiled import time_by_kind

SCRIPT = "transformer_lens_training.py"
PEER = "TransformerLens 3.9.0 on PyTorch 2.13.0, no hooks, fused Adam"
LAYERS, HEADS, BATCH, RATE = 2, 4, 32, 1e-3
TEXT_TOKENS = 200_000
MEMBERS = 8


@dataclass(frozen=True)
class Size:
    """One model and the steps of a round on either side."""

    d_model: int
    context: int
    vocabulary: int
    our_steps: int
    their_steps: int

    @property
    def flops_a_token(self) -> float:
        """Matrix products of a training step: three times those of the forward pass.

        Scores and mixing count whole, since neither side skips what the causal mask removes.
        Look-ups, softmax and the optimizer count nothing.
        """
        d = self.d_model
        layer = 4 * 2 * d * d + 2 * 2 * self.context * d
        return 3.0 * (LAYERS * layer + 2 * d * self.vocabulary)


LARGE = Size(128, 128, 1024, our_steps=20, their_steps=10)
# Those of the induction and text experiments here.
TINY = (Size(32, 64, 64, 50, 50), Size(64, 64, 512, 20, 20))


def cases(stack: ExitStack) -> list[Case]:
    """One model against eager and compiled PyTorch; ensembles of tiny ones, a model."""
    found = [_case(stack, LARGE, 1, compiled=False, target=1.8, wanted="65 %")]
    if shutil.which("g++"):
        found.append(_case(stack, LARGE, 1, compiled=True, wanted="65 %"))
    narrow, wide = TINY
    return [
        *found,
        _case(stack, narrow, MEMBERS, compiled=False, target=4.0),
        _case(stack, wide, MEMBERS, compiled=False, target=3.0, wanted="70 %"),
    ]


def text(vocabulary: int) -> np.ndarray:
    """Independent tokens by Zipf's law, as ``peers/transformer_lens_training.py`` draws them."""
    share = 1 / np.arange(1, vocabulary + 1)
    rng = np.random.default_rng(0)
    return rng.choice(vocabulary, TEXT_TOKENS, p=share / share.sum())


def training_problem(size: Size) -> NextToken:
    """Random windows of the text, and a model without norm with shortformer positions."""
    spec = TransformerSpec(
        d_vocab=size.vocabulary,
        n_ctx=size.context,
        n_layers=LAYERS,
        n_heads=HEADS,
        d_model=size.d_model,
        final_norm=False,
    )
    tokens = jnp.asarray(text(size.vocabulary), jnp.int32)
    return NextToken(Transformer(spec), WindowSource(BATCH, size.context, tokens))


def our_round(size: Size, n_members: int) -> Callable[[], float]:
    """One chunk of training, its windows drawn inside; microseconds a token and model."""
    problem = training_problem(size)
    members = new_members(jax.random.key(0), RATE, jnp.zeros(n_members))
    optim = OptimSpec(Optimizer.adam, RATE, weight_decay=0.0)
    mesh = device_mesh(data=math.gcd(BATCH, len(jax.devices())) if n_members == 1 else 1)
    plan = Plan(problem, optim, size.our_steps, mesh=mesh)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)

    def ours() -> float:
        nonlocal state
        start = time.perf_counter()
        state, metrics = jax.block_until_ready(advance(state))
        seconds = time.perf_counter() - start
        if not bool(metrics["alive"].all()):
            raise RuntimeError("a model diverged, so its steps cost nothing")
        return seconds / (size.our_steps * n_members * BATCH * size.context) * 1e6

    return ours


def _case(
    stack: ExitStack,
    size: Size,
    n_members: int,
    *,
    compiled: bool,
    target: float | None = None,
    wanted: str = "",
) -> Case:
    peer = stack.enter_context(Peer(SCRIPT))
    request = {
        "sizes": {
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "d_model": size.d_model,
            "d_head": size.d_model // HEADS,
            "n_ctx": size.context,
            "d_vocab": size.vocabulary,
        },
        "batch": BATCH,
        "rate": RATE,
        "text_tokens": TEXT_TOKENS,
        "compiled": compiled,
    }

    def theirs() -> float:
        answer = peer.ask(**request, steps=size.their_steps)
        return answer["seconds"] / (size.their_steps * BATCH * size.context) * 1e6

    ours = our_round(size, n_members)
    which = "one model" if n_members == 1 else f"{n_members} models, a model"
    return Case(
        name=f"attention-only training, {which}: {LAYERS} layers, d_model {size.d_model}, "
        f"{HEADS} heads, context {size.context}, batch {BATCH}, vocabulary {size.vocabulary}",
        unit="µs a token",
        ours=ours,
        theirs=theirs,
        peer=f"{PEER}, {'torch.compile' if compiled else 'eager'}",
        target=target,
        wanted=wanted,
        flops=size.flops_a_token,
        parts=lambda: time_by_kind(ours),
        seconds=1e-6,
        note="tokens a second are a million over the figure; same text, Adam and shortformer "
        "positions, no norm; operations are three times those of the forward pass's matrix "
        "products, causal mask not exploited; the peer has biases too"
        + (
            "; our batch is split over one device a core"
            if n_members == 1
            else ", and trains one model after the other; our members lie on one device a core"
        ),
    )
