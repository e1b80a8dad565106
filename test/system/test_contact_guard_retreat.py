"""The retreat of the contact guard is supervised until the arm is at rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy._rclpy_pybind11 import RCLError
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from rbd_control.nodes import contact_guard, retreat_output
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.ros.diagnostics import Status

from .bringup import BringUp
from .fault_setting import ros_here
from .probe import Probe, Source
from .test_contact_guard import GUARD, Detector, active

TOPIC = "/trajectory"
STEP = 0.01
"""Time between two joint states, verdicts and checks [s]."""

DURATION = 1.875 * 0.2 / 0.1
"""Duration of a retreat of 0.2 rad at no more than 0.1 rad/s [s]."""

PARAMETERS = {
    "actions": ["follow"],
    "joints": ["elbow"],
    "moveit_stop": False,
    "retreat_distance": 0.2,
    "retreat_time": 10.0,
    "retreat_topic": "trajectory",
}


def seconds(trajectory: JointTrajectory) -> float:
    """Return the duration of a trajectory [s]."""
    end = trajectory.points[-1].time_from_start
    return float(end.sec + 1e-9 * end.nanosec)


class Arm:
    """A position-controlled joint that moves at a speed, or follows trajectories.

    Attributes:
        position: position of the joint [rad].
        drive: speed of the joint without trajectory [rad/s].
        scale: speed scaling of the controller of the trajectories.
    """

    def __init__(self) -> None:
        self.position, self.velocity, self.drive, self.scale = 0.0, 0.0, 0.0, 1.0
        self._way: tuple[list[float], list[float]] | None = None
        self._time = 0.0

    def follow(self, trajectory: JointTrajectory) -> None:
        """Replace the motion by a trajectory."""
        times = [
            p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in trajectory.points
        ]
        positions = [point.positions[0] for point in trajectory.points]
        self._way, self._time = ([0.0, *times], [self.position, *positions]), 0.0

    def step(self, period: float) -> None:
        """Move for a period [s]."""
        before = self.position
        if self.drive:
            self._way = None
            self.position += self.drive * period
        elif self._way is not None:
            self._time += self.scale * period
            self.position = float(np.interp(self._time, *self._way))
        self.velocity = (self.position - before) / period


class Cell:
    """A guard in this process, with a simulated clock, arm and detector.

    Attributes:
        guard: the guard.
        now: the steady clock [s].
        flag: flag of the detector; None if the detector is silent.
        hears: whether joint states arrive.
        refuses: whether the middleware refuses trajectories.
        trajectories: the published trajectories.
        clock: stand-in for the module ``time``.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.arm = 100.0, Arm()
        self.flag: bool | None = False
        self.hears, self.refuses = True, False
        self.trajectories: list[JointTrajectory] = []
        self.clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (contact_guard, retreat_output):
            patch.setattr(module, "time", self.clock)
        publish = Publisher.publish

        def publish_here(publisher: Publisher[Any], message: Any) -> None:
            if publisher.topic_name != TOPIC:
                publish(publisher, message)
            elif self.refuses:
                raise RCLError("Failed to publish: injected")
            else:
                self.trajectories.append(message)
                self.arm.follow(message)

        patch.setattr(Publisher, "publish", publish_here)
        self.said: list[str] = []
        self.guard = ContactGuard()
        log = SimpleNamespace(
            **{
                level: lambda text, **_: self.said.append(text)
                for level in ("info", "warning", "error")
            }
        )
        patch.setattr(self.guard, "get_logger", lambda: log)
        # Its thread would act by the time of this machine.
        patch.setattr(self.guard._watchdog, "start", self.guard._watchdog.beat)
        patch.setattr(self.guard._watchdog, "_clock", self.clock.monotonic)
        self.guard.trigger_configure()
        self.guard.trigger_activate()

    def step(self) -> None:
        """Let all of them run for a step."""
        self.now += STEP
        self.arm.step(STEP)
        if self.flag is not None:
            self.guard._on_contact(Bool(data=self.flag))
        if self.hears:
            message = JointState(name=["elbow"], position=[self.arm.position])
            message.velocity = [self.arm.velocity]
            self.guard._on_joint_state(message)
        self.guard._watch()

    def run(self, duration: float) -> None:
        """Let all of them run for a time [s]."""
        for _ in range(round(duration / STEP)):
            self.step()

    def run_until(self, condition: Callable[[], Any], longest: float = 30.0) -> float:
        """Let all of them run until a condition holds; return the time [s]."""
        begin = self.now
        while not condition():
            assert self.now - begin < longest, self.said
            self.step()
        return self.now - begin

    def stop(self) -> None:
        """Move the arm into a contact that ends at once, and stop it."""
        self.arm.drive = 0.1
        self.run(3.0)
        self.flag = True
        self.step()
        self.arm.drive = 0.0
        self.flag = False

    def retreat(self) -> None:
        """Stop the arm, and let it retreat for a second."""
        self.stop()
        self.run_until(lambda: self.trajectories)
        assert seconds(self.trajectories[0]) == pytest.approx(DURATION)
        self.run(1.0)

    def resume(self) -> str:
        """Return the answer of ``~/resume``."""
        answer = self.guard.answer("resume", self.guard._resume, Trigger.Response())
        return str(answer.message)

    def assert_held(self, reason: str) -> JointTrajectory:
        """Check that the arm is held for a reason, once, and at its present position."""
        assert len(self.trajectories) == 2, self.said
        warnings = [line for line in self.said if line.startswith("the retreat is stopped")]
        assert len(warnings) == 1
        assert reason in warnings[0]
        hold = self.trajectories[-1]
        assert (hold.joint_names, len(hold.points)) == (["elbow"], 1)
        return hold


