"""From the desired state to the command: law, limits, energy tank, rate.

**Limitation of torques to the torque limits of the motors.**

A torque above a limit is composed again from three parts:

1. The gravity torque, joint by joint.
2. The remainder (tracking and damping), scaled by one factor ``x`` for which all joints keep their
   limits. Limiting each joint separately would change the direction of the torque, and the mass
   matrix couples a limited joint to its neighbours: an arm that brakes with a saturated shoulder
   would spin its wrist.
3. The damping that the scaling removes, joint by joint, as far as it brakes the joint: each joint
   that is too fast, ``s_i v_i > 0``, is braked by ``(1 - x) D_i`` times the smaller of s_i and v_i,
   within its remaining torque. D is positive and diagonal, so these brakes dissipate with respect
   to s and v, and together with the second part ``sᵀ tau_damping <= -x sᵀ K_D s``. A joint without
   remaining torque makes x zero for all joints, but does not prevent the braking of other joints.

D is ``diag(damping) + damping_rate diag(M)``, reduced to be stable at one computation per period,
see :func:`~rbd_control.control.kernels.joint_damper`. M is the mass matrix of the described
arm: an overestimated inertia would make the brakes unstable.

More than ``POSITION_SLACK`` beyond its nominal soft limit, a joint is not driven outwards: outward
torque is at most its gravity torque, or the torque that brakes an inward motion.

**The way from the desired state to the command: law, torque limits, energy tank, rate limit.**

With an energy tank the torque limits are applied again to what the tank permits, and the tank takes
precedence over the rate limit.

In mode safe the safe torque replaces these four steps.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.gains import law_gains, resonances
from rbd_control.control.kernels import cut_step, needs_cut, slowed
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.safe_torque import LEAST_BRAKE
from rbd_control.control.samples import SampleJudge
from rbd_control.control.slotine_li import LawTorque, RollOff
from rbd_control.control.trajectory import POSITION_SLACK, DesiredState
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.dynamics.compiled import for_types_of

if TYPE_CHECKING:
    from rbd_control.control.configuration import Setup

Array = NDArray[np.float64]


class TorqueLimits:
    """Limits the motor torque of one arm, by the rules of this module.

    The limits apply to the motor torque. For an arm that adds its gravity torque (parameter
    ``gravity_compensated``) this is the sum of command and added torque. Such an arm may carry a
    weight beyond the limits by itself; the limits are then extended to this weight, because a
    command that subtracted it would push the arm down.

    Args:
        model: the arm.
        parameters: gains, and shares of the effort limits.
        soft: soft position limits; none by default.

    Attributes:
        fastest: (nv,) velocity limits, with an assumed limit for joints without one [rad/s or m/s].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, soft: SoftLimits | None = None
    ) -> None:
        n = model.nv
        self._model, self._described = model, model.packed
        self._compensated = parameters.gravity_compensated
        limits = ArmLimits.of(model, parameters)
        self._most: Array = limits.torque
        self.fastest: Array = limits.assumed_velocity
        self._least: Array = -self._most
        self._gains = law_gains(parameters, model)
        none = np.full(n, np.inf)
        # Trajectories may pass a soft limit by this much.
        self._lower = -none if soft is None else soft.lowest - POSITION_SLACK
        self._upper = none if soft is None else soft.highest + POSITION_SLACK
        self._needs_cut = for_types_of(needs_cut, tuple(np.zeros((6, n))))

    def bounds(self, q: Array) -> tuple[Array, Array]:
        """Return the least and the largest motor torque at ``q``, (nv,) each [N·m or N].

        Args:
            q: measured positions, (nv,) [rad or m].
        """
        if not self._compensated:
            return self._least, self._most
        weight = gravity_torque(self._model, q)
        return np.minimum(self._least, weight), np.maximum(self._most, weight)

    def cut(
        self,
        torque: Array,
        packed: Array,
        q: Array,
        v: Array,
        s: Array,
        period: float,
        share: float = 1.0,
    ) -> Array:
        """Return the torque reduced to the limits, as the module describes.

        Args:
            torque: (nv,) requested torque of the motors [N·m or N].
            packed: the model whose gravity the torque contains, as :attr:`Model.packed`.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            s: (nv,) velocity error [rad/s or m/s]; the torque contains the damping
                ``-share K_D s``.
            period: longest time for which the torque is held [s].
            share: share of K_D in this damping, 0 to 1.

        Returns:
            (nv,) [N·m or N]; the array ``torque`` itself if it is within the limits and no joint is
            more than ``POSITION_SLACK`` beyond its nominal soft limits.
        """
        least, most = self.bounds(q)
        if not self._needs_cut(torque, least, most, q, self._lower, self._upper):
            return torque
        less: Array = cut_step(
            packed,
            self._described,
            self._gains,
            share,
            q,
            v,
            s,
            torque,
            least,
            most,
            self._lower,
            self._upper,
            period,
        )
        return less


