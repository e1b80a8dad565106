"""Slow changes of friction and bias, followed in motion without contact.

The friction of a joint changes with temperature and load by tens of percent, within minutes. The
detector estimates for each joint the difference ``theta`` between the friction of the day and the
configured one, and subtracts it from the residual::

    tau_friction = configured + theta' phi(v)        phi = (tanh(v / velocity_scale), v, 1)

The components of ``theta`` are a change of Coulomb friction, a change of viscous friction and an
offset. The residual measures what the present estimate leaves: ``r = -(change of theta)' psi`` plus
noise, where ``psi`` is ``phi`` behind the filter of the residual, so that both have the same lag.

**Filter.** ``theta`` is an Ornstein-Uhlenbeck process: without information it returns to zero with
the time constant :data:`MEMORY`, and its covariance P to that of the prior, whose standard
deviations are :data:`SHARE` of the configured Coulomb and viscous friction, and
:data:`OFFSET_SHARE` of the contact threshold for the offset. A Kalman filter updates it once in
:data:`PERIOD` time constants of the observer. The error of the residual is not white: errors of
masses persist while the arm is near a posture. Its spectral density is therefore that of a noise
with the standard deviation :data:`NOISE` of the contact threshold and a correlation time of
:data:`CORRELATION`.

**Thresholds.** With c the contact threshold in motion, the threshold of a joint increases by::

    margin = sqrt(c² + WIDTH² psi' P psi) - c

Noise and the error of the estimate are independent, so that their squares add up. After a start the
margin covers the friction of a cold or warm arm; after some seconds of motion it is a few percent.
The threshold of the statistic ``s`` increases in the same way: the sum of the squares that the
error of the estimate adds to ``s²`` is on average ``sum_i (psi' P psi)_i (covariance⁻¹)_ii``.

**When it learns.** A joint learns only while it moves (``|psi_1|`` above :data:`MOVING`). Nothing
is learned while a residual is closer to its threshold than ``1 - release_ratio`` of the contact
threshold in motion, because a contact may begin. When a contact begins, the estimate of at least
:data:`UNDONE` before is restored, and nothing is learned until :data:`CALM` after its end.

**Recovery.** A sudden change of friction raises the flag. From the onset of a contact on, a second
estimate, of friction only, learns from the residuals. If these residuals, corrected by it, would
not have raised the flag for :data:`EXPLAINED`, are less than :data:`PART` of the uncorrected ones,
and every joint that is corrected noticeably has reversed twice in each direction meanwhile, and if
the sum of both estimates is within the bounds, then the cause was friction: the sum becomes the
estimate, and the contact ends by the usual hysteresis.

**Guarantee.** The estimate never exceeds ``BOUND`` standard deviations of the prior in any
component, and changes by at most its own standard deviation in :data:`RATE_TIME`. With
the standard deviations ``s`` of the prior and the largest threshold c_max, with the prior's
margin, an external torque that reaches a joint is therefore reported for as long as it lasts,
however slowly it has grown:

- at rest, and in motion in the direction in which friction does not hide it, if it exceeds ``c_max
  + BOUND s_offset``, which is 1.34 contact thresholds at rest. A torque that keeps its sign while
  the joint moves to and fro is reported in at least one of the directions, and the second estimate
  never explains it, as the explanation would have to fit in both directions.
- in lasting motion in one direction, if it exceeds ``c_max + BOUND (s_coulomb + s_viscous |v| +
  s_offset)``.

An external torque that always opposes the motion, as the hand of a person who brakes the arm, is
indistinguishable from friction. Up to the same bound it may be taken for friction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rbd_control.dynamics.compiled import inlined, inlined_borrowing
from rbd_control.estimation.observers import follow
from rbd_control.results import Derived, Result, value
from rbd_control.robot.friction import Friction

SHARE = 0.15
"""Standard deviation of Coulomb and of viscous friction, as a fraction of the configured value.

Friction of harmonic drives falls by 20 to 40 % from a cold to a warm arm: twice to three times
this value."""
OFFSET_SHARE = 0.1
"""Standard deviation of the offset, as a fraction of the contact threshold in motion."""
BOUND = 3.0
"""Largest magnitude of each component of the estimate, in standard deviations of the prior."""
MEMORY = 600.0
"""Time constant with which the estimate returns to the prior without information [s].

