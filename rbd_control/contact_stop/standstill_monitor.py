"""Detection of standstill from the joint states of one or several publishers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

JOINT_STATE_TIMEOUT = 0.5
"""Age of a joint's last state above which the joint is no longer known to be at rest [s]."""

MOST_JOINTS = 1000
"""Number of joints above which a message is ignored."""

LARGEST = 1e6
"""Largest position, and largest speed, that is used from a joint state [rad, m, rad/s or m/s]."""

SPEED_TIME = 0.1
"""Shortest interval for the speed from positions of a joint whose velocities were all zero [s]."""

NOISE = 2e-3
"""Noise, or encoder step, that is no motion of a joint whose velocities were all zero [rad or m].

The interval for its speed is at least the time in which it moves this far at standstill speed.
"""

SHORTEST_STEP = 1e-3
"""Shortest time by which a motion is divided to get a speed [s]; messages may arrive together."""

PAUSE = 0.1
"""Time without a call of :meth:`StandstillMonitor.beat` that counts as a pause of the guard [s]."""

RECOVERY = 0.5
"""Time after a pause in which the middleware may still deliver joint states of the pause [s]."""


@dataclass(slots=True)
class _JointMotion:
    """Last position and speed of one joint, and the time since which the joint is at rest."""

    position: float = 0.0
    """Last position [rad or m]."""
    stamp: float = inf
    """Time of the last position by its sender [s]."""
    speed: float = 0.0
    """Last known speed [rad/s or m/s]."""
    heard: float = -inf
    """Receipt of the last known speed on the steady clock [s]; minus infinity before the first."""
    placed: float = -inf
    """Receipt of the last position on the steady clock [s]; minus infinity before the first."""
    still_since: float = inf
    """Time on the steady clock since which the joint is at rest [s]; infinite if it moves."""
    has_velocity: bool = False
    """Whether a velocity other than zero was received."""
    origin: float = 0.0
    """Position at the beginning of the present interval of ``shown_speed`` [rad or m]."""
    begun: float = -inf
    """Receipt of ``origin`` on the steady clock [s]; minus infinity before the first."""
    shown_speed: float = 0.0
    """Speed that the positions of the last interval show [rad/s or m/s]."""

    def speed_shown(self, position: float, now: float, standstill_speed: float) -> float:
        """Return the mean speed that the positions show over :data:`SPEED_TIME` or longer.

        It is the mean speed over the last complete interval, and 0 before the first. Intervals are
        longer for a standstill speed below 0.02, see :data:`NOISE`, and end earlier at a position
        that is too far from the first one for a joint at rest.

        Args:
            position: position of the joint state [rad or m].
            now: its receipt on the steady clock [s].
            standstill_speed: speed up to which a joint is at rest [rad/s or m/s].
        """
        moved, elapsed = abs(position - self.origin), now - self.begun
        span = max(SPEED_TIME, NOISE / standstill_speed)
        if self.begun == -inf:
            self.origin, self.begun = position, now
        elif elapsed >= span or moved > standstill_speed * span:
            self.shown_speed = moved / max(elapsed, SHORTEST_STEP)
            self.origin, self.begun = position, now
        return self.shown_speed

    def difference(self, stamp: float, position: float) -> float | None:
        """Return the velocity since the last position; None unless ``stamp`` is later."""
        step = stamp - self.stamp
        return (position - self.position) / step if step > 0.0 else None

    def take_speed(self, speed: float, now: float, standstill_speed: float) -> None:
        """Store a speed; rest begins anew after a gap in the states of the joint."""
        if speed > standstill_speed:
            self.still_since = inf
        elif self.still_since == inf or self.is_old(now):
            self.still_since = now
        self.speed, self.heard = speed, now

    def is_old(self, now: float) -> bool:
        """Return whether the last known speed is older than :data:`JOINT_STATE_TIMEOUT`."""
        return now - self.heard > JOINT_STATE_TIMEOUT

    @property
    def is_moving(self) -> bool:
        """Whether the joint moved when its speed was last known."""
        return self.heard > -inf and self.still_since == inf