class MotorTorque:
    """Stores the motor torque and the command of one arm.

    For an arm that adds its gravity torque (parameter ``gravity_compensated``) the motor torque is
    the sum of command and added torque. The added torque is the gravity torque of the described arm
    with its payload, which must be set in the arm as well, under ``compensated_gravity``. Limits
    and rates apply to the motor torque.

    Args:
        model: the arm with its payload.

    Attributes:
        sent: (nv,) last command [N·m or N].
        acting: (nv,) motor torque since the last command [N·m or N].
        acted: (nv,) motor torque between the last two commands [N·m or N]; valid after
            :meth:`send` and :meth:`send_both` only.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.sent: Array = np.zeros(model.nv)
        self.acting: Array = self.sent
        self.acted: Array = self.sent
        self._before = self.acting, self.sent
        zero = self.sent
        self._slowed = for_types_of(slowed, (zero, zero, zero, 0.0, zero, zero))

    def set_parameters(
        self, model: Model, parameters: ControllerParameters, q: Array | None = None
    ) -> None:
        """Apply another rate limit or payload from the next torque on.

        The command continues from the last one: if the gravity torque that the arm adds changes
        with the payload, so does the stored motor torque.

        Args:
            model: the arm with its payload.
            parameters: rate limit, and whether the arm adds its gravity torque.
            q: (nv,) measured positions [rad or m]; None if they are unknown. The stored motor
                torque is then kept.
        """
        self._model = model
        self._rate = parameters.for_joints("torque_rate", self._model.nv)
        self._compensated = parameters.compensated(model)
        if q is not None:
            added = np.zeros(model.nv)
            if self._compensated is not None:
                added = gravity_torque(self._compensated, q)
            self.acting = self.sent + added
            self._before = self._before[1] + added, self._before[1]

    def slow(self, torque: Array, dt: float, bounds: tuple[Array, Array]) -> Array:
        """Return the torque after the rate limit; one factor scales the change of all joints.

        Args:
            torque: (nv,) requested motor torque [N·m or N].
            dt: time since the last torque [s].
            bounds: least and largest motor torque, (nv,) each [N·m or N].

        Returns:
            (nv,) [N·m or N]; ``torque`` itself if its change from ``acting`` keeps the limit.
        """
        slower, short = self._slowed(torque, self.acting, self._rate, dt, *bounds)
        return slower if short else torque

    def send(self, motors: Array, q: Array) -> Array:
        """Return the command for a motor torque at ``q``, and store both as the last command.

        Args:
            motors: (nv,) torque of the motors [N·m or N].
            q: (nv,) measured positions [rad or m].

        Returns:
            (nv,) command [N·m or N], without the gravity torque that the arm adds by itself.

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        own = self._compensated
        return self.send_both(motors if own is None else motors - gravity_torque(own, q), motors)

    def send_command(self, sent: Array, q: Array) -> Array:
        """Store and return a command, and store the motor torque that results from it at ``q``.

        The torque that the arm adds does not contain masses that the adaptive law learned.

        Args:
            sent: (nv,) command [N·m or N].
            q: (nv,) measured positions [rad or m].

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        own = self._compensated
        return self.send_both(sent, sent if own is None else sent + gravity_torque(own, q))

    def send_both(self, sent: Array, motors: Array) -> Array:
        """Store and return a command, and store its motor torque.

        Args:
            sent: (nv,) command [N·m or N].
            motors: (nv,) motor torque that results from it [N·m or N].

        Raises:
            FloatingPointError: for a torque that is not finite; nothing is changed then.
        """
        require_finite(sent, "limited torque")
        self._before = self.acting, self.sent
        self.acted, self.acting, self.sent = self.acting, motors, sent
        return sent

    def repeat(self) -> Array:
        """Return the last command once more, and store it as the command of this sample."""
        self._before = self.acting, self.sent
        return self.sent.copy()

    def take_back(self) -> None:
        """Restore ``sent`` and ``acting`` from before the last command, which was not sent."""
        self.acting, self.sent = self._before

    def zero(self, q: Array) -> Array:
        """Store and return a zero command; the stored motor torque is zero.

        An arm that adds its gravity torque continues to do so. Its stored motor torque is the
        added torque at the positions ``q``, (nv,) [rad or m].
        """
        self.halt()
        if self._compensated is not None:
            self.acting = self.acted = gravity_torque(self._compensated, q)
        return self.sent.copy()

    def halt(self) -> Array:
        """Store and return a zero command without any computation that could fail.

        The stored motor torque is zero as well, also for an arm that adds its gravity torque.
        """
        self._before = self.acting, self.sent
        self.sent = np.zeros(self._model.nv)
        self.acting = self.acted = self.sent
        return self.sent.copy()


def require_finite(torque: Array, what: str) -> None:
    """Raise an error for a torque that is not finite.

    Args:
        torque: (nv,) [N·m or N].
        what: name of the torque in the message.

    Raises:
        FloatingPointError: if the torque of any joint is not finite; the message contains ``what``.
    """
    if not isfinite(torque.dot(torque)):
        raise FloatingPointError(f"the {what} is not finite")


SHORTEST = 1e-6
"""Shortest time between two stamps that is a period of the energy tank [s].

