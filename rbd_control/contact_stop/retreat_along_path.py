"""The travelled path of an arm, and a slow retreat along its last part."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf, isfinite
from typing import Literal, NamedTuple

from rbd_control.contact_stop.contact_stop import StopParameters
from rbd_control.contact_stop.standstill_monitor import StandstillMonitor
from rbd_control.wording import listed

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


Phase = Literal["none", "waiting", "retreating", "holding"]

CLEARANCE = 0.03
"""Planned motion of a joint after which a contact should have ended [rad or m]."""

FLAG_FALLS = 0.5
"""Time after a planned motion of ``CLEARANCE`` within which the contact flag must fall [s].

In a shorter retreat it counts from the end of the planned motion. A detector lowers its flag 0.15 s
after the end of a contact, and the guard takes the flag for raised for 0.1 s longer.
"""

HOLD_TIME = 0.1
"""Shortest duration of the trajectory that stops a retreat [s]."""

PRESENT = 0.1
"""Age of a joint's last state up to which its position counts as the present position [s]."""

LONGEST_PAUSE = 0.5
"""Time between two checks above which a retreat is stopped [s].

After a pause of more than :data:`PRESENT`, messages that the guard processes within this time may
be from before the pause.
"""

LONGEST_WAIT = 1.0
"""Longest time for which the middleware may refuse to publish a retreat [s]."""

ARRIVED = 0.005
"""Distance of a joint from the end of the retreat up to which the arm has arrived [rad or m]."""

LONGEST_FACTOR = 3.0
"""Longest actual time of a retreat, less ``LONGEST_EXTRA``, as a multiple of the planned time."""

LONGEST_EXTRA = 1.0
"""Time that is added to the longest time of a retreat [s]."""


class Retreat:
    """Stores the travelled path and returns the retreat, once until :meth:`reset`.

    Args:
        parameters: length and speed of the retreat; may be replaced at any time.
    """

    def __init__(self, parameters: StopParameters) -> None:
        self.parameters = parameters
        self._path = TravelledPath()
        self._is_over = False

    def reset(self) -> None:
        """Discard the path, for example after an interruption, and allow a new retreat."""
        self._path.clear()
        self._is_over = False

    def take(self, now: float, position: list[float], is_latched: bool, stamp: float = inf) -> None:
        """Add joint positions to the travelled path, unless the retreat has already begun.

        Args:
            now: time on the steady clock [s].
            position: positions of all joints [rad or m].
            is_latched: whether the guard has stopped the arm. Before a stop, positions
                older than ``retreat_time`` are discarded; after it they are kept. A gap discards
                the earlier path at any time, see :class:`TravelledPath`.
            stamp: time of the positions by their sender [s]; infinite if it is unknown.
        """
        if self._is_over:
            return
        if not is_latched:
            self._path.forget_before(now - self.parameters.retreat_time)
        self._path.add(now, position, stamp)

    def begin(self, position: list[float]) -> list[RetreatPoint]:
        """Begin the retreat and return its points.

        The retreat has the length ``retreat_distance``, or the length of the path if this is
        shorter, and no joint moves faster than ``retreat_speed``.

        Args:
            position: present positions of all joints [rad or m].

        Returns:
            The points after ``position``. The list is empty without a path, and at every further
            call until :meth:`reset`.
        """
        if self._is_over:
            return []
        self._is_over = True
        way = self._path.back(position, self.parameters.retreat_distance)
        return timed_retreat(way, self.parameters.retreat_speed)


