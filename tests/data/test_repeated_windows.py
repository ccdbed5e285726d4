import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.data.windows import RepeatedWindowSource, WindowSource

# Every token tells its own place in the text.
WINDOWS = WindowSource(600, 12, jnp.arange(500))


def test_the_beginning_of_a_window_comes_again_and_again() -> None:
    rows = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5)(jax.random.key(1)))
    periods = np.array([np.flatnonzero(row == row[0])[1] for row in rows])
    for row, period in zip(rows, periods, strict=True):
        np.testing.assert_array_equal(row, row[0] + np.arange(12) % period)
    # One fixed key; a correct sampler fails here with probability 1e-4.
    assert stats.chisquare(np.bincount(periods - 3, minlength=3)).pvalue > 1e-4
    assert set(periods) == {3, 4, 5}


def test_some_windows_repeat_and_the_others_stay_whole() -> None:
    rows = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5, share=0.25)(jax.random.key(1)))
    whole = np.asarray(RepeatedWindowSource(WINDOWS, 3, 5)(jax.random.key(1)))
    np.testing.assert_array_equal(rows[:150], whole[:150])
    np.testing.assert_array_equal(rows[150:], rows[150:, :1] + np.arange(12))
    for share in (0.0, 1.5):
        with pytest.raises(ValueError, match=f"share={share} must lie in"):
            RepeatedWindowSource(WINDOWS, 3, 5, share=share)


def test_the_key_alone_decides() -> None:
    source = RepeatedWindowSource(WINDOWS, 3, 5)
    one, again, other = (source(jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.parametrize(("low", "high"), [(0, 4), (5, 4), (3, 12)])
def test_impossible_periods(low: int, high: int) -> None:
    with pytest.raises(ValueError, match=f"min_period={low} and max_period={high} must satisfy"):
        RepeatedWindowSource(WINDOWS, low, high)
