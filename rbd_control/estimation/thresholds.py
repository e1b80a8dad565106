"""Contact thresholds: their levels, their defaults, and how they follow the motion.

**Levels that a signal without contact exceeds at a required rate, by extreme-value statistics.**

The signal, the magnitude of a residual, is cut into blocks much longer than its correlation time,
so that their maxima are nearly independent. The squares of these maxima tend to a Gumbel
distribution, which is exact for Gaussian noise; with location ``mu`` and scale ``beta`` fitted to
them, the level that a block passes with probability ``p`` is::

    level² = mu + beta y        y = -log(-log(1 - p))

Model errors, such as those at reversals of friction, cause rarer and larger residuals than noise,
and a short recording contains few of them. The returned level is therefore at least :data:`MARGIN`
times the largest maximum. This is the only margin of a threshold.

Source: Coles, *An Introduction to Statistical Modeling of Extreme Values*, Springer 2001, ch. 3.

**Default thresholds of an arm that is not calibrated, from its effort limits and its reach.**

A parameter of zero selects the default of its joint. With ``limit`` the effort limit and
``push`` the largest torque that a force of 20 N at any link causes at the joint in the middle of
all joint ranges, the defaults are::

    contact   = max(min(0.4 push, 10 % of limit), 5 % of limit, min(1.5, 15 % of limit))
    collision = max(5 contact, 15 % of limit)

The share of the push makes it detectable in poses with a shorter lever arm. The shares of the
effort limit are a margin for unidentified friction, which grows with the size of the drive. The
default of a joint without an effort limit is ``max(0.4 push, 1.5)``.

**Reversals of joints, at which Coulomb friction changes its sign at an unknown time.**

The residual then contains a part of the Coulomb friction, which decays with the observer's time
constant. Each joint therefore has a trace, which is one while the joint reverses or is at rest, and
decays with the observer's time constant.

**Compiled ratios of residuals to their thresholds.**

Thresholds depend on the motion, because errors of friction and model grow with it::

    threshold_i = contact_i (moving_i + (1 - moving_i) reversal_i)
                  + per_speed_i |v_i| + max(error_i - covered_error_i, 0) + margin_i + unknown_i
    error_i = inertia_error_i |dp_i/dt| + effort_gain_error_i |tau_i|
              + max(|u_i - u_i'|, |dp_i/dt - dp_i'/dt|)

``reversal_i`` is one if joint i is at rest or reverses; its term is a margin for friction. The
peak of ``|v_i|`` is held and decays with the observer's time constant. ``margin_i`` covers the
error of the friction that is followed (:mod:`~rbd_control.estimation.drift`).

``error_i`` is what three errors of the model add to the residual in a fast motion, or with a large
torque. Wrong masses make the momentum p wrong, by the share ``inertia_error_i``. The wrong gain of
a drive makes its torque ``tau`` wrong, by the share ``effort_gain_error_i``; identified friction
and masses absorb this error, but only in motions like the recorded ones. A velocity that is later
than ``velocity_delay`` says, by ``delay_error``, adds the difference between the motor's torque
less gravity, ``u``, and the same torque with this delay, ``u'``
(:mod:`~rbd_control.estimation.observers`); for slow changes it is the product of ``delay_error``
and the rate of ``u``. A torque that is late shows this difference too late, but the momentum ``p``
and ``p'``, which has the same delay, show it in time. All terms pass a first-order filter with the
observer's time constant, and the peak of ``error_i`` is held and decays with it, so that it is as
slow as the residual. The recordings of the calibration contain these errors as well, up to
``covered_error_i``; only faster motions, such as stops, and larger torques raise the threshold.

A late velocity also shows a reversal too late, so that the friction of the model has the wrong sign
before it. A joint therefore counts as reversing if it would reverse within ``delay_error`` and one
more period with its present acceleration.

``unknown_i`` allows for torque that changes much within a period, unless the calibration covers it,
and for lost samples (:mod:`~rbd_control.estimation.validity`). The collision threshold is
``collision_i`` plus the last four terms.

The mass matrix couples the velocity noise of all joints in the residuals. If the covariance of the
residual without contact is known, the statistic ``s`` is compared with a threshold as well. It is
the length of the residual in standard deviations, ``s² = rᵀ covariance⁻¹ r``, with each residual
reduced by its margin for friction, ``error_i`` beyond ``covered_error_i`` and ``unknown_i``. Its
threshold is, with the variance that the error of the followed friction adds to ``s``::

    sqrt((statistic_threshold + statistic_speed max |v_i|)² + WIDTH² variance)

**Changes at rest.** The threshold of a joint must allow for errors of masses and friction, which do
not change while the arm is at rest. A change of the residual since then is therefore judged with a
far lower threshold, in addition to the other rules::

    |r_i - base_i| > rest_threshold_i + unknown_i

The arm is at rest while no joint is faster than ``reversal_speed``. ``base`` is the mean residual
of its first :data:`REST_TIME` at rest, in which no residual may change by more than half of its
``rest_threshold``, and follows the residual with the time constant :data:`DRIFT_TIME`, as sensors
drift. During a contact it does not follow. What it learns, and what never:

- A change of more than ``rest_threshold`` within a time much shorter than :data:`DRIFT_TIME` is
  reported, for as long as it lasts, but for at most :data:`LONGEST_HOLD` if no other rule reports
  it. Then the present residual becomes ``base``.
- What friction holds after a contact is no contact: a contact ends when the change is below
  :data:`LEFT` of its highest value, and the present residual becomes ``base``.
- A force that grows more slowly than ``rest_threshold`` in :data:`DRIFT_TIME`, or that acts already
  when the arm comes to rest, becomes part of ``base``. When such a force is removed, the change is
  reported as a contact, for at most :data:`LONGEST_HOLD`.
- ``base`` never enters the other rules: a residual above ``contact_threshold`` is never learned.
- Motion, a restart, and other parameters or models end the rest; it begins anew
  :data:`REST_TIME` later.

The force ``F`` at one link may have a threshold as well. It is the most probable force under a
normal prior with the standard deviation ``force_uncertainty`` for each component, so that force
components that hardly load the joints are estimated as small::

    (J W Jᵀ + 1 / force_uncertainty²) F = J W r        W: inverse variances of the residuals
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.dynamics.compiled import compiled, inlined, inlined_borrowing
from rbd_control.dynamics.spatial import add, cross, dot, scale
from rbd_control.estimation.detector_parameters import (
    LARGEST_COLLISION_THRESHOLD,
    LARGEST_THRESHOLD,
    DetectorParameters,
)
from rbd_control.estimation.detector_state import COLLISION, CONTACT
from rbd_control.estimation.drift import WIDTH
from rbd_control.estimation.observers import delayed
from rbd_control.joint_states.plausibility import limits_or

Array = NDArray[np.float64]

BLOCK = 0.25
"""Length of a block [s]; the correlation time of residuals is some tens of milliseconds."""
MARGIN = 1.5
"""Smallest ratio of a returned level to the largest observed block maximum. The largest residual of
a quarter of the recordings of a real Panda and a real UR10 was at most this multiple of the largest
of the other three, which was the case for one wrist (``python -m bench.observers --held-out``)."""


def block_maxima(t: Array, signal: Array) -> Array:
    """Return the maximum of each signal in each block of :data:`BLOCK` seconds except the last.

    Args:
        t: times of the samples, (k,) [s], increasing; the first block begins at ``t[0]``.
        signal: magnitudes of m residuals, (k, m).

    Returns:
        Maxima of n blocks, (n, m), in the unit of ``signal``. The last block is left out because it
        is usually incomplete. Blocks without samples are left out as well.
    """
    number = np.floor((t - t[0]) / BLOCK).astype(int)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    # The last block is usually incomplete.
    return np.asarray(np.maximum.reduceat(signal, starts, axis=0)[:-1])


def alarm_levels(maxima: Array, alarms_per_hour: float) -> Array:
    """Return the level that each signal without contact exceeds at the rate ``alarms_per_hour``.

    Args:
        maxima: maxima of n blocks of m signals, (n, m), from :func:`block_maxima`.
        alarms_per_hour: required rate of each signal [1/h], above 0 and below ``3600 / BLOCK``.

    Returns:
        Levels, (m,), in the unit of ``maxima``; at least :data:`MARGIN` times the largest maximum.
    """
    from scipy.stats import gumbel_r

    p = alarms_per_hour * BLOCK / 3600.0
    y = -np.log(-np.log1p(-p))
    location, scale = np.array([gumbel_r.fit(column) for column in np.square(maxima).T]).T
    levels = np.sqrt(np.maximum(location + scale * y, 0.0))
    return np.asarray(np.maximum(levels, MARGIN * maxima.max(axis=0)))


P = TypeVar("P", bound=DetectorParameters)

PUSH = 20.0
"""Force that the default thresholds are made to detect [N]."""
PUSH_SHARE = 0.4
"""Default contact threshold as a fraction of the torque that a force of :data:`PUSH` causes."""
HIGHEST_SHARE = 0.1
"""Largest contribution of :data:`PUSH` to a default contact threshold, as a fraction of the effort
limit."""
LOWEST_SHARE = 0.05
"""Smallest default contact threshold as a fraction of the effort limit."""
SMALL_FRICTION = 1.5
"""Friction of small joints, a lower bound of default contact thresholds [N·m or N]."""
SMALL_SHARE = 0.15
"""Upper bound that replaces :data:`SMALL_FRICTION` if lower, as a fraction of the effort limit."""
COLLISION_RATIO = 5.0
"""Smallest default collision threshold as a multiple of the contact threshold."""
COLLISION_SHARE = 0.15
"""Smallest default collision threshold as a fraction of the effort limit."""
ORDER = 0.5
"""Largest default contact threshold as a fraction of a collision threshold that is given."""


def with_default_thresholds(parameters: P, model: Model) -> P:
    """Return the parameters with defaults in place of joint thresholds that are zero.

    The parameters concerned are ``contact_threshold``, ``collision_threshold`` and
    ``rest_threshold``, whose default is :data:`REST_SHARE` of the contact threshold. A default
    contact threshold is at most half of a collision threshold that is given for the same joint.

    Args:
        parameters: of the detector, per-joint values in the order of the model.
        model: the robot.

    Returns:
        Parameters with one value per joint; the same object when every threshold is given.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    contact = parameters.for_joints("contact_threshold", model.nv)
    collision = parameters.for_joints("collision_threshold", model.nv)
    rest = parameters.for_joints("rest_threshold", model.nv)
    if (contact > 0.0).all() and (collision > 0.0).all() and (rest > 0.0).all():
        return parameters
    usual = default_contact_thresholds(model)
    usual = np.where(collision > 0.0, np.minimum(usual, ORDER * collision), usual)
    contact = np.where(contact > 0.0, contact, usual)
    collision = np.where(collision > 0.0, collision, least_collision_thresholds(model, contact))
    return replace(
        parameters,
        contact_threshold=tuple(contact),
        collision_threshold=tuple(collision),
        rest_threshold=tuple(np.where(rest > 0.0, rest, REST_SHARE * contact)),
    )


