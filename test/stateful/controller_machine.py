"""The state machine that gives a controller every order and every fault, in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from numpy.typing import NDArray

from rbd_control.errors import ParameterError, RbdControlError
from stateful.drawing import (
    FRACTIONS,
    MOST_JOINTS,
    UNUSABLE,
    WRONG_VELOCITIES,
    Fractions,
    changes,
)
from stateful.order_rules import OrderRules
from stateful.rig_state import VERDICT_LOST

Array = NDArray[np.float64]

COUNTS = st.integers(1, 25)

LAST_SHAKE = 6.0
"""Time since the start after which a loop that is not stable is not observed any more [s]."""

DISTANCES = st.sampled_from([0.01, 0.1, 1.0, -1.0])
"""Distances of an arm from another one whose joint states come in between [rad or m]."""


class ControllerMachine(OrderRules):
    """All orders, verdicts of a detector, and everything that can go wrong."""

    # --- The detector ------------------------------------------------------------------------

    @rule(verdict=st.sampled_from([True, True, False]))
    def tell(self, verdict: bool) -> None:
        """The detector tells a verdict, and repeats it from now on; a new contact is reacted to."""
        rig, controller = self.rig, self.rig.controller
        reaction = controller.parameters.contact_reaction
        led = controller.mode in ("hold", "follow")
        rises = rig.rises(verdict)
        rig.tell(verdict)
        if not (rises and led):
            return
        if reaction == "hold":
            rig.expect_stop()
        elif reaction == "retract":
            rig.expect_pause()
        elif reaction == "float":
            rig.allow_motion()
        mode = "float" if reaction == "float" else "hold"
        reacts = reaction == "none" or (controller.mode == mode or reaction == "slow")
        self._keep("a_new_contact_is_reacted_to", reacts, f"{reaction}: in {controller.mode}")
        if reaction != "none" and controller.mode != "safe":
            self._run(rig.period)
            reason = rig.history.reasons[-1]
            self._keep("a_new_contact_is_reacted_to", bool(reason), f"{reaction}: no reason")

    @rule(verdict=st.sampled_from([True, True, False, None]), resumed=st.booleans())
    def lose_the_detector(self, verdict: bool | None, resumed: bool) -> None:
        """The detector dies, perhaps after a last verdict; for so long that this cannot count."""
        if verdict is not None:
            self.tell(verdict)
        if resumed:
            self.resume()
        rig = self.rig
        rig.verdict = None
        if rig.parameters.require_detector:  # when the loss is noticed, the arm stops
            rig.allow_motion()
        for _ in range(10):
            self._run(0.1 * VERDICT_LOST + 0.01)
        if rig.parameters.require_detector:
            rig.expect_stop()

    # --- Things that go wrong ----------------------------------------------------------------

    @rule()
    def fault(self) -> None:
        """Something else tells of a fault."""
        self.rig.faulted = True
        self._order(self.rig.controller.modes.fault, "told by the machine")
        self._run(self.rig.period)

    @rule(torque=FRACTIONS, seconds=st.sampled_from([0.02, 0.1]))
    def push(self, torque: Fractions, seconds: float) -> None:
        """Somebody pushes the arm."""
        rig = self.rig
        rig.push = 0.5 * np.array(torque[: rig.n]) * rig.arm.strength
        self._run(seconds)
        rig.push, rig.pushed_until = np.zeros(rig.n), rig.now
        rig.disturbed = True

    @precondition(lambda self: not self.rig.is_prompt and self.rig.time < LAST_SHAKE)
    @rule()
    def shake(self) -> None:
        """Nothing happens after a push, while a loop with delay may not be stable."""
        if self.rig.controller.mode == "safe":
            self.start_again()
        self.push(tuple(np.linspace(0.2, -0.2, MOST_JOINTS)), 0.02)
        for _ in range(4):
            self._run(0.5)

    @rule(seconds=st.sampled_from([0.005, 0.03, 0.3]))
    def silence(self, seconds: float) -> None:
        """No joint states come."""
        self.rig.silence(max(round(seconds / self.rig.period), 1))
        self._look()

    @rule(kind=st.sampled_from(sorted(UNUSABLE)), count=COUNTS)
    def bad_joint_states(self, kind: str, count: int) -> None:
        """Joint states come that cannot be used."""
        rig = self.rig
        if kind == "a jump":  # from where the arm was; afterwards it may be there
            rig.run(1)
            count = min(count, rig.parameters.bad_samples)
        for _ in range(count):
            rig.show(*UNUSABLE[kind](rig, *rig.measure()))
        self._look()

    @rule(kind=st.sampled_from(sorted(UNUSABLE)), good=st.sampled_from([1, 4, 9, 19]))
    def a_bad_joint_state_now_and_then(self, kind: str, good: int) -> None:
        """One in some joint states cannot be used."""
        rig = self.rig
        for _ in range(10):
            rig.run(good)
            rig.show(*UNUSABLE[kind](rig, *rig.measure()))
        self._look()

    @rule(seconds=st.sampled_from([0.01, 0.03, 0.1, 0.1]))
    def freeze(self, seconds: float) -> None:
        """The driver repeats its last joint state."""
        self.rig.repeat(max(round(seconds / self.rig.period), 1))
        self._look()

    @rule(
        kind=st.sampled_from(sorted(WRONG_VELOCITIES)), seconds=st.sampled_from([0.02, 0.05, 0.3])
    )
    def contradict(self, kind: str, seconds: float) -> None:
        """The velocities contradict the positions."""
        rig = self.rig
        rig.faulted = True
        noticed = rig.contradict(WRONG_VELOCITIES[kind], max(round(seconds / rig.period), 1))
        self._keep("a_contradiction_is_a_fault", noticed, kind)
        self._look()

    @rule(distance=DISTANCES, follows=st.booleans(), seconds=st.sampled_from([0.02, 0.1, 0.3, 0.3]))
    def interleave(self, distance: float, follows: bool, seconds: float) -> None:
        """A second publisher sends joint states of another arm."""
        rig = self.rig
        rig.faulted = True
        noticed = rig.interleave(distance, follows, max(round(seconds / rig.period), 2))
        self._keep("two_publishers_are_a_fault", noticed, f"{distance:g} apart")
        rig.run(round(0.1 / rig.period))  # the comparison of velocities remembers so much
        self._look()

    @precondition(lambda self: self.rig.history.rows > 50)
    @rule(distance=DISTANCES)
    def start_amid_two_publishers(self, distance: float) -> None:
        """The node is deactivated, and waits until the joint states come from one publisher."""
        noticed, over = self.rig.wait_amid_two_publishers(distance)
        self._look()
        self._keep("a_start_waits_for_one_publisher", noticed, f"{distance:g} apart")
        self._keep("a_start_waits_for_one_publisher", over, "it waits for ever")
        self.start_again()

    @rule(by=st.sampled_from([0.01, 0.04, 0.06, 0.1]), slowly=st.booleans())
    def fall_behind(self, by: float, slowly: bool) -> None:
        """The delay of the joint states grows, and stays; after a fault, from a new start on."""
        rig = self.rig
        if rig.controller.mode == "safe":
            self.start_again()
        kept = rig.fall_behind(by, round((4.0 if slowly else 1.5) * by / rig.period))
        rig.run(rig.parameters.bad_samples)
        self._keep(
            "a_growing_delay_is_a_fault", kept, f"{rig.excess:.3g} s: {rig.history.reasons[-1]}"
        )
        self._look()

    @precondition(lambda self: self.rig.lag > 0.0)
    @rule()
    def catch_up(self) -> None:
        """The joint states are on time again."""
        self.rig.catch_up()
        self._run(0.02)

    @rule(seconds=st.sampled_from([-100.0, -0.01, -0.001, 0.01, 0.5, 1e6]))
    def jump_in_time(self, seconds: float) -> None:
        """Stamps jump without a notice of the clock."""
        self.rig.jump(seconds)
        self._run(self.rig.period)

    @rule(seconds=st.sampled_from([-100.0, -0.5, 100.0]))
    def restart_the_clock(self, seconds: float) -> None:
        """Stamps jump, and the controller is told."""
        rig = self.rig
        rig.restart_clock(seconds)
        if rig.controller.mode in ("hold", "follow"):
            rig.expect_stop()
        self._run(rig.period)

    @rule(effort=st.sampled_from([np.nan, np.inf, 1e30, 1e300, 0.0]))
    def absurd_effort(self, effort: float) -> None:
        """Joint states carry an effort that cannot be."""
        self.rig.run(1, np.full(self.rig.n, effort))
        self._look()

    @rule(new=changes())
    def tune(self, new: dict[str, Any]) -> None:
        """Somebody sets parameters."""
        rig = self.rig
        try:
            parameters = replace(rig.parameters, **new)
        except ParameterError:
            return
        lacked = rig.lacking_torque()
        if self._order(rig.set_parameters, parameters):
            self._keep_torque_for_weight(lacked)

    @rule(mass=st.sampled_from([0.0, 0.5, 1.0, 1.0, 60.0]), really=st.booleans())
    def announce_payload(self, mass: float, really: bool) -> None:
        """Announce a payload, which the arm may carry or not."""
        lacked = self.rig.lacking_torque()
        if self._order(self.rig.announce, mass):
            self._keep_torque_for_weight(lacked)
        if really and mass <= 1.0:
            self.rig.attach(mass)
            self.rig.level = np.nan  # its energy comes from elsewhere
        self._run(self.rig.period)

    def _keep_torque_for_weight(self, lacked: Array) -> None:
        """No change that was taken leaves a joint less torque for its weight than it needs."""
        if not self.rig.posture_is_known:
            return
        lacks = self.rig.lacking_torque()
        self._keep("torque_for_the_weight_is_kept", not (lacks > lacked + 1e-3).any(), f"{lacks}")

    @rule()
    def tune_badly(self) -> None:
        """Somebody sets parameters of the wrong length."""
        rig = self.rig
        before = rig.parameters
        taken = self._order(rig.set_parameters, replace(before, damping=(1.0,) * (rig.n + 1)))
        self._keep("a_refused_order_changes_nothing", not taken and rig.parameters is before)

    @precondition(lambda self: self.rig.history.rows > 50)
    @rule()
    def start_again(self) -> None:
        """The node is deactivated and activated again."""
        try:
            self.rig.start()
        except RbdControlError:
            return
        self._run(self.rig.period)
