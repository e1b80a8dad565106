"""Effect of a signal on the process in each state of its nodes."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes import run
from rbd_control.nodes.run import Signals


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


@pytest.mark.parametrize("is_compiling", [False, True])
@pytest.mark.parametrize("configuring", [False, True])
def test_an_active_node_is_led_to_its_end(
    configuring: bool, is_compiling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zero torque must go out, whatever it compiles, and whatever another node is doing."""
    both = node(active=True), node(configuring=configuring)
    assert not signalled(monkeypatch, *both, is_compiling=is_compiling)
    assert not signalled(monkeypatch, node(active=True), is_compiling=is_compiling)
