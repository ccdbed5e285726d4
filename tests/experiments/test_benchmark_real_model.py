"""The benchmark of a real model: what peers read is the model that we measure."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from circuitax.models.pretrained import load_pretrained
from experiments.benchmarks import eager_run
from experiments.benchmarks.export_llama import hub_folder, lens_weights, smollm2_spec
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.real_model import patching_flops, random_model, require_close

TOKENS = jnp.array([3, 17, 5, 39, 3, 17])


@pytest.fixture(scope="module")
def model() -> Model:
    spec = smollm2_spec(2, 40).replace(d_model=24, n_heads=6, d_head=8, d_mlp=20, n_kv_heads=2)
    drawn = random_model(spec)
    leaves, tree = jax.tree.flatten(drawn)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    # Gains start at 1, which no order of entries could be told from.
    moved = [x + 0.3 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, moved)


def test_both_exports_are_read_as_the_same_model(model: Model, tmp_path: Path) -> None:
    expected = run(model, TOKENS).logits
    hub_folder(model, tmp_path / "hub")
    found = run(load_pretrained(tmp_path / "hub"), TOKENS).logits
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    (lens := tmp_path / "lens").mkdir()
    config = lens_weights(model, lens / "model.safetensors")
    (lens / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = run(load_pretrained(lens), TOKENS).logits
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_model_with_tied_embeddings_is_written_as_one(model: Model, tmp_path: Path) -> None:
    hub_folder(model.replace(W_U=model.W_E.T), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["tie_word_embeddings"] is True
    opened = load_pretrained(tmp_path)
    np.testing.assert_array_equal(opened.W_U, model.W_E.T)


def test_operations_of_patching_are_those_behind_each_head(model: Model) -> None:
    gated = 3 * 24 * 20  # W_gate, W_in, W_out
    attention = 24 * 8 * (6 + 2 + 2 + 6)
    norms = 2 * 24
    # Heads of layer 0 move both MLPs and the attention of layer 1, those of layer 1 its own MLP.
    behind = (gated + attention + gated + norms) + gated
    runs = 2 * 2 * (gated + attention + norms)
    assert patching_flops(model, 5) == 2 * 5 * (6 * behind + runs)


def test_unequal_answers_are_refused() -> None:
    ours = np.array([1.0, -20.0])
    require_close(ours, ours + 0.01)
    with pytest.raises(RuntimeError, match=r"differ by 0\.0025 of the largest"):
        require_close(ours, np.array([1.05, -20.0]))


class Reader:
    """In the place of a peer: reads the file that it is told of, and can be wrong."""

    def __init__(self, wrong: float) -> None:
        self.wrong, self.asked = wrong, 0

    def ask(self, **request: Any) -> dict[str, Any]:
        self.asked += 1
        if "folder" in request:
            model = load_pretrained(request["folder"])
        else:
            model = load_pretrained(request["weights"], config=request["config"])
        logits = np.asarray(run(model, jnp.asarray(request["tokens"])).logits[-1])
        return {"seconds": 0.5, "logits": (logits + self.wrong).tolist()}


def test_an_eager_run_is_held_against_the_logits_of_both_peers(model: Model) -> None:
    right, wrong = (cast(Peer, Reader(by)) for by in (0.0, 0.1))
    with ExitStack() as stack:
        lens, torch = eager_run.model_cases("tiny", model, right, wrong, stack)
        assert lens.ours() > 0 and lens.theirs is not None and torch.theirs is not None
        assert lens.theirs() == 500.0
        with pytest.raises(RuntimeError, match="differ by"):
            torch.theirs()
    assert cast(Reader, right).asked == 1
