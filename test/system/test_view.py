"""A live view reads the topics of arms, detectors and controllers, and does nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("yourdfpy", reason="the extra `view` is not installed")
pytest.importorskip("viser", reason="the extra `view` is not installed")

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Vector3, WrenchStamped
from rclpy.context import Context
from rclpy.node import Node
from rich.console import Console
from robots import two_arms
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from rbd_control.dynamics import Model, frame_placement
from rbd_control.estimation import ContactEvent
from rbd_control.live.view import LiveArm, _Reporter, places, view_node
from rbd_control.ros.contact_messages import THRESHOLD, event_message
from rbd_control.ros.messages import LATCHED, Stamp
from rbd_control.ros.transports import without_shared_memory
from rbd_control.simulation import arm7_urdf
from rbd_control.view.state import ArmState

from .bringup import PATIENCE, BringUp
from .probe import Probe, context_in

MODEL = Model.from_urdf(arm7_urdf())
JOINTS = MODEL.joint_names
Q = np.array([0.3, 0.4, 0.1, -1.2, 0.2, 0.5, 0.1])
FORCE = np.array([3.0, -20.0, 5.0])
"""Force on link_5 in world axes [N]."""

EVENT = ContactEvent(
    id=4,
    phase="onset",
    level="contact",
    onset=1e9 + 2.0,
    detected=1e9 + 2.01,
    release=None,
    joint="joint_2",
    link="link_5",
    peak_torque=6.0,
    force=FORCE,
    candidates=("link_5", "link_4"),
    confidence=0.8,
)


class Arm:
    """Publishes the topics of the nodes of one namespace."""

    def __init__(self, probe: Probe, namespace: str) -> None:
        self._node, self._namespace = probe.node, namespace
        self._publishers: dict[str, Any] = {}
        self.stamp = 10**9  # of the residuals [s]

    def send(self, topic: str, message: Any, qos: Any = 10) -> None:
        name = topic if topic.startswith("/") else f"/{self._namespace}/{topic}"
        if name not in self._publishers:
            self._publishers[name] = self._node.create_publisher(type(message), name, qos)
        self._publishers[name].publish(message)

    def describe(self) -> None:
        self.send("robot_description", String(data=arm7_urdf()), LATCHED)

    def work(self) -> None:
        """Publish one sample of everything but events."""
        self.send("joint_states", JointState(name=list(JOINTS), position=list(Q)))
        self.send("contact_detector/contact", Bool(data=True))
        residual = JointState(name=list(JOINTS), effort=[float(k) for k in range(7)])
        residual.header.stamp.sec = self.stamp
        self.send("contact_detector/external_joint_torques", residual)
        wrench = WrenchStamped()
        wrench.header.frame_id = "link_5"
        in_link = frame_placement(MODEL, Q, "link_5")[:3, :3].T @ FORCE
        wrench.wrench.force = Vector3(**dict(zip("xyz", map(float, in_link), strict=True)))
        self.send("contact_detector/external_wrench", wrench)
        self.send("passivity_controller/tracking_error", JointState(position=[0.001, -0.003]))
        self.send("/diagnostics", DiagnosticArray(status=[self._detector(), self._controller()]))

    def tell(self, event: ContactEvent) -> None:
        self.send("contact_detector/events", event_message("d", event, Stamp(1, 2)))

    def _detector(self) -> DiagnosticStatus:
        values = [KeyValue(key=f"{THRESHOLD}{joint} [N·m]", value="2.0") for joint in JOINTS]
        name = f"{self._namespace}/contact_detector"
        return DiagnosticStatus(name=name, message="ok", values=values)

    def _controller(self) -> DiagnosticStatus:
        pairs = {"mode": "follow", "storage [J]": "0.25", "tank [J]": "1.5"}
        values = [KeyValue(key=key, value=value) for key, value in pairs.items()]
        return DiagnosticStatus(name=f"{self._namespace}/passivity_controller", values=values)


@pytest.fixture(scope="module")
def context(bring_up: BringUp) -> Iterator[Context]:
    with without_shared_memory():
        context = context_in(bring_up.domain)
        # The first node of a context creates what all its nodes send through.
        first = Node("first", context=context)
    yield context
    first.destroy_node()
    rclpy.shutdown(context=context)


def wait_for(arm: LiveArm, condition: Any, otherwise: str, publish: Any = lambda: None) -> ArmState:
    deadline = time.monotonic() + PATIENCE
    while not condition(state := arm.state()):
        assert time.monotonic() < deadline, f"{otherwise}: {state}"
        publish()
        time.sleep(0.02)
    return state


def test_a_live_view_reads_and_commands_nothing(probe: Probe, context: Context) -> None:
    node = view_node(context)
    left, right = LiveArm(node, "left"), LiveArm(node, "/right/")
    sender = Arm(probe, "left")
    assert "waiting for the URDF on /left/robot_description" in left.state().notice

    sender.describe()
    wait_for(left, lambda _: left.scene is not None, "no description")
    # Twice, as the first messages may come before the topics have found each other.
    state = wait_for(
        left, lambda s: s.ratios is not None and s.mode, "no residuals or no mode", sender.work
    )
    assert state.q == pytest.approx(Q)
    assert state.ratios == pytest.approx([k / 2.0 for k in range(7)])
    assert (state.mode, state.storage, state.tank) == ("follow", 0.25, 1.5)
    state = wait_for(left, lambda s: s.tracking_error > 0.0, "no tracking error", sender.work)
    assert state.tracking_error == pytest.approx(0.003)

    sender.tell(EVENT)
    state = wait_for(
        left,
        lambda s: s.events and s.touch is not None and s.touch.force is not None,
        "no force",
        sender.work,
    )
    assert state.touch is not None
    assert state.touch.link == "link_5"
    assert state.touch.probabilities == pytest.approx({"link_5": 0.8, "link_4": 0.2})
    # The wrench came in the frame of the link.
    assert state.touch.force == pytest.approx(FORCE)
    assert (state.verdict, state.current, state.notice) == ("contact", 0, "")
    (event,) = state.events
    assert event.onset == pytest.approx(2.0)  # from the stamp of the first residual
    assert event.detected == pytest.approx(2.01)
    sender.stamp += 3
    wait_for(left, lambda s: s.time == 3.0, "time does not go by", sender.work)

    sender.tell(replace(EVENT, phase="release", release=EVENT.onset + 1.5))
    state = wait_for(left, lambda s: s.events[-1].phase == "release", "no release")
    assert len(state.events) == 1
    assert state.current == -1
    # A jump to the event shows its contact.
    past = left.during(state.events[0])
    assert past is not None
    assert past.touch is not None
    assert (past.verdict, past.touch.link) == ("contact", "link_5")
    assert past.touch.force == pytest.approx(FORCE)
    # The onset stays where it was shown, however late the release comes.
    assert state.events[0].onset == pytest.approx(event.onset)
    assert state.events[0].duration == pytest.approx(1.5)
    joints, times, ratios = left.history()
    assert joints == JOINTS
    assert ratios.shape == (len(times), 7)

    state = wait_for(left, lambda s: s.verdict == "no verdict", "silence is a verdict")
    assert state.touch is None
    # The last state stays visible, beside what is missing.
    assert state.q == pytest.approx(Q)
    assert state.events[0].duration == pytest.approx(1.5)
    assert len(left.history()[1]) == len(times)
    wait_for(left, lambda s: "no joint states on /left/joint_states" in s.notice, "no notice")
    assert not right.has_heard
    assert right.scene is None

    # All that it publishes are its own parameters, which it has none of.
    name = node.get_name()
    published = dict(probe.node.get_publisher_names_and_types_by_node(name, "/"))
    assert set(published) <= {"/parameter_events"}
    assert probe.node.get_client_names_and_types_by_node(name, "/") == []
    services = dict(probe.node.get_service_names_and_types_by_node(name, "/"))
    assert all(service.startswith(f"/{name}/get_type_description") for service in services)
    node.destroy_node()


def test_joints_match_by_name_or_but_for_one_prefix() -> None:
    assert places(MODEL, JOINTS[::-1]) == [(k, 6 - k) for k in range(7)]
    assert places(MODEL, [f"left_{joint}" for joint in JOINTS]) == [(k, k) for k in range(7)]
    assert places(MODEL, ["gripper", "joint_3"]) == [(2, 1)]
    # The joints of another arm in the description are not drawn as the joints of this arm.
    left = [f"left_{joint}" for joint in JOINTS]
    assert places(Model.from_urdf(two_arms(), locked=dict.fromkeys(left, 0.0)), left) == []


def test_a_view_that_hears_nothing_says_what_it_waits_for(bring_up: BringUp) -> None:
    ended = bring_up.run("view", "--port", "0", "--duration", "0.5", "--namespace", "a", "b")
    assert ended.returncode == 1, ended.stderr
    assert "view: http://127.0.0.1:" in ended.stdout
    for topic in ("/a/joint_states", "/a/contact_detector/contact", "/a/robot_description"):
        assert topic in ended.stdout
    assert "no message received from /b in ROS domain" in ended.stdout
    assert not ended.stderr


def test_notes_about_the_drawing_are_printed_once() -> None:
    heard = SimpleNamespace(scene=SimpleNamespace(notes=("no meshes of arm",)), has_heard=True)
    waiting = SimpleNamespace(scene=None, has_heard=True)
    arms: Any = [heard, heard, waiting]
    console = Console(file=StringIO())
    reporter = _Reporter(arms, console)
    assert not any(reporter.looked() for _ in range(3))
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == "note: no meshes of arm\n"