Joints warm up and cool down within ten minutes to an hour."""
RATE_TIME = 10.0
"""Shortest time in which a component of the estimate changes by its standard deviation [s]."""
TINY = 1e-300
"""Number that avoids a division by zero."""
NOISE = 1.0 / 3.0
"""Standard deviation of the residual in motion without contact, as a fraction of the threshold."""
CORRELATION = 1.0
"""Correlation time of errors of the model, which change with the posture [s]."""
WIDTH = 3.0
"""Number of standard deviations of the estimate that the thresholds cover."""
PERIOD = 2.0
"""Period of the updates, in time constants 1/K of the slowest joint.

A residual is then correlated by exp(-2) = 14 % with the one before."""
MOVING = 0.9
"""Least magnitude of the filtered ``tanh(v / velocity_scale)`` of a joint that moves."""
UNDONE = 0.5
"""Time before a contact of which nothing is learned [s]; at most twice this time is undone."""
CALM = 10.0
"""Time without contact that ends the suspicion of a contact [s].

A push that shows in one direction of a motion only, as it is weaker than the friction of the other
direction, returns within this time."""
EXPLAINED = 10.0
"""Least time for which changed friction must explain the residuals of a contact [s]."""
TURNS = 2
"""Number of reversals in each direction for which it must explain them."""
SLIGHT = 0.1
"""Correction of a residual that needs no reversals, as a fraction of the threshold."""
PART = 0.7
"""Largest part of the squares of the residuals that friction may leave if it explains them."""
USUAL = 10.0
"""Time constant of the mean speed at which a joint learns [s]."""
FIRST_SPEED = 1.0
"""Speed for which friction is stated before the joint has learned at a speed [rad/s or m/s].

It may not depend on the configured friction: without viscous friction no speed follows from it."""

ESTIMATE = np.dtype(
    [
        ("coulomb", "f8"),  # change of Coulomb friction [N·m or N]
        ("viscous", "f8"),  # change of viscous friction [N·m·s/rad or N·s/m]
        ("offset", "f8"),  # constant friction torque [N·m or N]
        ("cc", "f8"),  # covariance of the three, by their first letters
        ("cv", "f8"),
        ("co", "f8"),
        ("vv", "f8"),
        ("vo", "f8"),
        ("oo", "f8"),
    ],
    align=True,
)
"""Estimate of the change of one joint's friction."""
PRESENT, KEPT, BEFORE, SUSPECTED = range(4)
"""Estimates of a joint: the present one, two earlier ones that are :data:`UNDONE` apart, and the
one that explains a contact by a further change of friction."""

SETTING_FIELDS = [
    ("drift_period", "f8"),  # period of updates [s], the same for all joints; infinite if off
    ("steepness", "f8"),  # 1 / velocity_scale of the friction [s/rad or s/m]
    ("prior_coulomb", "f8"),  # standard deviations of the prior
    ("prior_viscous", "f8"),
    ("prior_offset", "f8"),
    ("drift_noise", "f8"),  # variance of the residual in one update
    ("precision", "f8"),  # diagonal entry of the inverse covariance of the residuals
]
"""Fields of the settings of a joint that the kernels of this module read."""
JOINT_FIELDS = [
    ("step", "f8"),  # smooth sign of the velocity of the last sample
    ("step_column", "f8"),  # the same behind the filter of the residual, psi_1
    ("step_rate", "f8"),  # state of that filter
    ("speed_column", "f8"),  # velocity behind the filter of the residual, psi_2
    ("speed_rate", "f8"),  # state of that filter
    ("variance", "f8"),  # psi' P psi [(N·m)² or N²]
    ("margin", "f8"),  # increase of the thresholds by it [N·m or N]
    ("usual_speed", "f8"),  # mean speed at which the joint has learned [rad/s or m/s]
    ("direction", "f8"),  # sign of the last motion while a contact is suspected; 0 before
    ("turns_up", "i8"),  # number of reversals to positive velocities, and to negative ones, while
    ("turns_down", "i8"),  # friction explains the suspected contact
    ("corrected", "?"),  # its residual was corrected noticeably meanwhile
    ("uncorrected", "f8"),  # residual of this sample without this correction [N·m or N]
]
"""Fields of the memory of a joint."""
ARM_FIELDS = [
    ("updated", "f8"),  # stamp of the last update; NaN before the first
    ("idle", "f8"),  # time for which the present estimate has not returned to the prior yet [s]
    ("kept", "f8"),  # stamp at which the estimates were kept
    ("suspects", "?"),  # a contact is, or was recently, in progress
    ("calm_since", "f8"),  # stamp of the last sample with contact
    ("explained_since", "f8"),  # stamp from which friction explains the suspected contact
    ("whole", "f8"),  # sum of the squares of the largest ratio to a threshold since then
    ("left", "f8"),  # the same of what friction does not explain
    ("recoveries", "i8"),  # number of contacts that friction has explained
]
"""Fields of the memory of the arm."""


