"""The texts and tables of the page as HTML; all texts from messages are escaped."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from rbd_control.estimation import ContactEvent
from rbd_control.view.state import ArmState

COLOURS = {
    "contact": "#d9480f",
    "collision": "#c2255c",
    "free": "#2b8a3e",
    "no verdict": "#868e96",
}
"""Colour of each verdict."""

MOST_EVENTS = 200
"""Number of events that are listed, the newest first."""

_STYLE = "font-size:0.85em;padding:0 0.9em"
_CELL = "padding:0.1em 0.5em 0.1em 0"


def verdict_html(state: ArmState) -> str:
    """Return a coloured block of HTML: the verdict, the touched link and the force.

    With several candidates it names the probability of the link; the force is its magnitude [N].
    """
    text: str = state.verdict
    touch = state.touch
    if touch is not None and touch.link:
        text += f" at {touch.link}"
        sure = touch.probabilities.get(touch.link, 1.0)
        others = [link for link in touch.probabilities if link != touch.link]
        if others:
            text += f" ({sure:.0%}, else {' or '.join(others)})"
    force = ""
    if touch is not None and touch.force is not None:
        force = f"<br><b>{float(np.linalg.norm(touch.force)):.1f} N</b>"
    return (
        f'<div class="rbd-verdict" style="margin:0.3em 0.8em;padding:0.5em 0.8em;color:white;'
        f'border-radius:0.4em;background:{COLOURS[state.verdict]}">{escape(text)}{force}</div>'
    )


def figures_html(state: ArmState) -> str:
    """Return the controller's figures and the notice; empty if nothing is known."""
    rows = []
    if state.mode:
        rows.append(("mode", escape(state.mode)))
    for name, value, scale, unit in (
        ("tracking error", state.tracking_error, 1e3, "mrad or mm"),
        ("storage", state.storage, 1.0, "J"),
        ("tank", state.tank, 1.0, "J"),
    ):
        if math.isfinite(value):
            rows.append((name, f"{scale * value:.2f} {unit}"))
    table = "".join(f'<tr><td style="{_CELL}">{a}</td><td>{b}</td></tr>' for a, b in rows)
    notice = f'<div class="rbd-notice"><i>{escape(state.notice)}</i></div>' if state.notice else ""
    if not table and not notice:
        return ""
    return f'<div class="rbd-figures" style="{_STYLE}"><table>{table}</table>{notice}</div>'


def events_html(events: tuple[ContactEvent, ...], current: int) -> str:
    """Return the list of events, the newest first; the present contact is bold.

    Args:
        events: the events, the oldest first.
        current: index of the present contact in ``events``; -1 without contact.
    """
    if not events:
        return f'<div class="rbd-events" style="{_STYLE}">no contact so far</div>'
    first = max(len(events) - MOST_EVENTS, 0)
    rows = "".join(
        _event_row(events[k], k == current) for k in range(len(events) - 1, first - 1, -1)
    )
    head = "".join(f'<th style="{_CELL};text-align:left">{h}</th>' for h in _HEADINGS)
    return (
        f'<div class="rbd-events" style="{_STYLE};max-height:14em;overflow-y:auto"><table>'
        f"<tr>{head}</tr>{rows}</table></div>"
    )


_HEADINGS = ("event", "onset [s]", "link", "torque [N·m]", "force [N]", "lasts [s]")


def _event_row(event: ContactEvent, is_current: bool) -> str:
    others = [link for link in event.candidates if link != event.link]
    force = "" if event.force is None else f"{float(np.linalg.norm(event.force)):.1f}"
    cells = (
        f"{event.level} {event.id}",
        f"{event.onset:.3f}",
        " or ".join([event.link or event.joint, *others]),
        f"{event.peak_torque:+.2f}",
        force,
        "" if event.duration is None else f"{event.duration:.2f}",
    )
    weight = ";font-weight:bold" if is_current else ""
    row = "".join(f'<td style="{_CELL}{weight}">{escape(cell)}</td>' for cell in cells)
    return f'<tr class="rbd-event">{row}</tr>'


def event_title(event: ContactEvent) -> str:
    """Return an event as a short text for a list to choose from."""
    return f"{event.id}: {event.onset:.2f} s {event.level} at {event.link or event.joint}"
