"""The display of ``rbd-control monitor``: residuals beside thresholds, verdict, and events."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rbd_control.estimation import ContactEvent

BAR = 40
"""Width of a bar [characters]; the threshold is at three quarters of it."""

CLOSE = 0.7
"""Ratio of residual to threshold above which a bar is yellow."""

FULL = 4.0 / 3.0
"""Ratio of residual to threshold at which a bar is full."""

SILENCE = 0.2
"""Age at which a verdict expires [s]; a detector repeats a valid verdict at 50 Hz."""

KEPT = 6
"""Number of displayed events, the newest."""


@dataclass
class LiveState:
    """The received state of a detector; times are on a steady clock [s].

    Attributes:
        detector: name of the detector's node.
        joints: joints of the residual.
        residual: last residual, in the order of ``joints`` [N·m or N].
        thresholds: thresholds in the order of ``joints`` [N·m or N]; empty until received.
        rate: rate of the samples [1/s]; NaN before it is known.
        told: time of receipt of the last residual; -inf before the first.
        contact: last verdict, true for contact.
        judged: time of receipt of the last verdict; -inf before the first.
        link: link of the last contact event or contact force; empty before the first.
        force: last contact force, x y z in the axes of ``link`` [N]; None if it is unknown.
        condition: message of the detector's status in ``/diagnostics``, such as ``ok``; empty
            before the first.
        ignored: number of received messages that cannot come from a detector, such as residuals
            that are not finite.
        events: last events, the oldest first.
    """

    detector: str
    joints: tuple[str, ...] = ()
    residual: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    rate: float = math.nan
    told: float = -math.inf
    contact: bool = False
    judged: float = -math.inf
    link: str = ""
    force: tuple[float, float, float] | None = None
    condition: str = ""
    ignored: int = 0
    events: deque[ContactEvent] = field(default_factory=lambda: deque(maxlen=KEPT))

    def verdict(self, now: float) -> str:
        """Return ``contact``, ``no contact``, or ``no verdict`` after ``SILENCE`` without one.

        Args:
            now: time on the steady clock [s].
        """
        if now - self.judged > SILENCE:
            return "no verdict"
        return "contact" if self.contact else "no contact"


def render(state: LiveState, now: float) -> RenderableType:
    """Return the display of a detector for a rich console.

    Args:
        state: the received state.
        now: present time on the steady clock [s].
    """
    parts: list[RenderableType] = [_headline(state, now)]
    if state.joints:
        parts.append(_residuals(state))
    parts.append(_events(state))
    return Group(*parts)


def event_line(event: ContactEvent) -> str:
    """Return an onset or a release of a contact as one line of text."""
    where = _where(event)
    force = f", {event.force_text}" if event.force_text else ""
    if event.phase == "release":
        lasted = f"after {event.duration:.3f} s" if event.duration is not None else ""
        return f"{event.level} {event.id} at {where} ends {lasted}{force}".rstrip()
    late = 1e3 * (event.detected - event.onset)
    return (
        f"{event.level} {event.id} at {where}: {event.joint} {event.peak_torque:+.2f} N·m{force}, "
        f"found {late:.0f} ms after it began"
    )


def _where(event: ContactEvent) -> str:
    """Return the link, with probability and other candidates if uncertain; else the joint."""
    others = [link for link in event.candidates if link != event.link]
    if not event.link or not others:
        return event.link or event.joint
    sure = "" if math.isnan(event.confidence) else f"{event.confidence:.0%}, "
    return f"{event.link} ({sure}else {' or '.join(others)})"


def _headline(state: LiveState, now: float) -> Text:
    verdict = state.verdict(now)
    if state.rate == 0.0 or state.condition.startswith("no verdict"):
        verdict = "no verdict"  # the flag is an old one, which the topic keeps for late subscribers
    style = {"contact": "bold red", "no contact": "green", "no verdict": "yellow"}[verdict]
    text = Text.assemble((verdict, style))
    if verdict == "contact" and state.link:
        text.append(f" at {state.link}", style="red")
        if state.force is not None:
            numbers = " ".join(f"{x:+.1f}" for x in state.force)
            text.append(f", {math.hypot(*state.force):.1f} N ({numbers})")
    text.append(f"    {state.detector}", style="dim")
    if math.isfinite(state.rate):
        text.append(f", {state.rate:.0f} Hz" if state.rate else ", no samples", style="dim")
    if state.condition and state.condition != "ok":
        text.append(f"\n{state.condition}", style="yellow")
    if state.ignored:
        text.append(f"\n{state.ignored} messages of something else ignored", style="yellow")
    return text


def _residuals(state: LiveState) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
    table.add_column("joint")
    table.add_column("residual", justify="right")
    table.add_column("threshold", justify="right")
    table.add_column("|" + " " * (round(BAR / FULL) - 2) + "|")
    thresholds = state.thresholds or (math.nan,) * len(state.joints)
    for joint, value, threshold in zip(state.joints, state.residual, thresholds, strict=True):
        limit = f"{threshold:.2f}" if math.isfinite(threshold) else "?"
        bar = _bar(abs(value) / threshold) if math.isfinite(threshold) else Text()
        table.add_row(escape(joint), f"{value:+.2f}", limit, bar)
    return table


def _bar(ratio: float) -> Text:
    style = "red" if ratio > 1.0 else "yellow" if ratio > CLOSE else "green"
    return Text("█" * round(BAR * min(ratio / FULL, 1.0)), style=style)


def _events(state: LiveState) -> Text:
    if not state.events:
        return Text("no contact so far", style="dim")
    return Text("\n".join(event_line(event) for event in reversed(state.events)))
