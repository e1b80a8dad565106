"""``python -m bench.interface_pages``: make SROS2 policy and table of topics from the nodes.

It writes ``security/rbd_control.policy.xml`` and the first table of ``docs/topics.md``. The nodes
are created in this process: topics that they publish are those in ``outputs``; subscriptions,
services and clients are those that they have created. A test compares the files with the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from defusedxml.ElementTree import parse
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile

from rbd_control.live.monitor import Monitor
from rbd_control.live.view import LiveArm, view_node
from rbd_control.nodes.contact_aware_controller import make_nodes
from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.follow_joint_trajectory import ACTION
from rbd_control.nodes.hand_guide import HandGuideNode
from rbd_control.nodes.joint_state_player import JointStatePlayer
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.simulated_arm import SimulatedArmNode
from rbd_control.ros.fault_tolerant_node import Output
from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.transports import running_ros

ROOT = Path(__file__).parents[1]
POLICY = ROOT / "security" / "rbd_control.policy.xml"
PAGE = ROOT / "docs" / "topics.md"
INCLUDE = "{http://www.w3.org/2003/XInclude}include"
NODE, MANAGED = "common/node.xml", "common/managed_node.xml"
"""Included files: what every node has, and what every managed node has."""

BEGIN, END = "<!-- made by python -m bench.interface_pages -->", "<!-- end of the made part -->"

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- SROS2 policy: each node may use its own topics and services and nothing else. Made by
     bench/interface_pages.py. How to use and adapt it: docs/security.md. -->
"""

NODES = (
    ContactDetectorNode,
    ContactGuard,
    HandGuideNode,
    PassivityControllerNode,
    SimulatedArmNode,
    JointStatePlayer,
)

NOTES = {
    "contact_guard": "With the default parameters and stop_at collision: add the cancel_goal and "
    "status of other actions, the Trigger services it calls, and publishing the retreat_topic "
    "where a retreat is set.",
    "hand_guide": "Add publishing the topic of its commands, or with output float the services "
    "~/float and ~/hold of the controller.",
    "passivity_controller": "The action exists only where control_msgs is installed.",
    "contact_aware_controller": "Detector and controller in one process, which share the joint "
    "states.",
    "monitor": "`rbd-control monitor`: reads the detector, can change nothing.",
    "view": "`rbd-control view`: reads arm, detector and controller, can change nothing.",
    "operator": "The user who moves the arm: trajectories and orders, no torque and no parameters.",
}


@dataclass(frozen=True)
class Rights:
    """What a node may use, as full names, those of its own namespace with a tilde.

    Attributes:
        node: name of the node.
        included: files of rights that many nodes have.
    """

    node: str
    publish: frozenset[str] = frozenset()
    subscribe: frozenset[str] = frozenset()
    reply: frozenset[str] = frozenset()
    request: frozenset[str] = frozenset()
    included: tuple[str, ...] = (NODE,)

    def element(self) -> Element:
        """Return the profile of the node."""
        profile = Element("profile", ns="/", node=self.node)
        for file in self.included:
            SubElement(profile, "xi:include", href=file, xpointer="xpointer(/profile/*)")
        for kind, item, rule in (
            ("topics", "topic", "subscribe"),
            ("topics", "topic", "publish"),
            ("services", "service", "request"),
            ("services", "service", "reply"),
        ):
            names = sorted(getattr(self, rule))
            if names:
                part = SubElement(profile, kind, {rule: "ALLOW"})
                for name in names:
                    SubElement(part, item).text = name
        return profile


def rights_of(node: Any, *included: str) -> Rights:
    """Return the rights that a node in this process needs beyond those of the included files."""
    name = node.get_name()

    def own(names: Iterable[str], rule: str) -> frozenset[str]:
        common = {each for file in included for each in _common(file, rule)}
        return frozenset(_short(each, name) for each in names) - common

    outputs = [node.resolve_topic_name(output.topic) for output in getattr(node, "outputs", ())]
    found = [publisher.topic_name for publisher in node.publishers]
    return Rights(
        name,
        own([*outputs, *found], "publish"),
        own((each.topic_name for each in node.subscriptions), "subscribe"),
        own((each.service_name for each in node.services), "reply"),
        own((each.service_name for each in node.clients), "request"),
        included,
    )


def _short(name: str, node: str) -> str:
    own = f"/{node}/"
    return f"~/{name[len(own) :]}" if name.startswith(own) else name


def _common(file: str, rule: str) -> set[str]:
    """Return the names that an included file grants."""
    root = parse(POLICY.parent / file).getroot()
    assert root is not None
    return {str(item.text).strip() for part in root if rule in part.attrib for item in part}


def _with_action(rights: Rights) -> Rights:
    """Return the rights of a controller with the action, which rclpy does not list."""
    action = f"{ACTION}/_action"
    return replace(
        rights,
        publish=rights.publish | {f"{action}/feedback", f"{action}/status"},
        reply=rights.reply
        | {f"{action}/{name}" for name in ("cancel_goal", "get_result", "send_goal")},
    )


