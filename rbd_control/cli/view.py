"""``rbd-control view``: an arm in the browser, live or from a recording."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from rbd_control.errors import InputError, RbdControlError
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.reports.console import console_for_output
from rbd_control.robot.robot import Robot
from rbd_control.robot.shapes import mesh_files, surface_of_robot
from rbd_control.startup.prompt_end import stop_requests
from rbd_control.view.scene import Scene, scene_of

if TYPE_CHECKING:
    from rbd_control.view.page import Place

_EXTRA = ("viser", "yourdfpy", "trimesh")


def run_view(arguments: argparse.Namespace) -> int:
    """Show a recording or live arms in the browser.

    The view ends on SIGINT or SIGTERM, or after ``--duration``.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Returns:
        The exit code: 0, or 1 if no message of a live arm was received.

    Raises:
        RbdControlError: for bad input, a port in use, and packages that are not installed.
    """
    from rbd_control.view.page import Place

    with extra_needed():
        import viser  # noqa: F401 - needed by the page
        import yourdfpy  # noqa: F401 - needed by the scene
    place = Place(arguments.host, arguments.port)
    place.refuse()  # before a long recording is read
    console = console_for_output()
    if arguments.recording is not None:
        if arguments.namespace:
            raise InputError("--namespace is for live arms; leave it out beside a recording")
        return _play(arguments, place, console)
    from rbd_control.live.view import run_live_view

    scene = None
    if arguments.urdf or arguments.config:
        robot, _ = configured_robot(arguments.urdf, arguments.config, dict(arguments.lock))
        scene = scene_of_robot(robot)
    code: int = run_live_view(arguments.namespace, scene, place, arguments.duration, console)
    return code


@contextmanager
def extra_needed() -> Iterator[None]:
    """Return a context that converts failing imports of the extra ``view`` to a clear error.

    Raises:
        RbdControlError: if ``viser``, ``yourdfpy`` or ``trimesh`` is not installed; the message
            names the package and says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA:
            raise
        raise RbdControlError(
            f"the view needs {error.name}, which is not installed: pip install '.[view]' in a "
            "clone of rbd_control"
        ) from error


def scene_of_robot(robot: Robot) -> Scene:
    """Return the geometry of an arm for the 3D view.

    Relative paths of meshes start at the folder of the arm's URDF file, if it has one.

    Raises:
        RbdControlError: if a package of the extra ``view`` is not installed.
        ModelError: if the description is not a URDF.
    """
    with extra_needed():
        return scene_of(robot.model, robot.urdf, mesh_files(robot.parameters))


def _play(arguments: argparse.Namespace, place: Place, console: Console) -> int:
    """Run the detector over a recording, show it until a signal or ``--duration``; return 0."""
    from rbd_control.view.page import Page, announce
    from rbd_control.view.sources import RecordingSource

    recording = read_recording(arguments.recording, arguments.topic)
    robot, parameters = configured_robot(
        arguments.urdf, arguments.config, dict(arguments.lock), [recording]
    )
    scene = scene_of_robot(robot)
    console.print(f"replaying {recording.count} joint states of {recording.path}", markup=False)
    surface = surface_of_robot(robot)
    source = RecordingSource.of(recording, scene, parameters, arguments.joints, surface)
    for note in (*scene.notes, *source.result.notes, *source.result.warnings):
        console.print(f"note: {note}", markup=False)
    with stop_requests() as stopped:
        page = Page([source], place)
        try:
            announce(page, console)
            page.run(stopped, arguments.duration)
        finally:
            page.close()
    return 0
