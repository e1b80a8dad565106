"""Parameters of stop, standstill and retreat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Literal

from rbd_control.errors import InputError, ParameterError
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class StopParameters(Parameters):
    """Conditions of a stop and of standstill, and the length of the retreat.

    Raises:
        ParameterError: for a joint named twice, and for a retreat without ``joints``.
    """

    HEADING = "Stop, standstill and retreat"

    joints: tuple[str, ...] = parameter(
        (),
        "joints whose standstill is awaited, in the order of the retreat; empty: all joints of "
        "joint_states",
        live=False,
        in_description=True,
    )
    stop_at: str = parameter(
        "contact",
        "condition of a stop: 'contact': every contact; 'collision': a contact of level collision, "
        "or one that lasts longer than longest_contact",
        choices=("contact", "collision"),
    )
    longest_contact: float = parameter(
        1.0,
        "longest contact that does not stop the arm when stop_at is 'collision'",
        unit="s",
        above=0.0,
        upper=60.0,
    )
    stop_on_silence: bool = parameter(
        False, "stop the arm when the detector publishes no verdict for silence_timeout"
    )
    silence_timeout: float = parameter(
        0.5,
        "time without a verdict after which the detector is silent; it repeats a verdict at 50 Hz",
        unit="s",
        lower=0.1,
        upper=10.0,
    )
    standstill_speed: float = parameter(
        0.02,
        "speed below which a joint stands still",
        unit="rad/s or m/s",
        above=0.0,
        upper=1.0,
        expert=True,
    )
    standstill_time: float = parameter(
        0.1,
        "time for which all joints must be at rest before the arm counts as stopped",
        unit="s",
        lower=0.0,
        upper=10.0,
        expert=True,
    )
    retreat_distance: float = parameter(
        0.0,
        "length of the retreat along the travelled path, as motion of the joint that moves most; "
        "0: no retreat",
        unit="rad or m",
        lower=0.0,
        upper=0.5,
        live=False,
    )
    retreat_time: float = parameter(
        1.0,
        "duration of the path that is stored before a stop; a retreat goes back no further",
        unit="s",
        above=0.0,
        upper=10.0,
        expert=True,
    )
    retreat_speed: float = parameter(
        0.1,
        "largest speed of any joint during the retreat",
        unit="rad/s or m/s",
        above=0.0,
        upper=1.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.joints)) != len(self.joints):
            raise ParameterError(f"a joint is named twice in joints: {', '.join(self.joints)}")
        if self.retreat_distance and not self.joints:
            raise ParameterError(
                f"retreat_distance is {self.retreat_distance:g} but joints is empty; name the "
                "joints of the retreat's trajectory"
            )


State = Literal["watching", "stopping", "stopped"]

FLAG_HOLD = 0.1
"""Time after a raised contact flag for which it still counts if a lowered flag follows [s].