def default_contact_thresholds(model: Model) -> Array:
    """Return the default contact thresholds, (nv,) [N·m or N].

    With ``limit`` the effort limit of the joint and ``push`` the largest torque that a force of
    20 N at the origin of any link causes at the joint in the middle of all joint ranges, they are
    ``max(min(0.4 push, 10 % of limit), 5 % of limit, min(1.5, 15 % of limit))``; without an effort
    limit ``max(0.4 push, 1.5)``.
    """
    limit = limits_or(model.effort_limit, np.inf)
    push = np.minimum(PUSH_SHARE * PUSH * levers(model), HIGHEST_SHARE * limit)
    # Without an effort limit the size of the drive is unknown.
    known = np.where(np.isfinite(limit), limit, 0.0)
    friction = np.minimum(SMALL_FRICTION, SMALL_SHARE * limit)
    return np.minimum(np.maximum.reduce([push, LOWEST_SHARE * known, friction]), LARGEST_THRESHOLD)


def least_collision_thresholds(model: Model, contact: Array) -> Array:
    """Return the default collision thresholds for given contact thresholds, (nv,) [N·m or N].

    They are the larger of five times the contact threshold and 15 % of the effort limit.

    Args:
        model: the robot.
        contact: contact thresholds, (nv,) [N·m or N].
    """
    limit = limits_or(model.effort_limit, 0.0)
    least = np.maximum(COLLISION_RATIO * contact, COLLISION_SHARE * limit)
    return np.minimum(least, LARGEST_COLLISION_THRESHOLD)


