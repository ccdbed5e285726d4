"""A call of `cx.run` outside of jit, as one types it, against TransformerLens and transformers.

Both sides are called as a user calls them, on the same weights and text, and have run once before.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from circuitax.models.pretrained import load_pretrained
from circuitax.models.sources import has_smollm2
from experiments.benchmarks.case import Case
from experiments.benchmarks.export_llama import hub_folder, lens_weights, smollm2_spec
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.real_model import LENS, TRANSFORMERS, random_model, require_close

LENGTH, TARGET = 32, 1.0
SMALL = smollm2_spec(2, 64).replace(d_model=16, n_heads=2, n_kv_heads=2, d_head=8, d_mlp=32)


def cases(stack: ExitStack) -> list[Case]:
    """A small model and SmolLM2, each against both peers."""
    lens = stack.enter_context(Peer("transformer_lens_run.py"))
    torch = stack.enter_context(Peer("transformers_llama.py"))
    large = load_pretrained("smollm2") if has_smollm2() else random_model(smollm2_spec())
    models = {
        "2 layers of width 16": random_model(SMALL),
        "SmolLM2-135M": large,
    }
    return [
        case
        for name, model in models.items()
        for case in model_cases(name, model, lens, torch, stack)
    ]


def model_cases(name: str, model: Model, lens: Peer, torch: Peer, stack: ExitStack) -> list[Case]:
    """One model against both peers, which read its weights from files."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    hub_folder(model, folder / "hub")
    config = lens_weights(model, folder / "lens.safetensors")
    asked = {"config": config, "weights": str(folder / "lens.safetensors")}
    what = f"eager run of {LENGTH} tokens, {name}"
    size = sum(W.size for W in jax.tree.leaves((model.blocks, model.W_U)))
    note = "ours returns logits, streams and patterns of all layers; the second call, of one shape"
    return [
        _case(what, model, lens, asked, f"{LENS}, run_with_cache", size, note),
        _case(
            f"{what}, logits alone by the peer",
            model,
            torch,
            {"action": "logits", "folder": str(folder / "hub")},
            TRANSFORMERS,
            size,
            f"{note}; the peer returns logits and keeps nothing",
        ),
    ]


def _case(
    name: str, model: Model, peer: Peer, asked: dict[str, Any], peer_name: str, size: int, note: str
) -> Case:
    tokens = np.random.default_rng(0).integers(0, model.d_vocab, LENGTH)
    ids, checked = jnp.asarray(tokens), False

    def ours() -> float:
        start = time.perf_counter()
        jax.block_until_ready((found := run(model, ids)).logits)
        jax.block_until_ready(found.trace)
        return 1e3 * (time.perf_counter() - start)

    def theirs() -> float:
        nonlocal checked
        answer = peer.ask(**asked, tokens=tokens.tolist(), with_logits=not checked)
        if not checked:
            require_close(np.asarray(run(model, ids).logits[-1]), np.asarray(answer["logits"]))
            checked = True
        return 1e3 * answer["seconds"]

    return Case(
        name,
        "ms",
        ours,
        theirs,
        peer_name,
        TARGET,
        flops=2.0 * LENGTH * size,
        seconds=1e-3,
        note=note,
    )
