"""``rbd-control check --loop``: asks the running controller to measure its loop."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rclpy
import yaml
from rclpy.exceptions import InvalidServiceNameException
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from rbd_control.errors import InputError, ParameterError
from rbd_control.files.input_files import about
from rbd_control.files.output_files import write_whole
from rbd_control.files.yaml_output import with_values
from rbd_control.nodes.command_node import CommandNode
from rbd_control.nodes.publications import try_request
from rbd_control.nodes.transports import without_shared_memory
from rbd_control.parameters import parameter_sections

PATIENCE = 10.0
"""Longest search for the controller [s]."""

LONGEST = 300.0
"""Longest wait for the result [s]: a measurement takes up to 10 s for each joint."""

SECTION = "passivity_controller"
"""Section of an arm file that gets the values."""


def run_loop_check(node_name: str, path: Path | None) -> int:
    """Ask a controller to measure its loop, print the result, and write it to a parameter file.

    Args:
        node_name: name of the controller, with its namespace.
        path: an existing parameter file that gets the values; None: no file.

    Returns:
        The exit code: 0, or 1 without a result.

    Raises:
        RbdControlError: if the file is no parameter file; if the controller is missing, does not
            answer, or its name is impossible.
        OSError: if the file cannot be written.
    """
    if path is not None:
        parameter_sections(path)
    answer = _ask(f"/{node_name.strip('/')}/measure_loop")
    print(answer.message)
    values = _values(answer.message)
    if not answer.success or not values:
        return 1
    if path is None:
        print("write them into the parameter file of the arm: --write arm.yaml")
        return 0
    with about(path):
        text = with_values(path.read_text(encoding="utf-8"), SECTION, values)
        write_whole(path, text.encode())
    print(f"written to {path}; start the controller again with this file")
    return 0


def _ask(service: str) -> Trigger.Response:
    """Return the answer of the controller.

    Raises:
        InputError: if there is no such service, or it does not answer.
        ParameterError: if no service can have this name.
    """
    try:
        with without_shared_memory():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
            node = CommandNode(f"check_loop_{os.getpid()}", print)
        try:
            client = node.create_client(Trigger, service)
        except InvalidServiceNameException as error:
            raise ParameterError(f"no node can be called {service!r}: {error}") from None
        if not client.wait_for_service(timeout_sec=PATIENCE):
            raise InputError(
                f"no service {service} in ROS domain {os.environ.get('ROS_DOMAIN_ID', '0')}: start "
                f"the controller first, or give its name with --node"
            )
        deadline = time.monotonic() + LONGEST
        while (future := try_request(client, Trigger.Request(), node.refusals)) is None:
            if time.monotonic() > deadline:
                raise InputError(f"the request to {service} was not sent; run the command again")
            time.sleep(0.1)
        print("measuring the loop: the joints move by up to 10 mrad, for some seconds each")
        rclpy.spin_until_future_complete(node, future, timeout_sec=LONGEST)
        if not future.done() or future.result() is None:
            raise InputError(f"{service} has not answered within {LONGEST:g} s; see the node's log")
        node.destroy_node()
        return future.result()
    finally:
        rclpy.try_shutdown(uninstall_handlers=False)


def _values(message: str) -> Mapping[str, str]:
    """Return the parameters in the answer of the controller, as YAML by name; empty without any."""
    _, found, lines = message.partition(f"{SECTION}:\n")
    if not found:
        return {}
    values: dict[str, Any] = yaml.safe_load(lines)["ros__parameters"]
    return {name: str(value) for name, value in values.items()}
