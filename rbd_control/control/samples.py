"""Joint states of the controller: late, repeated, contradictory or valid.

:data:`CHECKS` has the checks, and :func:`judge` runs them for a sample, in one compiled call.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.limits import ArmLimits
from rbd_control.control.velocity_match import Contradictory
from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled, for_types_of, inlined
from rbd_control.joint_states.checks import (
    NO_JOINT,
    PASSED,
    Array,
    Check,
    Checks,
    Finding,
    Records,
    Sample,
    make_settings,
)
from rbd_control.joint_states.plausibility import (
    FARTHEST,
    TURN,
    continuous_joints,
    has_jumped,
    is_within,
    whole_turns,
)


class LastValid(Check):
    """The last valid sample, with which :func:`judge` compares the next; it has no test."""

    JOINT = {"q": 0.0, "v": 0.0, "turned": 0.0}
    ARM = {
        "stamp": -inf,
        "now": -inf,
        "follows": False,  # whether the next sample is compared with it
        "longest_period": 0.0,
        "heard": -inf,  # arrival of the last sample, also if it was refused [s]
        "gap": inf,  # time between the arrivals of the last two samples [s]
    }


CONFIRMED = 0.5
"""Share of a speed that the previous sample and the motion since then must have to confirm it."""

PLAUSIBLE, NOT_FINITE, TOO_FAR, TOO_FAST, JUMPED = range(5)
"""Kinds of implausible values: not finite, position beyond ``FARTHEST``, speed above its bound,
jump between two samples."""


class Implausible(Check):
    """Finds numbers that no arm can have, by the rules of :mod:`..joint_states.plausibility`.

    A number is not finite, a position is beyond :data:`FARTHEST`, or a speed or the motion since
    the last valid sample is implausible. At the first sample, and after a loss, the motion is not
    compared.
    """

    JOINT = {"seen_q": 0.0, "seen_v": 0.0}  # of the previous sample, which may have been refused
    ARM = {"seen": -inf, "kind": PLAUSIBLE, "value": 0.0, "time": 0.0}

    @staticmethod
    @inlined
    def test(sample, settings, memory):  # type: ignore[no-untyped-def]
        """Return the joint of the first implausible number, and store its kind and value."""
        arm = memory.arm[0]
        kind, i = implausible(sample, settings, memory)
        arm.kind = kind
        if i >= 0:
            before = memory.joint[i].q if arm.follows else sample.q[i]
            way = sample.q[i] - before
            way -= whole_turns(way, settings.joint[i].turn)
            arm.value = sample.q[i]
            if kind == TOO_FAST:
                arm.value = sample.v[i]
            elif kind == JUMPED:
                arm.value = abs(way)
        if kind != NOT_FINITE and np.isfinite(sample.stamp) and sample.stamp != arm.seen:
            arm.seen = sample.stamp
            for j in range(sample.q.shape[0]):
                memory.joint[j].seen_q, memory.joint[j].seen_v = sample.q[j], sample.v[j]
        if kind == PLAUSIBLE:
            return PASSED if np.isfinite(sample.stamp) else NO_JOINT
        return i

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the joint, its value and the bound."""
        kind, value, time = found.memory.arm[["kind", "value", "time"]][0]
        if kind == TOO_FAR:
            bound = f"{FARTHEST:g}"
            return f"{found.name} at a position of {value:.4g} is implausible (at most {bound})"
        if kind == TOO_FAST:
            bound = f"{found.settings.joint['highest_speed'][found.joint]:.4g}"
            return f"{found.name} at a speed of {value:.4g} is implausible (at most {bound})"
        if kind == JUMPED:
            return f"{found.name} jumped by {value:.4g} in {time:.3g} s"
        return "joint states are not finite"


