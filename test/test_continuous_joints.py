"""Continuous joints: encoders that wrap and encoders that do not give the same motion."""

from __future__ import annotations

from dataclasses import replace
from math import pi
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, STILL, rigid, started

from rbd_control.control import Command, ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

CONTINUOUS = [0, 6]
NEAR = np.array([pi - 0.2, 0.5, 0.0, -1.2, 0.0, 0.9, -pi + 0.2])
"""Joint 1 shortly before half a turn, joint 7 shortly after minus half a turn [rad]."""
ENCODERS = ["wraps", "wraps at 2 pi", "does not wrap"]


@pytest.fixture(scope="module")
def model() -> Model:
    arm = Model.from_urdf(arm7_urdf())
    lower, upper = np.array(arm.lower_limit), np.array(arm.upper_limit)
    lower[CONTINUOUS], upper[CONTINUOUS] = -np.inf, np.inf
    velocity = np.array(arm.velocity_limit)
    velocity[CONTINUOUS] = 0.0  # a limit that the description lacks
    return replace(arm, lower_limit=lower, upper_limit=upper, velocity_limit=velocity)


class Turning:
    """A controller on an arm whose encoders report continuous joints in their own way.

    A quarter of the usual 1 kHz is enough to follow encoders, and the motions are long.
    """

    def __init__(
        self,
        model: Model,
        encoder: str,
        q: np.ndarray = NEAR,
        rate: float = 250.0,
        **parameters: Any,
    ) -> None:
        simulation = SimulationParameters(
            rate=rate, initial_position=tuple(q), coulomb=(0.1,), viscous=(0.1,)
        )
        self.rate = rate
        self.arm = SimulatedArm(model, simulation)
        self.encoder = encoder
        self.controller = PassivityController(model, ControllerParameters(**parameters))
        sample = self.arm.reading()
        assert sample is not None
        self.seen = self.reported(sample.q)
        self.controller.start(sample.stamp, self.seen, sample.v)

    def reported(self, q: np.ndarray) -> np.ndarray:
        q = q.copy()
        if self.encoder == "wraps":
            q[CONTINUOUS] = (q[CONTINUOUS] + pi) % (2.0 * pi) - pi
        elif self.encoder == "wraps at 2 pi":
            q[CONTINUOUS] %= 2.0 * pi
        return q

    def run(self, time: float) -> list[Command]:
        seen = []
        for _ in range(round(self.rate * time)):
            sample = self.arm.reading()
            assert sample is not None
            q = self.seen = self.reported(sample.q)
            command = self.controller.update(sample.stamp, q, sample.v, effort=sample.tau)
            # What is said to be desired is in the coordinates of the encoder.
            assert np.abs(command.q_d - q)[CONTINUOUS].max() < 0.2
            self.arm.step(command.torque)
            seen.append(command)
        return seen

    def here(self) -> np.ndarray:
        """Return the last positions of the encoders, which may be on either side of half a turn."""
        return self.seen.copy()

    def go(self, offset: float, time: float) -> None:
        """Move joint 1 and, the other way, joint 7, from where the encoders say that they are."""
        goal = self.here()
        goal[CONTINUOUS] += offset * np.array([1.0, -1.0])
        points = [
            TrajectoryPoint(self.here() + (goal - self.here()) * part, time_from_start=time * part)
            for part in (0.5, 1.0)
        ]
        self.controller.set_trajectory(self.controller.model.joint_names, points)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_trajectory_over_half_a_turn_tracks(model: Model, encoder: str) -> None:
    """[50] A second one from the wrapped position is tracked, too; the torque stays small."""
    loop = Turning(model, encoder)
    for offset in (0.5, 4.0, -4.5):
        begin = loop.arm.q
        loop.go(offset, max(1.0, abs(offset) / 1.2))
        seen = loop.run(max(1.0, abs(offset) / 1.2) + 0.5)
        assert {command.mode for command in seen} <= {"follow", "hold"}
        assert seen[-1].goal == "reached"
        moved = (loop.arm.q - begin)[CONTINUOUS]
        assert np.allclose(moved, offset * np.array([1.0, -1.0]), atol=0.02)
        assert np.abs([command.torque[0] for command in seen]).max() < 60.0
        assert not any(command.saturated for command in seen)


def test_a_wrap_is_never_implausible(model: Model) -> None:
    """This holds for plausible speeds and rates in both directions; other jumps are implausible."""
    for rate in (1000.0, 100.0, 30.0):
        for speed in (2.0, -2.0, 8.0, -8.0):
            controller = started(
                model,
                rigid(tracking_limit=(100.0,), overspeed_factor=4.9, repeated_time=60.0),
                np.array([3.0, *HOME[1:]]),
            )
            v = np.array([speed, 0, 0, 0, 0, 0, 0])
            for k in range(1, 200):
                q = np.array([(3.0 + speed * k / rate + pi) % (2.0 * pi) - pi, *HOME[1:]])
                command = controller.update(k / rate, q, v)
                assert command.mode == "hold", command.reason
                assert command.reason == ""
    q[0] += 2.5
    assert "joint_1 jumped by 2.5" in controller.update(200 / rate, q, v).reason


@pytest.mark.parametrize("way", ["silence", "clock"])
def test_after_a_loss_the_unwrapping_starts_anew(model: Model, way: str) -> None:
    """The position of the encoder then is the position of the arm, which does not turn back."""
    loop = Turning(model, "wraps")
    loop.go(0.5, 1.0)
    loop.run(1.5)
    turned = loop.arm.q
    now = loop.arm.time
    if way == "silence":
        assert loop.controller.silence(now + 1.0) is not None
        loop.run(0.008)
        loop.controller.resume()
    elif way == "clock":
        loop.controller.clock_went_back()
    else:
        loop.controller.start(now, loop.here(), STILL)
    assert loop.run(0.5)[-1].mode == "hold"
    assert np.abs(loop.arm.q - turned).max() < 0.05
    loop.go(0.1, 0.5)
    assert loop.run(1.0)[-1].goal == "reached"


def test_joint_states_that_freeze_beyond_half_a_turn_stay_frozen(model: Model) -> None:
    """[51] That unwrapping begins anew after the fault is no change of the joint states."""
    loop = Turning(model, "wraps", rate=1000.0)
    loop.go(0.5, 1.0)
    while abs(loop.seen[0] - loop.arm.q[0]) < pi:
        assert loop.run(0.001)[-1].mode == "follow"
    v, now = loop.arm.v.copy(), loop.arm.time
    frozen = [loop.controller.update(now + 0.001 * k, loop.seen, v) for k in range(1, 100)]
    modes = [command.mode for command in frozen]
    assert modes[0] == "follow"
    faulted = modes.index("safe")
    assert faulted < 20
    assert not np.any([command.torque for command in frozen[faulted:]])


def test_joints_with_limits_are_not_unwrapped(model: Model) -> None:
    controller = started(model, ControllerParameters(bad_samples=1))
    q = HOME.copy()
    q[1] += 2.0 * pi
    assert "joint_2 jumped by 6.28" in controller.update(0.001, q, STILL).reason
    with pytest.raises(TrajectoryError, match="stays in safe"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])