def uncalibrated(parameters: DetectorParameters, model: Model) -> str:
    """Return a warning with all contact thresholds if some are defaults; empty if none is.

    Args:
        parameters: of the detector; a ``contact_threshold`` of zero selects the default.
        model: the robot.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    given = parameters.for_joints("contact_threshold", model.nv)
    if (given > 0.0).all():
        return ""
    used = with_default_thresholds(parameters, model).for_joints("contact_threshold", model.nv)
    values = ", ".join(f"{threshold:.3g}" for threshold in used)
    return (
        f"contact thresholds are not calibrated: they are estimated from the effort limits and the "
        f"reach of the arm ({values} {model.torque_unit()}); rbd-control calibrate determines the "
        f"thresholds of this arm"
    )


def unset(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return warnings about contact thresholds and joint friction that are not set.

    Returns:
        At most two texts: one if some ``contact_threshold`` is zero, and one if ``friction_model``
        is ``none``.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    note = uncalibrated(parameters, model)
    said = [note] if note else []
    if parameters.friction_model == "none":
        said.append("no joint friction is set: all friction counts as external torque")
    return said


def levers(model: Model) -> Array:
    """Return the largest torque of a unit force at any link's origin, (nv,) [N·m/N or N/N].

    The joints stand in the middle of their ranges; joints without limits stand at zero.
    """
    middle = np.zeros(model.nq)
    if model.floating_base:
        middle[6] = 1.0  # the quaternion (x, y, z, w) of no rotation
    with np.errstate(invalid="ignore"):
        centre = 0.5 * (model.lower_limit + model.upper_limit)
    joints = len(model.joint_names)
    middle[model.nq - joints :] = np.where(np.isfinite(centre), centre, 0.0)[model.nv - joints :]
    columns = [frame_jacobian(model, middle, link)[3:] for link in model.link_names]
    return np.asarray(np.linalg.norm(columns, axis=1).max(axis=0))


REST_SHARE = 0.5
"""Default ``rest_threshold`` as a fraction of the contact threshold. The latter covers unknown dry
friction; a change at the start of a motion may be twice that friction, which is far smaller."""
REST_TIME = 0.3
"""Time after which an arm without motion and with steady residuals is at rest [s]."""
DRIFT_TIME = 10.0
"""Time constant with which the residual of an arm at rest is learned [s]."""
STEADY_SHARE = 0.5
"""Largest change of a residual when the arm comes to rest, as a share of ``rest_threshold``."""
LEFT = 0.1
"""Share of a contact's highest change that friction may hold after the contact."""
LONGEST_HOLD = 10.0
"""Longest time for which a change at rest alone counts as contact [s]."""

