"""Grouped, gated, rotary, local and capped models that TransformerLens wrote, with its logits."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from circuitax.kernel.forward import forward
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.pretrained import load_pretrained, save_pretrained
from circuitax.models.transformer import init

FIXTURES = Path(__file__).parent.parent / "fixtures" / "lens_options"


@pytest.mark.parametrize("name", ["grouped", "local"])
def test_logits_and_patterns_of_TransformerLens(x64: None, name: str) -> None:
    model = load_pretrained(FIXTURES / name, dtype="float64")
    expected = np.load(FIXTURES / name / "reference.npz")
    logits, trace = jax.jit(jax.vmap(lambda tokens: forward(model, tokens)))(expected["tokens"])
    np.testing.assert_allclose(logits, expected["logits"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(trace.patterns, expected["patterns"], rtol=1e-9, atol=1e-10)


def test_a_gated_bias_moves_behind_the_product() -> None:
    model, state = (
        load_pretrained(FIXTURES / "grouped"),
        load_file(FIXTURES / "grouped/model.safetensors"),
    )
    assert model.blocks.mlp is not None
    np.testing.assert_array_equal(model.blocks.mlp.b_in, 0)
    late = state["blocks.1.mlp.b_in"] @ state["blocks.1.mlp.W_out"]
    np.testing.assert_allclose(
        model.blocks.mlp.b_out[1], state["blocks.1.mlp.b_out"] + late, rtol=1e-5, atol=1e-6
    )


def test_the_window_and_the_caps_matter(x64: None) -> None:
    """Without one of them the same weights give other logits: a lost option would be seen."""
    model = load_pretrained(FIXTURES / "local", dtype="float64")
    expected = np.load(FIXTURES / "local" / "reference.npz")
    for change in (
        {"window": None, "local_layers": None},
        {"score_cap": None},
        {"logit_cap": None},
    ):
        logits, _ = forward(model.with_options(**change), jnp.asarray(expected["tokens"][0]))
        assert np.abs(np.asarray(logits) - expected["logits"][0]).max() > 1e-2


@pytest.mark.parametrize(
    "options",
    [
        {"n_kv_heads": 2, "positions": Positions.rotary, "rotary_dim": 2, "rotary_base": 30.0},
        {"window": 3, "local_layers": (1,), "score_cap": 2.0, "logit_cap": 5.0},
        {"qk_norm": True, "causal": False, "norm": Norm.rmsnorm, "norm_eps": 1e-3},
        {"d_vocab_out": 3, "score_scale": 0.5, "parallel": True, "d_mlp": 5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_go_there_and_back(tmp_path: Path, options: dict) -> None:
    sizes = {"d_vocab": 7, "n_ctx": 6, "d_model": 8, "d_head": 4, "n_heads": 4, "biases": True}
    spec = TransformerSpec(**(sizes | {"positions": Positions.learned} | options))
    model = init(jax.random.key(0), spec)
    save_pretrained(model, tmp_path)
    again = load_pretrained(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, again.named(), model.named())
    tokens = jnp.array([1, 5, 2, 2, 6])
    before, after = (np.asarray(forward(m, tokens)[0]) for m in (model, again))
    np.testing.assert_array_equal(before, after)


def test_shared_keys_may_be_as_many_as_heads(tmp_path: Path) -> None:
    model = init(jax.random.key(0), TransformerSpec(positions=Positions.learned, biases=True))
    save_pretrained(model, tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    shared = {
        key.replace("attn.", "attn._") if key.endswith(("_K", "_V")) else key: value
        for key, value in state.items()
    }
    save_file(shared, tmp_path / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, load_pretrained(tmp_path).named(), model.named())
