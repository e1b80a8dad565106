"""The travelled path of an arm, and a slow retreat along its last part."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

SPACING = 0.002
"""Smallest motion of any joint between two points of the path [rad or m]."""

LARGEST_STEP = 0.2
"""Motion of a joint between two joint states above which the earlier path is discarded [rad or m].

The motion is then implausible: the position of a continuous joint was wrapped, or joint states are
missing.
"""

LONGEST_GAP = 0.2
"""Time between two joint states after which the earlier path is discarded [s]."""

MOST_POINTS = 2000
"""Maximum number of stored points; the oldest are discarded."""

RETREAT_POINTS = 20
"""Number of points of a retreat."""

PEAK = 1.875
"""Peak speed of the minimum-jerk motion, as a multiple of its mean speed."""


class RetreatPoint(NamedTuple):
    """A point of a retreat."""

    time: float
    """Time from the start of the retreat [s]."""
    position: list[float]
    """Positions of all joints, in the same order as in the path [rad or m]."""


class TravelledPath:
    """Stores the joint positions shortly before a stop and until standstill."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, list[float]]] = deque(maxlen=MOST_POINTS)
        self._last: float | None = None
        self._stamp = inf

    def clear(self) -> None:
        """Discard the path."""
        self._points.clear()
        self._last, self._stamp = None, inf

    def add(self, now: float, position: list[float], stamp: float = inf) -> None:
        """Add joint positions, unless no joint has moved by :data:`SPACING` since the last point.

        After a gap in time (:data:`LONGEST_GAP`) or position (:data:`LARGEST_STEP`) the earlier
        path is discarded.

        Args:
            now: time on the steady clock [s].
            position: positions of all joints [rad or m].
            stamp: time of the positions by their sender [s]; infinite if it is unknown. After a
                pause of the guard, joint states from before and after a gap arrive together, and
                only their stamps show it.
        """
        late = self._last is not None and now - self._last > LONGEST_GAP
        late |= stamp - self._stamp > LONGEST_GAP  # not a number if both are unknown
        self._stamp = stamp
        if late or (self._points and _distance(position, self._points[-1][1]) > LARGEST_STEP):
            self._points.clear()
        self._last = now
        if not self._points or _distance(position, self._points[-1][1]) >= SPACING:
            self._points.append((now, position))

    def forget_before(self, time: float) -> None:
        """Discard the points before ``time`` on the steady clock [s]."""
        while self._points and self._points[0][0] < time:
            self._points.popleft()

    def back(self, position: list[float], distance: float) -> list[list[float]]:
        """Return the path back from ``position``, with the newest stored point first.

        The length of a step of the path is the largest motion of any joint in it.

        Args:
            position: present positions of all joints [rad or m].
            distance: length of the result, unless the stored path is shorter [rad or m].

        Returns:
            Joint positions, beginning with ``position``; ``position`` alone without a stored path.
        """
        way, left = [position], distance
        for _, point in reversed(self._points):
            step = _distance(point, way[-1])
            if step <= 0.0:
                continue
            share = min(1.0, left / step)
            way.append([a + share * (b - a) for a, b in zip(way[-1], point, strict=True)])
            left -= share * step
            if left <= 0.0:
                break
        return way


def timed_retreat(way: Sequence[list[float]], speed: float) -> list[RetreatPoint]:
    """Return a motion from rest to rest along ``way``.

    The distance along the way follows the minimum-jerk polynomial 10 s^3 - 15 s^4 + 6 s^5.

    Args:
        way: joint positions, beginning with the present position [rad or m].
        speed: largest speed of any joint [rad/s or m/s].

    Returns:
        :data:`RETREAT_POINTS` points after the present position, with equal intervals of time; an
        empty list for a way without length.
    """
    distances = [0.0]
    for a, b in zip(way, way[1:], strict=False):
        distances.append(distances[-1] + _distance(a, b))
    length = distances[-1]
    if length <= 0.0:
        return []
    duration = PEAK * length / speed
    points = []
    for k in range(1, RETREAT_POINTS + 1):
        s = k / RETREAT_POINTS
        travelled = length * s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
        points.append(RetreatPoint(duration * s, _at(way, distances, travelled)))
    return points


def _at(way: Sequence[list[float]], distances: Sequence[float], travelled: float) -> list[float]:
    """Return the position at a distance along the way."""
    k = 1
    while k < len(distances) - 1 and distances[k] < travelled:
        k += 1
    step = distances[k] - distances[k - 1]
    share = min(1.0, (travelled - distances[k - 1]) / step)
    return [a + share * (b - a) for a, b in zip(way[k - 1], way[k], strict=True)]


def _distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the motion of the joint that moves most."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