A detector repeats its flag every 20 ms. With this time, a second publisher of a lowered flag cannot
cancel a raised flag.
"""

LATEST_EVENT = 1.0
"""Longest time after a stop for which an event may give the onset of its contact [s]."""

LONGEST_DELAY = 5.0
"""Longest plausible time from the onset of a contact to the stop [s]."""


@dataclass(frozen=True)
class StopTimes:
    """When the steps of one stop of the arm happened, on the steady clock [s].

    The time is NaN if the step has not happened or was not reported.
    """

    begin: float
    """The decision to stop: receipt of the verdict or event, or the check that led to the stop."""
    onset: float = nan
    """Onset of the contact, as the detector estimates it."""
    sent: float = nan
    """Time at which the last request of the stop had been sent."""
    answered: float = nan
    """Time at which all requests of the stop were answered."""
    standstill: float = nan
    """Time at which the arm came to rest."""

    def durations(self) -> dict[str, float]:
        """Return the known durations of the stop by name [s].

        They begin with the decision to stop (``flag``, also if a collision event or silence led to
        it) or with the estimated onset of the contact.
        """
        found = {
            "flag to requests sent": self.sent - self.begin,
            "flag to answers": self.answered - self.begin,
            "flag to standstill": self.standstill - self.begin,
            "onset to requests sent": self.sent - self.onset,
            "onset to standstill": self.standstill - self.onset,
        }
        return {what: value for what, value in found.items() if isfinite(value)}


class ContactStop:
    """Decides when to stop an arm, whether it has stopped, and whether it may resume.

    The states are *watching*, *stopping* (until all cancel requests are answered and the arm
    is at rest) and *stopped*. A stop is latched: only :meth:`resume` and :meth:`start` lead back to
    *watching*. This class sends nothing: its methods return whether a stop begins, and the caller
    sends the requests. No stop begins before :meth:`start`. All times are of the steady clock [s].

    Args:
        parameters: conditions of a stop.

    Attributes:
        parameters: conditions of a stop; may be replaced at any time.
        reason: reason of the stop as text; empty while watching.
        is_by_contact: whether a contact or collision was the reason of the last stop.
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
        """Whether the arm was stopped and not resumed yet."""
        return self._state != "watching"

    def start(self, now: float) -> None:
        """Start to watch, without a latch.

        Verdicts received earlier still count as a sign of a running detector, see :meth:`missing`,
        but not as a contact.
        """
        self._state, self.reason = "watching", ""
        self._started, self._is_started, self._flag = now, True, False
        self._raised = self._since = -inf

    def end(self) -> None:
        """End watching; until :meth:`start` no stop begins."""
        self._is_started = False

    # Input -------------------------------------------------------------------------------------

    def update_verdict(self, flag: bool, now: float) -> bool:
        """Process a verdict of the detector; return whether a stop begins.

        Args:
            flag: whether there is contact.
            now: time of receipt.

        Returns:
            True if the flag is raised, ``stop_at`` is contact, and the started guard is *watching*.
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

    def update_collision(self, now: float) -> bool:
        """Process an event of level collision at the time ``now``; return whether a stop begins.

        It begins with any value of ``stop_at``.
        """
        return self._stop("collision", now, is_contact=True)

    def update_onset(self, age: float, now: float) -> None:
        """Store the estimated onset of a contact in ``times`` of the latched stop.

        It is ignored if ``times`` has an onset, if the stop began more than :data:`LATEST_EVENT`
        ago, and if the onset is after the stop or more than :data:`LONGEST_DELAY` before it.

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
        """Stop because of a defect of the guard, with its text; return whether a stop begins."""
        return self._stop(reason, now)

    def check(self, now: float) -> bool:
        """Check for silence and for a long contact; return whether a stop begins.

        Silence stops the arm only with ``stop_on_silence``: no verdict for ``silence_timeout``,
        counted from :meth:`start` at the earliest. A contact longer than ``longest_contact`` always
        stops it.
        """
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
        """Return a message if no verdict was received for ``silence_timeout``, or an empty text."""
        age = now - self._heard
        if age <= self.parameters.silence_timeout:
            return ""
        if isfinite(age):
            return f"no verdict about contact for {age:.1f} s"
        return "no contact detector has published yet"

    def is_touched(self, now: float) -> bool:
        """Return whether the flag is raised, or was raised within :data:`FLAG_HOLD`.

        A raised flag counts as raised also if no further verdicts arrive.
        """
        return self._flag or now - self._raised <= FLAG_HOLD

    # Progress of a stop ------------------------------------------------------------------------

    def sent(self, now: float) -> None:
        """Record in ``times`` that all requests of the stop were sent at ``now``."""
        self._note(sent=now)

    def confirm(self, answered: bool, still_since: float | None, now: float) -> bool:
        """Update a latched stop; return True once, when it is confirmed.

        It is confirmed, with the state *stopped*, when all requests are answered and the arm has
        been at rest for ``standstill_time`` since the stop. A joint that moves again leads back to
        *stopping*.

        Args:
            answered: whether all requests of the stop are sent, each available server has agreed to
                its request, and none of them runs a goal.
            still_since: time since which the arm is at rest; infinite while it moves; None if it
                is unknown, which counts as at rest.
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
        """Return the reason why the arm must not resume, or an empty text.

        The reasons are a missing verdict, a raised contact flag and a stop that is not confirmed.
        """
        missing = self.missing(now)
        if missing:
            return missing
        if self.is_touched(now):
            return "the contact flag is raised"
        if self._state == "stopping":
            return "the stop is not confirmed yet; the diagnostics say what is missing"
        return ""

    def resume(self, now: float) -> None:
        """End the latch and resume watching.

        Raises:
            InputError: with the reason of :meth:`obstacle`; the stop stays latched.
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
