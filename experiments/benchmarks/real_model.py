"""SmolLM2-135M against transformers and TransformerLens: opening, reading, patching every head.

    python -m experiments.benchmarks.real_model FOLDER

opens a folder (or ``smollm2``) and prints the peak of memory, in MB, which the table asks of a
fresh process. Where the package of SmolLM2 is not installed, random weights of its sizes take its
place; no time depends on what weights hold.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2, smollm2_file
from circuitax.models.transformer import init
from experiments.benchmarks import composition
from experiments.benchmarks.case import Case
from experiments.benchmarks.export_llama import hub_folder, lens_weights, smollm2_spec
from experiments.benchmarks.memory import jax_alone_mb, peak_mb
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.profiled import time_by_kind

TRANSFORMERS = "transformers 5.23 on PyTorch 2.13.0, LlamaForCausalLM, eager"
LENS = "TransformerLens 3.9.0 on PyTorch 2.13.0"
LENGTHS = (32, 256)
PROMPT = 16
FORWARD_TARGET, PATCH_TARGET, SCORES_TARGET = 1.0, 3.0, 25.0
TOLERANCE = 1e-3  # of a logit, relative to the largest of them
# Of all 270 heads the peer's scores would need about 47 GB; 12 layers fit where 144 wider heads do.
ALL_HEADS, SOME_HEADS = composition.Size(30, 9, 576, 64), composition.Size(12, 9, 576, 64)


def cases(stack: ExitStack) -> list[Case]:
    """Opening, reading, patching, composition."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    model = load_pretrained("smollm2") if has_smollm2() else random_model(smollm2_spec())
    return [
        *model_cases(model, folder, stack),
        *composition_cases(stack),
    ]


def model_cases(
    model: Model, folder: Path, stack: ExitStack, lengths: tuple[int, ...] = LENGTHS
) -> list[Case]:
    """All cases of one model, which others read from a folder."""
    hub_folder(model, folder)
    config = lens_weights(model, folder / "lens.safetensors")
    (folder / "lens.safetensors").rename(lens := folder.with_suffix(".lens.safetensors"))
    stack.callback(lens.unlink)
    reader = stack.enter_context(Peer("transformers_llama.py"))
    opener = stack.enter_context(Peer("transformers_llama.py"))
    patcher = stack.enter_context(Peer("transformer_lens_patching.py"))
    return [
        *_opening(folder, opener, sum(leaf.nbytes for leaf in jax.tree.leaves(model))),
        *(_reading(model, folder, reader, length) for length in lengths),
        _patching(model, config, lens, patcher),
    ]


def random_model(spec: TransformerSpec) -> Model:
    """Random weights of these sizes, with gains as files have them."""
    return init(jax.random.key(0), spec, jnp.float32)


def _opening(folder: Path, peer: Peer, n_bytes: int) -> list[Case]:
    weights = f"the weights are {n_bytes / 2**20:.0f} MB in float32"
    held = {"weights and JAX": lambda: n_bytes / 2**20 + jax_alone_mb()}
    file = sum(path.stat().st_size for path in folder.glob("*.safetensors"))

    def ours(source: str | Path) -> float:
        start = time.perf_counter()
        jax.block_until_ready(load_pretrained(source))
        return time.perf_counter() - start

    @cache
    def theirs() -> dict[str, Any]:  # the first answer of a process that has done nothing else
        return peer.ask(action="load", folder=str(folder))

    found = [
        Case(
            "opening SmolLM2-135M, a folder with safetensors",
            "s",
            partial(ours, folder),
            lambda: peer.ask(action="load", folder=str(folder))["seconds"] if theirs() else 0.0,
            TRANSFORMERS,
            moved=file + n_bytes,
            note=f"{weights}; files in the system's cache on both sides; the peer maps the file, "
            "and reads it when it is used",
        ),
        Case(
            "opening SmolLM2-135M, a folder with safetensors: peak memory of the process",
            "MB",
            _peak(str(folder)),
            lambda: theirs()["peak_mb"],
            TRANSFORMERS,
            floors=held,
            note=f"{weights}; JAX itself is about 200 MB; the peer has not read its weights yet; "
            "measured once",
        ),
    ]
    if has_smollm2():
        found += [
            Case(
                "opening SmolLM2-135M, GGUF Q4_1",
                "s",
                partial(ours, "smollm2"),
                wanted="10 s",
                moved=smollm2_file().stat().st_size + n_bytes,
                note=f"{weights}, dequantised from 93 MB",
            ),
            Case(
                "opening SmolLM2-135M, GGUF Q4_1: peak memory of the process",
                "MB",
                _peak("smollm2"),
                floors=held,
                note=f"{weights}; JAX itself is about 200 MB, the mapped file 93 MB; measured once",
            ),
        ]
    return found


