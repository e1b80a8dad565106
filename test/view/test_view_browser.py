"""Display of a recording and of a live arm in a real browser, headless and without network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("viser", reason="the extra `view` is not installed")

from browsers import chromium
from view_pages import FORCE, Still, arm7_scene, recording, running

from rbd_control.view.page import ARROW_SCALE, Page, Place
from rbd_control.view.sources import RecordingSource

PATIENCE = 120.0
"""Deadline of whatever should take a second [s]; the browser draws without a graphics card."""


class Look:
    """A browser window with the page of one source."""

    def __init__(self, page: Page, window: Any, addresses: list[str]) -> None:
        self.page, self.window, self.addresses = page, window, addresses

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for the first true value of a condition."""
        deadline = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert time.monotonic() < deadline, what
            self.window.wait_for_timeout(50)
        return value

    def until_text(self, part: str) -> None:
        self.until(lambda: part in self.text(), f"{part!r} is not in {self.text()!r}")

    def text(self) -> str:
        return str(self.window.inner_text("body"))

    def is_drawn(self, node: str) -> bool:
        script = """name => {
            let node = window.__viserMutable.nodeRefFromName[name];
            if (!node) return false;
            for (; node; node = node.parent) if (!node.visible) return false;
            return true;
        }"""
        return bool(self.window.evaluate(script, node))


@pytest.fixture(scope="module")
def source() -> RecordingSource:
    source = recording()
    source.playhead.toggle()
    return source


@pytest.fixture(scope="module")
def seen(source: RecordingSource) -> Iterator[Look]:
    """Yield a page with a recording and a live arm side by side."""
    page = Page([source, Still(scene=arm7_scene())], Place(port=0))
    with chromium() as browser, running(page):
        window = browser.new_page(viewport={"width": 800, "height": 520})
        addresses: list[str] = []
        window.on("request", lambda request: addresses.append(request.url))
        window.on("websocket", lambda socket: addresses.append(socket.url))
        window.goto(page.address, timeout=1e3 * PATIENCE)
        window.wait_for_selector(".rbd-events", timeout=1e3 * PATIENCE)
        yield Look(page, window, addresses)
        window.close()


def at_link_5(source: RecordingSource) -> np.ndarray:
    """Return the position of link 5 during the tested contact."""
    q = source.track.at(4.5).q
    assert q is not None
    return source.scene.link_placement(source.scene.placements(q), "link_5")[:3, 3]


def test_jumping_to_an_event_and_playing_shows_its_contact(
    seen: Look, source: RecordingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.playhead.seek(0.0)
    sought: list[float] = []
    seek = source.playhead.seek

    def noted(time: float) -> None:
        sought.append(time)
        seek(time)

    monkeypatch.setattr(source.playhead, "seek", noted)
    seen.window.get_by_role("button", name="next event").click()
    seen.until(lambda: abs(source.playhead.time - 4.11) < 0.01, "no jump")
    seen.until_text("contact at link_5 (70%, else link_3)")  # paused, it shows the contact
    seen.window.get_by_role("button", name="Play").click()
    source.playhead.seek(0.0)
    seen.window.get_by_role("button", name="next event").click()
    seen.until(lambda: 3.4 < sought[-1] < 4.0, "no jump to the time before the contact")
    seen.until(lambda: source.playhead.time > 3.6, "it does not play")
    seen.window.get_by_role("button", name="Pause").click()
    seen.until(lambda: not source.playhead.is_playing, "no pause")
    source.playhead.seek(4.5)
    seen.until_text("contact at link_5 (70%, else link_3)")
    seen.until(lambda: seen.is_drawn("/arm_0/force"), "no arrow")
    drawing = seen.page.drawings[0]
    assert drawing is not None

    def points() -> bool:
        # float32 on the way to the browser.
        start, end = np.array(drawing.arrow.points[0], dtype=float)
        at_link = np.allclose(start, at_link_5(source), atol=1e-5)
        return at_link and np.allclose(end - start, ARROW_SCALE * FORCE, atol=1e-5)

    seen.until(points, "the arrow does not point from the link along the force")
    seen.until_text("12.0 N")
    source.playhead.seek(8.0)
    seen.until(lambda: not seen.is_drawn("/arm_0/force"), "the arrow stays")
    seen.until_text("no contact")
    here = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
    assert [a for a in seen.addresses if not a.startswith(here)] == []
