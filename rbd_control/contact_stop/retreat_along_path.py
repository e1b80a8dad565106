"""One slow motion back along the travelled path after a stop on contact."""

from __future__ import annotations

from rbd_control.contact_stop.parameters import StopParameters
from rbd_control.contact_stop.travelled_path import RetreatPoint, TravelledPath, timed_retreat


class Retreat:
    """Stores the travelled path and returns the retreat, once for each stop.

    Args:
        parameters: length and speed of the retreat; may be replaced at any time.
    """

    def __init__(self, parameters: StopParameters) -> None:
        self.parameters = parameters
        self._path = TravelledPath()
        self._is_over = self._was_free = False
        self._until = 0.0

    def reset(self) -> None:
        """Discard the path, for example after an interruption, and allow a new retreat."""
        self._path.clear()
        self._is_over = self._was_free = False
        self._until = 0.0

    def take(self, now: float, position: list[float], is_latched: bool) -> None:
        """Add joint positions to the travelled path, unless the retreat has already begun.

        Args:
            now: time on the steady clock [s].
            position: positions of all joints [rad or m].
            is_latched: whether the guard has stopped the arm. Before a stop, the path covers the
                last ``retreat_time``; after it, no position is discarded.
        """
        if self._is_over:
            return
        if not is_latched:
            self._path.forget_before(now - self.parameters.retreat_time)
        self._path.add(now, position)

    def begin(self, now: float, position: list[float]) -> list[RetreatPoint]:
        """Return the retreat from ``position``; empty without a path, and at the second call."""
        if self._is_over:
            return []
        self._is_over, self._was_free = True, False
        way = self._path.back(position, self.parameters.retreat_distance)
        motion = timed_retreat(way, self.parameters.retreat_speed)
        self._until = now + motion[-1].time if motion else now
        return motion

    def is_hindered(self, now: float, is_touched: bool) -> bool:
        """Take the contact flag, and return whether a new contact begins during the retreat.

        The flag must have fallen since the retreat began. After a new contact, or the time of the
        retreat, the result is False until the next retreat.

        Args:
            now: time on the steady clock [s].
            is_touched: whether the contact flag is raised.
        """
        if now >= self._until:
            return False
        hindered = is_touched and self._was_free
        self._was_free = not is_touched
        if hindered:
            self._until = now
        return hindered
