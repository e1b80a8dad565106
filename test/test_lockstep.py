"""The lockstep of the simulated arm: no command may answer an older sample for long."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.simulated_arm import QUIET, Lockstep

TIMEOUT = 0.2


def test_free_until_the_first_command() -> None:
    lockstep = Lockstep()
    for k in range(5):
        assert lockstep.may_step(0.001 * k, TIMEOUT)
        lockstep.published(0.001 * k)
    assert lockstep.unanswered == 0


def test_waits_until_the_backlog_is_answered_then_pairs() -> None:
    lockstep = Lockstep()
    lockstep.published(0.0)
    for k in range(4):  # commands for older samples
        lockstep.commanded(0.01 * k)
        assert not lockstep.may_step(0.01 * k + 0.001, TIMEOUT)
    assert lockstep.may_step(0.03 + QUIET, TIMEOUT)
    now = 0.03 + QUIET
    for _ in range(3):
        lockstep.published(now)
        assert not lockstep.may_step(now + 0.1, TIMEOUT)
        now += 0.1
        lockstep.commanded(now)
        assert lockstep.may_step(now, TIMEOUT)


def test_a_second_command_for_a_sample_shows_a_lag() -> None:
    lockstep = paired()
    lockstep.published(1.0)
    lockstep.commanded(1.001)
    lockstep.commanded(1.002)
    assert not lockstep.may_step(1.003, TIMEOUT)
    assert lockstep.may_step(1.002 + QUIET, TIMEOUT)


def test_free_again_without_answers() -> None:
    lockstep = paired()
    lockstep.published(1.0)
    assert not lockstep.may_step(1.1, TIMEOUT)
    assert lockstep.may_step(1.001 + TIMEOUT, TIMEOUT)
    assert lockstep.unanswered == 1
    lockstep.published(1.3)
    assert lockstep.may_step(1.301, TIMEOUT)


def test_gives_up_when_commands_do_not_cease() -> None:
    """A controller without joint states repeats its safe torque every 10 ms, for ever."""
    lockstep = Lockstep()
    lockstep.published(99.99)
    now = 100.0
    lockstep.commanded(now)
    while not lockstep.may_step(now, TIMEOUT):
        now += 0.01
        lockstep.commanded(now)
        assert now < 100.0 + 2.0 * TIMEOUT
    assert now >= 100.0 + TIMEOUT - 1e-6
    assert lockstep.unceasing == 1
    # The commands that go on are paired with samples, without another wait.
    for _ in range(5):
        lockstep.published(now)
        now += 0.01
        assert not lockstep.may_step(now, TIMEOUT)
        lockstep.commanded(now)
        assert lockstep.may_step(now, TIMEOUT)
    assert lockstep.unanswered == 0


def paired() -> Lockstep:
    lockstep = Lockstep()
    lockstep.commanded(0.0)
    assert lockstep.may_step(QUIET, TIMEOUT)
    return lockstep
