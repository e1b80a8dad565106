"""The controller on a simulated arm, with everything that can go wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.samples import CLOCK_DRIFT, FORGIVING
from rbd_control.control.velocity_match import MEMORY
from rbd_control.dynamics import gravity_torque
from rbd_control.errors import InputError
from stateful.rig_state import VERDICT_LOST, RigState

Array = NDArray[np.float64]

WATCHDOG_PERIOD = 0.01
"""Period at which the node calls :meth:`PassivityController.silence` [s]."""

TOO_LATE = "their delay has grown"
"""Part of the reason for a fault of joint states that are too late."""

FORGOTTEN = 0.6
"""Time after which velocities that contradicted the positions have no effect any more [s]."""

VERDICT_PERIOD = 0.02
"""Period at which a detector repeats its verdict [s]."""


class Rig(RigState):
    """Runs an arm and its controller period by period.

    Joint states are shown to the controller as :class:`Setup` and the faults of the moment say.
    The watchdog of the node and the detector that repeats its verdict are part of it.
    """

    # --- What the controller is shown --------------------------------------------------------

    def measure(self) -> tuple[Array, Array]:
        """Return position and velocity as the encoders report them now, or ``lag`` ago."""
        return self._plant.measure(*self._seen())

    def _seen(self) -> tuple[Array, Array]:
        """Return the true position and velocity that encoders without errors report now."""
        if self.lag == 0.0:
            return self.q, self._plant.velocity(self.v)
        # Each row of the history has the state of its time, and the present state has none yet.
        row, part = divmod(max(self.history.rows - self.lag / self.period, 0.0), 1.0)
        q, v = (
            np.vstack([self.history.column(name, int(row))[:2], present])
            for name, present in (("q", self.q), ("v", self.v))
        )
        return (1.0 - part) * q[0] + part * q[1], (1.0 - part) * v[0] + part * v[1]

    _fastest_of: tuple[object, Array] = None, np.zeros(0)
    """Parameters, and the highest plausible speeds that follow from them, (n,)."""

    def start(self) -> None:
        """Start, or start again, as the node does when it is activated: the torque is zero then."""
        self.torque = np.zeros(self.n)
        if self.history.rows:
            self._pass_silently()
        if self.parameters.require_detector:
            self.tell(False)
        q, v = self.measure()
        if self._is_too_heavy(q):
            self._start_weak(q, v)
        else:
            self.controller.start(self.stamp, q, v, self.now)
        self.excess, self.distrusts = 0.0, False
        self._usable_stamp, self._heard, self._last_q = self.stamp, self.now, q
        self._unusable, self._frozen = 0, 0.0
        self.disturbed = self.leaves_safe = True
        self.orders.pauses.clear()
        self.tank = self.parameters.tank_capacity
        self.earlier_model = self.controller.law.model
        """Arm as the law knew it before the present step, in which it may have learned."""
        self.expect_stop()

    def _is_too_heavy(self, q: Array) -> bool:
        """Whether the torque limits are too low for the described weight of the arm."""
        share = (
            1.0 if self.setup.compensated else self.parameters.for_joints("torque_share", self.n)
        )
        weight = np.abs(gravity_torque(self._plant.described, q))
        return bool((weight > share * self._effort_limit).any())

    def _start_weak(self, q: Array, v: Array) -> None:
        """Let the controller refuse an arm that is too heavy; take its torque after the start."""
        weak = self.parameters
        try:
            self.controller.start(self.stamp, q, v, self.now)
        except InputError as error:
            if "too heavy" not in str(error):
                raise
        else:
            raise AssertionError("an arm that is too heavy was started")
        strong = replace(weak, effort_limit=(1e5,), torque_share=(1.0,))
        self.controller.set_parameters(strong)
        self.controller.start(self.stamp, q, v, self.now)
        self.controller.set_parameters(weak)

    def run(self, periods: int, effort: Array | None = None) -> None:
        """Let good joint states come, with the effort of the motors or another."""
        for _ in range(periods):
            q, v = self.measure()
            self.shown_effort = self.motors if effort is None else effort
            self.disturbed |= self.lag > 0.0
            self._show(q, v)
            self.disturbed = self.push.any()

    def fall_behind(self, by: float, periods: int) -> bool:
        """Let the delay of the joint states grow.

        Args:
            by: growth of the delay, less than the time in which it grows [s].
            periods: number of joint states until then.

        Returns:
            Whether the controller has noticed it in time: mode safe and no torque, once more than
            ``bad_samples`` of them have been later than ``delay_growth`` permits; and not before.
        """
        kept, late, most = True, 0, self.parameters.delay_growth
        may_say_so = self.controller.mode == "safe"  # the reason may be an earlier delay
        for _ in range(periods):
            self._delay_by(by / periods)
            self.run(1)
            late += 0.0 < most < self.excess - CLOCK_DRIFT * self.time
            if late > self.parameters.bad_samples:
                kept &= self.controller.mode == "safe" and not self.torque.any()
            if not may_say_so and (most == 0.0 or self.excess < most):
                kept &= TOO_LATE not in self.history.reasons[-1]
        return kept

    def _delay_by(self, more: float) -> None:
        self.lag, self.stamp, self.excess = self.lag + more, self.stamp - more, self.excess + more
        # The desired motion passes with the stamps.
        self.orders.stopped += more
        self.orders.pauses = [(row, until + more) for row, until in self.orders.pauses]

    def catch_up(self) -> None:
        """Let the joint states be on time again; those on the way are dropped."""
        self.stamp += self.lag
        self.excess = max(self.excess - self.lag, 0.0)
        self.lag, self.late_until, self.disturbed = 0.0, self.now, True
        self.lied_at = self.now

    def repeat(self, periods: int) -> None:
        """Let the joint state of now come again and again, with stamps that go on."""
        q, v = self.measure()
        self._show(q, v)
        self.disturbed = True
        for _ in range(periods):
            self._frozen += self.period
            self._show(q, v)
        self._frozen, self.lied_at = 0.0, self.now
        self.disturbed = True

    def contradict(self, wrong: Callable[[Array], Array], periods: int) -> bool:
        """Let joint states come with wrong velocities.

        Returns:
            Whether the controller has noticed it in time: mode safe and no torque, once a joint has
            moved by so much more or less than its velocities that there is no doubt.
        """
        recent = self.history.column("v")[-round(0.3 / self.period) :]  # has its share in the path
        difference, path = np.zeros(self.n), np.abs(recent).sum(axis=0) * self.period
        most = 3.0 * self.parameters.velocity_mismatch
        last, before, noticed = self.q.copy(), self.v.copy(), True
        late = self.now - self._silent_at < 0.2  # stamps may have been late
        late |= self.now < self._way_until
        for k in range(periods):
            q, v = self.measure()
            way, expected = self.q - last, wrong(v) * self.period
            difference, path = (
                difference + way - expected,
                path + np.maximum(abs(way), abs(expected)),
            )
            last = self.q.copy()
            self.disturbed = True
            self.restarted.append(self.history.rows)  # the brake is against the wrong velocity
            self._show(q, wrong(v))
            filtered = 0.025 * np.abs(wrong(v) - before)  # a filter may explain so much of a jump
            clear = np.abs(difference) > most + 0.75 * path + filtered
            is_clear = clear.any() and not late
            if is_clear and not self.lag and k * self.period <= 0.05:
                noticed &= self.controller.mode == "safe" and not self.torque.any()
        self.disturbed, self.lied_at = True, self.now
        return noticed

    def interleave(self, distance: float, follows: bool, periods: int) -> bool:
        """Let every other joint state be of another publisher, as two with half the rate each.

        Args:
            distance: of the other arm from this one, at first, on each joint [rad or m].
            follows: whether the other arm moves as this one does, or stands still.
            periods: number of joint states.

        Returns:
            Whether the controller has noticed it in time: mode safe and no torque, once more joint
            states in succession have contradicted each other than are a fault.
        """
        place, in_time, contradictions = self.q + distance, True, 0
        for k in range(periods):
            q, v = self.measure()
            if k % 2:
                if follows:
                    place = self.q + distance
                contradictions = contradictions + 1 if self._contradicts(place, q) else 0
                q, v = self._plant.measure(place, v if follows else np.zeros(self.n))
            self.disturbed = True
            self.restarted.append(self.history.rows)
            self._show(q, v)
            reason = self.history.reasons[-1]
            if "velocity_mismatch" in reason:
                contradictions = 0  # this fault has its own count
            if "at a speed of" in reason and "among valid joint states" not in reason:
                contradictions = 0  # both are too fast, so that neither is compared with the other
            if self._unusable < -1:
                contradictions = 0  # so they are, while the reason of mode safe is an earlier one
            if contradictions > self._most_contradictions:
                in_time &= self.controller.mode == "safe" and not self.torque.any()
        self.disturbed, self.lied_at = True, self.now
        self._way_until = self.now + FORGOTTEN
        return in_time

    @property
    def _most_contradictions(self) -> int:
        """Number of unusable joint states among as many good ones that is a fault, and one more."""
        return round(max(self.parameters.bad_samples, 2) / (1.0 - FORGIVING)) + 2

    def _contradicts(self, q: Array, other: Array) -> bool:
        """Whether no arm can move from one position to another within two periods."""
        way = np.abs(q - other)
        turns = self.arm.continuous
        way[turns] = np.abs(np.remainder(way[turns] + np.pi, 2.0 * np.pi) - np.pi)
        most = self.parameters.implausible_jump + 2.0 * self.period * self._fastest
        return bool((way > most).any())

    def wait_amid_two_publishers(self, distance: float) -> tuple[bool, bool]:
        """Show the inactive controller an arm at rest, and another arm, then the first alone.

        Returns:
            Whether the controller finds the contradiction, if there is one, and then its end.
            A plausible motion to the other arm contradicts the velocities instead. For 0.5 s after
            it joint states are not compared with each other, and this is not judged.
        """
        self.torque = np.zeros(self.n)
        self.orders.pauses.clear()  # the brakes hold the arm
        if self.lag > 0.0:  # wait until they show the arm at rest, and its motion is forgotten
            # What remains of a fast joint's motion contradicts the rest until it has faded.
            fading = MEMORY * np.log(1.0 / self.parameters.velocity_mismatch)
            for _ in range(round((self.lag + fading + FORGOTTEN) / self.period)):
                self._observe(0.0)
        contradicts = self._contradicts(self.q + distance, self.q)
        is_clear = contradicts and self.now > self._mismatch_until
        for k in range(2 * self._most_contradictions + 2):
            self._observe(distance * (k % 2))
        if not contradicts:
            self._mismatch_until = self.now + FORGOTTEN
        noticed = self.controller.observed.mixed or not is_clear
        for _ in range(25):
            self._observe(0.0)
        return noticed, not self.controller.observed.mixed or not is_clear

    def _observe(self, distance: float) -> None:
        self._heard = self.now + 0.99 * self.period  # an inactive controller has no timeout
        place = self.q.copy()
        self._pass_silently()
        self.q[:], self.v[:] = place, 0.0  # the brakes are closed
        self._plant.lock(place)
        q, v = self._seen()
        q, v = self._plant.measure(q + distance, v)
        self.controller.observed.take(self.stamp, q, v, self.now)

    def show(self, q: Array, v: Array | None, stamp: float | None = None) -> None:
        """Let one joint state come that no controller may use."""
        self.disturbed = True
        self._show(q, v, stamp, unusable=True)
        self.disturbed = True

    def silence(self, periods: int) -> None:
        """Let no joint states come."""
        for _ in range(periods):
            self._watch()
            self._speak()
            self._pass_silently()

    def _pass_silently(self) -> None:
        self.now += self.period
        # The desired motion stands while no joint states come.
        self.orders.pauses = [(row, until + self.period) for row, until in self.orders.pauses]
        self._silent_at = self.now
        self.stamp += self.period
        self.disturbed = True
        self._write(None, self.q, self.v)
        self._move()
        self.disturbed = True  # the next joint state may be the first to show the gap

    def jump(self, seconds: float) -> None:
        """Let the stamps jump."""
        self.stamp += seconds
        self.excess = nan
        self.disturbed, self.lied_at = True, self.now
        self.orders.jump_row = self.history.rows
        if self.orders.stopped == self.orders.stopped:
            self.orders.stopped = self.now

    def restart_clock(self, seconds: float) -> None:
        """Let the stamps jump and tell the controller, which takes the next sample as the first."""
        self.controller.clock_went_back()
        self.restarted.append(self.history.rows)
        self.jump(seconds)
        self.excess = 0.0
        self._usable_stamp, self._last_q = self.stamp, self.q.copy()

    def _show(
        self, q: Array, v: Array | None, stamp: float | None = None, *, unusable: bool = False
    ) -> None:
        self.now += self.period
        self.stamp += self.period
        self._heard = self.now
        if unusable:
            self._unusable = max(self._unusable, 0) + 1
        else:
            # After ``bad_samples`` refused joint states any position is accepted, not any speed.
            refused = self._unusable < 0 and -self._unusable > self.parameters.bad_samples
            doubtful = not refused and (self._is_late or self._may_be_a_jump(q))
            doubtful |= bool(v is not None and (np.abs(v) > self._fastest).any())
            self._unusable = min(self._unusable, 0) - 1 if doubtful else 0
        self._speak()
        stamp = self.stamp if stamp is None else stamp
        effort = self.shown_effort
        command = self.controller.update(stamp, q, v, self.now, effort)
        self.torque = command.torque
        self.controller.energy.balance(effort)
        self._watch()
        if unusable:
            self._write(command, self.q, self.v)
        else:
            self._write(command, q, v)
        if self._unusable == 0:
            self._usable_stamp, self._last_q = self.stamp, q
        self._move(self.brake(command, q))

    def _may_be_a_jump(self, q: Array) -> bool:
        """Whether a true position is implausible by the parameters, as after a freeze."""
        change = np.abs(q - self._last_q)
        turns = self.arm.continuous
        change[turns] = np.minimum(change[turns], np.abs(2.0 * np.pi - change[turns]))
        elapsed = max(self.stamp - self._usable_stamp, 0.0)
        return bool((change > self.parameters.implausible_jump + self._fastest * elapsed).any())

    @property
    def _is_late(self) -> bool:
        """Whether joint states may be later than ``delay_growth`` permits."""
        most = self.parameters.delay_growth
        return self.lag > 0.0 and most > 0.0 and not self.excess < most

    @property
    def _fastest(self) -> Array:
        """Highest plausible speed, (n,) [rad/s or m/s]; computed at each change of parameters."""
        if self._fastest_of[0] is not self.parameters:
            limits = np.array([self.arm.model.velocity_limit, self.speed_limit])
            limits = np.where(np.isfinite(limits) & (limits > 0.0), limits, self.arm.assumed_speed)
            fastest: Array = self.parameters.implausible_speed * limits.max(axis=0)
            self._fastest_of = self.parameters, fastest
        return self._fastest_of[1]

    def _watch(self) -> None:
        if self.now - self._watch_time < WATCHDOG_PERIOD - 1e-9:
            return
        self._watch_time = self.now
        command = self.controller.silence(self.now)
        if command is not None:
            self.torque = command.torque

    def _speak(self) -> None:
        if self.verdict is not None and self.now - self._verdict_time >= VERDICT_PERIOD - 1e-9:
            self.tell(self.verdict)

    def tell(self, verdict: bool) -> None:
        """Let the detector tell its verdict."""
        self.verdict, self._verdict_time = verdict, self.now
        self._last_verdict = verdict
        self.controller.contact(verdict, self.now)

    def rises(self, verdict: bool) -> bool:
        """Whether this verdict would be a new contact, as the last one was none, or is lost."""
        lost = self.now - self._verdict_time > VERDICT_LOST
        return verdict and (lost or not self._last_verdict)

    # --- What the arm does -------------------------------------------------------------------

    def _move(self, brake: Array | None = None) -> None:
        self.motors = self._plant.move(self.q, self.v, self.torque, self.push, brake)
        if self._plant.is_at_a_stop(self.q):
            self.pushed_until = self.struck_until = self.now
