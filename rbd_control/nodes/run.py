"""From a node class to a process: ROS up, spin, signals, and down again."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rbd_control.compilation import watch_compilation
from rbd_control.errors import RbdControlError
from rbd_control.nodes.managed_node import ManagedNode

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(make_node: Callable[[], ManagedNode], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it; the process's exit code.

    SIGINT and SIGTERM take the node through its shutdown transition while it can still publish.
    rclpy's own handlers would end the context first.
    """
    node: ManagedNode | None = None
    stopped = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if node is not None:
            node.stopping = True
        # Nothing has been published yet, and compiling may take a minute.
        if node is None or node.in_transition:
            raise KeyboardInterrupt

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    try:
        _start_ros(args)
        node = make_node()
        with watch_compilation(node.on_compiling):
            _spin(node, lambda: stopped)
        return node.exit_code or 0
    except KeyboardInterrupt:
        return 0
    except RbdControlError as error:
        print(f"{_program()}: {error}", file=sys.stderr)
        return 1
    finally:
        if node is not None:
            _leave(node)
        rclpy.try_shutdown()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _start_ros(args: Sequence[str] | None) -> None:
    try:
        rclpy.init(
            args=None if args is None else list(args),
            signal_handler_options=SignalHandlerOptions.NO,
        )
    except RuntimeError as error:
        hint = "; set ROS_LOG_DIR to a folder that can be written" if "log" in str(error) else ""
        raise RbdControlError(f"cannot start ROS: {error}{hint}") from error


def _spin(node: ManagedNode, stopped: Callable[[], bool]) -> None:
    executor = make_executor()
    executor.add_node(node)
    # spin() of the events executor hangs at full load in rclpy 9.1, and so does spin_once().
    # A new future each time: callbacks would gather on one that never comes.
    while rclpy.ok() and not stopped() and node.exit_code is None:
        executor.spin_until_future_complete(Future(), timeout_sec=0.1)
    executor.remove_node(node)


def make_executor() -> Executor:
    """The events executor where there is one, else the single-threaded one.

    To be spun by ``spin_until_future_complete`` with a timeout only.
    """
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    # A third of the processor time at 1 kHz.
    executor: Any = EventsExecutor()
    return executor  # type: ignore[no-any-return]


def _leave(node: ManagedNode) -> None:
    if rclpy.ok() and node.is_active:
        node.trigger_shutdown()
    node.destroy_node()


def _program() -> str:
    return sys.argv[0].rsplit("/", 1)[-1].removesuffix(".py")
