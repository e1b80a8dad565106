"""The launch tests of this folder, as ``launch_test`` runs them: each in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from system.bringup import PATIENCE, SOURCE, Process

from rbd_control.ros.processes import environment, reserved_domain
from rbd_control.ros.transports import without_shared_memory

pytest.importorskip("launch_testing", reason="launch_testing is not installed; it comes with ROS 2")

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("name", ["arm", "contact_detector", "demo", "playback"])
def test_launch_file(name: str, tmp_path: Path) -> None:
    with reserved_domain() as domain:
        variables = {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_PYTHON_CHECK_FIELDS": "1",
            "ROS_LOG_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(
                (str(SOURCE), str(FOLDER.parent), os.environ.get("PYTHONPATH", ""))
            ),
        }
        command = [sys.executable, "-m", "launch_testing.launch_test", str(FOLDER / f"{name}.py")]
        # The node of launch_ros, too: shared memory outlives processes, with locks that they held.
        with environment(variables), without_shared_memory():
            launch_test = Process.of(command, os.environ, tmp_path / "output.log")
            try:
                assert launch_test.wait(2 * PATIENCE) == 0, launch_test.output
            finally:
                if launch_test.is_running:
                    launch_test.signal(signal.SIGINT)
                    launch_test.wait(PATIENCE)