AWAY = 0.05
"""Value of the trace below which a joint counts as away from reversals."""


@inlined
def reversing(v, last, ahead, before, speed, fade):
    """Return the new trace of a joint: one while it reverses or is at rest, otherwise decayed.

    Args:
        v: velocity of this sample [rad/s or m/s].
        last: velocity of the previous sample [rad/s or m/s].
        ahead: velocity that the arm may already have, because the measured one is late [rad/s or
            m/s].
        before: previous trace, in [0, 1].
        speed: speed below which the joint counts as reversing [rad/s or m/s].
        fade: decay of the trace over the interval, exp(-pole dt).
    """
    slow = abs(v) < speed or abs(ahead) < speed
    return 1.0 if slow or v * last < 0.0 or v * ahead < 0.0 else fade * before


@inlined
def less_friction(r, allowance):
    """Return the part of a residual beyond a friction torque of magnitude ``allowance``.

    Arguments and result are in N·m or N; the result is zero within ± ``allowance``.
    """
    return r - min(max(r, -allowance), allowance)


@compiled
def reversals(dt, v, speed, pole, delay=0.0):
    """Return the trace of the last reversal of each joint after each of k intervals, (k, nv).

    It is 1 while the joint reverses or is slower than ``speed``, and before the first interval;
    afterwards it decays with ``exp(-pole dt)``.

    Args:
        dt: lengths of the intervals, (k,) [s].
        v: joint velocities at their ends, (k + 1, nv) [rad/s or m/s].
        speed: speed below which a joint counts as reversing, (nv,) [rad/s or m/s].
        pole: inverse time constant of the decay, (nv,) [1/s].
        delay: time by which the velocities may be late [s].
    """
    out = np.empty((v.shape[0] - 1, v.shape[1]))
    trace = np.ones(v.shape[1])
    for k in range(out.shape[0]):
        for i in range(v.shape[1]):
            fade = np.exp(-pole[i] * dt[k])
            lead = 1.0 + delay / dt[k] if delay > 0.0 else 0.0
            ahead = v[k + 1, i] + lead * (v[k + 1, i] - v[k, i])
            trace[i] = reversing(v[k + 1, i], v[k, i], ahead, trace[i], speed[i], fade)
            out[k, i] = trace[i]
    return out


