"""Nodes that run as separate processes: started together, monitored, and ended together."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import sample

from rbd_control.errors import RbdControlError

PATIENCE = 5.0
"""Time from SIGTERM to SIGKILL when the processes are ended [s]."""

# Domains whose ports lie outside the ephemeral ports of Linux (32768 to 60999).
_DOMAINS = range(215, 232)
_PARTICIPANTS = 8
_TAIL = 15
_PR_SET_PDEATHSIG = 1

_until_exit = ExitStack()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process until the context is left."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def reserved_domain() -> Iterator[int]:
    """Yield a ROS domain that is unused on this machine, reserved until the context is left.

    Raises:
        RbdControlError: if the domains 215 to 231, from which it is chosen, are all in use.
    """
    for domain in sample(_DOMAINS, len(_DOMAINS)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as reservation:
            # The port by which ROS's own tests (domain_coordinator) reserve a domain.
            if _binds(reservation, 32768 + domain) and not _is_used(domain):
                yield domain
                return
    raise RbdControlError(
        f"ROS domains {_DOMAINS.start} to {_DOMAINS.stop - 1} are all in use on this machine"
    )


def free_domain() -> int:
    """Return an unused ROS domain, reserved until the process ends; see :func:`reserved_domain`.

    Raises:
        RbdControlError: if the domains 215 to 231 are all in use.
    """
    return _until_exit.enter_context(reserved_domain())


def _is_used(domain: int) -> bool:
    """Return whether a DDS participant uses one of the ports of the domain."""
    for participant in range(_PARTICIPANTS):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            if not _binds(probe, 7410 + 250 * domain + 2 * participant):
                return True
    return False


def _binds(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind(("", port))
    except OSError:
        return False
    return True


def ending_with_parent() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` for ``Popen``: Linux sends the child SIGTERM when its parent ends.

    The signal is also sent if the parent is killed. It is sent when the *thread* that started the
    child ends. On other systems than Linux the result is None.
    """
    if not sys.platform.startswith("linux"):
        return None
    # Looked up here, to execute as little code as possible between fork and exec.
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # the parent has ended already
            os._exit(1)

    return arrange


def _apart_from_the_terminal() -> Callable[[], None]:
    """Return a ``preexec_fn`` for ``Popen``: a separate process group that ends with the parent.

    Ctrl-C then reaches the starting process only, which ends the nodes in order. In a session of
    their own the nodes would lose a niceness of the parent: Linux divides the processor among
    sessions first, and each new one begins with niceness 0.
    """
    end_with_parent = ending_with_parent()

    def arrange() -> None:
        os.setpgrp()
        if end_with_parent:
            end_with_parent()

    return arrange


class NodeProcesses:
    """Runs nodes of this package; they end when the context is left, and with this process.

    Args:
        environment: all environment variables of the nodes; no others are inherited.
        folder: existing folder for the output of each node, ``<name>.log``.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = dict(environment), folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> NodeProcesses:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self, node: str, arguments: Sequence[str], name: str = "") -> None:
        """Start a node of the package, or another module by its dotted name, as a process.

        Args:
            node: a module of ``rbd_control.nodes``, or the full name of another module.
            arguments: command-line arguments of the process.
            name: name of this process for the other methods; an empty text means ``node``.
        """
        module = node if "." in node else f"rbd_control.nodes.{node}"
        with self._log(name or node).open("ab") as log:
            self._running[name or node] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_apart_from_the_terminal() if os.name == "posix" else None,
            )

    def check(self) -> None:
        """Raise an error if a process that was started has ended.

        Raises:
            RbdControlError: naming the process, its exit code and its last lines of output.
        """
        for node, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise RbdControlError(f"{node} ended with code {code}:\n{self.tail(node)}")

    def pid(self, node: str) -> int:
        """Return the process id of a node that was started."""
        return self._running[node].pid

    def exit_code(self, node: str) -> int | None:
        """Return the exit code of a node that was started, None while it runs."""
        return self._running[node].poll()

    def tail(self, node: str) -> str:
        """Return the last 15 lines of a node's output."""
        text = self._log(node).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-_TAIL:])

    def stop(self) -> None:
        """End all processes by SIGTERM in reverse order of their start, and wait for their end.

        Processes that have not ended after :data:`PATIENCE` are killed.
        """
        running, self._running = list(self._running.values()), {}
        for process in reversed(running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, node: str) -> Path:
        return self._folder / f"{node}.log"
