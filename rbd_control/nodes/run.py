"""From a node class to a process: ROS up, spin, signals, and down again."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rbd_control.compilation import CompilationWatch
from rbd_control.errors import RbdControlError
from rbd_control.nodes.log_folder import log_folder_trouble
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.prompt_end import PromptEnd, end_now
from rbd_control.standard_streams import (
    ensure_standard_streams,
    release_standard_streams,
    say,
)


def run(make_node: Callable[[], ManagedNode], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it; return the process's exit code.

    SIGINT and SIGTERM take the node through its shutdown transition while it can still publish;
    rclpy's own handlers would end the context first. Until the node has been active once, nothing
    depends on it: a signal then ends the process at once, also while it imports or compiles.
    """
    ensure_standard_streams()
    node: ManagedNode | None = None
    stopped = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        if node is not None:
            node.stopping = True
        if node is None or (prompt_end.is_armed and node.in_transition):
            end_now(0)
        if watch.is_compiling and not node.commands_torque:
            end_now(0)

    watch = CompilationWatch()
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    with PromptEnd(0, on_signal) as prompt_end:
        try:
            _start_ros(args)
            node = make_node()
            node.before_activation = prompt_end.call_off
            watch.begins, watch.warn = node.on_compiling, node.get_logger().warning
            with watch:
                _spin(node, lambda: stopped)
            return node.exit_code or 0
        except KeyboardInterrupt:
            return 0
        except RbdControlError as error:
            say(f"{_program()}: {error}")
            return 1
        finally:
            if node is not None:
                _leave(node)
            rclpy.try_shutdown()
            release_standard_streams()
            if stopped and prompt_end.is_armed:
                end_now(0)  # the interpreter would take a second to go


def _start_ros(args: Sequence[str] | None) -> None:
    arguments = list(sys.argv if args is None else args)
    reason = log_folder_trouble()
    if reason:
        say(
            f"{_program()}: no log files: {reason}; set ROS_LOG_DIR to a folder that can be written"
        )
        arguments += ["--ros-args", "--disable-external-lib-logs"]
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        raise RbdControlError(f"cannot start ROS: {error}") from error


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
