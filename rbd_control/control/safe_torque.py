"""The torque after a fault, and the judges of what it does.

**Detection of a brake that overshoots because it comes late.**

Under the brake of mode safe the velocity of a joint decays without a reversal. In a loop whose
delay is too long for the rate of the brake, the joint overshoots: it reverses, and moves back with
a large part of the kinetic energy that the arm had before. The brake must then be weaker. A light
joint that swings on its spring, or that a heavy one pulls along in a fast motion, reverses as well,
but has a small part of the energy.

**The torque after a fault.**

A fault with trustworthy joint states stops the arm as an order does. The motors compensate gravity
and brake all joints with the damping of the control law, which the loop is known to bear::

    tau = g + brake        brake = -rate M(q) v_f        rate = damping_rate, or less

Here v_f is the measured velocity after the filter of :mod:`~rbd_control.control.slotine_li`. With
the whole mass matrix every velocity decays with the same rate, ``v_dot = -rate v``, in any posture,
and no joint accelerates another; damping each joint by itself would decay with thirty times that
rate in the direction in which parallel axes turn against each other.

Guarantee. In every sample the power of the brake, ``sum of brake_i v_i`` with the measured
velocities, is at most zero. Four rules preserve this, and keep the brake from driving the arm:

- Torque limits apply first to the gravity torque, then to the brake, which gets the remaining
  torque: where it is too little, the rate of the brake is lower for all joints, as a brake that is
  cut on one joint only may drive the arm. The rate limit applies to an increasing brake only. Of
  the last torque, the part beyond the gravity torque is kept as far as it belongs to the brake, and
  withdrawn at once otherwise. Each brake torque is then between zero and its wanted value. If the
  sum of their powers is positive, torques with positive power are set to zero.
- ``rate`` is at most ``LARGEST_STEP / (HELD period + loop_delay)`` (0.5 and 1.5). Let the loop,
  with the filter, be late by T, and the arm move with constant speed until the brake acts. Then
  ``v_dot(t) = -rate v(t - T)`` decays without a reversal for ``rate T <= 1 / e``; otherwise it
  swings with decreasing amplitude for ``rate T < pi / 2``, and the speed in the opposite direction
  is at most ``max(1, rate T - 1/2)`` times the speed at the fault. So the kinetic energy never
  exceeds its value at the fault for ``rate T <= 3/2``: with the defaults, for T up to 125 ms. This
  holds for constant M. In a fast motion M and the filter's lag change the direction of the brake:
  on an arm without friction that is 15 ms late, the energy rose to 1.33 times its value.
- A brake that overshoots comes late: when a joint has reversed, has a part of the kinetic energy at
  the fault, and is not slow or needs half of its torque limit, the rate is halved for all joints
  until the next start, and reduced to :data:`LEAST_BRAKE` if the arm gains energy all the same
  (:class:`Overshoot`). Below this, and while a joint is without brake, only hard and fast
  overshoots halve it.
- A drive that acts against its command (:mod:`~rbd_control.control.drive_response`) makes a brake
  drive the arm. The torque of its joint is then zero until the next start. A joint whose drive is
  reversed or may be dead is braked apart from all others: the brake of a joint would otherwise
  depend on a velocity that no motor brakes, and drive the arm. The inertia that its torque meets
  bounds its brake, so that no velocity decays faster than with ``rate``
  (:func:`~rbd_control.control.kernels.apart_momentum`).
- An arm that gains energy although it is braked, or whose joint without torque is driven by that
  of another, which may be dead, gets zero torque on all joints: for 45 ms and, if it then gains no
  more, until the next start (:class:`Runaway`).

Without trustworthy joint states (silence, no velocity, invalid numbers, frozen data, velocities
that contradict the positions) the command is exactly zero. The velocity is then unknown, so any
other torque may accelerate a moving arm towards a person. Zero is also the last command when this
process ends. At zero torque, the brakes or the gravity compensation of the arm must hold it; an arm
with neither sinks.

For an arm that compensates its own gravity the command is the brake alone, and the difference of
both gravity torques if the arm assumes another gravity (``compensated_gravity``); its motors'
gravity torque is computed from the described arm, without masses that were learned. With
``safe_torque: zero``, for arms that hold themselves otherwise, it is the brake alone as well, and
exactly zero once every joint is slower than :data:`STILL`. While the model is known to be wrong,
because a joint that carries the arm is not where the model holds it, its gravity torque would drive
the arm, and the command is the brake alone, too; an arm without brakes sinks, damped.

A joint whose gravity torque exceeds its torque limit sinks: its motor is at the limit and cannot
brake the sinking. It is braked apart from all others meanwhile, which would have no brake otherwise
(:data:`~rbd_control.control.kernels.LEAST_ROOM`). A motion of the joint against gravity is still
damped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.gains import HELD
from rbd_control.control.kernels import LARGEST_STEP, safe_step
from rbd_control.control.limits import ArmLimits
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

OVERSHOOT = 0.1
"""Kinetic energy ``M_ii v_i² / 2`` of a joint after a reversal that is an overshoot, as a share of
the largest kinetic energy of the arm under the brake before. If no other joint moves, it is a third
of the speed."""

MEMORY = 0.1
"""Time constant with which the largest kinetic energy is forgotten [s]."""

SHAKEN = 0.085
"""Time between two reversals above which a person may be shaking the arm, at up to 5.9 Hz [s]."""

SLOWEST = 0.1
"""Speed that always counts as an overshoot [rad/s or m/s]; noise and resonances are slower."""

HARD_BRAKE = 0.5
"""Share of the torque limit of a joint that the brake uses at the slowest overshoot, if that speed
is below :data:`SLOWEST`. A heavy joint swings slowly, but with all its torque."""


class Overshoot:
    """Detects overshoots of any joint of one arm, by the rule of this module.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory, self._most = np.zeros((3, joints)), np.zeros(1)

    def reset(self) -> None:
        """Forget all motion, before the brake begins."""
        self._memory[:] = 0.0
        self._most[:] = 0.0

    def found(self, dt: float, M: Array, v: Array, full: Array, is_weakest: bool = False) -> bool:
        """Take a sample; return whether a joint overshoots. Each reversal of a joint counts once.

        Args:
            dt: time since the previous sample [s].
            M: mass matrix, (nv, nv) [kg·m² or kg].
            v: (nv,) filtered velocities of the brake [rad/s or m/s].
            full: (nv,) momentum of each joint at which the brake needs its torque limit, that is
                the torque limit divided by the rate of the brake [N·m·s or N·s].
            is_weakest: whether only an overshoot counts that needs :data:`HARD_BRAKE`, and follows
                another reversal within :data:`SHAKEN`.
        """
        self._most *= np.exp(-dt / MEMORY)
        return bool(overshoots(dt, M, v, full, is_weakest, self._memory, self._most))


