"""Plausibility of joint states: bounds of speed, position, jumps and effort for all nodes.

Failures of encoders, drives and drivers produce physically impossible data: a flipped bit, an
overflow, another unit, a repeated state. This module contains the parameters and the bounds of each
joint for detector and controller. :mod:`rbd_control.control.samples` has the checks of the
controller, :mod:`rbd_control.estimation.validity` those of the detector, including the effort.
:mod:`rbd_control.joint_states.acceptance` drops messages with values above 1e9 before all checks.

With speed bound ``s``, the motion of a joint between two samples is plausible if::

    |q - q_last| <= implausible_jump + s dt

The controller adds ``max(|v|, |v_last|) T`` for the time T for which the joint states had repeated
before, because a driver may publish faster than its hardware updates. It accepts any speed that
the previous sample confirms: an arm that is really too fast must be braked. The velocity in the
previous sample, and the motion since then, then have its direction and at least half of it. A
sensor error lasts for one sample, also if the driver computes velocities from positions.

Positions are compared modulo whole turns, by the detector for all revolute joints, by the
controller for continuous joints only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.model_arrays import REVOLUTE
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]

TURN = 2.0 * math.pi
"""One turn of a revolute joint [rad]."""

FARTHEST = 1e6
"""Positions beyond this are implausible for every joint, also for wheels [rad or m]."""

LINEAR_SHARE = 0.2
"""Share of ``default_velocity_limit`` that is assumed for a prismatic joint, in m/s per rad/s."""


@dataclass(frozen=True)
class PlausibilityParameters(Parameters):
    """Parameters of the bounds of plausible positions and velocities, and of frozen samples."""

    HEADING = "Plausible joint states"

    implausible_speed: float = parameter(
        3.0,
        "multiple of a joint's velocity limit above which its speed, or its motion between two "
        "samples, counts as a sensor error",
        lower=1.0,
        upper=1000.0,
        expert=True,
    )
    implausible_jump: float = parameter(
        0.1,
        "change of a position between two samples that is accepted at any speed",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        expert=True,
        compiled=True,
    )
    default_velocity_limit: float = parameter(
        30.0,
        "velocity limit assumed by implausible_speed for a revolute joint without limit; a "
        "fifth of it, in m/s, for a prismatic joint",
        unit="rad/s",
        above=0.0,
        upper=1e4,
        expert=True,
    )
    repeated_time: float = parameter(
        0.25,
        "time of identical positions, velocities and efforts, with a velocity that is not zero, "
        "after which the samples count as frozen; efforts are not compared while a joint is "
        "faster than 0.02 rad/s or m/s",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
        compiled=True,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "time of identical samples with all velocities exactly zero, as of a simulated arm at "
        "rest, after which the samples count as frozen; for the detector also the time of "
        "identical efforts of all joints while positions or velocities change",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
        compiled=True,
    )

    def assumed_velocity(self, model: Model, limit: Array) -> Array:
        """Return velocity limits (nv,), all finite, with a default in place of missing ones.

        The default is ``default_velocity_limit``, for prismatic joints a fifth of it in m/s.

        Args:
            model: the robot.
            limit: (nv,) limits [rad/s or m/s]; zero or infinite for a missing limit.
        """
        default = np.where(model.prismatic, LINEAR_SHARE, 1.0) * self.default_velocity_limit
        return limits_or(limit, default)


@dataclass(frozen=True)
class EffortPlausibilityParameters(PlausibilityParameters):
    """Parameters of the bounds of plausible joint states, including efforts."""

    HEADING = "Plausible joint states"

    implausible_effort: float = parameter(
        2.5,
        "multiple of a joint's effort limit above which its effort, converted to a torque, counts "
        "as an error; collisions of real arms reach about twice the limit",
        lower=1.0,
        upper=1000.0,
        expert=True,
    )
    default_effort_limit: float = parameter(
        5000.0,
        "effort limit assumed by implausible_effort for a joint without limit",
        unit="N·m or N",
        above=0.0,
        upper=1e6,
        expert=True,
    )

    def bounds(self, model: Model) -> Bounds:
        """Return the bounds of plausible joint states for a robot, (nv,) each.

        They are ``implausible_speed`` times the velocity limit and ``implausible_effort`` times the
        effort limit in the description. For a limit that is missing or zero, the default of the
        parameters takes its place.
        """
        n = model.nv
        first = n - len(model.joint_names)
        # Whole turns do not affect the dynamics, whether a joint has limits or not.
        turn = np.where(model.prismatic, 0.0, TURN)
        velocity = self.assumed_velocity(model, model.velocity_limit)
        effort = limits_or(model.effort_limit, self.default_effort_limit)
        velocity[:first] = effort[:first] = np.inf
        return Bounds(self.implausible_speed * velocity, self.implausible_effort * effort, turn)


class Bounds(NamedTuple):
    """Bounds of plausible joint states.

    ``speed`` and ``effort`` are infinite for the six coordinates of a floating base.
    """

    speed: Array
    """(nv,) highest plausible speed [rad/s or m/s]."""
    effort: Array
    """(nv,) highest plausible torque or force [N·m or N]."""
    turn: Array
    """(nv,) period of the position [rad]: one turn, or 0 for prismatic joints."""


def continuous_joints(model: Model) -> NDArray[np.int64]:
    """Return the indices in v of the continuous joints: revolute and without position limits."""
    revolute = model.arrays.joint_type[model.dof_row] == REVOLUTE
    endless = np.isinf(model.lower_limit) & np.isinf(model.upper_limit)
    return np.flatnonzero(revolute & endless)


def limits_or(limit: Array, default: float | Array) -> Array:
    """Return limits, (nv,), with ``default`` in place of each that is not positive and finite."""
    return np.where((limit > 0.0) & np.isfinite(limit), limit, default)


@inlined
def is_within(value, bound):
    """Return whether the magnitude of a value is at most ``bound``; False for NaN."""
    return abs(value) <= bound


@inlined
def whole_turns(way, turn):
    """Return the multiple of ``turn`` nearest to ``way`` [rad]; zero if ``turn`` is zero."""
    return turn * np.floor(way / turn + 0.5) if turn > 0.0 else 0.0


@inlined
def has_jumped(q, last_q, turn, speed, jump, dt):
    """Return whether the motion of a joint in ``dt`` [s] exceeds ``jump + speed dt`` [rad or m].

    A change of position by whole turns does not count as motion, because encoders may wrap.

    Args:
        q, last_q: present and last position [rad or m].
        turn: period of the position [rad]; 0 for a joint that cannot wrap.
        speed: highest plausible speed [rad/s or m/s].
        jump: change of position that is accepted at any speed [rad or m].
        dt: time between the two positions [s].
    """
    way = q - last_q
    return abs(way - whole_turns(way, turn)) > jump + speed * dt
