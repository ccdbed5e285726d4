"""Phase changes of the in-context score, told by the step that the paper prints.

The score goes from below 0.15 nats to about 0.4 in one narrow window, in all models of two layers
and more. On other texts the score has another size: the step is taken as its share of the score
that models of two layers end with, and the window as its share of training. A large score that
forms evenly falls by as much in a window, and is no jump: it must fall faster than before and
after.
"""

import numpy as np
import xarray as xr

BEFORE, AFTER = 0.15, 0.4  # nats, as printed
PRINTED_STEP = (AFTER - BEFORE) / AFTER
# Of training: 2.5 to 5 of 10 billion tokens, the window beside which the paper has these numbers.
PRINTED_WINDOW = 1 / 4
# The window of about 1 to 3 billion, to which it puts the change of small models elsewhere.
SMALL_WINDOW = 1 / 5
# Of its own final score a jumping model gains this much more in a sixth of training than in an
# earlier one: the part that is there before, as printed.
JUMP, JUMP_WINDOW = BEFORE / AFTER, 1 / 6
# What is said to be all there is must not be seen in windows that fit before and after a jump.
REST_WINDOWS = (1 / 20, 1 / 10, 3 / 20)


def last_score(members: xr.Dataset) -> float:
    """Mean in-context score at the end of training, in nats saved; of ``[step, member]``."""
    return -float(members.in_context.isel(step=-1).mean())


def has_changed(members: xr.Dataset, usual: float) -> xr.DataArray:
    """Mask of members that jump, and fall by ``PRINTED_STEP * usual``; none if usual <= 0.

    ``usual`` is the `last_score` of two-layer models on the same texts: where they end without a
    gain by context, there is no step that could be the usual one.

    Source: induction-heads paper, in-context score over training.
    """
    return jumps(members) & (steepest_fall(members) >= PRINTED_STEP * usual) & (usual > 0)


def jumps(members: xr.Dataset) -> xr.DataArray:
    """Mask of members whose in-context score falls faster in a sixth of training than beside it.

    Than in an earlier sixth and than in a later one, by `JUMP` of what it ends with; none where it
    ends without a gain by context. What changes in the first sixth has nothing before it, and does
    not jump by this rule, nor does what goes on to the end.

    Source: induction-heads paper, "the phase change ... in a narrow window"; the rule is ours.
    """
    last = -members.in_context.isel(step=-1)
    return (last > 0) & (faster_than_beside(members.in_context).max("step") >= JUMP * last)


def faster_than_beside(curve: xr.DataArray) -> xr.DataArray:
    """Excess of the fall within a sixth of training over an earlier and a later one, the lesser."""
    falls, backwards = falls_within(curve, JUMP_WINDOW), {"step": slice(None, None, -1)}
    after = _slowest_so_far(falls.isel(backwards)).isel(backwards)
    return falls - np.maximum(_slowest_so_far(falls), after)


def most_beside(curve: xr.DataArray, start: xr.DataArray, end: xr.DataArray) -> xr.DataArray:
    """Largest excess of a fall over an earlier one, before one time and after another."""
    steps = curve.step
    found = []
    for window in REST_WINDOWS:
        falls, width = falls_within(curve, window), window * float(steps[-1] - steps[0])
        begins = steps.clip(max=float(steps[-1]) - width)
        for within in (begins + width <= start, begins >= end):
            slowest = _slowest_so_far(falls.where(within, np.inf))
            found.append((falls - slowest).where(within, 0).max("step"))
    return xr.concat(found, "part").max("part")


def _slowest_so_far(falls: xr.DataArray) -> xr.DataArray:
    slowest = np.minimum.accumulate(falls.values, axis=falls.get_axis_num("step"))
    return falls.copy(data=slowest)


def jump_share(members: xr.Dataset, window: float = PRINTED_WINDOW) -> xr.DataArray:
    """Gain in context within each member's steepest window of training, over its final score."""
    falls = falls_within(members.in_context, window)
    return -falls.max("step") / members.in_context.isel(step=-1)


def steepest_fall(members: xr.Dataset) -> xr.DataArray:
    """Largest fall of each member's score within `PRINTED_WINDOW` of training, in nats."""
    return falls_within(members.in_context, PRINTED_WINDOW).max("step")


def change_through(members: xr.Dataset, curve: xr.DataArray) -> xr.DataArray:
    """Change of a curve of every member from the begin of its phase change to its end."""
    return at_step(curve, members.jump_end) - at_step(curve, members.jump_start)


def at_step(curve: xr.DataArray, step: xr.DataArray) -> xr.DataArray:
    """A curve of every member at a step of its own, interpolated linearly."""
    return curve.interp(step=step).drop_vars("step")


def falls_within(curve: xr.DataArray, window: float) -> xr.DataArray:
    """Falls in windows that are a share of training, by the measurement at which each begins.

    Curves are interpolated linearly; the last windows end with the last measurement.
    """
    steps = curve.step.values
    first, last = float(steps[0]), float(steps[-1])
    width = window * (last - first)
    starts = np.minimum(steps, last - width)
    ends = np.minimum(starts + width, last)  # rounding may go beyond the last measurement
    before, after = (curve.interp(step=at).assign_coords(step=steps) for at in (starts, ends))
    return before - after
