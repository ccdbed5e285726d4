"""Linen modules declare parameters; the kernel computes; extraction goes both ways."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.models.extract_transformer import (
    assemble,
    named_arrays,
    variables_from_weights,
    weights_from_variables,
)
from circuitax.models.parameters import (
    Parameter,
    draw_parameters,
    transformer_parameters,
)
from circuitax.models.specs import SimplifiedSpec, TransformerSpec
from circuitax.models.transformer import SimplifiedTransformer, Transformer, init_weights

init = jax.jit(init_weights, static_argnums=(1, 2))

TOKENS = jnp.array([3, 1, 4, 1])
SIMPLE = SimplifiedSpec(d_vocab=7, n_heads=2, d_model=6, d_head=4, d_value=3)
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
    model = SimplifiedTransformer(SIMPLE)
    variables = jax.jit(model.init)(jax.random.key(0), TOKENS)
    weights = weights_from_variables(variables, SIMPLE.general())
    logits, trace = model.apply(variables, TOKENS, outputs=True)
    want, _ = forward(weights, TOKENS, SIMPLE.general().forward_spec())
    np.testing.assert_array_equal(logits, want)
    assert trace.head_outputs.shape == (2, 2, 4, 6)
    assert weights.blocks.attention.W_V.shape == (2, 2, 6, 3)
    off, _ = model.apply(variables, TOKENS, ablate_heads(jnp.ones((2, 2))))
    np.testing.assert_allclose(off, (weights.W_E @ weights.W_U)[TOKENS], rtol=1e-5, atol=1e-6)


def test_full_module_calls_the_kernel_and_extraction_inverts() -> None:
    model = Transformer(FULL)
    variables = {"params": named_arrays(init(jax.random.key(0), FULL))}
    weights = weights_from_variables(variables, FULL)
    logits, _ = jax.jit(model.apply)(variables, TOKENS)
    want, _ = jax.jit(forward, static_argnums=2)(weights, TOKENS, FULL.forward_spec())
    np.testing.assert_array_equal(logits, want)
    assert set(named_arrays(weights)) == set(transformer_parameters(FULL))
    back = variables_from_weights(weights)
    jax.tree.map(np.testing.assert_array_equal, back["params"], variables["params"])
    jax.tree.map(np.testing.assert_array_equal, assemble(named_arrays(weights)), weights)


@pytest.mark.parametrize("norm", [Norm.none, Norm.layernorm])
def test_S0_def_5_depth_of_the_mlp_in_both_families(norm: Norm) -> None:
    """Linen and plain forward agree; the other maps are drawn as in the model of depth 1."""
    shallow = dataclasses.replace(FULL, gated=False, norm=norm, positions=Positions.none)
    spec = dataclasses.replace(shallow, mlp_depth=3)
    weights, before = init(jax.random.key(0), spec), init(jax.random.key(0), shallow)
    mlp = weights.blocks.mlp
    assert mlp.W_hidden.shape == (2, 2, 5, 5) and mlp.b_hidden.shape == (2, 2, 5)
    assert before.blocks.mlp.W_hidden is None and before.blocks.mlp.b_hidden is None
    for name, array in named_arrays(before).items():
        np.testing.assert_array_equal(array, named_arrays(weights)[name])
    variables = variables_from_weights(weights)
    jax.tree.map(np.testing.assert_array_equal, weights_from_variables(variables, spec), weights)
    logits, _ = jax.jit(Transformer(spec).apply)(variables, TOKENS)
    want, _ = jax.jit(forward, static_argnums=2)(weights, TOKENS, spec.forward_spec())
    np.testing.assert_array_equal(logits, want)
    off = weights._replace(
        blocks=weights.blocks._replace(mlp=mlp._replace(W_hidden=jnp.zeros_like(mlp.W_hidden)))
    )
    silent, _ = forward(off, TOKENS, spec.forward_spec())
    assert np.abs(np.asarray(silent - logits)).max() > 1e-3
    with pytest.raises(ValueError, match=r"'blocks\.mlp\.W_hidden' is missing"):
        weights_from_variables(variables_from_weights(before), spec)
    with pytest.raises(ValueError, match=r"_hidden' is not one that the spec declares"):
        weights_from_variables(variables, shallow)


def test_an_ensemble_is_a_vmap_over_keys() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    members = jax.jit(jax.vmap(lambda key: init_weights(key, FULL)))(keys)
    alone = init(keys[1], FULL)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[1], b, rtol=1e-6), members, alone)
    assert np.abs(np.asarray(members.W_E[0] - members.W_E[1])).max() > 0.01
    weights_from_variables(variables_from_weights(members), FULL)


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


def test_zero_layers_can_be_drawn() -> None:
    weights = init(jax.random.key(0), dataclasses.replace(FULL, n_layers=0))
    assert weights.blocks.attention.W_Q.shape == (0, 2, 6, 3)
    assert weights.blocks.attention.W_O.size == 0


def test_parameters_that_do_not_fit_are_named() -> None:
    named = named_arrays(init(jax.random.key(0), FULL))
    less = {name: array for name, array in named.items() if name != "blocks.mlp.W_gate"}
    with pytest.raises(ValueError, match=r"'blocks\.mlp\.W_gate' is missing"):
        weights_from_variables({"params": less}, FULL)
    with pytest.raises(ValueError, match=r"'W_new' is not one that the spec declares"):
        weights_from_variables({"params": named | {"W_new": jnp.ones(1)}}, FULL)
    with pytest.raises(ValueError, match=r"'W_E' has shape \(2, 3\), must be \(7, 6\)"):
        weights_from_variables({"params": named | {"W_E": jnp.ones((2, 3))}}, FULL)
    with pytest.raises(ValueError, match=r"'W_E' has shape \(6,\), must be \(7, 6\)"):
        weights_from_variables({"params": named | {"W_E": jnp.ones(6)}}, FULL)
    with pytest.raises(ValueError, match=r"leading axes \(\), must have the \(3,\) of 'W_E'"):
        weights_from_variables({"params": named | {"W_E": jnp.ones((3, 7, 6))}}, FULL)
    with pytest.raises(ValueError, match=r"'W_U' has leading axes \(3,\), must have the \(\) of"):
        weights_from_variables({"params": named | {"W_U": jnp.ones((3, 6, 7))}}, FULL)
    with pytest.raises(ValueError, match=r"collections \['batch_stats'\], must have 'params'"):
        weights_from_variables({"batch_stats": {}}, FULL)


def test_a_parameter_added_last_leaves_the_others_unchanged() -> None:
    first = {"a": Parameter((3,), 1.0), "b": Parameter((2,), mean=5.0)}
    more = draw_parameters(jax.random.key(0), first | {"c": Parameter((4,), 2.0)})
    fewer = draw_parameters(jax.random.key(0), first)
    for name in first:
        np.testing.assert_array_equal(more[name], fewer[name])
    np.testing.assert_array_equal(more["b"], [5, 5])
    assert not np.isin(np.asarray(more["c"]), 2 * np.asarray(more["a"])).any()
