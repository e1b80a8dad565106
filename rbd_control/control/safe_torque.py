"""The torque after a fault.

Without valid joint states (silence, no velocity, invalid numbers, frozen data) the command is
exactly zero. The velocity v is then unknown, so any other torque may accelerate a moving arm
towards a person. Zero is also the last command when this process ends. At zero torque, the brakes
or the gravity compensation of the arm must hold it; an arm with neither sinks. With
``safe_torque: zero`` the command is always exactly zero, for arms that hold themselves. The command
of an arm that compensates its own gravity is zero as well, not ``-g``, which would cancel the
compensation.

With ``safe_torque: damping`` and valid joint states the motors compensate gravity and damp each
joint separately::

    tau = g + brake        brake_i between 0 and -D_i v_i        D_i = safe_damping M_ii(q), or less

Therefore ``v_i (tau_i - g_i) <= 0`` for every joint in every sample, if its motor can hold the
weight: the safe torque removes energy from each joint and adds none. Damping by the full mass
matrix would not have this property, because one joint could accelerate another. Four rules preserve
it:

- One factor scales D down for all joints until ``period * |D^½ M^-1 D^½| <= 0.5``. This norm bounds
  the largest eigenvalue of M^-1 D, so no velocity changes its sign within a period, at any rate of
  the joint states. The period is the running maximum of the sample periods. M is the mass matrix of
  the described arm, because an overestimated learned inertia would make the brake unstable.
- Torque limits apply joint by joint: first to the gravity torque, then to the brake, which gets the
  remaining torque.
- The rate limit applies to an increasing brake only. The gravity torque is applied at once. The
  part of the last torque beyond the gravity torque is withdrawn at once if it drives the joint
  along its motion, or as far as it brakes the joint harder than D_i.
- For an arm that compensates its own gravity, the command is the brake only. The gravity torque of
  its motors is then computed from the described arm, without masses that were learned. If the arm
  assumes another gravity (``compensated_gravity``), the command is the brake and the difference of
  both gravity torques.

While the model is known to be wrong, because a joint that carries the arm is not where the model
holds it, the gravity torque of the model would drive the arm. The command is then the brake alone,
which removes energy whatever the direction of gravity is; an arm without brakes sinks, damped.

In a loop with delay the brake belongs to an earlier velocity, and too high a D drives the arm to
and fro. When the safe torque swings (:mod:`~rbd_control.control.chatter`), D is halved until the
next start, and again if it still swings.

A joint whose gravity torque exceeds its torque limit sinks: its motor is at the limit and cannot
brake the sinking. A motion of the joint against gravity is still damped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.torque_step import safe_step
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class SafeStep(NamedTuple):
    """The torque of mode safe for one sample, (nv,) each [N·m or N]."""

    command: Array
    motors: Array
    """Torque of the motors. It differs from the command if the arm compensates its own gravity."""
    brake: Array
    """Part of the motor torque beyond the gravity torque."""


class SafeTorque:
    """Computes the torque of one arm in mode safe, after a fault; see the module.

    Args:
        model: the described arm, whose mass matrix determines the damping.
        limits: limits of the arm; ``torque`` is used.
        parameters: ``safe_torque``, ``safe_damping``, ``torque_rate``, ``gravity_compensated`` and
            ``compensated_gravity``.

    Attributes:
        is_zero: whether ``safe_torque`` is zero: the command must then be zero, which
            :meth:`torque` does not consider.
        weightless: the described arm without gravity, as :attr:`Model.packed`. With it as the model
            of the gravity torque, :meth:`torque` returns the brake alone as the command.

    Raises:
        ParameterError: for a ``torque_rate`` of the wrong length.
    """

    def __init__(self, model: Model, limits: ArmLimits, parameters: ControllerParameters) -> None:
        self._described = model.packed
        arrays = model.arrays._replace(gravity=np.zeros(3))
        self.weightless = replace(model, arrays=arrays).packed
        self._largest = limits.torque
        self._rate = parameters.for_joints("torque_rate", len(limits.torque))
        self._damping = parameters.safe_damping
        self._compensated = parameters.gravity_compensated
        self._uncompensated = parameters.uncompensated(model)
        self.is_zero = parameters.safe_torque == "zero"

    def torque(
        self,
        packed: Array,
        q: Array,
        v: Array,
        acting: Array,
        dt: float,
        period: float,
        share: float = 1.0,
    ) -> SafeStep:
        """Return the command and the motor torque ``g + brake`` of ``safe_torque: damping``.

        The motor torque keeps the torque limits. The brake of joint i is between 0 and
        ``-D_i v_i``; the module has D and the other rules.

        Args:
            packed: the model whose gravity torque is commanded, as :attr:`Model.packed`. For an arm
                that compensates its own gravity, all models but :attr:`weightless` are ignored, see
                the module.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            acting: (nv,) last torque of the motors [N·m or N].
            dt: time since the last torque [s].
            period: longest time for which the torque is held [s].
            share: share of ``safe_damping`` that is used, 0 to 1.

        Returns:
            The torques. The command of an arm that compensates its own gravity is the brake, and
            the gravity torque that the arm leaves over.
        """
        weight, brake = safe_step(
            self._described if self._compensated else packed,
            self._described,
            q,
            v,
            acting,
            self._largest,
            share * self._damping,
            self._rate * dt,
            period,
        )
        motors = weight + brake
        if not self._compensated:
            return SafeStep(motors, motors, brake)
        if self._uncompensated is None or packed is self.weightless:
            return SafeStep(brake, motors, brake)
        return SafeStep(brake + gravity_torque(self._uncompensated, q), motors, brake)
