import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.losses import (
    change_window,
    progress,
    reached,
    speed_up,
    steepest_stretch,
)

STEPS = jnp.arange(0, 101, 5)


def test_progress_by_hand() -> None:
    np.testing.assert_allclose(progress(jnp.array([3.0, 2.0, 1.0])), [0, 0.5, 1])
    np.testing.assert_array_equal(progress(jnp.array([2.0, 2.0])), [0, 0])


def test_window_of_a_ramp() -> None:
    # Flat at 3 until step 40, falls linearly to 1 at step 60, flat after.
    ramp = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(change_window(STEPS, ramp), [42, 50, 58], atol=1e-4)
    # Direction and units play no part; axes in front are mapped.
    both = jnp.stack([ramp, 7 - 5 * ramp])
    np.testing.assert_allclose(reached(STEPS, both, 0.5), [50, 50], atol=1e-4)


def test_a_curve_that_never_changes_is_reached_at_the_end() -> None:
    assert float(reached(STEPS, jnp.ones(21), 0.5)) == 100


def test_first_crossing_counts() -> None:
    curve = jnp.array([0.0, 0.8, 0.2, 1.0])
    assert float(reached(jnp.arange(4), curve, 0.4)) == pytest.approx(0.5)


def test_steepest_stretch_of_a_ramp() -> None:
    ramp = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(steepest_stretch(STEPS, ramp, 20.0), [40, 2], atol=1e-5)
    # A narrow one fits at several places and takes the first; a wide one holds the whole ramp.
    np.testing.assert_allclose(steepest_stretch(STEPS, ramp, 10.0), [40, 1], atol=1e-5)
    assert float(steepest_stretch(STEPS, ramp, 40.0).fall) == pytest.approx(2.0, abs=1e-5)
    rising = steepest_stretch(STEPS, STEPS / 10.0, 10.0)
    assert float(rising.fall) == pytest.approx(-1.0, abs=1e-5)
    both = steepest_stretch(STEPS, jnp.stack([ramp, ramp[::-1] * -1]), 20.0)
    np.testing.assert_allclose(both.start, [40, 40])


def test_speed_up_is_zero_for_convex_curves_only() -> None:
    slowing = jnp.exp(-STEPS / 30.0)
    assert float(speed_up(STEPS, slowing, 10.0)) == pytest.approx(0, abs=1e-6)
    plateau = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    assert float(speed_up(STEPS, plateau, 10.0)) == pytest.approx(1.0, abs=1e-5)
    # The fast part must come after the slow one.
    early = jnp.interp(STEPS, jnp.array([0, 20]), jnp.array([3.0, 1.0]))
    assert float(speed_up(STEPS, early, 10.0)) == pytest.approx(0, abs=1e-5)
    np.testing.assert_allclose(
        speed_up(STEPS, jnp.stack([slowing, plateau]), 10.0), [0, 1], atol=1e-5
    )


def test_impossible_arguments() -> None:
    curve = jnp.ones(21)
    with pytest.raises(ValueError, match=r"share=0.0 must be in"):
        reached(STEPS, curve, 0.0)
    with pytest.raises(ValueError, match="steps has 1 entries"):
        reached(STEPS[:1], curve[:1], 0.5)
    with pytest.raises(ValueError, match=r"margin=0.5"):
        change_window(STEPS, curve, 0.5)
    with pytest.raises(ValueError, match=r"width=101\.0"):
        steepest_stretch(STEPS, curve, 101.0)
    with pytest.raises(ValueError, match="curve has 20 measurements, must have one per step, 21"):
        reached(STEPS, curve[:20], 0.5)
    with pytest.raises(ValueError, match="steps must increase"):
        reached(STEPS[::-1], curve, 0.5)
    for width in (0.0, 101.0):
        with pytest.raises(ValueError, match=f"width={width} must be positive and at most"):
            steepest_stretch(STEPS, curve, width)


def test_steps_may_be_traced() -> None:
    ramp = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    found = jax.jit(lambda steps: (reached(steps, ramp, 0.5), speed_up(steps, ramp, 10.0)))(STEPS)
    np.testing.assert_allclose(found, [50, 1], atol=1e-5)