@compiled
def overshoots(dt, M, v, full, is_weakest, memory, most):  # type: ignore[no-untyped-def]
    """Return whether a joint overshoots, see :class:`Overshoot`.

    Args:
        dt: time since the previous sample [s].
        M: mass matrix, (n, n) [kg·m² or kg].
        v: velocities, (n,) [rad/s or m/s].
        full: (n,) momentum of each joint at which the brake needs its torque limit [N·m·s or N·s].
        is_weakest: see :meth:`Overshoot.found`.
        memory: (3, n), changed in place: the last velocity that was not slow; 1 if the joint has
            reversed and this was not reported; time since the last reversal [s].
        most: (1,), changed in place: largest kinetic energy of the arm [J].
    """
    n, found, energy = v.shape[0], False, 0.0
    for i in range(n):
        for j in range(n):
            energy += 0.5 * v[i] * M[i, j] * v[j]
    most[0] = max(most[0], energy)
    for i in range(n):
        least = HARD_BRAKE * full[i] / M[i, i]
        if not is_weakest:
            least = min(SLOWEST, least)
        memory[2, i] += dt
        if abs(v[i]) > 0.5 * least:
            if v[i] * memory[0, i] < 0.0:
                memory[1, i] = 0.0 if is_weakest and memory[2, i] > SHAKEN else 1.0
                memory[2, i] = 0.0
            memory[0, i] = v[i]
        returned = 0.5 * M[i, i] * v[i] * v[i]
        if memory[1, i] == 1.0 and abs(v[i]) > least and returned > OVERSHOOT * most[0]:
            memory[1, i] = 0.0
            found = True
    return found


