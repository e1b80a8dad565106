"""Playback position in a recording: pause, seek, speed, jumps to events."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

LEAD = 0.5
"""Time between the target of a jump to an event and the event's onset [s].

The target precedes the onset, so that the start of the contact is visible."""

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
        onsets: onset of each event from the start of the recording, increasing [s].

    Attributes:
        duration: length of the recording, at least 0 [s].
    """

    def __init__(self, duration: float, onsets: Sequence[float] = ()) -> None:
        self.duration = max(duration, 0.0)
        self._marks = [min(max(onset - LEAD, 0.0), self.duration) for onset in onsets]
        self._lock = threading.Lock()
        self._time, self._speed, self._playing = 0.0, 1.0, True

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
            self._time = min(max(time, 0.0), self.duration)

    def go_to_event(self, index: int) -> None:
        """Go to :data:`LEAD` before the onset of an event.

        Args:
            index: index into ``onsets``, from 0; an index out of range has no effect.
        """
        if 0 <= index < len(self._marks):
            self.seek(self._marks[index])

    def next_event(self) -> None:
        """Go to :data:`LEAD` before the onset of the next event; after the last event, stay."""
        self.go_to_event(bisect_right(self._marks, self._time + 1e-9))

    def previous_event(self) -> None:
        """Go to :data:`LEAD` before the previous event's onset; before the first, to the start."""
        # While it plays, the present event must not be selected again.
        margin = LEAD if self._playing else 1e-9
        index = bisect_left(self._marks, self._time - margin) - 1
        if index < 0:
            self.seek(0.0)
        self.go_to_event(index)
