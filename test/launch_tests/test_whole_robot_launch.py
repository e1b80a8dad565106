"""``contact_detector.launch.py`` without parameters, on the stock Panda with its hand."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing is not installed; it comes with ROS 2")

import launch_testing
from robots import urdf_path
from system.whole_robot import publish_robot, verdict_without_contact

from .launching import launched, probe_beside_launch

try:
    DESCRIPTION = urdf_path("panda")
except pytest.skip.Exception as reason:
    pytest.skip(str(reason), allow_module_level=True)


@pytest.mark.launch_test
def generate_test_description() -> Any:
    return launched("contact_detector.launch.py")


class TestWholeRobot(unittest.TestCase):
    def test_detector(self, domain: int) -> None:
        probe = probe_beside_launch(domain)
        self.addCleanup(probe.close)
        publish_robot(probe, DESCRIPTION)
        verdict_without_contact(probe)


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_it_ends_well(self, proc_info: Any) -> None:
        launch_testing.asserts.assertExitCodes(proc_info)