@inlined
def implausible(sample, settings, memory):  # type: ignore[no-untyped-def]
    """Return the kind of the first implausible number of a sample, and the index of its joint."""
    q, v, arm, jump = sample.q, sample.v, memory.arm[0], settings.arm[0].implausible_jump
    for i in range(q.shape[0]):
        if not (np.isfinite(q[i]) and np.isfinite(v[i])):
            return NOT_FINITE, i
    elapsed = max(sample.stamp - arm.stamp, 0.0) if arm.follows else 0.0
    unchanged = min(arm.repeated - arm.since, settings.arm[0].timeout) if arm.follows else 0.0
    arm.time = elapsed + unchanged
    for i in range(q.shape[0]):
        if not is_within(q[i], FARTHEST):
            return TOO_FAR, i
        each, speed, turn = memory.joint[i], settings.joint[i].highest_speed, settings.joint[i].turn
        if not is_within(v[i], speed):
            way = q[i] - each.seen_q
            way -= whole_turns(way, turn)
            least, time = (
                CONFIRMED * v[i] ** 2,
                sample.stamp - arm.seen,
            )  # negative: clock went back
            if not time > 0.0 or v[i] * each.seen_v < least or v[i] * way < least * time:
                return TOO_FAST, i
        last_q, last_v = (each.q, each.v) if arm.follows else (q[i], 0.0)
        fastest = max(abs(v[i]), abs(last_v))
        moved = jump + fastest * unchanged
        if has_jumped(q[i], last_q, turn, max(speed, fastest), moved, elapsed):
            return JUMPED, i
    return PLAUSIBLE, NO_JOINT


CLOCK_DRIFT = 1e-3
"""Relative drift of the clock of the stamps that never counts as delay.

Quartz clocks differ by up to 2e-4, and ntpd corrects a clock at up to 5e-4.
"""


class Late(Check):
    """Finds joint states that are much more delayed than the least delayed before them.

    The lag of a joint state is the time of its arrival on a steady clock less its stamp: its delay
    plus the unknown offset of the two clocks. The offset cancels in the difference from the least
    lag, which is the smallest of all lags so far, where each lag counts as larger by
    :data:`CLOCK_DRIFT` times the time since its arrival. A drift of the clock of the stamps up to
    this rate is therefore no delay, and a delay that grows more slowly is not noticed. A clock
    that is slowed down faster, to correct it without a step, cannot be distinguished from a
    growing delay.

    A stamp that does not increase restarts the measurement: the clock of the stamps went back.
    After a gap of more than ``timeout`` since the last sample, valid or refused, in which a paused
    node leaves samples in its queue, the delay is not judged, because the gap itself is a fault.
    """

    ARM = {
        "first_stamp": nan,
        "first_now": nan,
        "least": inf,  # least lag [s]
        "last": -inf,  # stamp of the last joint state that was compared
        "arrival": nan,  # of this joint state [s]
        "excess": 0.0,  # delay of this joint state beyond the least delay [s]
    }

    @staticmethod
    @inlined
    def test(sample, settings, memory):  # type: ignore[no-untyped-def]
        """Return ``NO_JOINT`` if the delay has grown by more than ``delay_growth``."""
        arm, rules, stamp, now = memory.arm[0], settings.arm[0], sample.stamp, sample.now
        if stamp <= arm.last:
            arm.first_stamp, arm.least, arm.arrival = np.nan, np.inf, np.nan
        if np.isnan(arm.first_stamp):
            arm.first_stamp, arm.first_now = stamp, now
        # Differences first: stamps since 1970 have a resolution of 2.4e-7 s, too coarse for a sum.
        lag = (now - arm.first_now) - (stamp - arm.first_stamp)
        if arm.least < np.inf:
            arm.least += CLOCK_DRIFT * max(now - arm.arrival, 0.0)
        arm.least = min(arm.least, lag)
        arm.last, arm.arrival, arm.excess = stamp, now, lag - arm.least
        is_late = 0.0 < rules.delay_growth < arm.excess and not arm.gap > rules.timeout
        return NO_JOINT if is_late else PASSED

    @staticmethod
    def sentence(found: Finding) -> str:
        """Say how late the joint states are."""
        excess, most = found.memory.arm["excess"][0], found.settings.arm["delay_growth"][0]
        return (
            f"joint states arrive too late: their delay has grown by {excess:.3g} s, by more than "
            f"delay_growth ({most:g} s); check the network and the driver"
        )


LEAST_SAMPLES = 3
"""Smallest number of equal samples that can count as frozen."""

LEAST_SPEED = 0.02
"""Largest bias of a velocity at rest [rad/s or m/s].

Slower frozen joint states are found by their tracking error, which grows as slowly.
"""

LEAST_WAY = 0.006
"""Least motion that a velocity promises for equal positions to contradict it [rad or m].

An encoder of 12 bits has steps of 1.5 mrad. A velocity in steps of 0.1 rad/s with a filter of 25 ms
promises 2.7 mrad after the joint has stopped.
"""

PERIODS = 1.5
"""Periods of the updates that repeated samples may last beyond ``repeated_time``.

At 50 Hz one missing update, which makes 0.04 s of equal samples, is thus no fault.
"""

