"""``rbd-control check --loop``: its arguments, and the values it writes into a parameter file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rbd_control.cli.main import main
from rbd_control.files.yaml_output import with_values

VALUES = {"damping_rate": "9.5", "bandwidth": "[4.7]"}
FILE = """# The arm on the table.
/**:
  ros__parameters:
    urdf: arm7  # as shipped

passivity_controller:
  ros__parameters:
    # Measured in May.
    damping_rate: 12.0  # 1/s
    stop_time: 0.2

# The detector.
contact_detector:
  ros__parameters:
    contact_threshold: [3.0]
"""


def test_values_replace_their_lines_and_all_else_stays() -> None:
    text = with_values(FILE, "passivity_controller", VALUES)
    expected = FILE.replace("damping_rate: 12.0  # 1/s", "damping_rate: 9.5").replace(
        "    stop_time: 0.2\n", "    stop_time: 0.2\n    bandwidth: [4.7]\n"
    )
    assert text == expected
    assert with_values(text, "passivity_controller", VALUES) == text


def test_a_missing_section_is_added() -> None:
    text = FILE.partition("\npassivity_controller")[0]
    changed = with_values(text, "passivity_controller", VALUES)
    assert changed.startswith(text)
    section = yaml.safe_load(changed)["passivity_controller"]["ros__parameters"]
    assert section == {"damping_rate": 9.5, "bandwidth": [4.7]}


def test_a_file_that_does_not_exist_is_refused_before_the_arm_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    assert main(["check", "--loop", "--out", str(tmp_path / "loop.yaml")]) == 2
    assert "does not exist; give an existing parameter file" in capsys.readouterr().err
