"""Paths through MLPs on SmolLM2: all of them in groups from one linear pass, the top 20 proven, and
between all pairs of chosen neurons.

Where the package of SmolLM2 is not installed, random weights of its sizes take its place; the time
of a search, unlike all others, depends on what weights hold.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import Ledger, position_ledger
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.groups import neuron_flows, path_groups
from circuitax.circuits.paths.path_graph import Node, path_graph
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2
from experiments.benchmarks.case import Case
from experiments.benchmarks.export_llama import hub_folder, smollm2_spec
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.real_model import random_model, require_close

WHEN_NAMED = True  # minutes a round
N_CTX, K, BUDGET = 24, 20, 1_000_000
NEURONS, COPIES, PAIRS_TARGET = (100, 300), 16, 3.0
RELP = "RelP on PyTorch 2.13.0, LlamaForCausalLM of transformers, held modules"


def cases(stack: ExitStack) -> list[Case]:
    """The linear pass, certificates for two directions of one prompt, pairs of neurons."""
    model = load_pretrained("smollm2") if has_smollm2() else random_model(smollm2_spec())
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    hub_folder(model, folder)
    peer = stack.enter_context(Peer("relp_llama.py"))
    pairs = [pairs_case(model, N_CTX, n_neurons, folder, peer) for n_neurons in NEURONS]
    return [*model_cases(model, N_CTX), *pairs]


def repeated(model: Model, n_ctx: int) -> Run:
    """A run on a text that repeats."""
    half = np.random.default_rng(0).integers(0, model.d_vocab, -(-n_ctx // 2))
    return forward_run(model, jnp.asarray(np.tile(half, 2)[:n_ctx]), outputs=True)


def first_two(run: Run) -> tuple[int, int]:
    """The likeliest next token and the second."""
    best, second = (int(i) for i in np.argsort(-np.asarray(run.logits[-1]))[:2])
    return best, second


def model_cases(model: Model, n_ctx: int) -> list[Case]:
    """The cases without a peer of any model with MLPs."""
    run = repeated(model, n_ctx)
    frozen = frozen_model(run)
    best, second = first_two(run)
    W_U = frozen.read_out.W_U
    directions = [W_U[:, best] - W_U.mean(axis=1), W_U[:, best] - W_U[:, second]]
    found = _certified(frozen, directions)
    verdicts = ", ".join("proven" if each.complete else "gap remains" for each in found)
    count = sum(each.n_evaluated for each in found)
    return [
        Case(
            f"paths through MLPs by source token and last head, {n_ctx} tokens",
            "s",
            partial(_seconds, path_groups, frozen, n_ctx - 1, directions[0]),
            # Each stream of a source passes all heads and all MLPs at all positions.
            flops=2.0 * _weights(frozen) * n_ctx * (n_ctx + 1),
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


def pairs_case(model: Model, n_ctx: int, n_neurons: int, folder: Path, peer: Peer) -> Case:
    """Paths of a lead between all pairs of neurons, by the half rule, from a text on both sides.

    Args:
        model: With gated MLPs.
        n_ctx: Tokens of the text.
        n_neurons: Those through which most flows are chosen, each at its position.
        folder: Has the model as `hub_folder` writes it.
        peer: Of the script ``relp_llama.py``.
    """
    run = repeated(model, n_ctx)
    right, wrong = first_two(run)
    frozen = frozen_model(run, gates="shared")
    W_U = frozen.read_out.W_U
    flows = np.abs(neuron_flows(run, frozen, n_ctx - 1, W_U[:, right] - W_U[:, wrong]))
    largest = np.sort(np.argsort(-flows, axis=None)[:n_neurons])
    found = np.stack(np.unravel_index(largest, flows.shape), axis=1)[:, [0, 2, 1]].tolist()
    nodes = [Node("unit", *each) for each in found]
    checked = False

    @jax.jit
    def edges(model: Model) -> jax.Array:
        seen = forward_run(model, run.tokens, outputs=True)
        frozen = frozen_model(seen, gates="shared")
        W_U = frozen.read_out.W_U
        w = W_U[:, right] - W_U[:, wrong]
        return path_graph(frozen, nodes, n_ctx - 1, w, causal=True).edges

    def theirs() -> float:
        nonlocal checked
        answer = peer.ask(
            folder=str(folder),
            tokens=run.tokens.tolist(),
            nodes=found,
            right=right,
            wrong=wrong,
            copies=COPIES,
            with_edges=not checked,
        )
        if not checked:
            # Theirs begin with the row of the lead; ours end with it, and with the biases.
            require_close(np.roll(np.asarray(edges(model))[:, :-1], 1, axis=0), answer["edges"])
            checked = True
        return float(answer["seconds"])

    return Case(
        f"paths between all pairs of {n_neurons} neurons, {n_ctx} tokens, from a text",
        "s",
        partial(_seconds, edges, model),
        theirs,
        RELP,
        PAIRS_TARGET,
        # Of this way to do it: a row for each position that a source reaches, through the layers
        # that it passes; and the whole text once forwards and once backwards.
        flops=2.0
        * _weights(frozen)
        * (
            sum((n_ctx - n.position) * (1 - (n.layer + 1) / model.n_layers) for n in nodes)
            + n_ctx * (n_ctx + 1) / 2
            + 2 * n_ctx
        ),
        note="the half rule on both sides, edges equal to 0.001 of the largest; the neurons are "
        f"given; the peer passes {COPIES} copies of the text backwards at a time, and in each only "
        "what lies below its neurons",
    )


def _weights(frozen: FrozenModel) -> int:
    """Numbers by which a row of a stream is multiplied in one pass."""
    weights = int(frozen.W_V.size + frozen.W_O.size)
    if frozen.maps is not None:
        weights += int(frozen.maps.W_in.size + frozen.maps.W_out.size)
    return weights


def _certified(frozen: FrozenModel, directions: list[jax.Array]) -> list[Ledger]:
    bounds = dressed_bounds(frozen, -1)
    return [position_ledger(frozen, -1, w, k=K, budget=BUDGET, bounds=bounds) for w in directions]


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start
