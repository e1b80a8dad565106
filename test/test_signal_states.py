"""Effect of a signal on the process in each state of its nodes."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.ros import run
from rbd_control.ros.run import Signals


class EndedError(Exception):
    """The process has ended at once."""


def signalled(monkeypatch: pytest.MonkeyPatch, *nodes: Any, is_compiling: bool = False) -> bool:
    """Return whether a signal ends the process at once; otherwise the nodes were stopped."""

    def end(_code: int) -> None:
        raise EndedError

    monkeypatch.setattr(run, "end_now", end)
    watch: Any = SimpleNamespace(is_compiling=is_compiling)
    signals = Signals(watch)
    signals.nodes = nodes
    try:
        signals._on_signal(signal.SIGTERM, None)
    except EndedError:
        return True
    assert all(node.stopping for node in nodes)
    return False


def node(*, active: bool = False, configuring: bool = False) -> Any:
    return SimpleNamespace(is_active=active, is_configuring=configuring, stopping=False)


def test_nothing_depends_on_a_process_without_active_node(monkeypatch: pytest.MonkeyPatch) -> None:
    assert signalled(monkeypatch)
    assert signalled(monkeypatch, node(configuring=True))
    assert signalled(monkeypatch, node(), is_compiling=True)
    assert not signalled(monkeypatch, node())


def test_an_active_node_is_led_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero torque must go out, whatever it compiles, and whatever another node is doing."""
    for others in ((), (node(),), (node(configuring=True),)):
        assert not signalled(monkeypatch, node(active=True), *others, is_compiling=True)


def test_a_second_signal_leaves_a_stopping_node_its_zero_torque(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``ros2 launch`` and the terminal send one each; a node that stops is no longer active."""

    def end(_code: int) -> None:
        raise EndedError

    monkeypatch.setattr(run, "end_now", end)
    watch: Any = SimpleNamespace(is_compiling=True)
    signals = Signals(watch)
    signals.nodes = nodes = [node(active=True)]
    signals.started()
    signals._on_signal(signal.SIGINT, None)
    assert nodes[0].stopping
    nodes[0].is_active = False
    signals._on_signal(signal.SIGINT, None)
    assert signals.received == 2


def test_a_signal_that_python_ignores_at_the_end_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python prints one where another thread gets a signal just before signals are ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    watch: Any = SimpleNamespace(is_compiling=False)
    try:
        with Signals(watch) as signals:
            signals.received = 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    def told(error: Exception) -> str:
        nothing = {"exc_traceback": None, "err_msg": None, "object": None}
        what: Any = SimpleNamespace(exc_type=type(error), exc_value=error, **nothing)
        if sys.unraisablehook is sys.__unraisablehook__:
            return "the hook of Python itself"
        with monkeypatch.context() as patch:
            patch.setattr(sys, "__unraisablehook__", lambda unraisable: print(unraisable.exc_value))
            sys.unraisablehook(what)
        return capfd.readouterr().out

    assert told(OSError("Signal 15 ignored due to race condition")) == ""
    assert told(OSError("another error")) == "another error\n"
