"""Panel beside the 3D scene: verdicts, residuals, events, and the controls of a recording."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.view.html import event_title, events_html, figures_html, verdict_html
from rbd_control.view.playhead import SPEEDS, Playhead
from rbd_control.view.sources import RecordingSource, Source
from rbd_control.view.state import ArmState

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


class ArmPanel:
    """Panel of one arm: verdict, values of the controller, chart of residuals, events.

    Args:
        gui: gui of the viser server.
        source: the arm.
        in_folder: whether the panel has a folder with the arm's name, for several arms.

    Attributes:
        chart: uPlot chart of the residuals; None before two rows of residuals are known.
        verdict, figures, events: viser objects with the texts from :mod:`rbd_control.view.html`.
    """

    def __init__(self, gui: Any, source: Source, *, in_folder: bool) -> None:
        self._gui, self._source = gui, source
        self._container = gui.add_folder(source.name) if in_folder else nullcontext()
        self._joints: tuple[str, ...] = ()
        self.chart: Any = None
        with self._container:
            self.verdict = gui.add_html("")
            self.figures = gui.add_html("")
            self._chart_place = gui.add_folder("residuals in units of their thresholds")
            self.events = gui.add_html("")

    def tell(self, state: ArmState) -> None:
        """Update verdict, values of the controller and list of events from a state."""
        self.verdict.content = verdict_html(state)
        self.figures.content = figures_html(state)
        self.events.content = events_html(state.events, state.current)

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
