"""Arms for the fault tests of the controller: each with joint states of its own.

Several controllers run side by side. An arm follows its controller without dynamics.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rbd_control.ros.messages import to_seconds
from rbd_control.simulation import arm7_urdf

from .bringup import STANDSTILL, STIFF, BringUp, Process
from .controller_scenarios import COMMANDS, MODEL, NODE, POSTURE
from .fault_setting import wait_for_mode
from .probe import Heard, Probe, Source

RATE = 200.0
"""Joint states per second."""

ALONE = {"timeout": STANDSTILL, "discovery_time": 0.0} | STIFF
"""Parameters of the only controller of an arm, which need not wait for another one."""

UNLED = 0.2
"""Time without a new desired position after which an arm stands still [s]."""


def continuous(urdf: str) -> str:
    """Return the arm with a last joint that turns without end."""
    before, _, after = urdf.partition('<joint name="joint_7" type="revolute">')
    limit = re.compile(r'<limit lower="[^"]+" upper="[^"]+"')
    return f'{before}<joint name="joint_7" type="continuous">{limit.sub("<limit", after, count=1)}'


WEAK = 5.0
"""Effort limit with which joint_2 cannot carry itself unless the arm is upright [N·m]."""

BURDENED = 50.0
"""Torque that joint_2 may use [N·m]: it bears 46 N·m folded and 57 N·m with a straight elbow."""

ARMS: dict[str, dict[str, Any]] = {
    "plain": {"urdf": "arm7"},
    "compensated": {"urdf": "arm7", "gravity_compensated": True, "safe_torque": "zero"},
    "endless": {"robot_description": continuous(arm7_urdf())},
    "weak": {"urdf": "arm7", "effort_limit": [0.0, WEAK, 0.0, 0.0, 0.0, 0.0, 0.0]},
    "burdened": {
        "urdf": "arm7",
        "effort_limit": [0.0, BURDENED, 0.0, 0.0, 0.0, 0.0, 0.0],
        "torque_share": [1.0],
    },
    "limited": {"urdf": "arm7"},
    "learning": {"urdf": "arm7", "adaptive": True, "largest_payload_mass": 3.0},
}


class Follower(Source):
    """An arm that is where it is wanted one sample later; ``still`` makes it stay where it is."""

    errors: Heard
    sent: dict[float, tuple[np.ndarray, np.ndarray]]
    """Positions and velocities by the stamp under which they were sent."""
    answered = 0.0
    """Stamp of the last tracking error that was followed: each is followed once."""
    still = False
    distorted: Callable[[np.ndarray], np.ndarray] | None = None
    """Makes velocities that contradict the positions."""
    frozen: int | None = None
    """Index of a joint that stands still, with a velocity of zero."""
    noise = 0.0
    count = 0
    """Number of joint states with noise."""
    turning = 0.0
    """Speed at which the last joint turns over the wrap of its encoder [rad/s]."""

    def message(self, stamp: Any) -> JointState:
        if self.turning:
            self.position = np.array(self.position)
            self.velocity = np.zeros(len(self.names))
            turned = self.position[-1] + self.turning / RATE
            self.position[-1] = (turned + pi) % (2.0 * pi) - pi
            self.velocity[-1] = self.turning
        elif self.errors and not self.still:
            # The error is what was sent under its stamp less what is wanted.
            last = self.errors[-1]
            answered = to_seconds(last.header.stamp)
            if answered > self.answered:
                position, velocity = self.sent[answered]
                self.position = position - np.array(last.position)
                self.velocity = velocity - np.array(last.velocity)
                self.answered = answered
            elif to_seconds(stamp) > answered + UNLED:
                self.velocity = np.zeros(len(self.names))
            else:  # the answer is late: the arm moves on, and no sample is like the one before
                self.position = np.array(self.position) + np.array(self.velocity) / RATE
        made = super().message(stamp)
        if self.frozen is not None:
            made.position[self.frozen] = POSTURE[self.frozen]
            made.velocity[self.frozen] = 0.0
        if self.distorted is not None:
            made.velocity = self.distorted(np.array(made.velocity)).tolist()
        now = to_seconds(made.header.stamp)
        self.sent[now] = np.array(made.position), np.array(made.velocity)
        if self.noise:
            self.count += 1
            swing = float(np.sin(7.0 * self.count))
            made.velocity = [x + self.noise * swing for x in made.velocity]
            # A position that repeats would be another fault.
            made.position = [x + 1e-6 * swing for x in made.position]
        return made


@dataclass
class Arm:
    """One controller with its inputs and outputs."""

    name: str
    process: Process
    source: Follower
    commands: Heard
    errors: Heard

    @property
    def torque(self) -> np.ndarray:
        return np.array(self.commands[-1].data)

    def topic(self, name: str) -> str:
        return f"{self.name}/{name}"


class Arms:
    """Starts the arms of the table, each at its first use.

    Args:
        bring_up: starts the controllers.
        probe: publishes the joint states.
    """

    def __init__(self, bring_up: BringUp, probe: Probe) -> None:
        self._bring_up, self._probe = bring_up, probe
        self._made: dict[str, Arm] = {}

    def arm(self, name: str) -> Arm:
        """Return an arm of the table, once its controller holds it."""
        if name not in self._made:
            self._made[name] = self._start(name)
            wait_for_mode(self._probe, "hold", name)
        return self._made[name]

    def end(self, arm: Arm) -> None:
        """End an arm and its controller; :meth:`arm` starts it anew."""
        del self._made[arm.name]
        arm.process.end()
        self._probe.end_stream(arm.source)

    def _start(self, name: str) -> Arm:
        joint_states = f"{name}/joint_states"
        # Late on a busy machine, an arm is where it was wanted, whatever its velocity was.
        process = self._bring_up.start(
            NODE,
            {**ALONE, "velocity_mismatch": 0.0, **ARMS[name]},
            ["-r", f"__node:={name}", "-r", f"joint_states:={joint_states}"]
            + ["-r", f"{COMMANDS}:={name}/commands"]
            + ["-r", f"contact_detector/contact:={name}/contact"]
            + ["-r", f"contact_detector/external_wrench:={name}/wrench"],
        )
        position = POSTURE.copy()
        if name == "weak":
            position[:] = 0.0  # upright, in which it weighs nothing
        if name == "burdened":
            position[1] = 1.2
        if name == "limited":
            position[3] = MODEL.lower_limit[3] - 0.1
        if name == "endless":
            position[6] = pi - 0.5
        source = Follower(MODEL.joint_names, position, np.zeros(MODEL.nv))
        source.sent = {}
        source.errors = self._probe.listen(JointState, f"{name}/tracking_error")
        self._probe.stream(source, joint_states, RATE)
        commands = self._probe.listen(Float64MultiArray, f"{name}/commands")
        return Arm(name, process, source, commands, source.errors)
