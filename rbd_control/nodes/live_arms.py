"""``rbd-control view`` without a recording: shows live arms in the browser."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rich.console import Console

from rbd_control.nodes.live_arm import LiveArm
from rbd_control.nodes.transports import without_shared_memory
from rbd_control.startup.stop_requests import stop_requests
from rbd_control.view.page import Page, Place, announce
from rbd_control.view.scene import Scene
from rbd_control.wording import listed

PATIENCE = 5.0
"""Time after the start at which each arm without a message is reported, with its topics [s]."""


def view_node(context: Context | None = None) -> Node:
    """Return a node for subscriptions of the view: without ``/rosout`` and parameter services.

    Its name is ``view_`` and the process ID.

    Args:
        context: context of the node; None means the default context.
    """
    return Node(
        f"view_{os.getpid()}",
        context=context,
        enable_rosout=False,
        start_parameter_services=False,
    )


def run_live_view(
    namespaces: Sequence[str],
    scene: Scene | None,
    place: Place,
    duration: float | None,
    console: Console,
) -> int:
    """Show live arms until SIGINT or SIGTERM comes, or ``duration`` [s] is over.

    Args:
        namespaces: the namespace of each arm; an empty list means one arm without a namespace.
        scene: geometry of all arms; with None each arm has the geometry of the description on its
            topic ``robot_description``.
        place: address and port of the page.
        duration: length of the view [s]; with None only a signal ends it.
        console: prints the address, and a line for each arm without a message.

    Returns:
        The exit code: 0, or 1 if no message of any arm was received (:attr:`LiveArm.has_heard`).

    Raises:
        InputError: if the port is in use, or the host is not an address of this machine.
        RbdControlError: if the middleware cannot be started without shared memory, see
            :func:`~rbd_control.nodes.transports.without_shared_memory`.
    """
    with stop_requests() as stopped:
        with without_shared_memory():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
            node = view_node()
        arms = [LiveArm(node, name, scene) for name in namespaces or [""]]
        page = None
        try:
            page = Page(arms, place)
            announce(page, console)
            patience = _Patience(arms, console)
            page.run(lambda: patience.looked() or stopped(), duration)
        finally:
            if page is not None:
                page.close()
            node.destroy_node()
            rclpy.try_shutdown(uninstall_handlers=False)
    silent = [arm for arm in arms if not arm.has_heard]
    for arm in silent:
        console.print(nothing_heard(arm), markup=False, soft_wrap=True)
    return 1 if len(silent) == len(arms) else 0


def nothing_heard(arm: LiveArm) -> str:
    """Return the error text for an arm without a message: ROS domain, topics and what to check."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f"no message received from {arm.name} in ROS domain {domain}; waiting for "
        f"{listed(arm.topics, 400)}; check that its nodes run in this namespace (--namespace), "
        "with the same ROS_DOMAIN_ID and RMW_IMPLEMENTATION"
    )


class _Patience:
    """Prints once, :data:`PATIENCE` after its construction, which arms have sent no message."""

    def __init__(self, arms: list[LiveArm], console: Console) -> None:
        self._waiting, self._console = list(arms), console
        self._deadline = time.monotonic() + PATIENCE

    def looked(self) -> bool:
        """Check the arms; return False, so that a loop continues."""
        if self._waiting and time.monotonic() > self._deadline:
            for arm in self._waiting:
                if not arm.has_heard:
                    self._console.print(nothing_heard(arm), markup=False, soft_wrap=True)
            self._waiting = []
        return False
