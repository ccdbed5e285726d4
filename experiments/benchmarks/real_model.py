"""SmolLM2-135M against transformers and TransformerLens: opening, reading, patching every head.

    python -m experiments.benchmarks.real_model FOLDER

opens a folder (or ``smollm2``) and prints the peak of memory, in MB, which the table asks of a
fresh process. Where the package of SmolLM2 is not installed, random weights of its sizes take its
place; no time depends on what weights hold.
"""

import sys
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.patching import ablated_metrics, each_head
from circuitax.circuits.paths.components import components_of
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2, smollm2_file
from experiments.benchmarks import composition
from experiments.benchmarks.export_llama import exported, smollm2
from experiments.benchmarks.harness import TOLERANCE, Case, Peer
from experiments.benchmarks.machine import alone, peak_mb, seconds

TRANSFORMERS = "transformers 5.24 on PyTorch 2.14.1, LlamaForCausalLM, eager"
PROMPT = 16


def cases(stack: ExitStack) -> list[Case]:
    """Opening, reading, patching, composition."""
    model = smollm2()
    folder = exported(model, stack)
    reader = stack.enter_context(Peer("transformers_llama"))
    composer = stack.enter_context(Peer("lens"))
    return [
        *opening(model, folder, stack.enter_context(Peer("transformers_llama"))),
        *(reading(model, folder, reader, length) for length in (32, 256)),
        patching(model, folder, stack.enter_context(Peer("lens"))),
        # Of all heads the peer's scores would need about 47 GB; 12 layers fit.
        *composition.both(composition.Size(12, 9, 576, 64), composer, target=25.0),
        *composition.both(composition.Size(30, 9, 576, 64)),
    ]


def opening(model: Model, hub: Path, peer: Peer) -> list[Case]:
    """A folder of the Hub against the peer, and the compressed file: time and memory."""
    n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(model))
    weights = f"the weights are {n_bytes / 2**20:.0f} MB in float32"
    first = cache(lambda: peer.ask(folder=str(hub)))  # before it has done anything else

    def case(what: str, source: str | Path, file: Path, note: str, **more: Any) -> Case:
        ours = partial(seconds, load_pretrained, source)
        n_moved = file.stat().st_size + n_bytes
        return Case(f"opening SmolLM2-135M, {what}", "s", ours, moved=n_moved, note=note, **more)

    def memory(what: str, source: str | Path, note: str, **more: Any) -> Case:
        name = f"opening SmolLM2-135M, {what}: peak memory of the process"
        note = f"{weights}; JAX itself is about 200 MB{note}; measured once"
        return Case(name, "MB", cache(lambda: alone("real_model", source)), note=note, **more)

    again = peer.round(folder=str(hub))
    folder, gguf = "a folder with safetensors", "GGUF Q4_1"
    how = "files in the system's cache on both sides; the peer maps the file, and reads it when it "
    file, unread = hub / "model.safetensors", "; the peer has not read its weights yet"
    told = {"theirs": lambda: again() if first() else 0.0, "peer": TRANSFORMERS}
    held = {"theirs": lambda: first()["peak_mb"], "peer": TRANSFORMERS}
    found = [
        case(folder, hub, file, f"{weights}; {how}is used", **told),
        memory(folder, hub, unread, **held),
    ]
    if not has_smollm2():
        return found
    note = f"{weights}, dequantised from 93 MB"
    return [
        *found,
        case(gguf, "smollm2", smollm2_file(), note, wanted="10 s"),
        memory(gguf, "smollm2", ", the mapped file 93 MB"),
    ]


def reading(model: Model, hub: Path, peer: Peer, length: int) -> Case:
    """One compiled forward pass on a text."""
    tokens = np.random.default_rng(0).integers(0, model.d_vocab, length)
    read, ids = jax.jit(lambda model, ids: forward(model, ids)[0]), jnp.asarray(tokens)
    scale = 1 / length
    return Case(
        f"reading {length} tokens, SmolLM2-135M, all logits",
        "s a token",
        lambda: seconds(read, model, ids) / length,
        peer.round(
            lambda: read(model, ids)[-1], scale=scale, text=tokens.tolist(), folder=str(hub)
        ),
        TRANSFORMERS,
        1.0,
        flops=2.0 * sum(W.size for W in jax.tree.leaves((model.blocks, model.W_U))),
        note=f"tokens a second are 1 over the figure; same weights, logits equal to {TOLERANCE:g} "
        "of the largest; operations are those of weights, without those of patterns",
    )


def patching(model: Model, hub: Path, peer: Peer) -> Case:
    """Every head replaced by that of another text; the peer patches one of each layer."""
    rng = np.random.default_rng(1)
    text, donor = (rng.integers(0, model.d_vocab, PROMPT) for _ in range(2))
    right = int(rng.integers(model.d_vocab))
    n, layers = model.n_layers * model.n_heads, np.arange(model.n_layers)
    asked = np.stack([layers, layers % model.n_heads], axis=1)

    @jax.jit
    def patched(model: Model) -> jax.Array:
        values = ablated_metrics(
            model,
            jnp.asarray(text),
            each_head(model),
            lambda logits: logits[-1, right],
            replacement=components_of(forward_run(model, jnp.asarray(donor), outputs=True)),
        )
        return values.reshape(model.n_layers, model.n_heads)

    return Case(
        f"activation patching of all {n} heads, SmolLM2-135M, a prompt of {PROMPT} tokens",
        "s",
        lambda: seconds(patched, model),
        peer.round(
            lambda: patched(model)[*asked.T],
            what="patching",
            folder=str(hub),
            text=text.tolist(),
            donor=donor.tolist(),
            right=right,
            heads=asked.tolist(),
            repeats=n / len(asked),
        ),
        "TransformerLens 4.3.0 on PyTorch 2.14.1, patching.py",
        3.0,
        flops=patching_flops(model),
        note="operations are those of weights behind each head, and of one run of either text; "
        "ours makes every run whole; the donor's run is inside; same weights, effects equal to "
        f"{TOLERANCE:g} of the largest value; the peer makes one pass a head, patches "
        f"{len(asked)} heads, one a layer, and is counted as if all",
    )


def patching_flops(model: Model) -> float:
    """Operations of weights that lie behind each head, and of one run of both texts, logits aside.

    A head of layer l moves what this layer's MLP does, and all that later layers do.
    """
    n_layers = model.n_layers
    layer, mlp = (
        sum(W.size for W in jax.tree.leaves(part)) / n_layers
        for part in (model.blocks, model.blocks.mlp)
    )
    behind = sum(mlp + (n_layers - 1 - below) * layer for below in range(n_layers))
    return 2.0 * PROMPT * (model.n_heads * behind + 2 * n_layers * layer)


if __name__ == "__main__":
    jax.block_until_ready(load_pretrained(sys.argv[1]))
    print(peak_mb())
