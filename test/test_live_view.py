"""The display of the monitor for received messages."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from rbd_control.playback.live_view import BAR, LiveState, render

STATE = LiveState(
    "/arm/contact_detector",
    joints=("shoulder", "[b]elbow[/b]"),
    residual=(-1.5, 8.0),
    thresholds=(2.0, 4.0),
    rate=1000.0,
    contact=True,
    judged=10.0,
    link="forearm",
    force=(0.0, 3.0, -4.0),
)


def shown(state: LiveState, now: float) -> list[str]:
    console = Console(width=110, color_system=None, record=True, file=StringIO())
    console.print(render(state, now))
    return console.export_text().splitlines()


def test_residuals_stand_against_their_thresholds() -> None:
    lines = shown(STATE, 10.0)
    assert lines[0].startswith("contact at forearm, 5.0 N (+0.0 +3.0 -4.0)")
    shoulder, elbow = lines[2:4]
    assert shoulder.split()[:3] == ["shoulder", "-1.50", "2.00"]
    # Three quarters of a threshold that stands at three quarters of the bar; and more than full.
    assert shoulder.count("█") == round(0.75 * 0.75 * BAR)
    assert elbow.count("█") == BAR
    assert "[b]elbow[/b]" in elbow