class StandstillMonitor:
    """Stores the positions and speeds of the monitored joints, and determines standstill.

    Args:
        joints: the joints to monitor; empty: all joints in the joint states.

    Attributes:
        ignored: number of ignored messages: with fields of different lengths, with no joint, or
            with more than :data:`MOST_JOINTS` joints.
    """

    def __init__(self, joints: Sequence[str] = ()) -> None:
        self._joints = tuple(joints)
        self._motions = {name: _JointMotion() for name in self._joints}
        self._ran, self._doubtful_until = inf, -inf
        self.ignored = 0

    def beat(self, now: float) -> None:
        """Record that the guard runs; more than :data:`PAUSE` since the last call was a pause.

        Joint states that are received within :data:`RECOVERY` after a pause may be from before.

        Args:
            now: time on the steady clock [s].
        """
        if now - self._ran > PAUSE:
            self._doubtful_until = now + RECOVERY
        self._ran = now

    def add_joint_state(
        self,
        stamp: float,
        names: Sequence[str],
        position: Sequence[float],
        velocity: Sequence[float],
        now: float,
        standstill_speed: float,
    ) -> bool:
        """Process a joint state; return whether every monitored joint has a recent known speed.

        If the velocity of a joint is missing or not finite, its speed is the difference of its last
        two positions divided by their time step; without such a step it does not change, and after
        the first position it is unknown. If all velocities of a joint so far are zero, its driver
        may not measure them, and its speed is the mean speed that its positions show over
        :data:`SPEED_TIME` or longer. A joint whose position is NaN or beyond :data:`LARGEST` is
        skipped, and so is a speed beyond it.

        A message with fields of different lengths, with no joint or with more than
        :data:`MOST_JOINTS` is counted in ``ignored``, and changes nothing else.

        Args:
            stamp: time of the message by its sender [s].
            names: joints of the message.
            position: their positions [rad or m].
            velocity: their velocities [rad/s or m/s]; may be empty.
            now: time of receipt of the message on the steady clock [s].
            standstill_speed: speed up to which a joint is at rest [rad/s or m/s].

        Returns:
            True if the speed of every joint is known from this message, or from a message received
            up to :data:`JOINT_STATE_TIMEOUT` earlier; False for an ignored message.
        """
        n = len(names)
        if not 0 < n == len(position) <= MOST_JOINTS or len(velocity) not in (0, n):
            self.ignored += 1
            return False
        for i, name in enumerate(names):
            joint = self._monitored(name)
            is_possible = abs(position[i]) <= LARGEST  # False for NaN
            if joint is None or not is_possible:
                continue
            self._motions[name] = joint
            speed: float | None = velocity[i] if velocity else None
            if speed is None or not isfinite(speed):
                speed = joint.difference(stamp, position[i])
            elif speed != 0.0:
                joint.has_velocity = True
            elif not joint.has_velocity:
                speed = joint.speed_shown(position[i], now, standstill_speed)
            joint.position, joint.stamp, joint.placed = position[i], stamp, now
            if speed is not None and abs(speed) <= LARGEST:
                joint.take_speed(abs(speed), now, standstill_speed)
        return bool(self._motions) and not self.missing(now)

    def still_since(self, now: float) -> float | None:
        """Return the time on the steady clock since which all monitored joints are at rest [s].

        A joint that moved in its last state counts as moving until a newer state shows it at rest,
        however old that state is. A joint that was at rest counts as at rest for
        :data:`JOINT_STATE_TIMEOUT`; after that its motion is unknown.

        Until :data:`RECOVERY` has passed after a pause of the guard, joint states may be old. The
        result is then the end of this time or later, unless a joint moves. An unknown motion does
        not change it.

        Returns:
            Infinity if any monitored joint moves, whatever is known of the other joints. None if no
            joint moves and the motion of a joint is unknown, or no joint has a state.
        """
        joints = self._motions.values()
        if any(joint.is_moving for joint in joints):
            return inf
        if not joints or self.missing(now):
            # After a pause, joint states may only not have been received yet.
            return self._doubtful_until if now < self._doubtful_until else None
        return max(self._doubtful_until, *(joint.still_since for joint in joints))

    def positions_since(self) -> float:
        """Return the receipt of the oldest of the last positions on the steady clock [s].

        It is minus infinity before every joint of ``joints`` has had a position, and if ``joints``
        is empty.
        """
        return min((self._motions[name].placed for name in self._joints), default=-inf)

    def stamps_since(self) -> float:
        """Return the oldest stamp of the last positions, by the clock of their senders [s].

        While a joint of ``joints`` has had no position it does not count; infinite without any.
        """
        return min((self._motions[name].stamp for name in self._joints), default=inf)

    def positions(self) -> list[float]:
        """Return the last positions in the order of ``joints`` [rad or m].

        All positions are known once :meth:`hear` has returned True; before, the position of a joint
        without a state is 0. The list is empty if ``joints`` is.
        """
        return [self._motions[name].position for name in self._joints]

    def missing(self, now: float) -> list[str]:
        """Return the monitored joints whose speed is unknown or too old at ``now`` [s].

        It is too old if it was received more than :data:`JOINT_STATE_TIMEOUT` ago.
        """
        return [name for name, joint in self._motions.items() if joint.is_old(now)]

    def fastest(self) -> tuple[str, float]:
        """Return the joint with the largest last known speed, and that speed [rad/s or m/s].

        The speed is zero if no speed is known, and the name is empty if there is no joint.
        """
        name = max(self._motions, key=lambda joint: self._motions[joint].speed, default="")
        return (name, self._motions[name].speed) if name else ("", 0.0)

    def age(self, name: str, now: float) -> float:
        """Return the age of the last known speed of a joint at ``now`` [s]; infinite without any.

        Raises:
            KeyError: for a joint that is not monitored.
        """
        return now - self._motions[name].heard

    def forget(self) -> None:
        """Discard all states, for example after an interruption of the monitoring."""
        self._motions = {name: _JointMotion() for name in self._joints}
        self._ran, self._doubtful_until = inf, -inf

    def _monitored(self, name: str) -> _JointMotion | None:
        """Return the motion of a joint, a new object for a new joint; None if not monitored."""
        known = self._motions.get(name)
        if known is None and not self._joints and len(self._motions) < MOST_JOINTS:
            return _JointMotion()
        return known