@inlined
def smooth_sign(x):
    """Return tanh(x) to within 1e-4; it takes a fifth of the time of the library's function."""
    x = min(max(x, -4.97), 4.97)
    square = x * x
    above = 135135.0 + square * (17325.0 + square * (378.0 + square))
    below = 135135.0 + square * (62370.0 + square * (3150.0 + square * 28.0))
    return x * above / below


@inlined
def _in_motion(setting):
    """Return the contact threshold of a joint in motion [N·m or N]."""
    return setting.moving_ratio * setting.contact_threshold


@inlined
def mean_columns(setting, joint, v, last_v):
    """Return the means over an interval of the smooth sign of the velocity, and of the velocity.

    Args:
        setting, joint: settings and memory of the joint; ``joint.step`` becomes that of ``v``.
        v, last_v: velocities of this sample and the previous one [rad/s or m/s].
    """
    step = smooth_sign(v * setting.steepness)
    mean = 0.5 * (step + joint.step)
    joint.step = step
    return mean, 0.5 * (v + last_v)


@inlined
def advance_columns(kind, design, gains, setting, joint, estimate, dt, means):
    """Advance the columns ``psi`` of a joint; set its variance and its margin.

    Args:
        kind, design: kind and constants of the filter of the residual.
        gains: result of :func:`~.observers.advance` for the same interval.
        setting, joint: settings and memory of the joint; ``joint`` is changed in place.
        estimate: present estimate of the joint, of ``ESTIMATE``.
        dt: length of the interval [s].
        means: result of :func:`mean_columns`.
    """
    e = estimate
    s, step_rate = follow(kind, design, gains, joint.step_column, joint.step_rate, dt, means[0])
    u, speed_rate = follow(kind, design, gains, joint.speed_column, joint.speed_rate, dt, means[1])
    variance = s * (s * e.cc + 2.0 * (u * e.cv + e.co)) + u * (u * e.vv + 2.0 * e.vo) + e.oo
    variance = max(variance, 0.0)
    least = _in_motion(setting)
    joint.margin = math.sqrt(least * least + WIDTH * WIDTH * variance) - least
    joint.step_column, joint.step_rate = s, step_rate
    joint.speed_column, joint.speed_rate, joint.variance = u, speed_rate, variance


@inlined
def drift_torque(estimate, means):
    """Return the mean over an interval of the change of a joint's friction [N·m or N].

    Args:
        estimate: present estimate of the joint, of ``ESTIMATE``.
        means: result of :func:`mean_columns`.
    """
    return estimate.coulomb * means[0] + estimate.viscous * means[1] + estimate.offset


@inlined
def clear_columns(joint):
    """Set the columns of a joint to those of an arm at rest."""
    joint.step = joint.step_column = joint.step_rate = 0.0
    joint.speed_column = joint.speed_rate = 0.0
    joint.variance = joint.margin = 0.0


@inlined
def _set_prior(setting, e, offset):
    """Set an estimate to the prior; ``offset`` is 1, or 0 for an estimate of friction only."""
    e.coulomb = e.viscous = e.offset = 0.0
    e.cc, e.vv = setting.prior_coulomb**2, setting.prior_viscous**2
    e.oo = offset * setting.prior_offset**2
    e.cv = e.co = e.vo = 0.0


