"""Paths through MLPs on SmolLM2: all of them in groups from one linear pass, and the top 20 proven.

Where the package of SmolLM2 is not installed, random weights of its sizes take its place; the time
of a search, unlike all others, depends on what weights hold.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import Ledger, position_ledger
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.groups import path_groups
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.models.pretrained import load_pretrained
from circuitax.models.smollm2 import has_smollm2
from experiments.benchmarks.case import Case
from experiments.benchmarks.export_llama import smollm2_spec
from experiments.benchmarks.real_model import random_model

WHEN_NAMED = True  # minutes a round
N_CTX, K, BUDGET = 24, 20, 1_000_000


def cases(stack: ExitStack) -> list[Case]:
    """The linear pass, and certificates for two directions of one prompt."""
    model = load_pretrained("smollm2") if has_smollm2() else random_model(smollm2_spec())
    return model_cases(model, N_CTX)


def model_cases(model: Model, n_ctx: int) -> list[Case]:
    """Both cases of any model with MLPs, on a text that repeats."""
    half = np.random.default_rng(0).integers(0, model.d_vocab, -(-n_ctx // 2))
    run = forward_run(model, jnp.asarray(np.tile(half, 2)[:n_ctx]), outputs=True)
    frozen = frozen_model(run)
    best, second = (int(i) for i in np.argsort(-np.asarray(run.logits[-1]))[:2])
    W_U = frozen.read_out.W_U
    directions = [W_U[:, best] - W_U.mean(axis=1), W_U[:, best] - W_U[:, second]]
    found = _certified(frozen, directions)
    verdicts = ", ".join("proven" if each.complete else "gap remains" for each in found)
    count = sum(each.n_evaluated for each in found)
    # Each stream of a source passes all heads and all MLPs at all positions.
    weights = sum(W.size for W in (frozen.W_V, frozen.W_O))
    if frozen.maps is not None:
        weights += frozen.maps.W_in.size + frozen.maps.W_out.size
    return [
        Case(
            f"paths through MLPs by source token and last head, {n_ctx} tokens",
            "s",
            partial(_seconds, path_groups, frozen, n_ctx - 1, directions[0]),
            flops=2.0 * weights * n_ctx * (n_ctx + 1),
            note="one linear pass, a stream for each token; operations are those of weights",
        ),
        Case(
            f"top {K} paths through MLPs, {n_ctx} tokens, logit and lead",
            "s",
            partial(_seconds, _certified, frozen, directions),
            wanted="120 s",
            once=True,
            note=f"{verdicts} after {count:,} evaluations; bounds are shared by both",
        ),
    ]


def _certified(frozen: FrozenModel, directions: list[jax.Array]) -> list[Ledger]:
    bounds = dressed_bounds(frozen, -1)
    return [position_ledger(frozen, -1, w, k=K, budget=BUDGET, bounds=bounds) for w in directions]


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start
