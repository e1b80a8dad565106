"""Checks of each sample that lead to a fault or a hold.

**Detection of an unstable control loop by motor torque that oscillates.**

Gains that are too high for the delay of the loop or the rate of the joint states, a wrong model, or
an inertia that the adaptive law has learned in a collision can make the loop unstable. The limits
of the torque and of its rate bound the oscillation, which then lasts: the joint shakes with all the
torque that the limits permit. The delay determines the frequency, mostly 6 to 40 Hz.

The criterion is :data:`SWINGS` successive large swings within :data:`WITHIN`. A swing leads from
one reversal of the torque to the next. It is large if it exceeds the torque limit of the joint from
peak to peak, or :data:`RATE_SHARE` of what ``torque_rate`` permits in its time. The following do
not count:

- Slow swings: a person who guides or shakes the arm reverses the torque at less than 5 Hz.
- The part of a swing that the desired acceleration demands, as of a back-and-forth trajectory. The
  range of the demand over two swings is subtracted, because the torque may lag behind it.
- Noise: its swings are shorter than :data:`SHORTEST`, in which it would need most of the rate.

**Detection of measured speeds above the speed of any controlled motion.**

The reference velocity is bounded at 1.2 velocity limits. A light wrist that recoils from a
collision exceeds two velocity limits (the default of ``overspeed_factor``) for some milliseconds.
An arm that is released under load, or does not follow its commands, exceeds them for longer, which
is a fault. An oscillating joint is too fast intermittently; therefore time below the limit is
subtracted at a lower rate than time above it is added.

**Detection of a joint that stands still although the law moves it.**

Its joint states may be frozen, while the arm moves without feedback: they show the last position
and a velocity of zero, which do not contradict each other. The torque of the law then grows with
the tracking error, and the motion of the arm is not damped. Or the brake of the joint is closed, or
an obstacle blocks it.

A joint stands still if its position and velocity are equal to the last digit for longer than
:attr:`SampleJudge.longest_repetition`. This is normal at rest, and at the start of a motion until
the torque has overcome static friction. It is a fault if for the same time::

    min(|K_D,ii (s_i - s_i0)|, |K_D,ii s_i|) > repeated_torque_share * effort limit

where ``s_i0`` is the velocity error at the first of the equal samples. Friction that holds the
joint on one side before a reversal, and on the other side afterwards, explains twice the static
friction. The rest of the torque does not count, because it changes with the motion of the other
joints. Torque that limits have withheld is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rbd_control.control.controller_parameters import commanded
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.drive_response import (
    CERTAIN,
    DRIVEN,
    FRESH,
    LIKELY,
    SPEED_SHARE,
    SUSPECT,
    DriveFault,
    Evidence,
    WrongDrive,
    dead_drive,
    driven_by_another,
    wrong_drive,
)
from rbd_control.control.kernels import largest_share
from rbd_control.control.limits import ArmLimits
from rbd_control.control.modes import Modes
from rbd_control.control.motion import DesiredMotion
from rbd_control.control.safe_torque import LEAST_BRAKE, Overshoot, Runaway
from rbd_control.control.samples import ROUNDING, SampleJudge
from rbd_control.dynamics import gravity_torque, mass_matrix
from rbd_control.dynamics.compiled import compiled, for_types_of, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import InputError
from rbd_control.joint_states.checks import (
    PASSED,
    Array,
    Check,
    Checks,
    Finding,
    make_settings,
)

if TYPE_CHECKING:
    from rbd_control.control.configuration import Setup


class Observed(NamedTuple):
    """What the checks of the arm's motion compare: a joint state, and the torques until then."""

    dt: float
    """Time since the previous joint state [s]; 0 restarts the comparisons."""
    now: float
    """Arrival of the joint state on the steady clock [s]."""
    q: Array
    """(n,) positions [rad or m]."""
    v: Array
    """(n,) velocities [rad/s or m/s]."""
    repeats: bool
    """Whether the joint state repeats the previous one, so that it shows nothing."""
    sent: Array
    """(n,) command since the previous joint state [N·m or N]."""
    acting: Array
    """(n,) torque of the motors since then [N·m or N]."""
    a_d: Array
    """(n,) desired acceleration [rad/s² or m/s²]."""
    is_safe: bool
    """Whether the mode is safe."""
    commanded: Array
    """The arm with the gravity that the commands contain, as :attr:`Model.packed`."""
    described: Array
    """The arm, as :attr:`Model.packed`."""
    certain: Evidence
    """Bounds of a certain fault of a drive."""