@inlined
def _return_to_prior(setting, e, dt):
    """Let an estimate and its covariance return to the prior for the time ``dt`` [s]."""
    keeps = math.exp(-dt / MEMORY)
    square = keeps * keeps
    e.coulomb *= keeps
    e.viscous *= keeps
    e.offset *= keeps
    e.cc = square * e.cc + (1.0 - square) * setting.prior_coulomb**2
    e.vv = square * e.vv + (1.0 - square) * setting.prior_viscous**2
    e.oo = square * e.oo + (1.0 - square) * setting.prior_offset**2
    e.cv *= square
    e.co *= square
    e.vo *= square


@inlined
def _learn(setting, joint, e, residual, share):
    """Update an estimate by the residual [N·m or N] that it leaves, with the present columns.

    The gain of the Kalman filter is reduced where a component would change by more than ``share``
    of its standard deviations; the covariance is that of the reduced gain.
    """
    s, u = joint.step_column, joint.speed_column
    c, v, o = e.cc * s + e.cv * u + e.co, e.cv * s + e.vv * u + e.vo, e.co * s + e.vo * u + e.oo
    innovation = s * c + u * v + o + setting.drift_noise
    change = -residual / innovation
    # A component with the gain zero leaves the others free.
    allowed = min(
        1.0,
        share * math.sqrt(e.cc) / max(abs(c * change), TINY),
        share * math.sqrt(e.vv) / max(abs(v * change), TINY),
    )
    if e.oo > 0.0:
        allowed = min(allowed, share * math.sqrt(e.oo) / max(abs(o * change), TINY))
    change *= allowed
    e.coulomb += change * c
    e.viscous += change * v
    e.offset += change * o
    less = allowed * (2.0 - allowed) / innovation
    e.cc -= less * c * c
    e.cv -= less * c * v
    e.co -= less * c * o
    e.vv -= less * v * v
    e.vo -= less * v * o
    e.oo -= less * o * o


@inlined
def _bounded(x, prior):
    return min(max(x, -BOUND * prior), BOUND * prior)


@inlined
def _is_bounded(setting, e, more):
    """Return whether the sum of two estimates of friction is within the bounds."""
    return (
        abs(e.coulomb + more.coulomb) <= BOUND * setting.prior_coulomb
        and abs(e.viscous + more.viscous) <= BOUND * setting.prior_viscous
    )


@inlined
def explained_torque(joint, more):
    """Return the part of a residual that a further change of friction explains, [N·m or N]."""
    return -(more.coulomb * joint.step_column + more.viscous * joint.speed_column)


@inlined_borrowing
def suspect(settings, memory, stamp):
    """Begin to explain a contact that has begun by friction; undo what was learned before it."""
    arm = memory.arm[0]
    if arm.suspects:
        return
    arm.suspects = True
    for i in range(memory.joint.shape[0]):
        memory.drift[i, PRESENT] = memory.drift[i, BEFORE]
        memory.drift[i, KEPT] = memory.drift[i, BEFORE]
    _begin(settings, memory, stamp)


@inlined_borrowing
def _begin(settings, memory, stamp):
    """Begin to explain residuals by a further change of friction."""
    for i in range(memory.joint.shape[0]):
        _set_prior(settings.joint[i], memory.drift[i, SUSPECTED], 0.0)
    _begin_explanation(memory, stamp)


@inlined_borrowing
def _begin_explanation(memory, stamp):
    arm = memory.arm[0]
    arm.explained_since, arm.whole, arm.left = stamp, 0.0, 0.0
    for i in range(memory.joint.shape[0]):
        joint = memory.joint[i]
        joint.direction = 0.0
        joint.turns_up = joint.turns_down = 0
        joint.corrected = False


@inlined_borrowing
def record_explained(settings, memory, stamp, left, whole):
    """Record whether friction explains the residuals of a suspected contact, and the reversals.

    Args:
        settings, memory: settings and memory of the detector, ``memory`` changed in place.
        stamp: time of the sample [s].
        left: largest ratio to a threshold of the residuals that the second estimate leaves.
        whole: the same without the second estimate.
    """
    if left > 1.0:
        _begin_explanation(memory, stamp)
        return
    memory.arm[0].whole += whole * whole
    memory.arm[0].left += left * left
    for i in range(memory.joint.shape[0]):
        joint, setting = memory.joint[i], settings.joint[i]
        if abs(joint.step_column) >= MOVING:
            if joint.step_column * joint.direction < 0.0:
                if joint.step_column > 0.0:
                    joint.turns_up += 1
                else:
                    joint.turns_down += 1
            joint.direction = joint.step_column
        corrected = abs(explained_torque(joint, memory.drift[i, SUSPECTED]))
        joint.corrected |= corrected > SLIGHT * _in_motion(setting)