def enclaves() -> dict[str, list[Rights]]:
    """Return the rights of the nodes of each enclave, from nodes in this process."""
    found: dict[str, list[Rights]] = {}
    with _running_ros() as stack:

        def made(node: Any) -> Any:
            stack.callback(node.destroy_node)
            return node

        for kind in NODES:
            node = made(kind())
            if isinstance(node, ContactGuard):
                node.set_parameters([Parameter("stop_at", value="collision")])
                node.trigger_configure()
            found[node.get_name()] = [rights_of(node, NODE, MANAGED)]
        found["contact_aware_controller"] = [
            rights_of(made(node), NODE, MANAGED) for node in make_nodes()
        ]
        monitor = Monitor("contact_detector", lambda _line: None)
        stack.callback(monitor.destroy_node)
        found["monitor"] = [replace(rights_of(monitor.node, NODE), node="monitor_*")]
        node = made(view_node())
        LiveArm(node, "")
        found["view"] = [_of_view(rights_of(node))]
    for name in ("passivity_controller", "contact_aware_controller"):
        found[name] = [
            _with_action(each) if each.node == "passivity_controller" else each
            for each in found[name]
        ]
    found["operator"] = [_operator(found)]
    return found


def _of_view(rights: Rights) -> Rights:
    """Return the rights of a node without log and parameter services, as rclpy makes it."""
    return replace(
        rights,
        node="view_*",
        publish=rights.publish | {"/parameter_events"},
        subscribe=rights.subscribe | {"/clock"},
        reply=frozenset({"~/get_type_description"}),
    )


def _operator(found: dict[str, list[Rights]]) -> Rights:
    """Return the rights of an operator: all services of the nodes, and what shows their state."""
    asked = ("contact_detector", "contact_guard", "hand_guide", "passivity_controller")
    return Rights(
        "operator",
        publish=frozenset({"/passivity_controller/joint_trajectory"}),
        subscribe=frozenset(
            {
                "/contact_detector/contact",
                "/contact_detector/events",
                "/contact_guard/stopped",
                "/hand_guide/state",
                "/diagnostics",
                "/passivity_controller/tracking_error",
            }
        ),
        request=frozenset(
            f"/{node}{name[1:]}"
            for node in asked
            for name in found[node][0].reply
            if "/_action/" not in name
        ),
    )


def policy(found: dict[str, list[Rights]]) -> str:
    """Return the SROS2 policy."""
    root = Element("policy", {"version": "0.2.0", "xmlns:xi": "http://www.w3.org/2003/XInclude"})
    inside = SubElement(root, "enclaves")
    for name, nodes in found.items():
        enclave = SubElement(inside, "enclave", path=f"/rbd_control/{name}")
        profiles = SubElement(enclave, "profiles")
        profiles.extend(rights.element() for rights in nodes)
    indent(root)
    text = tostring(root, encoding="unicode")
    for name, note in NOTES.items():
        line = f'    <enclave path="/rbd_control/{name}">\n'
        text = text.replace(line, f"{line}      <!-- {note} -->\n")
    return f"{HEAD}{text}\n"


def topics_table() -> str:
    """Return the table of the topics that the nodes publish."""
    lines = ["| topic | type | content: when it is published |", "|---|---|---|"]
    for kind in NODES:
        name = kind.__module__.rpartition(".")[2]
        lines += [_row(name, output) for output in kind.outputs]
    return "\n".join(lines)


def _row(node: str, output: Output[Any]) -> str:
    topic = output.topic.replace("~", node, 1)
    package, kind = output.kind.__module__.partition(".")[0], output.kind.__name__
    read = "; only while it is read" if output.while_read else ""
    return f"| `{topic}` | {package}/{kind} | {output.text}{read}{_qos(output.qos)} |"


def _qos(qos: QoSProfile | int) -> str:
    """Return what a subscriber must know of a profile that is not volatile."""
    if isinstance(qos, int) or qos.durability != DurabilityPolicy.TRANSIENT_LOCAL:
        return ""
    lifespan = qos.lifespan.nanoseconds * 1e-6
    expires = f", expires after {lifespan:g} ms" if 0.0 < lifespan < 1e6 else ""
    return f"; transient local{expires}"


def page() -> str:
    """Return docs/topics.md with the present table."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    return f"{before}{BEGIN}\n\n{topics_table()}\n\n{END}{after}"


def generated() -> dict[Path, str]:
    """Return all generated files: their texts by path."""
    return {POLICY: policy(enclaves()), PAGE: page()}


@contextmanager
def _running_ros() -> Iterator[ExitStack]:
    """Run ROS in a domain that nothing else uses; yield callbacks for its end."""
    with ExitStack() as stack:
        domain = stack.enter_context(reserved_domain())
        stack.enter_context(running_ros(lambda: Node("interface_pages"), domain))
        yield stack


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")