@compiled
def motion_errors(dt, p, drive, effort, inertia, gain, delay, pole):
    """Return ``error`` (top of the module) at the end of each of k intervals, (k, nv) [N·m or N].

    Args:
        dt: lengths of the intervals, (k,) [s].
        p: momentum at their ends, (k + 1, nv) [N·m·s or N·s].
        drive: motor torque less gravity, with the delay of the velocity, (k + 1, nv) [N·m or N].
        effort: effort times its gain, (k + 1, nv) [N·m or N].
        inertia, gain: ``inertia_error`` and ``effort_gain_error``, (nv,) each.
        delay: ``delay_error`` [s].
        pole: inverse time constant of the filter, (nv,) [1/s].
    """
    out = np.empty((dt.size, p.shape[1]))
    for i in range(p.shape[1]):
        momentum_rate, late_rate, torque, error = 0.0, 0.0, 0.0, 0.0
        late, lead = drive[0, i], 0.0
        for k in range(dt.size):
            fade = np.exp(-pole[i] * dt[k])
            late = delayed(late, drive[k + 1, i], dt[k], delay)
            momentum_rate += (1.0 - fade) * ((p[k + 1, i] - p[k, i]) / dt[k] - momentum_rate)
            late_rate = delayed(late_rate, momentum_rate, dt[k], delay)
            torque += (1.0 - fade) * (effort[k + 1, i] - torque)
            lead += (1.0 - fade) * (drive[k + 1, i] - late - lead)
            present = inertia[i] * abs(momentum_rate) + gain[i] * abs(torque)
            present += max(abs(lead), abs(momentum_rate - late_rate))
            error = max(present, fade * error)
            out[k, i] = error
    return out


NOISE_FRACTION = 1.0 / 3.0
"""Standard deviation of a joint's residual that :func:`force_size` assumes, as a fraction of the
contact threshold."""


@inlined
def follow_motion(setting, joint, v, last_v, dt, fade, delay):
    """Advance the speed, acceleration and reversal that one joint's thresholds depend on.

    The speed is the present one, or the decayed earlier maximum, whichever is larger.

    Args:
        setting: settings of the joint, an element of ``Settings.joint``.
        joint: memory of the joint, an element of ``Memory.joint``, changed in place.
        v, last_v: velocities of this sample and the previous one [rad/s or m/s].
        dt: time between them [s].
        fade: decay over this time, exp(-pole dt), with the pole ``observer_gain``.
        delay: time by which the velocities may be late, ``delay_error`` [s].
    """
    acceleration = (v - last_v) / dt
    ahead = v + (delay + dt) * acceleration if delay > 0.0 else v
    joint.reversal = reversing(v, last_v, ahead, joint.reversal, setting.reversal_speed, fade)
    joint.speed = max(abs(v), fade * joint.speed)
    joint.acceleration = fade * joint.acceleration + (1.0 - fade) * acceleration


