"""The guard around callbacks: counts and log lines of what fails."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.ros.callback_errors import LOG_PERIOD, CallbackErrors


def fail(*_: object) -> None:
    raise ValueError("no")


def test_a_reaction_that_fails_is_counted_by_itself() -> None:
    lines: list[str] = []
    now = [0.0]
    guard = CallbackErrors(lines.append, fail, lambda: now[0])
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


def test_each_callback_and_topic_writes_one_log_line_in_a_period() -> None:
    lines: list[str] = []
    now, begin, times = [0.0], 100.0, 1000
    guard = CallbackErrors(lines.append, lambda *_: None, lambda: now[0])
    topics, callbacks = ("/joint_states", "/contact"), ("timer watch", "callback of /contact")

    def fail_all() -> None:
        for callback in callbacks:
            guard.run(callback, fail)
        for topic in topics:
            guard.dropped(topic, ValueError("no"))

    for k in range(times):
        now[0] = begin + k * LOG_PERIOD / times
        fail_all()
    starts = [
        *(f"{callback} failed: ValueError: no" for callback in callbacks),
        *(f"dropped a malformed message on {topic}: ValueError: no" for topic in topics),
    ]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == 4 * [True]
    now[0] = begin + LOG_PERIOD
    fail_all()
    assert len(lines) == 8
    assert all(line.endswith(f"({times + 1} so far)") for line in lines[4:])
    assert guard.failures == dict.fromkeys(callbacks, times + 1)
    assert guard.malformed == dict.fromkeys(topics, times + 1)
