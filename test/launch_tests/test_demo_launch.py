"""``demo.launch.py`` brings up an arm, a controller and a detector that work together."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing is not installed; it comes with ROS 2")

import launch_testing
from system import test_together as scenarios

from .launching import launched, probe_beside_launch


@pytest.mark.launch_test
def generate_test_description() -> Any:
    return launched("demo.launch.py", scenario="false")


class TestDemo(unittest.TestCase):
    def test_together(self, domain: int) -> None:
        probe = probe_beside_launch(domain)
        self.addCleanup(probe.close)
        scenarios.come_up(probe)
        scenarios.push_is_found(probe)


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_all_end_well(self, proc_info: Any) -> None:
        launch_testing.asserts.assertExitCodes(proc_info)