@inlined_borrowing
def follow_friction(settings, memory, stamp, in_contact):
    """Advance the estimates after a sample with a verdict.

    Args:
        settings, memory: settings and memory of the detector, ``memory`` changed in place.
        stamp: time of the sample [s].
        in_contact: whether there is contact, or may be.
    """
    arm = memory.arm[0]
    if in_contact:
        arm.calm_since = stamp
    elif arm.suspects and stamp - arm.calm_since >= CALM:
        arm.suspects = False
    period = settings.joint[0].drift_period
    if math.isnan(arm.updated):
        arm.updated = arm.kept = stamp
    since = stamp - arm.updated
    if since < period:
        return
    arm.updated = stamp
    arm.idle += since
    if arm.suspects:
        _explain(settings, memory, stamp)
        return
    keeps, learns = stamp - arm.kept >= UNDONE, not in_contact
    for i in range(memory.joint.shape[0]):
        close = (1.0 - settings.arm[0].release_ratio) * _in_motion(settings.joint[i])
        size = abs(memory.observer[i].residual)
        learns = learns and size < memory.joint[i].threshold - close
    for i in range(memory.joint.shape[0]):
        setting, joint, e = settings.joint[i], memory.joint[i], memory.drift[i, PRESENT]
        _return_to_prior(setting, e, arm.idle)
        if learns and abs(joint.step_column) >= MOVING:
            _learn(setting, joint, e, memory.observer[i].residual, period / RATE_TIME)
            e.coulomb = _bounded(e.coulomb, setting.prior_coulomb)
            e.viscous = _bounded(e.viscous, setting.prior_viscous)
            e.offset = _bounded(e.offset, setting.prior_offset)
            joint.usual_speed += period / USUAL * (abs(joint.speed_column) - joint.usual_speed)
        if keeps:
            memory.drift[i, BEFORE] = memory.drift[i, KEPT]
            memory.drift[i, KEPT] = e
    if keeps:
        arm.kept = stamp
    arm.idle = 0.0


@inlined_borrowing
def _explain(settings, memory, stamp):
    """Learn the friction that explains a suspected contact; adopt it if it does."""
    arm, n = memory.arm[0], memory.joint.shape[0]
    fits = stamp - arm.explained_since >= EXPLAINED and arm.left < PART * arm.whole
    for i in range(n):
        setting, joint = settings.joint[i], memory.joint[i]
        e, more = memory.drift[i, PRESENT], memory.drift[i, SUSPECTED]
        if abs(joint.step_column) >= MOVING:
            left = memory.observer[i].residual - explained_torque(joint, more)
            _learn(setting, joint, more, left, math.inf)
        turned = joint.turns_up >= TURNS and joint.turns_down >= TURNS
        fits = fits and (turned or not joint.corrected) and _is_bounded(setting, e, more)
    if not fits:
        return
    for i in range(n):
        e, more = memory.drift[i, PRESENT], memory.drift[i, SUSPECTED]
        e.coulomb += more.coulomb
        e.viscous += more.viscous
        e.cc, e.cv, e.vv = more.cc, more.cv, more.vv
        e.co = e.vo = 0.0
        memory.drift[i, KEPT] = e
        memory.drift[i, BEFORE] = e
    arm.recoveries += 1
    _begin(settings, memory, stamp)


