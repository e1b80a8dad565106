"""Display of a report in a real browser, headless and without network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import chromium

pytest.importorskip("bokeh", reason="the extra `report` is not installed")

from report_pages import DURATION, EVIL, JOINTS, ONSETS, PEAK, page

from rbd_control.reports.html import PlotLibrary, html_of

PATIENCE = 120.0
"""Deadline of whatever should take seconds [s]; the browser draws without a graphics card."""

_VISIBLE = """k => {
    const figure = Bokeh.documents[0].roots()[0].children[k];
    const renderer = figure.renderers.find(one => one.glyph.y?.field);
    const data = renderer.data_source.data;
    const of = name => data.get ? data.get(name) : data[name];
    const times = of(renderer.glyph.x.field);
    const { start, end } = figure.x_range;
    const seen = times.filter(t => t >= start && t <= end).length;
    return [start, end, seen, figure.y_range.start, figure.y_range.end];
}"""
"""Returns the range of time of panel k, the points in it, and the vertical range."""


class Window:
    """A browser window with the report."""

    def __init__(self, window: Any, said: list[str], addresses: list[str]) -> None:
        self.window, self.said, self.addresses = window, said, addresses

    def seen(self, panel: int = 1) -> list[float]:
        found: list[float] = self.window.evaluate(_VISIBLE, panel)
        return found

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, what
            self.window.wait_for_timeout(50)


def dismissed(dialog: Any) -> list[str]:
    dialog.dismiss()
    return [dialog.message]


def complaints(message: Any) -> list[str]:
    return [message.text] if message.type in ("error", "warning") else []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html_of(page(), PlotLibrary.load()))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(draws_3d=False) as browser:
        yield browser


@pytest.fixture(scope="module")
def opened(browser: Any, report: Path) -> Iterator[Window]:
    """The report in a window of a phone's width, dark, without network."""
    context = browser.new_context(
        viewport={"width": 420, "height": 800}, color_scheme="dark", offline=True
    )
    window = context.new_page()
    said: list[str] = []
    addresses: list[str] = []
    window.on("console", lambda message: said.extend(complaints(message)))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on("dialog", lambda dialog: said.extend(dismissed(dialog)))
    window.on("request", lambda request: addresses.append(request.url))
    window.set_default_timeout(1e3 * PATIENCE)
    window.goto(report.as_uri())
    window.wait_for_selector("body[data-drawn=true]")
    yield Window(window, said, addresses)
    context.close()


def test_it_draws_every_joint_without_network_or_error(opened: Window, report: Path) -> None:
    assert opened.said == []
    assert [a for a in opened.addresses if a.split(":")[0] not in ("data", "blob")] == [
        report.as_uri()
    ]
    count = opened.window.evaluate("Bokeh.documents[0].roots()[0].children.length")
    assert count == len(JOINTS)
    assert opened.window.locator("tr.jump").count() == len(ONSETS)
    assert EVIL in opened.window.inner_text("dl")


def test_a_click_on_an_event_shows_every_sample_around_it(opened: Window) -> None:
    onset = ONSETS[3]
    assert opened.seen()[:2] == [0.0, DURATION]
    opened.window.locator("tr.jump").nth(3).click()
    opened.until(lambda: opened.seen()[0] > 1.0, "no zoom")
    begin, end, *_ = opened.seen()
    assert begin < onset < onset + 0.5 < end < onset + 2.0
    # At 1 kHz; the bounds of the range are rounded.
    every = pytest.approx(1000.0 * (end - begin), abs=2.0)
    opened.until(lambda: opened.seen()[2] == every, "samples are missing")
    opened.until(lambda: opened.seen()[4] > PEAK, "the vertical axis does not follow")
    assert "chosen" in opened.window.locator("tr.jump").nth(3).get_attribute("class")
    opened.window.get_by_role("button", name="next").click()
    opened.until(lambda: opened.seen()[0] > onset + 1.0, "no step to the next event")
    opened.window.get_by_role("button", name="whole time").click()
    opened.until(lambda: opened.seen()[:2] == [0.0, DURATION], "no way back")
