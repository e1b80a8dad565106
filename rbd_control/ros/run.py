"""Execution of nodes in one process: start of ROS, executor, signals, and shutdown."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from rbd_control.errors import RbdControlError
from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.transports import without_shared_memory
from rbd_control.startup.compilation import CompilationWatch
from rbd_control.startup.prompt_end import PromptEnd, end_now, signals_held
from rbd_control.startup.standard_streams import (
    ensure_standard_streams,
    never_wait_for_readers,
    release_standard_streams,
    say,
)


def log_folder_trouble() -> str:
    """Return the reason why rclpy cannot write log files, or an empty text if it can.

    The folder is ``ROS_LOG_DIR``, else ``log`` in ``ROS_HOME``, else ``~/.ros/log``; it is created
    if necessary. If it cannot be written, ``rclpy.init`` fails and cannot be called again with
    other arguments, so check before.
    """
    folder = os.environ.get("ROS_LOG_DIR") or f"{os.environ.get('ROS_HOME') or '~/.ros'}/log"
    if folder.startswith("~"):
        home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
        if not home:
            return "there is no home folder (HOME)"
        folder = home + folder[1:]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"


STOP_PERIOD = 0.01
"""Period of the check whether a signal or a node has ended the run [s].

It is the longest time from a signal to zero torque, apart from the time of a running callback.
"""

SPIN_TIME = 60.0
"""Time after which spinning is restarted [s]; each start leaks 32 bytes in rclpy 9.1."""

SWITCH_INTERVAL = 0.0005
"""Thread switch interval: longest wait of the callback thread for another Python thread [s]."""


Managed = ManagedNode[NodeParameters]


def run(make_node: Callable[[], Managed], args: Sequence[str] | None = None) -> int:
    """Run a node until a signal or the node itself ends it; return the exit code of the process.

    See :func:`run_together` for the arguments and the signals.
    """
    return run_together(lambda: [make_node()], args)


def run_together(
    make_nodes: Callable[[], Sequence[Managed]], args: Sequence[str] | None = None
) -> int:
    """Run nodes in one process and one thread until a signal or one of the nodes ends them all.

    A node ends them by setting its ``exit_code``. SIGINT, SIGTERM and SIGHUP (a closed terminal)
    shut the nodes down while they can still publish; rclpy's own handlers would end the context
    first. Before the first activation no arm depends on the nodes: a signal then ends the process
    at once, also during imports and compilation. SIGTSTP (Ctrl-Z) is ignored, because the arm would
    keep the last torque of a stopped controller.

    Args:
        make_nodes: creates the nodes in the order of processing; they end in reverse order.
        args: arguments of ROS; by default the arguments of the process.

    Returns:
        The exit code of the process: the largest ``exit_code`` of the nodes, 0 after a signal, 1 if
        ROS or a node cannot be started. That error is printed on standard error, not raised.
    """
    ensure_standard_streams()
    never_wait_for_readers()
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    nodes: Sequence[Managed] = ()
    # Python's last garbage collections would visit all objects of numba, for half a second.
    atexit.register(gc.freeze)
    sys.setswitchinterval(SWITCH_INTERVAL)
    watch = CompilationWatch()
    with Signals(watch) as signals:
        try:
            with without_shared_memory():
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
                node.errors.run("destroy_node", node.destroy_node)
            # To uninstall handlers that it has not installed, rclpy sets SIG_DFL for a moment, in
            # which a signal kills the process. This function leaves them; rclpy.try_shutdown has no
            # such argument in Jazzy.
            rclpy.utilities.try_shutdown()
            release_standard_streams()
            if signals.received and not signals.has_started:
                end_now(0)  # the shutdown of the interpreter would take a second


class Signals:
    """Handles SIGINT, SIGTERM and SIGHUP while it is open as a context, by state of the process.

    - *Starting*, before the first activation: no command was sent. While no node exists, or the
      node is being configured, a signal ends the process at once; otherwise it stops the nodes as
      in *Running*. :class:`PromptEnd` ends the process if the main thread does not reach the
      handler, for example inside the compiler.
    - *Configuring* again, while no node is active: a signal ends the process at once, because zero
      torque was sent before.
    - *Running*: a signal stops the nodes: they are no longer active, the executor returns within
      :data:`STOP_PERIOD`, and :meth:`ManagedNode.end` follows.
    - *Ending*: the signal is counted and has no effect. No signal can interrupt between the end of
      the active state and the zero torque.
    - *Ended*: after a signal, further signals are ignored until the process has exited. If there
      was none, the previous handlers are restored.

    Args:
        watch: reports whether a kernel is being compiled.

    Attributes:
        nodes: the nodes; an empty sequence before their creation.
        received: number of signals received so far.
        has_started: whether the activation of a node has begun at least once.
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
        # A SIGHUP that nohup ignores stays ignored.
        if self._hangup != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        if self.received and sys.unraisablehook is sys.__unraisablehook__:
            sys.unraisablehook = print_unraisable
        # A signal in between would find no handler and end the process with an error.
        with signals_held():
            self._prompt_end.stop(ignore=bool(self.received))
            signal.signal(signal.SIGHUP, signal.SIG_IGN if self.received else self._hangup)

    def started(self) -> None:
        """Leave the state *starting*; from now on the nodes need an orderly shutdown."""
        self._prompt_end.call_off()
        self.has_started = True

    def ending(self) -> None:
        """Enter the state *ending*, in which signals are counted and have no other effect."""
        self._is_ending = True
        self._prompt_end.call_off()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.received += 1
        # Nodes that are stopping still have to send zero torque.
        if self._is_ending or (self.has_started and any(node.stopping for node in self.nodes)):
            return
        # An arm may depend on an active node, also while this or another node is configured.
        is_active = any(node.is_active for node in self.nodes)
        is_busy = self._watch.is_compiling or any(node.is_configuring for node in self.nodes)
        if not self.nodes or (is_busy and not is_active):
            end_now(0)
        for node in self.nodes:
            node.stopping = True