def drift_settings(
    joint: np.ndarray, whitening: np.ndarray, friction: Friction, follows: bool
) -> None:
    """Set the fields :data:`SETTING_FIELDS` of the settings of the joints.

    Args:
        joint: settings with thresholds and observer gains, (nv,), changed in place.
        whitening: whitening matrix of the residuals, (nv, nv); zero if unknown.
        friction: the configured friction; without friction there is nothing to follow.
        follows: whether changes of friction are followed.
    """
    coulomb, viscous, scale = friction.followed(joint.size)
    has_friction = (coulomb > 0.0) | (viscous > 0.0)
    in_motion = joint["moving_ratio"] * joint["contact_threshold"]
    joint["steepness"] = 1.0 / scale
    joint["prior_coulomb"], joint["prior_viscous"] = SHARE * coulomb, SHARE * viscous
    joint["prior_offset"] = OFFSET_SHARE * in_motion * has_friction
    period = PERIOD / float(joint["observer_gain"].min())
    joint["drift_noise"] = np.square(NOISE * in_motion) * CORRELATION / period
    joint["precision"] = np.square(whitening).sum(axis=0)
    joint["drift_period"] = period if follows and has_friction.any() else math.inf


NOTABLE = 0.05
"""Least change of friction that is worth a sentence, as a fraction of the configured friction."""
CERTAIN = 2.0
"""Least change that is worth a sentence, in standard deviations."""


@dataclass(frozen=True)
class JointDrift(Result):
    """Difference of one joint's friction from the configured friction."""

    joint: str = value("name of the joint")
    share: float = value("change of the friction torque at the usual speed, as a share of it")
    share_uncertainty: float = value("standard deviation of `share`")
    offset: float = value("constant friction torque beside the configured one [N·m or N]")
    offset_uncertainty: float = value("standard deviation of `offset` [N·m or N]")
    coulomb: float = value("Coulomb friction of the day [N·m or N]")
    viscous: float = value("viscous friction of the day [N·m·s/rad or N·s/m]")
    bound_at_rest: float = value(
        "external torque at rest that is always reported as contact [N·m or N]"
    )
    bound_in_motion: float = value(
        "the same in lasting motion in one direction at the usual speed, before the first motion "
        "at 1 rad/s or m/s [N·m or N]"
    )

    DERIVED: ClassVar[tuple[Derived, ...]] = (
        Derived("text", "the change in words; empty if it is not notable", lambda each: each.text),
    )

    @property
    def text(self) -> str:
        """The change, such as ``friction of joint_2 is 12 ± 3 % above the file``.

        It is empty for a change below :data:`NOTABLE` or below :data:`CERTAIN` standard deviations.
        """
        if abs(self.share) < max(NOTABLE, CERTAIN * self.share_uncertainty):
            return ""
        side = "above" if self.share > 0.0 else "below"
        change, error = 100.0 * abs(self.share), 100.0 * self.share_uncertainty
        return f"friction of {self.joint} is {change:.0f} ± {error:.0f} % {side} the file"


def least_push(drift: Sequence[JointDrift], levers: np.ndarray) -> tuple[float, float]:
    """Return the weakest pushes that are always reported: at rest, in lasting motion, (2,) [N].

    They act on the link and in the direction that load a joint most, in the middle of all joint
    ranges.

    Args:
        drift: bounds of the joints with friction, at least one.
        levers: largest torque of a unit force at these joints [N·m/N or N/N].
    """
    lever = np.maximum(levers, 1e-9)
    rest = np.array([each.bound_at_rest for each in drift])
    motion = np.array([each.bound_in_motion for each in drift])
    return float((rest / lever).min()), float((motion / lever).min())


def guarantee(drift: Sequence[JointDrift], push: tuple[float, float], unit: str) -> str:
    """Return the guarantee of the slow push with its bounds as one sentence.

    Args:
        drift: bounds of the joints with friction, at least one.
        push: result of :func:`least_push` [N].
        unit: unit of the bounds.
    """
    rest = [each.bound_at_rest for each in drift]
    motion = [each.bound_in_motion for each in drift]
    return (
        f"friction is followed; a push that grows slowly is reported for as long as it lasts from "
        f"{push[0]:.3g} N at rest ({min(rest):.2g} to {max(rest):.2g} {unit} at a joint) and "
        f"{push[1]:.3g} N in lasting motion in one direction ({min(motion):.2g} to "
        f"{max(motion):.2g} {unit})"
    )