@inlined
def follow_errors(setting, joint, momentum_rate, drive, effort, dt, fade, delay):
    """Advance the torque that errors of inertia, gain and delay may add to one joint's residual.

    Args:
        setting: settings of the joint, an element of ``Settings.joint``.
        joint: memory of the joint, an element of ``Memory.joint``, changed in place.
        momentum_rate: rate of the momentum over an interval [N·m or N].
        drive: motor torque less gravity at the end of the interval [N·m or N].
        effort: effort times its gain at the end of the interval [N·m or N].
        dt: length of the interval [s].
        fade: decay over the interval, exp(-pole dt), with the pole ``observer_gain``.
        delay: ``delay_error`` [s].
    """
    joint.momentum_rate += (1.0 - fade) * (momentum_rate - joint.momentum_rate)
    joint.late_rate = delayed(joint.late_rate, joint.momentum_rate, dt, delay)
    joint.torque += (1.0 - fade) * (effort - joint.torque)
    joint.late = delayed(joint.late, drive, dt, delay)
    joint.lead += (1.0 - fade) * (drive - joint.late - joint.lead)
    error = setting.inertia_error * abs(joint.momentum_rate)
    error += max(abs(joint.lead), abs(joint.momentum_rate - joint.late_rate))
    error += setting.effort_gain_error * abs(joint.torque)
    joint.error = max(error, fade * joint.error)


@inlined
def motion_allowance(setting, joint):
    """Return the increase of a joint's thresholds for motion faster than in the calibration.

    It is ``error`` (top of the module) beyond ``covered_error`` [N·m or N]. ``setting`` and
    ``joint`` are elements of ``Settings.joint`` and ``Memory.joint``.
    """
    return max(joint.error - setting.covered_error, 0.0)


@inlined
def friction_allowance(setting, joint):
    """Return the present margin of a joint's threshold for friction at reversals [N·m or N].

    ``setting`` and ``joint`` are elements of ``Settings.joint`` and ``Memory.joint``.
    """
    return setting.contact_threshold * (1.0 - setting.moving_ratio) * joint.reversal


@inlined_borrowing
def highest_residual(settings, memory):
    """Store each joint's threshold; return the highest ratio of residual to threshold.

    Args:
        settings: settings of the detector.
        memory: memory of the detector; ``joint.threshold`` is set, including the allowance for
            torque between samples [N·m or N].

    Returns:
        Four values: the joint with the highest ratio, without the allowance for torque between
        samples; this ratio; the highest ratio with the allowance, which decides whether there is
        contact; and the level that a contact has, ``CONTACT`` or ``COLLISION``.
    """
    highest_joint, highest, deciding, collision = 0, 0.0, 0.0, False
    for i in range(memory.joint.shape[0]):
        setting, joint = settings.joint[i], memory.joint[i]
        moving = setting.threshold_speed * joint.speed + motion_allowance(setting, joint)
        moving += joint.margin
        size = abs(memory.observer[i].residual)
        threshold = (
            setting.moving_ratio * setting.contact_threshold
            + friction_allowance(setting, joint)
            + moving
        )
        ratio = size / threshold
        if ratio > highest:
            highest_joint, highest = i, ratio
        joint.threshold = threshold + joint.unknown
        deciding = max(deciding, size / joint.threshold)
        collision = collision or size > setting.collision_threshold + moving + joint.unknown
    return highest_joint, highest, deciding, COLLISION if collision else CONTACT