def print_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Print an error that Python cannot raise, except for a signal during the shutdown.

    It replaces ``sys.unraisablehook``. A process that is ending sets its signals to be ignored. If
    a signal arrives just before, Python reports an :class:`OSError` with a traceback later: the
    signal was "ignored due to race condition". This error is not printed, because the signal
    should be ignored, and the traceback would alarm the user for nothing.

    Args:
        unraisable: the error and its origin.
    """
    error = unraisable.exc_value
    if isinstance(error, OSError) and "ignored due to race condition" in str(error):
        return
    sys.__unraisablehook__(unraisable)


def _made(make_nodes: Callable[[], Sequence[Managed]]) -> tuple[Managed, ...]:
    """Make the nodes.

    Raises:
        RbdControlError: if ROS refuses a topic, service or timer of a node, for example because
            SROS2 is enforced and the permissions lack it.
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

    nodes[0].create_timer(STOP_PERIOD, look)
    # spin() of the events executor hangs at full load in rclpy 9.1, and so does spin_once().
    while rclpy.ok() and not stop.done():
        try:
            executor.spin_until_future_complete(stop, timeout_sec=SPIN_TIME)
        except Exception as error:
            if not rclpy.ok():
                break
            # Callbacks do not raise, so the error is rclpy's, for example a service request that
            # cannot be deserialized. The events executor has then lost the count of waiting
            # messages; it queries the count again when the nodes are added again.
            for node in nodes:
                node.errors.failed("executor", error)
                executor.remove_node(node)
                executor.add_node(node)
    for node in nodes:
        executor.remove_node(node)


def make_executor(context: Context | None = None) -> Executor:
    """Return the events executor if rclpy has it, else the single-threaded executor.

    Spin it only by ``spin_until_future_complete`` with a timeout: ``spin`` and ``spin_once`` of the
    events executor hang at full load in rclpy 9.1.

    Args:
        context: the context of the nodes; None means the default context.
    """
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    # A third of the processor time at 1 kHz.
    executor: Any = EventsExecutor(context=context)
    return executor


def _program() -> str:
    return sys.argv[0].rsplit("/", 1)[-1].removesuffix(".py")
