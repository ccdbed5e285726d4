"""A call of `cx.run` outside of jit, as one types it, against TransformerLens and transformers.

Both sides are called as a user calls them, on the same weights and text, and have run once before.
"""

from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.benchmarks.export_llama import exported, random_model, smollm2, smollm2_spec
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import seconds
from experiments.benchmarks.real_model import LENS, TRANSFORMERS

LENGTH = 32
SMALL = smollm2_spec(2, 64).replace(d_model=16, n_heads=2, n_kv_heads=2, d_head=8, d_mlp=32)


def cases(stack: ExitStack) -> list[Case]:
    """A small model and SmolLM2, each against both peers."""
    lens = stack.enter_context(Peer("transformer_lens_run"))
    torch = stack.enter_context(Peer("transformers_llama"))
    models = {"2 layers of width 16": random_model(SMALL), "SmolLM2-135M": smollm2()}
    return [
        case
        for name, model in models.items()
        for case in model_cases(name, model, lens, torch, stack)
    ]


def model_cases(name: str, model: Model, lens: Peer, torch: Peer, stack: ExitStack) -> list[Case]:
    """One model against both peers, which read its weights from files."""
    files = exported(model, stack)
    tokens = np.random.default_rng(0).integers(0, model.d_vocab, LENGTH)
    ids, what = jnp.asarray(tokens), f"eager run of {LENGTH} tokens, {name}"
    note = "ours returns logits, streams and patterns of all layers; the second call, of one shape"
    sides = {
        f"{LENS}, run_with_cache": (lens, files.lens, "", ""),
        TRANSFORMERS: (
            torch,
            files.hub,
            ", logits alone by the peer",
            "; the peer returns logits and keeps nothing",
        ),
    }
    return [
        Case(
            what + more,
            "ms",
            lambda: 1e3 * seconds(run, model, ids),
            peer.round(
                lambda: run(model, ids).logits[-1], scale=1e3, text=tokens.tolist(), **asked
            ),
            named,
            1.0,
            flops=2.0 * LENGTH * sum(W.size for W in jax.tree.leaves((model.blocks, model.W_U))),
            seconds=1e-3,
            note=note + caveat,
        )
        for named, (peer, asked, more, caveat) in sides.items()
    ]
