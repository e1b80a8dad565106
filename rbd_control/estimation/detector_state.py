"""State of the compiled decision between contact and no contact; codes of reasons and levels.

Settings and memory have a structured array with one element per joint, and another with a single
element for the whole arm. Python and compiled code use the same field names. The overhead of a call
into compiled code depends on the number of arrays, not of fields.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.drift import (
    ARM_FIELDS,
    ESTIMATE,
    JOINT_FIELDS,
    SETTING_FIELDS,
    drift_settings,
)
from rbd_control.estimation.observers import STATE, Observer
from rbd_control.joint_states.plausibility import limits_or

REASONS = (
    "",
    "settling",
    "gap",
    "no velocity",
    "no effort",
    "repeated samples",
    "saturated effort",
    "implausible jump",
    "implausible speed",
    "implausible effort",
    "implausible position",
    "effort is zero",
    "effort not measured",
    "out of range",
    "stamps too close",
    "repeated efforts",
    "velocity not measured",
)
"""Reasons for the lack of a verdict or for a dropped sample; the code is the index, 0 if none."""
(
    VALID,
    SETTLING,
    GAP,
    NO_VELOCITY,
    NO_EFFORT,
    REPEATED,
    SATURATED,
    JUMP,
    SPEED,
    EFFORT,
    POSITION,
    ZERO_EFFORT,
    ALL_ZERO,
    RANGE,
    TOO_CLOSE,
    REPEATED_EFFORTS,
    ZERO_VELOCITY,
) = range(len(REASONS))

NO_JOINT = -1
"""Row of the joint in a verdict whose reason concerns no joint, or all joints."""

LEVELS = ("none", "contact", "collision")
"""Levels of contact, by code: the code is the index."""
FREE, CONTACT, COLLISION = range(len(LEVELS))

ONSET_WINDOW = 0.1
"""Shortest time before the detection that is searched for the onset of a contact [s]."""
LEAST = 6
"""Minimum number of samples that are searched for the onset, for low sample rates."""
MOST = 128
"""Maximum number of samples that are searched for the onset: of more, every second or third is
taken, because the search takes a time that grows with the square of their number."""
HISTORY = 4096
"""Number of samples stored for the search of the onset: 4 s at 1 kHz, and 1 s at 4 kHz, in which
an observer with a gain of 5 1/s shows 99 % of a step."""


def _compiled(*, per_joint: bool) -> list[tuple[str, str]]:
    """Return the members of the settings that hold parameters, which have their names and units."""
    return [
        (item.name, "f8")
        for item in fields(DetectorParameters)
        if item.metadata["compiled"] and item.metadata["per_joint"] == per_joint
    ]


JOINT_SETTINGS = np.dtype(
    [
        *_compiled(per_joint=True),
        ("bias", "f8"),  # constant external torque removed by a tare [N·m or N]
        ("saturated", "f8"),  # torque from which an effort counts as saturated [N·m or N]
        ("highest_effort", "f8"),  # higher torques are implausible [N·m or N]
        ("highest_speed", "f8"),  # higher speeds are implausible [rad/s or m/s]
        ("turn", "f8"),  # period of the position of a revolute joint [rad]; 0 for prismatic joints
        ("loaded", "f8"),  # load above which an effort of zero counts as not measured [N·m or N]
        ("small", "f8"),  # effort after which zero may be measured, in the driver's unit
        *SETTING_FIELDS,  # of the friction that is followed
    ],
    align=True,
)
"""Settings of a joint: the parameters of the detector declared as ``compiled``, and others."""

# A threshold of the force or of the statistic is infinite if it does not apply.
ARM_SETTINGS = np.dtype(_compiled(per_joint=False), align=True)
"""Settings of the whole arm: the other parameters of the detector declared as ``compiled``."""

_JOINT_MEMORY = np.dtype(
    [
        ("mean", "f8"),  # average residual without contact, time constant TARE_TIME
        ("recent", "f8"),  # average residual without contact, time constant RECENT_TIME
        ("speed", "f8"),  # speed, or its decayed earlier maximum if larger [rad/s or m/s]
        ("acceleration", "f8"),  # filtered acceleration [rad/s² or m/s²]
        ("torque", "f8"),  # filtered effort times its gain [N·m or N]
        ("momentum_rate", "f8"),  # filtered rate of the momentum [N·m or N]
        ("late_rate", "f8"),  # this rate, delayed by delay_error [N·m or N]
        ("late", "f8"),  # motor's torque less gravity, delayed by delay_error [N·m or N]
        ("lead", "f8"),  # filtered difference between this torque and the present one [N·m or N]
        ("error", "f8"),  # torque that errors of the model may explain, held [N·m or N]
        ("reversal", "f8"),  # trace of the last reversal, see thresholds.py
        ("unknown", "f8"),  # allowance for torque between samples [N·m or N]
        ("threshold", "f8"),  # threshold of the last verdict [N·m or N]; infinite before the first
        ("zero_since", "f8"),  # stamp of the first effort of exactly zero; NaN if it is not zero
        ("measured", "?"),  # some effort was not exactly zero since the detector's start or reset
        ("still_at", "f8"),  # position at ``still_since`` [rad or m]
        ("peak", "f8"),  # residual at the peak of the last contact [N·m or N]
        *JOINT_FIELDS,  # of the friction that is followed
        ("base", "f8"),  # residual of the arm at rest, from which changes are judged [N·m or N]
    ],
    align=True,
)
_ARM_MEMORY = np.dtype(
    [
        ("stamp", "f8"),  # stamp of the last accepted sample; NaN before the first
        ("mean_interval", "f8"),  # mean time between samples [s]; zero before the second
        ("period", "f8"),  # the same mean without lost samples [s]
        ("intervals", "i8"),  # number of intervals in this mean
        ("resumed", "f8"),  # stamp of the sample after the last lost samples; -inf without any
        ("fading", "f8"),  # time after which the error of that interval has decayed [s]
        ("started", "f8"),  # stamp at which the observer started; NaN before its start, -inf if it
        # had settled when the parameters changed
        ("same_since", "f8"),  # stamp of the first of the identical samples
        ("effort_for", "f8"),  # time for which efforts have been identical, without gaps [s]
        ("frozen", "?"),  # samples have been identical for too long
        ("saturated", "f8"),  # stamp of the last saturated sample
        ("measured", "?"),  # the effort of some joint was not exactly zero since the start or reset
        ("still_since", "f8"),  # stamp from which motion with velocities of exactly zero is added
        # up; NaN if a velocity is not zero
        ("moves", "i8"),  # number of samples since then with a new position
        ("unmeasured", "?"),  # joints have moved with velocities of exactly zero, and none since
        ("dropped", "i8"),  # number of dropped samples in a row
        ("jumps", "i8"),  # number of dropped samples in a row that jumped
        ("interrupted", "?"),  # a contact ended with the verdict, because of dropped samples
        ("doubtful_until", "f8"),  # stamp until which that contact may return
        ("reason", "i8"),  # present reason for no verdict; drops and repetitions may not change it
        ("averaged", "f8"),  # time over which the mean residual was taken [s]
        ("remembered", "i8"),  # number of samples in the history since the observer settled
        ("rested", "f8"),  # time for which no joint has moved and there was no contact [s]
        ("rests", "?"),  # whether changes of the residual are judged
        ("held", "f8"),  # time for which only the change has kept the present contact [s]
        ("level", "i8"),  # level of the present contact
        ("lasted", "f8"),  # time for which a residual has been above its threshold, or in a contact
        # all residuals have been below their release level, as the debounce counts it [s]
        ("height", "i8"),  # highest level of the last contact
        ("peak", "f8"),  # highest ratio of residual to threshold in the last contact
        ("peak_joint", "i8"),  # row of the joint with this ratio
        ("peak_torque", "f8"),  # residual of this joint at the peak [N·m or N]
        ("peaked", "f8"),  # stamp of the sample with this ratio
        ("looked", "f8"),  # stamp at which the contact was last isolated
        # stamp at which the last contact ended, or of the last verdict before verdicts were lost
        ("ended", "f8"),
        *ARM_FIELDS,  # of the friction that is followed
    ],
    align=True,
)
VERDICT = np.dtype(
    [("reason", "i1"), ("level", "i1"), ("dropped", "i1"), ("joint", "i2")], align=True
)
"""Verdict on a sample: index into ``REASONS`` and ``LEVELS``; reason for dropping the sample, or 0;
row of the joint concerned, or ``NO_JOINT``."""


class Settings(NamedTuple):
    """Settings of the compiled decision, made from the parameters of the detector."""

    kind: int
    """Kind of filter: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``."""
    design: np.ndarray
    """(nv,) of :data:`~rbd_control.estimation.observers.DESIGN`, constants of the filter."""
    joint: np.ndarray
    """(nv,) of ``JOINT_SETTINGS``: thresholds, bounds and filter constants of each joint."""
    arm: np.ndarray
    """(1,) of ``ARM_SETTINGS``: times and thresholds of the whole arm, named as parameters."""
    whitening: np.ndarray
    """(nv, nv) lower triangular L: the statistic |L r| is the length of the residual r in standard
    deviations. Zero if the covariance of the residual is unknown."""


class Memory(NamedTuple):
    """Memory of the compiled decision from sample to sample, changed in place."""

    observer: np.ndarray
    """(nv,) state of the observer, of :data:`~rbd_control.estimation.observers.STATE`."""
    joint: np.ndarray
    """(nv,) of ``_JOINT_MEMORY``: averages, motion and threshold of each joint."""
    arm: np.ndarray
    """(1,) of ``_ARM_MEMORY``: times of samples, validity, and the present or last contact."""
    q: np.ndarray
    """(nq,) positions of the last accepted sample [rad or m]."""
    v: np.ndarray
    """(nv,) velocities of the last accepted sample [rad/s or m/s]."""
    effort: np.ndarray
    """(nv,) efforts of the last accepted sample, as published."""
    history: np.ndarray
    """(HISTORY, 1 + nv) ring buffer of the last stamps [s] and residuals [N·m or N]."""
    drift: np.ndarray
    """(nv, 4) of ``ESTIMATE``: estimates of the change of friction, see :mod:`.drift`."""

    @property
    def residual(self) -> np.ndarray:
        """(nv,) copy of the external torque estimate after the last sample [N·m or N]."""
        return self.observer["residual"].copy()


class Samples(NamedTuple):
    """The k samples to be decided on, with the terms of their momentum balance."""

    stamp: np.ndarray
    """(k,) times [s], increasing."""
    q: np.ndarray
    """(k, nq) positions [rad or m]."""
    v: np.ndarray
    """(k, nv) velocities [rad/s or m/s]."""
    effort: np.ndarray
    """(k, nv) efforts as published."""
    p: np.ndarray
    """(k, nv) momentum [N·m·s or N·s]."""
    rate: np.ndarray
    """(k, nv) rate of the momentum without external torque [N·m or N]."""
    torque: np.ndarray
    """(k, nv) the effort as a torque [N·m or N]."""
    load: np.ndarray
    """(k, nv) gravity torque in the effort [N·m or N]."""
    drive: np.ndarray
    """(k, nv) torque of the motors less gravity, a part of ``rate`` [N·m or N]."""
    quality: np.ndarray
    """(k,) int8: quality, see :class:`~rbd_control.estimation.observers.Balance`."""
    jacobian: np.ndarray
    """(k, 3, nv) Jacobian of the velocity of the origin of ``force_link``, world axes; (0, 3, nv)
    without force thresholds."""


def new_settings(kind: int, design: np.ndarray) -> Settings:
    """Return settings of zero for an observer, to be filled in.

    Args:
        kind: kind of filter: ``FIRST_ORDER``, ``SECOND_ORDER`` or ``KALMAN``.
        design: constants of the filter, (nv,) of ``DESIGN``; not copied.
    """
    n = design.size
    joint, arm = np.zeros(n, JOINT_SETTINGS), np.zeros(1, ARM_SETTINGS)
    return Settings(kind, design, joint, arm, np.zeros((n, n)))


def new_memory(nq: int, nv: int) -> Memory:
    """Return the memory of a detector before its first sample, for sizes nq of q and nv of v."""
    memory = Memory(
        np.zeros(nv, STATE),
        np.zeros(nv, _JOINT_MEMORY),
        np.zeros(1, _ARM_MEMORY),
        np.zeros(nq),
        np.zeros(nv),
        np.zeros(nv),
        np.zeros((HISTORY, 1 + nv)),
        np.zeros((nv, 4), ESTIMATE),
    )
    memory.joint["zero_since"] = math.nan
    memory.joint["reversal"] = 1.0
    memory.joint["threshold"] = math.inf
    arm = memory.arm[0]
    arm["stamp"] = arm["started"] = arm["updated"] = arm["still_since"] = math.nan
    arm["saturated"] = arm["resumed"] = arm["doubtful_until"] = -math.inf
    arm["reason"] = SETTLING
    return memory


def keep_settled(memory: Memory, settling_time: float) -> None:
    """Keep the verdict valid if ``settling_time`` increases after it has passed.

    It applies to the time after the start of the observer, and after a saturated effort.

    Args:
        memory: memory of the detector, changed in place.
        settling_time: the former ``settling_time``, with which the last sample was judged [s].
    """
    arm = memory.arm[0]
    if arm["stamp"] - arm["started"] >= settling_time:
        arm["started"] = -math.inf
    if arm["stamp"] - arm["saturated"] > settling_time:
        arm["saturated"] = -math.inf


def count_since(memory: Memory, stamp: float) -> int:
    """Return the number of stored residuals that are not older than ``stamp`` [s]."""
    count = int(memory.arm["remembered"][0])
    low, high = max(count - HISTORY, 0), count
    while low < high:  # bisection, because a copy of all stamps would take longer
        middle = (low + high) // 2
        if memory.history[middle % HISTORY, 0] < stamp:
            low = middle + 1
        else:
            high = middle
    return count - low


def recent_period(memory: Memory) -> float:
    """Return the median time between the last :data:`MOST` stored residuals [s]; 0 without two."""
    count = int(memory.arm["remembered"][0])
    rows = np.arange(max(count - min(MOST, HISTORY), 0), count) % HISTORY
    return float(np.median(np.diff(memory.history[rows, 0]))) if rows.size > 1 else 0.0


def recent_residuals(memory: Memory, window: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the samples up to a detection in which the onset of the contact is searched.

    They are the samples of the last ``window`` seconds, but at least :data:`LEAST` if so many are
    stored. Of more than :data:`MOST` samples every ``stride``-th is taken, with the last one.

    Args:
        memory: memory of the detector, with at least one stored residual.
        window: time before the last residual [s].

    Returns:
        Stamps (m,) [s] and residuals (m, nv) [N·m or N], the oldest first; and ``stride``.
    """
    count = int(memory.arm["remembered"][0])
    last = float(memory.history[(count - 1) % HISTORY, 0])
    taken = min(max(count_since(memory, last - window), LEAST), count)
    stride = -(-taken // MOST)
    rows = np.arange(count - 1, count - 1 - taken, -stride)[::-1] % HISTORY
    return memory.history[rows, 0], memory.history[rows, 1:], stride


def earlier_residual(memory: Memory, number: int) -> np.ndarray | None:
    """Return the residual that was stored ``number`` samples before the last one, (nv,).

    The result is None if it is not stored.
    """
    count = int(memory.arm["remembered"][0])
    if not 0 <= number < min(count, HISTORY):
        return None
    return memory.history[(count - 1 - number) % HISTORY, 1:].copy()


LOADED = 0.5
"""Load above which an effort of exactly zero counts as not measured, as a fraction of the contact
threshold: the effort of any drive shows such a load."""

_FORCES = ("contact_force_threshold", "collision_force_threshold")


def decision_settings(
    parameters: DetectorParameters, model: Model, observer: Observer, bias: np.ndarray
) -> Settings:
    """Return the settings of the compiled decision between contact and no contact, as arrays.

    Args:
        parameters: of the detector, with joint thresholds above zero.
        model: the robot.
        observer: the observer that ``parameters.make_observer(model)`` returns.
        bias: constant external torque that tares have removed, (nv,) [N·m or N].

    Raises:
        ParameterError: for a per-joint parameter or a ``residual_covariance`` of the wrong length.
    """
    n = model.nv
    settings = new_settings(observer.kind, observer.design)
    joint, arm = settings.joint, settings.arm
    for item in fields(parameters):
        if item.metadata["compiled"] and item.metadata["per_joint"]:
            joint[item.name] = parameters.for_joints(item.name, n)
    joint["bias"] = bias
    # A limit of zero in a description counts as unknown.
    joint["saturated"] = parameters.saturation_ratio * limits_or(model.effort_limit, math.inf)
    joint["highest_speed"], joint["highest_effort"], joint["turn"] = parameters.bounds(model)
    joint["loaded"] = LOADED * joint["contact_threshold"]
    joint["small"] = joint["contact_threshold"] / np.abs(parameters.for_joints("effort_gain", n))
    joint["loaded"][: n - len(model.joint_names)] = math.inf  # a floating base has no motors
    for field in arm.dtype.names or ():
        arm[field] = getattr(parameters, field)
    for field in _FORCES:
        arm[field] = getattr(parameters, field) or math.inf
    covariance = parameters.covariance(n)
    if covariance is None:
        arm["statistic_threshold"] = math.inf
    else:
        settings.whitening[:] = np.linalg.inv(np.linalg.cholesky(covariance))
    drift_settings(joint, settings.whitening, parameters.friction(n), parameters.follow_friction)
    return settings
