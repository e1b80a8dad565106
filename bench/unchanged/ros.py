"""Interfaces of the nodes: topics, quality of service, services, actions and parameters.

The nodes run in this process, in a ROS domain that nothing else uses, until all are active.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action import graph
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from bench.unchanged.commands import ROOT
from bench.unchanged.store import Case
from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.run import make_executor
from rbd_control.ros.transports import without_shared_memory

PATIENCE = 180.0
"""Longest time until all nodes are active [s]."""
SETTLING = 3.0
"""Time after the last activation until the interfaces are recorded [s]."""
PARAMETERS: dict[str, Any] = {
    "urdf": "arm7",
    "damping_rate": 4.0,
    "discovery_time": 0.5,
    "tool_frame": "link_7",
    "recording": str(ROOT / "test/data/free"),
    "loop": True,
    "listeners": 0,
}
"""Parameters that let the nodes start; the damping is stable at any rate of the joint states."""

CLASSES = {
    "simulated_arm": "SimulatedArmNode",
    "contact_detector": "ContactDetectorNode",
    "passivity_controller": "PassivityControllerNode",
    "contact_guard": "ContactGuard",
    "joint_state_player": "JointStatePlayer",
    "demo_scenario": "DemoScenario",
    "contact_aware_controller": "make_nodes",
}
"""Class, or function that returns nodes, by the name of its module in ``rbd_control.nodes``."""

GROUPS = (
    ("simulated_arm", "contact_detector", "passivity_controller", "contact_guard"),
    ("simulated_arm", "contact_aware_controller"),
    ("joint_state_player", "demo_scenario"),
)
"""Nodes that run together."""


def cases(_data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the interface of each node, before its configuration and while it is active."""
    for group in GROUPS:
        with ExitStack() as stack:
            domain = stack.enter_context(reserved_domain())
            with without_shared_memory():
                rclpy.init(
                    args=[],
                    domain_id=domain,
                    signal_handler_options=SignalHandlerOptions.NO,
                )
                stack.callback(rclpy.try_shutdown)
                probe = Node("probe")
            stack.callback(probe.destroy_node)
            nodes = [node for name in group for node in _made(name)]
            stack.callback(_end, nodes)
            found = {node.get_name(): _parameters(node) for node in nodes}
            for node in nodes:
                _set(node)
            _spin(probe, nodes)
            for node in nodes:
                name = node.get_name()
                yield f"{'+'.join(group)}: {name}", found[name] | _interface(probe, node)


def _made(name: str) -> Sequence[Any]:
    """Return the nodes of a module."""
    made = getattr(import_module(f"rbd_control.nodes.{name}"), CLASSES[name])()
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _set(node: Any) -> None:
    """Set the parameters of :data:`PARAMETERS` that the node has."""
    given = {name: value for name, value in PARAMETERS.items() if node.has_parameter(name)}
    node.set_parameters([Parameter(name, value=value) for name, value in given.items()])


def _end(nodes: Sequence[Any]) -> None:
    for node in reversed(nodes):
        node.end()
    for node in reversed(nodes):
        node.destroy_node()


def _spin(probe: Node, nodes: Sequence[Any]) -> None:
    """Run the nodes until all have been active for some time."""
    executor = make_executor()
    for node in (probe, *nodes):
        executor.add_node(node)
    deadline, active_since = time.monotonic() + PATIENCE, time.monotonic()
    while time.monotonic() < min(deadline, active_since + SETTLING):
        executor.spin_until_future_complete(Future(), timeout_sec=0.1)
        if not all(node.is_active for node in nodes):
            active_since = time.monotonic()
    for node in (probe, *nodes):
        executor.remove_node(node)
    executor.shutdown()


def _parameters(node: Any) -> Case:
    """Return type, default and description of each parameter."""
    values = node.get_parameters_by_prefix("")
    described = node.describe_parameters(list(values))
    return {
        "parameters": {
            name: {
                "type": values[name].type_.name,
                "default": _plain(values[name].value),
                "description": one.description,
                "constraints": one.additional_constraints,
                "ranges": [str(each) for each in (*one.floating_point_range, *one.integer_range)],
                "read only": one.read_only,
                "dynamic typing": one.dynamic_typing,
            }
            for name, one in zip(values, described, strict=True)
        }
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else list(value)


def _interface(probe: Node, node: Any) -> Case:
    """Return topics, services and actions of an active node, from the graph."""
    name, space = node.get_name(), node.get_namespace()
    case: Case = {"active": bool(node.is_active)}
    queries: dict[str, Callable[[str, str], Any]] = {
        "services": probe.get_service_names_and_types_by_node,
        "clients": probe.get_client_names_and_types_by_node,
        "action servers": lambda *who: graph.get_action_server_names_and_types_by_node(probe, *who),
        "action clients": lambda *who: graph.get_action_client_names_and_types_by_node(probe, *who),
    }
    for title, query in queries.items():
        case[title] = {topic: list(kinds) for topic, kinds in sorted(query(name, space))}
    for title, query, by_topic, own in (
        (
            "publishers",
            probe.get_publisher_names_and_types_by_node,
            probe.get_publishers_info_by_topic,
            node.publishers,
        ),
        (
            "subscriptions",
            probe.get_subscriber_names_and_types_by_node,
            probe.get_subscriptions_info_by_topic,
            node.subscriptions,
        ),
    ):
        depths = {each.topic_name: each.qos_profile.depth for each in own}
        case[title] = {
            topic: {
                "types": list(kinds),
                "qos": sorted(
                    _quality(each.qos_profile)
                    for each in by_topic(topic)
                    if (each.node_name, each.node_namespace) == (name, space)
                ),
                "depth": depths.get(topic),
            }
            for topic, kinds in sorted(query(name, space))
        }
    return case


def _quality(profile: Any) -> str:
    """Return a quality of service as text, without the depth, which discovery does not tell."""
    return (
        f"{profile.reliability.name} {profile.durability.name} deadline {profile.deadline} "
        f"lifespan {profile.lifespan} liveliness {profile.liveliness.name} "
        f"{profile.liveliness_lease_duration}"
    )
