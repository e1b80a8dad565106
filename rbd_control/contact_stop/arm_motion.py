"""Detection of standstill from joint states of any number of publishers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

JOINT_STATE_TIMEOUT = 0.5
"""Age of a joint's last state above which its motion is unknown [s]."""

MOST_JOINTS = 1000
"""Number of joints above which a message is ignored."""

LARGEST = 1e6
"""Position or speed above which a joint state is ignored [rad, m, rad/s or m/s]."""


class ArmMotion:
    """Stores the positions and speeds of the monitored joints.

    Args:
        joints: the joints to monitor; empty: all joints in the joint states.

    Attributes:
        ignored: number of implausible messages.
    """

    def __init__(self, joints: Sequence[str] = ()) -> None:
        self._joints = tuple(joints)
        self._wanted = frozenset(joints)
        self._position: dict[str, float] = {}
        self._speed: dict[str, float] = {}
        self._stamp: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._still_since = inf
        self.ignored = 0

    def hear(
        self,
        stamp: float,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float],
        now: float,
        standstill_speed: float,
    ) -> bool:
        """Process a joint state; return whether the speed of every monitored joint is known.

        If the message has no velocities, a speed is the difference of the last two positions of the
        joint divided by their time step, and is unknown after the first position.

        Args:
            stamp: time of the message by its sender [s].
            names: joints of the message.
            position: their positions [rad or m].
            velocity: their velocities [rad/s or m/s]; may be empty.
            now: time of its receipt on the steady clock [s].
            standstill_speed: speed up to which a joint is at rest [rad/s or m/s].

        Returns:
            True if the speed is known, also from earlier messages; False for an ignored message.
        """
        n = len(names)
        if not 0 < n == len(position) <= MOST_JOINTS or len(velocity) not in (0, n):
            self.ignored += 1
            return False
        for i, name in enumerate(names):
            if not self._wanted or name in self._wanted:
                speed = velocity[i] if velocity else None
                self._take(name, stamp, position[i], speed, now)
        moves = max(self._speed.values(), default=inf) > standstill_speed
        if moves or not self._is_complete():
            self._still_since = inf
        elif self._still_since == inf:
            self._still_since = now
        return self._is_complete()

    def still_since(self, now: float) -> float | None:
        """Return the time on the steady clock since which the arm is at rest [s].

        It is infinite while the arm moves, and None if joint states are missing.
        """
        heard = min(self._heard.values(), default=-inf)
        if not self._is_complete() or now - heard > JOINT_STATE_TIMEOUT:
            return None
        return self._still_since

    def positions(self) -> list[float]:
        """Return the last positions in the order of ``joints`` [rad or m].

        Raises:
            KeyError: if no state of a joint was received.
        """
        return [self._position[name] for name in self._joints]

    def missing(self, now: float) -> list[str]:
        """Return the monitored joints without a recent state."""
        joints = self._joints or tuple(self._heard)
        return [j for j in joints if now - self._heard.get(j, -inf) > JOINT_STATE_TIMEOUT]

    def fastest(self) -> tuple[str, float]:
        """Return the joint that moves fastest and its speed [rad/s or m/s]; zero if unknown."""
        name = max(self._speed, key=lambda joint: self._speed[joint], default="")
        return name, self._speed.get(name, 0.0)

    def forget(self) -> None:
        """Discard all states, for example after an interruption."""
        for memory in (self._position, self._speed, self._stamp, self._heard):
            memory.clear()
        self._still_since = inf

    def _is_complete(self) -> bool:
        """Return whether the speed of every monitored joint is known."""
        return bool(self._speed) and len(self._speed) >= len(self._joints)

    def _take(
        self, name: str, stamp: float, position: float, speed: float | None, now: float
    ) -> None:
        known = name in self._heard or len(self._heard) < MOST_JOINTS
        if not (known and abs(position) <= LARGEST):  # False for NaN
            return
        if speed is None or not isfinite(speed):
            speed = self._difference(name, stamp, position)
        if speed is not None and abs(speed) <= LARGEST:
            self._speed[name] = abs(speed)
        self._position[name], self._stamp[name], self._heard[name] = position, stamp, now

    def _difference(self, name: str, stamp: float, position: float) -> float | None:
        """Return the speed from the last position to this one; None if it is unknown."""
        step = stamp - self._stamp.get(name, inf)
        return (position - self._position[name]) / step if step > 0.0 else None
