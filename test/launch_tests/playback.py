"""``playback.launch.py`` plays a recording to a detector that is ready for it."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

import launch_testing
import numpy as np
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from system import detector_setting as scenarios
from system.probe import Probe

from launch_tests.launching import DOMAIN, launched
from rbd_control.dynamics import gravity_torque
from rbd_control.ros.contact_messages import event_from_status

FOLDER = tempfile.TemporaryDirectory()


def generate_test_description() -> Any:
    folder = Path(FOLDER.name)
    (folder / "parameters.yaml").write_text(yaml.safe_dump(parameters()), encoding="utf-8")
    write_recording(folder / "push.csv")
    return launched(
        "playback.launch.py",
        recording=str(folder / "push.csv"),
        params_file=str(folder / "parameters.yaml"),
    )


def parameters() -> dict[str, Any]:
    # The end of the recording would end the nodes, and the test must be over before.
    sections = {"contact_detector": scenarios.PARAMETERS, "joint_state_player": {"loop": True}}
    return {name: {"ros__parameters": dict(values)} for name, values in sections.items()}


def write_recording(path: Path) -> None:
    """The arm at rest, pushed in the middle one of three seconds."""
    names = scenarios.MODEL.joint_names
    columns = [f"{what}/{name}" for what in ("position", "velocity", "effort") for name in names]
    gravity = gravity_torque(scenarios.MODEL, scenarios.POSTURE)
    times = np.arange(0.0, 3.0, 0.005)
    rows = [
        [t, *scenarios.POSTURE, *np.zeros(len(names)), *gravity - scenarios.PUSH * (1 <= t < 2)]
        for t in times
    ]
    np.savetxt(path, rows, delimiter=",", header=",".join(["time", *columns]), comments="")


class TestPlayback(unittest.TestCase):
    def test_the_push_is_reported(self) -> None:
        probe = Probe(DOMAIN)
        self.addCleanup(probe.close)
        events = probe.listen(DiagnosticArray, "contact_detector/events")
        # The player does not wait to be heard, so the first pass may have lost its beginning.
        probe.wait(lambda: len(events) >= 4, "not told of in both passes")
        onset, release = (message.status[0] for message in events[2:4])
        # One look at the rising residual cannot tell the last links apart; all looks can.
        assert "link_7" in event_from_status(onset).candidates
        assert release.hardware_id == "link_7"
        values = {item.key: item.value for item in release.values}
        assert values["phase"] == "release"
        # The residual dies away at 50/s from some 10 N·m to below 2, for the time of the debounce.
        assert 0.99 < float(values["duration"]) < 1.3


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_both_end_well(self, proc_info: Any) -> None:
        FOLDER.cleanup()
        launch_testing.asserts.assertExitCodes(proc_info)
