"""From a node class to a process: ROS up, spin, signals, and down again."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

import rclpy
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rbd_control.compilation import watch_compilation
from rbd_control.errors import RbdControlError
from rbd_control.nodes.managed_node import ManagedNode

SPIN_PERIOD = 0.02
"""Longest time from a signal to the end of spinning, and so to zero torque [s]."""

SWITCH_INTERVAL = 0.0005
"""Longest time for which another Python thread keeps the thread of the callbacks waiting [s]."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(make_node: Callable[[], ManagedNode], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it.

    SIGINT, SIGTERM and SIGHUP (a terminal that closes) take the node through its end while it can
    still publish; rclpy's own handlers would end the context first.

    Returns:
        The exit code of the process.
    """
    node: ManagedNode | None = None
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    sys.setswitchinterval(SWITCH_INTERVAL)
    with Signals() as signals:
        try:
            _start_ros(args)
            node = signals.node = make_node()
            with watch_compilation(node.on_compiling):
                _spin(node)
            return node.exit_code or 0
        except KeyboardInterrupt:
            return 0
        except RbdControlError as error:
            signals.ending()
            print(f"{_program()}: {error}", file=sys.stderr)
            return 1
        finally:
            signals.ending()
            if node is not None:
                node.end()
                node.guard.run("destroy_node", node.destroy_node)
            rclpy.try_shutdown()


class Signals:
    """What a signal does in each state of the process.

    - *Starting*, before there is a node: the start is interrupted. Nothing was published.
    - *Configuring*: the node is told to stop and what it compiles is interrupted. Nothing was
      published.
    - *Running*: the node is told to stop: it is not active any more, the executor returns within
      :data:`SPIN_PERIOD`, and :meth:`ManagedNode.end` follows.
    - *Ending*: the signal is counted and changes nothing. No signal can come between the end of
      the active state and the zero torque.
    - *Ended*: signals are ignored until the process is gone.

    Attributes:
        node: the node, once there is one.
        received: number of signals so far.
    """

    def __init__(self) -> None:
        self.node: ManagedNode | None = None
        self.received = 0
        self._starting = True
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for number in _SIGNALS:
            # A hangup that nohup has switched off stays so.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self.received else handler)

    def ending(self) -> None:
        """Interrupt nothing from now on."""
        self._starting = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received += 1
        node = self.node
        if node is None:
            if self._starting:
                self._starting = False
                raise KeyboardInterrupt
            return
        node.stopping = True
        if node.is_configuring:
            raise KeyboardInterrupt


def _start_ros(args: Sequence[str] | None) -> None:
    try:
        rclpy.init(
            args=None if args is None else list(args),
            signal_handler_options=SignalHandlerOptions.NO,
        )
    except RuntimeError as error:
        hint = "; set ROS_LOG_DIR to a folder that can be written" if "log" in str(error) else ""
        raise RbdControlError(f"cannot start ROS: {error}{hint}") from error


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
