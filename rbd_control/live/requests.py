"""``rbd-control payload`` and ``check --loop``: requests to the running nodes of an arm."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import InertiaStamped
from rcl_interfaces.srv import GetParameters
from rclpy.exceptions import InvalidServiceNameException
from rclpy.node import Node
from std_srvs.srv import Trigger

from rbd_control.errors import InputError, ParameterError
from rbd_control.files.input_files import about, is_absent
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.files.yaml_output import with_values
from rbd_control.parameters import parameter_sections
from rbd_control.reports.console import console_for_output
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.fault_tolerant_node import (
    FaultTolerantPublisher,
    PublishingNode,
    Refusals,
    try_request,
)
from rbd_control.ros.messages import LATCHED
from rbd_control.ros.robot_source import PAYLOAD, payload_message
from rbd_control.ros.transports import running_ros


class CommandNode(PublishingNode):
    """A node whose publications raise no exception when the middleware refuses them.

    Refused messages are lost and counted in ``refusals``, a
    :class:`~rbd_control.ros.fault_tolerant_node.Refusals`; its method ``log`` calls ``warn``.

    Args:
        name: name of the node.
        warn: writes one line about refused messages.
        namespace: namespace of the node; None for the default namespace.
    """

    def __init__(
        self, name: str, warn: Callable[[str], None], *, namespace: str | None = None
    ) -> None:
        self.refusals = Refusals(warn)
        super().__init__(name, namespace=namespace)


PATIENCE = 10.0
"""Longest search for the nodes to which a request goes [s]."""

TAKING = 3.0
"""Time after which a node that has not accepted the payload has refused it, or cannot check it [s].

