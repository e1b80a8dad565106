"""Texts and tables of the page as HTML; all texts from ROS messages are escaped."""

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
"""CSS colour of each verdict of :class:`~rbd_control.view.state.ArmState`."""

MOST_EVENTS = 200
"""Maximum number of events in the list; older events are left out."""

_STYLE = "font-size:0.85em;padding:0 0.9em"
_CELL = "padding:0.1em 0.5em 0.1em 0"


def verdict_html(state: ArmState) -> str:
    """Return a coloured block of HTML with the verdict, the touched link and the force.

    With several candidate links, it gives the probability of the touched link and the names of the
    others. The force is shown as its magnitude [N]. Unknown values are left out.
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
    """Return a table of the controller's values and the notice of a state, as HTML.

    The values are mode, tracking error [mrad or mm], stored energy [J] and level of the energy tank
    [J]. Unknown values are left out; without values and notice, the text is empty.
    """
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
    """Return an HTML table of the last :data:`MOST_EVENTS` events, the newest first.

    The present contact is bold. Without events, the text says that there was no contact so far.

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
    """Return an event as a line for a list, such as ``3: 12.40 s contact at link5``.

    It has the number of the contact, its onset [s], its level, and its link, or the joint if the
    link is unknown. The text is not escaped.
    """
    return f"{event.id}: {event.onset:.2f} s {event.level} at {event.link or event.joint}"
