"""The page as its server holds it: arm, arrow, colours, address; and the command's errors."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("viser", reason="the extra `view` is not installed")

from damage import sound
from view_pages import EVENTS, FORCE, Still, arm7_scene

from rbd_control.view.page import ARROW_SCALE, CANDIDATE, TOUCHED, Page, Place, blend
from rbd_control.view.panel import event_title
from rbd_control.view.state import Touch

ANY = Place("127.0.0.1", 0)
SOURCES = Path(__file__).resolve().parents[2] / "rbd_control"


@pytest.fixture(scope="module")
def still() -> Still:
    return Still(scene=arm7_scene())


@pytest.fixture(scope="module")
def page(still: Still) -> Iterator[Page]:
    page = Page([still], ANY)
    yield page
    page.close()


def test_the_arrow_is_at_the_touched_link_which_is_coloured(page: Page, still: Still) -> None:
    assert still.scene is not None
    q = np.array([0.3, 0.4, 0.0, -1.2, 0.0, 0.5, 0.0])
    likely = {"link_5": 0.7, "link_4": 0.3}
    still.set(q=q, verdict="contact", touch=Touch("link_5", likely, FORCE, None))
    page.show()
    drawing = page.drawings[0]
    assert drawing is not None
    assert drawing.arrow.visible
    start, end = np.array(drawing.arrow.points[0], dtype=float)
    at = still.scene.link_placement(still.scene.placements(q), "link_5")[:3, 3]
    assert np.allclose(start, at, atol=1e-6)  # float32 on the way to the browser
    assert np.allclose(end - start, ARROW_SCALE * FORCE, atol=1e-6)
    assert drawing.label.text == "12.0 N"
    shapes = {shape.link: shape.colour for shape in still.scene.shapes[::-1]}
    assert drawing.colour_of("link_5") == TOUCHED["contact"]
    assert drawing.colour_of("link_4") == blend(shapes["link_4"], CANDIDATE, 0.3)
    assert drawing.colour_of("link_2") == shapes["link_2"]

    point = np.array([0.1, 0.2, 0.3])
    still.set(verdict="collision", touch=Touch("link_5", {}, FORCE, point))
    page.show()
    assert np.allclose(drawing.arrow.points[0][0], point)
    assert drawing.colour_of("link_5") == TOUCHED["collision"]

    still.set(verdict="no contact", touch=None)
    page.show()
    assert not drawing.arrow.visible
    assert drawing.colour_of("link_5") == shapes["link_5"]
    assert drawing.colour_of("link_4") == shapes["link_4"]


def test_an_event_of_a_live_arm_can_be_looked_back_at(page: Page, still: Still) -> None:
    q = np.array([0.3, 0.4, 0.0, -1.2, 0.0, 0.5, 0.0])
    still.past[1] = replace(
        still.now, time=4.2, q=q, verdict="contact", touch=Touch("link_5", {}, FORCE, None)
    )
    still.set(q=np.zeros(7), verdict="no verdict", touch=None, events=EVENTS)
    page.frames = 0
    page.show()
    panel, drawing = page.panels[0], page.drawings[0]
    assert drawing is not None
    assert panel.event.options == ("now", *map(event_title, EVENTS))
    assert not drawing.arrow.visible
    panel.event.value = event_title(EVENTS[0])
    page.frames = 0
    page.show()
    assert drawing.colour_of("link_5") == TOUCHED["contact"]
    assert drawing.label.text == "12.0 N"
    assert "the past, at 4.20 s" in panel.figures.content
    panel.event.value = event_title(EVENTS[1])  # of which no state is kept
    page.show()
    assert not drawing.arrow.visible
    panel.event.value = "now"
    page.frames = 0
    page.show()
    assert "no verdict" in panel.verdict.content
    assert "the past" not in panel.figures.content


def test_only_this_machine_can_reach_the_page(page: Page) -> None:
    assert page.address.startswith("http://127.0.0.1:")
    sockets = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    port = f":{page.port:04X}"
    listening = [line.split()[1] for line in sockets if line.split()[3] == "0A"]
    assert [a for a in listening if a.endswith(port)] == [f"0100007F{port}"]


def test_a_browser_cannot_open_a_tunnel_to_the_internet(page: Page) -> None:
    assert page._server.request_share_url() is None
    assert page._server._share_tunnel is None


def test_ctrl_c_ends_a_view_cleanly(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(sound.csv_text(sound.swing(1.2)))
    (tmp_path / "two.urdf").write_text(sound.URDF)
    command = [sys.executable, "-m", "rbd_control.cli.main", "view", str(tmp_path / "log.csv")]
    process = subprocess.Popen(
        [*command, "--urdf", str(tmp_path / "two.urdf"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    while not any("view: http://127.0.0.1:" in line for line in lines):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=30)
    assert process.returncode == 0, error
    assert not error
    assert "Traceback" not in output


def test_the_sources_of_the_view_publish_and_call_nothing() -> None:
    files = [*(SOURCES / "view").glob("*.py")]
    files.append(SOURCES / "live" / "view.py")
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                forbidden = ("create_publisher", "create_client", "create_service", "publish")
                assert node.attr not in forbidden, file
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("rclpy.action"), file