OVERSPEED_TIME = 0.02
"""Time for which a joint may exceed its overspeed limit without a fault [s]."""

FORGETTING = 0.25
"""Share of the time below the limits that is subtracted from the time above them."""


class Overspeed(Check):
    """Finds a joint that is too fast for :data:`OVERSPEED_TIME`.

    The time above the setting ``overspeed`` of any joint is common to all joints, and falls at the
    rate ``FORGETTING`` while none exceeds its limit. A fault resets it.
    """

    ARM = {
        "fast_for": 0.0,  # time above the limits [s]
        "fast_time": 0.0,  # the same at the last fault [s]
        "fast_speed": 0.0,  # speed of the joint at the last fault [rad/s or m/s]
    }

    @staticmethod
    @inlined
    def test(motion, settings, memory):  # type: ignore[no-untyped-def]
        """Return the first joint above its limit once the time has passed."""
        arm, fast = memory.arm[0], PASSED
        for i in range(motion.v.size):
            if fast == PASSED and abs(motion.v[i]) > settings.joint[i].overspeed:
                fast = i
        if fast == PASSED:
            arm.fast_for = max(arm.fast_for - FORGETTING * motion.dt, 0.0)
            return PASSED
        arm.fast_for += motion.dt
        if arm.fast_for < OVERSPEED_TIME:
            return PASSED
        arm.fast_time, arm.fast_speed, arm.fast_for = arm.fast_for, motion.v[fast], 0.0
        return fast

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the joint, its limit and the time."""
        most = found.settings.joint["overspeed"][found.joint]
        time, speed = found.memory.arm[["fast_time", "fast_speed"]][0]
        return f"{found.name} at {speed:.4g} is too fast: above {most:.4g} for {time:.3g} s"


SWINGS = 8
"""Number of successive large swings in opposite directions that are a fault."""

WITHIN = 0.68
"""Time of :data:`SWINGS` swings below which they are a fault [s]: an oscillation above 5.9 Hz."""

RATE_SHARE = 0.8
"""Share of the rate limit above which the mean rate of a swing makes it large."""

SHORTEST = 0.01
"""Least time that is used for a swing in the comparison with the rate limit [s].

Full use of the rate is therefore noticed up to about 60 Hz. Faster swings must exceed the torque
that is reached in this time, or the torque limit, whichever is smaller.
"""


class Chatter(Check):
    """Finds a motor torque that oscillates, by the criterion of this module.

    Settings of a joint: ``torque`` and ``torque_rate``, the limits of the torque [N·m or N] and of
    its rate [N·m/s or N/s].
    """

    JOINT = {
        "peak": 0.0,  # extreme torque in the present direction since the last reversal [N·m or N]
        "peaked": 0.0,  # its time [s]
        "direction": 1.0,  # 1 while the torque rises, -1 while it falls
        "start": 0.0,  # torque at the last reversal [N·m or N]
        "least": 0.0,  # least torque that was demanded in the present swing [N·m or N]
        "most": 0.0,  # largest one
        "least_before": 0.0,  # the same in the swing before
        "most_before": 0.0,
        # times of the last reversals with large swings between them, the oldest first [s]
        "reversals": (-inf,) * (SWINGS + 1),
    }
    ARM = {"swing_time": 0.0}

    @staticmethod
    @inlined
    def test(motion, settings, memory):  # type: ignore[no-untyped-def]
        """Record reversals of the torque; return a joint whose torque oscillates.

        A joint oscillates if only large swings lie between its last reversals, and the first of
        these was less than ``WITHIN`` before the last. In mode safe all reversals are forgotten.
        """
        n, model, found = motion.q.size, unpacked(motion.described), PASSED
        if motion.is_safe:
            forget_swings(memory)
            return PASSED
        demanded, unused, g = np.empty(n), np.empty(n), np.empty(n)
        sweep = new_sweep(model.parent.shape[0])
        momentum_sweep(model, motion.q, motion.a_d, sweep, demanded, unused, g)
        for i in range(n):
            each, torque = memory.joint[i], motion.acting[i]
            each.least, each.most = min(each.least, demanded[i]), max(each.most, demanded[i])
            limit, fast = settings.joint[i].torque, RATE_SHARE * settings.joint[i].torque_rate
            back = (each.peak - torque) * each.direction
            if 0.0 < back <= min(limit, fast * SHORTEST):
                continue
            if back > 0.0:
                # The torque has reversed at the peak, where a swing ended.
                size = abs(each.peak - each.start)
                size -= max(each.most, each.most_before) - min(each.least, each.least_before)
                time = max(each.peaked - each.reversals[SWINGS], SHORTEST)
                is_small = size <= min(limit, fast * time)
                for k in range(SWINGS):
                    each.reversals[k] = -np.inf if is_small else each.reversals[k + 1]
                each.reversals[SWINGS] = each.peaked
                if each.peaked - each.reversals[0] < WITHIN:
                    found, memory.arm[0].swing_time = i, each.peaked - each.reversals[0]
                each.start, each.direction = each.peak, -each.direction
                each.least_before, each.most_before = each.least, each.most
                each.least = each.most = demanded[i]
            each.peak, each.peaked = torque, motion.now
        if found != PASSED:
            forget_swings(memory)
        return found

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the joint, the swings and the possible causes."""
        time, most = found.memory.arm["swing_time"], found.settings.joint["torque"][found.joint]
        return (
            f"the torque of {found.name} swung {SWINGS} times within {time[0]:.2g} s by "
            f"more than {most:.4g}, or {RATE_SHARE:.0%} of what torque_rate permits: "
            f"bandwidth, damping or damping_rate is too high for the delay of the loop or the rate "
            f"of the joint states, or the model is wrong"
        )