def _peak(source: str) -> Callable[[], float]:
    @cache
    def ours() -> float:
        command = [sys.executable, "-m", "experiments.benchmarks.real_model", source]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return ours


def _reading(model: Model, folder: Path, peer: Peer, length: int) -> Case:
    tokens = np.random.default_rng(0).integers(0, model.d_vocab, length)
    read = jax.jit(lambda model, ids: forward(model, ids)[0])
    ids, checked = jnp.asarray(tokens), False

    def ours() -> float:
        start = time.perf_counter()
        jax.block_until_ready(read(model, ids))
        return (time.perf_counter() - start) / length

    def theirs() -> float:
        nonlocal checked
        request = {"action": "logits", "folder": str(folder), "tokens": tokens.tolist()}
        answer = peer.ask(**request, with_logits=not checked)
        if not checked:
            require_close(np.asarray(read(model, ids)[-1]), np.asarray(answer["logits"]))
            checked = True
        return answer["seconds"] / length

    return Case(
        f"reading {length} tokens, SmolLM2-135M, all logits",
        "s a token",
        ours,
        theirs,
        TRANSFORMERS,
        FORWARD_TARGET,
        flops=2.0 * sum(W.size for W in jax.tree.leaves((model.blocks, model.W_U))),
        note=f"tokens a second are 1 over the figure; same weights, logits equal to {TOLERANCE:g} "
        "of the largest; operations are those of weights, without those of patterns",
    )


def _patching(model: Model, config: dict[str, Any], lens: Path, peer: Peer) -> Case:
    rng = np.random.default_rng(1)
    text, other = (jnp.asarray(rng.integers(0, model.d_vocab, PROMPT)) for _ in range(2))
    right = int(rng.integers(model.d_vocab))
    checked = False

    @jax.jit
    def patched(model: Model) -> jax.Array:
        donor = forward_run(model, other, outputs=True)
        values = ablated_metrics(
            model,
            text,
            each_head(model),
            lambda logits: logits[-1, right],
            replacement=components_of(donor),
        )
        return values.reshape(model.n_layers, model.n_heads)

    def ours() -> float:
        start = time.perf_counter()
        jax.block_until_ready(patched(model))
        return time.perf_counter() - start

    def theirs() -> float:
        nonlocal checked
        answer = peer.ask(
            config=config,
            weights=str(lens),
            text=text.tolist(),
            donor=other.tolist(),
            right=right,
            heads=asked.tolist(),
        )
        if not checked:
            require_close(np.asarray(patched(model))[*asked.T], np.asarray(answer["values"]))
            checked = True
        return answer["donor"] + answer["patching"] * n / len(asked)

    n, layers = model.n_layers * model.n_heads, np.arange(model.n_layers)
    asked = np.stack([layers, layers % model.n_heads], axis=1)
    return Case(
        f"activation patching of all {n} heads, SmolLM2-135M, a prompt of {PROMPT} tokens",
        "s",
        ours,
        theirs,
        f"{LENS}, patching.py",
        PATCH_TARGET,
        flops=patching_flops(model, PROMPT),
        parts=lambda: time_by_kind(ours),
        note="operations are those of weights behind each head, and of one run of either text; "
        "ours makes every run whole; the donor's run is inside; same weights, effects equal to "
        f"{TOLERANCE:g} of the largest value; the peer makes one pass a head, patches "
        f"{len(asked)} heads, one a layer, and is counted as if all",
    )


def patching_flops(model: Model, n_ctx: int) -> float:
    """Operations of weights that lie behind each head, and of one run of both texts, logits aside.

    A head of layer l moves what this layer's MLP does, and all that later layers do.
    """
    n_layers = model.n_layers
    layer, mlp = (
        sum(W.size for W in jax.tree.leaves(part)) / n_layers
        for part in (model.blocks, model.blocks.mlp)
    )
    behind = sum(mlp + (n_layers - 1 - below) * layer for below in range(n_layers))
    return 2.0 * n_ctx * (model.n_heads * behind + 2 * n_layers * layer)


def composition_cases(stack: ExitStack) -> list[Case]:
    """All heads of SmolLM2's sizes, and so many layers as the peer's memory suffices for."""
    peer = stack.enter_context(Peer("transformer_lens_composition.py"))
    return [
        composition.time_case(SOME_HEADS, peer, target=SCORES_TARGET),
        composition.memory_case(SOME_HEADS, peer),
        composition.time_case(ALL_HEADS),
        composition.memory_case(ALL_HEADS),
    ]


def require_close(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Refuse numbers that differ.

    Raises:
        RuntimeError: If they differ by more than `TOLERANCE` of the largest.
    """
    gap = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not gap <= TOLERANCE:
        raise RuntimeError(f"the two sides differ by {gap:.2g} of the largest value")


if __name__ == "__main__":
    jax.block_until_ready(load_pretrained(sys.argv[1]))
    print(peak_mb())
