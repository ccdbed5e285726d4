"""Random maps: entries, products, gains, and pairs under many maps."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import hadamard

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import (
    EntryLaw,
    MapFamily,
    MapSpec,
    draw_column,
    entry_scale,
    gain,
    hadamard_transform,
    inverse_density,
    kurtosis,
    materialise,
    nested_features,
    pair_ratios,
    project,
    row_features,
    subsampled_hadamard,
)

DIM = 40_000


@pytest.mark.parametrize("law", list(EntryLaw))
def test_mean_variance_and_kurtosis_within_five_standard_errors(law: EntryLaw) -> None:
    x = np.asarray(draw_column(jax.random.key(7), law, DIM), np.float64)
    fourth = kurtosis(law, DIM)
    assert abs(x.mean()) < 5 / np.sqrt(DIM)
    # Var(r²) = κ − 1, and Var(r⁴) = E r⁸ − κ², where r⁸ is 105 or s⁴/s.
    assert abs((x**2).mean() - 1) <= 5 * np.sqrt(max(fourth - 1, 1e-12) / DIM)
    eighth = 105 if law is EntryLaw.gaussian else inverse_density(law, DIM) ** 3
    assert abs((x**4).mean() - fourth) <= 5 * np.sqrt(max(eighth - fourth**2, 1e-9) / DIM)


def test_transform_is_sylvesters_matrix(x64: None, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 16))
    expected = x @ hadamard(16) / 4
    np.testing.assert_allclose(hadamard_transform(jnp.asarray(x)), expected, atol=1e-12)


def test_all_rows_give_an_isometry(x64: None, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=(4, 11)))  # padded to 16
    y = subsampled_hadamard(jax.random.key(0), x, 16)
    np.testing.assert_allclose(y @ y.T, x @ x.T, atol=1e-12)


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


def test_entries_of_the_two_rademacher_maps() -> None:
    key = jax.random.key(2)
    stated = np.asarray(materialise(key, spec_of(MapFamily.rademacher)))
    proof = np.asarray(materialise(key, spec_of(MapFamily.proof)))
    np.testing.assert_allclose(np.abs(stated), np.sqrt(1 / 10), rtol=1e-6)
    np.testing.assert_allclose(np.abs(proof), np.sqrt(1.25 / 10), rtol=1e-6)


def test_each_map_is_the_solo_projection() -> None:
    spec = MapSpec(MapFamily.achlioptas, 9, 4)
    keys = member_keys(jax.random.key(0), 5)
    x, y = jnp.arange(9.0), jnp.ones(9)
    ratios = np.asarray(pair_ratios(keys, x - y, spec, batch=2))
    for k in range(5):
        u, v = np.asarray(project(keys[k], x, spec)), np.asarray(project(keys[k], y, spec))
        expected = ((u - v) ** 2).sum() / ((np.arange(9.0) - 1) ** 2).sum()
        np.testing.assert_allclose(ratios[k], expected, rtol=1e-5)