@inlined_borrowing
def follow_rest(settings, memory, dt, free):
    """Advance the residual ``base`` of the arm at rest, from which changes are judged.

    Args:
        settings: settings of the detector.
        memory: memory of the detector, with the residual and velocity of the present sample.
        dt: time since the last sample [s].
        free: whether there is certainly no contact.
    """
    arm = memory.arm[0]
    moves = False
    for i in range(memory.joint.shape[0]):
        moves = moves or abs(memory.v[i]) > settings.joint[i].reversal_speed
    if moves or not (arm.rests or free):
        arm.rests, arm.rested = False, 0.0
        return
    if not free:
        return
    arm.rested += dt
    share = min(dt / (DRIFT_TIME if arm.rests else arm.rested), 1.0)
    steady = True
    for i in range(memory.joint.shape[0]):
        joint, residual = memory.joint[i], memory.observer[i].residual
        joint.base += share * (residual - joint.base)
        change = abs(residual - joint.base)
        steady = steady and change < STEADY_SHARE * settings.joint[i].rest_threshold
    if not arm.rests and arm.rested >= REST_TIME:
        arm.rests = steady
        arm.rested = arm.rested if steady else 0.0


@inlined_borrowing
def rest_anew(memory):
    """Make the present residuals the ``base`` of an arm that stays at rest after a contact."""
    for i in range(memory.joint.shape[0]):
        memory.joint[i].base = memory.observer[i].residual


@inlined_borrowing
def highest_change(settings, memory):
    """Return the joint with the highest ratio of change at rest to threshold, and the ratio.

    The ratio is zero unless the arm is at rest.
    """
    highest_joint, highest = 0, 0.0
    if memory.arm[0].rests:
        for i in range(memory.joint.shape[0]):
            joint = memory.joint[i]
            change = abs(memory.observer[i].residual - joint.base)
            ratio = change / (settings.joint[i].rest_threshold + joint.unknown)
            if ratio > highest:
                highest_joint, highest = i, ratio
    return highest_joint, highest


@inlined_borrowing
def statistic_ratio(settings, memory):
    """Return the residual's length in standard deviations, divided by its threshold.

    It is zero if the covariance of the residual is unknown.
    """
    arm, joints = settings.arm[0], memory.joint
    if arm.statistic_threshold == math.inf:
        return 0.0
    square, fastest, variance = 0.0, 0.0, 0.0
    for i in range(joints.shape[0]):
        variance += joints[i].variance * settings.joint[i].precision
        fastest = max(fastest, joints[i].speed)
        white = 0.0
        for j in range(i + 1):
            allowance = friction_allowance(settings.joint[j], joints[j])
            allowance += motion_allowance(settings.joint[j], joints[j]) + joints[j].unknown
            residual = memory.observer[j].residual
            white += settings.whitening[i, j] * less_friction(residual, allowance)
        square += white * white
    threshold = arm.statistic_threshold + arm.statistic_speed * fastest
    return math.sqrt(square / (threshold * threshold + WIDTH * WIDTH * variance))


@inlined_borrowing
def force_size(settings, memory, J):
    """Return the size of the force F (top of the module) for the present residual [N].

    ``J`` (3, nv) is the translational Jacobian of the point at which the force acts.
    """
    prior = 1.0 / settings.arm[0].force_uncertainty ** 2
    zero = (0.0, 0.0, 0.0)
    x, y, z, f = zero, zero, zero, zero
    for i in range(memory.joint.shape[0]):
        weight = 1.0 / (NOISE_FRACTION * settings.joint[i].contact_threshold) ** 2
        joint = memory.joint[i]
        allowance = joint.unknown + joint.margin + motion_allowance(settings.joint[i], joint)
        residual = less_friction(memory.observer[i].residual, allowance)
        weighted = (weight * J[0, i], weight * J[1, i], weight * J[2, i])
        x = add(x, scale(J[0, i], weighted))
        y = add(y, scale(J[1, i], weighted))
        z = add(z, scale(J[2, i], weighted))
        f = add(f, scale(residual, weighted))
    x, y, z = add(x, (prior, 0.0, 0.0)), add(y, (0.0, prior, 0.0)), add(z, (0.0, 0.0, prior))
    # Cramer's rule; the prior keeps the determinant away from zero.
    yz = cross(y, z)
    F = (dot(f, yz), dot(f, cross(z, x)), dot(f, cross(x, y)))
    return math.sqrt(dot(F, F)) / dot(x, yz)
