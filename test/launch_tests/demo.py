"""``demo.launch.py`` brings up an arm, a controller and a detector that work together."""

from __future__ import annotations

import unittest
from typing import Any

import launch_testing
from system import test_together as scenarios
from system.probe import Probe

from launch_tests.launching import DOMAIN, launched


def generate_test_description() -> Any:
    return launched("demo.launch.py", scenario="false")


class TestDemo(unittest.TestCase):
    def test_together(self) -> None:
        probe = Probe(DOMAIN)
        self.addCleanup(probe.close)
        scenarios.come_up(probe)
        scenarios.push_is_found(probe)


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_all_end_well(self, proc_info: Any) -> None:
        launch_testing.asserts.assertExitCodes(proc_info)
