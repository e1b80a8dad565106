"""``python -m bench.screenshots``: take the pictures of the browser view for the documentation.

A headless Chromium opens the page of ``rbd-control view test/data/push20_link7``, once light and
once dark. The pictures go to ``view.png`` and ``view_dark.png`` in the folder that ``--out`` names.
It needs Chromium and the extra ``test``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from bench.contacts.arms import arm
from rbd_control.errors import RbdControlError
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.robot.shapes import MeshFiles, surface_of_robot
from rbd_control.view.page import Page, Place
from rbd_control.view.scene import scene_of
from rbd_control.view.sources import RecordingSource

ROOT = Path(__file__).resolve().parent.parent

RECORDING = ROOT / "test" / "data" / "push20_link7"

CONFIG = ROOT / "config" / "panda_mujoco.yaml"

SHOWN = 1.85
"""Time in the recording that the pictures show [s], 0.35 s after the onset of the push."""

SIZE = {"width": 1280, "height": 800}
"""Size of the pictures [pixels]."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

ARGUMENTS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
"""Arguments of the browser, which emulates a graphics card."""

PATIENCE = 300.0
"""Timeout of each step of the browser [s]."""


def main(arguments: Sequence[str]) -> None:
    """Take both pictures and write them to the folder of ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m bench.screenshots", description=__doc__)
    folder = ROOT / "docs" / "images"
    parser.add_argument("--out", type=Path, default=folder, metavar="FOLDER", help="(docs/images)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    source = panda()
    source.playhead.toggle()  # pause
    with served(source) as page, browser_window(page.address) as window:
        take(window, page, source, given.out)
    print(f"view.png and view_dark.png in {given.out}")


def panda() -> RecordingSource:
    """Return the recording of a push on link 7 of a Panda, with the vendor's visual meshes."""
    package = distribution("example-robot-data")
    share = str(package.locate_file("cmeel.prefix/share"))
    recording = read_recording(RECORDING)
    robot, parameters = configured_robot(arm("panda").urdf, CONFIG, {}, [recording])
    scene = scene_of(robot.model, robot.urdf, MeshFiles(None, {"ROS_PACKAGE_PATH": share}))
    surface = surface_of_robot(robot)
    return RecordingSource.of(recording, scene, parameters, surface=surface)


@contextmanager
def served(source: RecordingSource) -> Iterator[Page]:
    """Serve the page of a recording while the ``with`` block runs; yield the page."""
    page, stop = Page([source], Place(port=0)), threading.Event()
    thread = threading.Thread(target=page.run, args=(stop.is_set,))
    thread.start()
    try:
        yield page
    finally:
        stop.set()
        thread.join()
        page.close()


@contextmanager
def browser_window(address: str) -> Iterator[Any]:
    """Open a page in a headless browser, and yield its window (a ``playwright`` page).

    Args:
        address: URL of the page.

    Raises:
        RbdControlError: if no browser is installed.
    """
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise RbdControlError(f"none of {', '.join(BROWSERS)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=ARGUMENTS, timeout=1e3 * PATIENCE
        )
        try:
            window = browser.new_page(viewport=SIZE)
            window.set_default_timeout(1e3 * PATIENCE)
            window.goto(address)
            yield window
        finally:
            browser.close()


def take(window: Any, page: Page, source: RecordingSource, folder: Path) -> None:
    """Move the playback to the push, and take the light and the dark picture.

    Args:
        window: the browser window of the page.
        page: the page.
        source: the recording on the page.
        folder: folder of ``view.png`` and ``view_dark.png``.
    """
    window.wait_for_selector(".rbd-event")
    close_notice(window)
    source.playhead.seek(SHOWN)
    window.get_by_text(f"contact at {source.track.events[0].link}").first.wait_for()
    for name, dark in (("view.png", False), ("view_dark.png", True)):
        if dark:
            window.get_by_label("dark page").click()
        settle(window, lambda: page.frames)
        window.screenshot(path=str(folder / name), timeout=1e3 * PATIENCE)


def close_notice(window: Any) -> None:
    """Close the notice about the missing graphics card, if it appears within about 10 s."""
    notice = window.locator(".mantine-Notification-root")
    for _ in range(100):
        if notice.count():
            notice.first.locator("button").click()
            return
        window.wait_for_timeout(100)


def settle(window: Any, frames: Callable[[], int], count: int = 60) -> None:
    """Wait until charts, meshes and the label of the arrow are drawn.

    Args:
        window: the browser window of the page.
        frames: returns the number of frames drawn so far.
        count: number of further frames to wait for.
    """
    first = frames()
    while frames() < first + count:
        window.wait_for_timeout(50)
    # The label of the arrow comes from a worker of the page and is drawn with the next change.
    for x in range(100, 700, 50):
        window.mouse.move(x, 700)
        window.wait_for_timeout(250)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RbdControlError as error:
        sys.exit(f"bench.screenshots: {error}")
