"""The guard around callbacks: counts and log lines of what fails."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.guard import LOG_PERIOD, CallbackGuard


def fail(*_: object) -> None:
    raise ValueError("no")


def test_a_reaction_that_fails_is_counted_by_itself() -> None:
    lines: list[str] = []
    now = [0.0]
    guard = CallbackGuard(lines.append, fail, lambda: now[0])
    for callback in ("first", "second", "third"):
        now[0] += LOG_PERIOD
        guard.run(callback, fail)
    assert guard.failures == {"first": 1, "second": 1, "third": 1, "reaction": 3}
    reactions = [line for line in lines if line.startswith("the reaction failed as well")]
    assert [line.endswith(f"({n} so far)") for n, line in enumerate(reactions, 1)] == [
        False,
        True,
        True,
    ]
    assert not any("so far" in line for line in lines if line not in reactions)
