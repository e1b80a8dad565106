"""From a node class to a process: ROS up, spin, signals, and down again."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
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

SPIN_PERIOD = 0.02
"""Longest time from a signal to the end of spinning, and so to zero torque [s]."""

SWITCH_INTERVAL = 0.0005
"""Longest time for which another Python thread keeps the thread of the callbacks waiting [s]."""


def run(make_node: Callable[[], ManagedNode], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it.

    SIGINT, SIGTERM and SIGHUP (a terminal that closes) take the node through its end while it can
    still publish; rclpy's own handlers would end the context first.

    Returns:
        The exit code of the process.
    """
    ensure_standard_streams()
    node: ManagedNode | None = None
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    sys.setswitchinterval(SWITCH_INTERVAL)
    with Signals() as signals:
        try:
            _start_ros(args)
            node = make_node()
            signals.take_care_of(node)
            watch = signals.watch
            watch.begins, watch.warn = node.on_compiling, node.get_logger().warning
            with watch:
                _spin(node)
            return node.exit_code or 0
        except RbdControlError as error:
            signals.ending()
            say(f"{_program()}: {error}")
            return 1
        finally:
            signals.ending()
            if node is not None:
                node.end()
                node.guard.run("destroy_node", node.destroy_node)
            rclpy.try_shutdown()
            release_standard_streams()


class Signals:
    """What a signal does in each state of the process.

    - *Starting*, until a node is activated for the first time: the process ends, at once while ROS
      comes up or the node configures, and soon in any case. Nothing was published that an arm
      follows. An exception would not do: the compiler and rclpy swallow it.
    - *Running*: the node is told to stop: it is not active any more, the executor returns within
      :data:`SPIN_PERIOD`, and :meth:`ManagedNode.end` follows. A node that commands no torque and
      is compiling, for parameters that have changed, ends at once.
    - *Ending*: the signal is counted and changes nothing. No signal can come between the end of
      the active state and the zero torque.
    - *Ended*: signals are ignored until the process is gone.

    Attributes:
        node: the node, once there is one.
        received: number of signals so far.
        watch: knows whether a kernel is being compiled.
    """

    def __init__(self) -> None:
        self.node: ManagedNode | None = None
        self.received = 0
        self.watch = CompilationWatch()
        self._is_ending = False
        self._prompt_end = PromptEnd(0, lambda number, frame: self._on_signal(number, frame))

    def __enter__(self) -> Signals:
        self._prompt_end.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._prompt_end.stop(ignore=self.received > 0)

    def take_care_of(self, node: ManagedNode) -> None:
        """Tell ``node`` of signals from now on."""
        self.node = node
        node.before_activation = self._prompt_end.call_off
        node.stopping = self.received > 0

    def ending(self) -> None:
        """Interrupt nothing from now on."""
        self._is_ending = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received += 1
        if self.node is not None:
            self.node.stopping = True
        if not self._is_ending and self._ends_at_once(self.node):
            end_now(0)

    def _ends_at_once(self, node: ManagedNode | None) -> bool:
        if self._prompt_end.is_armed:
            return node is None or node.is_configuring
        return node is not None and self.watch.is_compiling and not node.commands_torque


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


def _spin(node: ManagedNode) -> None:
    executor = make_executor()
    executor.add_node(node)
    # spin() of the events executor hangs at full load in rclpy 9.1, and so does spin_once().
    # A new future each time: callbacks would gather on one that never comes.
    while rclpy.ok() and not node.stopping and node.exit_code is None:
        try:
            executor.spin_until_future_complete(Future(), timeout_sec=SPIN_PERIOD)
        except Exception as error:
            if not rclpy.ok():
                break
            # No callback raises, so it is rclpy: a service request that cannot be deserialized,
            # for one. The events executor has lost count of what waits; a node added anew is
            # asked for it again.
            node.guard.failed("executor", error)
            executor.remove_node(node)
            executor.add_node(node)
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


def _program() -> str:
    return sys.argv[0].rsplit("/", 1)[-1].removesuffix(".py")
