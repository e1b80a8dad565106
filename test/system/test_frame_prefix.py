"""A detector with another ``frame_prefix`` than the controller's: the reaction finds the link."""

from __future__ import annotations

import math
import time

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Vector3, WrenchStamped
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from urdf_texts import with_root_last
from visualization_msgs.msg import MarkerArray

from rbd_control.nodes.detector_input import link_of_frame
from rbd_control.share import share_directory
from rbd_control.simulation import arm7_urdf

from .bringup import BringUp
from .probe import Probe
from .scenarios import ARM, CONTROLLER, DETECTOR, come_up

LINKS = ("base", "link_1", "link_11", "hand", "left_hand")


@pytest.mark.parametrize(
    ("frame", "prefix", "link"),
    [
        ("link_1", "", "link_1"),
        ("left/link_1", "left/", "link_1"),
        ("link_1", "left/", "link_1"),
        ("left/link_11", "", "link_11"),
        ("right/link_1", "left/", "link_1"),
        ("panda_hand", "", "hand"),
        ("cell/left_hand", "", "left_hand"),
        ("shand", "", ""),
        ("link_2", "", ""),
        ("", "", ""),
    ],
)
def test_the_link_of_a_frame(frame: str, prefix: str, link: str) -> None:
    assert link_of_frame(frame, LINKS, prefix) == link


def test_the_reaction_finds_the_link(bring_up: BringUp, probe: Probe) -> None:
    """The arm retracts from the touched link, and the controller tells the other prefix.

    Torques, events and arrows of the detector are in the frame of the root link, also where this
    link stands last in the description.
    """
    described = {"urdf": "", "robot_description": with_root_last(arm7_urdf())}
    own = {
        DETECTOR: {"frame_prefix": "left/", **described},
        CONTROLLER: {"contact_reaction": "retract"},
    }
    torques = probe.listen(JointState, f"{DETECTOR}/external_joint_torques")
    events = probe.listen(DiagnosticArray, f"{DETECTOR}/events")
    arrows = probe.listen(MarkerArray, f"{DETECTOR}/markers")
    config = ["--params-file", str(share_directory() / "config" / "demo.yaml")]
    nodes = {
        node: bring_up.start(node, own.get(node), config) for node in (ARM, CONTROLLER, DETECTOR)
    }
    come_up(probe)
    push = WrenchStamped()
    push.header.frame_id = "link_7"
    push.wrench.force = Vector3(x=0.0, y=25.0, z=0.0)
    retracted = "retracted along the force on link_"
    pushed = -math.inf

    def has_retracted() -> bool:
        """Push once more if the arm was late, which is a fault, or has not felt it."""
        nonlocal pushed
        if time.monotonic() > pushed + 10.0:
            probe.call(Trigger, f"{CONTROLLER}/resume")
            probe.send(f"{ARM}/external_wrench", push)
            pushed = time.monotonic()
        return retracted in probe.reports[CONTROLLER].message

    probe.wait(has_retracted, "does not retract")
    report = probe.reports[CONTROLLER]
    assert "set frame_prefix to 'left/'" in report.message
    assert "set frame_prefix to 'left/'" in nodes[CONTROLLER].output
    frames = [message.header.frame_id for message in (*torques, *events)]
    frames += [marker.header.frame_id for message in arrows for marker in message.markers]
    assert events
    assert set(frames) == {"left/link_0"}
