"""``rbd-control check --loop`` with a running controller of a simulated arm."""

from __future__ import annotations

from pathlib import Path

import yaml
from robots import two_joint_urdf
from std_srvs.srv import Trigger

from .bringup import BringUp
from .controller_setting import NODE
from .probe import Probe

ARM = {"robot_description": two_joint_urdf(), "joints": ["shoulder", "elbow"]}
TRUE_DELAY = 0.02
"""Command delay of the simulated arm [s]."""


def test_command_measures_the_loop_of_a_running_controller(
    bring_up: BringUp, probe: Probe, tmp_path: Path
) -> None:
    """The result is printed, written into the file and shown in the diagnostics."""
    missing = bring_up.run("check", "--loop", "--node", "nobody", timeout=60.0)
    assert missing.returncode == 2
    assert "no service /nobody/measure_loop" in missing.stderr
    assert "start the controller first" in missing.stderr
    rate = 200.0
    bring_up.start(
        "simulated_arm", {**ARM, "rate": rate, "command_delay": round(TRUE_DELAY * rate)}
    )
    controller = bring_up.start(
        NODE,
        {
            **ARM,
            "discovery_time": 0.0,
            "timeout": 0.5,
            "damping_rate": 6.0,
            "tracking_limit": [0.0],
        },
    )
    probe.wait_for_report(NODE, lambda r: r.values.get("mode") == "hold", "does not start")
    file = tmp_path / "arm.yaml"
    file.write_text("/**:\n  ros__parameters:\n    urdf: arm7  # kept\n", encoding="utf-8")
    ended = bring_up.run("check", "--loop", "--node", NODE, "--out", str(file), timeout=120.0)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{controller.output}"
    assert "shoulder" in ended.stdout
    assert "delay of the loop: " in ended.stdout
    text = file.read_text(encoding="utf-8")
    assert "urdf: arm7  # kept" in text
    written = yaml.safe_load(text)["passivity_controller"]["ros__parameters"]
    assert {"damping_rate", "bandwidth", "loop_delay"} <= written.keys()
    # Transport and scheduling of the machine add to the delay.
    assert 0.5 * TRUE_DELAY < written["loop_delay"] < 2.5 * TRUE_DELAY
    report = probe.later_report(NODE)
    assert float(report.values["loop delay [ms]"]) > 1e3 * TRUE_DELAY
    assert probe.call(Trigger, f"{NODE}/float").success
    refused = probe.call(Trigger, f"{NODE}/measure_loop")
    assert not refused.success
    assert "cannot measure the loop: the arm is not held at a point" in refused.message