FORGETTING = 0.2
"""Weight of a shorter time between two changes in the longest recent time."""

ROUNDING = 1e-9
"""Rounding error of a difference of stamps [s]."""


class Frozen(Check):
    """Finds joint states that repeat although the arm moves, and their period of updates.

    A driver or simulation that repeats its last sample publishes increasing stamps, so that a
    timeout does not find it. Equal samples are normal in two cases: the hardware updates more
    slowly than the driver publishes, and the arm is at rest, where many drivers report equal
    encoder counts and a velocity that is zero, rounded, or has a constant bias. Joint states are
    therefore frozen only if all positions and velocities repeat to the last digit in
    :data:`LEAST_SAMPLES` samples or more, and for a time T with::

        T > repeated_time + PERIODS * period
        max_i |v_i| > LEAST_SPEED
        max_i |v_i| (T - period) > LEAST_WAY

    where ``period`` is the longest recent time between two changes, at most ``timeout``. They stay
    frozen until a position or velocity changes. :mod:`rbd_control.control.watches` finds joint
    states that froze at rest, once the arm should move.
    """

    JOINT = {"last_q": 0.0, "last_v": 0.0, "last_effort": 0.0}
    ARM = {
        "has_last": False,
        "had_effort": False,
        "equal": 0,  # number of equal samples
        "update_period": 0.0,  # longest recent time between two changes [s]
        "since": 0.0,  # stamp of the first of the equal samples
        "effort_since": 0.0,  # stamp since which measured efforts repeat, too
        "repeated": 0.0,  # stamp of the last sample
        "repeats": False,  # whether the last sample equals the one before
        "is_overdue": False,  # whether it repeats for longer than the hardware explains
        "is_frozen": False,
        "frozen_joint": 0,
        "frozen_for": 0.0,
        "frozen_speed": 0.0,
    }
    is_final = True

    @staticmethod
    @inlined
    def test(sample, settings, memory):  # type: ignore[no-untyped-def]
        """Compare a sample with the previous one; return the fastest joint if it is frozen."""
        arm, rules, stamp, n = memory.arm[0], settings.arm[0], sample.stamp, sample.q.shape[0]
        has_effort, same_effort = True, True
        for i in range(n):
            each = memory.joint[i]
            has_effort = has_effort and np.isfinite(sample.effort[i])
            same_effort = same_effort and sample.effort[i] == each.last_effort
        arm.repeats = repeats(sample, memory)
        if stamp < arm.repeated:  # the clock went back
            arm.since = arm.effort_since = stamp
        if not arm.has_last or (arm.had_effort and not (has_effort and same_effort)):
            arm.effort_since = stamp
        had_last, arm.has_last, arm.had_effort = arm.has_last, True, has_effort
        arm.repeated, fastest, speed = stamp, 0, -1.0
        for i in range(n):
            each = memory.joint[i]
            each.last_q, each.last_v, each.last_effort = (
                sample.q[i],
                sample.v[i],
                sample.effort[i],
            )
            if abs(sample.v[i]) > speed:
                fastest, speed = i, abs(sample.v[i])
        arm.is_overdue = False
        if not arm.repeats:
            if had_last:
                change = min(stamp - arm.since, rules.timeout) - arm.update_period
                arm.update_period += max(change, FORGETTING * change)
            arm.equal, arm.since, arm.is_frozen = 1, stamp, False
            return PASSED
        arm.equal += 1
        time = stamp - arm.since
        arm.is_overdue = time > rules.repeated_time + PERIODS * arm.update_period - ROUNDING
        is_moving = speed > LEAST_SPEED and speed * (time - arm.update_period) > LEAST_WAY
        if not arm.is_frozen and arm.equal >= LEAST_SAMPLES and arm.is_overdue and is_moving:
            arm.is_frozen, arm.frozen_joint = True, fastest
            arm.frozen_for, arm.frozen_speed = time, sample.v[fastest]
        return arm.frozen_joint if arm.is_frozen else PASSED

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the time and the fastest joint."""
        time, speed = found.memory.arm[["frozen_for", "frozen_speed"]][0]
        return (
            f"joint states have repeated to the last digit for {time:.3g} s with "
            f"{found.name} at a speed of {speed:.4g}"
        )


@inlined
def repeats(sample, memory):  # type: ignore[no-untyped-def]
    """Return whether positions and velocities equal those of the last sample to the last digit."""
    same = memory.arm[0].has_last
    for i in range(sample.q.shape[0]):
        each = memory.joint[i]
        same = same and sample.q[i] == each.last_q and sample.v[i] == each.last_v
    return same


CHECKS = (LastValid, Implausible, Late, Frozen, Contradictory)
"""The checks of a joint state."""

_VALID, _IMPLAUSIBLE, _LATE, _FROZEN, _CONTRADICTORY = range(len(CHECKS))
_is_implausible, _is_late = Implausible.test, Late.test
_is_frozen, _is_contradictory = Frozen.test, Contradictory.test

_FADING = 0.05
"""Weight of a new, shorter period in the running largest period."""


@compiled
def judge(sample, settings, memory, out):  # type: ignore[no-untyped-def]
    """Run all checks of a sample, and store it if it is valid.

    A sample that repeats the last one is valid, but no new measurement: it is compared with
    nothing, unless the arm is known to be at rest. The checks compare reported positions, because
    the unwrapping restarts after each loss.

    Args:
        sample: the sample. Its positions are unwrapped in place. If it is implausible, its speeds
            are reduced to the highest plausible ones, in place.
        settings, memory: numbers of the checks.
        out: (4,), written for a valid sample: time since the last one by the stamps, and by the
            arrivals [s], largest recent period [s], and 1 for a sample that repeats the last one.

    Returns:
        Index of the first check in ``CHECKS`` that fails, 0 for a valid sample; and the result of
        its test.
    """
    arm, rules, n = memory.arm[0], settings.arm[0], sample.q.shape[0]
    arm.gap, arm.heard = sample.now - arm.heard, sample.now
    if not (arm.follows and repeats(sample, memory) and np.isfinite(sample.stamp)):
        found = _is_implausible(sample, settings, memory)
        if found != PASSED:
            # Velocities in another unit, or of the motor before its gear, may be implausible in
            # every sample, and would then never be compared with the positions.
            for i in range(n):
                speed = settings.joint[i].highest_speed
                sample.v[i] = min(max(sample.v[i], -speed), speed)
            kind, _ = implausible(sample, settings, memory)
            if kind == PLAUSIBLE and np.isfinite(sample.stamp):
                arm.repeats = False
                joint = _is_contradictory(sample, settings, memory)
                if joint != PASSED:
                    return _CONTRADICTORY, joint
            return _IMPLAUSIBLE, found
    found = _is_late(sample, settings, memory)
    if found != PASSED:
        return _LATE, found
    found = _is_frozen(sample, settings, memory)
    if found != PASSED:
        return _FROZEN, found
    found = _is_contradictory(sample, settings, memory)
    if found != PASSED:
        return _CONTRADICTORY, found
    out[0], out[1] = 0.0, sample.now - arm.now
    if arm.follows:
        out[0] = max(sample.stamp - arm.stamp, 0.0)
        change = min(out[0], rules.timeout) - arm.longest_period
        arm.longest_period += max(change, _FADING * change)
    for i in range(n):
        each, turns = memory.joint[i], 0.0
        if arm.follows and settings.joint[i].turn > 0.0:
            turns = whole_turns(sample.q[i] - each.q, settings.joint[i].turn)
        each.turned = 0.0
        if turns != 0.0:
            each.turned = -turns
            sample.q[i] -= turns
        each.q, each.v = sample.q[i], sample.v[i]
    arm.stamp, arm.now, arm.follows = sample.stamp, sample.now, True
    out[2], out[3] = arm.longest_period, arm.repeats
    return _VALID, PASSED


FORGIVING = 0.06
"""Number of unusable samples that each valid sample makes up for.

