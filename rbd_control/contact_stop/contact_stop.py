"""The decision to stop an arm on contact, and the latch until somebody resumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Literal

from rbd_control.contact_stop.parameters import StopParameters
from rbd_control.errors import InputError

State = Literal["watching", "stopping", "stopped"]

FLAG_HOLD = 0.1
"""Time for which a raised contact flag counts although a lowered one was heard [s].

A detector repeats its flag every 20 ms. The time bridges two publishers that contradict each other.
"""

LATEST_EVENT = 1.0
"""Longest time from the stop to the event that gives the onset of its contact [s]."""

LONGEST_DELAY = 5.0
"""Longest time from the onset of a contact to the stop that is believed [s]."""


@dataclass(frozen=True)
class StopTimes:
    """Times of one stop on the steady clock [s]; NaN for what is not known."""

    begin: float
    """Receipt of the verdict, or the end of the timeout, that stopped the arm."""
    onset: float = nan
    """Onset of the contact, as the detector estimates it."""
    sent: float = nan
    """When the last cancel request had left."""
    answered: float = nan
    """When all cancel requests were answered."""
    standstill: float = nan
    """When the arm came to rest."""


class ContactStop:
    """Tells when to stop an arm, whether it has stopped, and whether it may go on.

    The states are *watching*, *stopping* (until all cancel requests are answered and the arm
    stands still) and *stopped*. A stop is latched: only :meth:`resume` leads back to *watching*.
    All times are of the steady clock [s].

    Args:
        parameters: what stops the arm.

    Attributes:
        parameters: the same; may be replaced at any time.
        reason: why the arm was stopped, in words; empty while watching.
        is_by_contact: whether a contact or collision was the reason.
        times: times of the last stop; None before the first.
        stops: number of stops so far.
    """

    def __init__(self, parameters: StopParameters) -> None:
        self.parameters = parameters
        self.reason = ""
        self.is_by_contact = False
        self.times: StopTimes | None = None
        self.stops = 0
        self._state: State = "watching"
        self._is_started = self._is_confirmed = self._flag = False
        self._started = self._heard = self._raised = self._since = -inf

    @property
    def state(self) -> State:
        """The present state."""
        return self._state

    @property
    def is_latched(self) -> bool:
        """Whether the arm was stopped and nobody has resumed yet."""
        return self._state != "watching"

    def start(self, now: float) -> None:
        """Begin to watch; verdicts from before count for :meth:`missing` alone."""
        self._state, self.reason = "watching", ""
        self._started, self._is_started, self._flag = now, True, False
        self._raised = self._since = -inf

    def end(self) -> None:
        """Stop nothing any more, until :meth:`start`."""
        self._is_started = False

    # What is heard -----------------------------------------------------------------------------

    def hear(self, flag: bool, now: float) -> bool:
        """Take a verdict of the detector; return whether a stop begins.

        Args:
            flag: whether there is contact.
            now: time of its receipt.
        """
        if flag:
            if not self.is_touched(now):
                self._since = now
            self._raised = now
        self._flag, self._heard = flag, now
        return (
            flag
            and self.parameters.stop_at == "contact"
            and self._stop("contact", now, is_contact=True)
        )

    def hear_collision(self, now: float) -> bool:
        """Take an event of level collision; return whether a stop begins."""
        return self._stop("collision", now, is_contact=True)

    def hear_onset(self, age: float, now: float) -> None:
        """Take the estimated onset of a contact, which belongs to a stop of the last second.

        Args:
            age: time since the onset [s].
            now: time of receipt.
        """
        times, onset = self.times, now - age
        if times is None or not self.is_latched or isfinite(times.onset):
            return
        is_believed = 0.0 <= times.begin - onset <= LONGEST_DELAY
        if is_believed and now - times.begin <= LATEST_EVENT:
            self._note(onset=onset)

    def fail(self, reason: str, now: float) -> bool:
        """Stop because the guard itself is not sound; return whether a stop begins."""
        return self._stop(reason, now)

    def check(self, now: float) -> bool:
        """Look for silence and for a contact that lasts; return whether a stop begins."""
        parameters = self.parameters
        missing = self.missing(now)
        waited = now - self._started > parameters.silence_timeout
        if parameters.stop_on_silence and missing and waited:
            return self._stop(missing, now)
        lasted = now - self._since
        if self.is_touched(now) and lasted > parameters.longest_contact:
            return self._stop(f"contact for {lasted:.3g} s", now, is_contact=True)
        return False

    def missing(self, now: float) -> str:
        """Return since when there is no verdict, in words; empty while there is one."""
        age = now - self._heard
        if age <= self.parameters.silence_timeout:
            return ""
        if isfinite(age):
            return f"no verdict about contact for {age:.1f} s"
        return "no contact detector was ever heard"

    def is_touched(self, now: float) -> bool:
        """Return whether the flag is raised, or was so within :data:`FLAG_HOLD`.

        A raised flag that falls silent counts as raised.
        """
        return self._flag or now - self._raised <= FLAG_HOLD

    # What comes of it --------------------------------------------------------------------------

    def sent(self, now: float) -> None:
        """Take that the requests of the stop have left."""
        self._note(sent=now)

    def confirm(self, answered: bool, still_since: float | None, now: float) -> bool:
        """Take what is known of a latched stop; return, once, that it is confirmed.

        Args:
            answered: whether each available server has accepted the last cancel request.
            still_since: since when the arm stands still; infinite while it moves, None where that
                is not known, which counts as standing still.
            now: the time.
        """
        times = self.times
        if not self.is_latched or times is None:
            return False
        if answered and not isfinite(times.answered):
            self._note(answered=now)
        stands = still_since is None or (
            now - max(still_since, times.begin) >= self.parameters.standstill_time
        )
        if stands and still_since is not None and not isfinite(times.standstill):
            self._note(standstill=max(still_since, times.begin))
        self._state = "stopped" if answered and stands else "stopping"
        is_first = self._state == "stopped" and not self._is_confirmed
        self._is_confirmed |= is_first
        return is_first

    def obstacle(self, now: float) -> str:
        """Return why the arm may not go on, in words; empty when it may."""
        missing = self.missing(now)
        if missing:
            return missing
        if self.is_touched(now):
            return "the contact flag is raised"
        if self._state == "stopping":
            return "the stop is not confirmed yet; the diagnostics say what is missing"
        return ""

    def resume(self, now: float) -> None:
        """Go on watching.

        Raises:
            InputError: saying why the arm may not go on; the stop stays latched.
        """
        obstacle = self.obstacle(now)
        if obstacle:
            raise InputError(f"cannot resume: {obstacle}")
        self._state, self.reason = "watching", ""

    def _stop(self, reason: str, now: float, *, is_contact: bool = False) -> bool:
        if self.is_latched or not self._is_started:
            return False
        self._state, self.reason, self.is_by_contact = "stopping", reason, is_contact
        self.times = StopTimes(now)
        self._is_confirmed = False
        self.stops += 1
        return True

    def _note(self, **moments: float) -> None:
        if self.times is not None:
            self.times = replace(self.times, **moments)
