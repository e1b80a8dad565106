"""State of a simulated arm and its controller, and which motion the orders so far allow."""

from __future__ import annotations

from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.control.gains import HELD, Loop, law_gains, resonances
from rbd_control.control.kernels import LARGEST_STEP
from rbd_control.control.safe_torque import RATE
from rbd_control.dynamics import Model, gravity_torque, mass_matrix
from stateful.history import FLOAT, FOLLOW, HOLD, MODES, SAFE, History
from stateful.plant import Plant
from stateful.setup import Orders, Setup

Array = NDArray[np.float64]

VERDICT_LOST = 1.0
"""Silence of a detector after which its last verdict is out of date [s]."""

BEGINNING = 10.0
"""Steady time at the beginning of an example [s]."""

MOST_TURN = 1.5
"""Rate of a brake times its delay above which it may add energy, see ``safe_torque.py``."""

FILTER_DELAY = 0.9
"""Delay of the filter of the velocities, in periods of the resonance: 29 ms at 30 Hz."""

LIE_LASTS = 1.0
"""Time after wrong joint states in which the controller may still act on them [s]."""

LEAST_MARGIN = 1.5
"""Gain margin of a well damped loop, with the constant damping that the controller leaves out."""

_KINDS = {SAFE: 0, HOLD: 1, FOLLOW: 1, FLOAT: 2}
_NUMBER_OF = {mode: i for i, mode in enumerate(MODES)}


def is_of_a_drive(reason: str) -> bool:
    """Return whether a reason says that a drive acts against its command."""
    return "reversed or dead drive" in reason or "are swapped" in reason


