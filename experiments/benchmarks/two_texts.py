"""The difference of two texts on SmolLM2: flows of all heads and neurons, against EAP-IG.

Where the package of SmolLM2 is not installed, random weights of its sizes take its place.
"""

import json
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.attribution import gradient_flows
from circuitax.circuits.contrast import Contrast, contrast
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.lab.runs import ACCEPTED, results_folder
from experiments.benchmarks.export_llama import exported, smollm2
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import seconds

N_CTX, STEPS = 24, 5


def cases(stack: ExitStack) -> list[Case]:
    """Secants here, the mean of five gradients there; our five gradients are equal to those."""
    model = smollm2()
    folder, peer = exported(model, stack), stack.enter_context(Peer("eap_ig_llama"))
    texts = np.random.default_rng(0).integers(0, model.d_vocab, (2, N_CTX))
    texts[1, : N_CTX // 2] = texts[0, : N_CTX // 2]
    right, wrong = texts[0, :2].tolist()

    @jax.jit
    def difference(model: Model, texts: jax.Array) -> Contrast:
        return contrast(*(forward_run(model, text) for text in texts), token=right, minus=wrong)

    def gradients() -> np.ndarray:
        runs = [forward_run(model, text) for text in texts]
        found = gradient_flows(*runs, token=right, minus=wrong, steps=STEPS)
        return np.concatenate([found.heads, np.asarray(found.units)], axis=1)

    claims = json.loads((results_folder() / "contrast" / ACCEPTED / "claims.json").read_text())
    settled = [quantity for row in claims for quantity in row["quantities"]]
    errors = next(q["measured"] for q in settled if q["measure"] == "ratio")
    # What a position is multiplied by in one pass: of both texts forwards, and backwards once.
    weights = [model.blocks.attention, model.blocks.mlp]
    passed = sum(leaf.size for leaf in jax.tree.leaves(weights)) * N_CTX
    return [
        Case(
            f"flows of all heads and neurons between two texts, {N_CTX} tokens",
            "s",
            lambda: seconds(difference, model, jnp.asarray(texts)),
            peer.round(
                gradients,
                texts=texts.tolist(),
                lead=[right, wrong],
                steps=STEPS,
                folder=str(folder),
            ),
            f"EAP-IG, {STEPS} steps, on PyTorch 2.14.1, LlamaForCausalLM of transformers, hooks",
            5.0,
            flops=2.0 * passed * 3,
            note="secants here, gradients there; our own gradients of as many steps are equal to "
            "the peer's to 0.001 of the largest; it passes all steps together; in the experiment "
            f"contrast our errors at cuts are {errors['value']:.2f} of EAP-IG's "
            f"[{errors['low']:.2f}, {errors['high']:.2f}], n = {errors['n']}",
        )
    ]