class RetreatSupervision:
    """Decides whether a retreat must be stopped, and when it has ended.

    The phases are *none* (there is no retreat), *waiting* (the middleware has not published the
    trajectory yet, and the arm is at rest), *retreating* (from the publication on), and *holding*
    (a trajectory that stops the arm replaces the retreat). *Retreating* and *holding* end when the
    arm is at rest, see :meth:`has_ended`, or by :meth:`drop`. All times are of the steady clock
    [s].

    Args:
        parameters: names of the joints, and conditions of standstill; may be replaced at any time.
    """

    def __init__(self, parameters: StopParameters) -> None:
        self.parameters = parameters
        self._phase: Phase = "none"
        self._way: list[RetreatPoint] = []
        self._was_free = self._is_held_as_planned = False
        self._planned_at = self._begun = self._rests_from = inf
        self._checked = self._doubtful_until = -inf

    @property
    def phase(self) -> Phase:
        """The present phase: none, waiting, retreating or holding."""
        return self._phase

    def obstacle(self) -> str:
        """Return why the retreat prevents the service ``~/resume``, or an empty text.

        It prevents it in the phases *retreating* and *holding*.
        """
        is_over = self._phase in ("none", "waiting")
        return "" if is_over else "the retreat has not ended yet"

    # Progress ----------------------------------------------------------------------------------

    def plan(self, now: float, position: list[float], points: Sequence[RetreatPoint]) -> None:
        """Enter the phase *waiting*.

        Args:
            now: the time.
            position: positions of the joints of the arm at rest [rad or m].
            points: points of the retreat, which begins at ``position``; at least one.
        """
        self._phase, self._way = "waiting", [RetreatPoint(0.0, position), *points]
        self._was_free = self._is_held_as_planned = False
        self._doubtful_until = -inf
        self._planned_at = self._checked = now

    def drop(self) -> None:
        """Enter the phase *none*; nothing is sent to the arm."""
        self._phase = "none"

    def begin(self, now: float) -> None:
        """Enter the phase *retreating*, because the trajectory was published at ``now``."""
        self._phase, self._begun = "retreating", now
        self._rests_from = now + self._way[-1].time

    def hold(self) -> None:
        """Enter the phase *holding*, in which a trajectory that stops the arm replaces the retreat.

        Call :meth:`held` when that trajectory is published.
        """
        self._phase, self._rests_from = "holding", inf

    def held(self, now: float, duration: float) -> None:
        """Record that the trajectory that stops the arm was published.

        Args:
            now: time of the publication.
            duration: duration of this trajectory [s].
        """
        self._rests_from = now + duration

    def has_ended(self, now: float, motion: StandstillMonitor) -> bool:
        """Enter the phase *none* and return True once the arm is at rest after the retreat.

        It must be at rest for ``standstill_time`` after the duration of the last trajectory. After
        a trajectory that stops the arm, unknown standstill counts as at rest.
        """
        if self._phase not in ("retreating", "holding") or not self._is_at_rest(now, motion):
            return False
        self._phase = "none"
        return True

    # Reasons to stop -----------------------------------------------------------------------------

    def check(self, now: float, motion: StandstillMonitor, silence: str, is_touched: bool) -> str:
        """Return the reason to stop or drop the retreat; empty if it may continue.

        In the phases *waiting* and *retreating* the reasons are: a new contact, a pause of the
        checks of more than :data:`LONGEST_PAUSE`, a missing verdict, and missing joint states. A
        flag that is raised within :data:`LONGEST_PAUSE` after a pause of more than :data:`PRESENT`
        counts as a new contact, because a fall of the flag during the pause is not known.

        In the phase *waiting* also: the arm is not at rest, or the wait exceeds
        :data:`LONGEST_WAIT`. In the phase *retreating* also: the flag has not fallen in the time
        that :data:`FLAG_FALLS` describes, the arm rests more than :data:`ARRIVED` before the end,
        or it still moves after ``LONGEST_FACTOR`` planned durations plus ``LONGEST_EXTRA``. In the
        other phases there is no reason. Call it every few milliseconds.

        Args:
            now: the time.
            motion: the monitored joints.
            silence: reason why there is no verdict about contact; empty with a verdict.
            is_touched: whether the contact flag is raised.
        """
        paused = self._time_since_check(now)
        if self._phase not in ("waiting", "retreating"):
            return ""
        is_new = is_touched and (self._was_free or now < self._doubtful_until)
        self._was_free |= not is_touched
        missing = motion.missing(now)
        reason = ""
        if is_new:
            reason = "contact"
        elif paused > LONGEST_PAUSE:
            reason = f"the guard did not run for {paused:.1f} s"
        elif silence:
            reason = silence
        elif missing:
            reason = f"no joint states of {listed(missing)}"
        return reason or (
            self._late(now, motion) if self._phase == "waiting" else self._overdue(now, motion)
        )

    def target(self, now: float, motion: StandstillMonitor) -> RetreatPoint:
        """Return the point of the trajectory that stops a retreat: its duration and positions.

        A joint is held at its measured position if its last state is at most :data:`PRESENT` old
        and the guard was not paused for more than :data:`PRESENT` within the last
        :data:`LONGEST_PAUSE`. Otherwise its best known position is the position that the retreat
        has planned for :data:`HOLD_TIME` from now. The joint then moves no faster than
        ``retreat_speed``: a controller that is slowed down is still behind the plan.
        """
        self._time_since_check(now)
        planned = self._planned(now - self._begun + HOLD_TIME)
        position, duration = motion.positions(), HOLD_TIME
        self._is_held_as_planned = not self._is_position_known(now, motion)
        for i, joint in enumerate(self.parameters.joints):
            if now < self._doubtful_until or motion.age(joint, now) > PRESENT:
                distance = abs(planned[i] - position[i])
                duration = max(duration, distance / self.parameters.retreat_speed)
                position[i] = planned[i]
        return RetreatPoint(duration, position)

    def must_hold_again(self, now: float, motion: StandstillMonitor) -> bool:
        """Return whether a joint is held at a planned position while all positions are known now.

        In this case publish the hold again, at a new result of :meth:`target`.
        """
        is_holding = self._phase == "holding" and self._is_held_as_planned
        return is_holding and self._is_position_known(now, motion)

    def _is_position_known(self, now: float, motion: StandstillMonitor) -> bool:
        """Return whether the last states of all joints show their present positions."""
        ages = [motion.age(joint, now) for joint in self.parameters.joints]
        return now >= self._doubtful_until and max(ages, default=inf) <= PRESENT

    def _time_since_check(self, now: float) -> float:
        """Return the time since the last check [s]; a pause makes measured positions doubtful."""
        paused = now - self._checked
        self._checked = now
        if paused > PRESENT:
            self._doubtful_until = now + LONGEST_PAUSE
        return paused

    def _late(self, now: float, motion: StandstillMonitor) -> str:
        """Return the reason why the retreat must not be published any more, or an empty text."""
        still_since = motion.still_since(now)
        if still_since is None or not isfinite(still_since):
            return "the arm is not at rest"
        if now - self._planned_at > LONGEST_WAIT:
            return f"the middleware has refused it for {LONGEST_WAIT:g} s"
        return ""

    def _overdue(self, now: float, motion: StandstillMonitor) -> str:
        """Return which time limit of the running retreat has passed; empty if none has."""
        elapsed, duration = now - self._begun, self._way[-1].time
        if not self._was_free and elapsed > self._flag_limit():
            return f"the contact flag has not fallen within {self._flag_limit():.1f} s"
        if self._is_at_rest(now, motion):
            left = max(
                abs(a - b) for a, b in zip(motion.positions(), self._way[-1].position, strict=True)
            )
            # The controller may only have paused, for example with the program of the robot.
            if left > ARRIVED:
                return f"the arm rests {left:.3g} rad or m before the end of the retreat"
        elif elapsed > LONGEST_FACTOR * duration + LONGEST_EXTRA:
            return f"the arm still moves after {elapsed:.1f} s of a retreat of {duration:.1f} s"
        return ""

    def _flag_limit(self) -> float:
        """Return the time from the start within which the contact flag must fall [s]."""
        start = self._way[0].position
        for point in self._way:
            if max(abs(a - b) for a, b in zip(point.position, start, strict=True)) >= CLEARANCE:
                return point.time + FLAG_FALLS
        return self._way[-1].time + FLAG_FALLS

    def _is_at_rest(self, now: float, motion: StandstillMonitor) -> bool:
        """Return whether the arm is at rest after the last trajectory for long enough."""
        still_since = motion.still_since(now)
        if still_since is None:
            if self._phase != "holding":
                return False
            still_since = -inf
        return now - max(still_since, self._rests_from) >= self.parameters.standstill_time

    def _planned(self, time: float) -> list[float]:
        """Return the planned position at a time from the start of the retreat."""
        for a, b in zip(self._way, self._way[1:], strict=False):
            if time <= b.time:
                share = max(0.0, (time - a.time) / (b.time - a.time))
                return [x + share * (y - x) for x, y in zip(a.position, b.position, strict=True)]
        return list(self._way[-1].position)
