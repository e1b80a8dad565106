"""State of one arm at one instant for the page, its last residuals, and the playback position."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import ContactEvent

Array = NDArray[np.float64]
Verdict = Literal["contact", "collision", "no contact", "no verdict"]

WINDOW = 10.0
"""Time span of the chart of residuals [s]."""


@dataclass(frozen=True, eq=False)
class Touch:
    """A contact at an instant while it lasts.

    Attributes:
        link: the link that was most probably touched; empty if it is unknown.
        probabilities: probability of each link that may have been touched, by name, in [0, 1].
        force: force of the environment on the arm, (3,) world axes [N]; None if not observable.
        point: contact point, (3,) world axes [m]; None if not observable.
    """

    link: str
    probabilities: dict[str, float]
    force: Array | None
    point: Array | None


@dataclass(frozen=True, eq=False)
class ArmState:
    """State of one arm at one instant; unknown values are None, NaN or empty.

    Attributes:
        time: time of the state [s]: since the first sample of a recording, or by stamps since the
            first residual of a live arm.
        q: joint positions in the order of the model, (nq,) [rad or m]; None before the first joint
            state.
        verdict: the detector's verdict.
        touch: the present contact; None without contact.
        joints: names of the joints in ``ratios``.
        ratios: residual (estimated external torque) of each of ``joints`` divided by its threshold,
            signed, (n,); None if it is unknown.
        events: the latest event (onset or release) of each contact, the oldest contact first; for a
            recording all its contacts, including contacts after ``time``.
        current: index in ``events`` of the present contact; -1 without contact.
        mode: mode of the controller; empty if it is unknown.
        tracking_error: largest absolute position error of a joint [rad or m]; NaN if it is unknown.
        storage: energy stored in tracking errors [J]; NaN if it is unknown.
        tank: level of the controller's energy tank [J]; NaN if it is unknown.
        friction: changes of friction that the detector has learned; empty if none is notable.
        notice: message for the user about missing, silent or doubtful data; empty without problem.
    """

    time: float
    q: Array | None = None
    verdict: Verdict = "no verdict"
    touch: Touch | None = None
    joints: tuple[str, ...] = ()
    ratios: Array | None = None
    events: tuple[ContactEvent, ...] = ()
    current: int = -1
    mode: str = ""
    tracking_error: float = math.nan
    storage: float = math.nan
    tank: float = math.nan
    friction: str = ""
    notice: str = ""


def probabilities(event: ContactEvent) -> dict[str, float]:
    """Return the probability of each candidate link of an event, by name, in [0, 1].

    The event contains the probability of its link only (``confidence``). The remainder is divided
    equally among the other candidates, so the last candidates may be less probable than shown. If
    the confidence is unknown, all candidates are equally probable. If the event names no link, the
    result is empty.
    """
    others = [link for link in event.candidates if link != event.link]
    if not event.link:
        return {}
    if not others:
        return {event.link: 1.0}
    first = event.confidence if 0.0 <= event.confidence <= 1.0 else 1.0 / (1 + len(others))
    return {event.link: first, **dict.fromkeys(others, (1.0 - first) / len(others))}


class ResidualHistory:
    """Ratios of residual to threshold in the last seconds, for the chart.

    Args:
        window: length of the stored history [s].

    Attributes:
        joints: names of the joints in the history; empty before the first call of :meth:`add`.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._rows: deque[tuple[float, Array]] = deque()
        self.joints: tuple[str, ...] = ()

    def add(self, time: float, joints: Sequence[str], ratios: Array) -> None:
        """Add ratios of residual to threshold at one time.

        If the joints change or the time goes back, a new history begins.

        Args:
            time: time of the residuals [s], on any clock.
            joints: names of the n joints.
            ratios: ratio of each joint, (n,), signed.
        """
        if tuple(joints) != self.joints or (self._rows and time < self._rows[-1][0]):
            self._rows.clear()
            self.joints = tuple(joints)
        self._rows.append((time, ratios))
        while self._rows[0][0] < time - self._window:
            self._rows.popleft()

    def series(self) -> tuple[Array, Array]:
        """Return the stored times, (k,) [s], and ratios, (k, n); k is 0 for an empty history."""
        if not self._rows:
            return np.zeros(0), np.zeros((0, len(self.joints)))
        times, rows = zip(*self._rows, strict=True)
        return np.array(times), np.array(rows)