@contextmanager
def cell(**changes: Any) -> Iterator[Cell]:
    """Yield a guard, with some parameters changed, that watches an arm in a domain of its own."""
    parameters = {**PARAMETERS, **changes}
    given = [f"{name}:={str(value).replace(chr(39), '')}" for name, value in parameters.items()]
    with ros_here("autostart:=false", *given), pytest.MonkeyPatch.context() as patch:
        made = Cell(patch)
        yield made
        assert not made.guard.guard.failures or "injected" in str(made.said)
        made.guard.end()
        made.guard.destroy_node()


def test_a_retreat_that_is_slowed_down_is_supervised_to_its_end() -> None:
    with cell() as c:
        c.arm.scale = 0.5
        c.retreat()
        c.run(DURATION)
        assert c.resume() == "cannot resume: the retreat has not ended yet"
        c.flag = True
        c.step()
        hold = c.assert_held("contact")
        # At the arm, not at the planned position, which is ahead of it.
        assert hold.points[0].positions[0] == pytest.approx(c.arm.position, abs=0.002)
        assert seconds(hold) == pytest.approx(0.1)
        assert "cannot resume: the retreat has not ended yet" in c.resume()
        c.flag = False
        c.run_until(lambda: c.resume() == "watching", 1.0)


def test_missing_joint_states_stop_the_retreat_where_it_is_planned() -> None:
    with cell() as c:
        c.retreat()
        before = c.arm.position
        c.hears = False
        assert c.run_until(lambda: len(c.trajectories) > 1) < 0.6
        hold = c.assert_held("no joint states of elbow")
        # The last joint state is 0.04 rad nearer to the contact.
        assert before - c.arm.position > 0.03
        assert hold.points[0].positions[0] == pytest.approx(c.arm.position, abs=0.015)
        assert hold.points[0].positions[0] < c.arm.position
        assert abs(hold.points[0].positions[0] - before) / seconds(hold) <= 0.1001


def test_a_defect_stops_the_retreat() -> None:
    with cell() as c:
        c.retreat()

        def failing() -> None:
            raise RuntimeError("injected")

        c.guard.guard.run("callback", failing)
        c.assert_held("callback failed: RuntimeError: injected")


@pytest.mark.parametrize("refused", [False, True])
def test_deactivation_stops_the_retreat(refused: bool) -> None:
    with cell() as c:
        c.retreat()
        c.refuses = refused

        def accept(period: float) -> None:
            c.now += period
            c.refuses = False

        c.clock.sleep = accept
        c.guard.trigger_deactivate()
        c.assert_held("the guard is deactivated")


def test_a_retreat_that_is_published_late_is_supervised_from_then_on() -> None:
    with cell() as c:
        c.refuses = True
        c.stop()
        c.run_until(lambda: c.guard._retreat.phase == "waiting")
        c.run(0.8)
        c.refuses = False
        c.step()
        assert len(c.trajectories) == 1
        begin = c.now
        # Within the duration after the publication, but not after the decision.
        c.arm.scale = 0.9
        c.run(DURATION - 0.1)
        c.flag = True
        c.step()
        c.assert_held("contact")
        assert c.now - begin < DURATION


def test_a_retreat_that_waits_is_dropped_with_a_new_contact() -> None:
    with cell() as c:
        c.refuses = True
        c.stop()
        c.run_until(lambda: c.guard._retreat.phase == "waiting")
        c.run(0.2)
        c.flag = True
        c.step()
        assert "the retreat is dropped before it began: contact" in c.said
        c.refuses = c.flag = False
        c.run(1.0)
        assert not c.trajectories
        assert c.resume() == "watching"


