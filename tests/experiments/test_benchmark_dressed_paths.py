"""The rows of paths through MLPs measure what they say, on a small model."""

from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.model import Model
from circuitax.kit.real_model import SMALL
from circuitax.models.transformer import init
from experiments.benchmarks.dressed_paths import model_cases, pairs_case
from experiments.benchmarks.export_llama import hub_folder, smollm2_spec
from experiments.benchmarks.peer import PYTHON, Peer
from experiments.benchmarks.real_model import random_model


def test_a_certificate_stands_beside_its_time() -> None:
    model: Model = init(jax.random.key(0), SMALL, jnp.float32)
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


@pytest.mark.skipif(not PYTHON.exists(), reason="the peers' environment has not been made")
def test_the_peer_finds_the_same_edges_by_the_half_rule(tmp_path: Path) -> None:
    spec = smollm2_spec(3, 40).replace(d_model=24, n_heads=6, d_head=8, d_mlp=20, n_kv_heads=2)
    leaves, tree = jax.tree.flatten(random_model(spec))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [x + 0.3 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    model = jax.tree.unflatten(tree, moved)
    hub_folder(model, tmp_path)
    with Peer("relp_llama.py") as peer:
        case = pairs_case(model, 6, 30, tmp_path, peer)
        assert case.ours() > 0 and case.theirs is not None and case.theirs() > 0


class Edges:
    """In the place of a peer: ones, in the shape of its answer."""

    def ask(self, **request: Any) -> dict[str, Any]:
        n = len(request["nodes"])
        layers = [layer for layer, _, _ in request["nodes"]]
        assert layers == sorted(layers), "the peer goes through them by layer"
        return {"seconds": 1.0, "edges": np.ones((n + 1, n + len(request["tokens"])))}


def test_edges_that_differ_are_refused(tmp_path: Path) -> None:
    model: Model = init(jax.random.key(0), SMALL, jnp.float32)
    case = pairs_case(model, 5, 6, tmp_path, cast(Peer, Edges()))
    assert case.theirs is not None
    with pytest.raises(RuntimeError, match="differ by"):
        case.theirs()