class FrictionDrift:
    """Estimate of the friction of the day of one arm, in the memory of its detector.

    Args:
        memory: memory of the detector, of :class:`~.detector_state.Memory`.
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._friction = Friction()
        self._joint = np.zeros(0, SETTING_FIELDS)

    def use(self, joint: np.ndarray, friction: Friction) -> None:
        """Apply other settings; a change of the configured friction keeps the friction of the day.

        Its uncertainty is then that of the prior again. If another model or velocity scale is
        configured, or nothing is followed any more, the estimate begins at the configured friction.

        Args:
            joint: settings of the joints with :data:`SETTING_FIELDS`, (nv,).
            friction: the configured friction.
        """
        former, n = self._friction, joint.size
        self._joint, self._friction = joint, friction
        before, now = former.followed(n), friction.followed(n)
        is_same = former.name == friction.name and np.array_equal(before[2], now[2])
        if not is_same or math.isinf(joint["drift_period"][0]):
            self.forget()
            return
        changes = {"coulomb": before[0] - now[0], "viscous": before[1] - now[1]}
        changes["offset"] = former.constant(n) - friction.constant(n)
        if not any(change.any() for change in changes.values()):
            return
        present = self._memory.drift[:, PRESENT].copy()
        self.forget()
        for name, change in changes.items():
            most = BOUND * joint[f"prior_{name}"]
            self._memory.drift[name][:, :SUSPECTED] = np.clip(present[name] + change, -most, most)[
                :, None
            ]

    def forget(self) -> None:
        """Return to the configured friction with the uncertainty of the prior."""
        drift, joint = self._memory.drift, self._joint
        drift[:] = np.zeros((), ESTIMATE)
        drift["cc"] = np.square(joint["prior_coulomb"])[:, None]
        drift["vv"] = np.square(joint["prior_viscous"])[:, None]
        drift["oo"] = np.square(joint["prior_offset"])[:, None]
        self._memory.arm["suspects"] = False

    @property
    def recoveries(self) -> int:
        """Number of contacts since the start that were a sudden change of friction."""
        return int(self._memory.arm["recoveries"][0])

    def of_the_day(self) -> Friction:
        """Return the configured friction with the present changes."""
        e = self._memory.drift[:, PRESENT]
        return self._friction.with_change(e["coulomb"], e["viscous"], e["offset"])

    def report(self, joint_names: Sequence[str]) -> tuple[JointDrift, ...]:
        """Return the change of each joint with configured friction; empty if nothing is followed.

        Args:
            joint_names: names of the joints, in the order of the last elements of the velocity.
        """
        setting, memory = self._joint, self._memory.joint
        n, first = setting.size, setting.size - len(joint_names)
        if math.isinf(setting["drift_period"][0]):
            return ()
        e = self._memory.drift[:, PRESENT]
        coulomb, viscous, _ = self._friction.followed(n)
        found = []
        for i in range(first, n):
            speed = memory["usual_speed"][i] or FIRST_SPEED
            torque = coulomb[i] + viscous[i] * speed
            if not torque:
                continue
            change = e["coulomb"][i] + speed * e["viscous"][i]
            variance = e["cc"][i] + speed * (2.0 * e["cv"][i] + speed * e["vv"][i])
            rest, motion = _reported(setting[i], speed)
            found.append(
                JointDrift(
                    joint=joint_names[i - first],
                    share=float(change / torque),
                    share_uncertainty=math.sqrt(variance) / float(torque),
                    offset=float(e["offset"][i]),
                    offset_uncertainty=math.sqrt(e["oo"][i]),
                    coulomb=float(coulomb[i] + e["coulomb"][i]),
                    viscous=float(viscous[i] + e["viscous"][i]),
                    bound_at_rest=rest,
                    bound_in_motion=motion,
                )
            )
        return tuple(found)


def _reported(setting: Any, speed: float) -> tuple[float, float]:
    """Return the torques of a joint that are always reported, at rest and in motion [N·m or N]."""
    least = float(setting["moving_ratio"] * setting["contact_threshold"])
    offset = float(setting["prior_offset"])
    coulomb, viscous = float(setting["prior_coulomb"]), float(setting["prior_viscous"]) * speed
    rest = setting["contact_threshold"] - least + math.hypot(least, WIDTH * offset)
    moving = math.hypot(least, WIDTH * math.hypot(coulomb, viscous, offset))
    moving += float(setting["threshold_speed"]) * speed
    return (
        float(rest + BOUND * offset),
        float(moving + BOUND * (coulomb + viscous + offset)),
    )
