"""Phase changes of training curves: their time, their abruptness, and their coincidence.

A curve is a quantity measured at increasing steps. Its *progress* is 0 at the first measurement and
1 at the last; the *window* of a change is the time from a tenth to nine tenths of it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from circuitax.kernel.checks import check_range
from circuitax.kernel.linalg import safe_divide


class Window(NamedTuple):
    """Steps at which a tenth, half and nine tenths of a curve's whole change are reached."""

    start: Float[Array, "*batch"]
    middle: Float[Array, "*batch"]
    end: Float[Array, "*batch"]


def progress(curve: Float[Array, "*batch step"]) -> Float[Array, "*batch step"]:
    """``(c_t - c_first) / (c_last - c_first)``; 0 throughout where nothing changed."""
    first, last = curve[..., :1], curve[..., -1:]
    return safe_divide(curve - first, jnp.broadcast_to(last - first, curve.shape))


def reached(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], share: float
) -> Float[Array, "*batch"]:
    """The first step, by linear interpolation, at which a given share of the change is complete."""
    check_range("share", share, "(0, 1]")
    _check_steps(steps, curve)
    done = progress(curve)
    t = steps.astype(curve.dtype)
    after = done >= share
    # The first measurement is at progress 0, so an index of 0 means never.
    i = jnp.argmax(after, axis=-1)
    i = jnp.where(after.any(axis=-1), i, steps.shape[0] - 1)
    high = jnp.take_along_axis(done, i[..., None], axis=-1)[..., 0]
    low = jnp.take_along_axis(done, i[..., None] - 1, axis=-1)[..., 0]
    part = jnp.clip(safe_divide(share - low, high - low), 0, 1)
    return jnp.where(after.any(axis=-1), t[i - 1] + part * (t[i] - t[i - 1]), t[-1])


def change_window(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], margin: float = 0.1
) -> Window:
    """Start, middle and end of a curve's change.

    Source: induction-heads paper marks its windows by eye; this is a rule.
    """
    if not 0 < margin < 0.5:
        raise ValueError(f"margin={margin} must be in (0, 1/2)")
    return Window(*(reached(steps, curve, share) for share in (margin, 0.5, 1 - margin)))


class Stretch(NamedTuple):
    """An interval of training steps of a given width: its start, and the curve's fall in it."""

    start: Float[Array, "*batch"]
    fall: Float[Array, "*batch"]


def steepest_stretch(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], width: float
) -> Stretch:
    """The interval of ``width`` steps with the largest fall of a curve; negative if it only rises.

    Source: induction-heads paper, "the phase change ... in a narrow window", which it marks by eye.
    """
    start, falls = _falls(steps, curve, width)
    return Stretch(start[jnp.argmax(falls, axis=-1)], jnp.max(falls, axis=-1))


def speed_up(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], width: float
) -> Float[Array, "*batch"]:
    """Increase of a curve's later fall over its earlier fall, per interval of ``width`` steps.

    ``max over s <= t of fall(t) - fall(s)``, 0 for a convex curve: training that only ever slows
    down. The bump of the induction-heads paper, "the only place where loss curves are not convex".
    """
    _, falls = _falls(steps, curve, width)
    slowest = jax.lax.cummin(falls, axis=falls.ndim - 1)
    return jnp.max(falls - slowest, axis=-1)


def _falls(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], width: float
) -> tuple[Float[Array, " n_steps"], Float[Array, "*batch step"]]:
    """Starts of intervals, and falls in them; intervals past the end repeat the last one."""
    _check_steps(steps, curve)
    if not width > 0 or (_known(steps) and width > float(np.ptp(np.asarray(steps)))):
        raise ValueError(f"width={width} must be positive and at most the range of the steps")
    t = steps.astype(curve.dtype)
    start = jnp.minimum(t, t[-1] - width)
    flat = curve.reshape(-1, t.shape[0])
    falls = jax.vmap(lambda c: jnp.interp(start, t, c) - jnp.interp(start + width, t, c))(flat)
    return start, falls.reshape(curve.shape)


def _check_steps(steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"]) -> None:
    n_steps = steps.shape[0]
    if n_steps < 2:
        raise ValueError(f"steps has {n_steps} entries, a change needs at least 2")
    if curve.shape[-1] != n_steps:
        raise ValueError(
            f"curve has {curve.shape[-1]} measurements, must have one per step, {n_steps}"
        )
    if _known(steps) and not (np.diff(np.asarray(steps)) > 0).all():
        raise ValueError("steps must increase")


def _known(steps: Num[Array, " n_steps"]) -> bool:
    return not isinstance(steps, jax.core.Tracer)
