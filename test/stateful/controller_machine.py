"""The state machine that gives a controller every order and every fault, in any order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rbd_control.control import PassivityController, TrajectoryPoint
from rbd_control.control.planner import PlannedTrajectory
from rbd_control.errors import ParameterError, RbdControlError, TrajectoryError
from stateful.drawing import (
    AFTERWARDS,
    DURATIONS,
    FRACTIONS,
    PACES,
    PATHS,
    SPOILT,
    UNUSABLE,
    Fractions,
    changes,
    numbers,
    setups,
    spoilt,
    targets,
    timed,
)
from stateful.history import Stretch
from stateful.promises import BrokenPromise, check
from stateful.rig import VERDICT_LOST, Rig, Setup

COUNTS = st.integers(1, 25)
INDICES = st.integers(0, 3)


LONGEST_CROSSING = 4.0
"""Longest time that a crossing of half a turn is followed [s]."""

LONGEST_EXAMPLE = 20.0
"""Computing time after which something in an example must be hanging [s]."""


def _hangs(signum: int, frame: object) -> None:
    raise BrokenPromise("every_call_returns", "No call hangs.", "")


class ControllerMachine(RuleBasedStateMachine):
    """A controller, its arm and its detector; every rule ends with a look at all promises."""

    controller_type: ClassVar[type[PassivityController]] = PassivityController
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Promises that are not looked at."""
    only: ClassVar[frozenset[str]] = frozenset()
    """The only promises that are looked at; empty for all."""
    examples: ClassVar[int] = 0
    samples: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGVTALRM, _hangs)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_EXAMPLE)
        self.rig: Rig = None  # type: ignore[assignment]  # made by begin
        self._checked = 0
        self._planned: PlannedTrajectory | None = None

    def teardown(self) -> None:
        """The example is over."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)

    # --- Beginning and end of a step ---------------------------------------------------------

    @initialize(setup=setups())
    def begin(self, setup: Setup) -> None:
        """Start the controller; without an effort limit of every joint it must refuse."""
        type(self).examples += 1
        try:
            Rig(setup, self.controller_type)
        except ParameterError:  # the drawn parameters do not go together
            setup = replace(setup, parameters={})
        if setup.arm.flaw == "no effort":
            self._must_refuse(setup)
            given = {"effort_limit": tuple(setup.arm.strength.tolist())}
            setup = replace(setup, parameters={**setup.parameters, **given})
        self.rig = Rig(setup, self.controller_type)
        try:
            self.rig.start()
        except RbdControlError as error:
            self._keep("good_joint_states_let_it_start", False, str(error))
            reject()
        self.rig.run(2)
        self._look()

    def _must_refuse(self, setup: Setup) -> None:
        joint = setup.arm.model.joint_names[setup.arm.flawed]
        try:
            Rig(setup, self.controller_type).start()
        except RbdControlError as error:
            self._keep("an_effort_limit_is_needed", joint in str(error), str(error))
        else:
            self._keep("an_effort_limit_is_needed", False, f"it starts without one of {joint}")

    def _look(self) -> None:
        """Hold what happened in this step to the promises."""
        rig = self.rig
        type(self).samples += rig.history.rows - self._checked
        check(Stretch(rig, self._checked), self.ignored, self.only)
        self._checked = rig.history.rows
        rig.leaves_safe = rig.faulted = False

    def _run(self, seconds: float) -> None:
        self.rig.run(max(round(seconds / self.rig.period), 1))
        self._look()

    def _keep(self, name: str, kept: bool, details: str = "") -> None:
        """A promise about the answer to an order."""
        if not kept and name not in self.ignored and (not self.only or name in self.only):
            raise BrokenPromise(name, "", details)

    def _order(self, order: Callable[..., Any], *arguments: Any) -> bool:
        """Give an order; whether it is taken. It may be refused only by an error of the package.

        No order but resume leads out of mode safe.
        """
        before = self.rig.controller.mode
        try:
            order(*arguments)
            taken = True
        except RbdControlError:
            taken = False
        mode = self.rig.controller.mode
        self._keep("only_resume_leaves_safe", before != "safe" or mode == "safe", str(order))
        self._keep("a_refused_order_changes_nothing", taken or mode == before, str(order))
        return taken

    # --- Time passes -------------------------------------------------------------------------

    @rule(seconds=DURATIONS)
    def run(self, seconds: float) -> None:
        """Good joint states come."""
        self._run(seconds)

    # --- Orders ------------------------------------------------------------------------------

    @rule(
        path=PATHS,
        size=st.sampled_from([0.1, 0.4, 1.0]),
        pace=PACES,
        moving=st.booleans(),
        seconds=AFTERWARDS,
    )
    def follow(
        self, path: list[Fractions], size: float, pace: float, moving: bool, seconds: float
    ) -> None:
        """A trajectory within the limits, or nearly, and some time to follow it."""
        self._follow(timed(self.rig, targets(self.rig, path, size), pace, moving))
        self._run(seconds)

    @rule(turns=numbers(-1.0, 1.0), pace=PACES, seconds=AFTERWARDS)
    def turn(self, turns: float, pace: float, seconds: float) -> None:
        """Continuous joints turn on, over half a turn where it comes in between."""
        target = self.rig.desired + np.where(self.rig.arm.continuous, 4.0 * turns, 0.0)
        self._follow(timed(self.rig, [target], pace, False))
        self._run(seconds)

    @precondition(lambda self: bool(self.rig.arm.continuous.any()))
    @rule(sign=st.sampled_from([-1.0, 1.0]), pace=PACES)
    def cross_half_a_turn(self, sign: float, pace: float) -> None:
        """Continuous joints turn over the place where their encoders wrap, to the end of it."""
        rig = self.rig
        if rig.controller.mode == "safe":
            self.resume()
        way = sign * (np.pi + 0.3) - np.remainder(rig.desired + np.pi, 2.0 * np.pi) + np.pi
        points = timed(rig, [rig.desired + np.where(rig.arm.continuous, way, 0.0)], pace, False)
        self._follow(points)
        self._run(min(points[-1].time_from_start + 0.2, LONGEST_CROSSING))

    @rule(nearest=INDICES, beyond=numbers(0.0, 0.4), pace=PACES, seconds=AFTERWARDS)
    def reach_beyond(self, nearest: int, beyond: float, pace: float, seconds: float) -> None:
        """A trajectory to the nearest position limit, or the next nearest, and beyond."""
        rig, model = self.rig, self.rig.arm.model
        target = rig.desired.copy()
        limited = np.flatnonzero(~rig.arm.continuous)
        inside = rig.half_range[limited] - np.abs(target - rig.middle)[limited]
        j = int(limited[np.argsort(inside)[nearest % limited.size]])
        upper = target[j] > rig.middle[j]
        target[j] = model.upper_limit[j] + beyond if upper else model.lower_limit[j] - beyond
        self._follow(timed(rig, [target], pace, False))
        self._run(seconds)

    @rule(direction=FRACTIONS, count=st.integers(2, 6), ahead=numbers(0.02, 0.2))
    def stream(self, direction: Fractions, count: int, ahead: float) -> None:
        """Single points, each before the last is reached."""
        rig = self.rig
        target = rig.desired.copy()
        for _ in range(count):
            target = target + 0.02 * np.array(direction[: rig.n])
            self._follow([TrajectoryPoint(target.tolist(), time_from_start=ahead)])
            self._run(0.02)

    @rule(joint=INDICES, distance=numbers(-0.5, 0.5), seconds=numbers(0.1, 2.0))
    def follow_in_part(self, joint: int, distance: float, seconds: float) -> None:
        """A trajectory of one joint."""
        rig = self.rig
        j = joint % rig.n
        point = TrajectoryPoint([rig.desired[j] + distance], time_from_start=seconds)
        if self._order(rig.controller.set_trajectory, [rig.arm.model.joint_names[j]], [point]):
            rig.allow_motion()

    @rule(
        path=PATHS,
        size=st.sampled_from([0.1, 0.4, 1.0]),
        pace=PACES,
        points=st.sampled_from([0, 0, 60]),
        ahead=st.sampled_from([None, 0.0, 0.02]),
    )
    def plan(
        self, path: list[Fractions], size: float, pace: float, points: int, ahead: float | None
    ) -> None:
        """Plan a trajectory, as the planning thread does, while anything may happen before it ends.

        Planning changes nothing. Plans with more than 50 points cannot be made anew at once.
        """
        rig = self.rig
        wanted = timed(rig, targets(rig, path, size), pace, False)
        wanted += [
            wanted[-1]._replace(time_from_start=wanted[-1].time_from_start + 0.01 * (k + 1))
            for k in range(points)
        ]
        mode, kept = rig.controller.mode, []
        names = rig.arm.model.joint_names
        self._order(lambda: kept.append(rig.controller.plan_trajectory(names, wanted, lead=ahead)))
        self._keep("planning_changes_nothing", rig.controller.mode == mode, mode)
        self._planned = kept[0] if kept else self._planned

    @rule(seconds=AFTERWARDS)
    def accept(self, seconds: float) -> None:
        """Follow the newest plan, however old it is and whatever has happened since."""
        planned, self._planned = self._planned, None
        if planned is None:
            return
        if self._order(self.rig.controller.accept, planned):
            self.rig.allow_motion()
        self._run(seconds)

    def _follow(self, points: list[TrajectoryPoint]) -> None:
        rig = self.rig
        if self._order(rig.controller.set_trajectory, rig.arm.model.joint_names, points):
            rig.allow_motion()

    @rule(kind=st.sampled_from(SPOILT))
    def bad_trajectory(self, kind: str) -> None:
        """A trajectory that must be refused, and changes nothing."""
        names, points = spoilt(self.rig)[kind]
        try:
            self.rig.controller.set_trajectory(names, points)
        except TrajectoryError:
            return
        self._keep("a_bad_trajectory_is_refused", False, kind)

    @rule()
    def hold(self) -> None:
        """Stop here."""
        if self._order(self.rig.controller.hold):
            self.rig.expect_stop()

    @rule()
    def cancel(self) -> None:
        """Stop here and give the trajectory up."""
        if self._order(self.rig.controller.cancel):
            self.rig.expect_stop()

    @rule()
    def let_float(self) -> None:
        """Compensate gravity only."""
        if self._order(self.rig.controller.float_):
            self.rig.allow_motion()

    @rule()
    def slow_down(self) -> None:
        """Go on slowly."""
        self._order(self.rig.controller.slow)

    @rule(link=INDICES, force=FRACTIONS, seconds=st.sampled_from([0.0, 0.15, 0.3]))
    def retract(self, link: int, force: Fractions, seconds: float) -> None:
        """Stop, then move off along a force, for a while."""
        self._touch(link, force)
        if self._order(self.rig.controller.retract):
            self.rig.expect_pause()
        if seconds:
            self._run(seconds)

    @rule(
        link=INDICES,
        force=FRACTIONS,
        seconds=st.sampled_from([0.05, 0.15, 0.3]),
        cancels=st.booleans(),
    )
    def stop_a_retraction(self, link: int, force: Fractions, seconds: float, cancels: bool) -> None:
        """Stop while the arm moves off along a force."""
        self.retract(link, force, seconds)
        if cancels:
            self.cancel()
        else:
            self.hold()
        self._run(0.5)

    @rule(link=INDICES, force=FRACTIONS)
    def touched(self, link: int, force: Fractions) -> None:
        """The detector tells of a force."""
        self._touch(link, force)

    def _touch(self, link: int, force: Fractions) -> None:
        links = (*self.rig.arm.model.joint_links, "nowhere")
        self.rig.controller.touched(links[link % len(links)], 50.0 * np.array(force[:3]))

    @rule()
    def resume(self) -> None:
        """Go on after whatever it was."""
        rig, controller = self.rig, self.rig.controller
        before = controller.mode
        try:
            answer = controller.resume(rig.now)
        except RbdControlError:
            self._keep("a_refused_order_changes_nothing", controller.mode == before)
            return
        rig.leaves_safe = True
        if controller.mode == "follow":
            rig.allow_motion()
        elif controller.mode == "hold" and "nothing" not in answer:
            rig.expect_stop()
        self._run(rig.period)

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
        self._order(self.rig.controller.fault, "told by the machine")
        self._run(self.rig.period)

    @rule(torque=FRACTIONS, seconds=st.sampled_from([0.02, 0.1]))
    def push(self, torque: Fractions, seconds: float) -> None:
        """Somebody pushes the arm."""
        rig = self.rig
        rig.push = 0.5 * np.array(torque[: rig.n]) * rig.arm.strength
        self._run(seconds)
        rig.push = np.zeros(rig.n)
        rig.disturbed = True

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

    @rule(seconds=st.sampled_from([0.01, 0.03, 0.1, 0.1]))
    def freeze(self, seconds: float) -> None:
        """The driver repeats its last joint state."""
        self.rig.repeat(max(round(seconds / self.rig.period), 1))
        self._look()

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
        self._order(rig.set_parameters, parameters)

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
