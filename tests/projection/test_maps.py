"""Maps: one matrix whatever the block, exact gains, Flax's own initialisers, clear refusals."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import (
    MapFamily,
    MapSpec,
    entry_scale,
    gain,
    materialise,
    nested_features,
    project,
    row_features,
)

ENTRYWISE = [
    MapFamily.gaussian,
    MapFamily.rademacher,
    MapFamily.proof,
    MapFamily.achlioptas,
    MapFamily.li,
]


def spec_of(family: MapFamily, n: int = 24, m: int = 10, unit_gain: bool = False) -> MapSpec:
    return MapSpec(family, n, m, 0.25 if family is MapFamily.proof else None, unit_gain)


@pytest.mark.parametrize("family", list(MapFamily))
def test_projection_is_the_product_with_the_matrix(
    family: MapFamily, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(7, 24)).astype(np.float32)
    key, spec = jax.random.key(3), spec_of(family)
    P = np.asarray(materialise(key, spec), np.float64)
    assert P.shape == (24, 10)
    images = project(key, jnp.asarray(x), spec, block=4)  # the matrix came from block=256
    np.testing.assert_allclose(images, x @ P, atol=2e-6)


@pytest.mark.parametrize("family", list(MapFamily))
def test_gain_is_the_mean_squared_length(family: MapFamily) -> None:
    x = jnp.arange(1.0, 25.0)
    keys = member_keys(jax.random.key(11), 3000)
    spec = spec_of(family)
    images = jax.jit(jax.vmap(lambda k: project(k, x, spec)))(keys)
    ratio = np.asarray((images**2).sum(1) / (x**2).sum(), np.float64)
    assert abs(ratio.mean() - gain(spec)) < 5 * ratio.std() / np.sqrt(3000)
    unit = project(keys[0], x, spec_of(family, unit_gain=True))
    np.testing.assert_allclose(unit * np.sqrt(gain(spec)), images[0], rtol=1e-4, atol=1e-4)


def test_gains_by_hand() -> None:
    gains = {f.name: gain(spec_of(f)) for f in MapFamily}
    assert gains["proof"] == 1.25
    assert gains["lecun"] == gains["orthogonal"] == 10 / 24
    assert gains["he"] == 20 / 24
    assert gains["glorot"] == 20 / 34
    assert {gains[f] for f in ("gaussian", "rademacher", "achlioptas", "li", "hadamard")} == {1}


@pytest.mark.parametrize("name", ["lecun", "glorot", "he", "orthogonal"])
def test_initialisers_are_the_ones_flax_uses(name: str) -> None:
    initialiser = getattr(nn.initializers, name if name == "orthogonal" else f"{name}_normal")()
    key = jax.random.key(9)
    expected = initialiser(key, (24, 10), jnp.float32)
    np.testing.assert_allclose(materialise(key, spec_of(MapFamily[name])), expected, atol=1e-6)


@pytest.mark.parametrize("family", ENTRYWISE)
def test_a_wider_map_begins_with_the_narrower_one(family: MapFamily) -> None:
    key, x = jax.random.key(1), jnp.arange(24.0)[None]
    narrow, wide = spec_of(family, m=4), spec_of(family, m=9)
    np.testing.assert_allclose(
        project(key, x, narrow) / entry_scale(narrow),
        (project(key, x, wide) / entry_scale(wide))[:, :4],
        atol=1e-4,
    )
    features = row_features(key, x, wide, block=2)
    np.testing.assert_allclose(entry_scale(wide) * features, project(key, x, wide), atol=1e-4)


@pytest.mark.parametrize("family", [MapFamily.rademacher, MapFamily.hadamard, MapFamily.proof])
def test_nested_features_hold_the_map_at_every_m(family: MapFamily) -> None:
    key, x = jax.random.key(1), jnp.arange(24.0)
    features = nested_features(key, x, family, 9)
    law = MapFamily.rademacher if family is MapFamily.proof else family
    narrow = project(key, x, spec_of(law, m=4))
    np.testing.assert_allclose(features[:4] / 2, narrow, rtol=1e-5, atol=1e-5)


def test_nested_features_of_an_orthogonal_map_have_unit_gain_at_every_m() -> None:
    keys = member_keys(jax.random.key(6), 2000)
    x = jnp.arange(1.0, 13.0)
    features = jax.vmap(lambda k: nested_features(k, x, MapFamily.orthogonal, 8))(keys)
    for m in (3, 8):
        ratio = np.asarray((features[:, :m] ** 2).sum(1) / m / (x**2).sum())
        assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(2000)


def test_maps_of_different_keys_differ_and_vmap_gives_each_one() -> None:
    x, spec = jnp.arange(24.0)[None], spec_of(MapFamily.gaussian)
    keys = member_keys(jax.random.key(0), 3)
    many = jax.vmap(lambda k: project(k, x, spec))(keys)
    assert not np.allclose(many[0], many[1])
    np.testing.assert_allclose(many[2], project(keys[2], x, spec), rtol=1e-5)


def test_the_gradient_of_a_linear_map_is_its_transpose() -> None:
    key, spec = jax.random.key(5), spec_of(MapFamily.rademacher)
    gradient = jax.grad(lambda x: project(key, x, spec).sum())(jnp.ones(24))
    np.testing.assert_allclose(gradient, np.asarray(materialise(key, spec)).sum(1), atol=1e-5)


def test_entries_of_the_two_rademacher_maps() -> None:
    key = jax.random.key(2)
    stated = np.asarray(materialise(key, spec_of(MapFamily.rademacher)))
    proof = np.asarray(materialise(key, spec_of(MapFamily.proof)))
    np.testing.assert_allclose(np.abs(stated), np.sqrt(1 / 10), rtol=1e-6)
    np.testing.assert_allclose(np.abs(proof), np.sqrt(1.25 / 10), rtol=1e-6)


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match="dim_in=0"):
        MapSpec(MapFamily.gaussian, 0, 1)
    with pytest.raises(ValueError, match="dim_out=9 must be at most 8 for family=orthogonal"):
        MapSpec(MapFamily.orthogonal, 8, 9)
    with pytest.raises(ValueError, match="dim_out=9 must be at most 8 for family=hadamard"):
        MapSpec(MapFamily.hadamard, 6, 9)
    for epsilon in (None, 0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"epsilon=.* must be in \(0, 1\)"):
            MapSpec(MapFamily.proof, 8, 4, epsilon)
    with pytest.raises(ValueError, match="belongs to family=proof"):
        MapSpec(MapFamily.gaussian, 8, 4, 0.1)
    spec, key = spec_of(MapFamily.gaussian), jax.random.key(0)
    with pytest.raises(ValueError, match=r"shape \(23,\)"):
        project(key, jnp.ones(23), spec)
    with pytest.raises(ValueError, match="block=0"):
        project(key, jnp.ones(24), spec, block=0)
    with pytest.raises(ValueError, match="no independent columns"):
        row_features(key, jnp.ones(24), spec_of(MapFamily.hadamard))
    with pytest.raises(ValueError, match="use project"):
        materialise(key, MapSpec(MapFamily.gaussian, 10_000, 2))
