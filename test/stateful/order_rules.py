"""Rules of the controller's state machine: good joint states, trajectories and orders."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from rbd_control.control import TrajectoryPoint
from rbd_control.errors import RbdControlError, TrajectoryError
from stateful.drawing import (
    AFTERWARDS,
    DURATIONS,
    FRACTIONS,
    PACES,
    PATHS,
    SPOILT,
    Fractions,
    numbers,
    spoilt,
    targets,
    timed,
)
from stateful.machine_base import MachineBase

INDICES = st.integers(0, 3)


LONGEST_CROSSING = 4.0
"""Longest time that a crossing of half a turn is followed [s]."""

LAST_CROSSING = 8.0
"""Time since the start after which no crossing begins, so that examples do not take minutes [s]."""


class OrderRules(MachineBase):
    """Every order that a controller can get, while good joint states come."""

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

    @precondition(lambda self: self.rig.arm.continuous.any() and self.rig.time < LAST_CROSSING)
    @rule(sign=st.sampled_from([-1.0, 1.0]), pace=st.sampled_from([0.3, 0.45, 0.6]))
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

    @precondition(lambda self: np.abs(self.rig.beyond).max() > 0.02)
    @rule(share=st.sampled_from([0.5, 0.9, 1.5]), seconds=AFTERWARDS)
    def come_back(self, share: float, seconds: float) -> None:
        """Joints beyond a limit move inwards, by a part of the way or into it, then outwards."""
        rig = self.rig
        way = share * rig.beyond
        for target in (rig.desired - way, rig.desired - 0.2 * way):
            points = timed(rig, [target], 0.5, False)
            self._follow(points)
            self._run(min(points[-1].time_from_start + 0.2, LONGEST_CROSSING))
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
        if self._order(self.rig.controller.modes.order, "hold"):
            self.rig.expect_stop()

    @rule()
    def cancel(self) -> None:
        """Stop here and give the trajectory up."""
        if self._order(self.rig.controller.modes.cancel):
            self.rig.expect_stop()

    @rule()
    def let_float(self) -> None:
        """Compensate gravity only."""
        if self._order(self.rig.controller.modes.order, "float"):
            self.rig.allow_motion()

    @rule()
    def slow_down(self) -> None:
        """Go on slowly."""
        self._order(self.rig.controller.modes.order, "slow")

    @rule(link=INDICES, force=FRACTIONS, seconds=st.sampled_from([0.0, 0.15, 0.3]))
    def retract(self, link: int, force: Fractions, seconds: float) -> None:
        """Stop, then move off along a force, for a while."""
        self._touch(link, force)
        if self._order(self.rig.controller.modes.order, "retract"):
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
        self.rig.controller.set_contact_force(links[link % len(links)], 50.0 * np.array(force[:3]))

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
            if before != "follow":
                rig.allow_motion()
        elif controller.mode == "hold" and "nothing" not in answer:
            rig.expect_stop()
        self._run(rig.period)
