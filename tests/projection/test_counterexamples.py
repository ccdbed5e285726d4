"""Each counterexample satisfies the printed hypothesis and breaks the printed conclusion."""

import numpy as np
import pytest

from circuitax.projection.theorem import (
    Counterexample,
    cosine_bound,
    distance_ratios,
    inner_product_bound,
    proof_bounds,
    proof_map_products,
    statement_bounds,
    unequal_norms,
    without_origin,
)


def ratios(example: Counterexample) -> np.ndarray:
    return distance_ratios(example.points, example.points @ example.matrix)


def test_E10_without_zero_in_the_set_norms_are_free() -> None:
    example = without_origin()
    np.testing.assert_allclose(ratios(example), 1, rtol=1e-12)  # distortion 0 on Z
    for epsilon in (0.01, 0.1, 0.19):
        assert example.cosine_error() > cosine_bound(epsilon)
    assert example.cosine_error() == pytest.approx(1)
    assert example.inner_error() == pytest.approx(0.5)
    assert example.inner_error() > inner_product_bound(0.16)
    # Corrected: with 0 in the set the map is no longer admissible.
    corrected = example._replace(points=np.vstack([np.zeros(2), example.points]))
    stated = statement_bounds(0.19)
    assert not ((ratios(corrected) >= stated.low) & (ratios(corrected) <= stated.high)).all()


def test_E10_very_unequal_norms_break_the_cosine_bound_with_zero_in_the_set() -> None:
    epsilon = 0.1
    example = unequal_norms(15.0, epsilon)
    stated = statement_bounds(epsilon)
    found = ratios(example)
    assert ((found >= stated.low - 1e-12) & (found <= stated.high)).all()
    assert example.cosine_error() == pytest.approx(0.75, abs=0.005)
    assert example.cosine_error() > cosine_bound(epsilon)
    # Corrected: on the normalised points the map is not admissible.
    unit = example.points[1:] / np.linalg.norm(example.points[1:], axis=1, keepdims=True)
    normalised = example._replace(points=np.vstack([np.zeros(2), unit]))
    assert ratios(normalised).min() < stated.low
    # Equal norms: the same construction stays inside the bound.
    equal = unequal_norms(1.0, epsilon)
    assert equal.cosine_error() == pytest.approx(0.1) and equal.cosine_error() < cosine_bound(0.1)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.2])
def test_E8_the_proofs_bounds_allow_inner_products_past_three_epsilon(epsilon: float) -> None:
    example = proof_map_products(epsilon)
    proved, found = proof_bounds(epsilon), ratios(example)
    assert (found >= proved.low - 1e-12).all() and (found <= proved.high + 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(example.points[1:], axis=1), 1)
    assert example.inner_error() > inner_product_bound(epsilon)
    # Corrected: after division by √(1+ε) the statement's bounds and 3ε both hold.
    rescaled = example._replace(matrix=example.matrix / np.sqrt(1 + epsilon))
    stated = statement_bounds(epsilon)
    assert (ratios(rescaled) >= stated.low).all()
    assert (ratios(rescaled) <= stated.high + 1e-12).all()
    assert rescaled.inner_error() <= inner_product_bound(epsilon)


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match="norm_ratio=25"):
        unequal_norms(25.0, 0.1)
    with pytest.raises(ValueError, match=r"epsilon=0\.3"):
        proof_map_products(0.3)
    with pytest.raises(ValueError, match="epsilon="):
        unequal_norms(15.0, 1.0)
