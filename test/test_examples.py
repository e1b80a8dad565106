"""The examples: each runs, and prints the result that it is to show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.processor_share import first_at_the_processor

from bench.examples import EXAMPLES, StandIn, names, needs_ros, nodes, run

pytestmark = pytest.mark.timeout(900)
"""A busy machine compiles the changed package for minutes."""

LONGEST = 60
"""Largest number of lines of an example."""

FACTS: dict[str, list[tuple[str, float, float]]] = {
    # Rounding of sums of some watts, and of a solution with the condition number of M.
    "dynamics_in_ten_lines": [
        (r"after inverse dynamics: (\S+)", 0.0, 1e-10),
        (r"power of Mdot - 2C: (\S+) W", -1e-12, 1e-12),
    ],
    # 90 % of the window are 18 ms, and of the pole ln(10) / 50 = 46 ms. The encoder of the arm is
    # filtered with 1.6 ms, and its noise is 1 % of the torque.
    "own_observer": [
        (r"window of 20 ms: 90 % after (\d+) ms", 18, 22),
        (r"window of 20 ms: .*, (\S+)% error", 0.0, 4.0),
        (r"gain 50/s: 90 % after (\d+) ms", 46, 50),
    ],
    # The torque is constant within a step of 1 ms.
    "own_control_law": [
        (r"start, (\S+) mrad after 3 s", 0.0, 1.0),
        (r"largest rise in a step: (\S+) J", -1.0, 1e-8),
    ],
    # A tenth of what the arm has, and the share of the request.
    "motion_for_calibration": [
        (r"speed limit: (\S+)$", 0.2, 0.5),
        (r"^joint_7: Coulomb ± (\S+) N", 0.0, 0.1),
        (r"torque error .*: (\S+) of", 0.1, 0.6),
    ],
    "teach_by_touch": [(r"(\S+) mrad from place 2", 0.0, 2.0)],
    "friction_through_a_day": [
        (r"^ +8 +-24.5% +(\S+)%", -27.0, -22.0),  # its own standard deviation is 1.8 %
        (r"false contacts of the day: (\d+)", 0, 0),
        (r"follow_friction: (\d+)% of the last hour", 80, 100),
    ],
    "fleet_analysis": [
        (r"without a verdict: (\d+)", 0, 0),
        (r"^left +2027-01-17: false alarms: (\d+)", 0, 0),
        (r"^right +2027-01-15: false alarms: (\d+)", 0, 0),
        (r"^right +2027-01-17: false alarms: (\d+)", 1, 100),
    ],
    "export_to_c": [(r"arm.c has (\d+) kB", 10, 100)],
    "stop_moveit": [(r"goals being cancelled: (\d+)", 1, 1)],
    # The masses of the simulated arm differ by up to 2 % from the description.
    "tare_before_grasp": [
        (r"^before: (\S+) N·m", 0.08, 1.0),
        (r"^after: (\S+) N·m", 0.0, 0.06),
    ],
    # 1 kg at 0.3 to 0.8 m from the axis of a joint; the posture is that of the example before. At
    # rest the residual contains up to the Coulomb friction of 0.9 N·m, whose sign is unknown.
    "payload_at_grasp": [
        (r"^empty: contact False, (\S+) N·m", 0.0, 1.2),
        (r"^unannounced: contact True, (\S+) N·m", 2.0, 9.0),
        (r"^announced: contact False, (\S+) N·m", 0.0, 1.2),
    ],
    # (12 N - dead zone of 4 N) / 80 N·s/m for 2 s, less the time to recognize the hand.
    "hand_guiding": [(r"led (\S+) mm", 170, 205)],
}
"""Numbers that the examples print: pattern, lowest and highest value."""

LINES = {
    "export_to_c": "in C and in Python",
    "react_to_contact": "contact\nfree\n",
    "stop_moveit": "orders: cancel, stop\n",
    "teach_by_touch": "place 1: led at link_7\nplace 2: led at link_7\n",
}
"""Text that they print."""


def check(name: str, output: str) -> None:
    """Check the output of an example."""
    for pattern, low, high in FACTS.get(name, []):
        found = re.search(pattern, output, re.MULTILINE)
        assert found, f"{pattern}\n{output}"
        assert low <= float(found[1]) <= high, output
    assert LINES.get(name, "") in output


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    """Run the nodes that the examples for ROS need."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    with first_at_the_processor(), nodes() as stand_in:
        yield stand_in


@pytest.mark.parametrize("name", [name for name in names() if not needs_ros(name)])
def test_an_example_shows_its_result(name: str) -> None:
    check(name, run(name))


@pytest.mark.parametrize("name", [name for name in names() if needs_ros(name)])
def test_an_example_for_ros_shows_its_result(name: str, stand_in: StandIn) -> None:
    check(name, run(name, stand_in))


def files() -> list[Path]:
    return [path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".cpp")]


def test_each_example_is_short_and_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(files()) >= 13
    for path in files():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST, path
        assert f"[{path.name}]({path.name})" in table
        assert path.suffix == ".cpp" or path.stem in {**FACTS, **LINES}


def test_the_subscriber_in_cpp_has_topic_and_type_of_the_detector() -> None:
    """There is no rclcpp for pip, so that it cannot be compiled here."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    from rbd_control.nodes import detection_output

    text = (EXAMPLES / "react_to_contact.cpp").read_text(encoding="utf-8")
    (topic,) = re.findall(r'create_subscription<std_msgs::msg::Bool>\(\s*"(.*?)"', text)
    assert topic == detection_output.CONTACT.topic.replace("~", "contact_detector")
    assert detection_output.CONTACT.kind.__name__ == "Bool"
    for package in ("rclcpp", "std_msgs"):
        assert f"find_package({package} REQUIRED)" in text
