"""The view of the demo in the browser, started from another terminal or by the demo itself."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from rbd_control.errors import InputError, RbdControlError
from rbd_control.nodes.processes import NodeProcesses
from rbd_control.startup.stop_requests import stop_requests
from rbd_control.view.page import Place

PORTS = range(8080, 8100)
"""Candidate ports of the page; the first free port is used."""


def ros_variables(domain: int) -> dict[str, str]:
    """Return the environment variables of a ROS domain that stays on this machine."""
    return {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


def watching_line(domain: int) -> str:
    """Return a line of text with the command that shows the demo from another terminal."""
    variables = " ".join(f"{name}={value}" for name, value in ros_variables(domain).items())
    return f"watch it live, from another terminal: {variables} rbd-control view"


def free_port() -> int:
    """Return the first of :data:`PORTS` that is free on this machine.

    Raises:
        InputError: if all of them are in use.
    """
    for port in PORTS[:-1]:
        with suppress(InputError):
            Place(port=port).refuse()
            return port
    Place(port=PORTS[-1]).refuse()
    return PORTS[-1]


@contextmanager
def demo_view(domain: int, console: Console, *, start: bool) -> Iterator[Callable[[], None]]:
    """Print the command that shows the demo or, with ``start``, serve the page for the browser.

    Args:
        domain: ROS domain of the demo.
        console: prints the command, or the address of the page.
        start: whether to start ``rbd-control view`` as a process, which ends with the context.

    Yields:
        A function that keeps the page open until SIGINT or SIGTERM; without ``start`` it returns at
        once. It raises an :class:`RbdControlError` if the process of the page has ended.

    Raises:
        RbdControlError: if the libraries of the view are not installed, or all :data:`PORTS` are in
            use.
    """
    if not start:
        console.print(watching_line(domain), markup=False, soft_wrap=True)
        yield lambda: None
        return
    if find_spec("viser") is None or find_spec("yourdfpy") is None:
        raise RbdControlError(
            "the view is not installed: pip install '.[view]' in a clone of rbd_control"
        )
    with tempfile.TemporaryDirectory(prefix="rbd_control_view_") as folder:
        variables = {**os.environ, **ros_variables(domain), "ROS_LOG_DIR": folder}
        with NodeProcesses(variables, Path(folder)) as processes:
            port = free_port()
            arguments = ["view", "--urdf", "arm7", "--port", str(port)]
            processes.start("rbd_control.cli.main", arguments, "view")
            console.print(f"watch it in the browser: http://127.0.0.1:{port}", markup=False)

            def wait_for_end() -> None:
                console.print("the page stays open; Ctrl-C ends it")
                with stop_requests() as stopped:
                    while not stopped():
                        processes.check()
                        time.sleep(0.1)

            yield wait_for_end
