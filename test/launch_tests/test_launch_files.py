"""The launch tests of this folder, as ``launch_test`` runs them: each in a process of its own."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from system.bringup import PATIENCE, SOURCE, Process

from rbd_control.ros.processes import environment, reserved_domain
from rbd_control.ros.transports import without_shared_memory

pytest.importorskip("launch_testing", reason="launch_testing is not installed; it comes with ROS 2")

from launch import LaunchContext, LaunchDescription, LaunchService
from launch.actions import ExecuteProcess

from rbd_control.errors import ParameterError, RecordingError
from rbd_control.ros.launching import check_names, ended

FOLDER = Path(__file__).parent


def parts(name: str) -> dict[str, Any]:
    """Return what a launch file defines."""
    return runpy.run_path(str(SOURCE / "launch" / f"{name}.launch.py"))


def test_arguments_that_a_launch_file_does_not_have(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["params_file", "joint_states"]

    def check(*given: str, **inherited: str) -> None:
        context = LaunchContext(argv=[f"{name}:=x" for name in given])
        context.launch_configurations.update({**dict.fromkeys(given, "x"), **inherited})
        check_names(context, names)

    check("params_file", "sigterm_timeout")
    with pytest.raises(ParameterError, match="'parms_file'; did you mean 'params_file'"):
        check("parms_file")
    check("param_file", params_file="y")  # of a file that includes this one
    assert not capfd.readouterr().out
    check("guard")
    assert "no argument 'guard'" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["contact_detector", "contact_guard", "hand_guide"])
def test_a_file_for_one_node_fixes_which_nodes_start(name: str) -> None:
    assert parts("arm")["NODES"].keys() <= parts(name)["FIXED"].keys()


def test_a_missing_recording_is_refused_before_anything_starts() -> None:
    playback, context = parts("playback"), LaunchContext()
    names = (*playback["ARGUMENTS"], *playback["SWITCHES"], "loop")
    context.launch_configurations.update({**dict.fromkeys(names, ""), "recording": "/nope"})
    with pytest.raises(RecordingError, match="/nope: there is no such file"):
        playback["playback"](context)


def test_robot_state_alone_starts_its_publisher() -> None:
    arguments = parts("robot_state")["generate_launch_description"]().get_launch_arguments()
    defaults = {each.name: each.default_value[0].text for each in arguments if each.default_value}
    assert defaults["publish_robot_state"] == "true"


@pytest.mark.parametrize("code", [0, 3])
def test_the_launch_fails_if_a_node_fails_and_the_others_run_on(code: int, tmp_path: Path) -> None:
    def process(text: str) -> ExecuteProcess:
        return ExecuteProcess(cmd=[sys.executable, "-c", text], on_exit=ended)

    late = tmp_path / "late"
    other = f"import time, pathlib; time.sleep(1.0); pathlib.Path({str(late)!r}).touch()"
    service = LaunchService(noninteractive=True)
    service.include_launch_description(
        LaunchDescription([process(f"raise SystemExit({code})"), process(other)])
    )
    assert (service.run(), late.exists()) == (int(code > 0), True)


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
