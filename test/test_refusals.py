"""Messages that the middleware refuses: counts, diagnostics, and one line in the log at a time."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.ros.diagnostics import OK, WARN, Status
from rbd_control.ros.guarded_node import LOG_PERIOD, Refusals


def test_refusals_are_reported_and_logged_once_in_a_period() -> None:
    lines: list[str] = []
    now = 100.0
    refusals = Refusals(lines.append, lambda: now)
    error = RuntimeError("Failed to publish: " + 1000 * "x")

    def level() -> bytes:
        status = Status()
        refusals.report(status)
        return status.level

    assert level() == OK
    for _ in range(3):
        refusals.add("/error", error)
    refusals.add("/energy", error)
    assert not lines, "logging takes longer than a sample"
    assert level() == WARN
    (line,) = lines
    assert "/error (3 messages), /energy (1 messages): Failed to publish: xxx" in line
    assert len(line) < 500
    assert level() == OK  # nothing new
    refusals.add("/error", error)
    assert level() == WARN
    assert len(lines) == 1
    now += LOG_PERIOD
    assert level() == OK
    assert "/error (1 messages): " in lines[1]
    status = Status()
    refusals.report(status)
    values = {item.key: item.value for item in status.values}
    assert values["publications refused on /error"] == "4"
