"""The rows of paths through MLPs measure what they say, on a small model."""

import jax
import jax.numpy as jnp

from circuitax.kernel.model import Model
from circuitax.kit.real_model import SMALL
from circuitax.models.transformer import init_model
from experiments.benchmarks.dressed_paths import model_cases


def test_a_certificate_stands_beside_its_time() -> None:
    model: Model = init_model(jax.random.key(0), SMALL, jnp.float32)
    groups, certified = model_cases(model, 5)
    assert groups.ours() > 0 and certified.ours() > 0
    assert certified.note.startswith("proven, proven after") and certified.wanted == "120 s"
    blocks = model.blocks
    assert blocks.mlp is not None
    # W_V is written out for each query head; W_gate is held and passes nothing.
    n_heads = blocks.attention.W_O.shape[1]
    kept = blocks.attention.W_V[:, :1].size * n_heads + blocks.attention.W_O.size
    kept += blocks.mlp.W_in.size + blocks.mlp.W_out.size
    assert groups.flops == 2.0 * kept * 5 * 6
