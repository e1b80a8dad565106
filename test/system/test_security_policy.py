"""The security policy grants each node the topics and services it has, and no others.

The profiles are made from the nodes; what they include for every node is compared with a running
managed node and with the commands.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import parse
from rclpy._rclpy_pybind11 import NodeNameNonExistentError
from rclpy.node import Node

from rbd_control.share import share_directory
from rbd_control.simulation import arm7_urdf

from .bringup import PATIENCE, BringUp
from .probe import Probe

ROOT = Path(__file__).resolve().parents[2]
JOINTS = [f"joint_{i}" for i in range(1, 8)]
FOLDER = share_directory() / "security"
INCLUDE = "{http://www.w3.org/2003/XInclude}include"
VIEW, OBSERVERS = 8.0, 14
"""Time for an observer to discover all nodes [s], and number of further observers."""

T = TypeVar("T")

Granted = dict[str, set[str]]
"""Resolved names of topics and services by permission."""

USED: dict[str, Callable[[Node, str], list[Any]]] = {
    "publish": lambda node, name: node.get_publisher_names_and_types_by_node(name, "/"),
    "subscribe": lambda node, name: node.get_subscriber_names_and_types_by_node(name, "/"),
    "reply": lambda node, name: node.get_service_names_and_types_by_node(name, "/"),
    "request": lambda node, name: node.get_client_names_and_types_by_node(name, "/"),
}

ONLY_SIMULATED_TIME = "/clock"
"""Granted to all nodes and subscribed to only with ``use_sim_time``."""


def policy() -> Element:
    root: Element = parse(FOLDER / "rbd_control.policy.xml").getroot()
    return root


def grants(profile: Element) -> Iterator[Element]:
    """Yield the elements of a profile, included files among them."""
    for child in profile:
        if child.tag == INCLUDE:
            assert child.attrib["xpointer"] == "xpointer(/profile/*)"
            yield from grants(parse(FOLDER / child.attrib["href"]).getroot())
        else:
            yield child


def granted(enclave: str, node: str = "") -> Granted:
    """Return the permissions of a node of an enclave; by default of the first node."""
    which = f"[@node='{node}']" if node else ""
    path = f"enclaves/enclave[@path='/rbd_control/{enclave}']/profiles/profile{which}"
    profile = policy().find(path)
    assert profile is not None, f"the policy has no {path}"
    assert profile.attrib["ns"] == "/"
    names: Granted = {what: set() for what in USED}
    for element in grants(profile):
        for what, rule in element.attrib.items():
            assert rule == "ALLOW"
            for item in element:
                name = (item.text or "").strip()
                assert name.startswith(("/", "~/")), f"{name} is relative to an unknown namespace"
                resolved = name.replace("~", f"/{profile.attrib['node']}", 1)
                assert resolved not in names[what], f"{resolved} stands twice"
                names[what].add(resolved)
    return names


def used(probe: Probe, name: str) -> Granted:
    """Return what the node uses; nothing as long as the observer has not discovered it."""
    try:
        return {what: {found for found, _ in ask(probe.node, name)} for what, ask in USED.items()}
    except NodeNameNonExistentError:
        return {what: set() for what in USED}


def agree(probe: Probe, enclave: str, name: str) -> None:
    """Wait until the node uses exactly the granted names, which discovery lists step by step."""
    sometimes = {ONLY_SIMULATED_TIME}
    expected = {
        what: {found.replace(f"{enclave}_*", name) for found in found_all} - sometimes
        for what, found_all in granted(enclave).items()
    }

    def difference(observer: Probe) -> Granted:
        now = used(observer, name)
        differing = {what: (now[what] - sometimes) ^ expected[what] for what in USED}
        return {what: names for what, names in differing.items() if names}

    assert not observed(probe, difference), f"{name} and its enclave differ"


def observed(probe: Probe, difference: Callable[[Probe], T]) -> T:
    """Return the difference as soon as it is empty for an observer; otherwise what is left of it.

    rmw_fastrtps stores one message about the nodes of a process, whichever process sent it, until a
    thread reads it (ros2/rmw_fastrtps#792). On a busy machine an observer may therefore lose the
    nodes of a process for ever, while it receives their topics. Every process sends this message
    again to a new observer.
    """
    with suppress(AssertionError):
        probe.wait(lambda: not difference(probe), "", VIEW)
        return difference(probe)
    for _ in range(OBSERVERS):
        observer = Probe(probe.domain)
        try:
            with suppress(AssertionError):
                observer.wait(lambda watching=observer: not difference(watching), "", VIEW)
                break
        finally:
            left = difference(observer)
            observer.close()
    return left


def test_policy_and_table_of_topics_are_made_from_the_nodes() -> None:
    """``python -m bench.interface_pages`` makes them; in a process of its own, as it starts ROS."""
    check = (
        "from bench.interface_pages import generated\n"
        "print([p.name for p, text in generated().items() if p.read_text('utf-8') != text])"
    )
    made = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert made.stdout.splitlines()[-1] == "[]"


def test_policy_grants_what_a_managed_node_uses_and_no_more(
    bring_up: BringUp, probe: Probe
) -> None:
    name = "contact_detector"
    bring_up.start(name, {"robot_description": arm7_urdf(), "tool_frame": "tool", "joints": JOINTS})
    probe.wait_for_report(name, lambda r: r.values["state"] == "active", "is not active")
    agree(probe, name, name)


def test_policy_grants_what_a_reader_uses_and_no_more(bring_up: BringUp, probe: Probe) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "rbd_control.cli.main", "monitor", "--duration", "60"],
        env=bring_up.environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        name = f"monitor_{reader.pid}"
        probe.wait(lambda: name in probe.node.get_node_names(), "no monitor")
        agree(probe, "monitor", name)
    finally:
        reader.send_signal(signal.SIGTERM)
        reader.wait(PATIENCE)


def test_only_the_controller_may_send_torque() -> None:
    torque = "/effort_controller/commands"
    senders = set()
    for item in policy().iter("enclave"):
        enclave = item.attrib["path"].rpartition("/")[2]
        for profile in item.iter("profile"):
            if torque in granted(enclave, profile.attrib["node"])["publish"]:
                senders.add((enclave, profile.attrib["node"]))
    operator = granted("operator")
    assert "/passivity_controller/hold" in operator["request"]
    assert not any("parameter" in name for name in operator["request"])
    assert senders == {
        ("passivity_controller", "passivity_controller"),
        ("contact_aware_controller", "passivity_controller"),
    }
