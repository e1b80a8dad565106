"""The security policy grants each node the topics and services it has, and no others."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import parse
from rclpy._rclpy_pybind11 import NodeNameNonExistentError
from rclpy.node import Node

from rbd_control.share import share_directory
from rbd_control.simulation import arm7_urdf

from .bringup import PATIENCE, BringUp, Process
from .probe import Probe

FOLDER = share_directory() / "security"
INCLUDE = "{http://www.w3.org/2003/XInclude}include"
NODES = (
    "simulated_arm",
    "contact_detector",
    "contact_guard",
    "passivity_controller",
    "joint_state_player",
)

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

ONLY_FOR_COLLISIONS = "/contact_detector/contact_stamped"
"""Subscribed to by a guard with ``stop_at: collision`` only."""

PLAYED = "/played"
"""Topic of the player in place of /joint_states, which the simulated arm publishes here."""


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
        return {
            what: {found.replace(PLAYED, "/joint_states") for found, _ in ask(probe.node, name)}
            for what, ask in USED.items()
        }
    except NodeNameNonExistentError:
        return {what: set() for what in USED}


OF_THE_ACTION = {
    f"/passivity_controller/follow_joint_trajectory/_action/{name}"
    for name in ("feedback", "status", "cancel_goal", "get_result", "send_goal")
}
"""Used by the controller where ``control_msgs`` is installed."""

SOMETIMES = {ONLY_SIMULATED_TIME}
if find_spec("control_msgs") is None:
    SOMETIMES |= OF_THE_ACTION


def agree(probe: Probe, enclave: str, name: str, profile: str = "") -> None:
    """Wait until the node uses exactly the granted names, which discovery lists step by step."""
    sometimes = SOMETIMES | ({ONLY_FOR_COLLISIONS} if name == "contact_guard" else set())
    expected = {
        what: {found.replace(f"{enclave}_*", name) for found in found_all} - sometimes
        for what, found_all in granted(enclave, profile).items()
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


@pytest.fixture(scope="module")
def nodes(
    bring_up: BringUp, probe: Probe, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Process]:
    """All nodes, each active, as its publishers may come with activation."""
    recording = tmp_path_factory.mktemp("recording") / "still.csv"
    rows = [f"{0.02 * k:.2f},0.1,0.0,0.0" for k in range(1, 30_000)]
    header = "time,position/elbow,velocity/elbow,effort/elbow"
    recording.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    remapped = ["-r", f"joint_states:={PLAYED}"]
    started = {}
    for name in NODES:
        parameters: dict[str, Any] = {"robot_description": arm7_urdf()}
        if name == "joint_state_player":
            parameters = {"recording": str(recording), "listeners": 0}
        if name == "contact_guard":
            parameters = {}
        player = name == "joint_state_player"
        if name == "simulated_arm":
            parameters["rate"] = 250.0  # names do not depend on it
        if name == "contact_detector":
            parameters["tool_frame"] = "tool"
        started[name] = bring_up.start(name, parameters, remapped if player else ())
    for name in NODES:
        probe.wait_for_report(name, lambda r: r.values["state"] == "active", "is not active")
    return started


@pytest.mark.parametrize("name", NODES)
def test_policy_grants_what_the_node_uses_and_no_more(
    name: str, probe: Probe, nodes: dict[str, Process]
) -> None:
    agree(probe, name, name)


@pytest.mark.parametrize("command", ["monitor", "view"])
def test_policy_grants_what_a_reader_uses_and_no_more(
    command: str, bring_up: BringUp, probe: Probe
) -> None:
    if command == "view":
        pytest.importorskip("viser", reason="the extra `view` is not installed")
    options = {"monitor": [], "view": ["--port", "0"]}[command]
    reader = subprocess.Popen(
        [sys.executable, "-m", "rbd_control.cli.main", command, "--duration", "60", *options],
        env=bring_up.environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        name = f"{command}_{reader.pid}"
        probe.wait(lambda: name in probe.node.get_node_names(), f"no {command}")
        agree(probe, command, name)
    finally:
        reader.send_signal(signal.SIGTERM)
        reader.wait(PATIENCE)


def test_operator_may_order_but_not_send_torque_or_change_parameters(
    probe: Probe, nodes: dict[str, Process]
) -> None:
    """All that the operator publishes, subscribes to and calls exists on the nodes."""
    operator = granted("operator")
    own = operator["reply"]

    def missing(observer: Probe) -> set[str]:
        there = {what: set.union(*(used(observer, name)[what] for name in NODES)) for what in USED}
        return (
            (operator["publish"] - {"/rosout", "/parameter_events"} - there["subscribe"])
            | (operator["subscribe"] - {ONLY_SIMULATED_TIME} - there["publish"])
            | (operator["request"] - (there["reply"] - own))
        )

    assert not observed(probe, missing)
    assert "/effort_controller/commands" not in operator["publish"]
    assert not any("parameter" in name for name in operator["request"])


def test_only_the_controller_may_send_torque() -> None:
    torque = "/effort_controller/commands"
    senders = set()
    for item in policy().iter("enclave"):
        enclave = item.attrib["path"].rpartition("/")[2]
        for profile in item.iter("profile"):
            if torque in granted(enclave, profile.attrib["node"])["publish"]:
                senders.add((enclave, profile.attrib["node"]))
    assert senders == {
        ("passivity_controller", "passivity_controller"),
        ("contact_aware_controller", "passivity_controller"),
    }


def test_policy_is_as_ros2_security_reads_it() -> None:
    """``ros2 security`` takes each child of ``enclaves`` for an enclave, comments included."""
    root = policy()
    assert root.attrib["version"] == "0.2.0"
    text = (FOLDER / "rbd_control.policy.xml").read_text(encoding="utf-8")
    inside = text[text.index("<enclaves>") : text.index("</enclaves>")]
    outside = [part.partition("<enclave ")[0] for part in inside.split("</enclave>")]
    assert not any("<!--" in part for part in outside)
    included = {Path(item.attrib["href"]) for item in root.iter(INCLUDE)}
    assert {FOLDER / name for name in included} == set((FOLDER / "common").glob("*.xml"))