class RigState:
    """Keeps the state of an arm and its controller, and writes the history.

    An entry of the history is the row since which the mode has been of one kind (hold and follow
    are one) while nothing disturbed the arm: no push, no bad joint states, no change of parameters.
    """

    distrusts = False
    """Whether the controller has distrusted a drive since the last start."""
    distrusted_at = -inf
    """When it did [s]."""
    late_until = -inf
    """When the joint states were late for the last time [s]."""

    # Long: one line for each part of the state.
    def __init__(
        self, setup: Setup, controller_type: type[PassivityController] = PassivityController
    ) -> None:
        self.setup, self.arm = setup, setup.arm
        model = self.arm.model
        self.n = model.nv
        self.period = setup.period
        self.now = BEGINNING
        self.stamp = 1000.0
        self._usable_stamp = self.stamp
        self._heard = self.now
        self.q = np.array(setup.start or self.arm.home, dtype=float)
        self.v, self.motors, self.push = (np.zeros(self.n) for _ in range(3))
        self.pushed_until = -inf
        """Time of the end of the last push, by a mechanical stop too [s]."""
        self.struck_until = -inf
        """Time of the end of the last contact with a mechanical stop [s]."""
        self.lied_at = -inf
        """When joint states or stamps were last wrong, or repeated [s]."""
        self.level, self.worked = nan, 0.0
        """Energy at the fault, and work since for which the brake is not responsible [J]."""
        self.fault_speed = np.zeros(self.n)
        """Speed at the fault, at least the velocity limit, (n,) [rad/s or m/s]."""
        self.is_shoved = False
        """Whether a push has made the arm faster than its velocity limits, and it still is."""
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
        self._way_until = self._mismatch_until = -inf
        """Times until which the way to another arm, and its velocities, may be remembered [s]."""
        self.lag = 0.0
        """Delay of the joint states [s]."""
        self.excess = 0.0
        """Delay beyond the least one since the start [s]; NaN if a jump of the stamps hides it."""
        self.verdict: bool | None = None
        self._verdict_time = -inf
        """Steady time at which the detector last spoke."""
        self._last_verdict = False
        self._watch_time = self.now
        self._unusable, self._frozen = 0, 0.0
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
        self.stopping_for = 0.0
        """Time on the stamps for which a stop may still swing out and back [s]."""
        self.outside = np.zeros(self.n)
        """By how much the desired position may lie beyond each limit [rad or m]."""
        self.restarted: list[int] = []
        """Rows of joint states from which on a brake has to grow anew."""
        self._kind, self._entry = 0, 0
        self._prompt_of: ControllerParameters | None = None
        self._is_prompt = False
        parameters = ControllerParameters(gravity_compensated=setup.compensated, **setup.parameters)
        self.controller = controller_type(model, parameters)
        self._plant = Plant(setup)
        self.payload = 0.0
        """Mass of the announced payload [kg]."""

    # --- What is known of the arm ------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time since the beginning of the example [s]."""
        return self.now - BEGINNING

    @property
    def parameters(self) -> ControllerParameters:
        return self.controller.parameters

    @property
    def desired(self) -> Array:
        """The position that a trajectory should start from, (n,) [rad or m]."""
        return self._desired[0]

    @property
    def beyond(self) -> Array:
        """Excess of the desired position over the limits, (n,); negative below [rad or m]."""
        model, q = self.arm.model, self.desired
        excess: Array = np.maximum(q - model.upper_limit, 0.0)
        return excess - np.maximum(model.lower_limit - q, 0.0)

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
    def is_prompt(self) -> bool:
        """Whether the loop is fast enough for the gains: each joint has a margin."""
        if self._prompt_of is not self.parameters:
            self._prompt_of, self._is_prompt = self.parameters, self._has_margin()
        return self._is_prompt and self.lag == 0.0

    def _has_margin(self) -> bool:
        p, setup = self.parameters, self.setup
        if setup.elastic is not None and not 0.0 < p.resonance <= setup.elastic.resonance:
            return False
        gains = law_gains(p, self.controller.model)
        inertia = 1.0 / np.diagonal(np.linalg.inv(mass_matrix(self.arm.model, self.arm.home)))
        inertia = inertia + self._plant.rotor
        rates = gains.damping_rate + gains.damping / inertia
        joints = resonances(p.resonance, self.controller.model)
        delay = setup.delay + setup.velocity_lag
        return all(
            Loop(self.period, delay, resonance).margin(rate, bandwidth) >= LEAST_MARGIN
            for resonance, rate, bandwidth in zip(joints, rates, gains.Lambda, strict=True)
        )

    @property
    def ringing(self) -> Array:
        """Speeds to which steps of the torque limits excite light rotors, (n,) [rad/s or m/s]."""
        return self._plant.ringing(self.largest)

    @property
    def brakes_in_time(self) -> bool:
        """Whether the brake of mode safe is weak enough for the true delay of the loop."""
        p, setup, known = (
            self.parameters,
            self.setup,
            HELD * self.period + self.parameters.loop_delay,
        )
        rate = min(p.damping_rate or RATE, LARGEST_STEP / known)
        delay = HELD * self.period + setup.delay + setup.velocity_lag
        if p.resonance > 0.0:
            delay += FILTER_DELAY / p.resonance
        return self.lag == 0.0 and rate * delay < MOST_TURN

    @property
    def is_honest(self) -> bool:
        """Whether joint states have lately been of the present and of this arm."""
        return self.lag == 0.0 and self.now > self.lied_at + LIE_LASTS

    @property
    def tank_is_known(self) -> bool:
        """Whether weight and work of the arm are what the controller takes them for."""
        is_late = self.setup.delay > 0.0 or self.lag > 0.0
        return not self.is_unknown and self.payload == 0.0 and not is_late

    @property
    def is_unknown(self) -> bool:
        """Whether the payload of the arm is another than the announced one."""
        return self._plant.payload != self.payload

    @property
    def posture_is_known(self) -> bool:
        """Whether the controller has certainly accepted the last joint state."""
        return self._unusable == 0 and self.controller.mode != "safe"

    @property
    def settling_time(self) -> float:
        """Time in which tracking errors fade at the present gains [s]."""
        gains = law_gains(self.parameters, self.controller.model)
        return 0.1 + 10.0 / float(gains.Lambda.min()) + 10.0 / (gains.damping_rate + 1.0)

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

    def lacking_torque(self) -> Array:
        """Torque that the limits lack for the weight at the last usable sample, (n,) [N·m or N]."""
        limit = self._effort_limit if self.setup.compensated else self.largest
        weight = np.abs(gravity_torque(self._plant.described, self._last_q))
        return np.maximum(weight - limit, 0.0)

    def brake(self, command: Command, q: Array) -> Array | None:
        """Part of a command at the shown position that brakes the arm; None but in mode safe."""
        if command.mode != "safe" or not command.torque.any():
            return None
        return command.torque - self.safe_weight(q)

    def safe_weight(self, q: Array) -> Array:
        """Weight in the commands of mode safe at positions ``q``, (..., n) [N·m or N]."""
        if self.setup.compensated or self.parameters.safe_torque == "zero":
            return np.zeros_like(q)
        weight = gravity_torque(self.controller.law.model, q)
        return np.clip(weight, -self.largest, self.largest)

    # --- Orders ------------------------------------------------------------------------------

    def allow_motion(self) -> None:
        """No order to stop holds any longer; motion may lead back to what is desired now."""
        self.orders.stopped = nan
        self.asked = self.desired.copy()
        self.asked_at = self.history.column("seen_q")[-1].copy()

    def expect_stop(self) -> None:
        """From now on the arm must stop, and stay; a stop under way may end as it was planned."""
        orders = self.orders
        orders.pauses.clear()
        stop_time = self._time_to_stop()
        orders.stopped, orders.stop_row = self.now, self.history.rows
        orders.stop_time = stop_time
        self.longest_stop = max(self.longest_stop, orders.stop_time)

    def expect_pause(self) -> None:
        """From now on the arm must stop; then it may move again."""
        wait = self._time_to_stop() + 3.0 * self.period
        self.allow_motion()
        self.orders.retreat_row = self.history.rows
        self.orders.pauses.append((self.history.rows, self.now + wait))

    def _time_to_stop(self) -> float:
        """Longest time that a stop ordered now may take [s]; a stop under way goes on."""
        left = self.orders.stopped + self.orders.stop_time - self.now
        return max(self.parameters.stop_time, left if left > 0.0 else 0.0)

    def due_pauses(self) -> list[tuple[int, float]]:
        """Return the pauses that must have come by now; each is returned once."""
        due = [pause for pause in self.orders.pauses if pause[1] <= self.now]
        self.orders.pauses = [pause for pause in self.orders.pauses if pause[1] > self.now]
        return due

    def set_parameters(self, parameters: ControllerParameters) -> None:
        """Change parameters while the arm moves, after the checks of the node."""
        requires = parameters.require_detector and not self.parameters.require_detector
        self._change(parameters, self.controller.model)
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

    def attach(self, mass: float) -> None:
        """Let the arm carry a payload without an announcement [kg]."""
        self._plant.attach(mass)
        self.disturbed = True

    def _change(self, parameters: ControllerParameters, model: Model) -> None:
        self.controller.check_parameters(parameters, model)
        parameters.require_stable(self.period)
        self.controller.refuse_heavier(parameters, model)
        self.controller.set_parameters(parameters, model)

    # --- History -----------------------------------------------------------------------------

    def _write(self, command: Command | None, seen_q: Array, seen_v: Array) -> None:
        mode = _NUMBER_OF[self.controller.mode if command is None else command.mode]
        kind = _KINDS[mode]
        if command is not None:
            self._desired = command.q_d, command.v_d
        disturbed = self.disturbed
        if disturbed or kind != self._kind:
            self._kind, self._entry = kind, self.history.rows
            self.disturbed = False
        if command is not None and not self.distrusts and is_of_a_drive(command.reason):
            self.distrusts, self.distrusted_at = True, self.now
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
                self.controller.path.brake_share,
                self._plant.energy(self.q, self.v),
                self._plant.given,
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
