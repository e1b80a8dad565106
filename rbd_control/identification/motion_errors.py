"""Errors of inertia and of the velocity's delay, which matter in motion faster than recorded.

The residual of a motion without contact contains, to first order, with p the momentum and ``u`` the
torque of the motors less gravity::

    x = a dp/dt - T du/dt + other errors

``a`` is the relative error of the inertia that a joint moves, and T the delay of the velocity that
is not corrected (:mod:`~rbd_control.identification.delays`). Both terms are small in smooth motion
and large in a hard stop, so that ``calibrate`` cannot take their size from the residuals of its
recordings. It takes the size of ``a`` and T: the magnitude of the estimate plus some standard
errors.

``a`` is found joint by joint, by linear regression of residuals in parts of the motion that the
model was not fitted to, away from reversals. The parts are cut into blocks, and the differences
between blocks give the standard error. Estimates are combined with priors, because a recording may
determine nothing: masses in descriptions are wrong by some percent, and drivers filter velocities
for some milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque, momentum_terms
from rbd_control.estimation.observers import LONGEST_DELAY, SecondOrderObserver
from rbd_control.estimation.thresholds import AWAY, reversals
from rbd_control.identification.delays import Delay
from rbd_control.identification.motion import SLOW, RecordedMotion
from rbd_control.identification.regression import FILTER_GAIN, PER_RATE, SETTLING

Array = NDArray[np.float64]

INERTIA_PRIOR = 0.05
"""Prior standard deviation of the relative error of an inertia."""
DELAY_PRIOR = 0.0025
"""Prior standard deviation of the delay of the velocity [s]."""
INERTIA_ERRORS = 3.0
"""Factor of the standard error of a regression for one joint: errors of friction look like errors
of inertia, and repeat from block to block."""
DELAY_ERRORS = 4.0
"""Number of standard errors that a delay may be wrong by. On five simulated robots with filtered
velocities and friction that the model does not describe, delays were wrong by up to 4."""
LEAST_INERTIA_ERROR = 0.02
"""Smallest error of an inertia that is assumed."""
LEAST_DELAY_PERIODS = 0.1
"""Smallest error of a delay that is assumed, in sample periods."""
REGRESSION_BLOCK = 2.0
"""Length of the blocks whose differences give the standard error [s]."""
LEAST_ROWS = 5
"""Smallest number of samples of a block."""


class MotionErrors(NamedTuple):
    """Errors of the model that grow with acceleration, as the parameters of the same names."""

    inertia: Array
    """(nv,) ``inertia_error``: relative error of the inertia that a joint moves."""
    delay: float
    """``delay_error``: error of the velocity's delay [s]."""


def estimate_motion_errors(
    parts: Sequence[RecordedMotion],
    held_out: Sequence[Array],
    model: Model,
    rest: Delay,
    corrected: float = 0.0,
) -> MotionErrors:
    """Return the errors of inertia and delay with which thresholds hold in faster motions.

    Args:
        parts: parts of the motions without contact and gaps, k + 1 samples each, ``tau`` as torque
            with the delay that is corrected [N·m or N].
        held_out: mean external torques between the samples by models that were not fitted to them,
            (k, nv) [N·m or N].
        model: the identified robot with the gravity that ``tau`` contains.
        rest: estimate of the delay that is not corrected, and its standard error.
        corrected: delay that is corrected, negative for a late effort [s].
    """
    period = float(np.median(np.concatenate([np.diff(part.t) for part in parts])))
    delay, error = _combined(rest.value, rest.error, DELAY_PRIOR)
    # A late effort has passed a filter, or is late as a whole: in a hard stop that is as different.
    late = max(-delay, 0.0) + max(-corrected, 0.0)
    longest = max(abs(delay) + DELAY_ERRORS * error + late, LEAST_DELAY_PERIODS * period)
    blocks = [
        block
        for part, x in zip(parts, held_out, strict=True)
        for block in _blocks(part, x, model, min(FILTER_GAIN, PER_RATE / period))
    ]
    inertia = np.array([_inertia_error([block[i] for block in blocks]) for i in range(model.nv)])
    return MotionErrors(np.maximum(inertia, LEAST_INERTIA_ERROR), min(longest, LONGEST_DELAY))


def _combined(value: float, error: float, prior: float) -> tuple[float, float]:
    """Return an estimate and its standard error, combined with a prior about zero."""
    if not np.isfinite(error):
        return 0.0, prior
    weight = prior**2 / (prior**2 + error**2)
    return weight * value, float(np.sqrt(weight)) * error


def _blocks(
    part: RecordedMotion, x: Array, model: Model, gain: float
) -> list[list[tuple[Array, Array]]]:
    """Return the normal equations of each joint for each block of a part.

    Args:
        part: the motion, k + 1 samples.
        x: mean external torques between the samples, (k, nv) [N·m or N].
        model: the identified robot.
        gain: natural frequency of the filter of all signals [1/s].

    Returns:
        For each block and joint the matrix (2, 2) and the right side (2,) of the regression of the
        residual on the rates of momentum and motor torque.
    """
    dt, n = np.diff(part.t), model.nv
    observer = SecondOrderObserver(model, gain)
    p, _, _ = momentum_terms(model, part.q, part.v)
    drive = part.tau - gravity_torque(model, part.q)
    columns = np.stack(
        [observer.filter(dt, np.diff(each, axis=0) / dt[:, None]) for each in (p, drive)], axis=2
    )
    r = observer.filter(dt, x)
    trace = reversals(dt, part.v, np.full(n, SLOW), np.full(n, gain))
    used = (trace < AWAY) & (part.t[1:] - part.t[0] > SETTLING / gain)[:, None]
    number = np.floor((part.t[1:] - part.t[0]) / REGRESSION_BLOCK)
    found = []
    for begin, end in _runs(number):
        if end - begin < LEAST_ROWS:
            continue
        of_joints = []
        for i in range(n):
            rows = np.flatnonzero(used[begin:end, i]) + begin
            A = columns[rows, i]
            of_joints.append((A.T @ A, A.T @ r[rows, i]))
        found.append(of_joints)
    return found


def _runs(number: Array) -> list[tuple[int, int]]:
    """Return the first index of each run of equal numbers, and the index after its last."""
    edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), number.size]
    return list(zip(edges[:-1], edges[1:], strict=True))


def _inertia_error(blocks: Sequence[tuple[Array, Array]]) -> float:
    """Return the error of one joint's inertia: the estimate, and one standard error with the prior.

    Args:
        blocks: normal equations of the regression in each block.
    """
    nothing = INERTIA_PRIOR
    if len(blocks) < LEAST_ROWS:
        return nothing
    A, b = sum(block[0] for block in blocks), sum(block[1] for block in blocks)
    scale = np.sqrt(np.diag(A))
    if not scale.all():
        return nothing
    unit = np.outer(scale, scale)
    inverse = np.linalg.pinv(A / unit, rcond=1e-6) / unit
    found = inverse @ b
    # Differences between the blocks, which are independent of each other, give the variance.
    rest = np.array([right - matrix @ found for matrix, right in blocks])
    error = float(np.sqrt((inverse @ (rest.T @ rest) @ inverse)[0, 0]))
    value, spread = _combined(float(found[0]), INERTIA_ERRORS * error, INERTIA_PRIOR)
    return abs(value) + spread
