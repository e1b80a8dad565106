"""``rbd-control payload``: sends the present payload to all nodes of an arm."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from geometry_msgs.msg import InertiaStamped
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from rbd_control.nodes.command_node import CommandNode
from rbd_control.nodes.messages import LATCHED
from rbd_control.nodes.payload_input import PAYLOAD
from rbd_control.nodes.publications import GuardedPublisher, try_request
from rbd_control.nodes.transports import without_shared_memory
from rbd_control.robot.payload import PayloadParameters

PATIENCE = 10.0
"""Longest search for nodes that subscribe to the payload [s]."""

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
    with _node(namespace) as node:
        publisher = node.create_publisher(InertiaStamped, PAYLOAD, LATCHED)
        topic = publisher.topic_name
        names = _listeners(node, topic)
        if not names:
            print(
                f"{topic} has no subscriber in ROS domain {os.environ.get('ROS_DOMAIN_ID', '0')}: "
                "start the detector or the controller first"
            )
            return 1
        if not _is_published(publisher, payload):
            print(
                f"{topic}: the payload was not published within {SENDING:g} s, and no node has "
                "changed; reduce the load of the machine and run the command again"
            )
            return 1
        taken = [_has_taken(node, name, payload) for name in names]
    for name, has in zip(names, taken, strict=True):
        print(
            f"{name}: {payload.payload_mass:g} kg"
            if has
            else f"{name}: refused, or not checked without joint states; see its log"
        )
    return 0 if all(taken) else 1


def _is_published(publisher: GuardedPublisher[InertiaStamped], payload: PayloadParameters) -> bool:
    """Publish a payload, and return whether the middleware accepted it.

    While the middleware refuses the payload, it is published again for up to :data:`SENDING`.
    """
    message, deadline = _message(payload), time.monotonic() + SENDING
    while not publisher.try_publish(message):
        publisher.refusals.log()
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _message(payload: PayloadParameters) -> InertiaStamped:
    message = InertiaStamped()
    message.header.frame_id = payload.payload_link
    inertia = message.inertia
    inertia.m = payload.payload_mass
    inertia.com.x, inertia.com.y, inertia.com.z = payload.payload_com
    moments = payload.payload_inertia
    inertia.ixx, inertia.iyy, inertia.izz, inertia.ixy, inertia.ixz, inertia.iyz = moments
    return message


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


@contextmanager
def _node(namespace: str) -> Iterator[CommandNode]:
    """Yield a node; ROS runs until the context is left."""
    try:
        with without_shared_memory():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
            node = CommandNode(f"payload_{os.getpid()}", print, namespace=namespace or None)
        yield node
        node.destroy_node()
    finally:
        rclpy.try_shutdown(uninstall_handlers=False)
