"""The controller on a simulated arm, with everything that can go wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import gravity_torque
from rbd_control.errors import InputError
from stateful.rig_state import VERDICT_LOST, RigState

Array = NDArray[np.float64]

WATCHDOG_PERIOD = 0.01
"""Period at which the node calls :meth:`PassivityController.silence` [s]."""

VERDICT_PERIOD = 0.02
"""Period at which a detector repeats its verdict [s]."""


class Rig(RigState):
    """Runs an arm and its controller period by period.

    Joint states are shown to the controller as :class:`Setup` and the faults of the moment say.
    The watchdog of the node and the detector that repeats its verdict are part of it.
    """

    # --- What the controller is shown --------------------------------------------------------

    def measure(self) -> tuple[Array, Array]:
        """Return position and velocity as the encoders report them now."""
        return self._plant.measure(self.q, self.v)

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
        self._usable_stamp, self._heard, self._last_q = self.stamp, self.now, q
        self._unusable, self._frozen = 0, 0.0
        self.disturbed = self.leaves_safe = True
        self.orders.pauses.clear()
        self.tank = self.parameters.tank_capacity
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
            self._show(q, v)
            self.disturbed = self.push.any()

    def repeat(self, periods: int) -> None:
        """Let the joint state of now come again and again, with stamps that go on."""
        q, v = self.measure()
        self._show(q, v)
        self.disturbed = True
        for _ in range(periods):
            self._frozen += self.period
            self._show(q, v)
        self._frozen = 0.0
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
            if is_clear and k * self.period <= 0.05:
                noticed &= self.controller.mode == "safe" and not self.torque.any()
        self.disturbed = True
        return noticed

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
        self._silent_at = self.now
        self.stamp += self.period
        self.disturbed = True
        self._write(None, self.q, self.v)
        self._move()
        self.disturbed = True  # the next joint state may be the first to show the gap

    def jump(self, seconds: float) -> None:
        """Let the stamps jump."""
        self.stamp += seconds
        self.disturbed = True
        self.orders.jump_row = self.history.rows
        if self.orders.stopped == self.orders.stopped:
            self.orders.stopped = self.now

    def restart_clock(self, seconds: float) -> None:
        """Let the stamps jump and tell the controller, which takes the next sample as the first."""
        self.controller.clock_went_back()
        self.restarted.append(self.history.rows)
        self.jump(seconds)
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
            refused = self._unusable < 0 and -self._unusable > self.parameters.bad_samples
            doubtful = not refused and self._may_be_refused(q, v)
            self._unusable = min(self._unusable, 0) - 1 if doubtful else 0
        self._speak()
        stamp = self.stamp if stamp is None else stamp
        effort = self.shown_effort
        command = self.controller.update(stamp, q, v, self.now, effort)
        self.torque = command.torque
        self.controller.balance(effort)
        self._watch()
        if unusable:
            self._write(command, self.q, self.v)
        else:
            self._write(command, q, v)
        if self._unusable == 0:
            self._usable_stamp, self._last_q = self.stamp, q
        self._move()

    def _may_be_refused(self, q: Array, v: Array) -> bool:
        """Whether a true joint state is implausible by the parameters, as after a freeze."""
        p = self.parameters
        limits = np.array([self.arm.model.velocity_limit, self.speed_limit])
        limits = np.where(np.isfinite(limits) & (limits > 0.0), limits, self.arm.assumed_speed)
        fastest = p.implausible_speed * limits.max(axis=0)
        change = np.abs(q - self._last_q)
        turns = self.arm.continuous
        change[turns] = np.minimum(change[turns], np.abs(2.0 * np.pi - change[turns]))
        way = p.implausible_jump + fastest * max(self.stamp - self._usable_stamp, 0.0)
        return bool((np.abs(v) > fastest).any() or (change > way).any())

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

    def _move(self) -> None:
        self.motors = self._plant.move(self.q, self.v, self.torque, self.push)
        if self._plant.is_at_a_stop(self.q):
            self.pushed_until = self.now