@inlined
def forget_swings(memory):  # type: ignore[no-untyped-def]
    """Forget the reversals of all joints."""
    for i in range(memory.joint.size):
        for k in range(SWINGS + 1):
            memory.joint[i].reversals[k] = -np.inf


CHECKS = (WrongDrive, Overspeed, Chatter)
"""The checks of the arm's motion, which end in mode safe, in the order of their reasons."""

ALL_PASSED = (PASSED,) * len(CHECKS)
"""Results of the tests without a fault."""

_is_wrong_drive, _is_too_fast, _chatters = (check.test for check in CHECKS)


@compiled
def watch(motion, settings, memory):  # type: ignore[no-untyped-def]
    """Run all checks of the arm's motion for a sample; return the result of each test.

    Args:
        motion: the last joint state and commands, of type :class:`Observed`.
        settings, memory: numbers of the checks.
    """
    drive = _is_wrong_drive(motion, settings, memory)
    fast = _is_too_fast(motion, settings, memory)
    if drive != PASSED or fast != PASSED:  # the mode becomes safe
        forget_swings(memory)
        return drive, fast, PASSED
    return drive, fast, _chatters(motion, settings, memory)


NEVER = 2.0
"""Value of ``repeated_torque_share`` that disables the check."""


class StandingJoint:
    """Detects a joint of one arm that stands still although the law moves it.

    Call :meth:`driven` for each sample, and then :meth:`fault` unless the result is None.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory = np.zeros((4, joints))
        self._driven, self._zero = zero = np.zeros((2, joints))
        self._drive = for_types_of(
            drive_of_standing, (0.0, *zero, zero[0], 0.0, self._memory, self._driven)
        )
        self.forget()

    def forget(self) -> None:
        """Forget all samples; the next sample is not compared with an earlier sample."""
        self._memory[:] = np.nan
        self._excess_since = np.inf

    def driven(self, stamp: float, q: Array, v: Array, s: Array, least_time: float) -> Array | None:
        """Take a sample, and return the velocity error that moves each joint that stands still.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            s: velocity errors v - v_r of the law, (nv,) [rad/s or m/s].
            least_time: time for which a joint must have stood still [s].

        Returns:
            (nv,) [rad/s or m/s]; for a joint that stands still, either ``-s`` or the change of
            ``-s`` since its first equal sample, whichever has the smaller magnitude, if both have
            the same sign; otherwise zero. None if it is zero for all joints. The next call
            overwrites the array.
        """
        self._stamp, self._least_time = stamp, least_time - ROUNDING
        if self._drive(stamp, q, v, s, self._least_time, self._memory, self._driven):
            return self._driven
        self._excess_since = np.inf
        return None

    def fault(self, torque: Array, limits: ArmLimits, share: float) -> str:
        """Return a message if the torque has exceeded ``share`` for long enough, or an empty text.

        Args:
            torque: (nv,) result of :meth:`driven` times the diagonal of K_D, less the torque that
                limits withheld [N·m or N].
            limits: names and effort limits of the joints.
            share: ``repeated_torque_share``; from :data:`NEVER` on there is no fault.
        """
        j, most = largest_share(torque, self._zero, limits.effort)
        if most <= share or share >= NEVER:
            self._excess_since = np.inf
            return ""
        self._excess_since = min(self._excess_since, self._stamp)
        if self._stamp - self._excess_since < self._least_time:
            return ""
        return (
            f"{limits.joint_names[j]} does not move: its joint states have repeated to the last "
            f"digit for {self._stamp - self._memory[3, j]:.3g} s while the torque that moves it "
            f"changed by {abs(torque[j]):.4g} (at most {share * limits.effort[j]:.4g}); they are "
            f"frozen, its brake is closed, or it is blocked"
        )


@compiled
def drive_of_standing(
    stamp: float,
    q: Array,
    v: Array,
    s: Array,
    least_time: float,
    memory: Array,
    driven: Array,
) -> bool:
    """Write the drive of joints that stand still, see :meth:`StandingJoint.driven`, to ``driven``.

    Args:
        stamp: time of the sample [s].
        q, v, s: positions, velocities and velocity errors, (nv,) each [rad or m, rad/s or m/s].
        least_time: time for which a joint must have stood still [s].
        memory: (4, nv), changed: position, velocity, velocity error and stamp of the first of the
            equal samples of each joint; NaN without samples.
        driven: (nv,) [rad/s or m/s], changed: the result; zero for all other joints.

    Returns:
        Whether ``driven`` is not zero for a joint.
    """
    last_q, last_v, first_s, since = memory[0], memory[1], memory[2], memory[3]
    found = False
    for i in range(q.shape[0]):
        driven[i] = 0.0
        if q[i] != last_q[i] or v[i] != last_v[i]:
            last_q[i], last_v[i], first_s[i], since[i] = q[i], v[i], s[i], stamp
            continue
        change = first_s[i] - s[i]
        if change * s[i] < 0.0 and stamp - since[i] >= least_time:
            driven[i] = change if abs(change) < abs(s[i]) else -s[i]
            found = True
    return found


GAINS_ENERGY = (
    "the arm gained energy although it was braked, and none without torque: a motor is reversed, "
    "swapped or dead; check wiring, signs and order of the motors"
)
"""Text for an arm that :class:`Runaway` finds."""


class Watches:
    """Checks samples, torque and verdicts, and switches the mode after a failed check.

    A fault is a switch to the mode safe. Call :meth:`reconfigure` first, and after each change of
    the configuration.

    Args:
        setup: the present configuration of the controller.
        samples, motion, verdict: parts of the controller that the checks read. A check that finds
            frozen or silent joint states marks ``samples`` as lost.
        modes: the mode, which a failed check changes.
    """

    def __init__(
        self,
        setup: Setup,
        samples: SampleJudge,
        motion: DesiredMotion,
        verdict: DetectorVerdict,
        modes: Modes,
    ) -> None:
        self._setup, self._samples, self._motion = setup, samples, motion
        self._verdict, self._modes = verdict, modes
        joints = setup.now.model.nv
        self._checks = Checks(CHECKS, joints)
        self._overshoot, self._runaway = Overshoot(joints), Runaway()
        self._named: set[int] = set()
        """Joints whose drives are known not to obey."""
        self._doubted: set[int] = set()
        """Joints whose drives may be dead, since the last fault."""
        self._since_fault = self._driven = 0.0
        """Times since the fault, and for which one joint has driven another [s]."""
        self._standing = StandingJoint(joints)
        self._watch: Callable[..., Any] | None = None

    def reconfigure(self) -> None:
        """Use the present configuration from the next sample on."""
        now = self._setup.now
        self._commanded = commanded(now.parameters, now.model).packed
        self._settings = make_settings(
            now.model.nv,
            {
                "effort": now.limits.effort,
                "slowest": SPEED_SHARE * now.limits.assumed_velocity,
                "overspeed": now.limits.overspeed,
                "torque": now.limits.torque,
                "torque_rate": now.limits.torque_rate,
            },
            {"delay": now.parameters.loop_delay},
        )
        if self._watch is None:
            zero = np.zeros(now.model.nv)
            given = self._observed(zero, zero, zero), self._settings, self._checks.memory
            self._watch = for_types_of(watch, given)

    def _observed(self, sent: Array, acting: Array, acceleration: Array) -> Observed:
        samples, now = self._samples, self._setup.now
        return Observed(
            samples.dt,
            samples.now,
            samples.q,
            samples.v,
            samples.is_repeating > 0.0,
            sent,
            acting,
            acceleration,
            self._modes.state.mode == "safe",
            self._commanded,
            now.model.packed,
            CERTAIN,
        )

    def check_motion(self, sent: Array, acting: Array) -> None:
        """Switch to a fault if a drive, a speed or the torque is wrong, see :data:`CHECKS`.

        Torque that oscillates also discards what the adaptive law has learned. Call the method
        before the desired state advances, so that it belongs to these torques.

        Args:
            sent: (nv,) command until this sample [N·m or N].
            acting: (nv,) torque of the motors until this sample [N·m or N].
        """
        assert self._watch is not None
        motion = self._observed(sent, acting, self._modes.desired.a_d)
        if not motion.is_safe:
            self._since_fault = 0.0
            self._doubted.clear()
        results = self._watch(motion, self._settings, self._checks.memory)
        if results == ALL_PASSED or motion.is_safe:
            return
        names, law, memory = (
            self._setup.now.model.joint_names,
            self._setup.now.law,
            self._checks.memory,
        )
        for check, joint in zip(CHECKS, results, strict=True):
            if joint != PASSED:
                sentence = check.sentence(Finding(names, joint, self._settings, memory))
                if check is Chatter:
                    sentence += law.discard_estimates()
                self._modes.fault(sentence)

    def check_gap(self) -> None:
        """Switch to a fault if the time since the previous sample exceeds ``timeout``.

        Both the difference of the stamps and the difference of the arrivals are compared.
        """
        samples, timeout = self._samples, self._setup.now.parameters.timeout
        # After a stop of the process its queue has samples without a gap, but no torque was sent.
        if samples.wait > timeout:
            self._modes.fault(f"no joint states for {samples.wait:.3g} s")
        elif samples.dt > timeout:
            self._modes.fault(f"stamps jumped by {samples.dt:.3g} s")

    def check_tracking(self) -> None:
        """Switch to a fault if a joint exceeds ``tracking_limit`` in the modes hold and follow."""
        if self._modes.state.tracks:
            lost = self._setup.now.tolerances.lost(self._samples.q, self._modes.desired.q_d)
            if lost:
                self._modes.fault(lost)

    def reset(self) -> None:
        """Forget speeds and torques before a start."""
        for check in CHECKS:
            self._checks.forget(check)
        self._named.clear()
        self._doubted.clear()
        self._standing.forget()

    def check_brake(
        self, is_braking: bool, v_f: Array, share: float
    ) -> tuple[DriveFault | None, float]:
        """Check the brake of mode safe for the last sample.

        Args:
            is_braking: whether the last command was a brake.
            v_f: (nv,) filtered velocities of the last command [rad/s or m/s].
            share: share of its rate that the brake uses, see :meth:`TorquePath.weaken_brake`.

        Returns:
            The drives that cannot be trusted, or None; and the factor by which the brake must
            become weaker, because it overshoots: 1 if it does not.
        """
        samples, now = self._samples, self._setup.now
        M = mass_matrix(now.model, samples.q)
        if self._since_fault == 0.0:
            self._runaway.reset()
            self._driven = 0.0
        bounds = SUSPECT if self._since_fault <= FRESH else LIKELY
        self._since_fault += samples.dt
        given = now.model.joint_names, samples.v, self._settings, self._checks.memory
        found = wrong_drive(*given, bounds)
        if found is None and bounds is SUSPECT and not self._named:
            found = dead_drive(*given)
        g = np.zeros_like(samples.v)
        if not now.parameters.gravity_compensated:
            g = gravity_torque(now.model, samples.q)
        weaker = 1.0
        speeds, is_wrong = now.limits.assumed_velocity, bool(self._named)
        dt, v = samples.dt, samples.v
        self._probe_if_driven(dt, v)
        if self._runaway.found(dt, v, M, g, speeds, is_braking, is_wrong):
            if LEAST_BRAKE < share < 1.0:  # it is late, as an overshoot has shown
                weaker = 0.0
            elif found is None or not found.is_certain:
                found = DriveFault(tuple(range(len(samples.v))), GAINS_ENERGY)
        if found is not None:
            known = self._named if found.is_certain else self._doubted
            if not known.issuperset(found.joints):
                self._runaway.reset()
            known.update(found.joints)
        if not is_braking:
            self._overshoot.reset()
            return found, weaker
        # An arm that falls with a joint that is not braked gains energy, and reverses joints.
        apart = [*(self._named | self._doubted)]
        braked = v_f.copy()
        braked[apart] = 0.0
        full = now.limits.torque / (share * now.safe.rate(samples.longest_period))
        is_late_only_if_hard = share <= LEAST_BRAKE or bool(apart)
        if self._overshoot.found(samples.dt, M, braked, full, is_late_only_if_hard):
            weaker = min(weaker, 0.5)
        return found, weaker

    def _probe_if_driven(self, dt: float, v: Array) -> None:
        """Let all torque be zero, once after a fault, if that of one joint seems to drive another.

        Of two joints that are known to be swapped, none drives the other any more.
        """
        named, doubted = self._named, self._doubted - self._named
        if driven_by_another(v, named, doubted, self._settings, self._checks.memory):
            before, self._driven = self._driven, self._driven + dt
            if before < DRIVEN <= self._driven:
                self._runaway.probe()
        elif self._driven < DRIVEN:
            self._driven = 0.0

    @property
    def is_probing(self) -> bool:
        """Whether the torque of mode safe must be zero, to find out what drives the arm."""
        return self._runaway.is_probing

    def finds_standing(self, s: Array, withheld: Array) -> bool:
        """Switch to a fault if a joint does not move, see :class:`StandingJoint`.

        Args:
            s: (nv,) velocity error of the law for the last sample [rad/s or m/s].
            withheld: (nv,) torque of the last sample that limits have withheld [N·m or N].

        Returns:
            Whether there is such a joint.
        """
        samples, standing = self._samples, self._standing
        if not self._modes.state.tracks:
            standing.forget()
            return False
        driven = standing.driven(samples.stamp, samples.q, samples.v, s, samples.longest_repetition)
        if driven is None:
            return False
        torque = self._setup.now.law.damping(samples.q) * driven
        torque -= np.clip(torque, -np.abs(withheld), np.abs(withheld))
        fault = standing.fault(
            torque, self._setup.now.limits, self._setup.now.parameters.repeated_torque_share
        )
        if fault:
            self._modes.fault(fault)
        return bool(fault)

    def finds_silence(self, now: float) -> bool:
        """Switch to a fault if no valid sample came for ``timeout``; return whether none came.

        Args:
            now: time on the steady clock [s].
        """
        if not self._samples.silent(now):
            return False
        self._samples.lose()
        self._modes.fault(f"no joint states for {now - self._samples.now:.3g} s")
        return True

    def unsent(self, age: float) -> None:
        """Switch to a fault if no torque could be published for more than ``timeout``.

        After half of ``repeated_time`` the check for a joint that does not move restarts, because
        the arm did not receive the torque.

        Args:
            age: time since a torque was last published [s].
        """
        parameters = self._setup.now.parameters
        if age > 0.5 * parameters.repeated_time:
            self._standing.forget()
        if age > parameters.timeout:
            self._modes.fault(f"no torque could be published for {age:.3g} s")

    def check_detector(self, now: float) -> None:
        """Hold the arm if ``require_detector`` is true and the last verdict has expired.

        Only an arm in mode follow, or in mode hold without a latch or during a retreat, gets the
        order to hold, which also ends the retreat.

        Args:
            now: time on the steady clock [s].
        """
        modes = self._modes
        if not self._setup.now.parameters.require_detector or self._verdict.fresh(now):
            return
        moves = not modes.state.latched or modes.is_retreating
        if modes.mode == "follow" or (modes.mode == "hold" and moves):
            modes.hold(self._verdict.missing(now))

    def require_verdict(self, what: str, now: float) -> None:
        """Raise an error if ``require_detector`` is true and the last verdict has expired.

        Args:
            what: the action that needs the verdict, such as ``start``, for the message.
            now: time on the steady clock [s].

        Raises:
            InputError: naming the action and the age of the verdict.
        """
        missing = self._verdict.missing(now)
        if self._setup.now.parameters.require_detector and missing:
            raise InputError(f"cannot {what}: require_detector is true, and {missing}")

    def detector_warning(self, now: float) -> str:
        """Return a warning if the detector is needed and silent, otherwise an empty text.

        The detector is needed for any ``contact_reaction`` but none, and with ``require_detector``.
        It is silent if the last verdict is too old, or none has come yet.

        Args:
            now: time on the steady clock [s].
        """
        reaction, missing = self._setup.now.parameters.contact_reaction, self._verdict.missing(now)
        if missing and reaction != "none":
            return f"{missing}: no {reaction} on contact"
        return missing if self._setup.now.parameters.require_detector else ""
