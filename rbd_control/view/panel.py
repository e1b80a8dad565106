"""Panel beside the 3D scene: verdicts, residuals, events, and the controls of a recording."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import ContactEvent
from rbd_control.view.sources import RecordingSource, Source
from rbd_control.view.state import SPEEDS, ArmState, Playhead

COLOURS = {
    "contact": "#d9480f",
    "collision": "#c2255c",
    "no contact": "#2b8a3e",
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


def figures_html(state: ArmState, unit: str = "rad") -> str:
    """Return a table of the controller's values, of friction, and the notice of a state, as HTML.

    The values are mode, tracking error, stored energy [J], level of the energy tank
    [J], and notable changes of friction that the detector has learned. Unknown values are left out;
    without values and notice, the text is empty.

    Args:
        state: state of the arm.
        unit: unit of its joint positions; the tracking error is shown in thousandths of it.
    """
    rows = []
    if state.mode:
        rows.append(("mode", escape(state.mode)))
    small = f"m{unit.replace(' or ', ' or m')}"
    for name, value, scale, shown in (
        ("tracking error", state.tracking_error, 1e3, small),
        ("storage", state.storage, 1.0, "J"),
        ("tank", state.tank, 1.0, "J"),
    ):
        if math.isfinite(value):
            rows.append((name, f"{scale * value:.2f} {shown}"))
    if state.friction:
        rows.append(("friction", escape(state.friction)))
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
        f'<div class="rbd-events" style="{_STYLE};max-height:20em;overflow-y:auto"><table>'
        f"<tr>{head}</tr>{rows}</table></div>"
    )


_HEADINGS = ("event", "onset [s]", "link", "torque [N·m]", "peak force", "lasts [s]")


def _event_row(event: ContactEvent, is_current: bool) -> str:
    others = [link for link in event.candidates if link != event.link]
    cells = (
        f"{event.level} {event.id}",
        f"{event.onset:.3f}",
        " or ".join([event.link or event.joint, *others]),
        f"{event.peak_torque:+.2f}",
        event.force_text,
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


Array = NDArray[np.float64]

PALETTE = (
    *("#1c7ed6", "#e8590c", "#2f9e44", "#ae3ec9", "#f08c00", "#0c8599", "#e64980"),
    *("#74b816", "#6741d9", "#868e96"),
)
"""CSS colours of the joints in the chart, in the order of the joints, repeated if too few."""

MOST_OPTIONS = 300
"""Maximum number of events in the list to jump to; later events are left out."""

MOST_MARKS = 40
"""Number of events above which the time slider has no marks at the onsets."""

HEIGHTS = (240, 241)
"""Two heights of the chart [pixels]; a change between them makes the browser redraw the chart."""

_NO_EVENT = "choose"

_NOW = "now"


class ArmPanel:
    """Panel of one arm: verdict, values of the controller, chart of residuals, events.

    Args:
        gui: gui of the viser server.
        source: the arm.
        in_folder: whether the panel has a folder with the arm's name, for several arms.

    Attributes:
        chart: uPlot chart of the residuals; None before two rows of residuals are known.
        event: viser list of the events of a live arm to look back at; None for a recording.
        verdict, figures, events: viser objects with the texts of this module.
    """

    def __init__(self, gui: Any, source: Source, *, in_folder: bool) -> None:
        self._gui, self._source = gui, source
        self._container = gui.add_folder(source.name) if in_folder else nullcontext()
        self._joints: tuple[str, ...] = ()
        self.chart: Any = None
        self.event: Any = None
        with self._container:
            if not isinstance(source, RecordingSource):
                self.event = gui.add_dropdown("event", (_NOW,))
            self.verdict = gui.add_html("")
            self.figures = gui.add_html("")
            self._chart_place = gui.add_folder("residuals in units of their thresholds")
            self.events = gui.add_html("")

    def selected(self, state: ArmState) -> ArmState:
        """Return the state to draw: the given one, or that of the event selected from the list.

        The state of an event has a notice that it is in the past, and all events until now.
        """
        if self.event is None or self.event.value == _NOW:
            return state
        event = next((e for e in state.events if event_title(e) == self.event.value), None)
        past = None if event is None else self._source.during(event)
        if event is None or past is None:
            return state
        notice = f"the past, at {past.time:.2f} s: select {_NOW} to see the present"
        return replace(past, notice=notice, events=state.events, current=state.events.index(event))

    def tell(self, state: ArmState) -> None:
        """Update verdict, values of the controller and list of events from a state."""
        self.verdict.content = verdict_html(state)
        scene = self._source.scene
        unit = "rad" if scene is None else scene.model.position_unit()
        self.figures.content = figures_html(state, unit)
        self.events.content = events_html(state.events, state.current)
        if self.event is not None:
            titles = (_NOW, *map(event_title, state.events[-MOST_OPTIONS:]))
            if titles != tuple(self.event.options):
                self.event.options = titles

    def plot(self) -> None:
        """Draw the recent ratios of residual to threshold of the source into the chart.

        Times at which a ratio is not finite are left out. A new chart replaces the chart if the
        names of the joints change. The chart is hidden with fewer than two times.
        """
        joints, times, ratios = self._source.history()
        known = np.isfinite(ratios).all(axis=1)  # uPlot cannot draw NaN
        times, ratios = times[known], ratios[known]
        if times.size > 1:
            one = np.ones(times.size)
            data = (times, *ratios.T.copy(), one, -one)
            if joints != self._joints:
                self._add_chart(joints, data)
            else:
                self.chart.data = data
        if self.chart is not None:
            self.chart.visible = bool(times.size > 1)

    def redraw(self) -> None:
        """Let the browser redraw the chart after a change between the light and the dark page.

        Without it, the axes of the chart keep their colours.
        """
        if self.chart is not None:
            self.chart.height = sum(HEIGHTS) - self.chart.height

    def _add_chart(self, joints: tuple[str, ...], data: tuple[Array, ...]) -> None:
        if self.chart is not None:
            self.chart.remove()
        self._joints = joints
        threshold = {"stroke": "#868e96", "dash": (6, 4), "width": 1.0, "points": {"show": False}}
        lines = [
            {
                "label": joint,
                "stroke": PALETTE[number % len(PALETTE)],
                "width": 1.5,
                "points": {"show": False},
            }
            for number, joint in enumerate(joints)
        ]
        with self._chart_place:
            self.chart = self._gui.add_uplot(
                data=data,
                series=(
                    {"label": "time [s]"},
                    *lines,
                    {"label": "+1", **threshold},
                    {"label": "-1", **threshold},
                ),
                scales={"x": {"time": False}},
                legend={"live": False},
                height=HEIGHTS[0],
                padding=(12, 24, 0, 0),
            )


class PlaybackControls:
    """Controls of a replayed recording: pause, time, speed, and a list of events to jump to.

    Args:
        gui: gui of the viser server.
        source: the recording, whose playhead the controls move.

    Attributes:
        play, time, speed, event, jump: viser objects of the controls.
    """

    def __init__(self, gui: Any, source: RecordingSource) -> None:
        self._playhead: Playhead = source.playhead
        events = source.track.events
        onsets = tuple(round(event.onset, 2) for event in events)
        self._titles = [event_title(event) for event in events[:MOST_OPTIONS]]
        with gui.add_folder("recording"):
            self.play = gui.add_button("Pause")
            self.time = gui.add_slider(
                "time [s]",
                min=0.0,
                max=max(round(self._playhead.duration, 2), 0.01),
                step=0.01,
                initial_value=0.0,
                marks=onsets if len(onsets) <= MOST_MARKS else None,
            )
            self.speed = gui.add_dropdown("speed", _speeds(), initial_value=_text(1.0))
            self.event = gui.add_dropdown("event", (_NO_EVENT, *self._titles))
            self.jump = gui.add_button_group("jump", ("previous event", "next event"))
        self.play.on_click(lambda _: self._playhead.toggle())
        self.time.on_update(self._on_time)
        self.speed.on_update(self._on_speed)
        self.event.on_update(self._on_event)
        self.jump.on_click(self._on_jump)

    def tell(self) -> None:
        """Set the time slider and the label of the button (Pause or Play) from the playhead."""
        self.play.label = "Pause" if self._playhead.is_playing else "Play"
        self.time.value = min(round(self._playhead.time, 2), self.time.max)

    # An update without a client was made by `tell`.

    def _on_time(self, event: Any) -> None:
        if event.client is not None:
            self._playhead.seek(float(self.time.value))

    def _on_speed(self, event: Any) -> None:
        if event.client is not None:
            self._playhead.speed = float(self.speed.value.removesuffix(" ×"))

    def _on_event(self, event: Any) -> None:
        if event.client is not None and self.event.value in self._titles:
            self._playhead.go_to_event(self._titles.index(self.event.value))

    def _on_jump(self, _event: Any) -> None:
        if self.jump.value == "next event":
            self._playhead.next_event()
        else:
            self._playhead.previous_event()


def _speeds() -> tuple[str, ...]:
    return tuple(_text(speed) for speed in SPEEDS)


def _text(speed: float) -> str:
    return f"{speed:g} ×"