GAIN = 0.1
"""Share of the kinetic energy at a fault by which noise and errors of masses may change it."""

LATEST = 0.015
"""Time after which a torque that was sent before does not act any more [s]."""

PROBE = 0.03
"""Time for which an arm without torque is watched [s]."""

RUNAWAY_SPEED = 1.2
"""Speed of a joint that no brake permits, as a multiple of the larger of its speed at the fault and
its velocity limit. A hand may move a slow arm in mode safe."""

WRONG_DRIVE_SPEED = 0.4
"""Share of this speed that suffices while a drive is known to act against its command."""


class Runaway:
    """Finds out whether the motors drive an arm in mode safe that they should brake.

    The gravity torque of the motors balances the weight, and the brake takes energy out, so that
    the kinetic energy T can only fall. A drive that does not obey may let its joint fall. Hence the
    motors or an external force drive the arm if a joint exceeds :data:`RUNAWAY_SPEED` and::

        T > (1 + GAIN) T_fault + integral of the sum of max(-g_i v_i, 0)

    with the torque g of the weight, which is zero for an arm that compensates it. Energy that the
    arm gains while no brake acts, because joint states are missing, is permitted as well. Then all
    torque is zero for ``LATEST + PROBE``. If T rises on, by more than GAIN / 2 beyond the work of
    the weight, an external force drives the arm, and the brake returns; otherwise the motors did.

    Source: Hannaford & Ryu, Time-domain passivity control of haptic interfaces, IEEE Transactions
    on Robotics and Automation 18(1), 2002: the energy is observed, instead of a model of what
    produces it trusted.

    Attributes:
        is_probing: whether the torque must be zero now.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a fault and after a drive has lost its torque.

        The torque before still acts for :data:`LATEST`, so that the bounds begin after this time.
        """
        self.is_probing = False
        self._time, self._most, self._fastest = 0.0, 0.0, np.zeros(0)
        self._energy = 0.0  # at the last sample

    def probe(self) -> None:
        """Let all torque be zero, to find out whether the motors drive the arm."""
        self.is_probing, self._time = True, 0.0

    def found(
        self,
        dt: float,
        v: Array,
        M: Array,
        g: Array,
        limit: Array,
        is_braking: bool = True,
        is_wrong: bool = False,
    ) -> bool:
        """Take a sample; return whether the motors drive the arm.

        Args:
            dt: time since the previous sample [s].
            v: (nv,) measured velocities [rad/s or m/s].
            M: mass matrix, (nv, nv) [kg·m² or kg].
            g: (nv,) gravity torque that commands balance [N·m or N].
            limit: (nv,) velocity limits [rad/s or m/s].
            is_braking: whether the brake acted since the previous sample.
            is_wrong: whether a drive is known to act against its command.
        """
        energy = 0.5 * float(v @ M @ v)
        gained, self._energy = energy - self._energy, energy
        self._time += dt
        if self.is_probing:
            self._most -= dt * float(g @ v)
            if self._time <= LATEST:
                self._most = (1.0 + 0.5 * GAIN) * energy
            if self._time <= LATEST + PROBE:
                return False
            is_pushed = energy > self._most
            self.reset()
            return not is_pushed
        if not is_braking:
            self._most += max(gained, 0.0)
        self._most += dt * float(np.maximum(-g * v, 0.0).sum())
        if self._time <= LATEST or not self._fastest.size:
            self._fastest = RUNAWAY_SPEED * np.maximum(np.abs(v), limit)
            self._most = (1.0 + GAIN) * energy
        fastest = (WRONG_DRIVE_SPEED if is_wrong else 1.0) * self._fastest
        if energy > self._most and bool((np.abs(v) > fastest).any()):
            self.probe()
        return False