A node checks the weight as soon as it receives joint states.
"""

SENDING = 5.0
"""Longest time for which a payload that the middleware refuses is published again [s]."""

SETTLING = 3.5
"""Time without a new node after which the search ends [s]; Fast DDS discovery takes up to 3 s."""

_POLL = 0.02


def run_payload(payload: PayloadParameters, namespace: str) -> int:
    """Publish the payload and print for each subscribing node whether it has accepted the payload.

    Args:
        payload: the present payload; a mass of zero means that the arm carries nothing.
        namespace: namespace of the nodes; an empty text for nodes without a namespace.

    Returns:
        The exit code: 0 if all subscribing nodes have accepted the payload; 1 otherwise, also if
        there is no such node.

    Raises:
        RbdControlError: if the middleware cannot be started without shared memory.
    """
    name = f"payload_{os.getpid()}"
    with running_ros(lambda: CommandNode(name, print, namespace=namespace or None)) as node:
        publisher = node.create_publisher(InertiaStamped, PAYLOAD, LATCHED)
        told: dict[str, str] = {}

        def on_diagnostics(message: DiagnosticArray) -> None:
            told.update({f"/{each.name.lstrip('/')}": each.message for each in message.status})

        node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 50)
        topic = publisher.topic_name
        names = _listeners(node, topic)
        if not names:
            _say(
                f"{topic} has no subscriber in ROS domain {os.environ.get('ROS_DOMAIN_ID', '0')}: "
                "start the detector or the controller first"
            )
            return 1
        if not _is_published(publisher, payload):
            _say(
                f"{topic}: the payload was not published within {SENDING:g} s, and no node has "
                "changed; reduce the load of the machine and run the command again"
            )
            return 1
        taken = [_has_taken(node, name, payload) for name in names]
    for name, has in zip(names, taken, strict=True):
        why = re.search("payload (?:refused|not in force yet).*", told.get(name, ""))
        refused = why[0] if why else "refused, or not checked without joint states; see its log"
        _say(f"{name}: {f'{payload.payload_mass:g} kg' if has else refused}")
    return 0 if all(taken) else 1


def _say(text: str) -> None:
    """Print a text in lines of the width of the terminal."""
    console_for_output().print(text, markup=False)


def _is_published(
    publisher: FaultTolerantPublisher[InertiaStamped], payload: PayloadParameters
) -> bool:
    """Publish a payload, and return whether the middleware accepted it.

    While the middleware refuses the payload, it is published again for up to :data:`SENDING`.
    """
    message, deadline = payload_message(payload), time.monotonic() + SENDING
    while not publisher.try_publish(message):
        publisher.refusals.log()
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _listeners(node: Node, topic: str) -> list[str]:
    """Return the full names of the subscribing nodes.

    The search ends :data:`SETTLING` after the last new node was found, or after :data:`PATIENCE`.
    """
    names: list[str] = []
    begin = found = time.monotonic()
    while time.monotonic() < begin + PATIENCE:
        rclpy.spin_once(node, timeout_sec=_POLL)
        present = {
            f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in node.get_subscriptions_info_by_topic(topic)
        }
        if present - set(names):
            names, found = sorted(present), time.monotonic()
        if names and time.monotonic() > found + SETTLING:
            break
    return names


def _has_taken(node: CommandNode, name: str, payload: PayloadParameters) -> bool:
    """Return whether the parameters of a node become equal to the payload within :data:`TAKING`."""
    client = node.create_client(GetParameters, f"{name}/get_parameters")
    names = ["payload_mass", "payload_link", "payload_com", "payload_inertia"]
    wanted = tuple(getattr(payload, name) for name in names)
    request = GetParameters.Request(names=names)
    deadline = time.monotonic() + TAKING
    while time.monotonic() < deadline:
        if not client.wait_for_service(timeout_sec=_POLL):
            continue
        answer = try_request(client, request, node.refusals)
        if answer is None:
            node.refusals.log()
            time.sleep(_POLL)
            continue
        rclpy.spin_until_future_complete(node, answer, timeout_sec=1.0)
        if answer.done() and answer.result() is not None:
            values = answer.result().values
            if len(values) != len(names):  # of a node without these parameters
                return False
            mass, link, com, inertia = values
            arrays = (tuple(each.double_array_value) for each in (com, inertia))
            if (mass.double_value, link.string_value, *arrays) == wanted:
                return True
        rclpy.spin_once(node, timeout_sec=_POLL)
    return False


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
        RbdControlError: if the file does not exist or is no parameter file; if the controller is
            missing, does not answer, or its name is impossible.
        OSError: if the file cannot be written.
    """
    if path is not None:
        with about(path):
            if is_absent(path):
                raise InputError("does not exist; give an existing parameter file of the arm")
        parameter_sections(path)
        prepare_output(path)
    answer = _ask(f"/{node_name.strip('/')}/measure_loop")
    print(answer.message)
    values = _values(answer.message)
    if not answer.success or not values:
        return 1
    if path is None:
        _say("write them into the parameter file of the arm: --out arm.yaml")
        return 0
    with about(path):
        text = with_values(path.read_text(encoding="utf-8"), SECTION, values)
        write_whole(path, text.encode())
    _say(f"written to {path}; start the controller again with this file")
    return 0


def _ask(service: str) -> Trigger.Response:
    """Return the answer of the controller.

    Raises:
        InputError: if there is no such service, or it does not answer.
        ParameterError: if no service can have this name.
    """
    with running_ros(lambda: CommandNode(f"check_loop_{os.getpid()}", print)) as node:
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
        _say("measuring the loop: the joints move by up to 10 mrad, for some seconds each")
        rclpy.spin_until_future_complete(node, future, timeout_sec=LONGEST)
        if not future.done() or future.result() is None:
            raise InputError(f"{service} has not answered within {LONGEST:g} s; see the node's log")
        return future.result()


def _values(message: str) -> Mapping[str, str]:
    """Return the parameters in the answer of the controller, as YAML by name; empty without any."""
    _, found, lines = message.partition(f"{SECTION}:\n")
    if not found:
        return {}
    values: dict[str, Any] = yaml.safe_load(lines)["ros__parameters"]
    return {name: str(value) for name, value in values.items()}