LEAD = 0.5
"""Time between the target of a jump to an event during playback and the event's onset [s].

The target precedes the onset, so that the start of the contact is visible."""

SHOWN = 0.1
"""Time after the detection of a contact that a jump to its event shows while paused [s]."""

SPEEDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Playback speeds that the page offers: recorded time per real time."""


class Playhead:
    """Playback position, which starts at 0 s, playing, at speed 1.

    At the end of the recording the playback stops; :meth:`toggle` then restarts it from the
    beginning.

    Any thread may call the methods. :meth:`advance`, :meth:`toggle` and :meth:`seek` are atomic.
    :meth:`next_event` and :meth:`previous_event` are not: they choose the event by the position
    that they read first, which another thread may change before they go to the event.

    Args:
        duration: length of the recording [s].
        events: the events, in order of time; times from the start of the recording.

    Attributes:
        duration: length of the recording, at least 0 [s].
    """

    def __init__(self, duration: float, events: Sequence[ContactEvent] = ()) -> None:
        self.duration = max(duration, 0.0)
        self._leads = [self._limited(event.onset - LEAD) for event in events]
        self._contacts = [self._limited(_during(event)) for event in events]
        self._lock = threading.Lock()
        self._time, self._speed, self._playing = 0.0, 1.0, True

    def _limited(self, time: float) -> float:
        return min(max(time, 0.0), self.duration)

    @property
    def _marks(self) -> list[float]:
        """Targets of jumps to the events [s]: before them while it plays, during them if paused."""
        return self._leads if self._playing else self._contacts

    @property
    def time(self) -> float:
        """Time of the playback from the start of the recording, from 0 to :attr:`duration` [s]."""
        return self._time

    @property
    def speed(self) -> float:
        """Recorded time played per real time; 1 is real time, 2 is twice as fast."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._speed = speed

    @property
    def is_playing(self) -> bool:
        """Whether :meth:`advance` changes the position: False while paused and at the end."""
        return self._playing

    def advance(self, elapsed: float) -> float:
        """Advance the playback and return the new position [s].

        The position advances by ``elapsed`` times :attr:`speed`, at most to the end, where the
        playback stops. While the playback is paused, the position does not change.

        Args:
            elapsed: time since the last call [s].
        """
        with self._lock:
            if self._playing:
                self._time = min(self._time + self._speed * max(elapsed, 0.0), self.duration)
                self._playing = self._time < self.duration
            return self._time

    def toggle(self) -> None:
        """Pause or continue; at the end, restart from the beginning."""
        with self._lock:
            self._playing = not self._playing
            if self._playing and self._time >= self.duration:
                self._time = 0.0

    def seek(self, time: float) -> None:
        """Go to a time from the start of the recording [s], limited to the recording.

        A paused playback remains paused.
        """
        with self._lock:
            self._time = self._limited(time)

    def go_to_event(self, index: int) -> None:
        """Go to an event: :data:`LEAD` before its onset or, if paused, into its contact.

        Args:
            index: index into ``events``, from 0; an index out of range has no effect.
        """
        if 0 <= index < len(self._marks):
            self.seek(self._marks[index])

    def next_event(self) -> None:
        """Go to the next event, as :meth:`go_to_event`; after the last event, stay."""
        self.go_to_event(bisect_right(self._marks, self._time + 1e-9))

    def previous_event(self) -> None:
        """Go to the previous event, as :meth:`go_to_event`; before the first, to the start."""
        # While it plays, the present event must not be selected again.
        margin = LEAD if self._playing else 1e-9
        index = bisect_left(self._marks, self._time - margin) - 1
        if index < 0:
            self.seek(0.0)
        self.go_to_event(index)


def _during(event: ContactEvent) -> float:
    """Return a time at which the flag of an event is raised [s]."""
    lasts = 2.0 * SHOWN if event.release is None else event.release - event.detected
    return event.detected + min(SHOWN, 0.5 * lasts)
