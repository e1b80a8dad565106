"""The scenario of the demo: a motion of every joint, two pushes, and a collision with a ball.

``config/demo.yaml`` defines the ball and the initial posture of the arm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control import TrajectoryPoint
from rbd_control.dynamics import Model, frame_placement
from rbd_control.robot.arm7 import arm7_urdf

Array = NDArray[np.float64]

SHORTEST = 10.0
"""Shortest duration of the motion with all contacts [s]."""

START = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
"""Initial and final joint positions [rad]."""

_AMPLITUDE = np.array([0.5, 0.3, 0.5, 0.4, 0.7, 0.5, 0.9])
_PERIOD = np.array([4.6, 3.8, 5.3, 3.3, 2.9, 2.6, 2.3])
_FADE = 1.5
_STROKE = np.array([-1.15, 0.15, 0.0, 0.1, 0.0, 0.0, 0.0])
_STROKE_TIME = 3.6
_SPACING = 0.1


@dataclass(frozen=True)
class Push:
    """A push at the origin of a link.

    Attributes:
        time: time of the push from the start of the trajectory [s].
        link: the link that is pushed.
        force: x, y, z along the axes of the link [N].
    """

    time: float
    link: str
    force: tuple[float, float, float]


@dataclass(frozen=True)
class Scenario:
    """The demo's motion and pushes for the arm ``arm7``, distributed over ``duration`` [s].

    All contacts happen if ``duration`` is at least :data:`SHORTEST`.
    """

    duration: float

    @property
    def stroke(self) -> float:
        """Time at which the motion into the ball begins, from the start of the trajectory [s]."""
        return self.duration - _STROKE_TIME

    @property
    def pushes(self) -> tuple[Push, ...]:
        """The pushes in the order of time: 25 N on ``tool``, then 30 N on ``link_5``."""
        free = self.stroke
        return (
            self._push(0.35 * free, "tool", np.array([0.0, 25.0, 0.0])),
            self._push(0.7 * free, "link_5", np.array([0.0, -30.0, 0.0])),
        )

    def _push(self, time: float, link: str, force: Array) -> Push:
        """Return a push with a force in world axes (3,) [N], for the planned link orientation."""
        model = Model.from_urdf(arm7_urdf())
        q = self._positions(np.array([time]))[0]
        x, y, z = (float(part) for part in force @ frame_placement(model, q, link)[:3, :3])
        return Push(time, link, (x, y, z))

    @property
    def contacts(self) -> tuple[str, ...]:
        """Descriptions of the contacts that the scenario provokes, in the order of time."""
        pushed = (f"push of {np.linalg.norm(p.force):.0f} N on {p.link}" for p in self.pushes)
        return (*pushed, "collision with the ball")

    def points(self) -> list[TrajectoryPoint]:
        """Return the trajectory: a point about every 0.1 s, from 0.1 s to ``duration``.

        Each point has positions, velocities and accelerations.
        """
        count = round(self.duration / _SPACING)
        times = np.linspace(0.0, self.duration, count + 1)[1:]
        h = 1e-4
        before, at, after = (self._positions(times + dt) for dt in (-h, 0.0, h))
        v = (after - before) / (2.0 * h)
        a = (after - 2.0 * at + before) / h**2
        # The ends must be exactly at rest; finite differences are not.
        v[-1] = a[-1] = 0.0
        return [TrajectoryPoint(*point) for point in zip(at, v, a, times, strict=True)]

    def _positions(self, times: Array) -> Array:
        """Return the joint positions, (k, 7) [rad], at ``times``, (k,) [s].

        These are sines that fade in and out, then the motion into the ball and back.
        """
        free = self.stroke
        t = times[:, None]
        fade = _smooth(t / _FADE) * _smooth((free - t) / _FADE)
        lively = _AMPLITUDE * np.sin(2.0 * np.pi * t / _PERIOD) * fade
        phase = (t - free) / _STROKE_TIME
        stroke = _STROKE * _smooth(2.0 * phase) * _smooth(2.0 * (1.0 - phase))
        return START + lively + stroke


def _smooth(x: Array) -> Array:
    """Return a step from 0 to 1 with two continuous derivatives at both ends."""
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)
