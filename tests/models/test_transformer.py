"""The Linen module calls the kernel; initial weights are as stated."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import (
    Parameter,
    draw_parameters,
    model_from_params,
    params_from_model,
    transformer_parameters,
)
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model

init = jax.jit(init_model, static_argnums=(1, 2))

TOKENS = jnp.array([3, 1, 4, 1])
SIMPLE = TransformerSpec.simplified(d_vocab=7, n_heads=2, d_model=6, d_head=4, d_value=3)
FULL = TransformerSpec(
    d_vocab=7,
    n_ctx=4,
    n_heads=2,
    d_model=6,
    d_mlp=5,
    gated=True,
    norm=Norm.layernorm,
    biases=True,
    smeared_keys=True,
)


def test_S0_def_12_module_calls_the_kernel() -> None:
    module = Transformer(SIMPLE)
    variables = jax.jit(module.init)(jax.random.key(0), TOKENS)
    model = model_from_params(variables["params"], SIMPLE)
    want, _ = forward(model, TOKENS)
    np.testing.assert_array_equal(module.apply(variables, TOKENS), want)
    assert model.blocks.attention.W_V.shape == (2, 2, 6, 3)
    off, trace = forward(model, TOKENS, ablate_heads(jnp.ones((2, 2))), outputs=True)
    np.testing.assert_allclose(off, (model.W_E @ model.W_U)[TOKENS], rtol=1e-5, atol=1e-6)
    assert trace.head_outputs.shape == (2, 2, 4, 6)


def test_full_module_calls_the_kernel_and_extraction_inverts() -> None:
    module = Transformer(FULL)
    params = params_from_model(init(jax.random.key(0), FULL))
    model = model_from_params(params, FULL)
    logits = jax.jit(module.apply)({"params": params}, TOKENS)
    want, _ = jax.jit(forward)(model, TOKENS)
    np.testing.assert_allclose(logits, want, rtol=1e-5, atol=1e-6)
    assert set(params) == set(transformer_parameters(FULL))
    jax.tree.map(np.testing.assert_array_equal, params_from_model(model), params)


def test_a_batch_is_its_texts_and_the_draw_is_that_of_one_text() -> None:
    module, texts = Transformer(FULL), jnp.stack([TOKENS, TOKENS[::-1]])
    variables = jax.jit(module.init)(jax.random.key(0), texts)
    alone = init(jax.random.key(0), FULL)
    np.testing.assert_array_equal(variables["params"]["W_E"], alone.W_E)
    logits = module.apply(variables, texts)
    for row, text in zip(logits, texts, strict=True):
        np.testing.assert_allclose(row, forward(alone, text)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", [Norm.none, Norm.layernorm])
def test_S0_def_5_depth_of_the_mlp_in_both_families(norm: Norm) -> None:
    """Linen and plain forward agree; the other maps are drawn as in the model of depth 1."""
    shallow = dataclasses.replace(FULL, gated=False, norm=norm, positions=Positions.none)
    spec = dataclasses.replace(shallow, mlp_depth=3)
    weights, before = init(jax.random.key(0), spec), init(jax.random.key(0), shallow)
    mlp = weights.blocks.mlp
    assert mlp.W_hidden.shape == (2, 2, 5, 5) and mlp.b_hidden.shape == (2, 2, 5)
    assert before.blocks.mlp.W_hidden is None and before.blocks.mlp.b_hidden is None
    for name, array in params_from_model(before).items():
        np.testing.assert_array_equal(array, params_from_model(weights)[name])
    params = params_from_model(weights)
    jax.tree.map(np.testing.assert_array_equal, model_from_params(params, spec), weights)
    logits = jax.jit(Transformer(spec).apply)({"params": params}, TOKENS)
    want, _ = jax.jit(forward)(weights, TOKENS)
    np.testing.assert_allclose(logits, want, rtol=1e-5, atol=1e-6)
    off = weights.replace(
        blocks=weights.blocks._replace(mlp=mlp._replace(W_hidden=jnp.zeros_like(mlp.W_hidden)))
    )
    silent, _ = forward(off, TOKENS)
    assert np.abs(np.asarray(silent - logits)).max() > 1e-3
    with pytest.raises(ValueError, match=r"'blocks\.mlp\.W_hidden' is missing"):
        model_from_params(params_from_model(before), spec)
    with pytest.raises(ValueError, match=r"_hidden' is not one that the spec declares"):
        model_from_params(params, shallow)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parameters_have_the_stated_dtype_under_x64(x64: None, dtype: str) -> None:
    weights = init(jax.random.key(0), FULL, dtype)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(weights)} == {dtype}


def test_initial_deviation_is_one_over_root_fan_in() -> None:
    """Stacked axes are not fan-in; W_O's is n_heads * d_value. 3 % is five standard errors."""
    spec = TransformerSpec(
        d_vocab=200, n_layers=3, n_heads=4, d_model=64, d_value=8, d_mlp=96, mlp_depth=3
    )
    weights = init(jax.random.key(1), spec)
    heads, mlp = weights.blocks.attention, weights.blocks.mlp
    for array, fan_in in (
        (heads.W_Q, 64),
        (heads.W_O, 4 * 8),
        (mlp.W_out, 96),
        (mlp.W_hidden, 96),
        (weights.W_U, 64),
        (weights.W_E, 64),
    ):
        assert float(array.std() * fan_in**0.5) == pytest.approx(1, abs=0.03)


def test_a_parameter_added_last_leaves_the_others_unchanged() -> None:
    first = {"a": Parameter((3,), 1.0), "b": Parameter((2,), mean=5.0)}
    more = draw_parameters(jax.random.key(0), first | {"c": Parameter((4,), 2.0)})
    fewer = draw_parameters(jax.random.key(0), first)
    for name in first:
        np.testing.assert_array_equal(more[name], fewer[name])
    np.testing.assert_array_equal(more["b"], [5, 5])
    assert not np.isin(np.asarray(more["c"]), 2 * np.asarray(more["a"])).any()
