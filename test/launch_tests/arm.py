"""``arm.launch.py`` brings up one arm of a cell: namespace, prefix, detector and guard."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

import launch_testing
import yaml
from rcl_interfaces.srv import GetParameters
from std_msgs.msg import Bool, String
from system import detector_setting as scenarios
from system.probe import LATCHED, Probe, Source
from system.test_contact_guard import ArmDriver

from launch_tests.launching import DOMAIN, launched
from rbd_control.simulation import arm7_urdf

FOLDER = tempfile.TemporaryDirectory()
JOINTS = [f"joint_{i}" for i in range(1, 8)]


def generate_test_description() -> Any:
    detector = {k: v for k, v in scenarios.PARAMETERS.items() if k != "urdf"}
    sections = {
        "/**": {"joints": JOINTS, "payload_mass": 0.1, "payload_link": "link_7"},
        "contact_detector": {**detector, "observer_gain": 40.0},
    }
    file = Path(FOLDER.name, "arm.yaml")
    content = {name: {"ros__parameters": values} for name, values in sections.items()}
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return launched(
        "arm.launch.py",
        namespace="left",
        prefix="left_",
        params_file=str(file),
        controller="false",
        guard="true",
        actions="follow, /other/follow",
    )


class TestArm(unittest.TestCase):
    def test_arm(self) -> None:
        probe = Probe(DOMAIN)
        self.addCleanup(probe.close)
        text = arm7_urdf()
        for what in ("joint", "link"):
            text = text.replace(f'"{what}_', f'"left_{what}_')
        text = text.replace('"tool"', '"left_tool"')
        publisher = probe.node.create_publisher(String, "/left/robot_description", LATCHED)
        publisher.publish(String(data=text))
        source = scenarios.resting()
        named = Source([f"left_{j}" for j in JOINTS], source.position, source.velocity)
        named.effort = source.effort
        probe.stream(named, "/left/joint_states")
        drivers = [ArmDriver(probe, name) for name in ("/left/follow", "/other/follow")]
        contact = probe.listen(Bool, "/left/contact_detector/contact", LATCHED)
        probe.wait(lambda: contact and not contact[-1].data, "no verdict")
        report = "left/contact_guard"
        probe.wait_for_report(report, lambda r: r.values.get("state") == "active", "no guard")
        scenarios.touched(named)
        probe.wait(lambda: all(driver.cancels for driver in drivers), "goals are not cancelled")
        names = ["joints", "payload_link", "observer_gain"]
        request = GetParameters.Request(names=names)
        values = probe.call(GetParameters, "/left/contact_detector/get_parameters", request).values
        assert list(values[0].string_array_value) == [f"left_{j}" for j in JOINTS]
        assert values[1].string_value == "left_link_7"
        assert values[2].double_value == 40.0


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_they_end_well(self, proc_info: Any) -> None:
        FOLDER.cleanup()
        launch_testing.asserts.assertExitCodes(proc_info)
