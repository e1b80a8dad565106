"""A contact guard in this process, with a simulated clock, arm and detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rclpy._rclpy_pybind11 import RCLError
from rclpy.publisher import Publisher
from ros_here import ros_here
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from rbd_control.nodes import contact_guard, retreat_output
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.ros.diagnostics import Status

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

    def report(self) -> tuple[Status, dict[str, str]]:
        """Return the status of the guard, and its values."""
        status = Status()
        self.guard._report(status)
        return status, {item.key: item.value for item in status.values}

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
        assert not made.guard.errors.failures or "injected" in str(made.said)
        made.guard.end()
        made.guard.destroy_node()
