"""``contact_detector.launch.py`` runs the detector beside a robot whose topics have other names."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import launch_testing
import yaml
from rcl_interfaces.srv import GetParameters
from system import detector_setting as scenarios
from system.probe import Probe

from launch_tests.launching import DOMAIN, launched

NODE = "cell/contact_detector"
FOLDER = tempfile.TemporaryDirectory()


def generate_test_description() -> Any:
    parameters = Path(FOLDER.name, "detector.yaml")
    section = {"ros__parameters": {**scenarios.PARAMETERS, "observer_gain": 40.0}}
    parameters.write_text(yaml.safe_dump({scenarios.NODE: section}), encoding="utf-8")
    return launched(
        "contact_detector.launch.py",
        params_file=str(parameters),
        joint_states="/arm/measured",
        namespace="cell",
    )


class TestDetector(unittest.TestCase):
    def test_detector(self) -> None:
        probe = Probe(DOMAIN)
        self.addCleanup(probe.close)
        source = probe.stream(scenarios.resting(), "/arm/measured")
        with mock.patch.object(scenarios, "NODE", NODE):
            scenarios.flag_and_torque(probe, source)
        request = GetParameters.Request(names=["observer_gain"])
        answer = probe.call(GetParameters, f"{NODE}/get_parameters", request)
        # Parameters under the node's bare name reach it in its namespace, too.
        assert answer.values[0].double_value == 40.0


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_it_ends_well(self, proc_info: Any, proc_output: Any) -> None:
        FOLDER.cleanup()
        # The events executor prints this when one clock has eight timers.
        assert not any(b"number of timers" in each.text for each in proc_output)
        launch_testing.asserts.assertExitCodes(proc_info)
