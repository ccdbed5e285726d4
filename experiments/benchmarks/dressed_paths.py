"""Paths through MLPs on SmolLM2: all of them in groups from one linear pass, the top 20 proven, and
between all pairs of chosen neurons.

Where the package of SmolLM2 is not installed, random weights of its sizes take its place; the time
of a search, unlike all others, depends on what weights hold.
"""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import Ledger, position_ledger
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.groups import neuron_flows, path_groups
from circuitax.circuits.paths.path_graph import Node, path_graph
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as forward_run
from experiments.benchmarks.export_llama import exported, smollm2
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import seconds

WHEN_NAMED = True  # minutes a round
N_CTX, K, BUDGET, COPIES = 24, 20, 1_000_000, 16


def cases(stack: ExitStack) -> list[Case]:
    """The linear pass, certificates for two directions of one prompt, pairs of neurons."""
    model = smollm2()
    half = np.random.default_rng(0).integers(0, model.d_vocab, N_CTX // 2)
    run = forward_run(model, jnp.asarray(np.tile(half, 2)), outputs=True)
    folder, peer = exported(model, stack), stack.enter_context(Peer("relp_llama"))
    return [*alone_cases(run), *(pairs_case(run, n, folder, peer) for n in (100, 300))]


def lead(run: Run) -> list[int]:
    """The likeliest next token and the second."""
    return np.argsort(-np.asarray(run.logits[-1]))[:2].tolist()


def alone_cases(run: Run) -> list[Case]:
    """The cases without a peer."""
    frozen = frozen_model(run)
    best, second = lead(run)
    W_U = frozen.read_out.W_U
    directions = [W_U[:, best] - W_U.mean(axis=1), W_U[:, best] - W_U[:, second]]

    def certified() -> list[Ledger]:
        bounds = dressed_bounds(frozen, -1)
        search = partial(position_ledger, frozen, -1, k=K, budget=BUDGET, bounds=bounds)
        return [search(w) for w in directions]

    found = certified()
    verdicts = ", ".join("proven" if each.complete else "gap remains" for each in found)
    count = sum(each.n_evaluated for each in found)
    return [
        Case(
            f"paths through MLPs by source token and last head, {N_CTX} tokens",
            "s",
            lambda: seconds(path_groups, frozen, N_CTX - 1, directions[0]),
            # Each stream of a source passes all heads and all MLPs at all positions.
            flops=2.0 * n_weights(frozen) * N_CTX * (N_CTX + 1),
            note="one linear pass, a stream for each token; operations are those of weights",
        ),
        Case(
            f"top {K} paths through MLPs, {N_CTX} tokens, logit and lead",
            "s",
            lambda: seconds(certified),
            wanted="120 s",
            once=True,
            note=f"{verdicts} after {count:,} evaluations; bounds are shared by both",
        ),
    ]


def pairs_case(run: Run, n_neurons: int, folder: Path, peer: Peer) -> Case:
    """Paths of a lead between the neurons of most flow, by the half rule, from a text."""
    right, wrong = lead(run)
    n_layers = run.model.n_layers
    frozen = frozen_model(run, gates="shared")
    W_U = frozen.read_out.W_U
    flows = np.abs(neuron_flows(run, frozen, N_CTX - 1, W_U[:, right] - W_U[:, wrong]))
    largest = np.sort(np.argsort(-flows, axis=None)[:n_neurons])
    found = np.stack(np.unravel_index(largest, flows.shape), axis=1)[:, [0, 2, 1]].tolist()
    nodes = [Node("unit", *each) for each in found]

    @jax.jit
    def edges(model: Model) -> jax.Array:
        seen = forward_run(model, run.tokens, outputs=True)
        W_U = (frozen := frozen_model(seen, gates="shared")).read_out.W_U
        w = W_U[:, right] - W_U[:, wrong]
        return path_graph(frozen, nodes, N_CTX - 1, w, causal=True).edges

    # Of this way to do it: a row for each position that a source reaches, through the layers that
    # it passes; and the whole text once forwards and once backwards.
    rows = sum((N_CTX - n.position) * (1 - (n.layer + 1) / n_layers) for n in nodes)
    rows += N_CTX * (N_CTX + 1) / 2 + 2 * N_CTX
    return Case(
        f"paths between all pairs of {n_neurons} neurons, {N_CTX} tokens, from a text",
        "s",
        lambda: seconds(edges, run.model),
        peer.round(
            # Theirs begin with the row of the lead; ours end with it, and with the biases.
            lambda: np.roll(np.asarray(edges(run.model))[:, :-1], 1, axis=0),
            tokens=run.tokens.tolist(),
            nodes=found,
            lead=[right, wrong],
            copies=COPIES,
            folder=str(folder),
        ),
        "RelP on PyTorch 2.14.1, LlamaForCausalLM of transformers, held modules",
        3.0,
        flops=2.0 * n_weights(frozen) * rows,
        note="the half rule on both sides, edges equal to 0.001 of the largest; the neurons are "
        f"given; the peer passes {COPIES} copies of the text backwards at a time, and in each only "
        "what lies below its neurons",
    )


def n_weights(frozen: Any) -> int:
    """Numbers by which a row of a stream is multiplied in one pass, MLPs included."""
    maps = frozen.maps
    return sum(int(W.size) for W in (frozen.W_V, frozen.W_O, maps.W_in, maps.W_out))
