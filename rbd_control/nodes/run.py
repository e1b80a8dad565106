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
from rclpy._rclpy_pybind11 import RCLError
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rbd_control.errors import RbdControlError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.log_folder import log_folder_trouble
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.startup.compilation import CompilationWatch
from rbd_control.startup.prompt_end import PromptEnd, end_now, signals_held
from rbd_control.startup.standard_streams import (
    ensure_standard_streams,
    release_standard_streams,
    say,
)

STOP_PERIOD = 0.01
"""Longest time from a signal to the end of spinning, and so to zero torque [s]."""

SPIN_TIME = 60.0
"""Time after which the executor is started anew [s]; each start leaks 32 bytes in rclpy 9.1."""

SWITCH_INTERVAL = 0.0005
"""Longest time for which another Python thread keeps the thread of the callbacks waiting [s]."""


Managed = ManagedNode[NodeParameters]


def run(make_node: Callable[[], Managed], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it; see :func:`run_together`."""
    return run_together(lambda: [make_node()], args)


def run_together(
    make_nodes: Callable[[], Sequence[Managed]], args: Sequence[str] | None = None
) -> int:
    """Run nodes in one process and one thread until a signal or one of them ends it.

    SIGINT, SIGTERM and SIGHUP (a terminal that closes) take the node through its end while it can
    still publish; rclpy's own handlers would end the context first. Until a node has been active
    once, nothing depends on it: a signal then ends the process at once, also while it imports or
    compiles.

    Args:
        make_nodes: makes the nodes, in the order of their samples; they end in reverse order.
        args: arguments of ROS; those of the process by default.

    Returns:
        The exit code of the process.
    """
    ensure_standard_streams()
    nodes: Sequence[Managed] = ()
    # Python's last collections would walk through all that numba made, for half a second.
    atexit.register(gc.freeze)
    sys.setswitchinterval(SWITCH_INTERVAL)
    watch = CompilationWatch()
    with Signals(watch) as signals:
        try:
            _start_ros(args)
            nodes = signals.nodes = _made(make_nodes)
            for node in nodes:
                node.before_activation = signals.started
            watch.begins, watch.warn = nodes[0].on_compiling, nodes[0].get_logger().warning
            with watch:
                _spin(nodes)
            return max(node.exit_code or 0 for node in nodes)
        except RbdControlError as error:
            signals.ending()
            say(f"{_program()}: {error}")
            return 1
        finally:
            signals.ending()
            for node in reversed(nodes):
                node.end()
            for node in reversed(nodes):
                node.guard.run("destroy_node", node.destroy_node)
            rclpy.try_shutdown()
            release_standard_streams()
            if signals.received and not signals.has_started:
                end_now(0)  # the interpreter would take a second to go


class Signals:
    """What a signal does in each state of the process.

    - *Starting*, before the first activation: nothing was published. While there is no node yet,
      or the node is being configured, the process ends at once. :class:`PromptEnd` ends it where
      the main thread does not come to the handler, as inside the compiler.
    - *Configuring* once more: the process ends at once, for zero torque was sent before.
    - *Running*: the node is told to stop: it is not active any more, the executor returns within
      :data:`STOP_PERIOD`, and :meth:`ManagedNode.end` follows.
    - *Ending*: the signal is counted and changes nothing. No signal can come between the end of
      the active state and the zero torque.
    - *Ended*: signals are ignored until the process is gone.

    Args:
        watch: tells whether a kernel is being compiled.

    Attributes:
        nodes: the nodes, once there are any.
        received: number of signals so far.
        has_started: whether the node was about to be activated at least once.
    """

    def __init__(self, watch: CompilationWatch) -> None:
        self.nodes: Sequence[Managed] = ()
        self.received = 0
        self.has_started = False
        self._watch = watch
        self._is_ending = False
        self._hangup: Any = signal.SIG_IGN
        self._prompt_end = PromptEnd(0, self._on_signal)

    def __enter__(self) -> Signals:
        self._prompt_end.start()
        self._hangup = signal.getsignal(signal.SIGHUP)
        # A hangup that nohup has switched off stays so.
        if self._hangup != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # One that comes in between would find neither handler and end the process with an error.
        with signals_held():
            self._prompt_end.stop(ignore=bool(self.received))
            signal.signal(signal.SIGHUP, signal.SIG_IGN if self.received else self._hangup)

    def started(self) -> None:
        """Leave the state *starting*: from now on the node must be led to its end."""
        self._prompt_end.call_off()
        self.has_started = True

    def ending(self) -> None:
        """Interrupt nothing from now on."""
        self._is_ending = True
        self._prompt_end.call_off()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.received += 1
        if self._is_ending:
            return
        # An arm may depend on an active node, whatever it or another one is doing just now.
        is_active = any(node.is_active for node in self.nodes)
        is_busy = self._watch.is_compiling or any(node.is_configuring for node in self.nodes)
        if not self.nodes or (is_busy and not is_active):
            end_now(0)
        for node in self.nodes:
            node.stopping = True


def _made(make_nodes: Callable[[], Sequence[Managed]]) -> tuple[Managed, ...]:
    """Make the nodes.

    Raises:
        RbdControlError: ROS refuses a topic, service or timer of a node, as with SROS2 enforced and
            permissions that lack one.
    """
    try:
        return tuple(make_nodes())
    except RCLError as error:
        reason = " ".join(str(error).split())
        raise RbdControlError(f"ROS refuses to create the node: {reason}") from error


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


def _spin(nodes: Sequence[Managed]) -> None:
    executor = make_executor()
    for node in nodes:
        executor.add_node(node)
    stop = Future()

    def look() -> None:
        ended = any(node.stopping or node.exit_code is not None for node in nodes)
        if ended and not stop.done():
            stop.set_result(None)

    nodes[0].create_timer(STOP_PERIOD, look, clock=nodes[0].steady)
    # spin() of the events executor hangs at full load in rclpy 9.1, and so does spin_once().
    while rclpy.ok() and not stop.done():
        try:
            executor.spin_until_future_complete(stop, timeout_sec=SPIN_TIME)
        except Exception as error:
            if not rclpy.ok():
                break
            # No callback raises, so it is rclpy: a service request that cannot be deserialized,
            # for one. The events executor has lost count of what waits; a node added anew is
            # asked for it again.
            for node in nodes:
                node.guard.failed("executor", error)
                executor.remove_node(node)
                executor.add_node(node)
    for node in nodes:
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
    return executor


def _program() -> str:
    return sys.argv[0].rsplit("/", 1)[-1].removesuffix(".py")
