"""The controller on a simulated arm, with everything that can go wrong between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from stateful.history import FLOAT, FOLLOW, HOLD, MODES, SAFE, History
from stateful.plant import Plant
from stateful.setup import Orders, Setup

Array = NDArray[np.float64]

WATCHDOG_PERIOD = 0.01
"""Period at which the node calls :meth:`PassivityController.silence` [s]."""

VERDICT_PERIOD = 0.02
"""Period at which a detector repeats its verdict [s]."""

VERDICT_LOST = 1.0
"""Silence of a detector after which its last verdict is out of date [s]."""

_KINDS = {SAFE: 0, HOLD: 1, FOLLOW: 1, FLOAT: 2}
_NUMBER_OF = {mode: i for i, mode in enumerate(MODES)}


class Rig:
    """Runs an arm and its controller period by period, and writes the history.

    Joint states are shown to the controller as :class:`Setup` and the faults of the moment say.
    The watchdog of the node and the detector that repeats its verdict are part of it.

    An entry of the history is the row since which the mode has been of one kind (hold and follow
    are one) while nothing disturbed the arm: no push, no bad joint states, no change of parameters.
    """

    def __init__(
        self, setup: Setup, controller_type: type[PassivityController] = PassivityController
    ) -> None:
        self.setup = setup
        self.arm = setup.arm
        model = self.arm.model
        self.n = model.nv
        self.period = setup.period
        self.now = 10.0
        self.stamp = 1000.0
        self._usable_stamp = self.stamp
        self._heard = self.now
        self.q = np.array(setup.start or self.arm.home, dtype=float)
        self.v = np.zeros(self.n)
        self.motors = np.zeros(self.n)
        self.push = np.zeros(self.n)
        self.pushed_until = -inf
        """Time of the end of the last push, by a mechanical stop too [s]."""
        self.shown_effort: Array | None = self.motors
        """Effort that joint states carry; None when they carry none."""
        self._last_q = self.q.copy()
        self._desired = self.q.copy(), np.zeros(self.n)
        self._silent_at = -inf
        """When joint states were last missing [s]."""
        self.asked = self.q.copy()
        """Desired position when the last trajectory was given [rad or m]."""
        self.asked_at = self.q.copy()
        """Position that the controller had last seen then [rad or m]."""
        self.verdict: bool | None = None
        self._verdict_time = -inf
        """Steady time at which the detector last spoke."""
        self._last_verdict = False
        self._watch_time = self.now
        self._unusable = 0
        self._frozen = 0.0
        self.torque = np.zeros(self.n)
        self.history = History(self.n)
        self.orders = Orders()
        self.disturbed = True
        self.leaves_safe = self.faulted = False
        """Whether the present step may leave safe, and whether it reported a fault."""
        self.tank = 0.0
        """Energy that the tank's promise leaves to the controller [J]."""
        self.longest_stop = 0.0
        self.unforeseen = 0.0
        """Largest unforeseeable work in a period, because the speed changed within it [J]."""
        self.outside_until = self.now
        """Time until which a stop may swing out and back [s]."""
        self.outside = np.zeros(self.n)
        """By how much the desired position may lie beyond each limit [rad or m]."""
        self.restarted: list[int] = []
        """Rows of joint states from which on a brake has to grow anew."""
        self._kind, self._entry = 0, 0
        parameters = ControllerParameters(gravity_compensated=setup.compensated, **setup.parameters)
        self.controller = controller_type(model, parameters)
        self._plant = Plant(setup)
        self.payload = 0.0
        """Mass of the announced payload [kg]."""

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

    def jump(self, seconds: float) -> None:
        """Let the stamps jump."""
        self.stamp += seconds
        self.disturbed = True
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

    # --- What is known of the arm ------------------------------------------------------------

    @property
    def parameters(self) -> ControllerParameters:
        return self.controller.parameters

    @property
    def desired(self) -> Array:
        """The position that a trajectory should start from, (n,) [rad or m]."""
        return self._desired[0]

    @property
    def middle(self) -> Array:
        """Middle of the position limits, (n,) [rad or m]; 0 where there are none."""
        model = self.arm.model
        ends = np.where(self.arm.continuous, 0.0, (model.lower_limit, model.upper_limit))
        return np.asarray(0.5 * (ends[0] + ends[1]))

    @property
    def half_range(self) -> Array:
        """Half the range of the positions, (n,) [rad or m]; 0 where there are no limits."""
        model = self.arm.model
        ends = np.where(self.arm.continuous, 0.0, (model.lower_limit, model.upper_limit))
        return np.asarray(0.5 * (ends[1] - ends[0]))

    @property
    def limited(self) -> int:
        """Index of a joint that does not turn without end."""
        return int(np.argmin(self.arm.continuous))

    @property
    def largest(self) -> Array:
        """Largest torque that a motor may be asked for, (n,) [N·m or N]."""
        return np.asarray(self.parameters.for_joints("torque_share", self.n) * self._effort_limit)

    @property
    def _effort_limit(self) -> Array:
        """Effort limits from parameters or description, (n,) [N·m or N]."""
        given = self.parameters.for_joints("effort_limit", self.n)
        return np.where(given > 0.0, given, self.arm.model.effort_limit)

    @property
    def speed_limit(self) -> Array:
        """Velocity limits, (n,) [rad/s or m/s]; infinite where there are none."""
        given = self.parameters.for_joints("velocity_limit", self.n)
        limit = np.where(given > 0.0, given, self.arm.model.velocity_limit)
        return np.where(limit > 0.0, limit, np.inf)

    @property
    def is_strong(self) -> bool:
        """Whether the torque limits leave room in every posture."""
        payload = max(self.payload, self._plant.payload)
        return bool((self.largest >= 1.5 * self.arm.weight + 20.0 * payload).all())

    @property
    def tank_is_known(self) -> bool:
        """Whether weight and work of the arm are what the controller takes them for."""
        return not self.is_unknown and self.payload == 0.0

    @property
    def is_unknown(self) -> bool:
        """Whether the payload of the arm is another than the announced one."""
        return self._plant.payload != self.payload

    @property
    def settling_time(self) -> float:
        """Time in which tracking errors fade at the present gains [s]."""
        slowest = float(self.parameters.for_joints("bandwidth", self.n).min())
        rate = self.parameters.damping_rate + 1.0
        return 0.1 + 10.0 / slowest + 10.0 / rate

    def quiet_time(self, first: int) -> Array:
        """Time for which arm and desired motion have been at rest, undisturbed, by row [s]."""
        v, v_d = self.history.column("v"), self.history.column("v_d")
        moves = (np.abs(v).max(axis=1) > 0.02) | (np.abs(v_d).max(axis=1) > 1e-6)
        moves |= self.history.column("disturbed") != 0.0
        last = np.maximum.accumulate(np.where(moves, np.arange(moves.size), -1))
        return self.period * np.asarray((np.arange(moves.size) - last)[first:])

    def braking(self, first: int) -> Array:
        """Least torque that a brake can have grown to in mode safe, (rows, n) [N·m or N].

        It grows at half of ``torque_rate`` or more from the third good joint state on. The time
        before the first one after a restart of the clock is unknown, so it cannot grow there.
        """
        numbers, torque = self.history.numbers[: self.history.rows], self.history.column("torque")
        brakes = (numbers[:, 2] == SAFE) & (numbers[:, 5] == 0) & (numbers[:, 7] == 0)
        brakes &= torque.any(axis=1)
        brakes[[row for row in self.restarted if row < brakes.size]] = False
        last = np.maximum.accumulate(np.where(brakes, -1, np.arange(brakes.size)))
        time = self.period * np.maximum(np.arange(brakes.size) - last - 3, 0)[first:, None]
        return np.asarray(0.5 * time * self.parameters.for_joints("torque_rate", self.n))

    def own_weight(self, q: Array) -> Array:
        """Torque that the arm adds to the command at positions ``q``, (..., n) [N·m or N]."""
        return gravity_torque(self._plant.described, q) * self.setup.compensated

    def due_pauses(self) -> list[tuple[int, float]]:
        """Return the pauses that must have come by now; each is returned once."""
        due = [pause for pause in self.orders.pauses if pause[1] <= self.now]
        self.orders.pauses = [pause for pause in self.orders.pauses if pause[1] > self.now]
        return due

    # --- What is remembered ------------------------------------------------------------------

    def allow_motion(self) -> None:
        """No order to stop holds any longer; motion may lead back to what is desired now."""
        self.orders.stopped = nan
        self.asked = self.desired.copy()
        self.asked_at = self.history.column("seen_q")[-1].copy()

    def expect_stop(self) -> None:
        """From now on the arm must stop, and stay; a stop under way may end as it was planned."""
        orders = self.orders
        orders.pauses.clear()
        left = orders.stopped + orders.stop_time - self.now
        orders.stopped, orders.stop_row = self.now, self.history.rows
        orders.stop_time = max(self.parameters.stop_time, left if left > 0.0 else 0.0)
        self.longest_stop = max(self.longest_stop, orders.stop_time)

    def set_parameters(self, parameters: ControllerParameters) -> None:
        """Change parameters while the arm moves, after the checks of the node."""
        self._change(parameters, self.controller.model)
        requires = parameters.require_detector and not self.parameters.require_detector
        if requires and self.now - self._verdict_time > VERDICT_LOST:
            self.expect_stop()  # without a verdict, the arm stops as soon as one is required
        self.disturbed = True
        self.orders.stop_time = max(self.orders.stop_time, parameters.stop_time)
        self.longest_stop = max(self.longest_stop, parameters.stop_time)

    def announce(self, mass: float) -> None:
        """Announce a payload [kg] to controller and arm, after the checks of the node."""
        model = self.arm.loaded(mass)
        self._change(self.parameters, model)
        self.payload, self._plant.described = mass, model
        self.disturbed = True

    @property
    def posture_is_known(self) -> bool:
        """Whether the controller has certainly accepted the last joint state."""
        return self._unusable == 0 and self.controller.mode != "safe"

    def attach(self, mass: float) -> None:
        """Let the arm carry a payload without an announcement [kg]."""
        self._plant.attach(mass)
        self.disturbed = True

    def _change(self, parameters: ControllerParameters, model: Model) -> None:
        self.controller.check_parameters(parameters, model)
        self.controller.refuse_heavier(parameters, model)
        self.controller.set_parameters(parameters, model)

    def lacking_torque(self) -> Array:
        """Torque that the limits lack for the weight at the last usable sample, (n,) [N·m or N]."""
        limit = self._effort_limit if self.setup.compensated else self.largest
        weight = np.abs(gravity_torque(self._plant.described, self._last_q))
        return np.maximum(weight - limit, 0.0)

    def expect_pause(self) -> None:
        """From now on the arm must stop; then it may move again."""
        self.allow_motion()
        wait = self.controller.parameters.stop_time + 3.0 * self.period
        self.orders.pauses.append((self.history.rows, self.now + wait))

    def _write(self, command: Command | None, seen_q: Array, seen_v: Array) -> None:
        mode = _NUMBER_OF[self.controller.mode if command is None else command.mode]
        kind = _KINDS[mode]
        if command is not None:
            self._desired = command.q_d, command.v_d
        disturbed = self.disturbed
        if disturbed or kind != self._kind:
            self._kind, self._entry = kind, self.history.rows
            self.disturbed = False
        self.history.add(
            (
                self.now,
                self.stamp,
                mode,
                command is not None and command.saturated,
                command is not None and command.rate_limited,
                self._unusable,
                self._frozen,
                self.now - self._heard,
                self.stamp - self._usable_stamp,
                self._entry,
                disturbed,
                self.now - self.orders.stopped,
            ),
            (
                self.q,
                self.v,
                seen_q,
                seen_v,
                self.torque,
                *self._desired,
            ),
            "" if command is None else command.reason,
            "" if command is None else command.goal,
        )