LEAST_BRAKE = 1.0 / 16.0
"""Share of the rate of the brake from which it is weakened by hard and fast overshoots only.

A loop with the delay T is stable up to the rate pi / (2 T): a sixteenth of 80 1/s with a delay of
0.3 s. If a joint still reverses, a person may be shaking the arm, which must not remove the brake.
No person shakes an arm so fast that it reverses within :data:`SHAKEN` against :data:`HARD_BRAKE`
of its torque: the masses of the model are then many times too large, for example those of a payload
that the arm does not carry.
"""

STILL = 0.02
"""Speed of every joint below which an arm counts as standing [rad/s or m/s]."""

RATE = 15.0
"""Rate of the brake for a law without ``damping_rate`` [1/s]."""


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
        model: the described arm, whose mass matrix determines the brake.
        limits: limits of the arm; ``torque`` is used.
        parameters: ``safe_torque``, ``damping_rate``, ``loop_delay``, ``torque_rate``,
            ``gravity_compensated`` and ``compensated_gravity``.

    Attributes:
        weightless: the described arm without gravity, as :attr:`Model.packed`. With it as the model
            of the gravity torque, :meth:`torque` returns the brake alone.

    Raises:
        ParameterError: for a ``torque_rate`` of the wrong length.
    """

    def __init__(self, model: Model, limits: ArmLimits, parameters: ControllerParameters) -> None:
        self._described = model.packed
        arrays = model.arrays._replace(gravity=np.zeros(3))
        self.weightless = replace(model, arrays=arrays).packed
        self._largest = limits.torque
        self._slew = parameters.for_joints("torque_rate", len(limits.torque))
        self._rate = parameters.damping_rate or RATE
        self._delay = parameters.loop_delay
        self._compensated = parameters.gravity_compensated
        self._uncompensated = parameters.uncompensated(model)
        self._holds_itself = parameters.safe_torque == "zero"

    def rate(self, period: float) -> float:
        """Return the rate of the whole brake [1/s].

        Args:
            period: longest time for which the torque is held [s].
        """
        return min(self._rate, LARGEST_STEP / (HELD * period + self._delay))

    def torque(
        self,
        packed: Array,
        q: Array,
        v: Array,
        v_f: Array,
        apart: NDArray[np.bool_],
        acting: Array,
        times: tuple[float, float],
        share: float = 1.0,
    ) -> SafeStep:
        """Return the command and the motor torque ``g + brake``; see the module.

        The motor torque keeps the torque limits, and the power of the brake is at most zero.

        Args:
            packed: the model whose gravity torque is commanded, as :attr:`Model.packed`. It is
                ignored for an arm that compensates its own gravity.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            v_f: (nv,) filtered velocities [rad/s or m/s].
            apart: (nv,) joints that are braked apart from all others, as their drives may not obey.
            acting: (nv,) last torque of the motors [N·m or N].
            times: time since the last torque, and longest time for which the torque is held [s].
            share: share of the rate that is used, 0 to 1.

        Returns:
            The torques. The command of an arm that holds its own weight is the brake, and the
            gravity torque that the arm leaves over unless ``packed`` is :attr:`weightless`.
        """
        dt, period = times
        is_weightless = packed is self.weightless
        if self._compensated:
            packed = self._described
        elif self._holds_itself:
            packed = self.weightless
        weight, brake = safe_step(
            packed,
            self._described,
            q,
            v,
            v_f,
            apart,
            acting,
            self._largest,
            share * self.rate(period),
            self._slew * dt,
        )
        if self._holds_itself and np.abs(v).max() < STILL:
            brake = np.zeros_like(v)
        motors = weight + brake
        if not self._compensated:
            return SafeStep(motors, motors, brake)
        if self._uncompensated is None or is_weightless:
            return SafeStep(brake, motors, brake)
        return SafeStep(brake + gravity_torque(self._uncompensated, q), motors, brake)