def test_a_refused_hold_is_repeated_at_the_present_position() -> None:
    with cell() as c:
        c.retreat()
        c.refuses = c.flag = True
        c.step()
        assert "the middleware refuses the hold" in c.said[-1]
        c.run(0.5)
        assert c.resume() == "cannot resume: the retreat has not ended yet"
        c.refuses = False
        c.step()
        hold = c.assert_held("contact")
        assert hold.points[0].positions[0] == pytest.approx(c.arm.position, abs=0.002)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("verdict", "no verdict about contact for"),
        ("joint states", "standstill is unknown"),
        ("path", "no travelled path is stored"),
    ],
)
def test_no_retreat_begins_without_supervision_or_path(missing: str, reason: str) -> None:
    with cell() as c:
        c.stop()
        with pytest.MonkeyPatch.context() as patch:
            # A server that does not answer delays the end of the stop.
            patch.setattr(type(c.guard._orders_made), "are_settled", False)
            c.run(0.2)
            if missing == "verdict":
                c.flag = None
            elif missing == "joint states":
                c.hears = False
            else:
                c.guard._retreat.reset()
            c.run(1.0)
        c.step()
        assert [line for line in c.said if line.startswith(f"no retreat: {reason}")]
        c.flag, c.hears = False, True
        c.run(2.0)
        assert not c.trajectories


def test_a_pause_of_the_process_stops_the_retreat_first() -> None:
    with cell() as c:
        c.retreat()
        for _ in range(150):
            c.now += STEP
            c.arm.step(STEP)
        c.step()  # a verdict and a joint state arrive before the check
        c.assert_held("the guard did not run for 1.5 s")


def test_the_report_says_that_the_arm_retreats() -> None:
    with cell() as c:
        c.retreat()
        status = Status()
        c.guard._report(status)
        values = {item.key: item.value for item in status.values}
        assert values["retreat"] == "retreating"
        assert any("retreating: contact" in message for message in status.messages)
        c.run_until(lambda: c.resume() == "watching")
        status = Status()
        c.guard._report(status)
        assert {item.key: item.value for item in status.values}["retreat"] == "none"


# The guard as a process ---------------------------------------------------------------------------


class Robot:
    """Joint states of an arm that follows the trajectories of a guard, and a detector."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.arm, self.detector = probe, Arm(), Detector(probe)
        self.trajectories = probe.listen(JointTrajectory, TOPIC)
        self._source = Source(["elbow"], [0.0], [0.0])
        self._before = time.monotonic()
        probe.node.create_subscription(JointTrajectory, TOPIC, self.arm.follow, 10)
        probe.every(STEP, self._step)
        probe.stream(self._source)

    def _step(self) -> None:
        now = time.monotonic()
        self.arm.step(now - self._before)
        self._before = now
        self._source.position, self._source.velocity = [self.arm.position], [self.arm.velocity]

    def retreat(self) -> None:
        """Stop the arm by a contact, and wait until it retreats."""
        count, start = len(self.trajectories), self.arm.position
        self.arm.drive = 0.2
        self.probe.wait(lambda: self.arm.position > start + 0.3, "the arm does not move")
        self.detector.touch()
        self.detector.flag = False
        self.probe.wait_for_report(GUARD, lambda r: r.values["guard"] != "watching", "no stop")
        self.arm.drive = 0.0
        self.probe.wait(lambda: len(self.trajectories) > count, "no retreat")


def test_a_retreat_on_the_running_node(bring_up: BringUp, probe: Probe) -> None:
    """Resume is refused during the retreat; silence and the end of the guard stop the arm."""
    robot = Robot(probe)
    process = bring_up.start(GUARD, PARAMETERS)
    active(probe)
    robot.retreat()
    message = "cannot resume: the retreat has not ended yet"
    assert probe.call(Trigger, f"{GUARD}/resume").message == message
    probe.wait(lambda: probe.call(Trigger, f"{GUARD}/resume").success, "cannot resume")
    # On a busy machine the guard may have held the arm, for want of joint states.
    end = robot.trajectories[-1].points[-1].positions[0]
    assert robot.arm.position == pytest.approx(end, abs=0.01)

    robot.retreat()
    count = len(robot.trajectories)
    robot.detector.flag = None
    probe.wait(lambda: len(robot.trajectories) > count, "silence does not stop the retreat")
    assert len(robot.trajectories[-1].points) == 1
    said = "the retreat is stopped: no verdict about contact for"
    probe.wait(lambda: said in process.output, "does not say why")
    robot.detector.flag = False
    probe.wait(lambda: probe.call(Trigger, f"{GUARD}/resume").success, "cannot resume")

    robot.retreat()
    count = len(robot.trajectories)
    process.end()
    probe.wait(lambda: len(robot.trajectories) > count, "the retreat outlives the guard")
    assert len(robot.trajectories[-1].points) == 1
    assert "the retreat is stopped: the guard is deactivated" in process.output