One unusable sample in 17.7 keeps the count of unusable samples constant. The count grows if they
are more frequent, and stays below 2 if they are one in 20 or fewer.
"""


class SampleJudge:
    """Validates joint states and stores the last valid sample.

    Call :meth:`set_parameters` first, and then :meth:`take` for each joint state. Unusable samples
    are counted: each adds 1, up to ``bad_samples`` (at least 2), and each valid sample subtracts
    :data:`FORGIVING`.

    Positions of continuous joints are unwrapped here: each position is the one nearest to the
    previous position. All other parts of the controller use the unwrapped positions only. The
    unwrapping restarts with the first sample after a loss of joint states.

    Args:
        model: the arm.

    Attributes:
        continuous: indices of the continuous joints.
        q, v: positions, unwrapped, and velocities of the last valid sample, (nv,) each [rad or m,
            rad/s or m/s].
        stamp: stamp of the last valid sample [s]; minus infinity before the first.
        now: arrival of the last valid sample on a steady clock [s]; minus infinity before the
            first.
        dt: time from the stamp of the previous valid sample [s]; 0 for the first sample after a
            loss.
        wait: time from the arrival of the previous valid sample [s], also after a loss or a
            restart; infinite for the first sample of all.
        good: whether the last valid sample is up to date; false before the first sample, and after
            a loss: a call of :meth:`lose`, or refused samples that are a fault.
        lost: whether the samples refused since the last valid sample are a fault: ``bad_samples``
            unusable samples in a row, an unusable sample more than ``timeout`` after the last valid
            one, ``mixed``, or one sample that is frozen or whose velocity contradicts its
            positions.
        mixed: whether the count of unusable samples has reached its largest value with valid
            samples in between, as from two publishers whose joint states contradict each other. All
            samples are refused then, until the count has fallen by one: 17 valid samples in a row.
        refusal: the reason if the last sample could not be used, otherwise an empty text.
        longest_period: largest period of recent samples, up to ``timeout`` [s]; ``timeout`` at
            first. It rises at once, and falls by 5 % of the difference with each shorter period.
        is_repeating: whether the last valid sample repeats the one before.
    """

    def __init__(self, model: Model) -> None:
        n = model.nv
        self._n = n
        self.continuous: NDArray[np.int64] = continuous_joints(model)
        self.stamp = self.now = -inf
        self.q: Array = np.zeros(n)
        self.v: Array = np.zeros(n)
        self.dt = self.wait = self.longest_period = 0.0
        self.is_repeating: bool | float = False
        self.good = self.lost = self.mixed = False
        self.refusal = ""
        self._in_a_row, self._unusable = 0, 0.0
        self._checks = Checks(CHECKS, n)
        self._joint, self._arm, _ = self._checks.memory
        self._settings: Records | None = None
        self._times, self._no_effort = np.zeros(4), np.full(n, nan)

    def set_parameters(self, limits: ArmLimits, parameters: ControllerParameters) -> None:
        """Use other limits and parameters from the next sample on."""
        self._parameters, self._names = parameters, limits.joint_names
        turn = np.zeros(self._n)
        turn[self.continuous] = TURN
        is_first = self._settings is None
        self._settings = make_settings(
            self._n,
            {"highest_speed": limits.plausible_speed, "turn": turn},
            {
                "implausible_jump": parameters.implausible_jump,
                "timeout": parameters.timeout,
                "delay_growth": parameters.delay_growth,
                "repeated_time": parameters.repeated_time,
                "velocity_mismatch": parameters.velocity_mismatch,
            },
        )
        if is_first:
            self._arm["longest_period"] = self.longest_period = parameters.timeout
            zero = np.zeros(self._n)
            sample = Sample(0.0, 0.0, zero, zero, zero)
            given = sample, self._settings, self._checks.memory, self._times
            self._judge = for_types_of(judge, given)

    def reset(self) -> None:
        """Discard all samples; the next sample counts as the first."""
        self.lose()
        self.mixed, self._in_a_row, self._unusable = False, 0, 0.0
        for check in (Implausible, Late, Frozen, Contradictory):
            self._checks.forget(check)
        self._arm["longest_period"] = self.longest_period = self._parameters.timeout

    def lose(self) -> None:
        """Mark the last sample as out of date: the next one is not checked for a jump from it.

        ``good`` becomes False. Continuous joints are unwrapped anew from the next valid sample. The
        checks for frozen joint states and contradictory velocities go on.
        """
        self.good, self.refusal = False, ""
        self._arm["follows"] = False

    def restart_clock(self) -> None:
        """Mark the last sample as out of date, because the clock of the stamps jumped.

        Frozen joint states remain frozen until a position or velocity changes.
        """
        self.lose()
        if not self._arm["is_frozen"][0]:
            self._checks.forget(Frozen)
        self._checks.forget(Late)

    def take(self, stamp: float, q: Any, v: Any, now: float, effort: Any = None) -> str:
        """Validate one sample and, if it is valid, store it.

        A sample is refused if it has no velocity or another number of joints, and by
        :data:`CHECKS`.

        Args:
            stamp: stamp of the sample [s].
            q, v: reported positions and velocities, (nv,) each [rad or m, rad/s or m/s]; ``v`` None
                if it is missing.
            now: arrival of the sample on a steady clock [s].
            effort: measured efforts in any unit, (nv,), for :attr:`time_at_rest`; None if they are
                missing. Efforts of another shape count as missing.

        Returns:
            The reason if the sample is refused, otherwise an empty text.
        """
        try:
            sample = self._sample(stamp, q, v, now, effort)
        except (TypeError, ValueError, OverflowError) as error:
            self._arm["heard"] = now
            return self._reject(str(error), now)
        assert self._settings is not None
        failed, joint = self._judge(sample, self._settings, self._checks.memory, self._times)
        if failed:
            check = CHECKS[failed]
            sentence = check.sentence(
                Finding(self._names, joint, self._settings, self._checks.memory)
            )
            if check.is_final:
                self.lose()
                self.lost, self.refusal = True, sentence
                return sentence
            return self._reject(sentence, now)
        self.dt, self.wait, self.longest_period, self.is_repeating = self._times.tolist()
        self.stamp, self.now, self.q, self.v = stamp, now, sample.q, sample.v
        return self._forgive()

    def reported(self, q: Array) -> Array:
        """Return positions without the offset of the unwrapping, as the encoders report them.

        Args:
            q: unwrapped positions, (nv,) [rad or m].
        """
        turned = self.turned
        return q if turned is None else q - turned

    @property
    def turned(self) -> Array | None:
        """Offset that unwrapping has added, (nv,) [rad]; None means zero for all joints."""
        if not self.continuous.size:
            return None
        turned: Array = self._joint["turned"].copy()
        return turned if turned.any() else None

    def silent(self, now: float) -> bool:
        """Return whether the last valid sample arrived more than ``timeout`` before ``now`` [s]."""
        return now - self.now > self._parameters.timeout

    @property
    def longest_repetition(self) -> float:
        """Longest time for which samples may be equal because of slow hardware [s]."""
        return self._parameters.repeated_time + PERIODS * float(self._arm["update_period"][0])

    @property
    def time_at_rest(self) -> float:
        """Time for which samples have repeated [s]; 0 below ``repeated_time_at_rest``.

        Only the time for which measured efforts repeated as well counts: while efforts change, the
        driver is not frozen.
        """
        stamp, since, effort_since = self._arm[["repeated", "since", "effort_since"]][0]
        time = float(stamp - max(since, effort_since))
        return time if time >= self._parameters.repeated_time_at_rest - ROUNDING else 0.0

    def _sample(self, stamp: float, q: Any, v: Any, now: float, effort: Any) -> Sample:
        """Copy the fields of a sample into contiguous arrays, as the kernel requires."""
        if v is None:
            raise ValueError("joint states carry no velocity")
        position = np.array(q, dtype=np.float64)
        velocity = np.array(v, dtype=np.float64)
        shape = (self._n,)
        if position.shape != shape or velocity.shape != shape:
            raise ValueError(
                f"joint states of shape {position.shape} and {velocity.shape}; the arm has "
                f"{self._n} joints"
            )
        measured = self._no_effort if effort is None else np.array(effort, dtype=np.float64)
        if measured.shape != shape:
            measured = self._no_effort
        return Sample(stamp, now, position, velocity, measured)

    @property
    def _most_unusable(self) -> int:
        """Number of unusable samples, less those made up for, that is a fault."""
        return max(self._parameters.bad_samples, 2)

    def _forgive(self) -> str:
        """Count a valid sample; return the reason if all samples are refused, or ""."""
        self._in_a_row = 0
        self._unusable = max(self._unusable - FORGIVING, 0.0)
        self.mixed = self.mixed and self._unusable > self._most_unusable - 1
        if self.mixed:
            self.refusal = "unusable joint states have arrived among valid joint states"
        else:
            self.refusal = ""
        self.good, self.lost = not self.mixed, self.mixed
        return self.refusal

    def _reject(self, refusal: str, now: float) -> str:
        most = self._most_unusable
        self._in_a_row += 1
        self._unusable = min(self._unusable + 1.0, most)
        self.mixed = self.mixed or self._unusable >= most > self._in_a_row
        if self.mixed:
            refusal = (
                f"{refusal}; such joint states arrive among valid joint states; check whether "
                "there is a second publisher"
            )
        if self.mixed or self._in_a_row >= self._parameters.bad_samples or self.silent(now):
            self.lose()
            self.lost = True
        self.refusal = refusal
        return refusal