After a shorter time, for example with equal stamps, the longest recent period is used instead.
"""


DISTRUSTED = "its torque is zero until the next activation"
"""Text for joints of :meth:`TorquePath.distrust`."""

WEAKENED = (
    "the brake of the safe torque overshot, as in a loop with delay: it is weaker until the next "
    "activation; measure the loop with rbd-control check --loop"
)
"""Text for a brake that :meth:`TorquePath.weaken_brake` has weakened."""


SLOW = 0.05
"""Speed as a share of the velocity limit to which an arm is braked before it floats."""


class LimitedTorque(NamedTuple):
    """A torque command, and the limits that changed it."""

    torque: Array
    """(nv,) command [N·m or N]."""
    is_saturated: bool = False
    """Whether the torque was reduced to the torque limits."""
    is_rate_limited: bool = False
    """Whether the change of the torque was limited."""


class TorquePath:
    """Computes the torque command of one arm for each sample, and stores the last commands.

    For each sample call :meth:`wanted` and :meth:`limit` in the modes hold, follow and float,
    otherwise one of :meth:`brake`, :meth:`repeat`, :meth:`zero` and :meth:`halt`. Call
    :meth:`reconfigure` first, and after each change of the configuration.

    Args:
        setup: the present configuration of the controller.
        samples: the measured state.

    Attributes:
        is_tracking: whether the last command followed a desired motion under the law.
        withheld: (nv,) torque of the law less the motor torque after all limits, in the last call
            of :meth:`limit` [N·m or N].
        model_error: why the model is known to be wrong; empty if it is not. With an error
            :meth:`brake` compensates no gravity.
        brake_share: share of its rate that :meth:`brake` uses.
        is_braking: whether :meth:`brake` was the last command and not zero by its rules.
        braked_apart: (nv,) joints that are braked apart from all others.
    """

    def __init__(self, setup: Setup, samples: SampleJudge) -> None:
        model = setup.now.model
        self._setup, self._samples = setup, samples
        self._motors = MotorTorque(model)
        self._roll_off = RollOff(model.nv)
        self._is_limited = self._slows = False
        self.is_tracking = False
        self.withheld = np.zeros(model.nv)
        self.model_error = ""
        self.brake_share = 1.0
        self.is_braking = False
        self._trusted, self.braked_apart = np.ones(model.nv), np.zeros(model.nv, np.bool_)

    def reconfigure(self) -> None:
        """Continue from the last command with the present configuration."""
        now = self._setup.now
        here = self._samples.q if self._samples.good else None
        self._motors.set_parameters(now.model, now.parameters, here)
        self._roll_off.set_resonances(resonances(now.parameters.resonance, now.model))

    @property
    def v_f(self) -> Array:
        """Filtered velocities of the last command, (nv,) [rad/s or m/s]."""
        return self._roll_off.v

    @property
    def acted(self) -> Array:
        """Motor torque between the last two commands, (nv,) [N·m or N]."""
        return self._motors.acted

    @property
    def acting(self) -> Array:
        """Motor torque since the last command, (nv,) [N·m or N]."""
        return self._motors.acting

    @property
    def sent(self) -> Array:
        """(nv,) last command that :meth:`take_back` did not discard [N·m or N]."""
        return self._motors.sent

    @property
    def frozen(self) -> str:
        """A warning while joint states at rest repeat although torque is sent.

        It is an empty text until they have repeated for ``repeated_time_at_rest``, and while the
        last command is zero.
        """
        time = self._samples.time_at_rest
        if not time or not self._motors.sent.any():
            return ""
        return f"joint states have repeated for {time:.3g} s while torque is sent"

    def wanted(self, desired: DesiredState | None, may_learn: bool) -> LawTorque:
        """Return the torque of the law for the last sample, before limits.

        The adaptive law forgets what it has learned recently if ``desired`` is None or
        ``may_learn`` is false.

        Args:
            desired: the state to track; None for gravity compensation with soft limits only.
            may_learn: whether the adaptive law may learn from this sample: only if contact is
                excluded. It does not learn either if limits changed the last torque, or if the last
                command was not sent.

        Raises:
            FloatingPointError: for a torque that is not finite.
            InputError: for a torque of the adaptive law that is not finite.
        """
        samples, now = self._samples, self._setup.now
        law = now.law
        if desired is None or not may_learn:
            # A contact is reported late, so the law may have learned from it. Without feedback
            # nothing corrects a weight that was learned wrongly.
            law.forget_recent()
        if desired is None:
            self._roll_off.measure(samples.v, samples.dt)
            self._roll_off.restart()
            # An arm that floats from a fast motion is braked first; a hand may move it then.
            self._slows = (self._slows or self.is_tracking) and bool(
                (np.abs(samples.v) > SLOW * now.torque_limits.fastest).any()
            )
            wanted = law.floating(samples.q, self._roll_off.v, 1.0 if self._slows else 0.0)
        else:
            # Contact and saturation would falsify the estimates of the adaptive law.
            learn = samples.dt if may_learn and not self._is_limited else 0.0
            feedback = self._roll_off.track(samples.q, samples.v, samples.dt, desired)
            wanted = law.torque(samples.q, samples.v, desired, learn, feedback)
        # The limits would turn NaN into a number.
        require_finite(wanted.torque, "torque of the law")
        return wanted

    def limit(self, wanted: LawTorque, is_tracking: bool) -> LimitedTorque:
        """Reduce the torque of the law to the limits of torque, energy and rate; store the result.

        Args:
            wanted: torque of the law for the last sample.
            is_tracking: whether the law tracks a desired motion.

        Raises:
            FloatingPointError: for a torque that is not finite; the last command is kept.
        """
        samples, now, motors = self._samples, self._setup.now, self._motors
        law, limits = now.law, now.torque_limits
        q, v, period = samples.q, samples.v, samples.longest_period
        cut = limits.cut(wanted.torque, law.packed, q, v, wanted.s, period, wanted.share)
        let = limited = cut
        if now.parameters.tank_capacity > 0.0:
            # The first sample after a jump of the clock has no period of its own.
            dt = samples.dt if samples.dt >= SHORTEST else period
            let = law.tank.limit(q, v, cut, dt, wanted.share)
            limited = limits.cut(let, law.packed, q, v, v, period, wanted.share)
        bounds = limits.bounds(q)
        slow = motors.slow(limited, self._elapsed(), bounds)
        final = law.tank.sent(let, slow, bounds)
        sent = motors.send(final, q)
        self._is_limited = final is not wanted.torque
        self.withheld = wanted.torque - final
        self.is_tracking, self.is_braking = is_tracking, False
        return LimitedTorque(sent, cut is not wanted.torque, slow is not limited)

    def brake(self) -> LimitedTorque:
        """Store and return the command in mode safe, see :class:`SafeTorque`.

        It is zero without a valid sample, and for joints whose drives cannot be trusted.
        """
        samples, law, safe = self._samples, self._setup.now.law, self._setup.now.safe
        law.forget_recent()
        law.forget_bias()
        self._roll_off.measure(samples.v, samples.dt)
        self._roll_off.restart()
        if not samples.good:
            return self.zero()
        self.is_tracking = False
        law.tank.skip()
        step = safe.torque(
            safe.weightless if self.model_error else law.packed,
            samples.q,
            samples.v,
            self._roll_off.v,
            self.braked_apart,
            self._motors.acting,
            (self._elapsed(), samples.longest_period),
            self.brake_share,
        )
        sent = self._motors.send_command(self._trusted * step.command, samples.q)
        self.is_braking = True
        return LimitedTorque(sent)

    def brake_apart(self, joints: tuple[int, ...]) -> None:
        """Brake joints, by index, apart from all others until :meth:`restore_brake`."""
        self.braked_apart[list(joints)] = True

    def distrust(self, joints: tuple[int, ...]) -> None:
        """Send zero torque to joints, by index, in :meth:`brake` until :meth:`restore_brake`."""
        self._trusted[list(joints)] = 0.0
        self.brake_apart(joints)

    def weaken_brake(self, factor: float) -> None:
        """Reduce the rate of :meth:`brake`, which is too high for the delay of the loop.

        A brake that comes late drives the arm. The rate stays reduced, also in later faults, until
        :meth:`restore_brake`. From above :data:`LEAST_BRAKE` it is reduced to this at most.
        """
        least = LEAST_BRAKE if self.brake_share > LEAST_BRAKE else 0.0
        self.brake_share = max(factor * self.brake_share, least)

    def restore_brake(self) -> None:
        """Trust the brake again and use its full rate, from a start on."""
        self.brake_share = 1.0
        self._trusted[:], self.braked_apart[:] = 1.0, False

    def repeat(self) -> LimitedTorque:
        """Return the last command once more, and store it as the command of this sample.

        It sets ``is_tracking`` to false.
        """
        self.is_tracking, self.is_braking = False, False
        return LimitedTorque(self._motors.repeat())

    def zero(self) -> LimitedTorque:
        """Store and return the command of exactly zero, (nv,)."""
        self.is_tracking, self.is_braking = False, False
        self._setup.now.law.tank.skip()
        return LimitedTorque(self._motors.zero(self._samples.q))

    def halt(self) -> LimitedTorque:
        """Store and return zero without any computation that could fail, after an exception."""
        self.is_tracking, self.is_braking = False, False
        return LimitedTorque(self._motors.halt())

    def take_back(self) -> None:
        """Treat the last command as not sent; the previous command continues to act."""
        self._motors.take_back()
        self.is_braking = False
        self._setup.now.law.tank.acts(self._motors.acting)
        self._is_limited = True

    def _elapsed(self) -> float:
        """Return the time since the previous valid sample, at most ``timeout`` [s]."""
        return min(self._samples.dt, self._setup.now.parameters.timeout)
